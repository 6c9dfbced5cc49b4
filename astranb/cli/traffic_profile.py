"""``astranb traffic profile``: what every rank of a job does, without a cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError

from .arguments import add_command, add_output, flag_of, given, whole
from .model import (
    DEGREES,
    MODEL_OPTIONS,
    add_model_options,
    degrees_of,
    memory_limit_of,
    times_of,
    workload_of,
)
from .printing import Report

if TYPE_CHECKING:
    from astranb.traffic import Profile

__all__ = ["add_profile"]

_TRACES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (
        "--traces",
        "PREFIX of PREFIX.RANK.et; degrees above are changed to what is given",
        {"metavar": "PREFIX"},
    ),
    ("--comm-group", "communicator groups (default: PREFIX.groups.json)", {"metavar": "FILE"}),
    (
        "--traced",
        "degrees of the traced job, as dp=2,tp=4 (default: as its groups show)",
        {"metavar": "LIST"},
    ),
    (
        "--micro",
        "times the sequences in a microbatch (default: 1)",
        {"type": whole(1, 1 << 20), "metavar": "N"},
    ),
)
_OF_MODEL: Final = {flags[0] for flags, _, _ in MODEL_OPTIONS} - {"--model"} | {"--memory-limit"}
_OF_TRACES: Final = {*(f"--{name}" for name in DEGREES), "--efficiency"} - {"--zero"}


def add_profile(verbs: Any) -> None:
    """Add ``profile`` to the verbs of ``traffic``."""
    parser = add_command(
        verbs, "profile", "describe what every rank of a job does: from a model's sizes or traces", _profile
    )
    add_model_options(parser)
    parser.add_argument("--gpu", help="GPU whose kernels give the durations (default: h100-sxm)")
    parser.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="memory of a GPU, as 64GiB, or none: do not check whether it fits (default: the GPU's)",
    )
    traces = parser.add_argument_group(
        "traces of a few ranks, scaled", "example: astranb traffic profile --traces step --dp 64 -o job.json"
    )
    for flag, text, more in _TRACES:
        traces.add_argument(flag, help=text, **more)
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
    sources = {"model": _of_model, "traces": _of_traces}
    chosen = [name for name in sources if getattr(args, name) is not None]
    if len(chosen) != 1:
        flags = " or ".join(map(flag_of, sources))
        what = f"{flag_of(chosen[0])} and {flag_of(chosen[1])}" if chosen else "nothing to profile"
        raise InputError(what, where="traffic profile", hint=f"give {flags}")
    _check(args, chosen[0])
    return sources[chosen[0]](args)


def _check(args: argparse.Namespace, source: str) -> None:
    """Refuse options that have no effect."""
    names = {"model": _OF_MODEL, "traces": {flag for flag, _, _ in _TRACES} - {"--traces"} | _OF_TRACES}
    every = set().union(*names.values())
    for flag in sorted(every - names[source]):
        if getattr(args, flag.removeprefix("--").replace("-", "_")) is not None:
            raise InputError(f"{flag} does not apply to --{source}", where=flag, hint="leave it out")


def _of_model(args: argparse.Namespace) -> Profile:
    from astranb.traffic import profile_of
    from astranb.workload.kernels import DEFAULT_GPU

    step = workload_of(args, args.gpu or DEFAULT_GPU)
    return profile_of(step, args.model, memory_limit_of(args, step))


def _of_traces(args: argparse.Namespace) -> Profile:
    from astranb.traffic import profile_traces
    from astranb.workload.kernels import DEFAULT_GPU
    from astranb.workload.models import Parallelism

    more = given(args, "micro", groups="comm_group")
    if args.traced is not None:
        more["traced"] = Parallelism(**_degrees(args.traced))
    gpu = args.gpu or DEFAULT_GPU
    return profile_traces(
        args.traces, degrees_of(args), gpu=gpu if args.efficiency is None else times_of(args, gpu), **more
    )


def _degrees(text: str) -> dict[str, Any]:
    """Read degrees as ``dp=2,tp=4``."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in DEGREES or not (value.isascii() and value.isdecimal() and len(value) < 8):
            raise InputError(f"no degree {part[:40]!r}", where="--traced", hint="write dp=2,tp=4,pp=2")
        found[DEGREES[name]] = int(value)
    return found


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
