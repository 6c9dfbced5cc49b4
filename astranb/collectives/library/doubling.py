"""All-reduce in a logarithmic number of exchanges with a peer: halving and doubling, and Swing.

In step *s* every rank exchanges data with one peer. *Halving* sends it the chunks that the peer goes on
reducing; *doubling* sends it all that the rank has. Which peer it is, is all that tells one algorithm from
another: :func:`halve` and :func:`double` take it as a function.

Sources: recursive halving and doubling, and folding for numbers that are no power of two, Thakur,
Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005; Swing,
De Sensi, Bonato, Saam and Hoefler, "Swing: short-cutting rings for higher bandwidth allreduce", NSDI 2024
(arXiv 2401.09356).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from astranb.collectives.language import PROTOCOLS, Block, Chunk, Program, Semaphore

from .registry import algorithm

__all__ = ["Peer", "double", "halve", "swing_peer"]

Peer: TypeAlias = Callable[[int, int], int]
"""The peer of a place among the ranks, in a step."""
Held: TypeAlias = Callable[[int, int], list[Chunk]]
"""The chunks whose sum a rank has of a chunk at the beginning."""


def _steps(count: int) -> int:
    return count.bit_length() - 1


def _shares(count: int, peer: Peer, chunks: int) -> list[list[list[int]]]:
    """Return, after each number of steps, the chunks that each place still reduces: at last its own."""
    places = [[{place} for place in range(count)]]
    for step in reversed(range(_steps(count))):
        places.insert(0, [places[0][at] | places[0][peer(at, step)] for at in range(count)])
    own = [range(chunks * at // count, chunks * (at + 1) // count) for at in range(count)]
    return [[sorted(chunk for at in some for chunk in own[at]) for some in step] for step in places]


def halve(p: Program, blocks: Sequence[Block], peer: Peer, held: Held, to: Held) -> None:
    """Reduce and scatter: in each step hand the peer its part of the chunks, at last reduce one's own.

    Parameters
    ----------
    p : Program
    blocks : sequence of Block
        One of each rank that takes part; their number is a power of two.
    peer : callable
        The place in ``blocks`` with which a place exchanges in a step.
    held : callable
        The chunks whose sum a rank contributes to a chunk.
    to : callable
        Where a rank stores its sums.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> p = Program("halving", ranks=4, channels=1, input_chunks=4, output_chunks=1)
    >>> blocks = [me.block() for me in p.everyone]
    >>> halve(p, blocks, lambda at, step: at ^ (2 >> step), lambda r, c: [p.input(r)[c]],
    ...       lambda r, c: [p.output(r)[0]])
    >>> [operation.kind for operation in blocks[0].operations]
    ['move', 'move', 'signal', 'wait', 'move', 'signal', 'wait', 'move']
    """
    n, steps, share = p.input_chunks, _steps(len(blocks)), _shares(len(blocks), peer, p.input_chunks)
    # A semaphore for each step: a fast peer may be a step ahead of a slow one.
    halved = [[p.semaphore(block.rank) for _ in range(steps)] for block in blocks]
    for place, block in enumerate(blocks):
        r, mine = block.rank, p.scratch(block.rank)
        for step in range(steps):
            block.phase(f"halving {step + 1}/{steps}")
            partner = peer(place, step)
            for chunk in share[step + 1][partner]:
                got = [mine[before * n + chunk] for before in range(step)]
                block.reduce([*held(r, chunk), *got], p.scratch(blocks[partner].rank)[step * n + chunk])
            block.signal(halved[partner][step])
            block.wait(halved[place][step])
        for chunk in share[steps][place]:
            block.reduce([*held(r, chunk), *(mine[step * n + chunk] for step in range(steps))], *to(r, chunk))


def double(p: Program, blocks: Sequence[Block], peer: Peer) -> None:
    """Gather: in each step, the last of :func:`halve` first, send the peer all output chunks that are there.

    The parameters are those of :func:`halve`.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> p = Program("doubling", ranks=2, channels=1, input_chunks=1, output_chunks=2)
    >>> blocks = [me.block() for me in p.everyone]
    >>> double(p, blocks, lambda at, step: at ^ 1)
    >>> [operation.kind for operation in blocks[0].operations]
    ['move', 'signal', 'wait']
    """
    steps, share = _steps(len(blocks)), _shares(len(blocks), peer, p.output_chunks)
    doubled = [[p.semaphore(block.rank) for _ in range(steps)] for block in blocks]
    for place, block in enumerate(blocks):
        for step in reversed(range(steps)):
            block.phase(f"doubling {steps - step}/{steps}")
            partner = peer(place, step)
            for chunk in share[step + 1][place]:
                block.copy(p.output(block.rank)[chunk], p.output(blocks[partner].rank)[chunk])
            block.signal(doubled[partner][-1 - step])
            block.wait(doubled[place][-1 - step])


def _halve_and_double(p: Program, blocks: Sequence[Block], peer: Peer, held: Held | None = None) -> None:
    halve(p, blocks, peer, held or (lambda r, c: [p.input(r)[c]]), lambda r, c: [p.output(r)[c]])
    double(p, blocks, peer)


def _distances(count: int) -> Peer:
    """Exchange over half of the ranks first, over one at last."""
    return lambda place, step: place ^ (count >> step + 1)


@algorithm(
    "all_reduce", "halving_doubling", "recursive halving, then recursive doubling", protocols=PROTOCOLS
)
def all_reduce_halving_doubling(p: Program) -> None:
    n, count = p.ranks, 1 << _steps(p.ranks)
    blocks, spare = [p.block(r) for r in range(n)], n - count
    if not spare:
        return _halve_and_double(p, blocks, _distances(n))
    # Each of the spare ranks, which are odd, works with its left neighbour: each adds half of the chunks.
    after = _steps(count) * n
    put, added, back = ([p.semaphore(r) for r in range(n)] for _ in range(3))
    for even, odd in ((2 * k, 2 * k + 1) for k in range(spare)):
        for r, you, theirs in ((even, odd, range(n // 2, n)), (odd, even, range(n // 2))):
            blocks[r].phase("fold")
            for chunk in theirs:
                blocks[r].put(p.input(r)[chunk], p.scratch(you)[after + chunk])
            blocks[r].signal(put[you])
            blocks[r].wait(put[r])
        for chunk in range(n // 2, n):
            sources = [p.input(odd)[chunk], p.scratch(odd)[after + chunk]]
            blocks[odd].reduce(sources, p.scratch(even)[after + chunk])
        blocks[odd].signal(added[even])
        blocks[even].wait(added[even])

    def held(r: int, chunk: int) -> list[Chunk]:
        if r >= 2 * spare:
            return [p.input(r)[chunk]]
        return [p.input(r)[chunk]] * (chunk < n // 2) + [p.scratch(r)[after + chunk]]

    active = [*range(0, 2 * spare, 2), *range(2 * spare, n)]
    _halve_and_double(p, [blocks[r] for r in active], _distances(count), held)
    _unfold(p, blocks, spare, back)
    return None


def _unfold(p: Program, blocks: Sequence[Block], spare: int, back: Sequence[Semaphore]) -> None:
    """Send the result to those ranks that have taken no part, from their neighbours."""
    for even, odd in ((2 * k, 2 * k + 1) for k in range(spare)):
        blocks[even].phase("unfold")
        for chunk in range(p.output_chunks):
            blocks[even].put(p.output(even)[chunk], p.output(odd)[chunk])
        blocks[even].signal(back[odd])
        blocks[odd].phase("unfold")
        blocks[odd].wait(back[odd])


@algorithm(
    "all_reduce",
    "recursive_doubling",
    "in each step exchange all that has been added so far with a rank twice as far away",
    protocols=PROTOCOLS,
    whole=True,
)
def all_reduce_recursive_doubling(p: Program) -> None:
    n, count = p.ranks, 1 << _steps(p.ranks)
    steps, spare = _steps(count), n - count
    blocks, came = [p.block(r) for r in range(n)], [[p.semaphore(r) for _ in range(steps)] for r in range(n)]
    fold, back = ([p.semaphore(r) for r in range(n)] for _ in range(2))
    for even, odd in ((2 * k, 2 * k + 1) for k in range(spare)):
        blocks[odd].phase("fold")
        for chunk in range(n):
            blocks[odd].put(p.input(odd)[chunk], p.scratch(even)[steps * n + chunk])
        blocks[odd].signal(fold[even])
        blocks[even].wait(fold[even])
    active = [*range(0, 2 * spare, 2), *range(2 * spare, n)]
    for place, r in enumerate(active):
        block, mine = blocks[r], p.scratch(r)
        for step in range(steps + 1):
            block.phase(f"doubling {min(step + 1, steps)}/{steps}")
            you = active[place ^ 1 << step] if step < steps else r
            for chunk in range(n):
                got = [mine[before * n + chunk] for before in [*range(step), *[steps] * (r < 2 * spare)]]
                to = p.scratch(you)[step * n + chunk] if step < steps else p.output(r)[chunk]
                block.reduce([p.input(r)[chunk], *got], to)
            if step < steps:
                block.signal(came[you][step])
                block.wait(came[r][step])
    _unfold(p, blocks, spare, back)


def swing_peer(place: int, step: int, count: int, *, mirrored: bool = False) -> int:
    """Return with whom a place on a ring exchanges in a step of Swing: by turns left and right.

    The distances are 1, 1, 3, 5, 11, 21, …, shorter than those of doubling, 1, 2, 4, 8, 16, 32: messages
    share fewer links of a ring.

    Examples
    --------
    >>> [swing_peer(0, step, 16) for step in range(4)]
    [1, 15, 3, 11]
    """
    distance = (1 - int((-2) ** (step + 1))) // 3
    return (place + (distance if (place % 2 == 0) != mirrored else -distance)) % count


@algorithm(
    "all_reduce",
    "swing",
    "halving and doubling with peers at distances 1, 1, 3, 5, 11, … by turns left and right",
    power_of_two=True,
    protocols=PROTOCOLS,
)
def all_reduce_swing(p: Program) -> None:
    def peer(place: int, step: int) -> int:
        return swing_peer(place, step, p.ranks, mirrored=p.channel % 2 == 1)

    _halve_and_double(p, [p.block(r) for r in range(p.ranks)], peer)


@algorithm(
    "all_reduce",
    "swing_2d",
    "swing by turns along the rows and the columns of a torus; channels begin in four directions",
    power_of_two=True,
    protocols=PROTOCOLS,
)
def all_reduce_swing_2d(p: Program) -> None:
    columns = 1 << (_steps(p.ranks) + 1) // 2
    sides, first, mirrored = (columns, p.ranks // columns), p.channel // 2 % 2, p.channel % 2 == 1
    # (dimension, step in it): by turns as long as both have steps left.
    order = sorted((k, d != first, d) for d in (0, 1) for k in range(_steps(sides[d])))

    def peer(place: int, step: int) -> int:
        k, _, dimension = order[step]
        row, column = divmod(place, columns)
        if dimension == 0:
            return row * columns + swing_peer(column, k, columns, mirrored=mirrored)
        return swing_peer(row, k, sides[1], mirrored=mirrored) * columns + column

    _halve_and_double(p, [p.block(r) for r in range(p.ranks)], peer)


@algorithm(
    "reduce_scatter",
    "halving",
    "hand half of the remaining chunks to a rank half as far away",
    power_of_two=True,
    protocols=PROTOCOLS,
)
def reduce_scatter_halving(p: Program) -> None:
    blocks = [p.block(r) for r in range(p.ranks)]
    halve(p, blocks, _distances(p.ranks), lambda r, c: [p.input(r)[c]], lambda r, _: [p.output(r)[0]])


@algorithm(
    "all_gather",
    "doubling",
    "send all that has come to a rank twice as far away",
    power_of_two=True,
    protocols=PROTOCOLS,
)
def all_gather_doubling(p: Program) -> None:
    blocks = [p.block(r) for r in range(p.ranks)]
    for block in blocks:
        block.copy(p.input(block.rank)[0], p.output(block.rank)[block.rank])
    double(p, blocks, _distances(p.ranks))
