"""A workload's grammar in another number of pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from astranb.chakra._schema import NodeType

from .outline import Letter, Outline, Stage, agree, stage_of

__all__ = ["with_stages"]


def with_stages(outline: Outline, count: int) -> Outline | None:
    """Give the grammar of a pipeline of so many stages, or None where this one does not say it.

    The first stage stays the first, and the last one the last. A stage between them is that which is as
    far from the last one, or the second one. Passes are put into the order of the schedule at the new
    place: forward passes until the first one can be back, then one backward and one forward.

    Parameters
    ----------
    outline : Outline
    count : int
        Stages.
    """
    old = len(outline.stages)
    if count == old:
        return outline
    if not outline.divided or count < 2 or old < min(count, 3):
        return None
    letters: dict[Letter, int] = {}
    stages = []
    for own in range(count):
        like = old - min(count - own, old - 1) if own else 0
        found = outline.stages[like]
        moved = {at: _moved(outline.letters[at], (like, own), (old, count)) for at in set(found.letters)}
        distances = (old - like, count - own)
        stage = (
            found if distances[0] == distances[1] else _rescheduled(found, outline.letters, like, distances)
        )
        if stage is None or None in moved.values():
            return None
        numbers = {at: letters.setdefault(one, len(letters)) for at, one in moved.items() if one is not None}
        rows = [numbers[at] for at in stage.letters]
        stages.append((rows, stage.parents, stage.tags))
    made = [stage_of(*one, list(letters)) for one in stages]
    if agree(made, list(letters)):
        return None
    for one in made:
        one.keep_modules(outline.layers)
    return replace(outline, letters=list(letters), stages=made, plan=(*outline.plan[:2], count))


def _moved(letter: Letter, own: tuple[int, int], stages: tuple[int, int]) -> Letter | None:
    """Give a letter of a stage in the place of another one; None where its peers have none there."""
    ends = {0: 0, stages[0] - 1: stages[1] - 1}
    if letter.peer >= 0:
        places = ends | {own[0] + step: own[1] + step for step in (-1, 0, 1)}
        return letter._replace(peer=places[letter.peer]) if letter.peer in places else None
    role = letter.role
    if role is None:
        return letter
    if len(role.stages) == stages[0] > 1:
        there: tuple[int, ...] = tuple(range(stages[1]))
    elif role.stages == own[:1]:
        there = own[1:]
    elif ends.keys() >= set(role.stages):
        there = tuple(ends[one] for one in role.stages)
    else:
        return None
    return letter._replace(role=role._replace(stages=there))


class _Pass(NamedTuple):
    """A forward or backward pass of a microbatch, as rows of a stage."""

    is_forward: bool
    number: int
    rows: range


def _rescheduled(
    stage: Stage, letters: Sequence[Letter], own: int, distances: tuple[int, int]
) -> Stage | None:
    """Put the passes of a stage into their order at another distance from the end of the pipeline."""
    passes = _passes(stage, letters, own)
    micro = sum(one.is_forward for one in passes)
    if (
        passes
        and [one.is_forward for one in passes] == [True] * micro + [False] * micro
        and distances[0] < micro
    ):
        return stage  # all forward passes first, at every distance
    known, wanted = (_order(micro, distance) for distance in distances)
    if not passes or [(one.is_forward, one.number) for one in passes] != known:
        return None
    place = {(one.is_forward, one.number): at for at, one in enumerate(passes)}
    pass_of = {row: at for at, one in enumerate(passes) for row in one.rows}
    alike: dict[tuple[bool, bool | None, tuple[int, ...]], int] = {}
    for at, one in enumerate(passes):
        before = passes[at - 1].is_forward if at else None
        rows_of = tuple(stage.letters[one.rows.start : one.rows.stop])
        # The last backward pass begins as others do, and goes on with what ends the step.
        for length in {len(one.rows), min(len(one.rows), len(passes[place[one.is_forward, 0]].rows))}:
            context = (one.is_forward, before, rows_of[:length])
            if context not in alike or not passes[alike[context]].number:  # a first one waits for no other
                alike[context] = at
    start: dict[tuple[bool, int], int] = {}
    rows: list[int] = []
    parents: list[tuple[int, ...]] = []
    for at, (is_forward, number) in enumerate(wanted):
        start[is_forward, number] = len(rows)
        same = passes[place[is_forward, number]]
        does = tuple(stage.letters[same.rows.start : same.rows.stop])
        example = alike.get((is_forward, wanted[at - 1][0] if at else None, does))
        if example is None:
            return None
        like = passes[example]
        names = {  # of passes that nodes wait for; the first name counts
            example - 1: wanted[at - 1],
            place[True, like.number]: (True, number),
            place.get((is_forward, like.number - 1)): (is_forward, number - 1),
            example: (is_forward, number),
        }
        for own_row, row in zip(same.rows, like.rows, strict=False):
            made = set()
            for parent in stage.parents[row]:
                whose = names.get(pass_of[parent])
                if whose is None or whose not in start:
                    continue
                made.add(start[whose] + parent - passes[pass_of[parent]].rows.start)
            rows.append(own_row)
            parents.append(tuple(sorted(made)))
    return Stage([stage.letters[row] for row in rows], parents, [stage.tags[row] for row in rows], [], [])


def _order(micro: int, distance: int) -> list[tuple[bool, int]]:
    """Give the order of forward and backward passes at a distance from the end (1: the last stage)."""
    ahead = min(micro, distance)
    made = [(True, number) for number in range(ahead)]
    for number in range(micro):
        made.append((False, number))
        if ahead + number < micro:
            made.append((True, ahead + number))
    return made


def _passes(stage: Stage, letters: Sequence[Letter], own: int) -> list[_Pass]:
    """Divide a stage that is not the last one into passes; none where it has no such structure.

    A forward pass ends with a message to the next stage, a backward one begins with one from there.
    """
    sends: list[int] = []
    receives: list[int] = []
    gets: list[int] = []
    gives: list[int] = []
    for row, at in enumerate(stage.letters):
        one = letters[at]
        if one.peer == own + 1:
            (sends if one.type == NodeType.COMM_SEND else receives).append(row)
        elif one.peer >= 0:
            (gives if one.type == NodeType.COMM_SEND else gets).append(row)
    if not sends or len(sends) != len(receives) or sends[0] > receives[0]:
        return []
    if own and (gets[:1] != [0] or len(gets) != len(sends) or len(gives) != len(sends)):
        return []
    length = sends[0] + 1
    begins = sorted([(row - length + 1, True) for row in sends] + [(row, False) for row in receives])
    ends = [row for row, _ in begins[1:]] + [len(stage.letters)]
    counts = {True: 0, False: 0}
    found = []
    for (row, is_forward), end in zip(begins, ends, strict=True):
        found.append(_Pass(is_forward, counts[is_forward], range(row, end)))
        counts[is_forward] += 1
    lengths = {len(one.rows) for one in found[:-1] if not one.is_forward}
    whole = all(len(one.rows) == length for one in found if one.is_forward)
    return found if begins[0][0] == 0 and whole and len(lengths) <= 1 else []
