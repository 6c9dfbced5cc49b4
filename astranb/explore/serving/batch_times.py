"""Times of a model's iterations: the kernels of a batch, and the sums of tensor parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from astranb.explore.algorithms import CollectiveTimes
from astranb.workload.kernels import Kernel, KernelTimes, Stream, TimedKernel, engine_table
from astranb.workload.models import EMBEDDING, HEAD, Cost, Costs, units

if TYPE_CHECKING:
    from astranb.workload.models import Job, Transformer
    from astranb.workload.serving import Batch

__all__ = ["PARTS", "BatchTimes", "IterationTime", "windowed"]

PARTS: Final = {
    "matrices": "products with parameters",
    "attention": "attention over keys and values",
    "element-wise": "norms, residuals, activations",
    "tensor": "sums and gathers of tensor parallelism",
    "host": "the host between two iterations",
    "pipeline": "waiting for stages, and messages between them",
}
"""Parts of an iteration's time, and the meaning of each."""


class IterationTime(NamedTuple):
    """The time of an iteration in nanoseconds, by :data:`PARTS`.

    With an efficiency, computations count as matrices, and those around attention as attention.
    """

    matrices: int
    attention: int
    elementwise: int
    tensor: int
    host: int = 0
    pipeline: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


_CACHE_WRITERS: Final = ("vllm", "sglang")
"""Engines that write new keys and values into the cache by a kernel of their own (vLLM's
``reshape_and_cache_flash``, SGLang's ``set_kv_buffer``); TensorRT-LLM's attention does."""
_SQUARES_BYTES: Final = 8
"""Of a token, where queries and keys are normed over all heads: the sums of both squares in float32, which
the ranks add (vLLM's ``MiniMaxText01RMSNormTP``)."""
_FUSED_BYTES: Final = {2: 64 << 20, 4: 2 << 20, 8: 1 << 20}
"""By GPUs, the largest all-reduce that is fused with the norm behind it (vLLM's ``PassConfig``,
``fi_allreduce_fusion_max_size_mb``, of H100; B200 takes 32 MiB for 4)."""


@dataclass(frozen=True)
class _Fixed:
    """Times that depend on the number of tokens alone.

    ``outside`` is the sum over all layers; to ``half``, of each layer, attention is added.
    """

    outside: IterationTime
    half: Cost


class BatchTimes:
    """The times of iterations of one stage of an instance of a model.

    An iteration is a step of ``astranb run model --mode prefill`` or ``decode``: each layer's two halves,
    each followed by the sum of tensor parallelism, between the embedding and the head. All tokens pass
    through the products together; attention is a kernel for decoding sequences, and one for each length of
    parts of prompts. Decoding sequences count with the mean of their lengths: the bytes that they read are
    those of all of them.

    Parameters
    ----------
    model : Transformer
    job : Job
        Gives parallelism (tensor and pipeline), precision and the bytes of numbers.
    times : KernelTimes
    network : CollectiveTimes
    stage : int
        Its number, from 0.
    """

    def __init__(
        self,
        model: Transformer,
        job: Job,
        times: KernelTimes,
        network: CollectiveTimes,
        stage: int = 0,
    ) -> None:
        (self._units,) = units(model, job.parallelism, stage)
        self._layers = [unit for unit in self._units if unit >= 0]
        self._windows = Counter(model.window * model.is_windowed(unit) for unit in self._layers)
        self._model, self._times, self._network = model, times, network
        self._job = replace(job, mode="decode", sequence=1, batch=1, microbatches=1, tokens=1)
        self._ranks = range(job.parallelism.tensor)
        self._fixed: dict[int, _Fixed] = {}
        self._heads: dict[int, IterationTime] = {}
        self._decoding: dict[int, Costs] = {}
        self._chunks: dict[tuple[int, int, int, bool], Cost] = {}
        self._table = None if times.efficiency is not None else engine_table(times.gpu, times.costs)
        self._around_attention = times
        if times.weights == "nvfp4" and model.experts:
            # NVIDIA's checkpoints have experts and MLPs in NVFP4, and attention in bfloat16.
            self._around_attention = KernelTimes(times.gpu, "bf16", launch=times.launch, costs=times.costs)

    def time(self, batch: Batch) -> IterationTime:
        """Return the time of an iteration, without that of the host."""
        fixed = self._of_tokens(batch.tokens)
        whole = _added(fixed.outside, self._head(batch.outputs), 1)
        for window, layers in self._windows.items():
            half = fixed.half.plus(self._attention(batch, window))
            around = self._computed(half, rest="attention", times=self._around_attention)
            whole = _added(whole, around, layers)
        return whole

    @property
    def latent_layers(self) -> int:
        """Layers of the stage with latent attention."""
        return len(self._layers) * self._model.is_latent

    def sent_bytes(self, batch: Batch) -> int:
        """Return the bytes that each rank sends to the next stage."""
        return self._costs(batch.tokens).message

    def _costs(self, tokens: int) -> Costs:
        return Costs(self._model, replace(self._job, batch=tokens))

    def _attention(self, batch: Batch, window: int) -> Cost:
        """Return the cost of attention in a layer with a window, or without one (0)."""
        found = Cost(0, 0)
        if batch.decodes:
            costs = self._decoding.get(batch.decodes)
            if costs is None:
                costs = self._decoding[batch.decodes] = self._costs(batch.decodes)
            seen = -(-batch.seen // batch.decodes)
            found = costs.attention(min(seen, window or seen))
        for (queries, all_keys), count in Counter(batch.chunks).items():
            for some, keys, causal in windowed(queries, all_keys, window):
                key = some, keys, count, causal
                if key not in self._chunks:
                    prompt = replace(self._job, mode="prefill", sequence=some, batch=count)
                    self._chunks[key] = Costs(self._model, prompt).attention(keys, causal=causal)
                found = found.plus(self._chunks[key])
        return found

    def _of_tokens(self, tokens: int) -> _Fixed:
        found = self._fixed.get(tokens)
        if found is None:
            found = self._fixed[tokens] = self._without_attention(tokens)
        return found

    def _without_attention(self, tokens: int) -> _Fixed:
        m, c = self._model, self._costs(tokens)
        sums = self._network.collective_ns("all_reduce", self._ranks, c.activation)
        layers = len(self._layers)
        whole = IterationTime(0, 0, 0, 2 * layers * sums)
        if m.norms_all_heads and len(self._ranks) > 1:
            squares = self._network.collective_ns("all_reduce", self._ranks, _SQUARES_BYTES * c.tokens)
            whole = whole._replace(tensor=whole.tensor + layers * squares)
        if EMBEDDING in self._units:
            whole = _added(whole, self._computed(c.embedding()), 1)._replace(tensor=whole.tensor + sums)
        with_experts = sum(map(m.has_experts, self._layers))
        norms = Cost(0, 0) if self._fuses_norms(c) else c.around()
        if with_experts < layers:
            opening, closing = c.mlp()
            half = norms.plus(opening).plus(closing)
            whole = _added(whole, self._computed(half), layers - with_experts)
        if with_experts:
            beside, experts = c.around_experts(), self._experts(c)
            if self._table is not None:
                # The router comes first, the shared experts run beside the others.
                router, shared = beside.kernels[:1], beside.kernels[1:]
                beside = beside._replace(kernels=router)
                ends = self._computed(experts).total - sum(map(self._times.kernel_ns, shared))
                experts = experts if ends >= 0 else experts._replace(kernels=shared)
            for one in (norms.plus(beside), experts):
                whole = _added(whole, self._computed(one), with_experts)
        half = norms.plus(c.queries()).plus(c.output())
        if self._table is not None and self._table.engine in _CACHE_WRITERS and not m.is_latent:
            half = half.plus(Cost(0, 0, kernels=(Stream(c.cache_block + c.cache_block),)))
        return _Fixed(whole, half)

    def _fuses_norms(self, c: Costs) -> bool:
        """Return whether the sums of tensor parallelism add the residual and norm it, in their own kernel.

        So do those of TensorRT-LLM, and by FlashInfer vLLM's (``fuse_allreduce_rms``, by default on
        these GPUs) and SGLang's (``--enable-flashinfer-allreduce-fusion``), up to some size.
        """
        limit = _FUSED_BYTES.get(len(self._ranks), 0) if self._table is not None else 0
        return 0 < c.activation <= limit

    def _experts(self, c: Costs) -> Cost:
        """Return the cost of a layer's experts: as measured, or of their kernels one by one."""
        m, cost = self._model, c.experts()
        took = None
        if self._table is not None and c.load == 1:
            took = self._table.experts_ns(
                c.tokens, m.hidden, c.share_of(m.expert_ffn), m.experts, m.top_k, self._times.weights
            )
        return cost if took is None else cost._replace(kernels=(TimedKernel(round(took)),))

    def _head(self, outputs: int) -> IterationTime:
        """Return the time of the head for the tokens that an iteration gives."""
        found = self._heads.get(outputs)
        if found is None:
            found = IterationTime(0, 0, 0, 0)
            if outputs and HEAD in self._units:
                c = self._costs(outputs)
                size = outputs * c.words * self._job.bytes_each
                gathered = self._network.collective_ns("all_gather", self._ranks, size)
                found = self._computed(c.head())._replace(tensor=gathered)
            self._heads[outputs] = found
        return found

    def _computed(
        self, cost: Cost, rest: str = "matrices", times: KernelTimes | None = None
    ) -> IterationTime:
        """Return the time of a computation by sort of kernel; what launches add goes to ``rest``."""
        times = times or self._times
        took = times.computation_ns(cost.flops, cost.touched, cost.kernels)
        sorts = _sorted(times, cost.kernels) if times.efficiency is None else Counter()
        sorts[rest] += took - sum(sorts.values())
        return IterationTime(sorts["matrices"], sorts["attention"], sorts["element-wise"], 0)


def _sorted(times: KernelTimes, kernels: Iterable[Kernel]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in kernels:
        found[one.sort] += times.kernel_ns(one)
    return found


def _added(one: IterationTime, other: IterationTime, count: int) -> IterationTime:
    """Add a time, several times."""
    return IterationTime(*(a + count * b for a, b in zip(one, other, strict=True)))


def windowed(queries: int, keys: int, window: int) -> list[tuple[int, int, bool]]:
    """Divide the queries of a chunk into those that do not see a whole window yet, and the others.

    Parameters
    ----------
    queries : int
        New tokens of a sequence.
    keys : int
        All its tokens, with these.
    window : int
        How many of them a token sees at most; 0 for all.

    Returns
    -------
    list of (int, int, bool)
        Of each part: queries, keys, and whether each query sees one key more than the one before.

    Examples
    --------
    >>> windowed(4096, 8192, 4096), windowed(2048, 4096, 3072)
    ([(4096, 4096, False)], [(1024, 3072, True), (1024, 3072, False)])
    """
    before = keys - queries
    growing = min(queries, max(0, window - before)) if window else queries
    if before == 0 and window:
        return [(queries, min(keys, window), True)]  # from the start one kernel does both
    parts = [(growing, before + growing, True), (queries - growing, window, False)]
    return [part for part in parts if part[0]]
