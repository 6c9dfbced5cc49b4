"""Statistics of a job's traces: operators, communication, exposed time, critical path, roofline, skew."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.chakra.recording import OUTSIDE
from astranb.chakra.traces import Ints, Trace
from astranb.core.data_frames import frame
from astranb.core.errors import InputError, near

from .activity import ACTIVITIES, COMMUNICATION, COMPUTE, RankTime, covered_ns, rank_time
from .longest import RecordedPath, recorded_path
from .meetings import Meetings, dimension_of, meetings, members_of, times_with_waits
from .timeline import Times, job_times

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["TraceStatistics", "statistics"]

Row = dict[str, Any]
_NUMBER: Final = re.compile(r"(?<!\S)(L?)\d+(?!\S)")
_TABLES: Final = ("by_rank", "operators", "communication", "dimensions", "skew")
_NO_GROUPS: Final[Mapping[str, Sequence[int]]] = {}


@dataclass(frozen=True)
class TraceStatistics:
    """Result of :func:`statistics`. Tables are lists of dictionaries, or frames by :meth:`to_dataframe`.

    Attributes
    ----------
    ranks : int
    how : str
        Where the times are from.
    makespan_ns : int
        From the first start to the last end of any rank.
    operators : list of dict
        By activity and name of the node, numbers of layers and microbatches left out (``L# fwd # mlp``), the
        longest first: ``count``, ``time_ns`` and, where nothing else
        counts instead, ``shown_ns``, of all ranks; ``share`` of the time.
    communication : list of dict
        By group and collective: ``ranks``, ``dimension``, ``count``, ``bytes`` (of a rank's contributions),
        ``unsized`` (how many of them are of unknown size), ``transfer_ns``, ``waiting_ns`` (of a rank, on
        average), ``skew_ns`` (the longest wait, on average).
    dimensions : list of dict
        The same by ``dimension`` of the job and collective, the mean of its ``groups``.
    by_rank : list of dict
        The time of each rank from the first start to the last end of the job, divided: ``compute_ns``,
        exposed ``communication_ns``, ``memory_ns``, ``waiting_ns``, ``host_ns``, ``idle_ns``. And all
        of its ``transfers_ns``, and what of it is ``overlapped_ns`` with computations.
    skew : list of dict
        By group and rank: ``count``, ``late_ns`` (after the first rank, on average), ``waiting_ns`` and
        ``last``, how often it came last.
    path : RecordedPath
    meetings : Meetings
    roofline : dict of str to array
        Of computations with a duration: ``flops``, ``bytes``, ``duration_ns``, ``rank``, ``row``.
    times : list of Times
        With the waits that were found.
    spent : list of RankTime
    """

    ranks: int
    how: str
    makespan_ns: int
    operators: list[Row]
    communication: list[Row]
    dimensions: list[Row]
    by_rank: list[Row]
    skew: list[Row]
    path: RecordedPath
    meetings: Meetings
    roofline: dict[str, NDArray[Any]]
    times: list[Times]
    spent: list[RankTime]

    @property
    def makespan_ms(self) -> float:
        """:attr:`makespan_ns` in milliseconds."""
        return self.makespan_ns / 1e6

    def to_dataframe(self, what: str = "by_rank", *, time: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas frame.

        Parameters
        ----------
        what : str
            ``by_rank``, ``operators``, ``communication``, ``dimensions`` or ``skew``.
        time : str, optional
            Unit of all times: ``ps``, ``ns`` (by default), ``us``, ``ms`` or ``s``.

        Raises
        ------
        InputError
            There is no such table, or no such unit.

        Examples
        --------
        >>> from astranb.chakra import TraceBuilder
        >>> step = TraceBuilder()
        >>> _ = step.compute("forward", duration_us=3)
        >>> found = statistics([step.build()]).to_dataframe(time="us")
        >>> found[["rank", "compute_us", "idle_us"]].to_dict("records")
        [{'rank': 0, 'compute_us': 3.0, 'idle_us': 0.0}]
        """
        if what not in _TABLES:
            hint = near(what, _TABLES)
            raise InputError(f"no table {what[:40]!r} of a job's statistics", where="to_dataframe", hint=hint)
        return frame(getattr(self, what), time)

    def as_document(self) -> Row:
        """Plain data for JSON, without the arrays."""
        names = ("ranks", "how", "makespan_ns", *_TABLES)
        path = {"nodes": len(self.path.row), **self.path.shares()}
        return {name: getattr(self, name) for name in names} | {
            "critical_path": path,
            "roofline": len(self.roofline["flops"]),
        }


def statistics(
    traces: Sequence[Trace],
    times: Sequence[Times] | None = None,
    *,
    groups: Mapping[str, Sequence[int]] = _NO_GROUPS,
    work: Sequence[Mapping[int, tuple[int, int]]] = (),
) -> TraceStatistics:
    """Count what the ranks of a job do, and say where their time goes.

    Parameters
    ----------
    traces : sequence of Trace
        Of all ranks, or of one.
    times : sequence of Times, optional
        The recorded ones (:func:`job_times`).
    groups : mapping of str to sequence of int
        The ranks of each process group; without it those that use its name.
    work : sequence of mapping of int to pair of int
        For each rank the operations and bytes of computations by row, where nodes do not say them.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", 1024, duration_us=5, after=step.compute("forward", duration_us=3))
    >>> found = statistics([step.build()])
    >>> found.makespan_ns, found.by_rank[0]["compute_ns"], found.by_rank[0]["communication_ns"]
    (8000, 3000, 5000)
    >>> found.path.shares()["communication"]
    5000
    """
    given = job_times(traces) if times is None else list(times)
    met = meetings(traces, given)
    better = times_with_waits(given, met)
    spent = [rank_time(trace, when) for trace, when in zip(traces, better, strict=True)]
    makespan = max((int(one.end_ns.max(initial=0)) for one in better), default=0)
    communication, skew = _communication(met, groups, len(traces))
    return TraceStatistics(
        len(traces),
        better[0].how if better else "",
        makespan,
        _operators(traces, better, spent),
        communication,
        _dimensions(communication),
        [
            _rank(rank, when, one, makespan)
            for rank, (when, one) in enumerate(zip(better, spent, strict=True))
        ],
        skew,
        recorded_path(traces, better, spent, met),
        met,
        _roofline(traces, better, spent, work or [{}] * len(traces)),
        better,
        spent,
    )


def _operators(traces: Sequence[Trace], times: Sequence[Times], spent: Sequence[RankTime]) -> list[Row]:
    found: dict[tuple[str, str], list[int]] = {}
    for trace, when, one in zip(traces, times, spent, strict=True):
        names = trace.names
        took = np.where(when.start_ns >= 0, when.end_ns - when.own_ns, 0)
        keys, place = np.unique(one.activity * (len(names.values) + 1) + names.index, return_inverse=True)
        sums = np.zeros((3, len(keys)), np.int64)
        for at, column in enumerate((np.ones(len(trace), np.int64), took, one.own_ns)):
            np.add.at(sums[at], place, column)
        for key, row in zip(keys.tolist(), sums.T.tolist(), strict=True):
            activity, name = divmod(key, len(names.values) + 1)
            if activity < 0:
                continue
            text = (names.values[name] if name < len(names.values) else "") or ""  # noqa: PD011 - no frame
            rest = text.removeprefix(f"{OUTSIDE}: ")
            row[0] *= rest == text  # the rest of an operation's time is no other call
            rest = _NUMBER.sub(r"\1#", rest)
            held = found.setdefault((ACTIVITIES[activity], rest), [0, 0, 0])
            held[:] = [a + b for a, b in zip(held, row, strict=True)]
    whole = sum(time for _, time, _ in found.values())
    rows = [
        {
            "kind": kind, "name": name, "count": count, "time_ns": time,
            "share": time / whole if whole else 0.0, "shown_ns": shown,
        }
        for (kind, name), (count, time, shown) in found.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["time_ns"], -row["count"], row["kind"], row["name"]))


def _communication(
    met: Meetings, groups: Mapping[str, Sequence[int]], ranks: int
) -> tuple[list[Row], list[Row]]:
    """Sum collectives and messages by group and kind; and by group and rank who was late."""
    count = len(met.group)
    first = np.full(count, np.iinfo(np.int64).max)
    longest, took = np.zeros((2, count), np.int64)
    np.minimum.at(first, met.number, met.arrival_ns)
    np.maximum.at(longest, met.number, met.wait_ns)
    np.maximum.at(took, met.number, met.transfer_ns)
    is_last = np.zeros(len(met.number), bool)
    is_last[met.last()] = longest > 0
    late = met.arrival_ns - first[met.number]
    keys = sorted(set(zip(met.group, met.kind, strict=True)))
    place = {key: at for at, key in enumerate(keys)}
    of_key = np.array([place[key] for key in zip(met.group, met.kind, strict=True)], np.int64)
    rows: list[Row] = []
    skew: dict[tuple[str, int], Row] = {}
    by_number = _parts(of_key, len(keys))
    for (group, kind), numbers, mine in zip(
        keys, by_number, _parts(of_key[met.number], len(keys)), strict=True
    ):
        seen, at, often = np.unique(met.rank[mine], return_inverse=True, return_counts=True)
        message = kind == "message"
        members = [] if message else members_of(group, groups, seen.tolist(), ranks)
        rows.append(
            {"group": group, "collective": kind, "ranks": 2 if message else len(members),
             "dimension": "messages" if message else dimension_of(members, ranks),
             "count": len(numbers), "bytes": int(np.maximum(met.bytes[numbers], 0).sum()),
             "unsized": int((met.bytes[numbers] < 0).sum()),
             "transfer_ns": int(took[numbers].sum()),
             "waiting_ns": int(met.wait_ns[mine].sum()) // max(len(seen), 1),
             "skew_ns": int(longest[numbers].sum()) // len(numbers)}
        )  # fmt: skip
        columns = [np.bincount(at, column[mine], len(seen)) for column in (late, met.wait_ns, is_last)]
        for rank, many, *sums in zip(seen.tolist(), often.tolist(), *columns, strict=True):
            empty = {"group": group, "rank": rank, "count": 0, "late_ns": 0, "waiting_ns": 0, "last": 0}
            row = skew.setdefault((group, rank), empty)
            row["count"] += 0 if message else many
            for name, value in zip(("late_ns", "waiting_ns", "last"), sums, strict=True):
                row[name] += 0 if message else int(value)
    found = [row for row in skew.values() if row["count"]]
    return rows, [{**row, "late_ns": row["late_ns"] // row["count"]} for row in found]


def _parts(keys: Ints, count: int) -> list[Ints]:
    """The places of each key."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count))) if count else []


def _dimensions(communication: Sequence[Row]) -> list[Row]:
    """The mean of groups along one dimension, so that numbers are those of a rank."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in communication:
        found.setdefault((row["dimension"], row["collective"]), []).append(row)
    names = ("count", "bytes", "unsized", "transfer_ns", "waiting_ns")
    return [
        {"dimension": dimension, "collective": kind, "groups": len(rows)}
        | {name: sum(row[name] for row in rows) // len(rows) for name in names}
        for (dimension, kind), rows in sorted(found.items())
    ]


def _rank(rank: int, when: Times, spent: RankTime, makespan: int) -> Row:
    sums = spent.sums()
    some = (spent.activity == COMMUNICATION) & (when.start_ns >= 0)
    transfers = covered_ns(when.own_ns[some], when.end_ns[some])
    divided = {f"{name}_ns": took for name, took in zip(ACTIVITIES, sums, strict=True)}
    return {
        "rank": rank,
        **divided,
        "idle_ns": makespan - sum(sums),
        "transfers_ns": transfers,
        "overlapped_ns": transfers - sums[COMMUNICATION],
    }


def _roofline(
    traces: Sequence[Trace],
    times: Sequence[Times],
    spent: Sequence[RankTime],
    work: Sequence[Mapping[int, tuple[int, int]]],
) -> dict[str, NDArray[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("rank", "row", "flops", "bytes", "duration_ns")}
    for rank, (trace, when, one, more) in enumerate(zip(traces, times, spent, work, strict=True)):
        flops, size = np.maximum(trace.num_ops, 0), np.maximum(trace.tensor_size, 0)
        for row, (operations, touched) in more.items():
            flops[row], size[row] = operations, touched
        took = when.end_ns - when.own_ns
        rows = np.flatnonzero((one.activity == COMPUTE) & (flops > 0) & (size > 0) & (took > 0))
        for name, column in (("flops", flops), ("bytes", size), ("duration_ns", took)):
            columns[name].append(column[rows])
        columns["rank"].append(np.full(len(rows), rank))
        columns["row"].append(rows)
    return {name: np.concatenate([*some, np.zeros(0, np.int64)]) for name, some in columns.items()}
