"""The JSON of trace events, which Perfetto and Chrome read, written a piece at a time.

The format: "Trace Event Format" of the Chromium project; Perfetto reads it as it is
(perfetto.dev/docs/getting-started/other-formats). Both keep times in microseconds, Perfetto
in whole nanoseconds; the exact picoseconds go into each event's ``args``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from astranb.core.files import whole_file

__all__ = ["Event", "name_event", "rows_of", "write_events"]

Event = dict[str, Any]

_PIECE = 2000  # events that are one piece of text


def write_events(path: Path, events: Iterator[Event], title: str, written: dict[str, Any]) -> None:
    """Write a trace whole or not at all; ``.gz`` is compressed.

    Parameters
    ----------
    path : Path
    events : iterator of dict
        Trace events.
    title : str
    written : dict
        What stands in ``otherData``; read when all events have been written.
    """
    with whole_file(path) as file:
        if path.suffix == ".gz":
            # Neither name nor time: the same run gives the same bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                _write(cast("IO[bytes]", packed), events, title, written)
        else:
            _write(file, events, title, written)


def _write(file: IO[bytes], events: Iterator[Event], title: str, written: dict[str, Any]) -> None:
    """Write all events, a piece at a time, and behind them what they are."""
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    comma = b""
    while piece := list(islice(events, _PIECE)):
        text = ",\n".join(json.dumps(event, separators=(",", ":")) for event in piece)
        file.write(comma + text.encode())
        comma = b",\n"
    said = json.dumps({"title": title, **written}, separators=(",", ":"))
    file.write(f'\n],"otherData":{said}}}\n'.encode())


def rows_of(columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of plain Python values, a piece of the columns at a time."""
    for start in range(0, len(columns[0]), _PIECE):
        yield from zip(*(np.asarray(c[start : start + _PIECE]).tolist() for c in columns), strict=True)


def name_event(what: str, pid: int, tid: int, **args: Any) -> Event:
    """A metadata event: ``process_name``, ``thread_name``, or the order of either."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
