"""The tags of the L2: which lines are in it, and which of them have to be written back."""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel

__all__ = ["EMPTY", "fill", "find", "set_of"]

EMPTY: Final = -1
"""Tag of a way without a line; others hold 2 x line, + 1 if it is dirty.

Where no line is ever evicted, one byte a line (``present``) is enough.
"""


@kernel
def set_of(gpus: Records, gpu: int, line: int) -> int:
    """First way of a line's set: another hash than that of the slices (Knuth's other constant)."""
    number = ((np.int64(line) * 2246822519) & 0xFFFFFFFF) * gpus[gpu].sets >> 32
    return gpus[gpu].first_tag + number * gpus[gpu].l2_ways


@kernel
def find(gpus: Records, tags: Records, present: Records, gpu: int, line: int, dirty: int) -> int:
    """Look a line up, and make it the one used last: returns 1 if it is there.

    Parameters
    ----------
    gpus, tags, present : recarray
    gpu, line : int
    dirty : int
        1 if it is being written.
    """
    if gpus[gpu].direct:
        return int(present[gpus[gpu].first_tag + line])
    first = set_of(gpus, gpu, line)
    if tags[first] >> 1 == line:
        tags[first] |= dirty
        return 1
    for way in range(first + 1, first + gpus[gpu].l2_ways):
        tag = tags[way]
        if tag == EMPTY:
            return 0
        if tag >> 1 == line:
            # Ways are kept in the order of their use.
            for place in range(way, first, -1):
                tags[place] = tags[place - 1]
            tags[first] = tag | dirty
            return 1
    return 0


@kernel
def fill(gpus: Records, tags: Records, present: Records, gpu: int, line: int, dirty: int) -> int:
    """Put a line that is not there in, in place of the one used longest ago.

    Returns
    -------
    int
        The line that has to be written back, or -1.
    """
    if gpus[gpu].direct:
        present[gpus[gpu].first_tag + line] = 1
        return -1
    first = set_of(gpus, gpu, line)
    last = first + gpus[gpu].l2_ways - 1
    out = tags[last]
    for place in range(last, first, -1):
        tags[place] = tags[place - 1]
    tags[first] = 2 * line + dirty
    return out >> 1 if out != EMPTY and out & 1 else -1
