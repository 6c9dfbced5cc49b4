"""The parser of options, their types, and reading them from what was parsed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from astranb.core.errors import InputError, near
from astranb.core.file_formats import has_plugin

__all__ = [
    "Parser",
    "algorithm_of",
    "collective_of",
    "flag_of",
    "function_of",
    "given",
    "is_contract",
    "params_of",
    "positive",
    "whole",
]


class Parser(argparse.ArgumentParser):
    """An argument parser that raises an error of one line instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        _, _, command = self.prog.partition(" ")
        raise InputError(message.removeprefix("argument "), where=command, hint=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse would ignore a full disk."""
        (file or sys.stdout).write(message)


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


def positive(text: str) -> float:
    """Read a number above 0 and up to a million."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{value} is out of range; use a number above 0, up to 1e6")
    return value


def function_of(text: str) -> Any:
    """Execute the Python file of ``FILE.py:FUNCTION``, and return its function."""
    return _defined(text, "function", callable)


def _defined(text: str, what: str, fits: Callable[[Any], bool]) -> Any:
    """Execute the Python file of ``FILE.py:NAME``, and return what has the name, if it is such a thing."""
    import runpy

    file, _, name = text.rpartition(":")
    try:
        defined = runpy.run_path(file)
    except OSError as error:
        hint = f"give FILE.py:{what.upper()}"
        raise InputError(error.strerror or str(error), where=file, hint=hint) from error
    except InputError:
        raise
    except Exception as error:  # whatever the file raises
        raise InputError(f"{type(error).__name__}: {error}", where=file) from error
    known = [key for key, value in defined.items() if fits(value) and not key.startswith("_")]
    if name not in known:
        raise InputError(f"unknown {what} {name!r}", where=file, hint=near(name, known))
    return defined[name]


def is_contract(collective: Any) -> bool:
    """Return whether it is a contract, or names one of a file (``FILE.py:CONTRACT``)."""
    return collective is not None and (not isinstance(collective, str) or ".py:" in collective)


def collective_of(text: Any) -> Any:
    """Return what ``--collective`` names: a name, or a contract.

    ``FILE.py:CONTRACT`` executes the Python file. A contract of this process is returned as it is.
    """
    if not isinstance(text, str) or not is_contract(text):
        return text
    from astranb.collectives import Contract

    return _defined(text, "contract", lambda value: isinstance(value, Contract))


def algorithm_of(text: Any) -> Any:
    """Return what ``--algorithm`` names: a name, the content of a file, or a function.

    ``FILE.py:FUNCTION`` executes the Python file. A function of this process is returned as it is.
    """
    if callable(text):
        return text
    if text is not None and (text.lower().endswith((".json", ".xml", ".csv")) or has_plugin(text)):
        from astranb.collectives import read_algorithm

        return read_algorithm(text)
    if text is None or ".py:" not in text:
        return text
    return function_of(text)


def params_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return ``params=`` of a collective, from ``--param NAME=VALUE``; nothing where there are none."""
    if not args.param:
        return {}
    from astranb.collectives.language import parameters_given

    return {"params": parameters_given(args.param, "--param")}
