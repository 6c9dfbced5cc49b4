"""Contents of a buffer: which lines have arrived, from which rank, and whose contributions they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from astranb.collectives import BUFFERS, contents
from astranb.core.arrays import numbered
from astranb.core.errors import InputError, near
from astranb.core.state import allocate
from astranb.gpu import tables as t

from .state import CacheLineState

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = ["BufferContent", "buffer_of", "memory"]


@dataclass(frozen=True)
class BufferContent:
    """One buffer of one rank, line by line.

    Attributes
    ----------
    slices : ndarray of int64, shape (slices,)
        Numbers of its slices, by chunk and channel: in the order of their addresses.
    first : ndarray of int64, shape (slices + 1,)
        Where the lines of each begin among all.
    writer : ndarray of int64, shape (lines,)
        The operation that wrote a line last; ``INITIAL`` where the rank brought it,
        ``UNWRITTEN`` where nothing has arrived.
    source : ndarray of int64, shape (lines,)
        The rank whose SM or copy engine did; -1 where nothing has arrived.
    number : ndarray of int64, shape (lines,)
        Row of ``times`` with the contributions in the line; -1: none.
    times : ndarray of int32, shape (writers, ranks)
        How often each rank's contribution is in what one operation wrote.
    final : ndarray of bool, shape (slices,)
        Whether no operation of the program will write it any more.
    by_line : bool
        Whether each line is known; else only how many lines of a slice have arrived, and they are
        shown as its first ones, in a run too large to record every line.
    """

    slices: np.ndarray
    first: np.ndarray
    writer: np.ndarray
    source: np.ndarray
    number: np.ndarray
    times: np.ndarray
    final: np.ndarray
    by_line: bool

    @property
    def arrived(self) -> np.ndarray:
        """Whether each line has arrived: bool, shape (lines,)."""
        return np.asarray(self.source >= 0)


def buffer_of(engine: CacheLineState, rank: int, buffer: str) -> BufferContent:
    """Look at a buffer, now.

    Raises
    ------
    InputError
        There is no such rank, no such buffer, or the algorithm has none on this rank.
    """
    machine, program = engine.machine, engine.program
    if not 0 <= rank < program.ranks:
        raise InputError(f"unknown rank {rank}", where="memory", hint=f"0 to {program.ranks - 1}")
    if buffer not in BUFFERS:
        raise InputError(f"unknown buffer {buffer!r}", where="memory", hint=near(buffer, BUFFERS))
    table = machine.slices
    mine = np.flatnonzero((table["gpu"] == rank) & (table["buffer"] == BUFFERS.index(buffer)))
    if not len(mine):
        raise InputError(f"{program.name} has no {buffer} on rank {rank}", where="memory")
    lines = table["lines"][mine]
    first = np.append(0, np.cumsum(lines))
    slice_ = np.repeat(mine, lines)
    index = np.arange(len(slice_)) - np.repeat(first[:-1], lines)
    by_line = bool(machine.recording.recorder[0].landing)
    if by_line:
        writer = machine.recording.landed[machine.recording.places[slice_] + index].astype(np.int64)
    else:
        writing, ops = table["writing"][slice_], machine.ops
        covered = table["arrived"][slice_] * -(
            -table["lines"][slice_] // np.maximum(1, ops["lines"][writing])
        )
        writer = np.where((writing >= 0) & (index < covered), writing, table["writer"][slice_])
    brought = writer == t.INITIAL
    source = np.where(brought, rank, -1)
    moved = writer >= 0
    source[moved] = machine.blocks["gpu"][machine.ops["block"][writer[moved]]]
    writers, number = np.unique(writer, return_inverse=True)
    real = writers >= t.INITIAL
    times = np.zeros((len(writers), program.ranks), np.int32)
    times[writers == t.INITIAL, rank] = 1
    times[writers >= 0] = _carried(engine, writers[writers >= 0])
    number = np.where(real[number], number, -1)
    return BufferContent(mine, first, writer, source, number, times, _final(engine)[mine], by_line)


def _carried(engine: CacheLineState, ops: np.ndarray) -> np.ndarray:
    """Count each rank's contributions in what operations write, complete or under way.

    They are worked out as the contents of slices of their own that each of them had written.
    """
    machine = engine.machine
    if not len(ops):
        return np.zeros((0, engine.program.ranks), np.int32)
    table = machine.ops.copy()
    open_ = np.flatnonzero((table["started_ps"] >= 0) & (table["issued_ps"] < 0))
    # Those under way come last, in the order in which they began.
    table["issued_ps"][open_[np.argsort(table["started_ps"][open_], kind="stable")]] = (
        engine.now_ps + 1 + np.arange(len(open_))
    )
    wanted = allocate(len(ops), machine.slices.dtype)
    wanted["writer"], wanted["writing"] = ops, -1
    slices = np.concatenate([machine.slices, wanted]).view(np.recarray)
    held = contents(engine.program, table, machine.operands, slices)
    return engine.program.by_rank(held.times[len(machine.slices) :])


def _final(engine: CacheLineState) -> np.ndarray:
    """Return whether no operation will write to a slice any more: bool, shape (slices,)."""
    ops, operands, slices = engine.machine.ops, engine.machine.operands, engine.machine.slices
    moves = np.flatnonzero((ops["kind"] == t.MOVE) & (ops["lines"] > 0) & (ops["targets"] > 0))
    counts = ops["targets"][moves].astype(np.int64)
    within = numbered(counts)
    op = np.repeat(moves, counts)
    slice_ = operands["slice"][ops["first_target"][op] + within]
    to_come = (ops["ended_ps"][op] < 0) & (slices["writer"][slice_] != op)
    open_writes = np.bincount(slice_[to_come], minlength=len(slices))
    return np.asarray((open_writes == 0) & (slices["writing"] < 0) & (slices["writer"] != t.UNWRITTEN))


def memory(engine: CacheLineState, rank: int, buffer: str) -> Records:
    """Return what a buffer holds, slice by slice (see :meth:`Simulation.memory`)."""
    found = buffer_of(engine, rank, buffer)
    slices = engine.machine.slices[found.slices]
    rows = np.zeros(
        len(slices),
        [
            ("chunk", "i4"), ("channel", "i4"), ("lines", "i8"), ("arrived", "i8"), ("source", "i4"),
            ("final", "?"), ("contributions", "i4", (engine.program.ranks,)),
        ],
    )  # fmt: skip
    rows["chunk"], rows["channel"], rows["lines"] = slices["chunk"], slices["channel"], slices["lines"]
    of = np.repeat(np.arange(len(slices)), slices["lines"])
    writing = slices["writing"]
    # Of a write under way only its own lines count.
    here = np.where(writing[of] >= 0, found.writer == writing[of], found.arrived)
    rows["arrived"] = np.bincount(of[here], minlength=len(slices))
    rows["source"] = -1
    rows["source"][of[here]] = found.source[here]
    rows["contributions"][of[here]] = found.times[found.number[here]]
    rows["final"] = found.final
    return rows.view(np.recarray)
