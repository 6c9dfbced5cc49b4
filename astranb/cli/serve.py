"""``astranb serve``: requests through a model by continuous batching."""

from __future__ import annotations

import argparse
from typing import Any, Final, TypeAlias

from astranb.core.errors import InputError
from astranb.core.units import size_bytes, time_ps
from astranb.explore.runs import (
    StepSpec,
    both_given,
    cache_bytes,
    network_of,
    number,
    times_of,
    whole,
)
from astranb.hardware import DEFAULT_GPU, gpu_named, read_gpu
from astranb.workload.serving import ServingPolicy, engine_named

from .arguments import add_command, typed
from .options import add_fields
from .printing import Report

__all__ = ["add_commands"]

_Options: TypeAlias = tuple[tuple[str, str, dict[str, Any]], ...]
_MACHINE: _Options = (
    ("--gpu", f"GPU preset or its file (default: {DEFAULT_GPU})", {}),
    ("--memory-limit", "memory of a GPU (default: the GPU's)", {"metavar": "SIZE"}),
    ("--network", "network.yml of ASTRA-sim 2.0, of all GPUs", {"metavar": "FILE"}),
    ("--infra", "InfraGraph file, or blueprint, of all GPUs", {}),
    ("--dimensions", "GPUs in each dimension, with --infra", {"metavar": "8x4"}),
    ("--system", "system.json of ASTRA-sim 2.0", {"metavar": "FILE"}),
)
_LAUNCH: _Options = (("--launch", "how kernels are launched: none, graph or stream (default: none)", {}),)
_COUNT: Final[dict[str, Any]] = {"type": whole(1, 1 << 24), "metavar": "N"}
_POLICY: _Options = (
    (
        "--engine",
        "sglang, trtllm, vllm or an engine's file: its scheduler and host (default: none)",
        {"metavar": "NAME"},
    ),
    ("--instances", "copies of the model, of --tp times --pp GPUs each", _COUNT),
    (
        "--disaggregate",
        "P copies compute prompts, D others decode (default: each both)",
        {"metavar": "P:D"},
    ),
    ("--max-batch", "requests that a copy works on at once", _COUNT),
    ("--token-budget", "tokens of an iteration, at most", _COUNT),
    (
        "--chunked-prefill",
        "compute prompts in parts that fit in the token budget (default: yes)",
        {"action": argparse.BooleanOptionalAction},
    ),
)
_MORE_POLICY: _Options = (
    (
        "--mixed-batches",
        "compute prompts in iterations that decode too (default: as --chunked-prefill)",
        {"action": argparse.BooleanOptionalAction},
    ),
    (
        "--overlap",
        "schedule the next iteration while one is computed (default: no)",
        {"action": argparse.BooleanOptionalAction},
    ),
    ("--block-size", "tokens of a block of keys and values", _COUNT),
    (
        "--reserve-output",
        "admit a request only when there are blocks for all of its tokens: no preemptions (default: no)",
        {"action": argparse.BooleanOptionalAction},
    ),
    ("--watermark", "part of the blocks kept free at admission", {"type": number, "metavar": "F"}),
    ("--memory-fraction", "part of a GPU's memory to use", {"type": number, "metavar": "F"}),
    (
        "--host-time",
        "of the host between two iterations, while the GPU waits, as '200 us' (default: 1.3 ms)",
        {"metavar": "TIME"},
    ),
    (
        "--front-end-time",
        "of the server before a request is scheduled; 0: none (default: 6.4 ms)",
        {"metavar": "TIME"},
    ),
)
_GROUPS: Final = (
    ("its GPUs", "example: --tp 8 --gpu h200-sxm", "--tp N, --pp N", _MACHINE, ""),
    (
        "kernels",
        None,
        (
            "--precision P, --weights W, --power W, --cache-precision P, --expert-imbalance F, "
            "--efficiency E, --costs NAME, --kernels FILE.csv"
        ),
        _LAUNCH,
        "kernels",
    ),
    ("the policy", "example: --max-batch 128 --token-budget 2048", "", _POLICY, ""),
    ("more of the policy", None, "", _MORE_POLICY, "policy"),
)
"""Title, description, fields of a step, options and topic of each group."""
_DEFAULTS: Final = {
    "--tp N": "the network's GPUs, else the fewest that hold the model",
    "--precision P": "the checkpoint's, else bf16",
    "--cache-precision P": "the engine's, else bf16",
    "--costs NAME": "the engine's, else kernels",
}
"""Of options whose defaults are not those of a step."""
_FOUR_BITS: Final = ("fp4", "nvfp4")
_BLACKWELL: Final = 100
"""Compute capability from which on tensor cores take four-bit numbers (CUDA C++ Programming Guide)."""
_EXAMPLE: Final = "poisson:rate=4,prompt=1024,output=256,count=500,seed=1"


def add_commands(commands: Any) -> None:
    """Add ``serve`` to the command line."""
    parser = add_command(
        commands,
        "serve",
        "serve a model: requests through continuous batching",
        _serve,
    )
    asked = parser.add_argument_group("the requests and the model", f"example: --requests {_EXAMPLE}")
    asked.add_argument(
        "--requests",
        required=True,
        metavar="REQUESTS",
        help="poisson, constant, offline or closed, ':' and rate= (of poisson and constant, per second), "
        "users= (of closed), prompt=, output= (tokens: N, LOW-HIGH, exponential(MEAN) or "
        "lognormal(MEDIAN:SIGMA)), range= (lengths from this part of those given), count=, warmup= (requests "
        "that count in no latency), seed=; or a file REQUESTS.csv (arrival_s,prompt,output)",
    )
    add_fields(parser, [StepSpec], "--model NAME", group=asked, required=True)
    for title, about, shared, options, topic in _GROUPS:
        group = parser.add_argument_group(title, about)
        for option in shared.split(", ") if shared else ():
            add_fields(parser, [StepSpec], option, group=group, default=_DEFAULTS.get(option, ""))
        if topic:
            parser.topics[title] = topic
        for flag, text, more in options:
            default = getattr(ServingPolicy, flag[2:].replace("-", "_"), None)
            said = "" if "(default:" in text or default is None else f" (default: {default})"
            group.add_argument(flag, help=text + said, **more)
    files = parser.add_argument_group("results")
    files.add_argument(
        "--frames",
        metavar="DIR",
        help="write requests.csv, iterations.csv and gaps.csv (between two tokens)",
    )


def _serve(args: argparse.Namespace) -> Report:
    from astranb.explore import serve
    from astranb.workload.kernels import checkpoint_precision
    from astranb.workload.models import find_model
    from astranb.workload.serving import requests_of

    if args.infra is not None and args.network is not None:
        raise both_given("--infra", "--network", "serve")
    gpu = args.gpu or DEFAULT_GPU
    stored = getattr(find_model(args.model), "weights", "")
    options = {"precision": checkpoint_precision(stored, gpu_named(gpu))}
    options |= typed(args, "precision", "efficiency", "launch", "costs", "kernels", "weights", "power")
    if args.precision in _FOUR_BITS:
        options |= _four_bits(gpu, stored)
    times = times_of(gpu, **options)
    network = network_of(args.infra, args.network, gpu=args.gpu, dimensions=args.dimensions)
    found = serve(
        args.model, requests_of(args.requests), policy=_policy(args, times.gpu.memory_bytes), gpu=times,
        system=args.system, network=network, limit_bytes=_limit(args),
        cache_bytes=_cache_bytes(args, times.gpu.memory_bytes),
        **typed(args, "expert_imbalance", tensor="tp", pipeline="pp"),
    )  # fmt: skip
    if args.frames is not None:
        found.write_frames(args.frames)
    return Report(found.document(), [found.text()])


def _four_bits(gpu: str, stored: str) -> dict[str, str]:
    """Return precision and weights of computing in FP4: that of the checkpoint, else NVFP4."""
    if read_gpu(gpu).library.compute_capability < _BLACKWELL:
        hint = "take --precision fp8; --weights nvfp4 stores parameters in four bits"
        raise InputError(f"{gpu} does not compute in FP4", where="--precision", hint=hint)
    if stored == "mxfp4":
        return {"precision": "bf16", "weights": stored}
    return {"precision": "fp8", "weights": "nvfp4"}


def _cache_bytes(args: argparse.Namespace, memory_bytes: int) -> int:
    """Return the bytes of a number of keys and values: as given, else the engine's."""
    if args.cache_precision is None and args.engine is not None:
        return engine_named(args.engine).cache_bytes(memory_bytes)
    return cache_bytes(args.cache_precision or StepSpec.cache_precision)


def _limit(args: argparse.Namespace) -> int | None:
    """Return the memory of a GPU in bytes, if it is given."""
    return None if args.memory_limit is None else size_bytes(args.memory_limit, where="--memory-limit")


def _policy(args: argparse.Namespace, memory_bytes: int) -> ServingPolicy:
    options = typed(
        args, "instances", "max_batch", "token_budget", "chunked_prefill", "mixed_batches", "overlap",
        "block_size", "reserve_output", "watermark", "memory_fraction", host_ns="host_time",
        front_ns="front_end_time",
        prefill_instances="disaggregate", decode_instances="disaggregate",
    )  # fmt: skip
    for name in {"host_ns", "front_ns"} & options.keys():
        options[name] = time_ps(options[name], where=name) // 1000
    if args.disaggregate is not None:
        parts = args.disaggregate.split(":")
        if len(parts) != 2 or not all(
            part.isascii() and part.isdecimal() and int(part[:9]) > 0 for part in parts
        ):
            what = f"{args.disaggregate[:40]!r} is not P:D"
            raise InputError(what, where="--disaggregate", hint="write 1:3")
        options["prefill_instances"], options["decode_instances"] = (int(part[:9]) for part in parts)
    if args.engine is None:
        return ServingPolicy(**options)
    return engine_named(args.engine).policy(memory_bytes, **options)
