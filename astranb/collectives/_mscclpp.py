"""MSCCL++ execution plans: JSON in which every thread block's operations are listed.

The names and the meaning of the fields are those of MSCCL++'s
``src/core/executor/execution_plan.cc`` and ``src/core/include/execution_kernel.hpp``, as of
2026. Plans of before 2025, with ``i_buff``, ``o_cids`` and ``ctype``, are refused.

What has no word of its own here: a port channel is a copy engine that waits for a doorbell;
the k-th channel of a rank to another and the k-th one back are the two ends of one; channels
that a block waits for in one operation are one semaphore that all of them raise; blocks of a
group work on slices of chunks, which are lanes here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from pathlib import Path

from astranb.core.document import Node, contents, parse_document
from astranb.core.errors import near

from ._mscclpp_gpu import MOST_STEPS, SHAPES, TYPES, Gpu, connect, read_gpu
from ._plan import MOST_CHUNKS, Plan, collective_name, counts, protocol_name
from ._program import SWITCH_READS, SWITCH_WRITES
from ._steps import Flag, Place, PlanBlock, Step, gather_waits

__all__ = ["read_mscclpp"]

_PAIRS = ("put", "pws", "pwsf", "get", "ppkt")  # the first goes to the first, the second to the second
_WITH_UNUSED = ("re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt")
_SYNC = ("signal", "wait", "rlxsignal", "rlxwait")
_OTHERS = (*_SYNC, "nop", "barrier", "flush", "pipeline", "sem_acquire", "sem_release")
_OLD = ("i_buff", "o_buff", "i_cids", "o_cids", "cids", "ctype", "srcbuff", "dstbuff", "deps")
_MOST_SLICES = 1024


@dataclass
class _Block:
    """A thread block under way, with what its numbers of channels and buffers stand for."""

    gpu: Gpu
    planned: PlanBlock
    channels: dict[str, list[int]]
    buffers: dict[str, list[tuple[int, str]]]
    engine: PlanBlock | None = None


def read_mscclpp(path: str | Path, data: bytes | None = None) -> Plan:
    """Read an MSCCL++ execution plan.

    Parameters
    ----------
    path : str or Path
        The file.
    data : bytes, optional
        Its contents, where they are known already.

    Returns
    -------
    Plan
        Give it as ``algorithm=`` of a :class:`Collective`. Where the language of astranb
        has no word for something, ``notes`` says what stands for it.

    Raises
    ------
    InputError
        The file cannot be read or is no such plan; the text names the element.
    """
    data = contents(path) if data is None else data
    return _Reader(parse_document(data, str(path), "json", strict=False)).read()


class _Reader:
    def __init__(self, root: Node) -> None:
        self.root = root
        self.steps = 0
        self.notes: dict[str, None] = {}  # in order, once each

    def read(self) -> Plan:
        root = self.root
        gpu_nodes = root.get("gpus").items()
        if root.has("colletive") or any(node.has("inputChunks") for node in gpu_nodes):
            raise root.error("an execution plan of the form of before 2025", "write it with a newer MSCCL++")
        if not gpu_nodes:
            raise root.get("gpus").error("a plan without GPUs")
        word = root.get("collective").text()
        self.ranks = len(gpu_nodes)
        collective = collective_name(word)
        if collective is None:
            self.notes[f"collective {word[:40]!r} is none of astranb's: say which one to run it as"] = None
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
        self.gpus = [read_gpu(rank, node, self.ranks) for rank, node in enumerate(gpu_nodes)]
        self.plan.scratch = max(gpu.scratch for gpu in self.gpus)
        connect(self.gpus)
        self.plan.slices = self._slices()
        for gpu in self.gpus:
            for number, node in enumerate(gpu.node.get("threadblocks").items()):
                node.get("id").number(number, number)  # they are listed in order
                self._block(gpu, node)
        self._note_shared()
        gather_waits(self.plan.blocks)
        self.plan.notes.extend(self.notes)
        self.plan.settle()
        return self.plan

    def _chunks(self, collective: str | None, gpu_nodes: list[Node]) -> tuple[int, int]:
        """Chunks of input and output; the same on every rank."""
        found = []
        for rank, node in enumerate(gpu_nodes):
            node.get("id").number(rank, rank)
            inputs = node.get("input_chunks").number(0, MOST_CHUNKS)
            outputs = node.get("output_chunks").number(0, MOST_CHUNKS)
            found.append(counts(collective, self.ranks, inputs, outputs))
            if found[-1] != found[0]:
                raise node.error(f"{inputs} input and {outputs} output chunks, gpus[0] has others")
        inputs, outputs = found[0]
        if not inputs or not outputs:
            raise gpu_nodes[0].error("no chunks", "give input_chunks or output_chunks")
        if collective and (inputs, outputs) != counts(collective, self.ranks, inputs, 0):
            raise gpu_nodes[0].error(
                f"{inputs} input and {outputs} output chunks make no {collective} of {self.ranks} ranks"
            )
        return inputs, outputs

    def _slices(self) -> int:
        """Into how many slices chunks are cut so that each block of a group has whole ones."""
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
            self.notes["thread blocks that wait for one semaphore each count all its signals"] = None

    def _block(self, gpu: Gpu, node: Node) -> None:
        channels: dict[str, list[int]] = {}
        buffers: dict[str, list[tuple[int, str]]] = {}
        for channel in node.get("channels", []).items():
            kind = channel.get("channel_type").choice(TYPES)
            known = len(gpu.switches if kind == "switch" else gpu.peers.get(kind, ()))
            for number in channel.get("channel_ids").items():
                if known == 0:
                    raise number.error(f"rank {gpu.rank} has no {kind} channel", "list it in its channels")
                channels.setdefault(kind, []).append(number.number(0, known - 1))
        for reference in node.get("remote_buffer_refs", []).items():
            kind = reference.get("access_channel_type").choice(TYPES)
            for number in reference.get("remote_buffer_ids").items():
                if not gpu.remote:
                    raise number.error(f"rank {gpu.rank} lists no remote_buffers")
                buffers.setdefault(kind, []).append(gpu.remote[number.number(0, len(gpu.remote) - 1)])
        block = _Block(gpu, PlanBlock(gpu.rank), channels, buffers)
        self.plan.blocks.append(block.planned)
        for op in node.get("ops").items():
            self._operation(block, op)
        if block.engine:
            self.plan.blocks.append(block.engine)

    def _operation(self, block: _Block, op: Node, *, inside: bool = False) -> None:
        name = op.get("name").text()
        old = next((key for key in _OLD if op.has(key)), None)
        if old:
            raise op.error(f"{old!r} is of the form of before 2025", "write it with a newer MSCCL++")
        steps, rank = block.planned.steps, block.gpu.rank
        if name in SHAPES:
            self._move(block, op, name)
        elif name == "nop":
            steps.append(Step("compute"))
        elif name == "barrier":
            flag = Flag(rank, ("barrier", op.get("barrier_id").number(0, MOST_CHUNKS)))
            blocks = op.get("num_threadblocks").number(1, MOST_CHUNKS)
            steps += [Step("signal", flags=(flag,)), Step("wait", flags=(flag,), value=blocks)]
        elif name in _SYNC:
            self._synchronize(block, op, name)
        elif name == "flush":
            if block.engine:
                done = Flag(rank, ("flushed", len(self.plan.blocks)))
                self._ask(block, Step("signal", flags=(done,)))
                steps.append(Step("wait", flags=(done,)))
            else:
                steps.append(Step("fence"))
        elif name in ("sem_acquire", "sem_release"):
            self._semaphores(block, op, name)
        elif name == "pipeline" and not inside:
            op.get("iter_context").get("unit_size").number(1, 2**64)
            op.get("iter_context").get("num_chunks").number(0, MOST_CHUNKS)
            self.notes["pipelines run once over whole chunks, not piece by piece"] = None
            for one in op.get("ops").items():
                self._operation(block, one, inside=True)
        else:
            raise op.error(f"unknown operation {name[:40]!r}", near(name[:40], [*SHAPES, *_OTHERS]))
        self.steps += 1
        self._count(op)

    def _count(self, op: Node) -> None:
        if self.steps > MOST_STEPS:
            raise op.error(f"more than {MOST_STEPS} operations", "take fewer or larger chunks")

    def _channels(self, block: _Block, op: Node, kind: str) -> list[int]:
        """The rank's numbers of the channels that an operation names by the block's numbers."""
        known = block.channels.get(kind, [])
        found = []
        for number in op.get("channel_ids").items():
            if not known:
                raise number.error(f"the thread block has no {kind} channel", "list it in its channels")
            found.append(known[number.number(0, len(known) - 1)])
        return found

    def _synchronize(self, block: _Block, op: Node, name: str) -> None:
        kind = op.get("channel_type").choice(("memory", "port"))
        raises = name.endswith("signal")
        ends = (block.gpu.peers if raises else block.gpu.own).get(kind, [])
        flags = tuple(ends[number] for number in self._channels(block, op, kind))
        if not flags:
            raise op.get("channel_ids").error("no channel")
        if not raises:
            block.planned.steps.append(Step("wait", flags=flags))
        elif kind == "port":
            self._ask(block, Step("signal", flags=flags))
        else:
            block.planned.steps.append(Step("signal", flags=flags, relaxed=name == "rlxsignal"))

    def _semaphores(self, block: _Block, op: Node, name: str) -> None:
        credit = block.gpu.credits
        for number in op.get("semaphore_ids").items():
            if not credit:
                raise number.error(f"rank {block.gpu.rank} lists no semaphores")
            which = number.number(0, len(credit) - 1)
            flag = Flag(block.gpu.rank, ("semaphore", which))
            if name == "sem_release":
                block.planned.steps.append(Step("signal", flags=(flag,)))
            elif credit[which]:
                credit[which] -= 1  # what it holds at the start needs no release
            else:
                block.planned.steps.append(Step("wait", flags=(flag,)))

    def _ask(self, block: _Block, *steps: Step) -> None:
        """Have the rank's copy engine do something, as a port channel's proxy does."""
        if block.engine is None:
            block.engine = PlanBlock(block.gpu.rank, "engine")
        bell = Flag(block.gpu.rank, ("doorbell", len(self.plan.blocks)))
        block.planned.steps.append(Step("signal", flags=(bell,)))
        block.engine.steps += [Step("wait", flags=(bell,)), *steps]

    def _move(self, block: _Block, op: Node, name: str) -> None:
        kind = op.get("channel_type", "none").choice(TYPES)
        through_port = kind == "port" and name in ("put", "pws", "pwsf", "ppkt", "rppkt")
        shape, into = SHAPES[name]
        if name == "ppkt" and through_port:
            shape = "p*"  # a proxy copies packets as they are
        sources = self._operands(block, op, "src_buff", shape, kind)
        targets = self._operands(block, op, "dst_buff", into, kind)
        op.get("reduce_op", "sum").choice(("sum", "min", "max"))
        if name in _WITH_UNUSED and op.get("dst_buff").items()[0].get("unused", default=False).truth():
            targets = targets[1:]  # see write_mscclpp
            if not targets:
                raise op.get("dst_buff").error("an unused target, and no other")
        if len({len(places) for places in (*sources, *targets)}) > 1:
            raise op.error("chunks of different sizes", "give src_buff and dst_buff the same size")
        if name in _PAIRS and len(sources) != len(targets):
            raise op.error(f"{len(sources)} sources and {len(targets)} targets", "give as many of both")
        in_switch = {
            "glres": SWITCH_READS | SWITCH_WRITES,
            "gstore": SWITCH_WRITES,
            "gstorepkt": SWITCH_WRITES,
        }
        pairs = zip(sources, targets, strict=True) if name in _PAIRS else [(None, None)]
        moves = []
        for source, target in pairs:
            read = [source] if source is not None else sources
            stored = [target] if target is not None else targets
            for one, other in zip(zip(*read, strict=True), zip(*stored, strict=True), strict=True):
                moves.append(Step("move", _flat(one), _flat(other), in_switch=in_switch.get(name, 0)))
                if len(set(moves[-1].targets)) < len(moves[-1].targets):
                    raise op.get("dst_buff").error("the same chunk twice")
        self.steps += sum(len(move.sources) + len(move.targets) for move in moves)
        self._count(op)
        flags: tuple[Flag, ...] = ()
        if name in ("pws", "pwsf") or (through_port and op.has("channel_ids")):
            channels = self._channels(block, op, kind)
            flags = tuple(block.gpu.peers.get(kind, [])[number] for number in channels)
        after = [Step("signal", flags=flags)] if name in ("pws", "pwsf") and flags else []
        if not through_port:
            block.planned.steps += [*moves, *after]
            return
        if name == "pwsf":
            done = Flag(block.gpu.rank, ("flushed", len(self.plan.blocks)))
            self._ask(block, *moves, *after, Step("signal", flags=(done,)))
            block.planned.steps.append(Step("wait", flags=(done,)))
        else:
            self._ask(block, *moves, *after)

    def _operands(
        self, block: _Block, op: Node, key: str, shape: str, kind: str
    ) -> list[list[tuple[Place, ...]]]:
        """For each operand of an operation its chunks and slices, each as one or more places."""
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
        self, block: _Block, op: Node, node: Node, letter: str, kind: str
    ) -> list[tuple[Place, ...]]:
        first = node.get("index").number(0, MOST_CHUNKS)
        size = node.get("size").number(1, MOST_CHUNKS)
        if letter in "rq":
            known = block.buffers.get(kind, [])
            number = node.get("buffer_id")
            if not known:
                raise number.error(
                    f"the thread block has no remote buffer over {kind} channels",
                    "list it in remote_buffer_refs",
                )
            owner, buffer = known[number.number(0, len(known) - 1)]
            owners = [owner]
        elif letter in "mn":
            switches = block.channels.get("switch", [])
            number = node.get("switch_channel_id")
            if not switches:
                raise number.error("the thread block has no switch channel", "list it in its channels")
            buffer, owners = block.gpu.switches[switches[number.number(0, len(switches) - 1)]]
        else:
            owners, buffer = [block.gpu.rank], node.get("type").choice(("i", "o", "s"))
        packets = letter in "pqn"
        if packets and buffer != "s":
            raise node.error("packets outside of scratch", "let the type of the buffer be 's'")
        bound = {"i": self.plan.inputs, "o": self.plan.outputs}.get(buffer) or max(
            self.gpus[owner].scratch for owner in owners
        )
        if first + size > bound:
            raise node.error(
                f"chunks {first} to {first + size - 1} of {buffer!r}, which has {bound}",
                "take chunks there are",
            )
        letter = "p" if packets else buffer
        return [
            tuple(self.plan.place(owner, letter, chunk, part) for owner in owners)
            for chunk in range(first, first + size)
            for part in self._parts(op)
        ]

    def _parts(self, op: Node) -> range:
        """The slices of each chunk that an operation of a thread block group works on."""
        if not op.has("tbg_info"):
            return range(self.plan.slices)
        group = op.get("tbg_info")
        size = group.get("tbg_size").number(1, _MOST_SLICES)
        mine = group.get("tb_id").number(0, size - 1)
        each = self.plan.slices // size  # a whole number, see _slices
        return range(mine * each, (mine + 1) * each)


def _flat(places: Iterable[tuple[Place, ...]]) -> tuple[Place, ...]:
    return tuple(place for group in places for place in group)
