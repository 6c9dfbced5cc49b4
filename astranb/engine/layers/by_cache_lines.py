"""Operations with dependencies made from a layer table, for the cache-line engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.workload.astrasim1 import LayerWorkload

from . import tables as t
from .build import Built, build
from .chunks import COLLECTIVES
from .dependencies import dependencies, slots_of

if TYPE_CHECKING:
    from astranb.workload.astrasim2 import Workload

__all__ = ["cacheline_inputs"]


def cacheline_inputs(inputs: LayerWorkload) -> tuple[Workload, np.ndarray]:
    """Return the inputs and durations that :class:`astranb.engine.cacheline.workload.Graph` takes.

    The update of weights after a collective is a CPU operation. A collective runs among the ranks
    that differ only in the dimensions that it uses; the machine schedules its chunks.

    Returns
    -------
    workload : Workload
        The operations are the same on every rank, except for the groups of collectives.
    durations_ns : ndarray of int64
        Of each operation.
    """
    from astranb.workload import astrasim2 as other

    built = build(inputs)
    m, layers = built.machine, inputs.table.layers
    npus = inputs.network.npus
    at, slot = slots_of(m)
    _, first, parents = dependencies(m, at, slot)
    rows: list[dict[str, Any]] = []
    deps: list[list[int]] = []
    took: list[int] = []
    masks: dict[int, int] = {}  # dimensions of the collectives, by row
    last_of: list[int] = []  # last row of each operation: of a collective its update
    for number, place in enumerate(at.tolist()):
        waits = [last_of[int(parent)] for parent in parents[first[number] : first[number + 1]]]
        program = m.operations[place]
        deps.append(waits)
        if program.kind == t.COMPUTE:
            rows.append({"kind": other.COMPUTE})
            took.append(int(program.time_ps) // 1000)
        else:
            layer, part = divmod(int(slot[number]), 3)
            wanted = layers[layer].parts[part]
            kind = COLLECTIVES[wanted.collective][0]
            masks[len(rows)] = _dimensions(built, npus, int(program.slot))
            rows.append({"kind": other.COLLECTIVE, "collective": kind, "bytes": wanted.size})
            took.append(0)
            if layers[layer].update_ns:
                deps.append([len(rows) - 1])
                rows.append({"kind": other.COMPUTE, "on_cpu": 1})
                took.append(layers[layer].update_ns)
        last_of.append(len(rows) - 1)
    groups: dict[tuple[int, ...], int] = {}
    operations = []
    known: dict[tuple[int, ...], Any] = {}
    for rank in range(npus):
        mine = {row: _group(built.levels.units, mask, rank, groups) for row, mask in masks.items()}
        key = tuple(mine.values())
        if key not in known:
            listed = [{**row, "group": mine.get(number, -1)} for number, row in enumerate(rows)]
            known[key] = other.Operations.of(listed, deps)
        operations.append(known[key])
    network = other.DimensionNetwork(
        list(inputs.network.topologies),
        list(inputs.network.units),
        [inputs.network.link_bandwidth(dim) for dim in range(len(inputs.network.units))],
        list(inputs.network.latency_ns),
    )
    algorithms = {
        f"{name}-implementation": [each[0].name] for name, each in inputs.system.algorithms.items() if each
    }
    system = other.System.from_document(algorithms, inputs.system.where)
    numbered = {number: ranks for ranks, number in groups.items()}
    workload = other.Workload(
        operations, network, system, groups=numbered, compat=inputs.network.compat, title=inputs.title
    )
    return workload, np.array(took, np.int64)


def _dimensions(built: Built, npus: int, collective: int) -> int:
    """Return the system layer's dimensions that a collective uses, as a bit mask."""
    m = built.machine
    chunk = m.chunks[int(m.collectives.first_chunk[collective])]
    begin = int(chunk.first_phase)
    end = begin + int(chunk.phases)
    if int(built.planned["nodes"][begin]) == npus:
        return (1 << len(built.levels.units)) - 1
    dims = np.asarray(m.phases.queue[begin:end]) // int(m.clock[0].queues)
    return sum(1 << dim for dim in set(dims.tolist()))


def _group(units: Sequence[int], mask: int, rank: int, groups: dict[tuple[int, ...], int]) -> int:
    """Return the number of a rank's group: the ranks that differ only in the dimensions of a mask."""
    ranks, stride = [0], 1
    base = rank
    for dim, count in enumerate(units):
        if mask >> dim & 1:
            base -= rank // stride % count * stride
            ranks = [one + place * stride for place in range(count) for one in ranks]
        stride *= count
    if len(ranks) == math.prod(units):
        return -1
    return groups.setdefault(tuple(base + one for one in ranks), len(groups))
