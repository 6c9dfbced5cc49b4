"""Serving: a trace of requests through instances of a model, iteration by iteration."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence as Ranks
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.explore.algorithms import CollectiveTimes
from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork, read_network
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes, checkpoint_precision, engine_table, gpu_named
from astranb.workload.models import TOKEN_BYTES, Job, Parallelism, Transformer, check, find_model, machine
from astranb.workload.serving import Batch, RequestTrace, ServingPolicy, cache_blocks, token_bytes

from .batch_times import BatchTimes, IterationTime
from .scheduler import Scheduler, Sequence
from .served import Iteration, Served

if TYPE_CHECKING:
    from astranb.workload.astrasim2 import System
    from astranb.workload.kernels import EngineTable

__all__ = ["serve"]

_ARRIVAL: Final = 0
_ITERATION: Final = 1
_TRANSFER: Final = 2
_ROLES: Final = ("all", "prefill", "decode")
_SIZES: Final = {"small": 0, "middle": 4 << 20, "large": 1 << 30}
"""Messages for which all-reduces inside a node are of a server's kernel, of few steps and of many."""


@dataclass
class _ServerGpus:
    """Facts about a server that a cluster needs."""

    ranks: int
    times: KernelTimes | None
    precision: str
    spans_all: bool = False
    host_updates: bool = False
    moved_bytes: int = 0
    left_out: str = ""
    chosen: str = ""


def serve(
    model: str | Transformer,
    requests: RequestTrace,
    *,
    tensor: int | None = None,
    pipeline: int = 1,
    policy: ServingPolicy | None = None,
    gpu: str | Path | KernelTimes = DEFAULT_GPU,
    precision: str | None = None,
    cache_bytes: int = 2,
    expert_imbalance: float = 1.0,
    system: str | Path | None = None,
    network: str | Path | DimensionNetwork | InfraNetwork | None = None,
    limit_bytes: int | None = None,
) -> Served:
    """Answer requests by continuous batching.

    Parameters
    ----------
    model : str or Transformer
        A name in :data:`astranb.workload.models.TRANSFORMERS`, a file, or a model.
    requests : RequestTrace
    tensor : int, optional
        GPUs of a stage of an instance, by tensor parallelism. Default: the network's, else the fewest of a
        node that hold the model and the longest request.
    pipeline : int
        Stages of an instance. So many batches are on their way through them, each with its own requests and
        blocks; the limits of the policy are those of a batch.
    policy : ServingPolicy, optional
    gpu : str or KernelTimes
    precision : str, optional
        Of products with parameters. Default: the checkpoint's (:func:`checkpoint_precision`).
    cache_bytes : int
        Bytes of a number of keys and values: 2, or 1 in fp8.
    expert_imbalance : float
        Load of the busiest expert, relative to the mean.
    system, network
        Of all instances' GPUs, as for :func:`astranb.workload.models.machine`.
    limit_bytes : int, optional
        Memory of a GPU. Default: that of the GPU.

    Raises
    ------
    InputError
        The model does not fit, or a request does not fit in the memory for keys and values.

    Examples
    --------
    >>> from astranb.workload import serving
    >>> found = serve("llama3-8b", serving.requests_of("offline:prompt=512,output=64,count=32"))
    >>> found.output_tokens, found.limit
    (2048, 'matrices')
    """
    known = find_model(model) if isinstance(model, str) else model
    if not isinstance(known, Transformer) or not known.vocab:
        raise InputError(f"{known.name} generates no tokens", where="model", hint="take a transformer")
    policy = policy or ServingPolicy()
    if isinstance(gpu, KernelTimes):
        times = gpu
    else:
        device = gpu_named(gpu)
        times = KernelTimes(device, precision or checkpoint_precision(known.weights, device))
    times = times.stored(known.weights)
    if policy.kernels and times.modelled and times.power == 1 and engine_table(times.gpu, policy.kernels):
        times = times.costed(policy.kernels)
    if times.expanded is not None:
        what = "serving has no expanded memory"
        raise InputError(what, where="expanded memory", hint="leave it out")
    longest = max(one.prompt + one.output for one in requests.requests)
    job = Job(
        Parallelism(pipeline=pipeline), longest, 1, mode="decode", precision=times.precision,
        weights=times.weights,
        cache_bytes=cache_bytes, expert_imbalance=expert_imbalance,
    )  # fmt: skip
    limit = times.gpu.memory_bytes if limit_bytes is None else limit_bytes
    chosen = ""
    if tensor is None and network is not None:
        found = network if isinstance(network, DimensionNetwork | InfraNetwork) else read_network(network)
        tensor = max(1, found.npus // (policy.copies * pipeline))
    elif tensor is None:
        tensor = _fewest(known, job, policy, limit, times.gpu.interconnect.per_node)
        chosen = f"{tensor} GPUs of tensor parallelism, the fewest that hold the model; replace with --tp"
    job = replace(job, parallelism=Parallelism(tensor=tensor, pipeline=pipeline))
    check(known, job)
    job = replace(job, sequence=1)
    if pipeline > 1 and policy.prefill_instances:
        what = "disaggregated instances have one stage"
        raise InputError(what, where="pipeline", hint="leave one of them out")
    ranks = policy.copies * tensor * pipeline
    kind = "ring" if tensor == 1 or tensor & (tensor - 1) else "halvingDoubling"
    gpus = _ServerGpus(ranks, times, times.precision, left_out=known.left_out)
    cluster = machine(gpus, system, network, all_reduce="ring" if network is None else kind)
    between = CollectiveTimes(cluster.network, cluster.system)
    inside = between
    if network is None:
        # Collectives among some of a network's NPUs are rings; an instance has a network of its own.
        gpus = _ServerGpus(tensor, times, times.precision, left_out=known.left_out)
        kinds = {
            name: machine(gpus, system, all_reduce=kind, message_bytes=size) for name, size in _SIZES.items()
        }
        larger = None
        for one in reversed(kinds.values()):
            inside = larger = CollectiveTimes(one.network, one.system, larger)
        cluster.assumed[1:] = kinds["large"].assumed[1:]
        table = engine_table(times.gpu, times.costs)
        if table is not None and system is None and table.all_reduce_ns(tensor, 1) is not None:
            inside = _MeasuredSums(one.network, one.system, inside, table)
            cluster.assumed[1:1] = [f"all-reduces of {tensor} GPUs as those of {times.costs} were measured"]
        elif tensor > 1:
            if kinds["middle"].assumed == kinds["small"].assumed:
                del kinds["middle"]
            cluster.assumed[1:1] = [f"{name} all-reduces: {one.assumed[0]}" for name, one in kinds.items()]
    blocks = cache_blocks(known, job, policy, limit)
    launches = [times]
    if policy.graph_batch and times.efficiency is None and times.launch == "none":
        launches = [times.launched("graph"), times.launched("stream")]
    stages = [[BatchTimes(known, job, one, inside, stage) for stage in range(pipeline)] for one in launches]
    run = _Run(policy, requests, blocks, stages, between, tensor, token_bytes(known, job))
    run.all()
    used = f"{policy.memory_fraction:.0%} of {limit / 1e9:.1f} GB" + " without them" * policy.fraction_of_rest
    assumed = [*cluster.assumed, f"{blocks:,} blocks of keys and values fit beside the weights in {used}"]
    assumed += [f"requests: {requests.assumed}"] if requests.assumed else []
    assumed += [chosen] if tensor > 1 and chosen else []
    return Served(
        known.name, times.gpu.name, ranks, pipeline, policy, requests, blocks, run.requests, run.iterations,
        run.gaps, run.transfer_bytes * tensor, assumed,
    )  # fmt: skip


def _fewest(model: Transformer, job: Job, policy: ServingPolicy, limit_bytes: int, node: int) -> int:
    """Return the fewest GPUs of a node, a power of two, that hold a model and a request of so many tokens."""
    tensor = 1
    while True:
        degrees = replace(job.parallelism, tensor=tensor)
        try:
            check(model, replace(job, parallelism=degrees))
            blocks = cache_blocks(model, replace(job, parallelism=degrees, sequence=1), policy, limit_bytes)
        except InputError:
            if 2 * tensor > node:
                raise
        else:
            if blocks * policy.block_size > job.sequence or 2 * tensor > node:
                return tensor
        tensor *= 2


class _MeasuredSums(CollectiveTimes):
    """All-reduces as an engine's were measured; all else is simulated."""

    def __init__(
        self,
        network: DimensionNetwork | InfraNetwork,
        system: System,
        other: CollectiveTimes,
        table: EngineTable,
    ) -> None:
        super().__init__(network, system, other)
        self._table = table

    def collective_ns(self, kind: str, ranks: Ranks[int], size: int) -> int:
        """Return the time of a collective."""
        measured = self._table.all_reduce_ns(len(ranks), size) if kind == "all_reduce" else None
        return super().collective_ns(kind, ranks, size) if measured is None else round(measured)


class _Instance:
    """A copy of the model, or one of the batches in its pipeline, and what it does."""

    def __init__(self, number: int, role: str, scheduler: Scheduler, free_ns: list[int]) -> None:
        self.number, self.role, self.scheduler = number, role, scheduler
        self.free_ns = free_ns
        """Time at which each stage has computed what has begun; the batches of a copy share it."""
        self.link_free_ns = 0
        self.begin_ns = self.end_ns = -1
        """Of its last iteration."""
        self.looked_ns = self.since_look = 0
        """Time at which the scheduler last looked at new requests, and how many iterations ago."""
        self.incoming: deque[tuple[Sequence, _Instance]] = deque()

    @property
    def load(self) -> int:
        return self.scheduler.load + len(self.incoming)


class _Run:
    """The events of a run: arrivals, ends of iterations and of transfers, in the order of time."""

    def __init__(
        self,
        policy: ServingPolicy,
        trace: RequestTrace,
        blocks: int,
        stages: list[list[BatchTimes]],
        network: CollectiveTimes,
        tensor: int,
        each_bytes: int,
    ) -> None:
        self._policy, self._trace, self._stages, self._network = policy, trace, stages, network
        self._tensor, self._token_bytes = tensor, each_bytes
        count = len(trace.requests)
        listed = trace.requests
        self.requests: dict[str, list[int]] = {
            "arrival_ns": [0 if trace.users else one.arrival_ns for one in listed],
            "prompt": [one.prompt for one in listed],
            "output": [one.output for one in listed],
            **{name: [-1] * count for name in ("instance", "begin_ns", "first_token_ns", "end_ns")},
            **{name: [0] * count for name in ("preemptions", "transfer_ns")},
        }
        self.iterations: list[Iteration] = []
        self.transfer_bytes = 0
        split = policy.prefill_instances
        many = len(stages[0])
        self._front_free_ns = [0] * policy.copies
        free_ns = [[0] * many for _ in range(policy.copies)]
        self._instances = [
            _Instance(
                number,
                _ROLES[0] if not split else _ROLES[1] if number < split else _ROLES[2],
                Scheduler(policy, blocks, self._preempted),
                free_ns[number // many],
            )
            for number in range(policy.copies * many)
        ]
        self._first = [one for one in self._instances if one.role != "decode"]
        self._second = [one for one in self._instances if one.role == "decode"]
        self._queue: list[tuple[int, int, int, Any]] = []
        self._sequence = 0
        self._next = 0
        self._require_room()

    def _require_room(self) -> None:
        """Raise InputError for requests that can never be admitted."""
        most, policy = self._instances[0].scheduler.most_tokens, self._policy
        for number, one in enumerate(self._trace.requests):
            # The last token that is given needs no keys and values.
            needed = one.prompt + one.output - 1
            if needed > most:
                what = f"request {number} keeps {needed:,} tokens, and {most:,} fit in an instance's memory"
                hint = "take an fp8 cache, a larger tensor degree or a GPU with more memory"
                raise InputError(what, where=self._trace.text, hint=hint)
            if not policy.chunked_prefill and one.prompt > policy.token_budget:
                what = f"request {number} has a prompt of {one.prompt:,} tokens"
                hint = f"raise the token budget of {policy.token_budget:,}, or take chunked prefill"
                raise InputError(what, where=self._trace.text, hint=hint)

    def all(self) -> None:
        """Answer all requests."""
        trace = self._trace
        for number in range(min(trace.users or len(trace.requests), len(trace.requests))):
            self._ask(number, self.requests["arrival_ns"][number])
        self._next = trace.users
        while self._queue:
            now = self._queue[0][0]
            while self._queue and self._queue[0][0] == now:
                _, _, kind, what = heapq.heappop(self._queue)
                if kind == _ARRIVAL:
                    self._arrive(what, now)
                elif kind == _ITERATION:
                    self._end(what, now)
                else:
                    self._arrived(*what)
            for one in self._second:
                self._send(one, now)
            for one in self._instances:
                if not one.scheduler.is_busy:
                    self._begin(one, now)

    @property
    def gaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Times between two tokens of a request, ascending, and how often each occurs."""
        values, counts = (
            np.concatenate(each)
            for each in zip(*(one.scheduler.gaps() for one in self._instances), strict=True)
        )
        known, where = np.unique(values[counts > 0], return_inverse=True)
        summed = np.zeros(len(known), np.int64)
        np.add.at(summed, where, counts[counts > 0])
        return known, summed

    def _add(self, when: int, kind: int, what: Any) -> None:
        heapq.heappush(self._queue, (when, self._sequence, kind, what))
        self._sequence += 1

    def _ask(self, number: int, now: int) -> None:
        """Record the arrival of a request; the scheduler sees it later.

        Each copy of the model has a tokenizer, which takes one request after the other.
        """
        self.requests["arrival_ns"][number] = now
        prompt = self._trace.requests[number].prompt
        begins = max(now, self._front_free_ns[0])
        heapq.heapreplace(self._front_free_ns, begins + self._policy.tokenizing_ns(prompt))
        self._add(begins + self._policy.admission_ns(prompt), _ARRIVAL, number)

    def _preempted(self, one: Sequence) -> None:
        self.requests["preemptions"][one.number] += 1

    def _arrive(self, number: int, now: int) -> None:
        to = min(self._first, key=lambda one: one.load)
        request = self._trace.requests[number]
        to.scheduler.waiting.append(Sequence(number, request.prompt, request.output, arrived_ns=now))

    def _begin(self, on: _Instance, now: int) -> None:
        scheduler = on.scheduler
        # With overlap the host has scheduled this iteration while the one before began.
        ahead = self._policy.overlap and on.end_ns == now
        every = self._policy.at(self._policy.receive_every, scheduler.load, 1)
        looks = on.since_look >= every or not scheduler.decodes
        on.looked_ns = (on.begin_ns if ahead else now) if looks else on.looked_ns
        on.since_look = 1 if looks else on.since_look + 1
        batch = scheduler.begin(on.looked_ns) if ahead or not looks else None
        if batch is None:
            ahead, batch = False, scheduler.begin()
        if batch is None:
            return
        if batch.chunks:
            on.since_look = every
        took = self._through(on, batch, now, ahead=ahead)
        end = now + took.total
        on.begin_ns, on.end_ns = now, end
        for one in scheduler.computing:
            if self.requests["begin_ns"][one.number] < 0:
                self.requests["begin_ns"][one.number] = now
        self.iterations.append(
            Iteration(
                on.number, now, end, batch.decodes, batch.seen, batch.tokens - batch.decodes,
                len(batch.chunks), len(scheduler.waiting), scheduler.waits, scheduler.blocks - scheduler.free,
                *took,
            )
        )  # fmt: skip
        self._add(end, _ITERATION, on)

    def _through(self, on: _Instance, batch: Batch, now: int, *, ahead: bool) -> IterationTime:
        """Take a batch through all stages, each of which computes one batch after another."""
        policy = self._policy
        alone = batch.chunks or batch.decodes > policy.graph_batch
        stages = self._stages[-1 if alone else 0]
        parts = [stage.time(batch) for stage in stages]
        layer_ns = policy.at(policy.layer_ns, on.scheduler.load, 0) if alone else 0
        if layer_ns:
            # The GPU waits for what the host launches, layer by layer.
            late = [
                stage.latent_layers * layer_ns - part.total for stage, part in zip(stages, parts, strict=True)
            ]
            parts = [part._replace(host=max(0, one)) for part, one in zip(parts, late, strict=True)]
        hidden = max(0, policy.hidden_ns - parts[0].total) if ahead else policy.hidden_ns
        parts[0] = parts[0]._replace(host=parts[0].host + policy.host_ns + hidden)
        if len(parts) == 1:
            return parts[0]
        many, when = len(parts), now
        first = on.number // many * many * self._tensor
        for stage, part in enumerate(parts):
            when = on.free_ns[stage] = max(when, on.free_ns[stage]) + part.total
            # The last stage sends the tokens to the first one.
            last = stage == many - 1
            size = TOKEN_BYTES * batch.outputs if last else stages[stage].sent_bytes(batch)
            target = first + (0 if last else (stage + 1) * self._tensor)
            when += self._network.message_ns(first + stage * self._tensor, target, size) if size else 0
        found = IterationTime(*map(sum, zip(*parts, strict=True)))
        return found._replace(pipeline=when - now - found.total)

    def _end(self, on: _Instance, now: int) -> None:
        done, ready = on.scheduler.end(now)
        for one in done:
            first = self.requests["first_token_ns"]
            first[one.number] = now if first[one.number] < 0 else first[one.number]
            self.requests["end_ns"][one.number] = now
            self.requests["instance"][one.number] = on.number
            if self._next and self._next < len(self._trace.requests):
                self._ask(self._next, now)
                self._next += 1
        for one in ready:
            if self.requests["first_token_ns"][one.number] < 0:
                self.requests["first_token_ns"][one.number] = now
            if on.role == "prefill":
                to = min(self._second, key=lambda each: each.load)
                to.incoming.append((one, on))
                self.requests["transfer_ns"][one.number] = -now
            else:
                on.scheduler.join(one)

    def _send(self, to: _Instance, now: int) -> None:
        """Begin the transfers for which there is room."""
        while to.incoming and not to.scheduler.waiting:
            one, source = to.incoming[0]
            if not to.scheduler.has_room(one):
                return
            to.incoming.popleft()
            to.scheduler.reserve(one)
            size = one.prefill * self._token_bytes
            self.transfer_bytes += size
            begin = max(now, source.link_free_ns, to.link_free_ns)
            ranks = source.number * self._tensor, to.number * self._tensor
            end = begin + self._network.message_ns(*ranks, size)
            source.link_free_ns = to.link_free_ns = end
            self.requests["transfer_ns"][one.number] += end
            self._add(end, _TRANSFER, (one, source, to))

    def _arrived(self, one: Sequence, source: _Instance, to: _Instance) -> None:
        """End a transfer: the blocks of the sender are free, the receiver decodes."""
        source.scheduler.release(one)
        to.scheduler.join(one)
