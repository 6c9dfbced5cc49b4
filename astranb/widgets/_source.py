"""What the view of the program is told: its text, and where every thread block is in it."""

from __future__ import annotations

from typing import Any

from ._feed import Feed, Message
from ._messages import COLUMNS, pack

__all__ = ["Reading", "source", "where"]

_MOST_LINES = 5_000  # of all parts together: more than anybody reads in a panel


class Reading:
    """Following the program line by line; a part of :class:`Workbench`."""

    _ask: Any  # of the widget's controls

    def next_line(self, block: str) -> None:
        """Go on until a thread block, as ``gpu[3].block.0``, is at its next operation."""
        self._ask("next_line", block=block)


def source(feed: Feed, _: dict[str, Any]) -> Message:
    """The text of the program: parts with name, number of the first line, and lines."""
    left, parts = _MOST_LINES, []
    for part in feed.sim.engine.program.source.parts:
        lines = part.text.splitlines()[:left]
        left -= len(lines)
        parts.append({"name": part.name, "first": part.first, "lines": lines, "shipped": part.shipped})
    return {"title": feed.sim.engine.work.title, "parts": parts}, []


def where(feed: Feed, options: dict[str, Any]) -> Message:
    """Where each thread block is at the cursor: a column for each field of ``SPOT``."""
    spots = feed.session.at(options.get("at_ps")).where()
    return {}, pack("where", **{name: spots[name] for name in COLUMNS["where"]})
