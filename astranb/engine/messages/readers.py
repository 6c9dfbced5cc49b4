"""Fields of ASTRA-sim 2.0's workloads that can be watched: words by kind of object, and readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from . import tables as t
from .inspection import chunks_in, in_flight
from .link_ends import waiting_for
from .paths import FIELDS, RunPart

__all__ = ["READERS", "RECORDED_WORDS"]

_Reader = Callable[[t.MessageMachine, RunPart], int]


def _field(table: str, name: str) -> _Reader:
    return lambda m, place: int(getattr(m, table)[name][list(place.rows)].sum())


def _messages(m: t.MessageMachine, place: RunPart) -> int:
    rows = m.messages[in_flight(m)]
    return int(((rows.src == place.npu) | (rows.dst == place.npu)).sum())


def _sent(name: str) -> _Reader:
    def read(m: t.MessageMachine, place: RunPart) -> int:
        dims = len(m.dims)
        rows = slice(place.dim, None, dims) if place.npu < 0 else place.npu * dims + place.dim
        return int(np.sum(m.traffic[name][rows]))

    return read


_TABLES = {"rank": "npus", "op": "operations", "queue": "queues"}
_CONDITIONS: dict[str, dict[str, _Reader]] = {
    kind: {word: _field(_TABLES[kind], name) for word, name in words.items()}
    for kind, words in FIELDS.items()
}
READERS: dict[str, dict[str, _Reader]] = {
    "rank": {**_CONDITIONS["rank"], "in_flight": _messages},
    "op": _CONDITIONS["op"],
    "queue": {
        **_CONDITIONS["queue"],
        "waiting": lambda m, place: len(chunks_in(m, place)) - int(m.queues.running[list(place.rows)].sum()),
        "messages": _sent("messages"),
        "bytes": _sent("bytes"),
    },
    "dim": {"messages": _sent("messages"), "bytes": _sent("bytes")},
    "link": {
        "waiting": lambda m, place: sum(waiting_for(m, row) for row in place.rows),
        "sending": lambda m, place: int((m.links["busy"][list(place.rows)] & 1).sum()),
        "messages": _field("used", "messages"),
        "bytes": _field("used", "bytes"),
        "busy_ns": _field("used", "busy_ns"),
    },
}
"""Watchable fields: by kind of object, the words and their readers; conditions may name some of them."""

RECORDED_WORDS: Final = {
    kind: frozenset({"messages", "bytes", "busy_ns"}) for kind in ("queue", "dim", "link")
}
"""Those that a run knows only where it records."""
