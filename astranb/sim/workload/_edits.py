"""Changing something in the middle of a workload's run: logged, so that going back undoes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps
from astranb.workload.astrasim2 import _tables as t

from ._about import About
from ._paths import resolve

__all__ = ["Edit", "apply_edit", "parameters", "read_edit", "read_value"]

_CHANGEABLE = {"rank": ("speed",), "dim": ("bandwidth", "latency")}
_MOST_SPEED = 1e6


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes
    ----------
    events : int
        Events handled before it.
    path, value : str
        As given; the path in full.
    field : str
        ``speed`` (times as fast), ``rate_Bpns`` (bytes a nanosecond) or ``latency_ns``.
    row : int
        Rank or dimension.
    number : float
    at_ps : int
        When.
    """

    events: int
    path: str
    value: str
    field: str
    row: int
    number: float
    at_ps: int = 0


def read_edit(
    events: int, now_ps: int, path: str, value: float | str, about: About, machine: t.Machine
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    place = resolve(head or path, about, machine)
    known = _CHANGEABLE.get(place.kind, ())
    if name not in known:
        mend = near(name, known) if known else "change rank[N].speed, dim[N].bandwidth or dim[N].latency"
        raise InputError(f"{name!r} of {place.path} cannot be changed", where=path, mend=mend)
    field, number = read_value(name, value, path)
    return Edit(events, f"{place.path}.{name}", str(value), field, place.rows[0], number, now_ps)


def read_value(name: str, value: float | str, where: str) -> tuple[str, float]:
    """The field of a property, and its value in that field's unit."""
    if name == "speed":
        text = str(value).strip().removesuffix("x")
        if (
            not re.fullmatch(r"\d{1,9}(\.\d{1,9})?(e[+-]?\d)?", text)
            or not 1 / _MOST_SPEED <= float(text) <= _MOST_SPEED
        ):
            mend = "0.5 is half as fast, 2 twice"
            raise InputError(f"a speed must be a number above 0, got {value!r}", where=where, mend=mend)
        return "speed", float(text)
    if isinstance(value, float):
        raise InputError(
            f"{value!r} is not a value with a unit", where=where, mend='write "25 GB/s" or "1 us"'
        )
    if name == "bandwidth":
        return "rate_Bpns", bandwidth_Bps(value, where=where) / 1e9
    return "latency_ns", time_ps(value, where=where) / 1000


def apply_edit(edit: Edit, machine: t.Machine, base_ns: Any) -> None:
    """Carry an edit out: what has begun keeps its times."""
    if edit.field != "speed":
        machine.dims[edit.field][edit.row] = edit.number
        return
    rows = machine.operations
    mine = np.flatnonzero((rows.npu == edit.row) & (rows.kind == t.COMPUTE) & (rows.start_ns < 0))
    rows["duration_ns"][mine] = (base_ns[mine] / edit.number).astype(np.int64)


def parameters(machine: t.Machine, kind: str, row: int, edits: list[Edit]) -> dict[str, str]:
    """What can be changed of an object, as it stands now."""
    if kind == "rank":
        speeds = [e.number for e in edits if e.field == "speed" and e.row == row]
        return {"speed": f"{speeds[-1] if speeds else 1:g}"}
    if kind == "dim":
        dim = machine.dims[row]
        return {
            "bandwidth": format_bandwidth(float(dim.rate_Bpns) * 1e9),
            "latency": format_time(round(float(dim.latency_ns) * 1000)),
        }
    return {}
