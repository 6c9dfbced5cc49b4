"""Shared parts of all commands: how one is added, and what it prints."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

from astranb.explore.options import Parser

from .printing import Report

__all__ = [
    "add_command",
    "add_output",
    "add_verbs",
    "join_negative_values",
]

Command = Callable[[argparse.Namespace], Report]


def join_negative_values(argv: list[str]) -> list[str]:
    """Join an option and its negative value, which argparse would take for another option."""
    joined: list[str] = []
    for word in argv:
        if re.match(r"-[\d.]", word) and joined and re.fullmatch(r"--[\w-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def add_verbs(commands: Any, name: str, summary: str) -> Any:
    """Add a command that has verbs; returns what :func:`add_command` adds them to."""
    command = commands.add_parser(name, help=summary, description=_sentence(summary))
    return command.add_subparsers(required=True, metavar="VERB", parser_class=Parser)


def add_command(commands: Any, name: str, summary: str, command: Command, **more: Any) -> Parser:
    """Add a command with ``--json``; returns its parser.

    Parameters
    ----------
    commands : subparsers of argparse
    name : str
    summary : str
        An imperative, in lower case: it is the line in the list of commands.
    command : callable
        Runs the command and returns what to print.
    **more
        Arguments of :class:`argparse.ArgumentParser`.
    """
    more.setdefault("description", _sentence(summary))
    parser: Parser = commands.add_parser(name, help=summary, allow_abbrev=False, **more)
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.set_defaults(command=command)
    return parser


def add_output(parser: Parser, text: str, *, metavar: str = "FILE", required: bool = False) -> None:
    """Add ``-o`` and ``--output``."""
    parser.add_argument("-o", "--output", metavar=metavar, required=required, help=text)


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."
