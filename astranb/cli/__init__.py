"""Floor 8: the command line, one module for each command.

Exit codes: 0 success, 2 bad input or output that cannot be written (one line on standard error),
3 deadlock, 4 wrong result of a collective, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module  # noqa: TID251 - commands are modules of this folder
from typing import TYPE_CHECKING, NoReturn

from astranb.core.interrupt import EXIT_CODE, MESSAGE, run_interruptible

if TYPE_CHECKING:
    from .parsing import Parser

__all__ = ["entry", "main", "parser"]

# All other imports are inside functions: an interrupt during them is answered as any other.
_COMMANDS = (
    "run", "explore", "serve", "traffic", "infra", "collective", "chakra", "gpu", "plugins", "runtime", "lab",
    "mcp", "schema",
)  # fmt: skip


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
    >>> main(["run", "collective", "all_reduce", "--infra", "no-such-file.yaml", "--size", "1MiB"])
    2
    """
    try:
        return _answer(argv)
    except KeyboardInterrupt:
        sys.stderr.write(MESSAGE)
        return EXIT_CODE


def _answer(argv: list[str]) -> int:
    """Run one command and report its errors; returns the exit code."""
    from astranb.core.errors import AstranbError, InputError

    try:
        code = _run(argv)
        sys.stdout.flush()
    except AstranbError as error:
        print(f"astranb: {error}", file=sys.stderr)
        return error.exit_code
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
        from . import lab

        return lab.command(argv[1:])
    from .arguments import join_negative_values

    with warnings.catch_warnings():
        warnings.showwarning = _printer(warnings.showwarning)
        try:
            args = parser().parse_args(join_negative_values(argv))
            return int(args.command(args).print(as_json=args.json))
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)


def _printer(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Return what prints astranb's own warnings as its errors are, each once."""
    from astranb.core.errors import InputWarning

    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        if not issubclass(category, InputWarning):
            otherwise(message, category, *where, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            print(f"astranb: {message}", file=sys.stderr)

    return show


def _drop_output() -> None:
    """Drop what standard output still holds: Python would try to write it again, and print a second error."""
    with suppress(OSError, ValueError):  # a test's standard output is no file
        number = sys.stdout.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)


def entry() -> NoReturn:
    """Run the console script."""
    argv = sys.argv[1:]
    if argv[:1] == ["lab"]:  # JupyterLab asks whether to stop, and shuts its kernels down
        raise SystemExit(main(argv))
    run_interruptible(lambda: _answer(argv))


def parser() -> Parser:
    """Return the parser of all commands."""
    from astranb.core.version import __version__

    from .parsing import Parser

    top = Parser(prog="astranb", description="An exact simulator of distributed machine learning.")
    top.add_argument("--version", action="version", version=f"astranb {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name in _COMMANDS:
        import_module(f"{__name__}.{name}").add_commands(commands)
    return top
