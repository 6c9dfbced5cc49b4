"""From a training loop and its layers to the tables of a run."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.workload.astrasim1._layers import Part, Workload
from astranb.workload.astrasim1._loops import Action, Layers, Step
from astranb.workload.astrasim1._network import HierarchicalNetwork
from astranb.workload.astrasim1._policies import Levels, involved, levels_of
from astranb.workload.astrasim1._shipped import loop_named
from astranb.workload.astrasim1._system import WITHIN, System

from . import _tables as t
from ._noted import PASSED, POINT, WATCH
from ._plan import Planner

__all__ = ["Built", "build", "notes"]

_HIGHEST: Final = 100_000_000
_MOST_OPERATIONS: Final = 5_000_000
_MOST_STREAMS: Final = 4_000_000
_MOST_PS: Final = 1 << 62
_MOST_POINTS: Final = 64
_MOST_PASSED: Final = 262_144


class Built(NamedTuple):
    """A run's tables, and what they were made of.

    Parameters
    ----------
    machine : Machine
    sent : ndarray of int64
        What NPU 0 sends in each phase into each dimension of the network.
    planned : ndarray
        How each phase is done: :data:`._plan.PLANNED`.
    levels : Levels
    """

    machine: t.Machine
    sent: np.ndarray
    planned: np.ndarray
    levels: Levels


def notes(phases: int, *, record: bool) -> dict[str, Records]:
    """Make the tables of what is noted: of one row each where nothing is recorded.

    Parameters
    ----------
    phases : int
        How many there will be.
    record : bool
    """
    watch = allocate(1, WATCH)
    watch.hit = watch.what = -1
    watch.recording = watch.noting = record
    passed = allocate(max(1, min(phases, _MOST_PASSED)) if record else 1, PASSED)
    return {"watch": watch, "points": allocate(_MOST_POINTS, POINT), "passed": passed}


class _Program:
    """Operations and collectives as they are written down, pass by pass."""

    def __init__(
        self, workload: Workload, system: System, network: HierarchicalNetwork, *, congested: bool = False
    ) -> None:
        self.loop = loop_named(workload.loop, workload.where)
        self.levels = levels_of(network, workload.group, workload.where)
        self.planner = Planner(network, system, self.levels, congested=congested)
        self._workload, self._system = workload, system
        self._step_ps = self.loop.step_ns * 1000 if network.compat else 0
        self._masks = [self._involved(number) for number in range(len(workload.layers))]
        self._priority = 0
        self.operations: list[tuple[int, int, int]] = []
        self.collectives: list[tuple[int, ...]] = []
        self.streams = 0
        self.notes: list[tuple[int, str]] = []

    def _involved(self, number: int) -> tuple[int, int, int]:
        policy = self._workload.layers[number].policy or self.loop.dimensions
        if self.loop.dimensions == "HYBRID_DLRM" and number == 0:
            policy = "ALL"
        return involved(policy, self.levels, self._workload.where)

    def steps(self) -> list[tuple[Action, ...]]:
        """Run the loop, once, and look at what it yields."""
        name, where = self.loop.name, self._workload.where
        result = []
        yielded: Step
        for yielded in self.loop.function(Layers.of(self._workload)):
            step = (yielded,) if isinstance(yielded, Action) else tuple(yielded)
            for action in step:
                if not isinstance(action, Action):
                    raise InputError(
                        f"{name} yields {str(action)[:40]!r}, which is no action",
                        where=where,
                        hint="yield layer.forward.compute() and the like, or several of them",
                    )
            result.append(step)
            if len(result) > _MOST_OPERATIONS:
                raise InputError(f"{name} never ends", where=where, hint="let it yield one pass")
        return result

    def write(self, passes: int) -> None:
        """Write the program of so many passes."""
        steps = self.steps()
        length = sum(1 + len(step) for step in steps) * passes
        if length > _MOST_OPERATIONS:
            raise InputError(f"{length} operations", where="--num-passes", hint="take fewer passes")
        for _ in range(passes):
            for number, step in enumerate(steps):
                for action in step:
                    self._write(action)
                if number == len(steps) - 1:
                    self.operations.append((t.PASS, 0, 0))
                self.operations.append((t.STEP, 0, self._step_ps))
                if self._step_ps:
                    self.planner.new_instant()
        self.operations.append((t.END, 2, 0))

    def _write(self, action: Action) -> None:
        layer = self._workload.layers[action.layer]
        part: Part = (layer.forward, layer.input_gradient, layer.weight_gradient)[action.part]
        slot = action.layer * 3 + action.part
        if action.verb == "compute":
            self.operations.append((t.COMPUTE, slot, part.compute_ns * 1000))
            if part.compute_ns:
                self.planner.new_instant()
        elif action.verb == "wait":
            self.operations.append((t.WAIT, slot, 0))
            if part.collective != "NONE":
                self.planner.new_instant()
        elif part.collective != "NONE":
            priority = _HIGHEST
            if not action.first:
                priority = self._priority
                self._priority += 1 if self._system.lifo else -1
            first, count = self.planner.plan(part, self._masks[action.layer][action.part])
            if count:
                row = (slot, first, count, self.streams, priority, layer.update_ns * 1000)
                self.collectives.append((*row, len(self.operations)))
                self.operations.append((t.ISSUE, len(self.collectives) - 1, 0))
                self.streams += count
                if self.streams > _MOST_STREAMS:
                    what = f"more than {_MOST_STREAMS} chunks"
                    hint = "take fewer passes or preferred-dataset-splits"
                    raise InputError(what, where=self._system.where, hint=hint)


def build(
    workload: Workload, system: System, network: HierarchicalNetwork, passes: int, *, congested: bool
) -> Built:
    """Make the tables.

    Parameters
    ----------
    workload : Workload
    system : System
    network : HierarchicalNetwork
    passes : int
        How often the loop is gone through.
    congested : bool
        Whether messages wait for one another on links.

    Raises
    ------
    InputError
        Something does not fit.
    """
    if passes < 1:
        raise InputError(f"{passes} passes", where="--num-passes", hint="take 1 or more")
    program = _Program(workload, system, network, congested=congested)
    program.write(passes)
    operations = allocate(len(program.operations), t.OPERATION)
    columns = np.array(program.operations, np.int64)
    for column, name in enumerate(("kind", "slot", "time_ps")):
        operations[name] = columns[:, column]
    operations.begun_ps = operations.ended_ps = -1
    collectives = allocate(len(program.collectives), t.COLLECTIVE)
    if program.collectives:
        columns = np.array(program.collectives, np.int64)
        names = ("slot", "first_chunk", "chunks", "first_stream", "priority", "update_ps", "operation")
        for column, name in enumerate(names):
            collectives[name] = columns[:, column]
    chunks, phases, sent, planned = program.planner.tables()
    longest = 0.0 + sum(time for _, _, time in program.operations)
    for _, first, count, _, _, update, _ in program.collectives:
        begin = int(chunks[first].first_phase)
        last = chunks[first + count - 1]
        longest += update + float(phases.duration_ps[begin : int(last.first_phase + last.phases)].sum())
    if longest > _MOST_PS:
        what = "the run takes over 50 days of simulated time"
        raise InputError(what, where=workload.where, hint="take fewer passes or smaller times and sizes")
    streams = allocate(program.streams, t.STREAM)
    streams.before = streams.next = streams.phase = -1
    queues = allocate(len(program.levels.units) * system.queues, t.QUEUE)
    queues.head = -1
    clock = allocate(1, t.CLOCK)
    clock.within, clock.by_queue = WITHIN[system.within], system.boost
    clock.concurrent = -(-system.active_chunks // system.queues)
    clock.queues, clock.computing = system.queues, -1
    events = allocate(1 + len(collectives) + len(streams), t.EVENT)
    # The program begins with an event of its own, at 0.
    events[0].rank, events[0].heap = t.AT_ONCE, t.RESUME
    clock.heaped = clock.puts = 1
    machine = t.Machine(
        clock, operations, allocate(3 * len(workload.layers), t.SLOT), collectives, chunks, phases,
        streams, queues, events, allocate(passes, t.PASS_END), **notes(0, record=False),
    )  # fmt: skip
    return Built(machine, sent, planned, program.levels)
