"""Memory of a rank over time, and at the cursor, by purpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.drawing import MemoryAxis
from astranb.engine.operations import fullest_in, fullest_rank, held_by
from astranb.widgets.feed import Message, OperationFeed, View, pack
from astranb.workload.astrasim2 import Footprint

from .timeline import window_of

__all__ = ["VIEW", "axes", "every_change", "footprint"]


def axes(found: Footprint) -> list[dict[str, Any]]:
    """Describe what does not change in the charts of ranks, by their tables."""
    each = []
    for stage, most in enumerate(found.peaks().sum(axis=1).tolist()):
        axis = MemoryAxis(most, found.limit_bytes)
        each.append(
            {
                "stage": stage, "parts": [found.parts[part] for part in found.used],
                "limit_bytes": found.limit_bytes, "shows_limit": axis.shows_limit,
                "top_bytes": axis.top_bytes, "ticks": axis.ticks, "unit": axis.unit,
            }
        )  # fmt: skip
    return each


def footprint(feed: OperationFeed, options: dict[str, Any], *, most: int = 0) -> Message:
    """Answer with the memory of a rank in a window of time.

    Options: ``from``, ``to`` (ps), ``columns``, ``rank`` (None: the first of those that hold most),
    ``at_ps`` (None: now). Columns: moments, and for each of the chart's ``parts`` the bytes that are held
    from each moment on. ``exact``: these are all changes; of more than columns (and than ``most``), each
    column has its fullest moment. ``at`` and ``peak`` are bytes by parts at ``at_ps`` and at the fullest
    moment so far. Where nothing is known of the run, ``chart`` is None and ``absent`` says why.
    """
    engine = feed.sim.engine
    start_ps, end_ps, edges = window_of(options)
    found = engine.about.footprint
    about = {"from": start_ps, "to": end_ps, "columns": len(edges) - 1, "now_ps": feed.sim.now_ps}
    if found is None:
        missing = {"exact": True, "absent": engine.absent["memory"], "chart": None}
        return {**about, **missing}, pack("footprint")
    rank = fullest_rank(engine) if options.get("rank") is None else int(options["rank"])
    if not 0 <= rank < feed.sim.ranks:
        raise InputError(f"no such rank {rank}", where="memory", hint=f"0 to {feed.sim.ranks - 1}")
    times, held = feed.found(("held", rank), lambda: held_by(engine, rank))
    held = held[:, found.used]
    at_ps = feed.sim.now_ps if options.get("at_ps") is None else int(options["at_ps"])
    peak = int(np.argmax(held.sum(axis=1)))
    chart = {
        **axes(found)[int(found.table[rank])], "rank": rank, "at": held[_row(times, at_ps)].tolist(),
        "peak_ps": int(times[peak]), "peak": held[peak].tolist(),
    }  # fmt: skip
    shown = slice(_row(times, start_ps), int(np.searchsorted(times, end_ps)))
    exact = shown.stop - shown.start < max(most, len(edges))
    if exact:
        times, held = times[shown], held[shown]
    else:
        edges = edges[: 1 + int(np.searchsorted(edges, feed.sim.now_ps, "right"))]
        times, held = edges[:-1], held[fullest_in(times, held, edges)]
    return {**about, "exact": exact, "absent": "", "chart": chart}, pack("footprint", time=times, held=held.T)


def every_change(feed: OperationFeed, rank: int | None) -> Message:
    """All that a rank (None: the fullest) held up to now, for a page without a kernel.

    It is as :func:`footprint` answers about all time where every change has a column; ``columns`` is 0.
    """
    now_ps, most = feed.sim.now_ps, 1 << 62
    about, buffers = footprint(feed, {"from": 0, "to": now_ps + 1, "columns": 1, "rank": rank}, most=most)
    return {**about, "to": now_ps, "columns": 0}, buffers


def _row(times: np.ndarray, at_ps: int) -> int:
    """The last change up to a time."""
    return max(0, int(np.searchsorted(times, at_ps, "right")) - 1)


VIEW = View(OperationFeed, {"footprint": footprint})
