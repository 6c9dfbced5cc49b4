"""The inspector: objects and the last event in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.collectives import BUFFERS
from astranb.collectives.language import index_name
from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_bytes, format_time
from astranb.gpu import channel_of, slice_of
from astranb.gpu import tables as t
from astranb.infragraph import LINK_PROPERTIES, LinkProperty, title_of
from astranb.net import CLASSES

from .edits import lanes_of
from .ethernet import describe_event, link_rows
from .faults import is_down, queued_ps, waiting_at
from .groups import rows_of_group
from .lines import describe_line, entrance_of, utilisation
from .machine import CacheLineMachine, busy_until
from .paths import SUMMED, TABLES, MachinePart, block_name, block_path, resolve, sm_path
from .recent_events import recent_events
from .state import CacheLineState
from .time_classes import BLOCK_CLASSES, doing

__all__ = ["Inspector", "numbers"]

_MOST_IN_FLIGHT = 64
_GOING = ("load", "store", "signal", "poll")
_COMING = ("data of load", "acknowledgement of store", "acknowledgement of signal", "answer to poll")


_Found = tuple[list[tuple[str, Any]], np.ndarray, list[dict[str, str]]]
"""State, requests under way and parts of an object."""


class Inspector:
    """Answers questions about the present state of a simulation.

    Parameters
    ----------
    engine : CacheLineState
    """

    def __init__(self, engine: CacheLineState) -> None:
        self._engine = engine

    # Words ---------------------------------------------------------------

    def narrate(self) -> str:
        """Describe in one line the event handled last."""
        machine = self._engine.machine
        clock = machine.clock[0]
        if clock.events == 0:
            return "nothing has happened yet"
        kind, arg = int(clock.last_kind), int(clock.last_arg)
        when = f"{format_time(self._engine.now_ps)} · "
        if kind == t.LAUNCH:
            return f"{when}{block_name(machine, arg)} begins on {self._unit(int(machine.blocks[arg].sm))}"
        if kind == t.ISSUE:
            sm = machine.sms[arg]
            stalled = " stalls: every outstanding slot is taken" if sm.stalled else " issues one instruction"
            if sm.engine:
                return (
                    f"{when}GPU{sm.gpu} copy engine{stalled} ({plural(sm.outstanding, 'request')} under way)"
                )
            return (
                f"{when}GPU{sm.gpu} sm.{self._sm(arg)}{stalled} "
                f"({plural(sm.outstanding, 'request')} under way)"
            )
        op = int(machine.blocks[arg].op) if kind == t.FENCE else -1
        if 0 <= op < len(machine.ops) and machine.ops[op].kind == t.TILE:
            tile = machine.tiles[int(machine.ops[op].value)]
            steps = f"step {tile.computed} of {tile.steps} of a tile"
            return f"{when}{block_name(machine, arg)} has computed {steps}"
        if kind == t.FENCE:
            waits = 0 <= op < len(machine.ops) and machine.ops[op].kind == t.WAIT
            passed = "its wait for another role" if waits else "its fence"
            return f"{when}{block_name(machine, arg)} has passed {passed}"
        if kind == t.POST:
            return f"{when}{block_name(machine, arg)}: a signal leaves behind the stores that it announces"
        if kind == t.WIRE:
            return f"{when}a link has room for the next message"
        if kind in (t.PAUSE, t.RATE_RELEASE, t.CNP):
            return when + describe_event(machine, self._engine.fabric, t.EVENT_KINDS[kind], arg)
        if kind == t.FAULT:
            return f"{when}{self._engine.fabric.name(int(machine.faults[arg].link))} changes"
        return when + self._request_event(kind, arg)

    def _request_event(self, kind: int, number: int) -> str:
        machine, fabric = self._engine.machine, self._engine.fabric
        request = machine.requests[number]
        what = self.request_text(number)
        if kind == t.HOP:
            if request.leg == t.ON_CHIP:
                return f"the mesh: {what}"
            link = entrance_of(machine, number)
            return f"{fabric.name(link) if link >= 0 else 'held back by the rate of its flow'}: {what}"
        if kind == t.SWITCH:
            return f"in a switch: {what}"
        if kind == t.L2:
            came = f" arrives from GPU{request.gpu}" if request.gpu != request.target else ""
            return f"GPU{request.target} L2: {self.request_text(number, going=True)}{came}"
        if kind == t.HBM:
            return f"GPU{request.target} HBM: {what} missed in L2"
        took = format_time(self._engine.now_ps - int(request.issued_ps))
        return f"GPU{request.gpu}: {what} is back after {took}"

    def request_text(self, number: int, *, going: bool = False) -> str:
        """``store line 17/64 of output[2] of GPU4 (all-gather 1/7)``; ``going``: not what comes back."""
        engine = self._engine
        machine = engine.machine
        request = machine.requests[number]
        kind = (_GOING if going or not request.returning else _COMING)[int(request.kind)]
        op = machine.ops[int(request.op)]
        phase = f" ({engine.program.phase_names[int(op.phase)]})" if engine.program.phase_names else ""
        operand = machine.operands[int(request.operand)]
        if operand.slice < 0:
            return f"{kind} semaphore {int(op.semaphore)} of GPU{operand.gpu}{phase}"
        slice_ = machine.slices[int(operand.slice)]
        if machine.clock[0].detailed:
            line = int(machine.details[number].index)
        else:
            line = int(request.line - operand.line)
        return (
            f"{kind} line {line + 1}/{int(op.lines)} of {BUFFERS[int(slice_.buffer)]}"
            f"[{index_name(int(slice_.chunk))}] "
            f"of GPU{slice_.gpu}{phase}"
        )

    def _sm(self, sm: int) -> int:
        machine = self._engine.machine
        return sm - int(machine.gpus[int(machine.sms[sm].gpu)].first_sm)

    def _unit(self, sm: int) -> str:
        """``sm.3``, or ``engine.0`` of a copy engine."""
        return ".".join(sm_path(self._engine.fabric, self._engine.machine, sm).split(".")[-2:])

    # Objects ---------------------------------------------------------------

    def inspect(self, path: str) -> dict[str, Any]:
        """Describe an object.

        Returns
        -------
        dict
            ``title``, ``path``, ``kind``, ``state`` (list of [label, text]), ``in_flight``
            (list of text; ``lines``: their paths), ``children`` (list of {path, text}), ``recent``
            (the last ten things that happened, newest first), ``route`` (of a line: its links).
        """
        place = resolve(path, self._engine.fabric, self._engine.machine)
        state, requests, children = {
            "gpu": self._gpu,
            "sm": self._one_sm,
            "engine": self._one_sm,
            "nic": self._one_sm,
            "block": self._one_block,
            "l2": self._server,
            "hbm": self._server,
            "semaphore": self._semaphore,
            "link": self._link,
            "port": self._port,
            "buffer": self._buffer,
            "line": self._line,
            "node": self._switch,
            "instance": self._group,
        }[place.kind](place)
        lines = [
            f"{self.request_text(int(r))}, under way for {self._age(int(r))}"
            for r in requests[:_MOST_IN_FLIGHT]
        ]
        if len(requests) > _MOST_IN_FLIGHT:
            lines.append(f"… and {len(requests) - _MOST_IN_FLIGHT:,} more")
        return {
            "title": title_of(place.path, rank=place.row if place.kind == "gpu" else -1),
            "path": place.path,
            "kind": place.kind,
            "state": [[label, str(text)] for label, text in state],
            "in_flight": lines,
            "in_flight_count": len(requests),
            "lines": [f"line[{int(r)}]" for r in requests[:_MOST_IN_FLIGHT]],
            "children": children,
            "recent": recent_events(self._engine, place),
            "route": describe_line(self._engine, place.row)[2] if place.kind == "line" else [],
        }

    def _age(self, request: int) -> str:
        return format_time(self._engine.now_ps - int(self._engine.machine.requests[request].issued_ps))

    def _gpu(self, place: MachinePart) -> _Found:
        machine, rank = self._engine.machine, place.row
        gpu, blocks, requests = machine.gpus[rank], machine.blocks, machine.requests
        mine = np.flatnonzero(blocks["gpu"] == rank)
        counts = np.bincount(blocks["state"][mine], minlength=len(t.BLOCK_STATES))
        does = ", ".join(f"{doing(s)} {n}" for s, n in enumerate(counts) if n)
        flying = np.flatnonzero((requests["live"] == 1) & (requests["gpu"] == rank))
        first, last = int(gpu.first_sm), int(gpu.first_sm + gpu.sms)
        used = [sm for sm in range(first, last) if machine.sms[sm].resident or machine.sms[sm].issued]
        state = [
            ("preset", self._engine.presets[rank].name),
            ("thread blocks", does or "none"),
            ("SMs in use", f"{len(used)} of {gpu.sms}"),
            ("instructions issued", f"{int(machine.sms['issued'][first:last].sum()):,}"),
            ("L2 lines served", f"{self._served('l2_slices', gpu.first_l2_slice, gpu.l2_slices):,}"),
            ("HBM lines read", f"{self._served('hbm_channels', gpu.first_hbm_channel, gpu.hbm_channels):,}"),
            ("requests under way", f"{len(flying):,}"),
        ]
        if gpu.ended_ps:
            state.append(("ended", format_time(int(gpu.ended_ps))))
        children = [
            {"path": f"{place.path}.sm.{sm - first}", "text": f"sm.{sm - first}: {self._sm_text(sm)}"}
            for sm in used
        ]
        return state, flying, children

    def _served(self, table: str, first: int, count: int) -> int:
        return int(self._engine.machine.tables[table]["lines"][first : first + count].sum())

    def _sm_text(self, sm: int) -> str:
        machine = self._engine.machine
        here = np.flatnonzero(machine.blocks["sm"] == sm)
        live = [b for b in here if machine.blocks["state"][b] not in (t.DONE, t.PENDING)]
        if not live:
            return "idle" if len(here) else "empty"
        return "; ".join(self._block_text(int(b)) for b in live)

    def _block_text(self, block: int) -> str:
        machine, names = self._engine.machine, self._engine.program.phase_names
        row = machine.blocks[block]
        state = doing(int(row.state))
        if row.state == t.DONE or row.op >= row.last_op:
            return state
        op = machine.ops[int(row.op)]
        phase = f" · {names[int(op.phase)]}" if names else ""
        if row.state == t.WAITING:
            value = int(machine.semaphores[int(op.semaphore)].value)
            return f"waiting for semaphore {op.semaphore} ({value} of {op.value}){phase}"
        if row.state == t.MOVING and op.kind == t.TILE:
            tile = machine.tiles[int(op.value)]
            return f"computing, {tile.computed} of {tile.steps} steps of a tile{phase}"
        if row.state == t.MOVING:
            return f"{state}, {int(op.left)} of {int(op.lines)} lines to issue{phase}"
        return f"{state}{phase}" + (
            f", {plural(row.unacked, 'store')} not acknowledged" if row.unacked else ""
        )

    def _one_sm(self, place: MachinePart) -> _Found:
        machine = self._engine.machine
        sm, gpu = machine.sms[place.row], machine.gpus[int(machine.sms[place.row].gpu)]
        here = np.flatnonzero(machine.blocks["sm"] == place.row)
        requests = machine.requests
        most = gpu.engine_outstanding if sm.engine else gpu.max_outstanding
        if sm.engine == t.NIC:
            most = gpu.nic_outstanding + sm.resident
        first_block = int(np.flatnonzero(machine.blocks["gpu"] == sm.gpu)[0])
        owner = machine.warps["block"][requests["warp"]]
        flying = np.flatnonzero((requests["live"] == 1) & np.isin(owner, here))
        state = [
            ("doing", self._sm_text(place.row)),
            ("requests under way", f"{sm.outstanding} of {most}"),
            ("stalled for a slot", "yes" if sm.stalled else "no"),
            ("instructions issued", f"{int(sm.issued):,}"),
            ("time stalled", format_time(int(sm.stalled_ps))),
            ("held by blocks", f"{1 - int(sm.free) / t.ROOM:.0%}"),
            ("matrix units busy", format_time(_until(machine, place.row, self._engine.now_ps))),
        ]
        gpu_path = place.path.rsplit(f".{place.kind}.", 1)[0]
        children = [
            {
                "path": f"{gpu_path}.block.{b - first_block}",
                "text": f"block {b - first_block}: {self._block_text(int(b))}",
            }
            for b in here
        ]
        return state, flying, children

    def _one_block(self, place: MachinePart) -> _Found:
        machine = self._engine.machine
        block = machine.blocks[place.row]
        owner = machine.warps["block"][machine.requests["warp"]]
        flying = np.flatnonzero((machine.requests["live"] == 1) & (owner == place.row))
        spent = [(name, int(block[f"{part}_ps"])) for part, name in BLOCK_CLASSES.items()]
        state: list[tuple[str, Any]] = [
            ("doing", self._block_text(place.row)),
            ("operation", f"{int(block.op - block.first_op)} of {int(block.last_op - block.first_op)}"),
            ("SM", self._unit(int(block.sm)) if block.sm >= 0 else "none yet"),
            *((f"time {name}", format_time(ps)) for name, ps in spent),
            ("polls in vain", f"{int(block.polls):,}"),
        ]
        return state, flying, []

    def _server(self, place: MachinePart) -> _Found:
        """An L2 slice or an HBM channel."""
        machine, now = self._engine.machine, self._engine.now_ps
        table, rank = machine.tables[TABLES[place.kind]], self._rank_of(place)
        server = table[place.row]
        gpu, requests = machine.gpus[rank], machine.requests
        row_of = slice_row if place.kind == "l2" else channel_row
        going = np.flatnonzero(
            (requests["live"] == 1) & (requests["target"] == rank) & (requests["returning"] == 0)
        )
        mine = np.array(
            [r for r in going if row_of(machine, rank, int(requests["line"][r])) == place.row], int
        )
        takes = gpu.slice_ps if place.kind == "l2" else gpu.channel_ps
        state: list[tuple[str, Any]] = [
            ("lines served", f"{int(server.lines):,}"),
            ("one line takes", format_time(int(takes))),
            ("utilisation so far", f"{int(busy_until(table[[place.row]], now)[0]) / max(1, now):.1%}"),
            ("queue now", format_time(max(0, int(server.free_at_ps) - now))),
            ("time queued, all lines", format_time(int(server.queued_ps))),
        ]
        if place.kind == "hbm" and gpu.row_miss_ps:
            state.append(("open row", f"{int(server.row):,}"))
        return state, mine, []

    def _rank_of(self, place: MachinePart) -> int:
        """The GPU that an L2 slice or an HBM channel belongs to."""
        gpus = self._engine.machine.gpus
        first = gpus["first_l2_slice" if place.kind == "l2" else "first_hbm_channel"]
        return int(np.searchsorted(first, place.row, side="right")) - 1

    def _semaphore(self, place: MachinePart) -> _Found:
        machine, fabric = self._engine.machine, self._engine.fabric
        ops, blocks, requests = machine.ops, machine.blocks, machine.requests
        about = ops["semaphore"] == place.row
        at = np.flatnonzero((blocks["state"] == t.WAITING) & about[np.minimum(blocks["op"], len(ops) - 1)])
        control = (requests["kind"] == t.SIGNAL) | (requests["kind"] == t.POLL)
        flying = np.flatnonzero((requests["live"] == 1) & control & about[requests["op"]])
        signals, waits = about & (ops["kind"] == t.NOTIFY), about & (ops["kind"] == t.WAIT)
        state: list[tuple[str, Any]] = [
            ("value", int(machine.semaphores[place.row].value)),
            (
                "signals",
                f"{int((signals & (ops['ended_ps'] >= 0)).sum())} of {int(signals.sum())} acknowledged",
            ),
            ("waits", f"{int((waits & (ops['issued_ps'] >= 0)).sum())} of {int(waits.sum())} over"),
            ("waiting for it", ", ".join(block_name(machine, int(b)) for b in at) or "no thread block"),
        ]
        owners = dict.fromkeys(int(b) for b in ops["block"][np.flatnonzero(about)])
        children = [
            {
                "path": block_path(fabric, machine, block),
                "text": f"{block_name(machine, block)}: {self._block_text(block)}",
            }
            for block in owners
        ]
        return state, flying, children

    def _port(self, place: MachinePart) -> _Found:
        """The lane that leaves a node, and the one that comes back."""
        machine, fabric = self._engine.machine, self._engine.fabric
        state: list[tuple[str, Any]] = []
        for row, direction in zip(place.rows, ("out", "in"), strict=False):
            link = machine.links[row]
            state += [
                (f"{direction}, bandwidth", format_bandwidth(int(link.bandwidth_Bps))),
                (f"{direction}, utilisation so far", f"{utilisation(self._engine, (row,)):.1%}"),
                (f"{direction}, messages", f"{int(link.messages):,}"),
                (f"{direction}, bytes with headers", format_bytes(int(link.bytes))),
                (f"{direction}, queue now", format_time(max(0, int(link.free_at_ps) - self._engine.now_ps))),
            ]
        state += link_rows(machine, fabric, np.array(place.rows), self._engine.now_ps)
        children = [{"path": fabric.name(row), "text": fabric.name(row)} for row in place.rows]
        return state, self._on_links(place.rows), children

    def _buffer(self, place: MachinePart) -> _Found:
        """The queue of a class of messages at a link, and the buffers behind it."""
        machine, fabric = self._engine.machine, self._engine.fabric
        rows = machine.queues[list(place.rows)]
        waiting = [request for queue in place.rows for request in machine.waiting(queue)]
        state: list[tuple[str, Any]] = [("waiting in front of the link", f"{int(rows['waiting'].sum()):,}")]
        if machine.clock[0].finite:
            state.append(("free buffers behind it", f"{int(rows['credits'].sum()):,}"))
        if machine.roce[0].on:
            state += [
                ("bytes that wait in front of it", format_bytes(int(rows["bytes"].sum()))),
                ("bytes that wait behind it", format_bytes(int(rows["stored"].sum()))),
                ("paused", f"{int(rows['paused'].sum())} of {plural(len(rows), 'lane')}"),
            ]
        lanes = dict.fromkeys(fabric.name(queue // CLASSES) for queue in place.rows)
        return state, np.array(waiting, np.int64), [{"path": name, "text": name} for name in lanes]

    def _line(self, place: MachinePart) -> _Found:
        state, children, _ = describe_line(self._engine, place.row)
        return [("line", self.request_text(place.row)), *state], np.array([place.row]), children

    def _link(self, place: MachinePart) -> _Found:
        machine, fabric, now = self._engine.machine, self._engine.fabric, max(1, self._engine.now_ps)
        rows = machine.links[list(place.rows)]
        flying = self._on_links(place.rows)
        down = [link for link in place.rows if is_down(machine, link)]
        queue = ("queue now", format_time(max(0, int(rows["free_at_ps"].max()) - self._engine.now_ps)))
        if down:
            waiting = sum(len(waiting_at(machine, link)) for link in down)
            lines = plural(waiting, "line waits", "lines wait")
            queue = ("down", f"{len(down)} of {plural(len(rows), 'lane')}, and {lines}")
        source, target = fabric.short_ends(place.rows)
        state = [
            ("source", source),
            ("target", target),
            *((one.label, _link_text(one, rows)) for one in LINK_PROPERTIES if _is_shown(one, rows)),
            ("utilisation so far", f"{utilisation(self._engine, place.rows):.1%}"),
            ("messages", f"{int(rows['messages'].sum()):,}"),
            ("bytes with headers", format_bytes(int(rows["bytes"].sum()))),
            queue,
            ("time queued, all messages", format_time(int(queued_ps(machine, now)[list(place.rows)].sum()))),
            *link_rows(machine, fabric, np.array(place.rows), self._engine.now_ps),
        ]
        children = (
            []
            if len(rows) == 1
            else [{"path": fabric.name(int(r)), "text": fabric.name(int(r))} for r in place.rows]
        )
        return state, flying, children

    def _on_links(self, links: tuple[int, ...]) -> np.ndarray:
        """Requests that wait for a link or are on it: taken in at its entrance, not arrived yet."""
        requests = self._engine.machine.requests
        taken = (requests["live"] == 1) & np.isin(requests["link"], links)
        return np.flatnonzero(taken & (requests["arrives_ps"] >= self._engine.now_ps))

    def _group(self, place: MachinePart) -> _Found:
        return rows_of_group(self._engine.machine, self._engine.fabric, place.rows, self._engine.now_ps)

    def _switch(self, place: MachinePart) -> _Found:
        machine, fabric = self._engine.machine, self._engine.fabric
        into = np.flatnonzero(machine.links["dst"] == place.row)
        out = np.flatnonzero(machine.links["src"] == place.row)
        state = [
            ("kind", fabric.graph.kind_name(place.row)),
            ("lanes in", len(into)),
            ("lanes out", len(out)),
            ("lines passed", f"{int(machine.links['messages'][out].sum()):,}"),
            ("mean utilisation of lanes out", f"{utilisation(self._engine, out):.1%}"),
            ("forwarding latency", format_time(int(fabric.graph.nodes.forward_ps[place.row]))),
        ]
        seen: dict[str, None] = {}
        for link in out:
            seen.setdefault(fabric.name(int(link)).partition("#")[0])
        children = [{"path": name, "text": name} for name in seen]
        return state, self._on_links(tuple(int(x) for x in into)), children


def _is_shown(one: LinkProperty, lanes: np.ndarray) -> bool:
    return bool(one.label) and int(lanes[one.column][0]) != one.hidden


def _link_text(one: LinkProperty, lanes: np.ndarray) -> str:
    """Write a property of a link; of several lanes the sum, and what each carries."""
    if one.summed and len(lanes) > 1:
        return f"{one.text(int(lanes[one.column].sum()))} ({lanes_of(lanes)})"
    return one.text(int(lanes[one.column][0]))


def slice_row(machine: CacheLineMachine, rank: int, line: int) -> int:
    """The L2 slice of a line of a GPU's memory."""
    return int(machine.gpus[rank].first_l2_slice) + slice_of(machine.gpus, rank, line)


def channel_row(machine: CacheLineMachine, rank: int, line: int) -> int:
    """The HBM channel of a line of a GPU's memory."""
    return int(machine.gpus[rank].first_hbm_channel) + channel_of(machine.gpus, rank, line)


def numbers(engine: CacheLineState, place: MachinePart) -> dict[str, Any]:
    """Every field of an object's record, and what its numbers mean."""
    machine = engine.machine
    if place.kind == "node":
        graph = engine.fabric.graph
        return {
            "node": place.row,
            "kind": graph.kind_name(place.row),
            "forward_ps": int(graph.nodes.forward_ps[place.row]),
        }
    if place.kind == "instance":
        return {"nodes": len(place.rows)}
    table = machine.tables[TABLES[place.kind]]
    rows = table[list(place.rows)]
    state: dict[str, Any] = {
        name: int(rows[name].sum() if place.whole and name in SUMMED else rows[name][0])
        for name in table.dtype.names or ()
        if name not in ("pad", "next_free", "live")
    }
    if place.kind in ("link", "port"):
        state |= {"lanes": len(rows), "utilisation": utilisation(engine, place.rows)}
    elif place.kind == "block":
        source, at = engine.program.source, state["op"]
        known = len(source.line) > 0 and at < state["last_op"]
        state |= {
            "doing": doing(state["state"]),
            "line": int(source.line[at]) if known else 0,
            "code": source.text_of(at) if known else "",
        }
    elif place.kind == "line":
        state["what"] = t.REQUEST_KINDS[state["kind"]]
    return state


def _until(machine: CacheLineMachine, sm: int, now_ps: int) -> int:
    """Time that the matrix units of an SM have been busy up to now, in ps."""
    row = machine.sms[sm]
    return int(row.matrix_ps) - max(0, int(row.matrix_free_ps) - now_ps)
