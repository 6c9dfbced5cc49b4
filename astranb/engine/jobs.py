"""Several jobs on one network: when each began and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astranb.workload.astrasim2 import PlacedJob

from .protocol import Rows

__all__ = ["job_rows"]


def job_rows(jobs: Sequence[PlacedJob], per_rank: Sequence[Mapping[str, Any]]) -> Rows:
    """Return a row for each job.

    Parameters
    ----------
    jobs : sequence of PlacedJob
    per_rank : sequence of mapping
        Of an engine: a row a rank, with ``end_ps`` and ``done``.

    Returns
    -------
    list of dict
        Until a job has ended, ``end_ps`` and ``duration_ps`` are -1.
    """
    rows = []
    for one in jobs:
        mine = [per_rank[rank] for rank in one.ranks]
        done = all(row["done"] for row in mine)
        end_ps = max(row["end_ps"] for row in mine) if done else -1
        rows.append(
            {
                "job": one.name, "ranks": len(one.ranks), "gpus": one.gpus, "background": one.background,
                "start_ps": one.start_ps, "end_ps": end_ps,
                "duration_ps": end_ps - one.start_ps if done else -1, "done": done,
            }
        )  # fmt: skip
    return rows
