"""Two runs beside each other: one clock for both, and what differs at it."""

# ruff: noqa: SLF001 - this is a part of the workbench

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astranb.core.errors import AstranbError, InputError
from astranb.core.units import format_time
from astranb.sim import Comparison, Replay, Shown, Stop, compare

if TYPE_CHECKING:
    from ._workbench import Workbench

__all__ = ["LinkedClock", "report"]

_MOST_ROWS = 200
_MOST_REPLAYED = 2_000_000  # events of a run that is looked at in its past


class LinkedClock:
    """Keeps two workbenches at the same simulated time, cursor, zoom and selection, whoever moves one.

    Each stays at its own end when the other one goes on beyond.

    Parameters
    ----------
    a, b : Workbench
    """

    def __init__(self, a: Workbench, b: Workbench) -> None:
        if a.sim is b.sim:
            raise InputError("a run beside itself", where="compare", hint="give a fork of it")
        self.a, self.b = a, b
        self.changed: Callable[[], None] = lambda: None
        self._moving = False
        self._replays: dict[int, tuple[Any, Replay]] = {}
        one, other = a._session, b._session
        one.twin, other.twin = other, one
        self._ends = [
            a.sim.subscribe(lambda stop: self._moved(a, b, stop)),
            b.sim.subscribe(lambda stop: self._moved(b, a, stop)),
            one.attach(lambda: self._published(b)),
            other.attach(lambda: self._published(a)),
        ]
        for bench, twin in ((a, b), (b, a)):
            bench.observe(lambda change, twin=twin: self._scrubbed(twin, change["new"]), "_cursor_ps")
            bench.observe(lambda change, twin=twin: self._zoomed(twin, change["new"]), "_window_ps")
            bench.observe(lambda change, twin=twin: self._selected(twin, change["new"]), "_selection")

    def close(self) -> None:
        """Let each have its own clock again."""
        for end in self._ends:
            end()
        self._ends = []
        for bench in (self.a, self.b):
            bench._session.twin = None

    def together(self) -> None:
        """Take b to where a is."""
        self._follow(self.a, self.b)
        self.b._session.publish()

    def at(self, cursor_ps: Any = None) -> Comparison:
        """What differs at a time, or now; long runs are not replayed to look into their past."""
        names = compare(self.a.sim, self.b.sim).names
        return compare(self._then(self.a.sim, cursor_ps), self._then(self.b.sim, cursor_ps), names)

    def _then(self, sim: Any, cursor_ps: Any) -> Any:
        late = not isinstance(cursor_ps, int | float) or cursor_ps < 0 or cursor_ps >= sim.now_ps
        if late or sim.events > _MOST_REPLAYED:
            return sim
        key = (sim.events, tuple(sim.edits))
        kept = self._replays.get(id(sim))
        if kept is None or kept[0] != key:
            kept = self._replays[id(sim)] = (key, Replay(sim))
        kept[1].goto(int(cursor_ps))
        return kept[1].sim

    def _moved(self, bench: Workbench, twin: Workbench, stop: Stop) -> None:
        if self._moving or not self._ends or stop.why == "edit":
            return
        session = bench._session
        at_its_end = bench.sim.finished and twin.sim.now_ps >= bench.sim.now_ps
        if at_its_end and stop.why != "back":  # the other one has gone on beyond
            return
        stopped = self._follow(bench, twin)
        if stopped is not None and stopped.why == "breakpoint":  # both stand where the first one was hit
            session.playing = False
            self._follow(twin, bench)
        elif stop.why == "end" and session.playing and not (session.bounded or twin.sim.finished):
            twin._session.speed = session.speed
            twin._session.ask("to_end" if session.fast else "play")
        if not session.playing:
            twin._session.publish()

    def _follow(self, bench: Workbench, twin: Workbench) -> Stop | None:
        """Take the twin to the time of a workbench, without a word to its views."""
        sim, session = twin.sim, twin._session
        if sim.finished and sim.now_ps <= bench.sim.now_ps:  # it stays at its end
            return None
        self._moving = True
        try:
            with session.quietly():
                stop = sim.reset(keep=True) if bench.sim.events == 0 else sim.goto(bench.sim.now_ps)
            session.note(stop.text)
        except AstranbError as error:
            session.note(str(error), failed=True)
            return None
        finally:
            self._moving = False
        return stop

    def _published(self, twin: Workbench) -> None:
        """A workbench tells its views: the other one, which moved with it, does so as well."""
        if self._moving or not self._ends:
            return
        self._moving = True
        try:
            twin._session.publish()
        finally:
            self._moving = False
        self.changed()

    def _scrubbed(self, twin: Workbench, cursor_ps: float) -> None:
        if self._ends:
            twin._cursor_ps = cursor_ps if 0 <= cursor_ps < twin.sim.now_ps else -1.0
            self.changed()

    def _zoomed(self, twin: Workbench, window_ps: list[float]) -> None:
        if self._ends:
            twin._window_ps = window_ps

    def _selected(self, twin: Workbench, path: str) -> None:
        if not self._ends:
            return
        try:
            twin.select(path)
        except AstranbError:
            return  # it has no such object


def report(both: Comparison) -> dict[str, Any]:
    """A comparison as a view shows it: tables of texts, with how large each difference is."""
    total = {"cause": "total", **{f"time_ps_{side}": both.time[f"{side}_ps"] for side in ("a", "b")}}
    total["time_ps_difference"] = both.time["difference_ps"]
    causes = Shown("Time", [total, *both.causes()], "cause", "time_ps")
    return {
        "names": list(both.names),
        "inputs": [list(row) for row in both.inputs],
        "now": [format_time(both.a.now_ps), format_time(both.b.now_ps)],
        "verdict": both.verdict(),
        "tables": [_texts(one) for one in (causes, *both.shown())],
    }


def _texts(one: Shown) -> dict[str, Any]:
    """A table as rows of texts, the last number of each the share of the largest difference."""
    difference = f"{one.field}_difference"
    rows = one.rows
    if one.largest:
        rows = sorted(rows, key=lambda row: (-abs(row[difference]), row[one.key]))
    most = max((abs(row[difference]) for row in rows), default=0) or 1
    said = []
    for row in rows[:_MOST_ROWS]:
        d = row[difference]
        texts = [one.written(row[f"{one.field}_{side}"]) for side in ("a", "b")]
        sign = "+" if d > 0 else "\u2212" if d < 0 else ""
        said.append([str(row[one.key]), *texts, sign + one.written(abs(d)), d / most])
    return {"title": one.title, "rows": said, "left_out": max(0, len(rows) - _MOST_ROWS) + one.left_out}
