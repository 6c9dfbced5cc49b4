"""A workload's grammar in another number of pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from astranb.chakra.scaling import StageRow, restaged
from astranb.chakra.traces import NodeType
from astranb.core.errors import InputError

from .outline import GrammarStage, Letter, Outline, agree, stage_of

__all__ = ["with_stages"]

_Placed = tuple[list[int], list[tuple[int, ...]], list[int]]
"""Letters, dependencies and tags of a stage."""


def with_stages(outline: Outline, count: int) -> Outline | None:
    """Return the grammar of a pipeline of so many stages, or None where this one does not say it.

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
        placed: _Placed | None = (found.letters, list(found.parents), found.tags)
        if old - like != count - own:
            placed = _rescheduled(found, outline.letters, (like, own), (old, count))
        if placed is None or None in moved.values():
            return None
        numbers = {at: letters.setdefault(one, len(letters)) for at, one in moved.items() if one is not None}
        rows, parents, tags = placed
        stages.append(([numbers[at] for at in rows], parents, tags))
    made = [stage_of(*one, list(letters)) for one in stages]
    if agree(made, list(letters)):
        return None
    for one in made:
        one.modules.keep(outline.layers)
    return replace(outline, letters=list(letters), stages=made, plan=(*outline.plan[:2], count))


def _moved(letter: Letter, own: tuple[int, int], stages: tuple[int, int]) -> Letter | None:
    """Return a letter of a stage in the place of another one; None where its peers have none there."""
    ends = {0: 0, stages[0] - 1: stages[1] - 1}
    if letter.peer >= 0:
        places = ends | {own[0] + step: own[1] + step for step in (-1, 0, 1)}
        return letter._replace(peer=places[letter.peer]) if letter.peer in places else None
    role = letter.role
    if role is None:
        return letter
    if len(role.stages) == stages[0] > 1:
        moved: tuple[int, ...] = tuple(range(stages[1]))
    elif role.stages == own[:1]:
        moved = own[1:]
    elif ends.keys() >= set(role.stages):
        moved = tuple(ends[one] for one in role.stages)
    else:
        return None
    return letter._replace(role=role._replace(stages=moved))


def _rescheduled(
    stage: GrammarStage, letters: Sequence[Letter], own: tuple[int, int], stages: tuple[int, int]
) -> _Placed | None:
    """Put the passes of a stage into their order in another pipeline: letters, parents, tags."""
    rows = []
    for at, parents in zip(stage.letters, stage.parents, strict=True):
        one = letters[at]
        beside = {own[0] - 1: 0, own[0] + 1: 1}.get(one.peer, -1)
        sends = beside if one.type == NodeType.COMM_SEND else -1
        receives = beside if one.type == NodeType.COMM_RECV else -1
        queue = "receives" if receives >= 0 else "computations"
        if one.collective >= 0 or sends >= 0:
            queue = "background" if one.background else "communication"
        rows.append(StageRow(at, one.type == NodeType.COMP, queue, sends, receives, parents))
    try:
        made = restaged(rows, 0, 0, (own[0], stages[0]), (own[1], stages[1]))
    except InputError:
        return None  # no order of 1F1B
    return [stage.letters[row] for row in made.rows], made.parents, [stage.tags[row] for row in made.rows]
