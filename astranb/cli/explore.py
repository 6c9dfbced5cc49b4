"""``astranb explore``: run a sweep, and say which points are best."""

from __future__ import annotations

import argparse
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.core.files import check_writable
from astranb.core.interrupt import stoppable
from astranb.core.units import time_ps
from astranb.explore.runs import file_named, whole

from .arguments import add_command, add_output, typed
from .printing import Report

__all__ = ["add_commands"]

_MOST_WORKERS: Final = 1024


def add_commands(commands: Any) -> None:
    """Add ``explore`` to the command line."""
    parser = add_command(
        commands,
        "explore",
        "run many points along axes, and find the best (docs/how-to/explore.md)",
        _explore,
    )
    parser.add_argument(
        "sweep", metavar="SWEEP.yml", help="what all points share, axes, constraints, objectives"
    )
    add_output(
        parser, "keep the results there: a later run runs only the points that are missing", metavar="DIR"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers",
        type=whole(0, _MOST_WORKERS),
        metavar="N",
        help="processes on this machine; 0: no other than this one (default: 2)",
    )
    where.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler to run on, as tcp://host:8786"
    )
    parser.add_argument(
        "--html",
        metavar="FILE.html",
        help="write a page with pictures of all points, without a network",
        type=file_named(".html", ".htm"),
    )
    parser.add_argument(
        "--time-limit", metavar="TIME", help="stop then, as 25s, and tell what has been found"
    )
    parser.add_argument("--retry", action="store_true", help="with -o, run points again that failed")


def _explore(args: argparse.Namespace) -> Report:
    from astranb.explore import Sweep

    limit_s = None if args.time_limit is None else time_ps(args.time_limit, where="--time-limit") / 1e12
    if limit_s is not None and limit_s <= 0:
        raise InputError("0 s is out of range", where="--time-limit", hint="take more than 0")
    if args.html:
        check_writable(args.html)
    if args.retry and args.output is None:
        what = "--retry needs --output"
        raise InputError(what, where="explore", hint="name the folder of the results: -o DIR")
    sweep = Sweep.of(args.sweep)
    with stoppable(limit_s):
        found = sweep.run(**typed(args, "workers", "scheduler", "retry", folder="output"))
    if args.html:
        from astranb.widgets import write_study

        write_study(found, args.html)
    code = found.stop_code or (InputError.exit_code if found.failed else 0)
    notes = []
    if found.stop_code:
        notes.append("interrupted")
    elif found.failed:
        notes.append("no point of the last stage could be run: the reasons are on standard output")
    return Report(found.document() if args.json else None, [] if args.json else [found.text()], code, notes)
