"""Questions that the views of a workload ask: one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.core.errors import InputError, near
from astranb.core.units import format_time
from astranb.sim.workload import EVENTS
from astranb.widgets._feed import Message

from ._feed import WorkloadFeed
from ._graph import graph
from ._lanes import lanes

__all__ = ["ANSWERS"]

_MOST_ROWS = 400
_APPLIED = ("set", "breakpoint", "enable", "clear")


def _breaks(feed: WorkloadFeed, options: dict[str, Any]) -> Message:
    """Breakpoints; a workload has no watches. The one buffer is that of their times: none."""
    sim, session = feed.sim, feed.session
    hit = session.hit
    points = [
        {
            "text": point.text, "enabled": point.enabled, "slow": point.call is not None,
            "object": point.object, "hit": hit is not None and hit.breakpoint is point,
        }
        for point in sim.breakpoints
    ]  # fmt: skip
    meta = {
        "points": points,
        "watches": [],
        "kinds": list(EVENTS),
        "fields": sim.fields(str(options.get("path", ""))),
    }
    return {**meta, "because": hit.because if hit else "", "start_ps": 0, "end_ps": 1, "exact": True}, [b""]


def _apply(feed: WorkloadFeed, content: dict[str, Any]) -> Message:
    """Carry out a change now; what is wrong is the answer's error, beside the control that asked."""
    verb = str(content.get("verb"))
    if verb not in _APPLIED:
        raise InputError(f"no such change: {verb!r}", where="change", mend=near(verb, _APPLIED))
    if feed.bench is not None:
        feed.bench.follow()
    feed.session.perform(verb, dict(content.get("options", {})))
    return {"status": feed.session.status}, []


def _ranks(feed: WorkloadFeed, _options: dict[str, Any]) -> Message:
    """How the time of each rank divides, as a table; those with most exposed communication first."""
    result = feed.sim.result
    rows = result.per_rank()
    order = sorted(rows, key=lambda row: (-row["exposed_comm_ps"], row["rank"]))[:_MOST_ROWS]
    columns = ("end_ps", "compute_ps", "exposed_comm_ps", "astrasim_exposed_comm_ps", "memory_ps", "idle_ps")
    heads = ("time", "compute", "exposed comm", "ASTRA-sim's", "memory", "idle")
    return {
        "heads": ["rank", *heads],
        "rows": [[f"rank[{row['rank']}]", *(format_time(row[name]) for name in columns)] for row in order],
        "all": len(rows),
        "dimensions": [
            {"path": f"dim[{row['dimension']}]", "shape": row["shape"], "utilisation": row["utilisation"]}
            for row in result.table("dimensions")
        ],
    }, []


ANSWERS: dict[str, Callable[[WorkloadFeed, dict[str, Any]], Message]] = {
    "lanes": lanes,
    "graph": graph,
    "breaks": _breaks,
    "apply": _apply,
    "ranks": _ranks,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
