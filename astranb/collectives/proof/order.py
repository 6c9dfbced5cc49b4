"""The order of a program's operations that holds for every timing.

Every block executes its operations in order. Between blocks there is order only where one
waits: for a semaphore that could not have risen without a signal, or for packets. A store is
not yet visible when the next instruction runs, so there are two orders: that an operation has
*read* what it reads, and that what it *wrote* is visible. A fence (before every signal that is
not relaxed) makes earlier stores visible; a packet guarantees only its own data.

Vector clocks (Lamport 1978; Fidge 1988), one component a block.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from astranb.collectives.language.program import Block, Chunk, Operation, Program

__all__ = ["Execution", "Order", "Place", "execute", "order_of", "packets_read"]

Place = tuple[int, int]
"""A block and the number of one of its operations."""


@dataclass
class Execution:
    """One execution of a program, in which every block continues as long as it can.

    The order does not matter: signals only add, so an operation that is possible in one order
    is possible in all.
    """

    blocks: list[Block]
    done: list[Place] = field(default_factory=list)  # operations in an order in which they can happen
    at: list[int] = field(default_factory=list)  # the next operation of each block

    @property
    def stuck(self) -> list[int]:
        """Blocks that did not end."""
        return [b for b, block in enumerate(self.blocks) if self.at[b] < len(block.operations)]


def packets_read(op: Operation) -> list[Chunk]:
    """Packets that an operation waits for."""
    return [c for c in op.sources if c.buffer == "packets"]


def execute(program: Program, blocks: list[Block] | None = None) -> Execution:
    """Execute a program without time, or only some of its blocks that share nothing with the others.

    Examples
    --------
    >>> from astranb.collectives import Collective
    >>> execute(Collective.of("all_gather", 4096, "ring").program(4)).stuck
    []
    """
    run = Execution(program.blocks if blocks is None else blocks)
    run.at = [0] * len(run.blocks)
    value: dict[int, int] = defaultdict(int)
    written: set[Chunk] = set()
    waiting: dict[object, list[int]] = defaultdict(list)
    ready = deque(range(len(run.blocks)))
    while ready:
        b = ready.popleft()
        operations = run.blocks[b].operations
        while run.at[b] < len(operations):
            op = operations[run.at[b]]
            if op.kind == "wait" and op.semaphore and value[op.semaphore.number] < op.value:
                waiting[op.semaphore.number].append(b)
                break
            missing = next((c for c in packets_read(op) if c not in written), None)
            if missing is not None:
                waiting[missing].append(b)
                break
            run.done.append((b, run.at[b]))
            run.at[b] += 1
            if op.kind == "signal" and op.semaphore:
                value[op.semaphore.number] += op.value
                ready.extend(waiting.pop(op.semaphore.number, ()))
            for chunk in op.targets:
                if chunk.buffer == "packets":
                    written.add(chunk)
                    ready.extend(waiting.pop(chunk, ()))
    return run


@dataclass
class Order:
    """For every operation, how far each block has advanced at least when it begins.

    For each block an array of int32, shape (operations, blocks): how many operations of each block
    have ``read`` all they read, and how many have made ``visible`` all they wrote.
    """

    read: list[np.ndarray]
    visible: list[np.ndarray]

    def is_read(self, first: Place, then: Place) -> bool:
        """Whether an operation has always read what it reads when another one begins."""
        return bool(self.read[then[0]][then[1], first[0]] > first[1])

    def is_visible(self, first: Place, then: Place) -> bool:
        """Whether what an operation wrote is always visible when another one begins."""
        return bool(self.visible[then[0]][then[1], first[0]] > first[1])


def order_of(run: Execution) -> Order:
    """Derive the order of a program from one execution, up to a fixpoint."""
    count = len(run.blocks)
    shapes = [(len(block.operations) + 1, count) for block in run.blocks]
    order = Order([np.zeros(s, np.int32) for s in shapes], [np.zeros(s, np.int32) for s in shapes])
    signals = _signals(run)
    writers = {
        chunk: (b, i)
        for b, i in reversed(run.done)
        for chunk in run.blocks[b].operations[i].targets
        if chunk.buffer == "packets"
    }
    fences = [_fences(block) for block in run.blocks]
    while True:
        changed = False
        for b, i in run.done:
            op = run.blocks[b].operations[i]
            read, visible = order.read[b][i].copy(), order.visible[b][i].copy()
            if op.kind == "wait" and op.semaphore:
                for x, j in _needed(order, signals[op.semaphore.number], (b, i), op.value):
                    _join(order, (x, j), fences[x][j], read, visible)
            for chunk in packets_read(op):
                x, j = writers[chunk]
                # The packet has arrived; what its block stored before may not have.
                _join(order, (x, j), fences[x][j], read, visible)
                read[x] = max(read[x], j + 1)
            # What an operation waits for has happened before it reads or writes anything.
            changed |= _raise(order.read[b][i], read) | _raise(order.visible[b][i], visible)
            read[b], visible[b] = i + 1, i + 1
            changed |= _raise(order.read[b][i + 1], read) | _raise(order.visible[b][i + 1], visible)
        if not changed:
            return order


def _raise(stored: np.ndarray, found: np.ndarray) -> bool:
    """Raise a stored clock to a found one; return whether it rose."""
    if (found <= stored).all():
        return False
    np.maximum(stored, found, out=stored)
    return True


def _join(order: Order, source: Place, fenced: int, read: np.ndarray, visible: np.ndarray) -> None:
    """Merge the clocks of a signal or packet of another block."""
    x, j = source
    np.maximum(read, order.read[x][j], out=read)
    read[x] = max(read[x], j)
    theirs = order.visible[x][j].copy()
    theirs[x] = fenced  # a block sees its own stores at once, others only after a fence
    np.maximum(visible, theirs, out=visible)


def _fences(block: Block) -> list[int]:
    """For each operation, how many operations of its block have stored everything when it begins.

    For a signal that is not relaxed: all before it, because it waits for them. The lowering
    also sets a fence where a move accesses what an earlier one has stored.
    """
    fenced, dirty, found = 0, set[Chunk](), []
    for i, op in enumerate(block.operations):
        touched = {*op.sources, *op.targets}
        waits = op.kind == "fence" or (op.kind == "signal" and not op.relaxed)
        if waits or (op.kind == "move" and dirty & touched):
            fenced = i
            dirty.clear()
        dirty.update(op.targets)
        found.append(fenced)
    return found


def _signals(run: Execution) -> dict[int, dict[int, list[tuple[int, int]]]]:
    """For each semaphore and block its signals: (number of the operation, sum up to it)."""
    found: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for b, block in enumerate(run.blocks):
        for i, op in enumerate(block.operations):
            if op.kind == "signal" and op.semaphore:
                mine = found[op.semaphore.number][b]
                mine.append((i, op.value + (mine[-1][1] if mine else 0)))
    return found


def _needed(order: Order, signals: dict[int, list[tuple[int, int]]], wait: Place, value: int) -> list[Place]:
    """Signals without which a semaphore could not have reached a value.

    A block's signal is needed if everything that the others can have added by then does not
    suffice. Signals that always follow the wait are not counted.
    """
    b, i = wait
    before: dict[int, list[tuple[int, int]]] = {}
    for x, mine in signals.items():
        if x == b:
            before[x] = [(j, total) for j, total in mine if j < i]
        else:
            before[x] = [(j, total) for j, total in mine if order.read[x][j, b] <= i]
    most = sum(mine[-1][1] for mine in before.values() if mine)
    found = []
    for x, mine in before.items():
        if x == b or not mine:
            continue
        lacking = value - (most - mine[-1][1])
        if lacking > 0:
            place = next((j for j, total in mine if total >= lacking), None)
            if place is not None:
                found.append((x, place))
    return found
