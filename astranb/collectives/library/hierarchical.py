"""Algorithms for several nodes: fast links within a node first, the network between nodes once.

Sources: hierarchical all-reduce, Jia et al., "Highly scalable deep learning training system",
arXiv 1807.11205; the two-step all-to-all, Tutel, arXiv 2206.03382, and DeepSpeed-MoE,
arXiv 2201.05596. Ranks of the same position in different nodes form a rail: data between nodes
stays on its rail.
"""

from __future__ import annotations

from typing import Final

from astranb.collectives.language import Chunk, Chunks, Cut, Program, Semaphore
from astranb.core.errors import InputError

from .registry import algorithm

__all__ = ["by_nic", "nodes_of"]

_PIPELINED: Final = 2 << 20  # bytes of a rank's buffer from which two slices overlap more than they cost


def nodes_of(p: Program) -> tuple[int, int]:
    """Return the ranks per node and the number of nodes; raise an error if nodes differ in size."""
    if p.ranks % p.per_node:
        raise InputError(
            f"{p.ranks} ranks do not fill nodes of {p.per_node} ranks",
            where=f"algorithm {p.name}",
            hint="use nodes of equal size, or another algorithm",
        )
    return p.per_node, p.ranks // p.per_node


def far_signals(p: Program) -> dict[tuple[int, int], Semaphore]:
    """Return, for two ranks that only NICs join, a semaphore of the first: data of the second have come.

    NICs write by requests, not by packets whose reader could poll them.
    """
    return {
        (me.number, you.number): me.semaphore()
        for me in (p.everyone if p.nics_move else ())
        for you in me.others
        if me.number // p.per_node != you.number // p.per_node
    }


def _boxes_and_rails(p: Program) -> tuple[list[range], list[range]]:
    """Return the ranks of each node, and those of the same position in all nodes."""
    width, _ = nodes_of(p)
    boxes = [range(first, first + width) for first in range(0, p.ranks, width)]
    return boxes, [range(position, p.ranks, width) for position in range(width)]


@algorithm(
    "all_reduce",
    "hierarchical",
    "reduce-scatter in each node, all-reduce along each rail, all-gather in each node",
)
def all_reduce_hierarchical(p: Program) -> None:
    (width, nodes), (boxes, rails) = nodes_of(p), _boxes_and_rails(p)
    p.cut = Cut(slices=2 if (p.size or 0) >= _PIPELINED and nodes > 1 else 1)
    # Thread blocks of three stages work on slices that follow one another; on one slice, one block does all.
    scatter, between, gather = ("scatter", "between", "gather") if p.cut.slices > 1 else ("", "", "")
    wide = "put" if p.cut.slices > 1 else "allpairs"

    def sums(r: int) -> Chunks:
        return p.scratch(r)[0:nodes]

    def results(r: int) -> Chunks:
        return p.output(r)[r % width * nodes : (r % width + 1) * nodes]

    for _ in p.slices():
        one = p.call("reduce_scatter", "get", ranks=boxes, source=p.input, target=sums, stage=scatter)
        two = p.call("all_reduce", by_nic, ranks=rails, source=sums, target=results, stage=between, after=one)
        p.call("all_gather", wide, ranks=boxes, source=results, target=p.output, stage=gather, after=two)


@algorithm("all_gather", "hierarchical", "all-gather along each rail, then in each node")
def all_gather_hierarchical(p: Program) -> None:
    (width, nodes), (boxes, rails) = nodes_of(p), _boxes_and_rails(p)

    def by_rail(r: int) -> list[Chunk]:
        return [p.output(r)[node * width + r % width] for node in range(nodes)]

    def by_rails(r: int) -> list[Chunk]:
        return [p.output(r)[rank] for rail in rails for rank in rail]

    p.call("all_gather", "allpairs", ranks=rails, source=lambda r: p.input(r)[0], target=by_rail)
    p.call("all_gather", "allpairs", ranks=boxes, source=by_rail, target=by_rails)


@algorithm("reduce_scatter", "hierarchical", "reduce-scatter in each node, then along each rail")
def reduce_scatter_hierarchical(p: Program) -> None:
    (_, nodes), (boxes, rails) = nodes_of(p), _boxes_and_rails(p)

    def by_rails(r: int) -> list[Chunk]:
        return [p.input(r)[rank] for rail in rails for rank in rail]

    def sums(r: int) -> Chunks:
        return p.scratch(r)[0:nodes]

    p.call("reduce_scatter", "get", ranks=boxes, source=by_rails, target=sums)
    p.call("reduce_scatter", "allpairs", ranks=rails, source=sums, target=lambda r: p.output(r)[0])


def by_nic(p: Program) -> None:
    """Reduce one chunk of all and send it to all, from where it is: NICs read what they send.

    Between two ranks each sends everything and adds: as many bytes, and one message less one after the other.
    """
    arrived, gathered = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
    for me in p.everyone:
        block, chunks = me.block(), range(p.input_chunks)
        own = chunks if p.ranks == 2 else [me.number]
        block.phase("reduce-scatter")
        for you in me.others:
            for chunk in chunks if p.ranks == 2 else [you.number]:
                block.post(me.input[chunk], you.scratch[me.number * p.ranks + chunk])
        for you in me.others:
            block.signal(arrived[you.number])
        block.wait(arrived[me.number], p.ranks - 1)
        for chunk in own:
            got = [me.scratch[you.number * p.ranks + chunk] for you in me.others]
            block.reduce([me.input[chunk], *got], me.output[chunk])
        if p.ranks == 2:
            continue
        block.phase("all-gather")
        for you in me.others:
            block.post(me.output[me.number], you.output[me.number])
        for you in me.others:
            block.signal(gathered[you.number])
        block.wait(gathered[me.number], p.ranks - 1)


@algorithm(
    "all_reduce",
    "two_level",
    "as hierarchical, by all pairs in one thread block of each channel, and without slices",
)
def all_reduce_two_level(p: Program) -> None:
    width, nodes = nodes_of(p)
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
            block.post(mine[sums + rail // width], p.scratch(rail)[sums + nodes + node])
        for rail in rails:
            block.signal(far[rail])
        if rails:
            block.wait(far[r], len(rails))
        own = position * nodes + node
        block.reduce([mine[sums + node], *(mine[sums + nodes + rail // width] for rail in rails)], out[own])
        block.phase("all-gather between nodes")
        for rail in rails:
            block.post(out[own], p.output(rail)[own])
        for rail in rails:
            block.signal(back[rail])
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
    width, nodes = nodes_of(p)
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
            box = rail // width
            block.post(inp[rail], p.output(rail)[r])
            for peer in peers:
                block.post(mine[box * width + peer % width], p.output(rail)[peer])
        for rail in rails:
            block.signal(far[rail])
        if rails:
            block.wait(far[r], len(rails))
