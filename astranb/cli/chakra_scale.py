"""``astranb chakra scale``: from the traces of a few ranks to those of many."""

from __future__ import annotations

import argparse
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural
from astranb.explore.runs import DEGREES, StepSpec, traced_degrees, whole

from .arguments import add_command, add_output, typed
from .options import add_fields
from .printing import Report

__all__ = ["add_scale"]

_WANTED: Final = ("tp", "pp", "dp", "cp", "ep")


def add_scale(verbs: Any) -> None:
    """Add ``scale`` to the verbs of ``chakra``."""
    parser = add_command(verbs, "scale", "write the traces of many ranks, like those of a few", _scale)
    parser.add_argument("file", metavar="PREFIX", help="of PREFIX.RANK.et: a rank of each stage at least")
    add_output(
        parser,
        "write PREFIX.RANK.et, PREFIX.groups.json and PREFIX.job.json",
        required=True,
        metavar="PREFIX",
    )
    number: dict[str, Any] = {"type": whole(1, MOST_RANKS), "metavar": "N"}
    parser.add_argument("--ranks", help="wanted number of ranks: more or fewer replicas", **number)
    wanted = ", ".join(f"--{name} N" for name in _WANTED)
    add_fields(parser, [StepSpec], wanted, default="the traced job's")
    parser.add_argument(
        "--comm-group", metavar="FILE", help="communicator groups (default: PREFIX.groups.json)"
    )
    parser.add_argument(
        "--traced", metavar="LIST",
        help="degrees of the traced job, as dp=2,tp=4 (default: as its groups show)",
    )  # fmt: skip
    parser.add_argument("--micro", help="times the sequences in a microbatch (default: 1)", **number)


def _scale(args: argparse.Namespace) -> Report:
    from astranb.chakra import scale
    from astranb.chakra.scaling import Parallelism, plan_text

    target = typed(args, **{DEGREES[name]: name for name in _WANTED})
    if args.ranks is None and not target and args.micro is None:
        hint = f"give --ranks, or some of {', '.join(f'--{name}' for name in _WANTED)}"
        raise InputError("nothing to scale", where="chakra scale", hint=hint)
    more = typed(args, "micro", groups="comm_group")
    if args.traced is not None:
        more["traced"] = Parallelism(**traced_degrees(args.traced))
    job = scale(args.file, args.ranks, target=target, **more)
    files = job.write(args.output)
    document = {**job.document(), "nodes": job.nodes, "programs": job.programs, "groups": len(job.groups)}
    lines = [
        (
            f"{plural(job.ranks, 'rank')} ({plan_text(job.plan)}), "
            f"{plural(job.nodes, 'node')}: {args.output}.RANK.et"
        ),
        f"{plural(len(job.groups), 'group')} of ranks: {args.output}.groups.json (--comm-group)",
        "assumptions:",
        *(f"  {subject}: {text}" for subject, text in job.assumptions.items()),
    ]
    return Report(document | {"files": len(files)}, lines)
