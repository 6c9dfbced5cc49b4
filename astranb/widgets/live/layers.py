"""What a page is given of a run of ASTRA-sim 1.0's layer tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from astranb.core.state import allocate
from astranb.engine.layers import LayerEngine
from astranb.engine.layers.edits import CHANGEABLE, EFFECTS
from astranb.engine.layers.flights import crossings_of
from astranb.engine.layers.loop import ENTRY
from astranb.engine.layers.tables import LIMITS, LayerMachine
from astranb.widgets.feed import Columns, OperationFeed
from astranb.workload.astrasim1 import HierarchicalNetwork

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
    kind, kinds = _kinds(engine, planned)
    sent = built.sent.sum(axis=1)
    phases = {"algorithm": built.planned["algorithm"], "crossing": crossing, "sent": sent, "kind": kind}
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
        "kinds": kinds,
        "network": _network(engine.run.inputs.network),
        "system": {
            "endpoint_ns": engine.run.inputs.system.endpoint_ns,
            "where": engine.run.inputs.system.where,
        },
        "congestion": engine.run.inputs.congestion,
        "crossings": [numbers(columns, dict(zip(names, one, strict=True))) for one in crossings],
        "base": numbers(columns, {"time_ps": engine.base_ps}),
    }


def _kinds(engine: LayerEngine, planned: np.ndarray) -> tuple[np.ndarray, list[list[int]]]:
    """How phases are carried out: of each the number in a list of what differs, in the order of the phases.

    A kind is algorithm, window, collective, NPUs, distance between them, bytes and tree
    (``static/live/phase_times.js``).
    """
    found, phases = engine.run.built.planned[planned], engine.machine.phases[planned]
    columns = [found["algorithm"], found["window"], phases["collective"], found["nodes"], found["stride"]]
    rows = np.stack([*columns, phases["bytes"], found["tree"]], axis=1)
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kind = np.full(len(engine.run.built.planned), -1)
    kind[planned] = place[number.reshape(-1)]
    return kind, rows[first[order]].tolist()


def _network(network: HierarchicalNetwork) -> dict[str, Any]:
    """The network, and how many links of each dimension a message uses at once."""
    return {**asdict(network), "strides": network.strides, "scales": network.scales}


def _dimension(engine: LayerEngine, dim: int) -> dict[str, Any]:
    """A dimension: its ranks, where it lies in the network, and all links of a rank in numbers of one."""
    network, levels = engine.run.inputs.network, engine.run.built.levels
    physical = levels.physical[dim]
    scale = network.total_bandwidth[physical] / network.bandwidth[physical]
    return {"units": levels.units[dim], "physical": physical, "scale": scale}
