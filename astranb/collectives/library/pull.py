"""Algorithms by *get*: a rank reads what it needs; beside them those by *put* of the same form.

ASTRA-sim 3.0 compares the two (arXiv 2606.10440, figures 10 and 11): get needs no signal that
data has arrived, so a reduction can begin with the first line; but its read requests share
links with the data of the opposite direction. A barrier at the start lets no rank read buffers that
are not ready, one at the end lets no rank change what another one still reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from astranb.collectives.language import Block, Chunk, Program, Rank, Semaphore

from .registry import algorithm

__all__ = ["Ends", "exchanged"]

Ends: TypeAlias = Callable[[Rank, Rank], tuple[Chunk, Chunk]]
"""The chunk that one rank has for another, and where that one keeps it."""


def _by_peer(p: Program, phase: str, *, pull: bool, ends: Ends) -> None:
    """Use a thread block for each peer, as MSCCL++'s kernels do: 15 peers and 4 channels are 60.

    To put, a block stores, signals, and waits for what its peer stores. To get, it signals that
    its rank's input is ready, waits for the peer's signal, reads, and signals that it has read.
    """
    ready, over = ([[p.semaphore(r) for _ in range(p.ranks)] for r in range(p.ranks)] for _ in range(2))
    for me in p.everyone:
        for place, you in enumerate(me.others):
            block = me.block()
            block.phase(phase)
            if place == 0:
                block.copy(*ends(me, me))
            if pull:
                block.signal(ready[you.number][me.number])
                block.wait(ready[me.number][you.number])
                block.get(*ends(you, me))
            else:
                block.put(*ends(me, you))
            block.signal(over[you.number][me.number])
            block.wait(over[me.number][you.number])


@algorithm("all_gather", "get", "a thread block for each peer reads its chunk")
def all_gather_get(p: Program) -> None:
    _by_peer(p, "all-gather", pull=True, ends=_gathered)


@algorithm("all_gather", "put", "a thread block for each peer puts its rank's chunk there")
def all_gather_put(p: Program) -> None:
    _by_peer(p, "all-gather", pull=False, ends=_gathered)


@algorithm("all_to_all", "get", "a thread block for each peer reads the chunk for its rank")
def all_to_all_get(p: Program) -> None:
    _by_peer(p, "exchange", pull=True, ends=exchanged)


@algorithm("all_to_all", "put", "a thread block for each peer puts its chunk")
def all_to_all_put(p: Program) -> None:
    _by_peer(p, "exchange", pull=False, ends=exchanged)


def _gathered(source: Rank, target: Rank) -> tuple[Chunk, Chunk]:
    return source.input[0], target.output[source.number]


def exchanged(source: Rank, target: Rank) -> tuple[Chunk, Chunk]:
    """Return the ends of an all-to-all."""
    return source.input[target.number], target.output[source.number]


def _by_engines(p: Program, phase: str, ends: Ends) -> None:
    """Move everything by copy engines, between two meetings of all ranks, as NCCL without SMs.

    NCCL's stream writes and polls the flags by which ranks meet (``ncclMemOpSync``, src/ce_coll.cc
    @5067397c); here lists of descriptors do, one before the copies and one behind them.
    """
    came, left = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
    for me in p.everyone:
        begun, copied = me.semaphore(), me.semaphore()
        lists = [p.engine(me) for _ in range(p.ranks + 2)]
        _meet(p, me, lists[0], came)
        lists[0].signal(begun)
        for one, you in zip(lists[1:-1], (*me.others, me), strict=True):
            one.phase(phase)
            one.wait(begun)
            one.copy(*ends(me, you))
            one.signal(copied)
        lists[-1].wait(copied, p.ranks)
        _meet(p, me, lists[-1], left)


def _meet(p: Program, me: Rank, block: Block, semaphores: list[Semaphore]) -> None:
    """Signal all other ranks, and wait for them."""
    block.phase("meet")
    for you in me.others:
        block.signal(semaphores[you.number])
    block.wait(semaphores[me.number], p.ranks - 1)


@algorithm(
    "all_gather", "engines", "copy engines put a rank's chunk to all, between two meetings, without SMs"
)
def all_gather_engines(p: Program) -> None:
    _by_engines(p, "all-gather", _gathered)


@algorithm("all_to_all", "engines", "copy engines put to all, between two meetings, without SMs")
def all_to_all_engines(p: Program) -> None:
    _by_engines(p, "exchange", exchanged)


@algorithm("reduce_scatter", "get", "every rank reads its chunk of all and reduces it")
def reduce_scatter_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks, "start")
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce")
        block.reduce([you.input[me.number] for you in (me, *me.others)], me.output[0])
    p.barrier(blocks, "end")


@algorithm("all_reduce", "allpairs_get", "two shots: reduce one chunk of all by reading, then read the sums")
def all_reduce_allpairs_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks, "start")
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce-scatter")
        block.reduce([you.input[me.number] for you in (me, *me.others)], me.output[me.number])
    p.barrier(blocks, "end")
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        for you in me.others:
            block.get(you.output[you.number], me.output[you.number])
    p.barrier(blocks, "end")


@algorithm(
    "all_reduce",
    "allpairs_load_store",
    "two shots in one loop: every rank reads one chunk of all, adds it, and stores the sum to all",
)
def all_reduce_allpairs_load_store(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks, "start")
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce and store")
        r = me.number
        everyone = (me, *me.others)
        block.reduce([you.input[r] for you in everyone], *(you.output[r] for you in everyone))
    p.barrier(blocks, "end")
