"""Edits of a layer table's run: changed speeds, bandwidths and latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from astranb.core.state import own
from astranb.engine.edits import REROUTE, Edit, Parameter, checked_edit, no_other_routes, parameters_of
from astranb.engine.operations import CHANGEABLE as OF_OPERATIONS
from astranb.engine.operations import SPEED, About, read_value, written
from astranb.workload.astrasim1 import HierarchicalNetwork

from . import tables as t
from .build import check_length
from .chunks import retime
from .paths import LayerPart, resolve
from .run import LayerRun

__all__ = ["CHANGEABLE", "EFFECTS", "apply", "bandwidth_now", "number", "parameters", "read_edit"]

CHANGEABLE = {"rank": {"speed": SPEED}, "layer": {"speed": SPEED}, "dim": OF_OPERATIONS["dim"]}
EFFECTS = {
    "speed": "now, for computations that have not begun",
    "": "now, for phases that have not begun",
}


def read_edit(path: str, value: float | str | bool, run: LayerRun, about: About) -> Edit:
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
        lambda name: resolve(name, run, about),
        lambda field, _: read_value(field, value, path),
        hint="change rank[0].speed, layer[NAME].speed, dim[N].bandwidth or dim[N].latency",
        events=run.events,
        at_ps=run.now_ps,
    )


def number(edit: Edit, edits: Sequence[Edit], run: LayerRun) -> float:
    """Return the present value of what an edit changes, in the unit of its field."""
    return _now(edit.field, edit.path, edit.rows[0], edits, run)


def _now(field: str, path: str, dim: int, edits: Sequence[Edit], run: LayerRun) -> float:
    if field == "speed":
        return ([1.0] + [e.number for e in edits if e.path == path])[-1]
    if field == "rate_Bpns":
        return bandwidth_now(run, edits, dim) / 1e9
    return _network(run, edits).latency_ns[run.built.levels.physical[dim]]


def apply(edit: Edit, edits: Sequence[Edit], run: LayerRun, base_ps: np.ndarray) -> None:
    """Carry an edit out: computations and phases that have begun keep their times."""
    m = run.machine
    if edit.field == "speed":
        rows = m.operations
        mine = (rows.kind == t.COMPUTE) & (rows.begun_ps < 0)
        if edit.kind == "layer":
            mine &= np.isin(rows.slot, edit.rows)
        took_ps = np.round(base_ps[mine] / edit.number)
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
            bandwidth[run.built.levels.physical[edit.rows[0]]] = edit.number / unit
        elif edit.field == "latency_ns":
            latency[run.built.levels.physical[edit.rows[0]]] = edit.number
    return replace(run.inputs.network, bandwidth=tuple(bandwidth), latency_ns=tuple(latency))


def parameters(part: LayerPart, run: LayerRun, edits: Sequence[Edit]) -> list[Parameter]:
    """Return the parameters of an object with their values now."""

    def now(field: str) -> str:
        return written(field, _now(field, f"{part.path}.speed", part.dim, edits, run))

    return parameters_of(part, CHANGEABLE, now, EFFECTS)


def bandwidth_now(run: LayerRun, edits: Sequence[Edit], dim: int) -> float:
    """Bytes a second of a link of a dimension, as edits have left it."""
    network = _network(run, edits)
    return network.bandwidth[run.built.levels.physical[dim]] * (2**30 if network.compat else 1e9)
