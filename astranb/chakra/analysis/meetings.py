"""Collectives and messages of a job: who arrived when, who waited, and how long the transfer took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.traces import CollectiveType, Ints, NodeType, Trace

from .timeline import Times

__all__ = ["Meetings", "dimension_of", "meetings"]

_UNEVEN: Final = (CollectiveType.ALL_TO_ALL, CollectiveType.GATHER, CollectiveType.SCATTER)
"""Collectives of which ranks may give another number of bytes."""
_NAMES: Final = [kind.name.lower() for kind in CollectiveType]


class Meetings(NamedTuple):
    """Collectives and messages, a row for each rank that takes part.

    Attributes
    ----------
    number : array of int64
        Which one it is: those of ranks that meet are the same.
    rank, row : array of int64
        The rank, and the node of its trace.
    arrival_ns, end_ns : array of int64
        When the rank called it, and when it had ended there.
    wait_ns : array of int64
        How long it waited for the last one. The rest is the transfer: what the last one to arrive takes.
    group, kind : list of str
        Of each number: the process group ("" for all ranks and for messages), and the collective.
    bytes : array of int64
        Of each number: the size of a rank's contribution, the largest one; -1 where that is not known.
    """

    number: Ints
    rank: Ints
    row: Ints
    arrival_ns: Ints
    end_ns: Ints
    wait_ns: Ints
    group: list[str]
    kind: list[str]
    bytes: Ints

    @property
    def transfer_ns(self) -> Ints:
        """Duration of each transfer."""
        return self.end_ns - self.arrival_ns - self.wait_ns

    def last(self) -> Ints:
        """Return for each number the row of the last rank to arrive: the one that waited least."""
        order = np.lexsort((np.arange(len(self.number)), self.wait_ns, self.number))
        return order[np.searchsorted(self.number[order], np.arange(len(self.group)))]


def meetings(traces: Sequence[Trace], times: Sequence[Times]) -> Meetings:
    """Find which collectives and messages of all ranks belong together.

    Collectives of a group, of a kind and a size keep their order, and so do messages of two ranks with a tag.
    A rank whose peers are not there, or not known, waited as long as its trace says.

    Examples
    --------
    >>> from astranb.chakra import Node, Trace, job_times
    >>> more = {"comm_type": 0, "comm_size": 8}
    >>> ranks = [
    ...     Trace.of([Node(0, "sum", 7, start_us=start, duration_us=9 - start, attributes=more)])
    ...     for start in (2, 6)
    ... ]
    >>> found = meetings(ranks, job_times(ranks))
    >>> found.wait_ns.tolist(), found.transfer_ns.tolist()
    ([4000, 0], [3000, 3000])
    """
    numbers: dict[tuple[object, ...], int] = {}
    counted: dict[tuple[object, ...], int] = {}
    rows: list[tuple[int, int, int]] = []
    group: list[str] = []
    kind: list[str] = []
    size: list[int] = []
    for rank, (trace, when) in enumerate(zip(traces, times, strict=True)):
        counted.clear()
        messages = (trace.type >= NodeType.COMM_SEND) & (trace.type <= NodeType.COMM_COLL)
        some = np.flatnonzero(messages & (when.start_ns >= 0))
        some = some[np.argsort(when.start_ns[some], kind="stable")]
        names = [trace.pg_name[row] or "" for row in some.tolist()]
        sizes = trace.comm_size[some].tolist()
        every = zip(some.tolist(), _keys(trace, some, names, rank), names, sizes, strict=True)
        for row, key, name, given in every:
            place = counted[key] = counted.get(key, -1) + 1
            is_new = len(numbers)
            number = numbers.setdefault((*key, place), is_new)
            if number == is_new:
                group.append(name)
                kind.append(str(key[0]))
                size.append(-1)
            size[number] = max(size[number], given)
            rows.append((number, rank, row))
    number_, rank_, row_ = np.array(rows, np.int64).reshape(-1, 3).T
    start, own, end = (np.zeros(len(rows), np.int64) for _ in range(3))
    for one, when in enumerate(times):
        mine = rank_ == one
        start[mine], end[mine] = when.start_ns[row_[mine]], when.end_ns[row_[mine]]
        own[mine] = when.own_ns[row_[mine]]
    shortest = np.full(len(group), np.iinfo(np.int64).max)
    np.minimum.at(shortest, number_, end - start)
    several = np.bincount(number_, minlength=len(group)) > 1
    wait = np.where(several[number_], end - start - shortest[number_], own - start)
    return Meetings(number_, rank_, row_, start, end, wait, group, kind, np.array(size, np.int64))


def _keys(trace: Trace, some: Ints, names: Sequence[str], rank: int) -> Iterator[tuple[object, ...]]:
    """Yield for each node a key that nodes which meet share, besides their order."""
    columns = (
        *(trace.type, trace.comm_type, trace.comm_src, trace.comm_dst, trace.comm_tag, trace.comm_size),
        trace.keeps_duration,
    )
    every = zip(names, *(column[some].tolist() for column in columns), strict=True)
    for group, kind, which, source, to, tag, size, kept in every:
        if kind == NodeType.COMM_COLL:
            known = 0 <= which < len(_NAMES)
            word = _NAMES[which] if known else "unknown" if which < 0 else f"collective {which}"
            yield (word, group, -1 if which in _UNEVEN else size, rank if kept else -1)
        else:  # a node need not give its own rank
            receives = kind == NodeType.COMM_RECV
            ends = source if receives else rank, rank if receives else to
            yield ("message", *ends, tag, (rank, kind) if kept else -1)


def times_with_waits(times: Sequence[Times], found: Meetings) -> list[Times]:
    """Return the times, with the waits for other ranks that were found."""
    better = []
    for rank, when in enumerate(times):
        mine = found.rank == rank
        ready = np.array(when.own_ns)
        ready[found.row[mine]] = found.arrival_ns[mine] + found.wait_ns[mine]
        better.append(when._replace(ready_ns=ready))
    return better


def members_of(name: str, groups: Mapping[str, Sequence[int]], seen: Sequence[int], ranks: int) -> list[int]:
    """The ranks of a group: as declared, else those that used it."""
    if name in groups:
        return sorted(groups[name]) or list(range(ranks))
    return list(range(ranks)) if name in ("", "0") else sorted(set(seen))


def dimension_of(members: Sequence[int], ranks: int) -> str:
    """Describe the dimension of a job along which a group's ranks lie: their number, and their distance.

    Examples
    --------
    >>> dimension_of([0, 1], 8), dimension_of([1, 3, 5, 7], 8), dimension_of([0, 1, 5], 8)
    ('2 x stride 1', '4 x stride 2', '3 ranks')
    """
    if len(members) == ranks:
        return f"all {ranks}"
    steps = {after - before for before, after in pairwise(members)}
    return f"{len(members)} x stride {steps.pop()}" if len(steps) == 1 else f"{len(members)} ranks"
