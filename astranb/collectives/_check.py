"""Did the collective do what it promises? Contents are tracked, not assumed.

While it runs, the machine notes for every piece which operation's write is complete
there, and for every source which write it showed when it was read. From these two facts
this module works out what each piece holds: how often each rank's contribution is in it
(a multiplicity, so that a double reduction shows) and of which chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astranb.core.errors import WrongResult
from astranb.core.jit import Records
from astranb.gpu.tables import INITIAL, MOVE, UNWRITTEN

from ._lower import BUFFERS, Lowered
from ._registry import COLLECTIVES

__all__ = ["MIXED", "NOTHING", "Contents", "check", "contents", "fault_text", "promised"]

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
    """Work out what every piece holds, from what the machine noted.

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
    n_ops = len(ops)
    times = np.zeros((n_ops, program.ranks), np.int32)
    chunk = np.full(n_ops, NOTHING, np.int64)

    def held(piece: int, writer: int) -> tuple[np.ndarray, int]:
        if writer >= 0:
            return times[writer], int(chunk[writer])
        vector = np.zeros(program.ranks, np.int32)
        if writer == INITIAL:
            vector[pieces["gpu"][piece]] = 1
            return vector, int(pieces["chunk"][piece])
        return vector, MIXED

    moved = np.flatnonzero((ops["kind"] == MOVE) & (ops["issued_ps"] >= 0) & (ops["lines"] > 0))
    seen, piece_of = operands["seen"], operands["piece"]
    # A write is complete only after its last issue, and is read only after that: the
    # order of last issues is an order of causes.
    for op in moved[np.argsort(ops["issued_ps"][moved], kind="stable")]:
        first, count = int(ops["first_source"][op]), int(ops["sources"][op])
        for source in range(first, first + count):
            vector, of_chunk = held(int(piece_of[source]), int(seen[source]))
            times[op] += vector
            chunk[op] = of_chunk if chunk[op] in (NOTHING, of_chunk) else MIXED
    result_times = np.zeros((len(pieces), program.ranks), np.int32)
    result_chunk = np.full(len(pieces), NOTHING, np.int64)
    for piece in range(len(pieces)):
        if pieces["writing"][piece] >= 0:
            result_chunk[piece] = MIXED
        elif pieces["writer"][piece] != UNWRITTEN:
            result_times[piece], result_chunk[piece] = held(piece, int(pieces["writer"][piece]))
    return Contents(result_times, result_chunk)


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
    output = np.flatnonzero((pieces["buffer"] == BUFFERS.index("output")) & (pieces["lines"] > 0))
    if COLLECTIVES[kind].silent:
        return
    if COLLECTIVES[kind].root_only:
        output = output[pieces["gpu"][output] == root]
    rank, index = pieces["gpu"][output].astype(np.int64), pieces["chunk"][output].astype(np.int64)
    wanted, chunk = promised(kind, root, program.ranks, rank, index)
    wrong = (held.times[output] != wanted).any(axis=1) | (held.chunk[output] != chunk)
    if not wrong.any():
        return
    first = int(np.flatnonzero(wrong)[0])
    piece = int(output[first])
    places = len(np.unique(rank[wrong] * (index.max() + 1) + index[wrong]))
    lane = f", lane {pieces['lane'][piece]}" if program.lanes > 1 else ""
    raise WrongResult(
        f"{program.name}: wrong result on rank {rank[first]}, output chunk {index[first]}{lane}: "
        f"{fault_text(held.times[piece], wanted[first], int(held.chunk[piece]), int(chunk[first]))}"
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
