"""The graph of a rank's operations around now, laid out from left to right."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.engine.operations import KINDS, STATES, OperationEngine
from astranb.widgets.feed import Message, OperationFeed, View

__all__ = ["MOST_NODES", "VIEW", "changes_of", "graph_around_now", "window"]

MOST_NODES = 160
_LABEL = 40


def window(engine: OperationEngine, rank: int, most: int, centre: int = -1) -> np.ndarray:
    """Choose the operations of a rank that are nearest to what happens now, as ascending rows.

    Those under way and ready come first (and ``centre``, where not -1), then their neighbours in the
    graph in both directions, nearest first, then the rest.
    """
    about = engine.about
    rows = about.rows_of(rank)
    if len(rows) <= most:
        return rows
    states = engine.states(rows)
    seeds = rows[(states == 1) | (states == 2)].tolist()
    if not seeds:  # before the start, or after the end
        done = rows[states == 3]
        seeds = [int(done[np.argmax(engine.times_ps()[1][done])])] if len(done) else rows[:1].tolist()
    if centre >= 0:
        seeds = [centre, *seeds]
    chosen = dict.fromkeys(seeds[:most])
    waiting = deque(chosen)
    while waiting and len(chosen) < most:
        row = waiting.popleft()
        for one in (*about.parents_of(row).tolist(), *about.children_of(row).tolist()):
            if one not in chosen and len(chosen) < most:
                chosen[one] = None
                waiting.append(one)
    return np.array(sorted(chosen), np.int64)


def _depths(engine: OperationEngine, rows: np.ndarray) -> tuple[list[int], list[list[int]]]:
    """The longest path from the left to each operation within the window, and the edges."""
    at = {int(row): number for number, row in enumerate(rows)}
    parents = [[at[int(p)] for p in engine.about.parents_of(int(row)) if int(p) in at] for row in rows]
    children: list[list[int]] = [[] for _ in rows]
    left = [len(mine) for mine in parents]
    for number, mine in enumerate(parents):
        for parent in mine:
            children[parent].append(number)
    depth = [0] * len(rows)
    ready = deque(number for number, count in enumerate(left) if count == 0)
    while ready:
        number = ready.popleft()
        for child in children[number]:
            depth[child] = max(depth[child], depth[number] + 1)
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    return depth, [[parent, number] for number, mine in enumerate(parents) for parent in mine]


def _lines(depth: list[int], edges: list[list[int]]) -> list[int]:
    """A line for each operation, no two of a depth on the same one, near to those it waits for."""
    parents: dict[int, list[int]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)
    line = [0] * len(depth)
    taken: dict[int, set[int]] = {}
    for number in sorted(range(len(depth)), key=lambda n: (depth[n], n)):
        mine = parents.get(number, [])
        wish = round(sum(line[p] for p in mine) / len(mine)) if mine else 0
        used = taken.setdefault(depth[number], set())
        line[number] = next(
            y
            for step in range(len(depth) + 1)
            for y in (wish + step, wish - step)
            if y >= 0 and y not in used
        )
        used.add(line[number])
    return line


def graph_around_now(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """The operations of a rank around the cursor.

    Options: ``rank``, ``at_ps`` (None: now), ``most``, ``path`` (what is selected).
    """
    engine = feed.session.at(options.get("at_ps")).engine
    rank = min(max(0, int(options.get("rank", 0))), engine.ranks - 1)
    about, (starts, ends) = engine.about, engine.times_ps()
    most = max(8, min(MOST_NODES, int(options.get("most", MOST_NODES))))
    centre = -1
    path = str(options.get("path", ""))
    if path.startswith(f"rank[{rank}].op["):
        which = path.removeprefix(f"rank[{rank}].op[").removesuffix("]")
        mine = about.rows_of(rank)
        centre = int(mine[int(which)]) if which.isdecimal() and int(which) < len(mine) else -1
    rows = window(engine, rank, most, centre)
    depth, edges = _depths(engine, rows)
    line = _lines(depth, edges)
    states = engine.states(rows).tolist()
    nodes = []
    for number, row in enumerate(rows.tolist()):
        start, end = int(starts[row]), int(ends[row])
        when = f"{format_time(start)} to {format_time(end)}" if end >= 0 else ""
        if end < 0 <= start:
            when = f"since {format_time(start)}"
        over, chunks = engine.progress(row)
        part = f", {over} of {plural(chunks, 'chunk')}" if chunks and end < 0 <= start else ""
        nodes.append(
            {
                "path": about.path(row), "label": about.label(row)[:_LABEL], "what": about.text(row),
                "kind": KINDS[int(about.kind[row])], "state": STATES[states[number]], "when": when + part,
                "x": depth[number], "y": line[number],
            }
        )  # fmt: skip
    counts = np.bincount(engine.states(about.rows_of(rank)), minlength=4)
    return {
        "rank": rank,
        "nodes": nodes,
        "edges": edges,
        "counts": dict(zip(STATES, counts.tolist(), strict=True)),
        "hidden": int(counts.sum()) - len(rows),
    }, []


def changes_of(feed: OperationFeed, rank: int) -> np.ndarray:
    """The times up to now at which what the graph of a rank shows becomes something else, from 0 on."""
    rows = feed.sim.engine.about.rows_of(rank)
    times = np.concatenate([column[rows] for column in feed.sim.engine.times_ps()])
    return np.union1d(times[times >= 0], [0])


VIEW = View(OperationFeed, {"graph": graph_around_now})
