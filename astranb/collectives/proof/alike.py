"""Channels that do the same: what is proved for one of them holds for the others.

Most algorithms do in every channel what they do in the first one, in other slices of the chunks and with
other semaphores. Two such channels are the same program but for the names, and neither can notice the
other, as long as they have no memory and no semaphore in common and all thread blocks work at once.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from copy import copy
from hashlib import sha256

import numpy as np

from astranb.collectives.language import BUFFERS, OPERATION_COLUMNS, Block, Program, pack_place, unpack_place
from astranb.collectives.lowering import Extents
from astranb.core.errors import InputError

from .order import Slots

__all__ = ["one_of_each"]

_SEMAPHORE = 4  # its column of operations


def one_of_each(program: Program, extents: Extents | None, slots: Slots | None) -> tuple[Program, set[int]]:
    """Leave out the channels that do the same as another one.

    Parameters
    ----------
    program : Program
    extents : Extents, optional
        The sizes of its slices, unless it is proved for every size.
    slots : Slots, optional
        How many thread blocks and copy engines of a rank work at once.

    Returns
    -------
    Program
        With the blocks of the other channels only: it is right if the whole program is right, and only then.
    set of int
        The slices of chunks that only the channels left out touch.
    """
    whole = program.layout is not None and program.layout.whole
    if program.channels < 2 or program.same_memory or program.fixed or whole or _must_queue(program, slots):
        return program, set()
    of: dict[int, list[Block]] = defaultdict(list)
    for block in program.blocks:
        of[block.channel].append(block)
    groups = [_ChannelBlocks(program, blocks) for blocks in of.values()]
    uses = Counter(thing for group in groups for thing in group.used)
    kept: list[_ChannelBlocks] = []
    seen: set[bytes] = set()
    slices: set[int] = set()
    for group in groups:
        alone = group.inside and all(uses[thing] == 1 for thing in group.used)
        key = group.key(extents) if alone else b""
        if key and key in seen:
            slices.update(group.slices.tolist())
            continue
        seen.add(key)
        kept.append(group)
    if len(kept) == len(groups):
        return program, set()
    few = copy(program)
    few.blocks = [block for group in kept for block in group.blocks]
    return few, slices


def _must_queue(program: Program, slots: Slots | None) -> bool:
    """Return whether a rank has more thread blocks or lists of copy engines than work at once."""
    if slots is None:
        return False
    those = {(block.rank, block.unit, id(block.thread_block or block)) for block in program.blocks}
    counts = Counter((rank, unit) for rank, unit, _ in those)
    most = {"sm": slots.blocks, "engine": slots.engines}
    return any(count > most.get(unit, count) for (_, unit), count in counts.items())


class _ChannelBlocks:
    """The blocks of a channel: what they do, and which slices and semaphores they name."""

    def __init__(self, program: Program, blocks: list[Block]) -> None:
        self.program, self.blocks = program, blocks
        columns = [block.columns for block in blocks]
        self.counts = [len(rows) for rows, _ in columns]
        self.rows = _joined([rows for rows, _ in columns]).reshape(-1, OPERATION_COLUMNS)
        chunks = _joined([chunks for _, chunks in columns]).reshape(-1, 2)
        self.rank, channel, self.buffer = unpack_place(chunks[:, 0])
        self.index = chunks[:, 1]
        self.slices, self.channel = _in_order(channel)
        numbers = self.rows[:, _SEMAPHORE]
        self.named = numbers >= 0
        self.semaphores, self.semaphore = _in_order(numbers[self.named])
        place: dict[int, int] = {}  # of each thread block, its own or one of which it has a role
        for block in blocks:
            for one in (block, block.thread_block or block):
                place.setdefault(id(one), len(place))
        self.place = place
        self.used = [("slice", n) for n in self.slices.tolist()]
        self.used += [("semaphore", n) for n in self.semaphores.tolist()]
        self.used += [("block", n) for n in place]
        self.inside = bool(  # what does not exist has no name
            len(self.slices)
            and self.slices.max() < program.width
            and self.semaphores.max(initial=-1) < len(program.semaphores)
        )

    def key(self, extents: Extents | None) -> bytes:
        """Return what is the same for groups that differ only in the names of slices and semaphores.

        Nothing if they name what does not exist.
        """
        program, place = self.program, self.place
        rows = self.rows.copy()
        rows[self.named, _SEMAPHORE] = self.semaphore
        blocks = [
            (b.rank, b.unit, b.kernel, b.added, place[id(b)], place[id(b.thread_block or b)])
            for b in self.blocks
        ]
        semaphores = []
        for number in self.semaphores.tolist():
            one = program.semaphores[number]
            shared = program.shared.get(one)
            home = -1 if shared is None else place.get(id(shared), -2 - number)
            semaphores.append((one.rank, program.credits.get(one, 0), home))
        found = sha256(repr((blocks, semaphores, self.counts, len(self.slices))).encode())
        for column in (rows, self.index, pack_place(self.rank, self.channel, self.buffer)):
            found.update(np.ascontiguousarray(column).tobytes())
        if extents is not None and not extents.uniform:
            try:
                found.update(self._sizes(extents))
            except InputError:  # of a chunk that does not exist
                return b""
        return found.digest()

    def _sizes(self, extents: Extents) -> bytes:
        """Return the bytes of all slices of inputs and outputs that the blocks name, and of all outputs."""
        program = self.program
        own = self.buffer <= BUFFERS.index("output")
        named = np.stack([self.rank, self.buffer, self.index, self.slices[self.channel]])[:, own]
        if program.layout is not None:
            rank, index = program.layout.outputs[:2]
        else:
            rank, index = np.divmod(
                np.arange(program.ranks * program.output_chunks), max(1, program.output_chunks)
            )
        count = len(rank)
        of = (len(self.slices),)
        outputs = [np.tile(rank, of), np.full(count * of[0], 1), np.tile(index, of)]
        every = np.stack([*outputs, np.repeat(self.slices, count)]).astype(np.int64)
        return b"".join(extents.of_chunks(chunks)[1].tobytes() for chunks in (named, every))


def _joined(parts: list[array[int]]) -> np.ndarray:
    found = [np.frombuffer(part, np.int64) for part in parts if part]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _in_order(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct numbers in the order in which they first occur, and for each number which it is."""
    distinct, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return distinct[order], place[which.reshape(-1)]
