"""Degrees of parallelism, and the groups of ranks that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.keywords import hinted_class
from astranb.core.limits import MOST_RANKS

__all__ = [
    "GROUPS",
    "NEXT_STAGE",
    "PEERS",
    "SCHEDULES",
    "Parallelism",
    "divisors",
    "numbered_groups",
    "plan_document",
    "plan_text",
    "share",
    "take_divisor",
]

GROUPS: Final = ("tensor", "context", "data", "expert", "expert data", "ends", "all")
"""Roles of groups of ranks: parts of a matrix, parts of a sequence, replicas, the experts of a layer,
replicas of experts, both ends of the pipeline, all ranks."""

SCHEDULES: Final = ("1f1b", "zbh1", "zbv", "v-half", "v-min")
"""Orders of the passes of a pipeline's stages."""
_VEES: Final = ("zbv", "v-half", "v-min")

PEERS: Final = ("previous stage", "next stage", "previous in context", "next in context")
"""Roles of peers of a rank; stages form a ring, because the last one sends tokens to the first."""

NEXT_STAGE: Final = PEERS.index("next stage")
_MOST_SHOWN: Final = 12
"""Divisors in a hint."""


def share(width: int, parts: int, part: int = 0) -> int:
    """Return what one of some parts has of a width that they need not divide; part 0 has the most.

    Larger shares are spread evenly, so that parts at a fixed distance are alike.

    Examples
    --------
    >>> [share(160, 128, part) for part in range(9)]
    [2, 1, 1, 1, 2, 1, 1, 1, 2]
    """
    return (-part * width) // parts - (-(part + 1) * width) // parts


def divisors(number: int, most: int | None = None) -> list[int]:
    """List the divisors of a number, up to the largest one that is wanted.

    Examples
    --------
    >>> divisors(32, 20)
    [1, 2, 4, 8, 16]
    """
    last = number if most is None else min(number, most)
    return [one for one in range(1, last + 1) if number % one == 0]


def take_divisor(number: int) -> str:
    """Write which degrees divide a number, as a hint.

    Examples
    --------
    >>> take_divisor(8), take_divisor(1)
    ('take 1, 2, 4 or 8', 'take 1')
    """
    found = [str(one) for one in divisors(number)]
    if len(found) > _MOST_SHOWN:
        found[_MOST_SHOWN - 1 : -1] = ["…"]
    return "take " + " or ".join(filter(None, [", ".join(found[:-1]), found[-1]]))


@hinted_class(
    dp="write data",
    tp="write tensor",
    pp="write pipeline",
    cp="write context",
    ep="write expert",
    sp="write sequence",
)
@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism; their product is the number of ranks.

    Ranks are numbered as Megatron-LM does: tensor first, then context, data, pipeline.

    Parameters
    ----------
    data, tensor, pipeline, context : int
        Replicas, parts of each matrix, stages, parts of each sequence.
    expert : int
        Data-parallel ranks over which the experts of a layer are spread; divides ``data``.
    sequence : bool
        Whether operations between the matrices are divided along the sequence (Megatron's sequence
        parallelism): all-reduces become reduce-scatters and all-gathers.
    zero : int
        Of ZeRO: 0 none; 1 optimizer states, 2 gradients too, 3 parameters too are divided over data
        parallelism.
    interleave : int
        Chunks of layers of a stage (Megatron's interleaved schedule); 1: one.
    schedule : str
        Order of the passes of a stage, of :data:`SCHEDULES`; those of a V have two chunks of a stage.

    Raises
    ------
    InputError
        The degrees do not fit together.

    Examples
    --------
    >>> degrees = Parallelism(data=2, tensor=2, pipeline=2)
    >>> degrees.ranks, degrees.group("data", 3), degrees.peer(1, 3)
    (8, [1, 3], 7)
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    sequence: bool = False
    zero: int = 0
    interleave: int = 1
    schedule: str = "1f1b"

    def __post_init__(self) -> None:
        """Check the degrees."""
        for field in fields(self):
            value = getattr(self, field.name)
            low = 0 if field.name == "zero" else 1
            if field.type == "int" and not low <= value <= MOST_RANKS:
                what = f"{value} is out of range"
                raise InputError(what, where=field.name, hint=f"take {low} to {MOST_RANKS}")
        if self.zero > 3:
            raise InputError(f"unknown ZeRO stage {self.zero}", where="zero", hint="take 0 to 3")
        if self.data % self.expert:
            what = f"expert parallelism {self.expert} does not divide data parallelism {self.data}"
            hint = f"{take_divisor(self.data)}: experts are spread over data-parallel ranks"
            raise InputError(what, where="expert", hint=hint)
        if self.interleave > 1 and self.pipeline == 1:
            raise InputError("interleaving needs more than one stage", where="interleave", hint="take 1")
        self._check_schedule()
        if self.sequence and self.tensor == 1:
            hint = "take a tensor degree above 1, or leave it out"
            raise InputError("sequence parallelism needs tensor parallelism", hint=hint)
        if self.ranks > MOST_RANKS:
            raise InputError(
                f"{self.ranks:,} ranks", where="parallelism", hint=f"take at most {MOST_RANKS:,}"
            )

    def _check_schedule(self) -> None:
        """Check the schedule, and take the chunks that it has."""
        if self.schedule not in SCHEDULES:
            what = f"unknown schedule {self.schedule[:40]!r}"
            raise InputError(what, where="schedule", hint=near(self.schedule, SCHEDULES))
        if self.schedule == "1f1b":
            return
        if self.pipeline == 1:
            what = f"the schedule {self.schedule} needs more than one stage"
            raise InputError(what, where="schedule", hint="leave it out")
        chunks = 2 if self.is_vee else 1
        if self.interleave not in (1, chunks):
            what = f"{self.interleave} chunks, but the schedule {self.schedule} has {chunks}"
            raise InputError(what, where="interleave", hint="leave it out")
        object.__setattr__(self, "interleave", chunks)

    @property
    def is_vee(self) -> bool:
        """Whether the second half of the model goes back through the stages, so that both ends are on one."""
        return self.schedule in _VEES

    @property
    def splits_backward(self) -> bool:
        """Whether gradients of parameters are passes of their own, apart from those of inputs."""
        return self.schedule != "1f1b"

    @property
    def ends_meet(self) -> bool:
        """Whether the first and the last layer are on the same stage."""
        return self.pipeline == 1 or self.is_vee

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def per_stage(self) -> int:
        """Ranks of one stage of the pipeline."""
        return self.ranks // self.pipeline

    def size(self, group: str) -> int:
        """Return the number of ranks in a group."""
        return {
            "tensor": self.tensor,
            "context": self.context,
            "data": self.data * self.context,
            "expert": self.expert,
            "expert data": self.data * self.context // self.expert,
            "ends": min(self.pipeline, 2),
            "all": self.ranks,
        }[group]

    def place(self, rank: int) -> tuple[int, int, int, int]:
        """Return a rank's part of the matrices, part of the sequence, replica and stage."""
        rest, part = divmod(rank, self.tensor)
        rest, context = divmod(rest, self.context)
        stage, replica = divmod(rest, self.data)
        return part, context, replica, stage

    def rank_at(self, part: int, context: int, replica: int, stage: int) -> int:
        """Return the rank in a place."""
        return ((stage * self.data + replica) * self.context + context) * self.tensor + part

    def stage(self, rank: int) -> int:
        """Return the pipeline stage of a rank."""
        return rank // self.per_stage

    def peer(self, which: int, rank: int) -> int:
        """Return the peer of a rank by its number in :data:`PEERS`."""
        step = 1 if which % 2 else -1
        if which < 2:
            return (rank + step * self.per_stage) % self.ranks
        part = rank // self.tensor % self.context
        return rank + ((part + step) % self.context - part) * self.tensor

    def group(self, group: str, rank: int) -> list[int]:
        """Return the ranks of a rank's group, ascending."""
        t, c = self.tensor, self.context
        if group == "all":
            return list(range(self.ranks))
        stage, within = divmod(rank, self.per_stage)
        first, wide = stage * self.per_stage, t * c
        if group == "tensor":
            return list(range(rank - rank % t, rank - rank % t + t))
        if group == "context":
            base = rank - rank % wide + rank % t
            return list(range(base, base + wide, t))
        if group == "data":
            return list(range(first + within % t, first + self.per_stage, t))
        if group == "ends":
            return sorted({within, within + (self.pipeline - 1) * self.per_stage})
        replica = within // wide
        if group == "expert":
            base = rank - (replica % self.expert) * wide
            return list(range(base, base + self.expert * wide, wide))
        return [
            first + other * wide + part * t + within % t
            for other in range(replica % self.expert, self.data, self.expert)
            for part in range(c)
        ]

    def groups(self) -> Iterator[tuple[str, list[int]]]:
        """Yield all groups of more than one rank and fewer than all, each once, in a fixed order."""
        for name in GROUPS:
            if 1 < self.size(name) < self.ranks:
                seen: set[int] = set()
                for rank in range(self.ranks):
                    # Middle stages are in no group of ends.
                    if rank in seen or (name == "ends" and 0 < self.stage(rank) < self.pipeline - 1):
                        continue
                    members = self.group(name, rank)
                    seen.update(members)
                    yield name, members


def numbered_groups(groups: Iterable[tuple[str, list[int]]]) -> list[tuple[int, str, list[int]]]:
    """Number groups of ranks; all numbers have the same number of digits.

    Examples
    --------
    >>> [number for number, _, _ in numbered_groups(Parallelism(data=2, tensor=10).groups())][:3]
    [10, 11, 12]
    """
    found = list(groups)
    first = 1
    while 9 * first < len(found):
        first *= 10
    return [(first + at, name, members) for at, (name, members) in enumerate(found)]


def plan_text(degrees: Parallelism) -> str:
    """Write the degrees of parallelism that are not 1, and a schedule that is not 1F1B.

    Examples
    --------
    >>> plan_text(Parallelism(data=4, tensor=2, sequence=True, zero=1))
    'data 4, tensor 2, sequence, zero 1'
    """
    named = {one.name: getattr(degrees, one.name) for one in fields(degrees)}
    usual = Parallelism()
    some = [
        name if value is True else f"{name} {value}"
        for name, value in named.items()
        if value != getattr(usual, name)
    ]
    return ", ".join(some) or "one rank"


def plan_document(degrees: Parallelism) -> dict[str, Any]:
    """Describe a plan as ``PREFIX.job.json`` has it: a corpus counts parts of a sequence as replicas.

    Examples
    --------
    >>> plan_document(Parallelism(data=2, tensor=4, context=3))["data"]
    6
    """
    names = ("tensor", "context", "data", "expert", "pipeline")
    return {
        "ranks": degrees.ranks,
        "plan": {name: getattr(degrees, name) for name in names},
        "tensor": degrees.tensor,
        "data": degrees.data * degrees.context,
        "pipeline": degrees.pipeline,
    }
