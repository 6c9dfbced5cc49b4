"""The operations of a rank as columns, with their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, overload

import numpy as np

from astranb.chakra import Distinct
from astranb.core.arrays import flat_lists, reversed_lists
from astranb.core.errors import InputError
from astranb.workload.kernels import Grid, Launch, ShapedKernel

from .kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    COLLECTIVE,
    GATHER,
    RECV,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    SEND,
)
from .recorded_parts import RecordedParts

__all__ = ["COLLECTIVE_NAMES", "MOST_BYTES", "Operations", "RankOperations"]

MOST_BYTES: Final = 2**50
"""Most bytes of one operation: what many ranks send of it together still fits into an int64."""

COLLECTIVE_NAMES = {
    "all_reduce": ALL_REDUCE,
    "reduce_scatter": REDUCE_SCATTER,
    "all_gather": ALL_GATHER,
    "all_to_all": ALL_TO_ALL,
    "broadcast": BROADCAST,
    "reduce": REDUCE,
    "scatter": SCATTER,
    "gather": GATHER,
}
"""The collectives by name."""

COLUMN = np.dtype(
    [
        ("kind", "i8"),  # COMPUTE, COLLECTIVE, SEND, RECV, MEMORY, REPLAY, DELAY
        ("on_cpu", "i8"),
        ("duration_ns", "i8"),  # as recorded, 0: not
        ("flops", "i8"),  # operations of a computation; -1: not known, it keeps its duration
        ("bytes", "i8"),  # of a message, a collective, or the tensors of a computation
        ("peer", "i8"),  # rank at the other end; a collective's root, -1: the first of its group
        ("tag", "i8"),
        ("collective", "i8"),
        ("group", "i8"),  # number of a group of ranks, -1 for all
        ("involved", "i8"),  # a bit for each dimension that takes part
        ("priority", "i8"),
        ("stream", "i8"),  # of a collective: 0, or 1 for the background, which the first does not wait for
    ]
)
"""One operation of a rank."""


@dataclass(frozen=True)
class Operations:
    """The operations of one rank.

    Parameters
    ----------
    rows : ndarray of COLUMN
        In the order of their ids: of several that can be issued, the first one is.
    dep_start : ndarray of int
        The index in ``deps`` at which the list of each operation begins; one more at the end.
    deps : ndarray of int
        Rows that an operation waits for.
    custom : mapping of int to Operations
        For a collective (its row): the operations that this rank does instead of an algorithm.
    names : Distinct of str, optional
        The name of each operation.
    grids : tuple of tuple of Grid
        Of each operation, the kernels that it launches; empty where only durations are known. A run by cache
        lines simulates their thread blocks.
    kernels : mapping of int to ShapedKernel or Launch
        Of computations (their rows), what a trace recorded of the kernel: the shapes of its operands, or how
        it was launched. A run by cache lines simulates its thread blocks.
    parts : RecordedParts, optional
        Of a custom collective: the recorded operations that it replays.

    Examples
    --------
    >>> one = Operations.of([{"kind": COLLECTIVE, "collective": ALL_REDUCE, "bytes": 1 << 20}])
    >>> len(one.rows), int(one.rows[0]["group"])
    (1, -1)
    """

    rows: np.ndarray
    dep_start: np.ndarray
    deps: np.ndarray
    custom: Mapping[int, Operations] = field(default_factory=dict)
    names: Distinct[str] | None = None
    grids: tuple[tuple[Grid, ...], ...] = ()
    kernels: Mapping[int, ShapedKernel | Launch] = field(default_factory=dict)
    parts: RecordedParts | None = None

    @classmethod
    def of(
        cls,
        rows: Iterable[Mapping[str, Any]],
        deps: Sequence[Sequence[int]] = (),
        custom: Mapping[int, Operations] | None = None,
        names: Sequence[str] | None = None,
    ) -> Operations:
        """Make the columns from a description of each operation.

        Parameters
        ----------
        rows : iterable of mapping
            Fields of an operation by name; the default is 0 (``group``: -1, ``involved``: every dimension).
        deps : sequence of sequence of int
            For each operation the rows that it waits for.
        custom : mapping, optional
        names : sequence of str, optional
            The name of each operation.
        """
        listed = list(rows)
        table = np.zeros(len(listed), COLUMN)
        table["group"] = -1
        table["involved"] = (1 << 62) - 1
        for number, row in enumerate(listed):
            for name, value in row.items():
                try:
                    table[number][name] = value
                except OverflowError as error:
                    raise InputError(f"operation {number}: {name} {value} is too large") from error
        lists = list(deps) or [()] * len(listed)
        start, flat = flat_lists(lists)
        return cls(table, start, flat, custom or {}, None if names is None else Distinct.of(names))

    def __post_init__(self) -> None:
        """Check the dependencies and sizes."""
        count = len(self.rows)
        if len(self.dep_start) != count + 1 or int(self.dep_start[-1]) != len(self.deps):
            raise InputError("lists of dependencies do not fit the operations", hint="one for each operation")
        if len(self.deps) and (self.deps.min() < 0 or self.deps.max() >= count):
            raise InputError(
                f"an operation waits for row {int(self.deps.max())} of {count}",
                hint="name existing operations",
            )
        if self.grids and len(self.grids) != count:
            raise InputError("lists of kernels do not fit the operations", hint="one for each operation")
        collectives = self.rows["kind"] == COLLECTIVE
        if (self.rows["bytes"][collectives] <= 0).any():
            raise InputError("collective size is zero", hint="give its size")
        large = np.flatnonzero(self.rows["bytes"] > MOST_BYTES)
        if len(large):
            name = (
                f" ({self.names.values[int(self.names.index[large[0]])]})" if self.names is not None else ""
            )
            size = int(self.rows["bytes"][large[0]])
            what = f"operation {large[0]}{name} has {size:,} bytes, more than {MOST_BYTES:,}"
            raise InputError(what, hint="use a smaller size")

    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the reversed dependencies: the operations that wait for each one."""
        return reversed_lists(np.diff(self.dep_start), self.deps)


@dataclass(frozen=True, eq=False)
class RankOperations(Sequence[Operations]):
    """The operations of all ranks: a few patterns, and the groups and peers that each rank has in its own.

    What thousands of ranks do is as small as what a few do, and an item is made when it is asked for.

    Parameters
    ----------
    patterns : sequence of Operations
        In these, ``group`` of an operation, and ``peer`` of a message, is a position among the groups and
        peers of a rank; -1: all ranks.
    pattern : ndarray of int, shape (ranks,)
        The pattern of each rank.
    groups : ndarray of int, shape (ranks, positions)
        Numbers of groups; -1: all ranks.
    peers : ndarray of int, shape (ranks, positions)

    Examples
    --------
    >>> swap = [{"kind": SEND, "bytes": 8, "peer": 0}, {"kind": RECV, "bytes": 8, "peer": 0}]
    >>> ranks = [Operations.of([{**row, "peer": peer} for row in swap]) for peer in (1, 0)]
    >>> pair = RankOperations.of(ranks)
    >>> len(pair), len(pair.patterns), pair.peers.tolist(), pair[0].rows["peer"].tolist()
    (2, 1, [[1], [0]], [1, 1])
    """

    patterns: Sequence[Operations]
    pattern: np.ndarray
    groups: np.ndarray
    peers: np.ndarray

    @classmethod
    def of(cls, operations: Sequence[Operations]) -> RankOperations:
        """Find the patterns of operations; ranks that share one object have one pattern."""
        if isinstance(operations, cls):
            return operations
        known: dict[int, tuple[int, np.ndarray, np.ndarray]] = {}
        numbers: dict[Any, int] = {}
        patterns: list[Operations] = []
        for one in operations:
            if id(one) in known:
                continue
            rows, groups, peers = _pattern(one.rows)
            # What a custom collective does names ranks: it has no pattern.
            named = (b"", ()) if one.names is None else (one.names.index.tobytes(), one.names.values)
            custom = id(one) if one.custom else 0
            launched = (one.grids, tuple(one.kernels.items()))
            key = (rows.tobytes(), one.dep_start.tobytes(), one.deps.tobytes(), named, custom, launched)
            if key not in numbers:
                numbers[key] = len(patterns)
                patterns.append(replace(one, rows=rows))
            known[id(one)] = numbers[key], groups, peers
        found = [known[id(one)] for one in operations]
        columns = []
        for lists in ([each[1] for each in found], [each[2] for each in found]):
            table = np.full((len(found), max(map(len, lists), default=0)), -1, np.int64)
            for rank, each in enumerate(lists):
                table[rank, : len(each)] = each
            columns.append(table)
        return cls(patterns, np.array([each[0] for each in found], np.int64), *columns)

    @cached_property
    def used(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The positions of groups and peers that each pattern uses."""
        found = []
        for one in self.patterns:
            groups, peers = one.rows["group"], one.rows["peer"][_has_peer(one.rows)]
            found.append((np.unique(groups[groups >= 0]), np.unique(peers)))
        return found

    @cached_property
    def _made(self) -> dict[Any, Operations]:
        return {}

    def __len__(self) -> int:
        """Return the number of ranks."""
        return len(self.pattern)

    @overload
    def __getitem__(self, rank: int) -> Operations: ...

    @overload
    def __getitem__(self, rank: slice) -> list[Operations]: ...

    def __getitem__(self, rank: int | slice) -> Operations | list[Operations]:
        """Return the operations of a rank; ranks that do the same share them."""
        if isinstance(rank, slice):
            return [self[one] for one in range(*rank.indices(len(self)))]
        number = int(self.pattern[rank])
        one, (groups, peers) = self.patterns[number], self.used[number]
        key = (number, *self.groups[rank, groups].tolist(), *self.peers[rank, peers].tolist())
        if key not in self._made:
            rows = one.rows.copy()
            rows["group"] = self.group_of(rows, rank)
            rows["peer"] = self.peer_of(rows, rank)
            self._made[key] = replace(one, rows=rows)
        return self._made[key]

    def group_of(self, rows: np.ndarray, ranks: Any) -> np.ndarray:
        """Return the groups that operations of a pattern name, of some ranks of it."""
        wide = np.concatenate([self.groups[ranks], np.full((*np.shape(ranks), 1), -1)], axis=-1)
        return np.asarray(wide[..., rows["group"]])

    def peer_of(self, rows: np.ndarray, ranks: Any) -> np.ndarray:
        """Return the peers of messages of a pattern, of some ranks of it; of collectives the root."""
        has = _has_peer(rows)
        found = np.broadcast_to(rows["peer"], (*np.shape(ranks), len(rows))).copy()
        found[..., has] = self.peers[ranks][..., rows["peer"][has]]
        return found


def _has_peer(rows: np.ndarray) -> np.ndarray:
    """Return which operations are messages."""
    return np.isin(rows["kind"], (SEND, RECV))


def _pattern(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace groups and peers by their positions in the order in which they are first named."""
    found, lists = rows.copy(), []
    for name, some in (("group", rows["group"] >= 0), ("peer", _has_peer(rows))):
        values, first, which = np.unique(rows[name][some], return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        found[name][some] = place[which]
        lists.append(values[order])
    return found, lists[0], lists[1]
