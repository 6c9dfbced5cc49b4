"""The buffer between two ranks by which NCCL sends: a FIFO of steps, which the receiver frees.

A sender stores to a slot of the receiver's buffer, and the receiver copies from there. Before it stores
to a slot again, the sender waits until the receiver has freed it. Source: NVIDIA/nccl @5067397c
(2.30.7), ``src/include/device.h`` and ``collectives.h`` (steps), ``src/init.cc`` (buffers),
``src/device/prims_simple.h``, ``prims_ll.h`` and ``prims_ll128.h`` (how they are used), without
registered buffers, to which a sender would store directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "BUFFER_BYTES",
    "FIRST_CALLED",
    "FIRST_SENT",
    "FIRST_SLOT",
    "NCCL_STEPS",
    "POSTED_LINES",
    "Cut",
    "first_of_slot",
    "index_name",
    "nccl_cut",
]

NCCL_STEPS: Final = 8
"""Steps of a buffer."""

BUFFER_BYTES: Final = {"LL": 524_288, "LL128": 4_915_200, "Simple": 4_194_304}
_DATA_BYTES: Final = {"LL": (1, 2), "LL128": (15, 16), "Simple": (1, 1)}
"""Half of LL's buffer are flags, and one in sixteen of LL128's."""
_SLICE_STEPS: Final = {"all_reduce": 2, "all_gather": 2, "reduce_scatter": 2}
_CHUNK_STEPS: Final = {"all_reduce": 4, "all_gather": 4, "reduce_scatter": 4}
_RING_STEP_PS: Final = {"LL128": 1_200_000}
"""Time of a ring's step besides what is simulated, so that a hop takes the 1.9 us of NCCL's table
(``src/graph/tuning.cc``). It is spent after a message, while the next one may be on its way."""
_LEAST_SLICE: Final = 32  # a slice of a chunk has at least one part in so many of the largest

POSTED_LINES: Final = 2048
"""Lines that an SM has under way where it stores packets to other nodes: half of LL's buffer. They wait
there for the NIC, not in registers."""

FIRST_CALLED: Final = 2**23
"""First index, in scratch, of the chunks of called algorithms."""
FIRST_SENT: Final = 2**24
"""First index, in scratch, of the chunks that a rank's NIC reads."""
FIRST_SLOT: Final = 2**25
"""First index, in scratch and packets, of the messages that are in slots; each buffer has as many indices."""


def index_name(index: int) -> str:
    """Name the index of a chunk as errors and views do.

    Examples
    --------
    >>> index_name(3), index_name(FIRST_SENT + 3), index_name(FIRST_SLOT + 3)
    ('3', 'sent 3', 'message 3')
    """
    if index >= FIRST_SLOT:
        buffer, message = divmod(index - FIRST_SLOT, FIRST_SLOT)
        return f"message {message}" + (f" of buffer {buffer}" if buffer else "")
    if index >= FIRST_SENT:
        return f"sent {index - FIRST_SENT}"
    return f"called {index - FIRST_CALLED}" if index >= FIRST_CALLED else str(index)


def first_of_slot(index: Any, ranks: int, slots: Sequence[int]) -> Any:
    """Return the index of the first message in the same slot of a buffer.

    A message's index is the first one of its buffer, a multiple of ``FIRST_SLOT``, its number times the
    ranks, and the rank that sends it.

    Parameters
    ----------
    index : int or ndarray of int64
    ranks : int
    slots : sequence of int
        How many each buffer has.

    Examples
    --------
    >>> first_of_slot(FIRST_SLOT + 4 * 9 + 1, ranks=4, slots=[8]) - FIRST_SLOT
    5
    """
    buffer, message = divmod(index, FIRST_SLOT)
    number, source = divmod(message, ranks)
    of = np.asarray(slots)[buffer - 1] if isinstance(index, np.ndarray) else slots[buffer - 1]
    return buffer * FIRST_SLOT + number % of * ranks + source


class Cut(NamedTuple):
    """Cut of a ring's chunk, and the number of slices that the buffer holds.

    Attributes
    ----------
    rounds : int
        How often the channel goes around the ring, for chunks that are larger than a part of the buffer.
    slices : int
        Slices of a chunk, each of which is announced.
    slots : int
        Slices that the buffer between two ranks holds.
    together : int
        Chunks that travel as one message, where a chunk is less than a step of the buffer takes.
    step_ps : int
        What a thread block takes for each message besides what is simulated.
    """

    rounds: int = 1
    slices: int = 1
    slots: int = 0
    together: int = 1
    step_ps: int = 0

    @property
    def of_channel(self) -> int:
        """Slices of each chunk that one channel moves."""
        return self.rounds * self.slices


def nccl_cut(collective: str, protocol: str, share_bytes: int, chunk_bytes: int | None = None) -> Cut:
    """Return how NCCL cuts what one channel moves of one rank's part of the data.

    Parameters
    ----------
    collective, protocol : str
    share_bytes : int
        What one channel moves of one rank's part.
    chunk_bytes : int, optional
        What a step of the buffer holds at most, of algorithms that announce every step (trees).

    Examples
    --------
    >>> nccl_cut("all_reduce", "Simple", 2**20)
    Cut(rounds=1, slices=2, slots=4, together=1, step_ps=0)
    >>> nccl_cut("all_reduce", "LL128", 2**13, 30_000)
    Cut(rounds=1, slices=1, slots=24, together=3, step_ps=0)
    """
    data, whole = _DATA_BYTES[protocol]
    step = BUFFER_BYTES[protocol] // NCCL_STEPS // whole * data
    if chunk_bytes or protocol != "Simple":
        step = min(step, chunk_bytes or step)
        together = max(1, step // share_bytes) if chunk_bytes else 1
        step_ps = 0 if chunk_bytes else _RING_STEP_PS.get(protocol, 0)
        return Cut(max(1, -(-share_bytes // step)), 1, NCCL_STEPS * together, together, step_ps)
    of_slice, of_chunk = _SLICE_STEPS.get(collective, 1), _CHUNK_STEPS.get(collective, 1)
    rounds = max(1, -(-share_bytes // (step * of_chunk)))
    each = -(-share_bytes // rounds)
    largest = step * of_slice
    slice_ = max(-(-each * of_slice // of_chunk), largest // _LEAST_SLICE)
    return Cut(rounds, max(1, -(-each // slice_)), NCCL_STEPS // of_slice)
