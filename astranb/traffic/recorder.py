"""Records the traffic of a workload: runs it through the system layer and keeps what depends on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from astranb.collectives import Collective
from astranb.core.errors import InputError, near
from astranb.engine.messages import ON_NOTHING, MessageEngine, Run, group_shapes
from astranb.net import Shape, compile_fabric
from astranb.sim import Simulation
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    InfraNetwork,
    Operations,
    RankOperations,
    Workload,
    durations_ns,
)
from astranb.workload.astrasim2.kinds import BROADCAST, INTER, ROUND_ROBIN

from .graph import Label, MessageGraph
from .pattern import Pattern
from .program import template_of_program
from .template import template_of

__all__ = ["record"]


def record(
    what: Workload | Simulation,
    *,
    fidelity: str = "analytical",
    algorithms: Mapping[str, Any] | None = None,
    assumptions: Mapping[str, str] | None = None,
) -> Pattern:
    """Run a workload and record its traffic.

    What a message waits for follows from the workload, the algorithms of its collectives and the order of
    operations that a rank does one at a time; the network only decides on times, and where several
    operations are ready on that order.

    Parameters
    ----------
    what : Workload or Simulation
        Of a simulation its inputs; it is not moved.
    fidelity : str
        ``analytical`` or ``congestion``: of the run that gives starts and that order.
    algorithms : mapping of str to str or callable, optional
        For a collective, as ``all_reduce``, an algorithm of :mod:`astranb.collectives`, a function over a
        program or a plan, instead of the system's. What depends on how ranks are joined gets the network's
        nodes. Operations begin as in the run with the system's algorithms;
        :meth:`MessageGraph.timed` gives the starts of the messages themselves.
    assumptions : mapping of str to str, optional
        What the pattern's reader should know.

    Returns
    -------
    Pattern

    Raises
    ------
    InputError
        The workload cannot be run, or a pattern cannot have what it does.
    Deadlock
        A rank waits for something that never happens.

    Examples
    --------
    >>> import astranb as anb
    >>> ring = anb.astrasim2.DimensionNetwork("Ring", 4, bandwidth=50, latency=500)
    >>> pattern = record(anb.workload([anb.all_reduce("64 KiB", "ring")]).on(ring))
    >>> pattern.messages, pattern.bytes, pattern.unfold().messages
    (24, 393216, 24)
    """
    workload = what if isinstance(what, Workload) else _workload_of(what)
    _require_messages(fidelity)
    run = _run_of(what, workload, congestion=fidelity == "congestion")
    run.finish()
    result = run.result()
    ranks = RankOperations.of(workload.operations)
    classes = _RankClasses(run, ranks)
    templates = _Templates(workload, ranks, algorithms or {})
    patterns, chosen, starts = [], [], []
    for first, number, done in classes.listed:
        one = ranks.patterns[number]
        patterns.append(_in_order(one, done))
        starts.append(done["start_ns"].astype(np.int64))
        chosen.append(templates.of(one, first, done["start_ns"]))
    operations = RankOperations(patterns, classes.of_rank, ranks.groups, ranks.peers)
    known = {
        "network": _described(workload.network),
        "system": workload.system.where,
        "run": f"{fidelity}, {int(result.end_ns.max(initial=0)):,} ns",
        "durations": "those of the workload's computations",
    }
    for name, algorithm in (algorithms or {}).items():
        called = algorithm if isinstance(algorithm, str) else getattr(algorithm, "__name__", "a plan")
        known[name] = f"{called} instead of the system's algorithm"
    return Pattern(
        operations, dict(workload.groups), tuple(templates.graphs), tuple(chosen), tuple(starts),
        0 if algorithms else int(result.end_ns.max(initial=0)), workload.title,
        known | dict(assumptions or {}), _jobs(workload, [first for first, _, _ in classes.listed]),
    )  # fmt: skip


def _jobs(workload: Workload, ranks: Sequence[int]) -> tuple[str, ...]:
    """Return the job that each of some ranks belongs to; empty where there is one job."""
    named = {rank: job.name for job in workload.jobs for rank in job.ranks}
    return tuple(named.get(rank, "") for rank in ranks) if len(workload.jobs) > 1 else ()


def _require_messages(fidelity: str) -> None:
    """Check that the fidelity has messages."""
    if fidelity not in ("analytical", "congestion"):
        hint = "use 'analytical' or 'congestion'"
        raise InputError(f"a pattern is not recorded at fidelity {fidelity!r}", where="fidelity", hint=hint)


def _workload_of(simulation: Simulation) -> Workload:
    """Return what a simulation by messages runs."""
    engine = simulation.driver.engine
    _require_messages(engine.fidelity)
    workload: Workload | None = engine.run.workload if isinstance(engine, MessageEngine) else None
    if workload is None:
        hint = "make the simulation with fidelity='analytical' or 'congestion', and do not load it"
        raise InputError("its messages have no workload", where="traffic.record", hint=hint)
    return workload


def _run_of(what: Workload | Simulation, workload: Workload, *, congestion: bool) -> Run:
    """Return a run at its start: a copy of the simulation's, where that is one and folded already."""
    engine = None if isinstance(what, Workload) else what.driver.engine
    if isinstance(engine, MessageEngine) and engine.begins_anew and engine.run.congestion == congestion:
        run: Run = engine.run.copy()
        return run
    return Run(workload, congestion=congestion)


def _described(network: Any) -> str:
    if hasattr(network, "topology"):
        return " x ".join(
            f"{shape} {count}" for shape, count in zip(network.topology, network.npus_count, strict=True)
        )
    return str(network.where)


class _RankClasses:
    """Classes of ranks that did the same at the same time.

    Attributes
    ----------
    of_rank : ndarray of int64, shape (ranks,)
    listed : list of (int, int, ndarray)
        Of each class its first rank, the number of its pattern, and its operations at the end of the run.
    """

    def __init__(self, run: Run, ranks: RankOperations) -> None:
        represented = run.represented
        if represented is not None:
            few, fold = represented
            rows = np.asarray(few.machine.operations)
            first = np.searchsorted(rows["npu"], np.arange(len(fold.ranks) + 1))
            self.of_rank = fold.npu.astype(np.int64)
            self.listed = [
                (rank, int(ranks.pattern[rank]), rows[first[at] : first[at + 1]])
                for at, rank in enumerate(fold.ranks.tolist())
            ]
            return
        rows, at = np.asarray(run.machine.operations), 0
        known: dict[tuple[int, bytes], int] = {}
        found = []
        self.listed = []
        for rank, number in enumerate(ranks.pattern.tolist()):
            done = rows[at : at + len(ranks.patterns[number].rows)]
            at += len(done)
            key = (number, done["start_ns"].tobytes() + done["end_ns"].tobytes())
            if key not in known:
                known[key] = len(self.listed)
                self.listed.append((rank, number, done))
            found.append(known[key])
        self.of_rank = np.array(found, np.int64)


def _in_order(one: Operations, done: np.ndarray) -> Operations:
    """Return a class's operations with their durations, in the order of the run where they take turns."""
    rows = one.rows.copy()
    timed = ~np.isin(rows["kind"], (SEND, RECV, COLLECTIVE))
    rows["duration_ns"] = np.where(timed, done["end_ns"] - done["start_ns"], 0)
    rows["flops"] = np.where(timed, -1, rows["flops"])
    before = np.full(len(rows), -1, np.int64)
    for place in np.unique(done["place"]).tolist():
        mine = np.flatnonzero(done["place"] == place)
        if place != ON_NOTHING:
            mine = mine[np.lexsort([mine, done["end_ns"][mine], done["start_ns"][mine]])]
            before[mine[1:]] = mine[:-1]
    owner = np.repeat(np.arange(len(rows)), np.diff(one.dep_start))
    late = np.flatnonzero(before >= 0)
    pairs = np.unique(
        np.concatenate([np.stack([owner, one.deps], 1), np.stack([late, before[late]], 1)]), axis=0
    )
    start = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=len(rows)))]).astype(np.int64)
    return replace(one, rows=rows, dep_start=start, deps=pairs[:, 1], custom={}, grids=(), kernels={})


class _Templates:
    """The templates of a workload's collectives, each made once."""

    def __init__(self, workload: Workload, ranks: RankOperations, algorithms: Mapping[str, Any]) -> None:
        self.workload, self.ranks = workload, ranks
        for name in algorithms:
            if name not in COLLECTIVE_NAMES:
                raise InputError(
                    f"no collective {name!r}", where="algorithms", hint=near(name, COLLECTIVE_NAMES)
                )
        self._programs = {COLLECTIVE_NAMES[name]: (name, each) for name, each in algorithms.items()}
        self.graphs: list[MessageGraph] = []
        self._used: list[tuple[int, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._counts = list(workload.network.npus_count)
        system = workload.system
        self._rotates = not workload.compat and INTER[system.inter] == ROUND_ROBIN

    def of(self, one: Operations, rank: int, start_ns: np.ndarray) -> np.ndarray:
        """Return the number of the template of each operation of a rank; -1 where it is no collective."""
        found = np.full(len(one.rows), -1, np.int64)
        if self.workload.system.replay:
            return found
        chunks, trees = 0, dict[int, tuple[int, ...]]()  # begun before; and used, by collectives of each kind
        collectives = np.flatnonzero(one.rows["kind"] == COLLECTIVE)
        for row in collectives[np.argsort(start_ns[collectives], kind="stable")].tolist():
            slot, kind = int(one.rows["group"][row]), int(one.rows["collective"][row])
            number = int(self.ranks.groups[rank, slot]) if slot >= 0 else -1
            members = self.workload.groups[number] if number >= 0 else range(len(self.ranks))
            before = trees.get(kind, (0,) * len(self._counts))
            found[row] = self._of(one, row, number, members, chunks, before)
            chunks += int(self.graphs[found[row]].nodes["chunk"].max(initial=-1)) + 1
            trees[kind] = tuple(a + b for a, b in zip(before, self._used[found[row]], strict=True))
        return found

    def _of(
        self,
        one: Operations,
        row: int,
        number: int,
        members: Sequence[int],
        chunks: int,
        trees: tuple[int, ...],
    ) -> int:
        fields = one.rows[row]
        everyone = len(members) == len(self.ranks)
        root = int(fields["peer"])
        if root in members and fields["collective"] >= BROADCAST:
            root = list(members).index(root)
        # What was before decides only on which of two trees is next, and on the first dimension.
        trees = tuple(each % 2 for each in trees)
        chunks = chunks % len(self._counts) if self._rotates else 0
        key: tuple[Any, ...] = (
            int(fields["collective"]), int(fields["bytes"]), root, everyone, int(fields["stream"]),
            int(fields["involved"]), len(members), self._shape(members), chunks, trees,
        )  # fmt: skip
        if row in one.custom:
            key = ("custom", number, row, *key)
        if key not in self._known:
            self._known[key] = len(self.graphs)
            if int(fields["collective"]) in self._programs:
                graph, used = self._program(fields, members, max(root, 0)), (0,) * len(self._counts)
            elif row in one.custom:
                graph, used = self._custom(row, number, members), (0,) * len(self._counts)
            else:
                group = None if everyone else members
                graph, used = template_of(self.workload, one, row, group, chunks=chunks, trees=trees)
            self.graphs.append(graph)
            self._used.append(used)
        return self._known[key]

    def _program(self, fields: Any, members: Sequence[int], root: int) -> MessageGraph:
        """Make a template of a program of thread blocks."""
        name, algorithm = self._programs[int(fields["collective"])]
        size = int(fields["bytes"]) * (len(members) if name in ("all_gather", "gather") else 1)
        collective = Collective.of(name, size, algorithm, root=root)
        return template_of_program(collective, len(members), self._nodes.among(members))

    @cached_property
    def _nodes(self) -> Shape:
        """Return how ranks share nodes: by the first dimension, or as the infrastructure says."""
        network = self.workload.network
        if isinstance(network, InfraNetwork):
            return compile_fabric(network.infra.expand()).shape
        nodes = len(self._counts) > 1
        return Shape(self._counts[0], rdma=nodes)

    def _shape(self, members: Sequence[int]) -> tuple[int, ...]:
        """Return what of a group's ranks decides on its messages."""
        outer, rails = group_shapes([members], self._counts)
        return int(outer[0]), int(rails[0])

    def _custom(self, row: int, number: int, members: Sequence[int]) -> MessageGraph:
        """Make a template of the sends, receives and computations that a file gives each rank."""
        place = {rank: at for at, rank in enumerate(members)}
        nodes: list[dict[str, int]] = []
        deps: list[list[int]] = []
        for rank in members:
            graph = self.workload.operations[rank].custom.get(row)
            if graph is None:
                what = f"rank {rank} has no messages of its own for a collective that others have"
                raise InputError(what, where=f"group {number}")
            first = len(nodes)
            took = durations_ns(graph.rows, self.workload.system, self.workload.memory)
            nodes.append({"rank": place[rank], "kind": COMPUTE})
            deps.append([])
            for at, fields in enumerate(graph.rows):
                message = fields["kind"] in (SEND, RECV)
                if message and int(fields["peer"]) not in place:
                    what = f"rank {rank} sends to rank {fields['peer']} outside group {number}"
                    raise InputError(what, where="custom collective")
                described = {"peer": place[int(fields["peer"])], "bytes": int(fields["bytes"])}
                timed = {"duration_ps": 1000 * int(took[at])}
                nodes.append(
                    {"rank": place[rank], "kind": int(fields["kind"]) if message else COMPUTE}
                    | ({**described, "tag": int(fields["tag"])} if message else timed)
                )
                waits = graph.deps[graph.dep_start[at] : graph.dep_start[at + 1]]
                deps.append([first + 1 + int(each) for each in waits] or [first])
            nodes.append({"rank": place[rank], "kind": COMPUTE})
            deps.append(list(range(first + 1, len(nodes) - 1)) or [first])
        found = MessageGraph.of(len(members), nodes, deps, (Label("", "custom", "custom"),), title="custom")
        sends, receives = found.sends, found.nodes["match"][found.sends]
        # A tag of its own for each message.
        found.nodes["tag"][sends] = found.nodes["tag"][receives] = np.arange(len(sends))
        return found
