"""The command ``astranb infra``: infrastructures shown, checked, made of what tools found, and drawn."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from astranb._print import print_json, print_summary
from astranb.core.errors import InputError

__all__ = ["add_commands"]


def add_commands(commands: Any, parser_class: type[argparse.ArgumentParser]) -> None:
    """Add ``infra show``, ``infra check``, ``infra convert`` and ``infra draw`` to the command line."""
    infra = commands.add_parser("infra", help="infrastructures").add_subparsers(
        required=True, metavar="VERB", parser_class=parser_class
    )
    show = infra.add_parser("show", help="what an infrastructure consists of", allow_abbrev=False)
    show.add_argument("file", help="an InfraGraph file or a blueprint")
    show.add_argument("--json", action="store_true")
    show.set_defaults(command=_show)
    check = infra.add_parser("check", help="whether an infrastructure is well formed", allow_abbrev=False)
    check.add_argument("file", help="an InfraGraph file or a blueprint")
    check.add_argument("--json", action="store_true")
    check.set_defaults(command=_check)
    convert = infra.add_parser(
        "convert", help="make an InfraGraph file of what NCCL or lstopo found", allow_abbrev=False
    )
    convert.add_argument("file", help="XML of NCCL_TOPO_DUMP_FILE, or of lstopo FILE.xml")
    convert.add_argument("--out", metavar="FILE.yaml", help="where to write it (FILE.yaml, as .json JSON)")
    convert.add_argument("--name", help="of the infrastructure (the product's, or the file's)")
    convert.add_argument("--json", action="store_true")
    convert.set_defaults(command=_convert)
    draw = infra.add_parser("draw", help="a picture of an infrastructure", allow_abbrev=False)
    draw.add_argument("file", help="an InfraGraph file or a blueprint")
    draw.add_argument("--out", metavar="FILE", help="FILE.svg, or FILE.html to drag about (NAME.svg)")
    draw.add_argument("--dark", action="store_true", help="for dark ground")
    draw.set_defaults(command=_draw)


def _show(args: argparse.Namespace) -> int:
    from astranb.infragraph import resolve

    return print_summary(resolve(args.file).summary(), as_json=args.json)


def _check(args: argparse.Namespace) -> int:
    from astranb.infragraph import resolve

    warnings = resolve(args.file).check()
    if args.json:
        print_json({"valid": True, "warnings": warnings})
    else:
        print("\n".join(warnings) or "well formed, nothing to remark")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from astranb.infragraph import convert

    made = convert(args.file, args.name)
    path = Path(args.out or f"{Path(args.file).stem}.yaml")
    if args.out is None and path.exists():
        raise InputError("is there already", where=str(path), hint="name another, or this one, by --out")
    made.save(path)
    said = made.summary()
    if args.json:
        print_json({"file": str(path), **said})
        return 0
    for note in said["notes"] + said["warnings"]:
        print(f"astranb: {args.file}: {note}", file=sys.stderr)
    types = ", ".join(f"{count} {kind}" for kind, count in said["node_types"].items())
    print(f"{said['name']} is in {path}: {types}")
    print(f"see what is assumed: astranb infra show {path}")
    return 0


def _draw(args: argparse.Namespace) -> int:
    from astranb.export import draw
    from astranb.infragraph import resolve

    infra = resolve(args.file)
    print(draw(infra, args.out or f"{infra.name.replace('/', '-')}.svg", dark=args.dark))
    return 0
