"""What is done with a model in one step: how much of it, in which numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near

from ._parallel import Parallelism

__all__ = ["MODES", "Job"]

_MOST_NODES: Final = 4_000_000
MODES: Final = ("training", "prefill", "decode")


@dataclass(frozen=True)
class Job:
    """One step: of training, or of generating text.

    Parameters
    ----------
    parallelism : Parallelism
    mode : str
        ``training``; ``prefill``: a prompt goes through the model; ``decode``: each sequence grows by
        ``tokens``.
    sequence : int
        Tokens of a sequence; of decoding, those that are there already.
    microbatches : int
        Parts into which a step's batch is cut for the pipeline.
    batch : int
        Sequences of a step, of all replicas.
    tokens : int
        Of decoding: how many are generated, one after another.
    recompute : bool
        Whether backward passes do the forward pass of their layer again (full activation recomputation).
    elementwise : bool
        Whether norms, residuals and the softmax of attention are computations of their own.
    dropout : bool
        Whether it is trained with dropout; goes with ``elementwise``.
    expert_imbalance : float
        Tokens of the busiest expert of a layer, of what they would be were all used alike.
    bytes_each : int
        Of a parameter, activation or gradient: 2 for bfloat16.
    optimizer_bytes : int
        Of a parameter's state that the optimizer keeps: 12 for Adam with a copy in float32.

    Raises
    ------
    InputError
        Something does not fit.

    Examples
    --------
    >>> Job(Parallelism(data=2, pipeline=4), sequence=2048, batch=32, microbatches=8).micro
    2
    """

    parallelism: Parallelism
    sequence: int
    batch: int
    microbatches: int = 1
    mode: str = "training"
    tokens: int = 1
    recompute: bool = False
    elementwise: bool = False
    dropout: bool = False
    expert_imbalance: float = 1.0
    bytes_each: int = 2
    optimizer_bytes: int = 12

    def __post_init__(self) -> None:
        """Check what does not depend on the model."""
        ways = self.parallelism
        if self.mode not in MODES:
            raise InputError(f"unknown mode {self.mode[:40]!r}", where="mode", hint=near(self.mode, MODES))
        for name, most in (("sequence", 1 << 24), ("batch", 1 << 24), ("microbatches", 1 << 16)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"{getattr(self, name)} is out of range", where=name, hint=f"take 1 to {most}"
                )
        for name, most in (("tokens", 1 << 12), ("bytes_each", 8), ("optimizer_bytes", 64)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"{getattr(self, name)} is out of range", where=name, hint=f"take 1 to {most}"
                )
        if self.batch % (ways.data * self.microbatches):
            step = ways.data * self.microbatches
            what = f"{self.batch} sequences are not {ways.data} replicas of {self.microbatches} microbatches"
            hint = f"take a multiple of {step}, as {max(round(self.batch / step), 1) * step}"
            raise InputError(what, where="batch", hint=hint)
        if self.sequence % (ways.context * (ways.tensor if ways.sequence else 1)):
            what = f"{self.sequence} tokens are not divided by context and sequence parallelism"
            raise InputError(what, where="sequence", hint="take a multiple of their degrees")
        if ways.interleave > 1 and self.microbatches % ways.pipeline:
            what = f"{self.microbatches} microbatches on {ways.pipeline} interleaved stages"
            raise InputError(what, where="microbatches", hint=f"take a multiple of {ways.pipeline}")
        if self.dropout and not self.elementwise:
            raise InputError("dropout goes with elementwise", where="dropout", hint="give both")
        if self.mode != "training":
            told = (("zero", ways.zero), ("recompute", self.recompute), ("dropout", self.dropout))
            for name, used in told:
                if used:
                    raise InputError(f"{self.mode} has no use for {name}", where=name, hint="leave it out")
            if ways.interleave > 1:
                what = f"{self.mode} runs no interleaved schedule"
                raise InputError(what, where="interleave", hint="leave it out")
        if self.mode == "decode" and (ways.context > 1 or ways.sequence):
            what = "a single token is not divided by context or sequence parallelism"
            raise InputError(what, where="decode", hint="leave them out")

    @property
    def micro(self) -> int:
        """Sequences of a microbatch, of one replica."""
        return self.batch // (self.parallelism.data * self.microbatches)

    def require(self, nodes: int) -> None:
        """Refuse a rank with more operations than anybody looks at.

        Parameters
        ----------
        nodes : int
            About how many a rank has.

        Raises
        ------
        InputError
        """
        if nodes > _MOST_NODES:
            what = f"about {nodes:,} operations of a rank"
            raise InputError(what, where="microbatches", hint=f"take fewer: at most {_MOST_NODES:,}")

    @property
    def new_tokens(self) -> int:
        """Tokens that the step goes through, of all replicas."""
        return self.batch * (self.tokens if self.mode == "decode" else self.sequence)
