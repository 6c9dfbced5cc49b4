"""The largest numbers that are accepted, wherever they are read."""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_CHANNELS", "MOST_RANKS", "MOST_SIZE_BYTES"]

MOST_RANKS: Final = 1 << 20
"""The largest number of ranks of a job, and so of any of its degrees of parallelism."""

MOST_SIZE_BYTES: Final = 1 << 48
"""The largest size of a message or collective."""

MOST_CHANNELS: Final = 1024
"""The largest number of channels (sets of thread blocks) of a collective: more than any GPU has SMs."""
