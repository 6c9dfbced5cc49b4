"""What if something were faster: a fork of the run goes from the start with the change, and is exact."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_bandwidth, format_time
from astranb.net._astrasim2 import ROUTED
from astranb.sim._change import Change, factor_of
from astranb.workload.astrasim2 import _tables as t

from ._edits import Edit, read_edit, read_value, value_of
from ._paths import resolve

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["Question", "answer", "suggest"]

_FIELDS = {
    "rank": {"speed": "speed"},
    "dim": {"bandwidth": "rate_Bpns", "latency": "latency_ns"},
    "link": {"bandwidth": "rate_Bpns", "latency": "latency_ns"},
}
_MOVED = ("collective", "message")
_CAUSES = {"speed": ("compute",), "rate_Bpns": _MOVED, "latency_ns": _MOVED}
"""The causes of the critical path whose time follows a field."""

_SLICE = 65_536
_SLOW = 1.02
"""Ranks that compute so many times as long as the one in the middle are slow."""
_MOST_SLOW = 2


class Question:
    """One change, read and checked.

    Parameters
    ----------
    sim : WorkloadSimulation
    path : str
        ``rank[3].speed``, ``dim[0].bandwidth``, ``link[7].latency``, …; ``rank[*]``, ``dim[*]``
        and ``link[*]`` mean all.
    value : float or str
        ``x2`` (twice as much), or a value as :meth:`WorkloadSimulation.set` takes it.

    Raises
    ------
    InputError
        No such object, nothing of it that can be changed, or a value that cannot be read.
    """

    def __init__(self, sim: WorkloadSimulation, path: str, value: float | str) -> None:
        self.path, self.value = path.strip(), str(value)
        head, _, name = self.path.rpartition(".")
        m = sim.state.machine
        every = head.endswith("[*]")
        place = resolve(head.replace("[*]", "[0]") if every else head or self.path, sim.about, m)
        self.kind = place.kind
        known = _FIELDS.get(self.kind, {})
        if name not in known or (self.kind == "dim" and m.dims[0].kind == ROUTED):
            if not every:
                read_edit(0, 0, self.path, "1", sim.about, m)  # says what is wrong, of most
            mend = near(name, known) if known else "rank[*].speed, dim[0].bandwidth, link[7].latency"
            raise InputError(f"{name!r} of {head} cannot be changed", where=path, mend=mend)
        self.field = known[name]
        counts = {"rank": sim.ranks, "dim": len(m.dims), "link": len(m.links)}
        self.rows = tuple(range(counts[self.kind])) if every else place.rows
        self.was = [value_of(self.kind, self.field, row, m, sim._speed(row)) for row in self.rows]  # noqa: SLF001
        text = self.value.strip()
        if text.startswith("x"):
            factor = factor_of(text, path)
            self.new = [was * factor for was in self.was]
        else:
            self.new = [read_value(self.field, value, path)] * len(self.rows)

    @property
    def words(self) -> str:
        """What it is now, for a person."""
        low, high = min(self.was), max(self.was)
        return self._written(low) if low == high else f"{self._written(low)} to {self._written(high)}"

    def _written(self, number: float) -> str:
        if self.field == "speed":
            return f"{number:g}"
        return (
            format_bandwidth(number * 1e9) if self.field == "rate_Bpns" else format_time(round(number * 1000))
        )

    def edits(self) -> Iterator[Edit]:
        """What carries the change out."""
        for number in sorted(set(self.new)):
            rows = tuple(row for row, new in zip(self.rows, self.new, strict=True) if new == number)
            yield Edit(0, self.path, self.value, self.kind, self.field, rows, number)

    def plain(self, before_ps: int, on_path_ps: int) -> Change:
        """The change, not run."""
        return Change(self.path, self.value, self.words, before_ps, on_path_ps)


def suggest(sim: WorkloadSimulation) -> list[Change]:
    """Changes that the critical path so far says something about, none of them run; the most likely first."""
    by_cause = sim.result.by_cause()
    before = sim.result.time_ps
    found: list[Change] = []

    def ask(path: str, value: str, on_path_ns: int) -> None:
        if on_path_ns:
            found.append(Question(sim, path, value).plain(before, on_path_ns * 1000))

    path = sim.critical_path()
    computes = by_cause.get("compute", 0)
    for rank, factor in _slow_ranks(sim):
        own = sum(p.end_ns - p.start_ns for p in path if p.npu == rank and p.cause == "compute")
        ask(f"rank[{rank}].speed", f"x{factor:.6g}", own)
    ask("rank[*].speed", "inf", computes)
    ask("rank[*].speed", "x2", computes)
    moved = sum(by_cause.get(cause, 0) for cause in _MOVED)
    m = sim.state.machine
    if m.dims[0].kind != ROUTED:
        for dim in range(len(m.dims)):
            if not sim.recording or sim.result.dimension(dim)["messages"]:
                ask(f"dim[{dim}].bandwidth", "x2", moved)
                ask(f"dim[{dim}].latency", "x0.5", moved)
    elif m.config[0].aware:
        ask("link[*].bandwidth", "x2", moved)
        ask("link[*].latency", "x0.5", moved)
    if m.config[0].aware and sim.recording and moved:
        busiest = int(np.argmax(m.used.busy_ns))
        ask(f"link[{busiest}].bandwidth", "x2", min(moved, int(m.used.busy_ns[busiest])))
    return sorted(found, key=lambda change: -change.on_path_ps)


def _slow_ranks(sim: WorkloadSimulation) -> list[tuple[int, float]]:
    """Ranks that compute longer than the one in the middle, and how many times as long; the slowest first."""
    rows: Any = sim.state.machine.operations[: sim.about.own]
    computes = rows.kind == t.COMPUTE
    sums = np.bincount(rows.npu[computes], rows.duration_ns[computes], minlength=sim.ranks)
    middle = float(np.median(sums))
    slow = [rank for rank in np.argsort(-sums, kind="stable").tolist() if sums[rank] > _SLOW * middle > 0]
    return [(rank, float(sums[rank]) / middle) for rank in slow[:_MOST_SLOW]]


def answer(sim: WorkloadSimulation, question: Question) -> Generator[float, None, Change]:
    """Run the change, in slices: a fork goes from the start to the end with it.

    Edits made since the start are left out on both sides of the comparison.

    Parameters
    ----------
    sim : WorkloadSimulation
        It stays where it is.
    question : Question

    Yields
    ------
    float
        The part of the work that is done, roughly.

    Returns
    -------
    Change
        With its exact time, and what both runs' times consist of.

    Raises
    ------
    Deadlock
        What the changed run comes to.
    """
    base = sim
    if not sim.finished or any(events for events, _, _ in sim.edits):
        base = sim.fork()
        base.reset()
        yield from _to_the_end(base, 0.0)
    fork = sim.fork()
    fork.reset()
    for edit in question.edits():
        fork._driver.edit(edit)  # noqa: SLF001
    yield from _to_the_end(fork, 0.5)
    was, now = base.result.by_cause(), fork.result.by_cause()
    before, after = base.result.time_ps, fork.result.time_ps
    on_path = sum(was.get(cause, 0) for cause in _CAUSES[question.field]) * 1000
    causes = tuple((name, was.get(name, 0) * 1000, now.get(name, 0) * 1000) for name in {**was, **now})
    return replace(question.plain(before, on_path), exact_ps=after, causes=causes)


def _to_the_end(fork: WorkloadSimulation, done: float) -> Iterator[float]:
    while not fork.finished:
        fork.advance(max_events=_SLICE)
        yield done + 0.5 * fork.counts["operation"] / max(1, fork.about.own)
