"""The algorithms that come with astranb, each written in the language of a :class:`Program`.

Sources: the ring and its bound, Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms", JPDC 2009; one-shot and two-shot all-pairs, the MSCCL++ and vLLM custom
all-reduce kernels (the first for small, the second for middle sizes).
"""

from __future__ import annotations

from . import _packets as packets
from ._program import PROTOCOLS, Program
from ._registry import algorithm

__all__: list[str] = []


@algorithm(
    "all_reduce", "ring", "reduce-scatter around the ring, then all-gather around it", protocols=PROTOCOLS
)
def all_reduce_ring(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_reduce_ring(p)
        return
    n = p.ranks
    ready = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        right, block = (r + 1) % n, p.block(r)
        mine, inp, out = p.scratch(r), p.input(r), p.output(r)
        for step in range(n - 1):
            chunk = (r - step) % n
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
            block.reduce([mine[chunk], inp[chunk]] if step else [inp[chunk]], p.scratch(right)[chunk])
            block.signal(ready[right])
        for step in range(n - 1):
            chunk = (r + 1 - step) % n
            block.phase(f"all-gather {step + 1}/{n - 1}")
            block.wait(ready[r])
            if step:
                block.copy(out[chunk], p.output(right)[chunk])
            else:
                block.reduce([mine[chunk], inp[chunk]], out[chunk], p.output(right)[chunk])
            block.signal(ready[right])
        block.wait(ready[r])


@algorithm(
    "all_reduce",
    "allpairs",
    "two shots: everyone reduces one chunk of all, then hands it to all",
    protocols=PROTOCOLS,
)
def all_reduce_allpairs(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_reduce_allpairs(p)
        return
    n = p.ranks
    # A semaphore for each shot: a fast rank's second signal must not count for a slow one's first.
    arrived, gathered = ([p.semaphore(r) for r in range(n)] for _ in range(2))
    for r in range(n):
        block = p.block(r)
        others = p.others(r)
        block.phase("reduce-scatter")
        for peer in others:
            block.put(p.input(r)[peer], p.scratch(peer)[r])
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)
        block.phase("all-gather")
        block.reduce(
            [p.input(r)[r], *(p.scratch(r)[peer] for peer in others)],
            p.output(r)[r],
            *(p.output(peer)[r] for peer in others),
        )
        for peer in others:
            block.signal(gathered[peer])
        block.wait(gathered[r], n - 1)


@algorithm(
    "all_reduce",
    "allpairs_oneshot",
    "one shot: everyone reads all of everyone and reduces it alone",
    protocols=PROTOCOLS,
    whole=True,
)
def all_reduce_allpairs_oneshot(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_reduce_oneshot(p)
        return
    n = p.ranks
    blocks = [p.block(r) for r in range(n)]
    for block in blocks:
        block.phase("start barrier")
    p.barrier(blocks)
    for r, block in enumerate(blocks):
        block.phase("reduce")
        for chunk in range(n):
            block.reduce([p.input((r + k) % n)[chunk] for k in range(n)], p.output(r)[chunk])
    for block in blocks:
        # Nobody may change an input that another rank still reads.
        block.phase("end barrier")
    p.barrier(blocks)


@algorithm(
    "all_gather", "ring", "every chunk travels around the ring",
    protocols=PROTOCOLS,
)  # fmt: skip
def all_gather_ring(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_gather_ring(p)
        return
    n = p.ranks
    ready = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        right, block = (r + 1) % n, p.block(r)
        out = p.output(r)
        for step in range(n - 1):
            chunk = (r - step) % n
            block.phase(f"all-gather {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
                block.copy(out[chunk], p.output(right)[chunk])
            else:
                block.copy(p.input(r)[0], p.output(right)[chunk], out[chunk])
            block.signal(ready[right])
        block.wait(ready[r])


@algorithm(
    "all_gather", "allpairs", "everyone puts its chunk to everyone",
    protocols=PROTOCOLS,
)  # fmt: skip
def all_gather_allpairs(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_gather_allpairs(p)
        return
    n = p.ranks
    arrived = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        block = p.block(r)
        others = p.others(r)
        block.phase("all-gather")
        block.copy(p.input(r)[0], p.output(r)[r], *(p.output(peer)[r] for peer in others))
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)


@algorithm(
    "reduce_scatter", "ring", "partial sums travel around the ring",
    protocols=PROTOCOLS,
)  # fmt: skip
def reduce_scatter_ring(p: Program) -> None:
    if not p.by_semaphore:
        packets.reduce_scatter_ring(p)
        return
    n = p.ranks
    ready = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        right, block = (r + 1) % n, p.block(r)
        mine, inp = p.scratch(r), p.input(r)
        for step in range(n - 1):
            chunk = (r - 1 - step) % n
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            if step:
                block.wait(ready[r])
            block.reduce([mine[chunk], inp[chunk]] if step else [inp[chunk]], p.scratch(right)[chunk])
            block.signal(ready[right])
        block.wait(ready[r])
        block.reduce([mine[r], inp[r]], p.output(r)[0])


@algorithm(
    "reduce_scatter", "allpairs", "everyone puts to everyone what that one reduces", protocols=PROTOCOLS
)
def reduce_scatter_allpairs(p: Program) -> None:
    if not p.by_semaphore:
        packets.reduce_scatter_allpairs(p)
        return
    n = p.ranks
    arrived = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        block = p.block(r)
        others = p.others(r)
        block.phase("scatter")
        for peer in others:
            block.put(p.input(r)[peer], p.scratch(peer)[r])
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)
        block.phase("reduce")
        block.reduce([p.input(r)[r], *(p.scratch(r)[peer] for peer in others)], p.output(r)[0])


@algorithm(
    "all_to_all", "allpairs", "everyone puts to everyone, starting at its neighbour", protocols=PROTOCOLS
)
def all_to_all_allpairs(p: Program) -> None:
    if not p.by_semaphore:
        packets.all_to_all(p)
        return
    n = p.ranks
    arrived = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        block = p.block(r)
        others = p.others(r)
        block.phase("exchange")
        block.copy(p.input(r)[r], p.output(r)[r])
        for peer in others:
            block.put(p.input(r)[peer], p.output(peer)[r])
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)


@algorithm(
    "broadcast", "ring", "chunks follow one another down a chain that starts at the root", protocols=PROTOCOLS
)
def broadcast_ring(p: Program) -> None:
    if not p.by_semaphore:
        packets.broadcast_ring(p)
        return
    n = p.ranks
    ready = [p.semaphore(r) for r in range(n)]
    for place in range(n):
        r, right = (p.root + place) % n, (p.root + place + 1) % n
        block = p.block(r)
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


@algorithm(
    "broadcast", "allpairs", "the root puts everything to everyone",
    protocols=PROTOCOLS,
)  # fmt: skip
def broadcast_allpairs(p: Program) -> None:
    if not p.by_semaphore:
        packets.broadcast_allpairs(p)
        return
    others = [r for r in range(p.ranks) if r != p.root]
    ready = {r: p.semaphore(r) for r in others}
    block = p.block(p.root)
    block.phase("broadcast")
    for chunk in range(p.output_chunks):
        block.copy(p.input(p.root)[chunk], *(p.output(r)[chunk] for r in [p.root, *others]))
    for r in others:
        block.signal(ready[r])
        p.block(r).wait(ready[r])
