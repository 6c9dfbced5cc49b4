"""Chakra traces as operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from astranb.chakra import CollectiveType, Distinct, NodeType, Trace, check, issue_order
from astranb.core.errors import InputError, near
from astranb.core.limits import MOST_SIZE_BYTES
from astranb.workload.kernels import Launch, ShapedKernel

from .kinds import (
    BROADCAST,
    COLLECTIVE,
    COMPUTE,
    DELAY,
    GATHER,
    MEMORY,
    RECV,
    REDUCE,
    REPLAY,
    SEND,
)
from .operations import COLLECTIVE_NAMES, COLUMN, Operations
from .trace_kernels import launches_of, on_gpu, shaped_of

__all__ = ["check_peers", "operations_of"]

_MOST: Final = MOST_SIZE_BYTES
"""No operation has more bytes or microseconds: times have to fit in 63 bits."""

_KINDS: Final = {
    NodeType.MEM_LOAD: MEMORY,
    NodeType.MEM_STORE: MEMORY,
    NodeType.COMP: COMPUTE,
    NodeType.COMM_SEND: SEND,
    NodeType.COMM_RECV: RECV,
    NodeType.COMM_COLL: COLLECTIVE,
}
_COLLECTIVES: Final = {
    kind: COLLECTIVE_NAMES[kind.name.lower()]
    for kind in CollectiveType
    if kind.name.lower() in COLLECTIVE_NAMES
}
_AS_OTHERS: Final = {
    CollectiveType.BARRIER: CollectiveType.ALL_REDUCE,
    CollectiveType.REDUCE_SCATTER_BLOCK: CollectiveType.REDUCE_SCATTER,
}
"""Collectives that are done as another one; ASTRA-sim 2.0 does not have them."""

_BARRIER_BYTES: Final = 4  # PyTorch's barrier all-reduces one number (ProcessGroupNCCL.cpp, barrier)


def operations_of(
    trace: Trace,
    groups: Collection[int] = (),
    *,
    replay: bool = False,
    roofline: bool = False,
    compat: bool = False,
) -> Operations:
    """Turn the trace of a rank into its operations.

    Metadata nodes are left out; operations that wait for one wait for its dependencies.

    Parameters
    ----------
    trace : Trace
    groups : collection of int
        The numbers of the existing groups.
    replay : bool
        Whether every operation takes its recorded duration.
    roofline : bool
        Whether computations must give their number of operations and bytes.
    compat : bool
        Whether broadcasts take their recorded duration, as ASTRA-sim 2.0's do.

    Returns
    -------
    Operations
        In the order of the nodes' ids.

    Raises
    ------
    InputError
        The trace cannot be run, or ASTRA-sim 2.0 does not have a node's type.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", "1 MiB")
    >>> int(operations_of(step.build()).rows[0]["bytes"])
    1048576
    """
    check(trace)
    kept, parents = issue_order(trace)
    columns = _columns(trace, groups, replay=replay, compat=compat)
    kernels: dict[int, Launch | ShapedKernel] = {} if compat else dict(launches_of(trace))
    if roofline and not replay:
        shaped = {} if compat else shaped_of(trace)
        kernels |= {row: one for row, one in shaped.items() if one is not None}
        columns |= _modelled(trace, shaped, columns, compat=compat)
    rows = np.zeros(len(kept), COLUMN)
    for name, column in columns.items():
        rows[name] = column[kept]
    names = Distinct(trace.names.index[kept], trace.names.values)
    place = np.full(len(trace), -1, np.int64)
    place[kept] = np.arange(len(kept))
    launched = {int(place[row]): one for row, one in kernels.items()}
    return Operations(rows, parents.offset, parents.flat, names=names, kernels=launched)


def check_peers(trace: Trace, rank: int, npus: int) -> None:
    """Check that no message is to or from a rank that does not exist, or the rank itself.

    Parameters
    ----------
    trace : Trace
    rank, npus : int
        The rank of the trace, and the number of ranks.

    Raises
    ------
    InputError
        Names the node and its peer.
    """
    for kind, name, peer in (
        (NodeType.COMM_SEND, "comm_dst", trace.comm_dst),
        (NodeType.COMM_RECV, "comm_src", trace.comm_src),
    ):
        wrong = (peer < 0) | (peer >= npus) | (peer == rank)
        row = _first((trace.type == kind) & wrong & ~trace.keeps_duration)
        if row >= 0:
            what = f"{name} is {peer[row]}" if trace.has(name)[row] else f"{name} is missing"
            hint = f"take another rank than {rank}, from 0 to {npus - 1}"
            raise InputError(what, where=trace.place(row), hint=hint)


def _first(wrong: np.ndarray) -> int:
    """Return the first row that is wrong, -1 for none."""
    return int(np.argmax(wrong)) if wrong.any() else -1


def _columns(trace: Trace, groups: Collection[int], *, replay: bool, compat: bool) -> dict[str, Any]:
    """Return the fields of all nodes, in the file's order."""
    kind = np.full(len(NodeType), -1)
    kind[list(_KINDS)] = list(_KINDS.values())
    kinds = kind[trace.type]
    collective = np.full(len(CollectiveType), -1)
    known = dict(_COLLECTIVES)
    if not compat:
        known |= {kind: _COLLECTIVES[other] for kind, other in _AS_OTHERS.items()}
    else:
        known = {kind: number for kind, number in known.items() if number <= BROADCAST}
    collective[list(known)] = list(known.values())
    kept = trace.keeps_duration
    is_collective = trace.type == NodeType.COMM_COLL
    copies = np.isin(trace.type, (NodeType.MEM_LOAD, NodeType.MEM_STORE)) & (not compat)
    # The collective of a node that is not one is ignored.
    named = np.where(is_collective, np.maximum(trace.comm_type, 0), 0)
    which = np.where(is_collective, collective[named], 0)
    recorded = kept | (is_collective & (((named == CollectiveType.BROADCAST) & compat) | replay))
    if (row := _first(is_collective & (which < 0) & ~recorded)) >= 0:
        what = (
            f"{CollectiveType(int(named[row])).name} is not simulated{' by ASTRA-sim 2.0' if compat else ''}"
        )
        names = ", ".join(kind.name for kind in known)
        raise InputError(what, where=trace.place(row), hint=f"take one of {names}")
    kinds[recorded] = REPLAY
    kinds[trace.is_idle] = DELAY
    barrier = is_collective & (named == CollectiveType.BARRIER)
    if (row := _first((kinds == COLLECTIVE) & (trace.comm_size == 0) & ~barrier)) >= 0:
        raise InputError("comm_size is 0", where=trace.place(row), hint="give the number of bytes")
    moves = is_collective | np.isin(trace.type, (NodeType.COMM_SEND, NodeType.COMM_RECV))
    size = np.where(barrier, _BARRIER_BYTES, np.where(moves, trace.comm_size, trace.tensor_size))
    for name, column in (("size", size), ("duration_micros", trace.duration_us)):
        if (row := _first((column > _MOST) | ((column < 0) & (name != "size")))) >= 0:
            raise InputError(f"{name} is {column[row]}", where=trace.place(row), hint="take 0 to 2^48")
    sends = trace.type == NodeType.COMM_SEND
    inward = is_collective & np.isin(which, (REDUCE, GATHER)) & (trace.comm_dst >= 0)
    return {
        "kind": kinds,
        "on_cpu": trace.is_cpu_op & ~trace.is_idle,
        "duration_ns": _durations_ns(trace) + (_waits_ns(trace) * moves if replay and not compat else 0),
        "flops": np.maximum(trace.num_ops, 0),
        "bytes": np.maximum(size, 0),
        # The root is the rank that a collective starts from, or the one that it ends at.
        "peer": np.where(sends | inward, trace.comm_dst, trace.comm_src),
        "tag": trace.comm_tag,
        "collective": np.maximum(which, 0),
        "group": _groups(trace, groups, kinds == COLLECTIVE),
        "involved": _involved(trace),
        "priority": trace.comm_priority,
        "stream": np.clip(trace.integers("comm_stream"), 0, 1) * (is_collective | copies),
    }


def _durations_ns(trace: Trace) -> Any:
    """Return the recorded durations: exact ones (``duration_ns``) where a node has them."""
    exact = trace.integers("duration_ns")
    return np.where((exact > 0) & (exact <= _MOST), exact, np.minimum(trace.duration_us, _MOST) * 1000)


def _waits_ns(trace: Trace) -> Any:
    """Return how long nodes waited for other ranks, which their durations are without."""
    return np.clip(trace.integers("wait_ns"), 0, _MOST)


def _groups(trace: Trace, groups: Collection[int], meet: Any) -> Any:
    """Return the number of the group of each node that meets others; -1 for all, whose name is "" or "0"."""
    names = trace.pg_name
    numbers = []
    for at, name in enumerate(names.values):
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 12 else -1
        if name not in ("", "0") and number not in groups:
            if (row := _first(meet & (names.index == at))) < 0:
                numbers.append(-1)
                continue
            where = trace.place(row)
            known = list(map(str, groups))
            hint = near(name, known) if known else "describe the groups (--comm-group)"
            raise InputError(f"unknown group {name[:40]!r} (pg_name)", where=where, hint=hint)
        numbers.append(number if name not in ("", "0") else -1)
    return np.where(meet, np.array([*numbers, -1], np.int64)[names.index], -1)


def _involved(trace: Trace) -> Any:
    """Return a bit for each dimension that takes part; all of them by default."""
    dims = trace.involved_dim
    bits = [sum(1 << at for at, part in enumerate(one[:62]) if part) for one in dims.values]
    return np.array([*bits, (1 << 62) - 1], np.int64)[dims.index]


def _modelled(
    trace: Trace, shaped: Mapping[int, ShapedKernel | None], columns: Mapping[str, Any], *, compat: bool
) -> dict[str, Any]:
    """Return the operations and bytes that the roofline needs: a node's own, or those of its recorded shapes.

    Other kernels that PyTorch recorded keep their durations.
    """
    flops, size = columns["flops"].copy(), columns["bytes"].copy()
    lacks = on_gpu(trace) & ((trace.num_ops < 0) | (trace.tensor_size < 0))
    for row, one in shaped.items():
        if lacks[row]:
            flops[row], size[row] = (0, 0) if one is None else (one.flops, one.touched)
            lacks[row] = False
    kept = lacks & trace.has_inputs & (columns["duration_ns"] > 0) & (not compat)
    flops[kept] = -1
    for name, column in (("num_ops", trace.num_ops), ("tensor_size", trace.tensor_size)):
        if (row := _first(lacks & ~kept & (column < 0))) >= 0:
            hint = "give it, or set roofline-enabled to 0"
            raise InputError(f"no {name}", where=trace.place(row), hint=hint)
    return {"flops": flops, "bytes": size}
