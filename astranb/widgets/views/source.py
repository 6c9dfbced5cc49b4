"""What the view of the program shows: its text, and where every thread block is in it."""

from __future__ import annotations

from typing import Any

from astranb.widgets.feed import COLUMNS, NOW, LineFeed, Message, View, pack

__all__ = ["VIEW", "source", "where"]

_MOST_LINES = 5_000  # of all parts together: more than a panel can show usefully


def source(feed: LineFeed, _: dict[str, Any]) -> Message:
    """The text of the program: parts with name, number of the first line, and lines."""
    left, parts = _MOST_LINES, []
    for part in feed.sim.engine.program.source.parts:
        lines = part.text.splitlines()[:left]
        left -= len(lines)
        parts.append({"name": part.name, "first": part.first, "lines": lines, "shipped": part.shipped})
    return {"title": feed.sim.engine.work.title, "parts": parts}, []


def where(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Where each thread block is at the cursor: a column for each field of the message."""
    spots = feed.session.at(options.get("at_ps")).engine.where()
    return {}, pack("where", **{name: spots[name] for name in COLUMNS["where"]})


VIEW = View(
    LineFeed,
    {"source": source, "where": where},
    offline={"source": ({},), "where": (NOW,)},
    always=frozenset({"source"}),
)
