"""The events of a run, read backwards: replayed stretch by stretch in a private copy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from astranb.core.state import allocate
from astranb.engine.protocol import Replica

from .tracing import TRACE

__all__ = ["EventTrace"]

_WINDOW = 2**17  # events of one stretch: 17 MB of rows, a tenth of a second
_KEPT = 3
_FIRST_LOOK = 256  # rows; what is looked for is mostly near


class EventTrace:
    """What every event of a run was, up to now; nothing need have been recorded.

    A stretch of events is replayed in a fork when it is asked for, so that memory does not
    grow with the run, and the simulation itself is not touched.

    Parameters
    ----------
    events : int
        How many events of the run there have been.
    replica : callable
        Gives a private copy of the run that can be moved.
    """

    def __init__(self, events: int, replica: Callable[[], Replica]) -> None:
        self._events, self._replica = events, replica
        self._kept: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def last(self, before: int, **equal: int) -> Any:
        """The last row of an earlier event in which the fields have these values.

        Parameters
        ----------
        before : int
            Number of an event; its own row is not looked at.
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
                found = np.flatnonzero(_matches(rows[start:end], equal))
                if len(found):
                    return rows[start + int(found[-1])]
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
            parts.append(part[_matches(part, equal)])
            if start > 0:
                break
        return np.concatenate([np.zeros(0, TRACE), *reversed(parts)])

    def _backwards(self, before: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers and rows of the events before one, stretch by stretch."""
        before = min(before, self._events + 1)
        for number in range((before - 2) // _WINDOW, -1, -1):
            events, rows = self._stretch(number)
            end = int(np.searchsorted(events, before))
            yield events[:end], rows[:end]

    def _stretch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Replay the events ``number * _WINDOW + 1`` and on in a fresh copy, edits included."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        first = number * _WINDOW
        last = min(first + _WINDOW, self._events)
        copy = self._replica()
        machine, edits = copy.engine.machine, list(copy.engine.edits)
        machine.recording = machine.recording._replace(trace=allocate(last - first, TRACE))
        copy.back_to("events", first)
        machine.recording.recorder["tracing"] = 1
        for edit in edits:
            if first < edit.events < last:
                copy.forward_to(edit.events)
                copy.edit(edit)
        copy.forward_to(last)
        rows = np.asarray(machine.recording.trace)[: int(machine.recording.recorder[0].traced)]
        self._kept[number] = np.ascontiguousarray(rows["event"]), rows
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[number]


def _matches(rows: np.ndarray, equal: dict[str, int]) -> np.ndarray:
    found = np.ones(len(rows), np.bool_)
    for field, value in equal.items():
        found &= rows[field] == value
    return found
