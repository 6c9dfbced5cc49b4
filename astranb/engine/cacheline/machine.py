"""The tables of a simulated machine with what is recorded of it, and the loop bound to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from astranb.core.jit import Records
from astranb.core.queue import EventQueue, live
from astranb.core.state import allocate, digest, own
from astranb.gpu.tables import Machine
from astranb.net import NEVER

from .loop import ENTRY, RAW
from .recording import Recording

__all__ = ["CacheLineMachine", "busy_until", "state_hash"]


class CacheLineMachine(Machine):
    """All tables of one simulated machine, and the loop bound to them.

    Attributes
    ----------
    tables : dict of str to recarray
        The simulated state by name: every owner of :data:`~astranb.engine.cacheline.loop.OWNERS`.
    control, breaks : recarray
        Limits and breakpoints: not simulated.
    recording : Recording
        What is recorded and traced: not simulated either.
    """

    def __new__(cls, tables: dict[str, Records], *_: Any) -> Self:
        """Make the tuple; what is not simulated are attributes of it."""
        queue = EventQueue(*(tables[name] for name in EventQueue._fields))
        return super().__new__(
            cls, event_queue=queue, **{n: tables[n] for n in Machine._fields if n in tables}
        )

    def __init__(
        self, tables: dict[str, Records], control: Records, breaks: Records, recording: Recording
    ) -> None:
        self.tables, self.control, self.breaks, self.recording = tables, control, breaks, recording
        self.first_routes: tuple[Records, Records] | None = None  # where routes have changed
        self._call: Callable[[], int] | None = None

    def waiting(self, queue: int) -> Iterator[int]:
        """Yield the requests that wait in a queue of a link, the first one first."""
        request = int(self.queues[queue].head)
        while request >= 0:
            yield request
            request = int(self.requests[request].next_free)

    def run(self) -> int:
        """Call the loop once, up to the limits in ``control``."""
        if self._call is None:
            raw = [np.asarray(self.tables[n]).view(np.int64) for n in RAW]
            self._call = ENTRY.bind(self.control, self.breaks, tuple(raw), self.recording, self)
        return self._call()

    def kept(self, *, whole: bool = False) -> dict[str, memoryview]:
        """Return what a checkpoint holds, as writable bytes: the state, and what goes back with it.

        ``whole``: with everything recorded.
        """
        unchanged = () if self.first_routes else ("routes", "route_links")
        tables = {n: t for n, t in self.tables.items() if n not in unchanged}
        r = self.recording
        if r.recorder[0].on:
            tables |= {"recorder": r.recorder, "activity": r.activity, "current": r.current}
        if r.recorder[0].landing:
            tables["landed"] = r.landed
        if whole:
            tables |= {name: table for name, table in r._asdict().items() if name != "trace"}
        return {name: memoryview(np.asarray(t).view(np.uint8).reshape(-1)) for name, t in tables.items()}  # type: ignore[arg-type]

    def with_routes(self, tables: Mapping[str, Records]) -> Self:
        """The same machine with other tables of routes, and of what there is for each route."""
        other = type(self)({**self.tables, **tables}, self.control, self.breaks, self.recording)
        other.first_routes = self.first_routes or (self.routes, self.route_links)
        return other

    def resized(self, sizes: Mapping[str, int]) -> Self:
        """The machine with tables of the sizes of a checkpoint: they change only where routes do."""
        if self.first_routes is None:
            return self
        changed = {
            name: allocate(sizes[name] // table.itemsize, table.dtype)
            for name, table in self.tables.items()
            if sizes.get(name, table.nbytes) != table.nbytes
        }
        if "routes" in sizes:
            return self.with_routes(changed) if changed else self
        routes, links = self.first_routes
        other = self.with_routes({**changed, "routes": routes, "route_links": links})
        other.first_routes = None
        return other

    def copy(self, *, record: bool = True) -> Self:
        """An independent machine in the same state; without its recording where not wanted."""
        kept = slice(None) if record else slice(1)
        r = self.recording
        recording = r._replace(
            **{name: own(getattr(r, name)[kept]) for name in ("flights", "activity", "bursts", "current")},
            recorder=own(r.recorder),
            landed=own(r.landed),
            trace=own(r.trace[:1]),
        )
        recording.recorder["on"] &= int(record)
        tables = {name: own(table) for name, table in self.tables.items()}
        other = type(self)(tables, own(self.control), own(self.breaks), recording)
        other.first_routes = self.first_routes
        return other

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for table in self.tables.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        r = self.recording
        recorded = (r.flights, r.activity, r.bursts, r.current, r.landed)
        return sum(table.nbytes for table in (*self.tables.values(), *recorded))


def state_hash(machine: CacheLineMachine) -> str:
    """Hash the live state: 32 hex digits.

    Free places and spare capacity are no part of it: the events to come are taken in their
    order, and of the requests only those under way.
    """
    return digest(_live(machine))


def _live(machine: CacheLineMachine) -> Iterator[tuple[str, np.ndarray]]:
    for name, table in machine.tables.items():
        rows = np.asarray(table)
        if name == "near":
            yield "event_queue", live(machine.event_queue)
        elif name in ("later", "slots", "far", "details"):
            continue
        elif name == "requests":
            under_way = np.flatnonzero(rows["live"])
            yield "under_way", under_way
            yield name, rows[under_way]
            if machine.clock[0].detailed:
                yield "details", np.asarray(machine.details)[under_way]
        else:
            yield name, rows


def busy_until(rows: Any, now_ps: int) -> np.ndarray:
    """Return the busy time of links, L2 slices or HBM channels up to now, in ps.

    ``busy_ps`` counts a message when it is taken, the time that it will be sent included: what is still to
    come is how long they will be busy with what they have taken.
    """
    free = np.asarray(rows["free_at_ps"], np.int64)
    ahead = np.maximum(0, free - now_ps)
    if "resumes_ps" in rows.dtype.names:  # what waits for a link that is down counts from the time it is up
        resumes = np.maximum(0, rows["resumes_ps"] - now_ps)
        ahead = np.where(free >= NEVER, free - NEVER + resumes, ahead)
    past: np.ndarray = np.clip(rows["busy_ps"] - ahead, 0, max(0, now_ps))
    return past
