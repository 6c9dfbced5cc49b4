"""All-reduce in a logarithmic number of steps: for many ranks and small sizes.

Sources: recursive halving and doubling, Thakur, Rabenseifner and Gropp, "Optimization of
collective communication operations in MPICH", IJHPCA 2005; two trees that share no inner
rank, Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
and scan", Parallel Computing 2009, laid out as NCCL does (src/graph/trees.cc).
"""

from __future__ import annotations

from astranb.collectives.language.program import PROTOCOLS, Program

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


@algorithm(
    "all_reduce",
    "tree",
    "two binary trees of nodes, each for every second chunk, with chains in nodes: up to the root, then down",
    protocols=PROTOCOLS,
)
def all_reduce_tree(p: Program) -> None:
    n = p.ranks
    for tree, nodes in enumerate(_trees(p)):
        # A semaphore for each child: one may be several chunks ahead of the other.
        risen = [[p.semaphore(r) for _ in nodes[r][1]] for r in range(n)]
        sunk = [p.semaphore(r) for r in range(n)]
        for r, (parent, children) in enumerate(nodes):
            block, inp, mine = p.block(r), p.input(r), p.scratch(r)
            own = [chunk for chunk in range(n) if chunk % 2 == tree]
            targets = [p.output(child) for child in children]
            block.phase("up")
            for chunk in own:
                for semaphore in risen[r]:
                    block.wait(semaphore)
                parts = [inp[chunk], *(mine[place * n + chunk] for place in range(len(children)))]
                if parent < 0:
                    block.reduce(parts, p.output(r)[chunk], *(target[chunk] for target in targets))
                    for child in children:
                        block.signal(sunk[child])
                else:
                    place = nodes[parent][1].index(r)
                    block.reduce(parts, p.scratch(parent)[place * n + chunk])
                    block.signal(risen[parent][place])
            block.phase("down")
            for chunk in own if parent >= 0 else []:
                block.wait(sunk[r])
                if children:
                    block.copy(p.output(r)[chunk], *(target[chunk] for target in targets))
                    for child in children:
                        block.signal(sunk[child])


def _trees(p: Program) -> list[list[tuple[int, list[int]]]]:
    """Return for each rank its parent and its children in the two trees: of all ranks within one node.

    Over nodes the trees join the first ranks of their chains, so that a channel uses one NIC of each.
    """
    chains = p.chains()
    if len(chains) == 1:
        return list(double_tree(p.ranks))
    trees = []
    for tree in double_tree(len(chains)):
        found: list[tuple[int, list[int]]] = [(-1, [])] * p.ranks
        for chain, (parent, children) in zip(chains, tree, strict=True):
            for place, rank in enumerate(chain):
                below = list(chain[place + 1 : place + 2])
                if place == 0:
                    found[rank] = (chains[parent][0] if parent >= 0 else -1, below)
                    below += [chains[child][0] for child in children]
                else:
                    found[rank] = (chain[place - 1], below)
        trees.append(found)
    return trees


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
