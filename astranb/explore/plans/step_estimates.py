"""The time of a training step without simulating it: a stage's passes in a row, and the pipeline's bubble."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from astranb.chakra import CollectiveType, NodeType
from astranb.chakra.scaling import GROUPS, PEERS
from astranb.explore.algorithms import CollectiveTimes
from astranb.workload.models import Job, Stage, StageProgram, Transformer, bubble_of, rank_memory

if TYPE_CHECKING:
    from astranb.workload.kernels import KernelTimes

__all__ = ["LOSSES", "StepEstimate", "estimate_step"]

LOSSES: Final = ("collectives", "bubble", "update")
"""Parts of a step that are not computing: waits in the passes, waits for other stages, before and after."""


@dataclass(frozen=True)
class StepEstimate:
    """Breakdown of a step's time, for the rank that is busy longest; in nanoseconds.

    Attributes
    ----------
    step_ns : int
    compute_ns : int
        In the passes of all microbatches.
    exposed_ns : int
        Waiting for collectives inside the passes.
    bubble_ns : int
        Waiting for other stages.
    ends_ns : int
        Before the first pass and after the last one: parameters, gradients, the optimizer.
    """

    step_ns: int
    compute_ns: int
    exposed_ns: int
    bubble_ns: int
    ends_ns: int

    @property
    def step_ms(self) -> float:
        """:attr:`step_ns` in milliseconds."""
        return self.step_ns / 1e6

    @property
    def step_s(self) -> float:
        """:attr:`step_ns` in seconds."""
        return self.step_ns / 1e9

    @property
    def parts_ns(self) -> dict[str, int]:
        """The parts of the step by name: ``computing``, then :data:`LOSSES`."""
        took = (self.compute_ns, self.exposed_ns, self.bubble_ns, self.ends_ns)
        return dict(zip(("computing", *LOSSES), took, strict=True))

    @property
    def parts_s(self) -> dict[str, float]:
        """:attr:`parts_ns` in seconds."""
        return {name: part / 1e9 for name, part in self.parts_ns.items()}

    @property
    def limit(self) -> str:
        """Largest part of the step, of :attr:`parts_ns`."""
        parts = self.parts_ns
        return max(parts, key=lambda name: parts[name])


def estimate_step(model: Transformer, job: Job, times: KernelTimes, network: CollectiveTimes) -> StepEstimate:
    """Estimate the time of a training step.

    Two microbatches of the first, a middle and the last stage are laid out in time, each as if messages
    of other stages had arrived. The second one's time counts for all of the batch; the pipeline fills and
    drains once (Narayanan et al. 2021, arXiv 2104.04473, section 2.2).

    Parameters
    ----------
    model : Transformer
    job : Job
        A training step.
    times : KernelTimes
    network : CollectiveTimes
    """
    degrees = job.parallelism
    stages = sorted({0, degrees.pipeline // 2, degrees.pipeline - 1})
    passes = [_stage(model, job, stage, times, network) for stage in stages]
    slowest = max(passes, key=lambda one: one.micro_ns)
    ends = max(one.before_ns + one.after_ns for one in passes)
    hop = 0
    if degrees.pipeline > 1:
        size = Stage(model, job, 0).costs.message
        hop = 2 * network.message_ns(0, degrees.per_stage, size)
    others = sum(one.micro_ns for one in passes) / len(passes)
    lengths = (slowest.kinds_ns[0], slowest.kinds_ns[1], slowest.kinds_ns[2])
    bubble = round(bubble_of(degrees, job.microbatches, lengths) * others + (degrees.pipeline - 1) * hop)
    step = ends + job.microbatches * slowest.micro_ns + bubble
    computed = job.microbatches * slowest.compute_ns
    return StepEstimate(step, computed, job.microbatches * slowest.micro_ns - computed, bubble, ends)


@dataclass(frozen=True)
class _Passes:
    """The passes of one stage: of a microbatch, and what comes before and after all of them."""

    micro_ns: int
    compute_ns: int
    before_ns: int
    after_ns: int
    kinds_ns: list[int]
    """Of the microbatch's forward passes, its backward ones, and those of parameters' gradients."""


def _stage(model: Transformer, job: Job, stage: int, times: KernelTimes, network: CollectiveTimes) -> _Passes:
    """Lay out two microbatches of a stage."""
    writer = Stage(model, job, stage)
    if times.expanded is not None:
        times = times.holding(rank_memory(model, job, stage).parts)
    chunks = range(job.parallelism.interleave)
    marks, parts = [], [(0, 0)]
    for micro in range(2):
        ends = [writer.forward(chunk, micro) for chunk in chunks]
        parts.append((0, len(writer.program)))
        for chunk in reversed(chunks):
            writer.backward(chunk, micro, last=micro == 1, end=ends[chunk])
            parts.append((1, len(writer.program)))
            if writer.degrees.splits_backward:
                writer.weights_pass(chunk, micro, last=micro == 1)
                parts.append((2, len(writer.program)))
        marks.append(len(writer.program))
    writer.update()
    ends_ns, took = _laid_out(writer.program, stage, times, network)
    program = writer.program

    def last(until: int) -> int:
        """Return the end of everything but the background."""
        return max((ends_ns[row] for row in range(until) if not program.background[row]), default=0)

    kinds = [0, 0, 0]
    for (_, since), (kind, until) in pairwise(parts):
        kinds[kind] += (last(until) - last(since)) * (until > marks[0])
    first, second = last(marks[0]), last(marks[1])
    computes = [row for row in range(marks[0], marks[1]) if program.kind[row] == NodeType.COMP]
    micro = second - first
    computed = sum(took[row] for row in computes)
    return _Passes(micro, computed, max(0, first - micro), max(ends_ns) - second, kinds)


def _laid_out(
    program: StageProgram, stage: int, times: KernelTimes, network: CollectiveTimes
) -> tuple[list[int], list[int]]:
    """Return the end and length of each operation: each begins when what it waits for has ended."""
    degrees = program.parallelism
    rank = stage * degrees.per_stage
    groups = {name: degrees.group(name, rank) for name in GROUPS}
    known: dict[tuple[object, ...], int] = {}
    ends, took = [0] * len(program), [0] * len(program)
    sent: dict[int, int] = {}
    for row, kind in enumerate(program.kind):
        size = program.size[row]
        key: tuple[object, ...]
        if kind == NodeType.COMP:
            key = program.flops[row], size, program.kernels[row]
        else:
            key = kind, program.collective[row], program.group[row], size, program.peer[row]
        if key not in known:
            known[key] = _duration_ns(program, row, rank, groups, times, network)
        begins = max((ends[dep] for dep in program.deps[row]), default=0)
        if kind == NodeType.COMM_RECV:
            # What comes round a ring is sent by all at the same time.
            begins = max(begins, sent.get(program.tag[row], 0))
        took[row] = known[key]
        ends[row] = begins + took[row]
        if kind == NodeType.COMM_SEND and "context" in PEERS[program.peer[row]]:
            sent[program.tag[row]] = ends[row]
    return ends, took


def _duration_ns(
    program: StageProgram,
    row: int,
    rank: int,
    groups: dict[str, list[int]],
    times: KernelTimes,
    network: CollectiveTimes,
) -> int:
    kind, size = program.kind[row], program.size[row]
    if kind == NodeType.COMP:
        return times.computation_ns(program.flops[row], size, program.kernels[row])
    if kind == NodeType.COMM_COLL:
        name = CollectiveType(program.collective[row]).name.lower()
        return network.collective_ns(name, groups[GROUPS[program.group[row]]], size)
    if kind == NodeType.COMM_SEND and "context" in PEERS[program.peer[row]]:
        return network.message_ns(rank, program.parallelism.peer(program.peer[row], rank), size)
    return 0  # messages of stages are taken to have arrived
