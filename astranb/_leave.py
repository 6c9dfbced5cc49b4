"""What ``astranb run`` leaves behind besides its numbers: a page that plays, a picture, a trace."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astranb.sim import Simulation

__all__ = ["add_options", "recorded", "write_files"]


def add_options(run: argparse.ArgumentParser) -> None:
    """Add ``--html``, ``--svg`` and ``--perfetto`` to a command that runs something."""
    run.add_argument("--html", metavar="FILE", help="write a page that plays the run without a network")
    run.add_argument("--svg", metavar="FILE", help="draw the topology and how busy its links were")
    run.add_argument(
        "--perfetto", metavar="FILE", help="write a trace for Perfetto and Chrome (.json or .json.gz)"
    )


def recorded(args: argparse.Namespace) -> bool:
    """Whether what is to be written needs a recording; else none is made, which is faster."""
    return bool(args.html or args.perfetto)


def write_files(sim: Simulation, args: argparse.Namespace) -> None:
    """Write what was asked for."""
    if args.perfetto:
        sim.result.to_perfetto(args.perfetto)
    if args.html or args.svg:
        from astranb.widgets import Workbench

        workbench = Workbench(sim)
        if args.html:
            workbench.to_html(args.html)
        if args.svg:
            workbench.to_svg(args.svg)
