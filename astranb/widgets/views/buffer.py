"""The addresses of a buffer as a picture: a row a chunk, cells of as many lines as there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.collectives import BUFFERS
from astranb.collectives.language import index_name
from astranb.core.errors import InputError
from astranb.engine.cacheline import BufferContent, buffer_of
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, LineFeed, Message, View, pack

__all__ = ["VIEW", "cell"]

_MOST_CELLS = 200_000
_NAMED = 10  # ranks that are named one by one


def answer(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Answer with the contents of a buffer at the cursor.

    Options: ``rank``, ``buffer``, ``at_ps`` (null: now), ``columns`` (most cells of a chunk). Answer:
    ``chunks`` and their ``names``, ``columns`` and ``fold`` (lines of a cell); for each chunk and column how
    much has arrived (255: all), the rank that most of it came from (65535: none), of how many ranks the sum
    is at least, and 1 where it is final (2: beyond the end of its chunk).
    """
    sim, found, rank, name = _found(feed, options)
    indices, row = _rows(sim, found)
    width, fold = _shape(sim, found, row, int(options.get("columns", 256)))
    cell_of = _cells(found, row, width, fold)
    count = len(indices) * width
    arrived = np.bincount(cell_of, found.arrived, count)
    total = np.bincount(cell_of, minlength=count)
    source = _most(cell_of, found.source, count, sim.engine.program.ranks)
    ranks_in = np.append((found.times > 0).sum(axis=1), 0)[found.number]
    least = np.full(count, 2**16 - 1)
    np.minimum.at(least, cell_of, np.where(found.arrived, ranks_in, 2**16 - 1))
    state = np.full(count, 2)
    state[total > 0] = 0
    final = np.bincount(cell_of, np.repeat(found.final, np.diff(found.first)), count)
    state[(total > 0) & (final == total)] = 1
    used = [b for b in BUFFERS if _has(sim, rank, b)]
    meta = {
        "rank": rank, "buffer": name, "used": used, "of": _largest(found), "chunks": len(indices),
        "names": [index_name(int(index)) for index in indices],
        "columns": width, "fold": fold, "by_line": found.by_line,
        "lines": len(cell_of), "arrived_lines": int(found.arrived.sum()), "final": int(final.sum()),
    }  # fmt: skip
    return meta, pack(
        "buffer",
        arrived=np.round(255 * arrived / np.maximum(1, total)),
        source=np.where(source < 0, 65535, source),
        ranks=np.where(arrived > 0, least, 0),
        state=state,
    )


def cell(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Describe what a cell of the picture holds: its ``chunk`` and ``column``, else as :func:`answer`."""
    sim, found, rank, name = _found(feed, options)
    row = _rows(sim, found)[1]
    width, fold = _shape(sim, found, row, int(options.get("columns", 256)))
    cell_of = _cells(found, row, width, fold)
    here = np.flatnonzero(cell_of == int(options["chunk"]) * width + int(options["column"]))
    if not len(here):
        return {"text": "", "source": -1}, []
    slice_ = np.searchsorted(found.first, here, "right") - 1
    table = sim.engine.machine.slices[found.slices]
    channel, index = int(table["channel"][slice_[0]]), here - found.first[slice_]
    here, index = here[slice_ == slice_[0]], index[slice_ == slice_[0]]
    lines = int(table["lines"][slice_[0]])
    span = f"line {index[0] + 1}" if len(index) == 1 else f"lines {index[0] + 1} to {index[-1] + 1}"
    notes = [f"GPU{rank} {name}[{index_name(int(table['chunk'][slice_[0]]))}]"]
    if sim.engine.program.channels > 1:
        notes.append(f"channel {channel}")
    notes.append(f"{span} of {lines}")
    arrived = here[found.arrived[here]]
    source = -1
    if not len(arrived):
        notes.append("not arrived")
    else:
        source = int(np.argmax(np.bincount(found.source[arrived])))
        if len(arrived) < len(here):
            notes.append(f"{len(arrived)} of {len(here)} arrived")
        notes.append("brought by itself" if name == "input" and source == rank else f"from GPU{source}")
        notes.append(_contributions(found.times[found.number[arrived[0]]]))
        notes.append("final" if found.final[slice_[0]] else "partial: more is to come")
    return {"text": " · ".join(notes), "source": source}, []


def _contributions(times: np.ndarray) -> str:
    """``sum of ranks 0+1+2 (3 of 8)``."""
    sources = np.flatnonzero(times)
    if not len(sources):
        return "no rank's data"
    names = "+".join(str(r) for r in np.repeat(sources, times[sources])[:_NAMED])
    more = "+…" if times.sum() > _NAMED else ""
    word = "data of rank" if times.sum() == 1 else "sum of ranks"
    return f"{word} {names}{more} ({len(sources)} of {len(times)})"


def _found(feed: LineFeed, options: dict[str, Any]) -> tuple[Simulation, BufferContent, int, str]:
    sim = feed.session.at(options.get("at_ps"))
    rank, name = int(options.get("rank", 0)), str(options.get("buffer", "output"))
    return sim, buffer_of(sim.engine, rank, name), rank, name


def _largest(found: BufferContent) -> int:
    """Of how many ranks the largest sum in the buffer is."""
    return int((found.times > 0).sum(axis=1).max(initial=1))


def _has(sim: Simulation, rank: int, name: str) -> bool:
    table = sim.engine.machine.slices
    return bool(((table["gpu"] == rank) & (table["buffer"] == BUFFERS.index(name))).any())


def _rows(sim: Simulation, found: BufferContent) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the buffer's chunks, a row each, and the row of each of its slices."""
    return np.unique(sim.engine.machine.slices["chunk"][found.slices], return_inverse=True)


def _shape(sim: Simulation, found: BufferContent, row: np.ndarray, most: int) -> tuple[int, int]:
    """Cells a chunk, and lines a cell."""
    chunks = int(row.max()) + 1
    if chunks > _MOST_CELLS:
        raise InputError(f"{chunks:,} chunks are too many to draw", where="buffer")
    longest = int(np.bincount(row, sim.engine.machine.slices["lines"][found.slices]).max())
    most = max(1, min(most, _MOST_CELLS // chunks, 1024))
    fold = max(1, -(-longest // most))
    return max(1, -(-longest // fold)), fold


def _cells(found: BufferContent, of_slice: np.ndarray, width: int, fold: int) -> np.ndarray:
    """Return the cell of each line."""
    row: np.ndarray = np.repeat(of_slice, np.diff(found.first))
    starts = np.full(int(of_slice.max(initial=0)) + 1, len(row))
    np.minimum.at(starts, row, np.arange(len(row)))
    cell_of: np.ndarray = row * width + (np.arange(len(row)) - starts[row]) // fold
    return cell_of


def _most(cell_of: np.ndarray, source: np.ndarray, count: int, ranks: int) -> np.ndarray:
    """The rank that most lines of each cell came from; -1 where none has come."""
    arrived = source >= 0
    pair, times = np.unique(cell_of[arrived] * ranks + source[arrived], return_counts=True)
    order = np.argsort(times, kind="stable")
    found = np.full(count, -1)
    found[pair[order] // ranks] = pair[order] % ranks
    return found


VIEW = View(
    LineFeed,
    {"buffer": answer, "cell": cell},
    offline={"buffer": tuple({"rank": rank, "buffer": "output", **NOW} for rank in range(8))},
)
