"""Trees: a logarithmic number of hops, and chunks that follow one another.

Source: two trees that share no inner rank, Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan", Parallel Computing 2009, laid out as NCCL does (src/graph/trees.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex, TypeAlias

from astranb.collectives.language import PROTOCOLS, Block, Buffer, Connection, Program, Semaphore

from .registry import algorithm

__all__ = ["Tree", "below", "chain", "double_tree", "hand_down", "reduce_up"]

Tree: TypeAlias = list[tuple[int, list[int]]]
"""For each rank its parent, -1 for the root, and its children."""


def chain(ranks: Sequence[SupportsIndex]) -> Tree:
    """Return the tree in which each of the ranks has the next one as its only child.

    Examples
    --------
    >>> chain([1, 0, 2])
    [(1, [2]), (-1, [0]), (0, [])]
    """
    numbers, tree = [*map(index, ranks)], [(-1, list[int]())] * len(ranks)
    for place, rank in enumerate(numbers):
        tree[rank] = (numbers[place - 1] if place else -1, numbers[place + 1 : place + 2])
    return tree


def below(root: int, trees: Sequence[Tree]) -> list[Tree]:
    """Put trees of all ranks but one below that one: it is the parent of each tree's root.

    Examples
    --------
    >>> below(1, [[(-1, [1]), (0, [])]])
    [[(1, [2]), (-1, [0]), (0, [])]]
    """
    found = []
    for tree in trees:
        named = [rank + (rank >= root) for rank in range(len(tree))]
        new: Tree = [
            (named[parent] if parent >= 0 else root, [named[k] for k in some]) for parent, some in tree
        ]
        top = next(rank for rank, (parent, _) in enumerate(tree) if parent < 0)
        found.append([*new[:root], (-1, [named[top]]), *new[root:]])
    return found


def reduce_up(p: Program, tree: Tree, chunks: Iterable[int], ready: Sequence[Semaphore] = ()) -> None:
    """Add chunks, one after another, from the leaves of a tree to the output of its root.

    Parameters
    ----------
    p : Program
    tree : list of (int, list of int)
        For each rank its parent, -1 for the root, and its children.
    chunks : iterable of int
        The chunks, in the order in which they climb the tree.
    ready : sequence of Semaphore, optional
        One of each rank, for :func:`hand_down`: the root stores sums to its children too, and raises these.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> p = Program("reduce", ranks=3, channels=1, input_chunks=2, output_chunks=2)
    >>> reduce_up(p, chain([0, 1, 2]), range(2))
    >>> [operation.kind for operation in p.blocks[1].operations]
    ['wait', 'move', 'signal', 'wait', 'move', 'signal']
    """
    ordered, came = (
        list(chunks),
        {child: p.semaphore(r) for r, (_, some) in enumerate(tree) for child in some},
    )
    for r, (parent, children) in enumerate(tree):
        block = p.block(r)
        block.phase("up")
        for chunk in ordered:
            for _ in p.slices():
                for child in children:
                    block.wait(came[child])
                got = [p.scratch(r)[child * p.input_chunks + chunk] for child in children]
                if parent >= 0:
                    block.reduce([p.input(r)[chunk], *got], p.scratch(parent)[r * p.input_chunks + chunk])
                    block.signal(came[r])
                else:
                    receivers = children if ready else []
                    to = [p.output(r)[chunk], *(p.output(child)[chunk] for child in receivers)]
                    block.reduce([p.input(r)[chunk], *got], *to)
                    for child in receivers:
                        block.signal(ready[child])


def hand_down(
    p: Program, tree: Tree, chunks: Iterable[int], ready: Sequence[Semaphore], *, begin: bool = True
) -> None:
    """Hand chunks, one after another, from the root of a tree to all ranks.

    Parameters
    ----------
    p : Program
    tree, chunks
        As for :func:`reduce_up`.
    ready : sequence of Semaphore
        One of each rank, raised when a chunk has come.
    begin : bool
        Whether the root begins with its input; after a :func:`reduce_up` it has begun with sums.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> p = Program("broadcast", ranks=3, channels=1, input_chunks=2, output_chunks=2)
    >>> hand_down(p, chain([0, 1, 2]), range(2), [me.semaphore() for me in p.everyone])
    >>> [operation.kind for operation in p.blocks[1].operations]
    ['wait', 'move', 'signal', 'wait', 'move', 'signal']
    """
    ordered = list(chunks)
    for r, (parent, children) in enumerate(tree):
        if parent < 0 and not begin:
            continue
        block, out = p.block(r), p.output(r)
        block.phase("down")
        for chunk in ordered:
            for _ in p.slices():
                theirs = [p.output(child)[chunk] for child in children]
                if parent < 0:
                    block.copy(p.input(r)[chunk], out[chunk], *theirs)
                else:
                    block.wait(ready[r])
                    if theirs:
                        block.copy(out[chunk], *theirs)
                for child in children:
                    block.signal(ready[child])


@algorithm(
    "all_reduce",
    "double_tree",
    "two binary trees that share no inner rank, each for every other chunk: up and down at once",
    protocols=PROTOCOLS,
    stepwise=True,
)
def all_reduce_double_tree(p: Program) -> None:
    for which, tree in enumerate(double_tree(p.ranks)):
        ready = [p.semaphore(r) for r in range(p.ranks)]
        reduce_up(p, tree, range(which, p.ranks, 2), ready)
        hand_down(p, tree, range(which, p.ranks, 2), ready, begin=False)


@algorithm(
    "all_reduce",
    "chain",
    "sums go down a chain of all ranks, chunk after chunk, and come back at the same time",
    protocols=PROTOCOLS,
    stepwise=True,
)
def all_reduce_chain(p: Program) -> None:
    ready, tree = [p.semaphore(r) for r in range(p.ranks)], chain(p.ring())
    reduce_up(p, tree, range(p.ranks), ready)
    hand_down(p, tree, range(p.ranks), ready, begin=False)


@algorithm(
    "broadcast",
    "chain",
    "slices follow one another down a chain that starts at the root, straight into the outputs",
    protocols=PROTOCOLS,
    stepwise=True,
    any_chunks=True,
)
def broadcast_chain(p: Program) -> None:
    ready = [p.semaphore(r) for r in range(p.ranks)]
    hand_down(p, chain(p.ring(p.root)), range(p.output_chunks), ready)


@algorithm(
    "broadcast",
    "double_tree",
    "two binary trees, each for every other chunk, below the root",
    protocols=PROTOCOLS,
    stepwise=True,
    any_chunks=True,
)
def broadcast_double_tree(p: Program) -> None:
    for which, tree in enumerate(below(p.root, double_tree(p.ranks - 1))):
        ready = [p.semaphore(r) for r in range(p.ranks)]
        hand_down(p, tree, range(which, p.output_chunks, 2), ready)


@algorithm(
    "reduce",
    "chain",
    "partial sums of chunk after chunk go up a chain to the root",
    stepwise=True,
    any_chunks=True,
)
def reduce_chain(p: Program) -> None:
    reduce_up(p, chain(p.ring(p.root)), range(p.output_chunks))


_UP, _DOWN = 14, 6
"""Warps that reduce towards the root, and warps that send down at the same time: 70 % of NCCL's 20, and
the others (``runTreeSplit`` in ``src/device/all_reduce.h``, NVIDIA/nccl @5067397c). All are the root's."""


@algorithm(
    "all_reduce",
    "tree",
    "a binary tree of nodes with chains in them, one of two for each channel: up and down at once",
    protocols=PROTOCOLS,
    fifo=True,
    stepwise=True,
)
def all_reduce_tree(p: Program) -> None:
    wires = p.connections()
    for r, (parent, children) in enumerate(_tree(p)):
        inp, out = p.input(r), p.output(r)
        rising = [wires[child, r] for child in children]
        sinking = [wires[r, child] for child in children]
        if parent < 0:
            _pass_on(p, p.block(r, _UP + _DOWN), "up", rising, sinking, inp, out)
        else:
            _pass_on(p, p.block(r, _UP), "up", rising, [wires[r, parent]], inp)
            _pass_on(p, p.block(r, _DOWN), "down", [wires[parent, r]], sinking, out=out)


def _pass_on(
    p: Program,
    block: Block,
    phase: str,
    sources: list[Connection],
    targets: list[Connection],
    inp: Buffer | None = None,
    out: Buffer | None = None,
) -> None:
    """Receive each chunk, add what ``inp`` has of it, store it to ``out`` and send it on."""
    block.phase(phase)
    for first in range(0, p.ranks, p.cut.together):
        chunks = slice(first, min(first + p.cut.together, p.ranks))
        for _ in p.slices():
            parts = [wire.receive(block, p.input(block.rank)[chunks]) for wire in sources]
            parts += [inp[chunks]] if inp else []
            also = (out[chunks],) if out else ()
            if targets:
                targets[0].send(block, parts, also=also, others=targets[1:])
            else:
                block.reduce(parts, *also)
            for wire in sources:
                wire.free(block)


def _tree(p: Program) -> Tree:
    """Return for each rank its parent and its children: one of two trees for each half of the channels.

    A tree is one of all ranks within a node. Over nodes it joins the first ranks of their chains, so that
    a channel uses one NIC of each.
    """
    chains, which = [[*map(index, one)] for one in p.chains()], 2 * p.channel // p.channels
    if len(chains) == 1:
        return double_tree(p.ranks)[which]
    found: Tree = [(-1, [])] * p.ranks
    for chain, (parent, children) in zip(chains, double_tree(len(chains))[which], strict=True):
        for place, rank in enumerate(chain):
            below = list(chain[place + 1 : place + 2])
            if place == 0:
                found[rank] = (chains[parent][0] if parent >= 0 else -1, below)
                below += [chains[child][0] for child in children]
            else:
                found[rank] = (chain[place - 1], below)
    return found


def double_tree(ranks: int) -> tuple[Tree, Tree]:
    """Build two binary trees over the ranks: for each rank its parent (-1 for the root) and its children.

    An inner node of one tree is a leaf of the other.

    Examples
    --------
    >>> double_tree(4)[0]
    [(-1, [2]), (2, []), (0, [1, 3]), (2, [])]
    """
    first = [_node(rank, ranks) for rank in range(ranks)]

    def moved(position: int) -> int:
        # The second tree mirrors the first one, or shifts it where the number of ranks is odd.
        return ranks - 1 - position if ranks % 2 == 0 else (position + 1) % ranks

    second: Tree = [(-1, [])] * ranks
    for rank, (parent, children) in enumerate(first):
        second[moved(rank)] = (moved(parent) if parent >= 0 else -1, [moved(child) for child in children])
    return first, second


def _node(rank: int, ranks: int) -> tuple[int, list[int]]:
    """Return parent and children in NCCL's binary tree: the lowest set bit is the height."""
    if rank == 0:
        top = 1 << max(0, (ranks - 1).bit_length() - 1)
        return -1, [top] if ranks > 1 else []
    bit = rank & -rank
    parent = (rank ^ bit) | (bit << 1)
    if parent >= ranks:
        parent = rank ^ bit
    low = bit >> 1
    children = [rank - low] if low else []
    while low and rank + low >= ranks:
        low >>= 1
    return parent, children + ([rank + low] if low else [])
