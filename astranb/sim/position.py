"""Position of a run: its edits, the events it has handled, and its breakpoints.

Whoever has the inputs of the run goes there by running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError
from astranb.core.progress import bar
from astranb.engine import Breakpoint

from .driver import Driver

__all__ = ["Position", "go", "points_of", "position_of", "read_position", "start_hash"]

_MOST: Final = 10_000  # edits, breakpoints or watches
_MOST_TEXT: Final = 1000
_SHOWN_EVENTS: Final = 1_000_000
_POINT: Final = ("text", "at_ps", "rows", "object", "enabled")


class Position(NamedTuple):
    """Position of a run, read from JSON."""

    events: int
    edits: list[tuple[int, str, str, int]]
    breakpoints: list[dict[str, Any]]
    watches: list[str]
    hash: str


def position_of(driver: Driver, points: Sequence[Breakpoint], watches: Sequence[str]) -> dict[str, Any]:
    """Describe for JSON where a run is; breakpoints that are functions are left out."""
    return {
        "events": driver.events,
        "edits": [[edit.events, edit.path, edit.value, edit.at_ps] for edit in driver.edits],
        "breakpoints": [{name: getattr(p, name) for name in _POINT} for p in points if p.call is None],
        "watches": list(watches),
        "hash": driver.engine.digest(),
    }


def read_position(given: Any) -> Position:
    """Check what should be that of :func:`position_of`.

    Raises
    ------
    InputError
        It is something else.
    """
    try:
        edits = [
            (_count(events), _text(path), _text(value), _count(at_ps))
            for events, path, value, at_ps in _few(given["edits"])
        ]
        found = Position(
            _count(given["events"]),
            edits,
            [{name: point[name] for name in _POINT} for point in _few(given["breakpoints"])],
            [_text(one) for one in _few(given["watches"])],
            _text(given["hash"]),
        )
        counts = [*(edit[0] for edit in edits), found.events]
        if counts != sorted(counts):
            raise ValueError("not in order")  # noqa: TRY301 - one report for all
    except (KeyError, TypeError, ValueError) as error:
        raise InputError("not the state of a run") from error
    return found


def _few(given: Any) -> list[Any]:
    if not isinstance(given, list) or len(given) > _MOST:
        raise TypeError("no list")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str) or len(given) > _MOST_TEXT:
        raise TypeError("no text")
    return given


def _count(given: Any) -> int:
    if type(given) is not int or not 0 <= given < 1 << 62:
        raise TypeError("no number")
    return given


def go(driver: Driver, position: Position) -> None:
    """Go to a position: from the start on, with every change at the event at which it was made.

    Of a long run, the progress is shown.

    Raises
    ------
    InputError
        The run ends before, a change is not possible there, or the state is another one.
    """
    driver.restart()
    if _goes_at_once(driver, position):
        return
    quiet = position.events < _SHOWN_EVENTS
    with bar(position.events, what="simulating", unit=" events", quiet=quiet) as progress:

        def beat() -> None:
            progress.update(driver.events - progress.n)

        for events, path, value, at_ps in position.edits:
            _run_to(driver, events, beat)
            driver.edit(replace(driver.engine.read_edit(path, value), at_ps=at_ps))
        _run_to(driver, position.events, beat)
    if position.hash and driver.engine.digest() != position.hash:
        raise InputError("the state is not the one that was saved")


def _goes_at_once(driver: Driver, position: Position) -> bool:
    """Go to the end of a run in which a few ranks are simulated for all, if that is the position."""
    engine = driver.engine
    if position.edits or not position.events or not engine.finish():
        return False
    if driver.events == position.events and engine.digest() == position.hash:
        return True
    driver.restart()
    return False


def _run_to(driver: Driver, events: int, beat: Callable[[], None]) -> None:
    driver.replay("events", events, [], beat)
    if driver.events < events:
        raise InputError(f"the run ends after {driver.events:,} events, before the state that was saved")


def points_of(driver: Driver, given: Sequence[Mapping[str, Any]]) -> list[Breakpoint]:
    """Make the breakpoints of a position.

    Raises
    ------
    InputError
        They are not of this run.
    """
    try:
        points = [Breakpoint(**point) for point in given]
        driver.engine.install(points)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError("the breakpoints of this state are not of this run") from error
    return points


def start_hash(driver: Driver) -> str:
    """Hash the start of a run before every change: two runs with the same hash go on alike."""
    if not driver.edits and driver.events == 0:
        return driver.engine.digest()
    start = driver.copy(record=False)
    start.restart()
    return start.engine.digest()
