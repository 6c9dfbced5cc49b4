"""The order of a program's operations that holds for every timing.

Every block executes its operations in order, except that moves which are one loop (see
:mod:`~astranb.collectives.lowering.fences`) have no order among themselves. Between blocks there is
order only where one waits: for a semaphore that could not have risen without a signal, or for
packets. A store is not yet visible when the next instruction runs, so there are two orders: that an
operation has *read* what it reads, and that what it *wrote* is visible. A fence (before every signal
that is not relaxed) makes earlier stores visible; a packet guarantees only its own line.

Vector clocks (Lamport 1978; Fidge 1988), one component a block. A packet also shows that the
operation that stored it has read the line that it sums, which says nothing of the other operations
of its loop: such facts are kept in sets beside the clocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from astranb.collectives.language.program import Block, Chunk, Program, Semaphore
from astranb.collectives.lowering.fences import paces

__all__ = ["Clock", "Execution", "Memory", "Order", "Place", "Slots", "execute", "order_of"]

Place = tuple[int, int]
"""A block and the number of one of its operations."""


class Memory:
    """Which memory each chunk of a program is; an empty chunk is none.

    Parameters
    ----------
    program : Program
    empty : collection of Chunk
        Chunks of no bytes, at the program's size.
    """

    def __init__(self, program: Program, empty: Collection[Chunk] = ()) -> None:
        self._same, self._empty = program.same_memory, frozenset(empty)

    def of(self, chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        """Return the memory of chunks."""
        if self._empty:
            chunks = tuple(chunk for chunk in chunks if chunk not in self._empty)
        if self._same:
            chunks = tuple(self._same.get(chunk, chunk) for chunk in chunks)
        return chunks


class Slots(NamedTuple):
    """How many thread blocks and lists of copy engines of a rank can be resident at once."""

    blocks: int
    engines: int


@dataclass
class Execution:
    """One execution of a program, in which every block continues as long as it can.

    The order does not matter: signals only add, so an operation that is possible in one order
    is possible in all.

    Attributes
    ----------
    blocks : list of Block
    reads, writes : list of list of tuple of Chunk
        The memory that each operation of each block reads and writes.
    done : list of (int, int)
        Operations in an order in which they can happen.
    at : list of int
        The next operation of each block.
    pending : list of int
        Blocks that never became resident.
    """

    blocks: list[Block]
    reads: list[list[tuple[Chunk, ...]]]
    writes: list[list[tuple[Chunk, ...]]]
    done: list[Place] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)

    @property
    def stuck(self) -> list[int]:
        """Blocks that did not end."""
        return [b for b, block in enumerate(self.blocks) if self.at[b] < len(block.operations)]

    def packets(self, place: Place) -> list[Chunk]:
        """Return the packets that an operation waits for."""
        return [chunk for chunk in self.reads[place[0]][place[1]] if chunk.buffer == "packets"]

    def split(self, groups: list[list[int]]) -> list[Execution]:
        """Return the executions of groups of blocks that share nothing with one another."""
        if len(groups) == 1:
            return [self]
        group, number = [0] * len(self.blocks), [0] * len(self.blocks)
        parts = []
        for g, members in enumerate(groups):
            for k, b in enumerate(members):
                group[b], number[b] = g, k
            part = Execution(
                [self.blocks[b] for b in members],
                [self.reads[b] for b in members],
                [self.writes[b] for b in members],
            )
            part.at = [self.at[b] for b in members]
            parts.append(part)
        for b, i in self.done:
            parts[group[b]].done.append((number[b], i))
        return parts


def execute(
    program: Program,
    blocks: list[Block] | None = None,
    memory: Memory | None = None,
    slots: Slots | None = None,
) -> Execution:
    """Execute a program without time, or only some of its blocks that share nothing with the others.

    Examples
    --------
    >>> from astranb.collectives import Collective
    >>> execute(Collective.of("all_gather", 4096, "ring").program(4)).stuck
    []
    """
    chosen = program.blocks if blocks is None else blocks
    of = memory.of if memory is not None else tuple
    run = Execution(
        chosen,
        [[of(op.sources) for op in block.operations] for block in chosen],
        [[of(op.targets) for op in block.operations] for block in chosen],
    )
    run.at = [0] * len(run.blocks)
    value: dict[int, int] = defaultdict(int)
    written: set[Chunk] = set()
    waiting: dict[object, list[int]] = defaultdict(list)
    queues = _queues(run.blocks, slots)
    ready = deque(b for b in range(len(run.blocks)) if b not in queues.pending)
    while ready:
        b = ready.popleft()
        operations = run.blocks[b].operations
        reads, writes = run.reads[b], run.writes[b]
        while run.at[b] < len(operations):
            i = run.at[b]
            op = operations[i]
            if op.kind == "wait" and op.semaphore and value[op.semaphore.number] < op.value:
                waiting[op.semaphore.number].append(b)
                break
            missing = next((c for c in reads[i] if c.buffer == "packets" and c not in written), None)
            if missing is not None:
                waiting[missing].append(b)
                break
            run.done.append((b, i))
            run.at[b] += 1
            if op.kind == "signal" and op.semaphore:
                value[op.semaphore.number] += op.value
                ready.extend(waiting.pop(op.semaphore.number, ()))
            for chunk in writes[i]:
                if chunk.buffer == "packets":
                    written.add(chunk)
                    ready.extend(waiting.pop(chunk, ()))
        else:
            ready.extend(queues.following(run.blocks[b]))
    run.pending = sorted(queues.pending)
    return run


class _Queues:
    """The blocks of each rank that are not resident yet, in the order in which they will be."""

    def __init__(self) -> None:
        self.pending: set[int] = set()
        self.of: dict[tuple[int, str], deque[int]] = {}

    def following(self, block: Block) -> list[int]:
        """Return the block that becomes resident when another one ends, if there is one."""
        queue = self.of.get((block.rank, block.unit))
        if not queue:
            return []
        self.pending.discard(queue[0])
        return [queue.popleft()]


def _queues(blocks: list[Block], slots: Slots | None) -> _Queues:
    queues = _Queues()
    if slots is None:
        return queues
    of: dict[tuple[int, str], list[int]] = defaultdict(list)
    for b in sorted(range(len(blocks)), key=lambda b: blocks[b].kernel):
        of[blocks[b].rank, blocks[b].unit].append(b)
    for key, those in of.items():
        most = slots.engines if key[1] == "engine" else slots.blocks
        if len(those) > most:
            queues.of[key] = deque(those[most:])
            queues.pending.update(those[most:])
    return queues


class Clock(NamedTuple):
    """What is known to have happened.

    ``read`` and ``visible`` are arrays of int32, shape (blocks,): how many operations of each block
    have read all that they read, and how many have made visible all that they wrote. The bits of
    ``facts`` are operations that stored packets and have read what they read.
    """

    read: np.ndarray
    visible: np.ndarray
    facts: int

    def joined(self, other: Clock) -> Clock:
        """Return what is known by either of two clocks."""
        read, visible = np.maximum(self.read, other.read), np.maximum(self.visible, other.visible)
        return Clock(read, visible, self.facts | other.facts)


@dataclass
class Order:
    """For every operation, what has always happened when it begins; and when each block has ended.

    Attributes
    ----------
    loop : list of list of int
        For each block, the number of the loop that each operation is in.
    begin : list of list of Clock
        For each block, what is known at the begin of each of its loops.
    packets : dict of Place to Clock
        For each operation that reads packets, what is known when one of its lines is stored.
    end : list of Clock
        For each block, what is known when it has ended.
    bits : dict of Place to int
        The fact that stands for each operation that stores packets.
    """

    loop: list[list[int]]
    begin: list[list[Clock]]
    packets: dict[Place, Clock]
    end: list[Clock]
    bits: dict[Place, int]

    def at(self, place: Place) -> Clock:
        """Return what is known when an operation stores a line."""
        b, i = place
        return self.packets.get(place) or self.begin[b][self.loop[b][i]]

    def known_read(self, clock: Clock, first: Place) -> bool:
        """Whether an operation has read what it reads, by a clock."""
        return bool(clock.read[first[0]] > first[1] or clock.facts >> self.bits.get(first, 0) & 1)

    def is_read(self, first: Place, then: Place) -> bool:
        """Whether an operation has always read what it reads when another one writes the same."""
        return self.known_read(self.at(then), first)

    def is_visible(self, first: Place, then: Place) -> bool:
        """Whether what an operation wrote is always visible when another one begins."""
        return bool(self.at(then).visible[first[0]] > first[1])


def order_of(run: Execution, void: Collection[tuple[int, int]] = ()) -> Order:
    """Derive the order of a program from one execution, up to a fixpoint.

    Parameters
    ----------
    run : Execution
        Of the whole program: no block is stuck.
    void : collection of (int, int)
        Blocks and numbers of semaphores: the waits of these blocks for these semaphores order nothing.
    """
    return _Ordering(run, void).order


class _Ordering:
    def __init__(self, run: Execution, void: Collection[tuple[int, int]]) -> None:
        self.run, self.void = run, void
        self.loops = [_loops(block) for block in run.blocks]
        self.signals = {number: _Signals(of) for number, of in _signals(run).items()}
        self.closers = _closers(run)
        writers: dict[Chunk, set[Place]] = defaultdict(set)
        for b, i in run.done:
            for chunk in run.writes[b][i]:
                if chunk.buffer == "packets":
                    writers[chunk].add((b, i))
        # If several operations store the same packets, it is not known which of them came first.
        self.writers = {chunk: found.pop() for chunk, found in writers.items() if len(found) == 1}
        bits = {place: k for k, place in enumerate(dict.fromkeys(self.writers.values()), 1)}
        nothing = Clock(*np.zeros((2, len(run.blocks)), np.int32), 0)
        self.order = Order(
            [loops.number for loops in self.loops],
            [[nothing] * len(loops.first) for loops in self.loops],
            {},
            [nothing] * len(run.blocks),
            bits,
        )
        # For each wait whose signals depend on the order itself, those that it needs.
        self.decided: dict[Place, list[Place]] = {}
        while True:
            before, self.decided = self.decided, {}
            self._pass(nothing)
            if self.decided == before:
                break

    def _pass(self, nothing: Clock) -> None:
        """Derive all clocks from those of the pass before."""
        run, order = self.run, self.order
        after = [nothing] * len(run.blocks)
        for b, i in run.done:
            loops = self.loops[b]
            number = loops.number[i]
            op = run.blocks[b].operations[i]
            if loops.first[number] == i:
                clock = after[b]
                if op.kind == "wait" and op.semaphore and (b, op.semaphore.number) not in self.void:
                    needed = self._needed(op.semaphore, (b, i), op.value)
                    clock = self._joined(clock, needed)
                order.begin[b][number] = clock
                after[b] = clock
            packets = run.packets((b, i))
            if packets:
                writers = {self.writers[chunk]: None for chunk in packets if chunk in self.writers}
                clock = self._joined(order.begin[b][number], writers)
                for writer in writers:
                    facts = clock.facts | self.order.at(writer).facts | 1 << order.bits[writer]
                    clock = clock._replace(facts=facts)
                order.packets[b, i] = clock
                after[b] = after[b].joined(clock)
            if loops.last[number] == i:
                # The block itself sees its own stores at once, others only after a fence.
                read, visible = after[b].read.copy(), after[b].visible.copy()
                read[b] = visible[b] = i + 1
                after[b] = Clock(read, visible, after[b].facts)
        order.end[:] = after

    def _joined(self, clock: Clock, places: Collection[Place]) -> Clock:
        """Add what is known where signals are given or packets are stored."""
        if not places:
            return clock
        read, visible, facts = clock.read.copy(), clock.visible.copy(), clock.facts
        for x, j in places:
            loops = self.loops[x]
            there = self.order.at((x, j))
            mine = visible[x]
            np.maximum(read, there.read, out=read)
            np.maximum(visible, there.visible, out=visible)
            read[x] = max(read[x], loops.first[loops.number[j]])
            visible[x] = max(mine, loops.fenced[j])
            facts |= there.facts
        return Clock(read, visible, facts)

    def _needed(self, semaphore: Semaphore, wait: Place, value: int) -> list[Place]:
        """Return signals without which a semaphore could not have reached a value.

        The semaphore reaches the value for the first time before any block passes a wait for this
        value or more. So only signals that do not follow such a wait count, and a signal is needed
        if all those that do not follow it, either, do not suffice.
        """
        signals = self.signals[semaphore.number]
        if signals.total == value:
            return [(x, of[-1][0]) for x, of in signals.of.items() if x != wait[0]]
        if len(signals.of) == 1:
            ((x, of),) = signals.of.items()
            return [(x, of[bisect_left(of, value, key=lambda s: s[1])][0])] if x != wait[0] else []
        closed = self.closers[semaphore.number]
        closers = {y: i for y, waits in closed.items() for i in [_first(waits, value)] if i is not None}
        before = {}
        for x, of in signals.of.items():
            count = 0
            while count < len(of) and not self._follows((x, of[count][0]), closers):
                count += 1
            if count:
                before[x] = of[:count]
        most = sum(of[-1][1] for of in before.values())
        found = []
        for x, of in before.items():
            if x == wait[0]:
                continue
            lacking = value - (most - of[-1][1])
            needed = bisect_left(of, lacking, key=lambda s: s[1]) if lacking > 0 else -1
            while needed + 1 < len(of) and self._without((x, of[needed + 1][0]), before) < value:
                needed += 1
            if needed >= 0:
                found.append((x, of[needed][0]))
        self.decided[wait] = found
        return found

    def _follows(self, signal: Place, closers: dict[int, int]) -> bool:
        """Whether a signal always follows one of these waits, given by block."""
        x, j = signal
        clock = self.order.at(signal)
        return any(j > i if x == y else clock.read[y] > i for y, i in closers.items())

    def _without(self, signal: Place, before: dict[int, list[tuple[int, int]]]) -> int:
        """Return what all signals add that do not follow a signal, which is not counted itself."""
        x, j = signal
        total = 0
        for y, of in before.items():
            for i, reached in reversed(of):
                if i < j if x == y else self.order.at((y, i)).read[x] <= j:
                    total += reached
                    break
        return total


@dataclass
class _Loops:
    """The loops of a block, and for each operation the number of those that a fence covers.

    Every operation that is no move is a loop of its own.
    """

    number: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)


def _loops(block: Block) -> _Loops:
    loops, fenced = _Loops(), 0
    for i, (op, pace) in enumerate(zip(block.operations, paces(block), strict=True)):
        if pace.fence or op.kind == "fence" or (op.kind == "signal" and not op.relaxed):
            fenced = i
        if pace.ahead:
            loops.last[-1] = i
        else:
            loops.first.append(i)
            loops.last.append(i)
        loops.number.append(len(loops.first) - 1)
        loops.fenced.append(fenced)
    return loops


class _Signals:
    """The signals of a semaphore: for each block their numbers and the sums up to them, and the sum of all."""

    def __init__(self, of: dict[int, list[tuple[int, int]]]) -> None:
        self.of = of
        self.total = sum(mine[-1][1] for mine in of.values())


def _signals(run: Execution) -> dict[int, dict[int, list[tuple[int, int]]]]:
    found: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for b, block in enumerate(run.blocks):
        for i, op in enumerate(block.operations):
            if op.kind == "signal" and op.semaphore:
                mine = found[op.semaphore.number][b]
                mine.append((i, op.value + (mine[-1][1] if mine else 0)))
    return found


def _closers(run: Execution) -> dict[int, dict[int, list[tuple[int, int]]]]:
    """For each semaphore and block, the waits: their numbers and values, in order."""
    found: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for b, block in enumerate(run.blocks):
        for i, op in enumerate(block.operations):
            if op.kind == "wait" and op.semaphore:
                found[op.semaphore.number][b].append((i, op.value))
    return found


def _first(waits: list[tuple[int, int]], value: int) -> int | None:
    """Return the number of the first wait for this value or more."""
    return next((i for i, reached in waits if reached >= value), None)
