"""Stages of a pipeline with another number of stages: the same layers divided anew, in the order of 1F1B.

A stage is a head, passes and a tail. Passes are found between messages to the stages beside. With more
stages one passes more microbatches forward before the first comes back, and has fewer layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError

from .repeated_modules import RepeatedModules, commonest_repeats

__all__ = ["StageProgramRows", "StageRow", "layers_of", "restaged", "warm_up"]

_PREVIOUS: Final = 0
_NEXT: Final = 1


class StageRow(NamedTuple):
    """A node of a stage, in the order of the program.

    Attributes
    ----------
    letter : hashable
        Nodes with the same one do the same.
    computes : bool
        Whether it is a computation.
    queue : str
        Nodes of one queue run one after another: computations, communication, background communication,
        receives.
    sends, receives : int
        The stage beside, 0 for the previous and 1 for the next one; -1 for none.
    parents : tuple of int
    """

    letter: object
    computes: bool
    queue: str
    sends: int
    receives: int
    parents: tuple[int, ...]


class _PlacedRow(NamedTuple):
    """A node of a stage with more or fewer layers: the one that it is like, and what it waits for."""

    row: int
    parents: tuple[int, ...]


@dataclass(frozen=True)
class StageProgramRows:
    """The nodes of a stage in another pipeline.

    Attributes
    ----------
    rows : list of int
        The node of the traced stage that each is like.
    parents : list of tuple of int
        What each waits for.
    micro : list of int
        The microbatch of each message; -1 for others.
    """

    rows: list[int]
    parents: list[tuple[int, ...]]
    micro: list[int]


def warm_up(stage: int, stages: int, microbatches: int) -> int:
    """Return how many microbatches a stage passes forward before one comes back (1F1B, arXiv 2104.04473).

    Examples
    --------
    >>> [warm_up(stage, 4, 2) for stage in range(4)]
    [2, 2, 1, 0]
    """
    return min(stages - stage - 1, microbatches)


def layers_of(programs: Sequence[Sequence[StageRow]]) -> int:
    """Find how many layers each of some stages has; 0 where they are not all found in each."""
    found = [_modules(rows) for rows in programs]
    layers = commonest_repeats(found)
    each = (_is_whole(rows, one, layers) for rows, one in zip(programs, found, strict=True))
    return layers if all(each) else 0


def _is_whole(rows: Sequence[StageRow], modules: RepeatedModules, layers: int) -> bool:
    """Return whether layers compute only in modules, which are all repeated equally often."""
    inside: set[object] = set()
    outside: set[object] = set()
    for start, period, repeats in modules.segments:
        letters = {rows[row].letter for row in range(start, start + period) if rows[row].computes}
        (inside if repeats == layers else outside).update(letters)
    return bool(inside) and not inside & outside


def _modules(rows: Sequence[StageRow]) -> RepeatedModules:
    """Find what a stage repeats; messages between stages are in no layer."""
    numbers: dict[object, int] = {}
    letters = np.array([numbers.setdefault(one.letter, len(numbers)) for one in rows], np.int64)
    crosses = np.array([one.sends >= 0 or one.receives >= 0 for one in rows], bool)
    letters = np.where(crosses, -1 - np.arange(len(rows)), letters)
    return RepeatedModules.of(letters, [one.parents for one in rows])


def restaged(
    rows: Sequence[StageRow], layers: int, more: int, stage: tuple[int, int], to: tuple[int, int]
) -> StageProgramRows:
    """Write a stage for another pipeline.

    Parameters
    ----------
    rows : sequence of StageRow
    layers, more : int
        Its layers, and how many it has more.
    stage, to : tuple of int
        The number of the stage, and of stages; as traced, and as wanted.

    Raises
    ------
    InputError
        Its passes are not in the order of 1F1B.
    """
    modules = _modules(rows)
    modules.keep(layers)
    placed = [_PlacedRow(*one) for one in modules.expanded(more)] if more else [
        _PlacedRow(row, one.parents) for row, one in enumerate(rows)
    ]  # fmt: skip
    units = _Units([rows[one.row] for one in placed], *stage)
    order = units.ordered(*to)
    return StageProgramRows(
        [placed[old].row for old in order],
        list(_led([rows[one.row] for one in placed], [one.parents for one in placed], order, units.unit)),
        [units.micro.get(old, -1) for old in order],
    )


class _Units:
    """The passes of a stage: where each begins and ends."""

    def __init__(self, rows: Sequence[StageRow], stage: int, stages: int) -> None:
        self._count = len(rows)
        self.micro: dict[int, int] = {}
        first, last = stage == 0, stage == stages - 1
        entered = [row for row, one in enumerate(rows) if one.receives == _PREVIOUS]
        left = [row for row, one in enumerate(rows) if one.sends == _NEXT]
        returned = [row for row, one in enumerate(rows) if one.receives == _NEXT]
        given = [row for row, one in enumerate(rows) if one.sends == _PREVIOUS]
        for some in (entered, left, returned, given):
            self.micro |= {row: number for number, row in enumerate(some)}
        counts = {len(entered)} if not first else set()
        counts |= {len(left), len(returned)} if not last else set()
        counts |= {len(given)} if not first else set()
        if len(counts) != 1:
            self._refuse(stage)
        self.microbatches = counts.pop()
        self._last = last
        begins = sorted([*entered, *returned])
        if first:
            begins = sorted([*returned, *self._forward_begins(rows, left)])
        # The tail begins behind the last pass; of the first stage it is in it, which is the last anyway.
        self._begins = begins
        self._tail = self._count if first else given[-1] + 1
        ahead = warm_up(stage, stages, self.microbatches)
        expected = list(_passes(ahead, self.microbatches, together=last))
        kinds = dict.fromkeys(entered, True) | dict.fromkeys(returned, False)
        is_forward = [kinds.get(row, True) for row in begins]
        if len(begins) != len(expected) or is_forward != [one for one, _ in expected]:
            self._refuse(stage)
        ends = [*begins[1:], self._tail]
        self._of = {one: range(begin, end) for one, begin, end in zip(expected, begins, ends, strict=True)}
        inside = [(left, True), *([(given, last)] if not first else [])]
        if any(
            row not in self._of[way, number] for rows_of, way in inside for number, row in enumerate(rows_of)
        ):
            self._refuse(stage)
        self.unit = np.searchsorted(begins, np.arange(self._count), side="right").tolist()
        for row in range(self._tail, self._count):
            self.unit[row] = len(begins) + 1

    @staticmethod
    def _refuse(stage: int) -> None:
        what = f"passes of stage {stage} are not in the order of 1F1B, a message each way"
        raise InputError(what, where="pipeline", hint="keep the number of stages")

    def _forward_begins(self, rows: Sequence[StageRow], left: Sequence[int]) -> Iterator[int]:
        """Find where forward passes of the first stage begin, which nothing is received for."""
        if len(left) == 1:
            yield 0
            return
        letters = [one.letter for one in rows]
        length = 1
        # All forward passes do the same: as far as the first two agree, backwards from their ends.
        while (
            length <= left[0]
            and left[1] - length > left[0]
            and letters[left[0] - length] == letters[left[1] - length]
        ):
            length += 1
        for end in left:
            if letters[end - length + 1 : end] != letters[left[0] - length + 1 : left[0]]:
                self._refuse(0)
            yield end - length + 1

    def ordered(self, stage: int, stages: int) -> list[int]:
        """Return the nodes in the order of a stage of another pipeline."""
        order = list(range(self._begins[0]))
        ahead = warm_up(stage, stages, self.microbatches)
        for one in _passes(ahead, self.microbatches, together=self._last):
            order += self._of[one]
        return order + list(range(self._tail, self._count))


def _passes(ahead: int, microbatches: int, *, together: bool) -> Iterator[tuple[bool, int]]:
    """Yield the passes in order: whether forward, and the microbatch; of the last stage both are one."""
    for number in range(ahead):
        yield True, number
    for number in range(microbatches):
        if number + ahead < microbatches:
            yield True, number + ahead
        if not together:
            yield False, number


def _led(
    rows: Sequence[StageRow],
    parents: Sequence[tuple[int, ...]],
    order: Sequence[int],
    unit: Sequence[int],
) -> Iterator[tuple[int, ...]]:
    """Lead dependencies: on the last node of a queue to the one that is the last now, others along.

    What a node waits for in its own pass moves with it.
    """
    place = {old: new for new, old in enumerate(order)}
    queues = sorted({one.queue for one in rows})
    before_old = {name: _last_of(rows, range(len(rows)), name) for name in queues}
    before_new = {name: _last_of(rows, order, name) for name in queues}
    for new, old in enumerate(order):
        found = set()
        for parent in parents[old]:
            queue = rows[parent].queue
            if unit[parent] == unit[old]:
                found.add(place[parent])
            elif before_old[queue][old] == parent:
                if (last := before_new[queue][new]) >= 0:
                    found.add(place[last])
            elif place[parent] < new:
                found.add(place[parent])
            else:
                what = "a node waits for a pass that comes later with another number of stages"
                raise InputError(what, where="pipeline", hint="keep the number of stages")
        yield tuple(sorted(found))


def _last_of(rows: Sequence[StageRow], order: Sequence[int], queue: str) -> list[int]:
    """Return for each position in an order the last node of a queue before it, -1 for none."""
    found, last = [], -1
    for row in order:
        found.append(last)
        if rows[row].queue == queue:
            last = row
    return found
