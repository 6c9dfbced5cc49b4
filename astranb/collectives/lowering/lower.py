"""From a program to the tables that the machine runs: slices, operands, operations, blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from math import gcd
from typing import Any, Protocol

import numpy as np

from astranb.collectives.language import (
    BUFFERS,
    FIRST_SLOT,
    KINDS,
    SWITCH_READS,
    Block,
    Chunk,
    ChunkLayout,
    Operation,
    Program,
    ProgramError,
    ProgramSource,
    TileShape,
    first_of_slot,
    in_order,
    source_of,
)
from astranb.core.arrays import reduce_at
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.progress import share, stage
from astranb.core.state import allocate
from astranb.gpu import tables as t

from .columns import ChunkKeys, ProgramColumns, columns_of, distinct
from .fences import moves_behind, paces_of

__all__ = ["Extents", "Lowered", "check_packets", "lower", "tile_work"]

_PACKET_DATA = {"LL": (1, 2), "LL128": (120, 128)}
# The fraction of a line of packets that is data: LL has 4 B of flag for 4 B of data, LL128
# 8 B of flag in 128 B (NCCL, src/device/prims_ll.h and prims_ll128.h).
_UNITS = {"sm": 0, "engine": t.COPY_ENGINE, "nic": t.NIC}
_KINDS = {
    "move": t.MOVE, "signal": t.NOTIFY, "wait": t.WAIT, "fence": t.FLUSH, "compute": t.COMPUTE,
    "waitcnt": t.FLUSH, "tile": t.TILE, "spend": t.SPEND,
}  # fmt: skip
_MOVE, _TILE = KINDS.index("move"), KINDS.index("tile")


class _Tiled(Protocol):
    """A tile as a GPU computes it: steps, the lines of both operands that each loads, and its time.

    ``stages`` steps are under way at once; the block holds ``held`` of :data:`~astranb.gpu.tables.ROOM`.
    """

    @property
    def steps(self) -> int: ...
    @property
    def row_lines(self) -> int: ...
    @property
    def column_lines(self) -> int: ...
    @property
    def step_ps(self) -> int: ...
    @property
    def stages(self) -> int: ...
    @property
    def held(self) -> int: ...


@dataclass(frozen=True)
class Lowered:
    """A program as tables, with rank r on GPU r and the memory of every rank laid out.

    Attributes
    ----------
    blocks, ops, operands, slices, semaphores, phases : recarray
        Of the dtypes of the same name in :mod:`astranb.gpu.tables`; blocks are sorted by
        rank, the operations of a block are consecutive.
    tiles : recarray
        What each operation that computes a tile does, by its ``value``.
    flags : int
        Number of flags of packets, one for each line.
    layout : ChunkLayout, optional
        What outputs must hold, where it does not follow from the collective.
    sms, lines_per_sm : int
        SMs of each GPU that take its thread blocks, and lines that one keeps under way at least; 0: all,
        and as the preset says.
    block_channel : ndarray of int64, shape (blocks,)
        The channel of each block.
    lines : ndarray of int64, shape (ranks,)
        Lines of memory that each rank uses.
    phase_names : tuple of str
    name : str
    line_bytes : int
    source : ProgramSource
        The text of the program, and the line of every operation.
    """

    name: str
    ranks: int
    channels: int
    line_bytes: int
    phase_names: tuple[str, ...]
    blocks: Records
    ops: Records
    operands: Records
    slices: Records
    semaphores: Records
    phases: Records
    block_channel: np.ndarray
    lines: np.ndarray
    tiles: Records = field(default_factory=lambda: allocate(0, t.TILE_WORK))
    flags: int = 0
    layout: ChunkLayout | None = None
    sms: int = 0
    lines_per_sm: int = 0
    source: ProgramSource = field(default_factory=ProgramSource)

    def by_rank(self, times: np.ndarray) -> np.ndarray:
        """Return how often something of each rank is there, from how often each contribution is."""
        return times if self.layout is None else self.layout.by_rank(times)


def lower(
    program: Program,
    *,
    kind: str,
    size: int,
    line_bytes: int = 128,
    unroll: int = 1,
    bulk_lines: int = 1,
    engine_lines: int = 1,
    nic_lines: int = 1,
    nic_post_ps: int = 0,
    tiled: Callable[[TileShape], _Tiled] | None = None,
    tile_lines: int = 1,
) -> Lowered:
    """Lay out memory, cut chunks into slices and convert operations to tables.

    Parameters
    ----------
    program : Program
        As an algorithm built it.
    kind : str
        The collective, which determines the size of each chunk.
    size : int
        Bytes of the larger buffer of a rank.
    line_bytes : int
        Bytes of a cache line.
    unroll : int
        Lines that one warp keeps under way.
    bulk_lines, engine_lines, nic_lines : int
        Lines that one instruction of a thread block, or one request of a copy engine or NIC, moves.
    nic_post_ps : int
        Time from a doorbell until a NIC begins.
    tiled : callable, optional
        How the GPU computes a tile: needed where the program has products.
    tile_lines : int
        Lines of a product's operands that travel as one request, at most.

    Raises
    ------
    InputError
        A move between chunks of different sizes, or from scratch that is never written.
    """
    if not program.blocks:
        raise InputError("the algorithm added no thread block", where=f"program {program.name!r}")
    stage("operations", 0.7)
    order = in_order(program)
    c = columns_of(program, order)
    if program.layout is not None:
        buffer, index = program.layout.placed(c.rank, c.buffer, c.index)
        c = replace(c, buffer=buffer, index=index)
    part, whole = (1, 1) if program.poisoned else _PACKET_DATA.get(program.protocol, _PACKET_DATA["LL"])
    packet_bytes = line_bytes * part // whole
    slices, slice_of, lines, flags = _slices(
        program, c, Extents(program, kind, size, line_bytes), packet_bytes
    )
    share(1, 3)
    semaphores = _semaphores(program, lines)
    units = np.array([_UNITS[program.blocks[b].unit] for b in order], np.int64)
    _check_packets(program, order, c)
    bulk = (bulk_lines, engine_lines, nic_lines)
    ops, operands = _operations(c, units, slice_of, slices, semaphores, line_bytes, packet_bytes, bulk)
    tiles, held = _tiles(program, c, ops, operands, tiled, line_bytes, tile_lines)
    posting = (units[ops["block"]] == t.NIC) & (ops["kind"] == t.COMPUTE)
    ops["kind"][posting], ops["value"][posting] = t.SPEND, nic_post_ps
    spending = ops["kind"] == t.SPEND
    ops["left"][spending], ops["value"][spending] = ops["value"][spending], 0
    share(1, 1)
    blocks = allocate(len(order), t.BLOCK)
    blocks["gpu"] = [program.blocks[b].rank for b in order]
    blocks["first_op"] = c.first_op[:-1]
    blocks["last_op"] = c.first_op[1:]
    blocks["engine"] = units
    listed = [program.blocks[b] for b in order]
    blocks["warps"] = [block.warp_count or -(-block.lines_ahead // unroll) for block in listed]
    blocks["role"] = [
        0 if block.thread_block is None else block.thread_block.roles.index(block) for block in listed
    ]
    shares = np.array([block.per_sm for block in listed], np.int64)
    blocks["held"] = np.where(shares > 0, t.ROOM // np.maximum(1, shares), np.where(held > 0, held, t.SHARE))
    blocks["held"][blocks["role"] > 0] = 0  # the first role holds the place of all
    blocks["kernel"] = [program.blocks[b].kernel for b in order]
    phase_names = tuple(program.phases) or (program.name,)  # every operation is of a phase
    phases = allocate(len(phase_names), t.PHASE)
    phases["left"] = np.bincount(ops["phase"], minlength=len(phase_names))
    phases["started_ps"] = phases["ended_ps"] = -1
    return Lowered(
        name=program.name,
        ranks=program.ranks,
        channels=program.channels,
        line_bytes=line_bytes,
        phase_names=phase_names,
        blocks=blocks,
        ops=ops,
        operands=operands,
        slices=slices,
        semaphores=semaphores,
        phases=phases,
        block_channel=np.array([program.blocks[b].channel for b in order], np.int64),
        lines=lines,
        tiles=tiles,
        flags=flags,
        layout=program.layout,
        sms=program.sms,
        lines_per_sm=program.lines_per_sm,
        source=source_of(list(program.lines), c.line),
    )


def check_packets(program: Program, block: Block, op: Operation) -> None:
    """Check that no switch adds packets: their flags would be summed too. What is poisoned has no flags."""
    if program.poisoned and all(chunk.buffer != "packets" for chunk in op.sources):
        return
    if op.in_switch & SWITCH_READS and any(chunk.buffer == "packets" for chunk in (*op.sources, *op.targets)):
        raise ProgramError(
            "cannot be simulated: packets that a switch adds",
            op.line,
            where=f"program {program.name!r}, rank {block.rank}",
        )


def _check_packets(program: Program, order: list[int], c: ProgramColumns) -> None:
    """Raise the error of :func:`check_packets` for the first operation that has one."""
    packed = np.bincount(c.op[c.buffer == BUFFERS.index("packets")], minlength=len(c.kind)) > 0
    for op in np.flatnonzero(packed & (c.in_switch & SWITCH_READS > 0))[:1].tolist():
        block = program.blocks[order[c.block[op]]]
        check_packets(program, block, block.operations[op - int(c.first_op[c.block[op]])])


class Extents:
    """The lines and bytes of every slice.

    Inputs and outputs follow from the collective: its data is ceil(size / line) lines,
    cut into equal chunks of whole lines, of which the last ones may be short or empty;
    or from the program's layout, which has a size for each chunk.
    A slice of scratch is as large as what is stored there.
    """

    def __init__(self, program: Program, kind: str, size: int, line_bytes: int) -> None:
        self.program, self.kind, self.size, self.line_bytes = program, kind, size, line_bytes
        self.parts = max(program.input_chunks, program.output_chunks)
        total = -(-size // line_bytes)
        self.chunk_lines = -(-total // self.parts)
        self.total = total

    @property
    def uniform(self) -> bool:
        """Whether all slices of inputs and outputs have the same size."""
        layout = self.program.layout
        if layout is not None:
            sizes = np.concatenate([layout.inputs[2], layout.outputs[2]])
            least, most = int(sizes.min(initial=sizes.max(initial=0))), int(sizes.max(initial=0))
            cut = 1 if layout.whole else self.program.width
            whole = cut == 1 or most % (cut * self.line_bytes) == 0
            return not self.program.weights and 0 < least == most and whole
        slices = self.parts * self.program.width
        each = -(-self.chunk_lines // self.program.width)
        return not self.program.weights and self.size == slices * each * self.line_bytes

    def _part(self, buffer: str, rank: Any, index: Any) -> Any:
        """Return the part of the data that chunks of one buffer are: integers, or arrays of them."""
        if self.kind == "custom":
            return index
        count = self.program.input_chunks if buffer == "input" else self.program.output_chunks
        if self.kind == "all_to_all" and buffer == "output":
            each = count // self.program.ranks  # what comes from a rank is its chunks for this rank
            return rank * each + index % each
        return rank * count + index if count < self.parts else index

    def _cut(self, lines: Any, number: Any) -> tuple[Any, Any]:
        """Return the first line and the number of lines of a slice of chunks: all alike, or by weight."""
        weights = np.cumsum([0.0, *self.program.weights])
        if len(weights) == 1:
            each = -(-lines // self.program.width)
            return number * each, each
        each = -(-lines // self.program.channels)
        channel, part = number // (len(weights) - 1), number % (len(weights) - 1)
        first, end = (np.rint(each * weights[of] / weights[-1]).astype(np.int64) for of in (part, part + 1))
        return channel * each + first, end - first

    def of_part(self, part: int, channel: int) -> tuple[int, int]:
        """Lines and bytes of one channel's slice of one part of the data."""
        end = min(self.total, (part + 1) * self.chunk_lines)
        first, most = map(int, self._cut(self.chunk_lines, channel))
        first += part * self.chunk_lines
        lines = max(0, min(end - first, most))
        return lines, min(lines * self.line_bytes, max(0, self.size - first * self.line_bytes))

    def of_each(self, chunks: Iterable[Chunk]) -> dict[Chunk, tuple[int, int]]:
        """Lines and bytes of input and output chunks."""
        listed = list(dict.fromkeys(chunks))
        rows = [(c.rank, BUFFERS.index(c.buffer), c.index, c.channel) for c in listed]
        lines, size = self.of_chunks(np.array(rows, np.int64).reshape(-1, 4).T)
        return dict(zip(listed, zip(lines.tolist(), size.tolist(), strict=True), strict=True))

    def of_chunks(self, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lines and bytes of input and output chunks: rows of rank, buffer, index and channel."""
        rank, buffer, index, channel = chunks
        if self.program.layout is not None:
            return self._of_layout(self.program.layout, chunks)
        part = np.where(buffer == 0, self._part("input", rank, index), self._part("output", rank, index))
        end = np.minimum(self.total, (part + 1) * self.chunk_lines)
        first, most = self._cut(self.chunk_lines, channel)
        first = first + part * self.chunk_lines
        lines = np.maximum(0, np.minimum(end - first, most))
        return lines, np.minimum(lines * self.line_bytes, np.maximum(0, self.size - first * self.line_bytes))

    def _of_layout(self, layout: ChunkLayout, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lines and bytes of slices of the chunks of a layout; a chunk that does not exist is an error."""
        rank, buffer, index, channel = chunks
        size = np.zeros(len(index), np.int64)
        for number, of in enumerate((layout.inputs, layout.outputs)):
            mine = np.flatnonzero(buffer == number)
            at = layout.find(BUFFERS[number], rank[mine], index[mine])
            for row in mine[at < 0][:1].tolist():
                raise InputError(
                    f"{BUFFERS[number]}[{index[row]}] of rank {rank[row]} does not exist",
                    where=f"program {self.program.name!r}",
                )
            size[mine] = of[2, at]
        lines = -(-size // self.line_bytes)
        if layout.whole:
            return lines, size
        first, most = self._cut(lines, channel)
        lines = np.clip(lines - first, 0, most)
        return lines, np.minimum(lines * self.line_bytes, np.maximum(0, size - first * self.line_bytes))

    def _fixed(self, chunk: Chunk, size: int) -> tuple[int, int]:
        """Return the lines and bytes of a chunk that a product reads or stores."""
        if chunk.buffer in ("input", "output"):
            found = self.of_each([chunk])[chunk]
            if found[1] != size:
                raise ProgramError(
                    f"{chunk} has {found[1]:,} B, a product reads or stores {size:,} B there",
                    None,
                    where=f"program {self.program.name!r}",
                    hint="choose the size, the number of slices or the tile so that a slice is a tile",
                )
        return -(-size // self.line_bytes), size

    def fixed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the chunks of products (rank, buffer, index and channel), and their lines and bytes."""
        chunks = [(c.rank, BUFFERS.index(c.buffer), c.index, c.channel) for c in self.program.fixed]
        sizes = [self._fixed(*item) for item in self.program.fixed.items()]
        return np.array(chunks, np.int64).reshape(-1, 4).T, np.array(sizes, np.int64).reshape(-1, 2).T

    def settle(self, operations: list[Operation]) -> dict[Chunk, tuple[int, int]]:
        """Determine the extent of every chunk that occurs; scratch has that of what is stored there."""
        known = {chunk: self._fixed(chunk, size) for chunk, size in self.program.fixed.items()}
        moves = [op for op in operations if op.kind == "move"]
        moved = chain.from_iterable((*op.sources, *op.targets) for op in moves)
        known = self.of_each(c for c in moved if c.buffer in ("input", "output")) | known
        open_moves = moves
        while open_moves:
            still_open = []
            for op in open_moves:
                chunks = (*op.sources, *op.targets)
                extents = {known[c] for c in chunks if c in known}
                if not extents:
                    still_open.append(op)
                    continue
                if len(extents) > 1:
                    raise ProgramError(
                        "a move between chunks of different sizes: "
                        + ", ".join(f"{c} has {known[c][1]} B" for c in chunks if c in known),
                        op.line,
                        where=f"program {self.program.name!r}",
                        hint="move chunks of equal size",
                    )
                extent = extents.pop()
                known.update(dict.fromkeys(chunks, extent))
            if len(still_open) == len(open_moves) and self.kind == "custom":
                # Nothing is checked, so memory that nobody has written may be read: a whole chunk of it.
                chunk = still_open[0].sources[0]
                known[chunk] = self.of_part(0, chunk.channel)
            elif len(still_open) == len(open_moves):
                raise ProgramError(
                    f"{still_open[0].sources[0]} is read, but never written",
                    still_open[0].line,
                    where=f"program {self.program.name!r}",
                )
            open_moves = still_open
        return known


def _settle(
    program: Program,
    c: ProgramColumns,
    extents: Extents,
    chunks: np.ndarray,
    slice_of: np.ndarray,
    names: ChunkKeys,
) -> tuple[np.ndarray, np.ndarray]:
    """Determine the lines and bytes of every chunk, as :meth:`Extents.settle` does.

    Parameters
    ----------
    chunks : ndarray of int64, shape (4, chunks)
        Rank, buffer, index and channel of each chunk.
    slice_of : ndarray of int64
        The chunk of each source and target.
    """
    lines, size = np.full((2, chunks.shape[1]), -1, np.int64)
    held = np.flatnonzero(chunks[1] < 2)  # inputs and outputs
    lines[held], size[held] = extents.of_chunks(chunks[:, held])
    if program.fixed:
        of, (fixed_lines, fixed_size) = extents.fixed()
        place = np.searchsorted(names.keys(*chunks), names.keys(*of))
        lines[place], size[place] = fixed_lines, fixed_size
    count = (c.sources + c.targets)[c.kind == _MOVE]
    moved = slice_of[c.kind[c.op] == _MOVE]
    while len(count):
        starts = np.cumsum(count) - count
        (most, least), (most_bytes, least_bytes) = _bounds(lines[moved], starts), _bounds(size[moved], starts)
        known = most >= 0
        if (known & ((most != least) | (most_bytes != least_bytes))).any() or not known.any():
            # Operation by operation: this finds the error, or what a custom program reads.
            return _one_by_one(program, c, extents, chunks)
        of_known = np.repeat(known, count)
        lines[moved[of_known]] = np.repeat(most[known], count[known])
        size[moved[of_known]] = np.repeat(most_bytes[known], count[known])
        (most, least), (most_bytes, least_bytes) = _bounds(lines[moved], starts), _bounds(size[moved], starts)
        if (known & ((most != least) | (most_bytes != least_bytes))).any():
            # Two moves give a chunk of scratch different sizes.
            return _one_by_one(program, c, extents, chunks)
        count = count[~known]
        moved = moved[~of_known]
    return lines, size


def _bounds(values: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and the smallest value of each group, without those that are negative."""
    most = reduce_at(np.maximum, values, starts)
    return most, reduce_at(np.minimum, np.where(values < 0, np.iinfo(np.int64).max, values), starts)


def _one_by_one(
    program: Program, c: ProgramColumns, extents: Extents, chunks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Determine the extents operation by operation, with the error for the first that does not fit."""
    known = extents.settle([op for b in c.order for op in program.blocks[b].operations])
    rows = (Chunk(rank, BUFFERS[buffer], index, ch) for rank, buffer, index, ch in chunks.T.tolist())
    listed = list(rows)
    known |= extents.of_each(c for c in listed if c not in known)
    found = [known[c] for c in listed]
    lines, size = np.array(found, np.int64).reshape(-1, 2).T
    return lines, size


def _slices(
    program: Program, c: ProgramColumns, extents: Extents, packet_bytes: int
) -> tuple[Records, np.ndarray, np.ndarray, int]:
    """Lay out the slices of every chunk in its rank's memory: inputs, outputs, scratch.

    Returns
    -------
    slices : recarray of SLICE
    slice_of : ndarray of int64
        The slice of each source and target.
    lines : ndarray of int64
        Lines of memory that each rank uses for them.
    flags : int
        Flags of packets.
    """
    # The whole input and output exist and are checked, whether moved or not.
    counts = np.array([program.input_chunks, program.output_chunks])
    index, channel = np.arange(counts.max()), np.arange(program.width)
    names = ChunkKeys(program.ranks, np.concatenate([c.index, index]), np.concatenate([c.channel, channel]))
    moved = names.keys(c.rank, c.buffer, c.index, c.channel)
    rank = np.arange(program.ranks)[:, None, None]
    if program.layout is not None:
        own = program.layout.outputs[:2, program.layout.places < 0]
        cut = channel[:1] if program.layout.whole else channel
        whole = [
            names.keys(of[:, None], buffer, chunk[:, None], cut).ravel()
            for buffer, (of, chunk) in enumerate((program.layout.inputs[:2], own))
        ]
    else:
        whole = [
            names.keys(rank, buffer, index[:count, None], channel).ravel()
            for buffer, count in enumerate(counts)
        ]
    keys, number = distinct(np.concatenate([moved, *whole]))
    slice_of, chunks = number[: len(moved)], names.chunks(keys)
    slices = allocate(len(keys), t.SLICE)
    for name, column in zip(("gpu", "buffer", "chunk", "channel"), chunks, strict=True):
        slices[name] = column
    slices["lines"], slices["bytes"] = _settle(program, c, extents, chunks, slice_of, names)
    packed = slices["buffer"] == BUFFERS.index("packets")
    slices["lines"][packed] = -(-slices["bytes"][packed] // packet_bytes)
    in_packets = np.where(packed, slices["lines"], 0)
    slices["flag"] = np.where(packed, np.cumsum(in_packets) - in_packets, -1)
    brought = np.isin(slices["buffer"], (BUFFERS.index("input"), BUFFERS.index("panels")))
    brought[slice_of[_computed(c)]] = False
    slices["writer"] = np.where(brought, t.INITIAL, t.UNWRITTEN)
    slices["writing"] = -1
    taken = slices["lines"].copy()
    slot = _slots(program, names, keys, chunks)
    np.maximum.at(taken, slot, slices["lines"])
    taken[slot != np.arange(len(keys))] = 0
    ends = np.cumsum(taken)
    lines = np.zeros(program.ranks, np.int64)
    np.add.at(lines, slices["gpu"], taken)
    slices["line"] = (ends - taken - (np.cumsum(lines) - lines)[slices["gpu"]])[slot]
    return slices, slice_of, lines, int(in_packets.sum())


def _slots(program: Program, names: ChunkKeys, keys: np.ndarray, chunks: np.ndarray) -> np.ndarray:
    """Return for each slice the one whose memory it is in: itself, or the first message of its slot."""
    slot = np.arange(len(keys))
    if program.slots:
        rank, buffer, index, channel = chunks
        message = np.flatnonzero(index >= FIRST_SLOT)
        first = first_of_slot(index[message], program.ranks, program.slots)
        own = names.keys(rank[message], buffer[message], first, channel[message])
        slot[message] = np.searchsorted(keys, own)
    return slot


def _computed(c: ProgramColumns) -> np.ndarray:
    """Find the targets of the moves that store what matrix units have computed."""
    stores = (c.kind == _MOVE) & (c.sources == 0) & (c.targets > 0)
    return np.flatnonzero(stores[c.op])


def tile_work(
    steps: np.ndarray | int, own: int, other: int, step_ps: int, stages: int, burst: int, count: int
) -> Records:
    """Return what tiles do: their steps, the lines of both operands in each, and how long it is computed.

    Parameters
    ----------
    steps : ndarray of int64 or int
    own, other : int
        Lines of the first and the second operand in a step.
    step_ps : int
    stages : int
        Steps that are under way at once.
    burst : int
        Lines that travel as one request.
    count : int
        Tiles.
    """
    tiles = allocate(count, t.TILE_WORK)
    first, second = -(-own // burst), -(-other // burst)
    tiles["steps"], tiles["step_lines"] = steps, first + second
    tiles["first_lines"] = first or second  # a single operand is the first one
    tiles["issue_lines"], tiles["step_ps"], tiles["stages"] = burst, step_ps, stages
    return tiles


def _tiles(
    program: Program,
    c: ProgramColumns,
    ops: Records,
    operands: Records,
    tiled: Callable[[TileShape], _Tiled] | None,
    line_bytes: int,
    most_lines: int,
) -> tuple[Records, np.ndarray]:
    """Fill in operations that compute tiles; returns what they do, and what blocks hold of an SM for it."""
    of = np.flatnonzero(c.kind == _TILE)
    held = np.zeros(len(c.first_op) - 1, np.int64)
    work = allocate(len(of), t.TILE_WORK)
    if not len(of):
        return work, held
    if tiled is None:
        raise InputError(
            "the program contains matrix products", where=f"program {program.name!r}", hint="pass tiled="
        )
    for shape, number in program.tiles.items():
        mine = np.flatnonzero(c.value[of] == number)
        one, row = tiled(shape), of[mine]
        # Whole requests: what a step loads is all of its operands.
        burst = gcd(one.row_lines, one.column_lines, 1 << most_lines.bit_length() - 1)
        work[mine] = tile_work(
            one.steps, one.row_lines, one.column_lines, one.step_ps, one.stages, burst, len(mine)
        )
        ops["lines"][row] = ops["left"][row] = one.steps * (one.row_lines + one.column_lines) // burst
        ops["payload"][row] = ops["last_bytes"][row] = burst * line_bytes
        np.maximum.at(held, c.block[row], one.held)
        for which in (0, 1):
            operands["stride"][ops["first_source"][row] + which] = burst * line_bytes
    ops["value"][of] = np.arange(len(of))
    return work, held


def _semaphores(program: Program, lines: np.ndarray) -> Records:
    """Place every semaphore on a line of its own after the buffers of its rank, or in shared memory."""
    semaphores = allocate(len(program.semaphores), t.SEMAPHORE)
    for number, semaphore in enumerate(program.semaphores):
        semaphores["gpu"][number] = semaphore.rank
        if semaphore in program.shared:
            semaphores["line"][number] = t.IN_SHARED
            continue
        semaphores["line"][number] = lines[semaphore.rank]
        lines[semaphore.rank] += 1
    return semaphores


def _operations(
    c: ProgramColumns,
    units: np.ndarray,
    slice_of: np.ndarray,
    slices: Records,
    semaphores: Records,
    line_bytes: int,
    packet_bytes: int,
    bulk: tuple[int, int, int],
) -> tuple[Records, Records]:
    """Fill the tables of operations and operands, and set the fences."""
    kinds = np.array([_KINDS[kind] for kind in KINDS])
    count, operands = len(c.kind), c.sources + c.targets + (c.semaphore >= 0)
    packed = c.buffer == BUFFERS.index("packets")
    is_source = np.arange(len(c.op)) - c.first_chunk[c.op] < c.sources[c.op]
    any_packets = np.bincount(c.op[packed], minlength=count) > 0
    spins = np.bincount(c.op[packed & is_source], minlength=count) > 0
    bulk_bytes = line_bytes * np.array(bulk)[units[c.block]]
    payload = np.where(any_packets, packet_bytes, bulk_bytes)
    size = np.zeros(count, np.int64)
    moving = np.flatnonzero(c.kind == _MOVE)
    size[moving] = slices["bytes"][slice_of[c.first_chunk[moving]]]
    lines = -(-size // payload)
    fence, ahead, counted = paces_of(c, slice_of, is_source)
    fence[units[c.block] == t.NIC] = 0  # what it writes arrives in order
    # The lines of the moves before it in its loop: from the last one that began a loop. Of moves that read
    # packets others are not one, so that a warp sends what it has to only once its own packets have come.
    starts = ~ahead
    starts[1:] |= spins[:-1] & ~spins[1:]
    done = np.cumsum(lines) - lines
    before = done - np.maximum.accumulate(np.where(starts, done, 0))
    first = np.cumsum(operands) - operands
    ops = allocate(count, t.OP)
    ops["kind"] = kinds[c.kind]
    ops["block"] = c.block
    ops["first_source"], ops["sources"] = first, c.sources
    ops["first_target"], ops["targets"] = first + c.sources, c.targets
    ops["semaphore"], ops["value"], ops["phase"] = c.semaphore, c.value, c.phase
    ops["fence"], ops["in_switch"], ops["payload"] = fence, c.in_switch, payload
    ops["spins"] = np.where(spins, 2 if 2 * packet_bytes > line_bytes else 1, 0)  # LL128, LL
    ops["last_bytes"] = np.where(lines > 0, size - (lines - 1) * payload, 0)
    ops["number"] = np.arange(count) - c.first_op[c.block]
    ops["ahead"], ops["before"] = ahead, before
    ops["lines"] = ops["left"] = lines
    posted = np.flatnonzero(c.behind > 0)
    ops["before"][posted] = moves_behind(c)[posted]
    at, first_counted, last_counted = counted
    ops["value"][at] = at - last_counted
    ops["before"][at] = last_counted - first_counted + 1
    ops["started_ps"] = ops["issued_ps"] = ops["ended_ps"] = -1
    table = allocate(int(operands.sum()), t.OPERAND)
    row = np.arange(len(c.op)) - c.first_chunk[c.op] + first[c.op]
    table["seen"] = t.NEVER_SEEN
    table["slice"] = table["flag"] = -1
    table["slice"][row] = slice_of
    table["stride"][row] = np.where(packed, line_bytes, payload[c.op])
    for name in ("flag", "gpu", "line"):
        table[name][row] = slices[name][slice_of]
    signalling = np.flatnonzero(c.semaphore >= 0)
    row, signalled = (first + c.sources + c.targets)[signalling], c.semaphore[signalling]
    table["gpu"][row] = semaphores["gpu"][signalled]
    table["line"][row] = np.maximum(0, semaphores["line"][signalled])
    table["flag"][_line_by_line(ops, table)] = t.LINE_BY_LINE
    for number, alike in enumerate(_written_again(ops, table, slices), 1):
        ops["value"][alike] = number
    return ops, table


def _written_again(ops: Records, operands: Records, slices: Records) -> list[list[int]]:
    """Group moves that store the same data to the same slice: sums of the same inputs that nobody writes."""
    moves = np.flatnonzero(ops["kind"] == t.MOVE)
    counts = ops["targets"][moves].astype(np.int64)
    ends = np.cumsum(counts)
    rows = np.arange(counts.sum()) + np.repeat(ops["first_target"][moves] - (ends - counts), counts)
    times = np.bincount(operands["slice"][rows], minlength=len(slices))
    if times.max(initial=0) < 2:
        return []
    constant = (slices["buffer"] == BUFFERS.index("input")) & (times == 0)
    alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for n in moves.tolist():
        first, middle = int(ops["first_source"][n]), int(ops["first_target"][n])
        sources = operands["slice"][first:middle]
        targets = operands["slice"][middle : middle + int(ops["targets"][n])]
        if constant[sources].all() and (operands["flag"][first : middle + len(targets)] < 0).all():
            key = tuple(sorted(sources.tolist())), tuple(sorted(targets.tolist()))
            alike.setdefault(key, []).append(n)
    return [group for group in alike.values() if len(group) > 1]


def _line_by_line(ops: Records, operands: Records) -> list[int]:
    """Find sources that are written only by operations that wait for packets of their reader.

    Each line of such a source is read, sent as a packet, and written when a packet made of it has
    come back: reads of its other lines may still go on.
    """
    if not (operands["flag"] >= 0).any():
        return []
    packed = (operands["flag"] >= 0).tolist()
    slices = operands["slice"].tolist()
    firsts, middles, counts = (ops[name].tolist() for name in ("first_source", "first_target", "targets"))
    readers: dict[int, list[tuple[int, int]]] = {}  # that store packets: operation and operand, by slice
    senders: dict[int, list[int]] = {}  # by slice of packets
    received: dict[int, list[int]] = {}  # slices of packets, by operation
    for n in np.flatnonzero(ops["kind"] == t.MOVE).tolist():
        sources, targets = range(firsts[n], middles[n]), range(middles[n], middles[n] + counts[n])
        sent = [slices[k] for k in targets if packed[k]]
        for slice_ in sent:
            senders.setdefault(slice_, []).append(n)
        received[n] = [slices[k] for k in sources if packed[k]]
        for k in sources if sent else ():
            if not packed[k]:
                readers.setdefault(slices[k], []).append((n, k))
    writers: dict[int, list[int]] = {}
    for n in received:
        for slice_ in slices[middles[n] : middles[n] + counts[n]]:
            if slice_ in readers:
                writers.setdefault(slice_, []).append(n)
    found = []
    for slice_, of in writers.items():
        before = [_behind(n, received, senders) for n in of]
        found += [k for n, k in readers[slice_] if all(n in those for those in before)]
    return found


def _behind(op: int, received: dict[int, list[int]], senders: dict[int, list[int]]) -> set[int]:
    """Return the operations whose packets an operation waits for, directly or through others."""
    found: set[int] = set()
    rest = [op]
    while rest:
        for slice_ in received[rest.pop()]:
            # If several operations store the same packets, it is not known which of them came first.
            for sender in senders[slice_] if len(senders.get(slice_, ())) == 1 else ():
                if sender not in found:
                    found.add(sender)
                    rest.append(sender)
    return found
