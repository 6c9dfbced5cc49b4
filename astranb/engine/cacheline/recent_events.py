"""The last events of an object, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.units import format_time
from astranb.gpu import tables as t
from astranb.net.port import CLASSES

from .paths import MachinePart, block_name, block_path
from .recorder import FLIGHT_KINDS
from .state import CacheLineState

__all__ = ["recent_events"]

_MOST = 10
_WINDOW = 200_000  # of the newest flights: so many are looked through
_DID = {
    "started_ps": (
        "begins to move lines",
        "issues a signal",
        "begins to wait for a signal",
        "passes a fence",
        "begins to compute",
        "begins a kernel",
        "",
    ),
    "issued_ps": (
        "has issued its last line",
        "has issued its signal",
        "has seen its signal",
        "",
        "has computed",
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
    ),
}
"""What the times of an operation mean, by its kind."""


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


def _newest(engine: CacheLineState) -> Any:
    """The newest flights up to now."""
    total = engine.recorder.mark()
    _, flights = engine.recorder.since(max(0, total - _WINDOW))
    return flights[flights["event"] <= engine.events]


def _report(engine: CacheLineState, flight: Any) -> tuple[int, str]:
    """Describe a line that crosses a link: queued, sent or arrived."""
    op = engine.machine.ops[int(flight.op)]
    kind = FLIGHT_KINDS[int(flight.kind)] if int(flight.kind) < len(FLIGHT_KINDS) else "poll"
    who = block_path(engine.fabric, engine.machine, int(op.block))
    line = "" if kind.startswith(("signal", "poll")) else f" line {int(flight.line) + 1}/{int(op.lines)}"
    what = f"{kind}{line} of {who}, operation {int(op.number)}, on {engine.fabric.name(int(flight.link))}"
    waited = int(flight.start_ps) - int(flight.queued_ps)
    queue = f" after {format_time(waited)} in the queue" if waited else ""
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
    """What the thread blocks of a GPU, of an SM, or one of them, did last."""
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
    """What the thread blocks of some operations did last at these."""
    machine, names, ops = engine.machine, engine.program.phase_names, engine.machine.ops
    blocks = {int(block) for block in ops["block"][of]}
    several = len({int(machine.blocks[block].gpu) for block in blocks}) > 1
    name = {
        b: block_name(machine, b) if several else block_name(machine, b).partition(" ")[2] for b in blocks
    }
    reported: list[tuple[int, str]] = []
    for field, words in _DID.items():
        times = np.asarray(ops[field])[of]
        done = of[(times >= 0) & (times <= engine.now_ps)]
        newest = done[np.argsort(np.asarray(ops[field])[done], kind="stable")][-_MOST:]
        for op in newest:
            row, text = ops[op], words[int(ops["kind"][op])]
            phase = f" ({names[int(row.phase)]})" if names else ""
            if text:
                reported.append(
                    (int(row[field]), f"{name[int(row.block)]} {text}: operation {int(row.number)}{phase}")
                )
    return reported
