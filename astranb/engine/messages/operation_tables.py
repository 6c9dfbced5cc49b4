"""Builds the tables of operations and groups: of all ranks, or of those that represent the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.chakra import NodeType, issue_places
from astranb.core.arrays import distinct, flat_lists
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate, require_bytes
from astranb.workload.astrasim2 import Memory, Operations, RankOperations, System, durations_ns

from . import tables as t
from .implementations import group_shapes

__all__ = [
    "BACKGROUND_CHUNKS",
    "Chosen",
    "OperationTables",
    "first_chunk",
    "group_rows",
    "make_groups",
    "make_operations",
    "places_of",
]

BACKGROUND_CHUNKS: Final = 500_000
"""Numbers of chunks in the background begin here, so that they differ from those of the first stream."""
_CHUNKS_OF_GROUP: Final = 1_000_000
_OPERATION_BYTES: Final = 300
"""Bytes of an operation in all tables, and in what is known of it besides."""
_MOST_RANKS: Final = 1 << 40
"""More than there can be, to tell ranks in groups apart by one number."""
_TYPES: Final = np.zeros(t.DELAY + 1, np.int64)
"""Type in a trace of each kind of operation; it determines the resource."""
for _kind, _type in {
    t.COMPUTE: NodeType.COMP,
    t.COLLECTIVE: NodeType.COMM_COLL,
    t.SEND: NodeType.COMM_SEND,
    t.RECV: NodeType.COMM_RECV,
    t.MEMORY: NodeType.MEM_LOAD,
    t.REPLAY: NodeType.COMM_COLL,
    t.DELAY: NodeType.METADATA,
}.items():
    _TYPES[_kind] = _type


class OperationTables(NamedTuple):
    """The operations, those that wait for each, and those that can begin.

    Attributes
    ----------
    rows : recarray of OPERATION_ROW
        Behind those of the ranks those of custom collectives.
    children : recarray of COUNTER
    ready : recarray of COUNTER
        Heaps.
    places : recarray of PLACE
    """

    rows: Records
    children: Records
    ready: Records
    places: Records


class Chosen(NamedTuple):
    """The ranks that have rows in the tables, and what they call their groups and messages.

    Attributes
    ----------
    ranks : ndarray of int
    groups : ndarray of int, shape (ranks, positions)
        The row of the group at each position; -1: all ranks.
    send, receive : ndarray of int, shape (ranks, positions), or None
        Added to the tags of messages to and from the peer at each position.
    """

    ranks: np.ndarray
    groups: np.ndarray
    send: np.ndarray | None = None
    receive: np.ndarray | None = None


def group_rows(ranks: RankOperations, groups: Mapping[int, Sequence[int]], npus: int) -> np.ndarray:
    """Return the row of each rank's group at each position that it uses; -1: all ranks.

    Raises
    ------
    InputError
        A rank names a group that is not described, or in which it is not.
    """
    rows = np.full(ranks.groups.shape, -1, np.int64)
    numbers = {number: row for row, number in enumerate(groups)}
    _, _, size, key = _laid_out(groups.values())
    memberships = distinct(key)
    for pattern, (used, _) in enumerate(ranks.used):
        mine = np.flatnonzero(ranks.pattern == pattern)
        for at in used.tolist():
            those = mine[ranks.groups[mine, at] >= 0]
            named = ranks.groups[those, at]
            row = np.array([numbers.get(number, -1) for number in named.tolist()], np.int64)
            if (row < 0).any():
                first = int(np.argmax(row < 0))
                what = f"rank {those[first]} names group {named[first]}"
                raise InputError(what, where="groups", hint="describe it")
            key = row * _MOST_RANKS + those
            found = np.searchsorted(memberships, key)
            missing = memberships[np.minimum(found, len(memberships) - 1)] != key if len(key) else key
            if missing.any():
                first = int(np.argmax(missing))
                what = f"rank {those[first]} is not in its group {named[first]}"
                raise InputError(what, where="groups", hint="add it")
            rows[those, at] = np.where(size[row] < npus, row, -1)
    return rows


def _laid_out(groups: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Put groups behind one another: beginnings, ranks, sizes, and a key for each rank of each group."""
    start, flat = flat_lists(groups)
    size = np.diff(start)
    return start, flat, size, np.repeat(np.arange(len(size)), size) * _MOST_RANKS + flat


def make_groups(
    groups: Sequence[tuple[int, Sequence[int]]], counts: Sequence[int], npus: int, lanes: int
) -> tuple[Records, Records, Records]:
    """Make the tables of groups; the chunks of group G are numbered from G million, in each lane apart.

    Parameters
    ----------
    groups : sequence of (int, sequence of int)
        Numbers and ranks.
    counts : sequence of int
        NPUs in each dimension.
    npus : int
        All.
    lanes : int

    Returns
    -------
    groups, members, streams : Records
        The counters of chunks are those of each member in each lane, so that all three grow with the ranks of
        groups, and not with ranks times groups.

    Raises
    ------
    InputError
        A group is no list of different ranks.
    """
    many = max(len(groups), 1)
    rows = allocate(many, t.GROUP)
    rows.rails = rows.chain = rows.width = 1
    start, flat, size, key = _laid_out(members for _, members in groups)
    numbers = np.array([number for number, _ in groups], np.int64)
    outside, key = np.repeat(np.arange(len(groups)), size)[(flat < 0) | (flat >= npus)], np.sort(key)
    wrong = np.concatenate([outside, key[1:][np.diff(key) == 0] // _MOST_RANKS])
    wrong = np.concatenate([wrong, np.flatnonzero(size == 0)])
    if len(wrong):
        raise InputError(
            f"group {numbers[wrong.min()]} is not a list of different ranks below {npus}",
            where="groups",
            hint="list its ranks",
        )
    table = allocate(max(len(flat), 1), t.COUNTER)
    table.value[: len(flat)] = flat
    streams = allocate(lanes * len(table), t.COUNTER)  # of each member of each group, in each lane
    if len(groups):
        rows["first"], rows["count"] = start[:-1], size
        rows["outer"], rows["rails"] = group_shapes([members for _, members in groups], counts)
        firsts = np.stack([first_chunk(numbers, lane) for lane in range(lanes)])
        streams.value[:] = np.repeat(firsts, size, axis=1).T.reshape(-1)
    return rows, table, streams


def places_of(groups: Records, members: Records) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return what finds the rows of ranks in the list of members, by the rows of their groups.

    Every rank that is asked for has to be in its group.
    """
    count = groups["count"]
    key = np.repeat(np.arange(len(groups)), count) * _MOST_RANKS + members.value[: count.sum()]
    order = np.argsort(key)
    ordered = key[order]
    return lambda group, rank: order[np.searchsorted(ordered, group * _MOST_RANKS + rank)]


def first_chunk(number: Any, lane: int) -> Any:
    """Return the number of the first chunk of a group in a lane."""
    return number * _CHUNKS_OF_GROUP + lane * BACKGROUND_CHUNKS


def make_operations(
    operations: RankOperations, chosen: Chosen, system: System, memory: Memory
) -> OperationTables:
    """Make the tables of the operations of some ranks.

    Raises
    ------
    InputError
        They would not fit in memory, or a duration cannot be known.
    """
    patterns = operations.pattern[chosen.ranks]
    sizes = np.array([len(one.rows) for one in operations.patterns])
    first = np.concatenate([[0], np.cumsum(sizes[patterns])]).astype(np.int64)
    own = int(first[-1])
    customs = [
        (npu, int(first[npu]) + row, each)
        for npu, pattern in enumerate(patterns.tolist())
        for row, each in operations.patterns[pattern].custom.items()
    ]
    total = own + sum(len(each.rows) for _, _, each in customs)
    hint = "take fewer ranks, microbatches or layers"
    require_bytes(_OPERATION_BYTES * total, where=f"{total:,} operations", hint=hint)
    table = allocate(total, t.OPERATION_ROW)
    table.custom = table.owner = table.next = -1
    table.start_ns = table.end_ns = -1
    table.ring, table.rings, table.cost = -1, 1, -1
    made = _Maker(table, system, memory)
    ends = np.flatnonzero(np.diff(patterns, append=-1)) + 1
    for start, stop in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        one = operations.patterns[patterns[start]]
        part = made.add(one, np.arange(start, stop))
        rows, some = one.rows, chosen.ranks[start:stop]
        part.peer = operations.peer_of(rows, some)
        named = rows["group"] >= 0
        part.group[:, named] = chosen.groups[start:stop][:, rows["group"][named]]
        for kind, labels in ((t.SEND, chosen.send), (t.RECV, chosen.receive)):
            if labels is not None:
                which = np.flatnonzero(rows["kind"] == kind)
                part.tag[:, which] += labels[start:stop][:, rows["peer"][which]]
    for npu, owner, each in customs:
        table[owner].custom, table[owner].customs = made.at, len(each.rows)
        part = made.add(each, np.array([npu]))
        part.peer, part.owner = each.rows["peer"], owner
    return OperationTables(table, made.children(), *_ready(table, own, len(patterns)))


class _Maker:
    """Fills the table of operations from its beginning."""

    def __init__(self, table: Records, system: System, memory: Memory) -> None:
        self.table, self.at = table, 0
        self._system, self._memory = system, memory
        self._listed, self._lists = 0, list[np.ndarray]()
        self._known: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def add(self, one: Operations, npus: np.ndarray) -> Records:
        """Add the same operations for each of some NPUs; returns their rows, NPUs x operations."""
        if id(one) not in self._known:
            self._known[id(one)] = (*one.children(), durations_ns(one.rows, self._system, self._memory))
        start, children, durations = self._known[id(one)]
        rows, count = one.rows, len(npus)
        end = self.at + count * len(rows)
        part: Records = self.table[self.at : end].reshape(count, len(rows)).view(np.recarray)
        for name in ("kind", "bytes", "tag", "collective", "involved", "priority"):
            part[name] = rows[name]
        part.npu, part.duration_ns, part.group = npus[:, None], durations, -1
        part.place = issue_places(_TYPES[rows["kind"]], rows["on_cpu"] != 0, rows["stream"] > 0)
        if self._system.replay:
            part.kind = np.where(rows["kind"] == t.DELAY, t.DELAY, t.COMPUTE)
        part.waits = np.diff(one.dep_start)
        copy = np.arange(count)[:, None]
        part.first_child = start[:-1] + self._listed + copy * len(children)
        part.children = np.diff(start)
        part.involved[:, rows["group"] >= 0] = (1 << 62) - 1
        self._lists.append((children + self.at + copy * len(rows)).reshape(-1))
        self.at, self._listed = end, self._listed + count * len(children)
        return part

    def children(self) -> Records:
        """Make the table of the operations that wait for each."""
        flat = allocate(max(self._listed, 1), t.COUNTER)
        flat.value[: self._listed] = np.concatenate(self._lists) if self._lists else []
        return flat


def _ready(table: Records, own: int, npus: int) -> tuple[Records, Records]:
    """Make the heaps of operations that can begin, and the places that they are for."""
    places = allocate(npus * t.PLACES, t.PLACE)
    key = table.npu[:own] * t.PLACES + table.place[:own]
    counts = np.bincount(key, minlength=npus * t.PLACES)
    places["first"] = np.cumsum(counts) - counts
    ready = allocate(max(own, 1), t.COUNTER)
    free = np.flatnonzero(table.waits[:own] == 0)
    free = free[np.argsort(key[free], kind="stable")]
    starts = np.bincount(key[free], minlength=npus * t.PLACES)
    before = np.cumsum(starts) - starts
    ready.value[places["first"][key[free]] + np.arange(len(free)) - before[key[free]]] = free
    places.ready = starts
    return ready, places
