"""Modules that a program repeats, as layers: found, and written out another number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

__all__ = ["RepeatedModules", "commonest_repeats"]

_LONGEST: Final = 64  # nodes of a repeated module


class _Segment(NamedTuple):
    start: int
    period: int
    repeats: int


@dataclass
class RepeatedModules:
    """A sequence of nodes as modules that are repeated at once.

    Attributes
    ----------
    parents : sequence of tuple of int
        What each node waits for.
    segments : list of (int, int, int)
        Where a module begins, its nodes, and how often it is repeated.
    is_module : list of bool
        Which of them are written out another number of times.
    """

    parents: Sequence[tuple[int, ...]]
    segments: list[_Segment]
    is_module: list[bool]

    @classmethod
    def of(cls, letters: np.ndarray, parents: Sequence[tuple[int, ...]]) -> RepeatedModules:
        """Find modules: stretches of nodes whose letters are repeated."""
        segments = _segments(letters)
        return cls(parents, segments, [one.repeats > 1 for one in segments])

    def keep(self, layers: int) -> None:
        """Count as modules only those that are repeated about as often as there are layers."""
        self.is_module = [
            is_module and abs(segment.repeats - layers) <= 1
            for segment, is_module in zip(self.segments, self.is_module, strict=True)
        ]

    def expanded(self, more: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Repeat modules so many times more, and lead dependencies to the same places in them.

        Gives for each node the one that it is like, and what it waits for.
        """
        old = self.segments
        counts = [
            max(2, one.repeats + more) if is_module else one.repeats
            for one, is_module in zip(old, self.is_module, strict=True)
        ]
        starts = np.concatenate(
            [[0], np.cumsum([one.period * count for one, count in zip(old, counts, strict=True)])]
        )
        where = [
            (number, repeat, position)
            for number, one in enumerate(old)
            for repeat in range(one.repeats)
            for position in range(one.period)
        ]
        for number, (one, count) in enumerate(zip(old, counts, strict=True)):
            kept = min(one.repeats, count)
            head = kept - kept // 2
            for repeat in range(count):
                if repeat < head:
                    like = repeat
                elif repeat >= count - (kept - head):
                    like = one.repeats - (count - repeat)
                else:
                    like = head - 1
                for position in range(one.period):
                    row = one.start + like * one.period + position
                    near = [
                        (way, self.parents[row + way * one.period])
                        for way in (1, -1)
                        if 0 <= like + way < one.repeats
                    ]
                    made = _led(self.parents[row], near, old, counts, starts, where, (number, like, repeat))
                    before = int(starts[number]) + repeat * one.period + position
                    yield row, tuple(sorted(parent for parent in made if 0 <= parent < before))


def commonest_repeats(stages: Iterable[RepeatedModules]) -> int:
    """Return how often the module is repeated that has most nodes in some sequences; 0: none is."""
    covered: Counter[int] = Counter()
    for one in stages:
        for segment, is_module in zip(one.segments, one.is_module, strict=True):
            if is_module:
                covered[segment.repeats] += segment.repeats * segment.period
    return max(covered, key=lambda count: (covered[count], count)) if covered else 0


def _segments(letters: np.ndarray) -> list[_Segment]:
    """Divide a sequence into modules that are repeated at once, the longest stretch first."""
    count = len(letters)
    runs = np.zeros((_LONGEST + 1, count), np.int64)
    for period in range(1, min(_LONGEST, count // 2) + 1):
        same = letters[:-period] == letters[period:]
        ends = np.concatenate([np.flatnonzero(~same), [len(same)]])
        places = np.arange(len(same))
        runs[period, : len(same)] = ends[np.searchsorted(ends, places)] - places
    found, at = [], 0
    while at < count:
        best = _Segment(at, 1, 1)
        for period in (1 + np.flatnonzero(runs[1:, at] >= np.arange(1, _LONGEST + 1))).tolist():
            repeats = int(runs[period, at]) // period + 1
            if repeats > 1 and repeats * period > best.repeats * best.period:
                best = _Segment(at, period, repeats)
        found.append(best)
        at += best.period * best.repeats
    return found


def _led(
    parents: tuple[int, ...],
    near: Sequence[tuple[int, tuple[int, ...]]],
    old: list[_Segment],
    counts: list[int],
    starts: np.ndarray,
    where: list[tuple[int, int, int]],
    place: tuple[int, int, int],
) -> set[int]:
    number, like, repeat = place

    def _step(index: int, segment: int, position: int) -> int:
        """Return whether a repetition waits for the one beside it, in the same (1) or opposite order (-1)."""
        for way, others in near:
            nodes = [where[one] for one in others]
            found = [one - index for at, one, place in nodes if (at, place) == (segment, position)]
            if found in ([way], [-way]):
                return found[0] * way
        return 0

    by_node: dict[tuple[int, int], list[int]] = {}
    for parent in parents:
        segment, index, position = where[parent]
        by_node.setdefault((segment, position), []).append(index)
    made: set[int] = set()
    for (segment, position), indexes in by_node.items():
        was, now, period = old[segment].repeats, counts[segment], old[segment].period
        if segment == number:
            shifted = [repeat - (like - index) for index in indexes]
        elif was > 1 and len(indexes) == was:
            shifted = list(range(now))
        elif counts[number] > 1 and len(indexes) == 1 and (step := _step(indexes[0], segment, position)):
            # The repetitions before or behind say whether those of both modules go the same way.
            offset = indexes[0] - like if step > 0 else indexes[0] - (was - 1 - like)
            shifted = [repeat + offset if step > 0 else now - 1 - repeat + offset]
        elif counts[number] > 1 and indexes == [was - 1 - like]:
            shifted = [now - 1 - repeat]
        elif counts[number] > 1 and indexes == [like]:
            shifted = [repeat]
        else:
            shifted = [index if 2 * index < was - 1 else now - (was - index) for index in indexes]
        made.update(int(starts[segment]) + one * period + position for one in shifted if 0 <= one < now)
    return made
