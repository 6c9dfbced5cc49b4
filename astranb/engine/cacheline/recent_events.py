"""The last events of an object, and those of the run around a moment, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.units import format_time
from astranb.gpu import tables as t
from astranb.net import CLASSES

from .paths import MachinePart, block_name, block_path
from .recorder import FLIGHT_KINDS
from .state import CacheLineState

__all__ = ["DID", "events_around", "recent_events"]

_MOST = 10
_WINDOW = 200_000  # of the newest flights: so many are looked through
DID = {
    "started_ps": (
        "begins to move lines",
        "issues a signal",
        "begins to wait for a signal",
        "passes a fence",
        "begins to compute",
        "begins a kernel",
        "",
        "begins a tile",
    ),
    "issued_ps": (
        "has issued its last line",
        "has issued its signal",
        "has seen its signal",
        "",
        "has computed",
        "",
        "",
        "",
    ),
    "ended_ps": (
        "has every line acknowledged",
        "has its signal acknowledged",
        "",
        "",
        "",
        "ends a kernel",
        "has others begin",
        "has computed its tile",
    ),
}
"""Meaning of the times of an operation, by its kind."""


def recent_events(engine: CacheLineState, place: MachinePart) -> list[str]:
    """List what happened to an object last.

    Parameters
    ----------
    engine : CacheLineState
        Line flights are included where they were recorded.
    place : MachinePart

    Returns
    -------
    list of str
        At most ten, the newest first, each with its time.
    """
    if place.kind in ("link", "port"):
        reported = _flights(engine, np.array(place.rows))
    elif place.kind == "node":
        links = engine.machine.links[: len(engine.fabric.links)]
        reported = _flights(engine, np.flatnonzero((links["src"] == place.row) | (links["dst"] == place.row)))
    elif place.kind == "instance":
        links = engine.machine.links
        reported = _flights(
            engine, np.flatnonzero(np.isin(links["src"], place.rows) | np.isin(links["dst"], place.rows))
        )
    elif place.kind == "buffer":
        reported = _flights(engine, np.array(place.rows) // CLASSES)
    elif place.kind == "line":
        reported = _of_line(engine, place.row)
    elif place.kind == "semaphore":
        reported = _of_operations(engine, np.flatnonzero(engine.machine.ops["semaphore"] == place.row))
    elif place.kind in ("l2", "hbm"):
        reported = []
    else:
        reported = _of_blocks(engine, place)
    reported.sort(key=lambda one: one[0])  # events at one time keep their order
    reported.reverse()
    return [f"{format_time(when)} · {text}" for when, text in reported[:_MOST]]


def events_around(engine: CacheLineState, at_ps: int, most: int) -> list[tuple[int, str, str]]:
    """List what happened before and after a moment, as far as it has been simulated.

    Parameters
    ----------
    engine : CacheLineState
        Line flights are included where they were recorded.
    at_ps : int
    most : int
        Events before the moment (its own included), and after it.

    Returns
    -------
    list of tuple
        Time in ps, what happened, and the path of the thread block or link, in the order of time.
    """
    machine, fabric, now_ps = engine.machine, engine.fabric, engine.now_ps
    ops, (_, recorded) = machine.ops, engine.recorder.since(0)
    flights: Any = recorded[recorded["event"] <= engine.events]
    found = []
    for field in DID:
        for op in _nearest(np.asarray(ops[field]), at_ps, now_ps, most):
            path = block_path(fabric, machine, int(ops["block"][op]))
            found.append((int(ops[field][op]), _did(engine, int(op), field), path))
    for field, how in (("start_ps", "is sent"), ("end_ps", "has arrived")):
        for k in _nearest(np.asarray(flights[field]), at_ps, now_ps, most):
            what, queue = _what(engine, flights[k])
            found.append((int(flights[k][field]), f"{what} {how}{queue}", fabric.name(int(flights[k].link))))
    found = sorted((one for one in found if one[1]), key=lambda one: one[0])
    before = sum(one[0] <= at_ps for one in found)
    return found[max(0, before - most) : before + most]


def _nearest(times: np.ndarray, at_ps: int, now_ps: int, most: int) -> np.ndarray:
    """Rows of the last times up to a moment, and of the first ones after it."""
    chosen = []
    for rows, sign in (
        (np.flatnonzero((times >= 0) & (times <= at_ps)), -1),
        (np.flatnonzero((times > at_ps) & (times <= now_ps)), 1),
    ):
        chosen.append(rows[np.argsort(sign * times[rows], kind="stable")[:most]])
    return np.concatenate(chosen)


def _did(engine: CacheLineState, op: int, field: str) -> str:
    """Describe a time of an operation; empty: nothing that shows."""
    row, names = engine.machine.ops[op], engine.program.phase_names
    text = DID[field][int(row.kind)]
    phase = f" ({names[int(row.phase)]})" if names else ""
    return f"{text}: operation {int(row.number)}{phase}" if text else ""


def _newest(engine: CacheLineState) -> Any:
    """The newest flights up to now."""
    total = engine.recorder.mark()
    _, flights = engine.recorder.since(max(0, total - _WINDOW))
    return flights[flights["event"] <= engine.events]


def _what(engine: CacheLineState, flight: Any) -> tuple[str, str]:
    """Name a line that crosses a link, and how long it was queued."""
    op = engine.machine.ops[int(flight.op)]
    kind = FLIGHT_KINDS[int(flight.kind)] if int(flight.kind) < len(FLIGHT_KINDS) else "poll"
    who = block_path(engine.fabric, engine.machine, int(op.block))
    line = "" if kind.startswith(("signal", "poll")) else f" line {int(flight.line) + 1}/{int(op.lines)}"
    what = f"{kind}{line} of {who}, operation {int(op.number)}, on {engine.fabric.name(int(flight.link))}"
    waited = int(flight.start_ps) - int(flight.queued_ps)
    return what, f" after {format_time(waited)} in the queue" if waited else ""


def _report(engine: CacheLineState, flight: Any) -> tuple[int, str]:
    """Describe a line that crosses a link: queued, sent or arrived."""
    what, queue = _what(engine, flight)
    if flight.end_ps <= engine.now_ps:
        return int(flight.end_ps), f"{what} has arrived{queue}"
    if flight.start_ps <= engine.now_ps:
        return int(flight.start_ps), f"{what} is sent{queue}"
    return int(flight.queued_ps), f"{what} comes to the queue"


def _flights(engine: CacheLineState, links: np.ndarray) -> list[tuple[int, str]]:
    flights = _newest(engine)
    mine = flights[np.isin(flights["link"], links)]
    return [_report(engine, mine[k]) for k in range(max(0, len(mine) - 4 * _MOST), len(mine))]


def _of_line(engine: CacheLineState, request: int) -> list[tuple[int, str]]:
    """The links that a line has crossed, and its beginning."""
    row = engine.machine.requests[request]
    operand = engine.machine.operands[int(row.operand)]
    issued_ps = int(row.issued_ps)
    reported = [
        (issued_ps, f"{t.REQUEST_KINDS[int(row.kind)]} issued by GPU{row.gpu} for memory of GPU{row.target}")
    ]
    flights = _newest(engine)
    mine = flights[
        (flights["op"] == row.op)
        & (flights["line"] == row.line - operand.line)
        & (flights["kind"] // 2 == row.kind)
        & (flights["queued_ps"] >= issued_ps)
    ]
    used = _links_of(engine, row)
    return reported + [_report(engine, flight) for flight in mine if int(flight.link) in used]


def _links_of(engine: CacheLineState, row: Any) -> set[int]:
    """Links of the routes of a request's operand."""
    operand, routes = engine.machine.operands[int(row.operand)], engine.machine.routes
    numbers = [
        *range(int(operand.out_route), int(operand.out_route + operand.out_routes)),
        *range(int(operand.back_route), int(operand.back_route + operand.back_routes)),
    ]
    links = np.asarray(engine.machine.route_links)
    return {int(link) for k in numbers for link in links[int(routes[k].first) : int(routes[k].last)]}


def _of_blocks(engine: CacheLineState, place: MachinePart) -> list[tuple[int, str]]:
    """Return the latest events of the thread blocks of a GPU, of an SM, or of one of them."""
    blocks = engine.machine.blocks
    mine = np.array([place.row])
    if place.kind != "block":
        mine = np.flatnonzero(blocks["gpu" if place.kind == "gpu" else "sm"] == place.row)
    reported = _of_operations(engine, np.flatnonzero(np.isin(engine.machine.ops["block"], mine)))
    for block in mine:
        row, name = blocks[block], f"block {block_name(engine.machine, int(block)).rpartition(' ')[2]}"
        if row.state != t.PENDING:
            reported.append((int(row.started_ps), f"{name} begins"))
        if row.state == t.DONE:
            reported.append((int(row.ended_ps), f"{name} ends"))
    return reported


def _of_operations(engine: CacheLineState, of: np.ndarray) -> list[tuple[int, str]]:
    """Return the latest events of thread blocks at some operations."""
    machine, ops = engine.machine, engine.machine.ops
    blocks = {int(block) for block in ops["block"][of]}
    several = len({int(machine.blocks[block].gpu) for block in blocks}) > 1
    name = {
        b: block_name(machine, b) if several else block_name(machine, b).partition(" ")[2] for b in blocks
    }
    reported: list[tuple[int, str]] = []
    for field in DID:
        times = np.asarray(ops[field])[of]
        done = of[(times >= 0) & (times <= engine.now_ps)]
        newest = done[np.argsort(np.asarray(ops[field])[done], kind="stable")][-_MOST:]
        for op in newest:
            text = _did(engine, int(op), field)
            if text:
                reported.append((int(ops[field][op]), f"{name[int(ops['block'][op])]} {text}"))
    return reported
