"""A time-expanded schedule: which edge carries which chunk when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import reduce_at
from astranb.core.data_frames import frame
from astranb.core.state import require_bytes

from .condition import Condition
from .flows import Flows, passes_others
from .matching import WORD_BITS, ChunkSets, match, retime
from .network import RankNetwork
from .ways import along_ways

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Schedule", "drawn_schedule", "finished"]

Ints = NDArray[np.int64]

_SIGNAL_PS: Final = 1_700_000
_PACKETS: Final = {"LL": (216, 64, 100_000), "LL128": (216, 120, 400_000)}
"""Bytes that count for a line and those of data in it, and picoseconds until it is seen."""


@dataclass(frozen=True)
class Schedule:
    """Transfers of slices of chunks between ranks, in the order of their starts.

    Attributes
    ----------
    network : RankNetwork
    condition : Condition
    slices : int
        Slices of each chunk; slice S of chunk C has the number ``C * slices + S``.
    slice_bytes : int
    edge, chunk, start_ps, end_ps : ndarray of int64, shape (transfers,)
        The edge of the network, the number of the slice, its start, and its arrival.
    adds : ndarray of bool
        Whether it is a sum of contributions, to which the target adds its own.
    """

    network: RankNetwork
    condition: Condition
    slices: int
    slice_bytes: int
    edge: Ints
    chunk: Ints
    start_ps: Ints
    end_ps: Ints
    adds: NDArray[np.bool_]

    @property
    def time_ps(self) -> int:
        """Arrival time of the last slice."""
        return int(self.end_ps.max(initial=0))

    def expected_ps(self, protocol: str) -> int:
        """Return the time that is to be expected by cache lines, where lines have headers and blocks wait.

        Assumptions: a line of 128 B has a header of 16 B. By ``Simple``, a line also has an acknowledgement
        of 16 B, which shares the links the other way; a block that has stored a slice waits for
        acknowledgements, twice the latency, and 1.7 µs pass besides until the other rank sees the signal
        (measured: what a transfer of 128 B takes by cache lines with the default GPU). Two blocks of a port
        do so by turns. By ``LL`` and ``LL128`` a line carries 64 or 120 B, is sent on as soon as it has come,
        and needs 0.1 or 0.4 µs besides the latency; looking for flags and copying from packets take half of
        the time again (measured likewise, 64 KiB to 4 MiB).
        """
        tables = self.network.edges(self.slice_bytes)
        wire, data, besides_ps = _PACKETS.get(protocol, (160, 128, _SIGNAL_PS))
        busy_ps = tables.busy_ps * wire // data
        wire_ps = reduce_at(np.maximum, busy_ps[tables.port], tables.first_port[:-1])
        took_ps = self.network.latency_ps + besides_ps
        if protocol == "Simple":
            took_ps += self.network.latency_ps * 2 + wire_ps
            first = tables.port[tables.first_port[:-1]]
            np.maximum.at(busy_ps, first, self.network.latency_ps + besides_ps // 2)
        slowed = tables._replace(busy_ps=busy_ps, took_ps=took_ps)
        total = self.condition.chunks * self.slices
        ready_ps = np.zeros(self.network.ranks * total, np.int64)
        start_ps = retime(slowed, self.edge, self.chunk, ready_ps, chunks=total)
        return int(
            (start_ps + np.maximum(took_ps, self.network.latency_ps + wire_ps)[self.edge]).max(initial=0)
        )

    @property
    def source(self) -> Ints:
        """The rank that sends each."""
        return self.network.source[self.edge]

    @property
    def target(self) -> Ints:
        """The rank that gets each."""
        return self.network.target[self.edge]

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return one row for each transfer.

        Its columns are ``start_ps``, ``end_ps``, ``source``, ``target``, ``chunk``, ``slice`` and ``adds``;
        times are in the unit asked for, as ``"us"``.
        """
        chunk, part = np.divmod(self.chunk, self.slices)
        columns = {"start_ps": self.start_ps, "end_ps": self.end_ps, "source": self.source}
        return frame(
            {**columns, "target": self.target, "chunk": chunk, "slice": part, "adds": self.adds}, time
        )


def drawn_schedule(
    network: RankNetwork,
    condition: Condition,
    slices: int,
    slice_bytes: int,
    *,
    seed: int,
    looked: int,
    flows: Flows | None = None,
) -> Schedule:
    """Match links and chunks once, with numbers drawn from a seed.

    Where each chunk is needed by one rank only, it goes along a way of ``flows``, those of the condition.

    Sums are the reverse of copies: what spreads from a rank over a tree when time runs backwards is added
    on its way to that rank. A sum that several ranks need is made at one of them and copied from there.
    """
    before, after = (condition.matrix(side, network.ranks) for side in ("before", "after"))
    before, after = (np.repeat(side, slices, axis=1) for side in (before, after))
    wanted = after & ~before
    if flows is not None and wanted.sum(axis=0).max() <= 1:
        found = along_ways(network, flows, before, wanted, slice_bytes, seed=seed)
        return finished(network, condition, slices, slice_bytes, [], [found[:2]])
    if not condition.reduces:
        found = _matched(network, before, after, slice_bytes, seed, looked)
        return finished(network, condition, slices, slice_bytes, [], [found[:2]])
    owned = np.zeros_like(after)
    for number, rank in condition.owners.items():
        owned[rank, number * slices : (number + 1) * slices] = True
    edge, chunk, start_ps = _matched(
        network.reversed(), owned, before & owned.any(axis=0), slice_bytes, seed, looked
    )
    ends = start_ps + network.edges(slice_bytes).took_ps[edge]
    order = np.argsort(-ends, kind="stable")
    sums = [(edge[order], chunk[order])]
    copies = []
    if (after & ~owned).any():
        copies.append(_matched(network, owned, after, slice_bytes, seed, looked)[:2])
    return finished(network, condition, slices, slice_bytes, sums, copies)


def finished(
    network: RankNetwork,
    condition: Condition,
    slices: int,
    slice_bytes: int,
    sums: list[tuple[Ints, Ints]],
    copies: list[tuple[Ints, Ints]],
) -> Schedule:
    """Time the edges and chunks of sums, and then of copies, given in their order.

    Copies of sums begin when all sums are made.
    """
    tables = network.edges(slice_bytes)
    total = condition.chunks * slices
    rows: list[tuple[Ints, Ints, Ints, bool]] = []
    begin_ps = 0
    for parts, adds in ((sums, True), (copies, False)):
        for edge, chunk in parts:
            ready_ps = np.full(network.ranks * total, begin_ps, np.int64)
            start_ps = retime(tables, edge, chunk, ready_ps, chunks=total)
            rows.append((edge, chunk, start_ps, adds))
            begin_ps = int((start_ps + tables.took_ps[edge]).max(initial=begin_ps))
    edge, chunk, start = (
        np.concatenate([np.zeros(0, np.int64), *(row[k] for row in rows)]) for k in range(3)
    )
    adds_ = np.concatenate([np.zeros(0, bool), *(np.full(len(row[0]), row[3]) for row in rows)])
    order = np.argsort(start, kind="stable")
    edge, chunk, start, adds_ = edge[order], chunk[order], start[order], adds_[order]
    return Schedule(
        network, condition, slices, slice_bytes, edge, chunk, start, start + tables.took_ps[edge], adds_
    )


def _matched(
    network: RankNetwork, before: np.ndarray, after: np.ndarray, slice_bytes: int, seed: int, looked: int
) -> tuple[Ints, Ints, Ints]:
    """Match links and chunks until ranks have what they need."""
    ranks, chunks = before.shape
    wanted = after & ~before
    relayed = passes_others(before, after)
    words = -(-chunks // WORD_BITS)
    least = 8 * ranks * (4 * words + chunks * (2 if relayed else 1)) + 24 * int(wanted.sum())
    hint = "use fewer ranks or slices"
    require_bytes(least, where="synthesize", hint=hint)
    tables = network.edges(slice_bytes)
    held = _packed(before, words)
    supply = np.zeros((ranks, chunks), np.int64)
    if relayed:
        distance = network.times_ps(slice_bytes)
        nearest = np.full((chunks, ranks), 2**61, np.int64)
        for chunk in range(chunks):
            nearest[chunk] = distance[before[:, chunk]].min(axis=0, initial=2**61)
        closer = _closer(distance, nearest, wanted) & ~before
        useful = _packed(closer, words)
    else:
        distance = nearest = np.zeros((0, 0), np.int64)
        useful = _packed(wanted, words)
        for edge in range(len(tables.source)):
            supply[tables.target[edge], before[tables.source[edge]]] += tables.weight[edge]
    sets = ChunkSets(
        held, np.zeros_like(held), useful, _packed(wanted, words), wanted.sum(axis=1), supply.ravel(),
        before.sum(axis=0), distance.ravel(), nearest.ravel(),
    )  # fmt: skip
    most = int(wanted.sum()) if not relayed else int(wanted.any(axis=0).sum()) * ranks
    return match(tables, sets, chunks=chunks, seed=seed, looked=looked, most=most)


def _closer(distance: np.ndarray, nearest: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return which rank is closer than all holders of a chunk to a rank that needs it."""
    found = np.zeros_like(wanted)
    for chunk in range(wanted.shape[1]):
        ends = np.flatnonzero(wanted[:, chunk])
        found[:, chunk] = (distance[:, ends] < nearest[chunk, ends]).any(axis=1)
    return found


def _packed(chunks: np.ndarray, words: int) -> Ints:
    """Pack sets of chunks, one for each rank, into words."""
    padded = np.zeros((len(chunks), words * WORD_BITS), np.int64)
    padded[:, : chunks.shape[1]] = chunks
    bits = np.int64(1) << np.arange(WORD_BITS, dtype=np.int64)
    packed: Ints = (padded.reshape(len(chunks), words, WORD_BITS) * bits).sum(axis=2).ravel()
    return packed
