"""Programs written as MSCCL algorithms."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from xml.sax.saxutils import quoteattr

from astranb.core.errors import InputError
from astranb.core.files import whole_file

from ._msccl_steps import Item, Place, Steps, Thread
from ._pairing import pair
from ._program import Block, Chunk, Operation, Program, Semaphore

__all__ = ["write_msccl_xml"]

_KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
_MOST_STEPS = 256  # MSCCL_MAX_NUM_STEPS in MSCCL's src/include/msccl.h
_LETTERS = {"input": "i", "output": "o", "scratch": "s", "packets": "s"}

# One way from a block to a block; under Simple also for each semaphore, so that what is
# sent on it comes in the order in which it is waited for.
_Wire = tuple[int, int, Semaphore | None]


def write_msccl_xml(program: Program, path: str | Path, collective: str | None = None) -> list[str]:
    """Write a program as an MSCCL algorithm.

    A store to another rank and the signal behind it are a send; the wait for that signal
    receives what was sent. A thread block with several peers is several in the file, that
    wait for one another where the order of the program asks for it. Sums of many chunks
    are made one by one.

    Parameters
    ----------
    program : Program
    path : str or Path
        The file to be written.
    collective : str, optional
        The collective's name in the file; from the name of the program.

    Returns
    -------
    list of str
        What MSCCL itself would not take.

    Raises
    ------
    InputError
        The program uses something that the format has not, as a load from another rank or
        a signal without data; or the file cannot be written.
    """
    writer = _Writer(program)
    text = writer.document(collective or program.name.partition("/")[0])
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return writer.notes


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.notes: list[str] = []
        self.threads: list[list[Thread]] = [[] for _ in range(program.ranks)]
        self.scratch: list[dict[object, int]] = [{} for _ in range(program.ranks)]
        self.read: dict[Chunk, int] = {}
        for block in program.blocks:
            if block.unit != "sm":
                raise self.error("copy engines cannot be written", "use thread blocks")
            for op in block.operations:
                self._check(block, op)
                for chunk in op.sources:
                    self.read[chunk] = self.read.get(chunk, 0) + 1
        self.pairing = pair(program)
        self.messages: dict[_Wire, deque[list[Chunk]]] = {}
        self.wires: dict[tuple[int, Chunk, int], _Wire] = {}  # by block, chunk and operation
        self.packets: dict[Chunk, _Wire] = {}
        self.received: set[Chunk] = set()
        self.steps: list[Steps] = []
        # At each signal to a block of the same rank, the steps before it.
        self.local: dict[tuple[int, Semaphore], deque[list[Item]]] = {}
        self._readers()
        for number, block in enumerate(program.blocks):
            self._find_messages(number, block)
        self._number_channels()
        self.got: list[tuple[_Wire, Chunk] | None] = [None] * len(program.blocks)  # received, not yet written
        self._write_blocks()

    def error(self, what: str, hint: str = "") -> InputError:
        return InputError(what, where=f"program {self.program.name!r}", hint=hint)

    def _check(self, block: Block, op: Operation) -> None:
        if op.in_switch:
            raise self.error("MSCCL has no operation of a switch", "write it as .json")
        if op.kind == "compute":
            raise self.error("MSCCL has no computation", "write it as .json")
        if any(chunk.rank != block.rank for chunk in op.sources):
            raise self.error(
                f"rank {block.rank} reads from another rank, which MSCCL cannot",
                "put instead, or write it as .json",
            )

    def _readers(self) -> None:
        """Which block reads which packets first: it is the one to receive them."""
        self.reader: dict[Chunk, int] = {}
        for number, block in enumerate(self.program.blocks):
            for op in block.operations:
                for chunk in op.sources:
                    if chunk.buffer == "packets":
                        self.reader.setdefault(chunk, number)

    def _find_messages(self, number: int, block: Block) -> None:
        """Say of each store to another rank on which wire it goes, from the signal behind it."""
        open_stores: dict[int, list[tuple[Chunk, int]]] = {}
        for place, op in enumerate(block.operations):
            for chunk in op.targets:
                if chunk.rank == block.rank:
                    continue
                if chunk.buffer != "packets":
                    open_stores.setdefault(chunk.rank, []).append((chunk, place))
                    continue
                if chunk not in self.reader:
                    raise self.error(f"nobody reads {chunk}", "leave it out")
                wire: _Wire = number, self.reader[chunk], None
                self.wires[number, chunk, place] = self.packets[chunk] = wire
                self.messages.setdefault(wire, deque()).append([chunk])
            if op.kind != "signal" or op.semaphore is None:
                continue
            waiters = self.pairing.waiters.get(op.semaphore, [])
            if len(waiters) != 1:
                raise self.error(f"{len(waiters)} blocks wait for one semaphore of rank {op.semaphore.rank}")
            if op.semaphore.rank == block.rank:
                continue
            stores = open_stores.pop(op.semaphore.rank, [])
            if not stores or op.value != 1:
                raise self.error(
                    f"rank {block.rank} signals rank {op.semaphore.rank} without data, which MSCCL cannot",
                    "write it as .json",
                )
            wire = number, waiters[0], op.semaphore
            self.messages.setdefault(wire, deque()).append([chunk for chunk, _ in stores])
            for chunk, where in stores:
                self.wires[number, chunk, where] = wire
        if open_stores:
            chunk = next(iter(open_stores.values()))[0][0]
            raise self.error(f"no signal follows what rank {block.rank} stores to {chunk}")

    def _number_channels(self) -> None:
        """Give each wire a channel, and each block its threads: one sends and receives where it can."""
        used: dict[tuple[int, int], int] = {}
        self.channel: dict[_Wire, int] = {}
        blocks = self.program.blocks
        self.sending: dict[_Wire, Thread] = {}
        self.receiving: dict[_Wire, Thread] = {}
        for wire in sorted(self.messages, key=lambda w: (w[0], w[1], w[2].number if w[2] else -1)):
            ends = blocks[wire[0]].rank, blocks[wire[1]].rank
            self.channel[wire] = used.get(ends, 0)
            used[ends] = self.channel[wire] + 1
        for number, block in enumerate(blocks):
            threads = self.threads[block.rank]
            first = len(threads)
            receives = [wire for wire in self.channel if wire[1] == number]
            for wire in [wire for wire in self.channel if wire[0] == number]:
                thread = Thread(len(threads), send=blocks[wire[1]].rank, channel=self.channel[wire])
                threads.append(thread)
                self.sending[wire] = thread
                match = next((other for other in receives if self.channel[other] == thread.channel), None)
                if match is not None:
                    receives.remove(match)
                    self.receiving[match] = thread
                    thread.receive = blocks[match[0]].rank
            for wire in receives:
                self.receiving[wire] = Thread(
                    len(threads), receive=blocks[wire[0]].rank, channel=self.channel[wire]
                )
                threads.append(self.receiving[wire])
            if len(threads) == first:
                threads.append(Thread(first))
            self.steps.append(Steps(threads[first]))

    def _write_blocks(self) -> None:
        """Write the blocks, each as far as it gets without the local signals of others."""
        blocks = self.program.blocks
        at = [0] * len(blocks)
        moved = True
        while moved:
            moved = False
            for number, block in enumerate(blocks):
                while at[number] < len(block.operations) and self._operation(number, block, at[number]):
                    at[number] += 1
                    moved = True
        for number, block in enumerate(blocks):
            if at[number] < len(block.operations):
                raise self.error(f"rank {block.rank} waits for itself")
            self._written(number)
        for (_, waiter, _), left in self.messages.items():
            if left:
                raise self.error(f"rank {blocks[waiter].rank} never waits for {left[0][0]}")

    def _operation(self, number: int, block: Block, place: int) -> bool:
        """Write one operation; False where it has to wait for another block of the rank."""
        op = block.operations[place]
        if op.kind == "move":
            for chunk in op.sources:
                wire = self.packets.get(chunk)
                while wire is not None and wire[1] == number and chunk not in self.received:
                    self._receive(number, wire)
            self._move(number, block, op, place)
        if op.semaphore is None or op.semaphore.rank != block.rank:
            return True  # to another rank what was stored says it all
        if op.kind == "signal":
            self._written(number)
            self.local.setdefault((number, op.semaphore), deque()).extend(
                [self.steps[number].done()] * op.value
            )
            return True
        shares = self.pairing.shares[number, place]
        local = [source for source in shares if self.program.blocks[source].rank == block.rank]
        if any(len(self.local.get((source, op.semaphore), ())) < shares[source] for source in local):
            return False
        for source, share in shares.items():
            for _ in range(share):
                if source not in local:
                    self._receive(number, (source, number, op.semaphore))
                    continue
                items = self.local[source, op.semaphore].popleft()
                if source != number:
                    self._written(number)
                    self.steps[number].follow(items)
        return True

    def _receive(self, number: int, wire: _Wire) -> None:
        """Receive the next message on a wire."""
        for chunk in self.messages[wire].popleft():
            self._written(number)
            self.received.add(chunk)
            self.got[number] = wire, chunk

    def _written(self, number: int) -> None:
        """Write what a block has received last, where no move was joined to it."""
        got, self.got[number] = self.got[number], None
        if got is not None:
            self.steps[number].add("r", self.receiving[got[0]], target=self._place(got[1]))

    def _move(self, number: int, block: Block, op: Operation, place: int) -> None:
        here = [self._place(chunk) for chunk in op.targets if chunk.rank == block.rank]
        there = [self.sending[self.wires[number, c, place]] for c in op.targets if c.rank != block.rank]
        if self._joined(number, op, here, there):
            return
        self._written(number)
        steps = self.steps[number]
        sources = [self._place(chunk) for chunk in op.sources]
        done = sources[0]
        if len(sources) > 1:
            numbers = self.scratch[block.rank]
            again = next((target for target in here if target in sources), None)
            done = again or (here[0] if here else ("s", numbers.setdefault(object(), len(numbers))))
            if again is None:
                steps.add("cpy", source=sources.pop(0), target=done)
            else:
                sources.remove(done)
            for source in sources:
                steps.add("re", source=source, target=done)
        for target in here:
            if target != done:
                steps.add("cpy", source=done, target=target)
        for thread in there:
            steps.add("s", thread, source=done)

    def _joined(self, number: int, op: Operation, here: list[Place], there: list[Thread]) -> bool:
        """Make one step of a receive and a move of what it brought, where MSCCL has one."""
        got = self.got[number]
        if got is None:
            return False
        wire, chunk = got
        thread = self.receiving[wire]
        others = [self._place(source) for source in op.sources if source != chunk]
        if len(others) != len(op.sources) - 1 or max(len(others), len(here), len(there)) > 1:
            return False
        if there and there[0] is not thread:
            return False
        # Only scratch that nothing else reads may be left out.
        passing = chunk.buffer in ("scratch", "packets") and self.read[chunk] == 1
        if (others or here) and not passing:
            return False
        self.got[number] = None
        target = here[0] if here else self._place(chunk)
        if others:
            kind = "rr" + ("c" if here else "") + ("s" if there else "")
            self.steps[number].add(kind, thread, others[0], here[0] if here else others[0])
        else:
            self.steps[number].add("rcs" if there else "r", thread, target=target)
        return True

    def _place(self, chunk: Chunk) -> Place:
        if chunk.buffer in ("scratch", "packets"):
            numbers = self.scratch[chunk.rank]
            return "s", numbers.setdefault((chunk.buffer, chunk.index, chunk.lane), len(numbers))
        return _LETTERS[chunk.buffer], chunk.index * self.program.lanes + chunk.lane

    def document(self, collective: str) -> str:
        """The whole file."""
        program = self.program
        if collective not in _KNOWN:
            self.notes.append(f"MSCCL has no collective {collective}")
        name = collective if collective == "reduce_scatter" else collective.replace("_", "")
        inputs, outputs = program.input_chunks * program.lanes, program.output_chunks * program.lanes
        channels = max(self.channel.values(), default=0) + 1
        title = quoteattr(program.name.replace("/", "_"))
        chunks = f'i_chunks="{inputs}" o_chunks="{outputs}"'
        head = f'proto="{program.protocol}" nchannels="{channels}" nchunksperloop="{max(inputs, outputs)}"'
        tail = f'ngpus="{program.ranks}" coll={quoteattr(name)} inplace="0"'
        lines = [f"<algo name={title} {head} {tail}>"]
        for rank, threads in enumerate(self.threads):
            lines.append(f'  <gpu id="{rank}" {chunks} s_chunks="{len(self.scratch[rank])}">')
            for thread in threads:
                ends = f'send="{thread.send}" recv="{thread.receive}" chan="{thread.channel}"'
                lines.append(f'    <tb id="{thread.number}" {ends}>')
                lines += [f"      {item}" for item in thread.steps]
                lines.append("    </tb>")
                if len(thread.steps) > _MOST_STEPS:
                    self.notes.append(
                        f"MSCCL takes at most {_MOST_STEPS} steps in a thread block, "
                        f"number {thread.number} of rank {rank} has {len(thread.steps)}"
                    )
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])
