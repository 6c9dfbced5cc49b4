"""Programs written as MSCCL++ execution plans."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.core.files import whole_file

from ._pairing import Pairing, pair
from ._program import SWITCH_READS, SWITCH_WRITES, Block, Chunk, Operation, Program, Semaphore

__all__ = ["write_mscclpp"]

_LETTERS = {"input": "i", "output": "o", "scratch": "s", "packets": "s"}
# What one thread block of MSCCL++ can hold, src/core/include/execution_common.hpp.
_MOST = {"operations": 64, "channels": 16}
_MOST_NOPS = 64

Json = dict[str, Any]


def write_mscclpp(program: Program, path: str | Path, collective: str | None = None) -> list[str]:
    """Write a program as an MSCCL++ execution plan.

    What MSCCL++ has no operation for is made of several: a sum that is stored only to
    other ranks is stored to scratch too (marked ``"unused"``, which :func:`read_mscclpp`
    leaves out again, and MSCCL++ does not look at); a copy to several other ranks is one
    for each.

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
        What was made of several operations, and what MSCCL++ itself would not take.

    Raises
    ------
    InputError
        The program uses something that the format has not; or the file cannot be written.
    """
    writer = _Writer(program)
    document = writer.document(collective or program.name.partition("/")[0])
    with whole_file(Path(path)) as file:
        file.write(json.dumps(document, indent=1).encode())
    return list(writer.notes)


class _Rank:
    """What is written of a rank."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.blocks: list[Json] = []
        self.remote: list[tuple[int, str]] = []
        self.switches: list[tuple[str, tuple[int, ...]]] = []
        self.semaphores = 0
        self.scratch: dict[tuple[str, int, int], int] = {}
        self.extra = 0

    def document(self, program: Program, channels: list[int]) -> Json:
        """The rank's element of ``gpus``."""
        listed: list[Json] = [{"channel_type": "memory", "connected_to": channels}] if channels else []
        for buffer, ranks in self.switches:
            groups = [{"size": len(ranks), "ranks": list(ranks)}]
            listed.append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": groups})
        return {
            "id": self.number,
            "input_chunks": program.input_chunks * program.lanes,
            "output_chunks": program.output_chunks * program.lanes,
            "scratch_chunks": len(self.scratch) + self.extra,
            "threadblocks": self.blocks,
            "channels": listed,
            "remote_buffers": [
                {"rank": rank, "type": buffer, "access_channel_types": ["memory"]}
                for rank, buffer in self.remote
            ],
            "semaphores": [{"init_value": 0}] * self.semaphores,
        }


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.notes: dict[str, None] = {}
        self.ranks = [_Rank(rank) for rank in range(program.ranks)]
        self.pairing: Pairing = pair(program)
        self.packets = False
        self._number_scratch()
        self._number_channels()

    def error(self, what: str, hint: str = "") -> InputError:
        return InputError(what, where=f"program {self.program.name!r}", hint=hint)

    def document(self, collective: str) -> Json:
        for number, block in enumerate(self.program.blocks):
            if block.unit != "sm":
                raise self.error("copy engines cannot be written", "use thread blocks")
            writer = _BlockWriter(self, number, block)
            self.ranks[block.rank].blocks.append(writer.document(len(self.ranks[block.rank].blocks)))
        if len(self.program.kernels) > 1:
            self.notes["its kernels are one kernel in the file"] = None
        if self.packets and self.program.protocol != "LL":
            self.notes[f"packets of {self.program.protocol} are packets of LL in the file"] = None
        return {
            "name": self.program.name.replace("/", "_"),
            "collective": collective.replace("_", ""),
            "protocol": "LL" if self.packets else "Simple",
            "inplace": False,
            "reuse_resources": False,
            "gpus": [rank.document(self.program, self.connected[rank.number]) for rank in self.ranks],
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": False,
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
        }

    def _number_scratch(self) -> None:
        """Number the chunks of scratch and packets that occur, on each rank or, for a switch, on all."""
        alike = False
        used: list[set[tuple[str, int, int]]] = [set() for _ in self.ranks]
        for block in self.program.blocks:
            for op in block.operations:
                alike = alike or op.in_switch > 0
                for chunk in (*op.sources, *op.targets):
                    if chunk.buffer in ("scratch", "packets"):
                        used[chunk.rank].add((chunk.buffer, chunk.index, chunk.lane))
        if alike:
            used = [set().union(*used)] * len(used)
        for rank, chunks in zip(self.ranks, used, strict=True):
            # Scratch before packets, as they lie in a rank's memory.
            order = sorted(chunks, key=lambda chunk: (chunk[0] == "packets", chunk))
            rank.scratch = {chunk: number for number, chunk in enumerate(order)}

    def _number_channels(self) -> None:
        """Give a channel to each semaphore and pair of blocks, or a semaphore where both are of a rank.

        The k-th channel of a rank to another is the other end of the k-th one back: one
        pair carries a semaphore each way.
        """
        blocks, used = self.program.blocks, dict[tuple[int, int], int]()
        sources: dict[Semaphore, list[int]] = {}
        for number, block in enumerate(blocks):
            for op in block.operations:
                if (
                    op.kind == "signal"
                    and op.semaphore
                    and number not in sources.setdefault(op.semaphore, [])
                ):
                    sources[op.semaphore].append(number)
        ways: dict[tuple[Semaphore, int, int], tuple[int, int, int]] = {}
        self.local: dict[tuple[Semaphore, int], int] = {}
        for semaphore, signallers in sources.items():
            waiters = self.pairing.waiters.get(semaphore, [])
            if not waiters:
                raise self.error(
                    f"no block waits for a semaphore of rank {semaphore.rank}", "leave its signals out"
                )
            if all(blocks[number].rank == semaphore.rank for number in signallers):
                for waiter in waiters:
                    self.local[semaphore, waiter] = self.ranks[semaphore.rank].semaphores
                    self.ranks[semaphore.rank].semaphores += 1
                continue
            for signaller in signallers:
                for waiter in waiters:
                    way = blocks[signaller].rank, semaphore.rank
                    ways[semaphore, signaller, waiter] = (*way, used.get(way, 0))
                    used[way] = used.get(way, 0) + 1
        self.connected: list[list[int]] = []
        first: dict[tuple[int, int], int] = {}
        for rank in range(self.program.ranks):
            peers: list[int] = []
            for peer in range(self.program.ranks):
                first[rank, peer] = len(peers)
                peers += [peer] * max(used.get((rank, peer), 0), used.get((peer, rank), 0))
            self.connected.append(peers)
        self.channel = {key: first[a, b] + k for key, (a, b, k) in ways.items()}  # at the end that signals
        self.end = {key: first[b, a] + k for key, (a, b, k) in ways.items()}  # at the end that waits


class _BlockWriter:
    """The operations of one thread block."""

    def __init__(self, writer: _Writer, number: int, block: Block) -> None:
        self.writer, self.number, self.block = writer, number, block
        self.rank = writer.ranks[block.rank]
        self.ops: list[Json] = []
        self.channels: list[int] = []
        self.switches: list[int] = []
        self.buffers: list[int] = []

    def document(self, number: int) -> Json:
        for place, op in enumerate(self.block.operations):
            if op.kind == "move":
                self._switch(op) if op.in_switch else self._move(op)
            elif op.kind == "signal":
                self._signal(op)
            elif op.kind == "wait":
                self._wait(op, self.writer.pairing.shares[self.number, place])
            elif op.kind == "fence":
                # Over memory channels a flush has nothing to wait for but the block's own stores.
                self.ops.append({"name": "flush", "channel_ids": [], "channel_type": "memory"})
            elif op.value <= _MOST_NOPS:
                self.ops += [{"name": "nop"}] * op.value
            else:
                raise self.writer.error(f"{op.value} instructions of computation", "an MSCCL++ plan has none")
        for what, count in (("operations", len(self.ops)), ("channels", len(self.channels))):
            if count > _MOST[what]:
                self.writer.notes[
                    f"MSCCL++ takes at most {_MOST[what]} {what} in a thread block, "
                    f"number {number} of rank {self.block.rank} has {count}"
                ] = None
        listed = [{"channel_type": "memory", "channel_ids": self.channels}] if self.channels else []
        if self.switches:
            listed.append({"channel_type": "switch", "channel_ids": self.switches})
        refs = [{"access_channel_type": "memory", "remote_buffer_ids": self.buffers}] if self.buffers else []
        return {"id": number, "ops": self.ops, "channels": listed, "remote_buffer_refs": refs}

    def _signal(self, op: Operation) -> None:
        semaphore = op.semaphore
        assert semaphore is not None  # noqa: S101 - a signal has one
        ids = []
        for waiter in self.writer.pairing.waiters[semaphore]:
            local = self.writer.local.get((semaphore, waiter))
            if local is not None:
                self.ops.append({"name": "sem_release", "semaphore_ids": [local] * op.value})
            else:
                ids += [_place(self.channels, self.writer.channel[semaphore, self.number, waiter])] * op.value
        if ids:
            name = "rlxsignal" if op.relaxed else "signal"
            self.ops.append({"name": name, "channel_ids": ids, "channel_type": "memory"})

    def _wait(self, op: Operation, shares: dict[int, int]) -> None:
        semaphore = op.semaphore
        assert semaphore is not None  # noqa: S101 - a wait has one
        local = self.writer.local.get((semaphore, self.number))
        if local is not None:
            self.ops.append({"name": "sem_acquire", "semaphore_ids": [local] * sum(shares.values())})
            return
        ids = []
        for source, share in shares.items():
            ids += [_place(self.channels, self.writer.end[semaphore, source, self.number])] * share
        self.ops.append({"name": "wait", "channel_ids": ids, "channel_type": "memory"})

    def _index(self, chunk: Chunk) -> int:
        if chunk.buffer in ("scratch", "packets"):
            return self.writer.ranks[chunk.rank].scratch[chunk.buffer, chunk.index, chunk.lane]
        return chunk.index * self.writer.program.lanes + chunk.lane

    def _operand(self, chunk: Chunk | Json) -> Json:
        """A chunk as an operand: by its buffer's type, or of another rank by that buffer's number."""
        if isinstance(chunk, dict):
            return chunk
        where = {"index": self._index(chunk), "size": 1}
        self.writer.packets = self.writer.packets or chunk.buffer == "packets"
        letter = _LETTERS[chunk.buffer]
        if chunk.rank == self.block.rank:
            return {"type": letter, **where}
        return {"buffer_id": _place(self.buffers, _place(self.rank.remote, (chunk.rank, letter))), **where}

    def _spare(self) -> Json:
        """A chunk of scratch that nothing else uses."""
        number = len(self.rank.scratch) + self.rank.extra
        self.rank.extra += 1
        return {"type": "s", "index": number, "size": 1}

    def _emit(self, name: str, sources: Iterable[Chunk | Json], targets: Iterable[Chunk | Json]) -> None:
        op: Json = {"name": name, "src_buff": [self._operand(c) for c in sources]}
        op["dst_buff"] = [self._operand(c) for c in targets]
        if any("buffer_id" in ref for ref in (*op["src_buff"], *op["dst_buff"])):
            op["channel_type"] = "memory"
        if name.startswith("r") and name != "rppkt":
            op["reduce_op"] = "sum"
        self.ops.append(op)

    def _switch(self, op: Operation) -> None:
        if op.in_switch == SWITCH_READS:
            raise self.writer.error(
                "a sum read through a switch and not stored through it cannot be written",
                "use switch_reduce_store",
            )
        if op.in_switch == SWITCH_READS | SWITCH_WRITES:
            sources, name = [self._behind(op.sources)], "glres"
        else:
            sources, name = [self._operand(op.sources[0])], "gstore"
            if "buffer_id" in sources[0]:
                raise self.writer.error(f"a switch cannot store {op.sources[0]} from here", "copy it first")
            name += "pkt" if op.sources[0].buffer == "packets" else ""
        self.ops.append(
            {
                "name": name,
                "src_buff": sources,
                "dst_buff": [self._behind(op.targets)],
                "channel_type": "switch",
            }
        )

    def _behind(self, chunks: tuple[Chunk, ...]) -> Json:
        """The same chunk of several ranks, behind a switch."""
        places = {(chunk.buffer, self._index(chunk)) for chunk in chunks}
        if len(places) > 1:
            raise self.writer.error("different chunks behind one switch", "take the same chunk of every rank")
        self.writer.packets = self.writer.packets or chunks[0].buffer == "packets"
        group = _LETTERS[chunks[0].buffer], tuple(chunk.rank for chunk in chunks)
        channel = _place(self.switches, _place(self.rank.switches, group))
        return {"switch_channel_id": channel, "index": self._index(chunks[0]), "size": 1}

    def _move(self, op: Operation) -> None:
        """Write a move as one operation where there is one, else as several."""
        me, before = self.block.rank, len(self.ops)
        mine: list[Chunk | Json] = [c for c in op.sources if c.rank == me and c.buffer != "packets"]
        remote: list[Chunk | Json] = [c for c in op.sources if c.rank != me and c.buffer != "packets"]
        packets: list[Chunk | Json] = [c for c in op.sources if c.rank == me and c.buffer == "packets"]
        if len(mine) + len(remote) + len(packets) < len(op.sources):
            raise self.writer.error(f"rank {me} reads packets of another rank", "have them put to it")
        if remote and packets:
            raise self.writer.error("a sum of packets and another rank's chunk", "take two moves")
        here: list[Chunk | Json] = [c for c in op.targets if c.rank == me and c.buffer != "packets"]
        there: list[Chunk | Json] = [c for c in op.targets if c.rank != me and c.buffer != "packets"]
        packed: list[Chunk | Json] = [c for c in op.targets if c.rank == me and c.buffer == "packets"]
        posted: list[Chunk | Json] = [c for c in op.targets if c.rank != me and c.buffer == "packets"]
        if packets and not mine and len(packets) == 1 and not here and not there and not packed:
            self._emit("rppkt", packets, posted)
            return
        if not mine and len(packets) + len(remote) == 1:
            # Loaded here first; from there it goes on.
            first = here.pop(0) if here else self._spare()
            self._emit("upkt" if packets else "get", packets or remote, [first])
            mine, packets, remote = [first], [], []
            if not (here or there or packed or posted):
                return
        elif not mine:
            first = self._spare()
            self._emit("upkt" if packets else "get", [(packets or remote).pop(0)], [first])
            mine = [first]
        elif len(mine) > 1 and (packets or remote):
            first = self._spare()
            self._emit("re", mine, [first])
            mine = [first]
        self._store(mine, remote, packets, here, there, packed, posted)
        if len(self.ops) - before > 1:
            self.writer.notes["some moves are made of several operations"] = None

    def _store(
        self,
        mine: list[Chunk | Json],
        remote: list[Chunk | Json],
        packets: list[Chunk | Json],
        here: list[Chunk | Json],
        there: list[Chunk | Json],
        packed: list[Chunk | Json],
        posted: list[Chunk | Json],
    ) -> None:
        """Add up chunks of this rank with remote ones or packets, and store the sum."""
        sources = [*mine, *remote, *packets]
        if len(sources) == 1 and not here:
            done = sources[0]  # it can go straight to where it is to be
        else:
            spare = None if here else self._spare()
            done = here.pop(0) if spare is None else spare
            if packets or ((posted or packed) and not remote and len(mine) == 1):
                rest, packed = packed[1:], packed[:1]
                name = ("rec" if packed else "re") + ("s" if posted else "") + "pkt"
                self._emit(name, sources, [done, *packed, *posted])
                packed, posted = rest, []
            elif len(sources) == 1 and not there:
                self._emit("copy", sources, [done])
            else:
                name = ("rre" if remote else "re") + ("s" if there else "")
                self._emit(name, sources, [done, *there])
                there = []
            if spare is not None and not (there or packed or posted):
                self.ops[-1]["dst_buff"][0] = {**spare, "unused": True}
        for target in here:
            self._emit("copy", [done], [target])
        for target in there:
            self._emit("put", [done], [target])
        for target in packed:
            self._emit("cpkt", [done], [target])
        for target in posted:
            self._emit("ppkt", [done], [target])


def _place(among: list[Any], what: Any) -> int:
    """Where something stands in a list; at its end where it was not there."""
    if what not in among:
        among.append(what)
    return among.index(what)
