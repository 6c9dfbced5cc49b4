"""``astranb runtime``: what pages that simulate are made with."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import add_command
from .printing import Report

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add ``runtime`` to the command line."""
    text = "bring what pages that simulate are made with: Python for browsers (once; it uses the network)"
    add_command(commands, "runtime", text, _bring)


def _bring(_args: argparse.Namespace) -> Report:
    from astranb.browser import PYODIDE, bring, runtime

    folder = next(iter(bring().values())).parent
    size = sum(len(pack.data) for pack in runtime())
    lines = [
        f"Pyodide {PYODIDE} and NumPy for it are in {folder}",
        f"a page that simulates holds {size / 1e6:.1f} MB of them",
    ]
    return Report({"pyodide": PYODIDE, "folder": str(folder), "page_bytes": size}, lines)
