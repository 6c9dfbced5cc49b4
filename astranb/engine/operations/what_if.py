"""Changes to a run of operations that one may ask about, and those that are likely to matter."""

from __future__ import annotations

from dataclasses import replace

from astranb.core.errors import InputError
from astranb.engine.critical_path import CriticalPath
from astranb.engine.what_if import Change

from .changes import written
from .run import OperationRun

__all__ = ["OperationQuestion", "suggest"]

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
        As :meth:`Simulation.set` takes it: ``rank[3].speed``, ``dim[*].bandwidth``, ``A->B.latency``, …
    value : float or str
        As :meth:`Simulation.set` takes it: ``x2`` (twice as much), or a value.

    Raises
    ------
    InputError
        No such object, nothing of it that can be changed, or a value that cannot be read.
    """

    def __init__(self, engine: OperationRun, path: str, value: float | str) -> None:
        self.edit = replace(engine.read_edit(path.strip(), value), events=0, at_ps=0)
        self.path, self.value = self.edit.path, str(value)
        if self.edit.kind in ("routes", "recorder") or not self.edit.rows:
            hint = "change a fork, and compare the two"
            raise InputError("this cannot be asked about", where=path, hint=hint)
        self.was = engine.present(self.edit)

    @property
    def was_text(self) -> str:
        """Value now, for a person."""
        low, high = (written(self.edit.field, number) for number in (min(self.was), max(self.was)))
        return low if low == high else f"{low} to {high}"

    def about(self, path: CriticalPath) -> Change:
        """The change, not run, with the time of the critical path that depends on it."""
        by_cause = path.by_cause()
        return self.plain(
            path.time_ps, sum(by_cause.get(cause, 0) for cause in _CAUSES.get(self.edit.field, ()))
        )

    def plain(self, before_ps: int, on_path_ps: int) -> Change:
        """The change, not run."""
        return Change(self.path, self.value, self.was_text, before_ps, on_path_ps)


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
        busiest = max(links, key=lambda row: row["busy_ps"])  # the first of several
        ask(f"{busiest['link']}.bandwidth", "x2", min(moved, busiest["busy_ps"]))
        if not any(change.path.startswith("dim[") for change in found):
            every = "*->*" if engine.about.links else "link[*]"
            ask(f"{every}.bandwidth", "x2", moved)
            ask(f"{every}.latency", "x0.5", moved)
    return sorted(found, key=lambda change: -change.on_path_ps)
