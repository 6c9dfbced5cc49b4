"""The steps of one block of a program, spread over the thread blocks of an MSCCL algorithm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Item", "Place", "Steps", "Thread"]

Place = tuple[str, int]
_NOWHERE: Place = ("i", -1)


@dataclass(slots=True)
class Thread:
    """A thread block of the file: it sends to one peer at most, and receives from one."""

    number: int
    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Item:
    """A step, and the one step of another thread block that it waits for."""

    kind: str
    thread: Thread
    number: int
    source: Place = _NOWHERE
    target: Place = ("o", -1)
    after: Item | None = None
    awaited: bool = False

    def __str__(self) -> str:
        """Write it as the element of the file."""
        after = (self.after.thread.number, self.after.number) if self.after else (-1, -1)
        return (
            f'<step s="{self.number}" type="{self.kind}" '
            f'srcbuf="{self.source[0]}" srcoff="{self.source[1]}" '
            f'dstbuf="{self.target[0]}" dstoff="{self.target[1]}" cnt="{int(self.kind != "nop")}" '
            f'depid="{after[0]}" deps="{after[1]}" hasdep="{int(self.awaited)}"/>'
        )


class Steps:
    """What one block of a program does, step by step.

    Steps in different thread blocks of the file wait for one another only where one reads
    or overwrites what the other has stored, or overwrites what it has read.
    """

    def __init__(self, first: Thread) -> None:
        self._first = first
        self._writer: dict[Place, Item] = {}
        self._readers: dict[Place, list[Item]] = {}
        self._gate: Item | None = None  # of another block of the rank, that all later steps follow
        self._known: dict[tuple[int, int], int] = {}  # how far a thread block has waited for another
        self._last: dict[int, Item] = {}

    def add(
        self, kind: str, thread: Thread | None = None, source: Place = _NOWHERE, target: Place = ("o", -1)
    ) -> None:
        """Add a step, in a thread block of its peer or, where it has none, where its source was written."""
        if thread is None:
            thread = self._writer[source].thread if source in self._writer else self._first
        reads = [source] if kind in ("s", "rrs", "rrc", "rrcs", "cpy", "re") else []
        writes = [target] if kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re") else []
        if kind == "re":
            reads.append(target)
        before = [self._gate] if self._gate is not None else []
        before += [self._writer[place] for place in (*reads, *writes) if place in self._writer]
        for place in writes:
            before += self._readers.pop(place, [])
        item = self._append(kind, thread, source, target, before)
        for place in reads:
            self._readers.setdefault(place, []).append(item)
        for place in writes:
            self._writer[place] = item

    def done(self) -> list[Item]:
        """The last step in each thread block: when they are over, all are."""
        return list(self._last.values())

    def follow(self, items: Iterable[Item]) -> None:
        """Let all later steps come after steps of other blocks."""
        before = [self._gate] if self._gate is not None else []
        before += items
        if before:
            self._gate = self._append("nop", self._first, _NOWHERE, ("o", -1), before)

    def _append(self, kind: str, thread: Thread, source: Place, target: Place, before: list[Item]) -> Item:
        furthest: dict[int, Item] = {}
        for item in before:
            other = item.thread.number
            known = self._known.get((thread.number, other), -1)
            if item.thread is not thread and item.number > max(
                known, furthest[other].number if other in furthest else -1
            ):
                furthest[other] = item
        waits = list(furthest.values())
        for item in waits:
            item.awaited = True
            self._known[thread.number, item.thread.number] = item.number
        for item in waits[:-1]:
            thread.steps.append(Item("nop", thread, len(thread.steps), after=item))
        item = Item(kind, thread, len(thread.steps), source, target, waits[-1] if waits else None)
        thread.steps.append(item)
        self._last[thread.number] = item
        return item
