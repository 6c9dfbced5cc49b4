"""The messages of a program of thread blocks: an algorithm of the library, of a file or of one's own.

What a block stores on another rank before it signals a semaphore there is one message, which arrives with
the signal. A wait receives the messages whose signals it needs. A signal without stores is a message of a
counter's eight bytes. A read of another rank's memory is a request and an answer. Copies and sums inside a
GPU take no time: they are the matter of a run by cache lines. Blocks of a rank run side by side, the
operations of a block one after another.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from astranb.collectives import Block, Collective, Lowered, Program, lower
from astranb.collectives.language import in_order
from astranb.collectives.lowering import pair
from astranb.collectives.proof import execute
from astranb.core.errors import InputError
from astranb.gpu import tables as t
from astranb.net import Shape
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .graph import Label, MessageGraph

__all__ = ["template_of_program"]

_COUNTER_BYTES: Final = 8  # a semaphore is a 64-bit counter (MSCCL++, memory_channel_device.hpp)
_REQUEST_BYTES: Final = 16  # of an RDMA read: its RETH (InfiniBand architecture specification 1, 9.3.1)


def template_of_program(collective: Collective, ranks: int, shape: Shape | None = None) -> MessageGraph:
    """Return the messages of a collective's program between its ranks.

    Parameters
    ----------
    collective : Collective
        With any algorithm that does not compute inside a switch.
    ranks : int
    shape : Shape, optional
        How they are joined, which an algorithm may take into account; by default all share a node.

    Returns
    -------
    MessageGraph
        As of :func:`template_of`; a chunk is a channel. Starts are not known: 0.

    Raises
    ------
    InputError
        A switch computes, a tile of a product is computed, or it is unknown which signals a wait needs.

    Examples
    --------
    >>> ring = template_of_program(Collective.of("all_gather", 4096, "allpairs"), 4)
    >>> ring.messages, ring.bytes
    (12, 12288)
    """
    program = collective.program(ranks, shape)
    lowered = lower(program, kind=collective.name, size=collective.size)
    return _Messages(program, lowered, collective).graph()


@dataclass
class _SentMessage:
    """A message that is under way: its send and its receive, as (rank, number among the rank's nodes)."""

    source: int
    target: int
    size: int
    channel: int
    sent: int
    received: int = -1


@dataclass
class _Block:
    """Position of a thread block: the node that what follows waits for, and its stores not yet signalled."""

    cursor: int
    stored: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class _Messages:
    """Makes the nodes of each rank, in an order in which the program can happen."""

    def __init__(self, program: Program, lowered: Lowered, collective: Collective) -> None:
        self.program, self.collective = program, collective
        self.where = f"program {program.name!r}"
        self.nodes: list[list[dict[str, int]]] = [[] for _ in range(program.ranks)]
        self.deps: list[list[list[int]]] = [[] for _ in range(program.ranks)]
        for rank in range(program.ranks):
            self._add(rank, [], kind=COMPUTE)
        self.messages: list[_SentMessage] = []
        self.signals: dict[tuple[int, Any], list[int | tuple[int, int]]] = defaultdict(list)
        self.taken: dict[tuple[int, int, Any], int] = defaultdict(int)
        self.bytes = self._sizes(lowered)
        self.shares = pair(program).shares

    def _sizes(self, lowered: Lowered) -> list[np.ndarray]:
        """Return the bytes that each operation of each block moves."""
        blocks = self.program.blocks
        ops = lowered.ops
        if len(ops) != sum(len(block.operations) for block in blocks):
            raise InputError("its operations are not one by one those of its tables", where=self.where)
        moved = np.maximum(0, (ops["lines"].astype(np.int64) - 1) * ops["payload"] + ops["last_bytes"]) * (
            ops["kind"] == t.MOVE
        )
        sizes: list[np.ndarray] = [np.zeros(0, np.int64)] * len(blocks)
        at = 0
        for number in in_order(self.program):
            count = len(blocks[number].operations)
            sizes[number] = moved[at : at + count]
            at += count
        return sizes

    def _add(self, rank: int, deps: list[int], **fields: int) -> int:
        self.nodes[rank].append(fields)
        self.deps[rank].append(list(dict.fromkeys(deps)))
        return len(self.nodes[rank]) - 1

    def graph(self) -> MessageGraph:
        """Make the graph."""
        blocks = self.program.blocks
        execution = execute(self.program)
        if execution.stuck:
            hint = "see astranb collective verify"
            raise InputError("it waits for signals that never come", where=self.where, hint=hint)
        states = [_Block(0) for _ in blocks]
        for number, place in execution.done:
            self._operation(number, place, blocks[number], states[number])
        for number, state in enumerate(states):
            for target, size in state.stored.items():
                if size:
                    self._send(blocks[number], state.cursor, target, size)
        return self._finished()

    def _operation(self, number: int, place: int, block: Block, state: _Block) -> None:
        op = block.operations[place]
        rank = block.rank
        if op.kind == "tile":
            what = "it computes tiles of a product: their messages are no collective's"
            raise InputError(what, where=self.where, hint="record a collective")
        if op.kind == "spend":
            state.cursor = self._add(rank, [state.cursor], kind=COMPUTE, duration_ps=op.value)
        elif op.kind == "move":
            if op.in_switch:
                what = "a switch computes: its messages have no peer"
                raise InputError(what, where=self.where, hint="take an algorithm without switch_ operations")
            size = int(self.bytes[number][place])
            for peer in dict.fromkeys(chunk.rank for chunk in op.sources if chunk.rank != rank):
                state.cursor = self._fetch(block, state.cursor, peer, size)
            for peer in dict.fromkeys(chunk.rank for chunk in op.targets if chunk.rank != rank):
                state.stored[peer] += size
        elif op.kind == "signal" and op.semaphore is not None:
            target = op.semaphore.rank
            for again in range(op.value):
                if target == rank:
                    self.signals[number, op.semaphore].append((rank, state.cursor))
                    continue
                size = state.stored.pop(target, 0) or (_COUNTER_BYTES if not again else 0)
                if size:
                    message = self._send(block, state.cursor, target, size)
                self.signals[number, op.semaphore].append(message)
        elif op.kind == "wait" and op.semaphore is not None:
            for source, count in self.shares.get((number, place), {}).items():
                for _ in range(count):
                    state.cursor = self._wait(number, source, op.semaphore, rank, state.cursor)

    def _send(self, block: Block, cursor: int, target: int, size: int) -> int:
        """Send a message; returns its number."""
        sent = self._add(
            block.rank,
            [cursor],
            kind=SEND,
            peer=target,
            bytes=size,
            chunk=block.channel,
            tag=len(self.messages),
        )
        self.messages.append(_SentMessage(block.rank, target, size, block.channel, sent))
        return len(self.messages) - 1

    def _receive(self, number: int, cursor: int) -> int:
        """Receive a message after a node of its target; returns the node."""
        message = self.messages[number]
        message.received = self._add(
            message.target, [cursor], kind=RECV, peer=message.source, bytes=message.size,
            chunk=message.channel, tag=number,
        )  # fmt: skip
        return message.received

    def _fetch(self, block: Block, cursor: int, peer: int, size: int) -> int:
        """Read from another rank's memory; returns the node at which the data is here."""
        asked = self._send(block, cursor, peer, _REQUEST_BYTES)
        came = self._receive(asked, 0)
        sent = self._add(
            peer, [came], kind=SEND, peer=block.rank, bytes=size, chunk=block.channel, tag=len(self.messages)
        )
        self.messages.append(_SentMessage(peer, block.rank, size, block.channel, sent))
        return self._receive(len(self.messages) - 1, cursor)

    def _wait(self, waiter: int, source: int, semaphore: Any, rank: int, cursor: int) -> int:
        """Wait for the next signal of a block; returns the node at which it has come."""
        at = self.taken[waiter, source, semaphore]
        self.taken[waiter, source, semaphore] += 1
        signal = self.signals[source, semaphore][at]
        if isinstance(signal, tuple):
            return self._add(rank, [cursor, signal[1]], kind=COMPUTE)
        if self.messages[signal].received < 0:
            return self._receive(signal, cursor)
        return self._add(rank, [cursor, self.messages[signal].received], kind=COMPUTE)

    def _finished(self) -> MessageGraph:
        """Receive what nobody waits for, end each rank, and put the nodes of all ranks into one list."""
        for number, message in enumerate(self.messages):
            if message.received < 0:
                self._receive(number, 0)
        rows: list[dict[str, int]] = []
        lists: list[list[int]] = []
        for rank, nodes in enumerate(self.nodes):
            used = {dep for deps in self.deps[rank] for dep in deps}
            last = [number for number in range(len(nodes)) if number not in used]
            self._add(rank, last, kind=COMPUTE)
            first = len(rows)
            rows += [{"rank": rank, "start_ps": 0, "peer": -1, "chunk": -1, **fields} for fields in nodes]
            lists += [[first + dep for dep in deps] for deps in self.deps[rank]]
        label = Label("", self.collective.name, self.collective.algorithm_name)
        return MessageGraph.of(self.program.ranks, rows, lists, (label,), title=self.collective.title)
