"""Results of serving: latencies, throughput, and what limits them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from astranb.core.data_frames import frame
from astranb.core.errors import InputError
from astranb.core.files import write_frames
from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.workload.serving import RequestTrace, ServingPolicy

from .batch_times import PARTS
from .scheduler import REASONS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Iteration", "Served"]

_PERCENTILES: Final = (50, 90, 99)
_TABLES: Final = ("requests", "iterations", "gaps")
_TITLES: Final = {
    "ttft_ns": "time to first token",
    "tpot_ns": "time per output token",
    "itl_ns": "between two tokens",
    "latency_ns": "end to end",
    "queue_ns": "waiting to begin",
}


class Iteration(NamedTuple):
    """One iteration of an instance.

    Attributes
    ----------
    instance : int
        Its number; of instances of several stages, that of the batch in their pipelines.
    begin_ns, end_ns : int
    decodes, seen_tokens : int
        Sequences of which a token is computed, and the tokens that these attend to.
    prompt_tokens, prompts : int
        Tokens of prompts, and from how many of them.
    waiting : int
        Requests that are at the instance and have not been admitted.
    waits_for : str
        Why the first of these waits; "": none does.
    blocks : int
        Blocks of keys and values in use.
    matrices_ns, attention_ns, elementwise_ns, tensor_ns, host_ns, pipeline_ns : int
        Its time by part.
    """

    instance: int
    begin_ns: int
    end_ns: int
    decodes: int
    seen_tokens: int
    prompt_tokens: int
    prompts: int
    waiting: int
    waits_for: str
    blocks: int
    matrices_ns: int
    attention_ns: int
    elementwise_ns: int
    tensor_ns: int
    host_ns: int
    pipeline_ns: int


@dataclass(frozen=True)
class Served:
    """Results of serving a trace of requests; times in nanoseconds.

    Attributes
    ----------
    model, gpu : str
    gpus : int
        Of all instances.
    stages : int
        Stages of an instance, and batches that are on their way through them.
    policy : ServingPolicy
    trace : RequestTrace
    blocks : int
        Blocks of keys and values of an instance.
    requests : dict of str to list
        A value for each request: ``arrival_ns``, ``prompt``, ``output``, ``instance`` (that gave its last
        token), ``begin_ns`` (of its first iteration), ``first_token_ns``, ``end_ns``, ``preemptions``,
        ``transfer_ns`` (waiting for the network and sending its keys and values).
    iterations : list of Iteration
    gaps : tuple of ndarray
        Times between two tokens of a request, ascending, and how often each occurs.
    transfer_bytes : int
        Keys and values that were sent between instances, of all ranks.
    assumed : list of str
        The assumptions, one line each.
    """

    model: str
    gpu: str
    gpus: int
    stages: int
    policy: ServingPolicy
    trace: RequestTrace
    blocks: int
    requests: dict[str, list[int]]
    iterations: list[Iteration]
    gaps: tuple[np.ndarray, np.ndarray]
    transfer_bytes: int
    assumed: list[str]

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last token."""
        return max(self.requests["end_ns"]) - min(self.requests["arrival_ns"])

    @property
    def duration_s(self) -> float:
        """:attr:`duration_ns` in seconds."""
        return self.duration_ns / 1e9

    @property
    def batches(self) -> int:
        """Batches that are computed at once: one for each stage of each instance."""
        return self.policy.copies * self.stages

    @property
    def output_tokens(self) -> int:
        """Tokens that were given."""
        return sum(self.requests["output"])

    @property
    def output_tokens_per_s(self) -> float:
        """Tokens that all instances give in a second."""
        return self.output_tokens / self.duration_s

    @property
    def requests_per_s(self) -> float:
        """Requests that are answered in a second."""
        return len(self.requests["end_ns"]) / self.duration_s

    def per_request(self) -> dict[str, np.ndarray]:
        """Return the columns of :attr:`requests`, and what follows from them.

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

    def to_dataframe(self, what: str = "requests", *, time: str | None = None) -> pd.DataFrame:
        """Return a frame with a row for each request, each iteration, or each time between two tokens.

        Parameters
        ----------
        what : str
            ``requests``, ``iterations`` or ``gaps``.
        time : str, optional
            Unit of all times: ``ps``, ``ns`` (by default), ``us``, ``ms`` or ``s``.

        Raises
        ------
        InputError
            It is something else, or no such unit.

        Examples
        --------
        >>> import astranb as anb
        >>> from astranb.workload import serving
        >>> trace = serving.requests_of("closed:users=8,prompt=512,output=64,count=32")
        >>> served = anb.explore.serve("llama3-8b", trace)
        >>> bool(served.to_dataframe(time="s")["end_s"].max() == served.duration_s)
        True
        """
        if what == "requests":
            return frame(self.per_request(), time).rename_axis("request")
        if what == "iterations":
            return frame([one._asdict() for one in self.iterations], time).rename_axis("iteration")
        if what == "gaps":
            return frame(dict(zip(("gap_ns", "tokens"), self.gaps, strict=True)), time)
        raise InputError(f"no table {what[:40]!r}", where="serve", hint=f"take {', '.join(_TABLES)}")

    def write_frames(self, folder: str | Path) -> list[str]:
        """Write the frames as ``requests.csv``, ``iterations.csv`` and ``gaps.csv`` into a folder."""
        return write_frames({name: self.to_dataframe(name) for name in _TABLES}, folder)

    def percentiles(self, name: str) -> dict[str, float | None]:
        """Return the mean and percentiles 50, 90 and 99 of a column, as ``ttft_ns``; None: it has no values.

        They are those of serving benchmarks (vLLM's benchmark_serving): ``ttft_ns``, ``tpot_ns`` (without the
        first token) and ``latency_ns`` (E2E) count each request but those of the warm-up; ``itl_ns`` (ITL),
        the time between two tokens, counts each token of all requests.
        """
        if name == "itl_ns":
            values, counts = self.gaps
        else:
            column = self.per_request()[name][self.trace.warmup :].astype(float)
            values = np.sort(column[~np.isnan(column)])
            counts = np.ones(len(values), np.int64)
        if not len(values):
            return dict.fromkeys(("mean", *(f"p{each}" for each in _PERCENTILES)))
        # As numpy.percentile does, between the two values around each place.
        ends = np.cumsum(counts)
        places = np.array(_PERCENTILES) / 100 * (ends[-1] - 1)
        below = values[np.searchsorted(ends, np.floor(places), side="right")]
        above = values[np.searchsorted(ends, np.ceil(places), side="right")]
        cuts = below + (above - below) * (places % 1)
        found = {f"p{each}": float(cut) for each, cut in zip(_PERCENTILES, cuts, strict=True)}
        return {"mean": float((values * counts).sum() / ends[-1]), **found}

    def time_ns(self) -> dict[str, int]:
        """Return the time of all instances by part, with ``idle``."""
        found = {
            name: sum(getattr(one, f"{name.replace('-', '')}_ns") for one in self.iterations)
            for name in PARTS
        }
        return {**found, "idle": self.batches * self.duration_ns - sum(found.values())}

    def waits_ns(self) -> dict[str, int]:
        """Return for how long requests waited at an instance, by reason."""
        found: Counter[str] = Counter()
        for one in self.iterations:
            if one.waits_for:
                found[one.waits_for] += one.end_ns - one.begin_ns
        return {name: found[name] for name in REASONS if found[name]}

    @property
    def peak_blocks(self) -> int:
        """Blocks that were in use at once, at most, of an instance."""
        return max(one.blocks for one in self.iterations)

    @property
    def mean_blocks(self) -> float:
        """Blocks in use of an instance while it computes, on average over time."""
        spans = [(one.end_ns - one.begin_ns, one.blocks) for one in self.iterations]
        return sum(span * used for span, used in spans) / sum(span for span, _ in spans)

    @property
    def mean_decodes(self) -> float:
        """Sequences that decode in an iteration, on average."""
        return sum(one.decodes for one in self.iterations) / len(self.iterations)

    @property
    def limit(self) -> str:
        """Largest part of the instances' time: one of the parts, or ``idle``."""
        parts = self.time_ns()
        return max(parts, key=lambda name: parts[name])

    def document(self) -> dict[str, Any]:
        """Return all figures by name."""
        given = self.output_tokens_per_s
        preempted = self.requests["preemptions"]
        moved = [took for took in self.requests["transfer_ns"] if took]
        return {
            "model": self.model,
            "gpu": self.gpu,
            "gpus": self.gpus,
            "instances": self.policy.copies,
            "stages": self.stages,
            "engine": self.policy.engine or None,
            "requests": len(preempted),
            "prompt_tokens": self.trace.prompt_tokens,
            "output_tokens": self.output_tokens,
            "duration_ns": self.duration_ns,
            "requests_per_s": self.requests_per_s,
            "output_tokens_per_s": given,
            "output_tokens_per_s_per_gpu": given / self.gpus,
            **{name: self.percentiles(name) for name in _TITLES},
            "iterations": len(self.iterations),
            "mean_decodes": self.mean_decodes,
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
        kind = split if self.policy.prefill_instances else plural(copies, "instance")
        kind += f" of {self.stages} stages" if self.stages > 1 else ""
        took = format_time(self.duration_ns * 1000)
        by = f" by {self.policy.engine}" if self.policy.engine else ""
        rates = f"{self.requests_per_s:,.4g} requests/s, {given:,.0f} output tokens/s"
        lines = [
            f"{self.model} on {self.gpus} x {self.gpu}{by}, {kind}: {plural(count, 'request')} in {took}",
            f"{rates}, {given / self.gpus:,.0f} per GPU",
        ]
        for name, title in _TITLES.items():
            found = self.percentiles(name)
            cells = ", ".join(
                f"{key} {format_time(round(value * 1000))}"
                for key, value in found.items()
                if value is not None
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
                f"{len(moved):,} transfers of keys and values, {self.transfer_bytes / 1e9:,.1f} GB, "
                f"{format_time(round(sum(moved) / len(moved) * 1000))} each with waiting"
            )
        return "\n".join([*lines, *self.explain(), *(f"assumed: {line}" for line in self.assumed)])

    def explain(self) -> list[str]:
        """Explain in a few lines what limits the server, and what to change."""
        whole = self.batches * self.duration_ns
        parts = sorted(self.time_ns().items(), key=lambda one: -one[1])
        listed = ", ".join(f"{name} {took / whole:.1%}" for name, took in parts if took > whole / 2000)
        lines = [f"time of instances: {listed}; {self.mean_decodes:.1f} decoding sequences in an iteration"]
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
    "pipeline": "fewer stages and more instances",
}
_ROOM: Final = {
    "batch": "raise --max-batch, or add instances",
    "memory": "take an fp8 cache, more GPUs for each instance, or more instances",
    "budget": "raise --token-budget, or add instances",
    "prefill": "try --chunked-prefill, or --disaggregate",
    "overlap": "smaller iterations let them wait less (--token-budget)",
}
