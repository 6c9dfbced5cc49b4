"""What can be followed over time in a workload: fields of ranks, operations, queues, dimensions and links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from astranb.core.errors import InputError, near
from astranb.sim._watch import Watch, Watched
from astranb.workload.astrasim2 import _tables as t

from ._ends import waiting_for
from ._inspect import chunks_in, in_flight
from ._paths import FIELDS, Place, resolve

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["READERS", "Watching"]

_Reader = Callable[[t.Machine, Place], int]


def _field(table: str, name: str) -> _Reader:
    return lambda m, place: int(getattr(m, table)[name][list(place.rows)].sum())


def _messages(m: t.Machine, place: Place) -> int:
    rows = m.messages[in_flight(m)]
    return int(((rows.src == place.npu) | (rows.dst == place.npu)).sum())


def _sent(name: str) -> _Reader:
    def read(m: t.Machine, place: Place) -> int:
        dims = len(m.dims)
        rows = slice(place.dim, None, dims) if place.npu < 0 else place.npu * dims + place.dim
        return int(np.sum(m.traffic[name][rows]))

    return read


_TABLES = {"rank": "npus", "op": "operations", "queue": "queues"}
_CONDITIONS: dict[str, dict[str, _Reader]] = {
    kind: {word: _field(_TABLES[kind], name) for word, name in words.items()}
    for kind, words in FIELDS.items()
}
READERS: dict[str, dict[str, _Reader]] = {
    "rank": {**_CONDITIONS["rank"], "in_flight": _messages},
    "op": _CONDITIONS["op"],
    "queue": {
        **_CONDITIONS["queue"],
        "waiting": lambda m, place: len(chunks_in(m, place)) - int(m.queues.running[list(place.rows)].sum()),
        "messages": _sent("messages"),
        "bytes": _sent("bytes"),
    },
    "dim": {"messages": _sent("messages"), "bytes": _sent("bytes")},
    "link": {
        "waiting": lambda m, place: waiting_for(m, place.rows[0]),
        "sending": lambda m, place: int(m.links[place.rows[0]].busy & 1),
        "messages": _field("used", "messages"),
        "bytes": _field("used", "bytes"),
        "busy_ns": _field("used", "busy_ns"),
    },
}
"""What can be followed: by kind of object, the word and what reads it; conditions may name a part of it."""

_NOTED = {
    kind: {"messages", "bytes", "busy_ns"} for kind in ("queue", "dim", "link")
}  # noted where a run records


class Watching(Watched):
    """The part of a :class:`WorkloadSimulation` that follows values."""

    def watchable(self, path: str) -> list[str]:
        """Fields of an object that watches may name.

        Examples
        --------
        >>> from astranb.workload.astrasim2 import COMPUTE, Network, Operations, System
        >>> from astranb.sim.workload import WorkloadSimulation
        >>> one = Operations.of([{"kind": COMPUTE, "duration_us": 3}])
        >>> network = Network(["Ring"], [2], [50], [500])
        >>> sim = WorkloadSimulation([one] * 2, network, System.from_document({}))
        >>> sim.watchable("rank[1].dim[0]")
        ['running', 'waiting', 'messages', 'bytes']
        """
        sim = self._sim
        place = resolve(path, sim.about, sim.state.machine)
        unknown = set() if sim.recording else _NOTED.get(place.kind, set())
        return [name for name in READERS[place.kind] if name not in unknown]

    def fields(self, path: str) -> list[str]:
        """What a condition of :meth:`break_when` may name of an object; nothing where there is none."""
        try:
            place = resolve(path, self._sim.about, self._sim.state.machine)
        except InputError:
            return []
        return list(FIELDS.get(place.kind, ()))

    @property
    def _sim(self) -> WorkloadSimulation:
        return cast("WorkloadSimulation", self)

    def _of_field(self, path: str, name: str) -> Watch:
        sim = self._sim
        place = resolve(path, sim.about, sim.state.machine)
        known = self.watchable(path)
        if name not in known:
            if name in READERS[place.kind]:
                mend = "make it with WorkloadSimulation(..., record=True)"
                raise InputError(f"{name!r} is not recorded", where=place.path, mend=mend)
            raise InputError(f"no field {name!r}", where=place.path, mend=near(name, known))
        read = READERS[place.kind][name]

        def value(at: Any) -> float:
            return read(at.state.machine, place)

        return Watch(f"{place.path}.{name}", value, sim, place.path, name)
