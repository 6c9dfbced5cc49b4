"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._feed import Feed, Message

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
