"""What if something were faster: a fork of the run goes from the start with the change, and is exact."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from astranb.core.errors import InputError, near
from astranb.engine.messages._edits import Edit, read_value, written
from astranb.sim._change import Change, factor_of

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["Question", "answer", "suggest"]

_PROBES = {"speed": "1", "bandwidth": "1 GB/s", "latency": "0 ns"}
"""What may be asked about, each with a value that is possible."""
_MOVED = ("collective", "message")
_CAUSES = {"speed": ("compute",), "rate_Bpns": _MOVED, "latency_ns": _MOVED}
"""The causes of the critical path whose time follows a field."""
_SLICE = 65_536
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
        edits, state = sim._driver.edits, sim.state  # noqa: SLF001 - a part of it
        if name not in _PROBES:
            if not head.endswith("[*]"):
                state.read_edit(self.path, "1")  # says what is wrong, of most
            hint = near(name, _PROBES)
            raise InputError(f"{name!r} of {head} cannot be asked about", where=path, hint=hint)
        heads = [head]
        if head.endswith("[*]"):
            kind = head.removesuffix("[*]")
            state.read_edit(f"{kind}[0].{name}", _PROBES[name])
            counts = {"rank": sim.ranks, "dim": len(sim.about.topology)}
            count = counts[kind] if kind in counts else len(state.machine.links)
            heads = [f"{kind}[{row}]" for row in range(count)]
        self.probes = [state.read_edit(f"{one}.{name}", _PROBES[name]) for one in heads]
        self.field = self.probes[0].field
        self.was = [state.number(probe, edits) for probe in self.probes]
        text = self.value.strip()
        if text.startswith("x"):
            factor = factor_of(text, path)
            self.new = [was * factor for was in self.was]
        else:
            self.new = [read_value(self.field, value, path)] * len(self.probes)

    @property
    def words(self) -> str:
        """What it is now, for a person."""
        low, high = min(self.was), max(self.was)
        shown = written(self.field, low)
        return shown if low == high else f"{shown} to {written(self.field, high)}"

    def edits(self) -> Iterator[Edit]:
        """What carries the change out."""
        for probe, number in zip(self.probes, self.new, strict=True):
            yield replace(probe, events=0, at_ps=0, value=self.value, number=number)

    def plain(self, before_ps: int, on_path_ps: int) -> Change:
        """The change, not run."""
        return Change(self.path, self.value, self.words, before_ps, on_path_ps)


def suggest(sim: WorkloadSimulation) -> list[Change]:
    """Changes that the critical path so far says something about, none of them run; the most likely first."""
    by_cause = sim.result.by_cause()
    before = sim.result.time_ps
    found: list[Change] = []

    def ask(path: str, value: str, on_path_ps: int) -> None:
        if not on_path_ps:
            return
        try:
            found.append(Question(sim, path, value).plain(before, on_path_ps))
        except InputError:
            return  # this kind of network has none

    computes = by_cause.get("compute", 0)
    path = sim.critical_path()
    for rank, factor in sim.state.slow()[:_MOST_SLOW]:
        own = sum(p.end_ps - p.start_ps for p in path if p.npu == rank and p.cause == "compute")
        ask(f"rank[{rank}].speed", f"x{factor:.6g}", own)
    ask("rank[*].speed", "inf", computes)
    ask("rank[*].speed", "x2", computes)
    moved = sum(by_cause.get(cause, 0) for cause in _MOVED)
    for dim in range(len(sim.about.topology)):
        if not sim.recording or sim.result.dimension(dim)["bytes"]:
            ask(f"dim[{dim}].bandwidth", "x2", moved)
            ask(f"dim[{dim}].latency", "x0.5", moved)
    links = sim.result.rows("links")
    if links:
        busiest = max(links, key=lambda row: (row["busy_ps"], -row["link"]))
        ask(f"link[{busiest['link']}].bandwidth", "x2", min(moved, busiest["busy_ps"]))
        if not any(change.path.startswith("dim[") for change in found):
            ask("link[*].bandwidth", "x2", moved)
            ask("link[*].latency", "x0.5", moved)
    return sorted(found, key=lambda change: -change.on_path_ps)


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
    on_path = sum(was.get(cause, 0) for cause in _CAUSES[question.field])
    causes = tuple((name, was.get(name, 0), now.get(name, 0)) for name in {**was, **now})
    return replace(question.plain(before, on_path), exact_ps=after, causes=causes)


def _to_the_end(fork: WorkloadSimulation, done: float) -> Iterator[float]:
    while not fork.finished:
        fork.advance(max_events=_SLICE)
        yield done + 0.5 * fork.counts["operation"] / max(1, fork.about.own)
