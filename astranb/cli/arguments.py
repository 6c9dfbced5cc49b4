"""What all commands share: the parser, how a command is added, and types of arguments."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from astranb.core.errors import InputError, near

from .printing import Report

__all__ = [
    "Parser",
    "add_command",
    "add_output",
    "add_verbs",
    "flag_of",
    "function_of",
    "given",
    "join_negative_values",
    "positive",
    "whole",
]

Command = Callable[[argparse.Namespace], Report]


class Parser(argparse.ArgumentParser):
    """An argument parser that raises an error of one line instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        _, _, command = self.prog.partition(" ")
        raise InputError(message.removeprefix("argument "), where=command, hint=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse would ignore a full disk."""
        (file or sys.stdout).write(message)


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


def given(args: argparse.Namespace, *names: str, **renamed: str) -> dict[str, Any]:
    """Return the options that were given, as arguments of a function whose defaults fill the rest.

    Parameters
    ----------
    args : Namespace
    *names : str
        Options whose parameter has the same name.
    **renamed : str
        By parameter, the option.
    """
    options = {name: name for name in names} | renamed
    values = {parameter: getattr(args, option) for parameter, option in options.items()}
    return {parameter: value for parameter, value in values.items() if value is not None}


def flag_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a type of argument: a whole number from low to high."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is out of range; use {low} to {high}")
        return value

    return read


def function_of(text: str) -> Any:
    """Execute the Python file of ``FILE.py:FUNCTION``, and return its function."""
    import runpy

    file, _, name = text.rpartition(":")
    try:
        defined = runpy.run_path(file)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=file, hint="give FILE.py:FUNCTION") from error
    except Exception as error:  # whatever the file raises
        raise InputError(f"{type(error).__name__}: {error}", where=file) from error
    functions = [key for key, value in defined.items() if callable(value) and not key.startswith("_")]
    if name not in functions:
        raise InputError(f"there is no function {name!r}", where=file, hint=near(name, functions))
    return defined[name]


def positive(text: str) -> float:
    """Read a number above 0 and up to a million."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{value} is out of range; use a number above 0, up to 1e6")
    return value


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."
