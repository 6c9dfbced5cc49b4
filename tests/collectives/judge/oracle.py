"""A model checker for small programs: every order in which loads and stores can happen, one after the other.

It is written from what the language and the machine document, without the verifier. A thread block starts
its operations in order. Reading a chunk begins and ends; so does writing one, at any time after the
operation has read. A read during which the chunk changes is torn, and so is what two writes of different
data leave that overlap. Moves that do not depend on each other are one loop: the next one starts before the
one before it has read everything. Signals, waits and the end of a block come after all reads of the block,
and after all its stores where there is a fence. A signal behind moves is only posted then: it leaves, and
adds to its semaphore, when these moves have been written and those that the block has posted before it have
left; the block ends when all have. Messages of one slot of a buffer are in the same memory. The roles of a
thread block begin together, and their place is free when all of them have ended.
A rank's outputs are checked when its own
blocks have ended, and again when all have. Then all launch a second time, with new inputs: semaphores keep
their values, and what the first launch left in memory is there. Besides, strictly: nothing is read that was
never written, nothing changes while it is read or written, unless the data is the same, and nothing
changes in the input or output of a rank that has ended.

A step is taken alone, without trying others, where nothing that the others can still do before it touches the
same chunk (a persistent set of one step: Godefroid, Partial-Order Methods for the Verification of Concurrent
Systems, 1996). Programs only add to semaphores, so that what others can reach is one closure, not a search.
Elsewhere all orders are tried, and states that were met before are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from astranb.collectives import COLLECTIVES, Chunk, Operation, Program
from astranb.collectives.language.collective import promised

__all__ = ["Finding", "TooMany", "find_fault"]

_Value = tuple[tuple[int, int, int, int], ...] | str
"""Content of a chunk: launch, rank, index and channel of each contribution, or why it holds nothing."""
_TORN, _NEVER = "torn", "never written"

_Sample = tuple[_Value, tuple[int, int] | None]
"""Content of a chunk when a read began, and who wrote it."""

_WAITS, _WRITES, _WRITTEN = 0, 1, 2


class TooMany(Exception):
    """The program has more states than allowed."""


@dataclass(frozen=True)
class Finding:
    """A fault, and its launch.

    ``kind`` is ``deadlock``, ``result``, ``race`` (what is read or stored depends on the timing, or was never
    written) or ``late`` (stored to the input or output of a rank that has ended).
    """

    kind: str
    launch: int
    text: str
    steps: int = 0


@dataclass(frozen=True)
class _Op:
    """An operation as the machine starts it."""

    op: Operation
    acknowledged: bool  # only after all earlier stores of the block
    ahead: bool  # in one loop with the move before it
    packets: frozenset[Chunk]
    behind: tuple[int, ...] = ()  # the moves behind which a signal is posted


_BUFFER = 2**25
"""Indices of each buffer of messages: the first buffer begins with this one."""


def _places(program: Program) -> dict[Chunk, Chunk]:
    """Return the chunks that share the memory of another one, and which."""
    found = dict(program.same_memory)
    for block in program.blocks:
        for op in block.operations:
            for chunk in (*op.sources, *op.targets):
                if chunk.index >= _BUFFER and chunk.buffer == "scratch":
                    message, source = divmod(chunk.index % _BUFFER, program.ranks)
                    slot = message % program.slots[chunk.index // _BUFFER - 1]
                    first = chunk.index // _BUFFER * _BUFFER + slot * program.ranks + source
                    if first != chunk.index:
                        found[chunk] = chunk._replace(index=first)
    return found


def _as_started(
    operations: list[Operation],
    empty: AbstractSet[Chunk],
    same: Mapping[Chunk, Chunk],
    called: Mapping[Chunk, Chunk],
) -> list[_Op]:
    """Add the fences and loops that the language documents, and name the memory of each chunk.

    Empty chunks are neither read nor written. A block knows of outputs in place that they are inputs
    (``called``), and not that messages are of one slot.
    """
    found: list[_Op] = []
    stored: set[Chunk] = set()  # by the names that the block has for them
    reading: set[Chunk] | None = None
    moves: list[int] = []
    for number, op in enumerate(operations):
        sources, targets = ({called.get(c, c) for c in side} for side in (op.sources, op.targets))
        if op.kind == "move":
            fence = bool(stored & (sources | targets))
        else:
            plain = op.kind == "signal" and not op.relaxed and not op.behind
            fence = op.kind == "fence" or (plain and bool(stored))
        if fence:
            stored.clear()
        stored |= targets
        ahead = op.kind == "move" and not fence and reading is not None and not reading & targets
        reading = None if op.kind != "move" else sources | (reading if ahead and reading else set())
        if op.kind == "move" and not empty.isdisjoint(op.sources):
            moved = replace(op, sources=(), targets=())
        else:
            reads, writes = (tuple(same.get(c, c) for c in side) for side in (op.sources, op.targets))
            moved = replace(op, sources=reads, targets=writes)
        packets = frozenset(chunk for chunk in moved.sources if chunk.buffer == "packets")
        found.append(_Op(moved, fence, ahead, packets, tuple(moves[-op.behind :]) if op.behind else ()))
        if op.kind == "move":
            moves.append(number)
    return found


def _aliased(
    operations: list[Operation], same: Mapping[Chunk, Chunk], called: Mapping[Chunk, Chunk]
) -> set[Chunk]:
    """Return the memory that a block calls by several names."""
    names: dict[Chunk, set[Chunk]] = {}
    for op in operations:
        for chunk in (*op.sources, *op.targets):
            names.setdefault(same.get(chunk, chunk), set()).add(called.get(chunk, chunk))
    return {memory for memory, called in names.items() if len(called) > 1}


class _State:
    """State of a whole run; equal states have equal keys."""

    __slots__ = (
        "at", "ended", "launch", "memory", "moves", "over", "posts", "semaphores", "writer", "writing",
    )  # fmt: skip

    def __init__(self) -> None:
        self.at: list[int] = []  # the next operation of each block
        # The moves under way of each block: what was found at first, the result, the state of each target.
        self.moves: list[dict[int, tuple[tuple[_Sample, ...], _Value | None, tuple[int, ...]]]] = []
        self.posts: list[tuple[int, ...]] = []  # the signals of each block that are posted and have not left
        self.memory: dict[Chunk, _Value] = {}
        # Writes under way, and whether lines of different ones may remain.
        self.writing: dict[Chunk, tuple[tuple[_Value, ...], bool]] = {}
        self.writer: dict[Chunk, tuple[int, int]] = {}  # the operation that wrote it, where that matters
        self.semaphores: list[int] = []
        self.ended: list[bool] = []  # each rank, in this launch
        self.launch = 1
        self.over = False

    def copy(self) -> _State:
        other = _State()
        other.at, other.moves = list(self.at), [dict(moves) for moves in self.moves]
        other.posts = list(self.posts)
        other.memory, other.writing, other.writer = dict(self.memory), dict(self.writing), dict(self.writer)
        other.semaphores, other.ended = list(self.semaphores), list(self.ended)
        other.launch, other.over = self.launch, self.over
        return other

    def key(self) -> object:
        return (
            self.launch,
            tuple(self.at),
            tuple(tuple(sorted(moves.items())) for moves in self.moves),
            tuple(self.posts),
            frozenset(self.memory.items()),
            frozenset(self.writing.items()),
            frozenset(self.writer.items()),
            tuple(self.semaphores),
            tuple(self.ended),
        )


_Step = tuple[str, int, int, int]
"""An event: its kind, the block (or rank), the operation, the target."""


class _Search:
    def __init__(
        self,
        program: Program,
        kind: str,
        root: int,
        empty: AbstractSet[Chunk],
        launches: int,
        most: int,
        *,
        slots: tuple[int, int] | None,
        strict: bool,
        marks: bool,
        reduced: bool,
    ) -> None:
        self.program, self.kind, self.launches, self.most = program, kind, launches, most
        self.same = _places(program)
        self.strict, self.marks, self.reduced = strict, marks, reduced
        called = program.same_memory if program.layout is not None else {}
        self.ops = [_as_started(block.operations, empty, self.same, called) for block in program.blocks]
        self.rank = [block.rank for block in program.blocks]
        self.aliased = [_aliased(block.operations, self.same, called) for block in program.blocks]
        # The blocks before each one that take the same slots of its rank, and how many slots there are.
        self.slots = [
            len(self.ops) if slots is None else slots[block.unit != "sm"] for block in program.blocks
        ]
        units = [(block.rank, block.unit) for block in program.blocks]
        whole = [id(block.thread_block or block) for block in program.blocks]
        self.before: list[list[list[int]]] = []
        for b in range(len(units)):
            others: dict[int, list[int]] = {}
            for other in range(len(units)):
                first = whole.index(whole[other])
                if units[other] == units[b] and first < whole.index(whole[b]):
                    others.setdefault(first, []).append(other)
            self.before.append(list(others.values()))
        self.of_rank = [[b for b, r in enumerate(self.rank) if r == rank] for rank in range(program.ranks)]
        self.waited: list[dict[int, int]] = []  # by one launch of each block, for each semaphore
        for block in program.blocks:
            reached: dict[int, int] = {}
            for op in block.operations:
                if op.kind == "wait" and op.semaphore is not None:
                    reached[op.semaphore.number] = max(reached.get(op.semaphore.number, 0), op.value)
            self.waited.append(reached)
        layout = program.layout
        self.union = layout is not None and layout.reduction.repeatable  # twice is as good as once
        self.promise = {c: what for c, what in self._promise(root).items() if c not in empty}
        self.outputs = [[c for c in self.promise if c.rank == rank] for rank in range(program.ranks)]
        used = (c for block in program.blocks for op in block.operations for c in (*op.sources, *op.targets))
        self.inputs = sorted(
            {chunk for chunk in (*used, *self.same, *self.same.values()) if chunk.buffer == "input"},
            key=lambda c: (c.rank, c.index, c.channel),
        )
        # Who accesses a chunk, and who writes it: most chunks have one block only.
        self.users: dict[Chunk, set[int]] = {}
        self.writers: dict[Chunk, set[int]] = {}
        for b, ops in enumerate(self.ops):
            for one in ops:
                for chunk in (*one.op.sources, *one.op.targets):
                    self.users.setdefault(chunk, set()).add(b)
                for chunk in one.op.targets:
                    self.writers.setdefault(chunk, set()).add(b)
        # What the end of a rank looks at: its outputs and, strictly, all of its inputs and outputs.
        self.looked = [{self.same.get(c, c) for c in outputs} for outputs in self.outputs]
        for chunk in self.writers if strict else ():
            if chunk.buffer in ("input", "output"):
                self.looked[chunk.rank].add(chunk)
        self.seen: set[object] = set()
        self.steps = 0

    def _promise(self, root: int) -> dict[Chunk, list[tuple[int, int]]]:
        """The contributions that each output must hold: rank and chunk of its input, ascending."""
        program = self.program
        if program.layout is not None:
            found = {}
            for number, (rank, index) in enumerate(program.layout.outputs[:2].T.tolist()):
                held = program.layout.held[program.layout.first[number] : program.layout.first[number + 1]]
                contributions = sorted(zip(*program.layout.inputs[:2, held].tolist(), strict=True))
                for channel in range(program.channels):
                    found[Chunk(rank, "output", index, channel)] = contributions
            return found
        if COLLECTIVES[self.kind].silent:
            return {}
        ranks = [root] if COLLECTIVES[self.kind].root_only else range(program.ranks)
        chunks = [
            Chunk(rank, "output", index, channel)
            for rank in ranks
            for index in range(program.output_chunks)
            for channel in range(program.channels)
        ]
        rank, index = (np.array([getattr(c, name) for c in chunks], np.int64) for name in ("rank", "index"))
        times, of_chunk = promised(self.kind, root, program.ranks, program.output_chunks, rank, index)
        return {
            c: [(r, int(of_chunk[k])) for r in range(program.ranks) for _ in range(times[k][r])]
            for k, c in enumerate(chunks)
        }

    def wanted(self, chunk: Chunk, launch: int) -> _Value:
        return tuple((launch, rank, index, chunk.channel) for rank, index in self.promise[chunk])

    def start(self) -> _State:
        state = _State()
        state.semaphores = [0] * len(self.program.semaphores)
        self._launch(state)
        return state

    def _launch(self, state: _State) -> None:
        state.at = [0] * len(self.ops)
        state.moves = [{} for _ in self.ops]
        state.posts = [() for _ in self.ops]
        state.ended = [False] * self.program.ranks
        for chunk in self.inputs:
            content = ((state.launch, chunk.rank, chunk.index, chunk.channel),)
            state.memory[self.same.get(chunk, chunk)] = content
        for chunk in [c for c in state.memory if c.buffer == "packets"]:
            del state.memory[chunk]

    # Steps --------------------------------------------------------------------

    def stored(self, state: _State, block: int) -> bool:
        """Return whether all stores of a block are visible."""
        return not state.moves[block]

    def resident(
        self,
        b: int,
        at: list[int],
        moves: Sequence[Mapping[int, object]],
        posts: Sequence[Sequence[int]],
    ) -> bool:
        """Return whether a block has a slot: thread blocks begin in order, when an earlier one has ended."""
        running = sum(
            any(at[one] < len(self.ops[one]) or moves[one] or posts[one] for one in roles)
            for roles in self.before[b]
        )
        return running < self.slots[b]

    def leaves(self, b: int, posts: Sequence[int], moves: Mapping[int, object]) -> bool:
        """Return whether the first signal that a block has posted can leave."""
        return bool(posts) and not any(i in moves for i in self.ops[b][posts[0]].behind)

    def has_read(self, state: _State, block: int) -> bool:
        return all(result is not None for _, result, _ in state.moves[block].values())

    def next_start(self, state: _State, b: int) -> _Step | None:
        """The next operation of a block, if it can start."""
        i = state.at[b]
        if i == len(self.ops[b]):
            return None
        one = self.ops[b][i]
        if i == 0 and not self.resident(b, state.at, state.moves, state.posts):
            return None
        if one.acknowledged and not self.stored(state, b):
            return None
        if not one.ahead and not self.has_read(state, b):
            return None
        if one.ahead:
            for j, (_, result, _) in state.moves[b].items():
                if result is None and not all(
                    p in state.memory and p not in state.writing for p in self.ops[b][j].packets
                ):
                    return None
        op = one.op
        if op.kind == "wait" and op.semaphore is not None:
            number = op.semaphore.number
            if state.semaphores[number] < op.value + (state.launch - 1) * self.waited[b][number]:
                return None
        return (op.kind, b, i, 0)

    def enabled(self, state: _State) -> list[_Step]:
        found: list[_Step] = []
        for b in range(len(self.ops)):
            step = self.next_start(state, b)
            if step is not None:
                found.append(step)
            if self.leaves(b, state.posts[b], state.moves[b]):
                found.append(("post", b, state.posts[b][0], 0))
            for i, (_, result, targets) in state.moves[b].items():
                if result is None:
                    packets = self.ops[b][i].packets
                    if all(p in state.memory and p not in state.writing for p in packets):
                        found.append(("read", b, i, 0))
                    continue
                for k, what in enumerate(targets):
                    if what == _WAITS:
                        found.append(("write", b, i, k))
                    elif what == _WRITES:
                        found.append(("written", b, i, k))
        found += [
            ("end", rank, 0, 0)
            for rank, blocks in enumerate(self.of_rank)
            if not state.ended[rank]
            and all(
                state.at[b] == len(self.ops[b]) and not state.moves[b] and not state.posts[b] for b in blocks
            )
        ]
        return found

    def apply(self, state: _State, step: _Step) -> Finding | None:
        """Take a step; return the fault that it shows."""
        self.steps += 1
        kind, b, i, k = step
        if kind == "end":
            return self._end(state, b)
        op = self.ops[b][i].op
        if kind == "move" and not op.targets:
            state.at[b] += 1  # of no bytes
        elif kind == "move":
            sampled = tuple(
                (state.memory.get(c, _NEVER) if c not in state.writing else _TORN, state.writer.get(c))
                for c in op.sources
            )
            state.moves[b][i] = (sampled, None, (_WAITS,) * len(op.targets))
            state.at[b] += 1
        elif kind == "read":
            return self._read(state, b, i)
        elif kind == "write":
            return self._write(state, b, i, k)
        elif kind == "written":
            return self._written(state, b, i, k)
        elif kind == "post":
            assert op.semaphore is not None
            state.semaphores[op.semaphore.number] += op.value
            state.posts[b] = state.posts[b][1:]
        elif self.ops[b][i].behind:
            state.posts[b] += (i,)
            state.at[b] += 1
        else:
            if kind == "signal" and op.semaphore is not None:
                state.semaphores[op.semaphore.number] += op.value
            state.at[b] += 1
        return None

    def _read(self, state: _State, b: int, i: int) -> Finding | None:
        """A move has read all its lines: what it read is whole if nothing has changed since it began."""
        sampled, _, targets = state.moves[b][i]
        parts: list[tuple[int, int, int, int]] = []
        bad = ""
        for chunk, before in zip(self.ops[b][i].op.sources, sampled, strict=True):
            after: _Value = state.memory.get(chunk, _NEVER) if chunk not in state.writing else _TORN
            if isinstance(after, str):
                bad = after
            elif before != (after, state.writer.get(chunk)) and chunk.buffer != "packets":
                bad = _TORN
            else:
                parts.extend(after)
        state.moves[b][i] = ((), bad or tuple(sorted(set(parts) if self.union else parts)), targets)
        if bad and self.strict:
            return Finding("race", state.launch, f"block {b} operation {i} reads what is {bad}", self.steps)
        return None

    def _write(self, state: _State, b: int, i: int, k: int) -> Finding | None:
        sampled, result, targets = state.moves[b][i]
        assert result is not None
        chunk = self.ops[b][i].op.targets[k]
        changed = (*targets[:k], _WRITES, *targets[k + 1 :])
        state.moves[b][i] = (sampled, result, changed)
        before = state.memory.get(chunk, _NEVER)
        others, mixed = state.writing.get(chunk, ((), False))
        if before == result and not others and not self.marks:
            return None  # it is there already
        mixed |= any(other != result or self.marks for other in others)
        state.writing[chunk] = (tuple(sorted((*others, result), key=repr)), mixed)
        late = state.ended[chunk.rank] and chunk in self.looked[chunk.rank]
        if self.strict and (mixed or late):
            text = f"block {b} operation {i} writes {chunk}"
            return Finding("race" if mixed else "late", state.launch, text, self.steps)
        return None

    def _written(self, state: _State, b: int, i: int, k: int) -> Finding | None:
        sampled, result, targets = state.moves[b][i]
        assert result is not None
        chunk = self.ops[b][i].op.targets[k]
        changed = (*targets[:k], _WRITTEN, *targets[k + 1 :])
        if all(what == _WRITTEN for what in changed):
            del state.moves[b][i]
        else:
            state.moves[b][i] = (sampled, result, changed)
        others, mixed = state.writing.get(chunk, ((), False))
        if result in others and not mixed:
            # All lines hold it now, and what others still store is the same.
            del state.writing[chunk]
            state.memory[chunk] = result
            if self.marks:
                state.writer[chunk] = (b, i)
        elif result in others:
            rest = list(others)
            rest.remove(result)
            if rest:
                state.writing[chunk] = (tuple(rest), True)
            else:
                del state.writing[chunk]
                state.memory[chunk] = _TORN
        elif others or state.memory.get(chunk, _NEVER) != result:
            # It was there when this write began; lines of another one may be there now.
            if others:
                state.writing[chunk] = (others, True)
            state.memory[chunk] = _TORN
            if self.strict:
                return Finding("race", state.launch, f"block {b} operation {i} writes {chunk}", self.steps)
        return None

    def _end(self, state: _State, rank: int) -> Finding | None:
        state.ended[rank] = True
        found = self._wrong(state, self.outputs[rank], "when its kernel ended")
        if not found and self.strict and not state.writing.keys().isdisjoint(self.looked[rank]):
            return Finding("late", state.launch, f"stores to rank {rank} that has ended", self.steps)
        if found or not all(state.ended):
            return found
        found = self._wrong(state, list(self.promise), "when all had ended")
        if found:
            return found
        if state.launch == self.launches:
            state.over = True
            return None
        state.launch += 1
        self._launch(state)
        return None

    def _wrong(self, state: _State, outputs: list[Chunk], when: str) -> Finding | None:
        for chunk in outputs:
            place = self.same.get(chunk, chunk)
            value: _Value = state.memory.get(place, _NEVER) if place not in state.writing else _TORN
            if value != self.wanted(chunk, state.launch):
                return Finding("result", state.launch, f"{chunk} holds {value} {when}", self.steps)
        return None

    # Partial-order reduction ----------------------------------------------------

    def touched(self, step: _Step) -> tuple[set[Chunk], set[Chunk]]:
        """The chunks that a step reads and writes."""
        kind, b, i, k = step
        if kind == "end":
            return self.looked[b], set()
        op = self.ops[b][i].op
        if kind == "move":  # packets are read when they are there
            return set(op.sources) - self.ops[b][i].packets, set()
        if kind == "read":
            return set(op.sources), set()
        if kind in ("write", "written"):
            return set(), {op.targets[k]}
        return set(), set()

    def separate(self, step: _Step) -> bool:
        """Return whether no other block ever touches what a step touches, one of the two as a write.

        Nor its own block by another name: it waits for its accesses only where the name is the same.
        """
        kind, b, *_ = step
        reads, writes = self.touched(step)
        if kind != "end" and not self.aliased[b].isdisjoint(reads | writes):
            return False
        mine = {b} if kind != "end" else set()
        return not any(self.writers.get(c, mine) - mine for c in reads) and not any(
            self.users.get(c, mine) - mine or c in self.looked[c.rank] for c in writes
        )

    def alone(self, state: _State, step: _Step) -> bool:
        """Return whether nothing that can happen before a step touches what it touches, one as a write."""
        if step[0] == "end" and sum(state.ended) == self.program.ranks - 1:
            return True  # nothing else is left
        return not self._reached(state, step, *self.touched(step))

    def _reached(self, state: _State, held: _Step, reads: set[Chunk], writes: set[Chunk]) -> bool:
        """Return whether a conflicting access can happen while a step is held back."""
        kind, holder, of, place = held

        def conflict(b: int, i: int) -> bool:
            op = self.ops[b][i].op
            return bool(writes.intersection(op.sources) or (reads | writes).intersection(op.targets))

        at = list(state.at)
        values = list(state.semaphores)
        packets = {c for c in state.memory if c.buffer == "packets" and c not in state.writing}
        ended = list(state.ended)
        for b, moves in enumerate(state.moves):
            for i, (_, result, targets) in moves.items():
                op = self.ops[b][i].op
                if b == holder and i == of and kind in ("read", "write", "written"):
                    for k, chunk in enumerate(op.targets):
                        # Other targets of the same move go on.
                        if kind != "read" and k != place and targets[k] != _WRITTEN:
                            if chunk in reads | writes:
                                return True
                            if chunk.buffer == "packets":
                                packets.add(chunk)
                    continue
                if result is None and not self.ops[b][i].packets <= packets:
                    if writes.intersection(set(op.sources) - self.ops[b][i].packets):
                        return True
                    continue
                if result is None and writes.intersection(op.sources):
                    return True
                for k, chunk in enumerate(op.targets):
                    if targets[k] != _WRITTEN and chunk in reads | writes:
                        return True
        under_way = [dict(moves) for moves in state.moves]
        posts = [list(of) for of in state.posts]
        moved = True
        while moved:
            moved = False
            for b, ops in enumerate(self.ops):
                holds = kind != "end" and b == holder
                while True:
                    # What has been started ends by itself, except what is held and what lacks packets.
                    for i in list(under_way[b]):
                        if holds and i == of and kind in ("read", "write", "written"):
                            continue
                        if self.ops[b][i].packets <= packets or under_way[b][i][1] is not None:
                            if under_way[b][i][1] is None and conflict(b, i):
                                return True
                            packets.update(c for c in ops[i].op.targets if c.buffer == "packets")
                            del under_way[b][i]
                            moved = True
                    while self.leaves(b, posts[b], under_way[b]):
                        left = ops[posts[b].pop(0)].op
                        assert left.semaphore is not None
                        values[left.semaphore.number] += left.value
                        moved = True
                    i = at[b]
                    if i == len(ops) or (holds and kind in ("move", "signal", "wait", "fence", "compute")):
                        break
                    one = ops[i]
                    if i == 0 and not self.resident(b, at, under_way, posts):
                        break
                    if one.acknowledged and under_way[b]:
                        break
                    unread = [j for j, move in under_way[b].items() if move[1] is None]
                    if unread and (not one.ahead or any(not ops[j].packets <= packets for j in unread)):
                        break
                    op = one.op
                    if op.kind == "wait" and op.semaphore is not None:
                        number = op.semaphore.number
                        if values[number] < op.value + (state.launch - 1) * self.waited[b][number]:
                            break
                    if one.behind:
                        posts[b].append(i)
                    elif op.kind == "signal" and op.semaphore is not None:
                        values[op.semaphore.number] += op.value
                    if op.kind == "move":
                        if writes.intersection(set(op.sources) - one.packets):
                            return True
                        if one.packets <= packets and conflict(b, i):
                            return True
                        under_way[b][i] = ((), None, ())
                    at[b] += 1
                    moved = True
            for rank in range(self.program.ranks):
                if ended[rank] or (kind == "end" and rank == holder):
                    continue
                if all(
                    at[b] == len(self.ops[b]) and not under_way[b] and not posts[b]
                    for b in self.of_rank[rank]
                ):
                    ended[rank] = moved = True
                    if writes.intersection(self.looked[rank]):
                        return True
        return False

    # Search -----------------------------------------------------------------------

    def run(self) -> Finding | None:
        todo = [self.start()]
        while todo:
            state = todo.pop()
            found = self._follow(state, todo)
            if found:
                return found
        return None

    def _follow(self, state: _State, todo: list[_State]) -> Finding | None:
        """Take steps as long as one is enough; elsewhere add the state after each possible step."""
        while not state.over:
            steps = self.enabled(state)
            if not steps:
                stuck = [b for b, ops in enumerate(self.ops) if state.at[b] < len(ops) or state.moves[b]]
                return Finding("deadlock", state.launch, f"blocks {stuck} never end", self.steps)
            certain = [step for step in steps if self.reduced and self.separate(step)]
            if self.reduced and not certain:
                certain = list(islice((step for step in steps if self.alone(state, step)), 1))
            if not certain:
                key = state.key()
                if key in self.seen:
                    return None
                self.seen.add(key)
                if len(self.seen) > self.most:
                    raise TooMany
                for step in steps:
                    after = state.copy()
                    found = self.apply(after, step)
                    if found:
                        return found
                    todo.append(after)
                return None
            for step in certain:
                found = self.apply(state, step)
                if found:
                    return found
        return None


def find_fault(
    program: Program,
    kind: str,
    *,
    root: int = 0,
    empty: AbstractSet[Chunk] = frozenset(),
    slots: tuple[int, int] | None = None,
    strict: bool = True,
    launches: int = 2,
    most: int = 20_000,
    marks: bool = False,
    reduced: bool = True,
) -> Finding | None:
    """Return a fault that some timing shows; None if there is none.

    Parameters
    ----------
    program : Program
    kind : str
        The collective that it should be.
    root : int
    empty : set of Chunk
        The chunks that have no bytes at the program's size.
    slots : tuple of (int, int), optional
        How many thread blocks and copy engines of a rank work at once; by default all.
    strict : bool
        Whether accesses of different data at one time are faults although the results are right.
    launches : int
        How often it is launched, one after the other.
    most : int
        States at which several orders are tried, at most.
    marks : bool
        Whether data is compared by the operation that wrote it, as the check of a run does: it takes
        two writes of the same data at one time for a mixture.
    reduced : bool
        Whether to leave out orders that make no difference.

    Raises
    ------
    TooMany
        There are more.
    """
    search = _Search(
        program,
        kind,
        root,
        empty,
        launches,
        most,
        slots=slots,
        strict=strict,
        marks=marks,
        reduced=reduced,
    )
    return search.run()
