"""Watches: a field of an object, or a function of the simulation, followed over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.engine.cacheline._machine import Machine
from astranb.engine.cacheline._paths import FIELDS, resolve
from astranb.gpu import tables as t
from astranb.net.port import CLASSES

from ._breakpoints import with_unit
from ._replay import Replay

if TYPE_CHECKING:
    import pandas as pd

    from ._simulation import Simulation

__all__ = ["Watch", "Watching", "series_of"]

_TABLES = {"link": "links", "gpu": "gpus", "sm": "sms", "block": "blocks"}
_SUMMED = frozenset(
    {"busy_ps", "queued_ps", "messages", "bytes", "bandwidth_Bps", "marked", "pauses", "paused_ps"}
)
"""Of a link: what its lanes have together. Of anything else the largest of them is meant."""

_MOST = 4096  # samples; of more, every second is forgotten


@dataclasses.dataclass(eq=False)
class Watch:
    """Something that is followed over time.

    Attributes
    ----------
    text : str
        As it was asked for, with the full path, or the name of the function.
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

    @property
    def value(self) -> float:
        """What it is now."""
        return self.read(self.sim)

    def shown(self, value: float) -> str:
        """A value as a person reads it."""
        if self.field:
            return with_unit(self.field, int(value))
        return f"{value:,.6g}"

    def series(
        self, start: int | str = 0, end: int | str | None = None, points: int = 200
    ) -> tuple[np.ndarray, np.ndarray]:
        """Its exact values at times evenly apart, from a replay in a private copy.

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

    def to_dataframe(self) -> pd.DataFrame:
        """The samples as a frame: ``time_ps`` and ``value``."""
        import pandas as pd

        return pd.DataFrame({"time_ps": self.times_ps, "value": self.values})

    def sample(self, now_ps: int) -> None:
        """Note the value now; what was noted of later times is forgotten."""
        while self.times_ps and self.times_ps[-1] >= now_ps:
            self.times_ps.pop()
            self.values.pop()
        if len(self.times_ps) >= _MOST:
            self.times_ps, self.values = self.times_ps[::2], self.values[::2]
        self.times_ps.append(now_ps)
        self.values.append(float(self.value))

    def __repr__(self) -> str:
        """Its name and what it is now."""
        return f"<Watch {self.text}: {self.shown(self.value)}>"


class Watched:
    """What follows values; a part of the simulation, of whichever kind."""

    _watches: list[Watch]

    def watch(self, what: str | Callable[[Any], float]) -> Watch:
        """Follow a value: ``"gpu[3].sm.0.waiting"``, or a function of the simulation.

        It is noted whenever time has moved; :meth:`Watch.series` gives exact values between.

        Parameters
        ----------
        what : str or callable
            ``<path>.<field>`` as in a condition (of a link all lanes together, see
            :meth:`watchable`), or a function that gives a number and changes nothing.

        Raises
        ------
        InputError
            There is no such object or field, or the function gives no number.
        """
        watch = _of_function(self, what) if callable(what) else self._of_field(*_path_and_field(what))
        watch.sample(watch.sim.now_ps)
        self._watches.append(watch)
        return watch

    def unwatch(self, watch: Watch | None = None) -> None:
        """Follow a value no longer, or none of them."""
        self._watches = [w for w in self._watches if watch is not None and w is not watch]

    @property
    def watches(self) -> list[Watch]:
        """What is followed."""
        return list(self._watches)

    def watchable(self, path: str) -> list[str]:
        """Fields of an object that watches may name."""
        raise NotImplementedError

    def fields(self, path: str) -> list[str]:
        """What a condition of :meth:`break_when` may name of an object; nothing where there is none."""
        try:
            return self.watchable(path)
        except InputError:
            return []

    def _of_field(self, path: str, name: str) -> Watch:
        """Make a watch of an object's field."""
        raise NotImplementedError

    def _sample(self) -> None:
        """Note every watch's value; a function that fails must not stop the run."""
        for watch in self._watches:
            watch.sample(watch.sim.now_ps)


class Watching(Watched):
    """The part of a :class:`Simulation` that follows values; see there."""

    @property
    def _sim(self) -> Simulation:
        """Itself, as what it is a part of."""
        return cast("Simulation", self)

    def watchable(self, path: str) -> list[str]:
        """Fields of an object that conditions and watches may name.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> "outstanding" in sim.watchable("gpu[3].sm.0")
        True
        """
        return list(FIELDS.get(resolve(path, self._sim.fabric, self._sim.machine).kind) or ())

    def concerned(self) -> str:
        """Path of what the event handled last was about; empty at the start."""
        machine, fabric = self._sim.machine, self._sim.fabric
        clock = machine.clock[0]
        kind, arg = int(clock.last_kind), int(clock.last_arg)
        if clock.events == 0:
            return ""
        link = _link_of(machine, kind, arg)
        if link >= 0:
            return fabric.name(link).partition("#")[0] if link < len(fabric.links) else ""
        if kind in (t.LAUNCH, t.FENCE):
            gpu = machine.blocks["gpu"][arg]
        elif kind == t.ISSUE:
            gpu = machine.sms["gpu"][arg]
        else:
            gpu = machine.requests["gpu" if kind == t.RETURN else "target"][arg]
        return fabric.graph.name(int(fabric.gpus[int(gpu)]))

    def _of_field(self, path: str, name: str) -> Watch:
        return _of_field(self._sim, path, name)


def _link_of(machine: Machine, kind: int, arg: int) -> int:
    """The link that an event was about, -1 for none."""
    if kind == t.HOP:
        on_fabric = machine.requests["leg"][arg] == t.ON_FABRIC
        return int(machine.requests["link"][arg]) if on_fabric else -1
    if kind == t.WIRE:
        return arg
    if kind == t.FAULT:
        return int(machine.faults["link"][arg])
    if kind == t.PAUSE:
        return arg // (2 * CLASSES)
    return int(machine.flows["link"][arg]) if kind in (t.PACE, t.NOTICE) else -1


def _path_and_field(text: str) -> tuple[str, str]:
    path, dot, name = text.strip().rpartition(".")
    if not dot:
        raise InputError(f"{text!r} is not <path>.<field>", where="watch", hint="write <path>.waiting")
    return path, name


def _of_field(sim: Simulation, path: str, name: str) -> Watch:
    place = resolve(path, sim.fabric, sim.machine)
    names = FIELDS.get(place.kind) or ()
    if name not in names:
        hint = near(name, names) if names else "links, GPUs, SMs and thread blocks can be watched"
        raise InputError(f"a {place.kind} has no field {name!r}", where=path, hint=hint)
    table, rows = _TABLES[place.kind], list(place.rows)
    whole = place.kind == "link" and name in _SUMMED

    def read(at: Simulation) -> float:
        found = at.machine.tables[table][name][rows]
        return int(found.sum() if whole else found.max())

    return Watch(f"{place.path}.{name}", read, sim, place.path, name)


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
