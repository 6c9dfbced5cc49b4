"""The system layer of ASTRA-sim 1.0 as its text describes it: splits, algorithms, schedules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from astranb.core.errors import InputError

__all__ = ["ALGORITHMS", "BETWEEN", "WITHIN", "Algorithm", "System"]

ALGORITHMS: Final = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
WITHIN: Final[Mapping[str, int]] = {
    "FIFO": 0,
    "RG": 1,
    "SCF": 2,
    "smallestFirst": 2,
    "lessRemainingPhaseFirst": 3,
}
"""Orders of the chunks that wait for one dimension (``intra-dimension-scheduling``)."""

BETWEEN: Final[Mapping[str, str]] = {
    "baseline": "ascending",
    "ascending": "ascending",
    "roundRobin": "roundRobin",
    "themis": "themis",
    "offlineGreedy": "themis",
    "themisFlex": "themisFlex",
    "offlineGreedyFlex": "themisFlex",
}
"""Orders of the dimensions that a chunk goes through (``inter-dimension-scheduling``)."""


class Algorithm(NamedTuple):
    """What a collective does in one dimension.

    Parameters
    ----------
    name : str
        One of :data:`ALGORITHMS`.
    window : int
        Messages at once of ``direct``; -1 for all.
    whole : bool
        All NPUs as one dimension (``oneRing`` …); what follows it means nothing.
    """

    name: str
    window: int = -1
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> Algorithm:
        """Read one as a system file names it.

        Raises
        ------
        ValueError
            It is none.

        Examples
        --------
        >>> Algorithm.parse("oneDirect4")
        Algorithm(name='direct', window=4, whole=True)
        """
        for name in ALGORITHMS:
            for whole, word in ((False, name), (True, f"one{name[0].upper()}{name[1:]}")):
                if whole and name == "doubleBinaryTree":
                    continue
                if text == word:
                    return cls(name, -1, whole)
                if name == "direct" and (found := re.fullmatch(rf"{word}([1-9]\d{{0,5}})", text)):
                    return cls(name, int(found[1]), whole)
        raise ValueError(text)


def _rings() -> dict[str, tuple[Algorithm, ...]]:
    """Nothing: a file names the algorithms of what it uses."""
    return {}


@dataclass(frozen=True)
class System:
    """The system layer.

    Parameters
    ----------
    algorithms : mapping of str to tuple of Algorithm
        For ``all-reduce``, ``all-gather``, ``reduce-scatter`` and ``all-to-all``, one a dimension.
    splits : int
        Chunks of a collective.
    lifo : bool
        Whether what is issued last goes first.
    endpoint_ns : int
        What an endpoint takes to hand a message over.
    active_chunks : int
        Chunks under way in one dimension.
    baseline : bool
        An all-reduce in each dimension, instead of scattering and gathering.
    within, between : str
        Orders inside a dimension and of the dimensions: :data:`WITHIN`, :data:`BETWEEN`.
    gap_denominator : int
        Themis keeps to the usual order where loads differ by less than a chunk over this.
    queues : int
        Queues of one dimension.
    boost : bool
        ASTRA-sim 1.0 then simulates only the NPUs that share a dimension with NPU 0. Here it only
        tells whose turn it is where phases of several dimensions end at one instant.
    where : str
        The file's name, for messages.
    """

    algorithms: Mapping[str, tuple[Algorithm, ...]] = field(default_factory=_rings)
    splits: int = 1
    lifo: bool = True
    endpoint_ns: int = 10
    active_chunks: int = 1
    baseline: bool = False
    within: str = "FIFO"
    between: str = "ascending"
    gap_denominator: int = 16
    queues: int = 1
    boost: bool = False
    where: str = "system"

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, low in (
            ("splits", 1),
            ("endpoint_ns", 0),
            ("active_chunks", 1),
            ("gap_denominator", 1),
            ("queues", 1),
        ):
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} is {getattr(self, name)}", where=self.where, hint=f"take {low} or more"
                )
