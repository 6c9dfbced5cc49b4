"""Plans: algorithms read from files, listed block by block; and what the formats of files share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count, groupby, product
from math import gcd, lcm
from typing import Any, Final, NamedTuple

from astranb.collectives.language import (
    COLLECTIVES,
    PROTOCOLS,
    Block,
    Chunk,
    Operation,
    Origin,
    Program,
    ProgramError,
    Semaphore,
)
from astranb.collectives.proof import execute
from astranb.core.errors import InputError, near
from astranb.core.units import format_time

__all__ = [
    "MOST_CHUNKS",
    "Flag",
    "FormatWriter",
    "Pipeline",
    "Plan",
    "PlanBlock",
    "PlanStep",
    "collective_name",
    "counts",
    "gather_waits",
    "protocol_name",
    "unknown_collective",
]

MOST_CHUNKS = 1 << 16
_MOST_PIECES = 1 << 10
_LINE_BYTES = 128
_COPIES_ITS_INPUT = ("all_gather", "all_to_all", "broadcast", "gather", "scatter")
_SHARED = "shared"  # a buffer that is both input and output, until Plan.settle separates them


class Flag(NamedTuple):
    """A semaphore of a plan, by name."""

    rank: int
    name: tuple[object, ...]


@dataclass(slots=True)
class PlanStep:
    """One operation of a block.

    ``flags`` are the semaphores of a signal or a wait; ``origin`` is the operation of the file. ``pipeline``
    is the number of the loop that it is in, and ``part`` which slice of its operation a move is for.
    """

    kind: str
    sources: tuple[Chunk, ...] = ()
    targets: tuple[Chunk, ...] = ()
    flags: tuple[Flag, ...] = ()
    value: int = 1
    relaxed: bool = False
    in_switch: int = 0
    origin: Origin | None = None
    pipeline: int = 0
    part: int = 0


class Pipeline(NamedTuple):
    """A loop over parts of ``unit`` bytes of ``chunks`` chunks, in which all operations are executed."""

    unit: int
    chunks: int


@dataclass(slots=True)
class PlanBlock:
    """The operations of one thread block or copy engine of a rank; a chunk's channel is its slice.

    ``added`` tells that it is not in the file: it copies what stays where it is in place.
    """

    rank: int
    unit: str = "sm"
    steps: list[PlanStep] = field(default_factory=list)
    added: bool = False

    def name_steps(self, first: int, origin: Origin) -> None:
        """Set the origin of all steps from a position on that have none."""
        for step in self.steps[first:]:
            step.origin = step.origin or origin


def gather_waits(blocks: list[PlanBlock]) -> None:
    """Replace several flags that a block waits for in one step by one.

    A block that waits for many connections polls all of them together. With a semaphore for
    each of its waits, to which the matching signal of every connection adds, that is one wait
    for their number. It needs connections with one block at each end and no signal left over.
    """
    ends: dict[Flag, tuple[set[int], set[int]]] = {}
    left: dict[Flag, int] = {}
    several: set[Flag] = set()
    repeated: set[Flag] = set()  # in a loop
    for number, block in enumerate(blocks):
        for step in block.steps:
            for flag in step.flags:
                ends.setdefault(flag, (set(), set()))[step.kind == "wait"].add(number)
                left[flag] = left.get(flag, 0) + (1 if step.kind == "signal" else -1)
            if step.kind == "wait" and len(step.flags) > 1:
                several.update(step.flags)
            if step.pipeline:
                repeated.update(step.flags)
    several -= repeated
    gatherable = {flag for flag in several if left[flag] <= 0 and all(len(end) <= 1 for end in ends[flag])}
    gathered: dict[Flag, deque[Flag]] = {flag: deque() for flag in gatherable}
    numbers = count()
    for block in blocks:
        steps: list[PlanStep] = []
        for step in block.steps:
            mine = [flag for flag in step.flags if flag in gatherable] if step.kind == "wait" else []
            if not mine:
                steps.append(step)
                continue
            together = Flag(block.rank, ("waits", next(numbers)))
            for flag in mine:
                gathered[flag].append(together)
            steps.append(PlanStep("wait", flags=(together,), value=len(mine), origin=step.origin))
            rest = tuple(flag for flag in step.flags if flag not in gatherable)
            if rest:
                steps.append(replace(step, flags=rest))
        block.steps = steps
    for block in blocks:
        for number, step in enumerate(block.steps):
            if step.kind == "signal" and gatherable.intersection(step.flags):
                flags = tuple(gathered[flag].popleft() if gathered.get(flag) else flag for flag in step.flags)
                block.steps[number] = replace(step, flags=flags)


@dataclass
class Plan:
    """An algorithm from a file: a value for ``algorithm=`` of a :class:`Collective`.

    Attributes
    ----------
    name : str
    collective : str or None
        The collective that it implements; None if the file names one that astranb does not know.
    ranks : int
    inputs, outputs : int
        Chunks of each rank's input and output.
    in_place : bool
        Whether input and output are one buffer in the file; astranb has two. Stores to that
        buffer go to the output. Reads before the first store to a chunk read the input, later
        ones the output or, if the output has no such chunk, scratch. The order is that of one
        execution of the plan. Chunks that need not move, as a rank's own in an all-gather, are
        copied by a block of their own.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.
    blocks : list of PlanBlock
    notes : list of str
        Differences from the file, and other remarks.
    credits : dict of Flag to int
        How many waits for a semaphore are left out, because it does not start at 0.
    pipelines : list of Pipeline
        Its loops, numbered from 1.
    file : tuple of (str, bytes), optional
        The name and the contents of the file that it was read from.
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
    credits: dict[Flag, int] = field(default_factory=dict)
    pipelines: list[Pipeline] = field(default_factory=list)
    file: tuple[str, bytes] | None = field(default=None, init=False, repr=False, compare=False)
    _cut: int = field(default=1, init=False, repr=False, compare=False)  # for the size of the last program
    _loops: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False, compare=False)
    channels = 1  # a plan has its own sets of thread blocks

    @property
    def __name__(self) -> str:
        """Its name, like that of a function."""
        return self.name

    def fitted(self, collective: str, size: int, protocol: str) -> str:
        """Check collective and size; return the protocol: the file's, unless another is given."""
        if collective not in (self.collective or collective, "custom"):
            raise InputError(
                f"it implements {self.collective}, not {collective}",
                where=f"plan {self.name!r}",
                hint=f"run it as {self.collective}, or as custom: then the result is not checked",
            )
        if size < self.min_bytes or (self.max_bytes is not None and size > self.max_bytes):
            most = "any size" if self.max_bytes is None else f"{self.max_bytes} B"
            note = f"{size} B is outside the range of the plan, {self.min_bytes} B to {most}"
            if note not in self.notes:
                self.notes.append(note)
        return self.protocol if protocol == "Simple" else protocol

    def __call__(self, program: Program) -> None:
        """Add the plan to a program, for the current channel.

        Raises
        ------
        InputError
            The program has another number of ranks, or chunks that do not divide the plan's.
        """
        parts = self._parts(program)
        channel = program.channel
        if channel == 0:
            self._cut, self._loops = self._cuts(program)
            program.channels *= parts * self.slices * self._cut
        width, cut = parts * self.slices * self._cut, self._cut
        if program.protocol == "Simple":
            program.protocol = self.protocol
        first = channel * width

        def moved(chunk: Chunk, piece: int) -> Chunk:
            if chunk.buffer not in ("input", "output"):
                return chunk._replace(channel=first + chunk.channel * cut + piece)
            index, rest = divmod(chunk.index, parts)
            slice_ = (rest * self.slices + chunk.channel) * cut + piece
            return Chunk(chunk.rank, chunk.buffer, index, first + slice_)

        self._add(program, moved, cut, self._loops)
        for (chunk, place), piece in product(self._same_memory(), range(cut)):
            program.same_memory[moved(chunk, piece)] = moved(place, piece)
        program.channel = channel

    def _cuts(self, program: Program) -> tuple[int, list[tuple[int, int]]]:
        """Return into how many pieces a slice is cut, so that each iteration of each loop has whole ones.

        Also returned are the iterations of each loop, and how many pieces each of them is for.
        """
        cut, loops, uneven = self._cuts_for(program.size, program.channels)
        note = "pipelines have iterations of equal parts of a chunk: unit_size does not cut it into lines"
        if uneven and note not in self.notes:
            self.notes.append(note)
        return cut, loops

    def _cuts_for(self, bytes_: int | None, channels: int = 1) -> tuple[int, list[tuple[int, int]], bool]:
        """The same for a size, and whether an iteration is for other bytes than the plan says."""
        if bytes_ is None or not self.pipelines:
            return 1, [], False
        size = -(-bytes_ // (max(self.inputs, self.outputs) * self.slices * channels))
        cut = lcm(*(size // gcd(size, one.unit) for one in self.pipelines))
        uneven = cut > _MOST_PIECES or size % (cut * _LINE_BYTES) != 0
        if uneven:
            cut = min(_MOST_PIECES, max(-(-size // one.unit) for one in self.pipelines))
        found = []
        for one in self.pipelines:
            pieces = max(1, one.unit * cut // size)
            found.append((-(-one.chunks * self.slices * cut // pieces), pieces))
        return cut, found, uneven

    def operations(self, size: int, most: int) -> int:
        """Count its operations for a size, as far as they are known without NICs; stop behind ``most``."""
        cut, loops, _ = self._cuts_for(size)
        count = 0
        for block in self.blocks:
            for step, pieces in _unrolled(block.steps, cut, loops):
                count += len(step.flags)
                if step.kind == "move":
                    count += len(pieces)
                elif step.kind in ("fence", "compute"):
                    count += 1
                if count > most:
                    return count
        return count

    def _add(
        self,
        program: Program,
        moved: Callable[[Chunk, int], Chunk],
        cut: int = 1,
        iterations: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Add the blocks to a program, with pieces of their chunks mapped to chunks of the program."""
        flags: dict[Flag, Semaphore] = {}
        for planned in self.blocks:
            # The channel that views show for a block is that of its first chunk.
            chunks = (c for step in planned.steps for c in (*step.sources, *step.targets))
            program.channel = moved(next(chunks, Chunk(planned.rank, "scratch", 0, 0)), 0).channel
            block = self._block(program, planned)
            block.phase(self.name)
            block.added = planned.added
            for step, pieces in _unrolled(planned.steps, cut, iterations):
                block.origin = step.origin
                for flag in step.flags:
                    if flag not in flags:
                        flags[flag] = program.semaphore(flag.rank)
                    if step.kind == "signal":
                        block.signal(flags[flag], step.value, relaxed=step.relaxed)
                    else:
                        block.wait(flags[flag], step.value)
                if block.unit == "nic" and step.kind == "wait":
                    block.compute()  # it is posted
                for piece in pieces if step.kind == "move" else ():
                    sources = tuple(moved(chunk, piece) for chunk in step.sources)
                    targets = tuple(moved(chunk, piece) for chunk in step.targets)
                    block.move(sources, targets, step.in_switch)
                if step.kind == "fence":
                    block.fence()
                elif step.kind == "compute":
                    block.compute(step.value)
        program.credits.update((flags[flag], count) for flag, count in self.credits.items() if flag in flags)

    @staticmethod
    def _block(program: Program, planned: PlanBlock) -> Block:
        """Add a thread block, a copy engine's list or, where it reaches another node, a NIC's."""
        if planned.unit == "sm":
            return program.block(planned.rank)
        ends: list[Chunk | Flag] = []
        for step in planned.steps:
            ends += [*step.targets, *(step.flags if step.kind == "signal" else ())]
        node = planned.rank // program.per_node
        if program.shape.rdma and any(end.rank // program.per_node != node for end in ends):
            return program.nic(planned.rank, program.channel)
        return program.engine(planned.rank)

    def _same_memory(self) -> Iterator[tuple[Chunk, Chunk]]:
        """In place, give each chunk with the output or, if there is none, the input of the same memory."""
        if not self.in_place:
            return
        whole = max(self.inputs, self.outputs)
        for rank, index, part in product(range(self.ranks), range(whole), range(self.slices)):
            shared = Chunk(rank, _SHARED, index, part)
            own = {"input": self._own(shared, self.inputs), "output": self._own(shared, self.outputs)}
            same = [Chunk(rank, name, place, part) for name, place in own.items() if place is not None]
            same.insert(0, self._beyond(shared))
            yield from ((chunk, same[-1]) for chunk in same[:-1])

    def _beyond(self, chunk: Chunk) -> Chunk:
        """Return the scratch that holds what is stored to a shared chunk that is no output."""
        return Chunk(chunk.rank, "scratch", self.scratch + chunk.index, chunk.channel)

    def _alone(self) -> Program:
        """Return the plan as a program with its own chunks."""
        program = Program(
            self.name,
            ranks=self.ranks,
            channels=self.slices,
            input_chunks=self.inputs,
            output_chunks=self.outputs,
        )
        self._add(program, lambda chunk, _: chunk)
        return program

    def _parts(self, program: Program) -> int:
        """Return how many chunks of the plan are one chunk of the program."""
        where = f"plan {self.name!r}"
        if program.ranks != self.ranks:
            raise InputError(
                f"it is for {self.ranks} ranks, not {program.ranks}",
                where=where,
                hint=f"use an infrastructure with {self.ranks} GPUs",
            )
        kind = program.name.partition("/")[0]
        if kind == "custom":
            program.input_chunks, program.output_chunks = self.inputs, self.outputs
            return 1
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
            hint="the plan's must be multiples of the collective's",
        )

    def misses(self, buffer: str, first: int, size: int, scratch: int) -> str:
        """Describe chunks of a buffer that do not exist; empty if they do."""
        bound = {"i": self.inputs, "o": self.outputs}.get(buffer, scratch)
        if first + size <= bound:
            return ""
        return f"chunks {first} to {first + size - 1} of {buffer!r}, which has {bound}"

    def chunk(self, rank: int, buffer: str, index: int, slice_: int = 0) -> Chunk:
        """Return the chunk that ``i``, ``o``, ``s`` or ``p`` (packets) and an index mean in a file."""
        if not self.in_place or buffer in "sp":
            return Chunk(rank, _BUFFERS[buffer], index, slice_)
        # If one buffer is smaller, it is the rank's own part of the other.
        small, large = sorted((self.inputs, self.outputs))
        mine = small < large and (self.inputs if buffer == "i" else self.outputs) == small
        return Chunk(rank, _SHARED, rank * small + index if mine else index, slice_)

    def settle(self) -> None:
        """Replace the shared buffer of a plan in place by input and output, as described for `in_place`."""
        if not self.in_place:
            return
        written: set[Chunk] = set()

        def after(chunk: Chunk) -> Chunk:
            index = self._own(chunk, self.outputs)
            if index is None:
                return self._beyond(chunk)
            return Chunk(chunk.rank, "output", index, chunk.channel)

        def read(chunk: Chunk) -> Chunk:
            if chunk.buffer != _SHARED:
                return chunk
            index = self._own(chunk, self.inputs)
            if chunk in written or index is None:
                return after(chunk)
            return Chunk(chunk.rank, "input", index, chunk.channel)

        program = self._alone()
        run = execute(program)
        rest = ((b, i) for b in run.stuck for i in range(run.at[b], len(program.blocks[b].operations)))
        moves = [(step for step in block.steps if step.kind == "move") for block in self.blocks]
        for b, i in (*run.done, *rest):
            if program.blocks[b].operations[i].kind != "move":
                continue
            step = next(moves[b])
            step.sources = tuple(read(chunk) for chunk in step.sources)
            written.update(chunk for chunk in step.targets if chunk.buffer == _SHARED)
            step.targets = tuple(after(c) if c.buffer == _SHARED else c for c in step.targets)
        if self.collective in _COPIES_ITS_INPUT:
            self._copy_what_stays(written)

    def _own(self, chunk: Chunk, count: int) -> int | None:
        """Return a shared chunk's index in the rank's input or output of ``count`` chunks."""
        index = chunk.index - (chunk.rank * count if count < max(self.inputs, self.outputs) else 0)
        return index if 0 <= index < count else None

    def _copy_what_stays(self, written: set[Chunk]) -> None:
        copied = 0
        for rank in range(self.ranks):
            block = PlanBlock(rank, added=True)
            for index in range(self.inputs):
                for part in range(self.slices):
                    shared = self.chunk(rank, "i", index, part)
                    output = self._own(shared, self.outputs)
                    if output is not None and shared not in written:
                        source = Chunk(rank, "input", index, part)
                        target = Chunk(rank, "output", output, part)
                        block.steps.append(PlanStep("move", (source,), (target,)))
            if block.steps:
                self.blocks.append(block)
                copied += len(block.steps)
        if copied:
            self.notes.append(f"in place: {copied} chunks that stay where they are are copied to the output")

    def summary(self) -> dict[str, Any]:
        """Return its properties, and whether every wait has its signal."""
        run = execute(self._alone())
        stuck = sorted({run.blocks[b].rank for b in run.stuck})
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
            "operations": sum(len(block.steps) for block in self.blocks),
            "notes": list(self.notes),
            "checks": [f"rank {rank} waits for a signal that never comes" for rank in stuck]
            or ["every wait has its signal"],
        }


_BUFFERS = {"i": "input", "o": "output", "s": "scratch", "p": "packets"}


def collective_name(word: str) -> str | None:
    """Return the collective that a file calls ``allreduce`` or ``all_reduce``; None if it is none of ours."""
    names = {name.replace("_", ""): name for name in COLLECTIVES if name != "custom"}
    return names.get(word.lower().replace("_", ""))


def unknown_collective(word: str) -> str:
    """Return the note for a file that names a collective that astranb does not know."""
    return f"collective {word[:40]!r} is unknown: run it as custom, unchecked, or as what it implements"


def counts(collective: str | None, ranks: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Complete the numbers of input and output chunks; a file may give one of them as 0."""
    of_input = ranks if collective in ("reduce_scatter", "scatter") else 1
    of_output = ranks if collective in ("all_gather", "gather") else 1
    whole = inputs * of_output or outputs * of_input
    if inputs == 0:
        inputs = whole // of_output
    if outputs == 0:
        outputs = whole // of_input
    return inputs, outputs


def protocol_name(word: str) -> str:
    """Return a protocol by the name that a file uses."""
    for protocol in PROTOCOLS:
        if protocol.lower() == word.lower():
            return protocol
    raise InputError(f"unknown protocol {word[:40]!r}", hint=near(word[:40], PROTOCOLS))


def _without_slots(program: Program) -> Program:
    """Return a program in which every message has memory of its own, so that nobody frees slots."""
    if not program.frees:
        return program
    written = copy(program)
    written.blocks = [copy(block) for block in program.blocks]
    for block in written.blocks:
        block.program = written
        block.operations = [op for op in block.operations if op.semaphore not in program.frees]
    return written


def _unrolled(
    steps: list[PlanStep], cut: int, iterations: Sequence[tuple[int, int]]
) -> Iterator[tuple[PlanStep, range]]:
    """Yield the steps of a block in the order of execution, each with the pieces of slices that it is for."""
    for number, of_loop in groupby(steps, key=lambda step: step.pipeline):
        body = list(of_loop)
        if not number or not iterations:
            yield from ((step, range(cut)) for step in body)
            continue
        count, pieces = iterations[number - 1]
        for iteration in range(count):
            first, last = iteration * pieces, (iteration + 1) * pieces
            for step in body:
                begin = step.part * cut
                here = range(max(0, first - begin), min(cut, last - begin))
                if step.kind != "move" or here:
                    yield step, here


class FormatWriter:
    """Shared part of the writers of the formats.

    Attributes
    ----------
    notes : dict of str to None
        What differs from the program, in order.
    """

    letters: Final = {"input": "i", "output": "o", "scratch": "s", "packets": "s"}

    def __init__(self, program: Program) -> None:
        self.notes: dict[str, None] = {}
        self.program = program
        layout = program.layout
        if layout is not None and not layout.equal:
            what = "chunks of different sizes, or that share memory, cannot be written"
            raise self.error(what, "a file has equal chunks on all ranks")
        self._left_out(program)
        self.program = program = _without_slots(program)
        self.inputs = program.input_chunks * program.width
        self.outputs = program.output_chunks * program.width

    def _left_out(self, program: Program) -> None:
        """Note what no file says."""
        waits = spent_ps = 0
        for block in program.blocks:
            for op in block.operations:
                waits += op.kind == "wait" and op.semaphore in program.frees
                spent_ps += op.value if op.kind == "spend" else 0
        if waits:
            self.notes[f"every message has memory of its own: {waits} waits for free slots are left out"] = (
                None
            )
        if spent_ps:
            what = f"{format_time(spent_ps)} that thread blocks spend on messages, together"
            self.notes[f"{what}, are left out: a file has no times"] = None
        if len(set(program.weights)) > 1:
            self.notes["slices of different sizes become equal ones: a file has no shares"] = None
        if any(block.warp_count for block in program.blocks):
            self.notes[
                "thread blocks have as many warps as the other system gives them, not the program's"
            ] = None

    def error(self, what: str, hint: str = "", op: Operation | None = None) -> InputError:
        """Return an error of the program, with the line that wrote an operation."""
        line = None if op is None else op.line
        return ProgramError(what, line, where=f"program {self.program.name!r}", hint=hint)

    def check(self, block: Block) -> None:
        """Check that a block uses no copy engine, no NIC, and nothing else that no format has."""
        first = block.operations[0] if block.operations else None
        if block.unit != "sm":
            what = "copy engines and NICs cannot be written to a file of MSCCL"
            raise self.error(what, "use thread blocks, or write FILE.json, a plan of MSCCL++", first)
        if block.thread_block is not None:
            what = "roles of a thread block cannot be written"
            raise self.error(what, "use a thread block for each", first)
        for op in block.operations:
            if op.kind == "waitcnt":
                raise self.error("waitcnt cannot be written", "use a signal that is not relaxed", op)
            if op.kind == "tile":
                raise self.error("products cannot be written", "write the collective alone", op)

    def index(self, chunk: Chunk) -> int:
        """Return the index of a chunk of an input or output: each slice is a chunk of the file."""
        return chunk.index * self.program.width + chunk.channel
