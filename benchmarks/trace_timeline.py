"""The timeline of a trace of a million nodes, from the cell that shows it to the painted page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from astranb.chakra import Attribute, Node, NodeType, Trace

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["OPENS", "READS", "million", "opened"]

NODES = 1_000_000
_TRACKS = 4
_ID, _START_NS = 1 << 21, 1 << 28  # encoded in 4 and 5 bytes, like those of all nodes
_LOADS = 3

READS = "import astranb as anb\nfrom astranb.chakra import read\nanb.TraceTimeline\ntrace = read({file!r})"
OPENS = "anb.TraceTimeline(trace)"

_SHOWN = '.anb-recordings .anb-timeline[data-asked="false"]:is([data-drawn="density"], [data-drawn="spans"])'


def million(path: Path) -> None:
    """Write a trace of a host's thread and three streams: a tenth of one stream's nodes is collectives."""
    random = np.random.default_rng(1)
    took = random.integers(2000, 9000, NODES // _TRACKS)
    starts = _START_NS + np.cumsum(took) - took
    every: list[bytes] = [b""] * NODES
    for track in range(_TRACKS):
        message = _message(track, collective=False), _message(track, collective=True)
        which = random.random(len(starts)) < (0.1 if track == 3 else 0.0)
        for kind, template in enumerate(message):
            mine = np.flatnonzero(which == kind)
            rows = np.tile(np.frombuffer(template, np.uint8), (len(mine), 1))
            _fill(rows, template, _ID, 4, _ID + mine * _TRACKS + track)
            _fill(rows, template, _START_NS, 5, starts[mine])
            for row, one in zip((mine * _TRACKS + track).tolist(), rows, strict=True):
                every[row] = one.tobytes()
    path.write_bytes(b"".join([Trace.of([]).head, *every]))


def _message(track: int, *, collective: bool) -> bytes:
    attributes = {
        "is_cpu_op": Attribute(track == 0, "bool_val"),
        "start_ns": Attribute(_START_NS, "int64_val"),
        "duration_ns": Attribute(1900, "int64_val"),
        "tid" if track == 0 else "stream": Attribute(track, "int64_val"),
    }
    if collective:
        attributes |= {"comm_type": Attribute(0, "int64_val"), "comm_size": Attribute(4096, "int64_val")}
    kind = NodeType.COMM_COLL if collective else NodeType.COMP
    trace = Trace.of([Node(_ID, f"kernel of track {track}", kind, (), (), 0, 2, attributes)])
    return trace.data[len(trace.head) :]


def _varint(values: np.ndarray, width: int) -> np.ndarray:
    shifts = 7 * np.arange(width)
    digits = (values[:, None] >> shifts) & 127
    digits[:, :-1] |= 128
    return digits.astype(np.uint8)


def _fill(rows: np.ndarray, template: bytes, value: int, width: int, column: np.ndarray) -> None:
    """Put numbers in the place of one, which has as many bytes."""
    sought = _varint(np.array([value]), width)[0].tobytes()
    at = template.index(sought)
    rows[:, at : at + width] = _varint(column, width)


def opened(page: Page, row: Callable[..., None]) -> None:
    """Show it some times; its notebook's cells are :data:`READS` and :data:`OPENS`, which is run last."""
    from tests.ui.harness import run_cell, wait_idle

    run_cell(page, 0)
    took = []
    for _ in range(_LOADS):
        page.evaluate("document.querySelectorAll('.anb-recordings').forEach(one => one.remove())")
        began = perf_counter()
        run_cell(page, 1, wait=False)
        page.wait_for_selector(_SHOWN)
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        took.append(perf_counter() - began)
        wait_idle(page)
    what = f"timeline of a trace of {NODES:,} nodes, cell to painted, median (limit 3 s)"
    row(what, median(took), "s", "3 s", median(took) / 3)
