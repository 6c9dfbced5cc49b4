"""Edits in the middle of a workload's run: logged, so that going back undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from astranb.core.errors import Deadlock, InputError
from astranb.core.plural import plural
from astranb.core.timesteps import NEVER, put_event
from astranb.core.units import format_time
from astranb.engine.edits import Edit, Parameter, checked_edit, parameters_of
from astranb.engine.operations import CHANGEABLE, About, checked_number, read_value, written
from astranb.net import DOWN, FULLY_CONNECTED, ROUTED

from . import tables as t
from .link_ends import link_title, waiting_for
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
    "values_of",
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
    find: Callable[[str], Sequence[RunPart]],
    machine: t.MessageMachine,
    edits: Sequence[Edit],
    named: Callable[[int], str],
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """

    def check(field: str, part: RunPart) -> None:
        if _routed(part, machine):
            hint = "change a link A->B, or all of them: *->*"
            raise InputError("the links of an infrastructure have no dimension", where=path, hint=hint)
        if "->" in part.path and field != "up" and not part.shares:
            hint = f"change {named(part.rows[0])}" if part.rows else "no message takes it"
            raise InputError("a link of several lanes may stand for it", where=path, hint=hint)
        if field == "outage_ns" and not machine.config[0].cut_through:
            raise InputError("ASTRA-sim 2.0's links have no outage", where=path, hint="leave compat out")

    def read(field: str, part: RunPart) -> list[float]:
        check(field, part)
        number = read_value(field, value, path)
        if field == "rate_Bpns" and part.shares:
            return [number * share for share in part.shares]
        return [number] * max(1, len(part.rows))  # of a link that no message takes, too

    def scaled(field: str, part: RunPart, factor: float) -> list[float]:
        check(field, part)
        if field in ("up", "outage_ns"):
            raise InputError(f"{field.removesuffix('_ns')} takes no factor", where=path)
        now = values_of(part.kind, field, part.rows, machine, edits)
        return [checked_number(field, was * factor, path) for was in now]

    return checked_edit(
        path,
        value,
        CHANGEABLE,
        find,
        read,
        scaled,
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
        speed = np.ones(len(machine.npus))
        speed[rows] = edit.numbers
        lasting = np.floor(base_ns[mine] / speed[table.npu[mine]])
        table["duration_ns"][mine] = np.minimum(lasting, NEVER).astype(np.int64)
    elif edit.field == "up":
        set_up(machine, rows, [not edit.number] * len(rows), edit.at_ps)
    elif edit.field == "outage_ns":
        if edit.number:  # what is not sent until then begins to cross then
            until = machine.queue[0].now + edit.number
            machine.links["free_ns"][rows] = np.maximum(machine.links["free_ns"][rows], until)
    elif edit.kind == "link":
        machine.wires[edit.field][rows] = edit.numbers
    else:
        for row, number in zip(rows, edit.numbers, strict=True):
            _set_dimension(machine, row, edit.field, number)


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
            title = link_title(about, machine, link)
            messages = plural(waiting, "message waits", "messages wait")
            raise Deadlock(f"{title} is down since {format_time(since)}, and {messages} for it")


def parameters(part: RunPart, machine: t.MessageMachine, edits: Sequence[Edit]) -> list[Parameter]:
    """Return the parameters of an object with their values after the edits."""
    if _routed(part, machine):
        return []

    def now(field: str) -> str:
        found = values_of(part.kind, field, part.rows, machine, edits)
        if field == "rate_Bpns" and part.shares:  # what each of its links gets
            return written(field, sum(found) / sum(part.shares))
        return written(field, found[0])

    found = parameters_of(part, CHANGEABLE, now, EFFECTS)
    if sum(part.shares) > 1:
        of_each = f"of each of the {round(sum(part.shares)):,} links"
        found = [replace(one, meaning=of_each) if one.path.endswith(".bandwidth") else one for one in found]
    return found


def values_of(
    kind: str, field: str, rows: Sequence[int], machine: t.MessageMachine, edits: Sequence[Edit]
) -> list[float]:
    """Return the present values of something that can be changed."""
    if field not in ("speed", "up", "outage_ns"):
        table = machine.dims if kind == "dim" else machine.wires
        return [float(number) for number in table[field][list(rows)]]
    return [_state_of(field, row, machine, edits) for row in rows]


def _state_of(field: str, row: int, machine: t.MessageMachine, edits: Sequence[Edit]) -> float:
    if field == "up":
        return float(not machine.links[row].busy & DOWN)
    mine = [edit for edit in edits if edit.field == field and row in edit.of_row]
    if field == "speed":
        return mine[-1].of_row[row] if mine else 1.0
    ends = [edit.at_ps / 1000 + edit.number for edit in mine]
    return max(0.0, max(ends, default=0.0) - float(machine.queue[0].now))
