"""Effects of changes: estimates from the critical path, and exact answers from a fork."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import cast

from astranb.core.errors import InputError
from astranb.engine.breakpoints import with_unit
from astranb.engine.critical_path import CriticalPath
from astranb.engine.edits import is_factor
from astranb.engine.what_if import Change
from astranb.gpu import tables as t
from astranb.infragraph import is_several

from .critical_path import WAITS, LinePath, LineSegment
from .edits import LINKS, read_edit
from .faults import is_down
from .paths import SUMMED
from .state import CacheLineState

__all__ = ["LineQuestion", "estimate", "suggest"]

_MOST = 8
_FIELDS = {
    "bandwidth": ("wire", "queue"),
    "latency": ("latency",),
    "noc": ("on chip",),
    "l2": ("L2",),
    "hbm": ("HBM",),
    "issue": ("issue",),
    "fence": ("fence",),
    "atomic": ("L2",),
}
"""Fields that may be changed, and the causes whose time follows them."""
_LINK = ("bandwidth", "latency")
_REBUILT = ("launch", "start")
"""Fields that are fixed when a run begins: a change needs another run."""


class LineQuestion:
    """One change, read and checked.

    Parameters
    ----------
    engine : CacheLineState
    path : str
        As :attr:`Change.path`.
    value : int or str

    Raises
    ------
    InputError
        No such object, nothing of it that can be changed, or a value that cannot be read.
    """

    def __init__(self, engine: CacheLineState, path: str, value: int | str) -> None:
        self.path, self.value = path.strip(), str(value)
        self.field = self.path.rpartition(".")[2]
        self.signals = engine.machine.ops["kind"] == t.NOTIFY
        if self.field in _REBUILT:
            hint = f"run sim.rebuilt({self.field}=...) beside it, and ask compare(sim, other)"
            raise InputError(f"{self.field!r} is settled at the start of a run", where=path, hint=hint)
        self.edit = replace(read_edit(0, self.path, self.value, engine.fabric, engine.machine), at_ps=0)
        self.path = self.edit.path
        table = engine.machine.tables[f"{self.edit.kind}s"]
        if self.edit.field == "up":
            self.was = [int(not is_down(engine.machine, link)) for link in self.edit.rows]
        else:
            self.was = table[self.edit.field][list(self.edit.rows)].tolist()
        if not any(self.was) and is_factor(self.value):
            raise InputError(f"{self.field} is 0 here", where=self.path)

    @property
    def was_text(self) -> str:
        """Value now, for a person."""
        field, was = self.edit.field, self.was
        if field == "up":
            return "yes" if all(was) else "no"
        if field in SUMMED and not is_several(self.edit.path):
            was = [sum(was)]
        show = LINKS[field].text if self.edit.kind == "link" else partial(with_unit, field)
        low, high = show(min(was)), show(max(was))
        return low if low == high else f"{low} to {high}"

    def about(self, path: CriticalPath) -> Change:
        """The change with an estimate from the critical path, where there can be one."""
        if self.field not in _FIELDS:
            return Change(self.path, self.value, self.was_text, path.time_ps, 0)
        return estimate(cast("LinePath", path), self)


def suggest(engine: CacheLineState, path: LinePath) -> list[Change]:
    """Return what would shorten the critical path most, everything twice as fast."""
    weights: dict[str, int] = defaultdict(int)
    cause_of = {cause: field for field, causes in _FIELDS.items() if field != "atomic" for cause in causes}
    for segment in path.line_segments:
        field = cause_of.get(segment.cause)
        if field is not None:
            weights[f"{_owner(engine, segment)}.{field}"] += segment.end_ps - segment.start_ps
            weights[f"{'*->*' if field in _LINK else 'gpu[*]'}.{field}"] += segment.end_ps - segment.start_ps
    rows = []
    for name in sorted(weights, key=lambda n: (-weights[n], n))[: 4 * _MOST]:
        try:
            question = LineQuestion(engine, name, "x2" if name.endswith("bandwidth") else "x0.5")
        except InputError:
            continue  # it is 0 already
        rows.append(estimate(path, question))
    gains = [(row.estimate_ps, row) for row in rows if row.estimate_ps is not None]
    gains.sort(key=lambda pair: pair[0])
    return [row for estimate_ps, row in gains if estimate_ps < row.before_ps][:_MOST]


def estimate(path: LinePath, question: LineQuestion) -> Change:
    """Estimate a change from the critical path: what depends on it is scaled, the rest stays."""
    change = {
        row: (was, new)
        for row, was, new in zip(question.edit.rows, question.was, question.edit.numbers, strict=True)
    }
    total, least, on_path = 0.0, 0.0, 0
    following = [*(segment.cause for segment in path.line_segments[1:]), ""]
    for segment, after in zip(path.line_segments, following, strict=True):
        length = float(segment.end_ps - segment.start_ps)
        row = _row(segment, path)
        if row in change and _depends(question, segment, after):
            was, new = change[row]
            on_path += segment.end_ps - segment.start_ps
            if question.field == "bandwidth":
                length *= was / new
            elif question.field == "issue":
                length *= new / max(1, was)
            else:  # each pass has it once, beside what does not change
                length = max(0.0, length + segment.passes * (new - was))
        total += length
        least += 0.0 if segment.cause in WAITS else length
    return Change(
        question.path, question.value, question.was_text, path.time_ps, on_path, round(total), int(least)
    )


def _depends(question: LineQuestion, segment: LineSegment, after: str) -> bool:
    """Return whether a segment has the time of a field in it."""
    field, cause = question.field, segment.cause
    if field == "atomic":
        return cause == "L2" and bool(question.signals[segment.op])
    missed = cause == "L2" and after in ("HBM queue", "HBM")
    if field == "l2":  # a line that missed pays for the L2 when it returns from memory
        return cause == "HBM" or (cause == "L2" and not missed)
    return cause in _FIELDS[field]


def _owner(engine: CacheLineState, segment: LineSegment) -> str:
    """The link with all its lanes, or the GPU, at which a segment's time passed."""
    kind, number = segment.where
    if kind == "link":
        return engine.fabric.name(number).partition("#")[0]
    return f"gpu[{int(engine.machine.sms['gpu'][number]) if kind == 'sm' else number}]"


def _row(segment: LineSegment, path: LinePath) -> int:
    kind, number = segment.where
    return path.gpu_of_sm[number] if kind == "sm" else number
