"""The order of a program's operations that holds for every timing.

Every block executes its operations in order, except that moves which are one loop (see
:mod:`~astranb.collectives.lowering.fences`) have no order among themselves. Between blocks there is
order only where one waits: for a semaphore that could not have risen without a signal, or for
packets. A store is not yet visible when the next instruction runs, so there are two orders: that an
operation has *read* what it reads, and that what it *wrote* is visible. A fence (before every signal
that is not relaxed) makes earlier stores visible; a packet guarantees only its own line. A signal
behind some moves (``put_signal``) makes what these stored visible, and what those did that such signals
of the block before it are behind: they leave in their order. It says nothing of other stores.

Vector clocks (Lamport 1978; Fidge 1988), one component a block. A packet also shows that the
operation that stored it has read the line that it sums, which says nothing of the other operations
of its loop: such facts are kept in sets beside the clocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from astranb.collectives.language import FIRST_SLOT, Block, Chunk, Program, first_of_slot
from astranb.collectives.lowering import paces
from astranb.gpu.tables import ACKNOWLEDGED

__all__ = ["Clock", "Execution", "Order", "Place", "ProgramMemory", "Slots", "execute", "order_of"]

Place = tuple[int, int]
"""A block and the number of one of its operations."""


class ProgramMemory:
    """Numbers the chunks of a program and tells which memory each of them is.

    Parameters
    ----------
    program : Program

    Attributes
    ----------
    chunks : list of Chunk
        The chunk of each number.
    number : dict of Chunk to int
    packets : set of int
        The numbers of packets.
    plain : bool
        Whether every chunk is memory of its own.
    """

    def __init__(self, program: Program) -> None:
        self.number: dict[Chunk, int] = {}
        self._place: list[int] = []  # the number of the memory; -1 for an empty chunk
        self._called: list[int] = []  # that of the chunk that is lowered for it
        self.plain = not program.same_memory and not program.slots
        self._lowered = program.layout is not None
        self._same, self._ranks, self._slots = program.same_memory, program.ranks, program.slots
        for block in program.blocks:
            for op in block.operations:
                for chunk in (*op.sources, *op.targets):
                    self.of(chunk)
        self.chunks = list(self.number)
        self.packets = {n for chunk, n in self.number.items() if chunk.buffer == "packets"}

    def of(self, chunk: Chunk) -> int:
        """Return the number of a chunk; of the chunk whose memory it shares, if there is one."""
        number = self.number.get(chunk)
        if number is None:
            number = self.number[chunk] = len(self.number)
            self._place.append(number)
            self._called.append(number)
            if chunk in self._same:
                self._place[number] = self.of(self._same[chunk])
                if self._lowered:
                    self._called[number] = self._called[self.number[self._same[chunk]]]
            elif self._slots and chunk.buffer == "scratch" and chunk.index >= FIRST_SLOT:
                first = chunk._replace(index=first_of_slot(chunk.index, self._ranks, self._slots))
                if first != chunk:
                    self._place[number] = self.of(first)
        return self._place[number]

    def leave_out(self, chunks: Collection[Chunk]) -> None:
        """Exclude empty chunks: they are no memory."""
        for chunk in chunks:
            if chunk in self.number:
                self._place[self.number[chunk]] = -1
                self.plain = False

    def called(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Return by what chunks a block knows that memory is the same: outputs in place are inputs."""
        if self.plain:
            return numbers
        return tuple(self._called[n] for n in numbers)

    def places(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Return the memory of chunks; empty ones are left out."""
        if self.plain:
            return numbers
        return tuple(self._place[n] for n in numbers if self._place[n] >= 0)


class Slots(NamedTuple):
    """Number of thread blocks and lists of copy engines of a rank that can be resident at once."""

    blocks: int
    engines: int


_Numbers: TypeAlias = list[tuple[int, ...]]


@dataclass
class Execution:
    """One execution of a program, in which every block continues as long as it can.

    The order does not matter: signals only add, so an operation that is possible in one order
    is possible in all.

    Attributes
    ----------
    memory : ProgramMemory
    blocks : list of Block
    sources, targets : list of list of tuple of int
        The numbers of the chunks that each operation of each block reads and writes.
    reads, writes : list of list of tuple of int
        Their memory, without empty chunks.
    done : list of (int, int)
        Operations in an order in which they can happen.
    at : list of int
        The next operation of each block.
    pending : list of int
        Blocks that never became resident.
    """

    memory: ProgramMemory
    blocks: list[Block]
    sources: list[_Numbers]
    targets: list[_Numbers]
    reads: list[_Numbers]
    writes: list[_Numbers]
    done: list[Place] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)

    @property
    def stuck(self) -> list[int]:
        """Blocks that did not end."""
        return [b for b, block in enumerate(self.blocks) if self.at[b] < len(block.operations)]

    def packets(self, place: Place) -> list[int]:
        """Return the packets that an operation waits for."""
        return [n for n in self.reads[place[0]][place[1]] if n in self.memory.packets]

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
                self.memory,
                [self.blocks[b] for b in members],
                [self.sources[b] for b in members],
                [self.targets[b] for b in members],
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
    memory: ProgramMemory | None = None,
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
    memory = memory or ProgramMemory(program)
    number, places, packets = memory.number, memory.places, memory.packets
    sources = [[tuple([number[c] for c in op.sources]) for op in block.operations] for block in chosen]
    targets = [[tuple([number[c] for c in op.targets]) for op in block.operations] for block in chosen]
    run = Execution(
        memory,
        chosen,
        sources,
        targets,
        [list(map(places, of)) for of in sources],
        [list(map(places, of)) for of in targets],
    )
    run.at = [0] * len(run.blocks)
    value: dict[int, int] = defaultdict(int)
    written: set[int] = set()
    waiting: dict[object, list[int]] = defaultdict(list)  # blocks, by semaphore or packets
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
                waiting[op.semaphore].append(b)
                break
            missing = None
            if packets:
                missing = next((n for n in reads[i] if n in packets and n not in written), None)
            if missing is not None:
                waiting[missing].append(b)
                break
            run.done.append((b, i))
            run.at[b] += 1
            if op.kind == "signal" and op.semaphore:
                value[op.semaphore.number] += op.value
                ready.extend(waiting.pop(op.semaphore, ()))
            for n in writes[i] if packets else ():
                if n in packets:
                    written.add(n)
                    ready.extend(waiting.pop(n, ()))
        else:
            ready.extend(queues.following(run.blocks[b]))
    run.pending = sorted(queues.pending)
    return run


class _Queues:
    """The blocks of each rank that are not resident yet, in the order in which they will be."""

    def __init__(self) -> None:
        self.pending: set[int] = set()
        self.of: dict[tuple[int, str], deque[list[int]]] = {}
        self.left: dict[int, int] = {}  # roles of each thread block that have not ended

    def following(self, block: Block) -> list[int]:
        """Return the roles of the block that becomes resident when another one ends, if there is one."""
        whole = id(block.thread_block or block)
        if self.left:
            self.left[whole] -= 1
        queue = self.of.get((block.rank, block.unit))
        if not queue or self.left[whole]:
            return []
        self.pending.difference_update(queue[0])
        return queue.popleft()


def _queues(blocks: list[Block], slots: Slots | None) -> _Queues:
    queues = _Queues()
    if slots is None:
        return queues
    of: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(dict)
    for b in sorted(range(len(blocks)), key=lambda b: blocks[b].kernel):
        whole = id(blocks[b].thread_block or blocks[b])
        of[blocks[b].rank, blocks[b].unit].setdefault(whole, []).append(b)
        queues.left[whole] = queues.left.get(whole, 0) + 1
    for key, those in of.items():
        most = {"sm": slots.blocks, "engine": slots.engines}.get(key[1], len(those))
        if len(those) > most:
            queues.of[key] = deque(list(those.values())[most:])
            queues.pending.update(b for roles in queues.of[key] for b in roles)
    return queues


class Clock(NamedTuple):
    """Events that are known to have happened (a vector clock).

    ``read`` and ``visible`` are arrays of int32, shape (blocks,): how many operations of each block
    have read all that they read, and how many have made visible all that they wrote. ``posted``: up to which
    operation signals behind stores have left, of each block; empty if there are no such signals. The bits of
    ``facts`` are operations that stored packets and have read what they read.
    """

    read: np.ndarray
    visible: np.ndarray
    posted: np.ndarray
    facts: int

    @classmethod
    def of(cls, blocks: int, *, posts: bool) -> Clock:
        """Return the clock of nothing, for a number of blocks."""
        read, visible, posted = (np.zeros(n, np.int32) for n in (blocks, blocks, blocks if posts else 0))
        return cls(read, visible, posted, 0)

    def same(self, other: Clock) -> bool:
        """Return whether the same is known."""
        alike = np.array_equal(self.read, other.read) and np.array_equal(self.visible, other.visible)
        return alike and np.array_equal(self.posted, other.posted) and self.facts == other.facts

    def joined(self, other: Clock) -> Clock:
        """Return what is known by either of two clocks."""
        read, visible = np.maximum(self.read, other.read), np.maximum(self.visible, other.visible)
        posted = np.maximum(self.posted, other.posted) if len(self.posted) else self.posted
        return Clock(read, visible, posted, self.facts | other.facts)


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
    posts : dict of Place to int
        For each move, the first signal that is behind its stores: the number of the operation.
    fenced : list of list of int
        For each operation of each block, how many operations of the block a fence covers before it.
    acknowledged : list of list of (int, int)
        For each operation of each block, what is known of the block's own stores from signals and packets of
        others: how many operations have made visible what they wrote, and up to which operation signals
        behind stores have left.
    """

    loop: list[list[int]]
    begin: list[list[Clock]]
    packets: dict[Place, Clock]
    end: list[Clock]
    bits: dict[Place, int]
    posts: dict[Place, int]
    fenced: list[list[int]]
    acknowledged: list[list[tuple[int, int]]]

    def at(self, place: Place) -> Clock:
        """Return what is known when an operation stores a line."""
        b, i = place
        return self.packets.get(place) or self.begin[b][self.loop[b][i]]

    def known_read(self, clock: Clock, first: Place) -> bool:
        """Return whether an operation has read what it reads, by a clock."""
        return bool(clock.read[first[0]] > first[1] or clock.facts >> self.bits.get(first, 0) & 1)

    def is_read(self, first: Place, then: Place) -> bool:
        """Return whether an operation has always read what it reads when another one writes the same."""
        return self.known_read(self.at(then), first)

    def is_visible(self, first: Place, then: Place) -> bool:
        """Return whether what an operation wrote is always visible when another one begins."""
        return self.known_visible(self.at(then), first)

    def known_visible(self, clock: Clock, first: Place) -> bool:
        """Return whether what an operation wrote is visible, by a clock."""
        if clock.visible[first[0]] > first[1]:
            return True
        post = self.posts.get(first)
        return post is not None and bool(clock.posted[first[0]] > post)

    def is_acknowledged(self, first: Place, then: Place) -> bool:
        """Return whether an operation's stores are visible to all whenever a later one of its block begins.

        The block itself sees its own stores at once, but only in memory that it calls by the same name.
        """
        b, i = first
        visible, posted = self.acknowledged[b][then[1]]
        post = self.posts.get(first)
        return max(visible, self.fenced[b][then[1]]) > i or (post is not None and posted > post)


def order_of(
    run: Execution, void: Collection[tuple[int, int]] = (), *, in_step: bool = False, fenced: bool = False
) -> Order:
    """Derive the order of a program from one execution, up to a fixpoint.

    Parameters
    ----------
    run : Execution
        Of the whole program: no block is stuck.
    void : collection of (int, int)
        Blocks and numbers of semaphores: the waits of these blocks for these semaphores order nothing.
    in_step : bool
        Whether the warps of a block execute each move together, so that no two moves are one loop.
    fenced : bool
        Whether relaxed signals wait for the stores before them, as others do.
    """
    return _Ordering(run, void, in_step=in_step, fenced=fenced).order


class _Ordering:
    """Derives the clocks of a program, the largest that agree with one another.

    Whatever a wait does not need may not have happened yet: what is known at an operation is what
    has happened before it in every execution. So clocks begin with everything and fall until nothing changes.
    """

    def __init__(
        self, run: Execution, void: Collection[tuple[int, int]], *, in_step: bool, fenced: bool
    ) -> None:
        self.run, self.void = run, void
        self.loops = [
            _loops(
                block, *(list(map(run.memory.called, side)) for side in sides), in_step=in_step, fenced=fenced
            )
            for block, *sides in zip(run.blocks, run.sources, run.targets, strict=True)
        ]
        self.signals = _signals(run)
        self.in_turn = {  # what the signals have added up to each of them
            number: list(accumulate(weight for _, weight in signals))
            for number, signals in self.signals.items()
            if self._in_turn(signals)
        }
        writers: dict[int, set[Place]] = defaultdict(set)
        for b, i in run.done if run.memory.packets else ():
            for n in run.writes[b][i]:
                if n in run.memory.packets:
                    writers[n].add((b, i))
        # If several operations store the same packets, it is not known which of them came first.
        self.writers = {n: found.pop() for n, found in writers.items() if len(found) == 1}
        bits = {place: k for k, place in enumerate(dict.fromkeys(self.writers.values()), 1)}
        count = len(run.blocks)
        posts = {(b, i): post for b, of in enumerate(self.loops) for i, post in of.posts.items()}
        nothing = Clock.of(count, posts=bool(posts))
        self.order = Order(
            [loops.number for loops in self.loops],
            [[nothing] * len(loops.first) for loops in self.loops],
            {},
            [nothing] * count,
            bits,
            posts,
            [loops.fenced for loops in self.loops],
            [[(0, 0)] * len(loops.number) for loops in self.loops],
        )
        self.given: dict[Place, Clock] = {}  # what each signal shows
        most = np.full(count, np.iinfo(np.int32).max, np.int32)
        self.everything = Clock(most, most, most if posts else nothing.posted, -1)
        self.waited: dict[Place, Clock] = {}  # what waits show whose signals could be several sets
        self.settled = False
        while not self.settled:
            self.settled = True
            self._pass(nothing)

    def _in_turn(self, signals: list[tuple[Place, int]]) -> bool:
        """Return whether all signals of a semaphore are of one block, each showing all that the earlier show.

        One that does not wait for stores may leave before one that is behind some.
        """
        if len({b for (b, _), _ in signals}) > 1:
            return False
        posted = False
        for (b, i), _ in signals:
            if i in self.loops[b].posted:
                posted = True
            elif posted and self.loops[b].fenced[i] < i:
                return False
        return True

    def _pass(self, nothing: Clock) -> None:
        """Derive all clocks from those of the pass before."""
        run, order = self.run, self.order
        after = [nothing] * len(run.blocks)
        acknowledged = [(0, 0)] * len(run.blocks)  # stores of each block, when its next loop begins
        at_begin = list(acknowledged)  # when the present loop began

        def joined(known: tuple[int, int], b: int, clock: Clock) -> tuple[int, int]:
            """Return what is known of a block's own stores, with what a clock of another block shows."""
            posted = int(clock.posted[b]) if len(clock.posted) else 0
            return max(known[0], int(clock.visible[b])), max(known[1], posted)

        for b, i in run.done:
            loops = self.loops[b]
            number = loops.number[i]
            op = run.blocks[b].operations[i]
            if loops.first[number] == i:
                clock = after[b]
                waits = op.kind == "wait" and op.value > 0
                if waits and op.semaphore and (b, op.semaphore.number) not in self.void:
                    shown = self._shown(op.semaphore.number, (b, i), op.value)
                    acknowledged[b] = joined(acknowledged[b], b, shown)
                    clock = clock.joined(shown)
                order.begin[b][number] = after[b] = clock
                at_begin[b] = acknowledged[b]
            order.acknowledged[b][i] = at_begin[b]
            packets = run.packets((b, i)) if self.writers else ()
            if packets:
                clock = order.begin[b][number]
                for writer in {self.writers[n]: None for n in packets if n in self.writers}:
                    shown = self._at(writer, loops=self.loops[writer[0]])
                    order.acknowledged[b][i] = joined(order.acknowledged[b][i], b, shown)
                    acknowledged[b] = joined(acknowledged[b], b, shown)
                    clock = clock.joined(shown)
                    clock = clock._replace(facts=clock.facts | 1 << order.bits[writer])
                order.packets[b, i] = clock
                after[b] = after[b].joined(clock)
            if op.kind == "signal":
                shown = self._at((b, i), loops=loops)
                shown.read[b] = i + 1
                if i in loops.posted:
                    shown.posted[b] = i + 1
                self.given[b, i] = shown
            if loops.last[number] == i:
                # The block itself sees its own stores at once, others only after a fence.
                read, visible = after[b].read.copy(), after[b].visible.copy()
                read[b] = visible[b] = i + 1
                after[b] = Clock(read, visible, after[b].posted, after[b].facts)
        order.end[:] = after

    def _at(self, place: Place, loops: _Loops) -> Clock:
        """Return what others know of an operation that has stored something."""
        x, j = place
        clock = self.order.at(place)
        read, visible = clock.read.copy(), clock.visible.copy()
        read[x], visible[x] = loops.first[loops.number[j]], loops.fenced[j]
        return Clock(read, visible, clock.posted.copy(), clock.facts)

    def _shown(self, semaphore: int, wait: Place, value: int) -> Clock:
        """Return what is known when a semaphore has reached a value.

        Something is known if the signals that do not show it cannot reach the value.
        """
        signals = self.signals[semaphore]
        if semaphore in self.in_turn:  # each shows what those before it show
            last = bisect_left(self.in_turn[semaphore], value)
            if last < len(signals):
                return self.given.get(signals[last][0], self.everything)
        clocks = [self.given.get(place, self.everything) for place, _ in signals]
        weights = np.array([weight for _, weight in signals])
        read, visible, posted = (np.array([clock[k] for clock in clocks]) for k in (0, 1, 2))
        facts = 0
        if weights.sum() == value:
            for clock in clocks:
                facts |= clock.facts
            return Clock(read.max(axis=0), visible.max(axis=0), posted.max(axis=0), facts)
        if any(clock.facts for clock in clocks):
            for bit in self.order.bits.values():
                lack = sum(
                    weight
                    for clock, (_, weight) in zip(clocks, signals, strict=True)
                    if not clock.facts >> bit & 1
                )
                facts |= (lack < value) << bit
        reached = [_reached(known, weights, value) for known in (read, visible, posted)]
        found = Clock(reached[0], reached[1], reached[2], facts)
        before = self.waited.get(wait)
        self.waited[wait] = found
        self.settled &= before is not None and before.same(found)
        return found


def _reached(known: np.ndarray, weights: np.ndarray, value: int) -> np.ndarray:
    """Return for each column the least number that rows of this weight in all do not exceed."""
    order = np.argsort(known, axis=0, kind="stable")
    row = np.argmax(np.cumsum(weights[order], axis=0) >= value, axis=0)
    columns = np.arange(known.shape[1])
    return np.asarray(known[order[row, columns], columns])


@dataclass
class _Loops:
    """The loops of a block, and for each operation the number of those that a fence covers.

    Every operation that is no move is a loop of its own.
    """

    number: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)
    posted: set[int] = field(default_factory=set)  # signals behind stores
    posts: dict[int, int] = field(default_factory=dict)  # the first of them behind each move


def _loops(block: Block, sources: _Numbers, targets: _Numbers, *, in_step: bool, fenced: bool) -> _Loops:
    loops, cover = _Loops(), 0
    moves: list[int] = []
    for i, (op, pace) in enumerate(zip(block.operations, paces(block, sources, targets), strict=True)):
        if op.kind == "move":
            moves.append(i)
        elif op.behind and moves:
            loops.posted.add(i)
            for move in moves[-op.behind :]:
                loops.posts.setdefault(move, i)
        waits = op.kind == "signal" and not op.behind and (fenced or not op.relaxed)
        if pace.fence & ACKNOWLEDGED or op.kind == "fence" or waits:
            cover = i
        cover = max(cover, pace.clean)
        if pace.ahead and not in_step:
            loops.last[-1] = i
        else:
            loops.first.append(i)
            loops.last.append(i)
        loops.number.append(len(loops.first) - 1)
        loops.fenced.append(cover)
    return loops


def _signals(run: Execution) -> dict[int, list[tuple[Place, int]]]:
    """For each semaphore its signals, block by block, and what each adds."""
    found: dict[int, list[tuple[Place, int]]] = defaultdict(list)
    for b, block in enumerate(run.blocks):
        for i, op in enumerate(block.operations):
            if op.kind == "signal" and op.semaphore:
                found[op.semaphore.number].append(((b, i), op.value))
    return found
