"""Times at which operations of ASTRA-sim 2.0's workloads stop waiting for other ranks."""

from __future__ import annotations

import numpy as np

from . import tables as t
from .instances import instances, pairs, rows_of
from .state import MessageState

__all__ = ["members_of", "ready_ps", "slow_ranks"]

_SLOW = 1.02
"""Ranks that compute so many times as long as the median are slow."""


def members_of(machine: t.MessageMachine, group: int) -> np.ndarray:
    """The ranks of a group; of all, where it is -1."""
    if group < 0:
        return np.arange(len(machine.npus))
    row = machine.groups[group]
    return np.asarray(machine.members.value)[int(row.first) : int(row.first + row.count)]


def ready_ps(engine: MessageState) -> np.ndarray:
    """From when on each operation that has begun waits for no other rank; 0 where it never does."""
    m = engine.machine
    rows = rows_of(engine)
    now = engine.now_ps // 1000
    ready = np.zeros(len(rows), np.int64)
    if not engine.run.events:
        return ready
    number, begun_ns = instances(engine), engine.times_ps()[0] // 1000
    parts = engine.about.parts
    some = np.flatnonzero(number >= 0)
    if parts is not None:
        # All ranks of a recorded collective are those whose messages belong together.
        mine = some[some >= parts.own]
        last = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        np.maximum.at(last, number[mine], begun_ns[mine])
        ready[mine] = last[number[mine]]
        some = some[some < parts.own]
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
    sent, received = pairs(engine)
    ready[received] = rows.start_ns[sent]
    return ready * 1000


def slow_ranks(engine: MessageState) -> list[tuple[int, float]]:
    """Ranks that compute longer than the median, and how many times as long; the slowest first."""
    rows = rows_of(engine)
    computes = rows.kind == t.COMPUTE
    sums = np.bincount(rows.npu[computes], rows.duration_ns[computes], minlength=engine.ranks)
    middle = float(np.median(sums))
    order = np.argsort(-sums, kind="stable").tolist()
    return [(rank, float(sums[rank]) / middle) for rank in order if sums[rank] > _SLOW * middle > 0]
