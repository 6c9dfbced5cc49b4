"""A run of ASTRA-sim 2.0's workloads: its tables, counts and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from astranb.core.arrays import reduce_at, reversed_lists
from astranb.core.state import allocate, own
from astranb.engine.edits import Edit
from astranb.engine.operations import EVERY, About, OperationEngine, OperationRun, part_rows
from astranb.infragraph import title_of
from astranb.workload.astrasim2 import InfraNetwork, RankOperations, Workload

from . import tables as t
from .link_names import LinkNames
from .reroute import RoutedLinks, renamed
from .run import Run

__all__ = ["UNITS", "MessageState"]

UNITS = {"event": "events", "cycle": "turns", "operation": "ended", "message": "delivered", "phase": "phases"}
"""The units of steps, and what counts them."""


class MessageState(OperationEngine):
    """The state of a run of ASTRA-sim 2.0's workloads, which the functions of this engine read.

    Parameters
    ----------
    run : Run
    title : str
        What runs.
    only : tuple of (str, int, int), optional
        The only collective that runs: its kind, size in bytes, and ranks.
    about : About, optional
        Gathered from the run unless given.
    base_ns : ndarray, optional
        Durations of operations before any edit: as they are now unless given.
    edits : sequence of Edit
        The changes so far.
    routed : RoutedLinks, optional
        Of an infrastructure, where there is no workload that has it.
    """

    places: ClassVar[Sequence[str]] = ()
    not_kept: ClassVar[Sequence[str]] = (
        *t.FIXED, "points", "passed", "flights", "drawn", "fold", "meeting", "last_use",
    )  # fmt: skip
    not_simulated: ClassVar[Sequence[str]] = t.RECORDED

    _few: MessageState | None = None

    def __init__(
        self,
        run: Run,
        title: str = "workload",
        only: tuple[str, int, int] | None = None,
        about: About | None = None,
        base_ns: Any = None,
        edits: Sequence[Edit] = (),
        routed: RoutedLinks | None = None,
    ) -> None:
        self.run, self.title, self.only = run, title, only
        network = None if run.workload is None else run.workload.network
        self.routed = RoutedLinks(network) if routed is None and isinstance(network, InfraNetwork) else routed
        self._about, self._base_ns = about, base_ns
        self.edits = list(edits)
        self.fidelity = "congestion" if run.congestion else "analytical"

    @property
    def about(self) -> About:  # type: ignore[override]
        """Constants of the run."""
        if self._about is None:
            workload = self.run.workload
            assert workload is not None  # noqa: S101 - a run without one is given what is known about it
            every = np.arange(len(workload.operations))
            self._about = _about_of(self.run.machine, workload, every)
        return self._about

    @property
    def base_ns(self) -> np.ndarray:
        """Durations of operations before any edit."""
        if self._base_ns is None:
            self._base_ns = np.array(self.run.machine.operations.duration_ns)
        return np.asarray(self._base_ns)

    @property
    def represented(self) -> tuple[OperationRun, np.ndarray] | None:
        """A run of ranks that represent all, and which of them represents each rank."""
        found = self.run.represented
        if found is None:
            return None
        few, fold = found
        if self._few is None or self._few.run is not few:
            workload = self.run.workload
            assert workload is not None  # noqa: S101 - a folded run has one
            about = _about_of(few.machine, workload, fold.ranks)
            self._few = type(self)(few, self.title, self.only, about)
        return self._few, fold.npu

    @property
    def begins_anew(self) -> bool:
        """Whether the start can be made again from the workload."""
        return self.run.folds and not self.edits

    def begin_anew(self) -> None:
        """Go back to the start of the run."""
        rerouted = self.run.made and (self.machine.routes.key < 0).any()
        self.run.restart()
        if rerouted:
            self._about = None

    def rank_title(self, rank: int) -> str:
        """Return the title of a rank: of its GPU, where the infrastructure gives it a name."""
        if self.routed is None:
            return super().rank_title(rank)
        fabric = self.routed.fabric
        return title_of(fabric.graph.name(int(fabric.gpus[rank])), rank=rank)

    @property
    def recording(self) -> bool:
        """Whether phases of chunks and traffic are recorded."""
        return bool(self.run.outline.watch[0].recording)

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state; about, where its tables are not made."""
        if self.run.made:
            return super().state_bytes
        workload = self.run.workload
        assert workload is not None  # noqa: S101 - without tables there is what they are made of
        ranks = RankOperations.of(workload.operations)
        sizes = np.array([len(one.rows) for one in ranks.patterns])
        return int(sizes[ranks.pattern].sum()) * t.OPERATION_ROW.itemsize

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.run.outline.npus)

    @property
    def now_ps(self) -> int:
        """The time of the last event, or the later time that questions are about."""
        return max(int(self.run.now_ns) * 1000, self.as_of_ps)

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        following = self.run.next_ns
        return following * 1000 if following >= 0 else -1

    def count(self, name: str) -> int:
        """Return a count of :data:`UNITS`, or the time."""
        m = self.run.outline
        if name == "now_ps":
            return self.now_ps
        if name == "turns":
            return int(m.queue[0].turns)
        return int(m.clock[0]["steps" if name == "events" else name])

    def kept(self, sizes: Mapping[str, int] | None = None, *, whole: bool = False) -> dict[str, memoryview]:
        """Return the contents of a checkpoint; nothing of a start that is made again from the workload."""
        if sizes is None:
            return {} if self.begins_anew else super().kept(whole=whole)
        if not sizes:
            self.begin_anew()
            return {}
        if whole:  # what comes is of a later moment: gather what is known of the start
            self._about, self._base_ns = self.about, self.base_ns
        return super().kept(sizes, whole=whole)

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Make the tables as long as they were at a checkpoint."""
        changed = {}
        for name, size in sizes.items():
            table = getattr(self.machine, name)
            if table.nbytes != size:
                changed[name] = allocate(size // table.itemsize, table.dtype)
        if "ports" in changed:  # there are as many as routes have taken
            changed["config"] = own(self.machine.config)
            changed["config"].ports = len(changed["ports"]) // (2 * len(self.machine.npus))
        if changed:
            self.run.machine = self.machine._replace(**changed)
        if "routes" in changed:  # recorded messages of the future that is left go nowhere
            m = self.machine
            stale = (m.flights.route >= len(m.routes)) | (m.flights.link >= len(m.links))
            for name in ("number", "route", "link"):
                m.flights[name][stale] = -1
        if "routes" in changed and self.routed is not None:
            self._about = renamed(self.about, self.routed, self.machine)

    def digest(self) -> str:
        """Hash everything simulated, and nothing that is only recorded (32 hex digits)."""
        return str(self.run.digest())

    def times_ps(self, rows: slice = EVERY) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end of all operations or of some rows; -1: not yet."""
        parts = self.about.parts
        some: Any = self.machine.operations[: self.about.own if parts is None else None][rows]
        start, end = _ps_of(some.start_ns), _ps_of(some.end_ns)
        if parts is not None and rows == EVERY:
            # Each part begins with the first of its rows. It ends with the last: as an operation that has
            # received all, where that is a computation that waits for the others, whatever is still sent.
            every = np.ravel(np.column_stack([parts.first, parts.until]))
            every = every[every < len(start)]
            never = np.iinfo(np.int64).max
            begun = reduce_at(np.minimum, np.where(start >= 0, start, never), every)[::2]
            ended = reduce_at(np.maximum, np.where(end >= 0, end, never), every)[::2]
            last = parts.until - 1
            ended = np.where(some.kind[last] == t.COMPUTE, end[last], np.where(ended < never, ended, -1))
            start[parts.first], end[parts.first] = np.where(begun < never, begun, -1), ended
        return start, end

    def ends_ps(self) -> np.ndarray:
        """Return the completion time of each rank; -1: not yet."""
        return _ps_of(self.run.outline.npus.end_ns)


def _ps_of(times_ns: Any) -> np.ndarray:
    """Return times in picoseconds; -1 stays."""
    times = np.array(times_ns, np.int64)
    return np.multiply(times, 1000, out=times, where=times >= 0)


def _about_of(m: t.MessageMachine, workload: Workload, ranks: np.ndarray) -> About:
    """Gather what does not change in a run of some ranks."""
    operations = RankOperations.of(workload.operations)
    rows = m.operations
    kind = np.array(rows.kind)
    name = np.full(len(rows), -1, np.int64)
    names: dict[str, int] = {}
    known: dict[int, np.ndarray] = {}
    at = 0
    for pattern in operations.pattern[ranks].tolist():
        one = operations.patterns[pattern]
        own = slice(at, at + len(one.rows))
        kind[own] = one.rows["kind"]
        if one.names is not None:
            if id(one.names) not in known:
                numbers = [names.setdefault(text, len(names)) for text in one.names.values]
                known[id(one.names)] = np.array([*numbers, -1], np.int64)[one.names.index]
            name[own] = known[id(one.names)]
        at = own.stop
    lengths = np.array(rows.children, np.int64)
    children = np.asarray(m.children.value)  # has a row even where nothing waits
    away = rows.first_child - (np.cumsum(lengths) - lengths)
    # The children of one operation are adjacent, but the operations' lists may be in any order.
    if away[lengths > 0].any():
        children = children[np.arange(lengths.sum()) + np.repeat(away, lengths)]
    first, parents = reversed_lists(lengths, children[: lengths.sum()])
    network = workload.network
    name_links = partial(_link_names, network, m) if isinstance(network, InfraNetwork) else tuple
    about = About(
        np.array(rows.npu), kind, np.array(rows.collective), np.array(rows.bytes), name, list(names),
        list(network.link_topology), first, parents, int((rows.owner < 0).sum()), len(m.npus), name_links,
        network.infra.name if isinstance(network, InfraNetwork) else "",
    )  # fmt: skip
    about.footprint, about.jobs = workload.footprint, workload.jobs
    _set_parts(about, operations, ranks)
    return about


def _set_parts(about: About, operations: RankOperations, ranks: np.ndarray) -> None:
    """Describe what custom collectives replay, with the names and kinds of what was recorded."""
    of_rank = operations.pattern[ranks].tolist()
    if not any(operations.patterns[pattern].custom for pattern in of_rank):
        return
    customs = [
        (int(about.start[npu]) + row, len(each.rows), each.parts)
        for npu, pattern in enumerate(of_rank)
        for row, each in operations.patterns[pattern].custom.items()
    ]
    about.parts = parts = part_rows(about.own, customs)
    if parts is None:
        return
    numbers = {name: number for number, name in enumerate(about.names)}
    called = [f"{one.job}: {one.name}" if one.job and one.name else one.name for one in parts.labels]
    texts = [numbers.setdefault(name, len(numbers)) for name in called]
    about.names[:] = numbers
    named = np.array([bool(one.name) for one in parts.labels])[parts.label]
    about.name[parts.first] = np.where(named, np.array(texts, np.int64)[parts.label], -1)
    about.kind[parts.first], about.size[parts.first] = parts.kind, parts.bytes
    about.collective[parts.first] = parts.collective


def _link_names(network: InfraNetwork, machine: t.MessageMachine) -> LinkNames:
    """Find the routes of the same pairs of ranks again: their links have the same numbers."""
    return LinkNames(network.fabric, RoutedLinks(network).known(machine).lanes)
