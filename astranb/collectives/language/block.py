"""A thread block of a program: the list of its operations."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, Final, Protocol

import numpy as np

from astranb.core.errors import InputError

from .operation import (
    BUFFER_NUMBERS,
    KIND_NUMBERS,
    OPERATION_COLUMNS,
    SWITCH_READS,
    SWITCH_WRITES,
    Chunk,
    Chunks,
    Operation,
    OperationColumns,
    Origin,
    Semaphore,
    TileShape,
    pack_flags,
    pack_place,
    to_columns,
    to_objects,
    unpack_flags,
)
from .source import SourceLine, line_of_caller
from .work_queue import WorkQueue

__all__ = ["Block"]

_STEP: Final = 64  # numbers of two bytes in a line, that a step of a product takes of each row
_ROW: Final = Struct(f"{OPERATION_COLUMNS}q").pack  # three times as fast as to extend an array by a tuple
_CHUNK: Final = Struct("2q").pack


class _BlockProgram(Protocol):
    """Members of a program that a thread block needs."""

    name: str
    lines: dict[SourceLine | None, int]
    semaphores: list[Semaphore]
    tiles: dict[TileShape, int]
    at: int

    @property
    def nics_move(self) -> bool: ...

    @property
    def per_node(self) -> int: ...

    def phase_number(self, name: str) -> int: ...

    def number_of(self, line: SourceLine | None) -> int: ...

    def count(self, operations: int = 1) -> None: ...

    def fix(self, chunk: Chunk, size: int) -> None: ...

    shared: dict[Semaphore, Block]
    blocks: list[Block]

    def nic(self, rank: int, channel: int) -> Block: ...

    def semaphore(self, rank: int) -> Semaphore: ...

    def send_buffer(self, rank: int, like: Chunk | Chunks) -> Chunk | Chunks: ...


class Block:
    """One thread block of one rank: a list of operations, executed in order.

    A move starts when the one before it has issued all its stores. Where it reads or
    writes what an earlier move of this block stored, and before every signal, the block
    first waits until those stores are acknowledged (a fence); the lowering adds these fences.

    Operations are kept as integers, because a program of a thousand ranks has millions of them.
    Whoever asks for :attr:`operations` gets a list of objects, which the block uses from then on.

    Attributes
    ----------
    unit : str
        ``"sm"``, ``"engine"`` for the list of descriptors of a copy engine, or ``"nic"`` for the work
        requests of a NIC.
    kernel : int
        Number of the kernel it belongs to; kernels are launched in this order.
    warp_count : int
        Warps that it has; 0: as many as the GPU's preset says.
    thread_block : Block, optional
        The thread block of which this is a role: some of its warps, with operations of their own.
    roles : list of Block
        Its roles; a thread block that has some has no operations of its own.
    lines_ahead, per_sm : int
        Lines that its warps keep under way, and how many such blocks an SM takes; 0: as the preset says.
    origin : Origin, optional
        Where the operations that are added next stand in a file.
    added : bool
        Whether it is not in the file: it copies what stays where it is in a plan in place.
    """

    __slots__ = (
        "_barriers", "_chunks", "_near", "_nic", "_operations", "_rows", "_taken", "added", "channel",
        "current", "kernel", "lines_ahead", "origin", "per_sm", "program", "rank", "roles", "thread_block",
        "unit", "waited", "warp_count",
    )  # fmt: skip

    def __init__(
        self,
        program: _BlockProgram,
        rank: int,
        channel: int,
        unit: str = "sm",
        kernel: int = 0,
        warps: int = 0,
    ) -> None:
        self.program, self.rank, self.channel, self.unit, self.kernel = program, rank, channel, unit, kernel
        self.warp_count = warps
        self.thread_block: Block | None = None
        self.roles: list[Block] = []
        self._taken: list[range] = []  # warps of its roles
        self._barriers: dict[frozenset[int], Semaphore] = {}
        self.waited: dict[Semaphore, int] = {}
        self.current = self.lines_ahead = self.per_sm = 0
        self.origin: Origin | None = None
        self.added = False
        self._rows, self._chunks = array("q"), array("q")
        self._operations: list[Operation] | None = None
        self._nic: WorkQueue | None = None
        self._near: range | None = None  # ranks that it reaches without a NIC, if there are others
        if unit == "sm" and program.nics_move:
            first = rank - rank % program.per_node
            self._near = range(first, first + program.per_node)

    @property
    def operations(self) -> list[Operation]:
        """The operations as objects; a change of the list changes the block."""
        if self._operations is None:
            columns = OperationColumns(self._rows, self._chunks)
            self._operations = to_objects(columns, list(self.program.lines), self.program.semaphores)
            self._rows, self._chunks = array("q"), array("q")
        return self._operations

    @operations.setter
    def operations(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._rows, self._chunks = array("q"), array("q")

    @property
    def columns(self) -> OperationColumns:
        """The operations as integers."""
        if self._operations is None:
            return OperationColumns(self._rows, self._chunks)
        return to_columns(self._operations, self.program.number_of)

    def note_line(self) -> bool:
        """Look up the line that writes the operations that follow, of any block, once for all of them.

        Returns whether that was not known yet: whoever gets that calls :meth:`forget_line` behind them.
        """
        if self.program.at >= 0:
            return False
        self.program.at = self.program.number_of(line_of_caller())
        return True

    def forget_line(self) -> None:
        """Make each operation look for its line again."""
        self.program.at = -1

    def phase(self, name: str) -> None:
        """Begin a phase of the collective: the following operations belong to it."""
        self.current = self.program.phase_number(name)

    def copy(self, source: Chunk | Chunks, *targets: Chunk | Chunks) -> Chunk | Chunks:
        """Load a chunk line by line and store it to one or several chunks, local or remote.

        Here and in all other moves, slices of buffers stand for one operation for each of their chunks.
        Returns the first target, as :meth:`reduce`, :meth:`put` and :meth:`get` do.
        """
        self.move((source,), targets)
        return targets[0]

    def put(self, source: Chunk | Chunks, target: Chunk | Chunks) -> Chunk | Chunks:
        """Copy a chunk of this rank to another rank."""
        self._local(source, "put from")
        self.move((source,), (target,))
        return target

    def get(self, source: Chunk | Chunks, target: Chunk | Chunks) -> Chunk | Chunks:
        """Copy a chunk of another rank to this rank."""
        self._local(target, "get to")
        self.move((source,), (target,))
        return target

    def post(self, source: Chunk | Chunks, target: Chunk | Chunks) -> None:
        """Write a chunk of this rank to another node by the NIC; within the node, as :meth:`put`.

        A put stores to a send buffer, from which the NIC reads; this saves that copy. The chunk must
        not change until the other rank has signalled that the data has come.
        """
        self._local(source, "post")
        if self._near is None or target.rank in self._near:
            return self.move((source,), (target,))
        return self._work_queue().add(source, target)

    def post_by(self, requests: Block) -> None:
        """Post all that this block will have for other nodes to a NIC of this node, by its list."""
        self._nic = WorkQueue(self, requests, self.program)

    def reduce(self, sources: Iterable[Chunk | Chunks], *targets: Chunk | Chunks) -> Chunk | Chunks:
        """Load the same line of several chunks, add the lines, and store the sum; return the first target."""
        if isinstance(sources, Chunk | Chunks):
            hint = "write reduce([chunk, chunk], target)"
            raise InputError(f"one chunk to add: {sources}", where=self._where, hint=hint)
        self.move(tuple(sources), targets)
        return targets[0]

    def switch_reduce(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Load the sum of the same line of every rank from a switch (``multimem.ld_reduce``)."""
        self.move(tuple(sources), targets, SWITCH_READS)

    def switch_store(self, source: Chunk, *targets: Chunk) -> None:
        """Store once; a switch forwards the line to every target (``multimem.st``)."""
        self.move((source,), targets, SWITCH_WRITES)

    def switch_reduce_store(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Reduce the sources in the switch, which forwards the sum to every target."""
        self.move(tuple(sources), targets, SWITCH_READS | SWITCH_WRITES)

    def move(
        self, sources: Sequence[Chunk | Chunks], targets: Sequence[Chunk | Chunks], in_switch: int = 0
    ) -> None:
        """Load the lines of one or several chunks, add them, and store the sum.

        ``in_switch`` says whether a switch adds (``SWITCH_READS``) or forwards (``SWITCH_WRITES``) them.
        """
        if not sources or not targets:
            raise InputError("a move needs at least one source and one target", where=self._where)
        if len(targets) > 1 and len(set(targets)) < len(targets):
            raise InputError("a move cannot store twice to the same chunk", where=self._where)
        if self._near is not None and not in_switch:
            far = [target for target in targets if target.rank not in self._near]
            if far:
                return self._work_queue().move(sources, targets, far)
        chunks: list[Any] = [*sources, *targets]
        for chunk in chunks:
            if not isinstance(chunk, Chunk):
                return self._add_many(chunks, len(sources), in_switch << 1)
        self._add("move", len(sources), len(targets), chunks, flags=in_switch << 1)
        return None

    def signal(self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False, behind: int = 0) -> None:
        """Add to a semaphore once everything that this block has stored is acknowledged.

        Parameters
        ----------
        semaphore : Semaphore
        value : int
        relaxed : bool
            Do not wait for the earlier stores: correct only where they need no order.
        behind : int
            Post the signal behind the stores of so many last moves of this block, and go on: it leaves when
            these stores are acknowledged, and those of the signals that were posted before it.
        """
        self._own(semaphore)
        if value < 1:
            raise InputError(f"a signal must add at least 1, got {value}", where=self._where)
        if behind and (relaxed or behind < 0 or self._last_moves(behind) < behind):
            what = f"a signal cannot be behind {behind} moves"
            hint = "give a number of moves that this block has made, or relaxed"
            raise InputError(what + (" and relaxed" if relaxed else ""), where=self._where, hint=hint)
        if self._near is not None and semaphore.rank not in self._near:
            noted = self.note_line()
            try:
                return self._work_queue().signal(semaphore, value, behind)
            finally:
                if noted:
                    self.forget_line()
        if self.unit == "nic":  # what it writes arrives in order
            behind = 0
        flags = pack_flags(int(relaxed), 0, behind) if relaxed or behind else 0
        self._add("signal", semaphore=semaphore, value=value, flags=flags)
        return None

    def put_signal(
        self, source: Chunk | Chunks, target: Chunk | Chunks, semaphore: Semaphore, value: int = 1
    ) -> None:
        """Copy a chunk of this rank to another one, then raise a semaphore there; the block goes on.

        The semaphore rises when these stores are acknowledged, and those of every ``put_signal`` of this
        block before it. It says nothing of other moves before it: those need a signal that is not posted,
        or a fence.

        Parameters
        ----------
        source, target : chunk, or slice of a buffer
        semaphore : Semaphore
            Of the rank of the target.
        value : int

        Raises
        ------
        InputError
            The source is of another rank, or the semaphore is not of the target's rank.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> p = Program("pair", ranks=2, channels=1, input_chunks=2, output_chunks=2)
        >>> (me, you), block = p.everyone, p.block(0)
        >>> arrived = you.semaphore()
        >>> for k in range(2):
        ...     block.put_signal(me.input[k], you.output[k], arrived)
        >>> [op.kind for op in block.operations]
        ['move', 'signal', 'move', 'signal']
        """
        if semaphore.rank != target.rank:
            raise InputError(
                f"put_signal to rank {target.rank} with a semaphore of rank {semaphore.rank}",
                where=self._where,
                hint="use a semaphore of the rank that gets the data",
            )
        before = self.count
        self.put(source, target)
        self.signal(semaphore, value, behind=self.moves_since(before))

    def wait(self, semaphore: Semaphore, value: int = 1) -> None:
        """Wait until a semaphore of this rank has risen by ``value`` since this block's last wait."""
        self._own(semaphore)
        if semaphore.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot wait for a semaphore of rank {semaphore.rank}",
                where=f"program {self.program.name!r}",
                hint="use a semaphore of the rank that waits",
            )
        if value < 1:
            raise InputError(f"a wait must be for a rise of at least 1, got {value}", where=self._where)
        reached = self.waited.get(semaphore, 0) + value
        self.waited[semaphore] = reached
        self._add("wait", semaphore=semaphore, value=reached)

    def fence(self) -> None:
        """Wait until everything that this block has stored is acknowledged (``__threadfence_system``)."""
        self._add("fence")

    def waitcnt(self, most: int) -> None:
        """Wait until only the last ``most`` moves of this block have stores that are not acknowledged.

        ``signal(relaxed=True)`` may then announce what those before them stored, while later stores are
        under way (AMD's ``s_waitcnt vmcnt(n)``, CUDA's ``cp.async.wait_group n``). A NIC's are not counted.
        """
        if most < 0:
            raise InputError(f"waitcnt() needs a number of moves from 0, got {most}", where=self._where)
        self._add("waitcnt", value=most)

    def product(self, rows: int, columns: int, k: int, of: tuple[Chunk, Chunk], to: Chunk) -> None:
        """Compute a tile of a product of matrices with the SM's matrix units, and store it.

        Numbers have two bytes. An input chunk that it stores is not there before.

        Parameters
        ----------
        rows, columns, k : int
            A tile that the GPU's library has; ``k`` is a multiple of 64.
        of : tuple of (Chunk, Chunk)
            Rows of the first matrix and columns of the second one: :attr:`Rank.panels`, or what has come.
        to : Chunk
            An input chunk of this rank (its contribution), or one of its panels or of scratch.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> program = Program("reduce_scatter", ranks=2, channels=1, input_chunks=2, output_chunks=1)
        >>> me, you = program.everyone
        >>> block = me.block()
        >>> block.product(128, 256, 1024, (me.panels[0], me.panels[1]), me.input[1])
        >>> _ = block.put(me.input[1], you.scratch[0])
        >>> [op.kind for op in block.operations]
        ['tile', 'move', 'move']
        """
        if self.thread_block is not None:
            hint = "let a whole thread block compute it"
            raise InputError("a role cannot compute a product", where=self._where, hint=hint)
        tile = TileShape(rows, columns, k)
        if min(tile) < 1 or k % _STEP:
            hint = f"take positive numbers, and a multiple of {_STEP} for k"
            raise InputError(f"cannot compute a product of {tile}", where=self._where, hint=hint)
        for chunk in (*of, to):
            self._local(chunk, "compute with")
        if to.buffer == "output":
            hint = "store an input chunk, and copy it"
            raise InputError(f"a product cannot store {to}", where=self._where, hint=hint)
        for chunk, size in zip((*of, to), (*tile.operand_bytes, tile.result_bytes), strict=True):
            self.program.fix(chunk, size)
        shapes = self.program.tiles
        self._add("tile", 2, 0, of, value=shapes.setdefault(tile, len(shapes)))
        self._add("move", 0, 1, (to,))

    def compute(self, instructions: int = 1) -> None:
        """Issue instructions on every warp that access no memory (1: a ``__syncthreads``)."""
        if instructions < 1:
            raise InputError(
                f"compute() needs at least one instruction, got {instructions}", where=self._where
            )
        self._add("compute", value=instructions)

    def spend(self, time_ps: int) -> None:
        """Occupy the block for a time of up to 2 ms: a stand-in for what is not simulated."""
        self._add("spend", value=time_ps)

    def warps(self, first: int, last: int) -> Block:
        """Assign some warps of this thread block a role: operations of their own, beside those of the others.

        All roles are on one SM, where they take the place of their thread block together. Nothing orders them
        but :meth:`sync` and semaphores, of which :meth:`semaphore` makes cheap ones.

        Parameters
        ----------
        first, last : int
            The first warp, and the one after the last.

        Returns
        -------
        Block
            The role, to which operations are added.

        Raises
        ------
        InputError
            The thread block has no such warps, they have a role, or it has operations of its own.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> p = Program("pair", ranks=2, channels=1, input_chunks=1, output_chunks=1)
        >>> (me, you), block = p.everyone, p.block(0, warps=16)
        >>> mover, poster = block.warps(0, 12), block.warps(12, 16)
        >>> _ = mover.put(me.input[0], you.output[0])
        >>> mover.fence()
        >>> block.sync(mover, poster)
        >>> poster.signal(you.semaphore())
        >>> [op.kind for op in poster.operations]
        ['compute', 'signal', 'wait', 'signal']
        """
        what = f"warps {first} to {last - 1} of a block of {self.warp_count or 'as many as the preset says'}"
        if self.thread_block is not None or self.unit != "sm":
            raise InputError("only a thread block has roles", where=self._where, hint="use its own roles")
        if not self.warp_count:
            raise InputError(what, where=self._where, hint="say how many it has: me.block(warps=16)")
        if not 0 <= first < last <= self.warp_count:
            hint = f"give a first warp from 0, and an end up to {self.warp_count}"
            raise InputError(what, where=self._where, hint=hint)
        for other in self._taken:
            if first < other.stop and other.start < last:
                used = f"warps {other.start} to {other.stop - 1} have another role"
                raise InputError(f"{what}: {used}", where=self._where, hint="give each warp one role")
        if self.count:
            hint = "let a role do them"
            raise InputError(
                "a block with roles cannot have operations of its own", where=self._where, hint=hint
            )
        role = Block(self.program, self.rank, self.channel, kernel=self.kernel, warps=last - first)
        role.thread_block, role.current = self, self.current
        blocks, before = self.program.blocks, self.roles[-1] if self.roles else self
        place = next(k for k in range(len(blocks) - 1, -1, -1) if blocks[k] is before)
        blocks[place : place + 1] = [*self.roles[-1:], role]  # the first one takes the place of the block
        self._taken.append(range(first, last))
        self.roles.append(role)
        return role

    def semaphore(self) -> Semaphore:
        """Add a semaphore in the shared memory of this thread block, for its roles alone: an mbarrier.

        A role that waits for it does not poll, and goes on some 20 clocks after it has risen.
        """
        if self.thread_block is not None:
            return self.thread_block.semaphore()
        semaphore = self.program.semaphore(self.rank)
        self.program.shared[semaphore] = self
        return semaphore

    def sync(self, *roles: Block) -> None:
        """Synchronize roles of this thread block (a named barrier, ``bar.sync``).

        Each warp issues an instruction, and goes on some 20 clocks after the last one. What a role has read
        before is read then. What it has stored is seen by others after a fence before, or a semaphore that
        its ``put_signal`` raises: a barrier waits for no acknowledgement.

        Raises
        ------
        InputError
            Fewer than two roles, or one of another thread block.
        """
        if len({id(role) for role in roles}) < max(2, len(roles)) or any(
            role.thread_block is not self for role in roles
        ):
            hint = "name two or more of its roles, each once: block.sync(mover, poster)"
            raise InputError(
                "a barrier needs two or more roles of one thread block", where=self._where, hint=hint
            )
        key = frozenset(id(role) for role in roles)
        if key not in self._barriers:
            self._barriers[key] = self.semaphore()
        for role in roles:
            role.compute()
            role.signal(self._barriers[key], relaxed=True)
            role.wait(self._barriers[key], len(roles))

    def moves_since(self, count: int) -> int:
        """Return how many moves have been added since it had so many operations."""
        if self._operations is not None:
            return sum(op.kind == "move" for op in self._operations[count:])
        return self._rows[count * OPERATION_COLUMNS :: OPERATION_COLUMNS].count(KIND_NUMBERS["move"])

    def _last_moves(self, most: int) -> int:
        """Return how many moves it has, up to a number."""
        found, at = 0, self.count
        while at > 0 and found < most:
            at -= 1
            found = (
                self.moves_since(at)
                if self._operations is not None
                else found + (self._rows[at * OPERATION_COLUMNS] == KIND_NUMBERS["move"])
            )
        return found

    def add_frees(self, frees: Sequence[tuple[int, int, SourceLine | None, Semaphore]]) -> None:
        """Add relaxed signals between operations: before which one, in which phase, and for which line."""
        relaxed = pack_flags(1, 0, 0)
        if self._operations is not None:
            for at, phase, line, semaphore in sorted(frees, key=lambda free: -free[0]):
                signal = Operation("signal", phase, semaphore=semaphore, value=1, relaxed=True, line=line)
                self._operations.insert(at, signal)
            return
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, OPERATION_COLUMNS)
        number, kind = self.program.number_of, KIND_NUMBERS["signal"]
        added = [(kind, phase, 0, 0, of.number, 1, relaxed, number(line)) for _, phase, line, of in frees]
        rows = np.insert(rows, [free[0] for free in frees], added, axis=0)
        self.program.count(len(frees))
        self._rows = array("q", rows.tobytes())

    def rename_semaphores(self, new: Mapping[Semaphore, Semaphore], numbers: np.ndarray) -> None:
        """Name other semaphores instead of those that the operations name; ``numbers`` has them by number."""
        self.waited = {new[old]: value for old, value in self.waited.items()}
        if self._operations is not None:
            self._operations = [
                replace(op, semaphore=new[op.semaphore]) if op.semaphore is not None else op
                for op in self._operations
            ]
            return
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, OPERATION_COLUMNS).copy()
        named = rows[:, 4] >= 0
        rows[named, 4] = numbers[rows[named, 4]]
        self._rows = array("q", rows.tobytes())

    def finish(self) -> None:
        """Post what no signal has announced: nothing else is added to this block."""
        if self._nic is not None:
            for rank in list(self._nic.pending):
                self._nic.post(rank)

    def extend(self, rows: np.ndarray, chunks: np.ndarray) -> None:
        """Add operations that are given as columns: see :class:`OperationColumns`."""
        self.program.count(len(rows))
        if self._operations is None:
            self._rows.frombytes(np.ascontiguousarray(rows, np.int64).tobytes())
            self._chunks.frombytes(np.ascontiguousarray(chunks, np.int64).tobytes())
            return
        columns = OperationColumns(array("q", rows.ravel().tolist()), array("q", chunks.ravel().tolist()))
        self._operations += to_objects(columns, list(self.program.lines), self.program.semaphores)

    @property
    def count(self) -> int:
        """Number of its operations."""
        listed = self._operations
        return len(self._rows) // OPERATION_COLUMNS if listed is None else len(listed)

    def _work_queue(self) -> WorkQueue:
        if self._nic is None:
            self._nic = WorkQueue(self, self.program.nic(self.rank, self.channel), self.program)
        return self._nic

    @property
    def _where(self) -> str:
        return f"program {self.program.name!r}, rank {self.rank}"

    def _own(self, semaphore: Semaphore) -> None:
        if not isinstance(semaphore, Semaphore):
            hint = "make one of each rank with me.semaphore(), and name it: signal(arrived[you])"
            raise InputError(f"not a semaphore: {semaphore!s:.60}", where=self._where, hint=hint)
        number, known = semaphore.number, self.program.semaphores
        if not (0 <= number < len(known) and known[number] == semaphore):
            raise InputError("the semaphore is of another program", where=f"program {self.program.name!r}")

    def _not_a_chunk(self, found: object) -> InputError:
        hint = "index a buffer: me.output[0], or me.output[:] for all its chunks"
        return InputError(f"not a chunk: {found}", where=self._where, hint=hint)

    def _local(self, chunk: Chunk | Chunks, what: str) -> None:
        if not isinstance(chunk, Chunk | Chunks):
            raise self._not_a_chunk(chunk)
        if chunk.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot {what} {chunk}",
                where=f"program {self.program.name!r}",
                hint="use copy(), or put() from this rank, or get() to it",
            )

    def _add(
        self,
        kind: str,
        sources: int = 0,
        targets: int = 0,
        chunks: Sequence[Chunk] = (),
        semaphore: Semaphore | None = None,
        value: int = 0,
        flags: int = 0,
    ) -> None:
        if self.roles:
            hint = "let one of its roles do it"
            raise InputError(
                "a block with roles cannot have operations of its own", where=self._where, hint=hint
            )
        program = self.program
        program.count()
        if self._operations is None and self.origin is None:
            number = semaphore.number if semaphore is not None else -1
            at = program.at if program.at >= 0 else program.number_of(line_of_caller())
            row = _ROW(KIND_NUMBERS[kind], self.current, sources, targets, number, value, flags, at)
            self._rows.frombytes(row)
            add = self._chunks.frombytes
            for rank, buffer, index, channel in chunks:
                # As pack_place does, without a call: a large program has millions of chunks.
                add(_CHUNK((rank << 30 | channel) << 3 | BUFFER_NUMBERS[buffer], index))
            return
        self.operations.append(
            Operation(
                kind,
                self.current,
                tuple(chunks[:sources]),
                tuple(chunks[sources:]),
                semaphore,
                value,
                *unpack_flags(flags),
                line=line_of_caller(),
                origin=self.origin,
            )
        )

    def _add_many(self, slices: Sequence[Any], sources: int, flags: int) -> None:
        """Add a move for each chunk of slices."""
        for one in slices:
            if not isinstance(one, Chunk | Chunks):
                raise self._not_a_chunk(one)
        if len({len(one.indices) if isinstance(one, Chunks) else 1 for one in slices}) > 1:
            raise InputError(
                f"a move between slices of different lengths: {', '.join(map(str, slices))}",
                where=self._where,
                hint="use slices of equal length; a message of several chunks is receive(block, me.input[:])",
            )
        targets = [(one.rank, one.buffer, one.channel) for one in slices[sources:]]
        each = (one if isinstance(one, Chunks) else [one] for one in slices)
        if self._operations is not None or self.origin is not None or len(set(targets)) < len(targets):
            for chunks in zip(*each, strict=True):
                self.move(chunks[:sources], chunks[sources:], flags >> 1)
            return
        count = len(slices[0].indices) if isinstance(slices[0], Chunks) else 1
        self.program.count(count)
        at = self.program.number_of(line_of_caller())
        row = (KIND_NUMBERS["move"], self.current, sources, len(targets), -1, 0, flags, at)
        self._rows.frombytes(np.tile(np.array(row, np.int64), count).tobytes())
        chunks_of = np.empty((count, len(slices), 2), np.int64)
        for k, one in enumerate(slices):
            chunks_of[:, k, 0] = pack_place(one.rank, one.channel, BUFFER_NUMBERS[one.buffer])
            chunks_of[:, k, 1] = one.indices if isinstance(one, Chunks) else one.index
        self._chunks.frombytes(chunks_of.tobytes())
