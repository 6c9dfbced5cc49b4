"""From a program to the tables that the machine runs: slices, operands, operations, blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, product

import numpy as np

from astranb.collectives.language.program import BUFFERS, Block, Chunk, Operation, Program, in_order
from astranb.collectives.language.source import ProgramError, ProgramSource, source_of
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.gpu import tables as t

from .fences import paces

__all__ = ["Extents", "Lowered", "check_packets", "lower"]

_PACKET_DATA = {"LL": (1, 2), "LL128": (120, 128)}
# The fraction of a line of packets that is data: LL has 4 B of flag for 4 B of data, LL128
# 8 B of flag in 128 B (NCCL, src/device/prims_ll.h and prims_ll128.h).


@dataclass(frozen=True)
class Lowered:
    """A program as tables, with rank r on GPU r and the memory of every rank laid out.

    Attributes
    ----------
    blocks, ops, operands, slices, semaphores, phases : recarray
        Of the dtypes of the same name in :mod:`astranb.gpu.tables`; blocks are sorted by
        rank, the operations of a block are consecutive.
    flags : int
        Number of flags of packets, one for each line.
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
    flags: int = 0
    source: ProgramSource = field(default_factory=ProgramSource)


def lower(
    program: Program,
    *,
    kind: str,
    size: int,
    line_bytes: int = 128,
    bulk_lines: int = 1,
    engine_lines: int = 1,
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
    bulk_lines, engine_lines : int
        Lines that one instruction of a thread block, or one request of a copy engine, moves.

    Raises
    ------
    InputError
        A move between chunks of different sizes, or from scratch that is never written.
    """
    if not program.blocks:
        raise InputError("the algorithm added no thread block", where=f"program {program.name!r}")
    order = in_order(program)
    operations = [op for b in order for op in program.blocks[b].operations]
    extents = Extents(program, kind, size, line_bytes)
    numbers = extents.settle(operations)
    part, whole = _PACKET_DATA.get(program.protocol, _PACKET_DATA["LL"])
    packet_bytes = line_bytes * part // whole
    slices, lines, flags = _slices(program, numbers, extents, packet_bytes)
    semaphores = _semaphores(program, lines)
    ops, operands = _operations(
        program, order, numbers, slices, semaphores, line_bytes, packet_bytes, (bulk_lines, engine_lines)
    )
    blocks = allocate(len(order), t.BLOCK)
    ends = np.cumsum([len(program.blocks[b].operations) for b in order])
    blocks["gpu"] = [program.blocks[b].rank for b in order]
    blocks["first_op"] = np.concatenate([[0], ends[:-1]])
    blocks["last_op"] = ends
    blocks["engine"] = [program.blocks[b].unit == "engine" for b in order]
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
        flags=flags,
        source=source_of([op.line for op in operations]),
    )


def check_packets(program: Program, block: Block, op: Operation) -> None:
    """Refuse packets that a switch or a copy engine would have to move."""
    if not (op.in_switch or block.unit == "engine"):
        return
    if any(chunk.buffer == "packets" for chunk in (*op.sources, *op.targets)):
        raise ProgramError(
            "cannot be simulated: packets that a switch adds or forwards, or a copy engine moves",
            op.line,
            where=f"program {program.name!r}, rank {block.rank}",
        )


class Extents:
    """The lines and bytes of every slice.

    Inputs and outputs follow from the collective: its data is ceil(size / line) lines,
    cut into equal chunks of whole lines, of which the last ones may be short or empty.
    A slice of scratch is as large as what is stored there.
    """

    def __init__(self, program: Program, kind: str, size: int, line_bytes: int) -> None:
        self.program, self.kind, self.size, self.line_bytes = program, kind, size, line_bytes
        self.parts = max(program.input_chunks, program.output_chunks)
        total = -(-size // line_bytes)
        self.chunk_lines = -(-total // self.parts)
        self.slice_lines = -(-self.chunk_lines // program.channels)
        self.total = total

    @property
    def uniform(self) -> bool:
        """Whether all slices of inputs and outputs have the same size."""
        slices = self.parts * self.program.channels
        return self.size == slices * self.slice_lines * self.line_bytes

    def place(self, chunk: Chunk) -> int:
        """Return the part of the collective's data that an input or output chunk is."""
        one_part = self.program.input_chunks if chunk.buffer == "input" else self.program.output_chunks
        # In an all-to-all, what a rank receives is every other rank's part for this rank.
        mine = (one_part == 1 and self.parts > 1) or (self.kind == "all_to_all" and chunk.buffer == "output")
        return chunk.rank if mine and self.kind != "custom" else chunk.index

    def of_part(self, part: int, channel: int) -> tuple[int, int]:
        """Lines and bytes of one channel's slice of one part of the data."""
        end = min(self.total, (part + 1) * self.chunk_lines)
        first = part * self.chunk_lines + channel * self.slice_lines
        lines = max(0, min(end, first + self.slice_lines) - first)
        return lines, min(lines * self.line_bytes, max(0, self.size - first * self.line_bytes))

    def settle(self, operations: list[Operation]) -> dict[Chunk, tuple[int, int]]:
        """Determine the extent of every chunk that occurs; scratch has that of what is stored there."""
        known: dict[Chunk, tuple[int, int]] = {}
        moves = [op for op in operations if op.kind == "move"]
        for chunk in chain.from_iterable((*op.sources, *op.targets) for op in moves):
            if chunk.buffer in ("input", "output"):
                known[chunk] = self.of_part(self.place(chunk), chunk.channel)
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


def _slices(
    program: Program, extents: dict[Chunk, tuple[int, int]], sizes: Extents, packet_bytes: int
) -> tuple[Records, np.ndarray, int]:
    """Lay out the slices of every chunk in its rank's memory: inputs, outputs, scratch."""
    whole = dict(extents)
    # The whole input and output exist and are checked, whether moved or not.
    for name, count in (("input", program.input_chunks), ("output", program.output_chunks)):
        for place in product(range(program.ranks), [name], range(count), range(program.channels)):
            chunk = Chunk(*place)
            if chunk not in whole:
                whole[chunk] = sizes.of_part(sizes.place(chunk), chunk.channel)
    order = sorted(whole, key=lambda c: (c.rank, BUFFERS.index(c.buffer), c.index, c.channel))
    extents.clear()
    extents.update({chunk: (number, whole[chunk][1]) for number, chunk in enumerate(order)})
    slices = allocate(len(order), t.SLICE)
    slices["gpu"] = [c.rank for c in order]
    slices["buffer"] = [BUFFERS.index(c.buffer) for c in order]
    slices["chunk"] = [c.index for c in order]
    slices["channel"] = [c.channel for c in order]
    slices["lines"] = [whole[c][0] for c in order]
    slices["bytes"] = [whole[c][1] for c in order]
    packed = slices["buffer"] == BUFFERS.index("packets")
    slices["lines"][packed] = -(-slices["bytes"][packed] // packet_bytes)
    in_packets = np.where(packed, slices["lines"], 0)
    slices["flag"] = np.where(packed, np.cumsum(in_packets) - in_packets, -1)
    slices["writer"] = np.where(slices["buffer"] == 0, t.INITIAL, t.UNWRITTEN)
    slices["writing"] = -1
    lines = np.zeros(program.ranks, np.int64)
    for rank in range(program.ranks):
        of_rank = np.flatnonzero(slices["gpu"] == rank)
        ends = np.cumsum(slices["lines"][of_rank])
        slices["line"][of_rank] = ends - slices["lines"][of_rank]
        lines[rank] = ends[-1] if len(ends) else 0
    return slices, lines, int(in_packets.sum())


def _semaphores(program: Program, lines: np.ndarray) -> Records:
    """Place every semaphore on a line of its own after the buffers of its rank."""
    semaphores = allocate(len(program.semaphores), t.SEMAPHORE)
    for number, semaphore in enumerate(program.semaphores):
        semaphores[number].gpu = semaphore.rank
        semaphores[number].line = lines[semaphore.rank]
        lines[semaphore.rank] += 1
    return semaphores


def _operations(
    program: Program,
    order: list[int],
    numbers: dict[Chunk, tuple[int, int]],
    slices: Records,
    semaphores: Records,
    line_bytes: int,
    packet_bytes: int,
    bulk: tuple[int, int],
) -> tuple[Records, Records]:
    """Fill the tables of operations and operands, and set the fences."""
    kinds = {"move": t.MOVE, "signal": t.NOTIFY, "wait": t.WAIT, "fence": t.FLUSH, "compute": t.COMPUTE}
    rows: list[tuple[int, ...]] = []
    operands: list[tuple[int, int, int]] = []  # (slice, -1, stride) or (-1, semaphore, 0)
    for place, b in enumerate(order):
        engine = program.blocks[b].unit == "engine"
        before = 0  # lines of the moves that are one loop
        listed = program.blocks[b].operations
        read = [[numbers[c][0] for c in op.sources] for op in listed]
        written = [[numbers[c][0] for c in op.targets] for op in listed]
        pace = paces(program.blocks[b], read, written)
        for number, (op, sources, targets, (fence, ahead)) in enumerate(
            zip(listed, read, written, pace, strict=True)
        ):
            before = before if ahead else 0
            packets = [c.buffer == "packets" for c in (*op.sources, *op.targets)]
            spins = any(packets[: len(sources)])
            check_packets(program, program.blocks[b], op)
            payload = packet_bytes if any(packets) else line_bytes * bulk[engine]
            first = len(operands)
            operands.extend(
                (slice_, -1, line_bytes if packed else payload)
                for slice_, packed in zip((*sources, *targets), packets, strict=True)
            )
            semaphore = op.semaphore.number if op.semaphore else -1
            if op.semaphore:
                operands.append((-1, semaphore, 0))
            size = int(slices["bytes"][sources[0]]) if sources else 0
            lines = -(-size // payload)
            rows.append(
                (
                    kinds[op.kind], place, first, len(sources), first + len(sources), len(targets),
                    semaphore, op.value, op.phase, fence, op.in_switch, int(spins), payload,
                    size - (lines - 1) * payload if lines else 0, number, int(ahead), before,
                    lines, lines, 0, -1, -1, -1,
                )
            )  # fmt: skip
            before = 0 if spins else before + lines
    ops = allocate(len(rows), t.OP)
    ops[:] = rows
    table = allocate(len(operands), t.OPERAND)
    slice_, semaphore_of, stride = np.array(operands, np.int64).reshape(-1, 3).T
    of_slice = slice_ >= 0
    table["slice"] = slice_
    table["stride"] = stride
    table["seen"] = t.NEVER_SEEN
    table["flag"] = -1
    table["flag"][of_slice] = slices["flag"][slice_[of_slice]]
    table["gpu"][of_slice] = slices["gpu"][slice_[of_slice]]
    table["line"][of_slice] = slices["line"][slice_[of_slice]]
    table["gpu"][~of_slice] = semaphores["gpu"][semaphore_of[~of_slice]]
    table["line"][~of_slice] = semaphores["line"][semaphore_of[~of_slice]]
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
