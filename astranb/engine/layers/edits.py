"""Edits of a layer table's run: changed speeds, bandwidths and latencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import own
from astranb.engine.edits import REROUTE, Edit, Parameter, checked_edit, no_other_routes, parameters_of
from astranb.engine.operations import CHANGEABLE as OF_OPERATIONS
from astranb.engine.operations import SPEED, checked_number, read_value, written
from astranb.workload.astrasim1 import HierarchicalNetwork

from . import tables as t
from .build import check_length
from .chunks import retime
from .paths import LayerPart
from .run import LayerRun

__all__ = ["CHANGEABLE", "EFFECTS", "apply", "bandwidth_now", "parameters", "present", "read_edit"]

CHANGEABLE = {"rank": {"speed": SPEED}, "layer": {"speed": SPEED}, "dim": OF_OPERATIONS["dim"]}
EFFECTS = {
    "speed": "now, for computations that have not begun",
    "": "now, for phases that have not begun",
}


def read_edit(
    path: str,
    value: float | str | bool,
    find: Callable[[str], Sequence[LayerPart]],
    run: LayerRun,
    edits: Sequence[Edit],
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    if path == REROUTE:
        raise no_other_routes(path)
    return checked_edit(
        path,
        value,
        CHANGEABLE,
        find,
        lambda field, part: [read_value(field, value, path)] * len(part.rows),
        lambda field, part, factor: _scaled(field, part, factor, path, run, edits),
        hint="change rank[0].speed, layer[NAME].speed, dim[N].bandwidth or dim[N].latency",
        events=run.events,
        at_ps=run.now_ps,
    )


def _scaled(
    field: str, part: LayerPart, factor: float, path: str, run: LayerRun, edits: Sequence[Edit]
) -> list[float]:
    """Return what a factor makes of the present values of an object."""
    if part.kind == "rank" and any((edit.kind, edit.field) == ("layer", field) for edit in edits):
        hint = "give a value, or a factor of layer[*].speed"
        raise InputError("layers have speeds of their own", where=path, hint=hint)
    now = present(part.kind, field, part.rows, edits, run)
    return [checked_number(field, was * factor, path) for was in now]


def present(kind: str, field: str, rows: Sequence[int], edits: Sequence[Edit], run: LayerRun) -> list[float]:
    """Return the present value of a field of some rows of a kind, in the unit of the field."""
    if field == "speed":
        speeds = [edit for edit in edits if edit.field == field]
        if kind == "rank":
            return [([1.0] + [edit.number for edit in speeds if edit.kind == kind])[-1]] * len(rows)
        found = dict.fromkeys(rows, 1.0)
        for edit in speeds:  # one of the rank changes all layers
            for row, now in found.items():
                found[row] = edit.number if edit.kind == "rank" else edit.of_row.get(row, now)
        return list(found.values())
    if field == "rate_Bpns":
        return [bandwidth_now(run, edits, dim) / 1e9 for dim in rows]
    latency_ns = _network(run, edits).latency_ns
    return [latency_ns[run.built.levels.physical[dim]] for dim in rows]


def apply(edit: Edit, edits: Sequence[Edit], run: LayerRun, base_ps: np.ndarray) -> None:
    """Carry an edit out: computations and phases that have begun keep their times."""
    m = run.machine
    if edit.field == "speed":
        rows = m.operations
        mine = (rows.kind == t.COMPUTE) & (rows.begun_ps < 0)
        speed = np.full(len(rows), edit.number)
        if edit.kind == "layer":
            mine &= np.isin(rows.slot, edit.rows)
            for slot, number in zip(edit.rows, edit.numbers, strict=True):
                speed[rows.slot == slot] = number
        took_ps = np.round(base_ps[mine] / speed[mine])
        rest = rows.time_ps[(rows.kind == t.COMPUTE) & ~mine]
        check_length(float(took_ps.sum()) + float(rest.sum(dtype=float)), edit.path)
        rows["time_ps"][mine] = took_ps.astype(np.int64)
        return
    network = _network(run, [*edits, edit])
    phases = own(m.phases)  # the run's stay as they are where one would take too long
    retime(phases, run.built.planned, network, run.inputs.system, congestion=run.inputs.congestion)
    m.phases[:] = phases


def _network(run: LayerRun, edits: Sequence[Edit]) -> HierarchicalNetwork:
    """The network as edits have left it."""
    bandwidth, latency = list(run.inputs.network.bandwidth), list(run.inputs.network.latency_ns)
    for edit in edits:
        if edit.field == "rate_Bpns":
            # In the unit of the network's file: ASTRA-sim 1.0 takes gigabytes for gibibytes.
            unit = 2**30 / 1e9 if run.inputs.network.compat else 1.0
            for dim, number in zip(edit.rows, edit.numbers, strict=True):
                bandwidth[run.built.levels.physical[dim]] = number / unit
        elif edit.field == "latency_ns":
            for dim, number in zip(edit.rows, edit.numbers, strict=True):
                latency[run.built.levels.physical[dim]] = number
    return replace(run.inputs.network, bandwidth=tuple(bandwidth), latency_ns=tuple(latency))


def parameters(part: LayerPart, run: LayerRun, edits: Sequence[Edit]) -> list[Parameter]:
    """Return the parameters of an object with their values now."""

    def now(field: str) -> str:
        return written(field, present(part.kind, field, part.rows, edits, run)[0])

    return parameters_of(part, CHANGEABLE, now, EFFECTS)


def bandwidth_now(run: LayerRun, edits: Sequence[Edit], dim: int) -> float:
    """Bytes a second of a link of a dimension, as edits have left it."""
    network = _network(run, edits)
    return network.bandwidth[run.built.levels.physical[dim]] * (2**30 if network.compat else 1e9)
