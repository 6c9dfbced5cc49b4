"""What may stand in the tables of the cache-line machine, and what its numbers have to do with each other.

A file of a saved run holds the inputs, from which the machine is built again, and the state. What never
changes in a run is compared with the machine that was built; the rest has rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from astranb.core.queue import ARGUMENTS, SEQUENCES
from astranb.core.rules import (
    ANY,
    COUNT,
    FLAG,
    TIME,
    Rule,
    Rules,
    between,
    check_fields,
    check_heap,
    each,
    fixed,
    lists,
    maybe,
    ranges,
    require,
    row,
    until,
)
from astranb.core.ticks import MAX_RATE_BPS
from astranb.gpu import tables as t
from astranb.net.port import CLASSES
from astranb.net.rate import ONE

__all__ = ["RULES", "check", "check_program"]

_FIXED = fixed()
_LAST_PS: Final = 1 << 62
"""Every event is earlier."""
_RATE = between(1, MAX_RATE_BPS)


def _rest(dtype: np.dtype[Any], rule: Rule, **own: Rule) -> dict[str, Rule]:
    """Return the rules of all fields of a record: the named ones, and one for the rest."""
    return {**dict.fromkeys(dtype.names or (), rule), **own}


RULES: Final[Rules] = {
    "clock": {
        **each(COUNT, "events", "timesteps", "instructions", "phases", "hops", "lines", "messages", "queued",
        "near", "far", "done"),
        **each(ANY, "slot", "busy", "spinners", "last_arg"),
        **each(TIME, "now_ps", "searched_ps", "deadlock_search_ps"),
        "seq": between(0, SEQUENCES),
        "free_entry": until("later"),
        "free_request": until("requests"),
        "last_kind": between(0, len(t.EVENT_KINDS) - 1),
        "resumes": between(-1, -1),  # between two events no block is about to go on
        "sprayed": COUNT,
        **each(_FIXED, "multipath", "cut_through", "managed", "finite", "arbitration", "detailed"),
    },
    # What waits for a link that is down is beyond any time that a run reaches.
    "near": {"time_ps": Rule(0), "order": ANY},
    "far": {"time_ps": Rule(0), "order": ANY},
    "later": {"event": ANY, "next": until("later")},
    "slots": {"": maybe("later")},
    "gpus": _rest(
        t.GPU, _FIXED,
        **each(COUNT, "issue_ps", "noc_ps", "l2_ps", "hbm_ps", "atomic_ps", "fence_ps", "packet_ps"),
        access_lines=COUNT,
        **each(TIME, "ended_ps", "taken_ps", "taken_at_ps"), taken=COUNT, usable=row("sms"),
        blocks_left=COUNT,
        **each(maybe("blocks"), "pending_head", "pending_tail", "urgent_tail", "list_head", "list_tail"),
    ),
    "sms": {
        **each(_FIXED, "gpu", "engine"),
        **each(FLAG, "scheduled", "stalled"),
        **each(COUNT, "outstanding", "waiting", "resident", "issued"),
        "free": between(0, t.ROOM),
        **each(TIME, "next_issue_ps", "stalled_ps", "stalled_since_ps", "matrix_free_ps", "matrix_ps"),
        **each(maybe("warps"), "ready_head", "ready_tail"),
    },
    "l2_slices": _rest(t.SERVER, TIME, row=ANY),
    "hbm_channels": _rest(t.SERVER, TIME, row=ANY),
    "blocks": _rest(
        t.BLOCK, TIME,
        gpu=fixed(row("gpus")), first_op=fixed(until("ops")), last_op=fixed(until("ops")),
        first_warp=fixed(until("warps")), warps=fixed(between(1, 1 << 20)), sm=maybe("sms"), op=until("ops"),
        state=between(0, len(t.BLOCK_STATES) - 1), unacked=COUNT, polls=COUNT, spinning=ANY,
        fenced=between(0, 2), kernel=_FIXED, launch_ps=fixed(COUNT), after=ANY,
        engine=fixed(between(0, t.NIC)),
        held=fixed(between(t.SHARE, t.ROOM)), urgent=fixed(FLAG), next_pending=maybe("blocks"),
        post=maybe("ops"), posting=FLAG, posted=COUNT, role=fixed(until("blocks")), roles=COUNT,
    ),
    "warps": {
        "block": fixed(row("blocks")),
        **each(maybe("warps"), "next_ready"),
        "queued": FLAG,
        **each(maybe("jobs"), "loading", "ready_head", "ready_tail", "free_job"),
        **each(maybe("requests"), "retry_head", "retry_tail"),
        "op": row("ops"),
        "next_line": COUNT,
        "under_way": COUNT,
    },
    "jobs": {
        "line": COUNT, "op": row("ops"), "next": maybe("jobs"), "step": COUNT, "pending": COUNT,
        "warp": fixed(row("warps")),
    },
    "ops": {
        "kind": fixed(between(0, len(t.OP_KINDS) - 1)),
        "block": fixed(row("blocks")),
        **each(fixed(until("operands")), "first_source", "first_target"),
        **each(fixed(COUNT), "sources", "targets", "payload", "last_bytes", "before"),
        "lines": fixed(between(0, 1 << 31)),
        "semaphore": fixed(maybe("semaphores")),
        "value": _FIXED,
        "phase": fixed(row("phases")),
        "fence": fixed(between(0, t.COUNTED)),
        "in_switch": fixed(between(0, 3)),
        "spins": fixed(between(0, 2)),
        "ahead": fixed(FLAG),
        "number": _FIXED,
        "left": ANY,
        "acked": COUNT,
        **each(TIME, "started_ps", "issued_ps", "ended_ps"),
    },
    "tiles": {
        **each(fixed(between(1, 1 << 30)), "steps", "step_lines", "issue_lines"),
        **each(fixed(COUNT), "first_lines"), "step_ps": fixed(TIME),
        **each(COUNT, "fetched", "computed"), "computing": FLAG, "stages": fixed(between(1, 1 << 20)),
    },
    "operands": {
        "gpu": fixed(row("gpus")),
        "slice": fixed(maybe("slices")),
        **each(_FIXED, "out_route", "back_route"),
        **each(fixed(COUNT), "out_routes", "back_routes", "stride", "line"),
        "flag": fixed(Rule(t.LINE_BY_LINE, table="flags", beyond=1)),  # the end: of nothing
        "seen": Rule(-(1 << 60), table="ops"),  # below NEVER_SEEN it counts lines
    },
    "slices": {
        "gpu": fixed(row("gpus")),
        **each(_FIXED, "buffer", "chunk", "channel"),
        **each(fixed(COUNT), "line", "lines", "bytes"),
        "writer": Rule(t.TORN, table="ops"),
        "writing": maybe("ops"),
        "arrived": COUNT,
        "flag": fixed(until("flags")),
    },
    "semaphores": {"gpu": fixed(row("gpus")), "line": fixed(Rule(t.IN_SHARED)), "value": ANY},
    "phases": {"left": ANY, "started_ps": TIME, "ended_ps": TIME},
    "routes": _rest(t.ROUTE, _FIXED),
    "planes": _rest(t.PLANE, _FIXED),
    "route_links": {"": fixed(row("links"))},
    "requests": {
        **each(TIME, "issued_ps", "arrives_ps"),
        **each(COUNT, "line", "bytes"),
        "warp": row("warps"), "job": maybe("jobs"), "op": until("ops"), "operand": until("operands"),
        "route": maybe("routes"), "hop": until("route_links"), "link": maybe("links"),
        "next_free": until("requests"), "gpu": row("gpus"), "target": row("gpus"),
        "kind": between(0, len(t.REQUEST_KINDS) - 1), "live": FLAG, "returning": between(0, 2), "leg": FLAG,
    },
    "details": {
        **each(COUNT, "index", "span", "children", "router", "to_router", "stored_bytes"),
        "parent": maybe("requests"),
        **each(maybe("queues"), "held", "came", "stored"),
        **each(row("links"), "next_link", "exit_link"),
        **each(FLAG, "marked", "found"), "offered_ps": TIME,
    },
    "tags": {"": Rule(-1)},
    "present": {"": FLAG},
    "flags": {"": FLAG},
    "faults": _rest(t.FAULT_ROW, _FIXED),
    "queues": {
        **each(maybe("requests"), "head", "tail"),
        **each(COUNT, "waiting", "credits", "joined", "stuck", "stuck_bytes", "stuck_messages", "frames"),
        **each(ANY, "bytes", "stored"),
        **each(FLAG, "stopped", "paused"),
        "paused_at_ps": TIME,
    },
    "roce": {},
    "flows": {
        "link": fixed(row("links")), "target": _FIXED,
        **each(between(0, MAX_RATE_BPS), "rate_Bps", "target_Bps", "slowest_Bps"),
        "alpha": between(0, 2 * ONE), "limited": FLAG,
        **each(TIME, "alpha_at_ps", "timer_at_ps", "next_ps", "next_cnp_ps"),
        **each(COUNT, "by_time", "by_bytes", "counted", "waiting", "messages", "bytes", "cnps"),
        **each(maybe("requests"), "head", "tail"),
        "cnp_under_way": FLAG,
    },
    "links": {
        **each(TIME, "free_at_ps", "usual_ps", "wire_ps", "busy_ps", "paused_ps", "resumes_ps"),
        **each(ANY, "queued_ps", "last_size"),
        **each(COUNT, "latency_ps", "messages", "bytes", "marked", "pauses", "most_queued", "most_stored"),
        "bandwidth_Bps": _RATE,
        **each(_FIXED, "gap_ps", "forward_ps", "src", "dst", "lane", "role"),
        "awake": FLAG, "last_class": between(0, CLASSES - 1),
    },
}  # fmt: skip


def check(tables: Mapping[str, Any], start: Mapping[str, Any] | None = None) -> None:
    """Refuse a state in which a number would lead machine code astray.

    Parameters
    ----------
    tables : mapping of str to ndarray
    start : mapping of str to ndarray, optional
        The machine as it was built; where not given, ``tables`` is that machine.

    Raises
    ------
    InputError
        It names the table, field and row.
    """
    check_fields(tables, RULES, start)
    if start is None:
        _check_program(tables)
        return
    require(np.asarray(tables["roce"]) == np.asarray(start["roce"]), "roce has changed")
    _MachineInUse(tables).check()


def _requests_of(ops: Any, tiles: Any, op: Any, operand: Any) -> np.ndarray:
    """Requests that an operation makes of an operand at most: its lines, a tile's share of them, or one."""
    moves, is_tile = ops["kind"][op] == t.MOVE, ops["kind"][op] == t.TILE
    lines = np.where(moves, ops["lines"][op], 1).astype(np.int64)
    if is_tile.any():
        row = tiles[np.where(is_tile, ops["value"][op], 0)]
        first = operand == ops["first_source"][op]
        each_step = np.where(first, row["first_lines"], row["step_lines"] - row["first_lines"])
        lines = np.where(is_tile, row["steps"].astype(np.int64) * each_step, lines)
    return np.asarray(lines)


def _reach(ops: Any, tiles: Any, operands: Any, gpus: Any, op: Any, operand: Any) -> np.ndarray:
    """Lines of memory from the first line of an operand to the end of what an operation touches."""
    line = gpus["line_bytes"][operands["gpu"][operand]]
    stride, lines = operands["stride"][operand], _requests_of(ops, tiles, op, operand)
    last = np.maximum(0, lines - 1) * stride // line + np.maximum(1, -(-ops["last_bytes"][op] // line))
    others = np.maximum(0, lines - 2) * stride // line + np.maximum(1, -(-ops["payload"][op] // line))
    return np.asarray(np.maximum(np.maximum(1, last), np.where(lines > 1, others, 0)))


def _spans(ops: Any, gpus: Any) -> np.ndarray:
    """Lines of memory that a request of each operation covers at most."""
    line = int(gpus["line_bytes"].min())
    return np.asarray(
        np.maximum(1, -(-np.maximum(ops["payload"], ops["last_bytes"]).astype(np.int64) // line))
    )


_PROGRAM: Final = {
    "blocks": t.BLOCK, "ops": t.OP, "operands": t.OPERAND, "slices": t.SLICE, "semaphores": t.SEMAPHORE,
    "phases": t.PHASE, "tiles": t.TILE_WORK,
}  # fmt: skip
_MOST_LINES: Final = (1 << 31) - 1  # the longest range of a Python of 32 bits


def check_program(tables: Mapping[str, Any], about: Mapping[str, Any], gpus: int) -> None:
    """Refuse the tables of a program that no machine can be built of; the rest is seen when one is built.

    Parameters
    ----------
    tables : mapping of str to ndarray
        Those of :class:`~astranb.collectives.Lowered`.
    about : mapping
        Its numbers.
    gpus : int
    """
    for name, dtype in _PROGRAM.items():
        require(tables[name].dtype == dtype and tables[name].ndim == 1, f"the table of {name}")
    for name, count in (("block_channel", len(tables["blocks"])), ("lines", gpus)):
        require(tables[name].dtype == np.int64 and tables[name].shape == (count,), f"the table of {name}")
    require((tables["lines"] >= 0) & (tables["lines"] < _MOST_LINES), "lines")
    for name in ("ranks", "channels", "line_bytes", "flags"):
        require(type(about[name]) is int and 0 <= about[name] < _MOST_LINES, name)
    require(about["ranks"] == gpus and len(about["phase_names"]) == len(tables["phases"]), "ranks and phases")
    require(all(isinstance(name, str) for name in about["phase_names"]), "names of phases")
    sizes: dict[str, Any] = {**tables, "gpus": range(gpus), "flags": range(about["flags"])}
    for name in ("warps", "sms"):
        sizes[name] = range(_MOST_LINES)
    rules = {name: {k: v for k, v in RULES[name].items() if k != "warps"} for name in _PROGRAM}
    check_fields(sizes, rules)
    for name in ("slices", "semaphores"):
        table = tables[name]
        many = table["lines"] if name == "slices" else 1
        require(table["line"] + many <= tables["lines"][table["gpu"]], f"{name}.line")
    require(int(tables["slices"]["lines"].sum()) < _MOST_LINES, "slices.lines")


def _check_program(tables: Mapping[str, Any]) -> None:
    """Refuse a program whose parts do not fit together: blocks, operations, operands, lines of memory."""
    blocks, ops, operands, gpus = (tables[name] for name in ("blocks", "ops", "operands", "gpus"))
    require(blocks["first_op"] <= blocks["last_op"], "blocks.last_op")
    require(blocks["first_warp"] + blocks["warps"] <= len(tables["warps"]), "blocks.warps")
    mine = np.repeat(np.arange(len(blocks)), blocks["last_op"] - blocks["first_op"])
    rows = ranges(blocks["first_op"], blocks["last_op"] - blocks["first_op"])
    require(len(rows) == len(ops), "blocks.first_op")
    require(np.sort(rows) == np.arange(len(ops)), "blocks.first_op")
    require(ops["block"][rows] == mine, "ops.block")
    kind = ops["kind"]
    require((ops["semaphore"] >= 0) | ~np.isin(kind, (t.NOTIFY, t.WAIT)), "ops.semaphore")
    released = ops["value"][kind == t.RELEASE]
    require((released >= 0) & (released < len(blocks)), "ops.value")
    moves = kind == t.MOVE
    require((ops["lines"] == 0) | (ops["payload"] > 0) & (ops["last_bytes"] > 0) | ~moves, "ops.payload")
    require((ops["targets"] > 0) | ~moves, "ops.targets")
    _check_tiles(tables)
    counted = np.flatnonzero(ops["fence"] & t.COUNTED)
    require((kind[counted] == t.FLUSH) & (ops["fence"][counted] == t.COUNTED), "ops.fence")
    last, begin = counted - ops["value"][counted], blocks["first_op"][ops["block"][counted]]
    require((last < counted) & (last + 1 - ops["before"][counted] >= begin), "ops.value")
    behind = np.flatnonzero((kind == t.NOTIFY) & (ops["before"] > 0))
    begun = blocks["first_op"][ops["block"][behind]] <= behind - ops["before"][behind]
    require(begun & (ops["fence"][behind] == 0), "ops.before")
    first = np.arange(len(blocks)) - blocks["role"]
    own = (first >= 0) & (blocks["role"][first] == 0) & (blocks["gpu"][first] == blocks["gpu"])
    follows = (blocks["role"] == 0) | (np.append(-1, blocks["role"][:-1]) == blocks["role"] - 1)
    require(own & follows, "blocks.role")
    times = kind == t.SPEND
    require((ops["left"][times] >= 0) & (ops["left"][times] < 1 << 61), "ops.left")
    direct = gpus["direct"] == 1
    limit = np.where(direct, gpus["sets"], 1 << 30)
    # A signal and a wait have one operand, which is not counted.
    for first, count, one in (("first_source", "sources", t.WAIT), ("first_target", "targets", t.NOTIFY)):
        many = np.where(kind == one, 1, ops[count].astype(np.int64))
        require(ops[first] + many <= len(operands), f"ops.{count}")
        which = ranges(ops[first], many)
        op = np.repeat(np.arange(len(ops)), many)
        lines = _requests_of(ops, tables["tiles"], op, which)
        reach = operands["line"][which] + _reach(ops, tables["tiles"], operands, gpus, op, which)
        fine = (operands["line"][which] < 1 << 31) & (reach <= limit[operands["gpu"][which]])
        require(fine | (lines == 0), "operands.line")
        flags = operands["flag"][which]
        require((flags < 0) | (flags + lines <= len(tables["flags"])), "operands.flag")
        some = (moves[op] | (kind[op] == t.TILE)) & (lines > 0)
        require(operands["slice"][which][some] >= 0, "operands.slice")
        begins = tables["slices"]["line"][operands["slice"][which][some]]
        require(operands["line"][which][some] >= begins, "operands.line")


def _check_tiles(tables: Mapping[str, Any]) -> None:
    """Refuse tiles that do not fit their operations: each is of one, which makes its requests."""
    ops, tiles = tables["ops"], tables["tiles"]
    of = np.flatnonzero(ops["kind"] == t.TILE)
    require(np.sort(ops["value"][of]) == np.arange(len(tiles)), "ops.value")
    row = tiles[ops["value"][of]]
    require(ops["lines"][of] == row["steps"].astype(np.int64) * row["step_lines"], "ops.lines")
    require(row["first_lines"] <= row["step_lines"], "tiles.first_lines")
    require(ops["sources"][of] == 1 + (row["first_lines"] < row["step_lines"]), "ops.sources")
    require((ops["targets"][of] == 0) & (ops["fence"][of] & t.SYSTEM_WIDE == 0), "ops.targets")
    warps = tables["blocks"]["warps"][ops["block"][of]]
    require((row["stages"] > 0) & (row["stages"] <= warps), "tiles.stages")
    require((ops["payload"][of] > 0) & (ops["last_bytes"][of] == ops["payload"][of]), "ops.payload")


class _MachineInUse:
    """The tables of a state, and what was found of them so far."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.tables = tables
        self.clock = tables["clock"][0]
        self.requests, self.details = tables["requests"], tables["details"]
        self.ops, self.operands, self.tiles = tables["ops"], tables["operands"], tables["tiles"]
        self.blocks, self.warps, self.jobs = tables["blocks"], tables["warps"], tables["jobs"]
        self.sms, self.gpus, self.links = tables["sms"], tables["gpus"], tables["links"]
        self.queues, self.flows = tables["queues"], tables["flows"]
        at = np.minimum(self.blocks["op"], len(self.ops) - 1)
        self.tiled = (self.blocks["state"] == t.MOVING) & (self.ops["kind"][at] == t.TILE)

    def check(self) -> None:
        """Check everything."""
        kind, argument = self._events()
        self._check_events(kind, argument)
        self._check_blocks()
        self._check_requests(kind, argument)
        self._check_jobs()
        self._check_warps()
        self._check_progress()
        self._check_tiled(kind, argument)

    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        """Check the event queue; returns the kind and the argument of every event to come."""
        clock, tables = self.clock, self.tables
        near, far = int(clock["near"]), int(clock["far"])
        capacity = len(tables["near"])
        require(near <= capacity and far <= capacity, "clock.near")
        require(near > 0 or clock["queued"] == 0, "clock.near")
        # A list holds `left` entries where it is free, and ends where it is a slot's.
        slots = np.asarray(tables["slots"])
        used = lists(slots[slots >= 0], tables["later"]["next"], "lists of events")
        waiting = [entry for entries in used for entry in entries]
        require(clock["queued"] == near + far + len(waiting), "clock.queued")
        require(clock["queued"] <= capacity, "clock.queued")
        everything = lists(
            [*slots[slots >= 0].tolist(), int(clock["free_entry"])],
            tables["later"]["next"],
            "lists of events",
        )
        require(sum(len(entries) for entries in everything) == capacity, "clock.free_entry")
        slot = int(clock["slot"])
        require(-1 <= slot < _LAST_PS >> 6, "clock.slot")
        events = []
        for name, size in (("near", near), ("far", far)):
            heap = np.asarray(tables[name])[:size]
            check_heap(heap[["time_ps", "order"]].tolist(), 4, name)
            require(heap["time_ps"] < _LAST_PS, f"{name}.time_ps")
            # Never before what has been handled, and the near ones in no later slot than the open one.
            require(heap["time_ps"] >= clock["now_ps"], f"{name}.time_ps")
            if name == "far":
                require(heap["time_ps"] >> 6 > slot, "far.time_ps")
            events.append(heap["order"] & ((1 << 26) - 1))
        events.append(np.asarray(tables["later"]["event"])[waiting].astype(np.int64) >> 6)
        what = np.concatenate(events).astype(np.int64)
        return what >> 22, what & (ARGUMENTS - 1)

    def _check_events(self, kind: np.ndarray, argument: np.ndarray) -> None:
        """Each event is about something that is there, and nothing has two of a kind."""
        counted = {
            (t.LAUNCH, t.FENCE): "blocks", (t.POST,): "blocks", (t.ISSUE,): "sms",
            (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH): "requests", (t.WIRE,): "links", (t.FAULT,): "faults",
            (t.RATE_RELEASE,): "flows", (t.CNP,): "flows",
        }  # fmt: skip
        managed = int(self.clock["managed"])
        require(kind <= t.POST, "kinds of events")
        require(
            managed or not np.isin(kind, (t.WIRE, t.PAUSE, t.RATE_RELEASE, t.CNP)).any(), "kinds of events"
        )
        many: dict[tuple[int, ...], np.ndarray] = {}
        for kinds, name in counted.items():
            some = argument[np.isin(kind, kinds)]
            require(some < len(self.tables[name]), f"events of {name}")
            many[kinds] = np.bincount(some, minlength=len(self.tables[name]))
            require(many[kinds] <= 1, f"events of {name}")
        frames = argument[kind == t.PAUSE] // 2
        require(frames < len(self.queues), "events of queues")
        require(np.bincount(frames, minlength=len(self.queues)) == self.queues["frames"], "queues.frames")
        require(many[t.ISSUE,] == self.sms["scheduled"], "sms.scheduled")
        require((self.sms["scheduled"] == 0) | (self.sms["ready_head"] >= 0), "sms.ready_head")
        require((self.sms["scheduled"] == 0) | (self.sms["stalled"] == 0), "sms.stalled")
        if managed:
            require(many[t.WIRE,] == self.links["awake"], "links.awake")
            require(many[t.RATE_RELEASE,] == (self.flows["waiting"] > 0), "flows.waiting")
        require(many[t.POST,] == self.blocks["posting"], "blocks.posting")
        launched = argument[kind == t.LAUNCH]
        require(self.blocks["state"][launched] == t.PENDING, "blocks.state")
        require(self.blocks["sm"][launched] >= 0, "blocks.sm")
        fenced = argument[kind == t.FENCE]
        require((self.blocks["fenced"][fenced] == 1) | self.tiled[fenced], "blocks.fenced")
        require(self.blocks["sm"][fenced] >= 0, "blocks.sm")
        require(self.blocks["op"][fenced] < self.blocks["last_op"][fenced], "blocks.op")

    def _check_blocks(self) -> None:
        """Each block is at one of its operations, on an SM of its GPU."""
        blocks, gpus, sms = self.blocks, self.gpus, self.sms
        require((blocks["op"] >= blocks["first_op"]) & (blocks["op"] <= blocks["last_op"]), "blocks.op")
        at_work = np.isin(blocks["state"], (t.MOVING, t.SIGNALLING, t.WAITING))
        require(~at_work | (blocks["op"] < blocks["last_op"]), "blocks.op")
        placed = blocks["sm"] >= 0
        require(placed | (blocks["state"] == t.PENDING), "blocks.sm")
        require(~placed | (sms["gpu"][blocks["sm"]] == blocks["gpu"]), "blocks.sm")
        for state, kinds in (
            (t.MOVING, (t.MOVE, t.COMPUTE, t.SPEND, t.TILE)), (t.SIGNALLING, (t.NOTIFY,)),
            (t.WAITING, (t.WAIT,)),
        ):  # fmt: skip
            some = blocks["op"][blocks["state"] == state]
            require(np.isin(self.ops["kind"][some], kinds), "blocks.state")
        require((blocks["state"] != t.DONE) | (blocks["op"] == blocks["last_op"]), "blocks.state")
        require(self.clock["done"] == np.count_nonzero(blocks["state"] == t.DONE), "clock.done")
        require(gpus["usable"] <= gpus["sms"], "gpus.usable")
        require(gpus["usable"] > 0, "gpus.usable")
        self._check_places()
        self._check_posts()

    def _check_posts(self) -> None:
        """Signals behind stores leave in their order: each that has begun has left, or is to leave."""
        blocks, ops = self.blocks, self.ops
        begun, left = ops["started_ps"] >= 0, ops["issued_ps"] >= 0
        held = (ops["kind"] == t.NOTIFY) & (ops["before"] > 0) & begun & ~left
        first = np.full(len(blocks), len(ops))
        np.minimum.at(first, ops["block"][held], np.flatnonzero(held))
        require(blocks["post"] == np.where(first < len(ops), first, -1), "blocks.post")
        require((blocks["posting"] == 0) | (blocks["post"] >= 0), "blocks.posting")
        self.held = np.bincount(ops["block"][held], minlength=len(blocks))
        left = np.bincount(np.arange(len(blocks)) - blocks["role"], blocks["state"] != t.DONE, len(blocks))
        require(left == blocks["roles"], "blocks.roles")

    def _check_places(self) -> None:
        """Each block that may begin is on an SM or in the queue for one, and SMs have room for theirs."""
        blocks, gpus, sms = self.blocks, self.gpus, self.sms
        resident = (blocks["sm"] >= 0) & (blocks["state"] != t.DONE)
        shared = (blocks["sm"] >= 0) & (blocks["role"] == 0) & (blocks["roles"] > 0) & (blocks["held"] > 0)
        of = blocks[np.where(blocks["engine"] > 0, resident, shared)]
        require(np.bincount(of["sm"], minlength=len(sms)) == sms["resident"], "sms.resident")
        held = np.zeros(len(sms), np.int64)
        np.add.at(held, of["sm"], of["held"])
        require(sms["free"] == t.ROOM - held, "sms.free")
        used = sms["gpu"][(sms["resident"] > 0) & (sms["engine"] == 0)]
        require(gpus["taken"] == np.bincount(used, minlength=len(gpus)), "gpus.taken")
        require((sms["engine"][blocks["sm"]] == blocks["engine"]) | (blocks["sm"] < 0), "blocks.sm")
        queued = np.zeros(len(blocks), bool)
        for head, tail, engine in (("pending_head", "pending_tail", 0), ("list_head", "list_tail", 1)):
            found = lists(gpus[head], blocks["next_pending"], "lists of pending blocks")
            for gpu, rows in enumerate(found):
                mine = blocks[rows]
                require((mine["gpu"] == gpu) & (mine["engine"] == engine), f"gpus.{head}")
                require(not rows or rows[-1] == gpus[gpu][tail], f"gpus.{tail}")
                queued[rows] = True
                if not engine:
                    urgent = mine["urgent"] == 1
                    require(urgent[:-1] | ~urgent[1:], "blocks.next_pending")
                    last = rows[int(urgent.sum()) - 1] if urgent.any() else -1
                    require(gpus[gpu]["urgent_tail"] == last, "gpus.urgent_tail")
            require((gpus[head] < 0) == (gpus[tail] < 0), f"gpus.{tail}")
        waits = (blocks["sm"] < 0) & (blocks["after"] <= 0) & (blocks["role"] == 0)
        require(queued == waits, "blocks.after")
        require(blocks["sm"] == blocks["sm"][np.arange(len(blocks)) - blocks["role"]], "blocks.sm")

    def _check_requests(self, kind: np.ndarray, argument: np.ndarray) -> None:
        """Each request is in one place only, and is about an operation of its warp's block."""
        requests, clock = self.requests, self.clock
        count = len(requests)
        free = lists([int(clock["free_request"])], requests["next_free"], "lists of requests")[0]
        live = np.ones(count, bool)
        live[free] = False
        require(requests["live"] == live, "requests.live")
        hops = np.isin(kind, (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH))
        places = np.bincount(argument[hops], minlength=count)
        waits = np.zeros(count, bool)
        for name, head, tail, size in (
            ("queues", "head", "tail", "waiting"),
            ("flows", "head", "tail", "waiting"),
        ):
            table = self.tables[name]
            some = np.flatnonzero(table[size] > 0)
            if name == "queues":
                require((table[head] >= 0) == (table[size] > 0), "queues.head")
            found = lists(
                table[head][some], requests["next_free"], f"lists of {name}", most=table[size][some]
            )
            require([one[-1] for one in found] == table[tail][some], f"{name}.{tail}")
            if name == "queues":
                require(
                    [requests["next_free"][one[-1]] for one in found] == np.full(len(found), -1),
                    "queues.tail",
                )
            for rows in found:
                waits[rows] = True
                places[rows] += 1
        some = np.flatnonzero(self.warps["retry_head"] >= 0)
        found = lists(self.warps["retry_head"][some], requests["next_free"], "lists of requests to repeat")
        require([one[-1] for one in found] == self.warps["retry_tail"][some], "warps.retry_tail")
        again = np.zeros(count, bool)
        for number, rows in zip(some.tolist(), found, strict=True):
            require(requests["warp"][rows] == number, "warps.retry_head")
            require(requests["kind"][rows] == t.LOAD, "warps.retry_head")
            again[rows] = True
            places[rows] += 1
        require(places[~live] == 0, "requests in use")
        detailed = bool(clock["detailed"])
        asked = np.zeros(count, bool)  # copies at a switch: their request waits there
        if detailed:
            asked = live & (self.details["children"] > 0)
        require((places == 1) | ~live | (asked & (places == 0)), "requests that are nowhere")
        in_use = np.flatnonzero(live)
        self._check_live(in_use, again[in_use])
        moving = argument[kind == t.HOP]
        travels = np.union1d(moving, np.flatnonzero(waits))
        self._check_route(in_use, travels)
        for event, low, high in ((t.L2, 0, 0), (t.HBM, 0, 0), (t.RETURN, 1, 2)):
            state = requests["returning"][argument[kind == event]]
            require((state >= low) & (state <= high), "requests.returning")
        require(requests["kind"][argument[kind == t.HBM]] == t.LOAD, "requests.kind")
        if not detailed:
            require(not (kind == t.SWITCH).any(), "kinds of events")

    def _check_live(self, rows: np.ndarray, again: np.ndarray) -> None:
        """Check what requests are about, and count them."""
        one, ops, operands, gpus = self.requests[rows], self.ops, self.operands, self.gpus
        detail = self.details[rows] if self.clock["detailed"] else None
        block = self.warps["block"][one["warp"]]
        require(self.blocks["sm"][block] >= 0, "requests.warp")
        require(one["gpu"] == self.blocks["gpu"][block], "requests.gpu")
        op, kind, operand = one["op"], one["kind"], one["operand"].astype(np.int64)
        require((op >= 0) & (op < len(ops)) & (operand >= 0) & (operand < len(operands)), "requests.op")
        require(ops["block"][op] == block, "requests.op")
        of = np.array([t.MOVE, t.MOVE, t.NOTIFY, t.WAIT])[kind]
        fetched = (ops["kind"][op] == t.TILE) & (kind == t.LOAD)
        require((ops["kind"][op] == of) | fetched, "requests.kind")
        require(~fetched | self.tiled[block] & (op == self.blocks["op"][block]), "requests.op")
        ends = ((t.LOAD, "first_source", "sources"), (t.STORE, "first_target", "targets"))
        for number, first, size in ends:
            inside = (operand >= ops[first][op]) & (operand < ops[first][op] + ops[size][op])
            require(inside | (kind != number), "requests.operand")
        require((operand == ops["first_target"][op]) | (kind != t.SIGNAL), "requests.operand")
        require((operand == ops["first_source"][op]) | (kind != t.POLL), "requests.operand")
        require(one["target"] == operands["gpu"][operand], "requests.target")
        polls = kind == t.POLL
        require(~polls | (op == self.blocks["op"][block]), "requests.op")
        require(np.bincount(block[polls], minlength=1) <= 1, "requests of waiting blocks")
        self.polled = block[polls]
        lines = _requests_of(ops, self.tiles, op, operand)
        span = 1 if detail is None else detail["span"]
        place = one["line"] - operands["line"][operand]
        require(
            (place >= 0) & (place + span <= _reach(ops, self.tiles, operands, gpus, op, operand)),
            "requests.line",
        )
        loads = (kind == t.LOAD) & ~fetched
        no_job = (kind > t.STORE) | fetched
        require((one["job"] >= 0) == ~no_job, "requests.job")
        require((self.jobs["warp"][one["job"]] == one["warp"]) | no_job, "requests.job")
        require((self.jobs["op"][one["job"]] == op) | ~loads, "requests.op")
        own = np.ones(len(rows), bool)
        if detail is not None:
            require(detail["index"] < np.maximum(1, lines), "details.index")
            require((detail["span"] >= 1) & (detail["span"] <= _spans(ops, gpus)[op]), "details.span")
            own = detail["parent"] < 0
            above = detail["parent"][~own]
            require(self.requests["live"][above] == 1, "details.parent")
            require(self.details["children"][above] > 0, "details.parent")
            require(self.details["parent"][above] < 0, "details.parent")
            require(self.requests["op"][above] == op[~own], "details.parent")
            wanted = np.where(loads, t.SWITCH_READS, t.SWITCH_WRITES)
            in_switch = ops["in_switch"][op] & wanted > 0
            require(in_switch | ((detail["children"] == 0) & own) | (kind > t.STORE), "details.children")
            require((kind <= t.STORE) | ((detail["children"] == 0) & own), "details.children")
        slots = np.bincount(self.blocks["sm"][block][own & ~again & ~fetched], minlength=len(self.sms))
        require(slots == self.sms["outstanding"], "sms.outstanding")
        stores = own & np.isin(kind, (t.STORE, t.SIGNAL))
        behind = (kind == t.SIGNAL) & (ops["before"][op] > 0)
        unacked, posted = (np.bincount(block[of], minlength=len(self.blocks)) for of in (stores, behind))
        require(posted == self.blocks["posted"], "blocks.posted")
        require(unacked + self.held == self.blocks["unacked"], "blocks.unacked")
        self.fetches = np.bincount(one["warp"][fetched], minlength=len(self.warps))
        self.loads = np.bincount(one["job"][own & loads], minlength=len(self.jobs))

    def _check_route(self, rows: np.ndarray, travels: np.ndarray) -> None:
        """Check routes: that a request is on its own, between the first and the last link of it."""
        requests, operands, routes = self.requests, self.operands, self.tables["routes"]
        one = requests[rows]
        route, hop = one["route"], one["hop"]
        require(
            (route < 0) | (hop >= routes["first"][route]) & (hop <= routes["last"][route]), "requests.hop"
        )
        plain = np.ones(len(rows), bool)
        if self.clock["detailed"]:
            plain = (self.details["parent"][rows] < 0) & (self.details["children"][rows] == 0)
        plain &= one["returning"] == 0
        first, many = operands["out_route"][one["operand"]], operands["out_routes"][one["operand"]]
        fine = np.where(many > 0, (route >= first) & (route < first + many), route < 0)
        require(fine | ~plain, "requests.route")
        one = requests[travels]
        fabric = one["leg"] == t.ON_FABRIC
        route = one["route"][fabric]
        require(route >= 0, "requests.route")
        require(one["hop"][fabric] < routes["last"][route], "requests.hop")
        if not fabric.all():
            require(self.gpus["mesh"].any() and self.clock["detailed"], "requests.leg")
            detail = self.details[travels[~fabric]]
            for end in ("gpu", "target"):
                gpu = self.gpus[one[end][~fabric]]
                require(gpu["mesh"] == 1, "requests.leg")
                for name in ("router", "to_router"):
                    require(detail[name] < gpu["columns"] * gpu["rows"], f"details.{name}")

    def _check_jobs(self) -> None:
        """Each line under way of a warp is in one list, with as many loads as it waits for."""
        jobs, warps, ops = self.jobs, self.warps, self.ops
        free = lists(warps["free_job"], jobs["next"], "lists of free jobs")
        ready = lists(
            [*(head for rows in free for head in rows[:1]), *warps["ready_head"].tolist()],
            np.where(np.isin(np.arange(len(jobs)), [one for rows in free for one in rows]), -1, jobs["next"]),
            "lists of jobs",
        )[-len(warps) :]
        is_free = np.zeros(len(jobs), bool)
        for number, rows in enumerate(free):
            require(jobs["warp"][rows] == number, "warps.free_job")
            is_free[rows] = True
        is_ready = np.zeros(len(jobs), bool)
        for number, rows in enumerate(ready):
            require(jobs["warp"][rows] == number, "warps.ready_head")
            require(not rows or rows[-1] == warps["ready_tail"][number], "warps.ready_tail")
            is_ready[rows] = True
        loading = np.zeros(len(jobs), bool)
        some = warps["loading"][warps["loading"] >= 0]
        require(jobs["warp"][some] == np.flatnonzero(warps["loading"] >= 0), "warps.loading")
        loading[some] = True
        require(is_free.astype(np.int64) + is_ready + loading <= 1, "lists of jobs")
        used = np.bincount(jobs["warp"][~is_free], minlength=len(warps))
        tiled = self.tiled[warps["block"]]
        require(np.where(tiled, self.fetches, used) == warps["under_way"], "warps.under_way")
        require(~tiled | (used == 0), "warps.under_way")
        self.under_way = ~is_free
        op = jobs["op"]
        require(is_free | (ops["kind"][op] == t.MOVE) & (jobs["line"] < ops["lines"][op]), "jobs.line")
        require(is_free | (ops["block"][op] == warps["block"][jobs["warp"]]), "jobs.op")
        switch = ops["in_switch"][op]
        reads = np.where(switch & t.SWITCH_READS, 1, ops["sources"][op])
        stores = np.where(switch & t.SWITCH_WRITES, 1, ops["targets"][op])
        steps = np.where(switch & t.SWITCH_READS, 0, ops["sources"][op] - 1) + stores
        require(~is_ready | (jobs["step"] < steps), "jobs.step")
        require(~loading | (jobs["step"] < reads), "jobs.step")
        require(~loading | (self.loads == jobs["step"] - (reads - jobs["pending"])), "jobs.pending")
        waits = ~(is_free | is_ready | loading)
        require(~waits | (self.loads == jobs["pending"]) & (jobs["pending"] > 0), "jobs.pending")
        require(~waits | (jobs["step"] == 0), "jobs.step")
        require(~(is_free | is_ready) | (self.loads == 0), "jobs.pending")

    def _check_warps(self) -> None:
        """Each ready warp is in the queue of its SM, and has something to issue."""
        warps, blocks, ops, sms = self.warps, self.blocks, self.ops, self.sms
        found = lists(sms["ready_head"], warps["next_ready"], "lists of ready warps")
        sm = blocks["sm"][warps["block"]]
        queued = np.zeros(len(warps), bool)
        for number, rows in enumerate(found):
            require(sm[rows] == number, "sms.ready_head")
            require(not rows or rows[-1] == sms["ready_tail"][number], "sms.ready_tail")
            queued[rows] = True
        require(queued == (warps["queued"] == 1), "warps.queued")
        ready = np.flatnonzero(queued)
        one, block = warps[ready], blocks[warps["block"][ready]]
        require(np.isin(block["state"], (t.MOVING, t.SIGNALLING, t.WAITING)), "warps.queued")
        op = block["op"]
        kind = ops["kind"][op]
        require(np.isin(kind, (t.MOVE, t.NOTIFY, t.WAIT, t.COMPUTE, t.TILE)), "warps.queued")
        moves = kind == t.MOVE
        own = ops["block"][one["op"]] == one["block"]
        require(~moves | own & (ops["kind"][one["op"]] == t.MOVE), "warps.op")
        more = (one["free_job"] >= 0) & (one["next_line"] < ops["lines"][one["op"]])
        under = (one["ready_head"] >= 0) | (one["retry_head"] >= 0) | (one["loading"] >= 0)
        require(~moves | under | more, "warps.queued")
        require((kind != t.COMPUTE) | (one["next_line"] > 0), "warps.next_line")
        alone = (kind == t.NOTIFY) | (kind == t.WAIT)
        require(~alone | (ready == block["first_warp"]), "warps.queued")
        waiting = block["first_warp"][kind == t.WAIT]
        require(~np.isin(waiting, blocks["first_warp"][self.polled]), "warps.queued")

    def _check_progress(self) -> None:
        """Each operation has as much left as its block's warps have to issue."""
        warps, blocks, ops = self.warps, self.blocks, self.ops
        computes = np.flatnonzero(
            (blocks["state"] == t.MOVING) & (ops["kind"][np.minimum(blocks["op"], len(ops) - 1)] == t.COMPUTE)
        )
        for block in blocks[computes]:
            own = warps["next_line"][block["first_warp"] : block["first_warp"] + block["warps"]]
            require((own >= 0).all() and ops["left"][block["op"]] == own.sum(), "ops.left")
        # Of moves, each warp has its share of the lines; it is ahead of its block by some operations.
        moves = ops["kind"] == t.MOVE
        left = np.where(np.arange(len(ops)) < blocks["op"][ops["block"]], 0, ops["lines"].astype(np.int64))
        block = warps["block"]
        moving = blocks["state"] == t.MOVING
        moving[computes] = False
        moving[self.tiled] = False
        ahead = np.flatnonzero((warps["op"] >= blocks["op"][block]) & moving[block])
        require(warps["op"][ahead] < blocks["last_op"][block[ahead]], "warps.op")
        count = warps["op"][ahead] - blocks["op"][block[ahead]] + 1
        op = ranges(blocks["op"][block[ahead]], count)
        warp = np.repeat(ahead, count)
        many = blocks["warps"][block[warp]].astype(np.int64)
        first = warp - blocks["first_warp"][block[warp]]
        first = np.where(ops["ahead"][op] == 1, (first - ops["before"][op] % many) % many, first)
        lines = ops["lines"][op]
        ends = lines + (first - lines) % many  # the first line of this warp beyond the last one
        last = warps["op"][warp] == op
        begun = np.where(last, np.minimum(warps["next_line"][warp], ends), ends) - first
        require((begun >= 0) & (begun % many == 0) & (lines > 0) | (lines == 0), "warps.next_line")
        np.subtract.at(left, op, np.where(lines > 0, np.maximum(0, begun) // many, 0))
        np.add.at(left, self.jobs["op"][self.under_way], 1)
        require((ops["left"] == left) | ~moves, "ops.left")

    def _check_tiled(self, kind: np.ndarray, argument: np.ndarray) -> None:
        """Each tile has fetched and computed its steps one after another, in the stages that it has."""
        warps, blocks = self.warps, self.blocks
        rows = np.flatnonzero(self.tiled)
        own = blocks[rows]
        tile = self.tiles[self.ops["value"][own["op"]]]
        require(tile["computed"] < tile["steps"], "tiles.computed")
        require((tile["computed"] <= tile["fetched"]) & (tile["fetched"] <= tile["steps"]), "tiles.fetched")
        require(tile["fetched"] <= tile["computed"] + tile["stages"], "tiles.fetched")
        require((tile["computing"] == 0) | (tile["computed"] < tile["fetched"]), "tiles.computing")
        timed = np.isin(rows, argument[kind == t.FENCE])
        require(timed == (tile["computing"] == 1), "tiles.computing")
        # The stage that is being loaded is the only one with anything to issue.
        loads = (tile["fetched"] < tile["steps"]) & (tile["fetched"] < tile["computed"] + tile["stages"])
        stage = own["first_warp"] + tile["fetched"] % tile["stages"]
        begun = tile["fetched"].astype(np.int64) * tile["step_lines"]
        place = np.where(loads, warps["next_line"][stage], begun)
        require((place >= begun) & (place < begun + tile["step_lines"]), "warps.next_line")
        left = self.ops["lines"][own["op"]] - place
        require(self.ops["left"][own["op"]] == left, "ops.left")
        ready = np.zeros(len(warps), bool)
        ready[stage[loads]] = True
        of_tiles = self.tiled[warps["block"]]
        require((warps["queued"][of_tiles] == 1) == ready[of_tiles], "warps.queued")
