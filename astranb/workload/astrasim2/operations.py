"""The operations of a rank as columns, with their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from astranb.chakra import Distinct
from astranb.core.errors import InputError

from .kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    COLLECTIVE,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
)

__all__ = ["COLLECTIVE_NAMES", "MOST_BYTES", "Operations"]

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
        ("kind", "i8"),  # COMPUTE, COLLECTIVE, SEND, RECV, MEMORY, REPLAY
        ("on_cpu", "i8"),
        ("duration_ns", "i8"),  # as recorded, 0: not
        ("flops", "i8"),  # operations of a computation
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
        counts = [len(each) for each in lists]
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        flat = np.array([dep for each in lists for dep in each], np.int64)
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
        collectives = self.rows["kind"] == COLLECTIVE
        if (self.rows["bytes"][collectives] <= 0).any():
            raise InputError("a collective of no bytes", hint="give its size")
        large = np.flatnonzero(self.rows["bytes"] > MOST_BYTES)
        if len(large):
            name = (
                f" ({self.names.values[int(self.names.index[large[0]])]})" if self.names is not None else ""
            )
            size = int(self.rows["bytes"][large[0]])
            what = f"operation {large[0]}{name} has {size:,} bytes, more than {MOST_BYTES:,}"
            raise InputError(what, hint="use a smaller size")

    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """Give the reversed dependencies: the operations that wait for each one."""
        waiting = np.repeat(np.arange(len(self.rows)), np.diff(self.dep_start))
        order = np.argsort(self.deps, kind="stable")
        start = np.searchsorted(self.deps[order], np.arange(len(self.rows) + 1))
        return start, waiting[order]
