"""Sequence of operations of each thread of a host, from Kineto's events.

An operation calls others, so its own time is in pieces: before the first one that it calls, between them
and after the last. A piece waits for the one before it on its thread, and takes as long as recorded. Where a
thread waited for something else, the piece waits for that, and only what came afterwards is its time: else a
simulation would wait for what it simulates, and for the recorded wait too.

A thread waited where it called a synchronisation of the device, and where nothing was recorded on it until
another thread had done something: the last piece or message that ended there is what it waited for.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from .kineto import Event
from .messages import Message

__all__ = ["IDLE", "OUTSIDE", "Piece", "explain_pauses", "host_pieces", "let_threads_wait"]

OUTSIDE: Final = "host"
"""Name of a piece in which no operation runs."""

IDLE: Final = "idle"
"""Name of a piece in which a device is idle, though all that its work waits for has ended."""

_PAUSE_US: Final = 20.0
"""A longer time without an operation may be a wait for another thread."""
_LONG_PAUSE_US: Final = 1000.0
"""A longer time between a launch and its work is a wait that is not recorded."""
_TAIL: Final = 0.5
"""At most this part of a pause is the thread's own work, which it did after what it waited for."""


class Piece:
    """Something of a rank that takes time: part of an operation, work of a device, a message.

    Attributes
    ----------
    name : str
    start, end : float
        As recorded, in µs.
    took : float
        Its own time, without the wait for others, in µs.
    event : Event or None
        The operation that it is the first piece of, or the device's.
    after : list of Piece
        What it waits for. All of them ended before it did.
    message : Message or None
        What it communicates.
    thread : int
        The thread of the host, from 1; 0 for what a device does.
    stream : int or None
        The stream of the device, where it is recorded.
    caller : Piece or None
        The first piece of the operation that called it, or that it is a later piece of.
    """

    __slots__ = (
        *("after", "caller", "end", "event", "message", "name", "number", "start", "stream", "thread"),
        "took",
    )

    def __init__(self, name: str, start: float, end: float, event: Event | None = None) -> None:
        self.name, self.start, self.end, self.event = name, start, end, event
        self.took = max(end - start, 0.0)
        self.after: list[Piece] = []
        self.message: Message | None = None
        self.caller: Piece | None = None
        self.number, self.thread = -1, 0
        self.stream = None if event is None else event.stream

    def wait_for(self, other: Piece) -> None:
        """Wait for another piece that ended meanwhile, and do the rest after it."""
        self.after.append(other)
        self.took = min(self.took, max(self.end - max(other.end, self.start), 0.0))

    @property
    def is_idle(self) -> bool:
        """Whether no operation is recorded for it."""
        return self.event is None


def host_pieces(events: Iterable[Event], cuts: Iterable[float], begun: float) -> list[Piece]:
    """Return the pieces of one thread from its operations and its calls that wait, in their order.

    Parameters
    ----------
    events : iterable of Event
        They contain each other or do not overlap; one that does both ends where the next one begins.
    cuts : iterable of float
        When something was started that goes on beside the thread: a piece ends there. So does the last one.
    begun : float
        When the recording begins.
    """
    pieces: list[Piece] = []
    first: dict[Event, Piece] = {}
    open_: list[Event] = []
    at = begun

    def account(until: float) -> None:
        """Add the time until then to the running operation."""
        nonlocal at
        event = open_[-1] if open_ else None
        rest = until - at
        if event is not None and event not in first:
            first[event] = Piece(event.name, at, until, event)
            first[event].caller = first[open_[-2]] if len(open_) > 1 else None
            pieces.append(first[event])
        elif rest > 0:
            pieces.append(Piece(OUTSIDE if event is None else f"{OUTSIDE}: {event.name}", at, until))
            pieces[-1].caller = None if event is None else first[event]
        at = max(at, until)

    marks: list[tuple[float, float, Event | None]] = [(one.start, -one.duration, one) for one in events]
    marks += [(cut, -math.inf, None) for cut in cuts]  # before what begins then
    for start, _, event in sorted(marks, key=lambda mark: mark[:2]):
        until = start if event is None else event.end
        while open_ and (open_[-1].end <= start or open_[-1].end < until):
            account(min(open_[-1].end, start))
            open_.pop()
        account(start)
        if event is not None:
            open_.append(event)
    while open_:
        account(open_[-1].end)
        open_.pop()
    for before, after in pairwise(pieces):
        after.after.append(before)
    return pieces


def let_threads_wait(threads: Sequence[list[Piece]], messages: Sequence[Piece]) -> int:
    """Find the pieces that waited for other threads or messages; return how many messages none awaits."""
    by_end = [sorted(some, key=lambda one: one.end) for some in (*threads, list(messages))]
    ends = [[one.end for one in some] for some in by_end]
    awaited: set[Piece] = set()
    for number, thread in enumerate(threads):
        for piece in thread:
            is_first = piece is thread[0] and number > 0
            if not piece.is_idle or (piece.end - piece.start < _PAUSE_US and not is_first):
                continue
            found: Piece | None = None
            for other, some in enumerate(by_end):
                at = bisect.bisect_right(ends[other], piece.end) - 1
                while at >= 0 and some[at].is_idle and some[at].end == piece.end:
                    at -= 1  # both waited for a third
                if other != number and at >= 0 and (found is None or some[at].end > found.end):
                    found = some[at]
            if found is None or found.end <= piece.start:
                continue
            tail = piece.end - found.end
            if is_first or found.message is not None or tail <= _TAIL * (piece.end - piece.start):
                piece.wait_for(found)
                if found.message is not None:
                    awaited.add(found)
    # Those of the messages that ended meanwhile were awaited, too.
    lost = 0
    for one in messages:
        if one in awaited:
            continue
        later = [
            piece
            for thread in threads
            if (at := _at(thread, one.end)) < len(thread)
            for piece in thread[at : at + 1]
            if one.after and one.after[0] in thread
        ]
        if later:
            later[0].wait_for(one)
        else:
            lost += 1
    return lost


def _at(thread: list[Piece], when: float) -> int:
    """The first piece of a thread that ends after a time."""
    return bisect.bisect_right(thread, when, key=lambda one: one.end)


def explain_pauses(devices: Sequence[Piece], unlaunched: Iterable[Piece], begun: float) -> list[Piece]:
    """Find the time for which work of the device did not begin, though all that it waits for had ended.

    It waited for what is not recorded: then work of another stream that ended meanwhile is taken for it, and
    for the time in which the device did nothing it waits, too. Where a launch is recorded, only long pauses
    count: launches take some time themselves.

    Returns
    -------
    list of Piece
        Such times, each awaited by the work that began after it. They occupy nothing.
    """
    by_end = sorted(devices, key=lambda one: one.end)
    ends = [one.end for one in by_end]
    by_start = sorted(devices, key=lambda one: one.start)
    starts = [one.start for one in by_start]
    last = list(accumulate((one.end for one in by_start), max))
    brief = set(unlaunched)
    found: list[Piece] = []
    for piece in devices:
        ready = max((one.end for one in piece.after), default=begun)
        if piece.start - ready < (_PAUSE_US if piece in brief else _LONG_PAUSE_US):
            continue
        at = bisect.bisect_left(ends, piece.start) - 1
        if at >= 0 and ends[at] > ready:
            piece.after.append(by_end[at])
            ready = ends[at]
        before = bisect.bisect_left(starts, piece.start) - 1
        idle = max(last[before], ready) if before >= 0 else ready
        if idle < piece.start:
            pause = Piece(IDLE, idle, piece.start)
            pause.after, pause.stream = list(piece.after), piece.stream
            piece.after.append(pause)
            found.append(pause)
    return found
