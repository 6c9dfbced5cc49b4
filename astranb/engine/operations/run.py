"""A run of operations of ranks: what the message and the layer engine must answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.engine.critical_path import Segment
from astranb.engine.edits import Edit

from .about import About
from .flights import LinkGraph, Recorded

__all__ = ["EVERY", "OperationRun", "Spans", "recent"]

EVERY = slice(None)
"""All rows."""


@dataclass(frozen=True)
class Spans:
    """Operations that have begun, a row each, in the order of the tables.

    Attributes
    ----------
    row, npu, track : ndarray of int64
        The operation, its rank, the number of its track.
    start_ps, end_ps : ndarray of int64
        One that is under way ends now.
    """

    row: np.ndarray
    npu: np.ndarray
    track: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray

    def of(self, ranks: Collection[int] | np.ndarray) -> Spans:
        """Those of some ranks."""
        kept = np.isin(self.npu, np.asarray(ranks, np.int64))
        return Spans(self.row[kept], self.npu[kept], self.track[kept], self.start_ps[kept], self.end_ps[kept])


def recent(machine: Any) -> Any:
    """The recorded phases of chunks in the order of their ends; they are kept in a ring buffer."""
    count, most = int(machine.watch[0].passed), len(machine.passed)
    return machine.passed[:count] if count <= most else machine.passed[np.arange(count - most, count) % most]


class OperationRun(ABC):
    """A run of operations of ranks, each of which waits for others. Times are picoseconds; -1 is not yet.

    Attributes
    ----------
    run : Run
        With ``machine``, its tables; among them ``watch`` and ``points``, for breakpoints.
    about : About
        What does not change.
    edits : list of Edit
        The changes so far.
    as_of_ps : int
        The time that questions are about, where that is later than the last event; else -1.
    title : str
        What runs.
    """

    run: Any
    about: About
    edits: list[Edit]
    title: str
    as_of_ps: int = -1

    @property
    @abstractmethod
    def ranks(self) -> int:
        """Number of ranks with rows of their own."""

    @property
    @abstractmethod
    def stands_for(self) -> int:
        """Number of ranks, which do the same at the same time, that each of them represents."""

    @property
    @abstractmethod
    def tracks(self) -> Sequence[str]:
        """The rows of a rank's timeline."""

    @property
    @abstractmethod
    def places(self) -> Sequence[str]:
        """Paths of what else there is to look at, for a list to choose from."""

    @property
    @abstractmethod
    def longest_ps(self) -> int:
        """Longest computation time of a rank: a guess of the run's length."""

    @property
    @abstractmethod
    def now_ps(self) -> int:
        """Time of the last event, or the later time that questions are about (``as_of_ps``)."""

    @property
    @abstractmethod
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""

    @property
    @abstractmethod
    def owners(self) -> Sequence[Any]:
        """The tables that conditions may name, in the order of their numbers."""

    @abstractmethod
    def count(self, name: str) -> int:
        """One of the counts that moments are named by."""

    @abstractmethod
    def config(self) -> Mapping[str, int]:
        """Numbers that the run was made with, by the names that people know."""

    @abstractmethod
    def read_edit(self, path: str, value: Any, *, back: bool = False) -> Edit:
        """Check a change and make an edit of it; ``back``: of the other direction of a link."""

    @abstractmethod
    def present(self, edit: Edit) -> list[float]:
        """Return the present value of each row that an edit changes, in the unit of its field."""

    @abstractmethod
    def times_ps(self, rows: slice = EVERY) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end of all operations or of some rows; -1: not yet."""

    @abstractmethod
    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations (:data:`.about.STATES`)."""

    @abstractmethod
    def progress(self, row: int) -> tuple[int, int]:
        """Return the number of chunks of an operation that are done, and of all."""

    @abstractmethod
    def ends_ps(self) -> np.ndarray:
        """Return the completion time of each rank; -1: not yet."""

    @abstractmethod
    def computed_ps(self) -> np.ndarray:
        """Return the summed computation time of each rank, as ASTRA-sim counts it."""

    @abstractmethod
    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as columns.

        ``npu``, ``operation``, ``chunk``, ``phase``, ``dim``, ``algorithm``, ``queued_ps``,
        ``begun_ps``, ``end_ps``.
        """

    @abstractmethod
    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""

    @abstractmethod
    def link_graph(self) -> LinkGraph:
        """NPUs, switches and links of the network."""

    @abstractmethod
    def link_path(self, link: int) -> str:
        """Return the path inspected for a link: itself, or its dimension where links are not simulated."""

    @abstractmethod
    def queues(self, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of messages that wait for each of some links now, and which links are down."""

    @abstractmethod
    def recorded_flights(self) -> int:
        """Return how many numbers the recording of :meth:`flights` has given so far."""

    @abstractmethod
    def flights(self, since: int) -> Recorded:
        """Messages on their links, from a number of the recording on."""

    @abstractmethod
    def trace_tracks(self) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of a trace, what each occupies, and the names of that."""

    @abstractmethod
    def track_spans(self) -> Spans:
        """Spans of the timeline of ranks, with the number of the track of each."""

    @abstractmethod
    def arrows(self) -> tuple[np.ndarray, np.ndarray]:
        """Sends and their receives: operations."""

    @abstractmethod
    def segments(self) -> list[Segment]:
        """The operations each of which had to wait for the one before: the critical path."""

    @abstractmethod
    def ready_ps(self) -> np.ndarray:
        """From when on each of the ranks' operations waits for no other rank; 0 where it never does."""

    @abstractmethod
    def slow(self) -> list[tuple[int, float]]:
        """Ranks that compute longer than the median, and how many times as long."""

    @abstractmethod
    def dimension(self, dim: int) -> dict[str, Any]:
        """Return the traffic of a dimension; ``utilisation`` is the share of all its links' bandwidth.

        Above 1, messages that do not wait for one another went faster than the links could carry them.
        """

    @abstractmethod
    def own_tables(self) -> dict[str, Callable[[], Any]]:
        """Tables of results that only this engine has, by name."""

    @property
    def represented(self) -> tuple[OperationRun, np.ndarray] | None:
        """A run of ranks that represent all, and which one each rank; None: all are simulated."""
        return None

    def times_of(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end of each operation of a rank."""
        if self.represented is not None:
            few, npu = self.represented
            return few.times_of(int(npu[rank]))
        first, until = self.about.start[rank : rank + 2].tolist()
        start, end = self.times_ps()
        return start[first:until], end[first:until]

    @property
    def machine(self) -> Any:
        """The tables as they are now; a table that grows is another one."""
        return self.run.machine

    @property
    def recording(self) -> bool:
        """Whether phases of chunks and traffic are recorded."""
        return bool(self.machine.watch[0].recording)
