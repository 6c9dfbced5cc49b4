"""A plan: an algorithm that was read from a file, written down block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from astranb.core.errors import InputError, near

from ._program import PROTOCOLS, SWITCH_READS, SWITCH_WRITES, Block, Chunk, Program, Semaphore
from ._registry import COLLECTIVES
from ._steps import Flag, Place, PlanBlock, Step, executed

__all__ = ["MOST_CHUNKS", "Plan", "collective_name", "counts", "protocol_name"]

MOST_CHUNKS = 1 << 16
_COPIES_ITS_INPUT = ("all_gather", "all_to_all", "broadcast", "gather", "scatter")
_SHARED = "shared"  # a buffer that is input and output in one, until it is settled which is meant


@dataclass
class Plan:
    """An algorithm from a file: give it as ``algorithm=`` of a :class:`Collective`.

    Attributes
    ----------
    name : str
    collective : str or None
        The collective it carries out; None where the file names one that astranb has not.
    ranks : int
    inputs, outputs : int
        Chunks of each rank's input and output.
    in_place : bool
        Whether input and output are one buffer in the file. Astranb has two. What is
        stored to the one buffer is stored to the output. What is read is the input up to
        the first store to that chunk, and the output (or, where there is no such chunk of
        the output, scratch) after it. The order is that of one execution of the plan.
        Chunks that no one has to move, as a rank's own in an all-gather, are copied by a
        block of their own.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.
    blocks : list of PlanBlock
    notes : list of str
        What is not as in the file, or worth knowing.
    """

    name: str
    collective: str | None
    ranks: int
    inputs: int
    outputs: int
    in_place: bool = False
    protocol: str = "Simple"
    slices: int = 1
    scratch: int = 0
    min_bytes: int = 0
    max_bytes: int | None = None
    blocks: list[PlanBlock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lanes = 1  # a plan has its own sets of thread blocks

    @property
    def __name__(self) -> str:
        """Its name, as of a function."""
        return self.name

    @property
    def operations(self) -> int:
        """How many operations all blocks have."""
        return sum(len(block.steps) for block in self.blocks)

    def fitted(self, collective: str, size: int, protocol: str) -> str:
        """Check what it is asked to do; returns the protocol: the file's, unless another is asked for."""
        if self.collective and self.collective != collective:
            raise InputError(
                f"it carries out {self.collective}, not {collective}",
                where=f"plan {self.name!r}",
                hint=f"run it as {self.collective}",
            )
        if size < self.min_bytes or (self.max_bytes is not None and size > self.max_bytes):
            most = "any size" if self.max_bytes is None else f"{self.max_bytes} B"
            note = f"{size} B is outside what the file says the plan is for, {self.min_bytes} B to {most}"
            if note not in self.notes:
                self.notes.append(note)
        return self.protocol if protocol == "Simple" else protocol

    def __call__(self, program: Program) -> None:
        """Write the plan into a program, for the present lane.

        Raises
        ------
        InputError
            The program has another number of ranks, or chunks that do not divide the plan's.
        """
        parts = self._parts(program)
        width = parts * self.slices
        lane = program.lane
        if lane == 0:
            program.lanes *= width
        if program.protocol == "Simple":
            program.protocol = self.protocol
        first = lane * width
        flags: dict[Flag, Semaphore] = {}

        def chunk(place: Place) -> Chunk:
            if place.buffer not in ("input", "output"):
                return Chunk(place.rank, place.buffer, place.number, first + place.part)
            part, rest = divmod(place.number, parts)
            return Chunk(place.rank, place.buffer, part, first + rest * self.slices + place.part)

        for planned in self.blocks:
            program.lane = first
            moved = next((p for s in planned.steps for p in (*s.sources, *s.targets)), None)
            if moved is not None:
                program.lane = chunk(moved).lane  # what a view shows the block under
            make = program.engine if planned.unit == "engine" else program.block
            block = make(planned.rank)
            block.phase(self.name)
            for step in planned.steps:
                for flag in step.flags:
                    if flag not in flags:
                        flags[flag] = program.semaphore(flag.rank)
                _write(block, step, [chunk(p) for p in step.sources], [chunk(p) for p in step.targets], flags)
        program.lane = lane

    def _parts(self, program: Program) -> int:
        """How many chunks of the plan are one chunk of the program."""
        where = f"plan {self.name!r}"
        if program.ranks != self.ranks:
            raise InputError(
                f"it is for {self.ranks} ranks, not {program.ranks}",
                where=where,
                hint=f"take an infrastructure with {self.ranks} GPUs",
            )
        kind = program.name.partition("/")[0]
        parts, rest = divmod(self.inputs, program.input_chunks)
        if not rest and parts and self.outputs == parts * program.output_chunks:
            return parts
        if self.inputs == self.outputs and kind in ("all_reduce", "broadcast", "reduce"):
            program.input_chunks = program.output_chunks = self.inputs
            return 1
        raise InputError(
            f"it has {self.inputs} input and {self.outputs} output chunks, "
            f"the collective {program.input_chunks} and {program.output_chunks}",
            where=where,
            hint="take multiples",
        )

    def place(self, rank: int, buffer: str, index: int, slice_: int = 0) -> Place:
        """Where a file's ``i``, ``o``, ``s`` or ``p`` (packets) and index point to."""
        if not self.in_place or buffer in "sp":
            return Place(rank, _BUFFERS[buffer], index, slice_)
        # Of a collective with one small buffer, that is the rank's own part of the other.
        small, large = sorted((self.inputs, self.outputs))
        mine = small < large and (self.inputs if buffer == "i" else self.outputs) == small
        return Place(rank, _SHARED, rank * small + index if mine else index, slice_)

    def settle(self) -> None:
        """Turn the shared buffer of a plan in place into input and output, as `in_place` says."""
        if not self.in_place:
            return
        written: set[Place] = set()

        def after(place: Place) -> Place:
            index = self._own(place, self.outputs)
            if index is None:
                return Place(place.rank, "scratch", self.scratch + place.number, place.part)
            return Place(place.rank, "output", index, place.part)

        def read(place: Place) -> Place:
            if place.buffer != _SHARED:
                return place
            index = self._own(place, self.inputs)
            if place in written or index is None:
                return after(place)
            return Place(place.rank, "input", index, place.part)

        for _, step in executed(self.blocks):
            step.sources = tuple(read(place) for place in step.sources)
            written.update(place for place in step.targets if place.buffer == _SHARED)
            step.targets = tuple(after(p) if p.buffer == _SHARED else p for p in step.targets)
        if self.collective in _COPIES_ITS_INPUT:
            self._copy_what_stays(written)

    def _own(self, place: Place, count: int) -> int | None:
        """Index in the rank's input or output, of so many chunks, of a place in the shared buffer."""
        index = place.number - (place.rank * count if count < max(self.inputs, self.outputs) else 0)
        return index if 0 <= index < count else None

    def _copy_what_stays(self, written: set[Place]) -> None:
        copied = 0
        for rank in range(self.ranks):
            block = PlanBlock(rank)
            for index in range(self.inputs):
                for part in range(self.slices):
                    shared = self.place(rank, "i", index, part)
                    output = self._own(shared, self.outputs)
                    if output is not None and shared not in written:
                        source = Place(rank, "input", index, part)
                        target = Place(rank, "output", output, part)
                        block.steps.append(Step("move", (source,), (target,)))
            if block.steps:
                self.blocks.append(block)
                copied += len(block.steps)
        if copied:
            self.notes.append(f"in place: {copied} chunks that stay where they are are copied to the output")

    def stuck(self) -> list[int]:
        """Ranks whose blocks would wait for ever, if there are any."""
        done = dict.fromkeys(range(len(self.blocks)), 0)
        for number, _ in executed(self.blocks, only_possible=True):
            done[number] += 1
        return sorted({self.blocks[n].rank for n, count in done.items() if count < len(self.blocks[n].steps)})

    def summary(self) -> dict[str, Any]:
        """What it consists of, and whether every wait has its signal."""
        stuck = self.stuck()
        return {
            "name": self.name,
            "collective": self.collective,
            "ranks": self.ranks,
            "input_chunks": self.inputs,
            "output_chunks": self.outputs,
            "in_place": self.in_place,
            "protocol": self.protocol,
            "blocks": sum(block.unit == "sm" for block in self.blocks),
            "engines": sum(block.unit == "engine" for block in self.blocks),
            "operations": self.operations,
            "notes": list(self.notes),
            "checks": [f"rank {rank} waits for what never comes" for rank in stuck]
            or ["no wait is without its signal"],
        }


_BUFFERS = {"i": "input", "o": "output", "s": "scratch", "p": "packets"}


def _write(
    block: Block, step: Step, sources: list[Chunk], targets: list[Chunk], flags: dict[Flag, Semaphore]
) -> None:
    """Write one step into a block of a program."""
    if step.kind == "move":
        if not step.in_switch:
            block.reduce(sources, *targets)
        elif step.in_switch == SWITCH_READS:
            block.switch_reduce(sources, *targets)
        elif step.in_switch == SWITCH_WRITES:
            block.switch_store(sources[0], *targets)
        else:
            block.switch_reduce_store(sources, *targets)
    elif step.kind == "signal":
        for flag in step.flags:
            block.signal(flags[flag], step.value, relaxed=step.relaxed)
    elif step.kind == "wait":
        for flag in step.flags:
            block.wait(flags[flag], step.value)
    elif step.kind == "fence":
        block.fence()
    else:
        block.compute(step.value)


def collective_name(word: str) -> str | None:
    """The collective that a file means by ``allreduce`` or ``all_reduce``."""
    return {name.replace("_", ""): name for name in COLLECTIVES}.get(word.lower().replace("_", ""))


def counts(collective: str | None, ranks: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Complete the numbers of input and output chunks, of which a file may give one as 0."""
    of_input = ranks if collective in ("reduce_scatter", "scatter") else 1
    of_output = ranks if collective in ("all_gather", "gather") else 1
    whole = inputs * of_output or outputs * of_input
    if inputs == 0:
        inputs = whole // of_output
    if outputs == 0:
        outputs = whole // of_input
    return inputs, outputs


def protocol_name(word: str) -> str:
    """A protocol by a file's name for it."""
    for protocol in PROTOCOLS:
        if protocol.lower() == word.lower():
            return protocol
    raise InputError(f"unknown protocol {word[:40]!r}", hint=near(word[:40], PROTOCOLS))
