"""Every message of a run and every phase of a chunk, however many: what a pattern of traffic is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from astranb.core.state import allocate, require_bytes
from astranb.workload.astrasim2 import Workload

from . import tables as t
from .build import build
from .run import Run

__all__ = ["MessageTrace", "trace_messages"]


class MessageTrace(NamedTuple):
    """Messages of a run without congestion.

    Attributes
    ----------
    messages : ndarray of FLIGHT
        In the order of sending.
    phases : ndarray of PASSED
        Phases of chunks, in the order of their ends.
    operations : ndarray of OPERATION_ROW
        At the end of the run.
    trees : ndarray of int64, shape (ranks, dimensions)
        Trees that each rank has used.
    """

    messages: np.ndarray
    phases: np.ndarray
    operations: np.ndarray
    trees: np.ndarray


def trace_messages(workload: Workload, *, chunks: int = 0, trees: Sequence[int] = ()) -> MessageTrace:
    """Run a workload without congestion, and give all its messages.

    Parameters
    ----------
    workload : Workload
    chunks : int
        Chunks of collectives that every rank has begun before: they decide on the next one's first dimension.
    trees : sequence of int
        Trees that it has used before in each dimension: they decide which of two trees comes next.

    Raises
    ------
    InputError
        The inputs do not fit together, or the messages do not fit in memory.
    """
    plain = Run.of_machine(_later(build(workload, congestion=False), chunks, trees))
    plain.finish()
    plain.result()
    clock = plain.machine.clock[0]
    messages, phases = int(clock.messages), int(clock.phases)
    size = messages * t.FLIGHT.itemsize + phases * t.PASSED.itemsize
    require_bytes(size, where=f"{messages:,} messages", hint="take fewer ranks or chunks")
    recorded = _later(build(workload, congestion=False, record=True), chunks, trees)
    recorded.drawn.value = 1
    run = Run.of_machine(
        recorded._replace(
            flights=allocate(max(1, messages), t.FLIGHT), passed=allocate(max(1, phases), t.PASSED)
        )
    )
    run.finish()
    m = run.machine
    used = np.asarray(m.trees.value).reshape(len(m.npus), t.COLLECTIVES, -1)
    before = np.asarray(trees or 0, np.int64)
    return MessageTrace(
        np.asarray(m.flights)[: m.watch[0].flights],
        np.asarray(m.passed)[:phases],
        np.asarray(m.operations),
        (used - before).max(axis=1),
    )


def _later(m: t.MessageMachine, chunks: int, trees: Sequence[int]) -> t.MessageMachine:
    """Count chunks and trees that have begun before the start."""
    dims = int(m.config[0].dims)
    m.npus.first_dim = chunks % dims
    m.npus.next_stream += chunks
    m.group_streams.value += chunks
    if trees:
        m.trees.value = np.resize(np.asarray(trees, np.int64), len(m.trees))
    return m
