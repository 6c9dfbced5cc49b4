"""The operations of a plan, and an order in which they can be carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

__all__ = ["Flag", "Place", "PlanBlock", "Step", "executed", "gather_waits"]


class Place(NamedTuple):
    """One slice of one chunk of a plan: slices are what the blocks of a group share a chunk by."""

    rank: int
    buffer: str
    number: int
    part: int = 0


class Flag(NamedTuple):
    """A semaphore of a plan."""

    rank: int
    name: tuple[object, ...]


@dataclass(slots=True)
class Step:
    """One operation of a block; ``flags`` are what a signal raises, or a wait waits for."""

    kind: str
    sources: tuple[Place, ...] = ()
    targets: tuple[Place, ...] = ()
    flags: tuple[Flag, ...] = ()
    value: int = 1
    relaxed: bool = False
    in_switch: int = 0


@dataclass(slots=True)
class PlanBlock:
    """The operations of one thread block or copy engine of one rank."""

    rank: int
    unit: str = "sm"
    steps: list[Step] = field(default_factory=list)


def executed(blocks: list[PlanBlock], *, only_possible: bool = False) -> Iterator[tuple[int, Step]]:
    """Give the steps of all blocks in an order in which they can be carried out.

    A block waits for its flags, and for packets that it reads. Where all that are left
    wait for one another, the rest follows in the order of the blocks, or is left out.
    """
    raised: dict[Flag, int] = {}
    arrived: set[Place] = set()
    reached: list[dict[Flag, int]] = [{} for _ in blocks]
    at = [0] * len(blocks)
    waiting: dict[Flag | Place, list[int]] = {}
    ready = deque(range(len(blocks)))
    while ready:
        number = ready.popleft()
        steps = blocks[number].steps
        while at[number] < len(steps):
            step = steps[at[number]]
            missing = _missing(step, raised, reached[number], arrived)
            if missing is not None:
                waiting.setdefault(missing, []).append(number)
                break
            at[number] += 1
            yield number, step
            woken: list[Flag | Place] = []
            if step.kind == "signal":
                woken = [*step.flags]
                for flag in step.flags:
                    raised[flag] = raised.get(flag, 0) + step.value
            elif step.kind == "wait":
                for flag in step.flags:
                    reached[number][flag] = reached[number].get(flag, 0) + step.value
            elif step.targets:
                packets = [place for place in step.targets if place.buffer == "packets"]
                arrived.update(packets)
                woken = [*packets]
            for what in woken:
                ready.extend(waiting.pop(what, ()))
    if not only_possible:
        for number, block in enumerate(blocks):
            yield from ((number, step) for step in block.steps[at[number] :])


def _missing(
    step: Step, raised: dict[Flag, int], reached: dict[Flag, int], arrived: set[Place]
) -> Flag | Place | None:
    """What a step still waits for."""
    if step.kind == "wait":
        for flag in step.flags:
            if raised.get(flag, 0) < reached.get(flag, 0) + step.value:
                return flag
    for place in step.sources:
        if place.buffer == "packets" and place not in arrived:
            return place
    return None


def gather_waits(blocks: list[PlanBlock]) -> None:
    """Make one semaphore of several that a block waits for in one step.

    A block that waits for many channels at once looks at all of them together. With a
    semaphore for each of its waits, to which the right signal of every channel adds, that
    is one wait for their number. It needs channels with one block at each end.
    """
    ends: dict[Flag, tuple[set[int], set[int]]] = {}
    several: set[Flag] = set()
    for number, block in enumerate(blocks):
        for step in block.steps:
            for flag in step.flags:
                ends.setdefault(flag, (set(), set()))[step.kind == "wait"].add(number)
            if step.kind == "wait" and len(step.flags) > 1:
                several.update(step.flags)
    able = {flag for flag in several if all(len(end) <= 1 for end in ends[flag])}
    gathered: dict[Flag, deque[Flag]] = {flag: deque() for flag in able}
    numbers = count()
    for block in blocks:
        steps: list[Step] = []
        for step in block.steps:
            mine = [flag for flag in step.flags if flag in able] if step.kind == "wait" else []
            if not mine:
                steps.append(step)
                continue
            together = Flag(block.rank, ("waits", next(numbers)))
            for flag in mine:
                gathered[flag].append(together)
            steps.append(Step("wait", flags=(together,), value=len(mine)))
            rest = tuple(flag for flag in step.flags if flag not in able)
            if rest:
                steps.append(Step("wait", flags=rest))
        block.steps = steps
    for block in blocks:
        for number, step in enumerate(block.steps):
            if step.kind == "signal" and able.intersection(step.flags):
                flags = tuple(gathered[flag].popleft() if gathered.get(flag) else flag for flag in step.flags)
                block.steps[number] = replace(step, flags=flags)
