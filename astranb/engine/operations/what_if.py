"""Changes to a run of operations that one may ask about, and those that are likely to matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from astranb.core.errors import InputError, near
from astranb.engine.critical_path import CriticalPath
from astranb.engine.edits import Edit
from astranb.engine.what_if import Change, factor_of

from .changes import read_value, written
from .run import OperationRun

__all__ = ["OperationQuestion", "suggest"]

_PROBES = {"speed": "1", "bandwidth": "1 GB/s", "latency": "0 ns"}
"""Fields that may be asked about, each with a possible value."""
_MOVED = ("collective", "message")
_CAUSES = {"speed": ("compute",), "rate_Bpns": _MOVED, "latency_ns": _MOVED}
"""The causes of the critical path whose time follows a field."""
_MOST_SLOW = 2


class OperationQuestion:
    """One change, read and checked.

    Parameters
    ----------
    engine : OperationRun
    path : str
        ``rank[3].speed``, ``dim[0].bandwidth``, ``link[7].latency``, …; ``rank[*]``, ``dim[*]``
        and ``link[*]`` mean all.
    value : float or str
        ``x2`` (twice as much), or a value as :meth:`Simulation.set` takes it.

    Raises
    ------
    InputError
        No such object, nothing of it that can be changed, or a value that cannot be read.
    """

    def __init__(self, engine: OperationRun, path: str, value: float | str) -> None:
        self.path, self.value = path.strip(), str(value)
        head, _, name = self.path.rpartition(".")
        if name not in _PROBES:
            if not head.endswith("[*]"):
                engine.read_edit(self.path, "1")  # raises a more specific error in most cases
            hint = near(name, _PROBES)
            raise InputError(f"{name!r} of {head} cannot be asked about", where=path, hint=hint)
        heads = [head]
        if head.endswith("[*]"):
            kind = head.removesuffix("[*]")
            engine.read_edit(f"{kind}[0].{name}", _PROBES[name])
            counts = {"rank": engine.ranks, "dim": len(engine.about.topology)}
            count = counts[kind] if kind in counts else len(engine.machine.links)
            heads = [f"{kind}[{row}]" for row in range(count)]
        self.probes = [engine.read_edit(f"{one}.{name}", _PROBES[name]) for one in heads]
        self.field = self.probes[0].field
        self.was = [engine.number(probe) for probe in self.probes]
        text = self.value.strip()
        if text.startswith("x"):
            factor = factor_of(text, path)
            self.new = [was * factor for was in self.was]
        else:
            self.new = [read_value(self.field, value, path)] * len(self.probes)

    @property
    def words(self) -> str:
        """Value now, for a person."""
        low, high = min(self.was), max(self.was)
        shown = written(self.field, low)
        return shown if low == high else f"{shown} to {written(self.field, high)}"

    def edits(self) -> Iterator[Edit]:
        """Yield the edits that carry the change out."""
        for probe, number in zip(self.probes, self.new, strict=True):
            yield replace(probe, events=0, at_ps=0, value=self.value, number=number)

    def about(self, path: CriticalPath) -> Change:
        """The change, not run, with the time of the critical path that depends on it."""
        by_cause = path.by_cause()
        return self.plain(path.time_ps, sum(by_cause.get(cause, 0) for cause in _CAUSES[self.field]))

    def plain(self, before_ps: int, on_path_ps: int) -> Change:
        """The change, not run."""
        return Change(self.path, self.value, self.words, before_ps, on_path_ps)


def suggest(engine: OperationRun, path: CriticalPath) -> list[Change]:
    """Changes that the critical path so far suggests, none of them run; the most likely first."""
    by_cause, before = path.by_cause(), path.time_ps
    found: list[Change] = []

    def ask(what: str, value: str, on_path_ps: int) -> None:
        if not on_path_ps:
            return
        try:
            found.append(OperationQuestion(engine, what, value).plain(before, on_path_ps))
        except InputError:
            return  # this kind of network has none

    computes = by_cause.get("compute", 0)
    for rank, factor in engine.slow()[:_MOST_SLOW]:
        own = sum(s.length_ps for s in path if s.rank == rank and s.cause == "compute")
        ask(f"rank[{rank}].speed", f"x{factor:.6g}", own)
    ask("rank[*].speed", "inf", computes)
    ask("rank[*].speed", "x2", computes)
    moved = sum(by_cause.get(cause, 0) for cause in _MOVED)
    for dim in range(len(engine.about.topology)):
        if not engine.recording or engine.dimension(dim)["bytes"]:
            ask(f"dim[{dim}].bandwidth", "x2", moved)
            ask(f"dim[{dim}].latency", "x0.5", moved)
    links = list(engine.own_tables().get("links", list)())
    if links:
        busiest = max(links, key=lambda row: (row["busy_ps"], -row["link"]))
        ask(f"link[{busiest['link']}].bandwidth", "x2", min(moved, busiest["busy_ps"]))
        if not any(change.path.startswith("dim[") for change in found):
            ask("link[*].bandwidth", "x2", moved)
            ask("link[*].latency", "x0.5", moved)
    return sorted(found, key=lambda change: -change.on_path_ps)
