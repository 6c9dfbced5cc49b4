"""The accesses of blocks to memory: none is in another one's way, whatever the timing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from astranb.collectives.language import Block, Chunk

from .chunk_contents import Data
from .fault import Flaw, Namer
from .order import Clock, Execution, Order, Place, order_of

__all__ = ["Accesses"]

Add: TypeAlias = Callable[[str, Callable[[], Flaw]], None]
"""Adds a fault of a kind, described only if it is listed."""


class Accesses:
    """Checks the accesses to each memory of some blocks: races, and what a rank finds when it has ended."""

    def __init__(
        self,
        run: Execution,
        order: Order,
        stored: dict[Place, Data],
        brought: Callable[[int], Data | None],
        namer: Namer,
    ) -> None:
        self.run, self.order, self.stored, self.brought, self.namer = run, order, stored, brought, namer
        self.touched: dict[int, list[tuple[Place, bool]]] = defaultdict(list)
        self.named: dict[tuple[int, Place, bool], set[int]] = defaultdict(set)  # the chunks of an access
        written = {n for of_block in run.writes for of in of_block for n in of} - run.memory.packets
        self.written = written
        for place in run.done:
            b, i = place
            for n in dict.fromkeys(run.reads[b][i]):
                if n in written:
                    self.touched[n].append((place, False))
            for n in run.writes[b][i]:
                if n in written:
                    self.touched[n].append((place, True))
            if not run.memory.plain:
                for chunks, writes in ((run.sources[b][i], False), (run.targets[b][i], True)):
                    for chunk in chunks:
                        for n in run.memory.places((chunk,)):
                            self.named[n, place, writes].update(run.memory.called((chunk,)))

    def check(self, add: Add) -> None:
        """Find accesses to the same memory, one of them a write, without an order."""
        ends = self._ends()
        for chunk, accesses in self.touched.items():
            for number, (one, one_writes) in enumerate(accesses):
                for two, two_writes in accesses[number + 1 :]:
                    if not (one_writes or two_writes):
                        continue
                    if self._ordered(chunk, (one, one_writes), (two, two_writes)):
                        continue
                    if self._harmless(chunk, (one, one_writes), (two, two_writes)):
                        continue
                    self._report(chunk, (one, one_writes), (two, two_writes), add)
            where = self.run.memory.chunks[chunk]
            if where.buffer in ("input", "output"):
                self._completion(chunk, where, ends[where.rank], add)

    @cached_property
    def in_step(self) -> Order:
        """The order if the warps of a block were in step."""
        return order_of(self.run, in_step=True)

    def _ends(self) -> dict[int, Clock]:
        """Return what is known when these blocks of each rank have ended."""
        order = self.order
        nothing = Clock.of(len(self.run.blocks), posts=bool(order.posts))
        ends: dict[int, Clock] = defaultdict(lambda: nothing)
        for b, block in enumerate(self.run.blocks):
            ends[block.rank] = ends[block.rank].joined(order.end[b])
        return ends

    def _ordered(self, chunk: int, one: tuple[Place, bool], two: tuple[Place, bool]) -> bool:
        """Return whether one access has always ended when the other one begins."""
        if one[0][0] == two[0][0]:
            return self._in_turn(chunk, one, two)
        return any(
            self.order.is_visible(first, then) if writes else self.order.is_read(first, then)
            for (first, writes), (then, _) in ((one, two), (two, one))
        )

    def _in_turn(self, chunk: int, one: tuple[Place, bool], two: tuple[Place, bool]) -> bool:
        """Return whether an access has always ended when a later one of its block begins.

        The block sees to it where it calls the memory by the same name.
        """
        (first, writes), (then, _) = one, two
        if first == then or self.run.blocks[first[0]].unit == "nic":
            return True
        if not self.named or not self.named[chunk, *one].isdisjoint(self.named[chunk, *two]):
            return True
        return self.order.is_acknowledged(first, then) if writes else self.order.is_read(first, then)

    def _harmless(self, chunk: int, one: tuple[Place, bool], two: tuple[Place, bool]) -> bool:
        """Return whether the same is written twice, or what is read is also what is written meanwhile."""
        if not two[1]:
            one, two = two, one
        data = self.stored.get(two[0])
        if data is None:
            return False
        if one[1]:
            other = self.stored.get(one[0])
            return other is not None and data.same(other)
        return self._covered(chunk, data, self.order.at(one[0]), one[0])

    def _covered(self, chunk: int, data: Data, clock: Clock, reader: Place | None) -> bool:
        """Return whether a chunk holds some data for whoever knows a clock, whatever else is under way."""
        writers = [place for place, writes in self.touched[chunk] if writes]
        others = _writers(writers, self.stored, data, same=False)

        def later(place: Place) -> bool:
            return reader is not None and (
                place[1] > reader[1] if place[0] == reader[0] else self.order.is_read(reader, place)
            )

        def earlier(place: Place, first: Place) -> bool:
            return place[1] < first[1] if place[0] == first[0] else self.order.is_visible(place, first)

        def seen(first: Place) -> bool:
            if reader is not None and first[0] == reader[0] and first[1] < reader[1]:
                return self._in_turn(chunk, (first, True), (reader, False))
            return self.order.known_visible(clock, first)

        brought = self.brought(chunk)
        if brought is not None and brought.same(data) and all(later(place) for place in others):
            return True
        return any(
            seen(first) and all(earlier(place, first) or later(place) for place in others)
            for first in _writers(writers, self.stored, data, same=True)
        )

    def _completion(self, number: int, chunk: Chunk, end: Clock, add: Add) -> None:
        """Find writes to a rank's buffers that may still be under way when its blocks have ended."""
        for place, writes in self.touched[number]:
            b, i = place
            block = self.run.blocks[b]
            if not writes or block.rank == chunk.rank or self.order.known_visible(end, place):
                continue
            data = self.stored.get(place)
            if data is not None and self._covered(number, data, end, None):
                continue

            kind = "fence" if end.read[b] > i else "completion"
            what = f"writes {chunk}, and rank {chunk.rank} may end before the write is visible"

            def describe(kind: str = kind, what: str = what, block: Block = block, i: int = i) -> Flaw:
                if kind == "fence":
                    return self._fence(what, (block, i))
                fix = f"let a block of rank {chunk.rank} wait for it"
                return self.namer.flaw(kind, f"{self.namer.text(block, i)} {what}; {fix}", (block, i))

            add(kind, describe)

    def _fence(self, what: str, write: tuple[Block, int], *others: tuple[Block, int]) -> Flaw:
        """Report a write that others may not see yet: with the signal that does not wait for it."""
        block, i = write
        relaxed = (n for n, op in enumerate(block.operations) if n > i and op.kind == "signal" and op.relaxed)
        signal = next(relaxed, None)
        fix, operations = "signal without relaxed, or fence", [write, *others]
        if signal is not None:
            text = self.namer.text(block, signal)
            fix = f"{text} is relaxed and does not wait for it: signal without relaxed, or fence before it"
            operations.insert(1, (block, signal))
        text = f"missing fence: {self.namer.text(block, i)} {what}; {fix}"
        return self.namer.flaw("fence", text, *operations)

    def _report(self, number: int, one: tuple[Place, bool], two: tuple[Place, bool], add: Add) -> None:
        """Report two accesses without an order."""
        chunk = self.run.memory.chunks[number]
        operations = [(self.run.blocks[b], i) for (b, i), _ in (one, two)]
        # Ordered, except for the time until a store is visible: a fence is missing.
        pairs = ((one, two, operations), (two, one, operations[::-1]))
        early = next((ops for a, b, ops in pairs if a[1] and self.in_step.is_read(a[0], b[0])), None)
        if early is not None:

            def describe() -> Flaw:
                write, then = early
                what = f"writes {chunk}, and {self.namer.text(*then)} may run before the write is visible"
                return self._fence(what, write, then)

            add("fence", describe)
            return

        def describe_race() -> Flaw:
            first, then = (self.namer.text(*operation) for operation in operations)
            verbs = ["writes" if access[1] else "reads" for access in (one, two)]
            text = f"{first} {verbs[0]} and {then} {verbs[1]} {chunk} in no order"
            fix = "signal after the one and wait before the other"
            if operations[0][0] is operations[1][0]:
                fix = "fence between them: a block waits by itself only where memory has the same name"
            return self.namer.flaw("race", f"race: {text}; {fix}", *operations)

        add("race", describe_race)


def _writers(writers: list[Place], stored: dict[Place, Data], data: Data, *, same: bool) -> list[Place]:
    """Return the writers that store the same as some data, or those that store something else."""
    return [place for place in writers if (place in stored and stored[place].same(data)) is same]
