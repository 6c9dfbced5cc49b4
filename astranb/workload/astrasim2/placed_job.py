"""Placement of several jobs: what a run knows of them beside their operations."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PlacedJob"]


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
