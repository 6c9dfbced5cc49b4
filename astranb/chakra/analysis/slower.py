"""Explanation of a slower job: the difference of two jobs' times, divided among modules and activities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from astranb.chakra.recording import OUTSIDE, ROOTS
from astranb.chakra.traces import Trace

from .activity import ACTIVITIES
from .job_statistics import TraceStatistics
from .trace_modules import ModuleTree

__all__ = ["module_paths", "why_slower"]

_WORD: Final = re.compile(r"[^\s/.]+")
_STEP: Final = re.compile(r"(?<=^ProfilerStep)#\d+")
"""The number of a step, which differs between recordings."""
_SKIPPED: Final = re.compile(r"[\d,]+ to [\d,]+ of [\d,]+|ProfilerStep#\d+")
"""Runs of a crowded module, and steps."""
IDLE: Final = "(idle)"


def module_paths(trace: Trace, depth: int) -> list[str]:
    """The module of each node, by so many callers or words of its name: those of two traces can be compared.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("L0 fwd 0 attn", num_ops=10**6), step.compute("optimizer", num_ops=10**6)
    >>> module_paths(step.build(), 2)
    ['L0 fwd', 'optimizer']
    """
    names = [_STEP.sub("", (name or "").removeprefix(f"{OUTSIDE}: ")) for name in trace.names.values]
    module_names = [" ".join(_WORD.findall(name)[:depth]) or name for name in names] + [""]
    by_name = [module_names[at] for at in trace.names.index.tolist()]
    tree = ModuleTree(trace)
    if tree.by == "names":
        return by_name
    paths: list[tuple[str, ...]] = [()] * len(tree)
    order = np.argsort(tree.depth, kind="stable").tolist()
    for module in order[1:]:  # without the whole
        above, label = paths[int(tree.parent[module])], tree.labels[module]
        skipped = len(above) >= depth or label in ROOTS or _SKIPPED.fullmatch(label)
        paths[module] = above if skipped else (*above, label)
    return [
        " / ".join(paths[module]) or own for module, own in zip(tree.module_of.tolist(), by_name, strict=True)
    ]


def why_slower(
    first: Sequence[Trace],
    second: Sequence[Trace],
    counted: tuple[TraceStatistics, TraceStatistics],
    *,
    depth: int = 2,
) -> dict[str, Any]:
    """Divide the difference between the times of two jobs.

    The time of a job is that of each of its ranks, waits and idle time included, so that the parts add up: to
    the mean of the ranks, in ns.

    Parameters
    ----------
    first, second : sequence of Trace
    counted : pair of TraceStatistics
    depth : int
        For :func:`module_paths`.

    Returns
    -------
    dict
        ``makespan_ns`` of both and their ``difference_ns``; ``activities`` and ``modules``, rows with
        ``first_ns``, ``second_ns`` and ``difference_ns`` that add up to it, the largest difference first.
        Modules also have the difference by activity, and of both ``nodes``, ``bytes`` of communication, and
        how many nodes only one has (``only``), by their names. ``critical_path``: the parts of both.
    """
    sides = [_sums(traces, one, depth) for traces, one in zip((first, second), counted, strict=True)]
    activities: dict[str, list[float]] = {name: [0.0, 0.0] for name in (*ACTIVITIES, "idle")}
    modules: dict[str, dict[str, Any]] = {}
    for side, (traces, found) in enumerate(zip((first, second), sides, strict=True)):
        ranks = max(len(traces), 1)
        for (module, activity), took in found["time"].items():
            activities[activity][side] += took / ranks
            row = modules.setdefault(module, _empty(module))
            row[("first_ns", "second_ns")[side]] += took / ranks
            row["activities"].setdefault(activity, [0.0, 0.0])[side] += took / ranks
        for module, names in found["names"].items():
            row = modules.setdefault(module, _empty(module))
            row["nodes"][side], row["bytes"][side] = names.total(), found["bytes"][module]
            others = sides[1 - side]["names"].get(module, Counter())
            row["only"][side] = (names - others).total()
    for row in modules.values():
        row["difference_ns"] = row["second_ns"] - row["first_ns"]
        row["activities"] = {name: b - a for name, (a, b) in row["activities"].items()}
    shares = [one.path.shares() for one in counted]
    return {
        "ranks": [len(first), len(second)],
        "makespan_ns": [one.makespan_ns for one in counted],
        "difference_ns": counted[1].makespan_ns - counted[0].makespan_ns,
        "activities": [
            {"activity": name, "first_ns": a, "second_ns": b, "difference_ns": b - a}
            for name, (a, b) in activities.items()
        ],
        "modules": sorted(modules.values(), key=lambda row: (-abs(row["difference_ns"]), row["module"])),
        "critical_path": {name: [shares[0][name], shares[1][name]] for name in shares[0]},
    }


def _empty(module: str) -> dict[str, Any]:
    zeros = {"first_ns": 0.0, "second_ns": 0.0, "difference_ns": 0.0, "activities": {}}
    return {"module": module, **zeros, "nodes": [0, 0], "bytes": [0, 0], "only": [0, 0]}


def _sums(traces: Sequence[Trace], counted: TraceStatistics, depth: int) -> dict[str, Any]:
    """The time of all ranks by module and activity; names of nodes and bytes by module."""
    time: Counter[tuple[str, str]] = Counter()
    names: dict[str, Counter[str]] = {}
    size: Counter[str] = Counter()
    for trace, spent, row in zip(traces, counted.spent, counted.by_rank, strict=True):
        paths = module_paths(trace, depth)
        acts = spent.activity.tolist()
        columns = (spent.own_ns.tolist(), spent.waiting_ns.tolist(), np.maximum(trace.comm_size, 0).tolist())
        for at, (path, act, own, waited, given) in enumerate(zip(paths, acts, *columns, strict=True)):
            if own:
                time[path, ACTIVITIES[act]] += own
            if waited:
                time[path, "waiting"] += waited
            if act >= 0:
                names.setdefault(path, Counter())[trace.names[at] or ""] += 1
            size[path] += given
        time[IDLE, "idle"] += row["idle_ns"]
    return {"time": time, "names": names, "bytes": size}
