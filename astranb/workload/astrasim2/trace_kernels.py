"""The kernels that computations of a trace launched, as PyTorch and its profiler recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from astranb.chakra import NodeType, Trace
from astranb.core.errors import InputError
from astranb.workload.kernels import OPERATORS, Launch, ShapedKernel, shaped_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["launches_of", "on_gpu", "shaped_of"]


def on_gpu(trace: Trace) -> NDArray[np.bool_]:
    """Return which nodes are computations that the host does not execute."""
    return np.asarray((trace.type == NodeType.COMP) & ~trace.is_cpu_op)


def launches_of(trace: Trace) -> dict[int, Launch]:
    """Return the launch of each computation of which the trace says it, as those of ``link`` do, by row."""
    blocks, threads = trace.integers("num_blocks"), trace.integers("block_threads", 1)
    registers, shared = trace.integers("thread_registers"), trace.integers("block_shared_bytes")
    rows = np.flatnonzero(on_gpu(trace) & (blocks > 0) & (threads > 0) & (registers >= 0) & (shared >= 0))
    columns = (column[rows].tolist() for column in (blocks, threads, registers, shared))
    return {row: Launch(*one) for row, *one in zip(rows.tolist(), *columns, strict=True)}


def shaped_of(trace: Trace) -> dict[int, ShapedKernel | None]:
    """Return the product or attention of each computation whose operator and shapes say it, by row.

    The operator is that of the host that launched it (``op_schema``), or the node's own name. Of several
    kernels that one call of it launched, the longest computes; the others (None) belong to it, as the sum
    of the parts of a product whose ``k`` was split.

    Raises
    ------
    InputError
        The operands of a product have none.
    """
    schemas = trace.values("op_schema").map(lambda one: str(one.value).partition("(")[0])
    candidates = np.flatnonzero(on_gpu(trace) & trace.has_inputs).tolist()
    calls: dict[object, list[int]] = {}
    for row in candidates:
        if _operator(trace.names[row], schemas[row]) in OPERATORS:
            caller = trace.ctrl_deps.of(row)
            calls.setdefault(int(caller[0]) if len(caller) else ("alone", row), []).append(row)
    found: dict[int, ShapedKernel | None] = {}
    for rows in calls.values():
        longest = max(rows, key=lambda row: int(trace.duration_us[row]))
        values, shapes, types = trace.node(longest).inputs or ("", "", "")
        operator = _operator(trace.names[longest], schemas[longest])
        try:
            kernel = shaped_kernel(operator, shapes, types, values)
        except InputError as error:
            raise InputError(error.what, where=trace.place(longest), hint=error.hint) from None
        if kernel is not None:
            found |= dict.fromkeys(rows) | {longest: kernel}
    return found


def _operator(name: str | None, schema: str | None) -> str:
    """Return an operator without its overload."""
    return (schema or name or "").partition(".")[0]
