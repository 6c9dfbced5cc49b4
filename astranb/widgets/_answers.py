"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _aggregate, _buffer, _device, _explaining, _heat, _hot, _picture, _ports, _spans
from ._activity import activity
from ._breaking import answer_breaks
from ._changing import answer_apply, answer_difference, answer_fork, answer_parameters
from ._chunks import chunks
from ._feed import Feed, Message
from ._source import source, where

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {
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
    "apply": answer_apply,
    "breaks": answer_breaks,
    "difference": answer_difference,
    "fork": answer_fork,
    "parameters": answer_parameters,
    "critical_path": _explaining.critical_path,
    "line": _explaining.line,
    "lost_time": _explaining.lost_time,
    "what_if": _explaining.what_if,
    "what_if_run": _explaining.what_if_run,
    "why": _explaining.why,
    "hot": _hot.answer,
    "aggregates": _hot.aggregates,
    "traffic": _heat.answer,
    "device": _device.answer,
    "ports": _ports.answer,
    "picture": _picture.answer,  # last: where all are asked in turn, they are about the first picture
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
