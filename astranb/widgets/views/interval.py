"""Sums over a brushed interval, as the panel shows them."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import TRACK_STATES
from astranb.widgets.feed import LineFeed, Message, View

__all__ = ["VIEW"]

_MOST_ROWS = 200  # of links and phases


def answer(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Add up an interval (:meth:`Simulation.aggregate`): ``from``, ``to`` (ps), ``ranks`` (None: all)."""
    ranks = options.get("ranks")
    found = feed.sim.aggregate(
        int(options["from"]), int(options["to"]), ranks=None if ranks is None else [int(r) for r in ranks]
    )
    phases: dict[str, dict[str, Any]] = {}
    for row in found.phases:
        one = phases.setdefault(row["phase"], {"phase": row["phase"], "gpus": 0, "time_ps": 0})
        one["gpus"] += 1
        one["time_ps"] = max(one["time_ps"], row["time_ps"])
    return {
        "from": found.start_ps,
        "to": found.end_ps,
        "oldest_ps": found.oldest_ps,
        "names": [*TRACK_STATES, "idle"],
        "shares": found.shares(),
        "states": found.states,
        "classes": found.classes,
        "links": found.links[:_MOST_ROWS],
        "more_links": max(0, len(found.links) - _MOST_ROWS),
        "phases": list(phases.values())[:_MOST_ROWS],
    }, []


VIEW = View(LineFeed, {"aggregate": answer})
