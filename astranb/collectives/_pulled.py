"""The same collectives by *get*: a rank reads what it needs, instead of being sent it.

ASTRA-sim 3.0 compares the two (arXiv 2606.10440, figures 10 and 11): get needs no word that
data have come, so that a reduction can begin with the first line; but its control requests
share links with the data that flow against them.
"""

from __future__ import annotations

from ._program import Block, Program
from ._registry import algorithm

__all__: list[str] = []


def _greet(p: Program, blocks: list[Block]) -> None:
    """Tell everybody that one's buffers may be read, and wait for each before reading from it."""
    for block in blocks:
        block.phase("start")
    p.barrier(blocks)


def _part(p: Program, blocks: list[Block]) -> None:
    """Nobody may change what another rank still reads."""
    for block in blocks:
        block.phase("end")
    p.barrier(blocks)


@algorithm("all_gather", "get", "everyone reads everyone's chunk")
def all_gather_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    _greet(p, blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        block.copy(me.input[0], me.output[me.number])
        for you in me.others:
            block.get(you.input[0], me.output[you.number])
    _part(p, blocks)


@algorithm("reduce_scatter", "get", "everyone reads its chunk of everyone and reduces it")
def reduce_scatter_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    _greet(p, blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce")
        block.reduce([you.input[me.number] for you in (me, *me.others)], me.output[0])
    _part(p, blocks)


@algorithm("all_reduce", "allpairs_get", "two shots: reduce one chunk of all by reading, then read the sums")
def all_reduce_allpairs_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    _greet(p, blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce-scatter")
        block.reduce([you.input[me.number] for you in (me, *me.others)], me.output[me.number])
    _part(p, blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        for you in me.others:
            block.get(you.output[you.number], me.output[you.number])
    _part(p, blocks)


@algorithm("all_to_all", "get", "everyone reads its chunk of everyone")
def all_to_all_get(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    _greet(p, blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("exchange")
        block.copy(me.input[me.number], me.output[me.number])
        for you in me.others:
            block.get(you.input[me.number], me.output[you.number])
    _part(p, blocks)
