"""Routes that change while a run goes: what is sent, and what waits, avoids the links that are down.

It is what a subnet manager does, or a routing protocol when its forwarding tables have converged:

- What is issued from now on takes the shortest routes that are left.
- What waits for a link that is down, or would come to one, goes on from the node where it is; where there
  is no way from there (a switch that has failed), its source sends it again.
- A queue pair of a NIC has one path. Where this is broken, what has not passed the failure is sent again
  by its source, in order, as reliable connections do; other queue pairs keep their paths.
- What is added up in switches (multimem) keeps its plane, and waits.

Tables of routes only grow: requests under way keep rows of their own, so that a response finds its way.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from astranb.core.errors import InputError
from astranb.core.queue import refill
from astranb.core.state import allocate, own
from astranb.gpu import tables as t
from astranb.gpu.wire import free_buffer, wire_size
from astranb.net import Fabric
from astranb.net.link import NEVER
from astranb.net.port import CLASSES

from .faults import entered, events_of, starts_of
from .machine import CacheLineMachine
from .routes import RemoteOperands, enter_routes, remote_operands

__all__ = ["check_reroute", "rerouted"]


def check_reroute(machine: CacheLineMachine) -> None:
    """Raise an error where routes cannot change.

    Raises
    ------
    InputError
        Links have Ethernet's flow control.
    """
    if machine.roce[0].on:
        what = "routes cannot change with Ethernet's flow control, whose rates and pauses belong to routes"
        raise InputError(what, where="reroute", hint="leave roce out")


def rerouted(machine: CacheLineMachine, fabric: Fabric, at_ps: int) -> CacheLineMachine:
    """Change the routes of a machine.

    Parameters
    ----------
    machine : CacheLineMachine
        Its tables are changed, but for those of routes.
    fabric : Fabric
    at_ps : int
        When what waited goes on: now, or later where nothing else happens until then.

    Returns
    -------
    CacheLineMachine
        With other tables of routes.
    """
    work = _Reroute(machine, fabric, max(at_ps, 0, int(machine.clock[0].now_ps)))
    work.change_operands()
    work.move_requests()
    return work.made()


class _Reroute:
    def __init__(self, machine: CacheLineMachine, fabric: Fabric, at_ps: int) -> None:
        self._machine, self._fabric, self._at_ps = machine, fabric, at_ps
        down = np.flatnonzero(machine.links["free_at_ps"][: len(fabric.links)] >= NEVER)
        self._open = fabric.without(down.tolist())
        self._down = np.zeros(len(machine.links), bool)
        self._down[down] = True
        self._links: list[int] = machine.route_links.tolist()
        self._ends: list[tuple[int, int]] = list(
            zip(machine.routes["first"].tolist(), machine.routes["last"].tolist(), strict=True)
        )
        self._added: dict[tuple[int, ...], int] = {}
        self._onward: dict[tuple[int, int], list[list[int]]] = {}

    # Operands ----------------------------------------------------------------

    def change_operands(self) -> None:
        """Enter the new routes of pairs in the operands of which they have changed."""
        m = self._machine
        sent = remote_operands(m.operands, m.ops, m.blocks, len(m.gpus))
        found, _ = self._open.routes(sent.pairs, partial=True)
        self._changed = np.zeros(len(m.operands), bool)  # whose requests have other routes
        first_row, first_link = len(self._ends), len(self._links)
        keys = (found.pairs @ np.array([sent.ranks, 1])).tolist()
        new = {key: found[tuple(pair)] for key, pair in zip(keys, found.pairs.tolist(), strict=True)}
        for way in ("out", "back"):
            some = self._other_routes(sent, way, new)
            enter_routes(m.operands, sent, found, way, some=some, first_row=first_row)
            if way == "out":
                self._changed[sent.rows[some]] = True
        self._links += found.links.tolist()
        self._ends += [(first_link + a, first_link + b) for a, b in pairwise(found.first_link.tolist())]

    def _other_routes(self, sent: RemoteOperands, way: str, new: dict[int, list[list[int]]]) -> np.ndarray:
        """Which remote operands get other routes: of a queue pair only where its path is broken."""
        operands = self._machine.operands[sent.rows]
        have = np.stack(
            [operands[f"{way}_route"], operands[f"{way}_routes"], getattr(sent, way), sent.queue_pair >= 0],
            axis=1,
        )  # fmt: skip
        kinds, which = np.unique(have, axis=0, return_inverse=True)
        other = []
        for row, count, pair, queue_pair in kinds.tolist():
            now = [self._links[slice(*self._ends[number])] for number in range(row, row + count)]
            broken = any(self._down[link] for one in now for link in one)
            other.append(pair in new and (broken if queue_pair else now != new[pair]))
        return np.array(other, bool)[which.reshape(-1)] if other else np.zeros(0, bool)

    # Requests under way ------------------------------------------------------

    def move_requests(self) -> None:
        """Give requests under way other routes, where theirs are broken or their operand's have changed."""
        m = self._machine
        waiting = self._take_off()
        after = self._down[np.array(self._links, np.int64)].cumsum() if self._links else np.zeros(0, np.int64)
        broken_before = np.concatenate([[0], after])
        again: list[int] = []  # are sent again by their source
        moved: dict[int, None] = {}
        rows = np.flatnonzero((m.requests["live"] == 1) & (m.requests["route"] >= 0))
        if m.clock[0].detailed:
            rows = rows[(m.details["children"][rows] <= 0) & (m.details["parent"][rows] < 0)]
        for number in rows.tolist():
            request = m.requests[number]
            hop, last = int(request.hop), self._ends[int(request.route)][1]
            broken = broken_before[last] > broken_before[hop]
            changed = not request.returning and self._changed[int(request.operand)]
            if broken and changed and self._is_queue_pair(number):
                again.append(number)
            elif broken and self._detour(number):
                moved[number] = None
            elif broken and self._from_its_source(number) >= 0:
                again.append(number)
            elif changed:
                self._follow(number, self._links[hop:last])
        columns = (m.requests["issued_ps"], m.requests["line"])
        again.sort(key=lambda number: tuple(int(column[number]) for column in columns))
        for number in again:
            request = m.requests[number]
            request.route = self._from_its_source(number)
            request.hop, request.leg, request.link = self._ends[int(request.route)][0], t.ON_FABRIC, -1
            request.arrives_ps = self._at_ps
        self._queue([*moved], again, waiting)
        if m.clock[0].finite:
            for number in again:
                free_buffer(m, number)

    def _is_queue_pair(self, number: int) -> bool:
        m = self._machine
        return bool(m.blocks[int(m.warps[int(m.requests[number].warp)].block)].engine == t.NIC)

    def _from_its_source(self, number: int) -> int:
        """The route of a request from its source, or of a response from its; -1 where it is broken, too."""
        request = self._machine.requests[number]
        way = "back" if request.returning else "out"
        operand = self._machine.operands[int(request.operand)]
        count = max(1, int(operand[f"{way}_routes"]))
        row = int(operand[f"{way}_route"]) + int(request.line) % count
        links = self._links[slice(*self._ends[row])]
        return -1 if any(self._down[link] for link in links) else row

    def _detour(self, number: int) -> bool:
        """Let a request go on from where it is; false where there is no way."""
        request, m = self._machine.requests[number], self._machine
        node = int(m.links[self._links[int(request.hop)]].src)
        target = int(request.gpu if request.returning else request.target)
        if (node, target) not in self._onward:
            self._onward[node, target] = self._open.routes_from(node, target)
        found = self._onward[node, target]
        if found:
            self._follow(number, found[int(request.line) % len(found)])
        return bool(found)

    def _follow(self, number: int, links: list[int]) -> None:
        """Give a request a route of its own."""
        key = tuple(links)
        if key not in self._added:
            self._added[key] = len(self._ends)
            self._ends.append((len(self._links), len(self._links) + len(key)))
            self._links += key
        request = self._machine.requests[number]
        request.route = self._added[key]
        request.hop = self._ends[self._added[key]][0]

    def _take_off(self) -> list[int]:
        """Take the requests off that wait for links that are down, as if they had not come to them."""
        m, found = self._machine, list[int]()
        for link in np.flatnonzero(self._down).tolist():
            row, taken = m.links[link], entered(m, link)
            starts = starts_of(m, link, taken, NEVER) - NEVER
            row.queued_ps += self._at_ps * len(taken) - int(starts.sum())
            row.messages -= len(taken)
            row.bytes -= sum(wire_size(m.gpus, m.requests, number) for number in taken.tolist())
            row.busy_ps -= row.free_at_ps - NEVER
            row.free_at_ps = NEVER
            m.requests["hop"][taken] -= 1
            m.requests["leg"][taken] = t.ON_FABRIC
            m.requests["link"][taken] = -1
            m.requests["arrives_ps"][taken] = self._at_ps
            found += taken.tolist()
            if not m.clock[0].managed:
                continue
            for queue in range(link * CLASSES, (link + 1) * CLASSES):
                held = list(m.waiting(queue))
                row.queued_ps += sum(self._at_ps - int(m.details[number].offered_ps) for number in held)
                m.queues[queue].head = m.queues[queue].tail = -1
                m.queues[queue].waiting = 0
                found += held
        return found

    def _queue(self, moved: list[int], again: list[int], waiting: list[int]) -> None:
        """Put the events of requests in order: those taken off, and those sent again, come to a link."""
        self._machine.links["awake"][self._down] = 0
        taken, delayed, sent = set(waiting), {*moved}, set(again)
        events = []
        for when, kind, arg in events_of(self._machine):
            of_request = kind in (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH)
            if (of_request and (arg in taken or arg in sent)) or (kind == t.WIRE and self._down[arg]):
                continue
            late = of_request and arg in delayed and when < self._at_ps
            events.append((self._at_ps if late else when, kind, arg))
        events += [(self._at_ps, t.HOP, number) for number in waiting if number not in sent]
        events += [(self._at_ps, t.HOP, number) for number in again]
        events.sort(key=lambda event: event[0])
        refill(self._machine.event_queue, events)

    def made(self) -> CacheLineMachine:
        """The machine with its new routes."""
        m = self._machine
        routes = allocate(len(self._ends), t.ROUTE)
        routes["first"], routes["last"] = np.array(self._ends, np.int64).T
        routes["flow"][: len(m.routes)], routes["flow"][len(m.routes) :] = m.routes["flow"], -1
        return m.with_routes(routes, own(np.array(self._links, m.route_links.dtype)))
