"""Process groups of recorded collectives, and matching of messages between ranks.

NCCL's kernels name their group in newer recordings, gloo's operations never do. A process group executes
on threads (gloo: two, ``ProcessGroupGloo.cpp``) or a stream of its own, and its ranks call the same
collectives in the same order, all of them at one time. So the group of a thread is the one for which this is
true on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from astranb.chakra.traces import CollectiveType
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .messages import Message

__all__ = ["Matched", "alone", "matched"]

_MOST_THREADS: Final = 2  # of a group on one rank
_MOST_TRIALS: Final = 20_000

_EVEN: Final = (
    *(CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER),
    *(CollectiveType.BROADCAST, CollectiveType.REDUCE),
)
_ROOTED: Final = (
    *(CollectiveType.BROADCAST, CollectiveType.REDUCE),
    *(CollectiveType.GATHER, CollectiveType.SCATTER),
)

_Ranks: TypeAlias = tuple[int, ...]
_Threads: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
"""For each rank of a group its threads."""


class Matched:
    """Messages of all ranks, matched.

    Attributes
    ----------
    groups : dict of tuple of int to str
        The name of each group: ``"0"`` for all ranks.
    notes : list of str
        What was inferred, or is not known.
    together : list of list of Message
        Each collective and each message as all of its ranks recorded it.
    names : dict of Message to str
        Groups as recorded, where the ranks of one are not known.
    uneven : int
        Collectives to which ranks contribute different sizes.
    """

    def __init__(self, world: int) -> None:
        self.groups: dict[_Ranks, str] = {tuple(range(world)): "0"}
        self.notes: list[str] = []
        self.together: list[list[Message]] = []
        self.uneven = 0
        self.names: dict[Message, str] = {}


def matched(
    messages: Sequence[list[Message]], groups: Sequence[Mapping[str, _Ranks]], where: Sequence[str]
) -> Matched:
    """Assign every message its group, and find its counterparts on the other ranks.

    Parameters
    ----------
    messages : sequence of list of Message
        Those of each rank, in the order of their starts.
    groups : sequence of mapping
        The process groups that each rank knows.
    where : sequence of str
        What errors call each rank's recording.

    Raises
    ------
    InputError
        Ranks call different collectives: they are not of one job.
    """
    world = tuple(range(len(messages)))
    found = Matched(len(messages))
    unknown: list[list[Message]] = []
    for rank, some in enumerate(messages):
        own = {name: ranks for name, ranks in groups[rank].items() if rank in ranks}
        for one in some:
            one.group = own.get(one.named, ())
        unknown.append([one for one in some if one.is_collective and not one.group and not one.alone])
    several = sorted(
        {ranks for own in groups for ranks in own.values()} | {world}, key=lambda r: (-len(r), r)
    )
    if any(unknown):
        _infer(unknown, several, found)
    for some in messages:
        for one in some:
            one.group = one.group or world
    for ranks in sorted({one.group for some in messages for one in some if one.is_collective}):
        if ranks != world:
            found.groups[ranks] = str(len(found.groups))
        _together(ranks, messages, where, found)
    _pairs(messages, several, found)
    return found


def alone(messages: Sequence[Message], groups: Mapping[str, _Ranks], world: int) -> Matched:
    """Assign the messages of one rank their groups, without other ranks: as recorded, else all ranks."""
    everyone = tuple(range(world))
    found = Matched(world)
    for one in messages:
        one.group = groups.get(one.named, everyone)
        if one.named in groups:
            found.groups.setdefault(one.group, one.named)
        elif one.named:
            found.names[one] = one.named
        if one.is_collective:
            found.together.append([one])
    unnamed = sum(one.is_collective and not one.named for one in messages)
    if unnamed and len(groups) > 1:
        what = f"{plural(unnamed, 'collective names', 'collectives name')} no group: taken as of all ranks"
        found.notes.append(f"{what}; link the recordings of all ranks to find them")
    sides = sum(one.kind in ("send", "recv") for one in messages)
    if sides:
        found.notes.append(
            f"{sides:,} sends and receives keep their durations: link the recordings of all ranks"
        )
    return found


def _infer(unknown: Sequence[list[Message]], several: Sequence[_Ranks], found: Matched) -> None:
    """Choose threads for groups, so that most collectives have one, and most groups some."""
    total = sum(map(len, unknown))
    if len(several) == 1:
        for one in (one for some in unknown for one in some):
            one.group = several[0]
        found.notes.append(
            f"{plural(total, 'collective names', 'collectives name')} no group: taken as of all ranks"
        )
        return
    threads = [_by_thread(some) for some in unknown]
    options = [list(_options(ranks, threads)) for ranks in several]
    best: tuple[tuple[int, int, int], list[_Threads]] = ((0, 0, 0), [])
    trials = 0

    def search(number: int, chosen: list[_Threads], used: set[tuple[int, str]]) -> None:
        nonlocal best, trials
        trials += 1
        if number == len(several):
            taken = sum(len(threads[rank][one]) for rank, one in used)
            score = (taken, sum(map(bool, chosen)), -_spread(chosen))
            best = max(best, (score, list(chosen)), key=lambda pair: pair[0])
            return
        for option in [*options[number], ()]:
            named = {(rank, one) for rank, some in option for one in some}
            if trials < _MOST_TRIALS and not named & used:
                search(number + 1, [*chosen, option], used | named)

    search(0, [], set())
    for ranks, option in zip(several, best[1], strict=False):
        for rank, some in option:
            for one in (one for name in some for one in threads[rank][name]):
                one.group = ranks
    left = [one for some in unknown for one in some if not one.group]
    found.notes.append(
        f"groups of {plural(total - len(left), 'collective')} inferred from their order on all ranks"
    )
    for one in left:
        one.alone = True


def _by_thread(messages: Iterable[Message]) -> dict[str, list[Message]]:
    threads: dict[str, list[Message]] = {}
    for one in messages:
        threads.setdefault(one.thread, []).append(one)
    return threads


def _spread(chosen: Iterable[_Threads]) -> int:
    """Return the spread of the numbers of a group's threads: a group starts its threads together."""
    numbers = ([int(one) for one in some if one.isdecimal()] for option in chosen for _, some in option)
    return sum(max(some) - min(some) for some in numbers if some)


def _options(ranks: _Ranks, threads: Sequence[dict[str, list[Message]]]) -> Iterator[_Threads]:
    """Yield the choices of threads on all ranks that call the same collectives at the same times."""
    if len(ranks) < 2:
        return
    choices: list[dict[tuple[object, ...], list[tuple[str, ...]]]] = []
    for rank in ranks:
        of_rank: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
        for count in range(1, _MOST_THREADS + 1):
            for some in combinations(sorted(threads[rank]), count):
                of_rank.setdefault(tuple(_called(_merged(threads[rank], some))), []).append(some)
        choices.append(of_rank)
    for called in set.intersection(*(set(one) for one in choices)):
        option = tuple((rank, of_rank[called][0]) for rank, of_rank in zip(ranks, choices, strict=True))
        merged = [_merged(threads[rank], some) for rank, some in option]
        if all(map(_at_once, zip(*merged, strict=True))):
            yield option


def _at_once(each: Sequence[Message]) -> bool:
    """Return whether no rank leaves a collective before all have come; only its root may, or all others."""
    if each[0].kind in _ROOTED:
        return True
    return max(one.start for one in each) <= min(one.end for one in each)


def _merged(threads: dict[str, list[Message]], some: Iterable[str]) -> list[Message]:
    return sorted((one for name in some for one in threads[name]), key=lambda one: one.start)


def _called(messages: Iterable[Message]) -> Iterator[object]:
    """Yield what must be the same on all ranks: the kind, and the size of those that cannot be uneven."""
    for one in messages:
        yield one.kind, one.size if one.kind in _EVEN else 0


def _together(ranks: _Ranks, messages: Sequence[list[Message]], where: Sequence[str], found: Matched) -> None:
    """Join the collectives of a group, which all of its ranks call in one order."""
    calls = [
        [one for one in messages[rank] if one.is_collective and one.group == ranks and not one.alone]
        for rank in ranks
    ]
    for number, each in enumerate(zip(*calls, strict=False)):
        for rank, one in zip(ranks, each, strict=True):
            if one.kind != each[0].kind:
                what = (
                    f"collective {number + 1} of group {list(ranks)!s:.60} is {one.word}, "
                    f"and {each[0].word} on rank {ranks[0]}"
                )
                raise InputError(
                    what, where=where[rank], hint="link the traces of one job, of the same steps"
                )
        found.together.append(list(each))
    counts = [len(some) for some in calls]
    if len(set(counts)) > 1:
        least = counts.index(min(counts))
        most = counts.index(max(counts))
        group = f"{list(ranks)!s:.60}"
        what = f"{counts[least]:,} collectives of group {group}, and {counts[most]:,} on rank {ranks[most]}"
        raise InputError(
            what, where=where[ranks[least]], hint="link the traces of one job, of the same steps"
        )


def _pairs(messages: Sequence[list[Message]], several: Sequence[_Ranks], found: Matched) -> None:
    """Join each send with its receive: peers are ranks in a group, which is not recorded."""
    alone = 0
    for rank, some in enumerate(messages):
        for one in some:
            if (
                one.kind == "send"
                and not one.alone
                and (pair := _receipt(rank, one, messages, several)) is not None
            ):
                ranks, other = pair
                one.group = other.group = ranks
                one.partner, other.partner = other, one
                found.together.append([one, other])
            alone += one.kind == "send" and one.partner is None
    alone += sum(one.kind == "recv" and one.partner is None for some in messages for one in some)
    if alone:
        what = plural(alone, "send or receive", "sends and receives")
        found.notes.append(f"{what} without a counterpart: durations as recorded")


def _receipt(
    rank: int, sent: Message, messages: Sequence[list[Message]], several: Sequence[_Ranks]
) -> tuple[_Ranks, Message] | None:
    """Find the first receipt of what a rank sent, and the group in which both peers are right."""
    for ranks in several:
        if rank not in ranks or not 0 <= sent.peer < len(ranks):
            continue
        own = ranks.index(rank)
        for one in messages[ranks[sent.peer]]:
            same = (one.kind, one.tag, one.size, one.alone) == ("recv", sent.tag, sent.size, False)
            if same and one.partner is None and one.peer in (own, -1):
                return ranks, one
    return None
