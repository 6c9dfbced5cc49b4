"""Breakpoints and watches of a workbench: as methods, and as its panel is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from astranb.core.errors import AstranbError
from astranb.engine.breakpoints import Breakpoint
from astranb.sim import Simulation, Watch, series_of

from ._messages import pack

if TYPE_CHECKING:
    from ._feed import Feed, Message
    from ._session import Session

__all__ = ["Breaking", "answer_breaks"]

_T = TypeVar("_T")

_MOST_REPLAYED = 2_000_000
"""Events of a run whose watches are shown exactly, by a replay: about a third of a second."""

_MOST_POINTS = 400


class Breaking:
    """Where to stop and what to follow; a part of :class:`Workbench`."""

    sim: Simulation
    _session: Session
    _selection: Any  # trait of the widget

    def break_at(self, time: int | str) -> Breakpoint:
        """Stop when everything up to a time has happened (:meth:`Simulation.break_at`)."""
        return self._told(lambda: self.sim.break_at(time))

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind, of an object, or both (:meth:`Simulation.break_on`)."""
        return self._told(lambda: self.sim.break_on(kind, object))

    def break_when(self, condition: str | Callable[[Simulation], bool]) -> Breakpoint:
        """Stop when a condition begins to hold (:meth:`Simulation.break_when`)."""
        return self._told(lambda: self.sim.break_when(condition))

    def clear(self, point: Breakpoint | None = None) -> None:
        """Remove a breakpoint, or all of them."""
        self._told(lambda: self.sim.clear(point))

    def watch(self, what: str | Callable[[Simulation], float]) -> Watch:
        """Follow a value as a sparkline (:meth:`Simulation.watch`)."""
        return self._told(lambda: self.sim.watch(what))

    def unwatch(self, watch: Watch | None = None) -> None:
        """Follow a value no longer, or none of them."""
        self._told(lambda: self.sim.unwatch(watch))

    def _select_hit(self) -> None:
        """Select what a breakpoint was hit at, once."""
        hit = self._session.hit
        if hit is self.__dict__.get("_seen_hit"):
            return
        self.__dict__["_seen_hit"] = hit
        if hit is not None and hit.where:
            self._selection = hit.where

    def _told(self, call: Callable[[], _T]) -> _T:
        """Do something, and have every view look again."""
        outcome = call()
        self._session.publish()
        return outcome


def answer_breaks(feed: Feed, content: dict[str, Any]) -> Message:
    """Breakpoints, watches with their curves, and what may be named for the selected object.

    Options: ``path`` (the selection), ``start_ps``, ``end_ps`` (what the timelines show).
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
    watches = []
    for watch, curve in zip(sim.watches, curves, strict=True):
        known = curve[~np.isnan(curve)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        said = {"text": watch.text, "object": watch.object, "now": watch.shown(watch.value)}
        watches.append({**said, "low": watch.shown(low), "high": watch.shown(high)})
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


def _curves(feed: Feed, start_ps: int, end_ps: int, *, exact: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Values over a window: replayed, or as they were noted; the last answer is kept."""
    sim, watches = feed.sim, feed.sim.watches
    if not watches:
        return np.zeros(0), []
    key = (start_ps, end_ps, sim.events, tuple(sim.edits), tuple(id(w) for w in watches), exact)
    kept: tuple[Any, tuple[np.ndarray, list[np.ndarray]]] | None = feed.__dict__.get("_curves")
    if kept is not None and kept[0] == key:
        return kept[1]
    count = max(2, min(_MOST_POINTS, end_ps - start_ps + 1))
    times = np.linspace(start_ps, end_ps, count).astype(np.int64)
    curves = list(series_of(sim, watches, times)) if exact else [_noted(watch, times) for watch in watches]
    feed.__dict__["_curves"] = (key, (times, curves))
    return times, curves


def _noted(watch: Watch, times: np.ndarray) -> np.ndarray:
    """What a watch had been found to be last at each time; nothing before the first."""
    if not watch.times_ps:
        return np.full(len(times), np.nan)
    place = np.searchsorted(watch.times_ps, times, side="right") - 1
    return np.where(place >= 0, np.array(watch.values)[np.maximum(place, 0)], np.nan)
