"""What ``WorkloadSimulation`` needs of what it moves: one engine for each kind of workload.

The verbs, breakpoints, checkpoints, edits, files, tables of results, traces and views stand once, over
this protocol. ASTRA-sim 2.0's traces are moved by :class:`._state.State`, 1.0's layer tables by
:class:`.astrasim1.LayerState`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from astranb.sim._breakpoints import Breakpoint
    from astranb.sim._why import Why
    from astranb.sim.workload._standing import Standing

    from .cacheline._edits import Parameter
    from .messages._about import About
    from .messages._critical import Piece
    from .messages._edits import Edit
    from .messages._spans import Spans

__all__ = ["Engine"]


class Engine(Protocol):
    """A run as something that has a history and can be looked at. Times are picoseconds, -1 is not yet.

    Attributes
    ----------
    run : Run
        With ``machine``, its tables; among them ``watch`` and ``points``, for breakpoints.
    about : About
        What does not change: operations with their names and what they wait for, dimensions.
    units : mapping of str to str
        The steps there are, and the count of each; ``event`` counts ``events``, ``cycle`` ``turns``.
    kinds : sequence of str
        What one can stop on.
    lanes : sequence of str
        What a rank's timeline shows one above the other.
    """

    run: Any
    about: About

    # What does not change ----------------------------------------------------

    @property
    def units(self) -> Mapping[str, str]: ...
    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def lanes(self) -> Sequence[str]: ...
    @property
    def ranks(self) -> int:
        """How many ranks have rows of their own."""
        ...

    @property
    def stands_for(self) -> int:
        """How many ranks that do the same at the same time each of them stands for."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """Paths of what else there is to look at, for a list to choose from."""
        ...

    def config(self) -> Mapping[str, int]:
        """Numbers that the run was made with, by what people call them: two runs are compared by them."""
        ...

    @property
    def longest_ps(self) -> int:
        """How long a rank computes at most: a guess of how long the run is."""
        ...

    # Time --------------------------------------------------------------------

    @property
    def machine(self) -> Any: ...
    @property
    def now_ps(self) -> int: ...
    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        ...

    def count(self, name: str) -> int:
        """One of the counts that moments are named by."""
        ...

    def counts(self) -> Mapping[str, int]: ...
    def kept(self) -> dict[str, memoryview]: ...
    def resize(self, sizes: Mapping[str, int]) -> None: ...
    @property
    def state_bytes(self) -> int: ...
    def digest(self) -> str: ...
    def copy(self) -> Engine: ...

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events; returns a number of :mod:`astranb.engine.stops`."""
        ...

    def check(self, edits: Sequence[Edit]) -> None:
        """Nothing is left to happen: raise a Deadlock where something should be."""
        ...

    # Stopping and changing ---------------------------------------------------

    def install(self, points: Sequence[Breakpoint]) -> list[Breakpoint]:
        """Write breakpoints into the machine; returns the breakpoint of each row."""
        ...

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint: ...
    def condition(self, text: str) -> Breakpoint: ...
    def reason(self, point: Breakpoint) -> str: ...
    def fields(self, path: str) -> Sequence[str]:
        """What a condition may name of an object; an InputError where there is none."""
        ...

    def readers(self, path: str) -> tuple[str, Mapping[str, Callable[[Any], float]]]:
        """An object's full path, and what can be followed of it: by word, what reads it off a machine."""
        ...

    def recorded(self, path: str) -> Collection[str]:
        """Which of these words a run knows only where it records."""
        ...

    def parameters(self, path: str, edits: Sequence[Edit]) -> list[Parameter]: ...
    def ways(self, link: str, *, both: bool) -> list[str]:
        """A link's full path, and, if wanted, that of the one the other way."""
        ...

    def read_edit(self, path: str, value: float | str | bool) -> Edit: ...
    def number(self, edit: Edit, edits: Sequence[Edit]) -> float:
        """What an edit is about as it is now, in the unit of the edit's field."""
        ...

    def apply(self, edit: Edit, edits: Sequence[Edit]) -> None:
        """Carry an edit out, behind those that were carried out before."""
        ...

    # Looking -----------------------------------------------------------------

    @property
    def recording(self) -> bool: ...
    def inspect(self, sim: Standing, path: str) -> dict[str, Any]: ...
    def narrate(self, sim: Standing) -> str: ...
    def changed(self) -> str:
        """Path of what the last event was about; empty where it is not known."""
        ...

    def times_ps(self) -> tuple[np.ndarray, np.ndarray]:
        """When each of the ranks' operations began and ended."""
        ...

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations (``STATES``)."""
        ...

    def progress(self, row: int) -> tuple[int, int]:
        """How many chunks of an operation are done, of how many."""
        ...

    def ends_ps(self) -> np.ndarray:
        """When each rank was done."""
        ...

    def computed_ps(self) -> np.ndarray:
        """What each rank has computed, summed, as ASTRA-sim counts it."""
        ...

    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as columns.

        ``npu``, ``operation``, ``chunk``, ``phase``, ``dim``, ``algorithm``, ``queued_ps``,
        ``begun_ps``, ``end_ps``.
        """
        ...

    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""
        ...

    def tracks(self, sim: Standing) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of a trace, what each occupies, and the names of that."""
        ...

    def lane_spans(self, sim: Standing) -> Spans:
        """Spans of the timeline of ranks, with the number of the lane of each."""
        ...

    def arrows(self, sim: Standing) -> tuple[np.ndarray, np.ndarray]:
        """Sends and their receives: operations."""
        ...

    def critical_path(self, sim: Standing) -> list[Piece]: ...
    def ready_ps(self, sim: Standing) -> np.ndarray:
        """From when on each of the ranks' operations waits for no other rank; 0 where it never does."""
        ...

    def why(self, sim: Standing, path: str) -> Why:
        """Why a rank or an operation waits; where there is no path, the rank that has waited longest."""
        ...

    def slow(self) -> list[tuple[int, float]]:
        """Ranks that compute longer than the one in the middle, and how many times as long."""
        ...

    def dimension(self, sim: Standing, dim: int) -> dict[str, Any]: ...
    def tables(self, sim: Standing) -> dict[str, Callable[[], Any]]:
        """Tables of results that only this kind of workload has, by name."""
        ...

    def lines(self, sim: Standing) -> list[str]:
        """What else there is to explain."""
        ...

    # Files -------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a file has to have beside the machine's tables: for JSON, and arrays."""
        ...
