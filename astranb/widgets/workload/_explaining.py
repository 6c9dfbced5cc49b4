"""Explanations of a workload, as answers to what the *Explain* panel asks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.operations.engine import CAUSES
from astranb.engine.operations.lost import LOSSES, lost_times
from astranb.engine.operations.what_if import suggest
from astranb.sim import Simulation
from astranb.widgets._explaining import row_of
from astranb.widgets._feed import Message

from ._feed import WorkloadFeed

__all__ = ["QUICK_EVENTS", "critical_path", "lost_time", "suggest", "what_if"]

_MOST_ROWS = 12
_MOST_PIECES = 50_000  # drawn; of more the longest
QUICK_EVENTS = 200_000
"""A run of so many events is run again with every suggested change without being asked to: in a moment."""
_LANES = {"compute": 0, "memory": 2}  # the others communicate


def _there(feed: WorkloadFeed, content: dict[str, Any]) -> Simulation:
    at_ps = content.get("at_ps")
    return cast("Simulation", feed.session.at(None if at_ps is None else float(at_ps)))


def lost_time(feed: WorkloadFeed, content: dict[str, Any]) -> Message:
    """Time lost per cause by the rank of an object, of all where it has none: ``path``, ``at_ps``."""
    sim = _there(feed, content)
    times, name = lost_times(sim), f"all {sim.ranks:,} ranks, their times added"
    if content.get("path"):
        head = str(sim.inspect(str(content["path"]))["path"]).partition("]")[0]
        if head.startswith("rank["):
            rank = int(head.removeprefix("rank["))
            times, name = times[rank : rank + 1], f"rank {rank}"
    sums = sorted(zip(times.sum(axis=0).tolist(), LOSSES.items(), strict=True), reverse=True)
    rows = [{"cause": cause, "means": means, "ps": ps} for ps, (cause, means) in sums if ps]
    return {"of": name, "total_ps": int(times.sum()), "rows": rows}, []


def critical_path(feed: WorkloadFeed, content: dict[str, Any]) -> Message:
    """The critical path up to ``at_ps``: its causes, its longest pieces, and columns to draw it from.

    The columns are those of a collective's, with ranks for thread blocks and lanes for SMs.
    """
    sim = _there(feed, content)
    path = sim.critical_path()
    if not path:
        raise InputError("no operation has ended yet", where="critical path", hint="go on first")
    about, total = sim.engine.about, path[-1].end_ps
    sums = sim.result.by_cause()
    longest = sorted(path, key=lambda p: (p.start_ps - p.end_ps, p.start_ps))
    meta = {
        "time_ps": total,
        "events": sim.events,
        "segments": len(path),
        "names": list(CAUSES),
        "causes": [{"cause": c, "means": CAUSES[c], "ps": ps} for c, ps in sums.items()],
        "top": [
            {
                "start_ps": p.start_ps, "ps": p.end_ps - p.start_ps, "cause": p.cause,
                "path": about.path(p.row), "title": p.because, "text": f"rank {p.npu}: {about.label(p.row)}",
            }
            for p in longest[:_MOST_ROWS]
        ],
    }  # fmt: skip
    return meta, _columns(path if len(path) <= _MOST_PIECES else sorted(longest[:_MOST_PIECES], key=_start))


def _start(piece: Piece) -> int:
    return piece.start_ps


def _columns(path: list[Piece]) -> list[bytes]:
    number = {cause: k for k, cause in enumerate(CAUSES)}
    nothing = np.full(len(path), -1, "<i4")
    columns = [
        np.array([p.start_ps for p in path], "<f8"),
        np.array([p.end_ps for p in path], "<f8"),
        np.array([p.npu for p in path], "<i4"),
        nothing,
        nothing,
        np.array([number[p.cause] for p in path], "<u4"),
        np.array([_LANES.get(p.cause, 1) for p in path], "<i4"),
    ]
    return [column.tobytes() for column in columns]


def what_if(feed: WorkloadFeed, content: dict[str, Any]) -> Message:
    """The changes that may matter most; ``quick``: whether the page asks at once for all to be run."""
    sim = _there(feed, content)
    return {"rows": [row_of(change) for change in suggest(sim)], "quick": sim.events <= QUICK_EVENTS}, []
