"""Algorithms whose sums and copies a switch makes, by NVLink SHARP's ``multimem`` instructions.

Each rank lets the switch reduce its share and send it to all (NCCL's NVLS algorithm): a byte
crosses each GPU's link once in each direction, in a ring twice.
"""

from __future__ import annotations

from astranb.collectives.language.program import Program

from .registry import algorithm

__all__: list[str] = []


@algorithm("all_reduce", "switch", "every rank lets a switch add one chunk of all and store the sum to all")
def all_reduce_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce and store")
        r = me.number
        block.switch_reduce_store(
            [you.input[r] for you in p.everyone], *(you.output[r] for you in p.everyone)
        )
    p.barrier(blocks)


@algorithm("reduce_scatter", "switch", "every rank lets a switch add its chunk of all")
def reduce_scatter_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce")
        block.switch_reduce([you.input[me.number] for you in p.everyone], me.output[0])
    p.barrier(blocks)


@algorithm("all_gather", "switch", "every rank lets a switch store its chunk to all")
def all_gather_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        block.switch_store(me.input[0], *(you.output[me.number] for you in p.everyone))
    p.barrier(blocks)


@algorithm("broadcast", "switch", "the root lets a switch store everything to all")
def broadcast_switch(p: Program) -> None:
    root = p.rank(p.root)
    block = root.block()
    block.phase("broadcast")
    for chunk in range(p.output_chunks):
        block.switch_store(root.input[chunk], *(you.output[chunk] for you in p.everyone))
    for you in root.others:
        ready = you.semaphore()
        block.signal(ready)
        you.block().wait(ready)
