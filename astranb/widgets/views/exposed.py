"""Parts of the time of each rank, as a table; of ASTRA-sim 1.0's files, of each layer."""

from __future__ import annotations

from typing import Any

from astranb.core.units import format_time
from astranb.engine.operations import ACTIVITIES, LATE
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, Message, OperationFeed, View

from .ranks import sums_of

__all__ = ["VIEW"]

_MOST_ROWS = 400


def _layers(sim: Simulation) -> dict[str, Any]:
    """The same by layers, where all ranks are alike: computed, waited for, and collectives' time."""
    rows = sim.result.table("layers")
    # Of collectives, only of those parts that have any.
    columns = [name for name in rows[0] if name != "layer"]
    columns = [name for name in columns if "compute" in name or any(row[name] for row in rows)]
    heads = [name.removesuffix("_ps").replace("_", " ").upper().split(" ", 1) for name in columns]
    exposed = [name for name in columns if "exposed" in name]
    order = sorted(rows, key=lambda row: -sum(row[name] for name in exposed))[:_MOST_ROWS]
    return {
        "what": "layer",
        "heads": ["layer", *(f"{part} {what.lower()}" for part, what in heads)],
        "rows": [[f"layer[{row['layer']}]", *(format_time(row[name]) for name in columns)] for row in order],
        "all": len(rows),
    }


def ranks(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with the parts of ranks' time up to ``at_ps``; those that communicate or wait longest first."""
    sim = feed.session.at(options.get("at_ps"))
    result = sim.result
    dimensions = [
        {"path": f"dim[{row['dimension']}]", "shape": row["shape"], "utilisation": row["utilisation"]}
        for row in result.table("dimensions")
    ]
    if "layers" in result.tables:
        return {**_layers(sim), "dimensions": dimensions}, []
    rows = result.per_rank()
    order = sorted(rows, key=lambda row: (-row["exposed_comm_ps"], row["rank"]))[:_MOST_ROWS]
    sums = sums_of(feed, sim)
    for row in rows:
        row |= dict(zip(ACTIVITIES, sums[row["rank"]].tolist(), strict=True))
    late = sums[:, LATE].any()
    activities = [name for number, name in enumerate(ACTIVITIES) if late or number != LATE]
    columns = ("end_ps", *activities, "astrasim_exposed_comm_ps")
    heads = ("time", *activities, "exposed, as ASTRA-sim counts")
    return {
        "what": "rank",
        "heads": ["rank", *heads],
        "rows": [[f"rank[{row['rank']}]", *(format_time(row[name]) for name in columns)] for row in order],
        "all": len(rows),
        "dimensions": dimensions,
    }, []


VIEW = View(OperationFeed, {"ranks": ranks}, offline={"ranks": (NOW,)})
