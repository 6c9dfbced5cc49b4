"""``astranb plugins``: list the plug-ins that are installed, and load them to check them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from astranb.core.errors import AstranbError
from astranb.core.plugins import KINDS, installed

from .arguments import add_command
from .printing import Report

if TYPE_CHECKING:
    from astranb.core.plugins import Plugin, Registry

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add ``plugins`` to the command line."""
    parser = add_command(commands, "plugins", "list the plug-ins that are installed (experimental)", _list)
    parser.add_argument("--check", action="store_true", help="load each of them, which runs its code")


def _list(args: argparse.Namespace) -> Report:
    rows = [
        {**{name: getattr(one, name) for name in ("kind", "name", "distribution", "version", "value")},
         "problem": _problem(one, load=args.check)}
        for one in installed()
    ]  # fmt: skip
    lines = [
        f"{row['kind']:<11} {row['name']:<22} {row['distribution']} {row['version']}"
        + (f": {row['problem']}" if row["problem"] else "")
        for row in rows
    ]
    return Report(rows, lines or ["no plug-in is installed"], 2 if any(row["problem"] for row in rows) else 0)


def _problem(plugin: Plugin, *, load: bool) -> str:
    """Describe why a plug-in cannot be used; empty if nothing is known against it."""
    if plugin.kind not in KINDS:
        return f"there is no kind {plugin.kind!r}: {', '.join(KINDS)}"
    registry = _registry(plugin.kind)
    key = registry.key_of(plugin.name)
    try:
        registry.plugin(key)
        plugin.check()
        if load:
            _ = registry[key]
    except AstranbError as error:
        return str(error)
    return ""


def _registry(kind: str) -> Registry[Any, Any]:
    """Return the registry of a kind of plug-ins."""
    if kind == "algorithms":
        from astranb.collectives import ALGORITHMS

        return ALGORITHMS
    if kind == "formats":
        from astranb.core.file_formats import FORMATS

        return FORMATS
    if kind == "presets":
        from astranb.hardware import GPU_FILES

        return GPU_FILES
    if kind == "targets":
        from astranb.traffic import TARGETS

        return TARGETS
    if kind == "costs":
        from astranb.workload.kernels import COSTS

        return COSTS
    from astranb.widgets.views import views

    return views()
