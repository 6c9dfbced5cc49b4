"""MSCCL++ execution plans: JSON in which every thread block's operations are listed.

The names and the meaning of the fields are those of MSCCL++'s
``src/core/executor/execution_plan.cc`` and ``src/core/include/execution_kernel.hpp``, as of
2026. Plans of before 2025, with ``i_buff``, ``o_cids`` and ``ctype``, are refused.

What the format has and a program does not: a port channel is a copy engine that waits for a
doorbell; the k-th channel of a rank to another and the k-th one back are the two ends of one;
channels that a block waits for in one operation are one semaphore that all of them raise; blocks
of a group work on slices of chunks, which are NCCL's channels in a program.

Longer than 800 lines: reader and writer share the tables of operations and the meaning of a GPU's
channels and remote buffers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any

from astranb.collectives.language import (
    SWITCH_READS,
    SWITCH_WRITES,
    Block,
    Chunk,
    Operation,
    Origin,
    Program,
    Semaphore,
)
from astranb.collectives.lowering import pair
from astranb.core.document import DocumentNode, contents, parse_document
from astranb.core.errors import near
from astranb.core.files import whole_file

from .plan import (
    MOST_CHUNKS,
    Flag,
    FormatWriter,
    Pipeline,
    Plan,
    PlanBlock,
    PlanStep,
    collective_name,
    counts,
    gather_waits,
    protocol_name,
    unknown_collective,
)
from .port_requests import PortRequest, PortRequests, Route

__all__ = ["read_mscclpp", "write_mscclpp"]

_MOST_STEPS = 1_000_000
_TYPES = ("memory", "port", "switch", "none")

# Operands: a chunk of this rank (l), a remote one (r), packets of this rank (p), remote ones (q);
# a star: any number of the preceding one.
_SHAPES = {
    "copy": ("l", "l"),
    "put": ("l*", "r*"),
    "pws": ("l*", "r*"),
    "pwsf": ("l*", "r*"),
    "get": ("r*", "l*"),
    "re": ("l*", "l"),
    "res": ("l*", "lr*"),
    "rre": ("lr*", "l"),
    "rres": ("lr*", "lr*"),
    "ppkt": ("l*", "q*"),
    "rppkt": ("p", "q*"),
    "upkt": ("p", "l"),
    "cpkt": ("l", "p"),
    "repkt": ("lp*", "l"),
    "respkt": ("lp*", "lq*"),
    "recpkt": ("lp*", "lp"),
    "recspkt": ("lp*", "lpq*"),
    "glres": ("m", "m"),
    "gstore": ("l", "m"),
    "gstorepkt": ("p", "n"),
}
"""Operands of each operation that moves data; m is a chunk behind a switch, n packets there."""
_IN_SWITCH = {
    "glres": SWITCH_READS | SWITCH_WRITES,
    "gstore": SWITCH_WRITES,
    "gstorepkt": SWITCH_WRITES,
}
_PAIRS = ("put", "pws", "pwsf", "get", "ppkt")  # the first goes to the first, the second to the second
_WITH_UNUSED = ("re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt")
_SYNC = ("signal", "wait", "rlxsignal", "rlxwait")
_OTHERS = (*_SYNC, "nop", "barrier", "flush", "pipeline", "sem_acquire", "sem_release")
_OLD = ("i_buff", "o_buff", "i_cids", "o_cids", "cids", "ctype", "srcbuff", "dstbuff", "deps")
_MOST_SLICES = 1024
# What one thread block of MSCCL++ can hold, src/core/include/execution_common.hpp.
_MOST = {"operations": 64, "channels": 16}
_MOST_NOPS = 64

Json = dict[str, Any]


@dataclass
class _JsonBlock:
    """A thread block under construction, with the channels and buffers that its numbers mean."""

    gpu: _Gpu
    planned: PlanBlock
    channels: dict[str, list[int]]
    buffers: dict[str, list[tuple[int, str]]]
    engine: PlanBlock | None = None
    rung: int = 0  # its steps when it rang the engine's doorbell last; 0: it has not, or in another loop


def read_mscclpp(path: str | Path, data: bytes | None = None) -> Plan:
    """Read an MSCCL++ execution plan, as :func:`read_algorithm`; ``data`` are its contents if read already.

    The ``notes`` of the plan list what a program cannot express and what replaces it.
    """
    data = contents(path) if data is None else data
    return _JsonReader(parse_document(data, str(path), "json", strict=False)).read()


class _JsonReader:
    def __init__(self, root: DocumentNode) -> None:
        self.root = root
        self.steps = 0
        self.notes: dict[str, None] = {}  # in order, once each
        self.barriers: dict[Flag, tuple[DocumentNode, set[int]]] = {}  # and the blocks that have each

    def read(self) -> Plan:
        root = self.root
        gpu_nodes = root.get("gpus").items()
        if root.has("colletive") or any(node.has("inputChunks") for node in gpu_nodes):
            raise root.error(
                "the format of this execution plan is older than 2025", "write it with a newer MSCCL++"
            )
        if not gpu_nodes:
            raise root.get("gpus").error("the plan has no GPUs")
        word = root.get("collective").text()
        self.ranks = len(gpu_nodes)
        collective = collective_name(word)
        if collective is None:
            self.notes[unknown_collective(word)] = None
        inputs, outputs = self._chunks(collective, gpu_nodes)
        protocol = root.get("protocol")
        protocol.choice(("Simple", "LL", "LL128"))
        self.plan = Plan(
            root.get("name").text()[:200] or "plan",
            collective,
            self.ranks,
            inputs,
            outputs,
            in_place=root.get("inplace").truth(),
            protocol=protocol_name(protocol.text()),
            min_bytes=root.get("min_message_size", 0).number(0, 2**64),
            max_bytes=root.get("max_message_size", 2**64).number(0, 2**64),
        )
        if self.plan.max_bytes is not None and self.plan.max_bytes >= 2**63:
            self.plan.max_bytes = None
        if root.get("use_double_scratch_buffer", default=False).truth():
            self.notes["scratch that alternates between runs is one scratch: one run is simulated"] = None
        self.gpus = [_read_gpu(rank, node, self.ranks) for rank, node in enumerate(gpu_nodes)]
        self.plan.scratch = max(gpu.scratch for gpu in self.gpus)
        _connect(self.gpus)
        self.plan.slices = self._slices()
        for gpu in self.gpus:
            for number, node in enumerate(gpu.node.get("threadblocks").items()):
                node.get("id").number(number, number)  # they are listed in order
                self._block(gpu, node, number)
        for node, having in self.barriers.values():
            if len(having) != node.value:
                what = f"the barrier is of {node.brief} thread blocks, but {len(having)} have it"
                raise node.error(what, f"write {len(having)}, or add it to the others")
        self._note_shared()
        gather_waits(self.plan.blocks)
        self.plan.notes.extend(self.notes)
        self.plan.settle()
        return self.plan

    def _chunks(self, collective: str | None, gpu_nodes: list[DocumentNode]) -> tuple[int, int]:
        """Return the chunks of input and output, which are the same on every rank."""
        found = []
        for rank, node in enumerate(gpu_nodes):
            node.get("id").number(rank, rank)
            inputs = node.get("input_chunks").number(0, MOST_CHUNKS)
            outputs = node.get("output_chunks").number(0, MOST_CHUNKS)
            found.append(counts(collective, self.ranks, inputs, outputs))
            if found[-1] != found[0]:
                raise node.error(f"{inputs} input and {outputs} output chunks, gpus[0] has others")
        inputs, outputs = found[0]
        if collective is None:  # it may use scratch only, or nothing
            return max(1, inputs), max(1, outputs)
        if not inputs or not outputs:
            raise gpu_nodes[0].error("no chunks", "give input_chunks or output_chunks")
        if (inputs, outputs) != counts(collective, self.ranks, inputs, 0):
            raise gpu_nodes[0].error(
                f"{inputs} input and {outputs} output chunks make no {collective} of {self.ranks} ranks"
            )
        return inputs, outputs

    def _slices(self) -> int:
        """Return the slices per chunk that give each block of a group a whole number of them."""
        slices = 1
        for gpu in self.gpus:
            for block in gpu.node.get("threadblocks").items():
                for op in block.get("ops").items():
                    inner = op.get("ops").items() if op.has("ops") else []
                    for one in (op, *inner):
                        if one.has("tbg_info"):
                            size = one.get("tbg_info").get("tbg_size").number(1, _MOST_SLICES)
                            slices = lcm(slices, size)
                            if slices > _MOST_SLICES:
                                raise one.error("groups of thread blocks of too many sizes")
        return slices

    def _note_shared(self) -> None:
        waited: dict[Flag, int] = {}
        for block in self.plan.blocks:
            for flag in {flag for step in block.steps if step.kind == "wait" for flag in step.flags}:
                waited[flag] = waited.get(flag, 0) + 1
        if any(times > 1 and flag.name[0] != "barrier" for flag, times in waited.items()):
            self.notes["thread blocks that wait for the same semaphore each count all its signals"] = None

    def _block(self, gpu: _Gpu, node: DocumentNode, place: int) -> None:
        channels: dict[str, list[int]] = {}
        buffers: dict[str, list[tuple[int, str]]] = {}
        for channel in node.get("channels", []).items():
            kind = channel.get("channel_type").choice(_TYPES)
            known = len(gpu.switches if kind == "switch" else gpu.peers.get(kind, ()))
            for number in channel.get("channel_ids").items():
                if known == 0:
                    raise number.error(f"rank {gpu.rank} has no {kind} channel", "add it to its channels")
                channels.setdefault(kind, []).append(number.number(0, known - 1))
        for reference in node.get("remote_buffer_refs", []).items():
            kind = reference.get("access_channel_type").choice(_TYPES)
            for number in reference.get("remote_buffer_ids").items():
                if not gpu.remote:
                    raise number.error(f"rank {gpu.rank} lists no remote_buffers")
                buffers.setdefault(kind, []).append(gpu.remote[number.number(0, len(gpu.remote) - 1)])
        block = _JsonBlock(gpu, PlanBlock(gpu.rank), channels, buffers)
        self.plan.blocks.append(block.planned)
        for step, op in enumerate(node.get("ops").items()):
            first, asked = len(block.planned.steps), len(block.engine.steps) if block.engine else 0
            self._operation(block, op)
            origin = Origin(place, step, op.get("name").text())
            block.planned.name_steps(first, origin)
            if block.engine:
                block.engine.name_steps(asked, origin)
        if block.engine:
            self.plan.blocks.append(block.engine)

    def _operation(self, block: _JsonBlock, op: DocumentNode, *, inside: bool = False) -> None:
        name = op.get("name").text()
        old = next((key for key in _OLD if op.has(key)), None)
        if old:
            raise op.error(f"{old!r} is older than 2025", "write it with a newer MSCCL++")
        steps, rank = block.planned.steps, block.gpu.rank
        if name in _SHAPES:
            self._move(block, op, name)
        elif name == "nop":
            steps.append(PlanStep("compute"))
        elif name == "barrier":
            flag = Flag(rank, ("barrier", op.get("barrier_id").number(0, MOST_CHUNKS)))
            blocks = op.get("num_threadblocks").number(1, MOST_CHUNKS)
            other, having = self.barriers.setdefault(flag, (op.get("num_threadblocks"), set()))
            if other.value != blocks:
                what = f"the barrier is of {blocks} thread blocks here, and of {other.brief} in another one"
                raise op.get("num_threadblocks").error(what, "give it one number")
            having.add(len(self.plan.blocks))
            steps += [PlanStep("signal", flags=(flag,)), PlanStep("wait", flags=(flag,), value=blocks)]
        elif name in _SYNC:
            self._synchronize(block, op, name)
        elif name == "flush":
            if block.engine:
                done = Flag(rank, ("flushed", len(self.plan.blocks)))
                self._ask(block, PlanStep("signal", flags=(done,)))
                steps.append(PlanStep("wait", flags=(done,)))
            else:
                steps.append(PlanStep("fence"))
        elif name in ("sem_acquire", "sem_release"):
            self._semaphores(block, op, name, inside=inside)
        elif name == "pipeline" and not inside:
            unit = op.get("iter_context").get("unit_size").number(1, 2**32 - 1)
            most = max(self.plan.inputs, self.plan.outputs, self.plan.scratch)
            chunks = op.get("iter_context").get("num_chunks").number(0, most)
            self.plan.pipelines.append(Pipeline(unit, chunks))
            first, asked = len(steps), len(block.engine.steps) if block.engine else 0
            block.rung = 0
            for one in op.get("ops").items():
                self._operation(block, one, inside=True)
            block.rung = 0
            for step in (*steps[first:], *(block.engine.steps[asked:] if block.engine else ())):
                step.pipeline = len(self.plan.pipelines)
        else:
            raise op.error(f"unknown operation {name[:40]!r}", near(name[:40], [*_SHAPES, *_OTHERS]))
        self.steps += 1
        self._count(op)

    def _count(self, op: DocumentNode) -> None:
        if self.steps > _MOST_STEPS:
            raise op.error(f"more than {_MOST_STEPS} operations", "use fewer or larger chunks")

    def _channels(self, block: _JsonBlock, op: DocumentNode, kind: str) -> list[int]:
        """Convert the block's channel numbers of an operation to those of the rank."""
        known = block.channels.get(kind, [])
        found = []
        for number in op.get("channel_ids").items():
            if not known:
                raise number.error(f"the thread block has no {kind} channel", "add it to its channels")
            found.append(known[number.number(0, len(known) - 1)])
        return found

    def _synchronize(self, block: _JsonBlock, op: DocumentNode, name: str) -> None:
        kind = op.get("channel_type").choice(("memory", "port"))
        raises = name.endswith("signal")
        ends = (block.gpu.peers if raises else block.gpu.own).get(kind, [])
        flags = tuple(ends[number] for number in self._channels(block, op, kind))
        if not flags:
            raise op.get("channel_ids").error("no channel")
        if not raises:
            block.planned.steps.append(PlanStep("wait", flags=flags))
        elif kind == "port":
            self._ask(block, PlanStep("signal", flags=flags))
        else:
            block.planned.steps.append(PlanStep("signal", flags=flags, relaxed=name == "rlxsignal"))

    def _semaphores(self, block: _JsonBlock, op: DocumentNode, name: str, *, inside: bool) -> None:
        credit = block.gpu.credits
        for number in op.get("semaphore_ids").items():
            if not credit:
                raise number.error(f"rank {block.gpu.rank} lists no semaphores")
            which = number.number(0, len(credit) - 1)
            flag = Flag(block.gpu.rank, ("semaphore", which))
            if name == "sem_release":
                block.planned.steps.append(PlanStep("signal", flags=(flag,)))
            elif credit[which] and inside:
                raise number.error("a semaphore that does not begin at 0 in a pipeline", "begin at 0")
            elif credit[which]:
                credit[which] -= 1  # its initial value needs no release
                self.plan.credits[flag] = self.plan.credits.get(flag, 0) + 1
            else:
                block.planned.steps.append(PlanStep("wait", flags=(flag,)))

    def _ask(self, block: _JsonBlock, *steps: PlanStep) -> None:
        """Request steps from the rank's copy engine, as a port channel's proxy executes them."""
        if block.engine is None:
            block.engine = PlanBlock(block.gpu.rank, "engine")
        if block.rung and block.rung == len(block.planned.steps):
            block.engine.steps += steps  # requests that follow one another are posted at once
            return
        doorbell = Flag(block.gpu.rank, ("doorbell", len(self.plan.blocks)))
        block.planned.steps.append(PlanStep("signal", flags=(doorbell,)))
        block.rung = len(block.planned.steps)
        block.engine.steps += [PlanStep("wait", flags=(doorbell,)), *steps]

    def _move(self, block: _JsonBlock, op: DocumentNode, name: str) -> None:
        kind = op.get("channel_type", "none").choice(_TYPES)
        through_port = kind == "port" and name in ("put", "pws", "pwsf", "ppkt", "rppkt")
        shape, into = _SHAPES[name]
        if through_port and into == "q*":
            shape = "p*"  # a port moves packets as they are in memory
        sources = self._operands(block, op, "src_buff", shape, kind)
        targets = self._operands(block, op, "dst_buff", into, kind)
        op.get("reduce_op", "sum").choice(("sum", "min", "max"))
        if name in _WITH_UNUSED and op.get("dst_buff").items()[0].get("unused", default=False).truth():
            targets = targets[1:]  # see write_mscclpp
            if not targets:
                raise op.get("dst_buff").error("the only target is unused")
        if len({len(chunks) for chunks in (*sources, *targets)}) > 1:
            raise op.error("chunks of different sizes", "use the same size in src_buff and dst_buff")
        if name in _PAIRS and len(sources) != len(targets):
            raise op.error(f"{len(sources)} sources and {len(targets)} targets", "use equal numbers of both")
        pairs = zip(sources, targets, strict=True) if name in _PAIRS else [(None, None)]
        moves = []
        for source, target in pairs:
            read = [source] if source is not None else sources
            stored = [target] if target is not None else targets
            parts = zip(zip(*read, strict=True), zip(*stored, strict=True), strict=True)
            for part, (one, other) in enumerate(parts):
                from_, to = _flat(one), _flat(other)
                if name == "gstorepkt":
                    # The packets that come back to the rank itself are there already: nobody reads them.
                    to = tuple(c._replace(index=c.index + MOST_CHUNKS) if c in from_ else c for c in to)
                moves.append(PlanStep("move", from_, to, in_switch=_IN_SWITCH.get(name, 0), part=part))
                if len(set(moves[-1].targets)) < len(moves[-1].targets):
                    raise op.get("dst_buff").error("duplicate chunk")
        self.steps += sum(len(move.sources) + len(move.targets) for move in moves)
        self._count(op)
        flags: tuple[Flag, ...] = ()
        if name in ("pws", "pwsf") or (through_port and op.has("channel_ids")):
            channels = self._channels(block, op, kind)
            flags = tuple(block.gpu.peers.get(kind, [])[number] for number in channels)
        after = [PlanStep("signal", flags=flags)] if name in ("pws", "pwsf") and flags else []
        if not through_port:
            block.planned.steps += [*moves, *after]
            return
        if name == "pwsf":
            done = Flag(block.gpu.rank, ("flushed", len(self.plan.blocks)))
            self._ask(block, *moves, *after, PlanStep("signal", flags=(done,)))
            block.planned.steps.append(PlanStep("wait", flags=(done,)))
        else:
            self._ask(block, *moves, *after)

    def _operands(
        self, block: _JsonBlock, op: DocumentNode, key: str, shape: str, kind: str
    ) -> list[list[tuple[Chunk, ...]]]:
        """For each operand of an operation, return its chunks and slices, each on one or more ranks."""
        nodes = op.get(key).items()
        letters = shape.rstrip("*")
        fewest = len(letters) if not shape.endswith("*") or len(letters) == 1 else len(letters) - 1
        if len(nodes) < fewest or (len(nodes) > len(letters) and not shape.endswith("*")):
            raise op.get(key).error(f"{op.get('name').text()} takes {fewest}, not {len(nodes)}")
        letters += letters[-1] * (len(nodes) - len(letters))
        return [
            self._operand(block, op, node, letter, kind) for node, letter in zip(nodes, letters, strict=False)
        ]

    def _operand(
        self, block: _JsonBlock, op: DocumentNode, node: DocumentNode, letter: str, kind: str
    ) -> list[tuple[Chunk, ...]]:
        first = node.get("index").number(0, MOST_CHUNKS)
        size = node.get("size").number(1, MOST_CHUNKS)
        if letter in "rq":
            known = block.buffers.get(kind, [])
            number = node.get("buffer_id")
            if not known:
                raise number.error(
                    f"the thread block has no remote buffer over {kind} channels",
                    "add it to remote_buffer_refs",
                )
            owner, buffer = known[number.number(0, len(known) - 1)]
            owners = [owner]
        elif letter in "mn":
            switches = block.channels.get("switch", [])
            number = node.get("switch_channel_id")
            if not switches:
                raise number.error("the thread block has no switch channel", "add it to its channels")
            buffer, owners = block.gpu.switches[switches[number.number(0, len(switches) - 1)]]
        else:
            owners, buffer = [block.gpu.rank], node.get("type").choice(("i", "o", "s"))
        packets = letter in "pqn"
        if packets and buffer != "s":
            raise node.error("packets must be in scratch", "use a buffer of type 's'")
        scratch = max(self.gpus[owner].scratch for owner in owners)
        if wrong := self.plan.misses(buffer, first, size, scratch):
            raise node.error(wrong, "use existing chunks")
        letter = "p" if packets else buffer
        return [
            tuple(self.plan.chunk(owner, letter, chunk, part) for owner in owners)
            for chunk in range(first, first + size)
            for part in self._parts(op)
        ]

    def _parts(self, op: DocumentNode) -> range:
        """Return the slices of each chunk that an operation of a thread block group works on."""
        if not op.has("tbg_info"):
            return range(self.plan.slices)
        group = op.get("tbg_info")
        size = group.get("tbg_size").number(1, _MOST_SLICES)
        mine = group.get("tb_id").number(0, size - 1)
        each = self.plan.slices // size  # a whole number, see _slices
        return range(mine * each, (mine + 1) * each)


def _flat(groups: Iterable[tuple[Chunk, ...]]) -> tuple[Chunk, ...]:
    return tuple(chunk for group in groups for chunk in group)


@dataclass
class _Gpu:
    """An element of ``gpus`` without its operations."""

    rank: int
    node: DocumentNode
    peers: dict[str, list[Flag]] = field(default_factory=dict)  # the flag that each channel raises
    own: dict[str, list[Flag]] = field(default_factory=dict)  # the flag that each waits for
    remote: list[tuple[int, str]] = field(default_factory=list)
    switches: list[tuple[str, list[int]]] = field(default_factory=list)
    credits: list[int] = field(default_factory=list)  # of its semaphores, at the start
    scratch: int = 0


def _read_gpu(rank: int, node: DocumentNode, ranks: int) -> _Gpu:
    """Read a rank's channels, remote buffers and semaphores."""
    gpu = _Gpu(rank, node)
    gpu.scratch = node.get("scratch_chunks").number(0, MOST_CHUNKS)
    for channel in node.get("channels", []).items():
        kind = channel.get("channel_type").choice(_TYPES)
        if kind == "switch":
            buffer = channel.get("buffer_type").choice(("i", "o", "s"))
            for group in channel.get("rank_groups").items():
                members = [r.number(0, ranks - 1) for r in group.get("ranks").items()]
                if not members or len(set(members)) < len(members):
                    raise group.error("a group needs at least one rank, and each only once")
                gpu.switches.append((buffer, members))
        else:
            peers = [peer.number(0, ranks - 1) for peer in channel.get("connected_to").items()]
            gpu.peers.setdefault(kind, []).extend(Flag(peer, (kind, rank)) for peer in peers)
    for remote in node.get("remote_buffers", []).items():
        gpu.remote.append(
            (remote.get("rank").number(0, ranks - 1), remote.get("type").choice(("i", "o", "s")))
        )
    gpu.credits = [
        semaphore.get("init_value").number(0, _MOST_STEPS) for semaphore in node.get("semaphores", []).items()
    ]
    return gpu


def _connect(gpus: list[_Gpu]) -> None:
    """Pair channels: the k-th from a rank to another is the other end of the k-th back."""
    for gpu in gpus:
        for kind, flags in gpu.peers.items():
            numbers: dict[int, int] = {}
            raised, awaited = [], []
            for flag in flags:
                k = numbers[flag.rank] = numbers.get(flag.rank, -1) + 1
                raised.append(Flag(flag.rank, (kind, gpu.rank, k)))
                awaited.append(Flag(gpu.rank, (kind, flag.rank, k)))
            gpu.peers[kind], gpu.own[kind] = raised, awaited


def write_mscclpp(program: Program, path: str | Path, *, collective: str | None = None) -> list[str]:
    """Write a program as an MSCCL++ execution plan; return what changes, and what MSCCL++ would not accept.

    A move without a matching operation becomes several: a sum that is stored only to other
    ranks is also stored to scratch (marked ``"unused"``, which :func:`read_mscclpp` removes and
    MSCCL++ ignores); a copy to several other ranks becomes one for each. What copy engines and NICs
    do, the thread block that rings for it asks for over port channels.

    Parameters
    ----------
    program : Program
    path : str or Path
    collective : str, optional
        The collective's name in the file; by default from the name of the program.

    Raises
    ------
    InputError
        The program uses something that the format cannot express; or the file cannot be written.
    """
    writer = _JsonWriter(program)
    document = writer.document(collective or program.name.partition("/")[0])
    with whole_file(Path(path)) as file:
        file.write(json.dumps(document, indent=1).encode())
    return list(writer.notes)


class _Rank:
    """A rank under construction."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.blocks: list[Json] = []
        self.remote: list[tuple[int, str]] = []
        self.access: dict[tuple[int, str], dict[str, None]] = {}  # kinds of channels to each remote buffer
        self.switches: list[tuple[str, tuple[int, ...]]] = []
        self.semaphores = 0
        self.scratch: dict[tuple[str, int, int], int] = {}
        self.extra = 0

    def document(self, writer: FormatWriter, channels: dict[str, list[int]]) -> Json:
        """Return the rank's element of ``gpus``."""
        listed: list[Json] = [
            {"channel_type": kind, "connected_to": peers} for kind, peers in channels.items() if peers
        ]
        for buffer, ranks in self.switches:
            groups = [{"size": len(ranks), "ranks": list(ranks)}]
            listed.append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": groups})
        return {
            "id": self.number,
            "input_chunks": writer.inputs,
            "output_chunks": writer.outputs,
            "scratch_chunks": len(self.scratch) + self.extra,
            "threadblocks": self.blocks,
            "channels": listed,
            "remote_buffers": [
                {"rank": rank, "type": buffer, "access_channel_types": list(self.access[rank, buffer])}
                for rank, buffer in self.remote
            ],
            "semaphores": [{"init_value": 0}] * self.semaphores,
        }


class _JsonWriter(FormatWriter):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        program = self.program
        self.ranks = [_Rank(rank) for rank in range(program.ranks)]
        self.pairing = pair(program)
        self.packets = False
        self.excess: dict[str, list[tuple[int, int, int]]] = {what: [] for what in _MOST}
        self.requests = PortRequests(program, self.pairing, self.error)
        self._number_scratch()
        self._number_channels()

    def document(self, collective: str) -> Json:
        for number, block in enumerate(self.program.blocks):
            if block.unit != "sm":
                continue  # a thread block asks for it
            self.check(block)
            writer = _BlockWriter(self, number, block)
            self.ranks[block.rank].blocks.append(writer.document(len(self.ranks[block.rank].blocks)))
        self.notes.update(self.requests.notes)
        for what, some in self.excess.items():
            if some:
                count, number, rank = max(some, key=lambda one: one[0])
                others = f", and {len(some) - 1:,} others have too many" if len(some) > 1 else ""
                self.notes[
                    f"MSCCL++ accepts at most {_MOST[what]} {what} in a thread block, "
                    f"number {number} of rank {rank} has {count}{others}"
                ] = None
        if len(self.program.kernels) > 1:
            self.notes["its kernels become one kernel"] = None
        if self.packets and self.program.protocol != "LL":
            self.notes[f"packets of {self.program.protocol} become packets of LL"] = None
        return {
            "name": self.program.name.replace("/", "_"),
            "collective": collective.replace("_", ""),
            "protocol": "LL" if self.packets else "Simple",
            "inplace": False,
            "reuse_resources": False,
            "gpus": [rank.document(self, self.connected[rank.number]) for rank in self.ranks],
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": False,
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
        }

    def _number_scratch(self) -> None:
        """Number the chunks of scratch and packets: on each rank or, with a switch, alike on all."""
        alike = False
        used: list[set[tuple[str, int, int]]] = [set() for _ in self.ranks]
        for block in self.program.blocks:
            for op in block.operations:
                alike = alike or op.in_switch > 0
                for chunk in (*op.sources, *op.targets):
                    if chunk.buffer in ("scratch", "packets"):
                        used[chunk.rank].add((chunk.buffer, chunk.index, chunk.channel))
        if alike:
            used = [set().union(*used)] * len(used)
        for rank, chunks in zip(self.ranks, used, strict=True):
            # Scratch before packets, as in a rank's memory.
            order = sorted(chunks, key=lambda chunk: (chunk[0] == "packets", chunk))
            rank.scratch = {chunk: number for number, chunk in enumerate(order)}

    def _number_channels(self) -> None:
        """Assign each semaphore and pair of blocks a channel; within a rank, a semaphore.

        The k-th channel of a rank to another and the k-th one back are the ends of one: the
        pair carries a semaphore in each direction.
        """
        blocks = self.program.blocks
        sources: dict[Semaphore, list[int]] = {}
        for number, block in enumerate(blocks):
            for op in block.operations:
                if op.kind == "signal" and op.semaphore:
                    sources.setdefault(op.semaphore, []).append(number)
        routes: list[Route] = []
        self.local: dict[tuple[Semaphore, int], int] = {}
        for semaphore, signals in sources.items():
            waiters = self.pairing.waiters.get(semaphore, [])
            if not waiters:
                raise self.error(
                    f"no block waits for a semaphore of rank {semaphore.rank}", "leave out its signals"
                )
            waiters = [number for number in waiters if blocks[number].unit == "sm"]  # the others are rung for
            signallers = [
                number
                for number in dict.fromkeys(signals)
                if blocks[number].unit == "sm" or blocks[number].rank != semaphore.rank  # else it flushes
            ]
            if len(signallers) * len(waiters) > 1:
                self.notes["a semaphore of several thread blocks becomes one for each pair of them"] = None
            if all(blocks[number].rank == semaphore.rank for number in signallers):
                for waiter in waiters if signallers else ():
                    self.local[semaphore, waiter] = self.ranks[semaphore.rank].semaphores
                    self.ranks[semaphore.rank].semaphores += 1
                continue
            routes += [Route(semaphore, signaller, waiter) for signaller in signallers for waiter in waiters]
        asked = dict.fromkeys(route for one in self.requests.used.values() for route in one)
        routes += [route for route in asked if route.semaphore is None]
        self._place(routes)

    def _place(self, routes: list[Route]) -> None:
        """Number the channels at both ends."""
        blocks, ranks = self.program.blocks, range(self.program.ranks)
        used: dict[tuple[str, int, int], int] = {}
        ends: dict[Route, tuple[str, int, int, int]] = {}
        for route in routes:
            kind = "memory" if blocks[route.signaller].unit == "sm" else "port"
            peer = route.end if route.semaphore is None else route.semaphore.rank
            way = kind, blocks[route.signaller].rank, peer
            ends[route] = (*way, used.get(way, 0))
            used[way] = used.get(way, 0) + 1
        self.connected: list[dict[str, list[int]]] = [{"memory": [], "port": []} for _ in ranks]
        first: dict[tuple[str, int, int], int] = {}
        for kind, rank, peer in product(("memory", "port"), ranks, ranks):
            peers = self.connected[rank][kind]
            first[kind, rank, peer] = len(peers)
            peers += [peer] * max(used.get((kind, rank, peer), 0), used.get((kind, peer, rank), 0))
        # The kind of each channel, and its number at the end that signals and at the one that waits.
        self.channel = {route: (kind, first[kind, a, b] + k) for route, (kind, a, b, k) in ends.items()}
        self.end = {route: (kind, first[kind, b, a] + k) for route, (kind, a, b, k) in ends.items()}


class _BlockWriter:
    """A thread block under construction."""

    def __init__(self, writer: _JsonWriter, number: int, block: Block) -> None:
        self.writer, self.number, self.block = writer, number, block
        self.rank = writer.ranks[block.rank]
        self.ops: list[Json] = []
        self.channels: dict[str, list[int]] = {"memory": [], "port": []}
        self.switches: list[int] = []
        self.buffers: dict[str, list[int]] = {"memory": [], "port": []}
        self.asked: dict[int, list[int]] = {}  # of each list since the last flush: channels

    def document(self, number: int) -> Json:
        for place, op in enumerate(self.block.operations):
            if op.kind == "move":
                self._switch(op) if op.in_switch else self._move(op)
            elif op.kind == "signal":
                self._signal(op)
                self._ask(op, self.writer.requests.at.get((self.number, place), []))
            elif op.kind == "wait":
                self._wait(op, self.writer.pairing.shares[self.number, place])
            elif op.kind == "fence":
                # Over memory channels, a flush waits for the block's own stores only.
                self.ops.append({"name": "flush", "channel_ids": [], "channel_type": "memory"})
            elif op.kind == "compute" and op.value <= _MOST_NOPS:
                self.ops += [{"name": "nop"}] * op.value
            elif op.kind == "compute":
                raise self.writer.error(f"MSCCL++ cannot compute {op.value} instructions", "", op)
        for what, count in (
            ("operations", len(self.ops)),
            ("channels", max(map(len, self.channels.values()))),
        ):
            if count > _MOST[what]:
                self.writer.excess[what].append((count, number, self.block.rank))
        listed = [{"channel_type": kind, "channel_ids": ids} for kind, ids in self.channels.items() if ids]
        if self.switches:
            listed.append({"channel_type": "switch", "channel_ids": self.switches})
        refs = [
            {"access_channel_type": kind, "remote_buffer_ids": ids}
            for kind, ids in self.buffers.items()
            if ids
        ]
        return {"id": number, "ops": self.ops, "channels": listed, "remote_buffer_refs": refs}

    def _signal(self, op: Operation) -> None:
        semaphore = op.semaphore
        assert semaphore is not None  # noqa: S101 - a signal has one
        ids = []
        waiters = self.writer.pairing.waiters[semaphore]
        if op.behind:
            self.writer.notes["a thread block waits for its stores where it posted a signal behind them"] = (
                None
            )
        for waiter in waiters:
            local = self.writer.local.get((semaphore, waiter))
            if local is not None:
                self.ops.append({"name": "sem_release", "semaphore_ids": [local] * op.value})
            elif self.writer.program.blocks[waiter].unit == "sm":
                channel = self.writer.channel[Route(semaphore, self.number, waiter)]
                ids += [self._channel(channel)] * op.value
        if ids:
            name = "rlxsignal" if op.relaxed else "signal"
            self.ops.append({"name": name, "channel_ids": ids, "channel_type": "memory"})

    def _wait(self, op: Operation, shares: dict[int, int]) -> None:
        semaphore = op.semaphore
        assert semaphore is not None  # noqa: S101 - a wait has one
        local = self.writer.local.get((semaphore, self.number))
        acquired: list[int] = []
        waited: dict[str, list[int]] = {}
        blocks = self.writer.program.blocks
        for source, share in shares.items():
            if blocks[source].unit != "sm" and blocks[source].rank == self.block.rank:
                self._flush(source)
            elif local is not None:
                acquired += [local] * share
            else:
                end = self.writer.end[Route(semaphore, source, self.number)]
                waited.setdefault(end[0], []).extend([self._channel(end)] * share)
        if acquired:
            self.ops.append({"name": "sem_acquire", "semaphore_ids": acquired})
        for kind, ids in waited.items():
            self.ops.append({"name": "wait", "channel_ids": ids, "channel_type": kind})

    def _channel(self, channel: tuple[str, int]) -> int:
        """Return the block's number of one of its rank's channels."""
        kind, number = channel
        return _position(self.channels[kind], number)

    def _ask(self, op: Operation, requests: list[PortRequest]) -> None:
        """Ask for what a copy engine or NIC does after a doorbell.

        One thread asks, once all have stored what is to be moved: so its requests keep their order.
        """
        if not requests:
            return
        if op.relaxed:
            self.writer.notes["a thread block waits for its stores where it rang without waiting"] = None
        if self.ops and self.ops[-1]["name"] != "nop":
            self.ops.append({"name": "nop"})
        for request in requests:
            what = request.operation
            ids = [self._channel(self.writer.channel[route]) for route in request.routes]
            self.asked.setdefault(request.list_number, []).extend(ids)
            if what.kind == "move":
                name = "ppkt" if what.sources[0].buffer == "packets" else "put"
                for target, number in zip(what.targets, ids, strict=True):
                    self._emit(name, what.sources, [target], "port")
                    self.ops[-1]["channel_ids"] = [number]
                continue
            if what.behind or what.relaxed:
                self.writer.notes["a copy engine waits for its stores before each signal"] = None
            for number in ids:
                over = {"channel_ids": [number], "channel_type": "port"}
                if self.ops and self.ops[-1].items() >= {"name": "put", **over}.items():
                    self.ops[-1]["name"] = "pws"
                else:
                    self.ops.append({"name": "signal", **over})

    def _flush(self, list_number: int) -> None:
        """Wait until all that this block has asked of a copy engine or NIC is done."""
        ids = list(dict.fromkeys(self.asked.pop(list_number, [])))
        over = {"channel_ids": ids, "channel_type": "port"}
        if self.ops and self.ops[-1].items() >= {"name": "pws", **over}.items():
            self.ops[-1]["name"] = "pwsf"
        elif ids:
            self.ops.append({"name": "flush", **over})
            self.writer.notes[
                "MSCCL++'s executor (as of 2026) skips a flush that is no part of a put: let a put, its "
                "signal and the one that the own thread block waits for follow one another"
            ] = None

    def _index(self, chunk: Chunk) -> int:
        if chunk.buffer in ("scratch", "packets"):
            return self.writer.ranks[chunk.rank].scratch[chunk.buffer, chunk.index, chunk.channel]
        return self.writer.index(chunk)

    def _operand(self, chunk: Chunk | Json, kind: str = "memory") -> Json:
        """Return a chunk as an operand: by its buffer's type or, on another rank, by that buffer's number."""
        if isinstance(chunk, dict):
            return chunk
        where = {"index": self._index(chunk), "size": 1}
        self.writer.packets = self.writer.packets or chunk.buffer == "packets"
        letter = self.writer.letters[chunk.buffer]
        if chunk.rank == self.block.rank:
            return {"type": letter, **where}
        self.rank.access.setdefault((chunk.rank, letter), {})[kind] = None
        number = _position(self.rank.remote, (chunk.rank, letter))
        return {"buffer_id": _position(self.buffers[kind], number), **where}

    def _spare(self) -> Json:
        """Return a chunk of scratch that no operation uses yet."""
        number = len(self.rank.scratch) + self.rank.extra
        self.rank.extra += 1
        return {"type": "s", "index": number, "size": 1}

    def _emit(
        self,
        name: str,
        sources: Iterable[Chunk | Json],
        targets: Iterable[Chunk | Json],
        kind: str = "memory",
    ) -> None:
        op: Json = {"name": name, "src_buff": [self._operand(c, kind) for c in sources]}
        op["dst_buff"] = [self._operand(c, kind) for c in targets]
        if any("buffer_id" in ref for ref in (*op["src_buff"], *op["dst_buff"])):
            op["channel_type"] = kind
        if name.startswith("r") and name != "rppkt":
            op["reduce_op"] = "sum"
        self.ops.append(op)

    def _switch(self, op: Operation) -> None:
        if op.in_switch == SWITCH_READS:
            raise self.writer.error(
                "a sum that a switch returns but does not store cannot be written",
                "use switch_reduce_store",
                op,
            )
        if op.in_switch == SWITCH_READS | SWITCH_WRITES:
            sources, name = [self._behind(op, op.sources)], "glres"
        else:
            sources, name = [self._operand(op.sources[0])], "gstore"
            packed = {chunk.buffer == "packets" for chunk in (op.sources[0], *op.targets)}
            if "buffer_id" in sources[0] or len(packed) > 1:
                raise self.writer.error(
                    f"a switch cannot store {op.sources[0]} from here", "copy it first", op
                )
            name += "pkt" if op.sources[0].buffer == "packets" else ""
        self.ops.append(
            {
                "name": name,
                "src_buff": sources,
                "dst_buff": [self._behind(op, op.targets)],
                "channel_type": "switch",
            }
        )

    def _behind(self, op: Operation, chunks: tuple[Chunk, ...]) -> Json:
        """Return the same chunk of several ranks as an operand of a switch."""
        places = {(chunk.buffer, self._index(chunk)) for chunk in chunks}
        if len(places) > 1:
            raise self.writer.error(
                "a switch cannot access different chunks", "use the same chunk of every rank", op
            )
        self.writer.packets = self.writer.packets or chunks[0].buffer == "packets"
        group = self.writer.letters[chunks[0].buffer], tuple(chunk.rank for chunk in chunks)
        channel = _position(self.switches, _position(self.rank.switches, group))
        return {"switch_channel_id": channel, "index": self._index(chunks[0]), "size": 1}

    def _move(self, op: Operation) -> None:
        """Write a move as one operation if there is one, else as several."""
        before = len(self.ops)
        mine, packets, remote, unreadable = self._sorted(op.sources)
        here, packed, puts, posted = self._sorted(op.targets)
        if unreadable:
            raise self.writer.error(
                f"rank {self.block.rank} reads packets of another rank", "put them to it instead", op
            )
        if remote and packets:
            raise self.writer.error("a sum of packets and another rank's chunk", "use two moves", op)
        if packets and not mine and len(packets) == 1 and not here and not puts and not packed:
            self._emit("rppkt", packets, posted)
            return
        if not mine and len(packets) + len(remote) == 1:
            # Loaded to this rank first, then stored elsewhere.
            first = here.pop(0) if here else self._spare()
            self._emit("upkt" if packets else "get", packets or remote, [first])
            mine, packets, remote = [first], [], []
            if not (here or puts or packed or posted):
                return
        elif not mine:
            first = self._spare()
            self._emit("upkt" if packets else "get", [(packets or remote).pop(0)], [first])
            mine = [first]
        elif len(mine) > 1 and (packets or remote):
            first = self._spare()
            self._emit("re", mine, [first])
            mine = [first]
        if len(op.sources) > 1 and (
            op.sources[0].buffer == "packets" or op.sources[0].rank != self.block.rank
        ):
            self.writer.notes["sums read the chunks of their own rank first"] = None
        # Chunks of this rank with remote ones or packets: add them, and store the sum.
        sources = [*mine, *remote, *packets]
        if len(sources) == 1 and not here:
            done = sources[0]  # stored to its targets directly
        else:
            spare = None if here else self._spare()
            done = here.pop(0) if spare is None else spare
            if packets or ((posted or packed) and not remote and len(mine) == 1):
                rest, packed = packed[1:], packed[:1]
                name = ("rec" if packed else "re") + ("s" if posted else "") + "pkt"
                self._emit(name, sources, [done, *packed, *posted])
                packed, posted = rest, []
            elif len(sources) == 1 and not puts:
                self._emit("copy", sources, [done])
            else:
                name = ("rre" if remote else "re") + ("s" if puts else "")
                self._emit(name, sources, [done, *puts])
                puts = []
            if spare is not None and not (puts or packed or posted):
                self.ops[-1]["dst_buff"][0] = {**spare, "unused": True}
        for name, targets in (("copy", here), ("put", puts), ("cpkt", packed), ("ppkt", posted)):
            for target in targets:
                self._emit(name, [done], [target])
        if len(self.ops) - before > 1:
            self.writer.notes["some moves become several operations"] = None

    def _sorted(self, chunks: Iterable[Chunk]) -> tuple[list[Chunk | Json], ...]:
        """Sort chunks: those of this rank, its packets, those of other ranks, packets of others."""
        found: tuple[list[Chunk | Json], ...] = ([], [], [], [])
        for chunk in chunks:
            found[2 * (chunk.rank != self.block.rank) + (chunk.buffer == "packets")].append(chunk)
        return found


def _position(among: list[Any], what: Any) -> int:
    """Return the position of something in a list; append it if it is missing."""
    if what not in among:
        among.append(what)
    return among.index(what)
