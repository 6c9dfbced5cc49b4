"""A workload by cache lines: every collective and message as loads and stores, all on one machine.

The operations are those of :mod:`astranb.workload.astrasim2`. Computations and collectives that are under
way at once share SMs, L2, HBM and links. A computation with known kernels is their thread blocks, as is
one of which operations and bytes are known where the roofline would time it (``kernel_of``); one of which
only the duration is known takes as much longer as thread blocks of others hold SMs. Of the operations
of a rank, one computation, one operation of the CPU and one collective or message of each stream is under
way at a time, in the order of their ids as their dependencies allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from astranb.collectives import Joined, Lowered, Section, join, lower
from astranb.core.errors import InputError
from astranb.core.timesteps import NEVER
from astranb.core.units import format_bytes
from astranb.gpu import Preset
from astranb.gpu import tables as t
from astranb.net import Shape
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    SEND,
    Memory,
    Operations,
    PlacedJob,
    System,
    Workload,
    at_speed,
    durations_ns,
)
from astranb.workload.kernels import (
    Attention,
    Grid,
    KernelTimes,
    Launch,
    Product,
    ShapedKernel,
    Stream,
    grids,
    kernel_of,
)

from .calls import Calls
from .kernels import lower_grid

__all__ = ["Graph"]


@dataclass(frozen=True)
class Graph:
    """Work of all ranks, to be simulated by cache lines: pass it to a ``Simulation``.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    system : System
        Algorithms (the first dimension's), whether durations are replayed, the roofline.
    groups : mapping of int to sequence of int
        Ranks of each numbered group.
    memory : Memory
        Remote memory: its latency and bandwidth; no rank waits for another.
    title : str
        What it is called.
    durations : ndarray of int64, optional
        Nanoseconds of each operation, on all ranks the same; those of the operations unless given.
    jobs : tuple of PlacedJob
        The jobs that it consists of, where there are several.

    Raises
    ------
    InputError
        Ranks do not match: one sends what no rank receives, or collectives differ.

    Examples
    --------
    >>> from astranb import astrasim2
    >>> step = Operations.of(
    ...     [{"kind": COMPUTE, "duration_ns": 5000}, {"kind": COLLECTIVE, "bytes": 1 << 16}], [[], [0]]
    ... )
    >>> ring = astrasim2.System.from_document(
    ...     {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 1}
    ... )
    >>> Graph([step] * 4, ring).size
    65536
    """

    subject: ClassVar = "graph"
    unchecked: ClassVar = False

    operations: Sequence[Operations]
    system: System
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    title: str = "workload"
    durations: np.ndarray | None = None
    jobs: tuple[PlacedJob, ...] = ()
    name = "workload"
    algorithm_name = ""
    root = 0
    channels = None
    protocol = "Simple"

    @classmethod
    def of(cls, workload: Workload, title: str = "workload", durations: np.ndarray | None = None) -> Graph:
        """Take a workload without its network, which the infrastructure replaces.

        Parameters
        ----------
        workload : Workload
        title : str
        durations : ndarray of int64, optional
            As for the class.
        """
        w = workload
        return cls(w.operations, w.system, w.groups, w.memory, title, durations, w.jobs)

    def compute_ps(self) -> np.ndarray:
        """Return what each rank's computations on its GPU take, summed."""
        known: dict[tuple[int, Fraction], int] = {}
        keys = [(id(one), self._speed(rank)) for rank, one in enumerate(self.operations)]
        for rank, one in enumerate(self.operations):
            if keys[rank] not in known:
                known[keys[rank]] = 1000 * int(self.took_ns(one, rank)[_computes(one)].sum())
        return np.array([known[key] for key in keys], np.int64)

    def took_ns(self, one: Operations, rank: int) -> np.ndarray:
        """Return what each of a rank's operations takes at its speed; 0 for what the machine decides on."""
        took = durations_ns(one.rows, self.system, self.memory) if self.durations is None else self.durations
        speed = self._speed(rank)
        if speed == 1:
            return took
        return np.where(one.rows["kind"] == COMPUTE, at_speed(took, speed), took)

    def _speed(self, rank: int) -> Fraction:
        return self.system.speeds.get(rank, Fraction(1))

    def __post_init__(self) -> None:
        """Check that inputs match and do not take too long, before a machine is built."""
        _ = self._calls
        for rank, one in enumerate(self.operations):
            if float(self.took_ns(one, rank)[_computes(one)].sum(dtype=float)) >= NEVER:
                what = f"the computations of rank {rank} take more than 26 days of simulated time"
                raise InputError(what, where=self.title, hint="use smaller times")

    @cached_property
    def size(self) -> int:
        """Bytes that the collectives and messages of a rank move, of the one with most."""
        moved = [
            int(one.rows["bytes"][np.isin(one.rows["kind"], (COLLECTIVE, SEND))].sum())
            for one in self.operations
        ]
        return max(moved, default=0)

    @cached_property
    def _calls(self) -> Calls:
        jobs = {rank: job.name for job in self.jobs for rank in job.ranks}
        return Calls(self.operations, self.groups, self.took_ns, self.title, jobs)

    def lowered(
        self,
        shape: Shape,
        presets: Sequence[Preset],
        *,
        compute_lines: int = 1,
        launch_ps: Sequence[int] = (),
    ) -> Joined:
        """Return the tables that the machine runs.

        Parameters
        ----------
        shape : Shape
            How the ranks are joined.
        presets : sequence of Preset
            The GPU of each rank.
        compute_lines : int
            Lines of compute kernels that travel as one request.
        launch_ps : sequence of int, optional
            What each rank takes to launch the kernel of a collective or message, in ps: from the end
            of what it waits for to its first instruction.

        Returns
        -------
        Joined
        """
        first = presets[0]
        known: dict[tuple[object, ...], Lowered] = {}
        parts = []
        for call in self._calls.parts:
            joined = shape.among(call.ranks)
            key = (call.name, call.size, len(call.ranks), joined, call.root)
            if key not in known:
                known[key] = lower(
                    call.program(self.system, joined),
                    kind=call.name,
                    size=call.size,
                    line_bytes=first.line_bytes,
                    bulk_lines=first.bulk_lines,
                    engine_lines=first.engine_lines,
                    nic_lines=first.nic_lines,
                    nic_post_ps=first.nic_post_ps,
                )
            kind = "" if call.name == "send_recv" else call.name
            parts.append(Section(known[key], call.ranks, call.title, kind, call.root))
        kernels = _Kernels(self, presets, compute_lines, len(parts))
        nodes = self._calls.nodes(launch_ps or [0] * len(self.operations), kernels)
        return join(self.title, len(self.operations), nodes, [*parts, *kernels.parts], first.line_bytes)


class _Kernels:
    """The programs of computations, as the graph asks for them; equal kernels are lowered once."""

    def __init__(self, graph: Graph, presets: Sequence[Preset], compute_lines: int, before: int) -> None:
        self.parts: list[Section] = []
        self._graph, self._presets, self._lines, self._before = graph, presets, compute_lines, before
        self._lowered: dict[tuple[Grid, int], tuple[Lowered, int]] = {}
        self._grids: dict[tuple[Product | Attention | Stream, str, str], tuple[Grid, ...]] = {}

    def of(self, rank: int, row: int, took_ps: int) -> list[tuple[int, int]]:
        """Return a computation's kernels: what the launch of each takes, and the number of its program."""
        one, preset = self._graph.operations[rank], self._presets[rank]
        name = (one.names and one.names[row]) or f"compute {row}"
        if self._graph.durations is not None:
            found: tuple[Grid, ...] = ()
        elif one.grids:
            found = one.grids[row]
        elif isinstance(launched := one.kernels.get(row), Launch):
            found = (launched.grid("recorded kernel", took_ps, preset),)
        else:
            found = self._modelled(rank, row, name)
        return [(grid.launch_ps, self._part(rank, grid, preset, name)) for grid in found]

    def _modelled(self, rank: int, row: int, name: str) -> tuple[Grid, ...]:
        """Return the kernel of a computation that a roofline would time, if the GPU's rates are known.

        It is a product or attention of the shapes that the trace recorded, or one of as many operations
        and bytes.
        """
        system, preset = self._graph.system, self._presets[rank]
        one = self._graph.operations[rank]
        fields, shaped = one.rows[row], one.kernels.get(row)
        timed = system.replay or not system.roofline or fields["flops"] < 0
        if timed or rank in system.speeds or preset.kernels is None or fields["bytes"] <= 0:
            return ()
        kernel: Product | Attention | Stream
        where = f"{self._graph.title}: {name}"
        if isinstance(shaped, ShapedKernel):
            kernel, precision = shaped.kernel, shaped.precision
            if shaped.touched > preset.memory_bytes:
                sizes = format_bytes(shaped.touched), format_bytes(preset.memory_bytes)
                what = f"operands of {sizes[0]}, the memory of a {preset.name} is {sizes[1]}"
                raise InputError(what, where=where, hint="correct the shapes in the trace")
        else:
            kernel, precision = kernel_of(int(fields["flops"]), int(fields["bytes"])), "bf16"
        key = kernel, precision, preset.name
        if key not in self._grids:
            try:
                times = KernelTimes(preset.kernels, precision, sustained=1.0)
            except InputError as error:
                hint = f"{error.hint}; or set roofline-enabled to 0"
                raise InputError(error.what, where=where, hint=hint) from None
            self._grids[key] = grids(kernel, times, preset)
        return self._grids[key]

    def _part(self, rank: int, grid: Grid, preset: Preset, name: str) -> int:
        key = grid, preset.line_bytes
        if key not in self._lowered:
            program = lower_grid(grid, line_bytes=preset.line_bytes, burst_lines=self._lines)
            stored = program.slices["line"][program.slices["writer"] == t.UNWRITTEN]
            self._lowered[key] = program, int(stored.min(initial=program.lines[0]))
        program, hands_on = self._lowered[key]
        self.parts.append(Section(program, (rank,), name, hands_on=hands_on))
        return self._before + len(self.parts) - 1


def _computes(one: Operations) -> np.ndarray:
    """Return a mask of the operations that are computations on the GPU."""
    return np.asarray((one.rows["kind"] == COMPUTE) & (one.rows["on_cpu"] == 0))
