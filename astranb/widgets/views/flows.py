"""The recorded messages as a table: the largest, the slowest, those of a rank, an operation or the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes, format_time
from astranb.engine.messages import MessageEngine
from astranb.widgets.feed import NOW, Feed, Message, OperationFeed, Options, View

__all__ = ["VIEW", "absent_of", "columns_of"]

_MOST_ROWS = 300
_COLUMNS: Final = ("source", "target", "bytes", "start_ps", "end_ps", "waited_ps", "operation")
_ORDERS: Final = ("start_ps", "bytes", "duration_ps", "rate", "waited_ps")


def columns_of(feed: OperationFeed) -> dict[str, np.ndarray]:
    """The recorded messages, none where :func:`absent_of` says why; kept until time moves."""
    engine = feed.sim.engine
    if absent_of(feed):
        return dict.fromkeys(_COLUMNS, np.zeros(0, np.int64)) | {"done": np.zeros(0, bool)}
    return feed.found("flows", engine.flow_columns)


def absent_of(feed: Feed) -> str:
    """Return the reason that no messages are known; empty: they are."""
    engine = feed.sim.engine
    if not isinstance(engine, MessageEngine):
        return "A layer table has phases, and no single messages."
    return "" if engine.recording else f"Nothing is known of messages: {engine.absent['flows']}."


def _until(whole: dict[str, np.ndarray], at_ps: float) -> dict[str, np.ndarray]:
    """Those that were sent up to a time, as they were then: of what is under way nobody knows the end."""
    sent = whole["start_ps"] <= at_ps
    found = {name: column[sent] for name, column in whole.items()}
    found["done"] = done = found["done"] & (found["end_ps"] <= at_ps)
    found["duration_ps"] = np.where(done, found["end_ps"], int(at_ps)) - found["start_ps"]
    found["rate"] = np.divide(
        1e12 * found["bytes"], found["duration_ps"], out=np.zeros(len(done)),
        where=done & (found["duration_ps"] > 0),
    )  # fmt: skip
    found["waited_ps"] = np.where(done, found["waited_ps"], -1)
    return found


def flows(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Messages that were sent up to the cursor (``at_ps``).

    Options: ``order`` (one of ``start_ps``, ``bytes``, ``duration_ps``, ``rate``, ``waited_ps``: the largest
    first, of rates the lowest), ``rank`` (that sends or receives; -1: any), ``text`` (a part of the
    operation's name or kind), ``now`` (only those under way at the cursor). A row is what to select (the
    operation, the link), the start, and the cells.
    """
    whole, about = columns_of(feed), feed.sim.engine.about
    order = str(options.get("order", "start_ps"))
    if order not in _ORDERS:
        raise InputError(f"unknown order {order!r}", where="flows", hint=near(order, _ORDERS))
    given = options.get("at_ps")
    at_ps = feed.sim.now_ps if given is None else float(given)
    found = _until(whole, at_ps)
    kept = np.ones(len(found["source"]), bool)
    rank = int(options.get("rank", -1))
    if rank >= 0:
        kept &= (found["source"] == rank) | (found["target"] == rank)
    if options.get("now"):
        kept &= ~found["done"]
    if text := str(options.get("text", "")).strip().lower():
        rows = np.unique(found["operation"][kept])
        named = [
            row
            for row in rows.tolist()
            if row >= 0 and text in f"{about.label(row)} {about.what(row)}".lower()
        ]
        kept &= np.isin(found["operation"], named)
    some = np.flatnonzero(kept)
    values = found[order][some]
    if order == "rate":
        some, values = some[values > 0], -values[values > 0]
    top = some[np.argsort(-values, kind="stable")[:_MOST_ROWS]]
    absent = absent_of(feed)
    first = 0 if absent else feed.sim.engine.recorded_from
    return {
        "absent": absent,
        "heads": [
            ["", "from → to"], ["", "operation"], ["bytes", "bytes"], ["start_ps", "sent"], ["", "arrives"],
            ["duration_ps", "takes"], ["rate", "GB/s"], ["waited_ps", "waited"],
            ["", "phase"], ["", "chunk"], ["", "tag"],
        ],
        "rows": [_row(feed, found, row) for row in top.tolist()],
        "all": len(kept),
        "shown": len(some),
        "bytes": int(found["bytes"][some].sum()),
        "dropped": first,
        "oldest_ps": int(found["start_ps"].min(initial=feed.sim.now_ps)) if first else 0,
    }, []  # fmt: skip


def _row(feed: OperationFeed, found: dict[str, np.ndarray], row: int) -> list[Any]:
    engine, one = feed.sim.engine, {name: column[row].item() for name, column in found.items()}
    operation = one["operation"]
    path = engine.about.path(operation) if operation >= 0 else f"rank[{one['source']}]"
    link = engine.link_path(one["link"]) if one["link"] >= 0 else ""
    return [
        path, link or f"rank[{one['source']}]", one["start_ps"],
        f"{one['source']} → {one['target']}", engine.about.text(operation) if operation >= 0 else "",
        format_bytes(one["bytes"]), format_time(one["start_ps"]),
        format_time(one["end_ps"]) if one["done"] else "under way", format_time(one["duration_ps"]),
        f"{one['rate'] / 1e9:.3g}" if one["rate"] else "",
        format_time(one["waited_ps"]) if one["done"] else "",
        *("" if one[name] < 0 else str(one[name]) for name in ("phase", "chunk", "tag")),
    ]  # fmt: skip


def _offline(feed: OperationFeed) -> Mapping[str, Sequence[Options]]:
    latest = {**NOW, "order": "start_ps", "rank": -1, "text": "", "now": False}
    return {} if absent_of(feed) else {"flows": (latest,)}


VIEW = View(OperationFeed, {"flows": flows}, offline=_offline)
