"""A module for each view: it answers what ``static/<name>.js`` asks.

Modules in this folder are found by themselves; plug-ins add views with a panel and a script of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from astranb.core.plugins import Plugin, Registry
from astranb.widgets.assets import MODULES
from astranb.widgets.feed import Answer, Feed, Message, Options, Panel, View

__all__ = ["always", "answers_of", "module_texts", "offline_questions", "views"]

_SLOTS: Final = ("stage", "side", "below")
_PLUGGED: Final = "plugged"
"""The module that lists the panels of plug-ins."""


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


def module_texts() -> dict[str, str]:
    """Return the JavaScript of a workbench by module, with that of plug-ins.

    Raises
    ------
    InputError
        The panel of a plug-in cannot be shown, or its script cannot be read.
    """
    plugins = views().plugins()
    if not plugins:
        return MODULES
    more, lines, rows = {}, [], []
    for number, plugin in enumerate(plugins):
        view = views()[plugin.name]
        panel = _checked(plugin, view.panel)
        try:
            more[f"plugin_{panel.name}"] = panel.script.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise plugin.error(f"its script cannot be read: {error}") from None
        lines.append(f'import {{ create as create{number} }} from "./plugin_{panel.name}.js";')
        shown = ", ".join(json.dumps(text) for text in (_engine(view), panel.slot, panel.name, panel.title))
        rows.append(f"  [{shown}, create{number}],")
    listed = "\n".join([*lines, "export const PLUGGED = [", *rows, "];", ""])
    return {**MODULES, **more, _PLUGGED: listed}


def _checked(plugin: Plugin, panel: Panel | None) -> Panel:
    if panel is None or re.fullmatch(r"\w+", panel.name, re.ASCII) is None:
        raise plugin.error("its panel needs a name of letters, digits and underscores")
    if panel.slot not in _SLOTS:
        raise plugin.error(f"unknown slot {panel.slot!r}, the slots are {', '.join(_SLOTS)}")
    return panel


def _engine(view: View) -> str:
    """Return the engine whose runs a view shows; empty: any."""
    return str(getattr(view.feed, "engine", ""))
