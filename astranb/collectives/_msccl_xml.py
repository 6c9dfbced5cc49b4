"""MSCCL algorithms: XML in which every thread block receives from one peer and sends to one.

The elements and attributes are those that MSCCL's ``src/graph/topo.cc`` reads and
``msccl/language/ir.py`` of msccl-tools writes; what a step does is in MSCCL's
``src/collectives/device/msccl_interpreter.h``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from astranb.core.document import contents
from astranb.core.xml import Tag, xml_document

from ._plan import MOST_CHUNKS, Plan, collective_name, counts, protocol_name
from ._steps import Flag, Place, PlanBlock, Step

__all__ = ["TYPES", "read_msccl_xml"]

TYPES = {
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
"""What a step does: receive (r), or load (l) from the source; add (a); store (d); send (s)."""

_MOST_BLOCKS = 4096
_MOST_MOVES = 1_000_000
_BUFFERS = ("i", "o", "s")


class _Wire(NamedTuple):
    """A connection: one way from one rank to another, on one channel."""

    source: int
    target: int
    channel: int


@dataclass
class _Block:
    tag: Tag
    planned: PlanBlock
    number: int
    send: int
    receive: int
    channel: int
    steps: list[Tag] = field(default_factory=list)


def read_msccl_xml(path: str | Path, data: bytes | None = None) -> Plan:
    """Read an MSCCL algorithm.

    A connection is a row of places in the receiver's memory, as long as there are
    messages. A step that sends stores there and, under ``Simple``, raises a semaphore; a
    step that receives waits for it and loads from there.

    Parameters
    ----------
    path : str or Path
        The file.
    data : bytes, optional
        Its contents, where they are known already.

    Returns
    -------
    Plan
        Give it as ``algorithm=`` of a :class:`Collective`.

    Raises
    ------
    InputError
        The file cannot be read or is no such algorithm; the text names the element.
    """
    return _Reader(xml_document(path, contents(path) if data is None else data)).read()


class _Reader:
    def __init__(self, root: Tag) -> None:
        self.root = root
        self.sent: dict[_Wire, int] = {}
        self.received: dict[_Wire, int] = {}
        self.slots: dict[_Wire, int] = {}
        self.moves = 0

    def read(self) -> Plan:
        root = self.root
        if root.element.tag != "algo":
            raise root.error("no MSCCL algorithm", "its outermost element is <algo>")
        self.ranks = root.number("ngpus", 1, MOST_CHUNKS)
        gpus = list(root.children("gpu"))
        if len(gpus) != self.ranks:
            raise root.error(f"ngpus={self.ranks}, but {len(gpus)} <gpu> elements", "let them agree")
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
            self.plan.notes.append(f"coll={word[:40]!r} is none of astranb's: say which one to run it as")
        self.plan.scratch = max(gpu.number("s_chunks", 0, MOST_CHUNKS) for gpu in gpus)
        blocks = [block for rank, gpu in enumerate(gpus) for block in self._blocks(rank, gpu)]
        self._connections(blocks)
        self._dependences(blocks)
        for block in blocks:
            for step in block.steps:
                self._step(block, step)
        for wire, count in self.sent.items():
            if count != self.received.get(wire, 0):
                got = self.received.get(wire, 0)
                raise root.error(
                    f"rank {wire.source} sends rank {wire.target} {count} chunks on channel {wire.channel}, "
                    f"which receives {got}",
                    "let every s have its r",
                )
        self.plan.blocks = [block.planned for block in blocks]
        self.plan.settle()
        return self.plan

    def _chunks(self, collective: str | None, gpus: list[Tag]) -> tuple[int, int]:
        whole = self.root.number("nchunksperloop", 1, MOST_CHUNKS)
        small = whole // self.ranks
        inputs = small if collective in ("all_gather", "gather") else whole
        outputs = small if collective in ("reduce_scatter", "scatter") else whole
        if (inputs, outputs) != counts(collective, self.ranks, inputs, 0) or not min(inputs, outputs):
            raise self.root.error(f"nchunksperloop={whole} is no multiple of {self.ranks} ranks")
        for rank, gpu in enumerate(gpus):
            gpu.number("id", rank, rank)
            for name, count in (("i_chunks", inputs), ("o_chunks", outputs)):
                there = gpu.number(name, 0, MOST_CHUNKS)
                if there not in (0, count) and collective is not None:
                    raise gpu.error(
                        f"{name}={there} does not go with nchunksperloop={whole}", f"take {count}"
                    )
        return inputs, outputs

    def _blocks(self, rank: int, gpu: Tag) -> list[_Block]:
        blocks = []
        for number, tag in enumerate(gpu.children("tb")):
            if number >= _MOST_BLOCKS:
                raise tag.error(f"more than {_MOST_BLOCKS} thread blocks on a rank")
            tag.number("id", number, number)
            send, receive = tag.number("send", -1, self.ranks - 1), tag.number("recv", -1, self.ranks - 1)
            if rank in (send, receive):
                raise tag.error(f"rank {rank} is its own peer", "take another rank, or -1")
            channel = tag.number("chan", -1, MOST_CHUNKS)
            block = _Block(tag, PlanBlock(rank), number, send, receive, channel)
            for place, step in enumerate(tag.children("step")):
                step.number("s", place, place)
                block.steps.append(step)
            blocks.append(block)
        return blocks

    def _connections(self, blocks: list[_Block]) -> None:
        """Give every connection places for its messages; only one block may use an end of it."""
        senders: dict[_Wire, _Block] = {}
        receivers: dict[_Wire, _Block] = {}
        for block in blocks:
            rank, channel = block.planned.rank, block.channel
            for ends, peer, wire in (
                (senders, block.send, _Wire(rank, block.send, channel)),
                (receivers, block.receive, _Wire(block.receive, rank, channel)),
            ):
                if peer >= 0 and wire in ends:
                    raise block.tag.error(
                        f"a second block from rank {wire.source} to {wire.target} on channel {channel}",
                        "give it another chan",
                    )
                if peer >= 0:
                    ends[wire] = block
        for number, wire in enumerate(sorted({*senders, *receivers})):
            self.slots[wire] = number

    def _dependences(self, blocks: list[_Block]) -> None:
        """Find which steps others wait for, and how far a semaphore must have risen for each."""
        of = {(block.planned.rank, block.number): block for block in blocks}
        self.needed: dict[tuple[int, int, int], int] = {}
        wanted: dict[tuple[int, int, int], set[int]] = {}  # steps, by rank, producer, consumer
        self.waits: dict[int, tuple[int, int]] = {}  # by the identity of a step: producer and its step
        for block in blocks:
            for tag in block.steps:
                producer, step = (
                    tag.number("depid", -1, MOST_CHUNKS, -1),
                    tag.number("deps", -1, MOST_CHUNKS, -1),
                )
                if producer < 0 or step < 0:
                    continue
                rank = block.planned.rank
                found = of.get((rank, producer))
                if found is None or step >= len(found.steps):
                    raise tag.error(
                        f"it depends on step {step} of thread block {producer}, which is not there"
                    )
                if found.steps[step].number("hasdep", 0, 1, 0) == 0:
                    raise tag.error(
                        f"it depends on step {step} of thread block {producer}, which has hasdep=0",
                        "let that have hasdep=1",
                    )
                if found is not block:
                    wanted.setdefault((rank, producer, block.number), set()).add(step)
                    self.waits[id(tag)] = producer, step
        # A consumer waits until as many of the steps it needs are done as come up to this one.
        self.order = {
            key: {step: n + 1 for n, step in enumerate(sorted(steps))} for key, steps in wanted.items()
        }
        self.consumers: dict[tuple[int, int, int], list[int]] = {}
        for (rank, producer, consumer), steps in wanted.items():
            for step in steps:
                self.consumers.setdefault((rank, producer, step), []).append(consumer)
        self.reached: dict[tuple[int, int, int], int] = {}

    def _step(self, block: _Block, tag: Tag) -> None:
        rank, steps = block.planned.rank, block.planned.steps
        does = TYPES[tag.choice("type", tuple(TYPES))]
        if id(tag) in self.waits:
            producer, step = self.waits[id(tag)]
            key = rank, producer, block.number
            rise = self.order[key][step] - self.reached.get(key, 0)
            if rise > 0:
                self.reached[key] = self.order[key][step]
                steps.append(Step("wait", flags=(Flag(rank, ("dep", producer, block.number)),), value=rise))
        if does:
            self._moves(block, tag, does)
        number = tag.number("s", 0, MOST_CHUNKS)
        for consumer in sorted(self.consumers.get((rank, block.number, number), ())):
            steps.append(Step("signal", flags=(Flag(rank, ("dep", block.number, consumer)),)))

    def _moves(self, block: _Block, tag: Tag, does: str) -> None:
        rank, steps = block.planned.rank, block.planned.steps
        count = tag.number("cnt", 1, MOST_CHUNKS)
        self.moves += 3 * count
        if self.moves > _MOST_MOVES:
            raise tag.error(f"more than {_MOST_MOVES} chunks are moved", "take fewer or larger ones")
        into = out = None
        if "r" in does:
            into = self._wire(tag, block.receive, _Wire(block.receive, rank, block.channel), "recv")
        if "s" in does:
            out = self._wire(tag, block.send, _Wire(rank, block.send, block.channel), "send")
        loads = does in ("s", "ld", "lad") or "a" in does
        source = self._places(rank, tag, "src", count) if loads else []
        target = self._places(rank, tag, "dst", count) if "d" in does else []
        if into is not None and self.plan.protocol == "Simple":
            steps.append(Step("wait", flags=(Flag(rank, ("wire", *into)),)))
        for n in range(count):
            read = [self._slot(into, self.received)] if into is not None else []
            if does == "lad":
                read.append(target[n])
            if loads:
                read.append(source[n])
            stored = [target[n]] if target else []
            if out is not None:
                stored.append(self._slot(out, self.sent))
            steps.append(Step("move", tuple(read), tuple(stored)))
        if out is not None and self.plan.protocol == "Simple":
            steps.append(Step("signal", flags=(Flag(out.target, ("wire", *out)),)))

    def _wire(self, tag: Tag, peer: int, wire: _Wire, name: str) -> _Wire:
        if peer < 0:
            raise tag.error(f"the thread block has no {name} peer", f"give it {name}=")
        return wire

    def _slot(self, wire: _Wire, counted: dict[_Wire, int]) -> Place:
        """The next place of a connection: behind the plan's own scratch, one row beside the other."""
        number = counted.get(wire, 0)
        counted[wire] = number + 1
        if self.plan.protocol == "Simple":
            # Behind what a plan in place may need of scratch, see Plan.place.
            first = self.plan.scratch + max(self.plan.inputs, self.plan.outputs)
            return Place(wire.target, "scratch", first + number * len(self.slots) + self.slots[wire])
        return Place(wire.target, "packets", number * len(self.slots) + self.slots[wire])

    def _places(self, rank: int, tag: Tag, end: str, count: int) -> list[Place]:
        buffer = tag.choice(f"{end}buf", _BUFFERS)
        first = tag.number(f"{end}off", 0, MOST_CHUNKS)
        bound = {"i": self.plan.inputs, "o": self.plan.outputs, "s": self.plan.scratch}[buffer]
        if first + count > bound:
            raise tag.error(
                f"chunks {first} to {first + count - 1} of {buffer!r}, which has {bound}",
                "take chunks there are",
            )
        return [self.plan.place(rank, buffer, first + n) for n in range(count)]
