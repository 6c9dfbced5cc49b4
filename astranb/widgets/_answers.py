"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._chunks import chunks
from ._feed import Feed, Message
from ._source import source, where

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {
    "chunks": chunks,
    "source": source,
    "where": where,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
