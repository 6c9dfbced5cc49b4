"""Plans of a model on given GPUs: all that fit in memory, estimated, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from astranb.chakra.scaling import divisors
from astranb.core.data_frames import frame
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.text_table import aligned
from astranb.core.units import format_time
from astranb.explore.algorithms import CollectiveTimes
from astranb.workload.models import (
    Cluster,
    Job,
    ModelStep,
    Parallelism,
    RankMemory,
    Transformer,
    check,
    fullest,
    machine,
    options_of,
    proposal,
    shares,
)

from .step_estimates import LOSSES, StepEstimate, estimate_step

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelPlan", "PlanSearch", "suggest"]

_CONTEXT_TOKENS: Final = 4096
"""Context parallelism leaves a rank at least as many tokens of a sequence."""
_CHUNKS: Final = 3
"""Interleaved schedules that are tried for a number of stages: few, some and most chunks."""
_MICRO: Final = (1, 2, 4, 8)
_RECOMPUTE: Final = ("none", "selective", "full")


@dataclass(frozen=True)
class ModelPlan:
    """A way to divide a training step over the GPUs.

    Attributes
    ----------
    job : Job
    estimate : StepEstimate
        Its time.
    memory : RankMemory
        Of the rank that needs most.
    """

    job: Job
    estimate: StepEstimate
    memory: RankMemory

    @property
    def options(self) -> str:
        """The plan as options of ``astranb run model``."""
        return options_of(self.job)

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the step's time that are not computing, from 0 to 1."""
        parts_ns = self.estimate.parts_ns
        return {name: parts_ns[name] / self.estimate.step_ns for name in LOSSES}

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens a second and GPU."""
        return self.job.new_tokens / self.estimate.step_s / self.job.parallelism.ranks

    def why(self) -> str:
        """Explain where the time goes, and how full the memory is."""
        lost = [f"{name} {part:.1%}" for name, part in self.shares.items() if part >= 0.0005]
        if self.job.recompute != "none":
            lost.append(f"computes again ({self.job.recompute})")
        return f"{', '.join(lost) or 'nothing lost'}; {self.memory.total_GB:.1f} GB"

    def against(self, other: ModelPlan) -> str:
        """Describe which parts of the time are shorter and longer than another plan's, largest first.

        Parts that differ by less than half a per cent of the other's step are left out.
        """
        least, before_ns = other.estimate.step_ns / 200, other.estimate.parts_ns
        more = {name: part - before_ns[name] for name, part in self.estimate.parts_ns.items()}
        named = sorted(more.items(), key=lambda one: -abs(one[1]))
        listed = [f"{name} {_signed(part)}" for name, part in named if abs(part) >= least]
        return ", ".join(listed) or "as fast"

    def document(self) -> dict[str, Any]:
        """Return all figures by name."""
        return {
            "options": self.options,
            "step_ns": self.estimate.step_ns,
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "estimate": asdict(self.estimate),
            "memory": self.memory.document(),
            "why": self.why(),
        }


@dataclass(frozen=True)
class PlanSearch:
    """Result of a search of plans.

    Attributes
    ----------
    given : ModelPlan
        The plan that it began with, whether it fits or not.
    best : list of ModelPlan
        The fastest first.
    considered, estimated : int
        Plans whose memory was looked at, and those that fit and were estimated.
    limit_bytes : int
        The memory of a GPU.
    remedy : str
        What to do where none fits.
    """

    given: ModelPlan
    best: list[ModelPlan]
    considered: int
    estimated: int
    limit_bytes: int
    remedy: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """Return the given plan and the best ones as rows of a table; parts of the time from 0 to 1."""
        return [
            {
                "plan": plan.options,
                "step_ns": plan.estimate.step_ns,
                "gain": self.given.estimate.step_ns / plan.estimate.step_ns,
                "tokens_per_s_per_gpu": plan.tokens_per_s_per_gpu,
                **plan.shares,
                "recompute": plan.job.recompute,
                "memory_bytes": plan.memory.total,
                "fits": plan.memory.total <= self.limit_bytes,
                "why": "given" if plan is self.given else plan.against(self.given),
            }
            for plan in (self.given, *self.best)
        ]

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return :meth:`rows` as a pandas frame, with its times in the unit asked for (``"ms"``)."""
        return frame(self.rows(), time)

    def text(self) -> str:
        """Write the given plan and the best ones as a table."""
        ranks, limit = self.given.job.parallelism.ranks, self.limit_bytes / 1e9
        lines = [
            (
                f"{plural(self.considered, 'plan')} for {plural(ranks, 'GPU')}: "
                f"{self.estimated:,} fit in {limit:.1f} GB"
            )
        ]
        heads = ["step", "gain", *LOSSES, "GB", "plan", "against the given plan"]
        cells = [
            [
                format_time(row["step_ns"] * 1000),
                f"{row['gain']:.2f}",
                *(f"{row[name]:.1%}" for name in LOSSES),
                f"{row['memory_bytes'] / 1e9:.1f}",
                row["plan"],
                row["why"] + ("" if row["fits"] else ", does not fit"),
            ]
            for row in self.rows()
        ]
        lines += aligned(heads, cells, left=(6, 7))
        if not self.best:
            lines.append(f"none fits: {self.remedy}")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return all figures by name."""
        return {
            "considered": self.considered,
            "estimated": self.estimated,
            "limit_bytes": self.limit_bytes,
            "given": self.given.document(),
            "best": [one.document() for one in self.best],
        }


def _signed(time_ns: int) -> str:
    return f"{'-' if time_ns < 0 else '+'}{format_time(abs(time_ns) * 1000)}"


def suggest(
    step: ModelStep, cluster: Cluster | None = None, *, limit_bytes: int | None = None, count: int = 10
) -> PlanSearch:
    """Search other plans for a training step on the same GPUs, with the same batch.

    Tensor, pipeline, context, expert and data degrees, ZeRO 1 and 3, microbatches, chunks of stages and
    recomputation are varied; of recomputation the least that fits, as computing again only costs time,
    unless memory is expanded: then what is kept may be slower.
    ZeRO 0 and 2 are left out: 1 is as fast as 0 and smaller; 3 is smaller than 2. With stages there is no
    ZeRO 3, which would gather the parameters again for every microbatch.

    Parameters
    ----------
    step : ModelStep
        A training step of a transformer, with a GPU. Its batch, sequence, precision and other options are
        kept.
    cluster : Cluster, optional
        Default: that of :func:`astranb.workload.models.machine`.
    limit_bytes : int, optional
        Memory of a GPU. Default: that of the step's GPU, with its expansion.
    count : int
        How many of the best to give.

    Raises
    ------
    InputError
        It is another step.

    Examples
    --------
    >>> from astranb import models
    >>> found = suggest(models.workload("gpt3-2.7b", models.Parallelism(data=4), batch=16, gpu="h100-sxm"))
    >>> times = [plan.estimate.step_ns for plan in found.best]
    >>> times == sorted(times) and times[0] <= found.given.estimate.step_ns
    True
    """
    if step.plan is None or step.times is None or step.plan[1].mode != "training":
        what = "plans are searched for training steps of transformers on a GPU"
        raise InputError(what, where="suggest", hint="leave --suggest out")
    (model, job), times = step.plan, step.times
    if step.moved_bytes:
        what = "plans with loads from and stores to a memory outside the GPUs are not estimated"
        raise InputError(
            what, where="suggest", hint="leave --offload out, or offload to the host's optimizer"
        )
    limit = times.memory_bytes if limit_bytes is None else limit_bytes
    on = machine(step) if cluster is None else cluster
    known = CollectiveTimes(on.network, on.system)
    memory = fullest(model, job)
    # A plan that does not fit is estimated as if it did, in the GPU's own memory.
    own = times if memory.total <= times.memory_bytes else times.expanded_by(None)
    given = ModelPlan(job, estimate_step(model, job, own, known), memory)
    plans: list[ModelPlan] = []
    considered = 0
    for family in _families(model, job, on.network.npus_count[0]):
        for one in family:
            considered += 1
            memory = fullest(model, one)
            if memory.total <= limit:
                plans.append(ModelPlan(one, estimate_step(model, one, times, known), memory))
                if times.expanded is None:
                    break
    plans.sort(key=lambda one: (one.estimate.step_ns, one.memory.total))
    remedy = "" if plans else proposal(model, job, limit, fp8=False, host=times.expanded is None)
    return PlanSearch(given, plans[:count], considered, len(plans), limit, remedy)


def _families(model: Transformer, job: Job, per_node: int) -> Iterator[list[Job]]:
    """Yield plans that differ in recomputation alone, the fastest of each family first."""
    same = replace(job, library=job.framework)
    for degrees in _degrees(model, job, per_node):
        replicas = job.batch // degrees.data
        for micro in _MICRO:
            if replicas % micro:
                continue
            many = replicas // micro
            family = []
            for recompute in _RECOMPUTE:
                try:
                    one = replace(same, parallelism=degrees, microbatches=many, recompute=recompute)
                    check(model, one)
                except InputError:
                    continue
                family.append(one)
            if family:
                yield family


def _degrees(model: Transformer, job: Job, per_node: int) -> Iterator[Parallelism]:
    """Yield degrees of parallelism that multiply to the number of ranks and divide the model."""
    ranks = job.parallelism.ranks
    for tensor in divisors(ranks, per_node):
        if any(shares(model, tensor)):
            continue
        for pipeline in divisors(ranks // tensor, model.layers):
            for context in divisors(ranks // tensor // pipeline, max(1, job.sequence // _CONTEXT_TOKENS)):
                data = ranks // (tensor * pipeline * context)
                if job.batch % data:
                    continue
                for expert in divisors(data, max(1, model.experts)):
                    for interleave in _interleaves(model.layers, pipeline):
                        for zero in (1, 3) if data * context > 1 else (0,):
                            if zero == 3 and pipeline > 1:
                                # Each microbatch gathers the parameters again, for every stage.
                                continue
                            yield Parallelism(
                                data, tensor, pipeline, context, expert, tensor > 1, zero, interleave
                            )


def _interleaves(layers: int, stages: int) -> list[int]:
    """Return numbers of chunks that divide the layers evenly: one, and a few of the others."""
    if stages == 1:
        return [1]
    if layers % stages:
        return [1]
    every = divisors(layers // stages, layers // stages)[1:]
    step = -(-len(every) // _CHUNKS) if every else 1
    return [1, *every[::-1][::step][::-1]]
