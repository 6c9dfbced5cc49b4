"""Did the collective do what it promises? Contents are tracked, not assumed.

While it runs, the machine notes for every piece which operation's write is complete
there, and for every source which write it showed when it was read. From these two facts
this module works out what each piece holds: how often each rank's contribution is in it
(a multiplicity, so that a double reduction shows) and of which chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import WrongResult
from astranb.core.jit import Records
from astranb.gpu.tables import INITIAL, MOVE, UNWRITTEN

from ._lower import BUFFERS, Lowered
from ._registry import COLLECTIVES

__all__ = [
    "MIXED",
    "NOTHING",
    "Contents",
    "Promise",
    "check",
    "contents",
    "fault_text",
    "promise",
    "promised",
]

NOTHING = -1
"""Chunk number of a piece that holds nothing known."""
MIXED = -2
"""Chunk number of a piece in which different chunks, or torn lines, are mixed."""


@dataclass(frozen=True)
class Contents:
    """What every piece holds.

    Attributes
    ----------
    times : ndarray of int32, shape (pieces, ranks)
        How often each rank's contribution is in the piece.
    chunk : ndarray of int64, shape (pieces,)
        Which chunk of those ranks' inputs it is; ``NOTHING`` or ``MIXED``.
    """

    times: np.ndarray
    chunk: np.ndarray


def contents(program: Lowered, ops: Records, operands: Records, pieces: Records) -> Contents:
    """Work out what every piece holds, from what the machine noted, at any moment of a run.

    Parameters
    ----------
    program : Lowered
        The program as it was started.
    ops, operands, pieces : recarray
        The tables as they stand now.

    Returns
    -------
    Contents
    """
    times = np.zeros((len(ops), program.ranks), np.int32)
    chunk = np.full(len(ops), NOTHING, np.int64)

    def held(piece: np.ndarray, writer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What pieces held once these operations had written them."""
        found = np.zeros((len(piece), program.ranks), np.int32)
        of_chunk = np.full(len(piece), MIXED, np.int64)
        moved, brought = writer >= 0, np.flatnonzero(writer == INITIAL)
        found[moved], of_chunk[moved] = times[writer[moved]], chunk[writer[moved]]
        found[brought, pieces["gpu"][piece[brought]]] = 1
        of_chunk[brought] = pieces["chunk"][piece[brought]]
        return found, of_chunk

    moved = np.flatnonzero((ops["kind"] == MOVE) & (ops["issued_ps"] >= 0) & (ops["lines"] > 0))
    moved = moved[np.argsort(ops["issued_ps"][moved], kind="stable")]
    moved = moved[np.argsort(_levels(moved, ops, operands), kind="stable")]
    counts = ops["sources"][moved].astype(np.int64)
    ends = np.cumsum(counts)
    source = np.arange(counts.sum()) + np.repeat(ops["first_source"][moved] - (ends - counts), counts)
    piece, seen = operands["piece"][source], operands["seen"][source]
    for first, last in _independent(moved, ends - counts, seen, len(ops)):
        these = slice(ends[first] - counts[first], ends[last - 1])
        starts = ends[first:last] - counts[first:last] - these.start
        found, of_chunk = held(piece[these], seen[these])
        times[moved[first:last]] = np.add.reduceat(found, starts)
        least, most = np.minimum.reduceat(of_chunk, starts), np.maximum.reduceat(of_chunk, starts)
        chunk[moved[first:last]] = np.where(least == most, least, MIXED)
    times, chunk = held(np.arange(len(pieces)), pieces["writer"])
    writing, empty = pieces["writing"] >= 0, pieces["writer"] == UNWRITTEN
    times[writing] = 0
    chunk[writing] = MIXED
    chunk[empty & ~writing] = NOTHING
    return Contents(times, chunk)


def _levels(moved: np.ndarray, ops: Records, operands: Records) -> np.ndarray:
    """How many operations an operation's contents have gone through.

    Not the time: what reads packets, line by line, may have issued its last line before an
    operation that still sends the same elsewhere.
    """
    counts = ops["sources"][moved].astype(np.int64)
    starts = np.cumsum(counts) - counts
    source = np.arange(counts.sum()) + np.repeat(ops["first_source"][moved] - starts, counts)
    seen = operands["seen"][source]
    place = np.full(len(ops), -1, np.int64)
    place[moved] = np.arange(len(moved))
    before = np.where(seen >= 0, place[np.maximum(seen, 0)], -1)
    known = before >= 0
    levels = np.zeros(len(moved), np.int64)
    for _ in range(len(moved)):
        after = np.maximum.reduceat(np.where(known, levels[before] + 1, 0), starts)
        if (after == levels).all():
            break
        levels = after
    return levels


def _independent(
    moved: np.ndarray, starts: np.ndarray, seen: np.ndarray, n_ops: int
) -> Iterator[tuple[int, int]]:
    """Cut operations in their order into runs of which none reads what another one of it wrote."""
    if not len(moved):
        return
    place = np.full(n_ops, -1, np.int64)
    place[moved] = np.arange(len(moved))
    latest = np.maximum.reduceat(np.where(seen >= 0, place[np.maximum(seen, 0)], -1), starts)
    first = 0
    while first < len(moved):
        later = np.flatnonzero(latest[first + 1 :] >= first)
        last = first + 1 + int(later[0]) if len(later) else len(moved)
        yield first, last
        first = last


@dataclass(frozen=True)
class Promise:
    """What a collective promises, piece by piece.

    Attributes
    ----------
    piece : ndarray of int64, shape (promised pieces,)
        Pieces of which something is promised.
    times : ndarray of int32, shape (promised pieces, ranks)
        How often each rank's contribution must be there at the end.
    chunk : ndarray of int64, shape (promised pieces,)
        Which chunk of those ranks' inputs it must be.
    """

    piece: np.ndarray
    times: np.ndarray
    chunk: np.ndarray

    def kept(self, held: Contents) -> np.ndarray:
        """Say of which pieces the promise is kept: bool, shape (promised pieces,)."""
        right = (held.times[self.piece] == self.times).all(axis=1)
        return np.asarray(right & (held.chunk[self.piece] == self.chunk))


def promise(program: Lowered, kind: str, root: int, pieces: Records) -> Promise:
    """What a collective promises of the pieces of a program."""
    output = np.flatnonzero((pieces["buffer"] == BUFFERS.index("output")) & (pieces["lines"] > 0))
    if COLLECTIVES[kind].silent:
        output = output[:0]
    if COLLECTIVES[kind].root_only:
        output = output[pieces["gpu"][output] == root]
    rank, index = pieces["gpu"][output].astype(np.int64), pieces["chunk"][output].astype(np.int64)
    return Promise(output, *promised(kind, root, program.ranks, rank, index))


def check(program: Lowered, kind: str, root: int, ops: Records, operands: Records, pieces: Records) -> None:
    """Compare every output piece with what the collective promises.

    Parameters
    ----------
    program : Lowered
        The program as it was started.
    kind : str
        The collective's name.
    root : int
        The root of a rooted collective.
    ops, operands, pieces : recarray
        The tables at the end of the run.

    Raises
    ------
    WrongResult
        Names the rank, the chunk, and what is missing or too much there.
    """
    held = contents(program, ops, operands, pieces)
    wanted = promise(program, kind, root, pieces)
    wrong = np.flatnonzero(~wanted.kept(held))
    if not len(wrong):
        return
    bad = pieces[wanted.piece[wrong]]
    first, piece = int(wrong[0]), int(wanted.piece[wrong[0]])
    places = len(np.unique(bad[["gpu", "chunk"]]))
    lane = f", lane {bad[0].lane}" if program.lanes > 1 else ""
    text = fault_text(
        held.times[piece], wanted.times[first], int(held.chunk[piece]), int(wanted.chunk[first])
    )
    raise WrongResult(
        f"{program.name}: wrong result on rank {bad[0].gpu}, output chunk {bad[0].chunk}{lane}: {text}"
        + (f" (and {places - 1} more chunks)" if places > 1 else "")
    )


def promised(
    kind: str, root: int, ranks: int, rank: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a collective promises of output chunks.

    Parameters
    ----------
    kind : str
        The collective's name.
    root : int
        The root of a rooted collective.
    ranks : int
    rank, index : ndarray of int64, shape (chunks,)
        Whose output, and which chunk of it.

    Returns
    -------
    times : ndarray of int32, shape (chunks, ranks)
        How often each rank's contribution must be there.
    chunk : ndarray of int64, shape (chunks,)
        Which chunk of those ranks' inputs it is.

    Examples
    --------
    >>> times, chunk = promised("all_gather", 0, 2, np.array([0, 0]), np.array([0, 1]))
    >>> times.tolist(), chunk.tolist()
    ([[1, 0], [0, 1]], [0, 0])
    """
    wanted = np.zeros((len(rank), ranks), np.int32)
    rows = np.arange(len(rank))
    nothing = np.zeros_like(index)
    if kind in ("all_reduce", "reduce_scatter", "reduce"):
        wanted[:] = 1
        return wanted, rank if kind == "reduce_scatter" else index
    if kind in ("all_gather", "gather", "all_to_all"):
        wanted[rows, index] = 1
        return wanted, rank if kind == "all_to_all" else nothing
    if kind == "send_recv":
        wanted[rows, (rank - 1) % ranks] = 1
        return wanted, nothing
    wanted[:, root] = 1
    return wanted, rank if kind == "scatter" else index


def fault_text(times: np.ndarray, wanted: np.ndarray, chunk: int, wanted_chunk: int) -> str:
    """Say how contents differ from what they should be."""
    if chunk == NOTHING:
        return "nothing was ever written there"
    if chunk == MIXED and not times.any():
        return "it was written while another write was under way, or from memory that nothing had written"
    said = []
    missing = [str(r) for r in np.flatnonzero((wanted > 0) & (times == 0))]
    if missing:
        said.append(f"the contribution of rank {', '.join(missing)} is missing")
    said += [f"rank {r}'s contribution is there {times[r]} times" for r in np.flatnonzero(times > 1)]
    extra = [str(r) for r in np.flatnonzero((wanted == 0) & (times > 0))]
    if extra:
        said.append(f"rank {', '.join(extra)} should not be in it")
    if chunk == MIXED:
        said.append("parts of it were read while they were being written, or different chunks were added")
    elif chunk != wanted_chunk:
        said.append(f"it holds chunk {chunk} instead of chunk {wanted_chunk}")
    return "; ".join(said)
