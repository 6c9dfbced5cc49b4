"""``astranb infra``: list, show, check, convert and draw infrastructures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError

from .arguments import add_command, add_output, add_verbs
from .printing import Report, summary_lines

__all__ = ["add_commands"]

_INFRA = "InfraGraph file or blueprint"
_WIDTH = 20


def add_commands(commands: Any) -> None:
    """Add ``infra`` and its verbs to the command line."""
    verbs = add_verbs(commands, "infra", "list, show, check, convert and draw infrastructures")
    add_command(verbs, "list", "list the blueprints with their parameters", _list)
    show = add_command(verbs, "show", "summarise an infrastructure", _show)
    show.add_argument("file", help=_INFRA)
    check = add_command(verbs, "check", "check that an infrastructure is well formed", _check)
    check.add_argument("file", help=_INFRA)
    convert = add_command(
        verbs, "convert", "make an InfraGraph file from a topology of NCCL or lstopo", _convert
    )
    convert.add_argument("file", help="XML written by NCCL_TOPO_DUMP_FILE or by 'lstopo FILE.xml'")
    add_output(convert, "FILE.yaml or FILE.json (default: the input's name with .yaml)")
    convert.add_argument(
        "--gpu", help="GPU preset: adds the links of such GPUs that the file leaves out (NCCL_TOPO_FILE)"
    )
    convert.add_argument("--name", help="name of the infrastructure (default: that of the product or file)")
    draw = add_command(verbs, "draw", "draw an infrastructure", _draw)
    draw.add_argument("file", help=_INFRA)
    add_output(draw, "FILE.svg, or FILE.html with nodes to drag (default: NAME.svg)")
    draw.add_argument("--dark", action="store_true", help="use colours for a dark background")


def _list(args: argparse.Namespace) -> Report:
    from astranb.infragraph import blueprints

    del args
    listed = blueprints()
    return Report(
        [{"blueprint": name, "description": text} for name, text in listed],
        [
            f"{name}\n    {text}" if len(name) > _WIDTH else f"{name:<{_WIDTH}} {text}"
            for name, text in listed
        ],
    )


def _show(args: argparse.Namespace) -> Report:
    from astranb.infragraph import resolve

    summary = resolve(args.file).summary()
    return Report(summary, summary_lines(summary))


def _check(args: argparse.Namespace) -> Report:
    from astranb.infragraph import resolve

    warnings = resolve(args.file).check()
    return Report({"valid": True, "warnings": warnings}, warnings or ["well formed, no warnings"])


def _convert(args: argparse.Namespace) -> Report:
    from astranb.gpu import preset
    from astranb.infragraph import convert

    gpu = None if args.gpu is None else preset(args.gpu).name
    made = convert(args.file, args.name, gpu)
    path = Path(args.output or f"{Path(args.file).stem}.yaml")
    if args.output is None and path.exists():
        raise InputError("the file exists", where=str(path), hint="name it, or another one, with --output")
    made.save(path)
    summary = made.summary()
    types = ", ".join(f"{count} {kind}" for kind, count in summary["node_types"].items())
    return Report(
        {"file": str(path), **summary},
        [
            f"wrote {summary['name']} to {path}: {types}",
            f"to list the assumptions: astranb infra show {path}",
        ],
        notes=[f"{args.file}: {note}" for note in summary["notes"] + summary["warnings"]],
    )


def _draw(args: argparse.Namespace) -> Report:
    from astranb.export import draw
    from astranb.infragraph import resolve

    infra = resolve(args.file)
    file = str(draw(infra, args.output or f"{infra.name.replace('/', '-')}.svg", dark=args.dark))
    return Report({"file": file}, [file])
