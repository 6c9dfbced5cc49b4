"""Algorithms whose sums and copies a switch makes, by NVLink SHARP's ``multimem`` instructions.

Each rank lets the switch reduce its share and send it to all (NCCL's NVLS algorithm): a byte
crosses each GPU's link once in each direction, in a ring twice.
"""

from __future__ import annotations

from astranb.collectives.language import Block, Program, Semaphore

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


@algorithm(
    "all_reduce", "switch_ring", "four fifths of the bytes by a switch, the rest around a ring beside it"
)
def all_reduce_switch_ring(p: Program) -> None:
    p.split({"switch": 0.8, "ring": 0.2})


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


@algorithm("broadcast", "switch", "the root lets a switch store everything to all", any_chunks=True)
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


_SCATTER, _REDUCE, _GATHER, _MOVE = 8, 5, 7, 12
"""Warps of NCCL's 20 that do each part where buffers are not registered: ``src/device/all_reduce.h``
(8, 5, 7), ``all_gather.h`` and ``reduce_scatter.h`` (8 copy, 12 multiply or add), @5067397c.

NCCL polls the least of all ranks' counts with a ``multimem`` load; here a semaphore of each step counts the
ranks, so that one that is ahead cannot stand for one that is behind."""


@algorithm(
    "all_reduce",
    "nvls",
    "as switch, step by step through a library's own buffers: scatter, reduce, gather at once",
    stepwise=True,
)
def all_reduce_nvls(p: Program) -> None:
    pairs = [(p.block(r, _SCATTER), p.block(r, _REDUCE), p.block(r, _GATHER)) for r in range(p.ranks)]
    for _ in p.slices():
        staged, summed = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
        for r, (scatter, reduce, gather) in enumerate(pairs):
            _stage(p, r, scatter, staged)
            reduce.phase("reduce and store")
            reduce.wait(staged[r], p.ranks)
            reduce.switch_reduce_store(
                [p.scratch(you)[r] for you in range(p.ranks)],
                *(p.scratch(you)[p.ranks + r] for you in range(p.ranks)),
            )
            _fetch(p, r, reduce, gather, summed, p.ranks)


@algorithm("reduce_scatter", "nvls", "as switch, step by step through a library's own buffers", stepwise=True)
def reduce_scatter_nvls(p: Program) -> None:
    pairs = [(p.block(r, _SCATTER), p.block(r, _MOVE)) for r in range(p.ranks)]
    for _ in p.slices():
        staged = [p.semaphore(r) for r in range(p.ranks)]
        for r, (scatter, reduce) in enumerate(pairs):
            _stage(p, r, scatter, staged)
            reduce.phase("reduce")
            reduce.wait(staged[r], p.ranks)
            reduce.switch_reduce([p.scratch(you)[r] for you in range(p.ranks)], p.output(r)[0])


@algorithm("all_gather", "nvls", "as switch, step by step through a library's own buffers", stepwise=True)
def all_gather_nvls(p: Program) -> None:
    pairs = [(p.block(r, _MOVE), p.block(r, _SCATTER)) for r in range(p.ranks)]
    for _ in p.slices():
        came = [p.semaphore(r) for r in range(p.ranks)]
        for r, (send, gather) in enumerate(pairs):
            send.phase("all-gather")
            send.switch_store(p.input(r)[0], *(p.scratch(you)[r] for you in range(p.ranks)))
            _fetch(p, r, send, gather, came, 0)


def _stage(p: Program, r: int, scatter: Block, staged: list[Semaphore]) -> None:
    """Copy a rank's input to its own buffer, and tell every rank."""
    scatter.phase("scatter")
    for chunk in range(p.ranks):
        scatter.copy(p.input(r)[chunk], p.scratch(r)[chunk])
    for head in staged:
        scatter.signal(head)


def _fetch(p: Program, r: int, sender: Block, gather: Block, came: list[Semaphore], first: int) -> None:
    """Signal every rank that this one has stored to all; copy what all have stored here to the output."""
    for semaphore in came:
        sender.signal(semaphore)
    gather.phase("gather")
    gather.wait(came[r], p.ranks)
    for chunk in range(p.ranks):
        gather.copy(p.scratch(r)[first + chunk], p.output(r)[chunk])
