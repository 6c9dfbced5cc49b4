"""Protocol between ``Simulation`` and the engines.

The verbs, breakpoints, checkpoints, edits, files, results and views are written once, over this protocol.
Three engines answer it: :mod:`.cacheline` moves cache lines, :mod:`.messages` the messages of ASTRA-sim
2.0's workloads, :mod:`.layers` ASTRA-sim 1.0's layer tables. Times are picoseconds; -1 is not yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from .breakpoints import Breakpoint
from .critical_path import CriticalPath
from .edits import Edit, Parameter
from .what_if import Change
from .why import Why

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Bound",
    "Breakdown",
    "CollectiveFacts",
    "Engine",
    "Explainable",
    "Fields",
    "Headline",
    "Inputs",
    "Inspectable",
    "Installed",
    "LastEvent",
    "Movable",
    "Question",
    "Replica",
    "Rows",
    "Traits",
]

Rows = list[dict[str, Any]]


class Bound(NamedTuple):
    """Lower bound of a run's time: a resource, and how long its bytes alone take."""

    name: str
    path: str
    alone_ps: int


class Breakdown(NamedTuple):
    """Fractions of a run's time, and what it could not have been shorter than."""

    whose: str
    """Owners of the time that is divided: ``"ranks"`` or ``"blocks"``."""
    parts: Mapping[str, float]
    """Fractions of the time of all of them; they add up to 1."""
    bound: Bound | None
    """The resource whose bytes alone would take longest; None: nothing was carried."""


class Headline(NamedTuple):
    """A run in two lines."""

    what: str
    """Title of the work and of where it ran."""
    work: str
    """Amount of work, in counts."""
    costs: str = ""
    """Costs of collectives, and how far their times are off; empty where nothing is left out."""


class Inputs(NamedTuple):
    """Inputs of a run, and tables made of them."""

    named: Mapping[str, Any]
    """Numbers and words by name, to compare."""
    made: Mapping[str, Sequence[np.ndarray]] = MappingProxyType({})
    """Tables that were made of single inputs, by what these are called."""


class Installed(NamedTuple):
    """Breakpoints in the tables."""

    points: Sequence[Breakpoint]
    """The breakpoint of each row."""
    row: Callable[[], int]
    """Return the row of the one that stopped the loop."""


class Traits(NamedTuple):
    """Properties of an engine that no run changes."""

    units: Mapping[str, str]
    """Units of steps, and the count of each: at least ``event``, which counts ``events``, and ``cycle``."""
    slice_events: int
    """Events of one call of the loop: some milliseconds, so that Pause and Ctrl-C act at once."""
    replay_bytes: int
    """Bytes of state whose copy takes as long as replaying an event."""
    quick: bool
    """Whether a whole run takes milliseconds, so that a question is answered by another run."""
    event_kinds: Collection[str]
    """Events that one can stop on."""
    part_kinds: Collection[str]
    """Kinds of the parts of objects."""
    losses: Mapping[str, str]
    """Classes of lost time, and their meanings."""
    lost_per: Sequence[str]
    """Owners that lost time can be added up by; the first one unless given."""
    shown: Sequence[tuple[str, str, str, bool]]
    """Columns to compare: title, table, field, and whether the largest differences come first."""


class LastEvent(NamedTuple):
    """The last event, and the last phase that has ended."""

    text: str
    """One line."""
    path: str
    """Path of its object, or of that of the breakpoint; empty where it is not known."""
    phase: tuple[str, int, int]
    """Name, start and end (ps) of the phase that ended last; no name where there is none."""


class Fields(NamedTuple):
    """Fields of an object: those that breakpoints and watches can read, its numbers, its parameters."""

    path: str
    """Its full path."""
    named: Sequence[str]
    """Names for conditions."""
    readers: Mapping[str, Callable[[Any], float]]
    """The reader of each field that can be watched, from an engine."""
    recorded: Collection[str]
    """Names of those known only while recording."""
    numbers: Callable[[], dict[str, Any]]
    """Return every number now, with units in the names."""
    parameters: Callable[[], list[Parameter]]
    """Return what can be changed, with the values now."""


class CollectiveFacts(NamedTuple):
    """The only collective that runs, and what its result is judged by."""

    kind: str
    size: int
    """In bytes."""
    ranks: int
    bus_factor: float | None = None
    """The factor from algorithm to bus bandwidth; None: it has none."""
    counted_bytes: Mapping[str, int] = MappingProxyType({})
    """Of an exchange of experts, the bytes of a rank by kind of link that its bandwidth is of."""
    unchecked_text: str = ""
    """Reason why the result is compared with nothing; empty where it is compared, or holds no numbers."""
    roundings: Callable[[], tuple[int, str] | None] = lambda: None
    """Return the most roundings of a result that has ended, also in words; None: they are not known."""


class Movable(Protocol):
    """A run that has a history: it goes on, is copied, kept and changed.

    Attributes
    ----------
    fidelity : str
        ``"analytical"``, ``"congestion"`` or ``"cacheline"``.
    edits : list of Edit
        The changes so far.
    traits : Traits
        Properties that no run changes.
    as_of_ps : int
        The time that questions are about, where that is later than the last event and before the
        next one (of a private copy that is only looked at); else -1.
    """

    fidelity: str
    edits: list[Edit]
    as_of_ps: int

    @property
    def traits(self) -> Traits: ...  # noqa: D102 - said above
    @property
    def title(self) -> str:
        """Title of the run."""
        ...

    @property
    def now_ps(self) -> int:
        """Time of the last event, or :attr:`as_of_ps`."""
        ...

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        ...

    def count(self, name: str) -> int:
        """One of the counts that moments are named by: those of the units, and ``now_ps``."""
        ...

    def kept(self, sizes: Mapping[str, int] | None = None, *, whole: bool = False) -> dict[str, memoryview]:
        """Return the contents of a checkpoint as writable bytes; nothing of a start that is made again.

        ``sizes``: to go back to one; tables are first made as long, in bytes, as they were there.
        ``whole``: of a snapshot, which has everything recorded, too.
        """
        ...

    @property
    def layout(self) -> dict[str, np.dtype[Any]]:
        """Names and types of the fields of each table that a snapshot may hold."""
        ...

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        ...

    def digest(self) -> str:
        """Hash everything simulated (32 hex digits)."""
        ...

    def copy(self, *, record: bool = True, show: bool = False) -> Self:
        """An independent engine in the same state, with or without its recording.

        ``show``: to look at the past in; it records nothing, and shows what this one has recorded.
        """
        ...

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to so many steps, a time or other counts, all counted from the start.

        ``closely`` says that limits and breakpoints are looked at before each event. Returns a number of
        :mod:`.stops`.
        """
        ...

    def finish(self) -> bool:
        """Go to the end where that is faster than event by event; False: nothing was done."""
        ...

    def stopped(self, why: int) -> None:
        """Draw the conclusions of a stop; ``BACK``: forget what was known of a later time.

        Raises
        ------
        Deadlock, WrongResult
            The run cannot go on, or has ended wrongly.
        """
        ...

    def install(self, points: Sequence[Breakpoint]) -> Installed:
        """Write breakpoints into the machine."""
        ...

    def read_edit(self, path: str, value: Any, *, back: bool = False) -> Edit:
        """Check a change and make an edit of it; ``back``: of the other direction of a link."""
        ...

    def apply(self, edit: Edit) -> None:
        """Carry an edit out, behind those that were carried out before."""
        ...

    def inputs(self) -> Inputs:
        """Return the inputs of the run, and tables made of them."""
        ...


class Inspectable(Protocol):
    """A run whose objects can be inspected."""

    @property
    def ranks(self) -> int:
        """Number of ranks with rows of their own."""
        ...

    @property
    def recording(self) -> bool:
        """Whether what views show is recorded."""
        ...

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind, of an object, or both."""
        ...

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field becomes true."""
        ...

    def fields(self, path: str) -> Fields:
        """Return the fields of an object."""
        ...

    def parts(self, path: str = "") -> Mapping[str, Iterable[str]]:
        """Paths of the parts of an object, by their kinds.

        Of the whole run, and of a name that stands for several objects, these are ``objects``.
        """
        ...

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: ``title``, ``kind``, ``path``, ``state``, ``in_flight``, ``children``."""
        ...

    def last_event(self, point: Breakpoint | None = None) -> LastEvent:
        """Describe the last event, and the last phase that has ended; ``point``: as what hit it."""
        ...


class Replica(Protocol):
    """A private copy of a run that can be moved; the run itself stays where it is."""

    engine: Any

    @property
    def events(self) -> int:
        """Events handled so far."""
        ...

    @property
    def edits(self) -> list[Edit]:
        """The edits so far."""
        ...

    def read_backwards(self, events: int) -> None:
        """Prepare for going back again and again by so many events."""
        ...

    def back_to(self, field: str, target: int) -> None:
        """Restore the nearest checkpoint and replay."""
        ...

    def replay(self, field: str, target: int, edits: Sequence[Edit]) -> None:
        """Run to a moment; carry out edits at the events at which they were made."""
        ...


class Question(Protocol):
    """One change that is asked about, read and checked."""

    edit: Edit
    """The edit that carries the change out."""

    def about(self, path: CriticalPath) -> Change:
        """The change as far as the critical path of the run says something about it."""
        ...


class Explainable(Protocol):
    """A run that explains its time.

    Attributes
    ----------
    absent : mapping of str to str
        What this fidelity or workload cannot know: results by name, and the reason.
    """

    @property
    def absent(self) -> Mapping[str, str]: ...  # noqa: D102 - said above
    @property
    def time_ps(self) -> int:
        """Completion time of the last rank; the current time while it runs."""
        ...

    @property
    def collective(self) -> CollectiveFacts | None:
        """The only collective that runs; None for a workload."""
        ...

    def why(self, path: str) -> Why:
        """The chain of waits of an object; where there is no path, of who has waited longest."""
        ...

    def search_path(self, replica: Callable[[], Replica]) -> Generator[float, None, CriticalPath]:
        """Find the critical path in small steps, each with the part that is done."""
        ...

    def time_by(self, what: str, path: CriticalPath | None = None) -> Any:
        """Divide the time.

        By an owner of :attr:`Traits.lost_per`: columns of who, ``time_ps`` and a column in ps for each of
        the losses, in rows that add up. By ``"line"`` or ``"phase"`` of the program: rows of the time of
        thread blocks, and of a critical path.
        """
        ...

    def buffers(self, most: int) -> dict[str, Any]:
        """The fullest buffers and longest queues now, as columns; ``all`` is how many hold anything."""
        ...

    def question(self, path: str, value: Any) -> Question:
        """Read a change that is asked about."""
        ...

    def suggest(self, path: CriticalPath) -> list[Change]:
        """Changes that are likely to matter, the most likely first."""
        ...

    def breakdown(self) -> Breakdown:
        """Return the fractions of the time of all, and the bound of the run's time."""
        ...

    def headline(self) -> Headline:
        """Return what ran on what, and how much work it was."""
        ...

    def explain(self, path: CriticalPath | None) -> list[str]:
        """Lines about where the time went."""
        ...

    def tables(self) -> Mapping[str, Callable[[], Any]]:
        """Tables of results by name: lists of rows, or columns; ``ranks`` is there always."""
        ...

    def trace_events(self, written: dict[str, Any], **options: Any) -> Iterator[dict[str, Any]]:
        """Events of a Perfetto trace; what was written is noted in ``written``."""
        ...

    def compared(self) -> Mapping[str, tuple[str, Callable[[], Rows], tuple[str, ...]]]:
        """Tables to compare, by name: the key of a row, the rows, and the fields that are compared."""
        ...


class Engine(Movable, Inspectable, Explainable, Protocol):
    """All of it."""
