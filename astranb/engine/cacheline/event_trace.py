"""The events of a run, read backwards: replayed stretch by stretch in a private copy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from astranb.core.state import allocate, own
from astranb.engine.protocol import Replica

from .tracing import TRACE

__all__ = ["EventTrace"]

_WINDOW = 2**17  # events of one stretch, at least: 17 MB of rows, a tenth of a second
_STATE_BYTES = 1024  # an event more for so much state, which is restored for each stretch
_KEPT = 3
_FIRST_LOOK = 256  # rows; what is looked for is mostly near


class EventTrace:
    """Every event of a run up to now; nothing need have been recorded.

    A private copy of the run is moved back stretch by stretch, and each stretch is replayed when it
    is asked for, so that memory does not grow with the run, and the simulation itself is not touched.
    Who reads backwards replays each event a few times, however long the run.

    Parameters
    ----------
    events : int
        How many events of the run there have been.
    replica : callable
        Gives a private copy of the run that can be moved.
    """

    def __init__(self, events: int, replica: Callable[[], Replica]) -> None:
        self._events = events
        self._copy = replica()
        self._edits = list(self._copy.edits)
        self._window = max(_WINDOW, self._copy.engine.state_bytes // _STATE_BYTES)
        self._copy.read_backwards(self._window)
        machine = self._copy.engine.machine
        self._trace = allocate(self._window, TRACE)
        machine.recording = machine.recording._replace(trace=self._trace)
        self._kept: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def last(self, before: int, *either: Mapping[str, int], since_ps: int = 0, **equal: int) -> Any:
        """The last row of an earlier event in which the fields have these values.

        Parameters
        ----------
        before : int
            Number of an event; its own row is not looked at.
        *either : mapping of str to int
            Where given, a row also has the values of one of these.
        since_ps : int
            Rows of earlier times are not looked at: a search for what may not exist ends there, not
            at the start of the run.
        **equal : int
            Fields of :data:`~astranb.engine.cacheline.tracing.TRACE` and their values.

        Returns
        -------
        TRACE row or None
        """
        for _, rows in self._backwards(before):
            end, size = len(rows), _FIRST_LOOK
            while end > 0:
                start = max(0, end - size)
                found = _matching(rows[start:end], equal, either)
                if len(found):
                    row = rows[start + int(found[-1])]
                    return row if row["time_ps"] >= since_ps else None
                if rows["time_ps"][start] < since_ps:
                    return None
                end, size = start, 4 * size
        return None

    def between(self, after: int, before: int, **equal: int) -> np.ndarray:
        """All such rows of the events between two, in their order.

        Parameters
        ----------
        after, before : int
            Numbers of events; their own rows are not given.
        **equal : int
        """
        parts = []
        for events, rows in self._backwards(before):
            start = int(np.searchsorted(events, after, "right"))
            part = rows[start:]
            parts.append(part[_matching(part, equal)])
            if start > 0:
                break
        return np.concatenate([np.zeros(0, TRACE), *reversed(parts)])

    def _backwards(self, before: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers and rows of the events before one, stretch by stretch."""
        before = min(before, self._events + 1)
        for number in range((before - 2) // self._window, -1, -1):
            events, rows = self._stretch(number)
            end = int(np.searchsorted(events, before))
            yield events[:end], rows[:end]

    def _stretch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Replay the events ``number * _window + 1`` and on, edits included."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        first = number * self._window
        self._move_to(first)
        recorder = self._copy.engine.machine.recording.recorder
        recorder["traced"], recorder["tracing"] = 0, 1
        self._move_to(min(first + self._window, self._events))
        recorder["tracing"] = 0
        rows = np.asarray(own(self._trace[: int(recorder[0].traced)]))
        self._kept[number] = np.ascontiguousarray(rows["event"]), rows
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[number]

    def _move_to(self, events: int) -> None:
        """Take the private copy to the moment after so many events."""
        copy = self._copy
        if events < copy.events:
            copy.back_to("events", events)
        copy.replay("events", events, self._edits[len(copy.edits) :])


def _matching(
    rows: np.ndarray, equal: Mapping[str, int], either: tuple[Mapping[str, int], ...] = ()
) -> np.ndarray:
    """Numbers of the rows that have these values, in their order."""
    found = _narrowed(rows, np.arange(len(rows)), equal)
    if either and len(found):
        found = np.unique(np.concatenate([_narrowed(rows, found, one) for one in either]))
    return found


def _narrowed(rows: np.ndarray, found: np.ndarray, equal: Mapping[str, int]) -> np.ndarray:
    for field, value in equal.items():
        found = found[rows[field][found] == value]
    return found
