"""Several programs as one: a graph of collectives and of kernels with a known duration.

Each rank has nodes that wait for other nodes of the same rank. Every node has a *completion
block*, a thread block that ends when the node has ended. A node without a program spends its
duration in its completion block. The thread blocks of a node with a program are launched when the
nodes before it have ended, and its completion block when they have ended. Programs have buffers
and semaphores of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.collectives.language import source_of
from astranb.collectives.lowering import Lowered
from astranb.collectives.proof import Promise, contents, promise
from astranb.core.errors import InputError, WrongResult
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.gpu import tables as t

__all__ = ["Joined", "JoinedOperation", "Section", "join", "new_operations"]

_KERNEL_LINES: Final = 1 << 25
"""Lines of memory that kernels use one after another (4 GiB of lines of 128 B): more than any L2 holds."""


@dataclass(frozen=True)
class Section:
    """A program that runs on some of the ranks.

    Attributes
    ----------
    program : Lowered
    ranks : tuple of int
        For each rank of the program, the rank that it is.
    name : str
        Prefix of its phases' names.
    kind : str
        The collective whose result is checked at the end; empty for no check.
    root : int
        Its root, as an index into ``ranks``.
    hands_on : int
        Of a kernel that computes: lines of its memory before its output. What it reads lies where the kernel
        before it on its rank has stored; -1: a program with memory of its own.
    """

    program: Lowered
    ranks: tuple[int, ...]
    name: str
    kind: str = ""
    root: int = 0
    hands_on: int = -1


@dataclass(frozen=True)
class JoinedOperation:
    """An operation of one rank in the graph.

    Attributes
    ----------
    rank : int
    after : tuple of int
        Numbers of earlier nodes of the same rank that must have ended.
    spends_ps : int
        Its duration if it has no program.
    part : int
        Number of the program that it takes part in; -1 for none.
    name : str
        Name of its phase.
    row : int
        Identifier for the caller.
    urgent : bool
        Whether its thread blocks are given SMs before those of others, as of a stream of high priority.
    on_sms : bool
        Whether its duration is that of a computation on all SMs, which takes longer while others hold some.
    """

    rank: int
    after: tuple[int, ...] = ()
    spends_ps: int = 0
    part: int = -1
    name: str = "compute"
    row: int = -1
    urgent: bool = False
    on_sms: bool = False


@dataclass(frozen=True, kw_only=True)
class Joined(Lowered):
    """A program made of several.

    Attributes
    ----------
    nodes : tuple of JoinedOperation
    parts : tuple of Section
    completion : ndarray of int64, shape (nodes,)
        The completion block of each node: the thread block that ends with it.
    first : ndarray of int64, shape (nodes,)
        A thread block that begins with each node.
    of_part : tuple of slice
        The rows of each part's slices.
    """

    nodes: tuple[JoinedOperation, ...]
    parts: tuple[Section, ...]
    completion: np.ndarray
    first: np.ndarray
    of_part: tuple[slice, ...]

    def check(self, ops: Records, operands: Records, slices: Records) -> None:
        """Compare the results of the parts with what they promise.

        Parameters
        ----------
        ops, operands, slices : recarray
            The tables at the end of the run.

        Raises
        ------
        WrongResult
            The message names the part and the rank.
        """
        wanted = self.promise()
        wrong = wanted.slices[~wanted.kept(contents(self, ops, operands, slices))]
        if len(wrong):
            part = next(n for n, where in enumerate(self.of_part) if wrong[0] < where.stop)
            raise WrongResult(f"{self.parts[part].name}: wrong result on rank {slices[wrong[0]].gpu}")

    def promise(self) -> Promise:
        """Return what the parts promise for all slices."""
        slices, times, chunk = [np.zeros(0, np.int64)], [np.zeros((0, self.ranks), np.int32)], []
        for part, where in zip(self.parts, self.of_part, strict=True):
            if part.kind:
                one = promise(part.program, part.kind, part.root, part.program.slices)
                spread = np.zeros((len(one.slices), self.ranks), np.int32)
                spread[:, list(part.ranks)] = one.times
                slices.append(one.slices + where.start)
                times.append(spread)
                chunk.append(one.chunk)
        return Promise(np.concatenate(slices), np.concatenate(times), np.concatenate([slices[0], *chunk]))


def join(
    name: str, ranks: int, nodes: Sequence[JoinedOperation], parts: Sequence[Section], line_bytes: int
) -> Joined:
    """Build one program from a graph of nodes.

    Parameters
    ----------
    name : str
    ranks : int
        The number of ranks; each needs a node.
    nodes : sequence of JoinedOperation
    parts : sequence of Section
    line_bytes : int
        Bytes of a cache line.

    Raises
    ------
    InputError
        A node waits for itself, a later one or one of another rank, or a rank has no node.
    """
    _check(nodes, ranks)
    return _Joiner(ranks, nodes, parts).joined(name, line_bytes)


def _check(nodes: Sequence[JoinedOperation], ranks: int) -> None:
    for number, node in enumerate(nodes):
        if any(not 0 <= other < number or nodes[other].rank != node.rank for other in node.after):
            raise InputError(f"node {number} waits for a node that does not come before it on its rank")
    idle = set(range(ranks)) - {node.rank for node in nodes}
    if idle:
        raise InputError(f"rank {min(idle)} has nothing to do", hint="give it a computation of duration 0")


class _Joiner:
    """The tables under construction: blocks in the order of nodes, sorted by rank at the end."""

    def __init__(self, ranks: int, nodes: Sequence[JoinedOperation], parts: Sequence[Section]) -> None:
        self.ranks, self.nodes, self.parts = ranks, nodes, parts
        self.lines = np.zeros(ranks, np.int64)
        self.shared = self._memory_of_programs()
        self.used = np.zeros(ranks, np.int64)
        self.next = np.zeros(ranks, np.int64)  # line of the shared memory where the next kernel reads
        self.flags = 0
        self.phases: dict[str, int] = {}
        self.slices: list[np.ndarray] = []
        self.tiles: list[np.ndarray] = []
        self.operands: list[np.ndarray] = []
        self.semaphores: list[np.ndarray] = []
        self.blocks: list[np.ndarray] = []
        self.ops: list[np.ndarray] = []  # whose ``block`` counts over all blocks
        self.channels: list[np.ndarray] = []
        self.of_part: list[list[np.ndarray]] = []  # blocks of each rank of each part
        self.count = 0  # blocks so far

    def joined(self, name: str, line_bytes: int) -> Joined:
        for part in self.parts:
            self._add_part(part)
        completion = self._add_completions()
        blocks, ops = _all(self.blocks, t.BLOCK), self._connected(completion)
        blocks["after"] += np.bincount(ops["value"][ops["kind"] == t.RELEASE], minlength=len(blocks))
        order = self._order(blocks)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        released = ops["kind"] == t.RELEASE
        ops["value"][released] = place[ops["value"][released]]
        ops["block"] = place[ops["block"]]
        # Of a block its own operations come first, then those that release others.
        ops = ops[np.lexsort((released, ops["block"]))].view(np.recarray)
        blocks = blocks[order].view(np.recarray)
        counts = np.bincount(ops["block"], minlength=len(blocks))
        blocks["last_op"] = np.cumsum(counts)
        blocks["first_op"] = blocks["last_op"] - counts
        ops["number"] = np.arange(len(ops)) - blocks["first_op"][ops["block"]]
        operands = _in_order(ops, _all(self.operands, t.OPERAND))
        phases = allocate(len(self.phases), t.PHASE)
        phases["left"] = np.bincount(ops["phase"], minlength=len(phases))
        phases["started_ps"] = phases["ended_ps"] = -1
        first = [
            workers[0] if len(workers := self._workers(node)) else end
            for node, end in zip(self.nodes, completion.tolist(), strict=True)
        ]
        ends = np.cumsum([len(part.program.slices) for part in self.parts]).tolist()
        return Joined(
            name=name,
            ranks=self.ranks,
            channels=int(max(map(np.max, self.channels))) + 1,
            line_bytes=line_bytes,
            phase_names=tuple(self.phases),
            blocks=blocks,
            ops=ops,
            operands=operands,
            slices=_all(self.slices, t.SLICE),
            tiles=_all(self.tiles, t.TILE_WORK),
            semaphores=_all(self.semaphores, t.SEMAPHORE),
            phases=phases,
            block_channel=np.concatenate(self.channels)[order],
            lines=self.lines,
            flags=self.flags,
            source=source_of([None], np.zeros(len(ops), np.int64)),
            nodes=tuple(self.nodes),
            parts=tuple(self.parts),
            completion=place[completion],
            first=place[first],
            of_part=tuple(slice(e - len(p.program.slices), e) for e, p in zip(ends, self.parts, strict=True)),
        )

    def _phase(self, name: str) -> int:
        return self.phases.setdefault(name, len(self.phases))

    def _add_part(self, part: Section) -> None:
        """Add the tables of a program, with its ranks, memory, operands and semaphores renumbered."""
        p, gpu = part.program, np.array(part.ranks)
        first_slice = sum(map(len, self.slices))
        first_operand = sum(map(len, self.operands))
        first_semaphore = sum(map(len, self.semaphores))
        base = self._place(part)
        slices, operands, semaphores, ops = (
            table.copy() for table in (p.slices, p.operands, p.semaphores, p.ops)
        )
        for table in (slices, operands, semaphores):
            table["line"] = np.where(table["line"] < 0, table["line"], table["line"] + base[table["gpu"]])
            table["gpu"] = gpu[table["gpu"]]
        for table in (slices, operands):
            table["flag"][table["flag"] >= 0] += self.flags
        operands["slice"][operands["slice"] >= 0] += first_slice
        ops["first_source"] += first_operand
        ops["first_target"] += first_operand
        ops["semaphore"][ops["semaphore"] >= 0] += first_semaphore
        ops["value"][ops["kind"] == t.TILE] += sum(map(len, self.tiles))
        self.tiles.append(p.tiles)
        names = [self._phase(f"{part.name}: {phase}" if phase else part.name) for phase in p.phase_names]
        ops["phase"] = np.array(names or [self._phase(part.name)])[ops["phase"]]
        self.slices.append(slices)
        self.operands.append(operands)
        self.semaphores.append(semaphores)
        blocks = p.blocks.copy()
        self.of_part.append([self.count + np.flatnonzero(blocks["gpu"] == rank) for rank in range(len(gpu))])
        blocks["gpu"] = gpu[blocks["gpu"]]
        ops["block"] += self.count
        self.blocks.append(blocks)
        self.ops.append(ops)
        self.channels.append(p.block_channel)
        self.count += len(blocks)
        self.flags += p.flags

    def _memory_of_programs(self) -> np.ndarray:
        """Lines of each rank that only one program uses: those behind them are for all kernels."""
        lines = np.zeros(self.ranks, np.int64)
        for part in self.parts:
            if part.hands_on < 0:
                lines[list(part.ranks)] += part.program.lines
        return lines

    def _place(self, part: Section) -> np.ndarray:
        """Return the first line of a program's memory on each of its ranks."""
        gpu, needed = np.array(part.ranks), part.program.lines
        if part.hands_on < 0:
            base: np.ndarray = self.used[gpu].copy()
            self.used[gpu] += needed
        else:
            # Where the memory of kernels has an end, they begin again at its beginning.
            begin = np.where(self.next[gpu] + needed > _KERNEL_LINES, 0, self.next[gpu])
            base = self.shared[gpu] + begin
            self.next[gpu] = begin + part.hands_on
        self.lines[gpu] = np.maximum(self.lines[gpu], base + needed)
        return base

    def _add_completions(self) -> np.ndarray:
        """Add the completion block of each node; returns their numbers."""
        nodes, numbers = self.nodes, self.count + np.arange(len(self.nodes))
        blocks = allocate(len(nodes), t.BLOCK)
        blocks["gpu"] = [node.rank for node in nodes]
        own = np.array([node.part < 0 for node in nodes], bool)
        ops = new_operations(t.SPEND, int(own.sum()))
        ops["block"] = numbers[own]
        ops["left"] = [node.spends_ps for node in nodes if node.part < 0]
        ops["value"] = [node.on_sms for node in nodes if node.part < 0]
        ops["phase"] = [self._phase(node.name) for node in nodes if node.part < 0]
        self.blocks.append(blocks)
        self.ops.append(ops)
        self.channels.append(np.zeros(len(nodes), np.int64))
        self.count += len(nodes)
        return numbers

    def _workers(self, node: JoinedOperation) -> np.ndarray:
        """The thread blocks of a node's program on its rank."""
        if node.part < 0:
            return np.zeros(0, np.int64)
        found: np.ndarray = self.of_part[node.part][self.parts[node.part].ranks.index(node.rank)]
        return found

    def _connected(self, completion: np.ndarray) -> Records:
        """Return all operations, with those that release: of workers, and of what completes a node.

        A worker releases its node's completion block, and this the workers of the nodes after it, each once
        its stores are acknowledged.
        """
        ops = _all(self.ops, t.OP)
        last_phase = np.full(self.count, -1, np.int64)
        last_phase[ops["block"]] = ops["phase"]
        blocks, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        after: list[list[np.ndarray]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            workers = self._workers(node)
            own = np.concatenate([workers, completion[number : number + 1]])
            without = own[last_phase[own] < 0]
            if len(without):
                last_phase[without] = self._phase(node.name)
            blocks.append(workers)
            targets.append(np.full(len(workers), completion[number]))
            for other in node.after:
                after[other].append(workers if len(workers) else completion[number : number + 1])
        for number, listed in enumerate(after):
            if listed:
                targets.append(np.concatenate(listed))
                blocks.append(np.full(len(targets[-1]), completion[number]))
        release = new_operations(t.RELEASE, sum(map(len, targets)))
        release["block"], release["value"] = np.concatenate(blocks), np.concatenate(targets)
        release["fence"] = t.ACKNOWLEDGED
        release["phase"] = last_phase[release["block"]]
        return _all([ops, release], t.OP)

    def _order(self, blocks: Records) -> np.ndarray:
        """Return the order of blocks: by rank, engines last, then by node."""
        of_node = np.zeros(self.count, np.int64)
        first = self.count - len(self.nodes)
        of_node[first:] = np.arange(len(self.nodes))
        for number, node in enumerate(self.nodes):
            workers = self._workers(node)
            of_node[workers] = number
            blocks["urgent"][workers] = node.urgent
        # A completion block follows the blocks that it waits for: SMs accept blocks in this order.
        completes = np.arange(self.count) >= first
        return np.lexsort((completes, blocks["kernel"], of_node, blocks["engine"], blocks["gpu"]))


def new_operations(kind: int, count: int) -> Records:
    """Return operations of a kind that have not begun and move nothing.

    Parameters
    ----------
    kind : int
        ``MOVE`` to ``TILE`` of :mod:`astranb.gpu.tables`.
    count : int

    Examples
    --------
    >>> new_operations(t.SPEND, 2)["started_ps"].tolist()
    [-1, -1]
    """
    ops = allocate(count, t.OP)
    ops["kind"], ops["semaphore"] = kind, -1
    ops["started_ps"] = ops["issued_ps"] = ops["ended_ps"] = -1
    return ops


def _in_order(ops: Records, operands: Records) -> Records:
    """Sort operands by operation, the order in which routes are looked up."""
    counts = (ops["sources"] + ops["targets"] + (ops["semaphore"] >= 0)).astype(np.int64)
    ends = np.cumsum(counts)
    row = np.arange(counts.sum()) + np.repeat(ops["first_source"] - (ends - counts), counts)
    ops["first_source"] = ends - counts
    ops["first_target"] = ops["first_source"] + ops["sources"]
    found: Records = operands[row]
    return found


def _all(tables: list[np.ndarray], dtype: np.dtype) -> Records:
    rows = allocate(sum(map(len, tables)), dtype)
    if tables:
        rows[:] = np.concatenate(tables)
    return rows
