"""What a page is given of a run of ASTRA-sim 1.0's layer tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.state import allocate
from astranb.engine.layers import LayerEngine
from astranb.engine.layers.edits import CHANGEABLE, EFFECTS, bandwidth_now
from astranb.engine.layers.flights import crossings_of
from astranb.engine.layers.loop import ENTRY
from astranb.engine.layers.tables import LIMITS, LayerMachine
from astranb.widgets.feed import Columns, OperationFeed

from .operations import about_of, numbers

__all__ = ["ARGUMENTS", "ENTRY", "about", "tables"]

ARGUMENTS = ["limits", *LayerMachine._fields, "=clock", "=operations", "=slots", "=collectives", "=queues"]
"""The tables that the loop takes, in order; those that it takes as plain numbers begin with ``=``."""


def tables(engine: LayerEngine) -> dict[str, Any]:
    """Every table that the loop takes, by name."""
    return {"limits": allocate(1, LIMITS), **engine.machine._asdict()}


def about(feed: OperationFeed, columns: Columns) -> dict[str, Any]:
    """What does not change; ``feed`` has sent nothing, and its run is at its start."""
    engine: Any = feed.sim.engine
    layers, built = engine.run.inputs.table.layers, engine.run.built
    planned = np.flatnonzero(built.planned["nodes"])  # a run without collectives has a phase that is none
    crossing = np.zeros(len(built.planned), np.int64)
    crossing[planned], crossings = crossings_of(engine, planned)
    sent = built.sent.sum(axis=1)
    phases = {"algorithm": built.planned["algorithm"], "crossing": crossing, "sent": sent}
    names = ("link", "source", "target", "step", "part", "steps", "nth", "count")
    return {
        **about_of(feed, columns),
        "changes": {"what": CHANGEABLE, "effects": EFFECTS},
        "layers": [layer.name for layer in layers],
        "layer_parts": [
            (part.compute_ns, part.collective, part.size) for one in layers for part in one.parts
        ],
        "dims": [_dimension(engine, dim) for dim in range(len(engine.about.topology))],
        "program": numbers(columns, {name: getattr(engine.program, name) for name in ("at", "of", "slot")}),
        "phases": numbers(columns, phases),
        "crossings": [numbers(columns, dict(zip(names, one, strict=True))) for one in crossings],
        "base": numbers(columns, {"time_ps": engine.base_ps}),
    }


def _dimension(engine: LayerEngine, dim: int) -> dict[str, Any]:
    """A dimension of the network: its ranks, a link, and all links of a rank in numbers of one."""
    network, levels = engine.run.inputs.network, engine.run.built.levels
    physical = levels.physical[dim]
    return {
        "units": levels.units[dim],
        "bandwidth_Bps": bandwidth_now(engine.run, [], dim),
        "latency_ns": network.latency_ns[physical],
        "scale": network.total_bandwidth[physical] / network.bandwidth[physical],
    }
