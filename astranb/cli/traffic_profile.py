"""``astranb traffic profile``: what every rank of a job does, without a cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError

from .arguments import add_command, add_output
from .model import add_model_options, memory_limit_of, workload_of
from .printing import Report

if TYPE_CHECKING:
    from astranb.traffic import Profile

__all__ = ["add_profile"]


def add_profile(verbs: Any) -> None:
    """Add ``profile`` to the verbs of ``traffic``."""
    parser = add_command(
        verbs, "profile", "describe what every rank of a job does, from a model's sizes", _profile
    )
    add_model_options(parser)
    parser.add_argument("--gpu", help="GPU whose kernels give the durations (default: h100-sxm)")
    parser.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="memory of a GPU, as 64GiB, or none: do not check whether it fits (default: the GPU's)",
    )
    add_output(parser, "write the profile, one JSON document")


def _profile(args: argparse.Namespace) -> Report:
    profile = _made(args)
    summary = profile.summary()
    lines = list(_lines(summary))
    if args.output is not None:
        profile.save(args.output)
        summary["file"] = args.output
        lines.append(f"written: {args.output}")
    return Report(summary, lines)


def _made(args: argparse.Namespace) -> Profile:
    if args.model is None:
        raise InputError("--model is missing", where="traffic profile", hint="name a model")
    return _of_model(args)


def _of_model(args: argparse.Namespace) -> Profile:
    from astranb.traffic import profile_of
    from astranb.workload.kernels import DEFAULT_GPU

    step = workload_of(args, args.gpu or DEFAULT_GPU)
    return profile_of(step, args.model, memory_limit_of(args, step))


def _lines(summary: dict[str, Any]) -> Any:
    """Write a summary; of the communication that of the first stage."""
    yield f"{summary['ranks']:,} ranks in {summary['stages']} stages, {summary['operations']:,} operations"
    first, last = (summary["computation"][at] for at in (0, -1))
    for one in (first, last) if summary["stages"] > 1 else (first,):
        yield (
            f"stage {one['stage']}: {one['count']:,} computations, {one['flops']:.4g} FLOPs, "
            f"{one['bytes'] / 1e9:,.4g} GB moved, {one['duration_ns'] / 1e6:,.6g} ms"
        )
    for row in summary["communication"]:
        if row["stage"] == 0:
            among = f"{row['ranks']} ranks ({row['group']})" if row["collective"] != "send" else row["group"]
            yield f"stage 0: {row['count']:,} x {row['collective']}, {among}, {row['bytes']:,} bytes"
    yield "assumptions:"
    for name, text in summary["assumptions"].items():
        yield f"  {name}: {text}"
