"""What may stand in the tables and in the description of a workload that a saved run by cache lines holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from astranb.core.rules import COUNT, FLAG, Rule, Rules, between, check_fields, each, maybe, require, row
from astranb.gpu.tables import ROOM
from astranb.workload.astrasim2 import Memory, Operations, System
from astranb.workload.astrasim2.kinds import (
    COLLECTIVE,
    COLLECTIVES,
    COMPUTE,
    DELAY,
    INTER,
    INTRA,
    NONE,
    RECV,
    ROOTED,
    SEND,
)
from astranb.workload.astrasim2.memory import KINDS, POOL_TOPOLOGIES
from astranb.workload.astrasim2.operations import COLUMN, MOST_BYTES
from astranb.workload.kernels import Attention, Grid, Launch, Product, ShapedKernel

__all__ = ["DTYPES", "RULES", "check_tables", "check_workload", "grids_of", "kernels_of"]

_WHOLE: Final = np.dtype("i8")
DTYPES: Final = {
    "rows": COLUMN, "dep_start": _WHOLE, "deps": _WHOLE, "names": _WHOLE, "durations": _WHOLE,
    "words": _WHOLE,
}  # fmt: skip
"""The types of the tables of operations; ``words`` numbers the distinct names, which the inputs hold."""

_INT64: Final = between(-(1 << 63), (1 << 63) - 1)
_MOST: Final = 1 << 40
"""More chunks, queues, NPUs or nanoseconds of delay than any run has."""
RULES: Final[Rules] = {
    "rows": {
        "kind": between(COMPUTE, DELAY), "on_cpu": FLAG, "bytes": Rule(-(1 << 63), MOST_BYTES),
        **each(_INT64, "duration_ns", "flops", "peer", "tag", "involved", "priority"),
        "stream": between(0, 1),
        "collective": between(NONE, COLLECTIVES - 1), "group": Rule(-1, (1 << 63) - 1),
    },
    "dep_start": {"": Rule(0, table="deps", beyond=1)},
    "deps": {"": row("rows")},
    "names": {"": maybe("words")},
    "durations": {"": between(0, (1 << 62) - 1)},
    "words": {"": COUNT},
}  # fmt: skip


def check_tables(tables: Mapping[str, Any]) -> None:
    """Refuse tables of operations that do not fit together.

    Parameters
    ----------
    tables : mapping of str to ndarray
        Those of :data:`DTYPES`; ``names``, ``durations`` and ``words`` may be missing.

    Raises
    ------
    TypeError
        A table is of another type.
    InputError
        It names the table, field and row.
    """
    for name, table in tables.items():
        if table.dtype != DTYPES[name] or table.ndim != 1:
            raise TypeError(f"the table of {name} does not fit")
    check_fields(tables, {name: RULES[name] for name in tables})
    count = len(tables["rows"])
    require(len(tables["dep_start"]) == count + 1, "the length of dep_start")
    require(tables["dep_start"][0] == 0 and tables["dep_start"][-1] == len(tables["deps"]), "dep_start")
    require(np.diff(tables["dep_start"]) >= 0, "dep_start")
    for name in ("names", "durations"):
        require(len(tables.get(name, tables["rows"])) == count, f"the length of {name}")
    rows = tables["rows"]
    collectives = rows["kind"] == COLLECTIVE
    require((rows["collective"] > NONE) | ~collectives, "rows.collective")
    require((rows["bytes"] >= 0) | ~np.isin(rows["kind"], (COLLECTIVE, SEND, RECV)), "rows.bytes")


def check_workload(
    operations: list[Operations], system: System, groups: Mapping[int, Any], memory: Memory, title: Any
) -> None:
    """Refuse a workload whose parts are of another type, or out of range.

    Parameters
    ----------
    operations : list of Operations
        One for each rank.
    system : System
    groups : mapping of int to list of int
    memory : Memory
    title : str

    Raises
    ------
    InputError
        It names the part.
    """
    ranks = len(operations)
    require(isinstance(title, str), "title")
    for number, members in groups.items():
        require(number >= 0 and isinstance(members, list) and len(members) > 0, "groups")
        require(all(_whole(one, 0, ranks - 1) for one in members), "groups")
        require(len(set(members)) == len(members), "groups")
    for one in {id(one): one for one in operations}.values():
        for each_one in (one, *one.custom.values()):
            rows = each_one.rows
            grouped = rows["group"][(rows["kind"] == COLLECTIVE) & (rows["group"] >= 0)]
            require(np.isin(grouped, np.array(list(groups), np.int64)), "rows.group")
            some = rows["peer"][np.isin(rows["kind"], (SEND, RECV))]
            require((some >= 0) & (some < ranks), "rows.peer")
        require(
            all(0 <= at < len(one.rows) and one.rows["kind"][at] == COLLECTIVE for at in one.custom),
            "custom",
        )
    _check_system(system)
    _check_memory(memory)


def _check_system(system: System) -> None:
    """Refuse a description of the system layer with a wrong type or an unknown name."""
    for name in ("splits", "active_chunks", "queues"):
        require(_whole(getattr(system, name), 1, _MOST), f"system.{name}")
    for name in ("endpoint_ns", "bus_reduce_ns", "switch_ns"):
        require(_whole(getattr(system, name), -_MOST, _MOST), f"system.{name}")
    for name in ("memory_Bps", "peak_flops"):
        require(_number(getattr(system, name)), f"system.{name}")
    for name in ("roofline", "baseline", "rendezvous", "replay"):
        require(type(getattr(system, name)) is bool, f"system.{name}")
    require(_whole(system.policy, -1, 1), "system.policy")
    require(isinstance(system.inter, str) and system.inter in INTER, "system.inter")
    require(isinstance(system.intra, str) and system.intra in INTRA, "system.intra")
    require(isinstance(system.where, str), "system.where")
    require(system.bus is None or (len(system.bus) == 4 and all(map(_number, system.bus))), "system.bus")
    for collective, chosen in system.algorithms.items():
        require(0 <= collective < COLLECTIVES, "system.algorithms")
        for one in chosen:
            fine = _whole(one.number, 0, ROOTED) and _whole(one.window, -1, _MOST) and type(one.whole) is bool
            require(fine, "system.algorithms")
    require(all(speed > 0 for speed in system.speeds.values()), "system.speeds")


def _check_memory(memory: Memory) -> None:
    """Refuse a remote memory with a wrong type, or without bandwidth."""
    require(isinstance(memory.kind, str) and memory.kind in KINDS, "memory.kind")
    require((memory.kind == KINDS[-1]) == (memory.pool is not None), "memory.pool")
    require(_whole(memory.latency_ns, -(1 << 62), 1 << 62), "memory.latency_ns")
    require(_whole(memory.npus_per_node, -_MOST, _MOST), "memory.npus_per_node")
    require(_number(memory.rate_Bpns), "memory.rate_Bpns")
    require(memory.kind in (KINDS[0], KINDS[-1]) or memory.rate_Bpns > 0, "memory.rate_Bpns")
    pool = memory.pool
    if pool is None:
        return
    require(pool.topology in POOL_TOPOLOGIES, "memory.pool.topology")
    for name in ("nodes", "npus_per_node", "groups", "switches", "chunk_bytes"):
        require(_whole(getattr(pool, name), 1, _MOST), f"memory.pool.{name}")
    for name in ("group_Bpns", "link_Bpns", "npu_Bpns"):
        value = getattr(pool, name)
        require(_number(value) and value > 0, f"memory.pool.{name}")
    require(_whole(pool.latency_ns, -(1 << 62), 1 << 62), "memory.pool.latency_ns")
    require(type(pool.collectives) is bool, "memory.pool.collectives")


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


_MOST_GRID: Final = {"launch_ps": 1 << 61, "step_ps": 1 << 61}
_MOST_OF_A_GRID: Final = 1 << 28
"""More blocks, steps or lines than a GPU's memory has room for."""


def grids_of(document: Any) -> tuple[tuple[Grid, ...], ...]:
    """Make the kernels of operations of what a saved run says.

    Raises
    ------
    TypeError
        It is no list of lists of kernels.
    InputError
        A number is out of range.
    """
    made = tuple(tuple(Grid(**grid) for grid in of_row) for of_row in document)
    for grid in (grid for of_row in made for grid in of_row):
        if type(grid.name) is not str:
            raise TypeError("the name of a kernel is no text")
        for field in dataclasses.fields(Grid):
            value = getattr(grid, field.name)
            if field.name != "name":
                fine = type(value) is int and 0 <= value < _MOST_GRID.get(field.name, _MOST_OF_A_GRID)
                require(fine, f"grids.{field.name}")
        counts = min(grid.rows, grid.columns, grid.splits, grid.steps, grid.shared, grid.copies)
        require(counts > 0 and grid.blocks < _MOST_OF_A_GRID and grid.held <= ROOM, "grids")
        require(grid.rows % max(grid.copies, 1) == 0, "grids.copies")
        require(grid.rest < grid.rows * grid.columns * grid.splits, "grids.rest")
        require((grid.rest > 0) == (grid.parts > 0), "grids.parts")
        plain = grid.splits == 1 and grid.growth == 0 and grid.stages > 0
        require(grid.rest == 0 or plain, "grids.rest")
        moves = grid.row_lines + grid.column_lines + grid.stages + grid.own_lines + grid.stored_lines
        require(grid.row_lines + grid.column_lines > 0 or moves == 0, "grids.row_lines")
    return made


def kernels_of(document: Any, count: int) -> dict[int, ShapedKernel | Launch]:
    """Make the recorded kernels of operations, by row, of what a saved run says.

    Raises
    ------
    TypeError
        It is no table of kernels.
    InputError
        A number or a row is out of range.
    """
    made: dict[int, ShapedKernel | Launch] = {}
    for at, fields in document.items():
        require(0 <= int(at) < count, "kernels")
        if "launch" in fields:
            launch = Launch(**fields["launch"])
            _require_sizes(launch, least={"registers": 0, "shared_bytes": 0})
            made[int(at)] = launch
            continue
        is_product = "product" in fields
        kernel = Product(**fields["product"]) if is_product else Attention(**fields["attention"])
        _require_sizes(kernel, least={"kept_size": 0, "version": 0})
        shaped = ShapedKernel(kernel, fields["precision"], fields["number_bytes"])
        require(isinstance(shaped.precision, str) and _whole(shaped.number_bytes, 1, 8), "kernels")
        made[int(at)] = shaped
    return made


def _require_sizes(one: Product | Attention | Launch, least: Mapping[str, int]) -> None:
    """Refuse a kernel with a number out of range; fields that are true or false stay so."""
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if field.type == "bool":
            require(type(value) is bool, f"kernels.{field.name}")
        else:
            require(_whole(value, least.get(field.name, 1), _MOST), f"kernels.{field.name}")
