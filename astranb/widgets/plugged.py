"""The JavaScript of a workbench, with the panels of plug-ins."""

from __future__ import annotations

import json
import re
from typing import Final

from astranb.core.plugins import Plugin

from .assets import MODULES
from .feed import Panel, View
from .views import views

__all__ = ["module_texts"]

_SLOTS: Final = ("stage", "side", "below")
_PLUGGED: Final = "plugged"
"""The module that lists the panels of plug-ins."""


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
