"""Activity of each rank at each time: one of a few, for the timeline, the table and the topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from astranb.workload.astrasim2.kinds import RECV

from .run import OperationRun, Spans
from .spans import COMMUNICATION as COMMUNICATING
from .spans import late_ps, spans_of

__all__ = [
    "ACTIVITIES",
    "BUBBLE",
    "COMMUNICATION",
    "COMPUTE",
    "LATE",
    "WAITING",
    "Activity",
    "activity_of",
    "waits_of",
]

ACTIVITIES: Final = (
    "compute", "communication", "waiting for peers", "remote memory", "started late", "bubble",
)  # fmt: skip
"""In the order of precedence: of a rank that computes and communicates at one time it is ``compute``.

A collective waits for peers until all its ranks have begun. A rank has ``started late`` up to its start. A
bubble is time in which a rank has nothing to do: it has begun nothing that is not over, or waits for a
message that has not been sent, as between the stages of a pipeline.
"""

COMPUTE, COMMUNICATION, WAITING, MEMORY, LATE, BUBBLE = range(len(ACTIVITIES))


class Activity(NamedTuple):
    """Stretches of time in the order of rank and time, without gaps from 0 to the end of each rank.

    Attributes
    ----------
    rank : ndarray of int64
    state : ndarray of int64
        Number in :data:`ACTIVITIES`.
    start_ps, end_ps : ndarray of int64
    """

    rank: np.ndarray
    state: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray

    def sums(self, ranks: int) -> np.ndarray:
        """Total time, ranks x activities, in ps."""
        sums = np.zeros((ranks, len(ACTIVITIES)), np.int64)
        np.add.at(sums, (self.rank, self.state), self.end_ps - self.start_ps)
        return sums


def waits_of(
    engine: OperationRun, spans: Spans, ready_ps: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Until when each span waits for another rank, and what this is: a number in :data:`ACTIVITIES`.

    ``ready_ps`` is the engine's, where it is known already.
    """
    ready = engine.ready_ps() if ready_ps is None else ready_ps
    ready = np.clip(ready[spans.row], spans.start_ps, spans.end_ps)
    kind = engine.about.kind[spans.row]
    ready = np.where(np.isin(kind, COMMUNICATING), ready, spans.start_ps)
    return ready, np.where(kind == RECV, BUBBLE, WAITING)


def activity_of(
    engine: OperationRun, ranks: Sequence[int] | None = None, ready_ps: np.ndarray | None = None
) -> Activity:
    """Return the activity of some ranks (all, if none are named); ``ready_ps`` is the engine's, if known."""
    spans, done = spans_of(engine), engine.ends_ps()
    if ranks is not None:
        spans = spans.of(ranks)
    ready, waits = waits_of(engine, spans, ready_ps)
    state = np.array([COMPUTE, COMMUNICATION, MEMORY])[spans.track]
    every = np.arange(len(done)) if ranks is None else np.unique(np.asarray(ranks, np.int64))
    until = np.where(done >= 0, done, engine.now_ps)[every]
    rank = np.concatenate([spans.npu, spans.npu, every, every])
    start = np.concatenate([ready, spans.start_ps, np.zeros_like(until), np.zeros_like(until)])
    end = np.concatenate([spans.end_ps, ready, until, late_ps(engine)[every]])
    what = np.concatenate([state, waits, np.repeat([BUBBLE, LATE], len(every))])
    return _swept(rank, start, end, what)


def _swept(rank: np.ndarray, start: np.ndarray, end: np.ndarray, what: np.ndarray) -> Activity:
    """Of spans that overlap, the one that precedes, stretch by stretch."""
    at, of = np.concatenate([start, end]), np.tile(rank, 2)
    order = np.lexsort((at, of))
    at, of = at[order], of[order]
    change = np.repeat([1, -1], len(start))[order]
    kinds = np.tile(what, 2)[order]
    state = np.full(len(at), -1)
    for kind in reversed(range(len(ACTIVITIES))):
        state[np.cumsum(np.where(kinds == kind, change, 0)) > 0] = kind
    kept = np.flatnonzero((np.diff(at, append=at[-1:]) > 0) & (np.diff(of, append=-1) == 0) & (state >= 0))
    if not len(kept):
        return Activity(*np.zeros((4, 0), np.int64))
    fresh = np.diff(of[kept], prepend=-1).astype(bool) | np.diff(state[kept], prepend=-1).astype(bool)
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(kept)) - 1
    return Activity(of[kept][first], state[kept][first], at[kept][first], at[kept + 1][last])
