"""``astranb explore``: run a sweep, and say which points are best."""

from __future__ import annotations

import argparse
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.explore.options.arguments import whole

from .arguments import add_command, add_output
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
        default=2,
        metavar="N",
        help="processes on this machine; 0: no other than this one (default: 2)",
    )
    where.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler to run on, as tcp://host:8786"
    )
    parser.add_argument("--retry", action="store_true", help="with -o, run points again that failed")


def _explore(args: argparse.Namespace) -> Report:
    from astranb.explore.sweeps.sweep import Sweep

    found = Sweep.of(args.sweep).run(
        folder=args.output, workers=args.workers, scheduler=args.scheduler, retry=args.retry
    )
    failed = found.counts().keys() == {"failed"}
    code = InputError.exit_code if failed else 0
    return Report(found.document() if args.json else None, [] if args.json else [found.text()], code)
