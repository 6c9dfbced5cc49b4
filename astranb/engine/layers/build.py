"""The tables of a run, made from its training loop, layers, system and network."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import allocate
from astranb.workload.astrasim1 import (
    WITHIN,
    Action,
    Layers,
    LayerWorkload,
    Levels,
    Loop,
    Step,
    involved,
    levels_of,
    loop_named,
)

from . import tables as t
from .chunks import Planner
from .recording import recording_tables

__all__ = ["Built", "ProgramBuilder", "build", "check_length"]

_HIGHEST: Final = 100_000_000
_MOST_OPERATIONS: Final = 5_000_000
_MOST_STREAMS: Final = 4_000_000
_MOST_PS: Final = 1 << 62


class Built(NamedTuple):
    """The tables of a run, and how its phases were planned.

    Parameters
    ----------
    machine : Machine
    sent : ndarray of int64
        Bytes that NPU 0 sends in each phase into each dimension of the network.
    planned : ndarray
        How each phase is carried out: :data:`.chunks.PLANNED`.
    levels : Levels
    """

    machine: t.LayerMachine
    sent: np.ndarray
    planned: np.ndarray
    levels: Levels


class ProgramBuilder:
    """The operations and collectives of all passes.

    Parameters
    ----------
    inputs : LayerWorkload
    loop : Loop, optional
        The training loop; the one that the table names where not given.

    Attributes
    ----------
    masks : list of (int, int, int)
        Dimensions that the three parts of each layer use, as bit masks.
    """

    def __init__(self, inputs: LayerWorkload, loop: Loop | None = None) -> None:
        table = self._table = inputs.table
        self._system = inputs.system
        self.loop = loop or loop_named(table.loop, table.where)
        self.levels = levels_of(inputs.network, table.group, table.where)
        self.planner = Planner(inputs, self.levels)
        self._step_ps = self.loop.step_ns * 1000 if inputs.network.compat else 0
        self.masks = [self._involved(number) for number in range(len(table.layers))]
        self._priority = 0
        self.operations: list[tuple[int, int, int]] = []
        self.collectives: list[tuple[int, ...]] = []
        self.streams = 0

    def _involved(self, number: int) -> tuple[int, int, int]:
        policy = self._table.layers[number].policy or self.loop.dimensions
        if self.loop.dimensions == "HYBRID_DLRM" and number == 0:
            policy = "ALL"
        return involved(policy, self.levels, self._table.where)

    def steps(self) -> list[tuple[Action, ...]]:
        """Call the loop once and return the steps of a pass."""
        name, where = self.loop.name, self._table.where
        result = []
        yielded: Step
        for yielded in self.loop.function(Layers.of(self._table)):
            step = (yielded,) if isinstance(yielded, Action) else tuple(yielded)
            for action in step:
                if not isinstance(action, Action):
                    raise InputError(
                        f"{name} yields {str(action)[:40]!r}, which is not an action",
                        where=where,
                        hint="yield actions such as layer.forward.compute(), or tuples of them",
                    )
            result.append(step)
            if len(result) > _MOST_OPERATIONS:
                raise InputError(f"{name} does not end", where=where, hint="yield the steps of one pass")
        return result

    def add_passes(self, passes: int) -> None:
        """Append the operations of all passes."""
        steps = self.steps()
        length = sum(1 + len(step) for step in steps) * passes
        if length > _MOST_OPERATIONS:
            raise InputError(f"{length} operations", where="--num-passes", hint="use fewer passes")
        for _ in range(passes):
            for number, step in enumerate(steps):
                for action in step:
                    self._add(action)
                if number == len(steps) - 1:
                    self.operations.append((t.PASS, 0, 0))
                self.operations.append((t.STEP, 0, self._step_ps))
                if self._step_ps:
                    self.planner.advance_time()
        self.operations.append((t.END, 2, 0))

    def _add(self, action: Action) -> None:
        layer = self._table.layers[action.layer]
        part = layer.parts[action.part]
        slot = action.layer * 3 + action.part
        if action.verb == "compute":
            self.operations.append((t.COMPUTE, slot, part.compute_ns * 1000))
            if part.compute_ns:
                self.planner.advance_time()
        elif action.verb == "wait":
            self.operations.append((t.WAIT, slot, 0))
            if part.collective != "NONE":
                self.planner.advance_time()
        elif part.collective != "NONE":
            priority = _HIGHEST
            if not action.first:
                priority = self._priority
                self._priority += 1 if self._system.lifo else -1
            first, count = self.planner.plan(part, self.masks[action.layer][action.part])
            if count:
                row = (slot, first, count, self.streams, priority, layer.update_ns * 1000)
                self.collectives.append((*row, len(self.operations)))
                self.operations.append((t.ISSUE, len(self.collectives) - 1, 0))
                self.streams += count
                if self.streams > _MOST_STREAMS:
                    what = f"more than {_MOST_STREAMS} chunks"
                    hint = "use fewer passes or preferred-dataset-splits"
                    raise InputError(what, where=self._system.where, hint=hint)


def check_length(longest_ps: float, where: str) -> None:
    """Check that the times of a run fit into a count of picoseconds.

    Parameters
    ----------
    longest_ps : float
        The sum of what it does one after another.
    where : str
        The table.
    """
    if longest_ps > _MOST_PS:
        what = "the run takes over 50 days of simulated time"
        raise InputError(what, where=where, hint="use fewer passes, or smaller times and sizes")


def build(inputs: LayerWorkload, loop: Loop | None = None) -> Built:
    """Make the tables; the parameters are those of :class:`ProgramBuilder`.

    Raises
    ------
    InputError
        The inputs do not fit together, or the run is too large.
    """
    program = ProgramBuilder(inputs, loop)
    program.add_passes(inputs.passes)
    check_length(sum(time for _, _, time in program.operations), inputs.table.where)
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
    check_length(longest, inputs.table.where)
    system = inputs.system
    streams = allocate(program.streams, t.STREAM)
    streams.before = streams.next = streams.phase = -1
    queues = allocate(len(program.levels.units) * system.queues, t.QUEUE)
    queues.head = -1
    clock = allocate(1, t.CLOCK)
    clock.within, clock.by_queue = WITHIN[system.within], system.boost
    clock.concurrent = -(-system.active_chunks // system.queues)
    clock.queues, clock.computing = system.queues, -1
    events = allocate(1 + len(collectives) + len(streams), t.EVENT)
    # The program begins with an event at time 0.
    events[0].rank, events[0].heap = t.NO_DELAY, t.RESUME
    clock.heaped = clock.puts = 1
    machine = t.LayerMachine(
        clock, operations, allocate(3 * len(inputs.table.layers), t.SLOT), collectives, chunks, phases,
        streams, queues, events, allocate(inputs.passes, t.PASS_END), **recording_tables(0, record=False),
    )  # fmt: skip
    return Built(machine, sent, planned, program.levels)
