"""The proof that a program is correct for every timing, without running it.

A program is right if, whatever the speed of its ranks, thread blocks and links,

- every thread block ends, also where a GPU cannot hold all of them at once;
- no operation writes memory while another one accesses it, unless it writes what is there already;
- when the thread blocks and copy engines of a rank have ended, its output holds what the collective
  promises, and nothing writes to the rank's buffers any more;
- all this holds again when the program is launched once more after all ranks have ended, with
  semaphores that continue where they are.

It holds for the program's size. The buffers of all ranks are ready before the first one starts, and
no rank changes its input before all have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astranb.collectives.language import (
    COLLECTIVES,
    Block,
    Chunk,
    Program,
    ProgramError,
    Reduction,
    Semaphore,
    promised,
)
from astranb.collectives.library import Collective
from astranb.collectives.lowering import Extents, check_packets
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.gpu import named_gpus, preset
from astranb.infragraph import Infra, resolve

from .accesses import Accesses
from .alike import one_of_each
from .check import MIXED, NOTHING, fault_text
from .chunk_contents import Data
from .fault import Faults, Flaw, Namer
from .order import Execution, Order, Place, ProgramMemory, Slots, execute, order_of

__all__ = ["Flaw", "Proof", "prove", "verify"]

_LINE_BYTES = 128
_READING = "it is right where every relaxed signal waits for the stores before it, as others do"
"""Statement about a program with missing fences, if it is proved: how its author may read it."""


def verify(
    program: Program | Collective,
    kind: str | int | Infra | Path | None = None,
    *,
    root: int = 0,
    slots: tuple[int, int] | None = None,
    most: int = 20,
) -> list[Flaw]:
    """Find the faults of a program, or of a collective on an infrastructure.

    Parameters
    ----------
    program : Program or Collective
        As ``Collective.program(ranks)`` returns it; or a collective, whose program is made for the
        infrastructure's ranks, nodes and links, and verified for what its GPUs hold at once.
    kind : str, int, Infra or Path
        The collective that the program implements; or where a collective runs: on an infrastructure, as a
        blueprint's name, a file, or an :class:`Infra`; or on a number of ranks in one box.
    root : int
        The root of a rooted collective; a :class:`Collective` has its own.
    slots : tuple of (int, int), optional
        How many thread blocks and how many copy engines of a rank work at once (see
        :attr:`Preset.slots <astranb.gpu.Preset.slots>`); by default as many as the program has, or as the
        infrastructure's GPUs hold.
    most : int
        How many errors are listed; one more stands for the others.

    Returns
    -------
    list of Flaw
        Empty if the program is correct. Errors come before warnings.

    Examples
    --------
    >>> from astranb.collectives import Collective
    >>> verify(Collective.of("all_reduce", 4096, "ring"), 4)
    []
    >>> verify(Collective.of("all_reduce", 4096, "hierarchical"), "single-tier:servers=2")
    []
    """
    return prove(program, kind, root=root, slots=slots, most=most).flaws


@dataclass(frozen=True)
class Proof:
    """Result of a proof.

    Attributes
    ----------
    flaws : list of Flaw
        Empty if the program is correct. Errors come before warnings.
    roundings : int, optional
        How often an output is rounded on its way, at most; None where a contract gives no numbers.
    rounding_text : str
        The same in words; empty for None.
    """

    flaws: list[Flaw]
    roundings: int | None = None
    rounding_text: str = ""


def prove(
    program: Program | Collective,
    kind: str | int | Infra | Path | None = None,
    *,
    root: int = 0,
    slots: tuple[int, int] | None = None,
    most: int = 20,
) -> Proof:
    """Find faults, and how often results are rounded; parameters as for :func:`verify`."""
    if kind is None or not isinstance(program, Collective | Program):
        known = isinstance(program, Collective | Program)
        what = (
            "on which machine is not given"
            if known
            else f"neither a collective nor a program: {program!r:.60}"
        )
        hint = "write verify(anb.all_gather('16 KiB', algorithm), 'ring:gpus=4')"
        raise InputError(what, where="verify", hint=hint)
    if isinstance(program, Collective):
        one, root = program, program.root
        if isinstance(kind, int):
            program = one.program(kind)
        else:
            program, held = program_on(one, kind)
            slots = slots or held
        kind = one.name
    elif not isinstance(kind, str):
        raise InputError("a program is of a collective", where="kind", hint="give its name, or a Collective")
    held_at_once = Slots(*slots) if slots else None
    extents = Extents(program, kind, program.size, _LINE_BYTES) if program.size is not None else None
    few, alike = one_of_each(program, extents, held_at_once)
    proof = _Proof(few, kind, root, held_at_once, most, alike)
    proof.check()
    if alike and proof.faults.listed():  # all channels have them: they are counted
        proof = _Proof(program, kind, root, held_at_once, most)
        proof.check()
    flaws, reduction = proof.faults.listed(), proof.reduction
    unfenced = next((flaw for flaw in flaws if flaw.kind == "fence"), None)
    if unfenced is not None:
        fenced = _Proof(program, kind, root, held_at_once, 1, fenced=True)
        fenced.check()
        if not fenced.faults:
            flaws.append(replace(unfenced, message=f"{program.name}: {_READING}", severity="warning"))
    if not reduction.rounds or any(flaw.severity == "error" for flaw in flaws):
        return Proof(flaws)
    return Proof(flaws, proof.roundings, reduction.text(proof.roundings))


def program_on(collective: Collective, infra: str | Infra | Path) -> tuple[Program, tuple[int, int]]:
    """Return a collective's program on an infrastructure, and what its GPUs hold at once.

    That is thread blocks and copy engines, of the GPU that holds the fewest.

    Raises
    ------
    InputError
        There is no such infrastructure, or the algorithm cannot run on it.
    """
    found = resolve(infra)
    return collective.program(found), slots_of(found)


def slots_of(infra: str | Infra | Path) -> tuple[int, int]:
    """Return the thread blocks and copy engines at once of the GPU that holds the fewest."""
    return min(preset(name).slots for name in dict.fromkeys(named_gpus(resolve(infra))[0]))


class _Proof:
    """The proof of a program, or of what it does in all slices of chunks but some (``alike``)."""

    def __init__(
        self,
        program: Program,
        kind: str,
        root: int,
        slots: Slots | None,
        most: int,
        alike: Collection[int] = (),
        *,
        fenced: bool = False,
    ) -> None:
        self.program, self.kind, self.root, self.slots, self.alike = program, kind, root, slots, alike
        self.fenced = fenced
        self.namer = Namer(program)
        self.faults = Faults(self.namer, most)
        self.empty: set[Chunk] = set()
        self.uneven: ProgramError | None = None
        self.initial = {
            place: chunk for chunk, place in program.same_memory.items() if chunk.buffer == "input"
        }
        self.memory = ProgramMemory(program)
        self.held: dict[int, Data] = {}  # by number of the chunk
        layout = program.layout
        self.reduction = layout.reduction if layout is not None else Reduction()
        self.columns = layout.ranks * layout.most if layout is not None else program.ranks
        self.roundings = 0
        self.computed = {
            self.memory.of(chunk)
            for block in program.blocks
            for op in block.operations
            if op.kind == "move" and not op.sources
            for chunk in op.targets
        }

    def add(self, kind: str, message: str, *operations: tuple[Block, int]) -> None:
        """Add a fault that seldom occurs often: it is described at once."""
        self.faults.add(kind, lambda: self.namer.flaw(kind, message, *operations))

    def check(self) -> None:
        """Find all faults."""
        program = self.program
        self._bounds()
        if self.faults:
            return
        self._empty()
        blocks = [block for block in program.blocks if not block.added]
        run = execute(program, blocks, self.memory, self.slots)
        if run.stuck:
            self._stuck(run)
        for part in _components(run):
            stored = self._results(part)
            self._packets(part, stored)
            self._semaphores(part)
            if part.stuck:
                continue
            order = order_of(part, fenced=self.fenced)
            Accesses(part, order, stored, self.brought, self.namer).check(self.faults.add)
            self._next_launch(part, order, stored)
        if not run.stuck:
            self._result()
        if not self.faults:
            self._size()

    def _size(self) -> None:
        """Find moves between chunks of different sizes, and packets that cannot be simulated."""
        if self.uneven is not None:
            flaw = self._refused("size", self.uneven)
            self.faults.add("size", lambda: flaw)
        try:
            for block in self.program.blocks:
                for op in block.operations:
                    check_packets(self.program, block, op)
        except ProgramError as error:
            self.faults.warn(replace(self._refused("packets", error), severity="warning"))

    def _refused(self, kind: str, error: ProgramError) -> Flaw:
        text = f"{self.program.name}: {error.what}" + (f"; {error.hint}" if error.hint else "")
        return Flaw(kind, text, lines=(error.line,) if error.line else ())

    def _empty(self) -> None:
        """Find the empty chunks."""
        program = self.program
        if program.size is None:
            return
        extents = Extents(program, self.kind, program.size, _LINE_BYTES)
        if extents.uniform and not program.fixed:
            return
        try:
            sizes = extents.settle([op for block in program.blocks for op in block.operations])
        except ProgramError as error:
            self.uneven = error  # reported if there is no other fault
            return
        self.empty = {chunk for chunk, (_, size) in sizes.items() if size == 0}
        outputs = extents.of_each(_outputs(program, range(program.ranks)))
        self.empty |= {chunk for chunk, (_, size) in outputs.items() if size == 0}
        self.memory.leave_out(self.empty)

    def _bounds(self) -> None:
        """Find chunks, ranks and semaphores that do not exist."""
        program, namer = self.program, self.namer
        layout = program.layout
        most = {"input": program.input_chunks, "output": program.output_chunks}
        wrong: dict[Chunk, str] = {}
        for chunk in self.memory.chunks:
            if not 0 <= chunk.rank < program.ranks:
                wrong[chunk] = f"the rank of {chunk} does not exist"
            elif layout is not None and not layout.whole and chunk.buffer in most:
                if layout.find(chunk.buffer, chunk.rank, chunk.index) < 0:
                    wrong[chunk] = (
                        f"{chunk} does not exist: there are {layout.count(chunk.buffer, chunk.rank)}"
                    )
            elif chunk.index < 0 or chunk.index >= most.get(chunk.buffer, chunk.index + 1):
                wrong[chunk] = f"{chunk} is beyond its buffer of {most.get(chunk.buffer)} chunks"
            elif not 0 <= chunk.channel < program.width:
                wrong[chunk] = f"{chunk} is of channel {chunk.channel}, there are {program.width}"
        ranks = {s.number: s.rank for s in program.semaphores}
        for block in program.blocks:
            for i, op in enumerate(block.operations):
                for chunk in (*op.sources, *op.targets) if wrong else ():
                    if chunk in wrong:
                        self.add("bounds", f"{namer.text(block, i)}: {wrong[chunk]}", (block, i))
                if op.semaphore is None:
                    continue
                owner = ranks.get(op.semaphore.number)
                shared = program.shared.get(op.semaphore)
                if shared is not None and block.thread_block is not shared:
                    message = (
                        f"semaphore {op.semaphore.number} is in the shared memory of another thread block"
                    )
                elif owner is None:
                    message = f"semaphore {op.semaphore.number} does not exist"
                elif op.kind == "wait" and owner != block.rank:
                    message = f"it waits for a semaphore of rank {owner}"
                else:
                    continue
                self.add("bounds", f"{namer.text(block, i)}: {message}", (block, i))

    def _stuck(self, run: Execution) -> None:
        """Find blocks that never end: waits that no signal satisfies, and cycles of waits."""
        namer = self.namer
        totals: dict[int, int] = defaultdict(int)
        makers: dict[object, set[int]] = defaultdict(set)  # blocks that would still signal or store packets
        ever: set[int] = set()
        for b, block in enumerate(run.blocks):
            for i, op in enumerate(block.operations):
                if op.kind == "signal" and op.semaphore:
                    totals[op.semaphore.number] += op.value
                    if i >= run.at[b]:
                        makers[op.semaphore].add(b)
                for n in run.writes[b][i]:
                    ever.add(n)
                    if i >= run.at[b]:
                        makers[n].add(b)
        written = {n for b, i in run.done for n in run.writes[b][i]}
        pending = set(run.pending)
        waits: dict[int, set[int]] = {}
        lonely = False
        for b in run.stuck:
            block, i = run.blocks[b], run.at[b]
            op = block.operations[i]
            if b in pending:
                waits[b] = {
                    other
                    for other in run.stuck
                    if other not in pending
                    and (run.blocks[other].rank, run.blocks[other].unit) == (block.rank, block.unit)
                }
            elif op.kind == "wait" and op.semaphore:
                number = op.semaphore.number
                if totals[number] < op.value:
                    lonely = True
                    reason = f"waits for {op.value}, all signals together add {totals[number]}"
                    self.add("semaphore", f"{namer.text(block, i)} {reason}", (block, i))
                waits[b] = makers[op.semaphore]
            else:
                missing = next(n for n in run.packets((b, i)) if n not in written)
                if missing not in ever:
                    lonely = True
                    self.add(
                        "packets",
                        f"{namer.text(block, i)} reads {self.memory.chunks[missing]}, which is never written",
                        (block, i),
                    )
                waits[b] = makers[missing]

        def name(b: int) -> str:
            if b in pending:
                return f"{namer.block(run.blocks[b])} begins when another block of its rank has ended"
            return namer.text(run.blocks[b], run.at[b])

        cycle = _cycle(waits)
        if cycle:
            operations = [(run.blocks[b], run.at[b]) for b in cycle]
            texts = tuple(name(b) for b in cycle)
            chain = " <- ".join([*texts, texts[0]])
            flaw = namer.flaw("deadlock", f"deadlock: {chain}", *operations, waits=texts)
            self.faults.add("deadlock", lambda: flaw)
        elif not lonely:
            first = run.stuck[0]
            self.add("deadlock", f"deadlock: {name(first)} never ends", (run.blocks[first], run.at[first]))

    def _packets(self, run: Execution, stored: dict[Place, Data]) -> None:
        """Find packets that are written twice: their flags can announce one write only.

        A switch may forward to a rank the same packets that this rank has stored itself.
        """
        first: dict[int, Place] = {}
        for b, block in enumerate(run.blocks) if self.memory.packets else ():
            for i in range(len(block.operations)):
                for n in run.writes[b][i]:
                    if n not in self.memory.packets or first.setdefault(n, (b, i)) == (b, i):
                        continue
                    before, chunk = first[n], self.memory.chunks[n]
                    writer = run.blocks[before[0]].operations[before[1]]
                    forwarded = block.operations[i].in_switch or writer.in_switch
                    if (
                        forwarded
                        and before in stored
                        and (b, i) in stored
                        and stored[before].same(stored[b, i])
                    ):
                        continue
                    operations = (run.blocks[before[0]], before[1]), (block, i)
                    one, two = (self.namer.text(*operation) for operation in operations)
                    self.add("packets", f"{chunk} is written twice, by {one} and by {two}", *operations)

    def _next_launch(self, run: Execution, order: Order, stored: dict[Place, Data]) -> None:
        """Find signals that are left over and satisfy waits of the next launch too early.

        The more launches, the more signals are left over: in the end such waits wait for nothing.
        """
        given = {number: sum(signals.values()) for number, signals in _given(run).items()}
        left: dict[tuple[int, int], int] = {}
        for b, block in enumerate(run.blocks):
            for op in block.operations:
                if op.kind == "wait" and op.semaphore:
                    number = op.semaphore.number
                    surplus = given.get(number, 0) - op.value - self.program.credits.get(op.semaphore, 0)
                    left[b, number] = min(surplus, left.get((b, number), surplus))
        void = {key: surplus for key, surplus in left.items() if surplus > 0}
        if not void:
            return
        before = Faults(self.namer, 1)
        Accesses(run, order, stored, self.brought, self.namer).check(before.add)
        if before:
            return  # the first launch has such faults already
        again = Faults(self.namer, 1)
        Accesses(run, order_of(run, void, fenced=self.fenced), stored, self.brought, self.namer).check(
            again.add
        )
        found = again.listed()
        if not found:
            return
        (b, number), surplus = next(iter(void.items()))
        block = run.blocks[b]
        wait = next(
            i for i, op in enumerate(block.operations) if op.kind == "wait" and _is(op.semaphore, number)
        )
        signals = _given(run)[number]
        giver = max(signals)
        signal = max(
            i
            for i, op in enumerate(run.blocks[giver].operations)
            if op.kind == "signal" and _is(op.semaphore, number)
        )
        message = (
            f"{self.namer.text(run.blocks[giver], signal)} leaves {surplus} more than "
            f"{self.namer.text(block, wait)} and the waits after it take; they satisfy it too early in the "
            f"next launch: {found[0].message.removeprefix(self.program.name + ': ')}"
        )
        self.add("semaphore", message, (run.blocks[giver], signal), (block, wait))

    def _semaphores(self, run: Execution) -> None:
        """Find signals for which no block waits: not an error, but probably a mistake."""
        waited = {
            op.semaphore.number
            for block in run.blocks
            for op in block.operations
            if op.kind == "wait" and op.semaphore
        }
        reported: set[int] = set()
        for block in run.blocks:
            for i, op in enumerate(block.operations):
                if op.kind != "signal" or op.semaphore is None or op.semaphore.number in waited | reported:
                    continue
                reported.add(op.semaphore.number)
                message = f"{self.namer.text(block, i)}: no block waits for this semaphore"
                self.faults.warn(self.namer.flaw("semaphore", message, (block, i), severity="warning"))

    def _results(self, run: Execution) -> dict[Place, Data]:
        """Derive what every operation stores and, in ``held``, what every chunk holds at the end."""
        stored: dict[Place, Data] = {}
        add = np.maximum if self.reduction.repeatable else np.add
        rounds = self.reduction.rounds
        for b, i in run.done:
            block = run.blocks[b]
            if block.operations[i].kind == "tile":
                self._unwritten(run, (b, i))
                continue
            if not run.reads[b][i]:
                if run.writes[b][i]:  # what matrix units have computed
                    chunk = self.memory.chunks[run.writes[b][i][0]]
                    computed = replace(_contribution(chunk, self.program), writer=(block, i))
                    stored[b, i] = self.held[run.writes[b][i][0]] = computed
                continue
            times, chunks, rounded = None, set(), 0
            for source in run.reads[b][i]:
                held = self.held.get(source) or self.brought(source)
                if held is None:
                    chunk = self.memory.chunks[source]
                    message = f"{self.namer.text(block, i)} reads {chunk}, which has not been written"
                    self.add("result", message, (block, i))
                    held = Data(np.zeros(self.columns, np.int32), MIXED, MIXED)
                times = held.times if times is None else add(times, held.times)
                rounded = max(rounded, held.roundings)
                chunks.add((held.chunk, held.channel))
            assert times is not None  # noqa: S101 - there are sources
            what = chunks.pop() if len(chunks) == 1 else (MIXED, MIXED)
            if rounds:
                rounded += int(self.reduction.roundings(len(run.reads[b][i])))
            stored[b, i] = data = Data(times, *what, (block, i), rounded)
            for target in run.writes[b][i]:
                self.held[target] = data
        return stored

    def _unwritten(self, run: Execution, place: Place) -> None:
        """Find operands of a product that have not been written."""
        block, i = run.blocks[place[0]], place[1]
        for source in run.reads[place[0]][i]:
            if source not in self.held and self.brought(source) is None:
                what = f"reads {self.memory.chunks[source]}, which has not been written"
                self.add("result", f"{self.namer.text(block, i)} {what}", (block, i))

    def brought(self, number: int) -> Data | None:
        """Return what a chunk holds at the start."""
        chunk = self.memory.chunks[number]
        own = self.initial.get(chunk, chunk)
        if own.buffer not in ("input", "panels") or number in self.computed:
            return None
        return _contribution(own, self.program)

    def _result(self) -> None:
        """Compare every output chunk with what the collective promises."""
        program, layout = self.program, self.program.layout
        kind = COLLECTIVES.get(self.kind)
        if layout is None and (kind is None or kind.silent):
            return
        ranks = [self.root] if kind is not None and kind.root_only else range(program.ranks)
        cells = [c for c in _outputs(program, ranks) if c not in self.empty and c.channel not in self.alike]
        rank, index = (np.array([getattr(c, k) for c in cells], np.int64) for k in ("rank", "index"))
        if layout is not None:
            output = layout.find("output", rank, index)
            wanted, wanted_chunk = layout.times[output], layout.output_item[output]
        else:
            wanted, wanted_chunk = promised(
                self.kind, self.root, program.ranks, program.output_chunks, rank, index
            )
        wrong = []
        writers: list[tuple[Block, int]] = []
        for number, cell in enumerate(cells):
            place = self.memory.number.get(program.same_memory.get(cell, cell))
            held = None
            if place is not None:
                held = self.held.get(place) or self.brought(place)
            elif cell in self.initial:
                held = _contribution(self.initial[cell], program)
            elif cell in program.same_memory and program.same_memory[cell].buffer == "input":
                held = _contribution(program.same_memory[cell], program)
            times, chunk = np.zeros(self.columns, np.int32), NOTHING
            if held is not None:
                times, chunk = held.times, held.chunk
                rounded = self.reduction.of_output(held.roundings, int(wanted[number].sum()))
                self.roundings = max(self.roundings, rounded)
                right = held.channel == cell.channel and chunk == wanted_chunk[number]
                if right and (times == wanted[number]).all():
                    continue
                if held.writer is not None:
                    writers.append(held.writer)
            text = fault_text(times, wanted[number], chunk, int(wanted_chunk[number]), layout)
            if not text and held is not None:
                text = f"it holds the slice of channel {held.channel}"
            wrong.append((cell, text))
        if not wrong:
            return
        cell, text = wrong[0]
        more = f" (and {plural(len(wrong) - 1, 'more slice')})" if len(wrong) > 1 else ""
        of_channel = f", channel {cell.channel}" if program.width > 1 else ""
        message = f"wrong result on rank {cell.rank}, output chunk {cell.index}{of_channel}: {text}{more}"
        self.add("result", message, *writers[:20])


def _contribution(chunk: Chunk, program: Program) -> Data:
    """Return what a chunk of an input holds at the start."""
    layout = program.layout
    if layout is None:
        times = np.zeros(program.ranks, np.int32)
        times[chunk.rank] = 1
        return Data(times, chunk.index, chunk.channel)
    times = np.zeros(layout.ranks * layout.most, np.int32)
    row = int(layout.find("input", chunk.rank, chunk.index)) if chunk.buffer == "input" else -1
    if row < 0:  # a matrix, which is no contribution
        return Data(times, MIXED, chunk.channel)
    times[layout.column[row]] = 1
    return Data(times, int(layout.item[row]), chunk.channel)


def _components(run: Execution) -> Iterator[Execution]:
    """Group the blocks that share semaphores or written memory; channels usually share none."""
    parent = list(range(len(run.blocks)))

    def top(b: int) -> int:
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        return b

    written = {n for of_block in run.writes for of in of_block for n in of}
    seen: dict[object, int] = {}
    for b, block in enumerate(run.blocks):
        shared: set[object] = {op.semaphore for op in block.operations if op.semaphore is not None}
        shared.update(n for of in (*run.reads[b], *run.writes[b]) for n in of if n in written)
        for thing in shared:
            parent[top(b)] = top(seen.setdefault(thing, b))
    groups: dict[int, list[int]] = defaultdict(list)
    for b in range(len(run.blocks)):
        groups[top(b)].append(b)
    yield from run.split(list(groups.values()))


def _given(run: Execution) -> dict[int, dict[int, int]]:
    """For each semaphore, what each block adds to it."""
    found: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for b, block in enumerate(run.blocks):
        for op in block.operations:
            if op.kind == "signal" and op.semaphore:
                found[op.semaphore.number][b] += op.value
    return found


def _is(semaphore: Semaphore | None, number: int) -> bool:
    return semaphore is not None and semaphore.number == number


def _outputs(program: Program, ranks: Iterable[int]) -> list[Chunk]:
    """Return all slices of the outputs of ranks."""
    layout = program.layout
    if layout is not None:
        listed = layout.outputs[:2].T.tolist()
        cut = range(1 if layout.whole else program.width)
        return [Chunk(rank, "output", index, channel) for rank, index in listed for channel in cut]
    return [
        Chunk(rank, "output", index, channel)
        for rank in ranks
        for index in range(program.output_chunks)
        for channel in range(program.width)
    ]


def _cycle(waits: dict[int, set[int]]) -> list[int]:
    """Return a cycle in a graph of waits; empty if there is none."""
    finished: set[int] = set()
    for start, first in waits.items():
        path = [start]
        stack = [iter(sorted(first))]
        while stack and start not in finished:
            following = next((o for o in stack[-1] if o in waits and o not in finished), None)
            if following is None:
                finished.add(path.pop())
                stack.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                path.append(following)
                stack.append(iter(sorted(waits[following])))
    return []
