"""Edits in the middle of a workload's run: logged, so that going back undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from astranb.core.errors import Deadlock, InputError
from astranb.core.timesteps import NEVER, put_event
from astranb.core.units import format_time
from astranb.engine.edits import Edit, Parameter, checked_edit, parameters_of
from astranb.engine.operations import CHANGEABLE, About, read_value, written
from astranb.net import DOWN, FULLY_CONNECTED, ROUTED

from . import tables as t
from .link_ends import ends_of, waiting_for
from .paths import RunPart
from .transport import free_link

__all__ = [
    "CHANGEABLE",
    "EFFECTS",
    "apply_edit",
    "check_links",
    "links_down",
    "parameters",
    "read_edit",
    "set_up",
    "value_of",
]

EFFECTS = {
    "speed": "now, for computations that have not begun",
    "up": "now, for messages that have not entered it",
    "outage_ns": "now, for messages that have not entered it",
    "": "now, for messages that have not been sent over it",
}


def read_edit(
    events: int,
    now_ps: int,
    path: str,
    value: float | str | bool,
    find: Callable[[str], RunPart],
    machine: t.MessageMachine,
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """

    def read(field: str, part: RunPart) -> float:
        if _routed(part, machine):
            hint = "change link[N], which exists with congestion (--fidelity congestion)"
            raise InputError("the links of an infrastructure have no dimension", where=path, hint=hint)
        if "->" in part.path and field != "up":
            hint = f"change link[{part.rows[0]}]" if part.rows else "no message takes it"
            raise InputError("a link of several lanes may stand for it", where=path, hint=hint)
        if field == "outage_ns" and not machine.config[0].cut_through:
            raise InputError("ASTRA-sim 2.0's links have no outage", where=path, hint="leave compat out")
        return read_value(field, value, path)

    return checked_edit(
        path,
        value,
        CHANGEABLE,
        find,
        read,
        hint="change rank[N].speed, dim[N].bandwidth or dim[N].latency",
        events=events,
        at_ps=now_ps,
    )


def _routed(part: RunPart, machine: t.MessageMachine) -> bool:
    """Return whether a part is the dimension that stands for the links of an infrastructure."""
    return part.kind == "dim" and bool(machine.dims[part.dim].kind == ROUTED)


def apply_edit(edit: Edit, machine: t.MessageMachine, base_ns: Any) -> None:
    """Carry an edit out: what has begun keeps its times."""
    rows = list(edit.rows)
    if edit.kind == "rank":
        table = machine.operations
        mine = np.flatnonzero(np.isin(table.npu, rows) & (table.kind == t.COMPUTE) & (table.start_ns < 0))
        table["duration_ns"][mine] = np.minimum(np.floor(base_ns[mine] / edit.number), NEVER).astype(np.int64)
    elif edit.field == "up":
        set_up(machine, rows, [not edit.number] * len(rows), edit.at_ps)
    elif edit.field == "outage_ns":
        if edit.number:  # what is not sent until then begins to cross then
            until = machine.queue[0].now + edit.number
            machine.links["free_ns"][rows] = np.maximum(machine.links["free_ns"][rows], until)
    elif edit.kind == "link":
        machine.wires[edit.field][rows] = edit.number
    else:
        for row in rows:
            _set_dimension(machine, row, edit.field, edit.number)


def _set_dimension(machine: t.MessageMachine, dim: int, field: str, number: float) -> None:
    """Set a number of a dimension, of all its links, and in the scheduler of chunks."""
    machine.dims[field][dim] = number
    if machine.config[0].congestion:
        first = machine.dims.first_link
        last = int(first[dim + 1]) if dim + 1 < len(first) else len(machine.wires)
        machine.wires[field][int(first[dim]) : last] = number
    if field == "rate_Bpns":
        row = machine.dims[dim]
        whole = max(1, int(row.nodes) - 1) if row.kind == FULLY_CONNECTED else 1  # all links of an NPU
        machine.schedule["rate"][machine.schedule.links == dim] = number * whole


def set_up(machine: t.MessageMachine, links: Iterable[int], down: Iterable[bool], at_ps: int) -> None:
    """Take links down, or bring them up: now, or later where nothing else happens until then."""
    for link, off in zip(links, down, strict=True):
        if off:
            _take_down(machine, link)
        else:
            _bring_up(machine, link, -(-at_ps // 1000))


def _take_down(machine: t.MessageMachine, link: int) -> None:
    machine.links[link].busy |= DOWN


def _bring_up(machine: t.MessageMachine, link: int, at_ns: int) -> None:
    """Waiting messages are sent, at once where the link is idle."""
    one, now_ns = machine.links[link], int(machine.queue[0].now)
    if one.busy & DOWN:
        one.busy &= ~DOWN
        one.free_ns = max(float(one.free_ns), float(now_ns), float(at_ns))  # it has sent nothing until then
        if one.busy == 0 and at_ns > now_ns:
            one.busy = 1
            put_event(
                machine.queue, machine.timesteps, machine.pending, at_ns, (link << t.KIND_BITS) | t.FREE
            )
        elif one.busy == 0:
            free_link(machine, link)


def links_down(machine: t.MessageMachine) -> list[int]:
    """Links that are down."""
    return np.flatnonzero(machine.links.busy & DOWN).tolist()


def check_links(about: About, machine: t.MessageMachine, edits: Sequence[Edit]) -> None:
    """Raise an error if a link that is down is why no event is left and a rank is not done.

    Raises
    ------
    Deadlock
        Messages wait for a link that is down.
    """
    for link in links_down(machine):
        if waiting := waiting_for(machine, link):
            times = (e.at_ps for e in edits if e.field == "up" and link in e.rows)
            since = max(times, default=0)
            a, b = ends_of(about, machine, link)
            messages = "1 message waits" if waiting == 1 else f"{waiting:,} messages wait"
            raise Deadlock(
                f"link[{link}] ({a} to {b}) is down since {format_time(since)}, and {messages} for it"
            )


def parameters(part: RunPart, machine: t.MessageMachine, edits: Sequence[Edit]) -> list[Parameter]:
    """Return the parameters of an object with their values after the edits."""
    if _routed(part, machine):
        return []

    def now(field: str) -> str:
        return written(field, value_of(part.kind, field, part.rows[0], machine, edits))

    return parameters_of(part, CHANGEABLE, now, EFFECTS)


def value_of(kind: str, field: str, row: int, machine: t.MessageMachine, edits: Sequence[Edit]) -> float:
    """The present value of something that can be changed."""
    if field == "speed":
        speeds = [edit.number for edit in edits if edit.kind == "rank" and row in edit.rows]
        return speeds[-1] if speeds else 1.0
    if field == "up":
        return float(not machine.links[row].busy & DOWN)
    if field == "outage_ns":
        ends = [edit.at_ps / 1000 + edit.number for edit in edits if edit.field == field and row in edit.rows]
        return max(0.0, max(ends, default=0.0) - float(machine.queue[0].now))
    return float((machine.dims if kind == "dim" else machine.wires)[field][row])
