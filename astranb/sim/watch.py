"""Watches: a field of an object, or a function of the simulation, followed over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.engine import with_unit

from .replay import Replay

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Watch", "series_of"]

_MOST = 4096  # samples; of more, every second is forgotten


@dataclasses.dataclass(eq=False)
class Watch(Displayed):
    """Something that is followed over time.

    Attributes
    ----------
    text : str
        ``<path>.<field>`` with the full path, or the name of the function.
    read : callable
        Gives its value from a simulation.
    object, field : str
        What it is about; both empty for a function.
    times_ps, values : list
        Samples taken whenever time had moved; :meth:`series` is exact.
    """

    text: str
    read: Callable[[Any], float]
    sim: Any
    object: str = ""
    field: str = ""
    times_ps: list[int] = dataclasses.field(default_factory=list)
    values: list[float] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, sim: Any, what: str | Callable[[Any], float]) -> Watch:
        """Make a watch of ``<path>.<field>``, or of a function of the simulation.

        Raises
        ------
        InputError
            There is no such object or field, or the function gives no number.
        """
        if callable(what):
            return _of_function(sim, what)
        path, dot, name = what.strip().rpartition(".")
        if not dot:
            hint = "write <path>.waiting"
            error = InputError(f"{what!r} is not <path>.<field>", where="watch", hint=hint)
            raise _without_field(sim, what.strip()) or error
        try:
            found = sim.engine.fields(path)
        except InputError as error:
            raise _without_field(sim, what.strip()) or error from None
        place, readers = found.path, found.readers
        known = sim.watchable(path)
        if name not in known:
            if name in readers:
                hint = "make it with Simulation(..., record=True)"
                raise InputError(f"{name!r} is not recorded", where=place, hint=hint)
            hint = near(name, known) if known else "nothing of it can be watched in this run"
            raise InputError(f"no field {name!r}", where=place, hint=hint)
        read = readers[name]
        return cls(f"{place}.{name}", lambda at: read(at.engine), sim, place, name)

    @property
    def value(self) -> float:
        """Value now."""
        return self.read(self.sim)

    def shown(self, value: float) -> str:
        """A value as a person reads it."""
        if self.field:
            return with_unit(self.field, int(value))
        return f"{value:,.6g}"

    def series(
        self, start: int | str = 0, end: int | str | None = None, points: int = 200
    ) -> tuple[np.ndarray, np.ndarray]:
        """Its exact values at equally spaced times, from a replay in a private copy.

        Parameters
        ----------
        start, end : int or str
            The first and the last time, at most now; ``end`` is now where not given.
        points : int
            How many, at least 1.

        Returns
        -------
        times_ps, values : ndarray, shape (points,)
            Each value is that when everything up to its time has happened.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> watch = sim.watch("gpu[3].blocks_left")
        >>> _ = sim.run()
        >>> [int(v) for v in watch.series(points=3)[1]]
        [1, 1, 0]
        """
        times = times_between(self.sim, start, end, points)
        return times, series_of(self.sim, [self], times)[0]

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """The samples as a frame: ``time_ps`` (or in the unit asked for, as ``"us"``) and ``value``."""
        return frame({"time_ps": self.times_ps, "value": self.values}, time)

    def sample(self, now_ps: int) -> None:
        """Record the value now, and drop what was recorded of later times."""
        while self.times_ps and self.times_ps[-1] >= now_ps:
            self.times_ps.pop()
            self.values.pop()
        if len(self.times_ps) >= _MOST:
            self.times_ps, self.values = self.times_ps[::2], self.values[::2]
        self.times_ps.append(now_ps)
        self.values.append(float(self.value))

    def __str__(self) -> str:
        """Its name and what it is now."""
        return f"{self.text}: {self.shown(self.value)}"

    def __repr__(self) -> str:
        """The same, with its class."""
        return f"<Watch {self}>"


def _without_field(sim: Any, path: str) -> InputError | None:
    """Return the error for an object whose field is not named; None where there is no such object."""
    with suppress(InputError):
        known = sim.watchable(path)
        return InputError(f"{path!r} is an object", where="watch", hint=f"name a field; {near('', known)}")
    return None


def _of_function(sim: Any, call: Callable[[Any], float]) -> Watch:
    def read(at: Any) -> float:
        return float(call(at))

    try:
        read(sim)
    except Exception as error:
        raise InputError(
            f"the function gives no number: {type(error).__name__}: {error}", where="watch"
        ) from error
    return Watch(f"{getattr(call, '__name__', 'function')}()", read, sim)


def times_between(sim: Any, start: int | str, end: int | str | None, points: int) -> np.ndarray:
    """So many times from one to the other, neither later than now."""
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise InputError(f"points must be a whole number from 1 on, got {points!r}", where="series")
    last = sim.now_ps if end is None else min(time_ps(end, where="end"), sim.now_ps)
    first = time_ps(start, where="start")
    if first > last:
        raise InputError(
            f"it starts at {format_time(first)}, after its end at {format_time(last)}", where="series"
        )
    return np.linspace(first, last, points).astype(np.int64) if points > 1 else np.array([last], np.int64)


def series_of(sim: Any, watches: Sequence[Watch], times_ps: np.ndarray) -> np.ndarray:
    """Exact values of watches, in one replay: shape (watches, times); times must not decrease."""
    replay = Replay(sim)
    values = np.zeros((len(watches), len(times_ps)))
    for place, when in enumerate(times_ps.tolist()):
        replay.goto(when)
        values[:, place] = [watch.read(replay.sim) for watch in watches]
    return values
