"""A run of ASTRA-sim 1.0's layer tables: its tables, counts and times; one rank represents all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from astranb.engine.edits import Edit
from astranb.engine.operations import EVERY, OperationEngine, recent
from astranb.engine.protocol import Traits

from . import tables as t
from .about import about_of
from .paths import LayerPart, resolve
from .run import LayerRun, condition_tables

__all__ = ["LayerState"]

UNITS = {"event": "events", "cycle": "turns", "operation": "ended", "phase": "phases", "pass": "passes"}
"""The units of steps, and what counts them."""


class LayerState(OperationEngine):
    """The state of a run of layer tables, which the functions of this engine read.

    Parameters
    ----------
    run : LayerRun
    title : str
        What runs.
    base_ps : ndarray, optional
        Times of the program before any edit: as they are now unless given.
    edits : sequence of Edit
        The changes so far.
    """

    traits: ClassVar[Traits] = OperationEngine.traits._replace(units=UNITS)
    tracks: ClassVar[Sequence[str]] = ("compute", "communication", "waiting")
    not_kept: ClassVar[Sequence[str]] = (*t.FIXED, "points", "passed")
    not_simulated: ClassVar[Sequence[str]] = t.RECORDS
    ranks: ClassVar[int] = 1
    run: LayerRun

    def __init__(
        self, run: LayerRun, title: str = "workload", base_ps: Any = None, edits: Sequence[Edit] = ()
    ) -> None:
        self.run, self.title = run, title
        self.about, self.program = about_of(run)
        self.base_ps = np.array(run.machine.operations.time_ps) if base_ps is None else base_ps
        self.edits = list(edits)
        self.fidelity = "congestion" if run.inputs.congestion else "analytical"

    @property
    def owners(self) -> Sequence[Any]:
        """The tables that conditions may name."""
        return condition_tables(self.machine)

    @property
    def stands_for(self) -> int:
        """All ranks of the network."""
        return self.run.inputs.network.npus

    @property
    def places(self) -> Sequence[str]:
        """The layers."""
        return [f"layer[{layer.name}]" for layer in self.run.inputs.table.layers]

    def config(self) -> dict[str, int]:
        """Numbers that the run was made with."""
        clock = self.machine.clock[0]
        return {
            "passes": len(self.machine.pass_ends),
            "chunks at once": int(clock.concurrent),
            "queues": int(clock.queues),
        }

    @property
    def longest_ps(self) -> int:
        """Time of the program's computations."""
        rows = self.machine.operations
        return int(rows.time_ps[rows.kind == t.COMPUTE].sum())

    @property
    def now_ps(self) -> int:
        """The time of the last event, or the later time that questions are about."""
        return max(self.run.now_ps, self.as_of_ps)

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        return self.run.next_ps

    def count(self, name: str) -> int:
        """Events, timesteps, operations, phases of chunks, passes, or the time."""
        return int(self.machine.clock[0][name])

    @property
    def counts(self) -> Mapping[str, int]:
        """One rank, and the number of layers and dimensions."""
        return {"rank": 1, "layer": len(self.run.inputs.table.layers), "dim": len(self.about.topology)}

    def find(self, name: str) -> LayerPart:
        """Find the object that a name with the number of its rank stands for."""
        return resolve(name, self.run, self.about)

    def resolve_all(self, path: str) -> Sequence[LayerPart]:
        """Find every object that a name stands for; a layer's name alone may have any characters."""
        name = path.strip()
        if any(layer.name == name for layer in self.run.inputs.table.layers):
            return [self.find(name)]
        return super().resolve_all(path)

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Do nothing: no table ever grows."""

    def times_ps(self, rows: slice = EVERY) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end of all operations or of some rows; -1: not yet."""
        every: Any = self.machine.operations
        at = self.program.at[rows]
        return np.asarray(every.begun_ps)[at], np.asarray(every.ended_ps)[at]

    def progress(self, row: int) -> tuple[int, int]:
        """Return the number of chunks of an operation that are done, and of all."""
        if self.about.kind[row] == 0:
            return 0, 0
        c = self.machine.collectives[int(self.machine.operations.slot[int(self.program.at[row])])]
        return int(c.over), int(c.chunks)

    def ends_ps(self) -> np.ndarray:
        """Return the completion time of the run; -1: not yet."""
        clock = self.machine.clock[0]
        return np.array([int(clock.end_ps) if clock.ending == 2 else -1], np.int64)

    def computed_ps(self) -> np.ndarray:
        """Return the summed computation time."""
        m, row = self.machine, int(self.machine.clock[0].computing)
        left = int(m.operations.begun_ps[row] + m.operations.time_ps[row]) - self.now_ps if row >= 0 else 0
        return np.array([int(m.clock[0].compute_ps) - left], np.int64)

    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as far as they are kept."""
        m, rows = self.machine, recent(self.machine)
        phase = np.asarray(rows.phase)
        return {
            "npu": np.zeros(len(rows), np.int64),
            "operation": self.program.of[np.asarray(rows.operation)],
            "chunk": np.asarray(rows.chunk),
            "phase": np.asarray(rows.nth),
            "dim": np.asarray(m.phases.queue)[phase] // int(m.clock[0].queues),
            "algorithm": self.run.built.planned["algorithm"][phase],
            **{name: np.asarray(rows[name]) for name in ("queued_ps", "begun_ps", "end_ps")},
        }

    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""
        m = self.machine
        rows: Any = m.streams[np.flatnonzero(m.streams.running == 1)]
        operation = self.program.of[np.asarray(m.collectives.operation)[rows.collective]]
        dim = np.asarray(m.phases.queue)[rows.phase] // int(m.clock[0].queues)
        return [np.zeros(len(rows), np.int64), dim, operation, np.asarray(rows.started_ps)]
