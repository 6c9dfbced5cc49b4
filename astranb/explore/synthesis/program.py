"""A schedule as an algorithm: what every thread block does so that it is correct at any timing.

A rank has a thread block for each port by which it sends, which makes the transfers of the schedule in
their order: it waits until what it sends is there, stores it to the target, and signals. Of several blocks
that send one chunk on, the first one waits for the message and signals the others. So every wait is for an
earlier step of the schedule, and no cycle of waits can arise, whatever the speed of links. One block more
copies what stays where it is, and waits for what no other block sends on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from astranb.collectives import Block, Chunk, Program, Semaphore
from astranb.collectives.language import ChunkLayout, Cut
from astranb.core.arrays import numbered
from astranb.core.errors import InputError

from .schedule import Schedule

__all__ = ["SynthesizedAlgorithm"]

_Place = tuple[int, int]  # a rank and the port of one of its blocks, or a rank and a chunk

_KEEPER: Final = -1  # the port of the first block that sends nothing; those of others are lower numbers
_SUM, _END = -1, -2
_BLOCKS_OF_PORT: Final = 2
"""Thread blocks that make the transfers of a port by turns: one sends while the other waits for answers."""
_CUSTOM_PARTS: Final = 8
"""Sets of thread blocks of a collective that is a condition: it has one channel, whose chunks are cut."""

_BLOCK_BPS: Final = 16 * 10**9
"""Bytes per second of a thread block: 32 KiB under way (the default GPU's) in a round trip of 2 µs."""
_SMS: Final = 128
"""Thread blocks of a rank at most: an A100 has 108 SMs, which take two of them, an H100 132."""
_LEAST_BYTES: Final = 2048  # of a chunk for each channel, as for the library's algorithms


@dataclass
class _BlockStep:
    """A transfer that a block makes by its number, the sum at an owner, or only a wait at the end.

    It waits for transfers (``got``) and a block of its rank (``waits_for``), and then signals blocks of its
    rank (``signals``).
    """

    does: int
    chunk: int
    got: list[int] = field(default_factory=list)
    waits_for: int | None = None
    signals: list[int] = field(default_factory=list)


class SynthesizedAlgorithm:
    """A schedule as a value for ``algorithm=`` of a collective.

    Parameters
    ----------
    schedule : Schedule
    root : int
        The root of a rooted collective.
    packets : bool
        Whether it is for the protocols LL and LL128, by which blocks copy what comes from packets.
    """

    def __init__(self, schedule: Schedule, root: int = 0, *, packets: bool = False) -> None:
        self.schedule, self.root, self.packets = schedule, root, packets
        self.__name__ = "synthesized"
        self.custom = schedule.condition.name == "custom"
        self.channels = 1 if self.custom else _channels(schedule, len(self.steps))

    @cached_property
    def steps(self) -> dict[_Place, list[_BlockStep]]:
        """Steps of each block in its order, by rank and port."""
        return _planned(self.schedule, packets=self.packets)

    def __call__(self, program: Program) -> None:
        """Add the schedule to a program, for the current channel.

        Raises
        ------
        InputError
            The program is of another collective, number of ranks or root.
        """
        ranks, name = self.schedule.network.ranks, self.schedule.condition.name
        kind = program.name.partition("/")[0]
        for what, ours, given in (
            ("", name, kind), ("ranks: ", ranks, program.ranks), ("root ", self.root, program.root)
        ):  # fmt: skip
            if ours != given:
                raise InputError(f"it is for {what}{ours}, not {given}", where="synthesized algorithm")
        if self.custom:
            if program.channels > 1:
                raise InputError("a condition has one channel", where="channels", hint="leave it out")
            _lay_out(self.schedule, program)
            for part in range(_CUSTOM_PARTS):
                _ScheduleWriter(self, program, part).write()
            return
        program.cut = Cut(rounds=self.schedule.slices)
        _ScheduleWriter(self, program).write()


def _channels(schedule: Schedule, blocks: int) -> int:
    """Return how many sets of blocks there are: enough for the fastest port, and no more than SMs."""
    fastest = -(-int(schedule.network.rate_Bps.max()) // (_BLOCK_BPS * _BLOCKS_OF_PORT))
    each = -(-blocks // schedule.network.ranks)
    lines = max(1, schedule.slice_bytes * schedule.slices // _LEAST_BYTES)
    return max(1, min(4 * fastest, _SMS // each, lines))


def _planned(schedule: Schedule, *, packets: bool) -> dict[_Place, list[_BlockStep]]:
    """Return what each block does."""
    network, condition, slices = schedule.network, schedule.condition, schedule.slices
    ports = network.port[network.first_port[:-1]][schedule.edge]
    turn = np.zeros(len(ports), np.int64)  # of each port's transfers, by turns for its blocks
    order = np.argsort(ports, kind="stable")
    turn[order] = numbered(np.bincount(ports, minlength=1)) % _BLOCKS_OF_PORT
    steps: dict[_Place, list[_BlockStep]] = {}
    arrived: dict[_Place, list[int]] = defaultdict(list)  # transfers that nobody waits for yet
    first: dict[_Place, tuple[int, _BlockStep]] = {}  # the block and step after which a chunk is there
    owners = condition.owners if condition.reduces else {}
    summed: set[int] = set()

    def add(rank: int, port: int, does: int, chunk: int) -> None:
        """Add a step, which waits for its chunk."""
        step, place = _BlockStep(does, chunk), (rank, chunk)
        if arrived.get(place):
            step.got = arrived.pop(place)
        elif place in first and first[place][0] != port:
            step.waits_for, earlier = first[place]
            if port in earlier.signals:
                step.waits_for = None  # it has been signalled before
            else:
                earlier.signals.append(port)
        if step.got or does == _SUM:
            first[place] = port, step
        steps.setdefault((rank, port), []).append(step)

    columns = (
        ports * _BLOCKS_OF_PORT + turn,
        schedule.source,
        schedule.target,
        schedule.chunk,
        schedule.adds,
    )
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    for number, (port, source, target, chunk, adds) in enumerate(rows):
        if not adds and chunk not in summed and owners.get(chunk // slices) == source:
            summed.add(chunk)
            add(source, port, _SUM, chunk)
        add(source, port, number, chunk)
        arrived[target, chunk].append(number)
    ends = schedule.end_ps
    last: dict[_Place, int] = {place: int(ends[got].max()) for place, got in arrived.items() if got}
    for of, rank in owners.items():
        for chunk in range(of * slices, (of + 1) * slices):
            if chunk not in summed:
                last.setdefault((rank, chunk), 0)
    last_port = network.port[network.first_port[1:] - 1][schedule.edge]
    ways = np.unique(np.stack([schedule.target, last_port]), axis=1)[0]  # a rank for each port into it
    keepers = _BLOCKS_OF_PORT * np.bincount(ways, minlength=network.ranks) if packets else None
    kept = [0] * network.ranks
    for rank, chunk in sorted(last, key=lambda place: (last[place], place)):
        alone = owners.get(chunk // slices) == rank and chunk not in summed
        keeper = kept[rank] % int(keepers[rank]) if keepers is not None else 0
        kept[rank] += 1
        add(rank, _KEEPER - keeper, _SUM if alone else _END, chunk)
    return steps


def _lay_out(schedule: Schedule, program: Program) -> None:
    """Write to a program which chunks its ranks have before, and what they must hold after."""
    condition, ranks, cut = schedule.condition, program.ranks, schedule.slices * _CUSTOM_PARTS
    before, after = (condition.matrix(side, ranks) for side in ("before", "after"))
    program.input_chunks = program.output_chunks = condition.chunks * cut
    chunk_bytes = -(-(program.size or 1) // (condition.most * cut))
    inputs, outputs = (
        np.vstack([found, np.full(found.shape[1], chunk_bytes)])
        for found in (np.argwhere(np.repeat(side, cut, axis=1)).T for side in (before, after))
    )
    place = {where: n for n, where in enumerate(zip(*inputs[:2].tolist(), strict=True))}
    # A chunk that several ranks have is that of the rank from which it came.
    origin = {
        (rank, chunk): rank for rank, chunk in np.argwhere(np.repeat(before, schedule.slices, 1)).tolist()
    }
    for source, target, chunk in zip(
        schedule.source.tolist(), schedule.target.tolist(), schedule.chunk.tolist(), strict=True
    ):
        if not condition.reduces:
            origin[target, chunk] = origin[source, chunk]
    held: list[int] = []
    first = [0]
    for rank, index, _ in outputs.T.tolist():
        if condition.reduces:
            held += [place[source, index] for source in np.flatnonzero(before[:, index // cut]).tolist()]
        else:
            held.append(place[origin[rank, index // _CUSTOM_PARTS], index])
        first.append(len(held))
    program.layout = ChunkLayout(inputs, outputs, np.array(first), np.array(held), ranks, whole=True)


class _ScheduleWriter:
    """Writes the blocks of one channel of a program, or of a part of it."""

    def __init__(self, algorithm: SynthesizedAlgorithm, program: Program, part: int = 0) -> None:
        schedule = algorithm.schedule
        self.program, self.schedule, self.part = program, schedule, part
        self.custom, self.steps = algorithm.custom, algorithm.steps
        self.condition, self.slices = schedule.condition, schedule.slices
        self.source, self.target = schedule.source.tolist(), schedule.target.tolist()
        self.adds = schedule.adds.tolist()
        self.sender: dict[int, _Place] = {}
        self.receiver: dict[int, _Place] = {}
        for place, steps in self.steps.items():
            for step in steps:
                if step.does >= 0:
                    self.sender[step.does] = place
                self.receiver.update(dict.fromkeys(step.got, place))
        self.semaphores: dict[tuple[_Place, _Place], Semaphore] = {}
        # How many signals of one block to another precede that of a transfer, or for a chunk of its rank.
        self.count: dict[tuple[_Place, _Place], int] = {}
        self.reached: dict[object, int] = {}
        for place, steps in self.steps.items():
            for step in steps:
                if step.does >= 0:
                    self._number((place, self.receiver[step.does]), step.does)
                for other in step.signals:
                    self._number((place, (place[0], other)), (place, other, step.chunk))
        self.waited: dict[tuple[_Place, _Place], int] = {}

    def _number(self, ends: tuple[_Place, _Place], what: object) -> None:
        self.count[ends] = self.reached[what] = self.count.get(ends, 0) + 1

    def write(self) -> None:
        """Write all blocks."""
        for rank, places in enumerate(self._places()):
            kept = [] if self.condition.reduces else self._kept(rank)
            if kept and (rank, _KEEPER) not in self.steps:
                places.append((rank, _KEEPER))
            for place in sorted(places, key=lambda place: (place[1] < 0, abs(place[1]))):
                block = self.program.block(rank)
                if place[1] == _KEEPER and kept:
                    block.phase("copy")
                    for chunk in kept:
                        block.copy(self._input(rank, chunk), self._output(rank, chunk))
                for step in self.steps.get(place, ()):
                    self._step(block, place, step)

    def _places(self) -> list[list[_Place]]:
        """Return the blocks of each rank that have steps."""
        found: list[list[_Place]] = [[] for _ in range(self.program.ranks)]
        for place in self.steps:
            found[place[0]].append(place)
        return found

    def _kept(self, rank: int) -> list[int]:
        """Return the slices that a rank has and needs."""
        shared = sorted({*self.condition.before.get(rank, ())} & {*self.condition.after.get(rank, ())})
        return [chunk * self.slices + part for chunk in shared for part in range(self.slices)]

    def _step(self, block: Block, place: _Place, step: _BlockStep) -> None:
        rank, port = place
        sums = step.does == _SUM or (step.does >= 0 and self.adds[step.does])
        block.phase("reduce" if sums else "copy")
        for number in step.got:
            self._wait(block, (self.sender[number], place), number)
        if step.waits_for is not None:
            here = (rank, step.waits_for)
            self._wait(block, (here, place), (here, port, step.chunk))
        if sums:
            source = [self._input(rank, step.chunk)] if self._has(rank, step.chunk) else []
            source += [self._partial(number, step.chunk) for number in step.got]
            to = self._output(rank, step.chunk) if step.does == _SUM else self._partial(step.does, step.chunk)
            if len(source) == 1 and to.rank != rank:
                block.post(source[0], to)
            else:
                block.reduce(source, to)
        elif step.does >= 0:
            block.post(self._held(rank, step.chunk), self._got(self.target[step.does], step.chunk))
        if step.does >= 0:
            ends = (place, self.receiver[step.does])
            block.signal(self._semaphore(ends))
        for other in step.signals:
            block.signal(self._semaphore((place, (rank, other))))

    def _wait(self, block: Block, ends: tuple[_Place, _Place], what: object) -> None:
        """Wait for one signal of a block, and all before it, unless that has been done."""
        rise = self.reached[what] - self.waited.get(ends, 0)
        if rise > 0:
            block.wait(self._semaphore(ends), rise)
            self.waited[ends] = self.reached[what]

    def _semaphore(self, ends: tuple[_Place, _Place]) -> Semaphore:
        if ends not in self.semaphores:
            self.semaphores[ends] = self.program.semaphore(ends[1][0])
        return self.semaphores[ends]

    def _has(self, rank: int, chunk: int) -> bool:
        return (rank, chunk // self.slices) in self.condition.inputs

    def _held(self, rank: int, chunk: int) -> Chunk:
        """Return where a rank has a chunk that it sends on."""
        if not self.condition.reduces and self._has(rank, chunk):
            return self._input(rank, chunk)
        return self._got(rank, chunk)

    def _got(self, rank: int, chunk: int) -> Chunk:
        """Return where a rank gets a chunk: in its output, or in scratch if it only passes it on."""
        if (rank, chunk // self.slices) in self.condition.outputs:
            return self._output(rank, chunk)
        return self._chunk(rank, "scratch", chunk // self.slices, chunk)

    def _partial(self, transfer: int, chunk: int) -> Chunk:
        """Return the scratch of the target of a transfer of a sum: one for each source."""
        index = self.condition.chunks + (chunk // self.slices) * self.program.ranks + self.source[transfer]
        return self._chunk(self.target[transfer], "scratch", index, chunk)

    def _input(self, rank: int, chunk: int) -> Chunk:
        return self._chunk(rank, "input", self.condition.inputs[rank, chunk // self.slices], chunk)

    def _output(self, rank: int, chunk: int) -> Chunk:
        return self._chunk(rank, "output", self.condition.outputs[rank, chunk // self.slices], chunk)

    def _chunk(self, rank: int, buffer: str, index: int, chunk: int) -> Chunk:
        part = chunk % self.slices
        if not self.custom:
            return Chunk(rank, buffer, index, self.program.channel * self.slices + part)
        if buffer != "scratch":
            index = chunk // self.slices  # as the layout numbers them
        return Chunk(rank, buffer, (index * self.slices + part) * _CUSTOM_PARTS + self.part, 0)
