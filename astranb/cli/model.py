"""A model divided over ranks: the options that ``run`` and ``chakra generate`` share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from .arguments import given, whole

if TYPE_CHECKING:
    from astranb.workload.models import ModelStep, Roofline

__all__ = ["MODEL_OPTIONS", "add_model_options", "workload_of"]

_MOST: Final = 1 << 20
_DEGREES: Final = {
    "dp": ("data", "data parallelism: replicas (default: 1)"),
    "tp": ("tensor", "tensor parallelism: parts of each matrix (default: 1)"),
    "pp": ("pipeline", "pipeline parallelism: stages (default: 1)"),
    "cp": ("context", "context parallelism: parts of each sequence, by ring attention (default: 1)"),
    "ep": ("expert", "expert parallelism: data-parallel ranks that share the experts (default: 1)"),
    "interleave": ("interleave", "chunks of layers in each pipeline stage (default: 1)"),
    "zero": ("zero", "ZeRO shards 1: optimizer states, 2: also gradients, 3: also parameters (default: 0)"),
}
_NUMBERS: Final = {
    "batch": ("batch", "sequences or samples in a step, all replicas (default: 1 per microbatch)"),
    "microbatches": ("microbatches", "parts of a replica's batch (default: 4 per pipeline stage)"),
    "seq": ("sequence", "tokens in a sequence (default: the model's)"),
    "tokens": ("tokens", "decode: tokens to generate (default: 1)"),
}
_FLAGS: Final = {
    "recompute": "recompute activations in the backward pass",
    "elementwise": "include norms, residuals and softmax, each a pass over memory of its own",
    "dropout": "with --elementwise: include dropout in training",
}
_SEQUENCE_PARALLEL: Final = "sequence parallelism between the matrices of tensor parallelism"

MODEL_OPTIONS: Final[tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...]] = (
    (("--model",), "name, as gpt3-175b ('astranb chakra generate --list' lists them), or MODEL.yaml", {}),
    *(
        ((f"--{name}",), text, {"type": whole(0 if name == "zero" else 1, _MOST), "metavar": "N"})
        for name, (_, text) in (_DEGREES | _NUMBERS).items()
    ),
    (("--sp",), _SEQUENCE_PARALLEL, {"action": "store_true", "default": None}),
    *(((f"--{name}",), text, {"action": "store_true", "default": None}) for name, text in _FLAGS.items()),
    (
        ("--expert-imbalance",),
        "load of the busiest expert relative to the mean (default: 1)",
        {"type": float, "metavar": "F"},
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


def workload_of(args: argparse.Namespace, gpu: Roofline | None) -> ModelStep:
    """Make the workload that the options describe.

    Parameters
    ----------
    args : Namespace
    gpu : Roofline, optional
        Gives the computations durations.
    """
    from astranb.workload.models import Parallelism, workload

    degrees = given(args, sequence="sp", **{parameter: name for name, (parameter, _) in _DEGREES.items()})
    numbers = given(
        args, "mode", "expert_imbalance", *_FLAGS,
        **{parameter: name for name, (parameter, _) in _NUMBERS.items()},
    )  # fmt: skip
    return workload(args.model, Parallelism(**degrees), gpu=gpu, **numbers)
