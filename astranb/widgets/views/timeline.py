"""Answers for the timeline: spans where they have room, else shares of states of each column.

The browser asks for the rows that it has in sight and as many columns as it has room for, so
that what is sent and drawn never depends on how much has happened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_time
from astranb.engine.cacheline import TRACK_STATES, phase_times, spot_text
from astranb.gpu import tables as t
from astranb.sim import Simulation
from astranb.widgets.feed import LineFeed, Message, View, pack

__all__ = ["VIEW", "moment", "rows", "shares", "span", "span_of", "spans", "window_of"]

_MOST_SPANS = 8_000
_MOST_COLUMNS = 1024
_MOST_STEPS = 4  # of a chain of waits, and thread blocks of an SM
_KINDS = ("sms", "blocks", "phases")
_SPAN = ("row", "state", "start", "end")  # columns; of phases the state is the phase


def rows(feed: LineFeed, _options: dict[str, Any]) -> Message:
    """Report the tracks of each kind: their GPU, their number, and whether a copy engine has them."""
    reported: dict[str, Any] = {"states": list(TRACK_STATES), "gpus": len(feed.sim.engine.machine.gpus)}
    for kind in ("sms", "blocks"):
        tracks = feed.sim.engine.tracks(kind)
        reported[kind] = {
            "gpu": tracks.gpu.tolist(), "number": tracks.number.tolist(),
            "engine": tracks.engine.astype(np.int64).tolist(),
        }  # fmt: skip
    return reported, []


def spans(feed: LineFeed, options: dict[str, Any]) -> Message:
    """A window of a timeline.

    Options: ``from``, ``to`` (ps), ``columns``, ``kind`` (``"sms"``, ``"blocks"``, ``"phases"``), ``folds``
    (GPUs each shown as one row) and ``tracks`` (shown one by one), ascending. Columns: ``fold_shares`` of
    ``folds`` and, where ``drawn`` is ``"density"``, ``track_shares`` of ``tracks``: for each of the states in
    ``present``, row and column how much of it is in that state, 255 being all. Where ``drawn`` is
    ``"spans"``: the row, state, start and end of each span; of phases always these, with the phase's
    number as the state. ``count`` and ``folded`` are the numbers of spans of the tracks and of the folds.
    """
    start, end, edges = window_of(options)
    kind = _kind_of(options)
    about = {"from": start, "to": end, "columns": len(edges) - 1, "kind": kind, "now_ps": feed.sim.now_ps}
    if kind == "phases":
        found = _phases(feed.sim, np.asarray(options.get("folds", []), np.int64), start, end)
        reported = {"drawn": "spans", "count": len(found[0]), "folded": 0, "present": []}
        return {**about, **reported}, pack("spans", **dict(zip(_SPAN, found, strict=True)))
    tracks = feed.sim.engine.tracks(kind)
    folds = _within(options.get("folds", []), len(feed.sim.engine.machine.gpus), "GPU")
    single = _within(options.get("tracks", []), len(tracks), "track")
    count = tracks.count(single, start, end)
    folded = tracks.count(np.flatnonzero(np.isin(tracks.gpu, folds)), start, end)
    sizes = np.bincount(tracks.gpu, minlength=len(feed.sim.engine.machine.gpus))[folds]
    parts_of = {"fold_shares": shares(tracks.spent(folds, edges, fold=True), edges, np.maximum(1, sizes))}
    rows_of: dict[str, np.ndarray] = {}
    if count <= _MOST_SPANS:
        parts = [tracks.spans(int(track), start, end) for track in single]
        row = np.repeat(np.arange(len(single)), [len(state) for state, _, _ in parts])
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        rows_of = dict(zip(_SPAN, (row, *columns), strict=False))
    else:
        parts_of["track_shares"] = shares(tracks.spent(single, edges), edges, np.ones(len(single), np.int64))
    present = np.flatnonzero(np.any([s.any(axis=(0, 1)) for s in parts_of.values()], axis=0))
    by_state = {name: s[:, :, present].transpose(2, 0, 1) for name, s in parts_of.items()}
    drawn = "spans" if len(parts_of) == 1 else "density"
    reported = {"drawn": drawn, "count": count, "folded": folded, "present": present.tolist()}
    return {**about, **reported}, pack("spans", **by_state, **rows_of)


def moment(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Describe the state of a track, or the phases of a GPU, at a time."""
    sim, kind = feed.sim, _kind_of(options)
    time_ps, names = int(options["time"]), sim.engine.program.phase_names
    if kind == "phases":
        start, end = phase_times(sim.engine)
        gpu = int(_within([options["track"]], len(start), "GPU")[0])
        here = np.flatnonzero((start[gpu] >= 0) & (start[gpu] <= time_ps) & (time_ps <= end[gpu]))
        texts = [f"{names[p]} ({_interval(start[gpu, p], end[gpu, p])})" for p in here[:4]]
        return {"text": "; ".join(texts)}, []
    tracks = sim.engine.tracks(kind)
    track = int(_within([options["track"]], len(tracks), "track")[0])
    state, start, end = tracks.spans(track, time_ps, time_ps + 1)
    here = np.flatnonzero((start <= time_ps) & (time_ps < end))
    if not len(here):
        return {"text": ""}, []
    texts = [TRACK_STATES[state[here[0]]], _interval(start[here[0]], end[here[0]])]
    phases = _phases_at(sim, kind, track, time_ps)
    return {"text": " · ".join([*texts, *phases])}, []


def span(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Describe what a track did at a time: what, from when to when, for how long, and what it waited for.

    Options: ``kind``, ``track`` (of phases the GPU), ``phase`` and ``time``.
    """
    sim, kind, time_ps = feed.sim, _kind_of(options), int(options["time"])
    if kind == "phases":
        start, end = phase_times(sim.engine)
        gpu = int(_within([options["track"]], len(start), "GPU")[0])
        phase = int(_within([options["phase"]], start.shape[1], "phase")[0])
        if not start[gpu, phase] <= time_ps <= end[gpu, phase]:
            return {"found": False}, []
        name = f"phase {sim.engine.program.phase_names[phase]}"
        return span_of(f"gpu[{gpu}]", name, int(start[gpu, phase]), int(end[gpu, phase]), []), []
    tracks = sim.engine.tracks(kind)
    track = int(_within([options["track"]], len(tracks), "track")[0])
    state, start, end = tracks.spans(track, time_ps, time_ps + 1)
    here = np.flatnonzero((start <= time_ps) & (time_ps < end))
    if not len(here):
        return {"found": False}, []
    gpu = int(tracks.gpu[track])
    part = "sm" if kind == "sms" else "block"
    path = (
        f"gpu[{gpu}]"
        if kind == "sms" and tracks.engine[track]
        else f"gpu[{gpu}].{part}.{tracks.number[track]}"
    )
    past = feed.session.at(time_ps)
    facts = [("phase", "; ".join(_phases_at(sim, kind, track, time_ps)))]
    facts += [("operation", text) for text in _operations_at(past, kind, tracks, track)]
    steps = list(past.why(path))
    facts += [("waits for" if k else "is", step.text) for k, step in enumerate(steps[:_MOST_STEPS])]
    what = TRACK_STATES[state[here[0]]]
    return span_of(path, what, int(start[here[0]]), int(end[here[0]]), facts, time_ps), []


def _operations_at(sim: Simulation, kind: str, tracks: Any, track: int) -> list[str]:
    """List the positions of a track's thread blocks in the program, with the line of the source."""
    machine, gpu = sim.engine.machine, int(tracks.gpu[track])
    blocks = np.array([track])
    if kind == "sms":
        sm = int(machine.gpus["first_sm"][gpu] + tracks.number[track])
        blocks = np.flatnonzero((machine.blocks["sm"] == sm) & (machine.blocks["state"] != t.DONE))
    first = int(np.searchsorted(machine.blocks["gpu"], gpu))
    return [
        spot_text(sim.engine, f"gpu[{gpu}].block.{block - first}") for block in blocks.tolist()[:_MOST_STEPS]
    ]


def span_of(
    path: str, what: str, start_ps: int, end_ps: int, facts: list[tuple[str, str]], time_ps: int | None = None
) -> dict[str, Any]:
    """A span as the inspector shows it: ``facts`` hold for ``time_ps``, for all of it where that is None."""
    return {
        "found": True, "path": path, "what": what, "start_ps": start_ps, "end_ps": end_ps,
        "time_ps": time_ps,
        "facts": [list(fact) for fact in facts if fact[1]],
    }  # fmt: skip


def _phases_at(sim: Simulation, kind: str, track: int, time_ps: int) -> list[str]:
    """Names of the phases that the thread blocks of a track are in at a time."""
    machine, tracks = sim.engine.machine, sim.engine.tracks(kind)
    if kind == "blocks":
        blocks = np.array([track])
    else:
        sm = int(machine.gpus["first_sm"][tracks.gpu[track]] + tracks.number[track])
        blocks = np.flatnonzero(machine.blocks["sm"] == sm)
    found: dict[str, None] = {}
    for block in blocks:
        ops = machine.ops[machine.blocks["first_op"][block] : machine.blocks["last_op"][block]]
        begun = np.flatnonzero((ops["started_ps"] >= 0) & (ops["started_ps"] <= time_ps))
        over = (ops["issued_ps"][begun] >= 0) & (ops["issued_ps"][begun] <= time_ps)
        at = begun[~over][:1] if (~over).any() else begun[-1:]
        for op in at:
            found.setdefault(sim.engine.program.phase_names[int(ops["phase"][op])])
    return list(found)


def window_of(options: dict[str, Any]) -> tuple[int, int, np.ndarray]:
    """The window that a question is about, and the moments between its columns."""
    start, end = max(0, int(options["from"])), int(options["to"])
    if end <= start:
        raise InputError(f"a window from {start} to {end} ps", where="timeline")
    columns = max(1, min(_MOST_COLUMNS, int(options["columns"]), end - start))
    edges = start + (np.arange(columns + 1, dtype=np.int64) * ((end - start) / columns)).astype(np.int64)
    edges[-1] = end
    return start, end, edges


def _kind_of(options: dict[str, Any]) -> str:
    kind = str(options.get("kind", "sms"))
    if kind not in _KINDS:
        raise InputError(f"unknown kind of rows {kind!r}", where="timeline", hint=near(kind, _KINDS))
    return kind


def _within(numbers: Any, count: int, what: str) -> np.ndarray:
    found = np.asarray(numbers, np.int64).reshape(-1)
    if len(found) and not (found.min() >= 0 and found.max() < count):
        raise InputError(f"no {what} {found.max()}", where="timeline", hint=f"0 to {count - 1}")
    return found


def shares(spent: np.ndarray, edges: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the share of each state in each column of each row, 255 being all."""
    whole = np.diff(edges)[None, :, None] * sizes[:, None, None]
    return np.asarray(np.round(255 * (spent / whole)).astype("u1"))


def _phases(sim: Simulation, gpus: np.ndarray, start_ps: int, end_ps: int) -> tuple[np.ndarray, ...]:
    start, end = phase_times(sim.engine)
    inside = (start >= 0) & (start < end_ps) & (end > start_ps)
    row, phase = np.nonzero(inside[gpus])
    return row, phase, start[gpus[row], phase], end[gpus[row], phase]


def _interval(start_ps: int, end_ps: int) -> str:
    length = format_time(int(end_ps) - int(start_ps))
    return f"{format_time(int(start_ps))} to {format_time(int(end_ps))} ({length})"


VIEW = View(
    LineFeed,
    {"rows": rows, "spans": spans, "moment": moment, "span": span},
    offline={"rows": ({},)},
    always=frozenset({"rows"}),
)
