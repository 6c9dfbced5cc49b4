"""Answers for the view of the data: whose contributions are in which chunk, at the cursor."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.collectives import BUFFERS
from astranb.core.arrays import numbered
from astranb.core.errors import InputError
from astranb.engine.cacheline import sums
from astranb.widgets.feed import NOW, LineFeed, Message, View, pack

__all__ = ["VIEW", "chunks"]

_MOST_TICKS = 32
"""Up to so many ranks, each one's contribution is drawn; beyond, how many there are."""
_MOST_TEXTS = 1_100
_MOST_NUMBERS = 50_000_000  # ranks times slices: what working it out may take in memory
_COLUMNS = ("rank", "buffer", "chunk", "promised", "kept", "slices", "writing")


def chunks(feed: LineFeed, options: dict[str, Any]) -> Message:
    """The cells of a buffer, or of the fullest copies; for few ranks also who is in each, and all in words.

    Columns: what ``_COLUMNS`` names, the place in the row, how many ranks are in it, how many of
    them too often. For few ranks also, by cell and rank: how often it is in the slice that has it
    least and most often.
    """
    sim = feed.session.at(options.get("at_ps"))
    ranks = sim.engine.program.ranks
    if len(sim.engine.machine.slices) * ranks > _MOST_NUMBERS:
        raise InputError(f"{len(sim.engine.machine.slices):,} slices on {ranks} ranks are too many to draw")
    used = [BUFFERS[b] for b in sorted({int(b) for b in sim.engine.machine.slices["buffer"]})]
    able = (["fullest"] if sums(sim.engine) else []) + used
    buffer = str(options.get("buffer") or ("fullest" if sums(sim.engine) else "output"))
    found, output = sim.contributions(buffer), sim.contributions("output").cells
    cells = found.cells
    # Scratch may be numbered with gaps: the cells of a row are drawn side by side.
    place = cells["of_chunk"].copy()
    if buffer != "fullest":
        place[np.argsort(cells["rank"], kind="stable")] = numbered(np.bincount(cells["rank"], minlength=1))
    drawn = ranks <= _MOST_TICKS
    ticks = {"least": np.minimum(found.least, 255), "most": np.minimum(found.most, 255)} if drawn else {}
    buffers = pack(
        "chunks",
        **{name: cells[name] for name in _COLUMNS},
        place=place,
        there=(found.most > 0).sum(axis=1),
        twice=(found.most > 1).sum(axis=1),
        **ticks,
    )
    texts = [found.text(k) for k in range(len(cells))] if len(cells) <= _MOST_TEXTS else []
    meta = {
        "ranks": ranks,
        "cells": len(cells),
        "width": int(place.max(initial=-1)) + 1,
        "ticks": drawn,
        "texts": texts,
        "buffer": buffer,
        "able": able,
        "final": int(output["kept"].sum()),
        "promised_cells": int((output["promised"] > 0).sum()),
    }
    return meta, buffers


VIEW = View(LineFeed, {"chunks": chunks}, offline={"chunks": ({"buffer": "output", **NOW},)})
