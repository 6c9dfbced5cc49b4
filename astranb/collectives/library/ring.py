"""Algorithms in which every rank sends to the next rank of its channel's ring only.

Source: the ring and its bound, Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
JPDC 2009.
"""

from __future__ import annotations

from astranb.collectives.language.program import PROTOCOLS, Program

from .registry import algorithm

__all__: list[str] = []


@algorithm(
    "all_reduce", "ring", "reduce-scatter around the ring, then all-gather around it", protocols=PROTOCOLS
)
def all_reduce_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring()
    ready = [p.semaphore(r) for r in range(n)]
    for place, r in enumerate(ring):
        right, block = ring[(place + 1) % n], p.block(r)
        mine, inp, out = p.scratch(r), p.input(r), p.output(r)
        for step in range(n - 1):
            chunk = ring[(place - step) % n]
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
            block.reduce([mine[chunk], inp[chunk]] if step else [inp[chunk]], p.scratch(right)[chunk])
            block.signal(ready[right])
        for step in range(n - 1):
            chunk = ring[(place + 1 - step) % n]
            block.phase(f"all-gather {step + 1}/{n - 1}")
            block.wait(ready[r])
            if step:
                block.copy(out[chunk], p.output(right)[chunk])
            else:
                block.reduce([mine[chunk], inp[chunk]], out[chunk], p.output(right)[chunk])
            block.signal(ready[right])
        block.wait(ready[r])


@algorithm("all_gather", "ring", "every chunk travels around the ring", protocols=PROTOCOLS)
def all_gather_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring()
    ready = [p.semaphore(r) for r in range(n)]
    for place, r in enumerate(ring):
        right, block, out = ring[(place + 1) % n], p.block(r), p.output(r)
        for step in range(n - 1):
            chunk = ring[(place - step) % n]
            block.phase(f"all-gather {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
                block.copy(out[chunk], p.output(right)[chunk])
            else:
                block.copy(p.input(r)[0], p.output(right)[chunk], out[chunk])
            block.signal(ready[right])
        block.wait(ready[r])


@algorithm("reduce_scatter", "ring", "partial sums travel around the ring", protocols=PROTOCOLS)
def reduce_scatter_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring()
    ready = [p.semaphore(r) for r in range(n)]
    for place, r in enumerate(ring):
        right, block = ring[(place + 1) % n], p.block(r)
        mine, inp = p.scratch(r), p.input(r)
        for step in range(n - 1):
            chunk = ring[(place - 1 - step) % n]
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
            block.reduce([mine[chunk], inp[chunk]] if step else [inp[chunk]], p.scratch(right)[chunk])
            block.signal(ready[right])
        block.wait(ready[r])
        block.reduce([mine[r], inp[r]], p.output(r)[0])


@algorithm(
    "broadcast", "ring", "chunks follow one another down a chain that starts at the root", protocols=PROTOCOLS
)
def broadcast_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring(p.root)
    ready = [p.semaphore(r) for r in range(n)]
    for place, r in enumerate(ring):
        right, block = ring[(place + 1) % n], p.block(r)
        for chunk in range(p.output_chunks):
            block.phase(f"chunk {chunk + 1}/{p.output_chunks}")
            further = [p.output(right)[chunk]] if place < n - 1 else []
            if place:
                block.wait(ready[r])
                if further:
                    block.copy(p.output(r)[chunk], *further)
            else:
                block.copy(p.input(r)[chunk], p.output(r)[chunk], *further)
            if further:
                block.signal(ready[right])


@algorithm("reduce", "ring", "partial sums of chunk after chunk travel down a chain that ends at the root")
def reduce_ring(p: Program) -> None:
    n, ring = p.ranks, (*p.ring(p.root)[1:], p.root)
    ready = [p.semaphore(r) for r in range(n)]
    for place, r in enumerate(ring):
        right, block = ring[(place + 1) % n], p.block(r)
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
