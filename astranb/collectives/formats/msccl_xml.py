"""MSCCL algorithms: XML in which every thread block receives from one peer and sends to one.

The elements and attributes are those that MSCCL's ``src/graph/topo.cc`` reads and
``msccl/language/ir.py`` of msccl-tools writes; ``src/collectives/device/msccl_interpreter.h`` of
MSCCL defines what a step does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from astranb.collectives.language import Block, Chunk, Operation, Origin, Program, Semaphore
from astranb.collectives.lowering import announced, pair
from astranb.core.document import contents
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.xml import Tag, xml_document

from .msccl_steps import (
    NO_TARGET,
    NOWHERE,
    BlockSteps,
    Message,
    Place,
    Step,
    Thread,
    Wire,
    group,
)
from .plan import (
    MOST_CHUNKS,
    Flag,
    FormatWriter,
    Plan,
    PlanBlock,
    PlanStep,
    collective_name,
    counts,
    protocol_name,
    unknown_collective,
)

__all__ = ["read_msccl_xml", "write_msccl_xml"]

_TYPES = {
    "s": "s",
    "r": "rd",
    "rcs": "rds",
    "rrc": "rad",
    "rrs": "ras",
    "rrcs": "rads",
    "cpy": "ld",
    "re": "lad",
    "nop": "",
}
"""Steps: receive (r) or load from the source (l), add (a), store (d), send (s)."""

_MOST_BLOCKS = 4096
_MOST_MOVES = 1_000_000
_BUFFERS = ("i", "o", "s")


class _Connection(NamedTuple):
    """A connection from one rank to another on one channel."""

    source: int
    target: int
    channel: int


@dataclass
class _XmlBlock:
    tag: Tag
    planned: PlanBlock
    number: int
    send: int
    receive: int
    channel: int
    steps: list[Tag] = field(default_factory=list)


def read_msccl_xml(path: str | Path, data: bytes | None = None) -> Plan:
    """Read an MSCCL algorithm, as :func:`read_algorithm`; ``data`` are its contents if read already.

    A connection is a row of slots in the receiver's memory, one for each message. A step that
    sends stores to the next slot and, under ``Simple``, raises a semaphore; a step that receives
    waits for it and loads from the slot.
    """
    return _XmlReader(xml_document(path, contents(path) if data is None else data)).read()


class _XmlReader:
    def __init__(self, root: Tag) -> None:
        self.root = root
        self.sent: dict[_Connection, int] = {}
        self.received: dict[_Connection, int] = {}
        self.sizes: tuple[dict[_Connection, list[int]], ...] = {}, {}
        self.moves = 0

    def read(self) -> Plan:
        root = self.root
        if root.element.tag != "algo":
            raise root.error("not an MSCCL algorithm", "the root element must be <algo>")
        self.ranks = root.number("ngpus", 1, MOST_CHUNKS)
        gpus = list(root.children("gpu"))
        if len(gpus) != self.ranks:
            raise root.error(f"ngpus={self.ranks}, but {len(gpus)} <gpu> elements")
        word = root.text("coll")
        collective = collective_name(word)
        inputs, outputs = self._chunks(collective, gpus)
        in_place = bool(root.number("inplace", 0, 1, 0))
        protocol = protocol_name(
            root.choice("proto", ("Simple", "LL", "LL128", "simple", "SIMPLE", "ll", "ll128"))
        )
        self.plan = Plan(
            root.text("name")[:200] or "algo",
            collective,
            self.ranks,
            inputs,
            outputs,
            in_place=in_place,
            protocol=protocol,
            min_bytes=root.number("minBytes", 0, 2**63, 0),
        )
        if root.element.get("maxBytes") is not None:
            self.plan.max_bytes = root.number("maxBytes", 0, 2**63)
        if collective is None:
            self.plan.notes.append(unknown_collective(word))
        self.plan.scratch = max(gpu.number("s_chunks", 0, MOST_CHUNKS) for gpu in gpus)
        blocks = [block for rank, gpu in enumerate(gpus) for block in self._blocks(rank, gpu)]
        self._count_channels(blocks)
        self._connections(blocks)
        self._dependences(blocks)
        for block in blocks:
            for number, step in enumerate(block.steps):
                first = len(block.planned.steps)
                self._step(block, step)
                block.planned.name_steps(first, Origin(block.number, number, step.text("type")))
        self._compare_messages()
        self.plan.blocks = [block.planned for block in blocks]
        self.plan.settle()
        return self.plan

    def _compare_messages(self) -> None:
        """Compare the chunks of each send with those of its receive, connection by connection."""
        for wire, sent in self.sizes[1].items():
            got = self.sizes[0].get(wire, [])
            said = f"rank {wire.source} sends rank {wire.target}", f"on channel {wire.channel}"
            if sum(sent) != sum(got):
                what = f"{said[0]} {plural(sum(sent), 'chunk')} {said[1]}, which receives {sum(got)}"
                raise self.root.error(what, "give every s its r")
            at = next((n for n, (a, b) in enumerate(zip(sent, got, strict=False)) if a != b), None)
            if at is not None:
                sends = plural(sent[at], "chunk")
                what = f"{said[0]} {sends} with its send {at} {said[1]}, which receives {got[at]}"
                raise self.root.error(what, "give an s and its r one cnt")

    def _chunks(self, collective: str | None, gpus: list[Tag]) -> tuple[int, int]:
        whole = self.root.number("nchunksperloop", 1, MOST_CHUNKS)
        if self.root.element.get("name") == "tacos" and whole % self.ranks:  # TACOS gives those of a rank
            whole *= self.ranks
            return whole // self.ranks, whole
        small = whole // self.ranks
        inputs = small if collective in ("all_gather", "gather") else whole
        outputs = small if collective in ("reduce_scatter", "scatter") else whole
        if (inputs, outputs) != counts(collective, self.ranks, inputs, 0) or not min(inputs, outputs):
            raise self.root.error(f"nchunksperloop={whole} is not a multiple of {self.ranks} ranks")
        for rank, gpu in enumerate(gpus):
            gpu.number("id", rank, rank)
            for name, count in (("i_chunks", inputs), ("o_chunks", outputs)):
                stated = gpu.number(name, 0, MOST_CHUNKS)
                if stated not in (0, count) and collective is not None:
                    raise gpu.error(f"{name}={stated} does not match nchunksperloop={whole}", f"use {count}")
        return inputs, outputs

    def _blocks(self, rank: int, gpu: Tag) -> list[_XmlBlock]:
        blocks = []
        for number, tag in enumerate(gpu.children("tb")):
            if number >= _MOST_BLOCKS:
                raise tag.error(f"more than {_MOST_BLOCKS} thread blocks on a rank")
            tag.number("id", number, number)
            send, receive = tag.number("send", -1, self.ranks - 1), tag.number("recv", -1, self.ranks - 1)
            if rank in (send, receive):
                raise tag.error(f"rank {rank} is its own peer", "use another rank, or -1")
            channel = tag.number("chan", -1, MOST_CHUNKS)
            block = _XmlBlock(tag, PlanBlock(rank), number, send, receive, channel)
            for place, step in enumerate(tag.children("step")):
                step.number("s", place, place)
                block.steps.append(step)
            blocks.append(block)
        return blocks

    def _count_channels(self, blocks: list[_XmlBlock]) -> None:
        """Compare the number of channels with those of the thread blocks."""
        used = max((block.channel for block in blocks), default=-1) + 1
        if used and self.root.element.get("nchannels") is not None:
            given = self.root.number("nchannels", 0, MOST_CHUNKS)
            if given != used:
                raise self.root.error(
                    f"nchannels={given}, but the thread blocks have {used}", f"write nchannels={used}"
                )

    def _connections(self, blocks: list[_XmlBlock]) -> None:
        """Number the connections; only one block may use each end of one."""
        senders: dict[_Connection, _XmlBlock] = {}
        receivers: dict[_Connection, _XmlBlock] = {}
        for block in blocks:
            rank, channel = block.planned.rank, block.channel
            for ends, peer, wire in (
                (senders, block.send, _Connection(rank, block.send, channel)),
                (receivers, block.receive, _Connection(block.receive, rank, channel)),
            ):
                if peer >= 0 and wire in ends:
                    raise block.tag.error(
                        f"duplicate block from rank {wire.source} to {wire.target} on channel {channel}",
                        "give it another chan",
                    )
                if peer >= 0:
                    ends[wire] = block
        self.slots = {wire: number for number, wire in enumerate(sorted({*senders, *receivers}))}

    def _dependences(self, blocks: list[_XmlBlock]) -> None:
        """Find the steps that others wait for, and the value that a semaphore reaches at each."""
        of = {(block.planned.rank, block.number): block for block in blocks}
        self.needed: dict[tuple[int, int, int], int] = {}
        wanted: dict[tuple[int, int, int], set[int]] = {}  # steps, by rank, producer, consumer
        self.waits: dict[int, tuple[int, int]] = {}  # by the identity of a step: producer and its step
        for block in blocks:
            for tag in block.steps:
                producer, step = (tag.number(name, -1, MOST_CHUNKS, -1) for name in ("depid", "deps"))
                if producer < 0 or step < 0:
                    continue
                rank = block.planned.rank
                found = of.get((rank, producer))
                what = f"it depends on step {step} of thread block {producer}, which"
                if found is None or step >= len(found.steps):
                    raise tag.error(f"{what} does not exist")
                if found.steps[step].number("hasdep", 0, 1, 0) == 0:
                    raise tag.error(f"{what} has hasdep=0", "set hasdep=1 there")
                if found is not block:
                    wanted.setdefault((rank, producer, block.number), set()).add(step)
                    self.waits[id(tag)] = producer, step
        # A consumer waits until this step and all earlier ones that it needs are done.
        self.order = {
            key: {step: n + 1 for n, step in enumerate(sorted(steps))} for key, steps in wanted.items()
        }
        self.consumers: dict[tuple[int, int, int], list[int]] = {}
        for (rank, producer, consumer), steps in wanted.items():
            for step in steps:
                self.consumers.setdefault((rank, producer, step), []).append(consumer)
        self.reached: dict[tuple[int, int, int], int] = {}

    def _step(self, block: _XmlBlock, tag: Tag) -> None:
        rank, steps = block.planned.rank, block.planned.steps
        does = _TYPES[tag.choice("type", tuple(_TYPES))]
        if id(tag) in self.waits:
            producer, step = self.waits[id(tag)]
            key = rank, producer, block.number
            rise = self.order[key][step] - self.reached.get(key, 0)
            if rise > 0:
                self.reached[key] = self.order[key][step]
                steps.append(
                    PlanStep("wait", flags=(Flag(rank, ("dep", producer, block.number)),), value=rise)
                )
        if does:
            self._moves(block, tag, does)
        number = tag.number("s", 0, MOST_CHUNKS)
        for consumer in sorted(self.consumers.get((rank, block.number, number), ())):
            steps.append(PlanStep("signal", flags=(Flag(rank, ("dep", block.number, consumer)),)))

    def _moves(self, block: _XmlBlock, tag: Tag, does: str) -> None:
        rank, steps = block.planned.rank, block.planned.steps
        count = tag.number("cnt", 1, MOST_CHUNKS)
        self.moves += 3 * count
        if self.moves > _MOST_MOVES:
            raise tag.error(f"more than {_MOST_MOVES} chunks are moved", "use fewer or larger ones")
        into = out = None
        if "r" in does:
            into = _Connection(block.receive, rank, block.channel)
        if "s" in does:
            out = _Connection(rank, block.send, block.channel)
        for wire, name, sizes in ((into, "recv", self.sizes[0]), (out, "send", self.sizes[1])):
            if wire is None:
                continue
            if min(wire.source, wire.target) < 0:
                raise tag.error(f"the thread block has no {name} peer", f"give it {name}=")
            sizes.setdefault(wire, []).append(count)
        loads = does in ("s", "ld", "lad") or "a" in does
        source = self._places(rank, tag, "src", count) if loads else []
        target = self._places(rank, tag, "dst", count) if "d" in does else []
        if into is not None and self.plan.protocol == "Simple":
            steps.append(PlanStep("wait", flags=(Flag(rank, ("wire", *into)),)))
        for n in range(count):
            read = [self._slot(into, self.received)] if into is not None else []
            if does == "lad":
                read.append(target[n])
            if loads:
                read.append(source[n])
            stored = [target[n]] if target else []
            if out is not None:
                stored.append(self._slot(out, self.sent))
            steps.append(PlanStep("move", tuple(read), tuple(stored)))
        if out is not None and self.plan.protocol == "Simple":
            steps.append(PlanStep("signal", flags=(Flag(out.target, ("wire", *out)),)))

    def _slot(self, wire: _Connection, counted: dict[_Connection, int]) -> Chunk:
        """Return the next slot of a connection, after the plan's own scratch; slots are interleaved."""
        number = counted.get(wire, 0)
        counted[wire] = number + 1
        if self.plan.protocol == "Simple":
            # After the scratch that a plan in place may need, see Plan.settle.
            first = self.plan.scratch + max(self.plan.inputs, self.plan.outputs)
            return Chunk(wire.target, "scratch", first + number * len(self.slots) + self.slots[wire], 0)
        return Chunk(wire.target, "packets", number * len(self.slots) + self.slots[wire], 0)

    def _places(self, rank: int, tag: Tag, end: str, count: int) -> list[Chunk]:
        buffer = tag.choice(f"{end}buf", _BUFFERS)
        first = tag.number(f"{end}off", 0, MOST_CHUNKS)
        if wrong := self.plan.misses(buffer, first, count, self.plan.scratch):
            raise tag.error(wrong, "use existing chunks")
        return [self.plan.chunk(rank, buffer, first + n) for n in range(count)]


_KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
_MOST_STEPS = 256  # MSCCL_MAX_NUM_STEPS in MSCCL's src/include/msccl.h

_Sent = tuple[Thread, Message]


def write_msccl_xml(program: Program, path: str | Path, *, collective: str | None = None) -> list[str]:
    """Write a program as an MSCCL algorithm; return what MSCCL itself would not accept.

    A store to another rank and the signal after it become a send; the wait for that signal
    becomes a receive. A thread block with several peers becomes several, which wait for one
    another where the program requires it. Sums of many chunks are made one by one.

    Parameters
    ----------
    program : Program
    path : str or Path
    collective : str, optional
        The collective's name in the file; by default from the name of the program.

    Raises
    ------
    InputError
        The program uses something that the format cannot express, as a load from another rank
        or a signal without data; or the file cannot be written.
    """
    writer = _XmlWriter(program)
    text = writer.document(collective or program.name.partition("/")[0])
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return list(writer.notes)


class _XmlWriter(FormatWriter):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        program = self.program
        self.threads: list[list[Thread]] = [[] for _ in range(program.ranks)]
        self.scratch: list[dict[object, int]] = [{} for _ in range(program.ranks)]
        self.read: dict[Chunk, int] = {}
        self.reader: dict[Chunk, int] = {}  # the block that reads packets first receives them
        for number, block in enumerate(program.blocks):
            self.check(block)
            for op in block.operations:
                self._check(block, op)
                for chunk in op.sources:
                    self.read[chunk] = self.read.get(chunk, 0) + 1
                    if chunk.buffer == "packets":
                        self.reader.setdefault(chunk, number)
        self._number_scratch()
        self.pairing = pair(program)
        self.messages: dict[Wire, deque[list[Chunk]]] = {}
        self.wires: dict[tuple[int, Chunk, int], Wire] = {}  # by block, chunk and operation
        self.packets: dict[Chunk, Wire] = {}
        self.received: set[Chunk] = set()
        self.parts: dict[tuple[int, Chunk, int], Message] = {}  # of which message a store is, as for wires
        self.arrived: dict[Wire, int] = {}  # messages that have been received
        self.steps: list[BlockSteps] = []
        # At each signal to a block of the same rank, the steps before it.
        self.local: dict[tuple[int, Semaphore], deque[list[Step]]] = {}
        for number, block in enumerate(program.blocks):
            self._find_messages(number, block)
        self._number_channels()
        # Received, but not yet written: a move of the data may become part of the same step.
        self.got: list[deque[_Received]] = [deque() for _ in program.blocks]
        self._write_blocks()
        group([thread for threads in self.threads for thread in threads], self._ends())
        self._describe()

    def _describe(self) -> None:
        """Note what the format adds to the program."""
        before = sum(bool(block.operations) for block in self.program.blocks)
        threads = [thread for threads in self.threads for thread in threads if thread.steps]
        waits = sum(item.after is not None for thread in threads for item in thread.steps)
        if len(threads) > before or waits:
            more = f", with {waits} waits for one another" if waits else ""
            self.notes[
                f"{before} thread blocks become {len(threads)}{more}: "
                "in MSCCL one sends to one rank at most and receives from one"
            ] = None
        sent = {item.sent for thread in threads for item in thread.steps if item.sent and item.sent[0][2]}
        sends = sum(item.sent in sent for thread in threads for item in thread.steps)
        if sends > len(sent):
            self.notes[
                f"{plural(len(sent), 'message becomes', 'messages become')} {sends}, each with a handshake: "
                "a step of MSCCL moves chunks that follow one another"
            ] = None
        copied = sum(
            item.count
            for thread in threads
            for item in thread.steps
            if item.kind in ("r", "rcs") and item.received is not None and item.received[0][2] is not None
        )
        if copied:
            what = f"{copied} chunks arrive in buffers of MSCCL's connections, and a thread block copies them"
            self.notes[f"{what} from there: the program stores them where they are needed"] = None

    def _number_scratch(self) -> None:
        """Number scratch in its own order: neighbours stay neighbours, which one step can move."""
        used: list[set[tuple[str, int, int]]] = [set() for _ in self.scratch]
        for block in self.program.blocks:
            for op in block.operations:
                for chunk in (*op.sources, *op.targets):
                    if chunk.buffer in ("scratch", "packets"):
                        used[chunk.rank].add((chunk.buffer, chunk.index, chunk.channel))
        for numbers, chunks in zip(self.scratch, used, strict=True):
            numbers.update({chunk: number for number, chunk in enumerate(sorted(chunks))})

    def _check(self, block: Block, op: Operation) -> None:
        if op.in_switch:
            raise self.error("MSCCL has no switch operations", "write it as .json", op)
        if op.kind == "compute":
            raise self.error("MSCCL has no computation", "write it as .json", op)
        if any(chunk.rank != block.rank for chunk in op.sources):
            raise self.error(
                f"rank {block.rank} reads from another rank, which MSCCL cannot",
                "put instead, or write it as .json",
                op,
            )

    def _find_messages(self, number: int, block: Block) -> None:
        """Find the wire of each store to another rank, from the signal after it."""
        stores, rest = announced(block)
        for place, op in enumerate(block.operations):
            for chunk in op.targets:
                if chunk.rank == block.rank or chunk.buffer != "packets":
                    continue
                if chunk not in self.reader:
                    raise self.error(f"no block reads {chunk}", "leave it out", op)
                wire: Wire = number, self.reader[chunk], None
                self.wires[number, chunk, place] = self.packets[chunk] = wire
                self.parts[number, chunk, place] = wire, 0  # packets have no signals that could be saved
                self.messages.setdefault(wire, deque()).append([chunk])
            if op.kind != "signal" or op.semaphore is None:
                continue
            waiters = self.pairing.waiters.get(op.semaphore, [])
            if len(waiters) != 1:
                what = f"{len(waiters)} blocks wait for one semaphore of rank {op.semaphore.rank}"
                raise self.error(what, "give each a semaphore of its own", op)
            if op.semaphore.rank == block.rank:
                continue
            if not stores[place] or op.value != 1:
                raise self.error(
                    f"rank {block.rank} signals rank {op.semaphore.rank} without data, which MSCCL cannot",
                    "write it as .json",
                    op,
                )
            wire = number, waiters[0], op.semaphore
            self.messages.setdefault(wire, deque()).append([chunk for chunk, _ in stores[place]])
            for chunk, where in stores[place]:
                self.wires[number, chunk, where] = wire
                self.parts[number, chunk, where] = wire, len(self.messages[wire]) - 1
        if rest:
            chunk, place = rest[0]
            what = f"no signal follows the store of rank {block.rank} to {chunk}"
            raise self.error(what, "signal the rank after it", block.operations[place])

    def _number_channels(self) -> None:
        """Assign each wire a channel and each block its threads; a thread sends and receives if possible."""
        used: dict[tuple[int, int], int] = {}
        self.channel: dict[Wire, int] = {}
        blocks = self.program.blocks
        self.sending: dict[Wire, Thread] = {}
        self.receiving: dict[Wire, Thread] = {}
        for wire in sorted(self.messages, key=lambda w: (w[0], w[1], w[2].number if w[2] else -1)):
            ends = blocks[wire[0]].rank, blocks[wire[1]].rank
            self.channel[wire] = used.get(ends, 0)
            used[ends] = self.channel[wire] + 1
        for number, block in enumerate(blocks):
            threads = self.threads[block.rank]
            first = len(threads)
            receives = [wire for wire in self.channel if wire[1] == number]
            sends = [wire for wire in self.channel if wire[0] == number]
            passed = self._passed_on(number, block)
            for wire in sends:
                thread = Thread(
                    block.rank, len(threads), send=blocks[wire[1]].rank, channel=self.channel[wire]
                )
                threads.append(thread)
                self.sending[wire] = thread
            by_use = ((passed.get((into, out), 0), into, out) for out in sends for into in receives)
            for _, into, out in sorted(by_use, key=lambda found: -found[0]):
                thread = self.sending[out]
                if into not in self.receiving and thread.receive < 0 and self.channel[into] == thread.channel:
                    self.receiving[into] = thread
                    thread.receive = blocks[into[0]].rank
            for wire in receives:
                if wire not in self.receiving:
                    self.receiving[wire] = Thread(
                        block.rank, len(threads), receive=blocks[wire[0]].rank, channel=self.channel[wire]
                    )
                    threads.append(self.receiving[wire])
            if len(threads) == first:
                threads.append(Thread(block.rank, first))
            self.steps.append(BlockSteps(threads[first]))

    def _passed_on(self, number: int, block: Block) -> dict[tuple[Wire, Wire], int]:
        """Count the chunks of each wire that a block sends on along another: one step can do both."""
        came = {
            chunk: wire
            for wire, messages in self.messages.items()
            if wire[1] == number
            for message in messages
            for chunk in message
        }
        found: dict[tuple[Wire, Wire], int] = {}
        for place, op in enumerate(block.operations):
            for target in op.targets if op.kind == "move" else ():
                out = self.wires.get((number, target, place))
                for source in op.sources if out is not None else ():
                    if source in came and out is not None:
                        found[came[source], out] = found.get((came[source], out), 0) + 1
        return found

    def _write_blocks(self) -> None:
        """Write the blocks, each as far as possible without local signals of others."""
        blocks = self.program.blocks
        at = [0] * len(blocks)
        moved = True
        while moved:
            moved = False
            for number, block in enumerate(blocks):
                while at[number] < len(block.operations):
                    written = self._operations(number, block, at[number])
                    if not written:
                        break
                    at[number] += written
                    moved = True
        for number, block in enumerate(blocks):
            if at[number] < len(block.operations):
                raise self.error(f"rank {block.rank} waits for itself", "", block.operations[at[number]])
            self._written(number)
        for (_, waiter, _), left in self.messages.items():
            if left:
                raise self.error(f"rank {blocks[waiter].rank} never waits for {left[0][0]}")

    def _operations(self, number: int, block: Block, place: int) -> int:
        """Write an operation, or moves of neighbouring chunks; return how many.

        That is none if it must wait for another block of the rank.
        """
        if block.operations[place].kind != "move":
            return int(self._synchronized(number, block, place))
        run = list(_neighbouring_moves(block.operations[place:]))
        planned: list[list[_Planned]] = []
        for at, op in enumerate(run, place):
            due = [chunk for chunk in op.sources if self._due(number, chunk) is not None]
            got = self.got[number]
            if at > place and (due or (got and got[0].chunk not in op.sources)):
                break  # the steps of the moves before it need not wait for what it receives
            for chunk in due:
                while (wire := self._due(number, chunk)) is not None:
                    self._receive(number, wire)
            planned.append(self._planned(number, block, op, at))
            if len(planned[-1]) > 1:
                self.notes["some moves become several steps"] = None
        alike = all([one.kind for one in each] == [one.kind for one in planned[0]] for each in planned)
        for steps in zip(*planned, strict=True) if alike else planned:
            for one in steps:
                self.steps[number].add(*one)
        return len(planned)

    def _due(self, number: int, chunk: Chunk) -> Wire | None:
        """Return the wire on which a block is still to receive a chunk of packets."""
        wire = self.packets.get(chunk)
        return wire if wire is not None and wire[1] == number and chunk not in self.received else None

    def _synchronized(self, number: int, block: Block, place: int) -> bool:
        """Write a signal or wait; return False if it must wait for another block of the rank."""
        op = block.operations[place]
        if op.semaphore is None or op.semaphore.rank != block.rank:
            return True  # to another rank the store is the message
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

    def _receive(self, number: int, wire: Wire) -> None:
        """Receive the next message on a wire."""
        message = wire, 0 if wire[2] is None else self.arrived.get(wire, 0)
        self.arrived[wire] = self.arrived.get(wire, 0) + 1
        for chunk in self.messages[wire].popleft():
            self.received.add(chunk)
            self.got[number].append(_Received(chunk, self.receiving[wire], message))

    def _written(self, number: int, before: Iterable[Chunk] = ()) -> None:
        """Write the receives of a block to which no move was joined: all, or those before some chunks."""
        got = self.got[number]
        stops = {one.chunk for one in got}.intersection(before)
        while got and got[0].chunk not in stops:
            one = got.popleft()
            self.steps[number].add("r", one.thread, target=self._place(one.chunk), received=one.message)

    def _planned(self, number: int, block: Block, op: Operation, place: int) -> list[_Planned]:
        """Return the steps of a move; one of them may receive what has come."""
        here = [self._place(chunk) for chunk in op.targets if chunk.rank == block.rank]
        sends = [
            (self.sending[self.wires[number, c, place]], self.parts[number, c, place])
            for c in op.targets
            if c.rank != block.rank
        ]
        self._written(number, op.sources)
        return self._joined(number, op, here, sends) or self._apart(number, block, op, here, sends)

    def _apart(
        self, number: int, block: Block, op: Operation, here: list[Place], sends: list[_Sent]
    ) -> list[_Planned]:
        """Return the steps of a move of what is there."""
        self._written(number)
        sources = [self._place(chunk) for chunk in op.sources]
        thread = sends[0][0] if sends else None
        done, steps = self._sum(block.rank, thread, sources, here)
        steps += [_Planned("cpy", None, done, target) for target in here if target != done]
        return steps + [_Planned("s", out, done, sent=message) for out, message in sends]

    def _sum(
        self, rank: int, thread: Thread | None, sources: list[Place], here: list[Place]
    ) -> tuple[Place, list[_Planned]]:
        """Return the place of a sum, and the steps that make it, one source after the other."""
        if len(sources) == 1:
            return sources[0], []
        numbers = self.scratch[rank]
        done = next((target for target in here if target in sources), None)
        steps = []
        rest = list(sources)
        if done is None:
            done = here[0] if here else ("s", numbers.setdefault(object(), len(numbers)))
            steps.append(_Planned("cpy", thread, rest.pop(0), done))
        else:
            rest.remove(done)
        return done, steps + [_Planned("re", thread, source, done) for source in rest]

    def _joined(self, number: int, op: Operation, here: list[Place], sends: list[_Sent]) -> list[_Planned]:
        """Return the steps of a move of which one receives its data; none if MSCCL has no such step."""
        if not self.got[number]:
            return []
        chunk, thread, received = self.got[number][0]
        sources = [self._place(source) for source in op.sources if source != chunk]
        if len(sources) != len(op.sources) - 1 or max(len(here), len(sends)) > 1:
            return []
        if sends and sends[0][0] is not thread:
            return []
        # Only scratch that no other operation reads may be left out.
        passing = chunk.buffer in ("scratch", "packets") and self.read[chunk] == 1
        if (sources or here) and not passing:
            return []
        if any(one.chunk in op.sources for one in list(self.got[number])[1:]):
            return []  # the sum of the others must be there before
        self.got[number].popleft()
        target = here[0] if here else self._place(chunk)
        sent = sends[0][1] if sends else None
        if not sources:
            return [_Planned("rcs" if sends else "r", thread, NOWHERE, target, received, sent)]
        if op.sources[0] != chunk:
            self.notes["sums read what has come first"] = None
        kind = "rr" + ("c" if here else "") + ("s" if sends else "")
        done, steps = self._sum(thread.rank, thread, sources, here)
        return [*steps, _Planned(kind, thread, done, here[0] if here else done, received, sent)]

    def _ends(self) -> list[tuple[Thread, Thread]]:
        """Return the threads at both ends of each connection."""
        return [(self.sending[wire], self.receiving[wire]) for wire in self.channel]

    def _place(self, chunk: Chunk) -> Place:
        if chunk.buffer in ("scratch", "packets"):
            return "s", self.scratch[chunk.rank][chunk.buffer, chunk.index, chunk.channel]
        return self.letters[chunk.buffer], self.index(chunk)

    def document(self, collective: str) -> str:
        """Return the whole file."""
        program = self.program
        if collective not in _KNOWN:
            self.notes[f"MSCCL has no collective {collective}"] = None
        name = collective if collective == "reduce_scatter" else collective.replace("_", "")
        channels = max(self.channel.values(), default=0) + 1
        from xml.sax.saxutils import quoteattr  # brings urllib along: only a writer pays for it

        title = quoteattr(program.name.replace("/", "_"))
        chunks = f'i_chunks="{self.inputs}" o_chunks="{self.outputs}"'
        whole = max(self.inputs, self.outputs)
        head = f'proto="{program.protocol}" nchannels="{channels}" nchunksperloop="{whole}"'
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
                    self.notes[
                        f"MSCCL takes at most {_MOST_STEPS} steps in a thread block, "
                        f"number {thread.number} of rank {rank} has {len(thread.steps)}"
                    ] = None
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])


class _Planned(NamedTuple):
    """A step of the file, as :meth:`BlockSteps.add` takes it."""

    kind: str
    thread: Thread | None
    source: Place = NOWHERE
    target: Place = NO_TARGET
    received: Message | None = None
    sent: Message | None = None


class _Received(NamedTuple):
    """A chunk that a message has brought, not yet a step of the file."""

    chunk: Chunk
    thread: Thread
    message: Message


def _neighbouring_moves(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield a move and those after it that do the same with the next chunk each, in any order of theirs."""
    written: set[Chunk] = set()
    read: set[Chunk] = set()
    before: Operation | None = None
    for op in operations:
        if op.kind != "move" or (before is not None and not _follows(before, op)):
            return
        if written.intersection(op.sources) or (read | written).intersection(op.targets):
            return
        written.update(op.targets)
        read.update(op.sources)
        before = op
        yield op


def _follows(before: Operation, op: Operation) -> bool:
    """Return whether a move has the next chunk of each chunk of the move before it."""
    chunks, others = (*before.sources, *before.targets), (*op.sources, *op.targets)
    return (
        len(before.sources) == len(op.sources)
        and len(chunks) == len(others)
        and all(
            one.rank == other.rank and one.buffer == other.buffer and one != other
            for one, other in zip(chunks, others, strict=True)
        )
    )
