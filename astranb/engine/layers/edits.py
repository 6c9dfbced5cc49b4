"""Edits of a layer table's run: changed speeds, bandwidths and latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_bandwidth, format_time
from astranb.engine.edits import Edit, Parameter
from astranb.engine.operations.about import About
from astranb.engine.operations.changes import CHANGEABLE, SPEED, read_value
from astranb.workload.astrasim1 import HierarchicalNetwork

from . import tables as t
from .chunks import retime
from .paths import LayerPart, resolve
from .run import LayerRun

__all__ = ["apply", "bandwidth_now", "number", "parameters", "read_edit"]

_CHANGEABLE = {"rank": {"speed": SPEED}, "layer": {"speed": SPEED}, "dim": CHANGEABLE["dim"]}
_HINT = "change rank[0].speed, layer[NAME].speed, dim[N].bandwidth or dim[N].latency"


def read_edit(path: str, value: float | str | bool, run: LayerRun, about: About) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    place = resolve(head or path, run, about)
    known = _CHANGEABLE.get(place.kind, {})
    if name not in known:
        hint = near(name, known) if known else _HINT
        raise InputError(f"{name!r} of {place.path} cannot be changed", where=path, hint=hint)
    field = known[name][0]
    number = read_value(field, value, path)
    rows = place.slots if place.kind == "layer" else (place.dim,)
    return Edit(run.events, f"{place.path}.{name}", str(value), place.kind, field, rows, number, run.now_ps)


def number(edit: Edit, edits: Sequence[Edit], run: LayerRun) -> float:
    """The present value of what an edit changes, in the unit of its field."""
    if edit.field == "speed":
        return ([1.0] + [e.number for e in edits if e.path == edit.path])[-1]
    if edit.field == "rate_Bpns":
        return bandwidth_now(run, edits, edit.rows[0]) / 1e9
    return _network(run, edits).latency_ns[run.built.levels.physical[edit.rows[0]]]


def apply(edit: Edit, edits: Sequence[Edit], run: LayerRun, base_ps: np.ndarray) -> None:
    """Carry an edit out: computations and phases that have begun keep their times."""
    m = run.machine
    if edit.field == "speed":
        rows = m.operations
        mine = (rows.kind == t.COMPUTE) & (rows.begun_ps < 0)
        if edit.kind == "layer":
            mine &= np.isin(rows.slot, edit.rows)
        rows["time_ps"][mine] = np.round(base_ps[mine] / edit.number).astype(np.int64)
        return
    network = _network(run, [*edits, edit])
    retime(m.phases, run.built.planned, network, run.inputs.system, congestion=run.inputs.congestion)


def _network(run: LayerRun, edits: Sequence[Edit]) -> HierarchicalNetwork:
    """The network as edits have left it."""
    bandwidth, latency = list(run.inputs.network.bandwidth), list(run.inputs.network.latency_ns)
    for edit in edits:
        if edit.field == "rate_Bpns":
            # In the unit of the network's file: ASTRA-sim 1.0 takes gigabytes for gibibytes.
            unit = 2**30 / 1e9 if run.inputs.network.compat else 1.0
            bandwidth[run.built.levels.physical[edit.rows[0]]] = edit.number / unit
        elif edit.field == "latency_ns":
            latency[run.built.levels.physical[edit.rows[0]]] = edit.number
    return replace(run.inputs.network, bandwidth=tuple(bandwidth), latency_ns=tuple(latency))


def parameters(place: LayerPart, run: LayerRun, edits: Sequence[Edit]) -> list[Parameter]:
    """What can be changed of an object, with its present values."""
    found = []
    for name, (_, unit, limits, meaning) in _CHANGEABLE.get(place.kind, {}).items():
        path = f"{place.path}.{name}"
        if name == "speed":
            value = f"{([1.0] + [e.number for e in edits if e.path == path])[-1]:g}"
            effect = "now, for computations that have not begun"
        else:
            latency = _network(run, edits).latency_ns[run.built.levels.physical[place.dim]]
            value = format_time(round(latency * 1000))
            if name == "bandwidth":
                value = format_bandwidth(bandwidth_now(run, edits, place.dim))
            effect = "now, for phases that have not begun"
        found.append(Parameter(path, value, unit, limits, effect, meaning))
    return found


def bandwidth_now(run: LayerRun, edits: Sequence[Edit], dim: int) -> float:
    """Bytes a second of a link of a dimension, as edits have left it."""
    network = _network(run, edits)
    return network.bandwidth[run.built.levels.physical[dim]] * (2**30 if network.compat else 1e9)
