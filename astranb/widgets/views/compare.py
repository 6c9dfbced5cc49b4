"""Differences between two runs, as tables of texts."""

from __future__ import annotations

from typing import Any

from astranb.core.units import format_time
from astranb.sim import Comparison, Shown
from astranb.widgets.feed import Feed, Message, View

__all__ = ["VIEW", "report"]

_MOST_ROWS = 200


def difference(feed: Feed, content: dict[str, Any]) -> Message:
    """The difference between this run and the one beside it, at the view's cursor."""
    workbench = feed.workbench
    if workbench is None or workbench.linked is None:
        return {"other": False}, []
    if content.get("part"):
        workbench.part()
        return {"other": False}, []
    at_ps = None if feed.session.running else content.get("at_ps")
    return {"other": True, **report(workbench.linked.at(at_ps))}, []


def report(comparison: Comparison) -> dict[str, Any]:
    """A comparison as a view shows it: tables of texts, with how large each difference is."""
    total = {"cause": "total", **{f"time_ps_{side}": comparison.time[f"{side}_ps"] for side in ("a", "b")}}
    total["time_ps_difference"] = comparison.time["difference_ps"]
    causes = Shown("Time", [total, *comparison.causes()], "cause", "time_ps")
    return {
        "names": list(comparison.names),
        "inputs": [list(row) for row in comparison.inputs],
        "now": [format_time(comparison.a.now_ps), format_time(comparison.b.now_ps)],
        "verdict": comparison.verdict(),
        "tables": [_texts(one) for one in (causes, *comparison.shown())],
    }


def _texts(one: Shown) -> dict[str, Any]:
    """A table as rows of texts, the last number of each the share of the largest difference."""
    difference = f"{one.field}_difference"
    rows = one.rows
    if one.largest:
        rows = sorted(rows, key=lambda row: (-abs(row[difference]), row[one.key]))
    most = max((abs(row[difference]) for row in rows), default=0) or 1
    shown = []
    for row in rows[:_MOST_ROWS]:
        d = row[difference]
        texts = [one.written(row[f"{one.field}_{side}"]) for side in ("a", "b")]
        sign = "+" if d > 0 else "\u2212" if d < 0 else ""
        shown.append([str(row[one.key]), *texts, sign + one.written(abs(d)), d / most])
    return {"title": one.title, "rows": shown, "left_out": max(0, len(rows) - _MOST_ROWS) + one.left_out}


VIEW = View(Feed, {"difference": difference})
