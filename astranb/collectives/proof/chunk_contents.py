"""Content of chunks: their contributions, and who has stored them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .check import MIXED

if TYPE_CHECKING:
    import numpy as np

    from astranb.collectives.language import Block

__all__ = ["Data"]


@dataclass(frozen=True)
class Data:
    """Data that an operation stores, or a chunk holds.

    ``times`` is how often each contribution is in it (each rank's, or by the columns of a layout),
    ``chunk`` of which chunk or item, and ``channel`` of which slice of it; ``writer`` is the operation
    that wrote it, and ``roundings`` is how often it has been rounded on its way, at most.
    """

    times: np.ndarray
    chunk: int
    channel: int
    writer: tuple[Block, int] | None = None
    roundings: int = 0

    def same(self, other: Data) -> bool:
        """Return whether the same is certainly in both."""
        alike = (self.chunk, self.channel) == (other.chunk, other.channel)
        return alike and self.chunk != MIXED and bool((self.times == other.times).all())
