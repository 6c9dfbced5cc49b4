"""The chain of waits: from an object, over what it waits for, to the resource at the end."""

from __future__ import annotations

from collections import Counter

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.engine.why import WaitStep, Why
from astranb.gpu import tables as t
from astranb.net import CLASSES

from .inspection import Inspector
from .lines import Lines, utilisation
from .machine import busy_until
from .paths import TABLES, MachinePart, block_name, block_path, gpu_path, resolve, sm_path
from .state import CacheLineState
from .time_classes import doing

__all__ = ["explain_wait"]

_MOST_STEPS = 64
_MOST_USERS = 4


def explain_wait(engine: CacheLineState, path: str) -> Why:
    """Explain why an object waits now.

    Parameters
    ----------
    engine : CacheLineState
    path : str
        Empty: the GPU whose thread block has waited longest.

    Raises
    ------
    InputError
        There is no such object.
    """
    if not path:
        rank = int(engine.machine.blocks["gpu"][_worst(engine, np.arange(len(engine.machine.blocks)))])
        path = gpu_path(engine.fabric, rank)
    place = resolve(path, engine.fabric, engine.machine)
    return _WaitChain(engine, Why(place.path, engine.now_ps)).follow(place)


def _worst(engine: CacheLineState, some: np.ndarray) -> int:
    """Of some blocks the one to ask about: one that waits, longest; else one that has not ended."""
    blocks = engine.machine.blocks
    order = {t.WAITING: 0, t.DRAINING: 1, t.MOVING: 2, t.SIGNALLING: 3, t.PENDING: 4, t.DONE: 5}
    ended = -blocks["ended_ps"]

    def key(block: int) -> tuple[int, int, int]:
        state = int(blocks["state"][block])
        since = int(ended[block]) if state == t.DONE else int(blocks["since_ps"][block])
        return order[state], since, block

    return min((int(b) for b in some), key=key)


class _WaitChain:
    def __init__(self, engine: CacheLineState, why: Why) -> None:
        self._engine, self._why = engine, why
        self._machine, self._fabric = engine.machine, engine.fabric
        self._lines = Lines(engine)
        self._seen: dict[tuple[str, int], int] = {}  # blocks and lines in their order, and whose

    def follow(self, place: MachinePart) -> Why:
        if place.kind == "gpu":
            mine = np.flatnonzero(self._machine.blocks["gpu"] == place.row)
            self._several(place, mine, f"GPU{place.row}")
        elif place.kind in ("sm", "engine", "nic"):
            mine = np.flatnonzero(self._machine.blocks["sm"] == place.row)
            self._several(place, mine, place.path)
        elif place.kind == "block":
            self._block(place.row)
        elif place.kind == "line":
            self._line(place.row)
        elif place.kind in ("link", "port"):
            self._link(place.path, place.rows)
        elif place.kind == "buffer":
            self._link(place.path, tuple(queue // CLASSES for queue in place.rows))
        elif place.kind == "semaphore":
            self._semaphore(place)
        elif place.kind in ("l2", "hbm"):
            self._server(place)
        else:
            self._node(place)
        return self._why

    def _put(self, text: str, path: str, since_ps: int = -1, until_ps: int = -1) -> None:
        self._why.links.append(WaitStep(text, path, int(since_ps), int(until_ps)))

    # Thread blocks -----------------------------------------------------------

    def _several(self, place: MachinePart, mine: np.ndarray, name: str) -> None:
        """A GPU or an SM: of its thread blocks the one that waits longest."""
        blocks = self._machine.blocks
        if not len(mine):
            self._put(f"{name} has no thread block", place.path)
            return
        counts = Counter(doing(int(s)) for s in blocks["state"][mine])
        worst = _worst(self._engine, mine)
        if blocks["state"][worst] == t.DONE:
            when = int(blocks["ended_ps"][mine].max())
            self._put(
                f"{name} waits for nothing: its last thread block ended at {format_time(when)}", place.path
            )
            return
        found = ", ".join(f"{what} {n}" for what, n in counts.most_common())
        self._put(f"{name}: thread blocks: {found}", place.path)
        self._block(worst)

    def _name(self, block: int) -> str:
        return block_name(self._machine, block)

    def _report(self, block: int, text: str, since_ps: int = -1, until_ps: int = -1) -> None:
        """Add a step about a thread block."""
        self._put(f"{self._name(block)} {text}", self._path(block), since_ps, until_ps)

    def _path(self, block: int) -> str:
        return block_path(self._fabric, self._machine, block)

    def _op(self, op: int) -> str:
        """``operation 7 (all-gather 1/7)``."""
        row, names = self._machine.ops[op], self._engine.program.phase_names
        return f"operation {int(row.number)}{f' ({names[int(row.phase)]})' if names else ''}"

    def _comes_back(self, what: tuple[str, int], block: int) -> bool:
        """Return whether the chain has been here before: then it ends, as a cycle."""
        if what in self._seen:
            cycle = [self._name(b) for b in list(self._seen.values())[list(self._seen).index(what) :]]
            names = [name for k, name in enumerate(cycle) if k == 0 or name != cycle[k - 1]]
            text = " <- ".join([*names, names[0]])
            self._why.circle = True
            self._put(f"a cycle of waits: {text} (deadlock)", self._path(block))
            return True
        if len(self._why.links) >= _MOST_STEPS:
            self._put("and so on", self._path(block))
            return True
        self._seen[what] = block
        return False

    def _block(self, block: int) -> None:
        # Warps of a block that moves go on by themselves: of these, lines may come back, not blocks.
        still = self._machine.blocks["state"][block] != t.MOVING
        if still and self._comes_back(("block", block), block):
            return
        state = int(self._machine.blocks[block].state)
        {
            t.PENDING: self._pending,
            t.MOVING: self._moving,
            t.SIGNALLING: self._signalling,
            t.WAITING: self._waiting,
            t.DRAINING: self._draining,
            t.DONE: self._done,
        }[state](block)

    def _done(self, block: int) -> None:
        when = format_time(int(self._machine.blocks[block].ended_ps))
        self._report(block, f"ended at {when}: it waits for nothing")

    def _pending(self, block: int) -> None:
        blocks, row = self._machine.blocks, self._machine.blocks[block]
        if row.after > 0:
            ops = self._machine.ops
            late = (ops["kind"] == t.RELEASE) & (ops["value"] == block) & (ops["started_ps"] < 0)
            self._report(
                block, f"has not begun: it waits for the end of {plural(int(row.after), 'other')}", 0
            )
            for other in ops["block"][late][:1]:
                self._block(int(other))
            return
        if row.sm >= 0:
            when, late_ps = format_time(int(row.launch_ps)), int(self._engine.late_ps[int(row.gpu)])
            if late_ps > self._engine.now_ps:
                text = f"has not begun: its rank starts late, at {format_time(late_ps)}"
                self._report(block, text, 0, int(row.launch_ps))
                return
            self._report(block, f"has not begun: its kernel is launched at {when}", 0, int(row.launch_ps))
            return
        same = (blocks["gpu"] == row.gpu) & (blocks["engine"] == row.engine) & (blocks["sm"] >= 0)
        resident = np.flatnonzero(same & (blocks["state"] != t.DONE))
        what = ("SM", "copy engine", "NIC")[int(row.engine)]
        room = f"the {what}s of its GPU have room for {plural(len(resident), 'block')}"
        self._report(block, f"has not begun: {room}", 0)
        # A place becomes free when the first of them ends: one that does not wait for others, if any.
        able = [b for b in resident if blocks["state"][b] != t.WAITING]
        if len(resident):
            self._block(int(min(able or resident, key=lambda b: int(blocks["last_op"][b] - blocks["op"][b]))))

    def _signalling(self, block: int) -> None:
        row = self._machine.blocks[block]
        self._report(block, "is about to issue its next instruction", row.since_ps)
        self._slots(int(row.sm))

    def _slots(self, sm: int) -> None:
        """An SM: its slots for requests under way are taken, or its issue slots are the limit."""
        row, path = self._machine.sms[sm], sm_path(self._fabric, self._machine, sm)
        if row.stalled:
            self._put(
                f"all {int(row.outstanding)} slots for requests of {path} are taken: it stalls",
                path, row.stalled_since_ps,
            )  # fmt: skip
            under_way = self._lines.of_sm(sm)
            if len(under_way):
                self._line(int(under_way[0]), "the oldest of them:")
        elif sm in self._lines.next_issue:
            next_ps = self._lines.next_issue[sm]
            text = f"issues its next instruction at {format_time(next_ps)}: it is limited by its issue slots"
            self._put(f"{path} {text}", path, until_ps=next_ps)
        else:
            self._put(f"{path} has nothing to issue", path)

    def _moving(self, block: int) -> None:
        machine, row = self._machine, self._machine.blocks[block]
        number = int(row.op)
        op = machine.ops[number]
        if op.kind == t.SPEND:
            ends_ps = int(row.since_ps + op.left)
            text = f"is at {self._op(number)} until {format_time(ends_ps)}"
            self._report(block, text, row.since_ps, ends_ps)
            return
        if op.kind == t.TILE:
            self._tile(block, number)
            return
        if op.kind == t.COMPUTE:
            text = f"computes at {self._op(number)}: {int(op.left):,} instructions to issue"
            self._report(block, text, row.since_ps)
            self._slots(int(row.sm))
            return
        left = f"{int(op.left):,} of {int(op.lines):,} to go"
        self._report(block, f"moves lines at {self._op(number)}: {left}", row.since_ps)
        under_way = self._lines.of_block(block)
        loads = [int(r) for r in under_way if machine.requests[r].kind == t.LOAD]
        # Warps run ahead: the block's own move comes first.
        loads.sort(key=lambda r: int(machine.requests["op"][r]))
        if machine.sms[int(row.sm)].stalled or not loads:
            self._slots(int(row.sm))
        elif self._is_absent(loads[0]):
            self._packet(loads[0])
        else:
            self._line(loads[0], f"{plural(len(loads), 'load')} under way, the oldest:")

    def _tile(self, block: int, number: int) -> None:
        """A tile: the matrix units compute a step of it, or its operands are on their way."""
        machine, row = self._machine, self._machine.blocks[block]
        tile = machine.tiles[int(machine.ops[number].value)]
        steps = f"{int(tile.computed):,} of {int(tile.steps):,} steps computed"
        self._report(block, f"computes a tile at {self._op(number)}: {steps}", row.since_ps)
        path = sm_path(self._fabric, machine, int(row.sm))
        if tile.computing:
            ends_ps = int(self._lines.fences[block])
            text = f"the matrix units of {path} are at its next step until {format_time(ends_ps)}"
            self._put(text, path, until_ps=ends_ps)
            return
        loads = [int(r) for r in self._lines.of_block(block) if machine.requests[r].kind == t.LOAD]
        if loads:
            self._line(loads[0], f"{plural(len(loads), 'line')} of its operands under way, the oldest:")
        else:
            self._slots(int(row.sm))

    def _draining(self, block: int) -> None:
        row = self._machine.blocks[block]
        what = "its end" if row.op == row.last_op else f"the fence before {self._op(int(row.op))}"
        if row.unacked == 0:
            over_ps = self._lines.fences.get(block, -1)
            until = f" until {format_time(over_ps)}" if over_ps >= 0 else ""
            self._report(block, f"is in a system-wide fence{until}", row.since_ps, over_ps)
            return
        missing = f"{plural(int(row.unacked), 'acknowledgement')} of stores and signals"
        if row.op < row.last_op and self._machine.ops[int(row.op)].fence == t.COUNTED:
            missing += ", but those of its last moves"
        self._report(block, f"waits at {what} for {missing}", row.since_ps)
        kinds = (t.STORE, t.SIGNAL)
        mine = [r for r in self._lines.of_block(block) if self._machine.requests[r].kind in kinds]
        if mine:
            self._line(int(mine[0]), "the oldest:")

    # Signals and packets -------------------------------------------------------

    def _waiting(self, block: int) -> None:
        machine, row = self._machine, self._machine.blocks[block]
        number = int(row.op)
        op = machine.ops[number]
        semaphore, needed = int(op.semaphore), int(op.value)
        has = int(machine.semaphores[semaphore].value)
        what = f"semaphore {semaphore}: it is {has} of {needed}"
        self._report(block, f"waits at {self._op(number)} for {what}", row.since_ps)
        if has >= needed:
            polls = self._lines.of_block(block)
            self._put("the signal is there; the poll that will see it is under way", self._path(block))
            if len(polls):
                self._line(int(polls[-1]), "the poll:")
            return
        missing = self._missing(semaphore)
        if not missing:
            self._put("no remaining operation raises it (deadlock)", self._path(block))
            self._why.circle = True
            return
        distance, signal = missing[min(needed - has, len(missing)) - 1]
        others = f" (and {plural(len(missing) - 1, 'other')})" if len(missing) > 1 else ""
        who = int(machine.ops[signal].block)
        under_way = self._lines.of_op(signal, t.SIGNAL)
        if distance < 0 and len(under_way):
            self._report(who, f"has signalled it at {self._op(signal)}{others}")
            self._line(int(under_way[0]), "the signal:")
            return
        if machine.ops[signal].started_ps >= 0:
            self._report(who, f"has posted it at {self._op(signal)}, behind stores not acknowledged{others}")
            for move in range(signal - int(machine.ops[signal].before), signal):
                stores = self._lines.of_op(move, t.STORE)
                if len(stores):
                    self._line(int(stores[0]), "the oldest:")
                    return
            return
        self._report(who, f"has yet to signal it at {self._op(signal)}{others}")
        self._block(who)

    def _missing(self, semaphore: int) -> list[tuple[int, int]]:
        """Signals that have not arrived, with how far their blocks are from them: the nearest first."""
        ops, blocks = self._machine.ops, self._machine.blocks
        found = []
        for signal in np.flatnonzero((ops["kind"] == t.NOTIFY) & (ops["semaphore"] == semaphore)):
            row = ops[signal]
            if row.issued_ps >= 0:
                if len(self._lines.of_op(int(signal), t.SIGNAL)):
                    found.append((-1, int(signal)))
                continue
            pending = 10**6 if blocks["sm"][row.block] < 0 else 0
            found.append((pending + int(signal - blocks["op"][row.block]), int(signal)))
        return sorted(found)

    def _is_absent(self, request: int) -> bool:
        """Return whether a request reads a packet that has not come."""
        machine = self._machine
        row = machine.requests[request]
        flag = int(machine.operands[int(row.operand)].flag)
        if row.kind != t.LOAD or flag < 0:
            return False
        return bool(machine.flags[flag + int(machine.details[request].index)] == 0)

    def _packet(self, request: int) -> None:
        """Follow a load's wait for a packet to the operation that writes it."""
        machine, ops = self._machine, self._machine.ops
        row, where = machine.requests[request], f"line[{request}]"
        if self._comes_back(("line", request), int(machine.warps[int(row.warp)].block)):
            return
        slice_, index = int(machine.operands[int(row.operand)].slice), int(machine.details[request].index)
        packet = f"packet {index + 1} of packets[{int(machine.slices[slice_].chunk)}]"
        self._put(f"it reads {packet}, which has not come", where, row.issued_ps)
        operands = np.flatnonzero(machine.operands["slice"] == slice_)
        last = ops["first_target"] + ops["targets"]
        writers = [op for o in operands for op in np.flatnonzero((ops["first_target"] <= o) & (o < last))]
        if not writers:
            self._why.circle = True
            self._put("no operation writes it (deadlock)", where)
            return
        op = int(writers[0])
        who = int(ops[op].block)
        stores = self._lines.of_op(op, t.STORE)
        stores = stores[machine.requests["line"][stores] == row.line]
        if len(stores):
            self._report(who, f"has stored it at {self._op(op)}")
            self._line(int(stores[0]), "the store:")
            return
        self._report(who, f"has yet to store it at {self._op(op)}")
        under_way = [int(r) for r in self._lines.of_block(who) if machine.requests[r].op == op]
        same = [r for r in under_way if machine.details[r].index == index]
        needed = [r for r in same if self._is_absent(r)] or same
        if not needed:
            self._block(who)
        elif self._is_absent(needed[0]):
            self._packet(needed[0])
        else:
            self._line(needed[0], "it needs")

    # Lines and links -----------------------------------------------------------

    def _line(self, request: int, lead: str = "") -> None:
        row = self._machine.requests[request]
        what = Inspector(self._engine).request_text(request)
        self._put(f"{lead} {what}".strip(), f"line[{request}]", row.issued_ps)
        spot = self._lines.spot(request)
        self._put(spot.text, spot.path, spot.since_ps, spot.until_ps)

    def _link(self, path: str, links: tuple[int, ...]) -> None:
        machine, requests = self._machine, self._machine.requests
        on = self._lines.on_links(links)
        queued = [int(r) for r in on if self._lines.spot(int(r)).cause == "queue"]
        busy = f"{utilisation(self._engine, links):.0%} busy so far"
        self._put(
            f"{path}: {plural(len(on) - len(queued), 'line')} on it, {len(queued):,} in its queue; {busy}",
            path,
        )
        users = Counter((int(machine.warps[int(requests[r].warp)].block), int(requests[r].op)) for r in on)
        for (block, op), count in users.most_common(_MOST_USERS):
            waits = sum(int(requests[r].op) == op for r in queued)
            lines = f"{plural(count, 'line')} of {self._op(op)} on it, {waits:,} of them in its queue"
            self._report(block, f"has {lines}")
        if len(users) > _MOST_USERS:
            self._put(f"and {plural(len(users) - _MOST_USERS, 'other thread block')}", path)

    def _semaphore(self, place: MachinePart) -> None:
        """Of the thread blocks that wait for a semaphore the one that waits longest."""
        machine, ops, blocks = self._machine, self._machine.ops, self._machine.blocks
        at = ops["semaphore"][np.minimum(blocks["op"], len(ops) - 1)] == place.row
        waiting = np.flatnonzero((blocks["state"] == t.WAITING) & at)
        value = int(machine.semaphores[place.row].value)
        waits = plural(len(waiting), "thread block waits", "thread blocks wait")
        self._put(f"{place.path} is {value}, and {waits} for it", place.path)
        if len(waiting):
            self._block(_worst(self._engine, waiting))

    def _server(self, place: MachinePart) -> None:
        """An L2 slice or an HBM channel: its queue."""
        table, now_ps = self._machine.tables[TABLES[place.kind]], self._engine.now_ps
        row = table[place.row]
        queue = max(0, int(row.free_at_ps) - now_ps)
        busy = f"{int(busy_until(table[[place.row]], now_ps)[0]) / max(1, now_ps):.0%} busy so far"
        waits = f"its queue lasts {format_time(queue)}" if queue else "nothing waits for it"
        self._put(f"{place.path}: {waits}; {plural(int(row.lines), 'line')} served, {busy}", place.path)

    def _node(self, place: MachinePart) -> None:
        out = np.flatnonzero(self._machine.links["src"] == place.row)
        if not len(out):
            self._put(f"{place.path} has no links out", place.path)
            return
        count = {int(link): len(self._lines.on_links((int(link),))) for link in out}
        busiest = max(count, key=lambda link: (count[link], -link))
        self._put(
            f"{place.path}: {plural(sum(count.values()), 'line')} on its links out; most are on", place.path
        )
        self._link(self._fabric.name(busiest), (busiest,))
