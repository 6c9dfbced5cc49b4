"""The blocks of a program in the order in which a GPU places them, and their operations in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .operation import Operation, TileShape
from .program import Block, Program

__all__ = ["block_numbers", "in_order", "list_operations"]

_UNITS: Final = ("sm", "engine", "nic")


def in_order(program: Program) -> list[int]:
    """Return the blocks in the order in which a GPU places them, rank by rank.

    On each rank the blocks of SMs come first, kernel by kernel, then those of copy engines and NICs.
    """

    def key(b: int) -> tuple[int, int, int]:
        block = program.blocks[b]
        return block.rank, _UNITS.index(block.unit), block.kernel

    return sorted(range(len(program.blocks)), key=key)


def block_numbers(program: Program) -> list[tuple[Block, int]]:
    """Return all blocks in order, with the number of each in its rank: the file's, if it has one."""
    found = []
    counted: dict[int, int] = {}
    for b in in_order(program):
        block = program.blocks[b]
        number = counted.get(block.rank, 0)
        origin = next((op.origin for op in block.operations if op.origin is not None), None)
        if origin is not None:
            number = origin.block
        found.append((block, number))
        counted[block.rank] = max(number + 1, counted.get(block.rank, 0))
    return found


def list_operations(program: Program, rank: int | None = None) -> list[dict[str, Any]]:
    """Describe each operation of each block of a program, of one rank or of all."""
    rows = []
    shapes = list(program.tiles)
    for block, number in block_numbers(program):
        if rank not in (None, block.rank):
            continue
        reached: dict[int, int] = {}
        rows.append(
            {
                "block": number,
                "rank": block.rank,
                "channel": block.channel,
                "unit": block.unit,
                "operations": [_in_words(op, reached, shapes) for op in block.operations],
            }
        )
    return rows


def _in_words(op: Operation, reached: dict[int, int], shapes: Sequence[TileShape]) -> str:
    """Describe one operation in one line."""
    if op.kind == "move":
        sources, targets = " + ".join(map(str, op.sources)), ", ".join(map(str, op.targets))
        through = " through the switch" if op.in_switch else ""
        return f"{sources or 'result'} -> {targets}{through}"
    if op.kind == "tile":
        return f"product {shapes[op.value]} of {' and '.join(map(str, op.sources))}"
    if op.semaphore is None:
        return op.kind if op.kind == "fence" else f"{op.kind} {op.value}"
    where = f"semaphore {op.semaphore.number} of rank {op.semaphore.rank}"
    if op.kind == "signal":
        return (
            f"signal {where}"
            + (f" by {op.value}" if op.value > 1 else "")
            + (", relaxed" if op.relaxed else "")
            + (f", behind the last {'move' if op.behind == 1 else f'{op.behind} moves'}" if op.behind else "")
        )
    rise = op.value - reached.get(op.semaphore.number, 0)
    reached[op.semaphore.number] = op.value
    return f"wait for {where}" + (f" to rise by {rise}" if rise > 1 else "")
