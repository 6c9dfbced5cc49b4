"""TensorRT-LLM's exchange over NVLink: a token straight to each GPU that has one of its experts, and back.

Source: NVIDIA/TensorRT-LLM @01f00213, cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu
(``one_block_per_token``). A thread block of 256 threads takes a token: it loads each line once and stores it
to every such GPU, in slots that one of its threads takes by an atomic for each; the block that is last raises
a flag on all ranks behind a release and waits for theirs. In a combine the first block raises the flags, all
wait for those of other ranks, and each reads what experts made of its token where they left it, and adds.
Before either a kernel of one block changes the flags' value.
"""

from __future__ import annotations

from typing import Final

from astranb.collectives.language import Block, Program
from astranb.core.errors import InputError

from .tokens import Tokens, fetch_add

__all__ = ["combine_one_sided", "dispatch_one_sided"]

_THREADS: Final = 256
_LINES: Final = _THREADS * 16 // 128
"""Lines that a thread block has under way: 16 B of each thread."""
_PER_SM: Final = 2048 // _THREADS  # thread blocks that an SM takes


def _blocks(p: Program, x: Tokens, phase: str) -> list[list[tuple[Block, list[int]]]]:
    """Return the thread blocks of each rank with their tokens: as many as its SMs take at once."""
    if x.nodes > 1:
        what = f"{x.ranks} ranks on {x.nodes} nodes: it needs GPUs that NVLink joins"
        raise InputError(what, where="algorithm one_sided", hint="use normal or low_latency")
    p.channel, p.kernels[:] = 0, ["prepare"]
    p.phase_number("prepare")
    prepared = [p.semaphore(rank) for rank in range(p.ranks)]
    for rank in range(p.ranks):
        p.block(rank).signal(prepared[rank])
    p.kernel("exchange")
    found = []
    for rank in range(p.ranks):
        mine = x.of_rank(rank, 0)
        count = max(1, min(len(mine), _PER_SM * x.sms))
        blocks = [(p.block(rank), mine[k::count]) for k in range(count)]
        for block, _ in blocks:
            block.lines_ahead, block.per_sm = _LINES, _PER_SM
            block.phase(phase)
            block.wait(prepared[rank])
        found.append(blocks)
    return found


def dispatch_one_sided(p: Program, x: Tokens) -> None:
    """Every token goes once to each rank of its experts; ranks meet when all have stored."""
    flags = [p.semaphore(rank) for rank in range(p.ranks)]
    for rank, blocks in enumerate(_blocks(p, x, "dispatch")):
        stored = p.semaphore(rank)
        for block, tokens in blocks:
            slot = p.semaphore(rank)
            for token in tokens:
                for _ in x.holders(token):
                    fetch_add(block, slot)
                block.copy(p.input(rank)[token], *(p.output(target)[token] for target in x.holders(token)))
            block.signal(stored)
        last, _ = blocks[-1]
        last.wait(stored, len(blocks))
        last.fence()
        for step in range(p.ranks):
            last.signal(flags[(rank + 1 + step) % p.ranks])
        last.wait(flags[rank], p.ranks)


def combine_one_sided(p: Program, x: Tokens) -> None:
    """Ranks meet; then each reads the results of its tokens from the ranks of their experts, and adds."""
    flags = [p.semaphore(rank) for rank in range(p.ranks)]
    for rank, blocks in enumerate(_blocks(p, x, "combine")):
        for number, (block, tokens) in enumerate(blocks):
            for step in range(p.ranks if not number else 0):
                block.signal(flags[(rank + 1 + step) % p.ranks])
            block.wait(flags[rank], p.ranks)
            block.fence()  # fence.acquire.sys
            for token in tokens:
                block.reduce([p.input(holder)[token] for holder in x.holders(token)], p.output(rank)[token])
