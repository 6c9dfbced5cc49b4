"""Search: GPUs, switches and links, ranks and operations, and times, by what a person types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from astranb.core.errors import AstranbError
from astranb.core.units import format_time, time_ps
from astranb.sim import Simulation
from astranb.widgets.feed import Feed, Message, View

__all__ = ["VIEW"]

_MOST = 50
_NUMBERED = re.compile(r"(?:gpu|rank)?\s*\[?(\d+)\]?")
_Found = tuple[str, str, float]  # what it is, the object to select, the time to go to (-1: none)


def search(feed: Feed, options: dict[str, Any]) -> Message:
    """Find what a text names: ``text``; answers with at most fifty, the best first."""
    text = " ".join(str(options.get("text", "")).split()).lower()
    found = list(islice(_find(feed.sim, text), _MOST + 1)) if text else []
    return {"found": found[:_MOST], "more": len(found) > _MOST}, []


def _find(sim: Simulation, text: str) -> Iterator[_Found]:
    """Times, the object of that path, objects by number, then by a part of their names."""
    seen: set[str] = set()
    if re.search(r"\d\s*[a-zµ]", text):
        try:
            at_ps = time_ps(text, where="search")
            yield (f"time {format_time(at_ps)}", "", float(at_ps))
        except AstranbError:
            pass
    for name, path in (*_exact(sim, text), *_named(sim, text)):
        if path not in seen:
            seen.add(path)
            yield (name, path, -1.0)
    if sim.fidelity != "cacheline":
        yield from _operations(sim, text)


def _exact(sim: Simulation, text: str) -> Iterator[tuple[str, str]]:
    number = _NUMBERED.fullmatch(text)
    if number and int(number[1]) < sim.ranks:
        yield _ranked(sim, int(number[1]))
    if re.search(r"[\[.>]", text):
        try:
            found = sim.inspect(text)
        except AstranbError:
            return
        yield str(found["title"]), str(found["path"])


def _ranked(sim: Simulation, rank: int) -> tuple[str, str]:
    gpu = sim.fidelity == "cacheline" or sim.engine.about.infra
    path = f"gpu[{rank}]" if sim.fidelity == "cacheline" else f"rank[{rank}]"
    return f"GPU{rank}" if gpu else f"rank {rank}", path


def _named(sim: Simulation, text: str) -> Iterator[tuple[str, str]]:
    """Nodes and links whose names hold every word, in the order of the machine."""
    words = text.split()
    for name, path in _names(sim):
        if all(word in name.lower() for word in words):
            yield name, path


def _names(sim: Simulation) -> Iterator[tuple[str, str]]:
    engine = sim.engine
    yield from (_ranked(sim, rank) for rank in range(sim.ranks))
    if sim.fidelity != "cacheline":
        yield from ((f"dim {k} ({shape})", f"dim[{k}]") for k, shape in enumerate(engine.about.topology))
        yield from ((engine.link_title(k), name) for k, name in enumerate(engine.about.links))
        return
    fabric = engine.fabric
    ends = fabric.links["src"], fabric.links["dst"]
    for node in np.unique(np.concatenate(ends)).tolist():
        name = str(fabric.graph.name(node))
        yield name, name
    pairs = np.unique(np.stack(ends, axis=1), axis=0).tolist()
    for a, b in pairs:
        name = f"{fabric.graph.name(a)}->{fabric.graph.name(b)}"
        yield name, name


def _operations(sim: Simulation, text: str) -> Iterator[_Found]:
    """Operations of any rank whose name or kind holds every word; those that have begun have a time."""
    about, words = sim.engine.about, text.split()
    start = sim.engine.times_ps()[0]
    for row in (row for rank in range(sim.ranks) for row in about.rows_of(rank).tolist()):
        name = f"{about.path(row)} {about.text(row)}"
        if all(word in name.lower() for word in words):
            begun = int(start[row])
            when = f", begins at {format_time(begun)}" if begun >= 0 else ""
            yield (f"{name}{when}", about.path(row), float(begun))


VIEW = View(Feed, {"search": search})
