"""What may stand in the tables of a run of messages, and what its numbers have to do with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from astranb.core.rules import (
    ANY,
    COUNT,
    FLAG,
    TIME,
    Rule,
    Rules,
    between,
    check_fields,
    each,
    fixed,
    lists,
    maybe,
    ranges,
    require,
    row,
    until,
)
from astranb.core.timesteps import bucket_of
from astranb.net.astrasim2 import FULLY_CONNECTED, MESH, ROUTED, link_count, port_count

from . import tables as t
from .bus import LISTS, SIDES

__all__ = ["RULES", "check", "check_about"]

_MOST: Final = 1 << 24
"""More NPUs, dimensions or queues than any run has."""
_PLACE: Final = Rule(-1, _MOST)
_RATE: Final = between(1e-9, 1e18)
_WAIT: Final = between(0, 1e18)


RULES: Final[Rules] = {
    "config": {
        **each(fixed(between(1, _MOST)), "npus", "splits", "concurrent", "queues", "dims", "max_phases"),
        "lanes": fixed(between(1, 2)), "ports": fixed(between(0, _MOST)),
        **each(fixed(FLAG), "baseline", "rendezvous", "congestion", "routed", "exact_chunks", "every_dim",
        "bus", "cut_through"),
        **each(fixed(FLAG), "same_order"), "folded": fixed(between(0, 0)), "priority_step": fixed(between(-1,
        1)),
        "inter": fixed(between(t.ASCENDING, t.THEMIS_FLEX)), "intra": fixed(between(t.FIFO,
        t.SHORTEST_FIRST)),
        **each(fixed(COUNT), "endpoint_ns", "local_group_ns", "switch_ns", "bus_L", "bus_o", "bus_g"),
        **each(fixed(COUNT), "bus_reduce_ns", "memory_shared_by"),
        **each(fixed(between(0, 1e30)), "reduce_Bps", "bus_G"),
    },
    "clock": {
        **each(COUNT, "steps", "finished", "timers_left", "messages_left", "streams_left"),
        **each(COUNT, "messages", "bytes", "ended", "delivered", "phases"),
        "fired": until("npus"), "timer_npu": row("npus"), "head": Rule(-1, table="timers"),
        "cursor": maybe("timers"), "free_timer": until("timers"), "free_message": until("messages"),
        "free_stream": until("streams"), "no_route": between(0, 0),
    },
    "dims": {
        "kind": fixed(between(0, ROUTED)), **each(fixed(between(1, _MOST)), "nodes", "stride"),
        "latency_ns": _WAIT, "rate_Bpns": _RATE, **each(fixed(COUNT), "first_link", "back_link",
        "first_port"),
    },
    "implementations": {
        "algorithm": fixed(between(-1, t.ONE_SHOT)), "window": fixed(Rule(-1)),
        **each(fixed(between(0, _MOST)), "nodes", "stride"),
    },
    "npus": {
        "timers": maybe("timers"),
        **each(COUNT, "next_stream", "next_background", "ongoing", "ready", "compute_ns"),
        "priority": ANY, "end_ns": TIME, "first_dim": row("schedule"),
    },
    "places": {"first": fixed(until("ready")), "ready": COUNT, "busy": FLAG},
    "queues": {"head": maybe("streams"), "running": COUNT, "granted": COUNT},
    "tails": each(maybe("streams"), "value", "newest"),
    "allocators": each(COUNT, "around", "first", "last"),
    "trees": {"value": COUNT},
    "groups": {"first": fixed(until("members")), "count": fixed(COUNT), "outer": fixed(row("schedule")),
        **each(fixed(between(1, _MOST)), "rails", "chain")},
    "members": {"value": fixed(row("npus"))},
    "group_streams": {"value": COUNT},
    "operations": {
        "npu": fixed(row("npus")), "kind": fixed(between(t.COMPUTE, t.DELAY)),
        "place": fixed(between(0, t.ON_NOTHING)), "duration_ns": COUNT, "bytes": fixed(COUNT),
        "peer": fixed(Rule(-1)), **each(fixed(), "tag", "involved", "priority"),
        "collective": fixed(Rule(-1, t.COLLECTIVES - 1)), "group": fixed(maybe("groups")), "waits": TIME,
        "ring": fixed(maybe("groups")), "rings": fixed(between(1, _MOST)),
        "first_child": fixed(until("children")), "children": fixed(COUNT), **each(COUNT, "streams",
        "streams_done"),
        **each(TIME, "start_ns", "end_ns"), **each(maybe("operations"), "next"),
        **each(fixed(maybe("operations")), "custom", "owner"), "customs": COUNT, "stream": row("streams"),
    },
    "children": {"value": fixed(row("operations"))},
    "ready": {"value": row("operations")},
    "memories": {"head": maybe("operations"), "running": FLAG, "granted": ANY},
    "streams": {
        "npu": row("npus"), "tag": ANY, "operation": row("operations"), "priority": ANY,
        **each(COUNT, "phase", "phases"), "queue": maybe("queues"), "running": FLAG, "largest": COUNT,
        "before": maybe("streams"), "next": until("streams"), "algorithm": between(0, t.ROOTED),
        "collective": between(0, t.COLLECTIVES - 1), **each(between(0, _MOST), "nodes", "stride"),
        **each(_PLACE, "index", "origin", "parent", "node", "packet_peer", "state"),
        "left": Rule(-1, 1 << 40), "right": _PLACE, "group": maybe("groups"), "direction": between(-1, 1),
        **each(COUNT, "message_bytes", "packet_bytes"), **each(Rule(-_MOST, 1 << 50), "to_send", "free"),
        **each(COUNT, "inserted", "sent", "received", "window", "delay_ns"),
        **each(ANY, "plain", "reduced"), "toggle": FLAG, "distance": COUNT, "doubling": FLAG,
        **each(TIME, "queued_ns", "begun_ns"), **each(between(0, 0), "block", "strand"),
    },
    "phases": {
        "algorithm": between(0, t.ROOTED), "collective": between(0, t.COLLECTIVES - 1),
        **each(between(0, _MOST), "nodes", "stride"), "group": maybe("groups"), "bytes": COUNT,
        "queue": COUNT,
        "direction": between(-1, 1), "window": Rule(-1), "tree": FLAG,
    },
    "timers": {
        "time": COUNT, "kind": between(t.BUNDLE, t.SWITCH_DONE), **each(COUNT, "arg", "bytes"),
        "next": until("timers"), "later": maybe("timers"), "tail": row("timers"),
        **each(between(0, 0), "block", "strand"),
    },
    "messages": {
        **each(maybe("npus"), "src"), "dst": Rule(-1, 1 << 40), "tag": Rule(-1), "bytes": COUNT,
        **each(COUNT, "sent", "posted"), **each(COUNT, "sender", "receiver"), "next": until("messages"),
        "behind": Rule(-1, _MOST), "at": COUNT, "heading": COUNT,
        **each(COUNT, "first_ns", "last_ns"),
    },
    "buckets": each(maybe("messages"), "head", "tail"),
    "links": {"busy": between(0, 3), **each(maybe("messages"), "head", "tail"), "free_ns": _WAIT},
    "routes": {
        "key": fixed(Rule(0, 1 << 50)), "count": fixed(COUNT), "first_hop": fixed(until("hops")),
        "hops": fixed(COUNT), "latency_ns": fixed(_WAIT), "rate_Bpns": fixed(between(0, 1e18)),
        "gap_ns": fixed(_WAIT), **each(fixed(COUNT), "out", "into"),
        **each(fixed(Rule(-1)), "out_narrow", "into_narrow"),
        **each(fixed(until("hops")), "narrow_hop", "last_narrow_hop"),
    },
    "ports": {"free_ns": _WAIT},
    "hops": {"value": fixed(row("links"))},
    "wires": {"latency_ns": _WAIT, "rate_Bpns": between(0, 1e18), "gap_ns": fixed(_WAIT)},
    "schedule": {
        **each(row("schedule"), "order", "dim"), "nodes": fixed(between(1, _MOST)), "rate": _RATE,
        "load": between(-1e300, 1e300), "nodes_of_load": COUNT, "links": fixed(row("dims")),
    },
    "grants": {**each(until("messages"), "head", "tail"), **each(COUNT, "first", "last")},
    "bus": {
        **each(between(0, 2), "state", "previous"), "last_ns": TIME, **each(COUNT, "reads", "receiving"),
        "busy": FLAG,
    },
    "bus_lists": each(maybe("messages"), "head", "tail"),
    "queue": {
        "now": COUNT, **each(maybe("timesteps"), "open", "latest"), "heaped": until("timesteps"),
        "free_timestep": until("timesteps"), "free_event": until("pending"), **each(COUNT, "events_left",
        "turns"),
    },
    "timesteps": {
        "time": COUNT, **each(maybe("pending"), "head", "tail"), "next": until("timesteps"),
        "heap": row("timesteps"), "bucket": maybe("timesteps"),
    },
    "pending": {"what": COUNT, "next": until("pending")},
    "watch": {**dict.fromkeys(t.WATCH.names or (), ANY), "recording": FLAG, "passed": COUNT,
    "flights": COUNT},
    "points": dict.fromkeys(t.POINT.names or (), ANY),  # written before the loop is called
    "passed": {**dict.fromkeys(t.PASSED.names or (), ANY), "npu": row("npus"),
    "operation": row("operations")},
    "traffic": each(COUNT, "messages", "bytes", "crossed"),
    "used": each(COUNT, "messages", "bytes", "busy_ns"),
    "moving": dict.fromkeys(t.MOVING.names or (), ANY),
    "flights": {
        **dict.fromkeys(t.FLIGHT.names or (), ANY), "link": Rule(t.ONE_LINK - 2 * _MOST, 1 << 40),
        **each(maybe("npus"), "src", "dst"), "operation": maybe("operations"), "route": maybe("routes"),
    },
    "drawn": {"value": FLAG},
    "meeting": dict.fromkeys(t.TIE.names or (), fixed(between(0, 0))),
    "fold": dict.fromkeys(t.FOLDED.names or (), fixed(between(0, 0))),
    "last_use": dict.fromkeys(t.LAST_USE.names or (), fixed(between(0, 0))),
}  # fmt: skip

_GROWING: Final = ("streams", "phases", "timers", "messages", "timesteps", "pending")
_RECORDED: Final = ("passed", "traffic", "used", "moving", "flights", "drawn")
_MASK: Final = (1 << t.KIND_BITS) - 1


def check(machine: Any, start: Any = None) -> None:
    """Refuse a state in which a number would lead machine code astray.

    Parameters
    ----------
    machine : MessageMachine
    start : MessageMachine, optional
        The same run at its start; where not given, ``machine`` is that start.

    Raises
    ------
    InputError
        It names the table, field and row.
    """
    for name in ("config", "clock", "queue", "watch"):
        require(len(getattr(machine, name)) == 1, f"the length of {name}")
    rules = RULES if len(machine.operations) else _without_operations(machine)
    check_fields(machine._asdict(), rules, None if start is None else start._asdict())
    if start is None:
        _check_inputs(machine)
        require(machine.clock[0].steps == 0, "clock.steps")
    else:
        for name in (name for name in machine._fields if name not in (*_GROWING, *_RECORDED)):
            require(len(getattr(machine, name)) == len(getattr(start, name)), f"the length of {name}")
    _MessagesInUse(machine).check()


def _without_operations(machine: Any) -> Rules:
    """Return the rules of a run in which nothing happens: rows that would name an operation are not used."""
    require(machine.places.ready == 0, "places.ready")
    for name in ("streams", "messages", "timers"):
        require(machine.clock[0][f"{name}_left"] == len(getattr(machine, name)), f"clock.{name}_left")
    return {
        table: {
            name: replace(rule, table="", high=0) if rule.table == "operations" else rule
            for name, rule in fields.items()
        }
        for table, fields in RULES.items()
    }


def check_about(about: Any, base_ns: Any, machine: Any) -> None:
    """Refuse a description of operations that does not fit their table.

    Parameters
    ----------
    about : About
    base_ns : ndarray
        Their durations at first.
    machine : MessageMachine
    """
    o = machine.operations
    count = len(o)
    for name in ("npu", "kind", "collective", "size", "name", "first", "parents"):
        column = getattr(about, name)
        require(column.dtype == np.int64 and column.ndim == 1, f"the table of {name}")
        require(len(column) == count + (name == "first") or name == "parents", f"the length of {name}")
    require(base_ns.dtype == np.int64 and base_ns.shape == (count,), "the length of base_ns")
    require((base_ns >= 0) & (base_ns < 1 << 60), "base_ns")
    require(about.npu == o.npu, "npu")
    require(type(about.own) is int and 0 <= about.own <= count, "own")
    require((np.arange(count) < about.own) == (o.owner < 0), "own")
    require(np.diff(about.npu[: about.own]) >= 0, "npu")
    require((about.kind >= t.COMPUTE) & (about.kind <= t.DELAY), "kind")
    require((about.collective >= -1) & (about.collective < t.COLLECTIVES), "collective")
    require((about.kind != t.COLLECTIVE) | (about.collective >= 0), "collective")
    require((about.size >= 0) & (about.size < 1 << 60), "size")
    require((about.name >= -1) & (about.name < len(about.names)), "name")
    require(about.first[0] == 0 and about.first[-1] == len(about.parents), "first")
    require(np.diff(about.first) >= 0, "first")
    require((about.parents >= 0) & (about.parents < count), "parents")
    require(isinstance(about.infra, str), "infra")
    for name in ("names", "topology", "links"):
        words = getattr(about, name)
        require(isinstance(words, list) and all(one is None or isinstance(one, str) for one in words), name)


def _check_inputs(m: Any) -> None:
    """Refuse tables that do not fit the numbers of NPUs, dimensions and queues."""
    c = m.config[0]
    npus, dims, queues, lanes = int(c.npus), int(c.dims), int(c.queues), int(c.lanes)
    require(lanes == 1 + int((m.operations.place == t.ON_BACKGROUND).any()), "config.lanes")
    lengths = {
        "npus": npus, "places": npus * t.PLACES, "tails": npus * lanes * dims * queues,
        "queues": npus * lanes * dims * queues, "allocators": npus * dims,
        "trees": npus * t.COLLECTIVES * dims, "implementations": t.COLLECTIVES * dims, "schedule": dims,
        "group_streams": lanes * len(m.members), "grants": lanes * dims * queues, "wires": len(m.links),
        "memories": npus, "bus": SIDES * npus if c.bus else 1, "ports": max(1, 2 * npus * int(c.ports)),
        "bus_lists": LISTS * (SIDES * npus if c.bus else 1),
    }  # fmt: skip
    for name, length in lengths.items():
        require(len(getattr(m, name)) == length, f"the length of {name}")
    require(c.max_phases == max(2 * dims, 1), "config.max_phases")
    require(len(m.dims) > 0, "the length of dims")
    i = m.implementations
    require(
        (i.algorithm < 0) | (i.nodes > 0) & (i.stride > 0) & (i.nodes * i.stride <= npus),
        "implementations.nodes",
    )
    require(m.groups["first"] + m.groups["count"] <= len(m.members), "groups.count")
    for group in m.groups:
        places = m.members.value[group["first"] :][: group["count"]]
        places = places // int(np.prod(m.schedule.nodes[: group["outer"]]))
        require(len(places) % group["rails"] == 0, "groups.rails")
        in_rows = places.reshape(-1, group["rails"])
        require(in_rows == in_rows[:, :1], "groups.rails")
        require(group["count"] % group["chain"] == 0, "groups.chain")
    _check_network(m, npus)
    o = m.operations
    require(o.first_child + o.children <= len(m.children), "operations.children")
    require(~np.isin(o.kind, (t.SEND, t.RECV)) | (o.peer >= 0) & (o.peer < npus), "operations.peer")
    collectives = np.flatnonzero(o.kind == t.COLLECTIVE)
    require(o.collective[collectives] >= 0, "operations.collective")
    for at in collectives.tolist():
        one = o[at]
        members = None
        if one.group >= 0:
            group = m.groups[one.group]
            members = m.members.value[group["first"] : group["first"] + group["count"]]
            require((members == one.npu).any(), "operations.group")
        if one.ring >= 0:
            require(0 <= one.ring <= len(m.groups) - one.rings, "operations.ring")
            for ring in m.groups[one.ring : one.ring + one.rings]:
                on_it = m.members.value[ring["first"] : ring["first"] + ring["count"]]
                require((on_it == one.npu).any(), "operations.ring")
        if one.collective >= t.BROADCAST and one.custom < 0:
            inside = 0 <= one.peer < npus if members is None else (members == one.peer).any()
            require(inside, "operations.peer")
    owned = o.owner >= 0
    own = np.flatnonzero(owned)
    above = o[o.owner[own]]
    require((own >= above.custom) & (own < above.custom + above.customs), "operations.owner")
    require((o.custom < 0) | (o.custom + o.customs <= len(o)) & (o.kind == t.COLLECTIVE), "operations.custom")
    for at in np.flatnonzero(o.custom >= 0).tolist():
        require(o.owner[o.custom[at] : o.custom[at] + o.customs[at]] == at, "operations.customs")
    parents = np.repeat(np.arange(len(o)), o.children)
    child = m.children.value[ranges(o.first_child, o.children)]
    require(o.npu[child] == o.npu[parents], "children.value")
    require(o.owner[child] == o.owner[parents], "children.value")
    key = (o.npu * t.PLACES + o.place)[~owned]
    room = np.bincount(key, minlength=len(m.places))
    require(m.places["first"] == np.cumsum(room) - room, "places.first")
    require(room.sum() <= len(m.ready), "the length of ready")


def _check_network(m: Any, npus: int) -> None:
    """Links and routes lie within their tables."""
    c, dims = m.config[0], m.dims
    if c.routed:
        r = m.routes
        require(np.diff(r.key) >= 0, "routes.key")
        require(r.first_hop + r.hops <= len(m.hops), "routes.hops")
        require((r.hops > 0) | (r.count == 0), "routes.hops")
        # A key's first route has the number of its routes.
        first = np.searchsorted(r.key, r.key)
        last = np.searchsorted(r.key, r.key, "right")
        require(first + r.count[first] <= last, "routes.count")
        require((r.rate_Bpns > 0) | (r.count == 0), "routes.rate_Bpns")
        if not c.congestion:
            for name in ("out", "out_narrow", "into", "into_narrow"):
                require((r[name] < c.ports) | (r.count == 0), f"routes.{name}")
        return
    require(dims.stride == np.concatenate([[1], np.cumprod(dims.nodes)[:-1]]), "dims.stride")
    require(int(np.prod(dims.nodes.astype(object))) == npus, "dims.nodes")
    require(dims.kind < ROUTED, "dims.kind")
    if c.ports:
        counts = [port_count(int(dim.kind), int(dim.nodes)) for dim in dims]
        require(dims.first_port == np.cumsum([0, *counts[:-1]]), "dims.first_port")
        require(sum(counts) == c.ports and not c.congestion, "config.ports")
    if c.congestion:
        at = 0
        for dim in dims:
            count = link_count(int(dim.kind), int(dim.nodes), npus)
            require(dim.first_link == at, "dims.first_link")
            require(dim.kind == FULLY_CONNECTED or dim.back_link == at + npus, "dims.back_link")
            at += count
        require(at <= len(m.links), "the length of links")
        require(m.wires.rate_Bpns[:at] > 0, "wires.rate_Bpns")


class _MessagesInUse:
    """The tables of a state, and which of their rows are in use."""

    def __init__(self, m: Any) -> None:
        self.m = m
        self.npus = int(m.config[0].npus)

    def check(self) -> None:
        """Check everything."""
        m = self.m
        require(len(m.phases) == len(m.streams) * int(m.config[0].max_phases), "the length of phases")
        require(len(m.timesteps) == len(m.pending), "the length of timesteps")
        require(m.clock[0].finished == (m.npus.end_ns >= 0).sum(), "clock.finished")
        for name in ("around", "first", "last"):
            require(m.allocators[name] < m.config[0].queues, f"allocators.{name}")
        for name in ("pending", "buckets"):
            count = len(getattr(m, name))
            require(count > 0 and count & (count - 1) == 0, f"the length of {name}")
        clock = m.clock[0]
        self.timers = self._used("timers", clock.free_timer, clock.timers_left)
        self.messages = self._used("messages", clock.free_message, clock.messages_left)
        self.streams = self._used("streams", clock.free_stream, clock.streams_left)
        self.pending = self._used("pending", m.queue[0].free_event, m.queue[0].events_left)
        self._check_operations()
        self._check_streams()
        timers = self._check_timers()
        self._check_messages()
        self._check_queue(timers)
        watch = m.watch[0]
        if watch.recording:
            require(len(m.passed) > 0, "the length of passed")
            require(len(m.traffic) >= self.npus * len(m.dims), "the length of traffic")
            require(len(m.used) >= len(m.links), "the length of used")
            require(len(m.moving) == len(m.messages), "the length of moving")
            require(len(m.flights) > 0, "the length of flights")
            require(len(m.drawn) >= self.npus, "the length of drawn")

    def _used(self, name: str, free: int, left: int) -> np.ndarray:
        """Return which rows are in no list of unused rows, of which there must be so many."""
        rows = getattr(self.m, name)
        require(left <= len(rows), f"unused {name}")
        used = np.ones(len(rows), bool)
        used[lists([int(free)], rows["next"], f"lists of unused {name}", most=[int(left)])[0]] = False
        return used

    def _check_operations(self) -> None:
        """Operations that are ready wait for nothing, and each is in the heap of its place once."""
        m = self.m
        o, places = m.operations, m.places
        own = o.owner < 0
        key = o.npu * t.PLACES + o.place
        room = np.bincount(key[own], minlength=len(places))
        require(places.ready <= room, "places.ready")
        ready = m.ready.value[ranges(places["first"], places.ready)]
        require(key[ready] == np.repeat(np.arange(len(places)), places.ready), "ready.value")
        require(own[ready] & (o.waits[ready] == 0) & (o.start_ns[ready] < 0), "ready.value")
        require(np.bincount(ready, minlength=1) <= 1, "ready.value")
        require((o.waits <= 0) | (o.start_ns < 0), "operations.waits")
        shared = int(m.config[0].memory_shared_by)
        if shared:
            heads = m.memories.head
            for rows in lists(heads, o.next, "lists of memories"):
                require(o.kind[rows] == t.MEMORY, "memories.head")

    def _check_streams(self) -> None:
        """Each chunk under way is in one queue, at a phase of its own."""
        m, used = self.m, self.streams
        s, c = m.streams, m.config[0]
        found = lists(m.queues.head, s.next, "lists of streams")
        inside = np.zeros(len(s), bool)
        for queue, rows in enumerate(found):
            require(m.tails.value[queue] == (rows[-1] if rows else -1), "tails.value")
            require(m.tails.newest[queue] in {-1, *rows}, "tails.newest")
            if not rows:
                require(m.queues.running[queue] == 0, "queues.running")
                continue
            require(used[rows], "queues.head")
            require(s.queue[rows] == queue, "streams.queue")
            require(s.before[rows] == np.array([-1, *rows[:-1]]), "streams.before")
            require(s.next[rows[-1]] == -1, "streams.next")
            require(int(s.running[rows].sum()) == m.queues.running[queue], "queues.running")
            inside[rows] = True
        require(inside == used, "streams in use")
        in_use = np.flatnonzero(used)
        one = s[in_use]
        width = int(c.max_phases)
        require((one.phase >= 1) & (one.phase <= one.phases) & (one.phases <= width), "streams.phase")
        operation = m.operations[one.operation]
        require((operation.kind == t.COLLECTIVE) & (operation.npu == one.npu), "streams.operation")
        local = int(c.queues * c.dims * c.lanes)
        for at in range(width):
            some = in_use[one.phases > at]
            p = m.phases[some * width + at]
            self._check_phase(p, s.npu[some], m.operations[s.operation[some]], local)
        p = m.phases[in_use * width + one.phase - 1]
        require(one.queue == one.npu * local + p.queue, "streams.queue")
        for name in ("algorithm", "collective", "nodes", "stride", "group"):
            require(one[name] == p[name], f"streams.{name}")
        require(np.abs(one.direction) == np.abs(p.direction), "streams.direction")
        grouped = one.group >= 0
        for stream in one[grouped]:
            group = m.groups[stream.group]
            members = m.members.value[group["first"] : group["first"] + group["count"]]
            require(0 <= stream.index < len(members) and members[stream.index] == stream.npu, "streams.index")
        plain = one[~grouped]
        require(plain.index == plain.npu // plain.stride % plain.nodes, "streams.index")
        require(plain.origin == plain.npu - plain.index * plain.stride, "streams.origin")
        self._check_algorithms(one, p)

    def _check_phase(self, p: Any, npu: np.ndarray, operation: Any, local: int) -> None:
        """Check phases to come, under way or over."""
        m = self.m
        require(p.queue < local, "phases.queue")
        require((p.nodes >= 1) & (p.stride >= 1), "phases.nodes")
        ring = p.group - operation.ring
        whole = p.group == np.where(p.algorithm == t.CUSTOM, -1, operation.group)
        on_ring = (operation.ring >= 0) & (ring >= 0) & (ring < operation.rings)
        require(np.where(operation.ring < 0, whole, on_ring), "phases.group")
        grouped = p.group >= 0
        require(~grouped | (p.nodes == m.groups["count"][p.group]), "phases.nodes")
        last = npu - npu // p.stride % p.nodes * p.stride + (p.nodes - 1) * p.stride
        require(grouped | (last < self.npus), "phases.nodes")
        # What an operation does decides what its phases do, and with it who the root is.
        rooted = operation.collective >= t.BROADCAST
        chained = (p.algorithm == t.ROOTED) & (p.window == t.CHAINED)
        require(~chained | (operation.collective == t.ALL_REDUCE) & (p.group >= 0), "phases.window")
        rooted = rooted | chained
        require((p.algorithm == t.CUSTOM) | ((p.collective >= t.BROADCAST) == rooted), "phases.collective")
        require(
            ~rooted | chained | (p.algorithm == t.CUSTOM) | (p.collective == operation.collective),
            "phases.collective",
        )
        shaped = rooted & (p.window >= 0) & (p.window <= t.ROOTED)
        require((p.algorithm != t.ROOTED) | chained | shaped, "phases.window")
        require((p.algorithm != t.CUSTOM) | (operation.custom >= 0), "phases.algorithm")
        odd = p.nodes & (p.nodes - 1) > 0
        require(~((p.algorithm == t.TREE) & odd), "phases.algorithm")
        at = p.queue // int(m.config[0].queues) % int(m.config[0].dims)
        switch = p.algorithm == t.IN_NETWORK
        require(~switch | ~grouped & (m.dims.kind[m.schedule.links[at]] == 2), "phases.algorithm")

    def _check_algorithms(self, one: Any, p: Any) -> None:
        """Check the places of NPUs in their trees, and in the order from a root."""
        m = self.m
        tree = one[one.algorithm == t.TREE]
        which = p.tree[one.algorithm == t.TREE]
        half, shift = tree.nodes // 2, 1 - which
        root = np.where(which == 0, tree.nodes - 1, 0)
        is_root = tree.index == root
        number = tree.index + shift
        height = number & -number
        parent = np.where(number & (2 * height) == 0, number + height, number - height) - shift
        parent = np.where(number == half, root, parent)
        node = np.where(is_root, 2, np.where(height > 1, 1, 0))
        require(tree.node == node, "streams.node")
        require((tree.parent == parent) | is_root, "streams.parent")
        left = np.where(is_root, half - shift, np.where(height > 1, number - height // 2 - shift, tree.left))
        require(tree.left == left, "streams.left")
        require((tree.right == number + height // 2 - shift) | (node != 1), "streams.right")
        require(tree.state <= 6, "streams.state")
        rooted = one[one.collective >= t.BROADCAST]
        rooted = rooted[np.isin(rooted.algorithm, (t.ROOTED, t.IN_NETWORK))]
        require((rooted.parent >= 0) & (rooted.parent < rooted.nodes), "streams.parent")
        require((rooted.node >= 0) & (rooted.node < rooted.nodes), "streams.node")
        some = one[one.algorithm == t.ROOTED]
        require(some.left == p.window[one.algorithm == t.ROOTED], "streams.left")
        require((some.free >= 0) & (some.free <= some.nodes), "streams.free")
        steps = one[one.algorithm <= t.HALVING]
        require(steps.window <= np.maximum(1, steps.nodes), "streams.window")
        halving = one[one.algorithm == t.HALVING]
        require((halving.packet_peer >= 0) & (halving.packet_peer < self.npus), "streams.packet_peer")
        require(m.config[0].rendezvous >= 0, "config.rendezvous")

    def _check_timers(self) -> set[tuple[int, int]]:
        """Check the callbacks of NPUs; returns the NPU and time of each list of them."""
        m, timers, clock = self.m, self.m.timers, self.m.clock[0]
        heads = lists(m.npus.timers, timers.later, "lists of timers")
        found: set[tuple[int, int]] = set()
        firsts = [(npu, one) for npu, rows in enumerate(heads) for one in rows]
        current = int(clock.cursor)
        each = []
        for npu, one in firsts:
            rows = [one, current] if current >= 0 and one == clock.head else [one]
            each.append(rows)
            key = (npu, int(timers.time[one]))
            require(key not in found, "timers.time")
            found.add(key)
        # Of the list that expires now, the callbacks before the next one are free again.
        follows = [int(timers.next[one]) for _, one in firsts]
        if current >= 0:
            require((int(clock.timer_npu), int(clock.head)) in firsts, "clock.head")
            require(timers.time[clock.head] == m.queue[0].now, "clock.head")
            at = firsts.index((int(clock.timer_npu), int(clock.head)))
            follows[at] = current if current != clock.head else int(timers.next[current])
        chains = lists(follows, np.where(self.timers, timers.next, -1), "lists of timers")
        seen = np.zeros(len(timers), bool)
        for (npu, one), rows in zip(firsts, chains, strict=True):
            require(not seen[one], "lists of timers")
            require(not seen[rows].any() and one not in rows, "lists of timers")
            seen[one] = True
            seen[rows] = True
            require(timers.time[rows] == timers.time[one], "timers.time")
            require(timers.tail[one] == (rows[-1] if rows else one), "timers.tail")
            require(timers.next[rows[-1] if rows else one] == -1 or current == -2, "timers.next")
            del npu
        require(seen == self.timers, "timers in use")
        # The first callback of the list that expires now stays until the list is over.
        left = self.timers.copy()
        if current >= 0 and current != clock.head:
            left[clock.head] = False
        one = timers[left]
        count = len(m.operations)
        by_stream = np.isin(one.kind, (t.BUNDLE, t.BUNDLE_REDUCED, t.SWITCH_DONE))
        require(one.arg[by_stream] < len(m.streams), "timers.arg")
        require(self.streams[one.arg[by_stream]], "timers.arg")
        by_operation = np.isin(one.kind, (t.DONE, t.MEMORY_FREE, t.CUSTOM_DONE))
        require(one.arg[by_operation] < count, "timers.arg")
        custom = one.arg[one.kind == t.CUSTOM_DONE]
        require(m.operations.owner[custom] >= 0, "timers.arg")
        require(m.config[0].memory_shared_by > 0 or not (one.kind == t.MEMORY_FREE).any(), "timers.kind")
        by_side = np.isin(one.kind, (t.BUS_SENT, t.BUS_RECEIVED, t.BUS_PROCESSED))
        require(m.config[0].bus == 1 or not by_side.any(), "timers.kind")
        require(one.arg[by_side] < len(m.bus), "timers.arg")
        for kind, which in ((t.BUS_RECEIVED, 1), (t.BUS_PROCESSED, 2)):
            sides = one.arg[one.kind == kind]
            require(m.bus_lists.head[sides * LISTS + which] >= 0, "bus_lists.head")
        return found

    def _handlers(self, handlers: np.ndarray, what: str) -> None:
        """Check who is notified."""
        m = self.m
        who, about = handlers & _MASK, handlers >> t.KIND_BITS
        require(who <= t.REDUCING, what)
        require(about[who == t.NOBODY] <= len(m.groups), what)  # of a group's ring
        for kinds, name in (((t.STREAM, t.REDUCING), "streams"), ((t.OPERATION,), "operations"),
                            ((t.SENDING, t.RECEIVING), "messages")):  # fmt: skip
            some = about[np.isin(who, kinds)]
            require(some < len(getattr(m, name)), what)
            if name != "operations":
                require(getattr(self, name)[some], what)

    def _check_messages(self) -> None:
        """Each message is in one list at most, and heads for somewhere."""
        m, used, c = self.m, self.messages, self.m.config[0]
        messages = m.messages
        rows = np.flatnonzero(used)
        buckets = lists(m.buckets.head, messages.next, "lists of messages")
        for bucket, found in enumerate(buckets):
            if found:
                require(used[found], "buckets.head")
                require(messages.next[found[-1]] == -1, "messages.next")
                require(m.buckets.tail[bucket] == found[-1], "buckets.tail")
            else:
                require(m.buckets.tail[bucket] == -1, "buckets.tail")
        grants = m.grants
        many = grants["last"] - grants["first"]
        require((many >= 0) & (many <= len(messages)), "grants.last")
        some = np.flatnonzero(many > 0)
        granted = lists(grants["head"][some], messages.next, "lists of grants", most=many[some])
        require(np.array([found[-1] for found in granted], np.int64) == grants["tail"][some], "grants.tail")
        in_bucket = np.zeros(len(messages), bool)
        in_bucket[[one for found in buckets for one in found]] = True
        is_grant = np.zeros(len(messages), bool)
        is_grant[[one for found in granted for one in found]] = True
        require(used[is_grant], "grants.head")
        require(~(is_grant & in_bucket), "grants.head")
        of = np.arange(len(m.queues)) % len(grants)
        require(
            (m.queues.granted >= grants["first"][of]) & (m.queues.granted <= grants["last"][of]),
            "queues.granted",
        )
        waiting = lists(m.links.head, messages.behind, "lists of links")
        for link, found in enumerate(waiting):
            if found:
                require(used[found], "links.head")
                require(messages.behind[found[-1]] == -1, "messages.behind")
            require(m.links.tail[link] == (found[-1] if found else -1), "links.tail")
        sent = rows[(messages.sent[rows] == 1) & ~is_grant[rows]]
        self._handlers(messages.sender[rows[messages.dst[rows] >= 0]], "messages.sender")
        self._handlers(messages.receiver[rows[messages.dst[rows] >= 0]], "messages.receiver")
        shared = rows[(messages.dst[rows] >= 0) & (messages.sender[rows] & _MASK == t.NOBODY)]
        number = messages.sender[shared] >> t.KIND_BITS
        for group in np.unique(number[number > 0]).tolist():
            one = m.groups[group - 1]
            inside = np.isin(
                messages.dst[shared[number == group]], m.members.value[one["first"] :][: one["count"]]
            )
            require(inside, "messages.dst")
        queued = np.array([one for found in waiting for one in found], np.int64)
        if c.congestion and c.routed:
            self._check_hops(np.unique(queued))
            some = sent[messages.dst[sent] >= 0]
            require(messages.heading[some] + messages.at[some] <= len(m.hops), "messages.heading")
        if c.congestion and not c.routed:
            require((messages.dst[queued] >= 0) & (messages.dst[queued] < self.npus), "messages.dst")
            # Those of a higher number are at a switch.
            some = np.union1d(sent[(messages.dst[sent] >= 0) & (messages.dst[sent] < self.npus)], queued)
            require(messages.at[some] < self.npus, "messages.at")
            self._check_headings(messages[some])
        if c.ports:
            some = sent[(messages.dst[sent] >= 0) & (messages.dst[sent] < self.npus)]
            require(messages.heading[some] <= 1, "messages.heading")
            require(messages.at[some] < (len(m.routes) if c.routed else self.npus), "messages.at")
        if c.bus:
            self._check_bus()

    def _check_headings(self, messages: Any) -> None:
        """Messages have arrived in the dimensions before that of their link, and move towards their end."""
        dims = self.m.dims
        moving = messages.heading >> 1
        require(moving < len(dims), "messages.heading")
        for number, dim in enumerate(dims):
            here, there = ((rank // dim.stride) % dim.nodes for rank in (messages.at, messages.dst))
            require((number >= moving) | (here == there), "messages.heading")
            if dim.kind == MESH:
                towards = np.where(messages.heading & 1, there < here, there > here)
                require((number != moving) | towards, "messages.heading")

    def _check_hops(self, rows: np.ndarray) -> None:
        """Messages on their route have a link to cross, and the rest of the route behind it."""
        messages = self.m.messages[rows]
        require(messages.at >= 1, "messages.at")
        require(messages.heading + messages.at <= len(self.m.hops), "messages.heading")

    def _check_bus(self) -> None:
        """Requests on buses carry messages of chunks, or requests that wait for the memory."""
        m = self.m
        found = lists(m.bus_lists.head, m.messages.behind, "lists of buses")
        for number, rows in enumerate(found):
            require(self.messages[rows], "bus_lists.head")
            require(m.bus_lists.tail[number] == (rows[-1] if rows else -1), "bus_lists.tail")
            inner = number // LISTS % SIDES >= SIDES // 2
            for request in m.messages[rows]:
                require(request.src == number // LISTS // SIDES, "messages.src")
                carried = int(request.sender)
                if inner:
                    require(carried < len(m.messages) and self.messages[carried], "messages.sender")
                    carried = int(m.messages.sender[carried])
                require(carried >> 1 < len(m.streams) and self.streams[carried >> 1], "messages.sender")

    def _check_queue(self, timers: set[tuple[int, int]]) -> None:
        """Check the event queue, and that each event is about something in use."""
        m, queue, steps = self.m, self.m.queue[0], self.m.timesteps
        heap = steps.heap[: int(queue.heaped)]
        require(np.bincount(heap, minlength=1) <= 1, "timesteps.heap")
        times = steps.time[heap].tolist()
        require(all(times[(at - 1) >> 1] <= times[at] for at in range(1, len(times))), "timesteps.heap")
        require(steps.time[heap] >= queue.now, "timesteps.time")
        used = heap.tolist()
        if queue.open >= 0:
            require(queue.open not in set(used), "queue.open")
            require(steps.time[queue.open] == queue.now, "queue.open")
            used.append(int(queue.open))
        require(queue.latest < 0 or int(queue.latest) in set(used), "queue.latest")
        # After so many rows the list has ended; it does not say so where the table has grown.
        left = len(steps) - len(used)
        free = lists([int(queue.free_timestep)], steps.next, "lists of unused timesteps", most=[left])[0]
        require(not set(free) & set(used), "queue.free_timestep")
        found = lists(steps.bucket, steps.next, "lists of timesteps")
        require(sorted(one for rows in found for one in rows) == sorted(used), "timesteps.bucket")
        for bucket, rows in enumerate(found):
            for one in rows:
                require(bucket_of(int(steps.time[one]), len(steps)) == bucket, "timesteps.bucket")
        order = np.array(used, np.int64)
        events = lists(steps.head[order], m.pending.next, "lists of events")
        for one, rows in zip(used, events, strict=True):
            require(steps.tail[one] == (rows[-1] if rows else -1), "timesteps.tail")
            require(bool(rows) or one == queue.open, "timesteps.head")
        listed = np.zeros(len(m.pending), bool)
        rows = [one for found in events for one in found]
        listed[rows] = True
        require(listed == self.pending, "pending in use")
        what = m.pending.what[rows]
        at = np.repeat(steps.time[order], [len(found) for found in events])
        kind, about = what & _MASK, what >> t.KIND_BITS
        require(kind <= t.LATE, "pending.what")
        set_off = list(zip(about[kind == t.TIMERS].tolist(), at[kind == t.TIMERS].tolist(), strict=True))
        clock = m.clock[0]
        if clock.cursor >= 0:
            set_off.append((int(clock.timer_npu), int(queue.now)))
        require(sorted(set_off) == sorted(timers), "timers in the event queue")
        hops = about[kind == t.HOP]
        require(hops < len(m.messages), "pending.what")
        require(
            self.messages[hops] & (m.messages.sent[hops] == 1) & (m.messages.dst[hops] >= 0), "pending.what"
        )
        require(np.bincount(hops, minlength=1) <= 1, "pending.what")
        require((m.messages.dst[hops] < self.npus) & (m.messages.src[hops] >= 0), "messages.dst")
        if m.config[0].congestion and m.config[0].routed:
            self._check_hops(hops)
        frees = about[kind == t.FREE]
        require(frees < len(m.links), "pending.what")
        self._handlers(about[kind == t.LATE], "pending.what")
