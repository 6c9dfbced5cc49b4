"""The proof that a program is correct for every timing, without running it.

It finds deadlocks, semaphores that do not match, data races, missing fences, packets written
twice, chunks that do not exist, and results other than the collective promises. Each fault names
program, rank, thread block and operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np

from astranb.collectives.language.collective import COLLECTIVES, promised
from astranb.collectives.language.program import Block, Chunk, Program

from .check import MIXED, NOTHING, fault_text
from .fault import Flaw, Namer
from .order import Execution, Order, Place, execute, order_of, packets_read

__all__ = ["Flaw", "verify"]

_MOST = 20  # faults of one kind that are listed one by one

_Held = dict[Chunk, tuple[np.ndarray, int, tuple[int, int, int]]]
"""How often each rank's contribution is in a chunk, of which chunk, and the operation that wrote it."""


def verify(program: Program, kind: str, *, root: int = 0) -> list[Flaw]:
    """Find all faults of a program.

    Parameters
    ----------
    program : Program
        As ``Collective.program(ranks)`` returns it.
    kind : str
        The collective that it implements.
    root : int
        The root of a rooted collective.

    Returns
    -------
    list of Flaw
        Empty if the program is correct. Errors come before warnings.

    Examples
    --------
    >>> from astranb.collectives import Collective
    >>> verify(Collective.of("all_reduce", 4096, "ring").program(4), "all_reduce")
    []
    """
    namer = Namer(program)
    faults = list(_bounds(program, namer)) or _behaviour(program, kind, root, namer)
    return sorted(faults, key=lambda f: f.severity)


def _behaviour(program: Program, kind: str, root: int, namer: Namer) -> list[Flaw]:
    """Find the faults of a program whose chunks and semaphores exist."""
    faults: list[Flaw] = []
    contents: _Held = {}
    dead = False
    for blocks in _components(program):
        run = execute(program, blocks)
        stuck = list(_stuck(run, namer))
        faults += stuck
        dead |= bool(stuck)
        faults += _packets(run, namer)
        if not stuck:
            faults += _races(run, order_of(run), namer)
        faults += _results(program, run, contents, namer)
        faults += _semaphores(run, namer)
    if not dead:
        faults += _result(program, kind, root, contents, namer)
    return faults


def _components(program: Program) -> Iterator[list[Block]]:
    """Group the blocks that share semaphores or chunks; channels usually share none."""
    parent = list(range(len(program.blocks)))

    def top(b: int) -> int:
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        return b

    seen: dict[object, int] = {}
    for b, block in enumerate(program.blocks):
        for op in block.operations:
            shared: list[object] = [c for c in (*op.sources, *op.targets) if c.buffer != "input"]
            shared += [c for c in op.targets if c.buffer == "input"]
            if op.semaphore is not None:
                shared.append(op.semaphore.number)
            for thing in shared:
                parent[top(b)] = top(seen.setdefault(thing, b))
    groups: dict[int, list[Block]] = defaultdict(list)
    for b, block in enumerate(program.blocks):
        groups[top(b)].append(block)
    yield from groups.values()


def _bounds(program: Program, namer: Namer) -> Iterator[Flaw]:
    """Find chunks, ranks and semaphores that do not exist."""
    most = {"input": program.input_chunks, "output": program.output_chunks}
    ranks = {s.number: s.rank for s in program.semaphores}
    for block in program.blocks:
        for i, op in enumerate(block.operations):
            for chunk in (*op.sources, *op.targets):
                if not 0 <= chunk.rank < program.ranks:
                    message = f"the rank of {chunk} does not exist"
                elif chunk.index < 0 or chunk.index >= most.get(chunk.buffer, chunk.index + 1):
                    message = f"{chunk} is beyond its buffer of {most.get(chunk.buffer)} chunks"
                elif not 0 <= chunk.channel < program.channels:
                    message = f"{chunk} is of channel {chunk.channel}, there are {program.channels}"
                else:
                    continue
                yield namer.flaw("bounds", f"{namer.text(block, i)}: {message}", (block, i))
            if op.semaphore is None:
                continue
            owner = ranks.get(op.semaphore.number)
            if owner is None:
                message = f"semaphore {op.semaphore.number} does not exist"
            elif op.kind == "wait" and owner != block.rank:
                message = f"it waits for a semaphore of rank {owner}"
            else:
                continue
            yield namer.flaw("bounds", f"{namer.text(block, i)}: {message}", (block, i))


def _stuck(run: Execution, namer: Namer) -> Iterator[Flaw]:
    """Find blocks that never end: waits that no signal satisfies, and cycles of waits."""
    stuck = run.stuck
    if not stuck:
        return
    totals: dict[int, int] = defaultdict(int)
    makers: dict[object, set[int]] = defaultdict(set)  # blocks that would still signal or write a packet
    ever: set[Chunk] = set()
    for b, block in enumerate(run.blocks):
        for i, op in enumerate(block.operations):
            if op.kind == "signal" and op.semaphore:
                totals[op.semaphore.number] += op.value
                if i >= run.at[b]:
                    makers[op.semaphore.number].add(b)
            for chunk in op.targets:
                ever.add(chunk)
                if i >= run.at[b]:
                    makers[chunk].add(b)
    written = {c for b, i in run.done for c in run.blocks[b].operations[i].targets}
    waits: dict[int, set[int]] = {}
    lonely = False
    for b in stuck:
        block, i = run.blocks[b], run.at[b]
        op = block.operations[i]
        if op.kind == "wait" and op.semaphore:
            number = op.semaphore.number
            if totals[number] < op.value:
                lonely = True
                reason = f"waits for {op.value}, all signals together add {totals[number]}"
                yield namer.flaw("semaphore", f"{namer.text(block, i)} {reason}", (block, i))
            waits[b] = makers[number]
        else:
            missing = next(c for c in packets_read(op) if c not in written)
            if missing not in ever:
                lonely = True
                message = f"{namer.text(block, i)} reads {missing}, which is never written"
                yield namer.flaw("packets", message, (block, i))
            waits[b] = makers[missing]
    cycle = _cycle(waits)
    if cycle:
        operations = [(run.blocks[b], run.at[b]) for b in cycle]
        texts = tuple(namer.text(*operation) for operation in operations)
        chain = " <- ".join([*texts, texts[0]])
        yield namer.flaw("deadlock", f"deadlock: {chain}", *operations, waits=texts)
    elif not lonely:
        operation = run.blocks[stuck[0]], run.at[stuck[0]]
        yield namer.flaw("deadlock", f"deadlock: {namer.text(*operation)} never ends", operation)


def _cycle(waits: dict[int, set[int]]) -> list[int]:
    """Return a cycle in a graph of waits; empty if there is none."""
    finished: set[int] = set()
    for start, first in waits.items():
        path = [start]
        stack = [iter(sorted(first))]
        while stack and start not in finished:
            following = next((o for o in stack[-1] if o in waits and o not in finished), None)
            if following is None:
                finished.add(path.pop())
                stack.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                path.append(following)
                stack.append(iter(sorted(waits[following])))
    return []


def _packets(run: Execution, namer: Namer) -> Iterator[Flaw]:
    """Find packets that are written twice: their flags can announce one write only."""
    first: dict[Chunk, tuple[Block, int]] = {}
    for block in run.blocks:
        for i, op in enumerate(block.operations):
            for chunk in op.targets:
                if chunk.buffer != "packets":
                    continue
                here = block, i
                before = first.setdefault(chunk, here)
                if before is not here:
                    message = (
                        f"{chunk} is written twice, by {namer.text(*before)} and by {namer.text(block, i)}"
                    )
                    yield namer.flaw("packets", message, before, (block, i))


def _races(run: Execution, order: Order, namer: Namer) -> Iterator[Flaw]:
    """Find accesses of two blocks to the same chunk, one of them a write, without an order."""
    touched: dict[Chunk, list[tuple[Place, bool]]] = defaultdict(list)
    for b, i in run.done:
        op = run.blocks[b].operations[i]
        for chunk in dict.fromkeys(op.sources):
            touched[chunk].append(((b, i), False))
        for chunk in op.targets:
            touched[chunk].append(((b, i), True))
    count = 0
    for chunk, accesses in touched.items():
        if chunk.buffer == "packets" or not any(writes for _, writes in accesses):
            continue
        for place, (one, one_writes) in enumerate(accesses):
            for two, two_writes in accesses[place + 1 :]:
                if one[0] == two[0] or not (one_writes or two_writes):
                    continue
                if _ordered(order, one, one_writes, two) or _ordered(order, two, two_writes, one):
                    continue
                if count < _MOST:
                    yield _race(run, order, namer, chunk, (one, one_writes), (two, two_writes))
                count += 1
    if count > _MOST:
        yield namer.flaw("race", f"and {count - _MOST} more races")


def _ordered(order: Order, first: Place, writes: bool, then: Place) -> bool:
    """Whether one access has always ended when the other one begins."""
    return order.is_visible(first, then) if writes else order.is_read(first, then)


def _race(
    run: Execution,
    order: Order,
    namer: Namer,
    chunk: Chunk,
    one: tuple[Place, bool],
    two: tuple[Place, bool],
) -> Flaw:
    operations = [(run.blocks[b], i) for (b, i), _ in (one, two)]
    first, then = (namer.text(*operation) for operation in operations)
    verbs = ["writes" if one[1] else "reads", "writes" if two[1] else "reads"]
    # Ordered, except for the time until a store is visible: a fence is missing.
    for (early, writes), (late, _), texts in ((one, two, (first, then)), (two, one, (then, first))):
        if writes and order.is_read(early, late):
            text = f"{texts[0]} writes {chunk}, and {texts[1]} may run before the write is visible"
            fix = "signal without relaxed, or fence"
            return namer.flaw("fence", f"missing fence: {text}; {fix}", *operations)
    text = f"{first} {verbs[0]} and {then} {verbs[1]} {chunk} in no order"
    return namer.flaw("race", f"race: {text}; signal after the one and wait before the other", *operations)


def _semaphores(run: Execution, namer: Namer) -> Iterator[Flaw]:
    """Find signals for which no block waits: not an error, but probably a mistake."""
    waited = {
        op.semaphore.number
        for block in run.blocks
        for op in block.operations
        if op.kind == "wait" and op.semaphore
    }
    reported: set[int] = set()
    for block in run.blocks:
        for i, op in enumerate(block.operations):
            if op.kind != "signal" or op.semaphore is None or op.semaphore.number in waited | reported:
                continue
            reported.add(op.semaphore.number)
            message = f"{namer.text(block, i)}: no block waits for this semaphore"
            yield namer.flaw("semaphore", message, (block, i), severity="warning")


def _results(program: Program, run: Execution, contents: _Held, namer: Namer) -> Iterator[Flaw]:
    """Derive what every chunk holds: how often each rank's contribution, and of which chunk."""
    for b, i in run.done:
        op = run.blocks[b].operations[i]
        if op.kind != "move":
            continue
        times, of_chunk = np.zeros(program.ranks, np.int32), NOTHING
        here = namer.place(run.blocks[b], i)
        for source in op.sources:
            held = contents.get(source)
            if held is None and source.buffer == "input":
                held = (np.eye(1, program.ranks, source.rank, np.int32)[0], source.index, here)
            if held is None:
                message = f"{namer.text(run.blocks[b], i)} reads {source}, which has not been written"
                yield namer.flaw("result", message, places=(here,))
                held = (np.zeros(program.ranks, np.int32), MIXED, here)
            times = times + held[0]
            of_chunk = held[1] if of_chunk in (NOTHING, held[1]) else MIXED
        for target in op.targets:
            contents[target] = (times, of_chunk, here)


def _result(program: Program, kind: str, root: int, contents: _Held, namer: Namer) -> list[Flaw]:
    """Compare every output chunk with what the collective promises."""
    if COLLECTIVES[kind].silent:
        return []
    ranks = [root] if COLLECTIVES[kind].root_only else range(program.ranks)
    cells = list(product(ranks, range(program.output_chunks), range(program.channels)))
    rank, index = (np.array([cell[k] for cell in cells], np.int64) for k in (0, 1))
    wanted, wanted_chunk = promised(kind, root, program.ranks, rank, index)
    wrong = []
    writers: list[tuple[int, int, int]] = []
    for number, (r, c, channel) in enumerate(cells):
        written = contents.get(Chunk(r, "output", c, channel))
        times, chunk = written[:2] if written else (np.zeros(program.ranks, np.int32), NOTHING)
        if (times != wanted[number]).any() or chunk != wanted_chunk[number]:
            text = fault_text(times, wanted[number], chunk, int(wanted_chunk[number]))
            wrong.append((r, c, channel, text))
            writers += written[2:] if written else ()
    if not wrong:
        return []
    r, c, channel, text = wrong[0]
    more = f" (and {len(wrong) - 1} more slices)" if len(wrong) > 1 else ""
    of_channel = f", channel {channel}" if program.channels > 1 else ""
    message = f"wrong result on rank {r}, output chunk {c}{of_channel}: {text}{more}"
    return [namer.flaw("result", message, places=tuple(dict.fromkeys(writers[:_MOST])))]
