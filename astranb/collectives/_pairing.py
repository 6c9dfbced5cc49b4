"""Whose signals a wait waits for: file formats have channels where programs have semaphores."""

from __future__ import annotations

from dataclasses import dataclass, field

from astranb.core.errors import InputError

from ._program import Program, Semaphore

__all__ = ["Pairing", "pair"]


@dataclass
class Pairing:
    """The blocks at both ends of each semaphore of a program.

    Attributes
    ----------
    waiters : dict
        The numbers of the blocks that wait for a semaphore.
    shares : dict
        For a block's number and that of its operation, a wait: how many signals of each
        block it waits for since the block's last wait for that semaphore.
    """

    waiters: dict[Semaphore, list[int]] = field(default_factory=dict)
    shares: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)


def pair(program: Program) -> Pairing:
    """Find out how many signals of which block each wait waits for.

    Where several blocks raise one semaphore, each wait takes the same part of what each
    block raises it by.

    Raises
    ------
    InputError
        A wait for a part of the signals of several blocks, that might be anyone's.
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
                        "whose, no file could say",
                        where=f"program {program.name!r}",
                        hint="take a semaphore for each block that signals",
                    )
                shares[source] = reached - taken.get((op.semaphore, source), 0)
                taken[op.semaphore, source] = reached
            pairing.shares[number, place] = {source: share for source, share in shares.items() if share}
    return pairing
