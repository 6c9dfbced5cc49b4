"""Answers for the view of the program: text, places of thread blocks, and where the time went."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import BLOCK_COLUMNS, line_rows
from astranb.widgets.feed import COLUMNS, NOW, LineFeed, Message, View, pack

from .explain import found_path

__all__ = ["VIEW", "line_times", "source", "where"]

_QUICK_EVENTS = 2_000_000  # a critical path is found in a second: it need not be asked for
_MOST_LINES = 5_000  # of all parts together: more than a panel can show usefully

_STATES = {column.removesuffix("_ps").replace("_", " "): column for column in BLOCK_COLUMNS.values()}


def source(feed: LineFeed, _: dict[str, Any]) -> Message:
    """The text of the program: parts with name, number of the first line, and lines."""
    left, parts = _MOST_LINES, []
    for part in feed.sim.engine.program.source.parts:
        lines = part.text.splitlines()[:left]
        left -= len(lines)
        parts.append({"name": part.name, "first": part.first, "lines": lines, "shipped": part.shipped})
    return {"title": feed.sim.engine.work.title, "parts": parts}, []


def where(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Report the position of each thread block at the cursor: a column for each field of the message."""
    spots = feed.session.at(options.get("at_ps")).engine.where()
    return {}, pack("where", **{name: spots[name] for name in COLUMNS["where"]})


def line_times(feed: LineFeed, options: dict[str, Any]) -> Message:
    """The time at each line up to the cursor: of all thread blocks, by state, and of the critical path.

    The critical path takes a replay: of a long run it is searched where ``path`` is true, and nowhere where
    it is false. Until it is found ``path_ps`` of the rows is -1, and the answer has its ``progress``.
    """
    sim = feed.session.at(options.get("at_ps"))
    wanted = sim.events > 0 and options.get("path", sim.events <= _QUICK_EVENTS)
    done, progress, found = found_path(feed, options) if wanted else (False, 0.0, None)
    path = found[1] if done and found is not None else None
    *rows, outside = line_rows(sim.engine, path)
    shown = [
        {
            "part": row["part"], "line": row["line"], "operations": row["operations"],
            "states": {name: row[column] for name, column in _STATES.items()},
            "block_ps": row["block_ps"], "path_ps": row.get("path_ps", -1),
        }
        for row in rows
        if row["part"] >= 0
    ]  # fmt: skip
    total_ps = sim.engine.time_ps
    meta = {
        "rows": shown, "time_ps": total_ps, "block_ps": total_ps * len(sim.engine.machine.blocks),
        "outside": {"block_ps": outside["block_ps"], "path_ps": outside.get("path_ps", -1)},
        "path": path is not None, "events": sim.events,
    }  # fmt: skip
    return ({**meta, "working": True, "progress": progress} if wanted and not done else meta), []


VIEW = View(
    LineFeed,
    {"source": source, "where": where, "line_times": line_times},
    offline={"source": ({},), "where": (NOW,), "line_times": (NOW,)},
    always=frozenset({"source"}),
)
