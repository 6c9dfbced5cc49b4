"""The memory of a rank over a step: what it holds, and the activations that wait for their backward pass.

**States.** Parameters take :attr:`Job.bytes_each` bytes, gradients :attr:`Job.gradient_bytes`, the
optimizer :attr:`Job.optimizer_bytes`: 2 + 2 + 12 for Adam with bfloat16 (Rajbhandari et al. 2020, arXiv
1910.02054, section 3.1). ZeRO 1 divides the optimizer over the data-parallel ranks, 2 the gradients too,
3 the parameters too. Training in fp8 keeps a layer's matrices twice, by rows and by columns, a byte each
(Transformer Engine's fp8 parameters); inference in fp8 has them in a byte.

**Activations** of a layer that its backward pass needs, for each token, in numbers of
:attr:`Job.bytes_each` (Korthikanti et al. 2022, arXiv 2205.05198, section 4, where a layer with dropout
and four times its width in the MLP takes ``34 h + 5 a s`` bytes):

* the inputs of both norms, of the projections and of the MLP: ``4 h``; dropout's two masks, a byte each
  (sequence parallelism divides these by the tensor degree);
* queries, keys, values and attention's output; the output of what opens the MLP, and that of its
  activation (tensor parallelism divides them); of experts, for each copy of a token;
* unfused attention: the scores' softmax, and with dropout its mask and output.

In fp8 the inputs of products are kept in a byte.

Recomputing ``full`` layers keeps a layer's input alone, ``selective`` all but the scores,
``ops`` products that are not computed again. A pass's
activations are kept from its forward to its backward pass, in the order of the schedule.

**Buffers**: what a layer works with, parameters and gradients that ZeRO gathers and sums, messages of
stages, and :data:`RUNTIME_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from math import ceil
from typing import Any, Final, NamedTuple

from astranb.core.text_table import aligned
from astranb.core.units import GB
from astranb.workload.kernels import WEIGHTS

from .activations import LayerActivations
from .costs import Costs
from .job import Job
from .schedules import Pass, stage_order
from .transformer import Transformer
from .weights import HEAD, Held, cached_width, of_unit, trained_of_unit, units

__all__ = [
    "MEMORY_PARTS",
    "RUNTIME_BYTES",
    "RankMemory",
    "StageMemory",
    "UnitMemory",
    "memory_lines",
    "rank_memory",
    "schedule",
    "step_memory",
]

RUNTIME_BYTES: Final = 2 << 30
"""The driver's context, workspaces of libraries, and buffers of collectives; assumed."""

MEMORY_PARTS: Final = {
    "weights": "parameters",
    "gradients": "sums of the parameters' gradients",
    "optimizer": "the optimizer's state",
    "activations": "what backward passes still need",
    "cache": "keys and values of all sequences",
    "buffers": "what a layer works with, messages, and libraries",
}
"""Purposes of memory."""

_LOGIT_BYTES: Final = 6
"""A logit in bfloat16, and its softmax in float32."""


@dataclass(frozen=True)
class RankMemory:
    """The memory of a rank of one stage at its fullest moment, in bytes.

    Attributes
    ----------
    stage : int
    weights, gradients, optimizer, activations, cache, buffers : int
        As :data:`MEMORY_PARTS` says.
    """

    stage: int
    weights: int
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    cache: int = 0
    buffers: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.parts.values())

    @property
    def total_GB(self) -> float:  # noqa: N802 - unit in the name
        """:attr:`total` in units of 10^9 bytes."""
        return self.total / GB

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by what they are for."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "stage"}

    @property
    def parts_GB(self) -> dict[str, float]:  # noqa: N802 - unit in the name
        """:attr:`parts` in units of 10^9 bytes."""
        return {name: size / GB for name, size in self.parts.items()}

    def document(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return {**asdict(self), "total": self.total}


def schedule(job: Job, stage: int, most: int | None = None) -> list[Pass]:
    """Return the passes of a stage in their order: its schedule's, or forward passes of inference.

    Parameters
    ----------
    job : Job
    stage : int
    most : int, optional
        Microbatches; default: all of them.
    """
    degrees = job.parallelism
    if job.mode == "training":
        count = job.microbatches if most is None else min(most, job.microbatches)
        return stage_order(degrees, stage, count)
    return [Pass(is_forward=True, chunk=0, micro=micro) for micro in range(job.microbatches)]


def step_memory(model: Transformer, job: Job) -> list[RankMemory]:
    """Return the memory of a rank of each stage.

    Parameters
    ----------
    model : Transformer
    job : Job

    Examples
    --------
    >>> from astranb import models
    >>> job = models.Job(models.Parallelism(data=8, zero=1), sequence=8192, batch=8)
    >>> [round(one.total_GB) for one in step_memory(models.MODELS["llama3-8b"], job)]
    [89]
    """
    return [rank_memory(model, job, stage) for stage in range(job.parallelism.pipeline)]


def rank_memory(model: Transformer, job: Job, stage: int) -> RankMemory:
    """Return the memory of a rank of one stage at its fullest moment."""
    held = StageMemory(model, job, stage)
    activations, cache, buffers = held.fullest()
    return RankMemory(stage, held.weights, held.gradients, held.optimizer, activations, cache, buffers)


def memory_lines(found: Sequence[RankMemory], limit_bytes: int) -> list[str]:
    r"""Write what a rank of each stage holds at its fullest moment, in GB, and what is free.

    Stages that hold the same are one line.

    Examples
    --------
    >>> from astranb import models
    >>> job = models.Job(models.Parallelism(pipeline=2), 2048, 4, 4)
    >>> print("\n".join(memory_lines(step_memory(models.MODELS["gpt3-1.3b"], job), 80 * GB)))
    stage  weights  gradients  optimizer  activations  cache  buffers  total  free
    0          1.4        1.4        8.5          3.2    0.0      2.2   16.8  63.2
    1          1.4        1.4        8.5          2.2    0.0      2.2   15.8  64.2
    """
    rows: list[list[str]] = []
    for one in found:
        sizes = [*one.parts.values(), one.total, limit_bytes - one.total]
        cells = [f"{size / GB:,.1f}" for size in sizes]
        if rows and rows[-1][1:] == cells:
            rows[-1][0] = f"{rows[-1][0].partition('-')[0]}-{one.stage}"
        else:
            rows.append([str(one.stage), *cells])
    return aligned(["stage", *MEMORY_PARTS, "total", "free"], rows)


class UnitMemory(NamedTuple):
    """Memory that a unit of a pass holds, in bytes.

    Attributes
    ----------
    kept : int
        Activations, from the forward pass to the end of the unit's backward pass.
    cached : int
        Keys and values that the unit adds.
    working : int
        Buffers while it is computed, besides :attr:`StageMemory.around`.
    """

    kept: int
    cached: int
    working: int


class StageMemory:
    """Memory of the ranks of one stage: states all the time, the rest as passes need it.

    Parameters
    ----------
    model : Transformer
    job : Job
    stage : int
        Its number, from 0.
    part : int
        The rank's number in its tensor group; the first one has the most.

    Examples
    --------
    >>> from astranb import models
    >>> job = models.Job(models.Parallelism(data=8, zero=3), 8192, 8)
    >>> held = StageMemory(models.MODELS["llama3-8b"], job, 0)
    >>> held.weights == held.gradients, round(held.optimizer / GB), len(held.forward(0))
    (True, 12, 34)
    """

    def __init__(self, model: Transformer, job: Job, stage: int, part: int = 0) -> None:
        self.model, self.job, self.stage, self.part = model, job, stage, part
        self.degrees, self.costs = job.parallelism, Costs(model, job, part)
        self.of_layers = LayerActivations(model, job, part)
        self._keys = units(model, self.degrees, stage)
        self._divided = self.degrees.tensor if self.degrees.sequence else 1
        self._known: dict[int, Held] = {}
        self._units: dict[int, UnitMemory] = {}
        self._layers = self._sum(key for keys in self._keys for key in keys if key >= 0)
        self._ends = self._sum(key for keys in self._keys for key in keys if key < 0)
        self._trained = self._layers.plus(self._ends)
        if job.lora:
            self._trained = Held()
            for key in (key for keys in self._keys for key in keys):
                self._trained = self._trained.plus(trained_of_unit(model, self.degrees, key, part, job.lora))

    # States

    def _of(self, key: int) -> Held:
        """Return the parameters of a unit; layers are of few kinds."""
        kind = self._kind(key)
        if kind not in self._known:
            self._known[kind] = of_unit(self.model, self.degrees, key, self.part)
        return self._known[kind]

    def _kind(self, key: int) -> int:
        return key if key < 0 else self.model.has_experts(key) + 2 * self.model.is_windowed(key)

    def _sum(self, keys: Iterable[int]) -> Held:
        found = Held()
        for key in keys:
            found = found.plus(self._of(key))
        return found

    def _share(self, held: Held, zero: int) -> int:
        """Return a rank's parameters of some, if ZeRO divides them from a stage on."""
        if self.degrees.zero < zero:
            return held.shared + held.experts
        shared, experts = (self.degrees.size(name) for name in ("data", "expert data"))
        return -(-held.shared // shared) - (-held.experts // experts)

    @property
    def weights(self) -> int:
        """Bytes of parameters on the GPU."""
        return 0 if self.job.offloads("parameters") else self._parameters

    @property
    def _parameters(self) -> int:
        job = self.job
        ends = job.bytes_each * self._share(self._ends, 3)
        ends += job.bytes_each * self._share(self._trained, 3) if job.lora else 0
        if job.weights in WEIGHTS:
            return job.layer_bytes(self._layers.shared, self._layers.experts) + ends
        return ceil(job.weight_bytes * self._share(self._layers, 3)) + ends

    @property
    def gradients(self) -> int:
        """Bytes of gradients, which are kept from step to step."""
        training = self.job.mode == "training"
        return self.job.gradient_bytes * self._share(self._trained, 2) if training else 0

    @property
    def optimizer(self) -> int:
        """Bytes of the optimizer's state on the GPU."""
        return 0 if self.job.offloads("optimizer") else self._state

    @property
    def _state(self) -> int:
        training = self.job.mode == "training"
        return self.job.optimizer_bytes * self._share(self._trained, 1) if training else 0

    @property
    def offloaded(self) -> int:
        """Bytes outside the GPU at the fullest moment."""
        found = self._parameters - self.weights + self._state - self.optimizer
        if self.job.offloads("activations"):
            inside = StageMemory(self.model, replace(self.job, offload="none"), self.stage, self.part)
            found += max(0, inside.fullest()[0] - self.fullest()[0])
        return found

    @property
    def cached(self) -> int:
        """Bytes of keys and values before the step: decoding has those of the prompts."""
        job = self.job
        if job.mode != "decode":
            return 0
        tokens = sum(self.model.seen(key, job.sequence) for keys in self._keys for key in keys if key >= 0)
        return job.microbatches * self._cache_of(job.micro * tokens)

    def _cache_of(self, tokens: int) -> int:
        """Bytes of a layer's keys and values of some tokens."""
        return tokens * cached_width(self.model, self.degrees.tensor, self.part) * self.job.cache_bytes

    # Activations

    def _unit(self, key: int) -> UnitMemory:
        """Return what a unit holds without its parameters and their gradients."""
        m, job, tokens = self.model, self.job, self.costs.tokens
        training = job.mode == "training"
        if key == HEAD and training:
            return UnitMemory(
                _LOGIT_BYTES * tokens * self.costs.words + 2 * self.costs.activation // self._divided, 0, 0
            )
        if key < 0:
            return UnitMemory(0, 0, 0)
        whole = self.of_layers.layer(experts=m.has_experts(key))
        kept = self.of_layers.kept(experts=m.has_experts(key)) if training else 0
        if self.job.offloads("activations"):
            # Those of this layer, and of the one whose activations come or go meanwhile.
            return UnitMemory(0, 0, whole + kept)
        if training:
            return UnitMemory(kept, 0, whole - kept)
        more = m.seen(key, job.sequence + 1) - m.seen(key, job.sequence) if job.mode == "decode" else 1
        added = min(tokens, job.micro * m.window) if m.is_windowed(key) else tokens
        return UnitMemory(0, self._cache_of(added * more), whole)

    @property
    def around(self) -> int:
        """Bytes of buffers all the time."""
        found = RUNTIME_BYTES + 2 * self.costs.activation
        if self.job.updates_by_units:
            # The state of one unit is updated while that of the next one comes.
            shares = [self._share(self._of(key), 1) for keys in self._keys for key in keys]
            found += 2 * self.job.optimizer_bytes * max(shares)
        if self.degrees.pipeline > 1:
            found += 4 * self.costs.message
        if self.degrees.context > 1:
            found += 4 * self.costs.cache_block
        return found

    def forward(self, chunk: int) -> list[UnitMemory]:
        """Return the memory of each unit of a chunk's forward pass, in their order."""
        return self._pass(self._keys[chunk], bucket=0)

    def backward(self, chunk: int) -> list[UnitMemory]:
        """Return the same of the backward pass, the last unit first; ``kept`` is freed at its end."""
        bucket = self.job.gradient_bytes if self.degrees.zero > 1 else 0
        return self._pass(self._keys[chunk][::-1], bucket=bucket)

    def _pass(self, keys: list[int], *, bucket: int) -> list[UnitMemory]:
        comes = self.degrees.zero > 2 or self.job.offloads("parameters")
        gathered = self.job.bytes_each if comes else 0
        sizes = [0, *(sum(self._of(key)) for key in keys), 0]
        for key in keys:
            kind = self._kind(key)
            if kind not in self._units:
                self._units[kind] = self._unit(key)
        found = []
        for at, key in enumerate(keys, 1):
            one = self._units[self._kind(key)]
            # Parameters of the next unit come meanwhile, gradients of the one before summed.
            more = gathered * (sizes[at] + sizes[at + 1]) + bucket * (sizes[at - 1] + sizes[at])
            found.append(one._replace(working=one.working + more))
        return found

    def fullest(self) -> tuple[int, int, int]:
        """Return activations, cache and buffers when their sum is largest."""
        chunks = range(len(self._keys))
        if self.job.mode != "training":
            # Of the last pass, at the end of which the cache is full.
            tokens = self.job.tokens if self.job.mode == "decode" else 1
            each = self.forward(0)
            cache = self.cached + (self.job.microbatches * tokens - 1) * sum(one.cached for one in each)
            held = [(0, now + cache, working) for now, working in _running(each, "cached")]
        else:
            rises = [max(_running(self.forward(chunk)), key=sum, default=(0, 0)) for chunk in chunks]
            falls = [max(_running(self.backward(chunk)[::-1]), key=sum, default=(0, 0)) for chunk in chunks]
            sizes = [sum(one.kept for one in self.forward(chunk)) for chunk in chunks]
            held, now = [], 0
            # Once the pipeline is full, a cycle of as many microbatches as stages repeats.
            for one in schedule(self.job, self.stage, 4 * self.degrees.pipeline):
                # What gradients of parameters need is kept until they are computed, all of it.
                kept = not one.is_forward and self.degrees.splits_backward
                now -= 0 if one.is_forward or (kept and not one.is_weights) else sizes[one.chunk]
                more, working = (rises if one.is_forward else falls)[one.chunk]
                if kept:
                    more, working = (sizes[one.chunk], 0) if one.is_weights else (0, working)
                held.append((now + more, 0, working))
                now += sizes[one.chunk] if one.is_forward else 0
        activations, cache, working = max(held, key=sum, default=(0, self.cached, 0))
        return activations, cache, working + self.around


def _running(each: list[UnitMemory], name: str = "kept") -> list[tuple[int, int]]:
    """Return what units up to each one have added, and what this one works with."""
    sums = accumulate(getattr(one, name) for one in each)
    return list(zip(sums, (one.working for one in each), strict=True))
