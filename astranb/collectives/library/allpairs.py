"""Algorithms in which every rank sends to every other rank, or to and from the root, directly.

Sources: one-shot and two-shot all-reduce, the MSCCL++ and vLLM custom all-reduce kernels (the first
for small, the second for middle sizes); two shots through FIFOs, the plans of MSCCL that come with RCCL
(ROCm/rccl @0cbce2a7, tools/msccl-algorithms/allreduce-allpairs-8n-simple-op.xml), whose receives copy to
scratch and to the output; an exchange with poison, NVIDIA/nccl @5067397c, contrib/custom_algos/alltoall,
whose ``lsa_simple`` is ``allpairs``; ``gin``, puts with signals of NCCL's device API between nodes (its
documentation, GPU-initiated networking). ``oneshot_poison`` is TensorRT-LLM's ``oneshot_lamport``
(NVIDIA/TensorRT-LLM @04c74656, communicationKernels/allReduceFusionKernels.cu).
"""

from __future__ import annotations

from astranb.collectives.language import PROTOCOLS, Cut, Program

from .hierarchical import far_signals
from .registry import algorithm

__all__: list[str] = []


@algorithm(
    "all_reduce",
    "allpairs",
    "two shots: every rank reduces one chunk of all, then sends it to all",
    protocols=PROTOCOLS,
)
def all_reduce_allpairs(p: Program) -> None:
    n = p.ranks
    # A semaphore for each shot: a fast rank's second signal must not count as a slow rank's first.
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
    "one shot: every rank reads the whole buffers of all and reduces them alone",
    protocols=PROTOCOLS,
    whole=True,
)
def all_reduce_allpairs_oneshot(p: Program) -> None:
    n = p.ranks
    blocks = [p.block(r) for r in range(n)]
    p.barrier(blocks, "start barrier")
    for r, block in enumerate(blocks):
        block.phase("reduce")
        for chunk in range(n):
            block.reduce([p.input((r + k) % n)[chunk] for k in range(n)], p.output(r)[chunk])
    # No rank may change an input that another rank still reads.
    p.barrier(blocks, "end barrier")


@algorithm(
    "all_reduce",
    "oneshot_poison",
    "one shot, without signals: every rank stores everything to all, polls the data that come, and adds them",
    whole=True,
)
def all_reduce_oneshot_poison(p: Program) -> None:
    p.poisoned = True
    far = far_signals(p)
    for me in p.everyone:
        block = me.block()
        block.phase("store")
        first = me.number * p.ranks
        near = [you for you in p.everyone if (me.number, you.number) not in far]
        for chunk in range(p.ranks):
            block.copy(me.input[chunk], *(p.packets(you)[first + chunk] for you in near))
        for you in me.others:
            if (me.number, you.number) in far:
                for chunk in range(p.ranks):
                    block.put(me.input[chunk], p.scratch(you)[first + chunk])
                block.signal(far[you.number, me.number])
        block.phase("reduce")
        for you in me.others:
            if (me.number, you.number) in far:
                block.wait(far[me.number, you.number])
        for chunk in range(p.ranks):
            came = [
                (p.packets if you in near else p.scratch)(me)[you.number * p.ranks + chunk]
                for you in me.others
            ]
            block.reduce([me.input[chunk], *came], me.output[chunk])


@algorithm(
    "all_reduce",
    "allpairs_fifo",
    "two shots through FIFOs: a thread block for each peer, which share what a rank reduces",
)
def all_reduce_allpairs_fifo(p: Program) -> None:
    n = p.ranks
    p.cut = Cut(slices=n)  # each of a rank's blocks reduces one
    came, gathered = ([[p.semaphore(r) for _ in range(n)] for r in range(n)] for _ in range(2))
    stored, reduced = ([p.semaphore(r) for r in range(n)] for _ in range(2))
    for r in range(n):
        inp, out, mine = p.input(r), p.output(r), p.scratch(r)
        for own, peer in enumerate((r, *p.others(r))):
            block = p.block(r)
            block.phase("scatter")
            if peer != r:
                for _ in p.slices():
                    block.put(inp[peer], p.scratch(peer)[r])
                block.signal(came[peer][r])
                block.wait(came[r][peer])
                for _ in p.slices():
                    block.copy(mine[peer], mine[n + peer])
            block.signal(stored[r])
            block.wait(stored[r], n)
            block.phase("reduce")
            for _ in p.slices(range(own, own + 1)):
                block.reduce([inp[r], *(mine[n + k] for k in range(n) if k != r)], out[r])
            block.signal(reduced[r])
            block.wait(reduced[r], n)
            block.phase("gather")
            if peer != r:
                for _ in p.slices():
                    block.put(out[r], p.scratch(peer)[2 * n + r])
                block.signal(gathered[peer][r])
                block.wait(gathered[r][peer])
                for _ in p.slices():
                    block.copy(mine[2 * n + peer], out[peer])


@algorithm("all_gather", "allpairs", "every rank puts its chunk to all", protocols=PROTOCOLS)
def all_gather_allpairs(p: Program) -> None:
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
    "reduce_scatter",
    "allpairs",
    "every rank puts to each other rank the chunk that this one reduces",
    protocols=PROTOCOLS,
)
def reduce_scatter_allpairs(p: Program) -> None:
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
    "all_to_all",
    "allpairs",
    "every rank puts to all others, beginning with its neighbour",
    protocols=PROTOCOLS,
)
def all_to_all_allpairs(p: Program) -> None:
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
    "all_to_all",
    "allpairs_poison",
    "as allpairs, without signals: ranks poll the data, whose memory held a value that no data has",
)
def all_to_all_allpairs_poison(p: Program) -> None:
    p.poisoned = True
    came = far_signals(p)
    for r in range(p.ranks):
        block = p.block(r, warps=p.ranks)  # a warp for each peer
        own = block.warps(0, 1)
        own.phase("exchange")
        own.copy(p.input(r)[r], p.output(r)[r])
        for k, peer in enumerate(p.others(r), 1):
            warp = block.warps(k, k + 1)
            warp.phase("exchange")
            if (r, peer) in came:
                warp.put(p.input(r)[peer], p.output(peer)[r])
                warp.signal(came[peer, r])
                warp.wait(came[r, peer])
                continue
            warp.put(p.input(r)[peer], p.packets(peer)[r])
            warp.phase("poll")
            warp.copy(p.packets(r)[peer], p.output(r)[peer])


@algorithm(
    "all_to_all",
    "gin",
    "as allpairs; to other nodes the NIC puts straight from the input, a signal behind each put",
)
def all_to_all_gin(p: Program) -> None:
    n = p.ranks
    arrived = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        block, others = p.block(r), p.others(r)
        block.phase("exchange")
        # Requests first: NICs work while the block still stores in its node.
        for far in (True, False):
            for peer in others:
                if (peer // p.per_node != r // p.per_node) is far:
                    block.post(p.input(r)[peer], p.output(peer)[r])
                    if far:
                        block.signal(arrived[peer])
        block.copy(p.input(r)[r], p.output(r)[r])
        for peer in others:
            if peer // p.per_node == r // p.per_node:
                block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)


@algorithm("broadcast", "allpairs", "the root puts everything to all", protocols=PROTOCOLS, any_chunks=True)
def broadcast_allpairs(p: Program) -> None:
    others = [r for r in range(p.ranks) if r != p.root]
    ready = {r: p.semaphore(r) for r in others}
    block = p.block(p.root)
    block.phase("broadcast")
    for chunk in range(p.output_chunks):
        block.copy(p.input(p.root)[chunk], *(p.output(r)[chunk] for r in [p.root, *others]))
    for r in others:
        block.signal(ready[r])
        p.block(r).wait(ready[r])


@algorithm("reduce", "allpairs", "every rank puts everything to the root, which reduces it", any_chunks=True)
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


@algorithm("gather", "allpairs", "every rank puts its chunk to the root")
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


@algorithm("scatter", "allpairs", "the root puts its chunk to each rank")
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
