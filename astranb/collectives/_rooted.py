"""Collectives in which one rank, the root, has or gets everything."""

from __future__ import annotations

from ._program import Program
from ._registry import algorithm

__all__: list[str] = []


@algorithm("reduce", "ring", "partial sums of chunk after chunk travel down a chain that ends at the root")
def reduce_ring(p: Program) -> None:
    n = p.ranks
    ready = [p.semaphore(r) for r in range(n)]
    for place in range(n):
        r = (p.root + 1 + place) % n
        right, block = (r + 1) % n, p.block(r)
        for chunk in range(p.output_chunks):
            block.phase(f"chunk {chunk + 1}/{p.output_chunks}")
            if place:
                block.wait(ready[r])
            parts = [p.scratch(r)[chunk], p.input(r)[chunk]] if place else [p.input(r)[chunk]]
            if r == p.root:
                block.reduce(parts, p.output(r)[chunk])
            else:
                block.reduce(parts, p.scratch(right)[chunk])
                block.signal(ready[right])


@algorithm("reduce", "allpairs", "everyone puts everything to the root, which reduces it")
def reduce_allpairs(p: Program) -> None:
    others = [r for r in range(p.ranks) if r != p.root]
    arrived, chunks = p.semaphore(p.root), range(p.output_chunks)
    for place, r in enumerate(others):
        block = p.block(r)
        block.phase("put")
        for chunk in chunks:
            block.put(p.input(r)[chunk], p.scratch(p.root)[place * p.output_chunks + chunk])
        block.signal(arrived)
    block = p.block(p.root)
    block.phase("reduce")
    block.wait(arrived, len(others))
    for chunk in chunks:
        got = [p.scratch(p.root)[place * p.output_chunks + chunk] for place in range(len(others))]
        block.reduce([p.input(p.root)[chunk], *got], p.output(p.root)[chunk])


@algorithm("gather", "allpairs", "everyone puts its chunk to the root")
def gather_allpairs(p: Program) -> None:
    arrived = p.semaphore(p.root)
    for r in range(p.ranks):
        block = p.block(r)
        block.phase("gather")
        block.copy(p.input(r)[0], p.output(p.root)[r])
        if r != p.root:
            block.signal(arrived)
        else:
            block.wait(arrived, p.ranks - 1)


@algorithm("scatter", "allpairs", "the root puts to everyone its chunk")
def scatter_allpairs(p: Program) -> None:
    block = p.block(p.root)
    block.phase("scatter")
    for k in range(p.ranks):
        r = (p.root + k) % p.ranks
        block.copy(p.input(p.root)[r], p.output(r)[0])
        if r != p.root:
            ready = p.semaphore(r)
            block.signal(ready)
            p.block(r).wait(ready)
