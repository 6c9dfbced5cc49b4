"""The cache-line engine as a judge: one program under many timings.

The program is run with a probe on every rank: a block that waits until the rank's own blocks have ended,
copies the promised outputs away, and stores new inputs. When all ranks have done so, the program runs a
second time, and is probed again. So what a rank promises is read when its own kernel has ended, and what
the first launch leaves behind meets the second one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from astranb.collectives import BUFFERS, COLLECTIVES, Chunk, Operation, Program, Semaphore, contents, lower
from astranb.collectives.language.collective import promised
from astranb.engine.cacheline.build import MachinePlan, build
from astranb.engine.cacheline.machine import CacheLineMachine
from astranb.engine.stops import DEADLOCK, ENDED
from astranb.gpu import Preset, preset
from astranb.infragraph import resolve
from astranb.net import Fabric, Network, compile_fabric

from .sketch import Lines, Sketch

__all__ = ["NETWORKS", "Judge", "empty_chunks", "probed"]

_LAST_PS = 2**62
_MOST_EVENTS = 20_000_000

NETWORKS = (
    Network(),
    Network(arbitration="round_robin"),
    Network(arbitration="fair"),
    Network(buffers=2),
    Network(cut_through=True),
    Network(arbitration="fair", buffers=1),
)
"""Networks by how messages share the fabric: in order, requests and responses in turn, ..."""

_GPU = ("issue_ps", "noc_ps", "l2_ps", "hbm_ps", "slice_ps", "channel_ps", "fence_ps", "atomic_ps")

_Expected = list[tuple[Chunk, np.ndarray, int]]


@cache
def _fabric(ranks: int, infra: str) -> Fabric:
    return compile_fabric(resolve(f"{infra}:gpus={ranks}").expand())


@cache
def _presets(ranks: int) -> list[Preset]:
    # Two warps of two lines each: neighbouring lines of a move are under way in any order.
    return [
        preset("h100-sxm").but(sms=16, engines=8, warps_per_block=2, unroll=2, max_outstanding=64)
    ] * ranks


def probed(sketch: Sketch, *, twice: bool) -> tuple[Sketch, _Expected]:
    """Add the probes; return also what each of them must find: a chunk, its contributions and their chunk.

    ``twice`` needs a size of which all chunks are equally large.
    """
    inputs, outputs = _chunks(sketch)
    first = 1 + max(
        (c.index for lines in sketch.blocks for op in lines.operations for c in (*op.sources, *op.targets)),
        default=0,
    )
    semaphores = list(sketch.semaphores)

    def gates() -> list[Semaphore]:
        found = [Semaphore(rank, len(semaphores) + rank) for rank in range(sketch.ranks)]
        semaphores.extend(range(sketch.ranks))
        return found

    over, all_over, begin = gates(), gates(), gates()
    blocks: list[Lines] = []
    for lines in sketch.blocks:
        operations = [*lines.operations, _signal(over[lines.rank])]
        if twice:
            operations += [_wait(begin[lines.rank], sketch.ranks), *_again(lines, first)]
            operations += [_signal(over[lines.rank])]
        blocks.append(replace(lines, operations=tuple(operations)))
    expected: _Expected = []
    for rank in range(sketch.ranks):
        count = sum(lines.rank == rank for lines in sketch.blocks)
        probe: list[Operation] = []
        for launch in range(1 + twice):
            if launch:  # new inputs when all have ended, and the launch when all are there
                probe += [*map(_signal, all_over), _wait(all_over[rank], sketch.ranks)]
                probe += _new_inputs(sketch, rank, inputs)
                probe += map(_signal, begin)
            if count:
                probe.append(_wait(over[rank], count * (launch + 1)))
            for chunk, times, index in _promise(sketch, rank, outputs):
                copy = chunk._replace(buffer="scratch", index=first + launch * outputs + chunk.index)
                probe.append(Operation("move", 0, (chunk,), (copy,)))
                expected.append((copy, times, index + launch * inputs))
        blocks.append(Lines(rank, tuple(probe)))
    blocks = [lines for lines in blocks if lines.operations]
    return sketch.but(blocks=tuple(blocks), semaphores=tuple(semaphores)), expected


def _signal(semaphore: Semaphore) -> Operation:
    return Operation("signal", 0, semaphore=semaphore, value=1)


def _wait(semaphore: Semaphore, value: int) -> Operation:
    return Operation("wait", 0, semaphore=semaphore, value=value)


def _chunks(sketch: Sketch) -> tuple[int, int]:
    program = sketch.program()
    return program.input_chunks, program.output_chunks


def _promise(sketch: Sketch, rank: int, outputs: int) -> list[tuple[Chunk, np.ndarray, int]]:
    kind = COLLECTIVES[sketch.kind]
    if kind.silent or (kind.root_only and rank != sketch.root):
        return []
    index = np.arange(outputs)
    times, of_chunk = promised(sketch.kind, sketch.root, sketch.ranks, outputs, np.full(outputs, rank), index)
    return [
        (Chunk(rank, "output", k, channel), times[k], int(of_chunk[k]))
        for channel in range(sketch.channels)
        for k in range(outputs)
    ]


def _new_inputs(sketch: Sketch, rank: int, inputs: int) -> list[Operation]:
    found = []
    for channel in range(sketch.channels):
        for index in range(inputs):
            fresh = Chunk(rank, "input", inputs + index, channel)
            found.append(Operation("move", 0, (fresh,), (fresh._replace(index=index),)))
    return found


def _again(lines: Lines, first: int) -> list[Operation]:
    """The second launch of a block: its waits continue, its packets are new ones."""
    reached: dict[Semaphore, int] = {}
    for op in lines.operations:
        if op.kind == "wait" and op.semaphore is not None:
            reached[op.semaphore] = max(reached.get(op.semaphore, 0), op.value)

    def new(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        return tuple(c._replace(index=c.index + first) if c.buffer == "packets" else c for c in chunks)

    found = []
    for op in lines.operations:
        changed = replace(op, sources=new(op.sources), targets=new(op.targets))
        if op.kind == "wait" and op.semaphore is not None:
            changed = replace(changed, value=op.value + reached[op.semaphore])
        found.append(changed)
    return found


def empty_chunks(sketch: Sketch) -> set[Chunk]:
    """Return the empty chunks.

    Raises
    ------
    InputError
        The program cannot be lowered, as where it moves between chunks of different sizes.
    """
    program = sketch.program()
    parts = max(program.input_chunks, program.output_chunks)
    if sketch.contract is None and sketch.size % (parts * sketch.channels * 128) == 0:
        return set()
    slices = lower(program, kind=sketch.kind, size=sketch.size).slices
    none = slices[slices["bytes"] == 0]
    return {Chunk(int(s.gpu), BUFFERS[s.buffer], int(s.chunk), int(s.channel)) for s in none}


class Judge:
    """A program on a machine, to be run under any number of timings.

    Raises
    ------
    InputError
        The program cannot be lowered, as where it moves between chunks of different sizes.
    """

    def __init__(self, sketch: Sketch, seed: int, *, twice: bool | None = None) -> None:
        self.rng = random.Random(seed)
        inputs, outputs = _chunks(sketch)
        parts = max(inputs, outputs)
        even = sketch.size % (parts * sketch.channels * 128) == 0  # else new inputs would not fit
        twice = even if twice is None else twice
        self.sketch, self.expected = probed(sketch, twice=twice)

        def fill(program: Program) -> None:
            if twice:
                program.input_chunks, program.output_chunks = 2 * inputs, 2 * outputs
            self.sketch.fill(program)

        size = 2 * sketch.size if twice else sketch.size
        collective = self.sketch.collective(fill, size)
        presets = _presets(sketch.ranks)
        self.program = lower(
            collective.program(sketch.ranks), kind=sketch.kind, size=size, line_bytes=presets[0].line_bytes
        )
        infra = self.rng.choice(
            ("fully-connected", "fully-connected", "switch", "ring")
            if sketch.ranks > 2
            else ("fully-connected", "switch")
        )
        # Finite buffers in a ring can wait for each other, whatever runs on it.
        network = self.rng.choice([n for n in NETWORKS if infra != "ring" or not n.buffers])
        self.fabric = _fabric(sketch.ranks, infra)
        plan = MachinePlan(self.fabric, presets, self.program, network)
        self.machine, _ = build(plan, record=False, memory_bytes=2**30)
        slices = self.program.slices
        names = ("gpu", "buffer", "chunk", "channel")
        keys = zip(*(slices[name].tolist() for name in names), strict=True)
        self.row = {key: number for number, key in enumerate(keys)}

    def faults(self, timings: int) -> Iterator[str]:
        """Run under several timings; yield what each of them shows."""
        for number in range(timings):
            found = self.once(number)
            if found:
                yield found

    def once(self, number: int) -> str:
        """Run under one timing, the first one without a change; return what is wrong at its end."""
        machine = self.machine.copy(record=False)
        if number:
            _change(machine, self.rng, len(self.fabric.links))
        machine.control["until_ps"] = _LAST_PS
        machine.control["max_events"] = _MOST_EVENTS
        for name in ("timesteps", "instructions", "phases"):
            machine.control[f"max_{name}"] = _LAST_PS
        why = machine.run()
        clock = machine.clock[0]
        if why == DEADLOCK or (why == ENDED and clock.done < len(machine.blocks)):
            return "deadlock"
        if why != ENDED:
            raise AssertionError(f"{self.sketch.label}: stopped by {why} after {clock.events} events")
        held = contents(self.program, machine.ops, machine.operands, machine.slices)
        for chunk, times, index in self.expected:
            row = self.row[chunk.rank, 2, chunk.index, chunk.channel]
            if self.program.slices["lines"][row] == 0:
                continue
            if (held.times[row] != times).any() or held.chunk[row] != index:
                return (
                    f"{chunk}: {held.times[row].tolist()} of chunk {held.chunk[row]}, not {times} of {index}"
                )
        return ""


def _change(machine: CacheLineMachine, rng: random.Random, links: int) -> None:
    """Change latencies and rates at random: of links, of GPUs, and when each SM begins."""
    if rng.random() < 0.8:
        for link in range(links):
            if rng.random() < 0.4:
                machine.links["latency_ps"][link] *= rng.choice((3, 10, 40))
                machine.links["bandwidth_Bps"][link] //= rng.choice((1, 1, 4, 16))
    if rng.random() < 0.7:
        for gpu in range(len(machine.gpus)):
            for name in _GPU:
                if rng.random() < 0.3:
                    machine.gpus[name][gpu] *= rng.choice((2, 8, 30))
    if rng.random() < 0.7:
        for sm in range(len(machine.sms)):
            if rng.random() < 0.4:
                machine.sms["next_issue_ps"][sm] = rng.choice((1, 5, 30)) * 1_000_000
