"""Floor 8: the command line, one module for each command.

Exit codes: 0 success, 2 bad input or output that cannot be written (one line on standard error),
3 deadlock, 4 wrong result of a collective, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from astranb import __version__
from astranb.core.errors import AstranbError, InputError

from . import chakra, collective, gpu, infra, lab, run
from .arguments import Parser, join_negative_values

__all__ = ["entry", "main", "parser"]

_COMMANDS = (run, infra, collective, chakra, gpu, lab)
_INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run one command.

    Parameters
    ----------
    argv : list of str
        The arguments after ``astranb``.

    Returns
    -------
    int
        The exit code; never raises ``SystemExit``.

    Examples
    --------
    >>> main(["run", "--infra", "no-such-file.yaml", "--collective", "all_reduce", "--size", "1MiB"])
    2
    """
    try:
        code = _run(argv)
        sys.stdout.flush()
    except AstranbError as error:
        print(f"astranb: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("astranb: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:  # a disk is full; whatever reads or writes a file has its own error
        _drop_output()
        print(f"astranb: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
        return InputError.exit_code
    return code


def _run(argv: list[str]) -> int:
    """Run one command and print what it answers; returns the exit code."""
    if argv[:1] == ["lab"]:  # argparse would claim the options that are JupyterLab's
        return lab.command(argv[1:])
    try:
        args = parser().parse_args(join_negative_values(argv))
        return int(args.command(args).print(as_json=args.json))
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)


def _drop_output() -> None:
    """Drop what standard output still holds: Python would try to write it again, and print a second error."""
    with suppress(OSError, ValueError):  # a test's standard output is no file
        number = sys.stdout.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)


def entry() -> NoReturn:
    """Run the console script."""
    raise SystemExit(main(sys.argv[1:]))


def parser() -> Parser:
    """Return the parser of all commands."""
    top = Parser(
        prog="astranb", description="An exact simulator of distributed machine learning.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"astranb {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for module in _COMMANDS:
        module.add_commands(commands)
    return top
