"""The check of a run: every output must hold what the collective promises.

While a program runs, the machine records for every slice which operation's write is complete
there, and for every source which write was visible when it was read. From these two facts this
module derives what each slice holds: how often each rank's contribution is in it (a multiplicity,
which reveals a double reduction) and of which chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from astranb.collectives.language import BUFFERS, COLLECTIVES, ChunkLayout, Reduction, promised
from astranb.collectives.lowering import Lowered
from astranb.core.arrays import reduce_at
from astranb.core.errors import WrongResult
from astranb.core.jit import Records
from astranb.core.plural import plural
from astranb.gpu.tables import INITIAL, MOVE, UNWRITTEN

__all__ = [
    "MIXED",
    "NOTHING",
    "Contents",
    "Promise",
    "check",
    "contents",
    "fault_text",
    "promise",
]

NOTHING = -1
"""Chunk number of a slice that nothing was written to."""
MIXED = -2
"""Chunk number of a slice that mixes different chunks or incomplete writes."""


@dataclass(frozen=True)
class Contents:
    """Content of every slice.

    Attributes
    ----------
    times : ndarray of int32, shape (slices, columns)
        How often each contribution is in the slice: each rank's, unless a
        :class:`~astranb.collectives.language.layout.ChunkLayout` has columns of its own.
    chunk : ndarray of int64, shape (slices,)
        The chunk of those ranks' inputs (of a layout: the item) that it is; ``NOTHING`` or ``MIXED``.
    roundings : ndarray of int64, shape (slices,)
        How often what is in the slice has been rounded, at most, as far as the numbers are known.
    """

    times: np.ndarray
    chunk: np.ndarray
    roundings: np.ndarray


def contents(program: Lowered, ops: Records, operands: Records, slices: Records) -> Contents:
    """Derive what every slice holds at the present moment of a run.

    Parameters
    ----------
    program : Lowered
        The program as it was started.
    ops, operands, slices : recarray
        The present tables.
    """
    column, item, columns = _own(program, slices)
    reduction = program.layout.reduction if program.layout is not None else Reduction()
    add = np.maximum if reduction.repeatable else np.add
    times = np.zeros((len(ops), columns), np.int32)
    chunk = np.full(len(ops), NOTHING, np.int64)
    rounded = np.zeros(len(ops), np.int64)

    def held(slice_: np.ndarray, writer: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what slices held after these operations wrote them."""
        found = np.zeros((len(slice_), columns), np.int32)
        of_chunk = np.full(len(slice_), MIXED, np.int64)
        roundings = np.zeros(len(slice_), np.int64)
        moved, brought = writer >= 0, np.flatnonzero(writer == INITIAL)
        found[moved], of_chunk[moved] = times[writer[moved]], chunk[writer[moved]]
        roundings[moved] = rounded[writer[moved]]
        found[brought, column[slice_[brought]]] = 1
        of_chunk[brought] = item[slice_[brought]]
        return found, of_chunk, roundings

    issued = (ops["kind"] == MOVE) & (ops["issued_ps"] >= 0) & (ops["lines"] > 0)
    # What a rank has computed is its contribution, as what it brought is.
    computed = np.flatnonzero(issued & (ops["sources"] == 0))
    written = operands["slice"][ops["first_target"][computed]]
    times[computed, column[written]] = 1
    chunk[computed] = item[written]
    moved = np.flatnonzero(issued & (ops["sources"] > 0))
    moved = moved[np.argsort(ops["issued_ps"][moved], kind="stable")]
    moved = moved[np.argsort(_levels(moved, ops, operands), kind="stable")]
    source, bounds = _sources(moved, ops)
    slice_, seen = operands["slice"][source], operands["seen"][source]
    for first, last in _independent(moved, bounds[:-1], seen, len(ops)):
        these = slice(bounds[first], bounds[last])
        starts = bounds[first:last] - bounds[first]
        found, of_chunk, roundings = held(slice_[these], seen[these])
        times[moved[first:last]] = reduce_at(add, found, starts)
        adding = reduction.roundings(ops["sources"][moved[first:last]])
        rounded[moved[first:last]] = reduce_at(np.maximum, roundings, starts) + adding
        least, most = reduce_at(np.minimum, of_chunk, starts), reduce_at(np.maximum, of_chunk, starts)
        chunk[moved[first:last]] = np.where(least == most, least, MIXED)
    times, chunk, rounded = held(np.arange(len(slices)), slices["writer"])
    writing, empty = slices["writing"] >= 0, slices["writer"] == UNWRITTEN
    times[writing] = 0
    chunk[writing] = MIXED
    chunk[empty & ~writing] = NOTHING
    return Contents(times, chunk, rounded)


def _own(program: Lowered, slices: Records) -> tuple[np.ndarray, np.ndarray, int]:
    """Return column and item of what each slice of an input holds at first, and the number of columns."""
    gpu, index = slices["gpu"].astype(np.int64), slices["chunk"].astype(np.int64)
    layout = program.layout
    if layout is None:
        return gpu, index, program.ranks
    at = layout.find("input", gpu, index)
    known = (slices["buffer"] == BUFFERS.index("input")) & (at >= 0)  # panels are not in a layout
    column, item = np.zeros_like(gpu), np.full_like(gpu, MIXED)
    column[known], item[known] = layout.column[at[known]], layout.item[at[known]]
    return column, item, layout.ranks * layout.most


def _sources(moved: np.ndarray, ops: Records) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the operations' sources, and where those of each begin, with the end."""
    counts = ops["sources"][moved].astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return np.arange(bounds[-1]) + np.repeat(ops["first_source"][moved] - bounds[:-1], counts), bounds


def _places(moved: np.ndarray, seen: np.ndarray, n_ops: int) -> np.ndarray:
    """Return the positions of writers among ordered operations; -1 for those that are none of them."""
    place = np.full(n_ops, -1, np.int64)
    place[moved] = np.arange(len(moved))
    return np.where(seen >= 0, place[np.maximum(seen, 0)], -1)


def _levels(moved: np.ndarray, ops: Records, operands: Records) -> np.ndarray:
    """Return how many operations the contents of each operation have passed through.

    The time of issue does not give this order: an operation that reads packets line by line may
    issue its last line before the operation that writes them ends.
    """
    source, bounds = _sources(moved, ops)
    before = _places(moved, operands["seen"][source], len(ops))
    levels = np.zeros(len(moved), np.int64)
    for _ in range(len(moved)):
        after = reduce_at(np.maximum, np.where(before >= 0, levels[before] + 1, 0), bounds[:-1])
        if (after == levels).all():
            break
        levels = after
    return levels


def _independent(
    moved: np.ndarray, starts: np.ndarray, seen: np.ndarray, n_ops: int
) -> Iterator[tuple[int, int]]:
    """Split ordered operations into ranges in which none reads what another one wrote."""
    if not len(moved):
        return
    latest = reduce_at(np.maximum, _places(moved, seen, n_ops), starts)
    first = 0
    while first < len(moved):
        later = np.flatnonzero(latest[first + 1 :] >= first)
        last = first + 1 + int(later[0]) if len(later) else len(moved)
        yield first, last
        first = last


@dataclass(frozen=True)
class Promise:
    """Promise of a collective for each slice.

    Attributes
    ----------
    slices : ndarray of int64, shape (promised slices,)
        The slices with a promise.
    times : ndarray of int32, shape (promised slices, columns)
        How often each slice must contain each contribution at the end.
    chunk : ndarray of int64, shape (promised slices,)
        The chunk of those ranks' inputs that it must be.
    """

    slices: np.ndarray
    times: np.ndarray
    chunk: np.ndarray

    def kept(self, held: Contents) -> np.ndarray:
        """Return for which slices the promise is kept: bool, shape (promised slices,)."""
        right = (held.times[self.slices] == self.times).all(axis=1)
        return np.asarray(right & (held.chunk[self.slices] == self.chunk))


def promise(program: Lowered, kind: str, root: int, slices: Records) -> Promise:
    """Return what a collective promises for the slices of a program."""
    if program.layout is not None:
        return _of_layout(program.layout, slices)
    is_output = slices["buffer"] == BUFFERS.index("output")
    output = np.flatnonzero(is_output & (slices["lines"] > 0))
    if COLLECTIVES[kind].silent:
        output = output[:0]
    if COLLECTIVES[kind].root_only:
        output = output[slices["gpu"][output] == root]
    rank, index = slices["gpu"][output].astype(np.int64), slices["chunk"][output].astype(np.int64)
    chunks = int(slices["chunk"][is_output].max(initial=0)) + 1  # the empty ones too
    return Promise(output, *promised(kind, root, program.ranks, chunks, rank, index))


def _of_layout(layout: ChunkLayout, slices: Records) -> Promise:
    """Return what a layout promises: for each of its outputs, in the memory where it is."""
    rows = np.flatnonzero((slices["buffer"] < 2) & (slices["lines"] > 0))
    rank, buffer, index = (slices[n][rows].astype(np.int64) for n in ("gpu", "buffer", "chunk"))
    output = np.full(len(rows), -1, np.int64)
    own = buffer == 1
    output[own] = layout.find("output", rank[own], index[own])
    sharing = np.flatnonzero(layout.places >= 0)
    if len(sharing):
        within = np.full(layout.inputs.shape[1], -1, np.int64)
        within[layout.places[sharing]] = sharing
        output[~own] = within[layout.find("input", rank[~own], index[~own])]
    found = np.flatnonzero(output >= 0)
    return Promise(rows[found], layout.times[output[found]], layout.output_item[output[found]])


def check(program: Lowered, kind: str, root: int, ops: Records, operands: Records, slices: Records) -> None:
    """Compare every output slice with what the collective promises; parameters as for :func:`contents`.

    Raises
    ------
    WrongResult
        The message names the rank, the chunk, and what is missing or should not be there.
    """
    held = contents(program, ops, operands, slices)
    wanted = promise(program, kind, root, slices)
    wrong = np.flatnonzero(~wanted.kept(held))
    if not len(wrong):
        return
    bad = slices[wanted.slices[wrong]]
    first, row = int(wrong[0]), int(wanted.slices[wrong[0]])
    chunks = len(np.unique(bad[["gpu", "chunk"]]))
    channel = f", channel {bad[0].channel}" if slices["channel"].any() else ""
    text = fault_text(
        held.times[row], wanted.times[first], int(held.chunk[row]), int(wanted.chunk[first]), program.layout
    )
    buffer = BUFFERS[bad[0].buffer]
    raise WrongResult(
        f"{program.name}: wrong result on rank {bad[0].gpu}, {buffer} chunk {bad[0].chunk}{channel}: {text}"
        + (f" (and {plural(chunks - 1, 'more chunk')})" if chunks > 1 else "")
    )


def fault_text(
    times: np.ndarray, wanted: np.ndarray, chunk: int, wanted_chunk: int, layout: ChunkLayout | None = None
) -> str:
    """Describe how contents differ from the promised ones."""
    if chunk == NOTHING:
        return "it was never written"
    if chunk == MIXED and not times.any():
        return "it was written while another write was under way, or from memory that was never written"
    if layout is not None:
        return _contribution_text(times, wanted, chunk, wanted_chunk, layout)
    found = []
    missing = [str(r) for r in np.flatnonzero((wanted > 0) & (times == 0))]
    if missing:
        found.append(f"the contribution of rank {', '.join(missing)} is missing")
    found += [f"rank {r}'s contribution is there {times[r]} times" for r in np.flatnonzero(times > 1)]
    extra = [str(r) for r in np.flatnonzero((wanted == 0) & (times > 0))]
    if extra:
        found.append(f"rank {', '.join(extra)} should not be in it")
    if chunk == MIXED:
        found.append("parts were read while they were being written, or different chunks were added")
    elif chunk != wanted_chunk:
        found.append(f"it holds chunk {chunk} instead of chunk {wanted_chunk}")
    return "; ".join(found)


def _contribution_text(
    times: np.ndarray, wanted: np.ndarray, chunk: int, wanted_chunk: int, layout: ChunkLayout
) -> str:
    """Describe how contents differ from those of a layout, contribution by contribution."""
    found = []
    other = chunk not in (MIXED, wanted_chunk)
    missing = [
        layout.name(wanted_chunk, k) for k in np.flatnonzero((wanted > 0) & ((times == 0) | other)).tolist()
    ]
    held = chunk if other else wanted_chunk
    extra = [layout.name(held, k) for k in np.flatnonzero((times > 0) & ((wanted == 0) | other)).tolist()]
    if missing:
        found.append(f"{', '.join(missing)} is missing")
    if not other:
        found += [
            f"{layout.name(wanted_chunk, k)} is there {times[k]} times"
            for k in np.flatnonzero(times > 1).tolist()
        ]
    if chunk == MIXED:
        found.append("parts were read while they were being written, or different chunks were added")
    elif extra:
        found.append(f"{', '.join(extra)} should not be in it")
    return "; ".join(found)
