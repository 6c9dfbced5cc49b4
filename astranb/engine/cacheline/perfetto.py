"""A run by cache lines as a trace for Perfetto and Chrome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.perfetto import Event, counter, flow, process, rows_of, slice_, thread
from astranb.core.plural import plural

from .frames import signals, spans
from .recorder import FLIGHT_KINDS
from .state import CacheLineState

__all__ = ["trace_events"]

_MOST_LINES = 100_000
_MOST_BINS = 512  # of a counter: about as many as a screen has room for


def trace_events(
    engine: CacheLineState, written: dict[str, Any], most_lines: int = _MOST_LINES
) -> Iterator[Event]:
    """Events of a trace that ui.perfetto.dev and chrome://tracing open.

    A process is a GPU (``pid`` is its rank + 1), a thread is one of its thread blocks, named
    by SM and block (blocks that share an SM would overlap on one track). One more process
    holds the links: a thread each, a span for each line as long as it occupies the wire (the
    time from its first bit's start to its last bit's start; the latency comes on top). Arrows
    go from a signal to the wait that it ended. Counters show the busy fractions of links,
    issue slots, L2 and HBM.

    Parameters
    ----------
    engine : CacheLineState
    written : dict
        Filled with ``spans``, ``signals``, ``lines`` recorded, ``line_spans``, ``merged_gap_ps`` (the
        largest gap in a span of several lines), ``counters``, ``counter_bin_ps``, ``recorded_from_ps``.
    most_lines : int
        Most spans on the tracks of links. Where more lines were recorded, neighbours on a
        link become one span, those with the smallest gaps first.
    """
    written["recorded_from_ps"] = engine.recorder.oldest_ps
    yield from _names(engine)
    yield from _blocks(engine, written)
    yield from _arrows(engine, written)
    yield from _lines(engine, most_lines, written)
    yield from _counters(engine, written)


def _names(engine: CacheLineState) -> Iterator[Event]:
    """Names of GPUs and of their thread blocks."""
    machine, fabric = engine.machine, engine.fabric
    seen = [0] * len(fabric.gpus)
    for rank, node in enumerate(fabric.gpus):
        yield from process(rank + 1, f"GPU{rank} {fabric.graph.name(int(node))}")
    for number, block in enumerate(machine.blocks):
        gpu = int(block.gpu)
        mine, seen[gpu] = seen[gpu], seen[gpu] + 1
        if block.sm < 0 and not engine.late_ps[gpu]:
            continue
        sm = int(block.sm - machine.gpus["first_sm"][gpu])
        unit = f"engine {sm - int(machine.gpus['sms'][gpu])} " if block.engine else f"sm.{sm} "
        yield from thread(gpu + 1, number + 1, f"{unit if block.sm >= 0 else ''}block {mine}", mine)


def _blocks(engine: CacheLineState, written: dict[str, Any]) -> Iterator[Event]:
    """A span for each thing that a thread block did."""
    found = spans(engine)
    written["spans"] = len(found["op"])
    for rank, sm, block, op, state, phase, start, end, _ in rows_of(list(found.values())):
        yield slice_(state, rank + 1, block + 1, start, end, category="block", phase=phase, op=op, sm=sm)


def _arrows(engine: CacheLineState, written: dict[str, Any]) -> Iterator[Event]:
    """An arrow from each signal to the wait that it ended."""
    found = signals(engine)
    block_of = engine.machine.ops["block"]
    began = engine.machine.ops["started_ps"]
    written["signals"] = len(found["wait_op"])
    columns = ("semaphore", "signal_op", "wait_op", "from_rank", "to_rank", "issued_ps", "passed_ps")
    rows = rows_of([found[name] for name in columns])
    for number, (semaphore, signal, wait, source, target, issued, passed) in enumerate(rows):
        # An end ties itself to the span around it: a nanosecond before the wait's own end.
        inside = max(int(began[wait]), issued, passed - 1000)
        sent = max(int(began[signal]), issued - 1000)
        first = (source + 1, int(block_of[signal]) + 1, sent)
        last = (target + 1, int(block_of[wait]) + 1, inside)
        times = {"semaphore": semaphore, "issued_ps": issued, "passed_ps": passed}
        yield from flow("signal", number + 1, first, last, category="semaphore", **times)


def _lines(engine: CacheLineState, most: int, written: dict[str, Any]) -> Iterator[Event]:
    """A span for each line, or for neighbours, as long as the wire is taken."""
    pid = len(engine.fabric.gpus) + 1
    _, found = engine.recorder.since(0)
    written |= {"lines": len(found), "line_spans": 0, "merged_gap_ps": 0}
    if not len(found):
        return
    order = np.lexsort((found["start_ps"], found["link"]))
    link, start = found["link"][order], found["start_ps"][order]
    latency = engine.machine.links["latency_ps"][link]
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
    yield from process(pid, "links")
    for number in used.tolist():
        yield from thread(pid, number + 1, engine.fabric.name(number))
    before = 0
    for after in cut.tolist():
        flight = found[order[before]]
        lines = after - before
        begins, ends = int(start[before]), int(end[after - 1])
        if lines == 1:
            args: Event = {
                "arrives_ps": int(flight.end_ps), "queued_ps": int(flight.queued_ps), "op": int(flight.op),
                "line": int(flight.line), "event": int(flight.event),
            }  # fmt: skip
            name = FLIGHT_KINDS[int(flight.kind)]
        else:
            args = {"lines": lines, "busy_ps": int((end[before:after] - start[before:after]).sum())}
            name = plural(lines, "line")
        yield slice_(name, pid, int(flight.link) + 1, begins, ends, category="link", **args)
        before = after


def _counters(engine: CacheLineState, written: dict[str, Any]) -> Iterator[Event]:
    """Busy fractions over time; a value is written only where it changes."""
    recorded, fabric = engine.recorder.activity(), engine.fabric
    bins, bin_ps = int(recorded["bins"]), int(recorded["bin_ps"])
    fold = max(1, -(-bins // _MOST_BINS))
    written |= {"counters": 0, "counter_bin_ps": fold * bin_ps if bins else 0}
    if not bins:
        return
    rows = [
        (gpu + 1, name, recorded[f"{key}_busy"][gpu])
        for gpu in range(len(fabric.gpus))
        for key, name in (("issue", "issue slots busy"), ("l2", "L2 busy"), ("hbm", "HBM busy"))
    ]
    pairs: dict[str, list[int]] = {}
    for link in np.flatnonzero(recorded["link_busy"].any(axis=1)).tolist():
        pairs.setdefault(fabric.name(link).partition("#")[0], []).append(link)
    rows += [
        (len(fabric.gpus) + 1, f"{name} busy", recorded["link_busy"][links].mean(axis=0))
        for name, links in pairs.items()
    ]
    written["counters"] = len(rows)
    width = -(-bins // fold)
    for pid, name, busy in rows:
        padded = np.zeros(width * fold)
        padded[:bins] = busy
        fractions = np.round(padded.reshape(width, fold).mean(axis=1), 4).tolist()
        reported = -1.0
        for place, fraction in enumerate([*fractions, 0.0]):
            if fraction != reported:
                reported = fraction
                yield counter(name, pid, place * fold * bin_ps, busy=fraction)
