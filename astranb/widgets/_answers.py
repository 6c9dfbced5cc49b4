"""Questions that a view may ask: one function each, which answers with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._breaking import answer_breaks
from ._changing import answer_apply, answer_difference, answer_fork, answer_parameters
from ._feed import Feed, Message

__all__ = ["ANSWERS", "Answer"]

Answer = Callable[[Feed, dict[str, Any]], Message]

ANSWERS: dict[str, Answer] = {
    "apply": answer_apply,
    "breaks": answer_breaks,
    "difference": answer_difference,
    "fork": answer_fork,
    "parameters": answer_parameters,
}
"""By the name of the question: ``await store.ask(name, options)`` in the browser."""
