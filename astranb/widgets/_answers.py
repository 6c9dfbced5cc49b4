"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _aggregate, _buffer, _explaining, _spans
from ._activity import activity
from ._chunks import chunks
from ._feed import Feed, Message
from ._source import source, where

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {
    "critical_path": _explaining.critical_path,
    "line": _explaining.line,
    "lost_time": _explaining.lost_time,
    "what_if": _explaining.what_if,
    "what_if_run": _explaining.what_if_run,
    "why": _explaining.why,
    "rows": _spans.rows,
    "spans": _spans.spans,
    "moment": _spans.moment,
    "activity": activity,
    "aggregate": _aggregate.answer,
    "buffer": _buffer.answer,
    "cell": _buffer.cell,
    "chunks": chunks,
    "source": source,
    "where": where,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
