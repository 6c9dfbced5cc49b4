"""Random programs: right by construction, then damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from astranb.collectives import COLLECTIVES, Block, Chunk, Collective, Operation, Program, Semaphore
from astranb.collectives.language.collective import promised
from astranb.core.errors import InputError

from .sketch import Lines, Sketch

__all__ = ["ASYNC_MUTATIONS", "MUTATIONS", "async_program", "mutant", "random_program", "wired_program"]

LINE = 128
_KINDS = (
    "all_gather",
    "all_reduce",
    "broadcast",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "send_recv",
)

_Part = tuple[int, int]
"""A rank's contribution: the rank and the chunk of its input."""


class _Author:
    """Writes a program move by move, each with the signals and waits that it needs."""

    def __init__(self, program: Program, rng: random.Random) -> None:
        self.p, self.rng = program, rng
        engines = rng.random() < 0.15
        self.blocks: dict[int, list[Block]] = {}
        for rank in range(program.ranks):
            self.blocks[rank] = [program.block(rank) for _ in range(rng.choice((1, 1, 2)))]
            if engines and rng.random() < 0.5:
                self.blocks[rank].append(program.engine(rank))
        self.held: dict[Chunk, frozenset[_Part]] = {}
        self.readers: dict[Chunk, list[Block]] = {}
        self.writer: dict[Chunk, Block] = {}
        # How many operations of one block another one knows to be complete.
        self.known: dict[tuple[int, int], int] = {}
        self.channel: dict[tuple[int, int], Semaphore] = {}
        self.slots = rng.randint(1, 4)  # of scratch, used again and again
        self.shared = rng.random() < 0.2
        self.sure = rng.random() < 0.85  # else a dependency is forgotten now and then

    def behind(self, block: Block) -> int:  # noqa: ARG002
        """Return no stores to be behind of: the signal waits for all."""
        return 0

    def gate(self, block: Block, others: list[Block]) -> Semaphore:  # noqa: ARG002
        """Return a semaphore for which a block waits, and which others raise."""
        return self.p.semaphore(block.rank)

    def number(self, block: Block) -> int:
        return next(k for k, one in enumerate(self.p.blocks) if one is block)

    def after(self, block: Block, others: list[Block]) -> None:
        """Make a block wait until other blocks have done all that they have been given so far."""
        behind: list[Block] = []
        for other in others:
            if other is block or any(other is one for one in behind):
                continue
            pair = self.number(other), self.number(block)
            if self.known.get(pair, -1) < len(other.operations) or self.rng.random() < 0.1:
                behind.append(other)
        if not self.sure and behind and self.rng.random() < 0.15:
            behind.pop()
        if not behind:
            return
        if self.shared or (len(behind) > 1 and self.rng.random() < 0.5):
            gate = self.gate(block, behind)
            for other in behind:
                self.signal(other, gate)
            block.wait(gate, len(behind))
        else:
            for other in behind:
                pair = self.number(other), self.number(block)
                if pair not in self.channel:
                    self.channel[pair] = self.gate(block, [other])
                self.signal(other, self.channel[pair])
                block.wait(self.channel[pair])
        for other in behind:
            self.known[self.number(other), self.number(block)] = len(other.operations)

    def signal(self, block: Block, semaphore: Semaphore) -> None:
        relaxed = self.rng.random() < 0.02
        behind = 0 if relaxed else self.behind(block)
        block.signal(semaphore, relaxed=relaxed, behind=behind)

    def barrier(self) -> None:
        every = [block for blocks in self.blocks.values() for block in blocks]
        self.p.barrier(every)
        for one in every:
            for two in every:
                self.known[self.number(one), self.number(two)] = len(one.operations)

    def move(self, rank: int, sources: list[Chunk], targets: list[Chunk]) -> None:
        """Move chunks by a block of a rank, after everything that this depends on."""
        if self.rng.random() < 0.04:
            self.barrier()
        block = self.rng.choice(self.blocks[rank])
        reads, writes = [self.memory(c) for c in sources], [self.memory(c) for c in targets]
        before: list[Block] = [self.writer[c] for c in (*reads, *writes) if c in self.writer]
        for chunk in writes:
            before += self.readers.pop(chunk, [])
        self.after(block, before)
        block.move(sources, targets)
        for chunk in reads:
            self.readers.setdefault(chunk, []).append(block)
        held = frozenset[_Part]().union(*(self.holds(c) for c in sources))
        for chunk in writes:
            self.writer[chunk] = block
            self.held[chunk] = held

    def memory(self, chunk: Chunk) -> Chunk:
        return self.p.same_memory.get(chunk, chunk)

    def holds(self, chunk: Chunk) -> frozenset[_Part]:
        if self.memory(chunk) in self.held:
            return self.held[self.memory(chunk)]
        return frozenset({(chunk.rank, chunk.index)} if chunk.buffer == "input" else ())

    def slot(self, rank: int) -> Chunk:
        return self.p.scratch(rank)[self.rng.randrange(self.slots)]

    def where(self, part: frozenset[_Part], rank: int, *, here: bool) -> Chunk | None:
        """Find a chunk with these contributions: on a rank or on any."""
        found = [c for c, held in self.held.items() if held == part and (c.rank == rank or not here)]
        found = [c for c in found if c.channel == self.p.channel]
        if len(part) == 1:
            ((owner, index),) = part
            chunk = self.p.input(owner)[index]
            if self.memory(chunk) not in self.held and (owner == rank or not here):
                found.append(chunk)
        return self.rng.choice(found) if found else None

    def bring(self, part: frozenset[_Part], rank: int, target: Chunk) -> None:
        """Store contributions at a chunk of a rank."""
        rng = self.rng
        whole = self.where(part, rank, here=False)
        if whole is not None:
            if self.memory(whole) == self.memory(target):
                return
            if rng.random() < 0.2:
                relay = rng.randrange(self.p.ranks)
                slot = self.slot(relay)
                if slot not in (self.memory(whole), self.memory(target)):
                    self.move(rng.choice((relay, whole.rank)), [whole], [slot])
                    whole = slot
            self.move(rng.choice((whole.rank, rank)), [whole], [target])
            return
        # A sum: bring some of it here first, read the rest where it is.
        parts = sorted(part)
        rng.shuffle(parts)
        sources: list[Chunk] = []
        for one in parts:
            single = frozenset({one})
            there = self.where(single, rank, here=False)
            assert there is not None
            if there.rank != rank and rng.random() < 0.6:
                slot = self.p.scratch(rank)[self.slots + len(sources)]
                if there != slot:
                    self.move(rng.choice((there.rank, rank)), [there], [slot])
                    there = slot
            sources.append(there)
        self.move(rank, sources, [target])

    def collective(self, kind: str, root: int) -> None:
        """Write the collective: every promised output in a random order, then what each rank waits for."""
        p, rng = self.p, self.rng
        ranks = [root] if COLLECTIVES[kind].root_only else list(range(p.ranks))
        cells = [(rank, index) for rank in ranks for index in range(p.output_chunks)]
        rank_of, index_of = (np.array(column) for column in zip(*cells, strict=True))
        times, of_chunk = promised(kind, root, p.ranks, p.output_chunks, rank_of, index_of)
        order = list(range(len(cells)))
        rng.shuffle(order)
        for k in order:
            rank, index = cells[k]
            part = frozenset((int(r), int(of_chunk[k])) for r in np.flatnonzero(times[k]))
            self.bring(part, rank, p.output(rank)[index])
        for rank in ranks:
            mine = [self.memory(p.output(rank)[index]) for index in range(p.output_chunks)]
            writers = [self.writer[c] for c in mine if c in self.writer]
            self.after(rng.choice(self.blocks[rank]), [w for w in writers if w.rank != rank])


class _AsyncAuthor(_Author):
    """Posts signals behind stores, and gives thread blocks roles that share semaphores and barriers."""

    def __init__(self, program: Program, rng: random.Random) -> None:
        super().__init__(program, rng)
        for rank in range(program.ranks):
            if rng.random() < 0.5:
                whole = program.block(rank, warps=2)
                self.blocks[rank] += [whole.warps(0, 1), whole.warps(1, 2)]
                if rng.random() < 0.5:  # nothing but roles
                    others, self.blocks[rank] = self.blocks[rank][:-2], self.blocks[rank][-2:]
                    program.blocks = [b for b in program.blocks if b not in others]

    def behind(self, block: Block) -> int:
        """Mostly behind all that the block has stored, now and then behind less."""
        moves = sum(op.kind == "move" for op in block.operations)
        if not moves or self.rng.random() < 0.35:
            return 0
        return moves if self.rng.random() < 0.85 else self.rng.randint(1, moves)

    def gate(self, block: Block, others: list[Block]) -> Semaphore:
        """Mostly in shared memory where all are roles of one thread block."""
        whole = block.thread_block
        if whole and all(other.thread_block is whole for other in others) and self.rng.random() < 0.7:
            return whole.semaphore()
        return super().gate(block, others)

    def after(self, block: Block, others: list[Block]) -> None:
        """Make roles meet at a barrier now and then."""
        whole = block.thread_block
        for other in list(others):
            mine = whole and other is not block and other.thread_block is whole
            if mine and whole and self.rng.random() < 0.3:
                if self.rng.random() < 0.8:  # else what it has stored may not be seen
                    other.fence()
                whole.sync(*self.rng.sample([block, other], 2))
                self.known[self.number(other), self.number(block)] = len(other.operations)
        super().after(block, others)


def async_program(seed: int) -> Sketch:
    """Return a random program with signals behind stores, and with roles."""
    return random_program(seed, _AsyncAuthor)


def wired_program(seed: int) -> Sketch:
    """Return a random broadcast along a chain, whose messages go through slots that receivers free."""
    rng = random.Random(seed)
    ranks, chunks, depth = rng.choice((2, 2, 3)), rng.choice((2, 3, 4)), rng.choice((0, 1, 1, 2))
    most, posted = rng.choice((1, 1, 2)), rng.random() < 0.6
    early, forgets = rng.random() < 0.2, rng.random() < 0.1
    two = rng.random() < 0.3  # blocks that receive: both must have read before a slot is free
    of = [rng.randint(1, most) for _ in range(chunks)]

    def write(p: Program) -> None:
        p.output_chunks = p.input_chunks = chunks
        wires = p.connections(depth, most, posted=posted)
        for me in p.everyone:
            block = me.block()
            helper = me.block() if two and me.number else None
            first = 0
            for together in of:
                part = range(first, min(chunks, first + together))
                first = part.stop
                if not part:
                    break
                if me.number == 0:
                    held = [me.input[k] for k in part]
                    for k in part:
                        block.copy(me.input[k], me.output[k])
                else:
                    held = wires[me.left, me].receive_all(block, len(part))
                free = depth and me.number
                if free and early:
                    wires[me.left, me].free(block)
                if helper:
                    ready, done = me.semaphore(), me.semaphore()
                    block.signal(ready)
                    helper.wait(ready)
                    for k, chunk in zip(part, held, strict=True):
                        helper.copy(chunk, me.output[k])
                    helper.signal(done, relaxed=True)
                    if not forgets:
                        block.wait(done)
                elif me.number:
                    for k, chunk in zip(part, held, strict=True):
                        block.copy(chunk, me.output[k])
                if me.number < p.ranks - 1:
                    with wires[me, me.right].message(block) as m:
                        for chunk in held:
                            m.put(chunk)
                if free and not early:
                    wires[me.left, me].free(block)

    size = chunks * LINE * rng.choice((1, 2))
    collective = Collective.of("broadcast", size, write, channels=1)
    return Sketch.of(collective, ranks).but(label=f"wired {seed}", chunks=chunks)


def random_program(seed: int, author: type[_Author] = _Author) -> Sketch:
    """Return a random program; most are right, some have forgotten a dependency."""
    rng = random.Random(seed)
    kind = rng.choice(_KINDS)
    ranks = rng.choice((2, 2, 3, 3, 4))
    root = rng.randrange(ranks)
    channels = rng.choice((1, 1, 1, 1, 2))
    protocol = rng.choice(("Simple", "Simple", "LL", "LL128"))
    chunks = max(COLLECTIVES[kind].input_chunks(ranks), COLLECTIVES[kind].output_chunks(ranks))
    size = chunks * channels * LINE * rng.choice((1, 2, 2, 3))
    if rng.random() < 0.15:  # the last chunks are short or empty
        size = rng.randint(1, size)
    in_place = rng.random() < 0.2
    slots = (rng.randint(1, 3), rng.randint(1, 2)) if rng.random() < 0.1 else None

    def write(p: Program) -> None:
        if kind == "broadcast":  # eight chunks are many for a small program
            p.output_chunks = p.input_chunks = 2
        if in_place:
            p.same_memory.update(_one_buffer(p, kind))
        author(p, rng).collective(kind, root)

    if kind == "broadcast":
        size //= 4

    def made(with_packets: str) -> Sketch:
        collective = Collective.of(kind, size, write, channels=channels, root=root, protocol=with_packets)
        return Sketch.of(collective, ranks).but(label=f"random {seed}", slots=slots)

    try:
        return made(protocol)
    except InputError:  # no packets for this program
        return made("Simple")


def _one_buffer(p: Program, kind: str) -> list[tuple[Chunk, Chunk]]:
    """Return the chunks of a collective in place, as NCCL defines it: each input with its output."""
    pairs = []
    for rank in range(p.ranks):
        if kind in ("all_reduce", "broadcast"):
            places = [(index, index) for index in range(p.input_chunks)]
        elif kind == "all_gather":
            places = [(0, rank)]
        elif kind == "reduce_scatter":
            places = [(rank, 0)]
        else:
            places = []
        pairs += [(p.input(rank)[one], p.output(rank)[two]) for one, two in places]
    return pairs


# Damage -------------------------------------------------------------------------


def _anywhere(
    sketch: Sketch, rng: random.Random, wanted: Callable[[Operation], bool]
) -> tuple[int, int] | None:
    places = [
        (b, i) for b, lines in enumerate(sketch.blocks) for i, op in enumerate(lines.operations) if wanted(op)
    ]
    return rng.choice(places) if places else None


def _set(sketch: Sketch, b: int, operations: list[Operation]) -> Sketch:
    changed = replace(sketch.blocks[b], operations=_waits(sketch.blocks[b].operations, operations))
    return sketch.but(blocks=(*sketch.blocks[:b], changed, *sketch.blocks[b + 1 :]))


def _waits(before: tuple[Operation, ...], after: list[Operation]) -> tuple[Operation, ...]:
    """Keep what each wait rises by: values count from the start of the launch."""
    rises: dict[int, int] = {}
    reached: dict[int, int] = {}
    for op in before:
        if op.kind == "wait" and op.semaphore is not None:
            rises[id(op)] = op.value - reached.get(op.semaphore.number, 0)
            reached[op.semaphore.number] = op.value
    found, reached = [], {}
    for op in after:
        if op.kind == "wait" and op.semaphore is not None and id(op) in rises:
            reached[op.semaphore.number] = reached.get(op.semaphore.number, 0) + max(1, rises[id(op)])
            found.append(replace(op, value=reached[op.semaphore.number]))
        else:
            found.append(op)
    return tuple(found)


def _drop(sketch: Sketch, rng: random.Random, kinds: tuple[str, ...]) -> Sketch | None:
    place = _anywhere(sketch, rng, lambda op: op.kind in kinds)
    if place is None:
        return None
    b, i = place
    operations = list(sketch.blocks[b].operations)
    del operations[i]
    return _set(sketch, b, operations)


def _drop_wait(sketch: Sketch, rng: random.Random) -> Sketch | None:
    return _drop(sketch, rng, ("wait",))


def _drop_signal(sketch: Sketch, rng: random.Random) -> Sketch | None:
    return _drop(sketch, rng, ("signal",))


def _drop_move(sketch: Sketch, rng: random.Random) -> Sketch | None:
    return _drop(sketch, rng, ("move",))


def _drop_wait_and_signal(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Forget a dependency whole: nobody waits and nobody signals."""
    place = _anywhere(sketch, rng, lambda op: op.kind == "wait")
    if place is None:
        return None
    number = sketch.blocks[place[0]].operations[place[1]].semaphore
    less = _drop_at(sketch, *place)
    there = _anywhere(less, rng, lambda op: op.kind == "signal" and op.semaphore == number)
    return _drop_at(less, *there) if there else None


def _drop_at(sketch: Sketch, b: int, i: int) -> Sketch:
    operations = list(sketch.blocks[b].operations)
    del operations[i]
    return _set(sketch, b, operations)


def _shift(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Move an operation within its block."""
    place = _anywhere(sketch, rng, lambda _: True)
    if place is None or len(sketch.blocks[place[0]].operations) < 2:
        return None
    b, i = place
    operations = list(sketch.blocks[b].operations)
    op = operations.pop(i)
    j = rng.randrange(len(operations) + 1)
    if i == j:
        return None
    operations.insert(j, op)
    return _set(sketch, b, operations)


def _double(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Do an operation twice, the second time somewhere later in the block."""
    place = _anywhere(sketch, rng, lambda op: op.kind != "compute")
    if place is None:
        return None
    b, i = place
    operations = list(sketch.blocks[b].operations)
    operations.insert(rng.randint(i + 1, len(operations)), replace(operations[i]))
    return _set(sketch, b, operations)


def _change(sketch: Sketch, b: int, i: int, **changes: Any) -> Sketch:
    operations = list(sketch.blocks[b].operations)
    operations[i] = replace(operations[i], **changes)
    lines = replace(sketch.blocks[b], operations=tuple(operations))
    return sketch.but(blocks=(*sketch.blocks[:b], lines, *sketch.blocks[b + 1 :]))


def _other_chunk(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Read or write another chunk that the program uses: another index, buffer or rank."""
    place = _anywhere(sketch, rng, lambda op: op.kind == "move")
    if place is None:
        return None
    op = sketch.blocks[place[0]].operations[place[1]]
    used = sorted(
        {c for lines in sketch.blocks for one in lines.operations for c in (*one.sources, *one.targets)},
        key=lambda c: (c.rank, c.buffer, c.index, c.channel),
    )
    side = rng.choice(("sources", "targets"))
    chunks = list(getattr(op, side))
    k = rng.randrange(len(chunks))
    # Packets are moved as packets, and a block reads only those of its own rank.
    near = [c for c in used if (c.buffer == "packets") == (chunks[k].buffer == "packets")]
    near = [c for c in near if c not in chunks and c.channel == chunks[k].channel]
    if chunks[k].buffer == "packets" and side == "sources":
        near = [c for c in near if c.rank == chunks[k].rank]
    if not near:
        return None
    chunks[k] = rng.choice(near)
    b, i = place
    return _change(sketch, b, i, **{side: tuple(chunks)})


def _other_semaphore(sketch: Sketch, rng: random.Random) -> Sketch | None:
    place = _anywhere(sketch, rng, lambda op: op.semaphore is not None)
    if place is None or len(sketch.semaphores) < 2:
        return None
    b, i = place
    op = sketch.blocks[b].operations[i]
    numbers = [
        number
        for number, rank in enumerate(sketch.semaphores)
        if op.semaphore is not None
        and number != op.semaphore.number
        and (op.kind == "signal" or rank == sketch.blocks[b].rank)
    ]
    if not numbers:
        return None
    number = rng.choice(numbers)
    changed = replace(op, semaphore=Semaphore(sketch.semaphores[number], number))
    if op.kind == "wait":
        changed = replace(changed, value=1)
    operations = list(sketch.blocks[b].operations)
    operations[i] = changed
    return _set(sketch, b, operations)


def _relaxed(sketch: Sketch, rng: random.Random) -> Sketch | None:
    place = _anywhere(sketch, rng, lambda op: op.kind == "signal" and not op.relaxed)
    return _change(sketch, *place, relaxed=True) if place else None


def _value(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Signal or wait for one more or one less."""
    place = _anywhere(sketch, rng, lambda op: op.semaphore is not None)
    if place is None:
        return None
    value = sketch.blocks[place[0]].operations[place[1]].value + rng.choice((1, -1))
    return _change(sketch, *place, value=value) if value > 0 else None


def _other_block(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Move an operation to another block of the rank, perhaps a new one."""
    place = _anywhere(sketch, rng, lambda op: op.kind == "move")
    if place is None:
        return None
    b, i = place
    lines = sketch.blocks[b]
    less = _drop_at(sketch, b, i)
    there = [k for k, one in enumerate(sketch.blocks) if one.rank == lines.rank and k != b]
    if not there or rng.random() < 0.3:
        return less.but(blocks=(*less.blocks, Lines(lines.rank, (lines.operations[i],), lines.channel)))
    k = rng.choice(there)
    operations = list(less.blocks[k].operations)
    operations.insert(rng.randint(0, len(operations)), lines.operations[i])
    return _set(less, k, operations)


def _stray(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Add a block that copies something somewhere, waiting for nobody."""
    place = _anywhere(sketch, rng, lambda op: op.kind == "move")
    if place is None:
        return None
    op = sketch.blocks[place[0]].operations[place[1]]
    plain = [c for c in (*op.sources, *op.targets) if c.buffer != "packets"]
    if not plain:
        return None
    used = sorted(
        {
            c
            for lines in sketch.blocks
            for one in lines.operations
            for c in (*one.sources, *one.targets)
            if c.buffer != "packets" and c.channel == plain[0].channel
        },
        key=lambda c: (c.rank, c.buffer, c.index),
    )
    one, two = rng.choice(plain), rng.choice(used)
    if one == two:
        return None
    source, target = (one, two) if rng.random() < 0.5 else (two, one)
    stray = Lines(
        rng.choice((source.rank, target.rank)), (Operation("move", 0, (source,), (target,)),), one.channel
    )
    return sketch.but(blocks=(*sketch.blocks, stray))


MUTATIONS: dict[str, Callable[[Sketch, random.Random], Sketch | None]] = {
    "drop a wait": _drop_wait,
    "drop a signal": _drop_signal,
    "drop a move": _drop_move,
    "drop a wait and its signal": _drop_wait_and_signal,
    "shift an operation": _shift,
    "double an operation": _double,
    "another chunk": _other_chunk,
    "another semaphore": _other_semaphore,
    "relax a signal": _relaxed,
    "another value": _value,
    "another block": _other_block,
    "a stray block": _stray,
}
"""Ways to damage a program; None where it does not apply."""


def _post(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Post a signal behind the last moves instead of waiting for all, or behind another number of them."""
    place = _anywhere(sketch, rng, lambda op: op.kind == "signal")
    if place is None:
        return None
    op = sketch.blocks[place[0]].operations[place[1]]
    return _change(sketch, *place, behind=rng.choice([n for n in (1, 2, 3) if n != op.behind]), relaxed=False)


def _unpost(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Relax a signal that was posted behind stores."""
    place = _anywhere(sketch, rng, lambda op: op.behind > 0)
    return _change(sketch, *place, behind=0, relaxed=True) if place else None


ASYNC_MUTATIONS = MUTATIONS | {"post a signal": _post, "relax a posted signal": _unpost}
"""Those, and ways to damage the order of signals behind stores."""


def mutant(
    sketch: Sketch,
    rng: random.Random,
    name: str | None = None,
    mutations: dict[str, Callable[[Sketch, random.Random], Sketch | None]] = MUTATIONS,
) -> Sketch:
    """Damage a program once."""
    while True:
        chosen = name or rng.choice(list(mutations))
        changed = mutations[chosen](sketch, rng)
        if changed is not None and any(lines.operations for lines in changed.blocks):
            return changed.but(label=f"{sketch.label}, {chosen}")
        name = None
