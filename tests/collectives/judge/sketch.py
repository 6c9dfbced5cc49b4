"""Programs as data: built, changed and printed without the functions that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from astranb.collectives import Block, Chunk, Collective, Contract, Operation, Program, Semaphore

__all__ = ["Lines", "Sketch"]


@dataclass(frozen=True)
class Lines:
    """One thread block: where it runs and what it does."""

    rank: int
    operations: tuple[Operation, ...]
    channel: int = 0
    unit: str = "sm"
    role_of: int = -1
    """The number of the thread block of which it is a role, -1: it is a whole one."""


@dataclass(frozen=True)
class Sketch:
    """A program as data, with the collective that it should be."""

    kind: str
    ranks: int
    size: int
    blocks: tuple[Lines, ...]
    semaphores: tuple[int, ...]
    """The rank of each semaphore."""
    channels: int = 1
    root: int = 0
    protocol: str = "Simple"
    label: str = ""
    same_memory: tuple[tuple[Chunk, Chunk], ...] = ()
    """For a plan in place: chunks, each with the chunk whose memory it shares."""
    slots: tuple[int, int] | None = None
    """Number of thread blocks and copy engines of a rank that work at once; all if None."""
    buffers: tuple[int, ...] = ()
    """Number of slots of each buffer of messages."""
    shared: tuple[tuple[int, int], ...] = ()
    """Semaphores in shared memory, each with the number of its thread block."""
    chunks: int = 0
    """Chunks of each input and output; 0: as the collective has."""
    contract: Contract | None = None
    """Its promise, if its kind is no collective's name."""
    poisoned: bool = False
    """Whether the memory of packets held a value that no data has."""

    @classmethod
    def of(cls, collective: Collective, ranks: int, per_node: int | None = None) -> Sketch:
        """Take a program apart."""
        program = collective.program(ranks, per_node)
        wholes = {id(b.thread_block): k for k, b in enumerate(program.blocks) if b.thread_block is not None}
        return cls(
            collective.name,
            ranks,
            collective.size,
            tuple(
                Lines(b.rank, tuple(b.operations), b.channel, b.unit, wholes.get(id(b.thread_block), -1))
                for b in program.blocks
                if not b.added
            ),
            tuple(semaphore.rank for semaphore in program.semaphores),
            program.channels,
            collective.root,
            collective.protocol,
            collective.title,
            tuple(program.same_memory.items()),
            buffers=tuple(program.slots),
            shared=tuple((s.number, wholes[id(whole)]) for s, whole in program.shared.items()),
            poisoned=program.poisoned,
            contract=collective.contract if isinstance(collective.contract, Contract) else None,
        )

    def but(self, **changes: Any) -> Sketch:
        """Return it with some fields changed."""
        return replace(self, **changes)

    def fill(self, program: Program) -> None:
        """Add all thread blocks and semaphores to a program."""
        if program.channel:  # an algorithm is called once for each channel
            return
        program.semaphores = [Semaphore(rank, number) for number, rank in enumerate(self.semaphores)]
        program.same_memory = dict(self.same_memory)
        program.slots = list(self.buffers)
        program.poisoned = self.poisoned
        wholes: dict[int, Block] = {}
        phases = 1 + max((op.phase for lines in self.blocks for op in lines.operations), default=0)
        program.phases = [f"phase {number}" for number in range(phases)]
        for lines in self.blocks:
            block = Block(program, lines.rank, lines.channel, lines.unit)
            block.operations = list(lines.operations)
            if lines.role_of >= 0:
                whole = wholes.setdefault(lines.role_of, Block(program, lines.rank, lines.channel))
                block.thread_block, block.warp_count = whole, 1
                whole.roles.append(block)
            program.blocks.append(block)
        for number, whole_number in self.shared:
            program.shared[program.semaphores[number]] = wholes[whole_number]

    def collective(self, fill: Callable[[Program], None] | None = None, size: int = 0) -> Collective:
        """Return the collective that runs it; its packets, where it has any, stay as they are."""

        def write(program: Program) -> None:
            if self.chunks:
                program.input_chunks = program.output_chunks = self.chunks
            (fill or self.fill)(program)

        vars(write)["fitted"] = lambda _kind, _size, protocol: protocol
        if self.contract is not None:
            return Collective.of(
                self.contract, algorithm=write, channels=self.channels, protocol=self.protocol
            )
        return Collective.of(
            self.kind,
            size or self.size,
            write,
            channels=self.channels,
            root=self.root,
            protocol=self.protocol,
        )

    def program(self) -> Program:
        """Build it."""
        return self.collective().program(self.ranks)

    def __str__(self) -> str:
        """Print it as Python text that builds it."""
        head = (
            f"# {self.label}\n"
            f"p = Program('x', ranks={self.ranks}, channels={self.channels}, root={self.root}, "
            f"protocol={self.protocol!r}, ...)  # {self.kind}, {self.size} B"
        )
        rows = [head, *(f"s{number} = p.semaphore({rank})" for number, rank in enumerate(self.semaphores))]
        for number, lines in enumerate(self.blocks):
            rows.append(f"b{number} = p.{'block' if lines.unit == 'sm' else 'engine'}({lines.rank})")
            rows[-1] += f"  # channel {lines.channel}" if self.channels > 1 else ""
            rows[-1] += f"  # a role of block {lines.role_of}" if lines.role_of >= 0 else ""
            waited: dict[int, int] = {}
            rows += [f"b{number}.{_text(op, waited)}" for op in lines.operations]
        return "\n".join(rows)


def _chunk(chunk: Chunk) -> str:
    channel = f"@{chunk.channel}" if chunk.channel else ""
    return f"p.{chunk.buffer}({chunk.rank})[{chunk.index}]{channel}"


def _text(op: Operation, waited: dict[int, int]) -> str:
    if op.kind == "move":
        sources, targets = (", ".join(map(_chunk, side)) for side in (op.sources, op.targets))
        return f"move([{sources}], [{targets}]{f', {op.in_switch}' if op.in_switch else ''})"
    if op.semaphore is None:
        return "fence()" if op.kind == "fence" else f"compute({op.value})"
    name = f"s{op.semaphore.number}"
    if op.kind == "signal":
        how = ", relaxed=True" if op.relaxed else f", behind={op.behind}" if op.behind else ""
        return f"signal({name}, {op.value}{how})"
    rise = op.value - waited.get(op.semaphore.number, 0)
    waited[op.semaphore.number] = op.value
    return f"wait({name}, {rise})"
