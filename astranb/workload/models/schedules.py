"""Schedules of a pipeline: the order of the passes of each stage."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from astranb.chakra.scaling import Parallelism

__all__ = ["Pass", "bubble_of", "one_forward_one_backward", "stage_order"]


class Pass(NamedTuple):
    """One pass of a microbatch through a chunk.

    Attributes
    ----------
    is_forward : bool
    chunk, micro : int
    is_weights : bool
        Whether it computes the gradients of parameters, which a schedule without bubbles does apart from
        those of inputs; a backward pass that is not divided has both.
    """

    is_forward: bool
    chunk: int
    micro: int
    is_weights: bool = False


def stage_order(degrees: Parallelism, stage: int, microbatches: int) -> list[Pass]:
    """Return the order of a stage's passes.

    ``1f1b`` is that of Narayanan et al. 2021 (arXiv 2104.04473). The others divide backward passes in the
    gradients of inputs and those of parameters: ``zbh1`` and ``zbv`` are ZB-H1 and ZB-V (Qi et al., Zero
    Bubble Pipeline Parallelism, arXiv 2401.10241), ``v-half`` and ``v-min`` keep about a half and a third of
    1F1B's activations (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362). Those of
    a V have two chunks of each stage: the first half of the model goes down the stages, the second half back.

    Examples
    --------
    >>> letter = lambda one: "F" if one.is_forward else "W" if one.is_weights else "B"
    >>> order = stage_order(Parallelism(pipeline=2, schedule="zbh1"), 1, 3)
    >>> [f"{letter(one)}{one.micro}" for one in order]
    ['F0', 'B0', 'F1', 'B1', 'W0', 'F2', 'B2', 'W1', 'W2']
    """
    stages = degrees.pipeline
    if degrees.schedule == "zbh1":
        return _zbh1(stage, stages, microbatches)
    if degrees.schedule == "zbv":
        return list(_zbv(stage, stages, microbatches))
    if degrees.is_vee:
        return list(_vees(degrees.schedule, stages, microbatches)[stage])
    return one_forward_one_backward(stage, stages, microbatches, degrees.interleave)


def one_forward_one_backward(stage: int, stages: int, microbatches: int, interleave: int = 1) -> list[Pass]:
    """Return the order of passes in 1F1B, plain or interleaved (Narayanan et al. 2021, section 2.2).

    Parameters
    ----------
    stage, stages : int
    microbatches : int
        Interleaved, a multiple of ``stages``.
    interleave : int
        Chunks of a stage.

    Examples
    --------
    >>> ["FB"[not one.is_forward] + str(one.micro) for one in one_forward_one_backward(0, 2, 3)]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    total = microbatches * interleave
    if interleave == 1:
        ahead = min(stages - stage - 1, total)
    else:
        ahead = min(2 * (stages - stage - 1) + (interleave - 1) * stages, total)
    cycle = stages * interleave

    def forward(number: int) -> Pass:
        if interleave == 1:
            return Pass(True, 0, number)  # noqa: FBT003 - named above
        return Pass(True, number % cycle // stages, number // cycle * stages + number % stages)  # noqa: FBT003

    def backward(number: int) -> Pass:
        one = forward(number)
        return Pass(False, interleave - 1 - one.chunk, one.micro)  # noqa: FBT003

    order = [forward(number) for number in range(ahead)]
    for number in range(total - ahead):
        order += [forward(ahead + number), backward(number)]
    return order + [backward(number) for number in range(total - ahead, total)]


def _zbh1(stage: int, stages: int, microbatches: int) -> list[Pass]:
    """Return the order of ZB-H1: 1F1B, with gradients of parameters later by the stage's number.

    So each stage keeps the activations of as many microbatches as there are stages.
    """
    order = []
    for one in one_forward_one_backward(stage, stages, microbatches):
        order.append(one)
        if not one.is_forward and one.micro >= stage:
            order.append(Pass(is_forward=False, chunk=0, micro=one.micro - stage, is_weights=True))
    rest = range(max(0, microbatches - stage), microbatches)
    return order + [Pass(is_forward=False, chunk=0, micro=micro, is_weights=True) for micro in rest]


def _zbv(stage: int, stages: int, microbatches: int) -> Iterator[Pass]:
    """Yield the order of ZB-V, in which no stage waits once it has begun, where all passes take as long."""
    done = {kind: [0, 0] for kind in "FBW"}

    def passes(word: str) -> Iterator[Pass]:
        """Yield the next pass of each of some kinds and chunks, as ``F0``, if there is one."""
        for kind, chunk in ((word[at], int(word[at + 1])) for at in range(0, len(word), 2)):
            micro = done[kind][chunk]
            # Gradients of parameters follow those of inputs.
            if micro < (done["B"][chunk] if kind == "W" else microbatches):
                done[kind][chunk] += 1
                yield Pass(kind == "F", chunk, micro, kind == "W")

    for count, word in (
        (2 * (stages - stage) - 1, "F0"),
        (stage, "F1F0"),
        (stages - stage, "F1B1W1"),
    ):
        for _ in range(count):
            yield from passes(word)
    while done["F"][1] < microbatches:
        yield from passes("F0B0W0F1B1W1")
    rest = 2 * microbatches
    for count, word in (
        (stage, "B0B1"),
        (stages - stage, "B0W0"),
        (rest, "B0B1"),
        (rest, "W1"),
        (rest, "W0"),
    ):
        for _ in range(count):
            yield from passes(word)


_CYCLE: Final = 6
"""Passes of a microbatch on a stage: two chunks with three each."""


def _block(schedule: str, stage: int, stages: int) -> tuple[tuple[int, Pass], ...]:
    """Return when a stage has the passes of the first microbatch, of which every step has one at most."""
    if schedule == "v-half":
        wait = 0 if stages % 2 else 3
        starts = (
            2 * stage,
            3 * stages - stage - 2,
            3 * stages + wait + 2 * stage - 1,
            6 * stages + wait - stage - 2,
        )
    else:
        wait = 0 if stages % 3 else 2
        starts = (stage, 2 * stages - stage - 1, 2 * stages + wait + stage, 4 * stages + wait - stage - 1)
    kinds = ((True, 0), (True, 1), (False, 1), (False, 0))
    return tuple((at, Pass(*kind, 0)) for at, kind in zip(starts, kinds, strict=True))


class _Vees:
    """Orders of all stages of V-half or V-min: one pass a step, repeated, then moved together.

    A building block is repeated every six steps; gradients of parameters take the steps that are left, the
    oldest first. Then each pass moves to the first free step behind what it needs, as long as no stage keeps
    more activations than the fullest one did; and behind the last forward pass once more, gradients of
    parameters last, as nothing waits for them.
    """

    def __init__(self, schedule: str, stages: int, microbatches: int) -> None:
        self.stages = stages
        self.at: list[dict[int, Pass]] = []
        for stage in range(stages):
            timed = {
                at + _CYCLE * micro: one._replace(micro=micro)
                for micro in range(microbatches)
                for at, one in _block(schedule, stage, stages)
            }
            self.at.append(timed)
        self.late: list[set[Pass]] = []  # passes of each stage behind its last forward pass
        self.kept: list[list[int]] = []  # activations by step
        for timed in self.at:
            self._add_weights(timed, microbatches)
        self.when = [{one: at for at, one in timed.items()} for timed in self.at]

    def orders(self) -> list[list[Pass]]:
        """Return the order of each stage."""
        most, last = max(map(max, self.kept)), max(map(max, self.at))
        for step in range(last + 1):
            for stage, timed in enumerate(self.at):
                if step in timed:
                    self._move(stage, step, most)
        waiting: list[tuple[int, Pass]] = []
        for step in range(last + 1):
            for stage, timed in enumerate(self.at):
                if timed.get(step) not in self.late[stage]:
                    continue
                if timed[step].is_weights:
                    waiting.append((stage, timed.pop(step)))
                else:
                    self._move(stage, step)
        for stage, one in waiting:
            step = self._earliest(stage, one)
            while step in self.at[stage]:
                step += 1
            self._put(stage, one, step)
        return [[one for _, one in sorted(timed.items())] for timed in self.at]

    def _add_weights(self, timed: dict[int, Pass], microbatches: int) -> None:
        """Put gradients of parameters in free steps; record activations in memory, and the last passes."""
        queue: list[Pass] = []
        late: set[Pass] = set()
        kept, phase = [0], ""
        for step in range(max(timed) + 3):
            one = timed.get(step)
            if one is None and queue:
                one = timed[step] = queue.pop(0)._replace(is_weights=True)
            elif one is not None and not one.is_forward:
                queue.append(one)
            kept.append(kept[-1] + (0 if one is None else one.is_forward - one.is_weights))
            if one is None:
                continue
            if phase == "late":
                late.add(one)
            if one == Pass(is_forward=False, chunk=0, micro=0):
                phase = "steady"
            elif one == Pass(is_forward=True, chunk=1, micro=microbatches - 1):
                phase = "late"
        self.late.append(late)
        self.kept.append(kept[1:])

    def _move(self, stage: int, step: int, most: int | None = None) -> None:
        """Move a pass to the first free step that it may take, and that leaves no more than ``most`` kept."""
        timed, kept = self.at[stage], self.kept[stage]
        one = timed[step]
        more = one.is_forward - one.is_weights
        for to in range(self._earliest(stage, one), step):
            if to in timed or (most is not None and max(kept[to:step]) + more > most):
                continue
            if most is not None:
                kept[to:step] = [value + more for value in kept[to:step]]
            del timed[step]
            self._put(stage, one, to)
            return

    def _put(self, stage: int, one: Pass, step: int) -> None:
        self.at[stage][step], self.when[stage][one] = one, step

    def _earliest(self, stage: int, one: Pass) -> int:
        """Return the first step behind what a pass needs, and behind that of the microbatch before."""
        after = self.when[stage][one._replace(micro=one.micro - 1)] if one.micro else 0
        if one.is_weights:
            return max(after, self.when[stage][one._replace(is_weights=False)])
        need = _before(one, stage, self.stages, vee=True)
        if need:
            is_forward, chunk, micro, at = need
            after = max(after, self.when[at][Pass(is_forward, chunk, micro)])
        return after + 1


@lru_cache(maxsize=8)
def _vees(schedule: str, stages: int, microbatches: int) -> list[list[Pass]]:
    """Return the orders of all stages of V-half or V-min."""
    return _Vees(schedule, stages, microbatches).orders()


def bubble_of(
    degrees: Parallelism, microbatches: int, lengths: tuple[float, float, float] = (1, 1, 1)
) -> float:
    """Return the time for which a pipeline waits, in those of a microbatch on a stage; messages take none.

    Parameters
    ----------
    degrees : Parallelism
    microbatches : int
    lengths : tuple of float
        How long a forward pass, gradients of inputs and those of parameters take, relative to each other.

    Examples
    --------
    >>> for name in ("1f1b", "zbh1", "zbv", "v-half", "v-min"):
    ...     print(name, round(bubble_of(Parallelism(pipeline=8, schedule=name), 32), 2))
    1f1b 7.0
    zbh1 2.33
    zbv 1.17
    v-half 2.83
    v-min 4.33
    """
    if degrees.schedule == "1f1b":
        return (degrees.pipeline - 1) / degrees.interleave
    many = min(microbatches, 4 * degrees.pipeline)
    each = sum(lengths) * degrees.interleave
    return (_span(degrees, many, lengths) - each * many) / each


def _span(degrees: Parallelism, microbatches: int, lengths: tuple[float, float, float]) -> float:
    """Return the time of a step where each pass begins when it can."""
    stages, vee = degrees.pipeline, degrees.is_vee
    orders = [stage_order(degrees, stage, microbatches) for stage in range(stages)]
    ends: dict[tuple[bool, int, int, int], float] = {}
    free, place = [0.0] * stages, [0] * stages
    forward, inward, own = lengths
    left = sum(map(len, orders))
    while left:
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                one = order[place[stage]]
                before = () if one.is_weights else _before(one, stage, stages, vee=vee)
                if before and before not in ends:
                    break
                took = forward if one.is_forward else own if one.is_weights else inward
                free[stage] = max(free[stage], ends[before] if before else 0) + took
                if not one.is_weights:
                    ends[one.is_forward, one.chunk, one.micro, stage] = free[stage]
                place[stage], left = place[stage] + 1, left - 1
    return max(free)


def _before(one: Pass, stage: int, stages: int, *, vee: bool) -> tuple[bool, int, int, int] | tuple[()]:
    """Return the pass of which a pass needs the result: its direction, chunk, microbatch and stage."""
    chunk, micro, down = one.chunk, one.micro, one.is_forward == (one.chunk == 0) or not vee
    if not vee:
        at = stage - 1 if one.is_forward else stage + 1
        if 0 <= at < stages:
            return one.is_forward, chunk, micro, at
        return () if one.is_forward else (True, chunk, micro, stage)
    at = stage - 1 if down else stage + 1
    if 0 <= at < stages:
        return one.is_forward, chunk, micro, at
    if down:
        return () if one.is_forward else (True, 1, micro, stage)
    return (True, 0, micro, stage) if one.is_forward else (False, 1, micro, stage)
