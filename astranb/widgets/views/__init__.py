"""A module for each view: it answers what ``static/<name>.js`` asks.

Modules in this folder are found by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module  # noqa: TID251 - views are modules of this folder
from pkgutil import iter_modules

from astranb.widgets.feed import Answer, Feed, Options, View

__all__ = ["always", "answers_of", "offline_questions"]


@cache
def _views() -> tuple[View, ...]:
    return tuple(import_module(f"{__name__}.{found.name}").VIEW for found in iter_modules(__path__))


def _of(feed: Feed) -> list[View]:
    return [view for view in _views() if isinstance(feed, view.feed)]


def answers_of(feed: Feed) -> dict[str, Answer]:
    """Return what answers the questions that a page may ask, by their names."""
    return {name: answer for view in _of(feed) for name, answer in view.answers.items()}


def offline_questions(feed: Feed) -> Mapping[str, Sequence[Options]]:
    """Return the questions whose answers a page without a kernel holds, with their options."""
    found: dict[str, Sequence[Options]] = {}
    for view in _of(feed):
        found |= view.offline(feed) if callable(view.offline) else view.offline
    return found


def always(feed: Feed) -> frozenset[str]:
    """Return the questions whose answers do not change with time."""
    return frozenset().union(*(view.always for view in _of(feed)))
