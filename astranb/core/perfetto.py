"""Traces for Perfetto and Chrome: JSON of trace events, written in batches.

The format: "Trace Event Format" of the Chromium project; Perfetto reads it as it is
(perfetto.dev/docs/getting-started/other-formats). Both keep times in microseconds, Perfetto in
whole nanoseconds; the exact picoseconds are in each slice's ``args``. A caller yields events;
:func:`write_trace` writes them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np

from .files import whole_file

__all__ = ["Event", "counter", "flow", "process", "rows_of", "slice_", "thread", "write_trace"]

Event = dict[str, Any]

_BATCH: Final = 2000


def _us(ps: int) -> float:
    return ps / 1e6


def process(pid: int, name: str) -> Iterator[Event]:
    """Name a process; processes are shown in the order of their numbers."""
    yield _metadata("process_name", pid, 0, name=name)
    yield _metadata("process_sort_index", pid, 0, sort_index=pid)


def thread(pid: int, tid: int, name: str, place: int | None = None) -> Iterator[Event]:
    """Name a thread of a process: a track. Where it is shown among them: by `place`, else by its number."""
    yield _metadata("thread_name", pid, tid, name=name)
    yield _metadata("thread_sort_index", pid, tid, sort_index=tid if place is None else place)


def _metadata(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def slice_(name: str, pid: int, tid: int, start_ps: int, end_ps: int, *, category: str, **args: Any) -> Event:
    """Make a slice on a track; slices of one track must nest or follow one another."""
    args = {"start_ps": start_ps, "end_ps": end_ps, **args}
    event = {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": _us(start_ps)}
    return {**event, "dur": _us(end_ps - start_ps), "args": args}


def flow(
    name: str,
    number: int,
    start: tuple[int, int, int],
    end: tuple[int, int, int] | None,
    *,
    category: str,
    **args: Any,
) -> Iterator[Event]:
    """Draw an arrow from one slice to another.

    Parameters
    ----------
    name : str
    number : int
        Another one for each arrow of a category.
    start, end : tuple of int
        Process, thread and time in ps, inside the slice that the arrow ties itself to. No end: it has not
        arrived.
    category : str
    **args
        Shown with it.
    """
    shared = {"name": name, "cat": category, "id": number, **({"args": args} if args else {})}
    yield {"ph": "s", "pid": start[0], "tid": start[1], "ts": _us(start[2]), **shared}
    if end is not None:
        yield {"ph": "f", "bp": "e", "pid": end[0], "tid": end[1], "ts": _us(end[2]), **shared}


def counter(name: str, pid: int, at_ps: int, **values: float) -> Event:
    """Set a counter of a process; it keeps its values until the next one of its name."""
    return {"ph": "C", "name": name, "pid": pid, "ts": _us(at_ps), "args": values}


def rows_of(columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of arrays as plain Python values, a batch at a time."""
    for start in range(0, len(columns[0]), _BATCH):
        yield from zip(*(np.asarray(c[start : start + _BATCH]).tolist() for c in columns), strict=True)


def write_trace(events: Iterable[Event], other: dict[str, Any], path: Path) -> None:
    """Write a trace whole or not at all; ``.gz`` is compressed.

    Parameters
    ----------
    events : iterable of dict
    other : dict
        The file's ``otherData``; read when all events have been written.
    path : Path

    Raises
    ------
    InputError
        The file cannot be written.
    """
    with whole_file(path) as file:
        if path.suffix == ".gz":
            # Neither name nor time: the same run gives the same bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                _write(cast("IO[bytes]", packed), iter(events), other)
        else:
            _write(file, iter(events), other)


def _write(file: IO[bytes], events: Iterator[Event], other: dict[str, Any]) -> None:
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    comma = b""
    while batch := list(islice(events, _BATCH)):
        file.write(comma + ",\n".join(map(_text, batch)).encode())
        comma = b",\n"
    file.write(f'\n],"otherData":{_text(other)}}}\n'.encode())


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
