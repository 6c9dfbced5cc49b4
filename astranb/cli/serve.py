"""``astranb serve``: requests through a model by continuous batching."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from astranb.core.errors import InputError
from astranb.core.units import size_bytes, time_ps
from astranb.explore.options import MODEL_OPTIONS, given, network_of, positive, times_of, whole
from astranb.hardware import DEFAULT_GPU

from .arguments import add_command
from .printing import Report

if TYPE_CHECKING:
    from astranb.workload.serving import ServingPolicy

__all__ = ["add_commands"]

_SHARED: Final = (
    "--model", "--tp", "--pp", "--precision", "--cache-precision", "--expert-imbalance", "--efficiency",
    "--costs", "--kernels",
)  # fmt: skip
_Options: TypeAlias = tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...]
_MACHINE: _Options = (
    (("--gpu",), f"GPU preset or its file (default: {DEFAULT_GPU})", {}),
    (("--launch",), "how kernels are launched: none, graph or stream (default: none)", {}),
    (("--memory-limit",), "memory of a GPU (default: the GPU's)", {"metavar": "SIZE"}),
    (("--network",), "network.yml of ASTRA-sim 2.0, of all GPUs", {"metavar": "FILE"}),
    (("--infra",), "InfraGraph file, or blueprint, of all GPUs", {}),
    (("--dimensions",), "GPUs in each dimension, with --infra", {"metavar": "8x4"}),
    (("--system",), "system.json of ASTRA-sim 2.0", {"metavar": "FILE"}),
)
_COUNT: Final[dict[str, Any]] = {"type": whole(1, 1 << 24), "metavar": "N"}
_POLICY: _Options = (
    (("--instances",), "copies of the model, of --tp times --pp GPUs each (default: 1)", _COUNT),
    (
        ("--disaggregate",),
        "P copies compute prompts, D others decode (default: each both)",
        {"metavar": "P:D"},
    ),
    (("--max-batch",), "requests that a copy works on at once (default: 256)", _COUNT),
    (("--token-budget",), "tokens of an iteration, at most (default: 8192)", _COUNT),
    (
        ("--chunked-prefill",),
        "compute prompts in parts, in iterations that decode too (default: yes)",
        {"action": argparse.BooleanOptionalAction, "default": None},
    ),
    (("--block-size",), "tokens of a block of keys and values (default: 16)", _COUNT),
    (
        ("--reserve-output",),
        "admit a request only when there are blocks for all of its tokens: no preemptions (default: no)",
        {"action": "store_true", "default": None},
    ),
    (
        ("--watermark",),
        "part of the blocks kept free at admission (default: 0.01)",
        {"type": float, "metavar": "F"},
    ),
    (
        ("--memory-fraction",),
        "part of a GPU's memory to use (default: 0.9)",
        {"type": positive, "metavar": "F"},
    ),
    (
        ("--host-time",),
        "of the host between two iterations, as '200 us' (default: 1.3 ms)",
        {"metavar": "TIME"},
    ),
    (
        ("--front-end-time",),
        "of the server before a request is scheduled, besides its tokenizer; 0: none (default: 6.4 ms)",
        {"metavar": "TIME"},
    ),
)
_EXAMPLE: Final = "poisson:rate=4,prompt=1024,output=256,count=500,seed=1"
_USAGE: Final = "astranb serve --model MODEL --requests REQUESTS [options]"


def add_commands(commands: Any) -> None:
    """Add ``serve`` to the command line."""
    parser = add_command(
        commands,
        "serve",
        "serve a model: requests through continuous batching",
        _serve,
        usage=_USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    asked = parser.add_argument_group("the requests", f"example: --requests {_EXAMPLE}")
    asked.add_argument(
        "--requests",
        required=True,
        metavar="REQUESTS",
        help="poisson, constant, offline or closed, ':' and rate= (of poisson and constant, per second), "
        "users= (of closed), prompt=, output= (tokens: N, LOW-HIGH, exponential(MEAN) or "
        "lognormal(MEDIAN:SIGMA)), count=, seed=; or a file REQUESTS.csv (arrival_s,prompt,output)",
    )
    model = parser.add_argument_group("the model and its GPUs", "example: --model llama3-70b --tp 8")
    policy = parser.add_argument_group("the policy", "example: --max-batch 128 --token-budget 2048")
    shared = [
        (flags, text, {**more, "required": flags[0] == "--model"})
        for flags, text, more in MODEL_OPTIONS
        if flags[0] in _SHARED
    ]
    for group, options in ((model, [*shared, *_MACHINE]), (policy, _POLICY)):
        for flags, text, more in options:
            group.add_argument(*flags, help=text, **more)
    files = parser.add_argument_group("results", "example: --frames results")
    files.add_argument(
        "--frames",
        metavar="DIR",
        help="write requests.csv, iterations.csv and gaps.csv (times between two tokens)",
    )


def _serve(args: argparse.Namespace) -> Report:
    from astranb.explore import serve
    from astranb.workload.serving import requests_of

    if args.infra is not None and args.network is not None:
        raise InputError(
            "--infra and --network exclude each other", where="serve", hint="leave one of them out"
        )
    if args.dimensions is not None and args.infra is None:
        raise InputError("--dimensions needs --infra", where="serve", hint="leave it out")
    times = times_of(args, args.gpu or DEFAULT_GPU)
    found = serve(
        args.model, requests_of(args.requests), tensor=args.tp or 1, pipeline=args.pp or 1,
        policy=_policy(args), gpu=times,
        system=args.system, network=network_of(args), limit_bytes=_limit(args),
        **given(args, "expert_imbalance", cache_bytes="cache_precision"),
    )  # fmt: skip
    if args.frames is not None:
        found.write_frames(args.frames)
    return Report(found.document(), [found.text()])


def _limit(args: argparse.Namespace) -> int | None:
    """Return the memory of a GPU in bytes, if it is given."""
    return None if args.memory_limit is None else size_bytes(args.memory_limit, where="--memory-limit")


def _policy(args: argparse.Namespace) -> ServingPolicy:
    from astranb.workload.serving import ServingPolicy

    options = given(
        args, "instances", "max_batch", "token_budget", "chunked_prefill", "block_size", "reserve_output",
        "watermark", "memory_fraction",
    )  # fmt: skip
    for field, flag in (("host_ns", "--host-time"), ("front_ns", "--front-end-time")):
        value = getattr(args, flag[2:].replace("-", "_"))
        if value is not None:
            options[field] = time_ps(value, where=flag) // 1000
    if args.disaggregate is not None:
        parts = args.disaggregate.split(":")
        if len(parts) != 2 or not all(
            part.isascii() and part.isdecimal() and int(part[:9]) > 0 for part in parts
        ):
            what = f"{args.disaggregate[:40]!r} is not P:D"
            raise InputError(what, where="--disaggregate", hint="write 1:3")
        options["prefill_instances"], options["decode_instances"] = (int(part[:9]) for part in parts)
    return ServingPolicy(**options)
