"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _explaining
from ._feed import Feed, Message

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {
    "critical_path": _explaining.critical_path,
    "line": _explaining.line,
    "lost_time": _explaining.lost_time,
    "what_if": _explaining.what_if,
    "what_if_run": _explaining.what_if_run,
    "why": _explaining.why,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
