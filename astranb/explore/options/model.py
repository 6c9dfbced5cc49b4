"""A model divided over ranks: the options that ``run`` and ``chakra generate`` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError, near
from astranb.core.limits import MOST_RANKS
from astranb.core.units import size_bytes

from .arguments import flag_of, given, whole

if TYPE_CHECKING:
    from astranb.workload.kernels import HybridMemory, KernelTimes
    from astranb.workload.models import ModelStep

__all__ = [
    "DEGREES",
    "MODEL_OPTIONS",
    "NETWORK_OPTIONS",
    "add_model_options",
    "degrees_of",
    "expanded_memory_of",
    "memory_limit_of",
    "sharing_steps",
    "times_of",
    "traced_degrees",
    "workload_of",
]

_DEGREES: Final = {
    "dp": ("data", "data parallelism: replicas (default: 1)"),
    "tp": ("tensor", "tensor parallelism: parts of each matrix (default: 1)"),
    "pp": ("pipeline", "pipeline parallelism: stages (default: 1)"),
    "cp": ("context", "context parallelism: parts of each sequence, by ring attention (default: 1)"),
    "ep": ("expert", "expert parallelism: data-parallel ranks that share the experts (default: 1)"),
    "interleave": ("interleave", "chunks of layers in each pipeline stage (default: 1)"),
    "zero": ("zero", "ZeRO shards 1: optimizer states, 2: also gradients, 3: also parameters (default: 0)"),
}
DEGREES: Final = {name: parameter for name, (parameter, _) in _DEGREES.items()}
"""Options of degrees of parallelism, and the fields of ``Parallelism``."""
_NUMBERS: Final = {
    "batch": ("batch", "sequences or samples in a step, all replicas (default: 1 per microbatch)"),
    "microbatches": ("microbatches", "parts of a replica's batch (default: 4 per pipeline stage)"),
    "seq": ("sequence", "tokens in a sequence (default: the model's)"),
    "tokens": ("tokens", "decode: tokens to generate (default: 1)"),
    "gradient-bytes": ("gradient_bytes", "of a gradient in sums over replicas and in memory (default: 2)"),
    "experts": ("experts", "experts of a layer in place of its MLP (default: the model's)"),
    "topk": ("top_k", "experts of a token (default: the model's, else 2)"),
    "dispatch-node": ("dispatch_node", "a node's GPUs: send tokens to it once (default: to each expert)"),
}
_FLAGS: Final = {
    "elementwise": "norms, residuals and softmax as operations of their own, nothing fused",
    "dropout": "include dropout in training",
    "uneven": "let --tp not divide heads and widths, so that ranks have different shares",
}
_CHOICES: Final = {
    "recompute": ("none, selective (attention) or full (layers; without a value) (default: none)", "full"),
    "library": ("megatron (fused kernels) or pytorch (not compiled) (default: megatron)", None),
    "attention": ("flash (one kernel), flash1 (its first version) or unfused (default: flash)", None),
    "precision": ("of products with parameters: bf16, fp16 or fp8 (default: bf16)", None),
    "offload": ("to the host, --memory or --expanded-memory: optimizer,parameters,activations or some", None),
    "update": (
        "who updates an offloaded optimizer: host or gpu (default: gpu with a memory, or without --gpu)",
        None,
    ),
}
_SEQUENCE_PARALLEL: Final = "sequence parallelism between the matrices of tensor parallelism"


def _cache_bytes(text: str) -> int:
    if text not in ("bf16", "fp16", "fp8"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither bf16 nor fp8")
    return 1 if text == "fp8" else 2


MODEL_OPTIONS: Final[tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...]] = (
    (
        ("--model",),
        "name, as gpt3-175b ('astranb chakra generate --list' lists them), MODEL.yaml or config.json",
        {},
    ),
    *(
        ((f"--{name}",), text, {"type": whole(0 if name == "zero" else 1, MOST_RANKS), "metavar": "N"})
        for name, (_, text) in (_DEGREES | _NUMBERS).items()
    ),
    (("--sp",), _SEQUENCE_PARALLEL, {"action": "store_true", "default": None}),
    *(((f"--{name}",), text, {"action": "store_true", "default": None}) for name, text in _FLAGS.items()),
    (
        ("--expert-imbalance",),
        "load of the busiest expert relative to the mean (default: 1)",
        {"type": float, "metavar": "F"},
    ),
    (
        ("--expert-capacity",),
        "tokens of every expert relative to the mean: dropped above, padded below (default: no limit)",
        {"type": float, "metavar": "F"},
    ),
    *(
        ((f"--{name}",), text, {} if alone is None else {"nargs": "?", "const": alone})
        for name, (text, alone) in _CHOICES.items()
    ),
    (
        ("--overlap",),
        "overlap with computations: some of tensor,gradients,parameters; none (default: the last two)",
        {"metavar": "LIST"},
    ),
    (
        ("--efficiency",),
        "kernels: as measured; ideal: the roofline; a number: that part of it (default: kernels)",
        {"metavar": "E"},
    ),
    (
        ("--costs",),
        "model of the times of kernels: kernels, or that of a plug-in (default: kernels)",
        {"metavar": "NAME"},
    ),
    (
        ("--cache-precision",),
        "of keys and values in memory: bf16 or fp8 (default: bf16)",
        {"type": _cache_bytes, "metavar": "P"},
    ),
    (
        ("--kernels",),
        "timings of a real GPU's kernels, as benchmarks/kernel_timings.py writes them: fit the GPU to them",
        {"metavar": "FILE.csv"},
    ),
    (("--mode",), "training, prefill or decode (default: training)", {}),
)
"""Flags, help and arguments of ``add_argument``; none has a default here: those of the library apply."""


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a model and divide it."""
    group = parser.add_argument_group(
        "the model", "example: astranb chakra generate --model gpt3-125m --dp 2 --tp 2 --output step"
    )
    for flags, text, more in MODEL_OPTIONS:
        group.add_argument(*flags, help=text, **more)


def workload_of(args: argparse.Namespace, gpu: str | None) -> ModelStep:
    """Make the workload that the options describe.

    Parameters
    ----------
    args : Namespace
    gpu : str, optional
        The GPU that gives the computations durations.
    """
    if _sharing:
        key = _identity(args, gpu)
        if key not in _shared:
            while len(_shared) >= _MOST_SHARED:
                del _shared[next(iter(_shared))]
            _shared[key] = _made(args, gpu)
        return _shared.setdefault(key, _shared.pop(key))  # the last one used is the last one dropped
    return _made(args, gpu)


def _made(args: argparse.Namespace, gpu: str | None) -> ModelStep:
    from astranb.workload.models import Parallelism, workload

    degrees = degrees_of(args)
    numbers = given(
        args, "mode", "expert_imbalance", "expert_capacity", *_FLAGS, *_CHOICES,
        cache_bytes="cache_precision",
        **{parameter: name.replace("-", "_") for name, (parameter, _) in _NUMBERS.items()},
    )  # fmt: skip
    if args.overlap is not None:
        numbers["overlap"] = () if args.overlap == "none" else tuple(args.overlap.split(","))
    # Without a GPU nothing has a duration, and what a host updates would be lost.
    if gpu is None or any(getattr(args, name, None) is not None for name in ("memory", "expanded_memory")):
        numbers.setdefault("update", "gpu")
    times = None
    if gpu is None and args.kernels is not None:
        raise InputError("--kernels needs --gpu", where="kernels", hint="name the GPU that is most like it")
    if gpu is not None:
        times = times_of(args, gpu)
    return workload(args.model, Parallelism(**degrees), gpu=times, **numbers)


@contextmanager
def sharing_steps() -> Iterator[None]:
    """Share the latest steps of models between runs, whatever network and system they are on.

    Writing what ranks do takes longer than simulating it where ranks are alike.
    """
    _sharing.append(True)
    try:
        yield
    finally:
        _sharing.pop()


_MOST_SHARED: Final = 4
_sharing: list[bool] = []
_shared: dict[tuple[Any, ...], ModelStep] = {}


NETWORK_OPTIONS: Final = (
    "infra", "network", "system", "dimensions", "num_queues_per_dim", "injection_scale",
    "rendezvous_protocol", "fidelity", "price",
    "expanded_memory", "expanded_shared", "expanded_streaming", "expanded_placement",
)  # fmt: skip
"""Options that :func:`workload_of` does not read; all others may decide the step."""


def _identity(args: argparse.Namespace, gpu: str | None) -> tuple[Any, ...]:
    """Return what decides a step: its options, and the state of files that they name."""
    values = {name: value for name, value in vars(args).items() if name not in NETWORK_OPTIONS}
    files = [Path(value) for value in values.values() if isinstance(value, str)]
    about = [(one.stat().st_mtime_ns, one.stat().st_size) for one in files if one.is_file()]
    return gpu, repr(sorted(values.items(), key=lambda item: item[0])), *about


def degrees_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the degrees of parallelism that were given, as fields of ``Parallelism``."""
    return given(args, sequence="sp", **{parameter: name for name, parameter in DEGREES.items()})


def traced_degrees(text: str) -> dict[str, Any]:
    """Read the degrees of a traced job, as ``dp=2,tp=4``, as fields of ``Parallelism``."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in DEGREES or not (value.isascii() and value.isdecimal() and len(value) < 8):
            raise InputError(f"no degree {part[:40]!r}", where="--traced", hint="write dp=2,tp=4,pp=2")
        found[DEGREES[name]] = int(value)
    return found


def times_of(args: argparse.Namespace, gpu: str) -> KernelTimes:
    """Return the times of a GPU's kernels that the options describe."""
    from astranb.workload.kernels import KernelTimes, gpu_named, gpu_of_file, read_efficiency

    efficiency = read_efficiency(args.efficiency)
    launch = getattr(args, "launch", None) or "none"
    device = gpu_named(gpu)
    if args.kernels is not None:
        device = gpu_of_file(args.kernels, device).gpu
    return KernelTimes(
        device, args.precision or "bf16", efficiency=efficiency, launch=launch, costs=args.costs or "kernels"
    )


def expanded_memory_of(args: argparse.Namespace, per_node: Callable[[], int]) -> HybridMemory | None:
    """Return the expansion of the GPUs' memory that the options describe.

    Parameters
    ----------
    args : Namespace
    per_node : callable
        Gives the GPUs of a node, which share it with ``--expanded-shared node``.
    """
    more = given(args, "expanded_shared", "expanded_streaming", "expanded_placement")
    if args.expanded_memory is None:
        for name in more:
            what = f"{flag_of(name)} needs --expanded-memory"
            raise InputError(what, where="run", hint="give it, or leave both out")
        return None
    if args.memory_limit == "none":
        what = "--expanded-memory and --memory-limit none exclude each other"
        raise InputError(what, where="run", hint="give the memory of a GPU, or leave it out")
    from astranb.workload.kernels import HybridMemory, MemoryTier

    shared = more.pop("expanded_shared", "gpu")
    if shared not in ("gpu", "node"):
        what = f"{shared[:40]!r} is neither gpu nor node"
        raise InputError(what, where="--expanded-shared", hint=near(shared, ("gpu", "node")))
    local = 0 if args.memory_limit is None else size_bytes(args.memory_limit, where="--memory-limit")
    return HybridMemory(
        MemoryTier.of(args.expanded_memory, "--expanded-memory"),
        local,
        shared_by=per_node() if shared == "node" else 1,
        **{name.removeprefix("expanded_"): value for name, value in more.items()},
    )


def memory_limit_of(args: argparse.Namespace, times: KernelTimes | None) -> int:
    """Return the memory of a GPU in bytes, with its expansion; without a limit more than any has."""
    if times is not None and times.expanded is not None:
        return times.memory_bytes
    if args.memory_limit == "none":
        return 1 << 60
    if args.memory_limit is not None:
        return size_bytes(args.memory_limit, where="--memory-limit")
    assert times is not None  # noqa: S101 - a step that runs has a GPU
    return times.gpu.memory_bytes
