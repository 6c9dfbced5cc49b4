"""The collectives: the buffers each one has, and the result that it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import InputError, near

__all__ = ["COLLECTIVES", "CollectiveKind", "collective_kind", "promised"]

_CHUNKS = 8  # of a broadcast or reduction: they follow one another down a chain


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """The buffers and the promise of a collective, whatever the algorithm."""

    name: str
    input_chunks: Callable[[int], int]
    output_chunks: Callable[[int], int]
    busbw: Callable[[int], float]  # factor from algbw for n ranks (nccl-tests, doc/PERFORMANCE.md)
    default: str  # empty: it has no algorithm of its own
    rooted: bool = False  # one rank differs from the others
    root_only: bool = False  # only the root's output is promised
    silent: bool = False  # no output is promised
    routed: bool = False  # it depends on the experts of each token: see collectives/experts
    parted: bool = True  # its larger buffers have a part for each rank

    def chunk_counts(self, ranks: int, chunks: int | None = None) -> tuple[int, int]:
        """Return the chunks of each rank's input and output.

        Parameters
        ----------
        ranks : int
        chunks : int, optional
            Those of the larger buffer.

        Raises
        ------
        InputError
            They do not divide among the ranks.

        Examples
        --------
        >>> COLLECTIVES["all_gather"].chunk_counts(8), COLLECTIVES["all_gather"].chunk_counts(8, 64)
        ((1, 8), (8, 64))
        """
        counts = self.input_chunks(ranks), self.output_chunks(ranks)
        if chunks is None:
            return counts
        if not isinstance(chunks, int) or isinstance(chunks, bool) or chunks < 1:
            raise InputError(f"chunks must be at least 1, got {chunks!r:.80}", where="chunks")
        if self.parted and chunks % ranks:
            few, many = max(1, chunks // ranks) * ranks, -(-chunks // ranks) * ranks
            raise InputError(
                f"{chunks} chunks of {self.name} do not divide among {ranks} ranks",
                where="chunks",
                hint=f"use {' or '.join(map(str, sorted({few, many})))}",
            )
        return chunks * counts[0] // max(counts), chunks * counts[1] // max(counts)


COLLECTIVES = {
    kind.name: kind
    for kind in (
        CollectiveKind(
            "all_reduce", lambda n: n, lambda n: n, lambda n: 2 * (n - 1) / n, "ring", parted=False
        ),
        CollectiveKind("all_gather", lambda _: 1, lambda n: n, lambda n: (n - 1) / n, "ring"),
        CollectiveKind("reduce_scatter", lambda n: n, lambda _: 1, lambda n: (n - 1) / n, "ring"),
        CollectiveKind("all_to_all", lambda n: n, lambda n: n, lambda n: (n - 1) / n, "allpairs"),
        CollectiveKind(
            "broadcast", lambda _: _CHUNKS, lambda _: _CHUNKS, lambda _: 1.0, "ring",
            rooted=True, parted=False,
        ),
        CollectiveKind(
            "reduce", lambda _: _CHUNKS, lambda _: _CHUNKS, lambda _: 1.0, "ring",
            rooted=True, root_only=True, parted=False,
        ),
        CollectiveKind(
            "gather", lambda _: 1, lambda n: n, lambda n: (n - 1) / n, "allpairs", rooted=True, root_only=True
        ),
        CollectiveKind("scatter", lambda n: n, lambda _: 1, lambda n: (n - 1) / n, "allpairs", rooted=True),
        CollectiveKind("send_recv", lambda _: 1, lambda _: 1, lambda _: 1.0, "put", parted=False),
        CollectiveKind(
            "barrier", lambda _: 1, lambda _: 1, lambda _: 0.0, "allpairs", silent=True, parted=False
        ),
        CollectiveKind("dispatch", lambda n: n, lambda n: n, lambda _: 1.0, "normal", routed=True),
        CollectiveKind("combine", lambda n: n, lambda n: n, lambda _: 1.0, "normal", routed=True),
        CollectiveKind("custom", lambda n: n, lambda n: n, lambda _: 1.0, "", silent=True, parted=False),
    )
}  # fmt: skip
"""The collectives by name."""


def collective_kind(name: str) -> CollectiveKind:
    """Find a collective; the error for an unknown name lists similar ones."""
    if name not in COLLECTIVES:
        raise InputError(f"unknown collective {name!r}", hint=near(name, COLLECTIVES))
    return COLLECTIVES[name]


def promised(
    kind: str, root: int, ranks: int, chunks: int, rank: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the contents that a collective promises for output chunks, given by their rank and index.

    Parameters
    ----------
    kind : str
    root, ranks : int
    chunks : int
        Chunks of a rank's output.
    rank, index : ndarray of int64, shape (chunks,)

    Returns
    -------
    times : ndarray of int32, shape (chunks, ranks)
        How often each chunk must contain each rank's contribution.
    chunk : ndarray of int64, shape (chunks,)
        Which chunk of those ranks' inputs it is.

    Examples
    --------
    >>> times, chunk = promised("all_gather", 0, 2, 4, np.array([0, 0]), np.array([0, 3]))
    >>> times.tolist(), chunk.tolist()
    ([[1, 0], [0, 1]], [0, 1])
    """
    wanted = np.zeros((len(rank), ranks), np.int32)
    rows = np.arange(len(rank))
    if kind in ("all_reduce", "reduce_scatter", "reduce"):
        wanted[:] = 1
        return wanted, rank * chunks + index if kind == "reduce_scatter" else index
    if kind in ("all_gather", "gather", "all_to_all"):
        each = chunks // ranks  # chunks that come from one rank
        wanted[rows, index // each] = 1
        return wanted, index % each + (rank * each if kind == "all_to_all" else 0)
    if kind == "send_recv":
        wanted[rows, (rank - 1) % ranks] = 1
        return wanted, index
    wanted[:, root] = 1
    return wanted, rank * chunks + index if kind == "scatter" else index
