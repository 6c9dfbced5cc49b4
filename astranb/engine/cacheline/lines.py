"""Positions of the lines under way: the link they queue at or cross, or the memory that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.core.plural import plural
from astranb.core.queue import ARGUMENTS, live
from astranb.core.ticks import transfer_ps
from astranb.core.units import format_time
from astranb.gpu import least_wire_ps, wire_size
from astranb.gpu import tables as t
from astranb.net import CLASSES

from .machine import CacheLineMachine, busy_until
from .paths import block_path, gpu_path, link_name
from .state import CacheLineState

__all__ = ["Lines", "Spot", "describe_line", "entrance_of", "utilisation"]

_OF_REQUESTS = (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH)


@dataclass(frozen=True, slots=True)
class Spot:
    """Position of a line.

    Attributes
    ----------
    cause : str
        As on a critical path (:data:`~astranb.sim.CAUSES`), ``held`` or ``absent``.
    path : str
        The link, GPU or switch.
    text : str
        In words.
    since_ps : int
        Since when, as far as it is known; -1 where not.
    until_ps : int
        The later time that the text names; -1 where it names none.
    """

    cause: str
    path: str
    text: str
    since_ps: int = -1
    until_ps: int = -1


class Lines:
    """Finds the lines under way in the present state of a simulation.

    Parameters
    ----------
    engine : CacheLineState
    """

    def __init__(self, engine: CacheLineState) -> None:
        self._engine = engine
        machine = engine.machine
        events = live(machine.event_queue)
        kinds, args = events[:, 1] // ARGUMENTS, events[:, 1] % ARGUMENTS
        self.next: dict[int, tuple[int, int]] = {}  # of a request: kind and time of its next event
        self.next_issue: dict[int, int] = {}  # of an SM
        self.fences: dict[int, int] = {}  # of a block: when its fence is over
        for time_ps, kind, arg in zip(events[:, 0].tolist(), kinds.tolist(), args.tolist(), strict=True):
            if kind in _OF_REQUESTS:
                self.next[arg] = (kind, time_ps)
            elif kind == t.ISSUE:
                self.next_issue[arg] = time_ps
            elif kind == t.FENCE:
                self.fences[arg] = time_ps
        self._held = self._queued() if machine.clock[0].managed else {}

    def _queued(self) -> dict[int, tuple[int, int]]:
        """Requests in the queues of managed links: (queue, how many are before it)."""
        machine, found = self._engine.machine, dict[int, tuple[int, int]]()
        for queue in np.flatnonzero(machine.queues["waiting"] > 0).tolist():
            found |= {request: (queue, before) for before, request in enumerate(machine.waiting(queue))}
        return found

    # What is under way -----------------------------------------------------------

    def of_block(self, block: int) -> np.ndarray:
        """Requests of a thread block, the oldest first."""
        machine = self._engine.machine
        owner = machine.warps["block"][machine.requests["warp"]]
        return self._oldest((machine.requests["live"] == 1) & (owner == block))

    def of_sm(self, sm: int) -> np.ndarray:
        """Requests of the blocks on an SM, the oldest first."""
        machine = self._engine.machine
        owner = machine.warps["block"][machine.requests["warp"]]
        return self._oldest((machine.requests["live"] == 1) & (machine.blocks["sm"][owner] == sm))

    def of_op(self, op: int, kind: int) -> np.ndarray:
        """Requests of a kind of an operation that have not been answered, the oldest first."""
        requests = self._engine.machine.requests
        going = (requests["live"] == 1) & (requests["op"] == op) & (requests["kind"] == kind)
        return self._oldest(going & (requests["returning"] == 0))

    def on_links(self, links: tuple[int, ...]) -> np.ndarray:
        """Requests on links or in their queues, in the order of their arrival."""
        requests = self._engine.machine.requests
        on = (requests["live"] == 1) & np.isin(requests["link"], links)
        found = np.flatnonzero(on & (requests["arrives_ps"] >= self._engine.now_ps))
        found = found[np.argsort(requests["arrives_ps"][found], kind="stable")]
        held = [r for r, (queue, _) in self._held.items() if queue // CLASSES in links]
        return np.concatenate([found, np.array(held, np.int64)])

    def _oldest(self, which: np.ndarray) -> np.ndarray:
        found = np.flatnonzero(which)
        return found[np.argsort(self._engine.machine.requests["issued_ps"][found], kind="stable")]

    # Where one is -------------------------------------------------------------------

    def spot(self, request: int) -> Spot:
        """Find where a request is now."""
        engine = self._engine
        row, now_ps = engine.machine.requests[request], engine.now_ps
        if request in self._held:
            return self._waits(request)
        if request not in self.next:
            return self._unseen(request)
        kind, then_ps = self.next[request]
        if self._on_link(row) and int(row.arrives_ps) > now_ps:
            return self._crosses(request)
        if kind == t.HBM:
            gpu = gpu_path(engine.fabric, int(row.target))
            return Spot("L2", gpu, f"missed in the L2 of GPU{row.target}, on to memory")
        answers = kind == t.RETURN or (kind == t.HOP and row.returning)
        if answers and not self._on_link(row) and self._ready_ps(row) > now_ps:
            return self._served(row)
        rank = int(row.gpu) if bool(row.returning) == self._on_link(row) else int(row.target)
        if kind == t.SWITCH or (kind == t.HOP and self._on_link(row)):
            node = int(engine.machine.links[int(row.link)].dst)
            name = engine.fabric.graph.name(node)
            text = f"in {name}, which passes it on at {format_time(then_ps)}"
            return Spot("switch", name, text, until_ps=then_ps)
        where = gpu_path(engine.fabric, rank)
        text = f"crossing the chip of GPU{rank} until {format_time(then_ps)}"
        return Spot("on chip", where, text, until_ps=then_ps)

    def _on_link(self, row: Any) -> bool:
        """Return whether it has crossed, or is on, a link of its present route."""
        routes = self._engine.machine.routes
        return bool(row.route >= 0 and row.link >= 0 and row.hop > routes[int(row.route)].first)

    def _ready_ps(self, row: Any) -> int:
        """Return the time at which the memory has served the line."""
        if row.route < 0:
            return int(row.arrives_ps)
        gpu = self._engine.machine.gpus[int(row.target)]
        return int(row.arrives_ps) - (0 if gpu.mesh else int(gpu.noc_ps))

    def _served(self, row: Any) -> Spot:
        gpu = gpu_path(self._engine.fabric, int(row.target))
        ready_ps = self._ready_ps(row)
        text = f"served by the memory of GPU{row.target} (L2, or HBM behind it) until {format_time(ready_ps)}"
        return Spot("L2", gpu, text, until_ps=ready_ps)

    def _crosses(self, request: int) -> Spot:
        """On the wire of a link, or in its queue."""
        engine = self._engine
        machine, now_ps = engine.machine, engine.now_ps
        row = machine.requests[request]
        number = int(row.link)
        link, name = machine.links[number], engine.fabric.name(number)
        start_ps = self.start_ps(request)
        arrives_ps = int(row.arrives_ps)
        arrives = format_time(arrives_ps)
        if start_ps > now_ps:
            ahead = (
                f"{plural(self._ahead(request), 'line')} ahead, "
                f"{utilisation(engine, (number,)):.0%} busy so far"
            )
            text = f"in the queue of {name}: {ahead}; sent at {format_time(start_ps)}"
            return Spot("queue", name, text, until_ps=start_ps)
        if arrives_ps - int(link.latency_ps) > now_ps:
            text = f"being sent over {name}, arrives at {arrives}"
            return Spot("wire", name, text, start_ps, arrives_ps)
        return Spot("latency", name, f"on {name}, arrives at {arrives}", start_ps, arrives_ps)

    def start_ps(self, request: int) -> int:
        """Return the time at which the first bit of a request enters its link."""
        machine = self._engine.machine
        row = machine.requests[request]
        link = machine.links[int(row.link)]
        size = wire_size(machine.gpus, machine.requests, request)
        least_ps = least_wire_ps(machine, request, int(row.link), size)
        wire_ps = max(transfer_ps(size, int(link.bandwidth_Bps)), least_ps)
        return int(row.arrives_ps) - int(link.latency_ps) - wire_ps

    def _ahead(self, request: int) -> int:
        requests = self._engine.machine.requests
        row, latency_ps = requests[request], self._engine.machine.links["latency_ps"]
        same = (requests["live"] == 1) & (requests["link"] == row.link)
        waits = requests["arrives_ps"] - latency_ps[int(row.link)] > self._engine.now_ps
        return int((same & waits & (requests["arrives_ps"] < row.arrives_ps)).sum())

    def _waits(self, request: int) -> Spot:
        """In the queue of a managed link."""
        engine = self._engine
        number, before = self._held[request]
        queue, link = engine.machine.queues[number], number // CLASSES
        name = link_name(engine.fabric, link)
        why = f"{utilisation(engine, (link,)):.0%} busy so far"
        if queue.paused:
            why = f"it is paused: {int(queue.stored):,} bytes wait behind it"
        elif engine.machine.clock[0].finite and queue.credits == 0:
            why = "no buffer is free behind it"
        since_ps = int(engine.machine.details[request].offered_ps)
        return Spot("queue", name, f"in the queue of {name}: {plural(before, 'line')} ahead, {why}", since_ps)

    def _unseen(self, request: int) -> Spot:
        """Nothing is queued to happen to it by itself."""
        engine = self._engine
        row = engine.machine.requests[request]
        gpu = gpu_path(engine.fabric, int(row.gpu))
        if row.returning == t.IN_VAIN:
            return Spot("absent", gpu, "its packet has not arrived: it is read again")
        if engine.machine.clock[0].detailed and engine.machine.details[request].children > 0:
            missing = int(engine.machine.details[request].children)
            node = int(engine.machine.links[int(row.link)].dst) if row.link >= 0 else -1
            name = str(engine.fabric.graph.name(node)) if node >= 0 else gpu
            answers = plural(missing, "answer of another GPU is", "answers of other GPUs are")
            return Spot("switch", name, f"in {name}: {answers} missing")
        return Spot("held", gpu, f"held back at GPU{row.gpu} by the rate of its flow")


def entrance_of(machine: CacheLineMachine, request: int) -> int:
    """The link in whose queue a request waits, else the one that it is on; -1 where it is at none."""
    row = machine.requests[request]
    if machine.clock[0].managed and row.route >= 0 and row.hop < machine.routes[int(row.route)].last:
        link = int(machine.route_links[int(row.hop)])
        if any(request in machine.waiting(link * CLASSES + number) for number in range(CLASSES)):
            return link
    return int(row.link)


def utilisation(engine: CacheLineState, links: Sequence[int] | np.ndarray) -> float:
    """The mean part of the time so far for which links were busy; 0 of no link."""
    busy = busy_until(engine.machine.links[list(links)], engine.now_ps)
    return float(busy.sum()) / (max(1, engine.now_ps) * max(1, len(busy)))


def describe_line(
    engine: CacheLineState, request: int
) -> tuple[list[tuple[str, Any]], list[dict[str, str]], list[str]]:
    """A line under way, for the inspector.

    Returns
    -------
    state : list of (label, text)
    children : list of {path, text}
        Its thread block, and where it is.
    route : list of str
        Links of its present route: those it has crossed, is on, and has still to cross.
    """
    machine, fabric = engine.machine, engine.fabric
    row = machine.requests[request]
    spot = Lines(engine).spot(request)
    block = int(machine.warps[int(row.warp)].block)
    op = machine.ops[int(row.op)]
    names = engine.program.phase_names
    state = [
        ("what", t.REQUEST_KINDS[int(row.kind)]),
        ("direction", "response" if row.returning else "request"),
        ("where", spot.text),
        ("issued", format_time(int(row.issued_ps))),
        ("under way for", format_time(engine.now_ps - int(row.issued_ps))),
        ("from", f"GPU{row.gpu}"),
        ("for memory of", f"GPU{row.target}"),
        ("operation", int(op.number)),
        *([("phase", names[int(op.phase)])] if names else []),
        ("bytes with header", int(row.bytes)),
    ]
    children = [
        {"path": path, "text": path}
        for path in dict.fromkeys((block_path(fabric, machine, block), spot.path))
    ]
    route = []
    if row.route >= 0:
        first, last = int(machine.routes[int(row.route)].first), int(machine.routes[int(row.route)].last)
        on = int(row.hop) - 1 if int(row.arrives_ps) > engine.now_ps else -1
        for place in range(first, last):
            done = "on it" if place == on else "crossed" if place < int(row.hop) else "to go"
            route.append(f"{fabric.name(int(machine.route_links[place]))}: {done}")
    return state, children, route
