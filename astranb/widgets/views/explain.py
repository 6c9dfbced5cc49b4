"""Explanations of the moment at the cursor: waits, lost time, critical path, effects of changes."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.engine import Change, CriticalPath, Segment
from astranb.engine.cacheline import LinePath, resolve
from astranb.engine.cacheline import lost_times as lost_by_blocks
from astranb.engine.operations import lost_times as lost_by_ranks
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, Feed, Message, Options, View, pack
from astranb.widgets.session import background_of

__all__ = ["QUICK_EVENTS", "VIEW", "found_path", "row_of"]

_MOST_ROWS = 12
_MOST_SEGMENTS = 50_000  # drawn; of more the longest
QUICK_EVENTS = 200_000
"""A run of operations of so many events is run again with every suggested change at once: in a moment."""
_TRACKS = {"compute": 0, "memory": 2}  # the other causes are communication


def _there(feed: Feed, content: dict[str, Any]) -> Simulation:
    at_ps = content.get("at_ps")
    return feed.session.at(None if at_ps is None else float(at_ps))


def why(feed: Feed, content: dict[str, Any]) -> Message:
    """The chain of waits of an object: ``path``, ``at_ps``."""
    chain = _there(feed, content).why(str(content.get("path", "")))
    steps = [{"text": s.text, "path": s.path, "since_ps": s.since_ps} for s in chain]
    return {"path": chain.path, "now_ps": chain.now_ps, "circle": chain.circle, "steps": steps}, []


def lost_time(feed: Feed, content: dict[str, Any]) -> Message:
    """Time lost per cause by the selected object, by all where it has none: ``path``, ``at_ps``."""
    sim, path = _there(feed, content), str(content.get("path", ""))
    times, name = (_of_blocks if sim.fidelity == "cacheline" else _of_ranks)(sim, path)
    losses = sim.engine.traits.losses.items()
    sums = sorted(zip(times.sum(axis=0).tolist(), losses, strict=True), reverse=True)
    rows = [{"cause": cause, "means": means, "ps": ps} for ps, (cause, means) in sums if ps]
    return {"of": name, "parts": len(times), "total_ps": int(times.sum()), "rows": rows}, []


def _of_blocks(sim: Simulation, path: str) -> tuple[np.ndarray, str]:
    """Lost times of the thread blocks of an object, and their name."""
    engine = sim.engine
    blocks = engine.machine.blocks
    mine, name = np.ones(len(blocks), np.bool_), "all GPUs"
    if path and "->" not in path and not path.startswith("line["):
        place = resolve(path, engine.fabric, engine.machine)
        if place.kind in ("gpu", "sm", "engine", "nic"):
            mine, name = blocks["gpu" if place.kind == "gpu" else "sm"] == place.row, place.path
        elif place.kind == "block":
            mine, name = np.arange(len(blocks)) == place.row, place.path
    times = lost_by_blocks(engine)[mine]
    of = plural(len(times), "thread block", "thread blocks together")
    return times, f"{name}: {of}"


def _of_ranks(sim: Simulation, path: str) -> tuple[np.ndarray, str]:
    """Lost times of the rank of an object, and its name."""
    times = lost_by_ranks(sim.engine)
    head = str(sim.inspect(path)["path"]).partition("]")[0] if path else ""
    if not head.startswith("rank["):
        return times, f"sum of all {plural(sim.ranks, 'rank')}"
    rank = int(head.removeprefix("rank["))
    return times[rank : rank + 1], f"rank {rank}"


def found_path(feed: Feed, content: dict[str, Any]) -> tuple[bool, float, Any]:
    """Return whether the critical path up to the cursor is found, the progress, and the run with its path."""
    sim = _there(feed, content)
    if sim.engine.traits.quick:
        return True, 1.0, (sim, sim.critical_path())

    def search() -> Generator[float, None, tuple[Simulation, CriticalPath]]:
        copy = sim.fork(record=False)  # the simulation may go on meanwhile
        yield 0.0
        return copy, (yield from copy.engine.search_path(lambda: copy.driver.copy(record=False)))

    return background_of(feed.session).ask(("critical path", sim.events, tuple(sim.edits)), search)


def critical_path(feed: Feed, content: dict[str, Any]) -> Message:
    """The critical path up to ``at_ps``: causes, longest segments, and columns to draw it from."""
    done, progress, found = found_path(feed, content)
    if not done:
        return {"working": True, "progress": progress}, []
    copy, path = found
    if not len(path):
        raise InputError("no operation has ended yet", where="critical path", hint="go on first")
    by_lines = isinstance(path, LinePath)
    longest = sorted(path, key=lambda s: (-s.length_ps, s.start_ps))[:_MOST_ROWS]
    meta = {
        "time_ps": path.time_ps,
        "events": copy.events,
        "segments": len(path),
        "names": list(path.meanings),
        "causes": [{"cause": c, "means": path.meanings[c], "ps": ps} for c, ps in path.by_cause().items()],
        "top": [{"start_ps": s.start_ps, "ps": s.length_ps, "cause": s.cause, **_words(s)} for s in longest],
    }
    number = {cause: k for k, cause in enumerate(path.meanings)}
    drawn: Sequence[int] = range(len(path))
    if len(path) > _MOST_SEGMENTS:
        least = sorted((s.length_ps for s in path), reverse=True)[_MOST_SEGMENTS]
        drawn = [k for k in drawn if path.segments[k].length_ps > least]
    segments = [path.segments[k] for k in drawn]
    columns = _line_columns(copy, path, drawn) if by_lines else _operation_columns(segments)
    return meta, pack(
        "critical_path",
        start=[s.start_ps for s in segments],
        end=[s.end_ps for s in segments],
        cause=[number[s.cause] for s in segments],
        **columns,
    )


def _words(segment: Segment) -> dict[str, str]:
    """A segment in the panel: why an operation waited, or where a line was."""
    if segment.because:
        text = f"rank {segment.rank}: {segment.name}"
        return {"path": segment.path, "title": segment.because, "text": text}
    title = f"{segment.path}, operation {segment.op} {segment.name}"
    return {"path": segment.resource, "title": title, "text": f"{segment.cause}: {segment.resource}"}


def _line_columns(copy: Simulation, path: LinePath, drawn: Sequence[int]) -> dict[str, Any]:
    """Thread block, link, rank, and number of the SM within its GPU; -1: none."""
    lines = [path.line_segments[k] for k in drawn]
    machine = copy.engine.machine
    block = np.array([p.block for p in lines], np.int64)
    sm = machine.blocks["sm"][block]
    first = machine.gpus["first_sm"][machine.blocks["gpu"][block]]
    return {
        "block": block,
        "link": [p.where[1] if p.where[0] == "link" else -1 for p in lines],
        "rank": [_rank_of(path, *p.where) for p in lines],
        "sm": np.where((block >= 0) & (sm >= 0), sm - first, -1),
    }


def _rank_of(path: LinePath, kind: str, number: int) -> int:
    """The GPU of a place; -1: none."""
    return number if kind == "gpu" else path.gpu_of_sm[number] if kind == "sm" else -1


def _operation_columns(segments: Sequence[Segment]) -> dict[str, Any]:
    """Ranks for thread blocks, and tracks for SMs."""
    return {
        "block": [s.rank for s in segments],
        "link": np.full(len(segments), -1),
        "rank": np.full(len(segments), -1),
        "sm": [_TRACKS.get(s.cause, 1) for s in segments],
    }


def what_if(feed: Feed, content: dict[str, Any]) -> Message:
    """The changes that may matter most; ``quick``: whether the page asks at once for all to be run."""
    done, progress, found = found_path(feed, content)
    if not done:
        return {"working": True, "progress": progress}, []
    sim, path = found
    return {"rows": [row_of(change) for change in sim.engine.suggest(path)], "quick": _quick(sim)}, []


def _quick(sim: Simulation) -> bool:
    return bool(sim.engine.traits.quick and sim.events <= QUICK_EVENTS)


def what_if_run(feed: Feed, content: dict[str, Any]) -> Message:
    """One change, run from the start in a copy: the exact answer, or the progress."""
    sim = feed.session.sim
    path, value = content.get("path"), content.get("value")
    if not isinstance(path, str) or not isinstance(value, str | int):
        raise InputError("what is to be changed, and to what?", where="what if", hint="a path and a value")
    work = sim.asked(path, value)
    key = ("what if", path, str(value), tuple(sim.edits))
    done, progress, change = background_of(feed.session).ask(key, lambda: work)
    return ({"row": row_of(change)} if done else {"working": True, "progress": progress}), []


def row_of(change: Change) -> dict[str, Any]:
    """A change as the panel shows it."""
    return {name: getattr(change, name) for name in Change.__slots__}


def _offline(feed: Feed) -> Mapping[str, Sequence[Options]]:
    sim = feed.sim
    runs = sim.engine.suggest(sim.critical_path()) if _quick(sim) else []
    everywhere = {"path": "", **NOW}
    return {
        "critical_path": (NOW,),
        "lost_time": (everywhere,),
        "what_if": (NOW,),
        "what_if_run": tuple({"path": change.path, "value": change.value} for change in runs),
        "why": (everywhere,),
    }


_ANSWERS = (critical_path, lost_time, what_if, what_if_run, why)
VIEW = View(Feed, {answer.__name__: answer for answer in _ANSWERS}, offline=_offline)
