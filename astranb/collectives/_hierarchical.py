"""Collectives over several nodes: fast links within a node first, the network between nodes once.

Sources: hierarchical all-reduce, Jia et al., "Highly scalable deep learning training system",
arXiv 1807.11205; the two-step all-to-all, Tutel, arXiv 2206.03382, and DeepSpeed-MoE,
arXiv 2201.05596. Between nodes copy engines move the data (RDMA), not thread blocks.
"""

from __future__ import annotations

from astranb.core.errors import InputError

from ._program import Block, Chunk, Program, Semaphore
from ._registry import algorithm

__all__: list[str] = []


def _nodes(p: Program) -> tuple[int, int]:
    """Ranks in a node, and nodes; one node is fine, an uneven one is not."""
    if p.ranks % p.per_node:
        raise InputError(
            f"{p.ranks} ranks do not fill nodes of {p.per_node}",
            where=f"algorithm {p.name}",
            hint="take nodes of one size, or another algorithm",
        )
    return p.per_node, p.ranks // p.per_node


class _Engines:
    """Hands moves to the copy engine of a rank: a doorbell each, and word at the far end."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lists: dict[int, tuple[Block, Semaphore]] = {}

    def put(self, block: Block, source: Chunk, target: Chunk, arrived: Semaphore) -> None:
        """Have the engine of the block's rank copy a chunk and raise a semaphore behind it."""
        if block.rank not in self._lists:
            self._lists[block.rank] = (self._program.engine(block.rank), self._program.semaphore(block.rank))
        engine, bell = self._lists[block.rank]
        engine.current = block.current
        block.signal(bell)
        engine.wait(bell)
        engine.copy(source, target)
        engine.signal(arrived)


@algorithm("all_reduce", "hierarchical", "reduce-scatter in the node, all-reduce between nodes, all-gather")
def all_reduce_hierarchical(p: Program) -> None:
    width, nodes = _nodes(p)
    engines = _Engines(p)
    near, far, back, last = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(4))
    for r in range(p.ranks):
        node, place = divmod(r, width)
        block, inp, out, mine = p.block(r), p.input(r), p.output(r), p.scratch(r)
        mates = [node * width + (place + k) % width for k in range(1, width)]
        twins = [(node + k) % nodes * width + place for k in range(1, nodes)]

        def chunk(place: int, node: int) -> int:
            return place * nodes + node

        block.phase("reduce-scatter in the node")
        for mate in mates:
            for k in range(nodes):
                block.put(inp[chunk(mate % width, k)], p.scratch(mate)[place * nodes + k])
        for mate in mates:
            block.signal(near[mate])
        if mates:
            block.wait(near[r], len(mates))
        sums = p.ranks
        for k in range(nodes):
            got = [mine[mate % width * nodes + k] for mate in mates]
            block.reduce([inp[chunk(place, k)], *got], mine[sums + k])
        block.phase("reduce-scatter between nodes")
        for twin in twins:
            engines.put(block, mine[sums + twin // width], p.scratch(twin)[sums + nodes + node], far[twin])
        if twins:
            block.wait(far[r], len(twins))
        got = [mine[sums + nodes + twin // width] for twin in twins]
        block.reduce([mine[sums + node], *got], out[chunk(place, node)])
        block.phase("all-gather between nodes")
        for twin in twins:
            engines.put(block, out[chunk(place, node)], p.output(twin)[chunk(place, node)], back[twin])
        if twins:
            block.wait(back[r], len(twins))
        block.phase("all-gather in the node")
        for k in range(nodes):
            if mates:
                block.copy(out[chunk(place, k)], *(p.output(mate)[chunk(place, k)] for mate in mates))
        for mate in mates:
            block.signal(last[mate])
        if mates:
            block.wait(last[r], len(mates))


@algorithm("all_to_all", "hierarchical", "within the node sort by target node, then one message a node")
def all_to_all_hierarchical(p: Program) -> None:
    width, nodes = _nodes(p)
    engines = _Engines(p)
    near, far = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
    for r in range(p.ranks):
        node, place = divmod(r, width)
        block, inp, mine = p.block(r), p.input(r), p.scratch(r)
        mates = [node * width + (place + k) % width for k in range(1, width)]
        twins = [(node + k) % nodes * width + place for k in range(1, nodes)]
        block.phase("in the node")
        # A mate gets what this rank has for the mate's place in every node.
        for mate in mates:
            for k in range(nodes):
                target = k * width + mate % width
                to = p.output(mate)[r] if k == node else p.scratch(mate)[k * width + place]
                block.put(inp[target], to)
        block.copy(inp[r], p.output(r)[r])
        for mate in mates:
            block.signal(near[mate])
        if mates:
            block.wait(near[r], len(mates))
        block.phase("between nodes")
        for twin in twins:
            there = twin // width
            engines.put(block, inp[twin], p.output(twin)[r], far[twin])
            for mate in mates:
                engines.put(block, mine[there * width + mate % width], p.output(twin)[mate], far[twin])
        if twins:
            block.wait(far[r], len(twins) * width)
