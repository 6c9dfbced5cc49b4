"""Breakpoints and watches, and what may be named of the selected object."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import AstranbError
from astranb.sim import Watch, series_of
from astranb.widgets.feed import Feed, Message, View, pack

__all__ = ["VIEW", "breaks", "complete"]

_MOST_REPLAYED = 2_000_000
"""Events of a run whose watches are shown exactly, by a replay: about a third of a second."""

_MOST_POINTS = 400

_MOST_PROPOSED = 50


def breaks(feed: Feed, content: dict[str, Any]) -> Message:
    """Breakpoints, watches with their curves, and what may be named for the selected object.

    Options: ``path`` (the selection), ``start_ps``, ``end_ps`` (what the timelines show), ``at_ps`` (the
    time of the values; null: now).
    Columns: the times of the curves, and their values, curve by curve.
    """
    sim, session = feed.sim, feed.session
    points = [
        {
            "text": point.text,
            "enabled": point.enabled,
            "slow": point.call is not None,
            "object": point.object,
            "hit": session.hit is not None and session.hit.breakpoint is point,
        }
        for point in sim.breakpoints
    ]
    start = max(0, int(content.get("start_ps", 0)))
    end = max(start, int(content.get("end_ps", sim.now_ps)))
    exact = not session.running and sim.events <= _MOST_REPLAYED
    times, curves = _curves(feed, start, min(end, max(start, sim.now_ps)), exact=exact)
    watches, past = [], session.at(content.get("at_ps"))
    for watch, curve in zip(sim.watches, curves, strict=True):
        known = curve[~np.isnan(curve)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        shown = {"text": watch.text, "object": watch.object, "now": watch.shown(watch.read(past))}
        watches.append({**shown, "low": watch.shown(low), "high": watch.shown(high)})
    path = str(content.get("path", ""))
    try:
        values = sim.watchable(path) if path else []
    except AstranbError:
        values = []
    meta = {
        "points": points,
        "watches": watches,
        "kinds": list(sim.event_kinds),
        "fields": sim.fields(path) if path else [],
        "values": values,
        "because": session.hit.because if session.hit else "",
        "start_ps": start,
        "end_ps": end,
        "exact": exact,
    }
    return meta, pack("breaks", times=times, values=np.concatenate([np.zeros(0), *curves]))


def complete(feed: Feed, content: dict[str, Any]) -> Message:
    """Complete a path from ``text``; ``fields``: with those of ``condition`` or ``watch``, too."""
    sim, text, of = feed.sim, str(content.get("text", "")), content.get("fields")
    paths = sim.paths(text, _MOST_PROPOSED)
    if of:
        path, dot, word = text.rpartition(".")
        try:
            names = (sim.fields if of == "condition" else sim.watchable)(path) if dot else []
        except AstranbError:
            names = []
        paths = [*(f"{path}.{name}" for name in names if name.startswith(word)), *paths][:_MOST_PROPOSED]
    return {"paths": paths}, []


def _curves(feed: Feed, start_ps: int, end_ps: int, *, exact: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Values over a window: replayed, or as they were sampled; the last answer is kept."""
    sim, watches = feed.sim, feed.sim.watches
    if not watches:
        return np.zeros(0), []
    key = (start_ps, end_ps, sim.events, tuple(sim.edits), tuple(id(w) for w in watches), exact)
    if feed.curves is not None and feed.curves[0] == key:
        found: tuple[np.ndarray, list[np.ndarray]] = feed.curves[1]
        return found
    count = max(2, min(_MOST_POINTS, end_ps - start_ps + 1))
    times = np.linspace(start_ps, end_ps, count).astype(np.int64)
    curves = list(series_of(sim, watches, times)) if exact else [_sampled(watch, times) for watch in watches]
    feed.curves = (key, (times, curves))
    return times, curves


def _sampled(watch: Watch, times: np.ndarray) -> np.ndarray:
    """Return the last value of a watch at each time; none before the first."""
    if not watch.times_ps:
        return np.full(len(times), np.nan)
    place = np.searchsorted(watch.times_ps, times, side="right") - 1
    return np.where(place >= 0, np.array(watch.values)[np.maximum(place, 0)], np.nan)


VIEW = View(Feed, {"breaks": breaks, "complete": complete})
