"""The tables of what is noted while time passes: how large they are, and how they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.state import allocate

from .recording import BURST, CURRENT, FLIGHT, GPU_ROWS, RECORDER
from .tracing import TRACE

if TYPE_CHECKING:
    from astranb.collectives import Lowered

__all__ = ["BINS", "note_bytes", "note_tables"]

BINS = 1024
"""Bins of activity a row: finer than a screen has columns for."""

_FIRST_BIN_PS = 16_384
_FLIGHTS = 2**20  # flights in the ring: 64 MiB, a 1 MiB ring all-reduce twice over
_BURSTS = 2**20  # of SMs in theirs: 24 MiB
_LANDED = 2**22  # lines of memory of which is noted who wrote them last, at most: 16 MiB


def note_tables(program: Lowered, links: int, gpus: int, sms: int, *, record: bool) -> dict[str, Any]:
    """Lay out the recording of a run, by the names of the fields of ``Machine``; tiny without one."""
    recorder = allocate(1, RECORDER)
    rows = links + GPU_ROWS * gpus
    recorder[0].on, recorder[0].bin_ps, recorder[0].bins = int(record), _FIRST_BIN_PS, BINS
    recorder[0].rows, recorder[0].links = rows, links
    lines = int(program.pieces["lines"].sum())
    recorder[0].landing = int(record and lines <= _LANDED)
    landed = allocate(lines if recorder[0].landing else 1, np.dtype("i4"))
    if recorder[0].landing:
        landed[:] = np.repeat(program.pieces["writer"], program.pieces["lines"])
    places = allocate(len(program.pieces), np.dtype("i8"))
    places[:] = np.cumsum(program.pieces["lines"]) - program.pieces["lines"]
    current = allocate(sms if record else 1, CURRENT)
    current["state"] = -1
    return {
        "recorder": recorder,
        "flights": allocate(_FLIGHTS if record else 1, FLIGHT),
        "activity": allocate(rows * BINS if record else 1, np.dtype("i8")),
        "trace": allocate(1, TRACE),
        "bursts": allocate(_BURSTS if record else 1, BURST),
        "current": current,
        "landed": landed,
        "places": places,
    }


def note_bytes(program: Lowered, links: int) -> int:
    """Estimate what they take, in bytes."""
    lines = 4 * min(_LANDED, int(program.lines.sum()))
    return links * 8 * BINS + _FLIGHTS * FLIGHT.itemsize + _BURSTS * BURST.itemsize + lines
