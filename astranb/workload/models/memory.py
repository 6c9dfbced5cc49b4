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

Recomputing ``full`` layers keeps a layer's input alone, ``selective`` all but the scores. A pass's
activations are kept from its forward to its backward pass, in the order of the schedule.

**Buffers**: what a layer works with, parameters and gradients that ZeRO gathers and sums, messages of
stages, and :data:`RUNTIME_BYTES`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from .costs import Costs
from .job import Job
from .pipeline import Pass, one_forward_one_backward
from .transformer import Transformer
from .weights import Held, chunks, of_embedding, of_head, of_layer

__all__ = ["MEMORY_PARTS", "RUNTIME_BYTES", "RankMemory", "rank_memory", "schedule", "step_memory"]

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
"""What memory is for."""

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
    def parts(self) -> dict[str, int]:
        """Bytes by what they are for."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "stage"}

    def document(self) -> dict[str, Any]:
        """Give all numbers by name."""
        return {**asdict(self), "total": self.total}


def schedule(job: Job, stage: int) -> list[Pass]:
    """Give the passes of a stage in their order: 1F1B of training, forward passes of inference."""
    degrees = job.parallelism
    if job.mode == "training":
        return one_forward_one_backward(stage, degrees.pipeline, job.microbatches, degrees.interleave)
    return [Pass(is_forward=True, chunk=0, micro=micro) for micro in range(job.microbatches)]


def step_memory(model: Transformer, job: Job) -> list[RankMemory]:
    """Give the memory of a rank of each stage.

    Parameters
    ----------
    model : Transformer
    job : Job

    Examples
    --------
    >>> from astranb.workload.models import MODELS, Job, Parallelism
    >>> job = Job(Parallelism(data=8, zero=1), sequence=8192, batch=8)
    >>> [round(one.total / 1e9) for one in step_memory(MODELS["llama3-8b"], job)]
    [80]
    """
    return [rank_memory(model, job, stage) for stage in range(job.parallelism.pipeline)]


def rank_memory(model: Transformer, job: Job, stage: int) -> RankMemory:
    """Give the memory of a rank of one stage."""
    held = _Held(model, job, stage)
    one = RankMemory(stage, held.weights, cache=held.cache, buffers=held.buffers)
    if job.mode != "training":
        return one
    return RankMemory(
        stage, held.weights, held.gradients, held.optimizer,
        max(held.alive(), default=0), buffers=held.buffers,
    )  # fmt: skip


class _Held:
    """What the ranks of one stage hold."""

    def __init__(self, model: Transformer, job: Job, stage: int) -> None:
        self.model, self.job, self.stage = model, job, stage
        self.degrees, self.costs = job.parallelism, Costs(model, job)
        self.chunks = chunks(model, self.degrees, stage)
        self._divided = self.degrees.tensor if self.degrees.sequence else 1
        self._kinds = {
            kind: of_layer(model, self.degrees, model.layers - 1 if kind else 0)
            for kind in {model.has_experts(layer) for layers in self.chunks for layer in layers}
        }
        layers = Held()
        for one in self.chunks:
            for layer in one:
                layers = layers.plus(self._kinds[model.has_experts(layer)])
        ends = Held()
        if model.vocab and stage == 0:
            ends = ends.plus(of_embedding(model, self.degrees))
        if model.vocab and self._has_head:
            ends = ends.plus(of_head(model, self.degrees))
        self._layers, self._ends = layers, ends

    @property
    def _has_head(self) -> bool:
        return self.stage == self.degrees.pipeline - 1

    # States

    def _share(self, held: Held, zero: int) -> int:
        """Give a rank's parameters of some, if ZeRO divides them from a stage on."""
        if self.degrees.zero < zero:
            return held.shared + held.experts
        return -(-held.shared // self.degrees.size("data")) - (
            -held.experts // self.degrees.size("expert data")
        )

    @property
    def _all(self) -> Held:
        return self._layers.plus(self._ends)

    @property
    def weights(self) -> int:
        """Bytes of parameters."""
        job = self.job
        each = job.bytes_each
        if job.precision == "fp8":
            each = 2 if job.mode == "training" else 1
        return each * self._share(self._layers, 3) + job.bytes_each * self._share(self._ends, 3)

    @property
    def gradients(self) -> int:
        """Bytes of gradients."""
        return self.job.gradient_bytes * self._share(self._all, 2)

    @property
    def optimizer(self) -> int:
        """Bytes of the optimizer's state on the GPU."""
        return 0 if self.job.offload == "optimizer" else self.job.optimizer_bytes * self._share(self._all, 1)

    @property
    def cache(self) -> int:
        """Bytes of keys and values of a replica's sequences, at the end of the step."""
        job = self.job
        tokens = job.sequence // self.degrees.context + (job.tokens if job.mode == "decode" else 0)
        wide = self.model.cache_width // (1 if self.model.is_latent else self.degrees.tensor)
        count = sum(map(len, self.chunks)) * job.batch // self.degrees.data
        return count * tokens * wide * job.cache_bytes

    # Activations

    def _scores(self) -> int:
        """Bytes of unfused attention's scores."""
        job = self.job
        if job.attention == "flash" or job.mode == "decode":
            return 0
        numbers = self.costs.tokens * job.sequence * self.model.heads // self.degrees.tensor
        return numbers * (job.bytes_each + ((1 + job.bytes_each) if job.dropout else 0))

    def _layer(self, *, experts: bool) -> int:
        """Bytes that a layer's backward pass needs of a microbatch, with nothing computed again."""
        m, job, tensor = self.model, self.job, self.degrees.tensor
        tokens, each = self.costs.tokens, job.bytes_each
        fed = 1 if job.precision == "fp8" else each
        between = m.hidden * (2 * each + 2 * fed + (2 if job.dropout else 0)) // self._divided
        # Attention's output is kept for attention, and as the input of the projection.
        second = m.heads * m.value_size * (fed if fed < each else 0)
        heads = m.heads * (m.key_size + m.value_size) * each
        if m.is_latent:
            latent = (m.q_rank + m.kv_rank) * each
            heads += m.heads * (m.key_size + m.value_size) * each
        else:
            latent = 0
            heads += m.cache_width * each
        inside = (2 if m.gated else 1) * each + fed
        found = tokens * (between + (heads + second) // tensor + latent) + self._scores()
        if not experts:
            return found + tokens * inside * m.ffn // tensor
        wide = inside * m.expert_ffn // tensor
        copies = int(self.costs.load * m.top_k * tokens) * (m.hidden * (each + fed) // self._divided + wide)
        router = 4 * tokens * m.experts // self._divided
        return found + tokens * m.shared_experts * wide + copies + router

    def _kept(self, *, experts: bool) -> int:
        """Bytes of them that are kept until the backward pass."""
        if self.job.recompute == "full":
            return self.costs.activation // self._divided
        less = self._scores() if self.job.recompute == "selective" else 0
        return self._layer(experts=experts) - less

    def of_chunk(self, chunk: int) -> int:
        """Bytes of a microbatch's activations in a chunk."""
        kept = {kind: self._kept(experts=kind) for kind in self._kinds}
        found = sum(kept[self.model.has_experts(layer)] for layer in self.chunks[chunk])
        if self.model.vocab and self._has_head and chunk == len(self.chunks) - 1:
            found += _LOGIT_BYTES * self.costs.tokens * self.costs.words
            found += 2 * self.costs.activation // self._divided
        return found

    def alive(self) -> list[int]:
        """Bytes of activations during each pass of the stage's schedule."""
        each = [self.of_chunk(chunk) for chunk in range(len(self.chunks))]
        found, now = [], 0
        for one in schedule(self.job, self.stage):
            now += each[one.chunk] if one.is_forward else 0
            found.append(now)
            now -= 0 if one.is_forward else each[one.chunk]
        return found

    @property
    def buffers(self) -> int:
        """Bytes that come and go within a pass."""
        job, degrees = self.job, self.degrees
        layer = max((self._layer(experts=kind) for kind in self._kinds), default=0)
        found = RUNTIME_BYTES + 2 * self.costs.activation
        if degrees.pipeline > 1:
            found += 4 * self.costs.message
        if degrees.context > 1:
            found += 4 * self.costs.cache_block
        if job.mode != "training":
            return found + layer
        if job.recompute != "none":
            found += layer - max((self._kept(experts=kind) for kind in self._kinds), default=0)
        largest = max((sum(each) for each in self._kinds.values()), default=0)
        if degrees.zero > 1:
            found += job.gradient_bytes * largest
        if degrees.zero > 2:
            # The layer that is computed, and the next one, which is gathered meanwhile.
            found += 2 * job.bytes_each * largest
        return found
