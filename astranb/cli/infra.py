"""``astranb infra``: list, show, check, convert and draw infrastructures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.explore.runs import file_named

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
        verbs,
        "convert",
        "convert topologies of NCCL, lstopo and packet simulators to InfraGraph and back",
        _convert,
    )
    convert.add_argument(
        "file",
        help="XML written by NCCL_TOPO_DUMP_FILE or by 'lstopo FILE.xml'; topology of ns-3, htsim or "
        "BookSim; task graph of FlexFlow; with --to also an InfraGraph file or blueprint",
    )
    add_output(convert, "FILE.yaml or FILE.json (default: the input's name with .yaml), or the topology file")
    convert.add_argument(
        "--to",
        metavar="FORMAT",
        help="write a topology file of a packet simulator: ns3, htsim, anynet or ned (default: by the suffix "
        "of --output: .txt, .topo, .anynet, .ned)",
    )
    convert.add_argument(
        "--gpu", help="GPU preset: adds the links of such GPUs that the file leaves out (NCCL_TOPO_FILE)"
    )
    convert.add_argument(
        "--name",
        type=file_named(""),
        help="name of the infrastructure (default: that of the product or file)",
    )
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

    infra = resolve(args.file)
    warnings = infra.check()
    if len(infra.expand().gpus):
        from astranb.net import compile_fabric

        warnings += compile_fabric(infra.expand()).host_remarks()
    return Report({"valid": True, "warnings": warnings}, warnings or ["well formed, no warnings"])


def _convert(args: argparse.Namespace) -> Report:
    from astranb.gpu import preset
    from astranb.infragraph import convert, resolve, topology_format

    form = topology_format(args.to, Path(args.output or ""))
    if form is not None:
        return _convert_to(args, form.name, form.suffix)
    if not Path(args.file).exists():
        resolve(args.file)  # raises an error for an unknown name
        what = f"{args.file[:40]!r} is a blueprint"
        raise InputError(what, where="infra convert", hint="name the format to write: --to ns3")
    gpu = None if args.gpu is None else preset(args.gpu).name
    made = convert(args.file, args.name, gpu)
    path = _output(args, f"{Path(args.file).stem}.yaml")
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


def _convert_to(args: argparse.Namespace, name: str, suffix: str) -> Report:
    """Write the topology file of a packet simulator."""
    from astranb.infragraph import resolve, write_topology

    infra = resolve(args.file).completed(args.gpu)
    path = _output(args, f"{(args.name or infra.name).replace('/', '-')}{suffix}")
    not_expressed = write_topology(infra, path, name=name)
    return Report(
        {"file": str(path), "format": name, "not_expressed": not_expressed},
        [f"wrote {infra.name} to {path} for {name}"],
        notes=[f"{path}: {text}" for text in not_expressed],
    )


def _output(args: argparse.Namespace, default: str) -> Path:
    """Return the file to write: a default that exists is not written over."""
    path = Path(args.output or default)
    if args.output is None and path.exists():
        raise InputError("the file exists", where=str(path), hint="name it, or another one, with --output")
    return path


def _draw(args: argparse.Namespace) -> Report:
    from astranb.drawing import draw
    from astranb.infragraph import resolve

    infra = resolve(args.file)
    file = str(draw(infra, args.output or f"{infra.name.replace('/', '-')}.svg", dark=args.dark))
    return Report({"file": file}, [file])
