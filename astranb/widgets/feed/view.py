"""Protocol of a view's module: the questions that its JavaScript asks, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .messages import Message

__all__ = ["NOW", "Answer", "Options", "Panel", "View"]

Options = Mapping[str, Any]
Questions = Mapping[str, Sequence[Options]]
Answer = Callable[[Any, dict[str, Any]], Message]

NOW: Options = {"at_ps": None}
"""Options of a question about the present."""


@dataclass(frozen=True)
class Panel:
    """Place of a plug-in's view in the workbench; ``static/panels.js`` has those of built-in views.

    Attributes
    ----------
    name : str
        Letters, digits and underscores.
    title : str
        Of its tab.
    script : Path
        The JavaScript module, which exports ``create(store, theme)`` as the modules in ``static/`` do.
    slot : str
        ``"stage"``, ``"side"`` or ``"below"``.
    """

    name: str
    title: str
    script: Path
    slot: str = "stage"


@dataclass(frozen=True)
class View:
    """Questions and answers of one view.

    Attributes
    ----------
    feed : type
        What it needs: a :class:`~.feed.LineFeed`, an :class:`~.feed.OperationFeed`, or any feed.
    answers : mapping of str to callable
        By the name of the question: ``await store.ask(name, options)`` in the browser.
    offline : mapping of str to sequence of mapping, or callable
        The questions whose answers a page without a kernel holds, with their options: as the view
        asks when nothing is selected and the cursor is at the end. They must not change anything.
    always : frozenset of str
        Questions whose answers do not change with time.
    panel : Panel, optional
        Of a plug-in: where it is shown.
    """

    feed: type
    answers: Mapping[str, Answer]
    offline: Questions | Callable[[Any], Questions] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    panel: Panel | None = None
