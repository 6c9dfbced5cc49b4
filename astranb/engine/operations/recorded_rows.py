"""Recorded operations in the tables of a run that replays them, as rows of custom collectives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from astranb.workload.astrasim2 import COLLECTIVE_NAMES, Label, RecordedParts

__all__ = ["PartRows", "part_rows"]

_COLUMNS: Final = ("owner", "first", "until", "label", "kind", "bytes", "shows", "phase", "chunk")


@dataclass(frozen=True, eq=False)
class PartRows:
    """Parts of a run's custom collectives, each of which is named by its first row.

    Attributes
    ----------
    own : int
        How many rows are the ranks' operations; those of custom collectives come behind them.
    owner : ndarray of int64
        The collective of each part.
    first, until : ndarray of int64
        The rows of each part: from its first one up to, not including, the other.
    label, kind, bytes : ndarray of int64
        Of each part, see :class:`.RecordedParts`.
    shows : ndarray of int64
        For each row of a custom collective, the row that is shown for it: the first of its part, or the
        collective, where that has no parts.
    phase, chunk : ndarray of int64
        Of each row of a custom collective.
    labels : tuple of Label
    """

    own: int
    owner: np.ndarray
    first: np.ndarray
    until: np.ndarray
    label: np.ndarray
    kind: np.ndarray
    bytes: np.ndarray
    shows: np.ndarray
    phase: np.ndarray
    chunk: np.ndarray
    labels: tuple[Label, ...]

    @property
    def collective(self) -> np.ndarray:
        """The number of each part's collective; 0 where it is none, or none that we know."""
        known = [COLLECTIVE_NAMES.get(one.collective, 0) for one in self.labels]
        return np.asarray(np.array(known, np.int64)[self.label])

    @cached_property
    def hidden(self) -> np.ndarray:
        """For each row whether others are shown for it: all of parts but their first, and what has parts."""
        rows = self.own + np.arange(len(self.shows))
        found = np.concatenate([np.zeros(self.own, bool), self.shows != rows])
        found[self.owner] = True
        return found

    def shown(self, rows: Any) -> Any:
        """Return the row that is shown for each row."""
        rows = np.asarray(rows)
        found: Any = np.where(rows < self.own, rows, self.shows[np.maximum(rows - self.own, 0)])
        return found

    def at(self, row: int) -> int:
        """The number of the part that a row begins; -1: none."""
        found = int(np.searchsorted(self.first, row))
        return found if found < len(self.first) and self.first[found] == row else -1

    def of(self, row: int) -> Label:
        """The label of a row; that of a row without a part says nothing."""
        at = self.at(int(self.shown(row)))
        return self.labels[int(self.label[at])] if at >= 0 else Label()


def part_rows(own: int, customs: Iterable[tuple[int, int, RecordedParts | None]]) -> PartRows | None:
    """Gather the parts of all custom collectives.

    Parameters
    ----------
    own : int
        How many rows are the ranks' operations.
    customs : iterable of (int, int, RecordedParts or None)
        Of each custom collective, in the order of the table: its row, how many rows it has, and its parts.

    Returns
    -------
    PartRows or None
        None: none has parts.
    """
    labels: dict[Label, int] = {}
    numbers: dict[int, np.ndarray] = {}
    columns: dict[str, list[np.ndarray]] = {name: [np.zeros(0, np.int64)] for name in _COLUMNS}
    at, any_parts = own, False
    for owner, count, parts in customs:
        if parts is None or not count:
            given = {"shows": np.full(count, owner), "phase": np.full(count, -1), "chunk": np.full(count, -1)}
        else:
            any_parts = True
            # Ranks share their list of labels.
            if id(parts.labels) not in numbers:
                known = [labels.setdefault(label, len(labels)) for label in parts.labels]
                numbers[id(parts.labels)] = np.array(known, np.int64)
            until = np.append(parts.first[1:], count)
            given = {
                "first": parts.first + at, "until": until + at, "owner": np.full(len(until), owner),
                "kind": parts.kind, "bytes": parts.bytes,
                "label": numbers[id(parts.labels)][parts.label], "phase": parts.phase, "chunk": parts.chunk,
                "shows": np.repeat(parts.first + at, until - parts.first),
            }  # fmt: skip
        for name, column in given.items():
            columns[name].append(column.astype(np.int64))
        at += count
    if not any_parts:
        return None
    whole = {name: np.concatenate(each) for name, each in columns.items()}
    return PartRows(own, **whole, labels=tuple(labels))
