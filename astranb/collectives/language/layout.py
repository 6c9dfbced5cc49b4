"""Which chunks a program's inputs and outputs have, where ranks do not all have as many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ChunkLayout"]


@dataclass(frozen=True)
class ChunkLayout:
    """Inputs and outputs of chunks of one size, listed chunk by chunk, and what outputs must hold.

    Attributes
    ----------
    chunk_bytes : int
        Bytes of every chunk.
    inputs, outputs : ndarray of int64, shape (2, chunks)
        Rank and index of each chunk that there is, in ascending order.
    times : ndarray of int32, shape (outputs, ranks)
        How often each output must contain each rank's contribution at the end.
    item : ndarray of int64, shape (outputs,)
        Of which item it must be.
    slots : int
        Input chunks ``slots * i`` to ``slots * i + slots - 1`` are of item ``i``: they may be added.
    """

    chunk_bytes: int
    inputs: np.ndarray
    outputs: np.ndarray
    times: np.ndarray
    item: np.ndarray
    slots: int = 1

    def lines(self, line_bytes: int) -> int:
        """Return the lines that a chunk takes.

        Examples
        --------
        >>> import numpy as np
        >>> nothing = np.zeros((2, 0), np.int64)
        >>> ChunkLayout(7392, nothing, nothing, nothing, nothing[0]).lines(128)
        58
        """
        return -(-self.chunk_bytes // line_bytes)
