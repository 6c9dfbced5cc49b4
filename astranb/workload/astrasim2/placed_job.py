"""Placement of several jobs: what a run knows of them beside their operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from astranb.core.rules import require

__all__ = ["PlacedJob", "read_placed_jobs", "saved_placed_jobs"]

_MOST_PS = 1 << 62


@dataclass(frozen=True)
class PlacedJob:
    """One of several jobs on one network.

    Attributes
    ----------
    name : str
        The names of its operations begin with it.
    ranks : tuple of int
        The ranks that it has, in its own order.
    start_ps : int
        When it begins.
    background : bool
        Whether it is traffic that nobody waits for.

    Examples
    --------
    >>> PlacedJob("b", (0, 1, 2, 8)).gpus
    '0-2,8'
    """

    name: str
    ranks: tuple[int, ...]
    start_ps: int = 0
    background: bool = False

    @property
    def gpus(self) -> str:
        """Its ranks in words, neighbouring ones together."""
        found: list[list[int]] = []
        for rank in self.ranks:
            if found and rank == found[-1][1] + 1:
                found[-1][1] = rank
            else:
                found.append([rank, rank])
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def saved_placed_jobs(jobs: Sequence[PlacedJob]) -> list[dict[str, Any]]:
    """Return jobs as a document of a saved run."""
    return [{**asdict(one), "ranks": list(one.ranks)} for one in jobs]


def read_placed_jobs(document: Any, ranks: int) -> tuple[PlacedJob, ...]:
    """Read what :func:`saved_placed_jobs` gave.

    Parameters
    ----------
    document : list of dict
    ranks : int
        Of the run.

    Raises
    ------
    TypeError
        It is no list of jobs.
    InputError
        A rank does not exist or has two jobs, or a time is out of range.
    """
    jobs = tuple(PlacedJob(**{**one, "ranks": tuple(one["ranks"])}) for one in document)
    every = [rank for one in jobs for rank in one.ranks]
    require(all(type(rank) is int and 0 <= rank < ranks for rank in every), "jobs.ranks")
    require(len(set(every)) == len(every), "jobs.ranks")
    for one in jobs:
        require(type(one.name) is str and type(one.background) is bool, "jobs.name")
        require(type(one.start_ps) is int and 0 <= one.start_ps < _MOST_PS, "jobs.start_ps")
    return jobs
