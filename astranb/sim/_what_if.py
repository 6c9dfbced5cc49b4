"""What if something were faster: estimates from the critical path, and exact answers from a fork."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from astranb.core.errors import InputError
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps

from ._critical import CriticalPath, search
from ._edits import Edit, apply_edit, read_edit
from ._paths import resolve
from ._walk import WAITS, Piece

if TYPE_CHECKING:
    import pandas as pd

    from ._simulation import Simulation

__all__ = ["Change", "Question", "WhatIf", "answer", "estimate", "suggest"]

_MOST = 8
_SLICE = 32_768
_FIELDS = {
    "bandwidth": ("wire", "queue"),
    "latency": ("latency",),
    "noc": ("on chip",),
    "l2": ("L2",),
    "hbm": ("HBM",),
    "issue": ("issue",),
}
"""What may be changed, and the causes whose time follows it."""
_LINK = ("bandwidth", "latency")


@dataclass(frozen=True, slots=True)
class Change:
    """What a change would do to the time of a run.

    Attributes
    ----------
    path : str
        What is changed: ``A->B.bandwidth`` (all lanes), ``gpu.hbm``, ``*->*.latency`` (every
        link), ``gpu[*].noc`` (every GPU).
    value : str
        ``x2`` (twice as much), ``x0.5``, or a value with a unit.
    was : str
        What it is now.
    before_ps : int
        Time of the run as it is.
    on_path_ps : int
        Time of the critical path that depends on it.
    estimate_ps : int
        ESTIMATE of the time with the change: what of the critical path depends on it is
        scaled, everything else stays.
    at_least_ps : int
        The run cannot become shorter than this: the same path with the change and without
        any wait for others. It holds while reads hit and miss the same caches, and messages
        take the same ways.
    exact_ps : int or None
        EXACT time with the change, of a run of its own; None where it has not been run.
    """

    path: str
    value: str
    was: str
    before_ps: int
    on_path_ps: int
    estimate_ps: int
    at_least_ps: int
    exact_ps: int | None = None

    def __str__(self) -> str:
        """One line for a person."""
        share = _share(self.estimate_ps, self.before_ps)
        text = f"{self.path} {self.value} (is {self.was}): about {format_time(self.estimate_ps)} ({share})"
        if self.exact_ps is None:
            return f"{text}, an estimate; now {format_time(self.before_ps)}"
        exact = f"{format_time(self.exact_ps)} ({_share(self.exact_ps, self.before_ps)}), run and exact"
        return f"{self.path} {self.value} (is {self.was}): {exact}; now {format_time(self.before_ps)}"


class WhatIf:
    """Changes that matter most to the time of a run, each with an estimate.

    Attributes
    ----------
    rows : tuple of Change
        The largest estimated gain first.
    """

    def __init__(self, rows: list[Change]) -> None:
        self.rows = tuple(rows)

    def __iter__(self) -> Iterator[Change]:
        """The changes."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many changes."""
        return len(self.rows)

    def to_dataframe(self) -> pd.DataFrame:
        """The changes as a pandas frame; times in ps."""
        import pandas as pd

        return pd.DataFrame([{name: getattr(row, name) for name in Change.__slots__} for row in self.rows])

    def __str__(self) -> str:
        """A line a change."""
        return "\n".join(str(row) for row in self.rows) or "nothing that could be changed is on the path"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(r.path)}</td><td>{escape(r.value)}</td><td>{escape(r.was)}</td>"
            f"<td>{format_time(r.estimate_ps)} ({_share(r.estimate_ps, r.before_ps)})</td>"
            f"<td>{format_time(r.at_least_ps)}</td>"
            f"<td>{'not run' if r.exact_ps is None else format_time(r.exact_ps)}</td></tr>"
            for r in self.rows
        )
        head = "<th>what</th><th>change</th><th>is</th><th>estimate</th><th>at least</th><th>exact</th>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


class Question:
    """One change, read and checked.

    Parameters
    ----------
    sim : Simulation
    path : str
        As :attr:`Change.path`.
    value : int or str

    Raises
    ------
    InputError
        No such object, nothing of it that can be changed, or a value that cannot be read.
    """

    def __init__(self, sim: Simulation, path: str, value: int | str) -> None:
        self.path, self.value = path.strip(), str(value)
        head, _, self.field = self.path.rpartition(".")
        fabric, machine = sim.fabric, sim.machine
        if head in ("*->*", "gpu[*]"):
            self.kind = "link" if head == "*->*" else "gpu"
            self.rows = tuple(range(len(fabric.links) if self.kind == "link" else len(machine.gpus)))
            allowed = [name for name in _FIELDS if (name in _LINK) == (self.kind == "link")]
            if self.field not in allowed:
                raise InputError(
                    f"{self.field!r} of a {self.kind} cannot be changed",
                    where=path,
                    mend=f"one of {', '.join(allowed)}",
                )
        else:
            place = resolve(head or path, fabric, machine)
            self.kind, self.rows = place.kind, place.rows
            if self.kind not in ("link", "gpu") or self.field not in _FIELDS:
                read_edit(0, self.path, "1 ns", fabric, machine)  # says what is wrong
        self.column = "bandwidth_Bps" if self.field == "bandwidth" else f"{self.field}_ps"
        self.table = f"{self.kind}s"
        self.was = [int(n) for n in machine.tables[self.table][self.column][list(self.rows)]]
        self.new = [_changed(self.value, was, self.path, self.field) for was in self.was]
        if not any(self.was):
            raise InputError(f"{self.field} is 0 here", where=self.path)

    @property
    def words(self) -> str:
        """What it is now, for a person."""
        low, high = min(self.was), max(self.was)
        show = format_bandwidth if self.field == "bandwidth" else format_time
        return show(low) if low == high else f"{show(low)} to {show(high)}"

    def edits(self) -> Iterator[Edit]:
        """What carries the change out."""
        for number in sorted(set(self.new)):
            rows = tuple(row for row, new in zip(self.rows, self.new, strict=True) if new == number)
            yield Edit(0, self.path, self.value, self.table, self.column, rows, number)


def suggest(sim: Simulation, path: CriticalPath) -> WhatIf:
    """Give what would shorten the critical path most, everything twice as fast."""
    weights: dict[str, int] = defaultdict(int)
    cause_of = {cause: field for field, causes in _FIELDS.items() for cause in causes}
    for piece in path.pieces:
        field = cause_of.get(piece.cause)
        if field is not None:
            weights[f"{_owner(sim, piece)}.{field}"] += piece.end_ps - piece.start_ps
            weights[f"{'*->*' if field in _LINK else 'gpu[*]'}.{field}"] += piece.end_ps - piece.start_ps
    rows = []
    for name in sorted(weights, key=lambda n: (-weights[n], n))[: 4 * _MOST]:
        try:
            question = Question(sim, name, "x2" if name.endswith("bandwidth") else "x0.5")
        except InputError:
            continue  # it is 0 already
        rows.append(estimate(path, question))
    rows.sort(key=lambda row: row.estimate_ps)
    return WhatIf([row for row in rows if row.estimate_ps < row.before_ps][:_MOST])


def estimate(path: CriticalPath, question: Question) -> Change:
    """Estimate a change from the critical path: what depends on it is scaled, the rest stays."""
    change = {
        row: (was, new) for row, was, new in zip(question.rows, question.was, question.new, strict=True)
    }
    total, least, on_path = 0.0, 0.0, 0
    following = [*(piece.cause for piece in path.pieces[1:]), ""]
    for piece, after in zip(path.pieces, following, strict=True):
        length = float(piece.end_ps - piece.start_ps)
        row = _row(piece, path)
        if row in change and _depends(question.field, piece.cause, after):
            was, new = change[row]
            on_path += piece.end_ps - piece.start_ps
            if question.field == "bandwidth":
                length *= was / new
            elif question.field == "issue":
                length *= new / max(1, was)
            else:  # each pass has it once, beside what does not change
                length = max(0.0, length + piece.passes * (new - was))
        total += length
        least += 0.0 if piece.cause in WAITS else length
    return Change(
        question.path, question.value, question.words, path.time_ps, on_path, round(total), int(least)
    )


def answer(sim: Simulation, question: Question) -> Generator[float, None, Change]:
    """Run the change, in slices: a fork goes from the start to the end with it.

    Edits made since the start are left out on both sides of the comparison.

    Parameters
    ----------
    sim : Simulation
        It stays where it is.
    question : Question

    Yields
    ------
    float
        The part of the work that is done, roughly.

    Returns
    -------
    Change
        With its exact time; estimate and bound are of the same whole run.

    Raises
    ------
    Deadlock, WrongResult
        What the changed run comes to.
    """
    base = sim
    if not sim.finished or any(edit.events for edit in sim._driver.edits):  # noqa: SLF001
        base = sim.fork(record=False)
        base.reset()
        yield from _to_the_end(base, 0.0, 0.3, sim.events)
    work = search(base)
    while True:
        try:
            yield 0.3 + 0.3 * next(work)
        except StopIteration as found:
            path = found.value
            break
    fork = sim.fork(record=False)
    fork.reset()
    for edit in question.edits():
        apply_edit(edit, fork.machine)
    yield from _to_the_end(fork, 0.6, 0.4, base.events)
    return replace(estimate(path, question), exact_ps=fork.result.time_ps)


def _to_the_end(fork: Simulation, done: float, share: float, expected: int) -> Iterator[float]:
    while not fork.finished:
        fork.advance(max_events=_SLICE)
        yield done + share * fork.events / max(1, fork.events, expected)


def _depends(field: str, cause: str, after: str) -> bool:
    """Whether a piece has the time of a field in it."""
    missed = cause == "L2" and after in ("HBM queue", "HBM")
    if field == "l2":  # a line that missed pays for the L2 on its way back from memory
        return cause == "HBM" or (cause == "L2" and not missed)
    return cause in _FIELDS[field]


def _changed(value: str, was: int, path: str, field: str) -> int:
    """The new number: a factor, or a value with a unit."""
    text = value.strip().lower()
    if text.startswith("x"):
        try:
            factor = float(text[1:])
        except ValueError:
            factor = 0.0
        if not 0 < factor < 1e6:
            raise InputError(f"{value!r} is no factor", where=path, mend="for example x2 or x0.5")
        return max(1, round(was * factor)) if was else 0
    number = bandwidth_Bps(value, where=path) if field == "bandwidth" else time_ps(value, where=path)
    if field in ("bandwidth", "issue") and number == 0:
        raise InputError("it cannot be 0", where=path)
    return number


def _owner(sim: Simulation, piece: Piece) -> str:
    """The link with all its lanes, or the GPU, at which a piece's time passed."""
    kind, number = piece.where
    if kind == "link":
        return sim.fabric.name(number).partition("#")[0]
    return f"gpu[{int(sim.machine.sms['gpu'][number]) if kind == 'sm' else number}]"


def _row(piece: Piece, path: CriticalPath) -> int:
    kind, number = piece.where
    return path.gpu_of_sm[number] if kind == "sm" else number


def _share(new_ps: int, old_ps: int) -> str:
    return f"{(new_ps - old_ps) / max(1, old_ps):+.1%}"
