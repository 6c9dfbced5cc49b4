"""Signals that each wait waits for, and stores that each signal announces.

A program has semaphores; packets and file formats have messages from one block to another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from astranb.collectives.language import Block, Chunk, Program, Semaphore
from astranb.core.errors import InputError

__all__ = ["Pairing", "announced", "pair"]


@dataclass
class Pairing:
    """The blocks at both ends of each semaphore of a program.

    ``waiters`` are the numbers of the blocks that wait for each semaphore. ``shares`` has, for
    the numbers of a block and of a wait in it, how many signals of each block it waits for since the
    block's last wait for that semaphore.
    """

    waiters: dict[Semaphore, list[int]] = field(default_factory=dict)
    shares: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)


def pair(program: Program) -> Pairing:
    """Find how many signals of which block each wait waits for.

    Where several blocks raise one semaphore, each wait takes the same fraction of each block's
    signals. An error if that is no whole number: the signals could be any of them.
    """
    raised: dict[Semaphore, dict[int, int]] = {}
    for number, block in enumerate(program.blocks):
        for op in block.operations:
            if op.kind == "signal" and op.semaphore is not None:
                by = raised.setdefault(op.semaphore, {})
                by[number] = by.get(number, 0) + op.value
    pairing = Pairing()
    for number, block in enumerate(program.blocks):
        taken: dict[tuple[Semaphore, int], int] = {}
        for place, op in enumerate(block.operations):
            if op.kind != "wait" or op.semaphore is None:
                continue
            waiters = pairing.waiters.setdefault(op.semaphore, [])
            if number not in waiters:
                waiters.append(number)
            by = raised.get(op.semaphore, {})
            whole = sum(by.values())
            if op.value > whole:
                raise InputError(
                    f"rank {block.rank} waits for {op.value} signals, of which {whole} are raised",
                    where=f"program {program.name!r}",
                )
            shares = {}
            for source, times in by.items():
                reached, rest = divmod(times * op.value, whole)
                if rest:
                    raise InputError(
                        f"rank {block.rank} waits for {op.value} of {whole} signals of {len(by)} blocks: "
                        "it is unknown whose",
                        where=f"program {program.name!r}",
                        hint="use a semaphore for each block that signals",
                    )
                shares[source] = reached - taken.get((op.semaphore, source), 0)
                taken[op.semaphore, source] = reached
            pairing.shares[number, place] = {source: share for source, share in shares.items() if share}
    return pairing


Stores = list[tuple[Chunk, int]]
"""Chunks that a block stores, each with the number of the operation."""


def announced(block: Block) -> tuple[dict[int, Stores], Stores]:
    """Find the stores to another rank since the last signal that each signal to that rank announces.

    A signal behind some moves announces only what these have stored. The second list has the stores that no
    signal follows. Packets are left out: they announce themselves.
    """
    pending: dict[int, Stores] = {}
    found: dict[int, Stores] = {}
    moves: list[int] = []
    for place, op in enumerate(block.operations):
        if op.kind == "move":
            moves.append(place)
        for chunk in op.targets:
            if chunk.rank != block.rank and chunk.buffer != "packets":
                pending.setdefault(chunk.rank, []).append((chunk, place))
        if op.semaphore is not None and op.kind == "signal" and op.semaphore.rank != block.rank:
            stores = pending.pop(op.semaphore.rank, [])
            if op.behind:
                first = moves[-op.behind :][0] if moves else place
                pending[op.semaphore.rank] = [store for store in stores if store[1] < first]
                stores = [store for store in stores if store[1] >= first]
            found[place] = stores
    return found, [store for stores in pending.values() for store in stores]
