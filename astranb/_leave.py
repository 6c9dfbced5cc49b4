"""What ``astranb run`` leaves behind besides its numbers: a page that plays, a picture, tables, the run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astranb.sim import Simulation

__all__ = ["add_options", "recorded", "told_of", "write_files"]


def add_options(run: argparse.ArgumentParser) -> None:
    """Add ``--html``, ``--svg``, ``--perfetto`` and ``--save`` to a command that runs something."""
    run.add_argument("--save", metavar="FILE", help="save the finished simulation")
    run.add_argument("--html", metavar="FILE", help="write a page that plays the run without a network")
    run.add_argument(
        "--svg",
        metavar="FILE",
        help="draw the topology and how busy its links were, or a workload's timeline",
    )
    run.add_argument(
        "--perfetto", metavar="FILE", help="write a trace for Perfetto and Chrome (.json or .json.gz)"
    )


def recorded(args: argparse.Namespace) -> bool:
    """Whether what is to be written needs a recording; else none is made, which is faster."""
    return bool(args.html or args.perfetto)


def told_of(args: argparse.Namespace) -> bool:
    """Whether more of a workload is asked for than its numbers: it is recorded then."""
    return bool(recorded(args) or args.explain or args.frames or args.svg or args.save)


def write_files(sim: Simulation | Simulation, args: argparse.Namespace) -> None:
    """Write what was asked for."""
    if args.save:
        sim.save(args.save)
    result: Any = sim.result
    if args.frames:  # of a workload
        result.write_frames(args.frames)
    if args.perfetto:
        result.to_perfetto(args.perfetto)
    if args.html or args.svg:
        from astranb.widgets._headless import files_of

        files = files_of(sim)
        if args.html:
            files.to_html(args.html)
        if args.svg:
            files.to_svg(args.svg)
