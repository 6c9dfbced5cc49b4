"""Serving: a trace of requests through instances of a model, iteration by iteration."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.files import write_frames
from astranb.core.units import format_bytes, format_time
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes, gpu_named
from astranb.workload.models import Job, Parallelism, Transformer, machine
from astranb.workload.models.library import find_model
from astranb.workload.models.pipeline import check
from astranb.workload.serving import RequestTrace, ServingPolicy, cache_blocks, token_bytes

from ._batch_times import PARTS, BatchTimes
from ._collective_times import CollectiveTimes
from ._scheduler import REASONS, Scheduler, Sequence

if TYPE_CHECKING:
    import pandas as pd

    from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork

__all__ = ["Served", "serve"]

_ARRIVAL: Final = 0
_ITERATION: Final = 1
_TRANSFER: Final = 2
_PERCENTILES: Final = (50, 90, 99)
_ROLES: Final = ("all", "prefill", "decode")


@dataclass(frozen=True)
class Served:
    """What became of the requests; times in nanoseconds.

    Attributes
    ----------
    model, gpu : str
    gpus : int
        Of all instances.
    policy : ServingPolicy
    trace : RequestTrace
    blocks : int
        Blocks of keys and values of an instance.
    requests : dict of str to list
        A value for each request: ``arrival_ns``, ``prompt``, ``output``, ``instance`` (that gave its last
        token), ``begin_ns`` (of its first iteration), ``first_token_ns``, ``end_ns``, ``preemptions``,
        ``transfer_ns`` (waiting for the network and sending its keys and values).
    iterations : list of tuple
        See :meth:`table`.
    transfer_bytes : int
        Keys and values that were sent between instances, of all ranks.
    assumed : list of str
        The assumptions, one line each.
    """

    model: str
    gpu: str
    gpus: int
    policy: ServingPolicy
    trace: RequestTrace
    blocks: int
    requests: dict[str, list[int]]
    iterations: list[tuple[Any, ...]]
    transfer_bytes: int
    assumed: list[str]

    COLUMNS = (
        "instance", "begin_ns", "end_ns", "decodes", "seen_tokens", "prompt_tokens", "prompts", "waiting",
        "waits_for", "blocks", "matrices_ns", "attention_ns", "elementwise_ns", "tensor_ns", "host_ns",
    )  # fmt: skip
    """Columns of an iteration: when, what it computes, who waits and why, blocks in use, its time by part."""

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last token."""
        return max(self.requests["end_ns"]) - min(self.requests["arrival_ns"])

    @property
    def output_tokens(self) -> int:
        """Tokens that were given."""
        return sum(self.requests["output"])

    @property
    def output_tokens_per_s(self) -> float:
        """Tokens that all instances give in a second."""
        return self.output_tokens / (self.duration_ns / 1e9)

    @property
    def requests_per_s(self) -> float:
        """Requests that are answered in a second."""
        return len(self.requests["end_ns"]) / (self.duration_ns / 1e9)

    def per_request(self) -> dict[str, np.ndarray]:
        """Give the columns of :attr:`requests`, and what follows from them.

        ``ttft_ns``: from the arrival to the first token; ``tpot_ns``: per token after the first one, NaN for
        requests of one token; ``latency_ns``: from the arrival to the last token; ``queue_ns``: from the
        arrival to the first iteration.
        """
        found = {name: np.array(values, np.int64) for name, values in self.requests.items()}
        found["ttft_ns"] = found["first_token_ns"] - found["arrival_ns"]
        more = found["output"] - 1
        decoding = (found["end_ns"] - found["first_token_ns"]).astype(float)
        found["tpot_ns"] = np.divide(decoding, more, out=np.full(len(more), np.nan), where=more > 0)
        found["latency_ns"] = found["end_ns"] - found["arrival_ns"]
        found["queue_ns"] = found["begin_ns"] - found["arrival_ns"]
        return found

    def to_dataframe(self, what: str = "requests") -> pd.DataFrame:
        """Give a frame with a row for each request, or for each iteration.

        Parameters
        ----------
        what : str
            ``requests`` or ``iterations``.

        Raises
        ------
        InputError
            It is something else.
        """
        import pandas as pd

        if what == "requests":
            return pd.DataFrame(self.per_request()).rename_axis("request")
        if what == "iterations":
            return pd.DataFrame(self.iterations, columns=list(self.COLUMNS)).rename_axis("iteration")
        raise InputError(f"no table {what[:40]!r}", where="serve", hint="take requests or iterations")

    def write_frames(self, folder: str | Path) -> list[str]:
        """Write both frames as ``requests.csv`` and ``iterations.csv`` into a folder."""
        return write_frames(folder, {name: self.to_dataframe(name) for name in ("requests", "iterations")})

    def percentiles(self, name: str) -> dict[str, float | None]:
        """Give the mean and percentiles 50, 90 and 99 of a column, as ``ttft_ns``; None: it has no values."""
        values = self.per_request()[name].astype(float)
        values = values[~np.isnan(values)]
        if not len(values):
            return dict.fromkeys(("mean", *(f"p{each}" for each in _PERCENTILES)))
        cuts = np.percentile(values, _PERCENTILES)
        found = {f"p{each}": float(cut) for each, cut in zip(_PERCENTILES, cuts, strict=True)}
        return {"mean": float(values.mean()), **found}

    def time_ns(self) -> dict[str, int]:
        """Give the time of all instances by part, with ``idle``."""
        sums = [sum(row[at] for row in self.iterations) for at in range(10, 15)]
        found = dict(zip(PARTS, sums, strict=True))
        return {**found, "idle": self.policy.copies * self.duration_ns - sum(sums)}

    def waits_ns(self) -> dict[str, int]:
        """Give for how long requests waited at an instance, by reason."""
        found: Counter[str] = Counter()
        for row in self.iterations:
            if row[8]:
                found[row[8]] += row[2] - row[1]
        return {name: found[name] for name in REASONS if found[name]}

    @property
    def peak_blocks(self) -> int:
        """Blocks that were in use at once, at most, of an instance."""
        return max(row[9] for row in self.iterations)

    @property
    def mean_blocks(self) -> float:
        """Blocks in use of an instance while it computes, on average over time."""
        spans = [(row[2] - row[1], row[9]) for row in self.iterations]
        return sum(span * used for span, used in spans) / sum(span for span, _ in spans)

    @property
    def limit(self) -> str:
        """What takes most of the instances' time: one of the parts, or ``idle``."""
        parts = self.time_ns()
        return max(parts, key=lambda name: parts[name])

    def document(self) -> dict[str, Any]:
        """Give all figures by name."""
        given = self.output_tokens_per_s
        preempted = self.requests["preemptions"]
        moved = [took for took in self.requests["transfer_ns"] if took]
        return {
            "model": self.model,
            "gpu": self.gpu,
            "gpus": self.gpus,
            "instances": self.policy.copies,
            "requests": len(preempted),
            "prompt_tokens": self.trace.prompt_tokens,
            "output_tokens": self.output_tokens,
            "duration_ns": self.duration_ns,
            "requests_per_s": self.requests_per_s,
            "output_tokens_per_s": given,
            "output_tokens_per_s_per_gpu": given / self.gpus,
            **{name: self.percentiles(name) for name in ("ttft_ns", "tpot_ns", "latency_ns", "queue_ns")},
            "iterations": len(self.iterations),
            "mean_decodes": sum(row[3] for row in self.iterations) / len(self.iterations),
            "preemptions": sum(preempted),
            "kv_blocks": self.blocks,
            "kv_block_tokens": self.policy.block_size,
            "kv_peak_blocks": self.peak_blocks,
            "kv_mean_blocks": self.mean_blocks,
            "transfers": len(moved),
            "transfer_bytes": self.transfer_bytes,
            "transfer_mean_ns": sum(moved) / len(moved) if moved else None,
            "time_ns": self.time_ns(),
            "waits_ns": self.waits_ns(),
            "limit": self.limit,
            "assumed": self.assumed,
        }

    def text(self) -> str:
        """Write the figures, and what limits them."""
        given = self.output_tokens_per_s
        count, copies = len(self.requests["end_ns"]), self.policy.copies
        split = f"{self.policy.prefill_instances} prefill and {self.policy.decode_instances} decode instances"
        kind = split if self.policy.prefill_instances else f"{copies} instance{'s' * (copies > 1)}"
        lines = [
            f"{self.model} on {self.gpus} x {self.gpu}, {kind}: {count:,} requests in "
            f"{format_time(self.duration_ns * 1000)}",
            f"{self.requests_per_s:,.4g} requests/s, {given:,.0f} output tokens/s, "
            f"{given / self.gpus:,.0f} per GPU",
        ]
        for name, title in (
            ("ttft_ns", "time to first token"), ("tpot_ns", "time per output token"),
            ("latency_ns", "end to end"), ("queue_ns", "waiting to begin"),
        ):  # fmt: skip
            found = self.percentiles(name)
            cells = ", ".join(
                f"{key} {format_time(round(value * 1000))}" for key, value in found.items() if value is not None
            )
            lines.append(f"{title}: {cells or 'no request has a second token'}")
        used, size = self.mean_blocks / self.blocks, self.policy.block_size
        lines.append(
            f"keys and values: {self.blocks:,} blocks of {size} tokens, {used:.1%} in use on average, "
            f"{self.peak_blocks / self.blocks:.1%} at most; {sum(self.requests['preemptions']):,} preemptions"
        )
        moved = [took for took in self.requests["transfer_ns"] if took]
        if moved:
            lines.append(
                f"{len(moved):,} transfers of keys and values, {format_bytes(self.transfer_bytes)}, "
                f"{format_time(round(sum(moved) / len(moved) * 1000))} each with waiting"
            )
        return "\n".join([*lines, *self.explain(), *(f"assumed: {line}" for line in self.assumed)])

    def explain(self) -> list[str]:
        """Say what limits the server, and what to change, in a few lines."""
        whole = self.policy.copies * self.duration_ns
        parts = sorted(self.time_ns().items(), key=lambda one: -one[1])
        listed = ", ".join(f"{name} {took / whole:.1%}" for name, took in parts if took > whole / 2000)
        mean = sum(row[3] for row in self.iterations) / len(self.iterations)
        lines = [f"time of instances: {listed}; {mean:.1f} decoding sequences in an iteration"]
        if self.limit == "idle":
            lines.append("limit: arrivals; the instances wait for requests, a higher rate fits")
        else:
            meaning = PARTS[self.limit]
            lines.append(f"limit: {self.limit} ({meaning}); {_REMEDIES[self.limit]}")
        waits = self.waits_ns()
        if waits:
            reason = max(waits, key=lambda name: waits[name])
            lines.append(
                f"requests wait at an instance {sum(waits.values()) / whole:.1%} of the time, mostly because "
                f"{REASONS[reason]}: {_ROOM[reason]}"
            )
        return lines


_REMEDIES: Final = {
    "matrices": "larger batches read the weights less often, fp8 halves them",
    "attention": "shorter contexts, an fp8 cache or more GPUs",
    "element-wise": "larger batches spread the cost of kernels",
    "tensor": "a smaller tensor degree and more instances",
    "host": "larger batches, or a faster host",
}
_ROOM: Final = {
    "batch": "raise --max-batch, or add instances",
    "memory": "take an fp8 cache, more GPUs for each instance, or more instances",
    "budget": "raise --token-budget, or add instances",
    "prefill": "try --chunked-prefill, or --disaggregate",
}


@dataclass(frozen=True)
class _Placed:
    """What a cluster has to know of a server."""

    ranks: int
    times: KernelTimes | None
    precision: str
    spans_all: bool = False


def serve(
    model: str | Transformer,
    requests: RequestTrace,
    *,
    tensor: int = 1,
    policy: ServingPolicy | None = None,
    gpu: str | KernelTimes = DEFAULT_GPU,
    precision: str = "bf16",
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
    tensor : int
        GPUs of an instance, by tensor parallelism.
    policy : ServingPolicy, optional
    gpu : str or KernelTimes
    precision : str
        Of products with parameters.
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
    >>> from astranb.workload.serving import requests_of
    >>> found = serve("llama3-8b", requests_of("closed:users=8,prompt=512,output=64,count=32"))
    >>> found.output_tokens, found.limit
    (2048, 'matrices')
    """
    known = find_model(model) if isinstance(model, str) else model
    if not isinstance(known, Transformer) or not known.vocab:
        raise InputError(f"{known.name} generates no tokens", where="model", hint="take a transformer")
    policy = policy or ServingPolicy()
    times = gpu if isinstance(gpu, KernelTimes) else KernelTimes(gpu_named(gpu), precision)
    job = Job(
        Parallelism(tensor=tensor), 1, 1, mode="decode", precision=times.precision, cache_bytes=cache_bytes,
        expert_imbalance=expert_imbalance,
    )  # fmt: skip
    longest = max(one.prompt + one.output for one in requests.requests)
    check(known, replace(job, sequence=longest))
    ranks = policy.copies * tensor
    kind = "ring" if tensor & (tensor - 1) else "halvingDoubling"
    cluster = machine(_Placed(ranks, times, times.precision), system, network, all_reduce=kind)
    one = cluster
    if network is None:
        # Collectives among some of a network's NPUs are rings; an instance has a network of its own.
        one = machine(_Placed(tensor, times, times.precision), system, all_reduce=kind)
    limit = times.gpu.memory_bytes if limit_bytes is None else limit_bytes
    blocks = cache_blocks(known, job, policy, limit)
    between = CollectiveTimes(cluster.network, cluster.system)
    inside = between if one is cluster else CollectiveTimes(one.network, one.system)
    iterations = BatchTimes(known, job, times, inside, policy.host_ns)
    run = _Run(policy, requests, blocks, iterations, between, tensor, token_bytes(known, job))
    run.all()
    used = f"{policy.memory_fraction:.0%} of {limit / 1e9:.1f} GB"
    assumed = [*cluster.assumed, f"{blocks:,} blocks of keys and values fit beside the weights in {used}"]
    return Served(
        known.name, times.gpu.name, ranks, policy, requests, blocks, run.requests, run.iterations,
        run.transfer_bytes * tensor, assumed,
    )  # fmt: skip


class _Instance:
    """A copy of the model, and what it does."""

    def __init__(self, number: int, role: str, scheduler: Scheduler) -> None:
        self.number, self.role, self.scheduler = number, role, scheduler
        self.link_free_ns = 0
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
        times: BatchTimes,
        network: CollectiveTimes,
        tensor: int,
        each_bytes: int,
    ) -> None:
        self._policy, self._trace, self._times, self._network = policy, trace, times, network
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
        self.iterations: list[tuple[Any, ...]] = []
        self.transfer_bytes = 0
        split = policy.prefill_instances
        self._instances = [
            _Instance(
                number,
                _ROLES[0] if not split else _ROLES[1] if number < split else _ROLES[2],
                Scheduler(policy, blocks, self._preempted),
            )
            for number in range(policy.copies)
        ]
        self._first = [one for one in self._instances if one.role != "decode"]
        self._second = [one for one in self._instances if one.role == "decode"]
        self._queue: list[tuple[int, int, int, Any]] = []
        self._sequence = 0
        self._next = 0
        self._require_room()

    def _require_room(self) -> None:
        """Refuse requests that can never be admitted."""
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
            self._add(self.requests["arrival_ns"][number], _ARRIVAL, number)
        self._next = trace.users
        while self._queue:
            now = self._queue[0][0]
            while self._queue and self._queue[0][0] == now:
                _, _, kind, what = heapq.heappop(self._queue)
                if kind == _ARRIVAL:
                    self._arrive(what)
                elif kind == _ITERATION:
                    self._end(what, now)
                else:
                    self._arrived(*what)
            for one in self._second:
                self._send(one, now)
            for one in self._instances:
                if not one.scheduler.is_busy:
                    self._begin(one, now)

    def _add(self, when: int, kind: int, what: Any) -> None:
        heapq.heappush(self._queue, (when, self._sequence, kind, what))
        self._sequence += 1

    def _preempted(self, one: Sequence) -> None:
        self.requests["preemptions"][one.number] += 1

    def _arrive(self, number: int) -> None:
        to = min(self._first, key=lambda one: one.load)
        request = self._trace.requests[number]
        to.scheduler.waiting.append(Sequence(number, request.prompt, request.output))

    def _begin(self, on: _Instance, now: int) -> None:
        scheduler = on.scheduler
        batch = scheduler.begin()
        if batch is None:
            return
        took = self._times.time(batch)
        end = now + took.total
        for one in scheduler.computing:
            if self.requests["begin_ns"][one.number] < 0:
                self.requests["begin_ns"][one.number] = now
        self.iterations.append(
            (
                on.number, now, end, batch.decodes, batch.seen, batch.tokens - batch.decodes,
                len(batch.chunks), len(scheduler.waiting), scheduler.waits, scheduler.blocks - scheduler.free,
                *took,
            )
        )  # fmt: skip
        self._add(end, _ITERATION, on)

    def _end(self, on: _Instance, now: int) -> None:
        done, ready = on.scheduler.end()
        for one in done:
            first = self.requests["first_token_ns"]
            first[one.number] = now if first[one.number] < 0 else first[one.number]
            self.requests["end_ns"][one.number] = now
            self.requests["instance"][one.number] = on.number
            if self._next and self._next < len(self._trace.requests):
                self.requests["arrival_ns"][self._next] = now
                self._add(now, _ARRIVAL, self._next)
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
