"""Questions that the views of a workload ask: one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.core.units import format_time
from astranb.widgets._breaking import answer_breaks
from astranb.widgets._changing import answer_apply, answer_difference, answer_fork, answer_parameters
from astranb.widgets._explaining import what_if_run, why
from astranb.widgets._feed import Message

from . import _explaining
from ._feed import WorkloadFeed
from ._graph import graph
from ._lanes import lanes

__all__ = ["ANSWERS"]

_MOST_ROWS = 400


def _layers(feed: WorkloadFeed) -> dict[str, Any]:
    """The same by layers, where all ranks are alike: computed, waited for, and collectives' time."""
    rows = feed.sim.result.table("layers")
    # Of collectives, only of those parts that have any.
    said = [name for name in rows[0] if name != "layer"]
    columns = [name for name in said if "compute" in name or any(row[name] for row in rows)]
    heads = [name.removesuffix("_ps").replace("_", " ").upper().split(" ", 1) for name in columns]
    exposed = [name for name in columns if "exposed" in name]
    order = sorted(rows, key=lambda row: -sum(row[name] for name in exposed))[:_MOST_ROWS]
    return {
        "what": "layers",
        "heads": ["layer", *(f"{part} {what.lower()}" for part, what in heads)],
        "rows": [[f"layer[{row['layer']}]", *(format_time(row[name]) for name in columns)] for row in order],
        "all": len(rows),
    }


def _ranks(feed: WorkloadFeed, _options: dict[str, Any]) -> Message:
    """How the time of each rank divides, as a table; those with most exposed communication first."""
    result = feed.sim.result
    dimensions = [
        {"path": f"dim[{row['dimension']}]", "shape": row["shape"], "utilisation": row["utilisation"]}
        for row in result.table("dimensions")
    ]
    if "layers" in result.tables:
        return {**_layers(feed), "dimensions": dimensions}, []
    rows = result.per_rank()
    order = sorted(rows, key=lambda row: (-row["exposed_comm_ps"], row["rank"]))[:_MOST_ROWS]
    columns = ("end_ps", "compute_ps", "exposed_comm_ps", "astrasim_exposed_comm_ps", "memory_ps", "idle_ps")
    heads = ("time", "compute", "exposed comm", "ASTRA-sim's", "memory", "idle")
    return {
        "what": "ranks",
        "heads": ["rank", *heads],
        "rows": [[f"rank[{row['rank']}]", *(format_time(row[name]) for name in columns)] for row in order],
        "all": len(rows),
        "dimensions": dimensions,
    }, []


ANSWERS: dict[str, Callable[[Any, dict[str, Any]], Message]] = {
    "lanes": lanes,
    "graph": graph,
    "apply": answer_apply,
    "breaks": answer_breaks,
    "critical_path": _explaining.critical_path,
    "difference": answer_difference,
    "fork": answer_fork,
    "parameters": answer_parameters,
    "ranks": _ranks,
    "lost_time": _explaining.lost_time,
    "what_if": _explaining.what_if,
    "what_if_run": what_if_run,
    "why": why,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
