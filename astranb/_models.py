"""``astranb run --model`` and ``astranb chakra generate``: from a model and degrees to traces and times."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astranb._astrasim2 import check_infra, check_numbers, infra_network
from astranb._cacheline import LINES_TOO, run_lines
from astranb._leave import told_of, write_files
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
    "elementwise": "count norms, residuals and softmax too, each a pass over memory of its own",
    "dropout": "with --elementwise: dropout in training",
}
_OTHERS = (
    *("collective", "size", "algorithm", "lanes", "roce"),
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
    group.add_argument(
        "--expert-imbalance", type=float, metavar="F", help="load of the busiest expert, of the mean (1)"
    )
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
        for name in (*_NUMBERS, *_FLAGS, "expert_imbalance", "mode"):
            if getattr(args, name):
                what = f"--{name.replace('_', '-')} needs --model"
                raise InputError(what, where="run", hint="give --model NAME")
        return other(args)

    return run


def _workload(args: argparse.Namespace, gpu: str | None) -> Workload:
    from astranb.workload.models import Parallelism, roofline, workload

    said = {name: getattr(args, name) for name in _NUMBERS}
    for name, value in said.items():
        low = 0 if name == "zero" else 1
        if value is not None and not low <= value <= 1 << 24:
            raise InputError(f"{value} is out of range", where=f"--{name}", hint=f"take {low} or more")
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
        elementwise=args.elementwise,
        dropout=args.dropout,
        expert_imbalance=1.0 if args.expert_imbalance is None else args.expert_imbalance,
        gpu=None if gpu is None else roofline(gpu),
    )


def _generate(args: argparse.Namespace) -> int:
    if args.list:
        return _list(as_json=args.json)
    for name in ("model", "output"):
        if getattr(args, name) is None:
            raise InputError(
                f"--{name} is missing", where="generate", hint="see astranb chakra generate --help"
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
    from astranb.sim.workload import WorkloadSimulation
    from astranb.workload.astrasim2 import read_memory as memory_of
    from astranb.workload.models import machine

    from .engine.messages import Run

    fidelity = _check(args)
    options = {
        "queues": args.num_queues_per_dim,
        "injection_scale": args.injection_scale,
        "rendezvous": args.rendezvous_protocol == "true",
    }
    step = _workload(args, args.gpu or "h100-sxm")
    gpu, chunks = args.gpu or "h100-sxm", 4 if step.spans_all else 1
    network = args.network if args.infra is None else infra_network(args)
    cluster = machine(step.ranks, gpu, args.system, network, chunks=chunks, **options)
    run = Run(
        step.operations(),
        cluster.network,
        cluster.system,
        memory=None if args.memory is None else memory_of(args.memory),
        groups=step.groups,
        aware=fidelity == "congestion",
    )
    if fidelity == "cacheline":
        return run_lines(args, run.inputs)
    sim = WorkloadSimulation.of_run(run, title=str(args.model), record=told_of(args), checkpoint_bytes=0)
    sim.run()
    result, told = run.result(), sim.result
    write_files(sim, args)
    if args.explain and not args.json:
        print(told.explain())
        return 0
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
        rows = [{name: value for name, value in row.items() if name != "done"} for row in told.per_rank()]
        said |= {"exposed_comm_ps": rows[last]["exposed_comm_ps"], "breakdown": told.breakdown()}
        print_json(said | {"per_rank": rows, "state_hash": run.state_hash()})
        return 0
    part, used = said["compute_ps"] / said["time_ps"], said["model_flops_utilisation"]
    print(f"{args.model}, {said['mode']}, {step.ranks} ranks: a step takes {format_time(said['time_ps'])}")
    print(f"rank {last}, the last one: computes {format_time(said['compute_ps'])} ({part:.1%}),")
    print(f"  exposed communication and waiting {format_time(said['exposed_comm_ps'])} ({1 - part:.1%})")
    print(f"{step.tokens / seconds:,.0f} {step.unit}/s, {step.tokens / seconds / step.ranks:,.0f} a rank")
    print(f"model FLOPs utilisation {used:.1%} of {cluster.peak_flops:.4g} a second")
    for line in cluster.assumed:
        print(f"assumed: {line}")
    return 0


def _check(args: argparse.Namespace) -> str:
    for name in _OTHERS:
        lines = args.fidelity == "cacheline" and name in LINES_TOO
        if getattr(args, name) is not None and not lines:
            what = f"--{name.replace('_', '-')} and --model exclude each other"
            raise InputError(what, where="run", hint="leave one of them out")
    known = ("analytical", "congestion", "cacheline")
    fidelity = str(args.fidelity or "analytical")
    if fidelity not in known:
        raise InputError(f"no {fidelity[:40]!r} of a model", where="--fidelity", hint=near(fidelity, known))
    check_infra(args)
    check_numbers(args)
    return fidelity
