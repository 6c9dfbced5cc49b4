"""All-reduce in a logarithmic number of steps: for many ranks and small sizes.

Sources: recursive halving and doubling, Thakur, Rabenseifner and Gropp, "Optimization of
collective communication operations in MPICH", IJHPCA 2005; two trees that share no inner
rank, Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
and scan", Parallel Computing 2009, laid out as NCCL does (src/graph/trees.cc).
"""

from __future__ import annotations

from astranb.collectives.language.program import PROTOCOLS, Block, Buffer, Connection, Program

from .registry import algorithm

__all__ = ["double_tree"]


@algorithm(
    "all_reduce",
    "halving_doubling",
    "recursive halving, then recursive doubling",
    power_of_two=True,
    protocols=PROTOCOLS,
)
def all_reduce_halving_doubling(p: Program) -> None:
    n = p.ranks
    distances = [n >> (step + 1) for step in range(n.bit_length() - 1)]
    # A semaphore for each step: a fast peer may be a step ahead of a slow one.
    halved = [[p.semaphore(r) for _ in distances] for r in range(n)]
    doubled = [[p.semaphore(r) for _ in distances] for r in range(n)]
    for r in range(n):
        block, inp, mine = p.block(r), p.input(r), p.scratch(r)
        for step, distance in enumerate(distances):
            block.phase(f"halving {step + 1}/{len(distances)}")
            peer = r ^ distance
            for chunk in range(n):
                # Chunks that agree with the peer in this bit and all higher ones.
                if (chunk ^ peer) & ~(distance - 1) & (n - 1):
                    continue
                got = [mine[before * n + chunk] for before in range(step)]
                block.reduce([inp[chunk], *got], p.scratch(peer)[step * n + chunk])
            block.signal(halved[peer][step])
            block.wait(halved[r][step])
        got = [mine[step * n + r] for step in range(len(distances))]
        block.reduce([inp[r], *got], p.output(r)[r])
        for step, distance in enumerate(reversed(distances)):
            block.phase(f"doubling {step + 1}/{len(distances)}")
            peer = r ^ distance
            for chunk in range(n):
                if (chunk ^ r) < distance:
                    block.copy(p.output(r)[chunk], p.output(peer)[chunk])
            block.signal(doubled[peer][step])
            block.wait(doubled[r][step])


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
                targets[0].send(block, *parts, also=also, others=targets[1:])
            else:
                block.reduce(parts, *also)
            for wire in sources:
                wire.free(block)


def _tree(p: Program) -> list[tuple[int, list[int]]]:
    """Return for each rank its parent and its children: one of two trees for each half of the channels.

    A tree is one of all ranks within a node. Over nodes it joins the first ranks of their chains, so that
    a channel uses one NIC of each.
    """
    chains, which = p.chains(), 2 * p.channel // p.channels
    if len(chains) == 1:
        return double_tree(p.ranks)[which]
    found: list[tuple[int, list[int]]] = [(-1, [])] * p.ranks
    for chain, (parent, children) in zip(chains, double_tree(len(chains))[which], strict=True):
        for place, rank in enumerate(chain):
            below = list(chain[place + 1 : place + 2])
            if place == 0:
                found[rank] = (chains[parent][0] if parent >= 0 else -1, below)
                below += [chains[child][0] for child in children]
            else:
                found[rank] = (chain[place - 1], below)
    return found


def double_tree(ranks: int) -> tuple[list[tuple[int, list[int]]], list[tuple[int, list[int]]]]:
    """Build two binary trees over the ranks: for each rank its parent (-1 for the root) and its children.

    An inner node of one tree is a leaf of the other.

    Examples
    --------
    >>> double_tree(4)[0]
    [(-1, [2]), (2, []), (0, [1, 3]), (2, [])]
    """
    first = [_node(rank, ranks) for rank in range(ranks)]

    def moved(there: int) -> int:
        # The second tree mirrors the first one, or shifts it where the number of ranks is odd.
        return ranks - 1 - there if ranks % 2 == 0 else (there + 1) % ranks

    second: list[tuple[int, list[int]]] = [(-1, [])] * ranks
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
