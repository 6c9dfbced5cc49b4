"""The steps of an MSCCL algorithm that is written: which wait for one another, and which become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from astranb.collectives.language import Semaphore

__all__ = ["NOWHERE", "NO_TARGET", "BlockSteps", "Message", "Place", "Step", "Thread", "Wire", "group"]

Wire = tuple[int, int, Semaphore | None]
"""From a block to a block; under Simple also for each semaphore: messages arrive as they are waited for."""
Message = tuple[Wire, int]
"""A message of a wire, and its number; all packets of a wire count as one."""
Place = tuple[str, int]
"""A buffer and an index."""
NOWHERE: Final[Place] = ("i", -1)
NO_TARGET: Final[Place] = ("o", -1)


@dataclass(slots=True)
class Thread:
    """A thread block of the file: it sends to one peer at most, and receives from one at most."""

    rank: int
    number: int
    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """A step, and the step of another thread block that it waits for."""

    kind: str
    thread: Thread
    number: int
    source: Place = NOWHERE
    target: Place = NO_TARGET
    after: Step | None = None
    awaited: bool = False
    received: Message | None = None
    sent: Message | None = None
    count: int = 1
    order: int = 0  # among the steps of its block of the program

    def __str__(self) -> str:
        """Format it as the element of the file."""
        count = 0 if self.kind == "nop" else self.count
        after = (self.after.thread.number, self.after.number) if self.after else (-1, -1)
        return (
            f'<step s="{self.number}" type="{self.kind}" '
            f'srcbuf="{self.source[0]}" srcoff="{self.source[1]}" '
            f'dstbuf="{self.target[0]}" dstoff="{self.target[1]}" cnt="{count}" '
            f'depid="{after[0]}" deps="{after[1]}" hasdep="{int(self.awaited)}"/>'
        )


class BlockSteps:
    """Steps of one block of a program.

    BlockSteps in different thread blocks of the file wait for one another only where one reads
    or overwrites what the other has stored, or overwrites what it has read.
    """

    def __init__(self, first: Thread) -> None:
        self._first = first
        self._count = 0
        self._writer: dict[Place, Step] = {}
        self._readers: dict[Place, list[Step]] = {}
        self._barrier: Step | None = None  # all later steps follow this one
        # By two thread blocks, the last step of the second that the first has waited for.
        self._known: dict[tuple[int, int], int] = {}
        self._last: dict[int, Step] = {}

    def add(
        self,
        kind: str,
        thread: Thread | None = None,
        source: Place = NOWHERE,
        target: Place = NO_TARGET,
        received: Message | None = None,
        sent: Message | None = None,
    ) -> None:
        """Add a step to the thread block of its peer or, without one, to the writer of its source."""
        if thread is None:
            thread = self._writer[source].thread if source in self._writer else self._first
        reads = [source] if kind in ("s", "rrs", "rrc", "rrcs", "cpy", "re") else []
        writes = [target] if kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re") else []
        if kind == "re":
            reads.append(target)
        before = [self._barrier] if self._barrier is not None else []
        before += [self._writer[place] for place in (*reads, *writes) if place in self._writer]
        for place in writes:
            before += self._readers.pop(place, [])
        item = self._append(kind, thread, source, target, before)
        item.received, item.sent = received, sent
        for place in reads:
            self._readers.setdefault(place, []).append(item)
        for place in writes:
            self._writer[place] = item

    def done(self) -> list[Step]:
        """Return the last step in each thread block: all steps have ended when these have."""
        return list(self._last.values())

    def follow(self, items: Iterable[Step]) -> None:
        """Order all later steps after steps of other blocks."""
        before = [self._barrier] if self._barrier is not None else []
        before += items
        if before:
            self._barrier = self._append("nop", self._first, NOWHERE, NO_TARGET, before)

    def _append(self, kind: str, thread: Thread, source: Place, target: Place, before: list[Step]) -> Step:
        furthest: dict[int, Step] = {}
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
        self._count += 1
        for item in waits[:-1]:
            thread.steps.append(Step("nop", thread, len(thread.steps), after=item, order=self._count))
        item = Step(kind, thread, len(thread.steps), source, target, waits[-1] if waits else None)
        item.order = self._count
        thread.steps.append(item)
        self._last[thread.number] = item
        return item


def group(threads: list[Thread], ends: Iterable[tuple[Thread, Thread]]) -> None:
    """Join steps that move neighbouring chunks of one message to one step of several chunks.

    A step and the one before it are joined where both do the same with neighbouring chunks, and the steps at
    the other end of each connection, and those that they wait for, are joined alike: then the second can
    begin when the first can, and nobody waits for more than the program's own signal says.
    """
    for thread in threads:
        thread.steps = list(_wait_first(thread.steps))
    joined = {
        id(item): (before, item)
        for thread in threads
        for before, item in pairwise(thread.steps)
        if _neighbours(before, item)
    }
    partners: dict[int, list[Step]] = {}
    for sender, receiver in ends:
        sends = [item for item in sender.steps if item.sent is not None]
        receives = [item for item in receiver.steps if item.received is not None]
        for one, other in zip(sends, receives, strict=True):
            partners.setdefault(id(one), []).append(other)
            partners.setdefault(id(other), []).append(one)

    def alike(before: Step, item: Step) -> bool:
        after = item.after
        same_wait = after is None or (id(after) in joined and joined[id(after)][0] is before.after)
        return same_wait and all(id(other) in joined for other in partners.get(id(item), ()))

    left = -1
    while left != len(joined):
        left = len(joined)
        joined = {key: pair_ for key, pair_ in joined.items() if alike(*pair_)}
    first: dict[int, Step] = {}
    for thread in threads:
        kept: list[Step] = []
        for item in thread.steps:
            if id(item) in joined:
                kept[-1].count += 1
                kept[-1].awaited = kept[-1].awaited or item.awaited
                first[id(item)] = kept[-1]
            else:
                item.number = len(kept)
                kept.append(item)
        thread.steps = kept
    for thread in threads:
        for item in thread.steps:
            if item.after is not None:
                item.after = first.get(id(item.after), item.after)


def _wait_first(steps: list[Step]) -> Iterator[Step]:
    """Move all waits of a message to the first step that sends a part of it.

    The program's thread block has all parts before it stores the first one, so nothing is lost. What comes
    later than that in the program is waited for where it is.
    """
    at = 0
    while at < len(steps):
        last = at
        while last < len(steps) and steps[last].kind == "nop" and not steps[last].awaited:
            last += 1
        first = steps[last] if last < len(steps) else None
        message = first.sent if first is not None else None
        if first is None or message is None or message[0][2] is None:
            yield steps[at]
            at += 1
            continue
        end = last
        furthest: dict[int, Step] = {}
        kept: list[Step] = []
        while end < len(steps) and (
            steps[end].sent == message or (steps[end].kind == "nop" and not steps[end].awaited)
        ):
            end += 1
        while steps[end - 1].kind == "nop":
            end -= 1
        for item in steps[at:end]:
            after = item.after
            if after is not None and (after.order < first.order or item.order <= first.order):
                known = furthest.get(after.thread.number)
                if known is None or known.number < after.number:
                    furthest[after.thread.number] = after
                item.after = None
            if item.kind != "nop" or item.after is not None:
                kept.append(item)
        *others, only = [*furthest.values()] if furthest else [None]
        yield from (Step("nop", first.thread, 0, after=after) for after in others)
        first.after = only
        yield from kept
        at = end


def _neighbours(one: Step, other: Step) -> bool:
    """Return whether a step does what the one before it does, with the next chunk of the same message."""
    if one.kind != other.kind or one.kind == "nop":
        return False
    if (one.received, one.sent) != (other.received, other.sent):
        return False
    message = one.received or one.sent
    if one.awaited and (message is None or message[0][2] is None):
        return False  # what waits for a chunk would wait for the next one, too
    return all(
        (buffer, index + 1) == place or (buffer, index) == place == empty
        for (buffer, index), place, empty in (
            (one.source, other.source, NOWHERE),
            (one.target, other.target, NO_TARGET),
        )
    )
