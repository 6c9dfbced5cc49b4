"""Changing something in the middle of a run: logged, so that going back undoes it."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.core.errors import InputError, near
from astranb.core.ticks import MAX_RATE_BPS
from astranb.core.units import bandwidth_Bps, time_ps
from astranb.net import Fabric

from ._machine import Machine
from ._paths import resolve

__all__ = ["Edit", "apply_edit", "read_edit"]

# What a person may change: the field behind each name. To add one, see docs/architecture.md.
_CHANGEABLE = {
    "link": {"bandwidth": "bandwidth_Bps", "latency": "latency_ps"},
    "gpu": {"noc": "noc_ps", "l2": "l2_ps", "hbm": "hbm_ps", "issue": "issue_ps"},
}


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes
    ----------
    events : int
        Events handled before it.
    path, value : str
        As given.
    table, field : str
    rows : tuple of int
    number : int
        The value, in the unit of the field.
    """

    events: int
    path: str
    value: str
    table: str
    field: str
    rows: tuple[int, ...]
    number: int


def read_edit(events: int, path: str, value: int | str, fabric: Fabric, machine: Machine) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    place = resolve(head or path, fabric, machine)
    fields = _CHANGEABLE.get(place.kind, {})
    if name not in fields:
        mend = near(name, fields) if fields else "links and GPUs can be changed"
        raise InputError(f"{name!r} of a {place.kind} cannot be changed", where=path, mend=mend)
    field = fields[name]
    number = bandwidth_Bps(value, where=path) if field.endswith("_Bps") else time_ps(value, where=path)
    if field.endswith("_Bps") and number > MAX_RATE_BPS:
        raise InputError(f"{value!r} is too fast", where=path, mend="at most 9 TB/s a lane")
    if field == "issue_ps" and number == 0:
        raise InputError("an SM needs some time for an instruction", where=path)
    return Edit(
        events, path, str(value), {"link": "links", "gpu": "gpus"}[place.kind], field, place.rows, number
    )


def apply_edit(edit: Edit, machine: Machine) -> None:
    """Carry an edit out: services that have started keep their times."""
    machine.tables[edit.table][edit.field][list(edit.rows)] = edit.number
    if edit.table == "links":
        machine.links["last_size"][list(edit.rows)] = 0
