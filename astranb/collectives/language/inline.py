"""The operations of a called program, with the chunks, semaphores and phases of the program that calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from .block import Block
from .buffer import Buffer
from .fifo import FIRST_SENT, FIRST_SLOT
from .operation import (
    BUFFER_NUMBERS,
    BUFFERS,
    KIND_NUMBERS,
    OPERATION_COLUMNS,
    Chunk,
    Chunks,
    Semaphore,
    pack_place,
    unpack_place,
)

__all__ = ["Inlined", "Outlet", "Places", "Refuse", "chunks_of"]

Refuse: TypeAlias = Callable[[str, str], Exception]
"""Makes the error of a call, from what is wrong and what to do."""

_MOVE: Final = KIND_NUMBERS["move"]
_SOURCES, _TARGETS, _SEMAPHORE, _FLAGS, _LINE = 2, 3, 4, 6, 7  # columns of an operation
_BUFFERS: Final = {name: BUFFER_NUMBERS[name] for name in ("input", "output")}
_CHANNEL_AT: Final = 3  # bits below the channel in a packed place
_UNNAMED: Final = -1


class Outlet(NamedTuple):
    """Target of a called program's operations: a thread block, copy engine or NIC of a rank, by number."""

    rank: int
    unit: str
    number: int


class _InliningProgram(Protocol):
    """Members of a program that inlining needs."""

    ranks: int
    cut: Any
    channel: int
    slots: list[int]
    phases: list[str]
    semaphores: list[Semaphore]
    frees: set[Semaphore]
    blocks: list[Block]
    lines: dict[Any, int]

    def semaphore(self, rank: int) -> Semaphore: ...

    def phase_number(self, name: str) -> int: ...

    def number_of(self, line: Any) -> int: ...

    def add_buffer(self, slots: int) -> int: ...

    def sent_before(self, rank: int, slice_number: int, count: int) -> int: ...


def chunks_of(ends: Any, rank: int, place: int) -> np.ndarray | None:
    """Return the chunks that a call's ``source`` or ``target`` has for a rank; None if it has none.

    A chunk is a row of two: its place packed for channel 0, and its index.
    """
    if callable(ends):
        found = ends(rank)
    elif isinstance(ends, Mapping):
        found = ends.get(rank)
    else:
        found = ends[place]
    return None if found is None else np.concatenate([np.zeros((0, 2), np.int64), *_rows(found)])


def _rows(found: Any) -> Iterator[np.ndarray]:
    if isinstance(found, Chunk):
        yield np.array([[pack_place(found.rank, 0, BUFFER_NUMBERS[found.buffer]), found.index]], np.int64)
    elif isinstance(found, Chunks):
        rows = np.empty((len(found.indices), 2), np.int64)
        rows[:, 0] = pack_place(found.rank, 0, BUFFER_NUMBERS[found.buffer])
        rows[:, 1] = found.indices
        yield rows
    elif isinstance(found, Buffer):
        yield from _rows(found[:] if len(found) else ())
    else:
        for one in found:
            yield from _rows(one)


def _named(row: np.ndarray) -> Chunk:
    rank, channel, buffer = unpack_place(int(row[0]))
    return Chunk(rank, BUFFERS[buffer], int(row[1]), channel)


class Places:
    """The caller's chunks that the inputs and outputs of a called program are.

    Parameters
    ----------
    group : sequence of int
        The caller's ranks.
    source, target : callable, mapping or sequence
        The chunks of each.
    needed : tuple of (int or None, int or None)
        Inputs and outputs of a rank of the called program; None: as many as there are.
    refuse : callable

    Attributes
    ----------
    chunks : tuple of (int, int)
        Inputs and outputs of a rank.
    each : int
        Chunks of the caller that stand for one.
    """

    def __init__(
        self,
        group: Sequence[int],
        source: Any,
        target: Any,
        needed: tuple[int | None, int | None],
        refuse: Refuse,
    ) -> None:
        given = {
            "input": [chunks_of(source, r, at) for at, r in enumerate(group)],
            "output": [chunks_of(target, r, at) for at, r in enumerate(group)],
        }
        counts, each = [], set[int]()
        for (buffer, lists), need in zip(given.items(), needed, strict=True):
            what = "source" if buffer == "input" else "target"
            for r, chunks in zip(group, lists, strict=True):
                if chunks is None:
                    continue
                wrong = np.flatnonzero(unpack_place(chunks[:, 0])[0] != r)
                if len(wrong):
                    hint = f"{what}(rank) returns chunks of that rank"
                    raise refuse(f"the {what} of rank {r} is {_named(chunks[wrong[0]])}", hint)
                if not len(chunks) or len(chunks) % (need or len(chunks)):
                    hint = f"give {need}, or a multiple of {need}"
                    raise refuse(f"the {what} of rank {r} has {len(chunks)} chunks", hint)
                if buffer == "output":
                    once, times = np.unique(chunks, axis=0, return_counts=True)
                    if len(once) < len(chunks):
                        twice = _named(once[times > 1][0])
                        raise refuse(f"duplicate target {twice}", "name every target once")
            lengths = {len(chunks) for chunks in lists if chunks is not None}
            if len(lengths) != 1:
                found = " and ".join(map(str, sorted(lengths))) or "no"
                raise refuse(f"the {what}s of its ranks have {found} chunks", "give all ranks as many")
            counts.append(need or lengths.pop())
            each.update(length // counts[-1] for length in lengths)
        if len(each) > 1:
            hint = "give sources and targets of equal parts"
            raise refuse(f"{' and '.join(map(str, sorted(each)))} chunks stand for one", hint)
        self.each = each.pop() if each else 1
        self.chunks = counts[0], counts[1]
        self._tables = {
            _BUFFERS[buffer]: self._table(lists, count)
            for (buffer, lists), count in zip(given.items(), counts, strict=True)
        }
        self.in_place = any(
            one is not None and two is not None and bool(np.isin(one[:, 0], two[:, 0]).any())
            for one, two in zip(given["input"], given["output"], strict=True)
        )

    def _table(self, lists: Sequence[np.ndarray | None], count: int) -> np.ndarray:
        table = np.full((len(lists), count * self.each, 2), _UNNAMED, np.int64)
        for row, chunks in zip(table, lists, strict=True):
            if chunks is not None:
                row[:] = chunks
        return table

    def find(self, buffer: int, rank: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return packed places (of channel 0) and indices of the caller's chunks; negative: there is none."""
        found: np.ndarray = self._tables[buffer][rank, index]
        return found


class Inlined:
    """The operations of a called program, ready to be copied for one slice or several.

    Parameters
    ----------
    name : str
        Of the call, for phases.
    inside : Program
        The called program.
    group : sequence of int
        The caller's ranks.
    places : Places
    first : int
        First free index of scratch.
    refuse : callable

    Attributes
    ----------
    wanted : dict of (int, str) to list of int
        For each of the caller's ranks and kind of unit, the warps of each of its blocks.
    scratch : int
        Indices of scratch that it uses.
    """

    def __init__(
        self,
        name: str,
        inside: _InliningProgram,
        group: Sequence[int],
        places: Places,
        first: int,
        refuse: Refuse,
    ) -> None:
        self._inside, self._group, self._places, self._first = inside, group, places, first
        self._refuse = refuse
        self.wanted: dict[tuple[int, str], list[int]] = {}
        self._outlets = []
        for block in inside.blocks:
            of = self.wanted.setdefault((group[block.rank], block.unit), [])
            self._outlets.append(Outlet(group[block.rank], block.unit, len(of)))
            of.append(block.warp_count)
        self.phases = [f"{name}: {phase}" for phase in inside.phases] or [name]
        self._columns = [self._repeated(block) for block in inside.blocks]
        used = [index[(buffer > 1) & (index < FIRST_SENT)] for _, _, buffer, index, _ in self._columns]
        self.scratch = max((int(one.max(initial=-1)) for one in used), default=-1) + 1

    def _repeated(self, block: Block) -> tuple[np.ndarray, ...]:
        """Return rows, and rank, buffer, index and channel of chunks: a move for each chunk of the caller."""
        columns, each = block.columns, self._places.each
        rows = np.frombuffer(columns.rows, np.int64).reshape(-1, OPERATION_COLUMNS)
        chunks = np.frombuffer(columns.chunks, np.int64).reshape(-1, 2)
        of = np.repeat(np.arange(len(rows)), rows[:, _SOURCES] + rows[:, _TARGETS])
        rank, channel, buffer = unpack_place(chunks[:, 0])
        order = np.argsort(np.add.outer(of * each, np.arange(each)).ravel(), kind="stable")
        rank, channel, buffer = (np.repeat(one, each)[order] for one in (rank, channel, buffer))
        index = chunks[:, 1]
        plain = np.where(index < FIRST_SENT, index * each, FIRST_SENT + (index - FIRST_SENT) * each)
        ranks = self._inside.ranks
        number, sender = divmod(index % FIRST_SLOT, ranks)
        message = index - index % FIRST_SLOT + number * each * ranks + sender
        apart = np.where(index < FIRST_SLOT, 1, ranks)
        plain = np.where(index < FIRST_SLOT, plain, message)
        index = (plain[:, None] + np.outer(apart, np.arange(each))).ravel()[order]
        return np.repeat(rows, np.where(rows[:, 0] == _MOVE, each, 1), axis=0), rank, buffer, index, channel

    def operations(
        self, program: _InliningProgram, slice_number: int | None
    ) -> Iterator[tuple[Outlet, np.ndarray, np.ndarray]]:
        """Yield for each block its operations as columns, with new semaphores of the calling program.

        ``slice_number``: the slice that they are about; None: each about its own.
        """
        made = {s: program.semaphore(self._group[s.rank]) for s in self._inside.semaphores}
        program.frees |= {made[s] for s in self._inside.frees}
        numbers = np.array(
            [s.number for s in made.values()] + [-1], np.int64
        )  # -1, no semaphore, is the last
        phases = np.array([program.phase_number(name) for name in self.phases], np.int64)
        lines = np.array([program.number_of(line) for line in self._inside.lines], np.int64)
        sent: Counter[int] = Counter()
        for _, rank, _, index, _ in self._columns:
            of = (index >= FIRST_SENT) & (index < FIRST_SLOT)
            for r in np.unique(rank[of]).tolist():
                sent[r] = max(sent[r], int(index[of & (rank == r)].max()) - FIRST_SENT + 1)
        at = self._inside.channel if slice_number is None else slice_number
        before = np.zeros(len(self._group), np.int64)
        for r, count in sent.items():
            before[r] = program.sent_before(self._group[r], at, count)
        ranks = np.array(self._group, np.int64)
        buffers = np.array(
            [0] + [program.add_buffer(slots * self._places.each) for slots in self._inside.slots], np.int64
        )
        for outlet, (given, rank, buffer, index, channel) in zip(self._outlets, self._columns, strict=True):
            if slice_number is None:
                to = channel
            elif (channel != self._inside.channel).any():
                raise self._refuse("it moves data of other channels too", "call another algorithm")
            else:
                to = np.full_like(channel, slice_number)
            place = pack_place(ranks[rank], 0, buffer)
            new = np.where(index < FIRST_SENT, index + self._first, index + before[rank])
            number, sender = divmod(index % FIRST_SLOT, self._inside.ranks)
            message = buffers[index // FIRST_SLOT] + number * program.ranks + ranks[sender]
            new = np.where(index < FIRST_SLOT, new, message)
            for name, kind in _BUFFERS.items():
                mine = buffer == kind
                place[mine], new[mine] = self._places.find(kind, rank[mine], index[mine]).T
                if (place[mine] == _UNNAMED).any():
                    missing = self._group[int(rank[mine][place[mine] == _UNNAMED][0])]
                    what = "source" if name == "input" else "target"
                    raise self._refuse(f"it accesses the {name} of rank {missing}", f"give it a {what}")
            chunks = np.stack([place | to << _CHANNEL_AT, new], axis=1)
            rows = given.copy()
            rows[:, 1] = phases[np.minimum(rows[:, 1], len(phases) - 1)]
            rows[:, _SEMAPHORE] = numbers[rows[:, _SEMAPHORE]]
            rows[:, _LINE] = lines[rows[:, _LINE]] if len(lines) else -1
            yield outlet, *(_without_idle(rows, chunks) if self._places.in_place else (rows, chunks))


def _without_idle(rows: np.ndarray, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out copies of chunks to themselves."""
    if not len(chunks):
        return rows, chunks
    counts = rows[:, _SOURCES] + rows[:, _TARGETS]
    first = np.cumsum(counts) - counts
    of = np.repeat(np.arange(len(rows)), counts)
    copies = (rows[:, 0] == _MOVE) & (rows[:, _SOURCES] == 1) & (rows[:, _FLAGS] >> 1 == 0)
    target = np.arange(len(chunks)) > first[of]
    idle = copies[of] & target & (chunks == chunks[first[of]]).all(axis=1)
    rows = rows.copy()
    np.subtract.at(rows[:, _TARGETS], of[idle], 1)
    gone = copies & (rows[:, _TARGETS] == 0)
    return rows[~gone], chunks[~idle & ~gone[of]]
