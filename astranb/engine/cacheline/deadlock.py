"""Explain a deadlock: the cycle of waits, by name."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from astranb.collectives import Lowered
from astranb.core.plural import plural
from astranb.core.state import own
from astranb.gpu import mark_stuck
from astranb.gpu import tables as t
from astranb.net import CLASSES, Fabric

from .machine import CacheLineMachine
from .paths import block_name, gpu_path, link_name

__all__ = ["explain_deadlock"]


def explain_deadlock(machine: CacheLineMachine, program: Lowered, fabric: Fabric) -> str:
    """Describe which blocks wait for which, as a cycle where there is one.

    Parameters
    ----------
    machine : CacheLineMachine
        In the state of the deadlock.
    program : Lowered
    fabric : Fabric

    Returns
    -------
    str
        One line: the cycle, or the wait that nothing can end.
    """
    buffers = _buffer_deadlock(machine, fabric)
    if buffers:
        return f"{program.name}: deadlock: {buffers}"
    blocks, ops, semaphores = machine.blocks, machine.ops, machine.semaphores
    signallers: dict[int, list[int]] = defaultdict(list)
    for op in np.flatnonzero((ops["kind"] == t.NOTIFY) & (ops["started_ps"] < 0)):
        signallers[int(ops["semaphore"][op])].append(int(ops["block"][op]))
    waits: dict[int, list[int]] = {}
    for block in np.flatnonzero(blocks["state"] == t.MOVING):
        # All that is left moving in a deadlock reads packets that have not come.
        waits[int(block)] = sorted(_writers(machine, int(blocks["op"][block])))
    for block in np.flatnonzero((blocks["state"] == t.WAITING) | (blocks["state"] == t.PENDING)):
        if blocks["after"][block] > 0:
            late = (ops["kind"] == t.RELEASE) & (ops["value"] == block) & (ops["started_ps"] < 0)
            waits[int(block)] = sorted(set(ops["block"][late].tolist()))
        elif blocks["state"][block] == t.PENDING:
            gpu = int(blocks["gpu"][block])
            resident = (blocks["gpu"] == gpu) & (blocks["state"] == t.WAITING)
            waits[int(block)] = [int(b) for b in np.flatnonzero(resident)]
        else:
            waits[int(block)] = sorted(set(signallers[int(ops["semaphore"][blocks["op"][block]])]))

    def name(block: int) -> str:
        rank, number = int(blocks["gpu"][block]), block_name(machine, block).rpartition(" ")[2]
        text = f"rank {rank} ({gpu_path(fabric, rank)}) block {number}"
        if blocks["after"][block] > 0:
            return (
                f"{text} begins when {plural(int(blocks['after'][block]), 'other has', 'others have')} ended"
            )
        if blocks["state"][block] == t.PENDING:
            return f"{text} has no SM until another block ends"
        op = int(blocks["op"][block])
        if blocks["state"][block] == t.MOVING:
            slice_ = machine.slices[_missing(machine, op)[0]]
            return (
                f"{text} reads at operation {int(ops['number'][op])} packets[{slice_.chunk}], "
                "which have not all come"
            )
        has = int(semaphores["value"][ops["semaphore"][op]])
        phase = program.phase_names[int(ops["phase"][op])]
        phase = "" if phase == program.name else phase  # a program without phases has one, its own name
        return (
            f"{text} waits at operation {int(ops['number'][op])}{f' ({phase})' if phase else ''} "
            f"for semaphore {int(ops['semaphore'][op])} to reach {int(ops['value'][op])} (it is {has})"
        )

    def lines(*of: int) -> str:
        """Return the source lines at which blocks are, each once; none where the program has no text."""
        at = [int(blocks["op"][block]) for block in of if blocks["state"][block] != t.PENDING]
        places = ((program.source.name_of(op), program.source.text_of(op)) for op in at)
        return "".join(f" | {place}: {text}" for place, text in dict.fromkeys(places) if text)

    lonely = [b for b, others in waits.items() if not others]
    cycle = _cycle(waits)
    if cycle:
        text = " <- ".join(name(b) for b in [*cycle, cycle[0]])
        return f"{program.name}: deadlock: {text}{lines(*cycle)}"
    one = lonely[0] if lonely else next(iter(waits))
    text = name(one)
    if lonely:
        text += (
            f", and no remaining operation {'writes' if blocks['state'][one] == t.MOVING else 'signals'} it"
        )
    return f"{program.name}: deadlock: {text}{lines(one)}"


def _buffer_deadlock(machine: CacheLineMachine, fabric: Fabric) -> str:
    """Name the links that wait for buffers behind each other in a cycle; empty where there is none.

    A chip's own links are named by their number.
    """
    if machine.clock[0].managed == 0:
        return ""
    queues, details = own(machine.queues), machine.details
    if not mark_stuck(machine._replace(queues=queues)):
        return ""
    waits: dict[int, list[int]] = {int(q): [] for q in np.flatnonzero(queues["stuck"])}
    for queue in waits:
        for request in machine.waiting(queue):
            for room in (int(details[request].stored), int(details[request].held)):
                if room in waits and queue not in waits[room]:
                    waits[room].append(queue)

    def name(queue: int) -> str:
        link, number = divmod(queue, CLASSES)
        why = f"paused, {int(queues[queue].stored):,} bytes wait behind it"
        if not queues[queue].paused:
            why = "no buffer is free behind it"
        return f"{link_name(fabric, link)} ({'responses' if number % 2 else 'requests'}: {why})"

    cycle = _cycle(waits)
    return "links wait for room behind each other: " + " <- ".join(name(q) for q in [*cycle, cycle[0]])


def _missing(machine: CacheLineMachine, op: int) -> list[int]:
    """Slices of packets that an operation reads and that have not all come."""
    row, slices = machine.ops[op], machine.slices
    sources = machine.operands["slice"][row.first_source : row.first_source + row.sources]
    return [int(p) for p in sources if slices["flag"][p] >= 0 and slices["writer"][p] < 0] or [
        int(sources[0])
    ]


def _writers(machine: CacheLineMachine, op: int) -> set[int]:
    """Blocks with an operation not begun that writes what an operation waits for."""
    ops, wanted = machine.ops, set(_missing(machine, op))
    found = set()
    for other in np.flatnonzero((ops["kind"] == t.MOVE) & (ops["started_ps"] < 0)):
        row = ops[other]
        targets = machine.operands["slice"][row.first_target : row.first_target + row.targets]
        if wanted.intersection(targets.tolist()):
            found.add(int(row.block))
    return found


def _cycle(waits: dict[int, list[int]]) -> list[int]:
    """The first cycle of a graph of waits, found by walking without recursion."""
    finished: set[int] = set()
    for start, first in waits.items():
        stack = [(start, iter(first))] if start not in finished else []
        path = [start] if stack else []
        while stack:
            node, others = stack[-1]
            following = next((o for o in others if o in waits and o not in finished), None)
            if following is None:
                finished.add(node)
                stack.pop()
                path.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                path.append(following)
                stack.append((following, iter(waits[following])))
    return []
