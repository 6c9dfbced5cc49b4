"""Every number of an object, as Python reads them."""

from __future__ import annotations

from typing import Any

from astranb.gpu import tables as t

from ._lines import utilisation
from ._paths import Place
from ._state import CacheLineState

__all__ = ["numbers"]

_SUMMED = ("bandwidth_Bps", "busy_ps", "queued_ps", "messages", "bytes", "marked", "pauses", "paused_ps")
_TABLES = {"gpu": "gpus", "sm": "sms", "block": "blocks", "link": "links", "line": "requests"}


def numbers(engine: CacheLineState, place: Place) -> dict[str, Any]:
    """Every field of an object's record, and what its numbers stand for."""
    machine = engine.machine
    if place.kind == "node":
        graph = engine.fabric.graph
        return {
            "node": place.row,
            "kind": graph.kind_name(place.row),
            "forward_ps": int(graph.forward_ps[place.row]),
        }
    table = machine.tables[_TABLES[place.kind]]
    rows = table[list(place.rows)]
    state: dict[str, Any] = {
        name: int(rows[name].sum() if place.kind == "link" and name in _SUMMED else rows[name][0])
        for name in table.dtype.names or ()
        if name not in ("pad", "next_free", "live")
    }
    if place.kind == "link":
        state |= {"lanes": len(rows), "utilisation": utilisation(engine, place.rows)}
    elif place.kind == "block":
        state["doing"] = t.BLOCK_STATES[state["state"]]
    elif place.kind == "line":
        state["what"] = t.REQUEST_KINDS[state["kind"]]
    return state
