"""What a page is given of a run of operations, by whichever engine: what never changes, and its picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from astranb.chakra import ModuleTree
from astranb.engine.operations.about import ABOUT
from astranb.engine.operations.engine import CAUSES
from astranb.engine.operations.footprint import fullest_rank
from astranb.sim.variants import parameters
from astranb.widgets.feed import Columns, OperationFeed
from astranb.widgets.feed.modules import tree_message
from astranb.widgets.views.footprint import axes
from astranb.widgets.views.modules import nodes_of
from astranb.workload.astrasim2 import COLLECTIVE_NAMES

__all__ = ["about_of", "numbers"]

_MOST_IN_TREES: Final = 50_000
"""Most operations of all trees of modules of a page: ranks that have the same operations share one."""


def numbers(columns: Columns, arrays: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Add columns of numbers; gives the number of the column and the type of each."""
    found = {}
    for name, array in arrays.items():
        values = np.asarray(array)
        small = values.dtype.kind in "bi" and (not values.size or np.abs(values).max() < 1 << 31)
        kind = "i4" if small else "f8"
        found[name] = (columns.add(values.astype(f"<{kind}", "C").tobytes())[0], kind)
    return found


def about_of(feed: OperationFeed, columns: Columns) -> dict[str, Any]:
    """Describe ranks, operations and the network of a run at its start, and the picture of the network."""
    engine: Any = feed.sim.engine
    about = engine.about
    scene, buffers = feed.scene()
    drawn = {"drawn": feed.drawn, "kind_of": feed.kind_of}
    return {
        "title": engine.title,
        "collective": engine.collective,
        "collectives": sorted(COLLECTIVE_NAMES, key=lambda name: COLLECTIVE_NAMES[name]),
        "parameters": [asdict(one) for one in parameters(engine)],
        "ranks": engine.ranks,
        "stands_for": engine.stands_for,
        "tracks": list(engine.tracks),
        "places": list(engine.places),
        "longest_ps": engine.longest_ps,
        "recording": engine.recording,
        "names": about.names,
        "topology": about.topology,
        "network": about.network,
        "links": about.links,
        "own": about.own,
        "operations": numbers(columns, {name: getattr(about, name) for name in ABOUT}),
        "parts": _parts(about.parts, columns),
        "footprint": _footprint(engine, columns),
        **_modules(engine, columns),
        "absent": dict(engine.absent),
        "losses": dict(engine.losses),
        "causes": CAUSES,
        "bus_factor": engine.bus_factor,
        "boxes": [box.rank for box in feed.layout.boxes if box.rank >= 0 and box.count == 1],
        "scene": {"message": scene, "buffers": columns.add(*buffers)},
        "picture": numbers(columns, drawn),
        "link_ends": numbers(columns, _link_ends(feed)),
    }


def _link_ends(feed: OperationFeed) -> dict[str, Any]:
    """With congestion the node at the end of each link, and that of each rank: where messages arrive."""
    if feed.sim.engine.fidelity != "congestion":
        return {}
    return {"dst": feed.graph.dst, "gpus": feed.graph.gpus}


def _parts(parts: Any, columns: Columns) -> dict[str, Any] | None:
    """The recorded operations that custom collectives replay."""
    if parts is None:
        return None
    names = ("owner", "first", "until", "label", "kind", "bytes", "shows", "phase", "chunk")
    labels = [asdict(one) for one in parts.labels]
    return {
        "own": parts.own,
        "labels": labels,
        **numbers(columns, {name: getattr(parts, name) for name in names}),
    }


def _modules(engine: Any, columns: Columns) -> dict[str, Any]:
    """Trees of modules, and which of them each rank has; -1: it would be too large."""
    about = engine.about
    trees: list[dict[str, Any]] = []
    known: dict[Any, int] = {}
    tree_of, count = [], 0
    for rank in range(engine.ranks):
        rows = about.rows_of(rank)
        if count + len(rows) > _MOST_IN_TREES:
            tree_of.append(-1)
            continue
        nodes = nodes_of(about, rows, f"rank {rank}")
        same = (*nodes.names.values, *(one.tobytes() for one in (nodes.names.index, *nodes[1:8])))
        if same not in known:
            known[same] = len(trees)
            count += len(rows)
            whole, buffers = tree_message(ModuleTree(nodes))
            numbers = {name: columns.add(*some) for name, some in buffers.items()}
            trees.append({**whole, "buffers": numbers})
        tree_of.append(known[same])
    return {"trees": trees, "tree_of": tree_of}


def _footprint(engine: Any, columns: Columns) -> dict[str, Any] | None:
    """What ranks hold in memory when, and the axes of its charts."""
    found = engine.about.footprint
    if found is None:
        return None
    names = ("table", "held", "first", "operation", "at_end", "change")
    return {
        "axes": axes(found),
        "used": found.used.tolist(),
        "width": len(found.parts),
        "fullest": fullest_rank(engine),
        **numbers(columns, {name: getattr(found, name) for name in names}),
    }
