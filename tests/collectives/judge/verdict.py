"""Verdicts of the verifier, the exhaustive oracle and the engine on one program."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from astranb.collectives import Chunk, Flaw, verify
from astranb.core.errors import InputError

from .oracle import TooMany, find_fault
from .programs import ASYNC_MUTATIONS, MUTATIONS, async_program, mutant, random_program, wired_program
from .sketch import Sketch
from .timings import Judge, empty_chunks

__all__ = ["ARGUED", "KINDS", "Verdict", "judge", "sample"]

ARGUED = {
    "packets twice": "packets are stored twice with the same data: their flags announce the first store only",
    "some of the signals": "a wait for fewer signals than the blocks give: any of them may be missing",
    "same data": "two writes of the same data at one time: a run marks them as a mixture, and is wrong",
    "too many states": "the oracle gives up; the program runs right under every timing tried",
}
"""Reasons for which verify and the oracle may differ."""

_LAUNCHES = 5  # surplus signals add up


@dataclass(frozen=True)
class Verdict:
    """A program, the verifier's errors, and what shows a fault: the oracle, a timing, or an argument."""

    sketch: Sketch
    flaws: list[Flaw]
    shown: str
    """``"oracle: ..."``, ``"timing: ..."``, ``"size: ..."``; empty where nothing does."""
    argued: str = ""
    """One of :data:`ARGUED`."""

    @property
    def agreed(self) -> bool:
        """Whether the verifier is right about it, or its error is argued."""
        return bool(self.shown) == bool(self.flaws) or bool(self.flaws and self.argued)

    def __str__(self) -> str:
        """Print it, to be copied into a test."""
        said = "; ".join(flaw.message for flaw in self.flaws[:3]) or "right"
        return f"{self.sketch}\nverify: {said}\nshown: {self.shown or 'nothing'} {self.argued}"


KINDS = {
    "fenced": (random_program, MUTATIONS),
    "posted": (async_program, ASYNC_MUTATIONS),
    "wired": (wired_program, ASYNC_MUTATIONS),
}
"""Random programs, and how they are damaged: without signals behind stores, with them and with roles, and
with messages through slots."""


def sample(seed: int, kind: str = "fenced") -> Sketch:
    """Return the random program of a number, damaged up to twice."""
    rng = random.Random(seed)
    make, mutations = KINDS[kind]
    sketch = make(seed)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        sketch = mutant(sketch, rng, mutations=mutations)
    return sketch


def judge(sketch: Sketch, seed: int, *, timings: int) -> Verdict:
    """Compare the verifier with the oracle and, where both find nothing, with runs under several timings."""
    program = sketch.program()
    options: dict[str, Any] = {"root": sketch.root, "slots": sketch.slots}
    flaws = [f for f in verify(program, sketch.kind, **options) if f.severity == "error"]
    if any(flaw.kind == "bounds" for flaw in flaws):
        return Verdict(sketch, flaws, "bounds: it cannot run")
    try:
        empty = empty_chunks(sketch)
    except InputError as error:
        return Verdict(sketch, flaws, f"size: {error}")
    argued = ""
    try:
        found = find_fault(program, sketch.kind, **options, empty=empty)
        if sketch.slots and not found:  # another GPU may have more
            found = find_fault(program, sketch.kind, root=sketch.root, empty=empty)
        if flaws and not found:
            found = find_fault(program, sketch.kind, **options, empty=empty, launches=_LAUNCHES)
    except TooMany:
        found, argued = None, "too many states"
    if found:
        return Verdict(sketch, flaws, f"oracle: {found.kind} in launch {found.launch}: {found.text}")
    # The engine gives input and output memory of their own, and knows what a message holds by its number, not
    # by its slot; the probes would take slots of SMs.
    renamed = sketch.buffers and "another chunk" in sketch.label
    apart = not sketch.same_memory and sketch.slots is None and sketch.contract is None
    runs = timings and apart and not renamed
    shown = next(Judge(sketch, seed).faults(timings), "") if runs else ""
    if shown and not flaws and _only_marks(sketch, empty):
        return Verdict(sketch, flaws, "", "same data")
    return Verdict(sketch, flaws, shown and f"timing: {shown}", argued or _argued(sketch, flaws))


def _only_marks(sketch: Sketch, empty: set[Chunk]) -> bool:
    """Return whether the check of a run can refuse a right program: it marks writes, and compares no data."""
    try:
        marked = find_fault(
            sketch.program(), sketch.kind, root=sketch.root, empty=empty, strict=False, marks=True
        )
    except TooMany:
        return False
    return marked is not None


def _argued(sketch: Sketch, flaws: list[Flaw]) -> str:
    if any(flaw.kind == "packets" and "written twice" in flaw.message for flaw in flaws):
        return "packets twice"
    given: dict[int, int] = {}
    for lines in sketch.blocks:
        for op in lines.operations:
            if op.kind == "signal" and op.semaphore is not None:
                given[op.semaphore.number] = given.get(op.semaphore.number, 0) + op.value
    for lines in sketch.blocks:
        for op in lines.operations:
            if op.kind == "wait" and op.semaphore is not None and op.value < given[op.semaphore.number]:
                return "some of the signals" if flaws else ""
    return ""
