"""``astranb schema``: the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from astranb.core.errors import InputError, near

from .arguments import add_command
from .parsing import Parser, leaves
from .printing import Report

__all__ = ["SCHEMAS", "add_commands", "schema"]

_FOLDER: Final = Path(__file__).with_name("schemas")

SCHEMAS: Final = {file.stem.replace("_", " "): file for file in sorted(_FOLDER.glob("*.json"))}
"""The schemas by the command's name, as ``collective verify``."""


def add_commands(commands: Any) -> None:
    """Add ``schema`` to the command line."""
    text = "print the JSON Schema of a command's --json, or list the commands"
    parser = add_command(commands, "schema", text, lambda args: _schema(args, parser.top))
    parser.add_argument(
        "name", nargs="*", help="of a command, as run or collective verify (default: list all)"
    )


def schema(name: str) -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of a command's document.

    Raises
    ------
    InputError
        There is no such command.

    Examples
    --------
    >>> schema("infra show")["title"]
    'astranb infra show --json'
    """
    if name not in SCHEMAS:
        raise InputError(f"unknown command {name[:40]!r}", where="schema", hint=near(name, SCHEMAS))
    found: dict[str, Any] = json.loads(SCHEMAS[name].read_text("utf-8"))
    return found


def _schema(args: argparse.Namespace, top: Parser) -> Report:
    if not args.name:
        return Report(list(SCHEMAS), SCHEMAS)
    name = " ".join(" ".join(args.name).replace(".", " ").split())
    commands = (one.prog.partition(" ")[2] for one in leaves(top))
    parts = {one: group for one in commands if (group := one.rpartition(" ")[0]) in SCHEMAS}
    if name not in SCHEMAS and name not in parts:
        hint = near(name, SCHEMAS.keys() | parts.keys())
        raise InputError(f"unknown command {name[:40]!r}", where="schema", hint=hint)
    found = schema(parts.get(name, name))  # run collective prints what run does
    return Report(found, [json.dumps(found, indent=2, ensure_ascii=False)])
