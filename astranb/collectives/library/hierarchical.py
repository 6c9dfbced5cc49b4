"""Algorithms for several nodes: fast links within a node first, the network between nodes once.

Sources: hierarchical all-reduce, Jia et al., "Highly scalable deep learning training system",
arXiv 1807.11205; the two-step all-to-all, Tutel, arXiv 2206.03382, and DeepSpeed-MoE,
arXiv 2201.05596. Between nodes copy engines move the data (RDMA), not thread blocks. Ranks of the
same position in different nodes form a rail: data between nodes stays on its rail.
"""

from __future__ import annotations

from astranb.collectives.language.program import Block, Chunk, Program, Semaphore
from astranb.core.errors import InputError

from .registry import algorithm

__all__: list[str] = []


def _nodes(p: Program) -> tuple[int, int]:
    """Return the ranks per node and the number of nodes; raise an error if nodes differ in size."""
    if p.ranks % p.per_node:
        raise InputError(
            f"{p.ranks} ranks do not fill nodes of {p.per_node} ranks",
            where=f"algorithm {p.name}",
            hint="use nodes of equal size, or another algorithm",
        )
    return p.per_node, p.ranks // p.per_node


class _Engines:
    """Hands moves to the copy engine of a rank, each with a doorbell and a signal at the far end."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lists: dict[int, tuple[Block, Semaphore]] = {}

    def put(self, block: Block, source: Chunk, target: Chunk, arrived: Semaphore) -> None:
        """Let the engine of the block's rank copy a chunk and raise a semaphore afterwards."""
        if block.rank not in self._lists:
            self._lists[block.rank] = (self._program.engine(block.rank), self._program.semaphore(block.rank))
        engine, doorbell = self._lists[block.rank]
        engine.current = block.current
        block.signal(doorbell)
        engine.wait(doorbell)
        engine.copy(source, target)
        engine.signal(arrived)


@algorithm("all_reduce", "hierarchical", "reduce-scatter in the node, all-reduce between nodes, all-gather")
def all_reduce_hierarchical(p: Program) -> None:
    width, nodes = _nodes(p)
    engines = _Engines(p)
    near, far, back, last = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(4))
    for r in range(p.ranks):
        node, position = divmod(r, width)
        block, inp, out, mine = p.block(r), p.input(r), p.output(r), p.scratch(r)
        peers = [node * width + (position + k) % width for k in range(1, width)]
        rails = [(node + k) % nodes * width + position for k in range(1, nodes)]

        def part(position: int) -> slice:
            return slice(position * nodes, (position + 1) * nodes)

        block.phase("reduce-scatter in the node")
        for peer in peers:
            block.put(inp[part(peer % width)], p.scratch(peer)[part(position)])
        for peer in peers:
            block.signal(near[peer])
        if peers:
            block.wait(near[r], len(peers))
        sums = p.ranks
        got = [mine[part(peer % width)] for peer in peers]
        block.reduce([inp[part(position)], *got], mine[sums : sums + nodes])
        block.phase("reduce-scatter between nodes")
        for rail in rails:
            engines.put(block, mine[sums + rail // width], p.scratch(rail)[sums + nodes + node], far[rail])
        if rails:
            block.wait(far[r], len(rails))
        own = position * nodes + node
        block.reduce([mine[sums + node], *(mine[sums + nodes + rail // width] for rail in rails)], out[own])
        block.phase("all-gather between nodes")
        for rail in rails:
            engines.put(block, out[own], p.output(rail)[own], back[rail])
        if rails:
            block.wait(back[r], len(rails))
        block.phase("all-gather in the node")
        if peers:
            block.copy(out[part(position)], *(p.output(peer)[part(position)] for peer in peers))
        for peer in peers:
            block.signal(last[peer])
        if peers:
            block.wait(last[r], len(peers))


@algorithm(
    "all_to_all", "hierarchical", "sort by target node within the node, then send one message to each node"
)
def all_to_all_hierarchical(p: Program) -> None:
    width, nodes = _nodes(p)
    engines = _Engines(p)
    near, far = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
    for r in range(p.ranks):
        node, position = divmod(r, width)
        block, inp, mine = p.block(r), p.input(r), p.scratch(r)
        peers = [node * width + (position + k) % width for k in range(1, width)]
        rails = [(node + k) % nodes * width + position for k in range(1, nodes)]
        block.phase("in the node")
        # A rank of this node gets what is for its position in every node.
        for peer in peers:
            for k in range(nodes):
                target = k * width + peer % width
                to = p.output(peer)[r] if k == node else p.scratch(peer)[k * width + position]
                block.put(inp[target], to)
        block.copy(inp[r], p.output(r)[r])
        for peer in peers:
            block.signal(near[peer])
        if peers:
            block.wait(near[r], len(peers))
        block.phase("between nodes")
        for rail in rails:
            there = rail // width
            engines.put(block, inp[rail], p.output(rail)[r], far[rail])
            for peer in peers:
                engines.put(block, mine[there * width + peer % width], p.output(rail)[peer], far[rail])
        if rails:
            block.wait(far[r], len(rails) * width)
