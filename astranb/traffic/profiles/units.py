"""Stages of a job whose units were profiled: what each unit of a model computes, and sums between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from astranb.core.errors import InputError
from astranb.workload.models import (
    EMBEDDING,
    HEAD,
    TAGS,
    Cost,
    Held,
    Job,
    Parallelism,
    PassWriter,
    StageProgram,
    spread,
    write_training,
)

__all__ = ["BALANCES", "ProfiledModel", "ProfiledUnit", "UnitSegment", "stages_of", "unit_memory"]

BALANCES: Final = ("layers", "flops")
"""Distributions of repeated units over stages: as many each, or as many operations."""


class UnitSegment(NamedTuple):
    """Computations of a unit up to a sum of tensor parallelism.

    Attributes
    ----------
    cost : Cost
    summed : int
        Bytes that the ranks of a tensor group sum behind it; 0: none.
    """

    cost: Cost
    summed: int = 0


@dataclass(frozen=True)
class ProfiledUnit:
    """Work of a rank for one unit of a model, of one microbatch.

    Parameters
    ----------
    name : str
    forward, backward : tuple of UnitSegment
    parameters : int
        That a rank holds.
    received : int
        Bytes of activations that come into it.
    kept : int
        Bytes of activations from its forward to its backward pass.
    """

    name: str
    forward: tuple[UnitSegment, ...]
    backward: tuple[UnitSegment, ...]
    parameters: int = 0
    received: int = 0
    kept: int = 0

    @property
    def flops(self) -> int:
        """Operations of both passes."""
        return sum(one.cost.flops for one in (*self.forward, *self.backward))


@dataclass(frozen=True)
class ProfiledModel:
    """The units of a model: what comes before the repeated ones, these, and what follows.

    Parameters
    ----------
    first, last : ProfiledUnit
    units : tuple of ProfiledUnit
        In their order; equal ones are one object.
    tied : int
        Parameters that are in the first and the last unit; the last one's do not count them.
    """

    first: ProfiledUnit
    units: tuple[ProfiledUnit, ...]
    last: ProfiledUnit
    tied: int = 0

    @property
    def parameters(self) -> int:
        """That a rank would hold of all units."""
        return sum(one.parameters for one in (self.first, *self.units, self.last))

    def unit(self, key: int) -> ProfiledUnit:
        """Return a unit by its number, or that of :data:`EMBEDDING` or :data:`HEAD`."""
        return {EMBEDDING: self.first, HEAD: self.last}.get(key) or self.units[key]


class _UnitWriter(PassWriter):
    """Writes the program of a stage of profiled units."""

    def __init__(
        self, model: ProfiledModel, job: Job, stage: int, places: Sequence[range], bucket_bytes: int
    ) -> None:
        self.model = model
        ends = job.parallelism.pipeline * job.parallelism.interleave
        self._places = places[stage :: job.parallelism.pipeline]
        passes = [list(some) for some in self._places]
        if stage == 0 and model.first.forward:
            passes[0].insert(0, EMBEDDING)
        if stage == job.parallelism.pipeline - 1 and model.last.forward:
            passes[-1].append(HEAD)
        held = {key: Held(model.unit(key).parameters) for keys in passes for key in keys}
        if ends > 1 and HEAD in held:
            held[HEAD] = Held(model.last.parameters + model.tied)
        super().__init__(job, stage, passes, held, bucket_bytes)

    def received_bytes(self, chunk: int) -> int:
        """Return the bytes that a chunk's first unit reads."""
        return self._into(self._places[chunk].start)

    def sent_bytes(self, chunk: int) -> int:
        """Return the bytes that the unit behind a chunk's last one reads."""
        return self._into(self._places[chunk].stop)

    def _into(self, unit: int) -> int:
        known = self.model.units
        return known[unit].received if unit < len(known) else self.model.last.received

    @property
    def shared_bytes(self) -> int:
        """Bytes of gradients of parameters that the first and the last unit share."""
        ends = {EMBEDDING, HEAD} & set(self._held)
        return self.model.tied * self.job.gradient_bytes if ends else 0

    def forward_unit(
        self, key: int, micro: int, x: tuple[int, ...], *, seen: int, again: bool = False
    ) -> tuple[int, ...]:
        """Add the forward pass of a unit."""
        del seen
        unit = self.model.unit(key)
        name = f"{unit.name} {'again' if again else 'fwd'} {micro}"
        return self._segments(name, unit.forward, (*x, *self._gathered.pop(key, ())), again=again)

    def backward_unit(self, key: int, micro: int, g: tuple[int, ...]) -> tuple[int, ...]:
        """Add the backward pass of a unit."""
        unit = self.model.unit(key)
        ready = (*g, *self._gathered.pop(key, ()))
        if self.job.recompute == "full" and key >= 0:
            again = self.forward_unit(key, micro, ready[len(g) :], seen=0, again=True)
            ready = (*ready, *again)
        return self._segments(f"{unit.name} bwd {micro}", unit.backward, ready)

    def _segments(
        self, name: str, segments: Sequence[UnitSegment], x: tuple[int, ...], *, again: bool = False
    ) -> tuple[int, ...]:
        for number, one in enumerate(segments):
            done = self.program.compute(f"{name} part {number}", one.cost, x, again=again)
            x = self.program.collect("all_reduce", "tensor", one.summed, f"{name} sum {number}", [done])
        return x


def stages_of(
    model: ProfiledModel, job: Job, balance: str = "layers", bucket_bytes: int = 0
) -> list[StageProgram]:
    """Return the program of each stage.

    Parameters
    ----------
    model : ProfiledModel
    job : Job
        A training step.
    balance : str
        One of :data:`BALANCES`.
    bucket_bytes : int
        Gradients are summed when so many are complete; 0: unit by unit.

    Raises
    ------
    InputError
        There are more stages and chunks than units.
    """
    degrees, count = job.parallelism, len(model.units)
    parts = degrees.pipeline * degrees.interleave
    if parts > max(count, 1):
        what = f"{parts} stages and chunks of {count} units"
        raise InputError(what, where="pipeline", hint=f"take at most {max(count, 1)}")
    segments = sum(len(one.forward) + len(one.backward) for one in model.units) or 2
    job.require(job.microbatches * 2 * -(-segments // parts))
    if 2 * (job.microbatches + 1) * parts >= TAGS:
        raise InputError("more messages than tags", where="microbatches", hint="take fewer")
    places = (
        [*_balanced([one.flops for one in model.units], parts)]
        if balance == "flops"
        else _even(count, degrees)
    )
    stages = []
    for stage in range(degrees.pipeline):
        writer = _UnitWriter(model, job, stage, places, bucket_bytes)
        write_training(writer, job)
        stages.append(writer.program)
    return stages


def _even(count: int, degrees: Parallelism) -> list[range]:
    """Return the units of each chunk of the pipeline, in its order: as many each."""
    by_stage = [spread(count, degrees, stage) for stage in range(degrees.pipeline)]
    return [
        by_stage[stage][chunk] for chunk in range(degrees.interleave) for stage in range(degrees.pipeline)
    ]


def _balanced(flops: Sequence[int], parts: int) -> list[range]:
    """Divide units into parts whose largest has as few operations as possible.

    Examples
    --------
    >>> _balanced([3, 1, 1, 1], 2)
    [range(0, 1), range(1, 4)]
    """
    sums = [0, *accumulate(flops)]

    def divided(most: int) -> list[range] | None:
        found, first = [], 0
        for left in range(parts - 1, -1, -1):
            # As many as fit, and one for each part that follows.
            end = bisect_left(sums, sums[first] + most + 1) - 1
            end = min(max(end, first + 1), len(flops) - left)
            if sums[end] - sums[first] > most:
                return None
            found.append(range(first, end))
            first = end
        return found if first == len(flops) else None

    low, high = max(flops), sums[-1]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if divided(middle) else (middle + 1, high)
    best = divided(low)
    assert best is not None  # noqa: S101 - one part for all operations always fits
    return best


def unit_memory(model: ProfiledModel, job: Job, program: StageProgram) -> int:
    """Return a rank's peak bytes of parameters, gradients, optimizer and kept activations.

    Parameters
    ----------
    model : ProfiledModel
    job : Job
    program : StageProgram
        Of the rank's stage; its units give the order of passes.
    """
    degrees = job.parallelism
    keys = {unit.key for unit in program.units}
    count = sum(model.unit(key).parameters for key in keys)
    part = -(-count // degrees.size("data"))
    zero = degrees.zero
    states = (
        (part if zero > 2 else count) * job.bytes_each
        + (part if zero > 1 else count) * job.gradient_bytes
        + (part if zero > 0 else count) * job.optimizer_bytes
    )
    held = fullest = 0
    for unit in program.units:
        one = model.unit(unit.key)
        kept = one.received if job.recompute == "full" and unit.key >= 0 else one.kept
        held += kept if unit.is_forward else 0
        fullest = max(fullest, held)
        held -= 0 if unit.is_forward else kept
    return states + fullest
