"""The job of one step: training or inference, its batch, sequences and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from astranb.chakra.scaling import Parallelism, take_divisor
from astranb.core.errors import InputError, near
from astranb.workload.kernels import NUMBER_BYTES, PRECISIONS, WEIGHTS

__all__ = ["ATTENTION", "LIBRARIES", "MODES", "OFFLOADS", "OVERLAPS", "RECOMPUTE", "UPDATES", "Job"]

_MOST_NODES: Final = 4_000_000
_LIMITS: Final = {
    "sequence": 1 << 24, "batch": 1 << 24, "microbatches": 1 << 16, "tokens": 1 << 12, "bytes_each": 8,
    "optimizer_bytes": 64, "gradient_bytes": 8, "cache_bytes": 2, "dispatch_node": 1 << 20,
    "lora": 1 << 12,
}  # fmt: skip
MODES: Final = ("training", "prefill", "decode")
RECOMPUTE: Final = ("none", "selective", "ops", "full")
ATTENTION: Final = ("flash", "flash1", "fp8", "unfused")
LIBRARIES: Final = ("megatron", "pytorch")
OVERLAPS: Final = ("tensor", "gradients", "parameters")
OFFLOADS: Final = ("optimizer", "parameters", "activations")
UPDATES: Final = ("host", "gpu")


@dataclass(frozen=True)
class Job:
    """One step: of training, or of generating text.

    Parameters
    ----------
    parallelism : Parallelism
    mode : str
        ``training``; ``prefill``: the model reads a prompt; ``decode``: each sequence grows by
        ``tokens``.
    sequence : int
        Tokens of a sequence; for decoding, those before the generated ones.
    microbatches : int
        Parts of a step's batch for the pipeline.
    batch : int
        Sequences of a step, over all replicas.
    tokens : int
        Tokens that decoding generates, one after another.
    recompute : str or bool
        What backward passes compute again: ``none``, ``selective`` (the core of attention; Korthikanti et
        al. 2022, arXiv 2205.05198), ``ops`` (passes between products and every second product, as
        torchtitan's selective checkpointing of operations), ``full`` (the forward pass of their layer); True
        is ``full``.
    attention : str
        ``flash``: in one kernel (FlashAttention); ``flash1``: by its first version, in Triton; ``fp8``:
        in one kernel and in fp8; ``unfused``:
        with its scores in memory.
    precision : str
        Of products with parameters: ``bf16``, ``fp16``, ``fp8`` or ``fp4`` (NVFP4).
    overlap : tuple of str
        Collectives that overlap with computations which do not need them: ``tensor`` (the product that
        makes or needs their data, a part at a time), ``gradients`` (backward passes), ``parameters`` (the
        first forward passes of the next step).
    offload : str
        What a memory outside the GPU holds: ``none``, or some of ``optimizer``, ``parameters`` and
        ``activations``, separated by commas (ZeRO-Infinity; Rajbhandari et al. 2021, arXiv 2104.07857).
        Parameters of a layer are loaded before each of its passes, while the layer before computes, and
        stored after the update; what a layer's backward pass needs is stored after its forward pass and
        loaded again while the layer behind computes. Loads and stores of a rank are done one after another.
    uneven : bool
        Whether tensor parallelism need not divide heads and widths: ranks then have different shares.
    update : str
        Who updates an offloaded optimizer's state: the ``host``'s cores, or the ``gpu``. For the host's
        cores gradients go there and parameters come back over the host's link, after the last backward pass
        and before the step ends, nothing of it overlapped (:class:`astranb.hardware.Host`). The GPU
        loads the state of a layer while it updates that of the one before, and stores it.
    library : str
        Whose kernels are around the matrices: ``megatron`` (Megatron-LM with Transformer Engine, and compiled
        PyTorch: one for a norm, an activation, positions) or ``pytorch`` (PyTorch without compilation: one
        for each operation in it, FlashAttention-2, an optimizer of many passes; :mod:`.costs`). Default: the
        plan decides (:attr:`framework`).
    elementwise : bool
        Whether norms, residuals and the softmax of attention are computations of their own, and not
        kernels of their neighbours; attention is ``unfused`` then.
    dropout : bool
        Whether to train with dropout.
    expert_imbalance : float
        Tokens of the busiest expert of a layer, relative to the mean.
    expert_capacity : float
        Tokens that every expert takes, relative to the mean: more are dropped, fewer are padded (GShard;
        Lepikhin et al. 2020, arXiv 2006.16668, section 2.2; Fedus et al. 2021, arXiv 2101.03961). So
        exchanges and experts have that many times the mean, however tokens are distributed; 0: no limit.
    dispatch_node : int
        GPUs of a node: a token is sent once to each node that has some of its experts, and to each GPU inside
        its own, as DeepEP and HybridEP do; 0: once to each expert, by a plain all-to-all.
    bytes_each : int
        Bytes of a parameter, activation or gradient: 2 for bfloat16.
    optimizer_bytes : int
        Bytes of the optimizer's state per parameter: 12 for Adam with a copy in float32.
    gradient_bytes : int
        Bytes of a parameter's gradient, in memory and as replicas sum it: 4 for PyTorch's FSDP with
        ``reduce_dtype`` float32.
    weights : str
        One of :data:`astranb.workload.kernels.WEIGHTS`, in which inference stores the parameters of layers:
        ``mxfp4`` those of experts, ``nvfp4`` all. ``none``, or empty: as ``precision``.
    lora : int
        Rank of the adapters that are trained instead of the model (LoRA; Hu et al. 2021, arXiv 2106.09685),
        of the matrices of attention: of queries, keys and values together, and of the output. Dropout comes
        before them. 0: the model is trained.
    cache_bytes : int
        Bytes of a number in the cache of keys and values: 2 for bfloat16, 1 for fp8.

    Raises
    ------
    InputError
        The values do not fit together.

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
    recompute: str | bool = "none"
    elementwise: bool = False
    dropout: bool = False
    expert_imbalance: float = 1.0
    bytes_each: int = 2
    optimizer_bytes: int = 12
    gradient_bytes: int = 2
    attention: str = "flash"
    precision: str = "bf16"
    overlap: tuple[str, ...] = ("gradients", "parameters")
    offload: str = "none"
    cache_bytes: int = 2
    library: str = ""
    dispatch_node: int = 0
    expert_capacity: float = 0.0
    update: str = "host"
    uneven: bool = False
    weights: str = ""
    lora: int = 0

    def __post_init__(self) -> None:
        """Check what does not depend on the model."""
        degrees = self.parallelism
        if isinstance(self.recompute, bool):
            object.__setattr__(self, "recompute", "full" if self.recompute else "none")
        for name, known in (
            ("mode", MODES), ("recompute", RECOMPUTE), ("attention", ATTENTION), ("update", UPDATES),
            ("precision", PRECISIONS), ("library", LIBRARIES),
        ):  # fmt: skip
            value = str(getattr(self, name))
            if value not in known and (name, value) != ("library", ""):
                raise InputError(f"unknown {name} {value[:40]!r}", where=name, hint=near(value, known))
        for one in self.overlap:
            if one not in OVERLAPS:
                raise InputError(f"unknown overlap {one[:40]!r}", where="overlap", hint=near(one, OVERLAPS))
        for one in self.offload.split(","):
            if one not in OFFLOADS and self.offload != "none":
                hint = near(one, ("none", *OFFLOADS))
                raise InputError(f"unknown offload {one[:40]!r}", where="offload", hint=hint)
        if self.offloads("parameters") and degrees.zero in (1, 2):
            what = f"ZeRO {degrees.zero} keeps all parameters on every GPU"
            raise InputError(what, where="offload", hint="offload parameters with ZeRO 3, or without")
        if self.expert_capacity and (self.expert_imbalance != 1 or self.dispatch_node):
            what = "with a capacity every expert takes as many tokens, from each rank"
            hint = "leave expert_imbalance and dispatch_node out"
            raise InputError(what, where="expert_capacity", hint=hint)
        for name, most in _LIMITS.items():
            value = getattr(self, name)
            least = 0 if name in ("dispatch_node", "lora") else 1
            if not least <= value <= most:
                raise InputError(f"{value} is out of range", where=name, hint=f"take {least} to {most}")
        if self.batch % (degrees.data * self.microbatches):
            step = degrees.data * self.microbatches
            what = (
                f"{self.batch} sequences are not {degrees.data} replicas of {self.microbatches} microbatches"
            )
            hint = f"take a multiple of {step}, as {max(round(self.batch / step), 1) * step}"
            raise InputError(what, where="batch", hint=hint)
        parts = degrees.context * (degrees.tensor if degrees.sequence else 1)
        if self.sequence % parts:
            of = " and tensor" if degrees.sequence else ""
            what = (
                f"{parts} parts (context{of} parallelism) do not divide a sequence of {self.sequence} tokens"
            )
            hint = f"{take_divisor(self.sequence)} parts, or a multiple of {parts} tokens, as "
            hint += f"{max(round(self.sequence / parts), 1) * parts}"
            raise InputError(what, where="sequence", hint=hint)
        if degrees.interleave > 1 and not degrees.is_vee and self.microbatches % degrees.pipeline:
            what = (
                f"{self.microbatches} microbatches do not divide among {degrees.pipeline} interleaved stages"
            )
            raise InputError(what, where="microbatches", hint=f"take a multiple of {degrees.pipeline}")
        if self.weights not in ("", "none", *WEIGHTS):
            what = f"unknown weights {self.weights[:40]!r}"
            raise InputError(what, where="weights", hint=near(self.weights, ("none", *WEIGHTS)))
        if self.weights in WEIGHTS and self.mode == "training":
            what = "weights in four bits do not apply to training"
            raise InputError(what, where="weights", hint="leave it out")
        if self.mode == "training" and self.cache_bytes != 2:
            what = "a cache of keys and values does not apply to training"
            raise InputError(what, where="cache_bytes", hint="leave it out")
        if self.mode != "training":
            options = (
                ("zero", degrees.zero),
                ("recompute", self.recompute != "none"),
                ("dropout", self.dropout),
                ("lora", self.lora > 0),
                ("offload", self.offload not in ("none", "parameters")),
            )
            for name, used in options:
                if used:
                    raise InputError(f"{name} does not apply to {self.mode}", where=name, hint="leave it out")
            if degrees.splits_backward:
                what = f"{self.mode} has no backward passes, and so no schedule {degrees.schedule}"
                raise InputError(what, where="schedule", hint="leave it out")
            if degrees.interleave > 1:
                what = f"{self.mode} has no interleaved schedule"
                raise InputError(what, where="interleave", hint="leave it out")
        if self.mode == "decode" and (degrees.context > 1 or degrees.sequence):
            what = "context and sequence parallelism cannot divide a single token"
            raise InputError(what, where="decode", hint="leave them out")

    @property
    def framework(self) -> str:
        """The library whose kernels are used: PyTorch's for its FSDP, ZeRO 3.

        torchtitan's runs on H100 and H200 take what PyTorch's kernels do, compiled though they are, with
        tensor parallelism too (docs/steps.md).

        Examples
        --------
        >>> Job(Parallelism(data=8, zero=3), 2048, 8).framework
        'pytorch'
        """
        return self.library or ("pytorch" if self.parallelism.zero == 3 else "megatron")

    @property
    def micro(self) -> int:
        """Sequences of a microbatch of one replica."""
        return self.batch // (self.parallelism.data * self.microbatches)

    @property
    def weight_bytes(self) -> Fraction:
        """Bytes of a parameter of a layer in memory: in fp8 by rows and columns, or for inference once.

        Frozen ones have a byte in fp8, and are by rows and columns in fp4. Training in fp4 keeps them in two
        bytes, and makes those that products read of them in each step. Those that inference stores in four
        bits are others (:meth:`layer_bytes`).
        """
        if self.precision == "fp8":
            return Fraction(2 if self.mode == "training" and not self.lora else 1)
        if self.precision == "fp4" and self.lora:
            return 2 * NUMBER_BYTES["fp4"]
        return Fraction(self.bytes_each)

    @property
    def fed_bytes(self) -> Fraction:
        """Bytes of a number that products read, as they are kept for the backward pass."""
        return (
            Fraction(self.bytes_each) if self.precision in ("bf16", "fp16") else NUMBER_BYTES[self.precision]
        )

    def layer_bytes(self, shared: int, experts: int) -> int:
        """Return the bytes of so many parameters of layers in four bits, of experts and others."""
        size, experts_alone = WEIGHTS[self.weights]
        return ceil(size * experts) + ceil((self.weight_bytes if experts_alone else size) * shared)

    def offloads(self, what: str) -> bool:
        """Return whether a memory outside the GPU holds one of :data:`OFFLOADS`."""
        return what in self.offload.split(",")

    @property
    def updates_by_units(self) -> bool:
        """Whether the GPU loads the optimizer's state, a unit at a time."""
        return self.offloads("optimizer") and self.update == "gpu"

    @property
    def host_updates(self) -> bool:
        """Whether the host's cores update the optimizer's state."""
        return self.offloads("optimizer") and self.update == "host"

    def require(self, nodes: int) -> None:
        """Check that a rank has not too many operations.

        Parameters
        ----------
        nodes : int
            The approximate number of operations of a rank.
        """
        if nodes > _MOST_NODES:
            what = f"too many operations of a rank: about {nodes:,}"
            raise InputError(what, where="microbatches", hint=f"take fewer: at most {_MOST_NODES:,}")

    @property
    def new_tokens(self) -> int:
        """Tokens of the step, over all replicas."""
        return self.batch * (self.tokens if self.mode == "decode" else self.sequence)
