"""The line of the program that every thread block is at."""

from __future__ import annotations

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.gpu import tables as t

from .paths import block_name, resolve
from .state import CacheLineState

__all__ = ["SPOT", "next_operation", "spot_text", "where"]

SPOT = np.dtype(
    [
        ("gpu", "i4"),
        ("block", "i4"),  # of the GPU, as paths count
        ("state", "i4"),  # of gpu.tables.BLOCK_STATES
        ("op", "i4"),  # the operation it is at; as many as there are once it has ended
        ("ops", "i4"),
        ("part", "i4"),  # of ``Source.parts`` its line is in; -1: not known, or it has ended
        ("line", "i4"),
    ]
)
"""Position of a thread block."""


def where(engine: CacheLineState) -> Records:
    """Find the line of the program that each thread block is at: rows of SPOT, by GPU and block."""
    blocks, source = engine.machine.blocks, engine.program.source
    spots = allocate(len(blocks), SPOT)
    spots["gpu"], spots["state"] = blocks["gpu"], blocks["state"]
    first = np.searchsorted(blocks["gpu"], np.arange(len(engine.machine.gpus)))  # they are sorted by GPU
    spots["block"] = np.arange(len(blocks)) - first[blocks["gpu"]]
    spots["op"] = blocks["op"] - blocks["first_op"]
    spots["ops"] = blocks["last_op"] - blocks["first_op"]
    spots["part"] = -1
    at = np.flatnonzero((blocks["op"] < blocks["last_op"]) & (blocks["state"] != t.DONE))
    if len(source.part):
        spots["part"][at] = source.part[blocks["op"][at]]
        spots["line"][at] = source.line[blocks["op"][at]]
    return spots


def spot_text(engine: CacheLineState, path: str) -> str:
    """Describe where a thread block is, as ``GPU3 block 0 is at operation 4 of 14, In[3] line 7``."""
    row = resolve(path, engine.fabric, engine.machine).row
    spot = where(engine)[row]
    name = block_name(engine.machine, row)
    if spot.op >= spot.ops:
        return f"{name} has ended"
    line = engine.program.source.name_of(int(engine.machine.blocks[row].op))
    return f"{name} is at operation {spot.op + 1} of {spot.ops}{f', {line}' if line else ''}"


def next_operation(engine: CacheLineState, path: str) -> str:
    """The condition that a thread block has reached its next operation.

    Raises
    ------
    InputError
        There is no such thread block, or it has ended.
    """
    place = resolve(path, engine.fabric, engine.machine)
    if place.kind != "block":
        hint = "name one, as gpu[0].block.0"
        raise InputError(f"{place.path} is not a thread block", where="next_line", hint=hint)
    block = engine.machine.blocks[place.row]
    if block.op >= block.last_op:
        raise InputError(f"{place.path} has ended", where="next_line", hint="go back, or take another block")
    waiting = block.state == t.PENDING
    return f"{place.path}.state != 0" if waiting else f"{place.path}.op != {int(block.op)}"
