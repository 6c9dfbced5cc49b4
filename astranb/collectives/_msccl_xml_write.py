"""Programs written as MSCCL algorithms."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

from astranb.core.errors import InputError
from astranb.core.files import whole_file

from ._pairing import pair
from ._program import Block, Chunk, Operation, Program, Semaphore

__all__ = ["write_msccl_xml"]

_KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
_MOST_STEPS = 256  # MSCCL_MAX_NUM_STEPS in MSCCL's src/include/msccl.h
_LETTERS = {"input": "i", "output": "o", "scratch": "s", "packets": "s"}

# One way from a block to a block; under Simple also for each semaphore, so that what is
# sent on it comes in the order in which it is waited for.
_Wire = tuple[int, int, Semaphore | None]
_Place = tuple[str, int]


@dataclass(slots=True)
class _Thread:
    """A thread block of the file: it sends on one wire at most, and receives on one."""

    number: int
    sends: _Wire | None = None
    receives: _Wire | None = None
    channel: int = 0
    steps: list[_Item] = field(default_factory=list)


@dataclass(slots=True)
class _Item:
    """A step of the file, and the step of another thread block that it waits for."""

    kind: str
    thread: _Thread
    number: int
    source: _Place = ("i", -1)
    target: _Place = ("o", -1)
    after: _Item | None = None
    awaited: bool = False
    got: Chunk | None = None  # what a plain receive brings


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
        self.threads: list[list[_Thread]] = [[] for _ in range(program.ranks)]
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
        self.local: dict[
            tuple[int, Semaphore], deque[_Item | None]
        ] = {}  # how far a block had come at its signals
        self._readers()
        for number, block in enumerate(program.blocks):
            self._find_messages(number, block)
        self._number_channels()
        self.last: list[_Item | None] = [None] * len(program.blocks)
        self._write_blocks()

    def error(self, what: str, mend: str = "") -> InputError:
        return InputError(what, where=f"program {self.program.name!r}", mend=mend)

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
        self.sending: dict[_Wire, _Thread] = {}
        self.receiving: dict[_Wire, _Thread] = {}
        for wire in sorted(self.messages, key=lambda w: (w[0], w[1], w[2].number if w[2] else -1)):
            ends = blocks[wire[0]].rank, blocks[wire[1]].rank
            self.channel[wire] = used.get(ends, 0)
            used[ends] = self.channel[wire] + 1
        for number, block in enumerate(blocks):
            threads = self.threads[block.rank]
            sends = [wire for wire in self.channel if wire[0] == number]
            receives = [wire for wire in self.channel if wire[1] == number]
            for wire in sends:
                match = next((r for r in receives if self.channel[r] == self.channel[wire]), None)
                thread = _Thread(len(threads), wire, match, self.channel[wire])
                threads.append(thread)
                self.sending[wire] = thread
                if match is not None:
                    receives.remove(match)
                    self.receiving[match] = thread
            for wire in receives:
                threads.append(_Thread(len(threads), None, wire, self.channel[wire]))
                self.receiving[wire] = threads[-1]

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
            self.local.setdefault((number, op.semaphore), deque()).extend([self.last[number]] * op.value)
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
                item = self.local[source, op.semaphore].popleft()
                if item is not None and source != number:
                    self._add(number, "nop", after=item)
        return True

    def _receive(self, number: int, wire: _Wire) -> None:
        """Receive the next message on a wire."""
        for chunk in self.messages[wire].popleft():
            self.received.add(chunk)
            self._add(number, "r", self.receiving[wire], target=self._place(chunk)).got = chunk

    def _add(
        self,
        number: int,
        kind: str,
        thread: _Thread | None = None,
        source: _Place = ("i", -1),
        target: _Place = ("o", -1),
        after: _Item | None = None,
    ) -> _Item:
        """Add a step behind the last one of a block, and have it wait for that where it must."""
        last = self.last[number]
        if thread is None:
            thread = last.thread if last is not None else self._first_thread(number)
        if after is None and last is not None and last.thread is not thread:
            after = last
        if after is not None:
            after.awaited = True
        item = _Item(kind, thread, len(thread.steps), source, target, after)
        thread.steps.append(item)
        self.last[number] = item
        return item

    def _first_thread(self, number: int) -> _Thread:
        for wires, end in ((self.sending, 0), (self.receiving, 1)):
            for wire, thread in wires.items():
                if wire[end] == number:
                    return thread
        threads = self.threads[self.program.blocks[number].rank]
        threads.append(_Thread(len(threads)))
        return threads[-1]

    def _move(self, number: int, block: Block, op: Operation, place: int) -> None:
        here = [self._place(chunk) for chunk in op.targets if chunk.rank == block.rank]
        there = [self.sending[self.wires[number, c, place]] for c in op.targets if c.rank != block.rank]
        if self._fused(number, op, here, there):
            return
        sources = [self._place(chunk) for chunk in op.sources]
        done = sources[0]
        if len(sources) > 1:
            done = next((target for target in here if target in sources), None) or (
                here[0]
                if here
                else ("s", self.scratch[block.rank].setdefault(object(), len(self.scratch[block.rank])))
            )
            if done not in sources:
                self._add(number, "cpy", source=sources.pop(0), target=done)
            else:
                sources.remove(done)
            for source in sources:
                self._add(number, "re", source=source, target=done)
        for target in here:
            if target != done:
                self._add(number, "cpy", source=done, target=target)
        for thread in there:
            self._add(number, "s", thread, source=done)

    def _fused(self, number: int, op: Operation, here: list[_Place], there: list[_Thread]) -> bool:
        """Make one step of a receive and a move of what it brought, where MSCCL has one."""
        last = self.last[number]
        if last is None or last.kind != "r" or last.got not in op.sources:
            return False
        others = [self._place(chunk) for chunk in op.sources if chunk != last.got]
        if len(here) > 1 or len(there) > 1 or len(others) > 1 or len(others) != len(op.sources) - 1:
            return False
        if there and there[0] is not last.thread:
            return False
        passing = last.got.buffer in ("scratch", "packets") and self.read[last.got] == 1
        if others and not passing:
            return False
        if not others and here and not passing:
            return False
        if others:
            last.kind = "rr" + ("c" if here else "") + ("s" if there else "")
            last.source = others[0]
            last.target = here[0] if here else others[0]
        else:
            last.kind = "rcs" if there else "r"
            last.target = here[0] if here else last.target
        last.got = None
        return True

    def _place(self, chunk: Chunk) -> _Place:
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
                send = program.blocks[thread.sends[1]].rank if thread.sends else -1
                receive = program.blocks[thread.receives[0]].rank if thread.receives else -1
                lines.append(
                    f'    <tb id="{thread.number}" send="{send}" recv="{receive}" chan="{thread.channel}">'
                )
                lines += [f"      {_element(item)}" for item in thread.steps]
                lines.append("    </tb>")
                if len(thread.steps) > _MOST_STEPS:
                    self.notes.append(
                        f"MSCCL takes at most {_MOST_STEPS} steps in a thread block, "
                        f"number {thread.number} of rank {rank} has {len(thread.steps)}"
                    )
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])


def _element(item: _Item) -> str:
    after = (item.after.thread.number, item.after.number) if item.after else (-1, -1)
    return (
        f'<step s="{item.number}" type="{item.kind}" '
        f'srcbuf="{item.source[0]}" srcoff="{item.source[1]}" '
        f'dstbuf="{item.target[0]}" dstoff="{item.target[1]}" cnt="{int(item.kind != "nop")}" '
        f'depid="{after[0]}" deps="{after[1]}" hasdep="{int(item.awaited)}"/>'
    )
