"""Effects of changes: estimates from the critical path, and exact answers from a fork."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from astranb.core.errors import InputError
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps
from astranb.engine.critical_path import CriticalPath
from astranb.engine.edits import Edit
from astranb.engine.what_if import Change, factor_of
from astranb.gpu import tables as t

from .critical_path import WAITS, LinePath, LineSegment
from .edits import CHANGEABLE, parameters, read_edit
from .paths import resolve
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
        head, _, self.field = self.path.rpartition(".")
        fabric, machine = engine.fabric, engine.machine
        self.edit: Edit | None = None
        self.signals = machine.ops["kind"] == t.NOTIFY
        if self.field in _REBUILT:
            hint = f"run sim.rebuilt({self.field}=...) beside it, and ask compare(sim, other)"
            raise InputError(f"{self.field!r} is settled at the start of a run", where=path, hint=hint)
        if head in ("*->*", "gpu[*]"):
            self.kind = "link" if head == "*->*" else "gpu"
            self.rows = tuple(range(len(fabric.links) if self.kind == "link" else len(machine.gpus)))
            allowed = [name for name in _FIELDS if (name in _LINK) == (self.kind == "link")]
            if self.field not in allowed:
                raise InputError(
                    f"{self.field!r} of a {self.kind} cannot be changed",
                    where=path,
                    hint=f"one of {', '.join(allowed)}",
                )
        else:
            place = resolve(head or path, fabric, machine)
            self.kind, self.rows = place.kind, place.rows
            if self.kind not in ("link", "gpu") or self.field not in _FIELDS:
                self.edit = replace(read_edit(0, self.path, self.value, fabric, machine), at_ps=0)
                found = {one.path: one.value for one in parameters(place, machine)}
                self.now = found[self.edit.path]
                return
        self.column = CHANGEABLE[self.kind][self.field][0]
        self.was = [int(n) for n in machine.tables[f"{self.kind}s"][self.column][list(self.rows)]]
        self.lanes = 1 if head == "*->*" or self.field != "bandwidth" else len(self.rows)
        self.new = [_changed(self.value, was, self.path, self.field, self.lanes) for was in self.was]
        if not any(self.was):
            raise InputError(f"{self.field} is 0 here", where=self.path)

    @property
    def words(self) -> str:
        """Value now, for a person."""
        if self.edit is not None:
            return self.now
        low, high = (min(self.was), max(self.was)) if self.lanes == 1 else (sum(self.was),) * 2
        show = format_bandwidth if self.field == "bandwidth" else format_time
        return show(low) if low == high else f"{show(low)} to {show(high)}"

    def edits(self) -> Iterator[Edit]:
        """Yield the edits that carry the change out."""
        if self.edit is not None:
            yield self.edit
            return
        for number in sorted(set(self.new)):
            rows = tuple(row for row, new in zip(self.rows, self.new, strict=True) if new == number)
            yield Edit(0, self.path, self.value, self.kind, self.column, rows, number)

    def about(self, path: CriticalPath) -> Change:
        """The change with an estimate from the critical path, where there can be one."""
        if self.edit is not None:
            return Change(self.path, self.value, self.words, path.time_ps, 0)
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
        row: (was, new) for row, was, new in zip(question.rows, question.was, question.new, strict=True)
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
        question.path, question.value, question.words, path.time_ps, on_path, round(total), int(least)
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


def _changed(value: str, was: int, path: str, field: str, lanes: int) -> int:
    """The new number of each lane or GPU: from a factor, or a value with a unit for all lanes together."""
    text = value.strip().lower()
    if text.startswith("x"):
        factor = factor_of(text, path)
        return max(1, round(was * factor)) if was else 0
    of_lane = field == "bandwidth"
    number = bandwidth_Bps(value, where=path) // lanes if of_lane else time_ps(value, where=path)
    if field in ("bandwidth", "issue") and number == 0:
        raise InputError("it cannot be 0", where=path)
    return number


def _owner(engine: CacheLineState, segment: LineSegment) -> str:
    """The link with all its lanes, or the GPU, at which a segment's time passed."""
    kind, number = segment.where
    if kind == "link":
        return engine.fabric.name(number).partition("#")[0]
    return f"gpu[{int(engine.machine.sms['gpu'][number]) if kind == 'sm' else number}]"


def _row(segment: LineSegment, path: LinePath) -> int:
    kind, number = segment.where
    return path.gpu_of_sm[number] if kind == "sm" else number
