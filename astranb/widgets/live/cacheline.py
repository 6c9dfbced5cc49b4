"""What a page is given of a run by cache lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.engine.cacheline import FLIGHT_KINDS, CacheLineEngine
from astranb.engine.cacheline.loop import ENTRY, RAW
from astranb.engine.cacheline.recent_events import DID
from astranb.widgets.feed import Columns, LineFeed

from .changes import described
from .drawn import drawn
from .node_names import named
from .plan_machine import plan_machine
from .promises import contents
from .source_lines import lines

__all__ = ["ARGUMENTS", "ENTRY", "about", "tables"]

_RINGS = ("flights", "bursts", "trace")
"""Recorded so far, and no part of the state that a run goes back to: the page records its own."""


def tables(engine: CacheLineEngine) -> dict[str, Any]:
    """Every table that the loop takes, by name."""
    machine = engine.machine
    recorded = machine.recording._asdict()
    return {
        **machine.tables,
        "control": machine.control,
        "breaks": machine.breaks,
        **recorded,
        **{ring: np.zeros_like(recorded[ring]) for ring in _RINGS},
    }


def _arguments() -> list[str]:
    """The tables that the loop takes, in order; those that it takes as plain numbers begin with ``=``."""
    from astranb.engine.cacheline.loop import OWNERS
    from astranb.engine.cacheline.recording import Recording

    return [
        "control",
        "breaks",
        *(f"={name}" for name in RAW),
        *Recording._fields,
        "clock",
        *OWNERS,
    ]  # the queue has the clock, too


ARGUMENTS = _arguments()


def about(feed: LineFeed, columns: Columns) -> dict[str, Any]:
    """What does not change: names by number; ``feed`` has sent nothing, and its run is at its start."""
    del columns
    engine = feed.sim.engine
    fabric = engine.fabric
    return {
        "links": [fabric.name(link) for link in range(len(fabric.links))],
        "nodes": [fabric.graph.name(node) for node in range(len(fabric.graph))],
        "gpus": [int(node) for node in fabric.gpus],
        **named(fabric),
        **drawn(engine),
        **described(engine),
        "losses": dict(engine.losses),
        "words": {"did": DID, "flights": FLIGHT_KINDS},
        "presets": [preset.name for preset in engine.presets],
        "contents": contents(engine),
        "lines": lines(engine),
        "machine": plan_machine(engine),
    }
