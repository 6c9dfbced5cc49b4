"""Tables of results of a layer table's run, and its critical path."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.units import format_time
from astranb.engine.critical_path import Segment
from astranb.engine.operations import segment

from .edits import bandwidth_now
from .result import LAYER_COLUMNS
from .state import LayerState

__all__ = ["collectives", "critical_path", "dimension", "layers", "lines"]

_MOST = 8
_CAUSES = ("compute", "collective")


def collectives(state: LayerState) -> list[dict[str, Any]]:
    """A row for each collective that has begun."""
    about, m = state.about, state.machine
    start, end = state.times_ps()
    rows = []
    for row in np.flatnonzero((about.kind == 1) & (start >= 0)).tolist():
        c = m.collectives[int(m.operations.slot[int(state.program.at[row])])]
        first, last, size = int(start[row]), int(end[row]), int(about.size[row])
        took = last - first
        rows.append(
            {
                "name": about.label(row), "collective": about.what(row), "bytes": size,
                "ranks": state.run.inputs.network.npus, "chunks": int(c.chunks), "start_ps": first,
                "last_start_ps": first, "end_ps": last, "skew_ps": 0, "done": last >= 0,
                "algbw_Bps": size * 1e12 / took if last >= 0 and took else 0.0,
            }
        )  # fmt: skip
    return rows


def layers(state: LayerState) -> list[dict[str, Any]]:
    """A row for each layer: what ASTRA-sim 1.0's EndToEnd.csv has, in picoseconds."""
    result = state.run.result()
    return [
        {"layer": name, **dict(zip(LAYER_COLUMNS, row, strict=True))}
        for name, row in zip(result.layer_names, result.layers.tolist(), strict=True)
    ]


def dimension(state: LayerState, dim: int) -> dict[str, Any]:
    """Return the traffic of a dimension as the system layer sees dimensions.

    ``utilisation`` is the share of an NPU's bandwidth into it; ``busy_ps`` the time in which chunks
    were there, of the queue that had some for longest.
    """
    m, run = state.machine, state.run
    bandwidth = bandwidth_now(run, state.edits, dim)
    each = int(m.clock[0].queues)
    mine = np.asarray(m.phases.queue) // each == dim
    sent = int((run.built.sent[mine].sum(axis=1) * np.asarray(m.phases.over)[mine]).sum())
    queues: Any = m.queues[dim * each : (dim + 1) * each]
    inside = np.where(queues.inside > 0, state.now_ps - queues.since_ps, 0)
    physical = run.built.levels.physical[dim]
    scale = run.inputs.network.total_bandwidth[physical] / run.inputs.network.bandwidth[physical]
    could = scale * bandwidth * state.time_ps / 1e12
    return {
        "dimension": dim,
        "shape": f"{state.about.topology[dim]} of {run.built.levels.units[dim]}",
        "bandwidth_Bps": bandwidth,
        "chunks": int(queues.chunks.sum()),
        "bytes": sent * run.inputs.network.npus,
        "busy_ps": int((queues.busy_ps + inside).max(initial=0)),
        "utilisation": sent / could if could else 0.0,
    }


def lines(state: LayerState) -> list[str]:
    """The layers that are waited for most, in words."""
    exposed = np.asarray(state.machine.slots.exposed_ps).reshape(-1, 3).sum(axis=1)
    order = np.argsort(-exposed, kind="stable")[:_MOST]
    found = [
        f"  {format_time(int(exposed[number]))}  {state.run.inputs.table.layers[number].name}"
        for number in order.tolist()
        if exposed[number]
    ]
    return ["", "Layers whose collectives are waited for longest:", *found] if found else []


def critical_path(state: LayerState) -> list[Segment]:
    """Follow the time back from what ended last.

    The program of a rank is sequential: an operation begins when the last of those that it waits for has
    ended, or a step of the loop later.
    """
    start, end = state.times_ps()
    about = state.about
    if not (end >= 0).any():
        return []
    row = int(np.argmax(end))
    until = max(int(state.ends_ps()[0]), int(end[row]))
    path: list[Segment] = []

    def add(cause: str, begins: int, ends: int, because: str) -> None:
        if ends > begins:
            path.append(segment(about, row, begins, ends, cause, because))

    add("step", int(end[row]), until, "the loop ends")
    until, because = int(end[row]), "the last to end"
    while True:
        add(_CAUSES[int(about.kind[row])], int(start[row]), until, because)
        until = int(start[row])
        parents = about.parents_of(row)
        if not len(parents):
            break
        because = f"{about.label(row)} waits for it"
        last = int(parents[np.argmax(end[parents])])
        add("step", int(end[last]), until, f"{about.label(row)} is in a later step")
        row, until = last, int(end[last])
    add("start", 0, until, "nothing before it")
    return path[::-1]
