"""The critical path of a job by its recorded times: from the last end back to the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from astranb.chakra.traces import Ints, Trace

from .activity import ACTIVITIES, RankTime
from .meetings import Meetings
from .timeline import Times

__all__ = ["RecordedPath", "recorded_path"]


class RecordedPath(NamedTuple):
    """Segments of the critical path, from the last back to the first; they follow each other without a gap.

    Attributes
    ----------
    rank, row : array of int64
        The node of each; of a gap the one that began after it.
    activity : array of int64
        As an index into :data:`ACTIVITIES`; -1 for a gap, in which nothing that it waited for ran, -2 for
        the time before a rank began.
    from_ns, to_ns : array of int64
    """

    rank: Ints
    row: Ints
    activity: Ints
    from_ns: Ints
    to_ns: Ints

    @property
    def length_ns(self) -> int:
        """The time from the first start to the last end of the job."""
        return int((self.to_ns - self.from_ns).sum())

    def shares(self) -> dict[str, int]:
        """Return the time in ns of each activity on it, of gaps, and before a rank began."""
        took = self.to_ns - self.from_ns
        names = dict(enumerate(ACTIVITIES)) | {-1: "gap", -2: "late start"}
        return {name: int(took[self.activity == number].sum()) for number, name in names.items()}


def recorded_path(
    traces: Sequence[Trace], times: Sequence[Times], spent: Sequence[RankTime], found: Meetings
) -> RecordedPath:
    """Find the critical path: what ended last, what it waited for that ended last, and so on.

    A collective or message leads to the rank that came last to it, so that a wait for others is what they
    did meanwhile.

    Parameters
    ----------
    traces, times, spent : sequence
        Of all ranks; the times with their waits.
    found : Meetings
    """
    last = found.last()
    meets = dict(
        zip(zip(found.rank.tolist(), found.row.tolist(), strict=True), found.number.tolist(), strict=True)
    )
    lists = [(one.present_parents.offset.tolist(), one.present_parents.flat.tolist()) for one in traces]
    starts, owns, ends, acts = (
        [column.tolist() for column in columns]
        for columns in (
            [one.start_ns for one in times],
            [one.own_ns for one in times],
            [one.end_ns for one in times],
            [one.activity for one in spent],
        )
    )
    segments: list[tuple[int, int, int, int, int]] = []
    rank, row, now = -1, -1, 0
    for one, end in enumerate(ends):
        for at, when in enumerate(end):
            if when > now:
                rank, row, now = one, at, when
    seen: set[tuple[int, int]] = set()
    while rank >= 0 and now > 0 and (rank, row) not in seen:
        seen.add((rank, row))
        begun = min(owns[rank][row], now)
        number = meets.get((rank, row))
        if number is not None and found.rank[last[number]] != rank:
            # The transfer; before it, what the last rank to arrive did.
            segments.append((rank, row, acts[rank][row], begun, now))
            rank, row, now = int(found.rank[last[number]]), int(found.row[last[number]]), begun
            begun = min(starts[rank][row], now)
        segments.append((rank, row, acts[rank][row], begun, now))
        now = begun
        offset, flat = lists[rank]
        parents = [one for one in flat[offset[row] : offset[row + 1]] if ends[rank][one] >= 0]
        before = max(parents, key=lambda one: ends[rank][one], default=-1)
        when = min(ends[rank][before], now) if before >= 0 else 0
        segments.append((rank, row, -1, when, now))
        row, now = before, when
        if row < 0:
            break
    if now > 0 and segments:
        segments.append((segments[-1][0], segments[-1][1], -1, 0, now))
    kept = np.array([one for one in segments if one[4] > one[3]], np.int64).reshape(-1, 5)
    return RecordedPath(*kept.T)
