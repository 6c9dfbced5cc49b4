"""Routes that change while a run goes: what is sent, and what waits, avoids the links that are down.

It is what a subnet manager does, or a routing protocol when its forwarding tables have converged:

- What is issued from now on takes the shortest routes that are left.
- What waits for a link that is down, or would come to one, goes on from the node where it is; where there
  is no way from there (a switch that has failed), its source sends it again.
- A queue pair of a NIC has one path. Where this is broken, what has not passed the failure is sent again
  by its source, in order, as reliable connections do; other queue pairs keep their paths.
- On Ethernet what is sent again gives back the room that it took in switches, which may end pauses, and
  counts against the rate of its flow once more. What enters by the same link for the same GPU keeps its
  rate, and so does a flow inside the network; one that enters by another link begins at the line's rate.
- What is added up in switches (multimem) keeps its plane, and waits.

Tables of routes and flows only grow: requests under way keep rows of their own, with what they have passed
before, so that a response and a notification of congestion find their way.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from astranb.core.jit import Records
from astranb.core.queue import new_queue, refill
from astranb.core.state import allocate, own
from astranb.gpu import free_buffer, go_on, wire_size
from astranb.gpu import tables as t
from astranb.net import CLASSES, NEVER, Fabric

from .faults import entered, events_of, starts_of
from .machine import CacheLineMachine
from .routes import RemoteOperands, enter_routes, flows_of, remote_operands

__all__ = ["rerouted"]


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
    work.choose_routes()
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
        self._moved: dict[int, None] = {}  # go on from where they are, on another route
        self._again: dict[int, None] = {}  # are sent again by their source, in this order

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
        """Return a mask of remote operands to reroute: those of a queue pair only if its path is broken."""
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

    def choose_routes(self) -> None:
        """Reroute requests under way whose routes are broken or whose operand's have changed."""
        m = self._machine
        self._waiting = self._take_off()
        broken_before = np.concatenate([[0], np.cumsum(self._down[np.array(self._links, np.int64)])])
        rows = np.flatnonzero((m.requests["live"] == 1) & (m.requests["route"] >= 0))
        if m.clock[0].detailed:
            rows = rows[(m.details["children"][rows] <= 0) & (m.details["parent"][rows] < 0)]
        for number in rows.tolist():
            request = m.requests[number]
            hop, last = int(request.hop), self._ends[int(request.route)][1]
            broken = broken_before[last] > broken_before[hop]
            changed = not request.returning and self._changed[int(request.operand)]
            if broken and changed and self._is_queue_pair(number):
                self._again[number] = None
            elif broken and self._detour(number):
                self._moved[number] = None
            elif broken and self._from_its_source(number) >= 0:
                self._again[number] = None
            elif changed:
                self._follow(number, self._links[hop:last])
        columns = (m.requests["issued_ps"], m.requests["line"])
        order = sorted(self._again, key=lambda number: tuple(int(column[number]) for column in columns))
        self._again = dict.fromkeys(order)
        for number in order:
            request = m.requests[number]
            request.route = self._from_its_source(number)
            request.hop, request.leg, request.link = self._ends[int(request.route)][0], t.ON_FABRIC, -1
            request.arrives_ps = self._at_ps

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
        """Reroute a request from where it is; false where there is no route."""
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
        """Write a request's own route: the links that it has crossed, and those that it takes from there."""
        request = self._machine.requests[number]
        passed = self._links[self._ends[int(request.route)][0] : int(request.hop)]
        key = (*passed, *links)
        if key not in self._added:
            self._added[key] = len(self._ends)
            self._ends.append((len(self._links), len(self._links) + len(key)))
            self._links += key
        request.route = self._added[key]
        request.hop = self._ends[self._added[key]][0] + len(passed)

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
        return found

    def _leave(self, one: np.record, link: int) -> list[int]:
        """Take requests out of a list in which they wait for a link that they do not take; return them."""
        m, kept, left = self._machine, list[int](), list[int]()
        number = int(one.head)
        while number >= 0:
            request = m.requests[number]
            other = request.leg == t.ON_FABRIC and self._links[int(request.hop)] != link
            (left if other or number in self._again else kept).append(number)
            number = int(request.next_free)
        if left:
            one.waiting = len(kept)
            one.head, one.tail = (kept[0], kept[-1]) if kept else (-1, -1)
            m.requests["next_free"][kept] = [*kept[1:], -1] if kept else []
        return left

    def _leave_queues(self) -> list[int]:
        """Take requests out of the queues of links, and of flows that wait for their rate."""
        m, found = self._machine, list[int]()
        for queue in np.flatnonzero(m.queues["waiting"] > 0).tolist():
            left = self._leave(m.queues[queue], queue // CLASSES)
            waited_ps = sum(self._at_ps - int(m.details[number].offered_ps) for number in left)
            m.links[queue // CLASSES].queued_ps += waited_ps
            if m.roce[0].on:
                m.queues[queue].bytes -= sum(wire_size(m.gpus, m.requests, number) for number in left)
            found += left
        for flow in np.flatnonzero(m.flows["waiting"] > 0).tolist():
            found += self._leave(m.flows[flow], int(m.flows[flow].link))
        return found

    def _events(self) -> list[tuple[int, int, int]]:
        """The events to come: those taken off, and those sent again, come to a link."""
        m, taken, events = self._machine, set(self._waiting), []
        idle = self._down.copy()  # for which nothing waits any more
        if m.clock[0].managed:
            idle &= ~m.queues["waiting"].reshape(-1, CLASSES).any(axis=1)
            m.links["awake"][idle] = 0
        for when, kind, arg in events_of(m):
            of_request = kind in (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH)
            if (
                (of_request and (arg in taken or arg in self._again))
                or (kind == t.WIRE and idle[arg])
                or (kind == t.RATE_RELEASE and not m.flows[arg].waiting)
            ):
                continue
            late = of_request and arg in self._moved and when < self._at_ps
            events.append((self._at_ps if late else when, kind, arg))
        events += [(self._at_ps, t.HOP, number) for number in self._waiting if number not in self._again]
        events += [(self._at_ps, t.HOP, number) for number in self._again]
        events.sort(key=lambda event: event[0])
        return events

    def made(self) -> CacheLineMachine:
        """The machine with its new routes, and with requests and events where they are then."""
        m = self._machine
        if m.clock[0].managed:
            self._waiting += self._leave_queues()
        events = self._events()
        routes = allocate(len(self._ends), t.ROUTE)
        routes["first"], routes["last"] = np.array(self._ends, np.int64).T
        routes["flow"] = -1
        links = own(np.array(self._links, m.route_links.dtype))
        tables: dict[str, Records] = {"routes": routes, "route_links": links}
        if m.roce[0].dcqcn:
            tables["flows"] = flows_of(self._fabric, routes, links, m.flows)
            more = len(tables["flows"]) - len(m.flows)
            if more > 0:
                queue = new_queue(m.clock, len(m.event_queue.near) + 2 * more)
                tables |= {name: getattr(queue, name) for name in ("near", "later", "slots", "far")}
        made = m.with_routes(tables)
        refill(made.event_queue, events)
        for number in self._again:
            if m.clock[0].finite:
                free_buffer(made, number)
            if m.roce[0].on:
                go_on(made, number, -1, 0)
                m.details[number].marked = 0
        return made
