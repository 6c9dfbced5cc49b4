"""How busy issue slots, memories and links were in a window: as fine as the recording has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.density import flatten
from astranb.engine.cacheline import TRACK_STATES
from astranb.sim import Simulation
from astranb.widgets.feed import LineFeed, Message, View, pack

from .timeline import window_of

__all__ = ["VIEW", "activity"]

_ISSUING = [TRACK_STATES.index(name) for name in ("issue", "compute", "signal")]
_MOST_FLIGHTS = 400_000  # of a window whose links are worked out flight by flight


def activity(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Busy fractions of GPUs, and of the bundles of links of one of them.

    Options: ``from``, ``to`` (ps), ``columns``; ``first`` and ``last`` (one past) GPU in sight; ``bundles``:
    numbers of bundles shown one by one. Columns: a byte a row and column, 255 being all the time, of each
    GPU ``issue``, ``l2``, ``hbm`` and ``out`` (the links that leave it), then of each bundle. ``exact``:
    issue slots and links are exact for each column; L2 and HBM are known by the recording's ``bin_ps``.
    """
    sim = feed.sim
    start, end, edges = window_of(options)
    bundles = feed.layout.bundles
    gpus = len(sim.engine.machine.gpus)
    first = max(0, int(options.get("first", 0)))
    last = min(gpus, int(options.get("last", gpus)))
    chosen = [int(b) for b in options.get("bundles", []) if 0 <= int(b) < len(bundles)]
    about = {"from": start, "to": end, "columns": len(edges) - 1, "first": first, "last": max(first, last)}
    if not sim.engine.recorder.on:
        return {**about, "exact": False, "bin_ps": 0, "bundles": []}, pack("activity")
    recorded = sim.engine.recorder.activity(links=False)
    bin_ps = int(recorded["bin_ps"])
    # Line by line takes a tenth of a second; in fast-forward, Pause would wait for it.
    exact = not feed.session.fast_forward and bool((edges[1] - edges[0]) * 2 < bin_ps)
    exact = exact and sim.engine.recorder.oldest_ps <= start
    groups = [list(bundles[k][2]) for k in chosen] + feed.out_of[first:last]
    if exact:
        kept = sim.engine.recorder.since(0)[1]
        inside = (kept["start_ps"] < end) & (kept["start_ps"] + kept["wire_ps"] > start)
        exact = bool(inside.sum() <= _MOST_FLIGHTS)
    if exact:
        links = _from_flights(sim, kept[inside], start, end, edges, groups)
        tracks = sim.engine.tracks("sms")
        spent = tracks.spent(np.arange(first, last), edges, fold=True)[:, :, _ISSUING].sum(axis=2)
        engines = sim.engine.machine.gpus["sms"][first:last]
        issue = spent / np.diff(edges) / np.maximum(1, engines)[:, None]
    else:
        links = _resampled(sim.engine.recorder.busy(groups), bin_ps, edges)
        issue = _resampled(recorded["issue_busy"][first:last], bin_ps, edges)
    rows = {
        "issue": issue,
        "l2": _resampled(recorded["l2_busy"][first:last], bin_ps, edges),
        "hbm": _resampled(recorded["hbm_busy"][first:last], bin_ps, edges),
        "out": links[len(chosen) :],
        "bundles": links[: len(chosen)],
    }
    shares = {name: np.round(255 * np.clip(row, 0, 1)) for name, row in rows.items()}
    return {**about, "exact": exact, "bin_ps": bin_ps, "bundles": chosen}, pack("activity", **shares)


def _resampled(rows: np.ndarray, bin_ps: int, edges: np.ndarray) -> np.ndarray:
    """Means over columns of what is known by bins, taken as even within a bin."""
    places = np.arange(rows.shape[1] + 1) * bin_ps
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1) * bin_ps
    until = np.array([np.interp(edges, places, row) for row in sums]).reshape(len(rows), len(edges))
    return np.asarray(np.diff(until, axis=1) / np.diff(edges))


def _from_flights(
    sim: Simulation, kept: np.ndarray, start: int, end: int, edges: np.ndarray, groups: list[list[int]]
) -> np.ndarray:
    """Means over columns of the time for which the wires of groups of links carried bits."""
    group_of: dict[int, list[int]] = {}
    for number, lanes in enumerate(groups):
        for lane in lanes:
            group_of.setdefault(lane, []).append(number)
    busy = np.zeros((len(groups), len(edges) - 1))
    link = kept["link"].astype(np.int64)
    begin, wires = kept["start_ps"], kept["start_ps"] + kept["wire_ps"]
    whole = flatten(start, end, len(sim.engine.fabric.links), 1, link, np.zeros_like(link), begin, wires)
    used = np.array(sorted(set(group_of) & set(np.unique(link).tolist())), np.int64)
    if len(used):
        until = whole.spent(np.repeat(used, len(edges)), np.tile(edges, len(used)))
        spent = np.diff(until.reshape(len(used), len(edges)), axis=1)
        for place, one in enumerate(used.tolist()):
            for number in group_of[one]:
                busy[number] += spent[place]
    sizes = np.array([max(1, len(lanes)) for lanes in groups])[:, None]
    return np.asarray(busy / np.diff(edges) / sizes)


VIEW = View(LineFeed, {"activity": activity})
