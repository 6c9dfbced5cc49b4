"""Inspection of the objects of a layer table's run, and why its loop waits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time
from astranb.engine.messages import BEGINS, ENDS, PHASE_BEGINS, PHASE_ENDS
from astranb.engine.operations import (
    ALGORITHMS,
    MOST,
    STATES,
    listed,
    neighbours,
    operation_lines,
    rank_lines,
    when,
)
from astranb.engine.why import WaitStep, Why
from astranb.infragraph import title_of

from . import edits
from . import tables as t
from .about import PARTS
from .paths import LayerPart
from .state import LayerState

__all__ = ["HAPPENED", "INSPECTORS", "states_of", "waits_of", "why"]


def states_of(state: LayerState, rows: Any) -> Any:
    """Numbers of the states of operations: one is ready where all it waits for is done."""
    start, end = state.times_ps()
    about = state.about
    done = end >= 0
    # How many of the parents of each are done: sums between the places where its parents begin and end.
    sums = np.concatenate([[0], np.cumsum(done[about.parents])])
    left = np.diff(about.first) - (sums[about.first[1:]] - sums[about.first[:-1]])
    return np.where(done, 3, np.where(start >= 0, 2, np.where(left == 0, 1, 0)))[rows]


def waits_of(state: LayerState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The waits of the program: for which operation, from when and until when (-1: it still waits)."""
    rows: Any = state.machine.operations
    kind = rows.kind
    at = np.flatnonzero(((kind == t.WAIT) | (kind == t.END)) & (rows.begun_ps >= 0))
    what = state.program.of[at]
    if len(at) and kind[at[-1]] == t.END:
        # The end waits for all collectives under way: for the one that ends last.
        start, end = state.times_ps()
        begun = np.flatnonzero((state.about.kind == 1) & (start >= 0))
        left = begun[end[begun] < 0]
        what[-1] = left[-1] if len(left) else begun[np.argmax(end[begun])]
    return what, np.asarray(rows.begun_ps)[at], np.asarray(rows.ended_ps)[at]


def why(state: LayerState, path: str) -> Why:
    """Explain what the loop computes or waits for."""
    about = state.about
    place = state.resolve(path) if path else None
    found = Why(place.path if place else "rank[0]", state.now_ps)
    start, end = state.times_ps()
    running = np.flatnonzero((start >= 0) & (end < 0))
    asked = place.operation if place is not None else -1
    computing = [int(row) for row in running if about.kind[row] == 0]
    rows = [asked] if asked >= 0 else computing or [int(row) for row in running]
    for row in rows:
        over, chunks = state.progress(row)
        part = f"; {over} of {plural(chunks, 'chunk')} done" if chunks else ""
        word = STATES[int(states_of(state, np.array([row]))[0])]
        since = int(start[row]) if end[row] < 0 else -1
        found.links.append(WaitStep(f"{about.text(row)} is {word}{part}", about.path(row), since))
    if asked >= 0 and start[asked] < 0:
        for row in [int(one) for one in about.parents_of(asked) if end[one] < 0]:
            found.links.append(WaitStep(f"it waits for {about.label(row)}", about.path(row)))
    if not found.links:
        text = "the loop has ended" if state.next_ps < 0 else "nothing is under way"
        found.links.append(WaitStep(text, "rank[0]"))
    return found


def _chunks(state: LayerState, which: Any) -> dict[str, Any]:
    """Chunks under way: of a collective, or in a dimension."""
    m = state.machine
    following = m.streams.next.tolist()
    found = []
    for row in m.queues.head.tolist():
        while row >= 0:
            found.append(row)
            row = following[row]  # noqa: PLW2901 - down the queue's list
    rows = np.array(found, np.int64)
    rows = rows[which(rows)]
    texts = []
    for row in rows[:MOST].tolist():
        s = m.streams[row]
        c, chunk = m.collectives[int(s.collective)], m.chunks[int(s.chunk)]
        phase = f"phase {int(s.phase - chunk.first_phase) + 1} of {int(chunk.phases)}"
        algorithm = ALGORITHMS[int(state.run.built.planned["algorithm"][int(s.phase)])]
        dim = int(m.phases[int(s.phase)].queue) // int(m.clock[0].queues)
        label = state.about.label(int(state.program.of[int(c.operation)]))
        runs = "runs" if s.running else "waits"
        number = int(s.chunk - c.first_chunk)
        texts.append(f"{label}, chunk {number}: {phase}, {algorithm} in dim {dim}, {runs}")
    return {"in_flight": texts, "in_flight_count": len(rows)}


def _rank(state: LayerState, place: LayerPart) -> dict[str, Any]:
    about, clock = state.about, state.machine.clock[0]
    states = states_of(state, np.arange(about.own))
    rows = [
        ("stands for", f"all {state.stands_for:,} ranks, which do the same at the same time"),
        *rank_lines(state, np.arange(about.own), states),
        ("waits", "yes, for a collective" if clock.waiting else "no"),
        ("computed", format_time(int(state.computed_ps()[0]))),
        ("passes", f"{int(clock.passes)} of {len(state.machine.pass_ends)} over"),
        ("done at", when(state.ends_ps()[0])),
        ("speed", edits.parameters(place, state.run, state.edits)[0].value),
    ]
    near = np.flatnonzero((states == 1) | (states == 2))[:MOST]
    layers = [
        {"path": f"layer[{layer.name}]", "text": f"layer {layer.name}"}
        for layer in state.run.inputs.table.layers[:MOST]
    ]
    dims = [{"path": f"dim[{dim}]", "text": f"dim {dim}"} for dim in range(len(about.topology))]
    children = [*listed(state, near), *layers, *dims]
    return {"state": rows, "children": children, **_chunks(state, lambda found: found >= 0)}


def _op(state: LayerState, place: LayerPart) -> dict[str, Any]:
    about, m, row = state.about, state.machine, place.operation
    start, end = (int(times[row]) for times in state.times_ps())
    layer, part = divmod(int(state.program.slot[row]), 3)
    rows = operation_lines(state, row)
    rows.insert(1, ("layer", f"{state.run.inputs.table.layers[layer].name}, {PARTS[part]}"))
    found: dict[str, Any] = {}
    program = m.operations[int(state.program.at[row])]
    if about.kind[row] == 0:
        if end < 0:
            rows.append(("takes", format_time(int(program.time_ps))))
    else:
        c = m.collectives[int(program.slot)]
        rows.append(("bytes", format_bytes(int(about.size[row]))))
        rows.append(("chunks", f"{int(c.over)} of {int(c.chunks)} done"))
        rows.append(("update", format_time(int(c.update_ps))))
        if start >= 0 > end:
            found = _chunks(state, lambda at: m.streams.collective[at] == int(program.slot))
    waits, others = neighbours(state, row)
    title = title_of(place.path, about.label(row))
    return {"title": title, "state": rows + waits, "children": others, **found}


def _layer(state: LayerState, place: LayerPart) -> dict[str, Any]:
    layer, m = state.run.inputs.table.layers[place.layer], state.machine
    rows = [("speed", edits.parameters(place, state.run, state.edits)[0].value)]
    for slot in place.slots:
        part, s = layer.parts[slot % 3], m.slots[slot]
        comm = f", {part.collective} of {format_bytes(part.size)}" if part.collective != "NONE" else ""
        rows.append((PARTS[slot % 3], f"{format_time(part.compute_ns * 1000)}{comm}"))
        done = f"{format_time(int(s.compute_ps))} computed, {format_time(int(s.exposed_ps))} exposed"
        total = f", {format_time(int(s.total_ps))} of collectives" if comm else ""
        rows.append((f"{PARTS[slot % 3]} so far", done + total))
    mine = np.flatnonzero(np.isin(state.program.slot, place.slots))[:MOST]
    return {"state": rows, "children": listed(state, mine)}


def _dim(state: LayerState, place: LayerPart) -> dict[str, Any]:
    m = state.machine
    each = int(m.clock[0].queues)
    queues = range(place.dim * each, (place.dim + 1) * each)
    used = state.dimension(place.dim)
    bandwidth, latency = (parameter.value for parameter in edits.parameters(place, state.run, state.edits))
    inside, running = (int(m.queues[name][list(queues)].sum()) for name in ("inside", "running"))
    rows = [
        ("shape", used["shape"]),
        ("bandwidth", f"{bandwidth} of a link"),
        ("latency", f"{latency} of a link"),
        ("chunks", f"{running} run, {inside - running} wait, {used['chunks']} have been through"),
        ("at once", str(int(m.clock[0].concurrent) * each)),
        ("sent", f"{format_bytes(used['bytes'])} by all ranks"),
        ("utilisation", f"{used['utilisation']:.1%} of the bandwidth so far"),
    ]
    return {"state": rows, **_chunks(state, lambda at: np.isin(m.phases.queue[m.streams.phase[at]], queues))}


INSPECTORS: Final = {"rank": _rank, "op": _op, "layer": _layer, "dim": _dim}
"""Functions that describe an object, by its kind."""

HAPPENED: Final = {
    BEGINS: "all ranks begin {what}",
    ENDS: "all ranks end {what}",
    PHASE_BEGINS: "a phase of {what} begins in dim {dim}",
    PHASE_ENDS: "a phase of {what} ends in dim {dim}",
}
"""Texts of reported events."""
