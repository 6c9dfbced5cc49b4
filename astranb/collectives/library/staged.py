"""Algorithms of kernels that copy their input to a buffer of their own, which all ranks read.

Servers' and AMD's kernels know the addresses of such buffers once and for all, not those of inputs: *DDA*
(direct data access) of RCCL, whose flat kernel is ``staged_oneshot`` and whose tree is ``staged_get``
(ROCm/rocm-systems @006a440c, projects/rccl/src/algorithms/dda; they came from meta-pytorch/torchcomms
@59426ba4, comms/common/algorithms); TensorRT-LLM's ``twoshot_sync``, which is ``staged_load_store``
(NVIDIA/TensorRT-LLM @04c74656, communicationKernels/allReduceFusionKernels.cu), as is MSCCL++'s ``rsag``
(microsoft/mscclpp @1f5f065d, src/ext/collectives/allreduce/allreduce_rsag.cu).
"""

from __future__ import annotations

from astranb.collectives.language import Block, Program, Rank

from .registry import algorithm

__all__: list[str] = []


def _staged(p: Program, chunks: int, flags: int = 1, lines: int = 0) -> list[tuple[Rank, Block]]:
    """Copy every rank's input to its own buffer; then all have met."""
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        block.lines_ahead = lines
        block.phase("copy in")
        for chunk in range(chunks):
            block.copy(me.input[chunk], p.scratch(me)[chunk])
    p.barrier(blocks, "copied in", flags)
    return list(zip(p.everyone, blocks, strict=True))


def _copied(p: Program) -> list[tuple[Rank, Block]]:
    """Copy every rank's input to its own buffer by a kernel of its own, a block a chunk; then all meet."""
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        copied = me.semaphore()
        for chunk in range(p.ranks):
            copy = me.block()
            copy.phase("copy in")
            copy.copy(me.input[chunk], p.scratch(me)[chunk])
            copy.signal(copied)
        block.wait(copied, p.ranks)
    p.barrier(blocks, "copied in")
    return list(zip(p.everyone, blocks, strict=True))


def _met(p: Program, blocks: list[tuple[Rank, Block]]) -> None:
    p.barrier([block for _, block in blocks], "end")


@algorithm(
    "all_reduce",
    "staged_oneshot",
    "one shot: ranks copy their input to a buffer, and every rank reads and reduces the whole buffers of all",
    whole=True,
)
def all_reduce_staged_oneshot(p: Program) -> None:
    blocks = _staged(p, p.ranks)
    for me, block in blocks:
        block.phase("reduce")
        for chunk in range(p.ranks):
            block.reduce([p.scratch(you)[chunk] for you in p.everyone], me.output[chunk])
    _met(p, blocks)


@algorithm(
    "all_reduce",
    "staged_get",
    "two shots through buffers: copy the input in, reduce one chunk of all by reading, then read the sums",
)
def all_reduce_staged_get(p: Program) -> None:
    blocks = _copied(p)
    for me, block in blocks:
        block.phase("reduce-scatter")
        r = me.number
        block.reduce([p.scratch(you)[r] for you in p.everyone], p.scratch(me)[p.ranks + r])
    p.barrier([block for _, block in blocks], "reduced")
    for me, block in blocks:
        block.phase("all-gather")
        block.copy(p.scratch(me)[p.ranks + me.number], me.output[me.number])
        for you in me.others:
            block.get(p.scratch(you)[p.ranks + you.number], me.output[you.number])
    _met(p, blocks)


@algorithm(
    "all_reduce",
    "staged_load_store",
    "two shots through buffers: copy the input in, add one chunk of all and store it to all, copy out",
)
def all_reduce_staged_load_store(p: Program, flags: int = 1, lines: int = 0) -> None:
    """Add one chunk of all and store it to all.

    Parameters
    ----------
    p : Program
    flags : int
        Flags of each rank that a thread block raises at a barrier, each behind a release of the whole system:
        those of blocks that a smaller grid does not have, too.
    lines : int
        Lines that a thread block has under way; 0: as the GPU's preset says.
    """
    blocks = _staged(p, p.ranks, flags, lines)
    for me, block in blocks:
        block.phase("reduce and store")
        r = me.number
        sums = [p.scratch(you)[p.ranks + r] for you in (me, *me.others)]
        block.reduce([p.scratch(you)[r] for you in (me, *me.others)], *sums)
    p.barrier([block for _, block in blocks], "stored", flags)
    for me, block in blocks:
        block.phase("copy out")
        for chunk in range(p.ranks):
            block.copy(p.scratch(me)[p.ranks + chunk], me.output[chunk])


@algorithm("all_gather", "staged_get", "ranks copy their chunk to a buffer, and every rank reads all buffers")
def all_gather_staged_get(p: Program) -> None:
    blocks = _staged(p, 1)
    for me, block in blocks:
        block.phase("all-gather")
        block.copy(p.scratch(me)[0], me.output[me.number])
        for you in me.others:
            block.get(p.scratch(you)[0], me.output[you.number])
    _met(p, blocks)


@algorithm(
    "reduce_scatter",
    "staged_get",
    "ranks copy their input to a buffer, and every rank reads its chunk of all and reduces it",
)
def reduce_scatter_staged_get(p: Program) -> None:
    blocks = _copied(p)
    for me, block in blocks:
        block.phase("reduce")
        block.reduce([p.scratch(you)[me.number] for you in p.everyone], me.output[0])
    _met(p, blocks)


@algorithm(
    "all_to_all", "staged_get", "ranks copy their input to a buffer, and every rank reads its chunk of all"
)
def all_to_all_staged_get(p: Program) -> None:
    blocks = _copied(p)
    for me, block in blocks:
        block.phase("exchange")
        block.copy(p.scratch(me)[me.number], me.output[me.number])
        for you in me.others:
            block.get(p.scratch(you)[me.number], me.output[you.number])
    _met(p, blocks)
