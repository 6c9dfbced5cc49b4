"""The protocols LL and LL128: the same algorithm with packets instead of semaphores.

An algorithm is written once, for ``Simple``: it stores to other ranks, signals and waits. Under
LL and LL128 every line carries a flag that shows that it has arrived:

- A store to another rank becomes a store to packets of that rank, and whoever reads the chunk
  reads the packets. Each message has packets of its own, so that none is written twice.
- Data for an output is stored there by the first move that reads it, or by a copy at the end of
  the phase in which it arrives.
- A rank cannot wait for flags in another rank's memory. What it would read there is sent to it
  instead, at the signal by which the owner allows the read.
- Signals between ranks and the waits for them are left out; those within a rank remain.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from astranb.collectives.language import FIRST_SLOT, Block, Chunk, Operation, Program, Semaphore
from astranb.core.errors import InputError

from .messages import announced, pair

__all__ = ["to_packets"]


@dataclass(slots=True, eq=False)
class _Message:
    """A chunk that a block sends to another rank, and the index of its packets there.

    ``chunk`` is where the sender stores it or, for a read from another rank, what is read.
    """

    chunk: Chunk
    sender: int
    rank: int
    number: int = 0

    @property
    def packets(self) -> Chunk:
        return Chunk(self.rank, "packets", self.number, self.chunk.channel)


_Signals = dict[tuple[int, Semaphore], deque[tuple[int, list[_Message]]]]
"""For each block and semaphore of another rank, the signals: their numbers and messages."""


def to_packets(program: Program) -> None:
    """Replace the semaphores between ranks by packets if the protocol is LL or LL128.

    A program that already uses packets does not change.
    """
    used = (c for block in program.blocks for op in block.operations for c in (*op.sources, *op.targets))
    if program.protocol != "Simple" and not any(chunk.buffer == "packets" for chunk in used):
        _Packets(program).replace()


class _Packets:
    def __init__(self, program: Program) -> None:
        self.program, self.blocks = program, program.blocks
        self.pairing = pair(program)
        self.others = [self._others(block) for block in self.blocks]
        self.stored: dict[tuple[int, int, Chunk], _Message] = {}  # by block, operation and target
        self.read: dict[tuple[int, int, Chunk], _Message] = {}  # by block, operation and source
        self.sent: dict[tuple[int, int], list[_Message]] = defaultdict(list)  # what is read, by signal
        self.arrived: dict[tuple[int, int], list[_Message]] = {}  # by block and wait
        self.queues: dict[Semaphore, list[list[_Message]]] = defaultdict(list)  # in the order of waits
        self.sends: Counter[int] = Counter()  # how many, by phase

    def error(self, what: str) -> InputError:
        where = f"program {self.program.name!r}"
        return InputError(f"{self.program.protocol} {what}", where=where, hint="use the protocol Simple")

    def _others(self, block: Block) -> dict[int, int]:
        """Position of each other rank in the order in which the block addresses them."""
        self.program.channel = block.channel
        return {rank: k for k, rank in enumerate(self.program.others(block.rank))}

    def replace(self) -> None:
        signals = self._signals()
        for number, block in enumerate(self.blocks):
            self._receive(number, block, signals)
        self._number()
        before = {op.phase for block in self.blocks for op in block.operations}
        for number, block in enumerate(self.blocks):
            block.operations = list(self._operations(number, block))
        self._leave_out(before)

    def _signals(self) -> _Signals:
        found: _Signals = defaultdict(deque)
        for number, block in enumerate(self.blocks):
            if block.unit != "sm":
                raise self.error("cannot be used by a copy engine")
            stores, rest = announced(block)
            if rest:
                raise self.error(f"needs a signal after rank {block.rank} stores to {rest[0][0]}")
            for place, chunks in stores.items():
                op = block.operations[place]
                assert op.semaphore is not None  # noqa: S101 - a signal has one
                if op.semaphore in self.program.frees:
                    continue
                messages = [_Message(chunk, number, chunk.rank) for chunk, _ in chunks]
                for message, (chunk, store) in zip(messages, chunks, strict=True):
                    self.stored[number, store, chunk] = message
                found[number, op.semaphore].extend([(place, messages), *[(place, [])] * (op.value - 1)])
        return found

    def _receive(self, number: int, block: Block, signals: _Signals) -> None:
        """Find the messages that each wait of a block receives, and what it reads from other ranks."""
        allowed: dict[int, tuple[int, int]] = {}  # for each rank its last signal: a block and an operation
        for place, op in enumerate(block.operations):
            if op.kind == "wait" and op.semaphore is not None:
                got: list[_Message] = []
                for source, share in self.pairing.shares[number, place].items():
                    if self.blocks[source].rank == block.rank or op.semaphore in self.program.frees:
                        continue
                    if len(self.pairing.waiters[op.semaphore]) > 1:
                        raise self.error("needs a semaphore for each block that waits")
                    for _ in range(share):
                        signal, messages = signals[source, op.semaphore].popleft()
                        got += messages
                        allowed[self.blocks[source].rank] = source, signal
                got.sort(key=lambda message: self.others[number][self.blocks[message.sender].rank])
                self.arrived[number, place] = got
                self.queues[op.semaphore].append(got)
            for chunk in op.sources:
                if chunk.rank != block.rank:
                    if chunk.rank not in allowed:
                        raise self.error(
                            f"needs a signal of rank {chunk.rank} before rank {block.rank} reads it"
                        )
                    message = _Message(chunk, allowed[chunk.rank][0], block.rank)
                    self.read[number, place, chunk] = message
                    self.sent[allowed[chunk.rank]].append(message)

    def _number(self) -> None:
        """Number the packets of each message: scratch keeps its index, outputs and reads follow.

        The messages that arrive under one semaphore are a queue: they use their packets in order.
        """

        def width(messages: Iterable[_Message]) -> int:
            return max((message.chunk.index for message in messages), default=-1) + 1

        # What goes through a buffer with slots is numbered already.
        stored = [message for message in self.stored.values() if message.chunk.index < FIRST_SLOT]
        for message in self.stored.values():
            message.number = message.chunk.index
        scratch = [message for message in stored if message.chunk.buffer == "scratch"]
        others = [message for message in stored if message.chunk.buffer != "scratch"]
        outputs = width(scratch)
        reads, of_rank = outputs + width(others), width(self.read.values())
        end = reads + of_rank * self.program.ranks
        for message in stored:
            message.number = message.chunk.index + (outputs if message.chunk.buffer != "scratch" else 0)
        for message in self.read.values():
            message.number = reads + message.chunk.rank * of_rank + message.chunk.index
        used: Counter[Chunk] = Counter()
        for message in (*stored, *self.read.values()):
            used[message.packets] += 1
            message.number += end * (used[message.packets] - 1)
        for waits in self.queues.values():
            numbers: dict[int, list[int]] = defaultdict(list)  # of each slice: others' are of other sizes
            for message in sorted((m for got in waits for m in got), key=lambda m: -m.number):
                numbers[message.chunk.channel].append(message.number)
            for got in waits:
                for message in sorted(got, key=lambda message: message.number):
                    message.number = numbers[message.chunk.channel].pop()

    def _operations(self, number: int, block: Block) -> Iterator[Operation]:
        """Yield the operations of a block with packets."""
        arrived: dict[Chunk, Chunk] = {}  # the packets that hold a chunk
        pending: dict[Chunk, Operation] = {}  # copies of what arrived for outputs and is not there yet
        waited: Counter[Semaphore] = Counter()
        for place, op in enumerate(block.operations):
            if any(copy.phase != op.phase for copy in pending.values()):
                yield from _store(pending, arrived)
            if op.kind == "move":
                yield self._move(number, place, op, arrived, pending)
            elif op.semaphore is None or op.semaphore in self.program.frees:
                yield op
            elif op.kind == "signal":
                yield from self._send(number, place, block, arrived)
                local = op.semaphore.rank == block.rank
                if local and self.pairing.waiters.get(op.semaphore) != [number]:
                    yield from _store(pending, arrived)
                    yield replace(op, behind=0)  # what it was behind may be more moves now
            else:
                for message in self.arrived[number, place]:
                    chunk = message.chunk
                    arrived[chunk] = message.packets
                    if chunk.buffer != "scratch":
                        pending[chunk] = Operation(
                            "move", op.phase, (message.packets,), (chunk,), line=op.line
                        )
                shares = self.pairing.shares[number, place].items()
                within = sum(n for b, n in shares if b != number and self.blocks[b].rank == block.rank)
                waited[op.semaphore] += within
                if within:
                    yield replace(op, value=waited[op.semaphore])
        yield from _store(pending, arrived)

    def _send(
        self, number: int, place: int, block: Block, arrived: dict[Chunk, Chunk]
    ) -> Iterator[Operation]:
        """Send what other ranks read after this signal and those that directly follow it."""
        if not self.sent:
            return
        targets: dict[Chunk, list[Chunk]] = defaultdict(list)
        for later, op in enumerate(block.operations[place:], place):
            if op.kind != "signal":
                break
            for message in self.sent.pop((number, later), ()):
                targets[message.chunk].append(message.packets)
        op = block.operations[place]
        for chunk in sorted(targets, key=lambda chunk: (chunk.buffer, chunk.index)):
            self.sends[op.phase] += 1
            stored = tuple(self._ordered(number, targets[chunk]))
            yield Operation("move", op.phase, (arrived.get(chunk, chunk),), stored, line=op.line)

    def _move(
        self,
        number: int,
        place: int,
        op: Operation,
        arrived: dict[Chunk, Chunk],
        pending: dict[Chunk, Operation],
    ) -> Operation:
        """Make a move read from packets and store to packets; what is local is stored first."""
        if op.in_switch:
            raise self.error("cannot be used with a switch that adds or forwards lines")
        read = [chunk for chunk in op.sources if (number, place, chunk) in self.read]
        read.sort(key=lambda chunk: self.others[number][chunk.rank])
        following = iter(read)
        sources, local, packets = [], [], []
        for chunk in op.sources:
            if (number, place, chunk) in self.read:
                sources.append(self.read[number, place, next(following)].packets)
                continue
            sources.append(arrived.get(chunk, chunk))
            if pending.pop(chunk, None) is not None:
                del arrived[chunk]
                local.append(chunk)
        for chunk in op.targets:
            if chunk.rank != self.blocks[number].rank:
                packets.append(self.stored[number, place, chunk].packets)
                continue
            pending.pop(chunk, None)
            arrived.pop(chunk, None)
            local.append(chunk)
        targets = (*dict.fromkeys(local), *self._ordered(number, packets))
        return replace(op, sources=tuple(sources), targets=targets)

    def _ordered(self, number: int, packets: list[Chunk]) -> list[Chunk]:
        """Address all other ranks in an order in which no two blocks begin with the same one."""
        order = self.others[number]
        everyone = order.keys() == {chunk.rank for chunk in packets}
        return sorted(packets, key=lambda chunk: order[chunk.rank]) if everyone else packets

    def _leave_out(self, before: set[int]) -> None:
        """Leave out the semaphores and phases of which nothing remains."""
        operations = [op for block in self.blocks for op in block.operations]
        count = Counter(op.phase for op in operations)
        names = self.program.phases
        for phase, sends in self.sends.items():
            if count[phase] == sends:
                names[phase] = "put"
        kept = [phase for phase in range(len(names)) if count[phase] or phase not in before]
        phases = {phase: k for k, phase in enumerate(kept)}
        used = {op.semaphore for op in operations if op.semaphore is not None}
        semaphores = [semaphore for semaphore in self.program.semaphores if semaphore in used]
        numbers = {old: Semaphore(old.rank, k) for k, old in enumerate(semaphores)}
        self.program.phases = [names[phase] for phase in kept]
        self.program.semaphores = list(numbers.values())
        shared = self.program.shared
        self.program.shared = {numbers[old]: shared[old] for old in shared if old in numbers}
        if len(kept) == len(names) and not used:
            return
        for block in self.blocks:
            block.operations = [
                replace(op, phase=phases.get(op.phase, 0), semaphore=op.semaphore and numbers[op.semaphore])
                for op in block.operations
            ]


def _store(pending: dict[Chunk, Operation], arrived: dict[Chunk, Chunk]) -> Iterator[Operation]:
    """Copy to the outputs what has arrived for them and is not there yet."""
    for chunk, copy in pending.items():
        del arrived[chunk]
        yield copy
    pending.clear()
