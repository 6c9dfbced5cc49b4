"""Contributions: which ranks' data each chunk of each rank holds, at any time of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.collectives import BUFFERS, MIXED, NOTHING, Contents, Joined, Promise, contents, promise
from astranb.collectives.language import index_name
from astranb.core.arrays import reduce_at
from astranb.core.errors import InputError, near
from astranb.core.jit import Records
from astranb.core.state import allocate

from .paths import resolve
from .state import CacheLineState

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CELL", "Contributions", "contributions", "holds", "roundings", "slice_contents", "sums"]

_MOST_NAMED = 8  # ranks in a sum that are named one by one

CELL = np.dtype(
    [
        ("rank", "i4"),
        ("buffer", "i4"),  # of ("input", "output", "scratch", "packets")
        ("chunk", "i4"),
        ("of_chunk", "i4"),  # which chunk of the ranks' inputs it is; NOTHING, MIXED
        ("slices", "i4"),  # channels that share it
        ("written", "i4"),  # slices that something has been written to, and is complete
        ("writing", "i4"),  # slices whose write is under way
        ("promised", "i4"),  # ranks whose contribution must be there at the end; 0: no promise
        ("kept", "i4"),  # 1: it is all that the collective promises
    ]
)
"""A chunk of a rank's buffer."""


@dataclass(frozen=True)
class Contributions:
    """Contents of every chunk of every rank.

    Attributes
    ----------
    cells : recarray of CELL, shape (chunks,)
        By rank, buffer and chunk.
    least, most : ndarray of int32, shape (chunks, ranks)
        How often each rank's contribution is in the chunk: in the slice of it that has it
        least often, and in the one that has it most often. They differ while some channels are
        further than others; 2 is one time too many.
    now_ps : int
        When.
    """

    cells: Records
    least: np.ndarray
    most: np.ndarray
    now_ps: int

    def text(self, number: int) -> str:
        """Describe what a cell holds, as ``GPU2 output[3]: 0+1+2 of 8``."""
        cell, least, most = self.cells[number], self.least[number], self.most[number]
        ranks = len(most)
        name = f"GPU{cell.rank} {BUFFERS[cell.buffer]}[{index_name(cell.chunk)}]"
        there = [int(r) for r in np.flatnonzero(most)]
        if not there:
            held = "nothing" if cell.of_chunk == NOTHING and not cell.writing else "nothing complete yet"
        elif len(there) > _MOST_NAMED:
            lacking = [str(r) for r in range(ranks) if not most[r]]
            few = f", all but {'+'.join(lacking)}" if 0 < len(lacking) <= _MOST_NAMED else ""
            held = f"{len(there)} ranks{few}"
        else:
            held = "+".join(str(r) for r in there for _ in range(most[r]))
        parts = [f"{held} of {cell.promised}" if cell.promised and there else held]
        twice = [str(r) for r in there if most[r] > 1]
        if twice:
            parts.append(f"wrong: rank {', '.join(twice)} is in it more than once")
        if cell.of_chunk == MIXED and there and not cell.writing:
            parts.append("of different chunks, or torn")
        if (least != most).any():
            parts.append(f"in some of its {cell.slices} channels")
        if cell.writing:
            parts.append("being written")
        if cell.kept:
            parts.append("final")
        return f"{name}: {', '.join(parts)}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a chunk and contributing rank: ``rank, buffer, chunk, of, least, most, kept``."""
        import pandas as pd

        cell, of = np.nonzero(self.most)
        rows = self.cells[cell]
        return pd.DataFrame(
            {
                "rank": rows["rank"],
                "buffer": pd.Categorical([BUFFERS[k] for k in rows["buffer"]], categories=list(BUFFERS)),
                "chunk": rows["chunk"],
                "of": of,
                "least": self.least[cell, of],
                "most": self.most[cell, of],
                "kept": rows["kept"].astype(bool),
            }
        )


def holds(engine: CacheLineState, name: str) -> list[Any]:
    """Return the ranks whose data each chunk of a buffer holds now, each as often as it is in it."""
    match = re.fullmatch(rf"(.+?)\.({'|'.join(BUFFERS)})(?:\[(\d{{1,9}})\])?", name.strip())
    if match is None:
        hint = f"write gpu[0].output, or gpu[0].output[3]; buffers are {', '.join(BUFFERS)}"
        raise InputError(f"{name!r:.80} is not a buffer", where="holds", hint=hint)
    place = resolve(match[1], engine.fabric, engine.machine)
    if place.kind != "gpu":
        raise InputError(f"{place.path} is not a GPU", where="holds", hint="write gpu[0].output")
    found = contributions(engine, match[2])
    mine = np.flatnonzero(found.cells["rank"] == place.row)
    ranks = [np.repeat(np.arange(found.least.shape[1]), found.least[cell]).tolist() for cell in mine]
    if match[3] is None:
        return ranks
    chunks = found.cells["chunk"][mine].tolist()
    if int(match[3]) not in chunks:
        hint = f"they count from 0 to {chunks[-1]}" if chunks else "the buffer is not used"
        raise InputError(f"{place.path} has no chunk {match[3]} in {match[2]}", where="holds", hint=hint)
    return list(ranks[chunks.index(int(match[3]))])


def slice_contents(engine: CacheLineState) -> tuple[Contents, Promise]:
    """Return the contents of every slice of memory now, and what the collective promises of them."""
    machine, collective = engine.machine, engine.work
    held = contents(engine.program, machine.ops, machine.operands, machine.slices)
    if isinstance(engine.program, Joined):
        return held, engine.program.promise()
    return held, promise(engine.program, collective.name, collective.root, machine.slices)


def roundings(engine: CacheLineState) -> tuple[int, str] | None:
    """Return the largest number of roundings of a result, also in words; None where it is not known."""
    layout = engine.program.layout
    if layout is None or not layout.reduction.rounds:
        return None
    held, promised = slice_contents(engine)
    found = held.roundings[promised.slices]
    several = (promised.times.sum(axis=1) > 1).tolist()
    counts = zip(found.tolist(), several, strict=True)
    most = max((layout.reduction.of_output(count, 1 + more) for count, more in counts), default=0)
    return most, layout.reduction.text(most)


def sums(engine: CacheLineState) -> bool:
    """Return whether ranks hold copies of the same chunks, so that the fullest one can be sought."""
    layout = engine.program.layout
    name = engine.work.name if layout is None else layout.base
    return name in (
        "all_reduce",
        "reduce_scatter",
        "reduce",
        "broadcast",
        "scatter",
    )


def contributions(engine: CacheLineState, buffer: str | None = None) -> Contributions:
    """Find whose contributions are in which chunk now.

    Parameters
    ----------
    engine : CacheLineState
    buffer : str, optional
        ``input``, ``output``, ``scratch`` or ``packets``; all where not given; ``fullest``: of
        each rank and chunk of the data the copy, in whatever buffer, with the most in it.

    Raises
    ------
    InputError
        There is no such buffer, or the collective's ranks do not hold the same chunks.
    """
    if buffer == "fullest":
        if not sums(engine):
            raise InputError(
                f"ranks of {engine.work.name} hold different data: no copy is the fullest",
                where="contributions",
                hint="take a buffer, as output",
            )
        return _fullest(contributions(engine))
    if buffer is not None and buffer not in BUFFERS:
        raise InputError(f"unknown buffer {buffer!r}", where="contributions", hint=near(buffer, BUFFERS))
    slices = engine.machine.slices
    held, promised = slice_contents(engine)
    wanted = np.zeros(len(slices), np.int32)
    kept = np.zeros(len(slices), bool)
    by_rank = engine.program.by_rank
    wanted[promised.slices] = (by_rank(promised.times) > 0).sum(axis=1)
    kept[promised.slices] = promised.kept(held)
    real = slices["lines"] > 0
    if buffer is not None:
        real &= slices["buffer"] == BUFFERS.index(buffer)
    # The table is sorted by rank, buffer and chunk: slices of a chunk are adjacent.
    number = np.flatnonzero(real)
    mine = slices[number]
    keys = np.stack([mine["gpu"], mine["buffer"], mine["chunk"]], axis=1)
    new = np.append(np.ones(min(1, len(keys)), bool), (keys[1:] != keys[:-1]).any(axis=1))
    starts = np.flatnonzero(new)
    cells = allocate(len(starts), CELL)
    ranks = engine.program.ranks
    if not len(starts):
        none = np.zeros((0, ranks), np.int32)
        return Contributions(cells, none, none, engine.now_ps)
    cells["rank"], cells["buffer"], cells["chunk"] = (mine[n][starts] for n in ("gpu", "buffer", "chunk"))
    of_chunk, writing = held.chunk[number], mine["writing"] >= 0
    if engine.program.layout is not None:  # the chunk of the first contribution to its item
        of_chunk = np.where(of_chunk >= 0, engine.program.layout.inputs[1, np.maximum(0, of_chunk)], of_chunk)
    complete = (of_chunk != NOTHING) & ~writing
    least, most = reduce_at(np.minimum, of_chunk, starts), reduce_at(np.maximum, of_chunk, starts)
    cells["of_chunk"] = np.where(least == most, most, np.where(least == NOTHING, most, MIXED))
    for name, column in (
        ("slices", np.ones(len(number), np.int32)),
        ("written", complete.astype(np.int32)),
        ("writing", writing.astype(np.int32)),
    ):
        cells[name] = reduce_at(np.add, column, starts)
    cells["promised"] = reduce_at(np.maximum, wanted[number], starts)
    cells["kept"] = reduce_at(np.logical_and, kept[number], starts)
    times = by_rank(held.times[number])
    return Contributions(
        cells,
        reduce_at(np.minimum, times, starts, axis=0),
        reduce_at(np.maximum, times, starts, axis=0),
        engine.now_ps,
    )


def _fullest(found: Contributions) -> Contributions:
    """Of each rank and chunk of the data the cell that is final, else has most, else is an output."""
    cells = found.cells
    known = np.flatnonzero(cells["of_chunk"] >= 0)
    output = cells["buffer"][known] == BUFFERS.index("output")
    there = (found.least[known] > 0).sum(axis=1)
    order = np.lexsort((output, there, cells["kept"][known], cells["of_chunk"][known], cells["rank"][known]))
    known = known[order]
    keys = np.stack([cells["rank"][known], cells["of_chunk"][known]], axis=1)
    last = np.append((keys[1:] != keys[:-1]).any(axis=1), np.ones(min(1, len(keys)), bool))
    best = known[last]
    chosen = cells[best].copy()
    chosen["promised"] = cells["promised"].max(initial=0)
    return Contributions(chosen, found.least[best], found.most[best], found.now_ps)
