"""What a page is given of a run of ASTRA-sim 1.0's layer tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.state import allocate
from astranb.engine.layers import LayerEngine
from astranb.engine.layers.flights import crossings_of
from astranb.engine.layers.loop import ENTRY
from astranb.engine.layers.tables import LIMITS, LayerMachine
from astranb.widgets.feed import OperationFeed
from astranb.widgets.recording import Columns

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
    run, built = engine.run, engine.run.built
    planned = np.flatnonzero(built.planned["nodes"])  # a run without collectives has a phase that is none
    crossing = np.zeros(len(built.planned), np.int64)
    crossing[planned], crossings = crossings_of(engine, planned)
    names = ("link", "source", "target", "step", "part", "steps", "nth", "count")
    return {
        **about_of(feed, columns),
        "layers": [layer.name for layer in run.inputs.table.layers],
        "program": numbers(columns, {name: getattr(engine.program, name) for name in ("at", "of", "slot")}),
        "phases": numbers(columns, {"algorithm": built.planned["algorithm"], "crossing": crossing}),
        "crossings": [numbers(columns, dict(zip(names, one, strict=True))) for one in crossings],
        "base": numbers(columns, {"time_ps": engine.base_ps}),
    }
