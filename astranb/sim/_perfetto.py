"""A trace for Perfetto and Chrome: the JSON of trace events, written piece by piece.

The format: "Trace Event Format" of the Chromium project; Perfetto reads it as it is
(perfetto.dev/docs/getting-started/other-formats). Both keep times in microseconds, Perfetto
in whole nanoseconds; the exact picoseconds stand in each event's ``args``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from astranb.core.files import whole_file
from astranb.core.units import format_bytes
from astranb.engine.cacheline._frames import signals, spans
from astranb.engine.cacheline._recorder import FLIGHT_KINDS

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["Event", "name_event", "perfetto", "rows_of", "write_events"]

Event = dict[str, Any]

_MOST_LINES = 100_000
_MOST_BINS = 512  # of a counter: about as many as a screen has room for
_PIECE = 2000  # events that are one piece of text


def perfetto(sim: Simulation, path: str | Path, *, most_lines: int = _MOST_LINES) -> dict[str, Any]:
    """Write what happened so far as a trace that ui.perfetto.dev and chrome://tracing open.

    Parameters
    ----------
    sim : Simulation
    path : str or Path
        ``.json``, or ``.json.gz`` for a compressed one. Written whole or not at all.
    most_lines : int
        Most spans on the tracks of links. Where more lines were recorded, neighbours on a
        link become one span, those with the smallest gaps first.

    Returns
    -------
    dict
        What was written, as it also stands in the file's ``otherData``: ``spans``,
        ``signals``, ``lines`` recorded, ``line_spans``, ``merged_gap_ps`` (the largest gap
        in a span of several lines), ``counters``, ``counter_bin_ps``, ``recorded_from_ps``.

    Raises
    ------
    InputError
        The file cannot be written.

    Notes
    -----
    A process is a GPU (``pid`` is its rank + 1), a thread is one of its thread blocks, named
    by SM and block (blocks that share an SM would overlap on one track). One more process
    holds the links: a thread each, a span for each line as long as it occupies the wire (the
    time from its first bit's start to its last bit's start; the latency comes on top). Arrows
    go from a signal to the wait that it ended. Counters show the busy fractions of links,
    issue slots, L2 and HBM.

    Examples
    --------
    >>> import tempfile
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> sim.run().why
    'end'
    >>> written = perfetto(sim, tempfile.mkdtemp() + "/trace.json.gz")
    >>> written["spans"] == len(sim.spans())
    True
    """
    path = Path(path)
    written: dict[str, Any] = {
        "simulated_ps": sim.now_ps,
        "events": sim.events,
        "finished": sim.finished,
        "recording": sim.recorder.on,
        "recorded_from_ps": sim.recorder.oldest_ps,
    }
    title = f"{sim.collective.title}, {format_bytes(sim.collective.size)}, on {sim.infra.name}"
    write_events(path, _events(sim, most_lines, written), title, written)
    return written


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


def _events(sim: Simulation, most_lines: int, written: dict[str, Any]) -> Iterator[Event]:
    yield from _names(sim)
    yield from _blocks(sim, written)
    yield from _arrows(sim, written)
    yield from _lines(sim, most_lines, written)
    yield from _counters(sim, written)


def rows_of(columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of plain Python values, a piece of the columns at a time."""
    for start in range(0, len(columns[0]), _PIECE):
        yield from zip(*(np.asarray(c[start : start + _PIECE]).tolist() for c in columns), strict=True)


def _us(ps: Any) -> float:
    return int(ps) / 1e6


def name_event(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _names(sim: Simulation) -> Iterator[Event]:
    """Names of GPUs and of their thread blocks."""
    machine, fabric = sim.machine, sim.fabric
    seen = [0] * len(fabric.gpus)
    for rank, node in enumerate(fabric.gpus):
        yield name_event("process_name", rank + 1, 0, name=f"GPU{rank} {fabric.graph.name(int(node))}")
        yield name_event("process_sort_index", rank + 1, 0, sort_index=rank)
    for number, block in enumerate(machine.blocks):
        gpu = int(block.gpu)
        mine, seen[gpu] = seen[gpu], seen[gpu] + 1
        if block.sm < 0:
            continue
        sm = int(block.sm - machine.gpus["first_sm"][gpu])
        unit = f"engine {sm - int(machine.gpus['sms'][gpu])}" if block.engine else f"sm.{sm}"
        yield name_event("thread_name", gpu + 1, number + 1, name=f"{unit} block {mine}")
        yield name_event("thread_sort_index", gpu + 1, number + 1, sort_index=mine)


def _blocks(sim: Simulation, written: dict[str, Any]) -> Iterator[Event]:
    """A span for each thing that a thread block did."""
    found = spans(sim)
    written["spans"] = len(found["op"])
    for rank, sm, block, op, state, phase, start, end, _ in rows_of(list(found.values())):
        yield {
            "ph": "X", "cat": "block", "name": state, "pid": rank + 1, "tid": block + 1,
            "ts": _us(start), "dur": _us(end - start),
            "args": {"start_ps": start, "end_ps": end, "phase": phase, "op": op, "sm": sm},
        }  # fmt: skip


def _arrows(sim: Simulation, written: dict[str, Any]) -> Iterator[Event]:
    """An arrow from each signal to the wait that it ended."""
    found = signals(sim)
    block_of = sim.machine.ops["block"]
    began = sim.machine.ops["started_ps"]
    written["signals"] = len(found["wait_op"])
    columns = ("semaphore", "signal_op", "wait_op", "from_rank", "to_rank", "issued_ps", "passed_ps")
    rows = rows_of([found[name] for name in columns])
    for number, (semaphore, signal, wait, source, target, issued, passed) in enumerate(rows):
        args = {"semaphore": semaphore, "issued_ps": issued, "passed_ps": passed}
        arrow = {"cat": "semaphore", "name": "signal", "id": number + 1, "args": args}
        # An end ties itself to the span around it: a nanosecond before the wait's own end.
        inside = max(int(began[wait]), issued, passed - 1000)
        first, last = int(block_of[signal]) + 1, int(block_of[wait]) + 1
        sent = max(int(began[signal]), issued - 1000)
        yield {"ph": "s", "pid": source + 1, "tid": first, "ts": _us(sent), **arrow}
        yield {"ph": "f", "bp": "e", "pid": target + 1, "tid": last, "ts": _us(inside), **arrow}


def _lines(sim: Simulation, most: int, written: dict[str, Any]) -> Iterator[Event]:
    """A span for each line, or for neighbours, as long as the wire is taken."""
    pid = len(sim.fabric.gpus) + 1
    _, found = sim.recorder.since(0)
    written |= {"lines": len(found), "line_spans": 0, "merged_gap_ps": 0}
    if not len(found):
        return
    order = np.lexsort((found["start_ps"], found["link"]))
    link, start = found["link"][order], found["start_ps"][order]
    latency = sim.machine.links["latency_ps"][link]
    follows = np.flatnonzero(link[1:] == link[:-1]) + 1  # a line before it was on the same link
    # The wire is free when the last bit has left; a latency changed since must not make lines overlap.
    end = np.maximum(start, found["end_ps"][order] - latency)
    end[follows - 1] = np.minimum(end[follows - 1], start[follows])
    used = np.unique(link)
    gap = np.full(len(link), np.iinfo(np.int64).max)  # between a line and the one before it
    gap[follows] = start[follows] - end[follows - 1]
    merged_ps = -1
    excess = len(link) - max(most, len(used))
    if excess > 0:
        merged_ps = int(np.partition(gap, excess - 1)[excess - 1])
    cut = np.append(np.flatnonzero(gap > merged_ps)[1:], len(link))  # the first line cuts nothing off
    written |= {"line_spans": len(cut), "merged_gap_ps": max(0, merged_ps)}
    yield name_event("process_name", pid, 0, name="links")
    yield name_event("process_sort_index", pid, 0, sort_index=pid)
    for number in used.tolist():
        yield name_event("thread_name", pid, number + 1, name=sim.fabric.name(number))
    before = 0
    for after in cut.tolist():
        flight = found[order[before]]
        lines = after - before
        begins, ends = int(start[before]), int(end[after - 1])
        args: Event = {"start_ps": begins, "end_ps": ends}
        if lines == 1:
            args |= {
                "arrives_ps": int(flight.end_ps), "queued_ps": int(flight.queued_ps), "op": int(flight.op),
                "line": int(flight.line), "event": int(flight.event),
            }  # fmt: skip
            name = FLIGHT_KINDS[int(flight.kind)]
        else:
            args |= {"lines": lines, "busy_ps": int((end[before:after] - start[before:after]).sum())}
            name = f"{lines} lines"
        yield {
            "ph": "X", "cat": "link", "name": name, "pid": pid, "tid": int(flight.link) + 1,
            "ts": _us(begins), "dur": _us(ends - begins), "args": args,
        }  # fmt: skip
        before = after


def _counters(sim: Simulation, written: dict[str, Any]) -> Iterator[Event]:
    """Busy fractions over time; a value is told only where it changes."""
    noted, fabric = sim.recorder.activity(), sim.fabric
    bins, bin_ps = int(noted["bins"]), int(noted["bin_ps"])
    fold = max(1, -(-bins // _MOST_BINS))
    written |= {"counters": 0, "counter_bin_ps": fold * bin_ps if bins else 0}
    if not bins:
        return
    rows = [
        (gpu + 1, name, noted[f"{key}_busy"][gpu])
        for gpu in range(len(fabric.gpus))
        for key, name in (("issue", "issue slots busy"), ("l2", "L2 busy"), ("hbm", "HBM busy"))
    ]
    pairs: dict[str, list[int]] = {}
    for link in np.flatnonzero(noted["link_busy"].any(axis=1)).tolist():
        pairs.setdefault(fabric.name(link).partition("#")[0], []).append(link)
    rows += [
        (len(fabric.gpus) + 1, f"{name} busy", noted["link_busy"][links].mean(axis=0))
        for name, links in pairs.items()
    ]
    written["counters"] = len(rows)
    width = -(-bins // fold)
    for pid, name, busy in rows:
        padded = np.zeros(width * fold)
        padded[:bins] = busy
        fractions = np.round(padded.reshape(width, fold).mean(axis=1), 4).tolist()
        told = -1.0
        for place, fraction in enumerate([*fractions, 0.0]):
            if fraction != told:
                told = fraction
                at = _us(place * fold * bin_ps)
                yield {"ph": "C", "name": name, "pid": pid, "ts": at, "args": {"busy": fraction}}
