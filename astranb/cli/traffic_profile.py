"""``astranb traffic profile``: what every rank of a job does, without a cluster."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import size_bytes
from astranb.explore.runs import (
    DEGREES,
    StepSpec,
    degrees_of,
    flag_of,
    function_of,
    made_of,
    memory_limit_of,
    positive,
    times_of,
    traced_degrees,
    whole,
    workload_of,
)
from astranb.hardware import DEFAULT_GPU

from .arguments import add_command, add_output, check_apply, chosen_of, typed
from .options import MODEL_GROUPS, add_fields, add_groups
from .printing import Report

if TYPE_CHECKING:
    from astranb.traffic import Profile
    from astranb.workload.kernels import KernelTimes

__all__ = ["add_profile"]

_Options = tuple[tuple[str, str, dict[str, Any]], ...]
_TORCH: Final[_Options] = (
    (
        "--torch",
        "function that returns a module and one microbatch of inputs; run with fake tensors",
        {"metavar": "FILE.py:FUNCTION"},
    ),
    (
        "--plan",
        "how tensor parallelism divides modules, as {wq: colwise, wo: rowwise} (default: by their names)",
        {"metavar": "FILE"},
    ),
    (
        "--bucket",
        "sum gradients at so many bytes, as 25MiB (default: unit by unit)",
        {"metavar": "SIZE"},
    ),
    ("--balance", "what stages have as much of: layers or flops (default: layers)", {}),
    (
        "--measured",
        "run on this CPU and measure operators: times as fast the GPU is",
        {"type": positive(), "metavar": "X"},
    ),
)
_TRACES: Final[_Options] = (
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
_MODEL: Final = {flag_of(one.name) for one in fields(StepSpec)} - {"--model"}
_DEGREES: Final = {f"--{name}" for name in DEGREES}
_APPLY: Final = {
    "model": _MODEL | {"--memory-limit"},
    "torch": {flag for flag, _, _ in _TORCH[1:]}
    | _DEGREES
    | {"--microbatches", "--recompute", "--precision", "--gradient-bytes", "--memory-limit"}
    | {"--efficiency", "--costs"},
    "traces": {flag for flag, _, _ in _TRACES[1:]} | _DEGREES - {"--zero"} | {"--efficiency"},
}
"""The options that have an effect, by where the profile comes from."""


def add_profile(verbs: Any) -> None:
    """Add ``profile`` to the verbs of ``traffic``."""
    parser = add_command(
        verbs,
        "profile",
        "describe what every rank of a job does: from a model, PyTorch code or traces",
        _profile,
    )
    add_fields(parser, [StepSpec], "--model NAME")
    add_groups(parser, [StepSpec], MODEL_GROUPS)
    parser.add_argument("--gpu", help=f"GPU whose kernels give the durations (default: {DEFAULT_GPU})")
    parser.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="memory of a GPU, as 64GiB, or none: do not check whether it fits (default: the GPU's)",
    )
    for title, example, (source, *options) in (
        ("a PyTorch model", "--torch gpt.py:model --dp 8 --tp 2", _TORCH),
        ("traces of a few ranks, scaled", "--traces step --dp 64 -o job.json", _TRACES),
    ):
        group = parser.add_argument_group(title, f"example: astranb traffic profile {example}")
        more_group = parser.add_argument_group(f"more of {title}")
        parser.topics[f"more of {title}"] = source[0].removeprefix("--")
        for flag, text, more in (source, *options):
            (group if flag == source[0] else more_group).add_argument(flag, help=text, **more)
    add_output(parser, "write the profile, one JSON document", metavar="FILE.json", endings=(".json",))


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
    sources = {"model": _of_model, "torch": _of_torch, "traces": _of_traces}
    chosen = chosen_of(args, sources, "traffic profile")
    if not chosen:
        hint = f"give one of {', '.join(map(flag_of, sources))}"
        raise InputError("nothing to profile", where="traffic profile", hint=hint)
    check_apply(args, chosen, _APPLY, "traffic profile")
    return sources[chosen](args)


def _of_model(args: argparse.Namespace) -> Profile:
    from astranb.traffic import profile_of

    step = workload_of(made_of(StepSpec, args), args.gpu or DEFAULT_GPU)
    return profile_of(step, args.model, memory_limit_of(args.memory_limit, step.times))


def _of_torch(args: argparse.Namespace) -> Profile:
    from astranb.core.document import read_document
    from astranb.traffic import profile_torch
    from astranb.workload.models import Parallelism

    more = typed(args, "microbatches", "recompute", "precision", "gradient_bytes", "balance", "measured")
    more |= typed(args, bucket_bytes="bucket")
    if "bucket_bytes" in more:
        more["bucket_bytes"] = size_bytes(more["bucket_bytes"], where="bucket_bytes")
    if args.plan is not None:
        plan = read_document(args.plan)
        if not isinstance(plan.value, dict):
            raise plan.error(
                "styles by the names of modules are expected", "write {wq: colwise, wo: rowwise}"
            )
        more["plan"] = {str(name): plan.get(name).text() for name in plan.value}
    times = _times_of(args)
    return profile_torch(
        function_of(args.torch), None, Parallelism(**degrees_of(made_of(StepSpec, args))), gpu=times,
        memory_limit_bytes=memory_limit_of(args.memory_limit, times), **more,
    )  # fmt: skip


def _of_traces(args: argparse.Namespace) -> Profile:
    from astranb.traffic import profile_traces
    from astranb.workload.models import Parallelism

    more = typed(args, "micro", groups="comm_group")
    if args.traced is not None:
        more["traced"] = Parallelism(**traced_degrees(args.traced))
    gpu = args.gpu or DEFAULT_GPU if args.efficiency is None else _times_of(args)
    return profile_traces(args.traces, degrees_of(made_of(StepSpec, args)), gpu=gpu, **more)


def _times_of(args: argparse.Namespace) -> KernelTimes:
    options = typed(args, "precision", "efficiency", "costs", "kernels")
    return times_of(args.gpu or DEFAULT_GPU, **options)


def _lines(summary: dict[str, Any]) -> Any:
    """Write a summary; of the communication that of the first stage."""
    yield (
        f"{plural(summary['ranks'], 'rank')} in {plural(summary['stages'], 'stage')}, "
        f"{plural(summary['operations'], 'operation')}"
    )
    first, last = (summary["computation"][at] for at in (0, -1))
    for one in (first, last) if summary["stages"] > 1 else (first,):
        yield (
            f"stage {one['stage']}: {plural(one['count'], 'computation')}, {one['flops']:.4g} FLOPs, "
            f"{one['bytes'] / 1e9:,.4g} GB moved, {one['duration_ns'] / 1e6:,.6g} ms"
        )
    for row in summary["communication"]:
        if row["stage"] == 0:
            among = (
                f"{plural(row['ranks'], 'rank')} ({row['group']})"
                if row["collective"] != "send"
                else row["group"]
            )
            yield f"stage 0: {row['count']:,} x {row['collective']}, {among}, {row['bytes']:,} bytes"
    yield "assumptions:"
    for name, text in summary["assumptions"].items():
        yield f"  {name}: {text}"
