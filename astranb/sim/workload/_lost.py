"""Time lost per cause: what every rank did with the whole time of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.workload.astrasim2 import _tables as t

from ._spans import instances, pairs, shares, spans_of, sweep

if TYPE_CHECKING:
    import pandas as pd

    from ._standing import Standing

__all__ = ["LOSSES", "lost_time", "lost_times", "members_of"]

LOSSES = {
    "compute": "computing",
    "collective": "in a collective that all of its ranks have begun",
    "message": "sending a message, or waiting for one that is under way",
    "others": "waiting for ranks that have not begun the collective, or not sent the message",
    "broadcast": "in an operation that takes its recorded duration",
    "memory": "waiting for remote memory",
    "idle": "nothing is issued",
    "ended": "it has ended, others go on",
}
"""Where a rank's time may go, and what each means; what comes first counts where several hold."""

_COMPUTE, _COLLECTIVE, _MESSAGE, _OTHERS, _BROADCAST, _MEMORY = range(6)
_OF_KIND = {
    t.COMPUTE: _COMPUTE, t.COLLECTIVE: _COLLECTIVE, t.SEND: _MESSAGE, t.RECV: _MESSAGE,
    t.MEMORY: _MEMORY, t.REPLAY: _BROADCAST,
}  # fmt: skip


def members_of(machine: t.Machine, group: int) -> np.ndarray:
    """The ranks of a group; of all, where it is -1."""
    if group < 0:
        return np.arange(len(machine.npus))
    row = machine.groups[group]
    return np.asarray(machine.members.value)[int(row.first) : int(row.first + row.count)]


def lost_times(sim: Standing) -> np.ndarray:
    """Times of all ranks by cause.

    Parameters
    ----------
    sim : WorkloadSimulation

    Returns
    -------
    ndarray of int64, shape (ranks, causes)
        In ns, in the order of :data:`LOSSES`; each row adds up to the time of the run so far.
    """
    spans, ranks = spans_of(sim), sim.ranks
    kind = np.array([_OF_KIND[int(k)] for k in range(t.REPLAY + 1)])[sim.about.kind[spans.row]]
    ready = _ready(sim)[spans.row]
    # What others keep waiting comes before the time from which on they do so no longer.
    turn = np.clip(ready, spans.start_ns, spans.end_ns)
    npu, which = np.tile(spans.npu, 2), np.concatenate([np.full(len(kind), _OTHERS), kind])
    start, end = np.concatenate([spans.start_ns, turn]), np.concatenate([turn, spans.end_ns])
    some = start < end
    total, doing = sweep(npu[some], start[some], end[some], which[some], 6, ranks)
    times = np.zeros((ranks, len(LOSSES)), np.int64)
    taken = np.zeros(len(doing[0]), bool)
    for cause in range(6):
        times[:, cause] = total(doing[cause] & ~taken)
        taken |= doing[cause]
    ends = shares(sim)["end"]
    times[:, -2] = ends - times.sum(axis=1)
    times[:, -1] = int(ends.max(initial=0)) - ends
    return times


def _ready(sim: Standing) -> np.ndarray:
    """From when on each operation that has begun waits for no other rank, in ns; 0 where it never does."""
    m = sim.state.machine
    rows: Any = m.operations[: sim.about.own]
    now = sim.now_ps // 1000
    ready = np.zeros(len(rows), np.int64)
    number = instances(sim)
    some = np.flatnonzero(number >= 0)
    if len(some):
        latest = np.zeros(int(number.max()) + 1, np.int64)
        np.maximum.at(latest, number[some], rows.start_ns[some])
        begun = np.bincount(number[some])
        sizes = np.array([len(members_of(m, g)) for g in range(-1, len(m.groups))])
        whole = np.zeros(len(latest), np.int64)
        whole[number[some]] = sizes[rows.group[some] + 1]
        latest[begun < whole] = now
        ready[some] = latest[number[some]]
    receives = np.flatnonzero((rows.kind == t.RECV) & (rows.start_ns >= 0))
    ready[receives] = now
    sent, received = pairs(sim)
    ready[received] = rows.start_ns[sent]
    return ready


def lost_time(sim: Standing) -> pd.DataFrame:
    """The table of lost times, a row a rank, in ps."""
    import pandas as pd

    times = lost_times(sim) * 1000
    frame = pd.DataFrame(times, columns=[f"{name}_ps" for name in LOSSES])
    frame.insert(0, "rank", range(len(times)))
    frame.insert(1, "time_ps", sim.result.time_ps)
    return frame
