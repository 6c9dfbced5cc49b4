"""Routes over an infrastructure that change while messages are sent.

Whole messages that wait for a link that is down, or have yet to come to one, are sent again by their
source; those under way before it turn round at the next node, as their source learns of the failure
then. What is being sent over a link arrives. Of a message that goes in quanta, its source sends again those
that have not crossed the link, and those on their way to it are lost. Without congestion no message waits
for a link: only those sent from now on take other routes.

A link is all parallel lanes between the same nodes, so that one without some of them is another link. Tables
only grow: links, hops and routes keep their numbers, and routes that are left have no key.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from astranb.core.arrays import distinct
from astranb.core.jit import Records
from astranb.core.state import allocate, own
from astranb.core.timesteps import put_event
from astranb.engine.edits import Edit
from astranb.engine.operations import About
from astranb.net import DOWN, MESSAGE_ROUTE, WIRE, Fabric, MessageRoutes, message_routes, route_of
from astranb.workload.astrasim2 import InfraNetwork

from . import tables as t
from .link_names import LinkNames
from .network import communicating_pairs, mark_shared
from .transport import free_message, quantum_of, row_at_link

__all__ = ["RoutedLinks", "closed_lanes", "mark_again", "renamed", "rerouted"]

_LEFT = -1
"""Key of a route that no new message takes."""

_ITSELF = -1
"""Of a message that goes as a whole: it is a part of no other."""


class RoutedLinks:
    """The links of an infrastructure, as routes over it have changed.

    Parameters
    ----------
    network : InfraNetwork
    """

    def __init__(self, network: InfraNetwork) -> None:
        self.network = network
        self._known: dict[int, MessageRoutes] = {}  # by the length of the table of routes
        self._over: tuple[MessageRoutes | None, dict[int, list[int]]] = (None, {})  # the links of each lane

    @property
    def fabric(self) -> Fabric:
        """All lanes of the infrastructure."""
        return self.network.fabric

    def copy(self) -> RoutedLinks:
        """Those of a run with another future."""
        other = RoutedLinks(self.network)
        other._known = dict(self._known)
        return other

    def known(self, machine: t.MessageMachine) -> MessageRoutes:
        """The routes that are in a machine's tables."""
        if len(machine.routes) not in self._known:  # those of its start
            self._known[len(machine.routes)] = message_routes(
                self.fabric, _pairs(machine.routes, self.network.npus), self.network.npus
            )
        return self._known[len(machine.routes)]

    def remember(self, machine: t.MessageMachine, found: MessageRoutes) -> None:
        """Keep what the tables of a machine were made of."""
        self._known[len(machine.routes)] = found

    def lanes_of(self, path: str) -> list[int]:
        """The lanes of a link, as :meth:`astranb.net.Fabric.find` reads its name."""
        return self.fabric.find(path)

    def over(self, machine: t.MessageMachine, lanes: Iterable[int]) -> tuple[int, ...]:
        """The links that have some of these lanes."""
        known = self.known(machine)
        if self._over[0] is not known:
            self._over = known, defaultdict(list)
            for link, own_lanes in enumerate(known.lanes):
                for lane in own_lanes:
                    self._over[1][lane].append(link)
        return tuple(sorted({link for lane in lanes for link in self._over[1].get(lane, ())}))

    def down_of(self, machine: t.MessageMachine, rows: Iterable[int], closed: frozenset[int]) -> list[bool]:
        """Return whether some links have lanes that are closed."""
        known = self.known(machine).lanes
        return [not closed.isdisjoint(known[row]) for row in rows]


def renamed(about: About, links: RoutedLinks, machine: t.MessageMachine) -> About:
    """The same with the names of all links that there are now."""
    other = copy.copy(about)
    other.links = LinkNames(links.fabric, links.known(machine).lanes)
    return other


def closed_lanes(links: RoutedLinks, machine: t.MessageMachine, edits: Iterable[Edit]) -> frozenset[int]:
    """The lanes that are down after some edits."""
    closed: set[int] = set()
    lanes = links.known(machine).lanes
    for edit in edits:
        if edit.field == "up" and edit.kind == "link":
            path = edit.path.removesuffix(".up")
            some = (
                links.lanes_of(path) if "->" in path else [lane for row in edit.rows for lane in lanes[row]]
            )
            closed = closed - set(some) if edit.number else closed | set(some)
    return frozenset(closed)


def rerouted(
    machine: t.MessageMachine, links: RoutedLinks, closed: frozenset[int], at_ps: int, margin: tuple[int, int]
) -> t.MessageMachine:
    """Change the routes of a run.

    Parameters
    ----------
    machine : MessageMachine
        Its tables are changed, but for those that grow.
    links : RoutedLinks
    closed : frozenset of int
        Lanes that are down.
    at_ps : int
        When what waited goes on: now, or later where nothing else happens until then.
    margin : (int, int)
        The least number of unused rows of tables, as for :func:`.tables.enlarge`.
    """
    npus, before = links.network.npus, links.known(machine)
    found = message_routes(links.fabric.without(closed), _pairs(machine.routes, npus), npus, before)
    broken = np.array([not closed.isdisjoint(lanes) for lanes in found.lanes], bool)
    moved, turned = _affected(machine, broken)
    rows = _rows_of_quanta(machine)
    m = _grown(machine, found, len(before.lanes), links.network)
    m = t.enlarge(m, max(margin[0], len(moved) + 16 * len(rows)), margin[1])
    links.remember(m, found)
    # A link of which a lane is down takes in nothing.
    m.links.busy[: len(broken)] |= np.where(broken, DOWN, 0)
    at_ns = max(int(m.queue[0].now), -(-at_ps // 1000))
    for link, row in moved:
        route = _route(m, row, broken)
        if route is None:
            continue
        _leave(m, link, row)
        message = m.messages[row]
        message.heading, message.at = route.first_hop - 1, route.hops + 1
        message.first_ns = message.last_ns = at_ns
        put_event(m.queue, m.timesteps, m.pending, at_ns, (row << t.KIND_BITS) | t.HOP)
    for row in turned:
        route, message = _route(m, row, broken), m.messages[row]
        if route is not None:
            message.heading, message.at = route.first_hop - 1, route.hops + 1
            message.last_ns = message.first_ns
    for chain in rows:
        _resend(m, chain, broken, at_ns)
    return m


def _rows_of_quanta(m: t.MessageMachine) -> list[list[int]]:
    """The rows of each message that goes in quanta, from its source on; several where it was sent again."""
    used = t.in_use(m, "messages")
    rows = used[m.messages.whole[used] >= 0]
    found = []
    for row in np.setdiff1d(rows, m.messages.onward[rows]).tolist():
        found.append([row])
        while (following := int(m.messages[found[-1][-1]].onward)) >= 0:
            found[-1].append(following)
    return found


def _resend(m: t.MessageMachine, rows: list[int], broken: np.ndarray, at_ns: int) -> None:
    """Send the quanta of a message again by another route that have not crossed a broken link."""
    hops, last = np.asarray(m.hops.value), m.messages[rows[-1]]
    kept = len(rows)  # the first row whose quanta arrive by the old route
    if not broken[hops[last.heading + 1 : last.heading + last.at]].any():
        behind = [
            place
            for place, row in enumerate(rows)
            if broken[hops[m.messages[row].heading]] and m.messages[row].gone < m.messages[row].bytes
        ]
        if not behind:
            return
        kept = behind[-1]
    route = _route(m, rows[0], broken)
    if route is None:
        return
    whole = int(last.whole)
    quantum = quantum_of(int(m.messages[whole].bytes))
    crossed = int(m.messages[rows[kept]].gone) if kept < len(rows) else 0
    again = int(m.messages[rows[0]].bytes) - crossed
    for place, row in enumerate(rows):
        part = m.messages[row]
        if place <= kept and part.came > part.gone:
            _leave(m, int(hops[part.heading]), row)
            part.came = part.gone
        if place < kept:
            part.whole, part.bytes, part.crossed = t.NO_MESSAGE, -(-(part.gone - part.crossed) // quantum), 0
        else:
            part.bytes = crossed
        if part.bytes == part.crossed:
            free_message(m, row)
    source = row_at_link(m, whole, whole)
    part = m.messages[source]
    part.bytes = part.came = part.gone = again
    part.heading, part.at = route.first_hop - 1, route.hops + 1
    for _ in range(-(-again // quantum)):
        put_event(m.queue, m.timesteps, m.pending, at_ns, (source << t.KIND_BITS) | t.HOP)


def _pairs(routes: Records, npus: int) -> set[tuple[int, int]]:
    keys = distinct(np.asarray(routes.key)[(routes.key >= 0) & (routes["count"] > 0)])
    return {divmod(key, npus) for key in keys.tolist()}


def _affected(m: t.MessageMachine, broken: np.ndarray) -> tuple[list[tuple[int, int]], list[int]]:
    """Messages that wait for broken links, each with its link, and those that would come to one later."""
    moved: list[tuple[int, int]] = []
    turned: list[int] = []
    if not m.config[0].congestion:
        return moved, turned
    hops = np.asarray(m.hops.value)

    def later(row: int) -> bool:
        first, left = int(m.messages[row].heading), int(m.messages[row].at)
        return bool(broken[hops[first + 1 : first + left]].any())

    for link in np.flatnonzero(m.links["head"] >= 0).tolist():
        row = int(m.links[link].head)
        while row >= 0:
            whole = m.messages[row].whole == _ITSELF
            if whole and broken[link]:
                moved.append((link, row))
            elif whole and later(row):
                turned.append(row)
            row = int(m.messages[row].behind)
    for _, what in t.events_of(m).tolist():
        row = what >> t.KIND_BITS
        if (
            what & ((1 << t.KIND_BITS) - 1) == t.HOP
            and m.messages[row].src != m.messages[row].dst
            and m.messages[row].whole == _ITSELF
            and later(row)
        ):
            turned.append(row)
    return moved, turned


def _route(m: t.MessageMachine, row: int, broken: np.ndarray) -> np.record | None:
    """The route of a message from its source; None where it is broken, too."""
    message = m.messages[row]
    number = route_of(m.routes, int(message.src) * int(m.config[0].npus) + int(message.dst), int(message.tag))
    route = m.routes[number]
    hops = np.asarray(m.hops.value)[route.first_hop : route.first_hop + route.hops]
    return None if broken[hops].any() else route


def _leave(m: t.MessageMachine, link: int, row: int) -> None:
    """Take a message out of the queue of a link."""
    before, at = -1, int(m.links[link].head)
    while at != row:
        before, at = at, int(m.messages[at].behind)
    following = int(m.messages[row].behind)
    if before < 0:
        m.links[link].head = following
    else:
        m.messages[before].behind = following
    if following < 0:
        m.links[link].tail = before


def _grown(m: t.MessageMachine, found: MessageRoutes, had: int, network: InfraNetwork) -> t.MessageMachine:
    """Append routes, hops and links; the routes of pairs that have new ones lose their keys."""
    kept = np.flatnonzero((m.routes.key >= 0) & ~np.isin(m.routes.key, found.routes.key))
    new = np.concatenate([np.asarray(m.routes)[kept], np.asarray(found.routes)])
    routes = allocate(len(m.routes) + len(new), MESSAGE_ROUTE)
    routes[: len(m.routes)] = m.routes
    routes.key[: len(m.routes)] = _LEFT
    routes[len(m.routes) :] = new[np.argsort(new["key"], kind="stable")]
    hops = allocate(max(len(found.hops), 1), t.COUNTER)
    hops.value[: len(found.hops)] = found.hops
    changed = {"routes": routes, "hops": hops}
    count = len(found.lanes)
    if count > had:
        wires = allocate(count, WIRE)
        wires[:] = found.wires
        wires[:had] = m.wires[:had]
        changed["wires"] = wires
        changed["links"] = _longer(m.links, count)
        changed["links"].head[had:] = changed["links"].tail[had:] = -1
        if len(m.used) > 1 or m.watch[0].recording:
            changed["used"] = _longer(m.used, count)
    each = int(m.config[0].ports)
    most = 1 + max((number for of in (found.sends, found.receives) for mine in of.values()
                    for number in mine.values()), default=0)  # fmt: skip
    if each and most > each:
        ports = allocate(len(m.ports) // each * most, m.ports.dtype)
        ports.reshape(-1, most)[:, :each] = m.ports.reshape(-1, each)
        changed["ports"], changed["config"] = ports, own(m.config)
        changed["config"].ports = most
    grown = m._replace(**changed)
    mark_again(grown, network)
    return grown


def mark_again(m: t.MessageMachine, network: InfraNetwork) -> None:
    """Mark the routes whose links groups share, as the links are now: other ones, or faster or slower."""
    if not m.config[0].congestion:
        return
    pairs = communicating_pairs(
        m.operations, m.implementations, m.costs, m.groups, m.members, network.npus,
        compat=not m.config[0].exact_chunks,
    )  # fmt: skip
    mark_shared(m.routes, np.asarray(m.hops.value), m.wires, pairs, network)


def _longer(table: Records, count: int) -> Records:
    longer = allocate(count, table.dtype)
    longer[: len(table)] = table
    return longer
