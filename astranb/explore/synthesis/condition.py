"""Collectives described by what ranks have before and need after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from astranb.collectives import COLLECTIVES
from astranb.core.errors import InputError, near

from .network import RankNetwork

__all__ = ["SYNTHESIZED", "Condition", "condition_of"]

SYNTHESIZED = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send_recv",
)
"""The collectives that are conditions on chunks."""

_REDUCING = ("all_reduce", "reduce_scatter", "reduce")


@dataclass(frozen=True)
class Condition:
    """Condition of a collective: the chunks that each rank has before, and those that it needs after.

    A chunk is a number from 0. In the memory of a rank, chunks lie in the order of their numbers: those
    of ``before`` in its input, those of ``after`` in its output.

    Parameters
    ----------
    before, after : mapping of int to iterable of int
        The chunks of each rank; ranks that are missing have none.
    reduces : bool
        Whether ranks that have the same chunk before have different contributions to it, whose sum is
        needed. Otherwise they have the same.
    name : str
        The collective that it is.

    Examples
    --------
    Rank 0 has two chunks; ranks 1 and 2 need one of them each:

    >>> scattered = Condition(before={0: [0, 1]}, after={1: [0], 2: [1]})
    >>> scattered.chunks
    2
    """

    before: Mapping[int, Iterable[int]]
    after: Mapping[int, Iterable[int]]
    reduces: bool = False
    name: str = "custom"

    def __post_init__(self) -> None:
        """Sort the chunks, and refuse what no collective can be."""
        for side in ("before", "after"):
            listed = {}
            for rank, chunks in getattr(self, side).items():
                numbers = sorted(set(chunks))
                wrong = [
                    c for c in (rank, *numbers) if isinstance(c, bool) or not isinstance(c, int) or c < 0
                ]
                if wrong:
                    raise self._error(f"{wrong[0]!r:.40} in {side} is no number from 0")
                if numbers:
                    listed[rank] = tuple(numbers)
            object.__setattr__(self, side, dict(sorted(listed.items())))
        if not self.after:
            raise self._error("no rank needs a chunk", "give after={rank: chunks}")
        had = {chunk for chunks in self.before.values() for chunk in chunks}
        for rank, chunks in self.after.items():
            for chunk in chunks:
                if chunk not in had:
                    raise self._error(f"rank {rank} needs chunk {chunk}, which no rank has")

    @cached_property
    def chunks(self) -> int:
        """Number of chunks, including those that no rank needs."""
        return 1 + max(chunk for chunks in self.before.values() for chunk in chunks)

    @property
    def most(self) -> int:
        """Chunks of the largest buffer of a rank."""
        return max(len(tuple(c)) for side in (self.before, self.after) for c in side.values())

    def matrix(self, side: str, ranks: int) -> np.ndarray:
        """Return which rank has (``before``) or needs (``after``) which chunk: bool, (ranks, chunks)."""
        found = np.zeros((ranks, self.chunks), bool)
        for rank, chunks in getattr(self, side).items():
            if rank >= ranks:
                raise self._error(f"rank {rank} does not exist", f"ranks are 0 to {ranks - 1}")
            found[rank, list(chunks)] = True
        return found

    @cached_property
    def owners(self) -> dict[int, int]:
        """The rank at which the contributions to each chunk are added: one of those that need it."""
        needed: dict[int, list[int]] = {}
        for rank, chunks in self.after.items():
            for chunk in chunks:
                needed.setdefault(chunk, []).append(rank)
        return {chunk: ranks[chunk % len(ranks)] for chunk, ranks in sorted(needed.items())}

    @cached_property
    def inputs(self) -> dict[tuple[int, int], int]:
        """Position of a chunk in the input of a rank, by rank and chunk."""
        return _places(self.before)

    @cached_property
    def outputs(self) -> dict[tuple[int, int], int]:
        """Required position of a chunk in the output of a rank, by rank and chunk."""
        return _places(self.after)

    def require_met(self, network: RankNetwork) -> None:
        """Check that each rank can get what it needs in a network; the error names the parts."""
        held, needed = self.matrix("before", network.ranks), self.matrix("after", network.ranks)
        parts = network.parts()
        if len(parts) == 1:
            return
        reached = network.times_ps(0, latency_only=True) < 2**61
        reaches = (held.T.astype(np.int64) @ reached.astype(np.int64)).T > 0
        missing = needed & ~reaches
        if self.reduces:  # every contribution has to come
            unheard = held.astype(np.int64).T @ (~reached).astype(np.int64)
            missing |= needed & (unheard.T > 0)
        if not missing.any():
            return
        rank, chunk = (int(place) for place in np.argwhere(missing)[0])
        shown = [_ranks(part) for part in parts[:4]] + (["…"] if len(parts) > 4 else [])
        raise InputError(
            f"rank {rank} cannot get chunk {chunk}: the ranks are in {len(parts)} parts that do not reach "
            f"each other both ways: {', '.join(shown)}",
            where=f"infrastructure {network.title!r}",
            hint="add a link or a switch that joins them",
        )

    def _error(self, what: str, hint: str = "") -> InputError:
        return InputError(what, where=f"condition {self.name!r}", hint=hint)


def condition_of(collective: str, ranks: int, root: int = 0) -> Condition:
    """Return what a collective means as a condition on chunks.

    Parameters
    ----------
    collective : str
    ranks : int
    root : int

    Raises
    ------
    InputError
        The collective moves no chunks, or there is no such rank.

    Examples
    --------
    >>> condition_of("all_gather", 2).after
    {0: (0, 1), 1: (0, 1)}
    """
    if collective not in SYNTHESIZED:
        raise InputError(
            f"no algorithm can be synthesised for {collective!r}", where="collective",
            hint=near(collective, SYNTHESIZED),
        )  # fmt: skip
    if not 0 <= root < ranks:
        raise InputError(f"root {root} is not a rank", where="root", hint=f"ranks are 0 to {ranks - 1}")
    everyone = range(ranks)
    inputs = COLLECTIVES[collective].input_chunks(ranks)
    whole = range(inputs)
    before: dict[int, Iterable[int]]
    after: dict[int, Iterable[int]]
    if collective == "all_to_all":
        before = {r: range(r * ranks, (r + 1) * ranks) for r in everyone}
        after = {r: range(r, ranks * ranks, ranks) for r in everyone}
    elif collective in ("all_gather", "gather", "send_recv"):
        before = {r: [r] for r in everyone}
        after = {
            "all_gather": dict.fromkeys(everyone, everyone),
            "gather": {root: everyone},
            "send_recv": {(r + 1) % ranks: [r] for r in everyone},
        }[collective]  # type: ignore[assignment]  # of three kinds of iterables
    elif collective in _REDUCING:
        before = dict.fromkeys(everyone, whole)
        after = {
            "all_reduce": dict.fromkeys(everyone, whole),
            "reduce_scatter": {r: [r] for r in everyone},
            "reduce": {root: whole},
        }[collective]  # type: ignore[assignment]
    else:
        before = {root: whole}
        after = dict.fromkeys(everyone, whole) if collective == "broadcast" else {r: [r] for r in everyone}
    return Condition(before, after, collective in _REDUCING, collective)


def _places(side: Mapping[int, Iterable[int]]) -> dict[tuple[int, int], int]:
    return {(rank, chunk): place for rank, chunks in side.items() for place, chunk in enumerate(chunks)}


def _ranks(part: list[int]) -> str:
    """Write ranks as few ranges: ``ranks 0 to 3, 8``."""
    runs: list[list[int]] = []
    for rank in part:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:4]] + (["…"] if len(runs) > 4 else [])
    return f"ranks {', '.join(texts)}" if len(part) > 1 else f"rank {part[0]}"
