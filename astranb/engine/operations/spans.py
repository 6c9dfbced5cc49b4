"""Operations of ranks over time, as columns; and their exposed communication."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from astranb.workload.astrasim2.kinds import COLLECTIVE, DELAY, MEMORY, RECV, REPLAY, SEND

from .run import OperationRun, Spans

__all__ = [
    "COMMUNICATION",
    "TRACKS",
    "divide",
    "ends_around",
    "late_ps",
    "rank_columns",
    "shares",
    "spans_of",
    "sweep",
    "time_ps",
    "tracks_of",
]

TRACKS = ("compute", "communication", "memory")
"""The tracks of a rank: what an operation of it does."""

COMMUNICATION = (COLLECTIVE, SEND, RECV, REPLAY)


def spans_of(engine: OperationRun) -> Spans:
    """Return the operations of all ranks that have begun, but for delays and those of custom collectives.

    Of a custom collective that replays recorded operations, these.
    """
    start, end = engine.times_ps()
    kept = (start >= 0) & (engine.about.kind[: len(start)] != DELAY)
    if engine.about.parts is not None:
        kept &= ~engine.about.parts.hidden
    row = np.flatnonzero(kept)
    kind = engine.about.kind[row]
    until = np.where(end[row] >= 0, end[row], engine.now_ps)
    return Spans(row, engine.about.npu[row], tracks_of(kind), start[row], until)


def late_ps(engine: OperationRun) -> np.ndarray:
    """Return the time of each rank before its first operation, because it started late."""
    if engine.represented is not None:
        few, npu = engine.represented
        found: np.ndarray = late_ps(few)[npu]
        return found
    about, (start, end) = engine.about, engine.times_ps()
    late = np.zeros(engine.ranks, np.int64)
    rank = np.flatnonzero(np.diff(about.start) > 0)
    row = about.start[rank]
    rank, row = (each[(about.kind[row] == DELAY) & (start[row] == 0)] for each in (rank, row))
    late[rank] = np.where(end[row] >= 0, end[row], engine.now_ps)
    return late


def tracks_of(kind: np.ndarray) -> np.ndarray:
    """Return the number of each kind's track, see :data:`TRACKS`."""
    return np.where(np.isin(kind, COMMUNICATION), 1, np.where(kind == MEMORY, 2, 0))


def shares(engine: OperationRun) -> dict[str, np.ndarray]:
    """Return the times of each rank in computation, communication and exposed: see :func:`divide`."""
    if engine.represented is not None:
        few, npu = engine.represented
        return {name: part[npu] for name, part in shares(few).items()}
    spans, done = spans_of(engine), engine.ends_ps()
    end = np.where(done >= 0, done, engine.now_ps).astype(np.int64)
    return divide(spans.npu, spans.start_ps, spans.end_ps, spans.track, end)


def divide(
    npu: np.ndarray, start_ps: np.ndarray, end_ps: np.ndarray, track: np.ndarray, ranks_end_ps: np.ndarray
) -> dict[str, np.ndarray]:
    """Divide the time of each rank by the operations under way.

    Parameters
    ----------
    npu, start_ps, end_ps, track : ndarray of int64
        Columns of :class:`Spans`.
    ranks_end_ps : ndarray of int64
        Completion time of each rank; the current time, before that.

    Returns
    -------
    dict
        For each rank, in ps: ``compute`` (at least one computation under way, on whatever),
        ``communication`` (at least one collective, send, receive or broadcast issued and not
        over), ``exposed_comm`` (communication and no computation), ``memory`` (a remote access
        and neither of them), ``end`` and ``idle``.
    """
    total, (compute, communication, memory) = sweep(
        npu, start_ps, end_ps, track, len(TRACKS), len(ranks_end_ps)
    )
    parts = {
        "compute": total(compute),
        "communication": total(communication),
        "exposed_comm": total(communication & ~compute),
        "memory": total(memory & ~compute & ~communication),
        "end": ranks_end_ps,
    }
    parts["idle"] = ranks_end_ps - parts["compute"] - parts["exposed_comm"] - parts["memory"]
    return parts


def rank_columns(parts: Mapping[str, np.ndarray], computed_ps: np.ndarray) -> dict[str, list[int]]:
    """Return the columns that the table of ranks has at every fidelity.

    Parameters
    ----------
    parts : mapping
        Of :func:`divide`.
    computed_ps : ndarray of int64
        What each rank has computed, summed, as ASTRA-sim counts it. Where computations overlap it is more
        than the time, and nothing was exposed.
    """
    columns = {
        "end_ps": parts["end"],
        "compute_ps": parts["compute"],
        "exposed_comm_ps": parts["exposed_comm"],
        "memory_ps": parts["memory"],
        "idle_ps": parts["idle"],
        "communication_ps": parts["communication"],
        "overlapped_comm_ps": parts["communication"] - parts["exposed_comm"],
        "astrasim_compute_ps": computed_ps,
        "astrasim_exposed_comm_ps": np.maximum(parts["end"] - computed_ps, 0),
    }
    return {name: np.asarray(column).tolist() for name, column in columns.items()}


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
    kind_at = np.tile(kind, 2)
    under_way = [np.cumsum(np.where(kind_at == which, change, 0)[order]) > 0 for which in range(kinds)]

    def total(chosen: np.ndarray) -> np.ndarray:
        found = np.zeros(ranks, np.int64)
        np.add.at(found, rank[chosen], length[chosen])
        return found

    return total, under_way


def time_ps(engine: OperationRun) -> int:
    """Completion time of the last rank; the current time while it runs."""
    return int(shares(engine)["end"].max(initial=0))


def ends_around(engine: OperationRun, at_ps: int, most: int) -> list[tuple[int, str, str]]:
    """List the begins and ends of operations before and after a moment.

    Parameters
    ----------
    engine : OperationRun
    at_ps : int
    most : int
        Events before the moment (its own included), and after it.

    Returns
    -------
    list of tuple
        Time in ps, what happened, and the path of the operation, in the order of time.
    """
    about, found = engine.about, []
    for times, verb in zip(engine.times_ps(), ("begins", "ends"), strict=True):
        for known, sign in (
            ((times >= 0) & (times <= at_ps), -1),
            ((times > at_ps) & (times <= engine.now_ps), 1),
        ):
            rows = np.flatnonzero(known)
            for row in rows[np.argsort(sign * times[rows], kind="stable")[:most]].tolist():
                text = f"rank {int(about.npu[row])} {verb} {about.text(row)}"
                found.append((int(times[row]), text, about.path(row)))
    found.sort(key=lambda one: one[0])
    before = sum(one[0] <= at_ps for one in found)
    return found[max(0, before - most) : before + most]
