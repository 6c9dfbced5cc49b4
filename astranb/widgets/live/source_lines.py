"""At which line of its program's text each operation is, for a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.engine.cacheline import CacheLineEngine

__all__ = ["lines"]


def lines(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe the lines of the operations.

    Returns
    -------
    dict
        ``parts``: the name of each part of the text; ``places``: part (-1: not known) and line, in ascending
        order; ``sequences``: numbers of places, those of the operations of a thread block one after another;
        ``blocks``: of each thread block the number of its sequence. Many thread blocks have the same one.
    """
    source, blocks = engine.program.source, engine.machine.blocks
    unknown = np.full(len(engine.machine.ops), -1)
    part, line = (np.asarray(found) if len(found) else unknown for found in (source.part, source.line))
    places, of = np.unique(np.stack([part, line], axis=1), axis=0, return_inverse=True)
    of = of.reshape(-1)
    sequences: dict[tuple[int, ...], int] = {}
    numbers = [
        sequences.setdefault(tuple(of[first:last].tolist()), len(sequences))
        for first, last in zip(blocks["first_op"].tolist(), blocks["last_op"].tolist(), strict=True)
    ]
    parts = [part.name for part in source.parts]
    return {
        "parts": parts,
        "places": places.tolist(),
        "sequences": [list(one) for one in sequences],
        "blocks": numbers,
    }
