"""A run as operations with dependencies, to be simulated by cache lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import _tables as t
from ._depend import dependencies, slots_of
from ._run import Run

if TYPE_CHECKING:
    from astranb.workload.astrasim2 import Workload

__all__ = ["lines_of"]

_NUMBERS: Final = {
    "ALLREDUCE": t.ALL_REDUCE, "REDUCESCATTER": t.REDUCE_SCATTER, "ALLGATHER": t.ALL_GATHER,
    "ALLTOALL": t.ALL_TO_ALL,
}  # fmt: skip


def lines_of(run: Run) -> tuple[Workload, np.ndarray]:
    """Give a workload for :class:`astranb.engine.cacheline.workload.Graph`, and durations of operations.

    The update of weights after a collective is an operation of the CPU. A collective is among the
    ranks that share a dimension that it uses; which chunk goes when is left to the machine.

    Returns
    -------
    workload : Workload
        Of every rank the same operations, with groups of its own.
    durations_ns : ndarray of int64
    """
    from astranb.workload import astrasim2 as other

    m, layers = run.machine, run.workload.layers
    at, slot = slots_of(m)
    _, first, parents = dependencies(m, at, slot)
    rows: list[dict[str, Any]] = []
    deps: list[list[int]] = []
    took: list[int] = []
    masks: dict[int, int] = {}  # the collective's dimensions, by row
    last_of: list[int] = []  # what stands for each operation: a collective's update
    for number, place in enumerate(at.tolist()):
        waits = [last_of[int(parent)] for parent in parents[first[number] : first[number + 1]]]
        program = m.operations[place]
        deps.append(waits)
        if program.kind == t.COMPUTE:
            rows.append({"kind": other.COMPUTE})
            took.append(int(program.time_ps) // 1000)
        else:
            layer, part = divmod(int(slot[number]), 3)
            said = (layers[layer].forward, layers[layer].input_gradient, layers[layer].weight_gradient)[part]
            kind = _NUMBERS[said.collective]
            masks[len(rows)] = _dimensions(run, int(program.slot))
            rows.append({"kind": other.COLLECTIVE, "collective": kind, "bytes": said.size})
            took.append(0)
            if layers[layer].update_ns:
                deps.append([len(rows) - 1])
                rows.append({"kind": other.COMPUTE, "on_cpu": 1})
                took.append(layers[layer].update_ns)
        last_of.append(len(rows) - 1)
    groups: dict[tuple[int, ...], int] = {}
    operations = []
    known: dict[tuple[int, ...], Any] = {}
    for rank in range(run.network.npus):
        mine = {row: _group(run, mask, rank, groups) for row, mask in masks.items()}
        key = tuple(mine.values())
        if key not in known:
            listed = [{**row, "group": mine.get(number, -1)} for number, row in enumerate(rows)]
            known[key] = other.Operations.of(listed, deps)
        operations.append(known[key])
    network = other.Network(
        list(run.network.topologies),
        list(run.network.units),
        [run.network.link_bandwidth(dim) for dim in range(len(run.network.units))],
        list(run.network.latency_ns),
    )
    words = {f"{name}-implementation": [each[0].name] for name, each in run.system.algorithms.items() if each}
    system = other.System.from_document(words, run.system.where)
    numbered = {number: ranks for ranks, number in groups.items()}
    return other.Workload(operations, network, system, groups=numbered), np.array(took, np.int64)


def _dimensions(run: Run, collective: int) -> int:
    """A bit for each dimension, as the system layer sees them, that a collective uses."""
    m = run.machine
    chunk = m.chunks[int(m.collectives.first_chunk[collective])]
    begin = int(chunk.first_phase)
    end = begin + int(chunk.phases)
    if int(run.planned["nodes"][begin]) == run.network.npus:
        return (1 << len(run.levels.units)) - 1
    dims = np.asarray(m.phases.queue[begin:end]) // int(m.clock[0].queues)
    return sum(1 << dim for dim in set(dims.tolist()))


def _group(run: Run, mask: int, rank: int, groups: dict[tuple[int, ...], int]) -> int:
    """The number of a rank's group: those that differ from it in the dimensions of a mask only."""
    ranks, stride = [0], 1
    base = rank
    for dim, units in enumerate(run.levels.units):
        if mask >> dim & 1:
            base -= rank // stride % units * stride
            ranks = [one + place * stride for place in range(units) for one in ranks]
        stride *= units
    if len(ranks) == run.network.npus:
        return -1
    return groups.setdefault(tuple(base + one for one in ranks), len(groups))
