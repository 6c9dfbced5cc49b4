"""``astranb run --model`` and ``astranb chakra generate``: from a model and degrees to traces and times."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astranb._print import print_json
from astranb.core.errors import InputError, near
from astranb.core.units import format_time

if TYPE_CHECKING:
    from astranb.workload.models import Workload

__all__ = ["add_generate", "add_options", "model_or"]

_NUMBERS = {
    "dp": "data parallelism: replicas",
    "tp": "tensor parallelism: parts of each matrix",
    "pp": "pipeline parallelism: stages",
    "cp": "context parallelism: parts of each sequence, by ring attention",
    "ep": "expert parallelism: data-parallel ranks over which experts are spread",
    "zero": "what ZeRO divides: 1 optimizer states, 2 gradients too, 3 parameters too",
    "interleave": "chunks of layers of a stage",
    "batch": "sequences (samples) of a step, of all replicas (one each microbatch of each replica)",
    "microbatches": "parts of a replica's batch (4 for each stage of a pipeline)",
    "seq": "tokens of a sequence (the model's)",
    "tokens": "of decoding: tokens to generate (1)",
}
_FLAGS = {
    "sp": "sequence parallelism between the matrices of tensor parallelism",
    "recompute": "compute activations again in the backward pass",
}
_OTHERS = (
    *("infra", "collective", "size", "algorithm", "lanes", "save", "roce", "html", "svg", "perfetto"),
    *("workload", "comm_group", "compat"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which model is divided how."""
    group = parser.add_argument_group("a model, divided over ranks")
    group.add_argument("--model", help="as gpt3-175b (astranb chakra generate --list), or MODEL.yaml")
    for name, text in _NUMBERS.items():
        group.add_argument(f"--{name}", type=int, metavar="N", help=text)
    for name, text in _FLAGS.items():
        group.add_argument(f"--{name}", action="store_true", help=text)
    group.add_argument("--mode", help="training (the default), prefill or decode")


def add_generate(verbs: Any) -> None:
    """Add ``chakra generate``."""
    parser = verbs.add_parser("generate", help="the traces of a model over ranks", allow_abbrev=False)
    add_options(parser)
    parser.add_argument("--list", action="store_true", help="list the models there are")
    parser.add_argument("--gpu", help="write durations too, by the roofline of this GPU, as h100-sxm")
    parser.add_argument("--output", metavar="PREFIX", help="write PREFIX.RANK.et and PREFIX.groups.json")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(command=_generate)


def model_or(other: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Give the command that runs a model where there is one, and another otherwise."""

    def run(args: argparse.Namespace) -> int:
        if args.model is not None:
            return _run(args)
        for name in (*_NUMBERS, *_FLAGS, "mode"):
            if getattr(args, name):
                raise InputError(f"--{name} needs --model", where="run", mend="give --model NAME")
        return other(args)

    return run


def _workload(args: argparse.Namespace, gpu: str | None) -> Workload:
    from astranb.workload.models import Parallelism, roofline, workload

    said = {name: getattr(args, name) for name in _NUMBERS}
    for name, value in said.items():
        low = 0 if name == "zero" else 1
        if value is not None and not low <= value <= 1 << 24:
            raise InputError(f"{value} is out of range", where=f"--{name}", mend=f"take {low} or more")
    ways = Parallelism(
        said["dp"] or 1,
        said["tp"] or 1,
        said["pp"] or 1,
        said["cp"] or 1,
        expert=said["ep"] or 1,
        sequence=args.sp,
        zero=said["zero"] or 0,
        interleave=said["interleave"] or 1,
    )
    return workload(
        args.model,
        ways,
        batch=said["batch"],
        microbatches=said["microbatches"],
        sequence=said["seq"],
        mode=args.mode or "training",
        tokens=said["tokens"] or 1,
        recompute=args.recompute,
        gpu=None if gpu is None else roofline(gpu),
    )


def _generate(args: argparse.Namespace) -> int:
    if args.list:
        return _list(as_json=args.json)
    for name in ("model", "output"):
        if getattr(args, name) is None:
            raise InputError(
                f"--{name} is missing", where="generate", mend="see astranb chakra generate --help"
            )
    step = _workload(args, args.gpu)
    written = step.write(args.output)
    size = sum(file.stat().st_size for file in written)
    if args.json:
        print_json(
            {
                "model": args.model,
                "ranks": step.ranks,
                "nodes": step.nodes,
                "bytes": size,
                "groups": len(step.groups),
                "tokens": step.tokens,
                "model_flops": step.model_flops,
                "files": [str(file) for file in written],
            }
        )
        return 0
    print(f"{step.ranks} traces, {step.nodes:,} nodes, {size:,} bytes: {args.output}.RANK.et")
    print(f"{len(step.groups)} groups of ranks: {args.output}.groups.json (--comm-group)")
    print(f"{step.tokens:,} {step.unit} a step, {step.model_flops:.4g} operations of the model's matrices")
    return 0


def _list(*, as_json: bool) -> int:
    from astranb.workload.models import MODELS

    rows = [
        {"model": name, "parameters": one.parameters, "source": one.source} for name, one in MODELS.items()
    ]
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        print(f"{row['model']:<14} {row['parameters']:>17,}  {row['source']}")
    return 0


def _run(args: argparse.Namespace) -> int:
    from astranb.workload.astrasim2 import Run
    from astranb.workload.astrasim2 import read_memory as memory_of
    from astranb.workload.models import machine

    fidelity = _check(args)
    step = _workload(args, args.gpu or "h100-sxm")
    cluster = machine(
        step.ranks, args.gpu or "h100-sxm", args.system, args.network, chunks=4 if step.spans_all else 1
    )
    run = Run(
        step.operations(),
        cluster.network,
        cluster.system,
        memory=None if args.memory is None else memory_of(args.memory),
        groups=step.groups,
        aware=fidelity == "congestion",
    )
    run.step()
    result = run.result()
    seconds = int(result.end_ns.max()) / 1e9
    last = int(result.end_ns.argmax())
    said = {
        "model": args.model,
        "mode": args.mode or "training",
        "fidelity": fidelity,
        "ranks": step.ranks,
        "operations": step.nodes,
        "time_ps": int(result.end_ns.max()) * 1000,
        "compute_ps": int(result.compute_ns[last]) * 1000,
        "exposed_comm_ps": int(result.exposed_comm_ns[last]) * 1000,
        f"{step.unit}_per_s": step.tokens / seconds,
        "model_flops": step.model_flops,
        "model_flops_utilisation": step.model_flops / (seconds * step.ranks * cluster.peak_flops),
        "messages": result.messages,
        "message_bytes": result.message_bytes,
        "events": result.events,
        "assumed": cluster.assumed,
    }
    if args.json:
        rows = zip(
            result.end_ns.tolist(), result.exposed_comm_ns.tolist(), result.compute_ns.tolist(), strict=True
        )
        said["per_rank"] = [
            {"rank": n, "end_ps": e * 1000, "exposed_comm_ps": x * 1000, "compute_ps": c * 1000}
            for n, (e, x, c) in enumerate(rows)
        ]
        print_json(said | {"state_hash": run.state_hash()})
        return 0
    part = said["compute_ps"] / said["time_ps"]
    print(f"{args.model}, {said['mode']}, {step.ranks} ranks: a step takes {format_time(said['time_ps'])}")
    print(f"rank {last}, the last one: computes {format_time(said['compute_ps'])} ({part:.1%}),")
    print(f"  exposed communication and waiting {format_time(said['exposed_comm_ps'])} ({1 - part:.1%})")
    print(f"{step.tokens / seconds:,.0f} {step.unit}/s, {step.tokens / seconds / step.ranks:,.0f} a rank")
    print(
        f"model FLOPs utilisation {said['model_flops_utilisation']:.1%} of {cluster.peak_flops:.4g} a second"
    )
    for line in cluster.assumed:
        print(f"assumed: {line}")
    return 0


def _check(args: argparse.Namespace) -> str:
    for name in _OTHERS:
        if getattr(args, name) is not None:
            what = f"--{name.replace('_', '-')} and --model exclude each other"
            raise InputError(what, where="run", mend="leave one of them out")
    known = ("analytical", "congestion")
    fidelity = str(args.fidelity or "analytical")
    if fidelity not in known:
        raise InputError(f"no {fidelity[:40]!r} of a model", where="--fidelity", mend=near(fidelity, known))
    return fidelity
