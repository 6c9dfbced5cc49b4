"""Requests of thread blocks to copy engines and NICs: the lists of these, cut at doorbells.

A program gives a copy engine a list of its own, which waits for doorbells. Over a port channel of
MSCCL++ a thread block asks for each put and each signal itself, and they are executed in this order. So
what the list does after a doorbell, the thread block asks for where it rings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from astranb.collectives.language import Block, Operation, Program, Semaphore
from astranb.collectives.lowering import Pairing
from astranb.core.errors import InputError

__all__ = ["PortRequest", "PortRequests", "Route"]

_NAMES = {"engine": "a copy engine", "nic": "a NIC"}
_Ring = tuple[int, int]
"""A thread block's number, and the place of the signal by which it rings."""
_Error = Callable[[str, str, Operation], InputError]


class Route(NamedTuple):
    """A channel: the block that signals, and the one that waits or, without a semaphore, the other rank."""

    semaphore: Semaphore | None
    signaller: int
    end: int


class PortRequest(NamedTuple):
    """A put or signal of a list, the number of the list, and the channel for each target or signal."""

    list_number: int
    operation: Operation
    routes: tuple[Route, ...]


@dataclass
class PortRequests:
    """The requests of a program's thread blocks.

    Attributes
    ----------
    at : dict
        What a thread block asks for at each doorbell: by its number and the place of the signal.
    used : dict
        The channels of what it asked of a list: by its number and that of the list.
    notes : dict of str to None
        What port channels do otherwise than the program's lists.
    """

    program: Program
    pairing: Pairing
    error: _Error
    at: dict[_Ring, list[PortRequest]] = field(default_factory=dict)
    used: dict[tuple[int, int], dict[Route, None]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks = self.program.blocks
        lists = [number for number, block in enumerate(blocks) if block.unit != "sm" and block.count]
        if not lists:
            return
        self._raised: dict[Semaphore, dict[int, list[tuple[int, int]]]] = {}
        for number, block in enumerate(blocks):
            for place, op in enumerate(block.operations):
                if op.kind == "signal" and op.semaphore is not None:
                    by = self._raised.setdefault(op.semaphore, {})
                    by.setdefault(number, []).append((place, op.value))
        for note in (
            "a thread of the CPU executes what MSCCL++ asks over port channels: no time is given for it",
            "read back, semaphores lie elsewhere in memory, so other accesses meet: times change a little",
        ):
            self.notes[note] = None
        for number in lists:
            self._add(number, blocks[number])
        askers = [asker for asker, _ in self.used]
        if len(askers) > len(set(askers)):
            what = "copy engines and NICs of a thread block become one, which executes their requests in turn"
            self.notes[what] = None
        if len(self.used) > len({number for _, number in self.used}):
            what = "a copy engine or NIC of several thread blocks becomes one for each, in no common order"
            self.notes[what] = None

    def _add(self, number: int, block: Block) -> None:
        asked = self._asked(block)
        routes = self._routes(number, block, asked)
        before: dict[int, set[Route]] = {}  # of puts by their rank
        pending: set[int] = set()
        for (op, ring), route in zip(asked, routes, strict=True):
            if not route:
                continue  # the thread block flushes instead
            self.at.setdefault(ring, []).append(PortRequest(number, op, route))
            self.used.setdefault((ring[0], number), {}).update(dict.fromkeys(route))
            if block.unit == "engine" and self._leaves_node(op, block.rank):
                self.notes["copy engines that reach another node become NICs"] = None
            if op.kind == "move":
                for target, one in zip(op.targets, route, strict=True):
                    pending.add(target.rank)
                    before.setdefault(target.rank, set()).add(one)
                continue
            assert op.semaphore is not None  # noqa: S101 - a signal has one
            rank = op.semaphore.rank
            pending.discard(rank)
            if pending or before.get(rank, set()) - {route[0]} or len(set(route)) > 1:
                self.notes[
                    "MSCCL++ orders a signal behind the puts over the same port channel only: one of the "
                    "program's announces others, too"
                ] = None

    def _leaves_node(self, op: Operation, rank: int) -> bool:
        """Return whether an operation reaches a rank that only NICs reach."""
        width, shape = self.program.per_node, self.program.shape
        ends = [target.rank for target in op.targets]
        if op.semaphore is not None:
            ends.append(op.semaphore.rank)
        return shape.rdma and any(end // width != rank // width for end in ends)

    def _asked(self, block: Block) -> list[tuple[Operation, _Ring]]:
        """Return what a list does, each with the doorbell after which it begins."""
        found: list[tuple[Operation, _Ring]] = []
        ring: _Ring | None = None
        waited = False
        for op in block.operations:
            if op.kind == "wait":
                rung = self._ring(block, op)
                if ring is not None and rung[0] == ring[0]:
                    rung = max(ring, rung)
                elif waited:
                    what = f"{_NAMES[block.unit]} that waits for two thread blocks cannot be written"
                    raise self.error(what, "let one of them wait for the other, then ring", op)
                ring, waited = rung, True
            elif op.kind == "spend" or (op.kind == "compute" and waited and block.unit == "nic"):
                continue  # times are left out, and a NIC's work request takes its time in any case
            else:
                self._check(block, op)
                if ring is None:
                    what = f"{_NAMES[block.unit]} that waits for no doorbell cannot be written"
                    raise self.error(what, "let it wait for a semaphore that a thread block raises", op)
                found.append((op, ring))
                waited = False
        return found

    def _ring(self, block: Block, op: Operation) -> _Ring:
        """Return the signal that lets a list go on."""
        assert op.semaphore is not None  # noqa: S101 - a wait has one
        by = self._raised.get(op.semaphore, {})
        source = next(iter(by), None)
        ringer = None if source is None or len(by) > 1 else self.program.blocks[source]
        if source is None or ringer is None or ringer.unit != "sm" or ringer.rank != block.rank:
            what = f"{_NAMES[block.unit]} of rank {block.rank} waits for other than one thread block there"
            raise self.error(what, "let one thread block of its rank ring for it", op)
        risen = 0
        for place, value in by[source]:
            risen += value
            if risen >= op.value:
                return source, place
        raise self.error(f"it waits for {op.value} signals, of which {risen} are raised", "", op)

    def _check(self, block: Block, op: Operation) -> None:
        """Check that port channels support an operation."""
        name, rank = _NAMES[block.unit], block.rank
        if op.kind not in ("move", "signal"):
            what = f"{name} cannot be written with {op.kind!r}"
            raise self.error(what, "over a port channel it only puts and signals", op)
        if op.kind == "signal":
            return
        (source, *others), targets = op.sources, op.targets
        if others or op.in_switch:
            raise self.error(f"{name} that adds or uses a switch cannot be written", "use a thread block", op)
        if source.rank != rank:
            what = f"{name} of rank {rank} reads {source}: a port channel only puts"
            raise self.error(what, "let the other rank put it", op)
        if any(target.rank == rank for target in targets):
            what = f"{name} copies within rank {rank}: a port channel leads to another rank"
            raise self.error(what, "let a thread block copy it", op)
        if any((target.buffer == "packets") != (source.buffer == "packets") for target in targets):
            what = f"{name} makes or unpacks packets: a port channel moves them as they are"
            raise self.error(what, "let a thread block do it", op)

    def _routes(
        self, number: int, block: Block, asked: list[tuple[Operation, _Ring]]
    ) -> list[tuple[Route, ...]]:
        """Return the channels of each request: a put takes that of the signal that announces it."""
        ahead: dict[int, tuple[Route, int]] = {}  # the next signal to each rank, and who asks for it
        flushed: set[int] = set()  # thread blocks that wait for the end later
        found: list[tuple[Route, ...]] = []
        for op, (asker, _) in reversed(asked):
            if op.kind == "signal":
                assert op.semaphore is not None  # noqa: S101 - a signal has one
                waiters = self.pairing.waiters.get(op.semaphore, [])
                if op.semaphore.rank == block.rank:
                    if any(waiter != asker for waiter in waiters):
                        name = _NAMES[block.unit]
                        what = f"{name} signals rank {block.rank}, where another thread block waits"
                        raise self.error(what, "let the thread block that rang wait for it", op)
                    flushed.add(asker)
                    found.append(())
                    continue
                routes = tuple(
                    Route(op.semaphore, number, waiter) for waiter in waiters for _ in range(op.value)
                )
                if routes:
                    ahead[op.semaphore.rank] = routes[0], asker
            else:
                routes = tuple(self._route(number, op, t.rank, asker, ahead, flushed) for t in op.targets)
            found.append(routes)
        return found[::-1]

    def _route(
        self,
        number: int,
        op: Operation,
        rank: int,
        asker: int,
        ahead: dict[int, tuple[Route, int]],
        flushed: set[int],
    ) -> Route:
        """Return the channel of a put to a rank."""
        if rank in ahead:
            route, signaller = ahead[rank]
            if signaller == asker:
                return route
            what = f"a put to rank {rank}, for whose signal another thread block rings"
            raise self.error(what, "let the thread block that rang for the put ring for its signal", op)
        if op.sources[0].buffer != "packets" and asker not in flushed:
            what = f"a put to rank {rank} that no signal announces"
            raise self.error(what, "signal the rank that gets the data", op)
        return Route(None, number, rank)
