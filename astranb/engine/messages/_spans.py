"""What ranks did when, as columns; and what of their communication was exposed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _tables as t

if TYPE_CHECKING:
    from astranb.sim.workload._standing import Standing

__all__ = [
    "COMMUNICATION",
    "LANES",
    "Spans",
    "computed_ns",
    "instances",
    "pairs",
    "shares",
    "spans_of",
    "sweep",
]

LANES = ("compute", "communication", "memory")
"""The lanes of a rank: what an operation of it does."""

COMMUNICATION = (t.COLLECTIVE, t.SEND, t.RECV, t.REPLAY)


@dataclass(frozen=True)
class Spans:
    """Operations that have begun, a row each, in the order of the tables.

    Attributes
    ----------
    row, npu, lane : ndarray of int64
        The operation, its rank, the number of its lane.
    start_ps, end_ps : ndarray of int64
        One that is under way ends now.
    """

    row: np.ndarray
    npu: np.ndarray
    lane: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray


def spans_of(sim: Standing) -> Spans:
    """Give the operations of all ranks that have begun; those of custom collectives are left out."""
    start, end = sim.state.times_ps()
    row = np.flatnonzero(start >= 0)
    kind = sim.about.kind[row]
    lane = np.where(np.isin(kind, COMMUNICATION), 1, np.where(kind == t.MEMORY, 2, 0))
    until = np.where(end[row] >= 0, end[row], sim.now_ps)
    return Spans(row, sim.about.npu[row], lane, start[row], until)


def shares(sim: Standing) -> dict[str, np.ndarray]:
    """How long each rank computed, communicated, and did so with nothing else to do.

    Returns
    -------
    dict
        For each rank, in ps: ``compute`` (at least one computation under way, on whatever),
        ``communication`` (at least one collective, send, receive or broadcast issued and not
        over), ``exposed_comm`` (communication and no computation), ``memory`` (a remote access
        and neither of them), ``end`` (when it was done; now, before that) and ``idle``.
    """
    spans, done = spans_of(sim), sim.state.ends_ps()
    end = np.where(done >= 0, done, sim.now_ps).astype(np.int64)
    total, (compute, communication, memory) = sweep(
        spans.npu, spans.start_ps, spans.end_ps, spans.lane, len(LANES), len(end)
    )
    parts = {
        "compute": total(compute),
        "communication": total(communication),
        "exposed_comm": total(communication & ~compute),
        "memory": total(memory & ~compute & ~communication),
        "end": end,
    }
    parts["idle"] = end - parts["compute"] - parts["exposed_comm"] - parts["memory"]
    return parts


def sweep(
    npu: np.ndarray, start_ps: np.ndarray, end_ps: np.ndarray, kind: np.ndarray, kinds: int, ranks: int
) -> tuple[Callable[[np.ndarray], np.ndarray], list[np.ndarray]]:
    """Go over the beginnings and ends of spans, one rank after another.

    Returns
    -------
    total : callable
        How long each rank has been in chosen stretches, in ps: whole numbers, exact.
    under_way : list of ndarray of bool
        For each kind, in which stretches at least one span of it is under way.
    """
    # Between two ranks nothing is under way.
    point, rank = np.concatenate([start_ps, end_ps]), np.tile(npu, 2)
    order = np.lexsort((point, rank))
    at, rank = point[order], rank[order]
    length = np.diff(at, append=at[-1:])
    change = np.where(np.arange(len(point)) < len(npu), 1, -1)
    both = np.tile(kind, 2)
    under_way = [np.cumsum(np.where(both == which, change, 0)[order]) > 0 for which in range(kinds)]

    def total(chosen: np.ndarray) -> np.ndarray:
        found = np.zeros(ranks, np.int64)
        np.add.at(found, rank[chosen], length[chosen])
        return found

    return total, under_way


def computed_ns(m: t.Machine, own: int, now_ns: int) -> np.ndarray:
    """How long each rank's GPU has computed, summed: ASTRA-sim's figure, which it books at the start."""
    rows: Any = m.operations[:own]
    running = np.flatnonzero(
        (rows.kind == t.COMPUTE) & (rows.place != t.ON_CPU) & (rows.start_ns >= 0) & (rows.end_ns < 0)
    )
    left = rows.start_ns[running] + rows.duration_ns[running] - now_ns
    result = np.array(m.npus.compute_ns, np.int64)
    np.subtract.at(result, rows.npu[running], left)
    return result


def instances(sim: Standing) -> np.ndarray:
    """Number of the collective that each operation takes part in; -1 for what is none or has not begun.

    The k-th collective that a rank begins in a group is the k-th of that group's other ranks.
    """
    m, about = sim.state.machine, sim.about
    rows: Any = m.operations[: about.own]
    some = np.flatnonzero((rows.kind == t.COLLECTIVE) & (rows.start_ns >= 0))
    order = some[np.lexsort((some, rows.start_ns[some], rows.npu[some], rows.group[some]))]
    key = rows.group[order] * len(m.npus) + rows.npu[order]
    fresh = np.diff(key, prepend=key[:1] - 1) != 0
    begun = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    _, number = np.unique(np.stack([rows.group[order], begun]), axis=1, return_inverse=True)
    result = np.full(len(rows), -1, np.int64)
    result[order] = number.reshape(-1)
    return result


def pairs(sim: Standing) -> tuple[np.ndarray, np.ndarray]:
    """Sends and receives that belong together: rows of the table of operations."""
    rows: Any = sim.state.machine.operations[: sim.about.own]
    found = []
    for kind, source, target in ((t.SEND, "npu", "peer"), (t.RECV, "peer", "npu")):
        row = np.flatnonzero((rows.kind == kind) & (rows.start_ns >= 0))
        key = np.stack([rows[source][row], rows[target][row], rows.tag[row], rows.bytes[row]])
        found.append((row[np.lexsort((row, rows.start_ns[row]))], row, key))
    whole = np.concatenate([key for _, _, key in found], axis=1)
    if not whole.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, number = np.unique(whole, axis=1, return_inverse=True)
    number = number.reshape(-1)
    numbered = []
    for part, (ordered, row, _) in enumerate(found):
        mine = number[: len(row)] if part == 0 else number[len(found[0][1]) :]
        of = dict(zip(row.tolist(), mine.tolist(), strict=True))
        seen: dict[int, int] = {}
        keys = {}
        for one in ordered.tolist():
            nth = seen[of[one]] = seen.get(of[one], -1) + 1
            keys[(of[one], nth)] = one
        numbered.append(keys)
    both = sorted(numbered[0].keys() & numbered[1].keys())
    return (
        np.array([numbered[0][key] for key in both], np.int64),
        np.array([numbered[1][key] for key in both], np.int64),
    )
