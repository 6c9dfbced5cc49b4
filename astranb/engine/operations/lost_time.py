"""Time lost by cause: how the whole time of the run divides for each rank."""

from __future__ import annotations

import numpy as np

from astranb.workload.astrasim2.kinds import COLLECTIVE, COMPUTE, MEMORY, RECV, REPLAY, SEND

from .run import OperationRun
from .spans import late_ps, shares, spans_of, sweep

__all__ = ["LOSSES", "lost_times"]

LOSSES = {
    "compute": "computing",
    "collective": "in a collective that all of its ranks have begun",
    "message": "sending a message, or waiting for one that is under way",
    "others": "waiting for ranks that have not begun the collective, or not sent the message",
    "broadcast": "in an operation that takes its recorded duration",
    "memory": "waiting for remote memory",
    "started late": "its rank, or its job, has not started",
    "idle": "nothing is issued",
    "ended": "it has ended, others go on",
}
"""Classes of a rank's time, and their meanings; if several apply, the first one counts."""

_COMPUTE, _COLLECTIVE, _MESSAGE, _OTHERS, _BROADCAST, _MEMORY = range(6)
_OF_KIND = {
    COMPUTE: _COMPUTE, COLLECTIVE: _COLLECTIVE, SEND: _MESSAGE, RECV: _MESSAGE,
    MEMORY: _MEMORY, REPLAY: _BROADCAST,
}  # fmt: skip


def lost_times(engine: OperationRun) -> np.ndarray:
    """Times of all ranks by cause.

    Returns
    -------
    ndarray of int64, shape (ranks, causes)
        In ps, in the order of :data:`LOSSES`; each row adds up to the time of the run so far.
    """
    spans, ranks = spans_of(engine), engine.ranks
    kind = np.array([_OF_KIND[int(k)] for k in range(REPLAY + 1)])[engine.about.kind[spans.row]]
    ready = engine.ready_ps()[spans.row]
    # Until it is ready, an operation waits for other ranks; then it is what its kind says.
    split = np.clip(ready, spans.start_ps, spans.end_ps)
    npu, which = np.tile(spans.npu, 2), np.concatenate([np.full(len(kind), _OTHERS), kind])
    start, end = np.concatenate([spans.start_ps, split]), np.concatenate([split, spans.end_ps])
    some = start < end
    total, doing = sweep(npu[some], start[some], end[some], which[some], 6, ranks)
    times = np.zeros((ranks, len(LOSSES)), np.int64)
    taken = np.zeros(len(doing[0]), bool)
    for cause in range(6):
        times[:, cause] = total(doing[cause] & ~taken)
        taken |= doing[cause]
    ends = shares(engine)["end"]
    times[:, -3] = late_ps(engine)
    times[:, -2] = ends - times.sum(axis=1)
    times[:, -1] = int(ends.max(initial=0)) - ends
    return times
