"""Explanations in the workbench: as methods, and as answers to what the *Explain* panel asks."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.cacheline import CAUSES, LOSSES
from astranb.engine.cacheline._critical import search
from astranb.engine.cacheline._lost import lost_times
from astranb.engine.cacheline._paths import resolve
from astranb.engine.cacheline._what_if import suggest
from astranb.engine.critical_path import CriticalPath
from astranb.engine.what_if import Change, WhatIf
from astranb.engine.why import Why
from astranb.sim import Simulation

from ._feed import Feed, Message
from ._session import Session
from ._study import study_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explaining", "critical_path", "line", "lost_time", "row_of", "what_if", "what_if_run", "why"]

_MOST_ROWS = 12
_MOST_SEGMENTS = 50_000  # drawn; of more the longest


class Explaining:
    """What explains the moment that a workbench shows; a part of :class:`Workbench`."""

    _session: Session
    _selection: Any
    _at: Any  # of the transport: the cursor

    def why(self, path: str | None = None) -> Why:
        """Say why an object waits at the cursor (the selected one): see :meth:`Simulation.why`."""
        return self._there().why(self._selection if path is None else path)

    def critical_path(self) -> Any:
        """Find what the time up to the cursor consists of: see :meth:`Simulation.critical_path`."""
        return self._there().critical_path()

    def lost_time(self, *per: str) -> pd.DataFrame:
        """Where the time up to the cursor went: see :meth:`Simulation.lost_time`."""
        return self._there().lost_time(*per)

    @overload
    def what_if(self) -> WhatIf: ...

    @overload
    def what_if(self, path: str, value: float | str = "") -> Change: ...

    def what_if(self, path: str = "", value: float | str = "") -> WhatIf | Change:
        """Ask what a change would do: see :meth:`Simulation.what_if`."""
        sim: Any = self._there()  # of either kind
        found: WhatIf | Change = sim.what_if(path, value) if path else sim.what_if()
        return found

    def _there(self) -> Simulation:
        return self._session.at(self._at())


# What the panel asks -------------------------------------------------------------


def _there(feed: Feed, content: dict[str, Any]) -> Simulation:
    at_ps = content.get("at_ps")
    return feed.session.at(None if at_ps is None else float(at_ps))


def why(feed: Feed, content: dict[str, Any]) -> Message:
    """The chain of waits of an object: ``path``, ``at_ps``."""
    chain = _there(feed, content).why(str(content.get("path", "")))
    steps = [{"text": s.text, "path": s.path, "since_ps": s.since_ps} for s in chain]
    return {"path": chain.path, "now_ps": chain.now_ps, "circle": chain.circle, "steps": steps}, []


def line(feed: Feed, content: dict[str, Any]) -> Message:
    """The path of the line that is on a link and arrives at a time: ``link``, ``end_ps``, ``at_ps``."""
    machine = _there(feed, content).machine
    requests = machine.requests
    here = (requests["live"] == 1) & (requests["link"] == int(content["link"]))
    found = np.flatnonzero(here & (requests["arrives_ps"] == int(content["end_ps"])))
    if not len(found):
        raise InputError("this line is not under way any more", where="workbench")
    return {"path": f"line[{int(found[0])}]"}, []


def lost_time(feed: Feed, content: dict[str, Any]) -> Message:
    """Time lost per cause by the thread blocks of an object, of all where it has none."""
    sim = _there(feed, content)
    blocks, path = sim.engine.machine.blocks, str(content.get("path", ""))
    mine, name = np.ones(len(blocks), np.bool_), "all GPUs"
    if path and "->" not in path and not path.startswith("line["):
        place = resolve(path, sim.engine.fabric, sim.engine.machine)
        if place.kind in ("gpu", "sm"):
            mine, name = blocks[place.kind] == place.row, place.path
        elif place.kind == "block":
            mine, name = np.arange(len(blocks)) == place.row, place.path
    times = lost_times(sim)[mine]
    sums = sorted(zip(times.sum(axis=0).tolist(), LOSSES.items(), strict=True), reverse=True)
    rows = [{"cause": cause, "means": means, "ps": ps} for ps, (cause, means) in sums if ps]
    of = "1 thread block" if len(times) == 1 else f"{len(times):,} thread blocks, their times added"
    return {"of": f"{name}: {of}", "blocks": len(times), "total_ps": int(times.sum()), "rows": rows}, []


def _studied(feed: Feed, content: dict[str, Any]) -> tuple[bool, float, Any]:
    """The critical path up to the cursor, or how far its search is."""
    session = feed.session
    sim = session.at(None if content.get("at_ps") is None else float(content["at_ps"]))
    key = ("critical path", sim.events, tuple(sim.edits))

    def begin() -> Generator[float, None, tuple[Simulation, CriticalPath]]:
        copy = sim.fork(record=False)  # the simulation may go on meanwhile
        yield 0.0
        return copy, (yield from search(copy))

    return study_of(session).ask(key, begin)


def critical_path(feed: Feed, content: dict[str, Any]) -> Message:
    """The critical path up to ``at_ps``: its causes and places, and columns to draw it from."""
    done, progress, result = _studied(feed, content)
    if not done:
        return {"working": True, "progress": progress}, []
    copy, path = result
    number = {cause: k for k, cause in enumerate(CAUSES)}
    longest = sorted(path.segments, key=lambda s: (-s.length_ps, s.start_ps))[:_MOST_ROWS]
    meta = {
        "time_ps": path.time_ps,
        "events": copy.events,
        "segments": len(path),
        "names": list(CAUSES),
        "causes": [{"cause": c, "means": CAUSES[c], "ps": ps} for c, ps in path.by_cause().items()],
        "places": [{"path": p, "ps": ps} for p, ps in list(path.by_resource().items())[:_MOST_ROWS]],
        "top": [
            {
                "start_ps": s.start_ps, "ps": s.length_ps, "cause": s.cause, "path": s.resource,
                "title": f"{s.block}, operation {s.op} {s.phase}", "text": f"{s.cause}: {s.resource}",
            }
            for s in longest
        ],
    }  # fmt: skip
    pieces = path.pieces
    if len(pieces) > _MOST_SEGMENTS:
        least = sorted((p.end_ps - p.start_ps for p in pieces), reverse=True)[_MOST_SEGMENTS]
        pieces = [p for p in pieces if p.end_ps - p.start_ps > least]
    gpu_of_sm = path.gpu_of_sm
    links = [p.where[1] if p.where[0] == "link" else -1 for p in pieces]
    ranks = [
        p.where[1] if p.where[0] == "gpu" else gpu_of_sm[p.where[1]] if p.where[0] == "sm" else -1
        for p in pieces
    ]
    columns = [
        np.array([p.start_ps for p in pieces], "<f8"),
        np.array([p.end_ps for p in pieces], "<f8"),
        np.array([p.block for p in pieces], "<i4"),
        np.array(links, "<i4"),
        np.array(ranks, "<i4"),
        np.array([number[p.cause] for p in pieces], "<u4"),
        _sm_of(copy, np.array([p.block for p in pieces], np.int64)).astype("<i4"),
    ]
    return meta, [column.tobytes() for column in columns]


def _sm_of(sim: Simulation, block: np.ndarray) -> np.ndarray:
    """Number within its GPU of the SM on which each thread block is; -1: no block, or none yet."""
    blocks, gpus = sim.engine.machine.blocks, sim.engine.machine.gpus
    sm = blocks["sm"][block]
    return np.where((block >= 0) & (sm >= 0), sm - gpus["first_sm"][blocks["gpu"][block]], -1)


def what_if(feed: Feed, content: dict[str, Any]) -> Message:
    """The changes that would matter most, each with an estimate."""
    done, progress, result = _studied(feed, content)
    if not done:
        return {"working": True, "progress": progress}, []
    return {"rows": [row_of(change) for change in suggest(*result)]}, []


def what_if_run(feed: Feed, content: dict[str, Any]) -> Message:
    """One change, run from the start in a copy: the exact answer, or how far it is."""
    sim = feed.session.sim
    path, value = content.get("path"), content.get("value")
    if not isinstance(path, str) or not isinstance(value, str | int):
        raise InputError("what is to be changed, and to what?", where="what if", hint="a path and a value")
    work = sim.asked(path, value)
    key = ("what if", path, str(value), tuple(e for e in sim.edits if e[0] == 0))
    done, progress, result = study_of(feed.session).ask(key, lambda: work)
    return ({"row": row_of(result)} if done else {"working": True, "progress": progress}), []


def row_of(change: Change) -> dict[str, Any]:
    """A change as the panel is told it."""
    return {name: getattr(change, name) for name in Change.__slots__}
