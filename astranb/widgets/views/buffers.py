"""The fullest buffers and the longest queues at the cursor, as a table."""

from __future__ import annotations

from typing import Any

from astranb.core.units import format_bytes, format_time
from astranb.widgets.feed import NOW, Feed, Message, View

__all__ = ["VIEW"]

_MOST_ROWS = 32


def buffers(feed: Feed, options: dict[str, Any]) -> Message:
    """Rows of the fullest buffers at ``at_ps`` (now without): path, how full from 0 to 1, and words."""
    sim = feed.session.at(options.get("at_ps"))
    found = sim.engine.buffers(_MOST_ROWS)
    rows = []
    for number, path in enumerate(found["path"]):
        taken, capacity, waiting, wait_ps = (
            int(found[name][number]) for name in ("taken", "capacity", "waiting", "wait_ps")
        )
        unit = found["unit"][number]
        text = _of(taken, capacity, unit) if capacity else format_time(wait_ps) if wait_ps else ""
        share = taken / capacity if capacity else -1.0
        rows.append([path, share, text, f"{waiting:,}" if waiting else ""])
    finite = any(found["capacity"])
    heads = ["buffer", "taken"] if finite else ["queue", "empty in"]
    return {"rows": rows, "heads": [*heads, "waiting"], "all": found["all"], "finite": finite}, []


def _of(taken: int, capacity: int, unit: str) -> str:
    if unit == "bytes":
        return f"{format_bytes(taken)} of {format_bytes(capacity)}"
    return f"{taken:,} of {capacity:,} {unit}"


VIEW = View(Feed, {"buffers": buffers}, offline={"buffers": (NOW,)})
