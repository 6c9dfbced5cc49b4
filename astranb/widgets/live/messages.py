"""What a page is given of a run of ASTRA-sim 2.0's workloads."""

from __future__ import annotations

from typing import Any

from astranb.core.state import allocate
from astranb.engine.messages import MessageEngine
from astranb.engine.messages.build import margins
from astranb.engine.messages.edits import CHANGEABLE, EFFECTS
from astranb.engine.messages.loop import ENTRY
from astranb.engine.messages.tables import LIMITS, MessageMachine
from astranb.widgets.feed import Columns, OperationFeed

from .node_names import named
from .operations import about_of, numbers

__all__ = ["ARGUMENTS", "ENTRY", "about", "tables"]

ARGUMENTS = ["limits", *MessageMachine._fields, "=npus", "=operations", "=queues"]
"""The tables that the loop takes, in order; those that it takes as plain numbers begin with ``=``."""

_LANE = ("src", "dst", "lane", "bandwidth_Bps", "latency_ps", "forward_ps", "gap_ps")


def tables(engine: MessageEngine) -> dict[str, Any]:
    """Every table that the loop takes, by name; of all ranks, where a few would represent them."""
    return {"limits": allocate(1, LIMITS), **engine.machine._asdict()}


def about(feed: OperationFeed, columns: Columns) -> dict[str, Any]:
    """What does not change; ``feed`` has sent nothing, and its run is at its start."""
    engine: Any = feed.sim.engine
    margin, streams = margins(engine.machine)
    return {
        **about_of(feed, columns),
        "changes": {"what": CHANGEABLE, "effects": EFFECTS},
        "margin": margin,
        "streams": streams,
        "base": numbers(columns, {"duration_ns": engine.base_ns}),
        "routed": _routed(engine, columns),
    }


def _routed(engine: MessageEngine, columns: Columns) -> dict[str, Any] | None:
    """The infrastructure that routes go over: its nodes, and all lanes."""
    if engine.routed is None:
        return None
    fabric = engine.routed.fabric
    return {
        "nodes": [fabric.graph.name(node) for node in range(len(fabric.graph))],
        "gpus": fabric.gpus.tolist(),
        "failed": bool(fabric.graph.failed),
        "lanes": numbers(columns, {name: fabric.links[name] for name in _LANE}),
        **named(fabric),
    }
