"""A module for each view: it answers what ``static/<name>.js`` asks.

Modules in this folder are found by themselves; plug-ins add views with a panel and a script of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module  # noqa: TID251 - views are modules of this folder
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from astranb.core.lazy import lazy
from astranb.core.plugins import Registry
from astranb.widgets.feed import Answer, Feed, Message, Options, View

__all__ = ["always", "answers_of", "offline_questions", "views"]

if TYPE_CHECKING:
    from .compare import report as report
    from .footprint import every_change as every_change
    from .graph import MOST_NODES as MOST_NODES
    from .graph import changes_of as changes_of
    from .graph import graph_around_now as graph_around_now
    from .ranks import KINDS as KINDS
    from .ranks import doing as doing
    from .ranks import every_track as every_track
    from .ranks import index_of as index_of
    from .recorded import names_of as names_of
    from .recorded import rows as rows

__getattr__, __dir__ = lazy(__name__)


@cache
def views() -> Registry[str, View]:
    """Return the registry of views, with the built-in ones by the names of their modules."""
    own = {found.name: import_module(f"{__name__}.{found.name}").VIEW for found in iter_modules(__path__)}
    return Registry("views", View, lambda view: view.panel.name if view.panel else "", own)


def _of(feed: Feed) -> list[View]:
    return [view for view in views().values() if isinstance(feed, view.feed)]


def answers_of(feed: Feed) -> dict[str, Answer]:
    """Return what answers the questions that a page may ask, by their names."""
    found: dict[str, Answer] = {}
    for name, view in views().items():
        if not isinstance(feed, view.feed):
            continue
        plugin = views().plugin(name)
        for question, answer in view.answers.items():
            if plugin is not None and question in found:
                raise plugin.error(f"a built-in view answers the question {question!r}")
            found[question] = answer if plugin is None else _reported(name, answer)
    return found


def _reported(name: str, answer: Answer) -> Answer:
    """Return the answer of a plug-in's view, whose errors name the plug-in."""

    def answered(feed: Any, options: dict[str, Any]) -> Message:
        with views().running(name):
            return answer(feed, options)

    return answered


def offline_questions(feed: Feed) -> Mapping[str, Sequence[Options]]:
    """Return the questions whose answers a page without a kernel holds, with their options."""
    found: dict[str, Sequence[Options]] = {}
    for view in _of(feed):
        found |= view.offline(feed) if callable(view.offline) else view.offline
    return found


def always(feed: Feed) -> frozenset[str]:
    """Return the questions whose answers do not change with time."""
    return frozenset().union(*(view.always for view in _of(feed)))
