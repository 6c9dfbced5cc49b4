"""Shared parts of all commands: how one is added, and what it prints."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.explore.runs import both_given, file_named, flag_of

from .parsing import Parser
from .printing import Report

__all__ = [
    "add_command",
    "add_output",
    "add_verbs",
    "check_apply",
    "chosen_of",
    "join_negative_values",
    "name_passed",
    "typed",
]

Command = Callable[[argparse.Namespace], Report]
_PASSED: Final = "passed"
"""Beside the options of a command: by parameter, the option that was passed to it under another name."""


def join_negative_values(argv: list[str]) -> list[str]:
    """Join an option and its negative value, which argparse would take for another option."""
    joined: list[str] = []
    for word in argv:
        if re.match(r"-[\d.]", word) and joined and re.fullmatch(r"--[\w-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def add_verbs(commands: Any, name: str, summary: str, metavar: str = "VERB") -> Any:
    """Add a command that has verbs; returns what :func:`add_command` adds them to."""
    command = commands.add_parser(name, help=summary, description=_sentence(summary))
    return command.add_subparsers(required=True, metavar=metavar)


def add_command(
    commands: Any, name: str, summary: str, command: Command, *, json: bool = True, **more: Any
) -> Parser:
    """Add a command with ``--json``; returns its parser.

    Parameters
    ----------
    commands : subparsers of argparse
    name : str
    summary : str
        An imperative, in lower case: it is the line in the list of commands.
    command : callable
        Runs the command and returns what to print.
    json : bool
        Whether ``--json`` is added here.
    **more
        Arguments of :class:`argparse.ArgumentParser`.
    """
    more.setdefault("description", _sentence(summary))
    parser: Parser = commands.add_parser(name, help=summary, **more)
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.set_defaults(command=partial(_answered, parser, command))
    return parser


def _answered(parser: Parser, command: Command, args: argparse.Namespace) -> Report:
    """Run a command; its errors name options."""
    try:
        return command(args)
    except InputError as error:
        passed = dict(getattr(args, _PASSED, {}))
        for parameter, flags in parser.namesakes.items():
            typed_ones = [flag for name, flag in flags.items() if getattr(args, name) is not None]
            if len(typed_ones) == 1:
                passed[parameter] = typed_ones[0]
        raise parser.named(error, passed) from error


def add_output(
    parser: Parser, text: str, *, metavar: str = "FILE", required: bool = False, endings: tuple[str, ...] = ()
) -> None:
    """Add ``-o`` and ``--output``; its name may have to have one of some endings."""
    read = file_named(*endings or ("",))
    parser.add_argument("-o", "--output", metavar=metavar, required=required, help=text, type=read)


def typed(args: argparse.Namespace, *names: str, **renamed: str) -> dict[str, Any]:
    """Return the options that were typed, as arguments of a function whose defaults fill the rest.

    Parameters
    ----------
    args : Namespace
    *names : str
        Options whose parameter has the same name.
    **renamed : str
        By parameter, the option.
    """
    name_passed(args, {name: flag_of(option) for name, option in renamed.items()})
    options = {name: name for name in names} | renamed
    values = {parameter: getattr(args, option) for parameter, option in options.items()}
    return {parameter: value for parameter, value in values.items() if value is not None}


def chosen_of(args: argparse.Namespace, sources: Collection[str], command: str) -> str:
    """Return which of options that exclude each other is given; empty: none."""
    chosen = [name for name in sources if getattr(args, name) is not None]
    if chosen[1:]:
        raise both_given(flag_of(chosen[0]), flag_of(chosen[1]), command)
    return chosen[0] if chosen else ""


def check_apply(
    args: argparse.Namespace, chosen: str, apply: Mapping[str, Collection[str]], command: str
) -> None:
    """Raise an error for an option without an effect.

    Parameters
    ----------
    args : Namespace
    chosen : str
        The source that is given.
    apply : mapping of str to collection of str
        The options that have an effect, by source.
    command : str
    """
    for flag in sorted(set().union(*apply.values()) - set(apply[chosen])):
        if getattr(args, flag.removeprefix("--").replace("-", "_")) is not None:
            what = f"{flag} does not apply to {flag_of(chosen)}"
            raise InputError(what, where=command, hint="leave it out")


def name_passed(args: argparse.Namespace, passed: Mapping[str, str]) -> None:
    """Note which parameters options are passed to under another name: errors name the options then."""
    vars(args).setdefault(_PASSED, {}).update(passed)


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."
