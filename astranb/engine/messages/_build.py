"""From operations, network and system to the tables of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.core.timesteps import PENDING, TIMESTEP, TIMESTEPS
from astranb.net._astrasim2 import FULLY_CONNECTED
from astranb.workload.astrasim2._durations import Memory, at_speed, durations_ns
from astranb.workload.astrasim2._infra import InfraNetwork
from astranb.workload.astrasim2._inputs import Algorithm, Network, System
from astranb.workload.astrasim2._kinds import INTER, INTRA
from astranb.workload.astrasim2._operations import COLLECTIVE_NAMES, Operations

from . import _tables as t
from ._bus import LISTS, SIDES
from ._checks import check_algorithms, check_switches, find_roots
from ._links import Links, make_links, talking
from ._noted import PASSED, POINT, TRAFFIC, USED, WATCH
from ._pools import thread

__all__ = ["build", "margins", "notes"]

_MOST_POINTS: Final = 1024
_MOST_PASSED: Final = 1 << 18
"""Phases of chunks that are kept: 21 MB."""


def build(
    operations: Sequence[Operations],
    network: Network | InfraNetwork,
    system: System,
    memory: Memory,
    groups: Mapping[int, Sequence[int]],
    *,
    aware: bool,
    compat: bool,
    record: bool = False,
    folded: bool = False,
) -> t.Machine:
    """Make the tables.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    network : Network or InfraNetwork
    system : System
    memory : Memory
    groups : mapping of int to sequence of int
        Ranks of each numbered group, in their order.
    aware : bool
        Whether messages wait for one another on links.
    compat : bool
        Whether ASTRA-sim 2.0's peculiarities are kept.
    record : bool
        Whether phases of chunks and traffic are noted.
    folded : bool
        Whether the first NPU stands for all (:mod:`._fold`).

    Raises
    ------
    InputError
        Something does not fit.
    """
    npus = network.npus
    if len(operations) != npus:
        raise InputError(
            f"{len(operations)} ranks for a network of {npus} NPUs",
            where=network.where,
            hint="give as many traces as the network has NPUs",
        )
    counts = list(network.npus_count)
    if folded:
        operations = operations[:1]
    rows, children, ready, places = _operations(operations, system, memory, groups)
    if compat and system.speeds:
        raise InputError("ASTRA-sim 2.0 has no npu-speed", where=system.where, hint="leave it out")
    for name, number in COLLECTIVE_NAMES.items():
        if compat and number >= t.BROADCAST and number in system.algorithms:
            what = f"ASTRA-sim 2.0 has no {name}-implementation"
            raise InputError(what, where=system.where, hint="leave it out")
    _slow(rows, system.speeds, npus, system.where)
    group_rows, members, streams = _groups(groups, npus)
    find_roots(rows, group_rows, members, npus)
    implementations = _implementations(system, counts, npus)
    check_algorithms(rows, implementations, system, len(counts), compat=compat)
    check_switches(rows, implementations, network, system, compat=compat)
    routed = isinstance(network, InfraNetwork)
    pairs = talking(rows, implementations, group_rows, members, npus) if routed else set()
    links = make_links(network, pairs, aware=aware, compat=compat)
    config = allocate(1, t.CONFIG)
    config.npus, config.splits, config.endpoint_ns = npus, system.splits, system.endpoint_ns
    config.concurrent = -(-system.active_chunks // system.queues)
    config.queues, config.baseline = system.queues, system.baseline
    config.priority_step, config.rendezvous, config.aware = system.policy, system.rendezvous, aware
    config.folded, config.routed, config.dims = folded, routed, len(counts)
    config.exact_chunks = config.every_dim = not compat
    config.max_phases = max(2 * len(counts), 1)
    config.local_group_ns, config.reduce_Bps = 10, system.memory_Bps
    config.memory_shared_by = memory.shared_by(npus)
    chunks = 1
    collectives = rows[rows["kind"] == t.COLLECTIVE]
    if len(collectives):
        # A size that is no multiple makes more chunks than were asked for.
        part = np.maximum(collectives["bytes"] // system.splits, 1)
        chunks = int(max((-(-collectives["bytes"] // part)).max(), system.splits)) + 1
    npus = len(operations)
    clock = allocate(1, t.CLOCK)
    clock.cursor = -1
    queue = allocate(1, TIMESTEPS)
    queue.open = queue.latest = -1
    npu_rows = allocate(npus, t.NPU)
    npu_rows.calls = npu_rows.end_ns = -1
    queues = allocate(npus * len(counts) * system.queues, t.QUEUE)
    queues.head = -1
    allocators = allocate(npus * len(counts), t.ALLOCATOR)
    allocators.last = system.queues // 2
    if not compat:
        # ASTRA-sim 2.0 reads both and goes through the dimensions as they are numbered.
        config.inter, config.intra = INTER[system.inter], INTRA[system.intra]
        config.in_turn = len(counts) > 1
    config.switch_ns = system.switch_ns
    config.bus = system.bus is not None
    if system.bus is not None:
        config.bus_L, config.bus_o, config.bus_g = (int(one) for one in system.bus[:3])
        config.bus_G, config.bus_reduce_ns = system.bus[3], system.bus_reduce_ns
    sides = SIDES * npus if system.bus is not None else 1
    bus_lists = allocate(LISTS * sides, t.BUCKET)
    bus_lists.head = bus_lists.tail = -1
    memories = allocate(npus, t.QUEUE)
    memories.head = -1
    many = 4 * npus + 1024
    machine = t.Machine(
        config=config, clock=clock, dims=links.dims, implementations=implementations, npus=npu_rows,
        places=places, queues=queues, allocators=allocators,
        trees=allocate(npus * t.COLLECTIVES * len(counts), t.COUNTER),
        groups=group_rows, members=members, group_streams=streams, operations=rows,
        children=children, ready=ready, memories=memories,
        streams=allocate(npus * chunks + chunks + 8, t.STREAM_ROW),
        phases=allocate((npus * chunks + chunks + 8) * int(config[0].max_phases), t.PHASE),
        calls=allocate(many, t.CALL), messages=allocate(many, t.MESSAGE),
        buckets=allocate(_power(many), t.BUCKET), links=links.servers,
        ways=links.ways, hops=links.hops, wires=links.wires,
        schedule=_schedule(network, links), turns=allocate(len(counts) * system.queues, t.TURNS),
        bus=allocate(sides, t.BUS), bus_lists=bus_lists, queue=queue,
        timesteps=allocate(_power(2 * many), TIMESTEP), pending=allocate(_power(2 * many), PENDING),
        **notes(rows, config[0], len(links.dims), len(links.servers), record=record),
    )  # fmt: skip
    for name in ("head", "tail"):
        machine.buckets[name] = -1
    machine.timesteps.bucket = -1
    return thread(machine)


def notes(operations: Records, config: Any, dims: int, links: int, *, record: bool) -> dict[str, Records]:
    """The tables of what is noted: of one row each where nothing is recorded."""
    watch = allocate(1, WATCH)
    watch.hit = watch.what = -1
    watch.recording = watch.noting = record
    collectives = int((operations.kind == t.COLLECTIVE).sum())
    phases = collectives * (int(config.splits) + 1) * int(config.max_phases)
    return {
        "watch": watch,
        "points": allocate(_MOST_POINTS, POINT),
        "passed": allocate(max(1, min(phases, _MOST_PASSED)) if record else 1, PASSED),
        "traffic": allocate(max(1, int(config.npus) * dims) if record else 1, TRAFFIC),
        "used": allocate(links if record else 1, USED),
    }


def margins(m: t.Machine) -> tuple[int, int]:
    """How many rows of appointments or messages, and of streams, one event may take at most."""
    operations = m.operations
    window = 1
    if (m.implementations.algorithm == t.DIRECT).any():
        window = int(m.config[0].npus)
    collectives = operations[operations.kind == t.COLLECTIVE]
    chunks = 1
    if len(collectives):
        splits = int(m.config[0].splits)
        chunks = int((collectives.bytes // np.maximum(collectives.bytes // splits, 1)).max()) + splits + 2
    at_once = min(chunks, int(m.config[0].concurrent)) + 1
    posted = int(np.bincount(operations.npu).max()) if len(operations) else 0
    return 4 * window * at_once + 2 * posted + 64, chunks


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


def _schedule(network: Network | InfraNetwork, links: Links) -> Records:
    """The dimensions with their bandwidths."""
    table = allocate(len(network.npus_count), t.SCHEDULE)
    table.nodes = network.npus_count
    if isinstance(network, Network):
        # All links of an NPU together, as in ASTRA-sim 1.0, from which Themis comes.
        kinds = np.array(network.shapes)
        whole = np.where(kinds == FULLY_CONNECTED, np.array(network.npus_count) - 1, 1)
        table.rate = np.array(network.bandwidth) * np.maximum(whole, 1)
    else:
        table.rate = links.dims.rate_Bpns
    if isinstance(network, Network):
        table.links = np.cumsum([0, *(len(sides) for _, sides in network.sides)])[:-1]
    return table


def _implementations(system: System, counts: Sequence[int], npus: int) -> Records:
    """The algorithm of each collective in each dimension; -1 where there is none."""
    count = len(counts)
    strides = [1, *np.cumprod(counts).tolist()]
    table = allocate(t.COLLECTIVES * count, t.IMPLEMENTATION)
    table.algorithm = -1
    # Files of ASTRA-sim 2.0 say nothing of collectives with a root; NCCL scatters and gathers directly.
    rings, direct = [Algorithm(t.RING_STEPS)] * count, [Algorithm(t.DIRECT)] * count
    usual = {t.BROADCAST: rings, t.REDUCE: rings, t.SCATTER: direct, t.GATHER: direct}
    for collective, algorithms in (usual | dict(system.algorithms)).items():
        if len(algorithms) > count:
            raise InputError(
                f"{len(algorithms)} algorithms for a network of {count} dimensions",
                where=system.where,
                hint="give one for each dimension",
            )
        for dim, algorithm in enumerate(algorithms):
            row = table[collective * count + dim]
            row.algorithm, row.window = algorithm.number, algorithm.window
            row.nodes, row.stride = counts[dim], strides[dim]
            if algorithm.whole:
                row.nodes, row.stride = npus, 1
                break
    return table


def _groups(groups: Mapping[int, Sequence[int]], npus: int) -> tuple[Records, Records, Records]:
    """The groups of ranks; numbers of their chunks begin at a million for each number of a group."""
    rows = allocate(max(len(groups), 1), t.GROUP)
    streams = allocate(npus * max(len(groups), 1), t.COUNTER)
    flat: list[int] = []
    for row, (number, ranks) in enumerate(groups.items()):
        if len(set(ranks)) != len(ranks) or not ranks or min(ranks) < 0 or max(ranks) >= npus:
            raise InputError(
                f"group {number} is not made of ranks below {npus}, each once",
                where="groups",
                hint="list its ranks",
            )
        rows[row].first, rows[row].count = len(flat), len(ranks)
        streams[row :: len(groups)] = number * 1_000_000
        flat += ranks
    members = allocate(max(len(flat), 1), t.COUNTER)
    members.value[: len(flat)] = flat
    return rows, members, streams


def _operations(
    operations: Sequence[Operations], system: System, memory: Memory, groups: Mapping[int, Sequence[int]]
) -> tuple[Records, Records, Records, Records]:
    """All ranks' operations in one table, who waits for each, and those that may begin."""
    parts = [(rank, one, -1) for rank, one in enumerate(operations)]
    first = np.concatenate([[0], np.cumsum([len(one.rows) for one in operations])])
    for rank, one in enumerate(operations):
        parts += [(rank, own, int(first[rank]) + row) for row, own in one.custom.items()]
    total = sum(len(one.rows) for _, one, _ in parts)
    table = allocate(total, t.OPERATION_ROW)
    table.custom = table.owner = table.next = -1
    numbers = {number: row for row, number in enumerate(groups)}
    npus = len(operations)
    lists, at, begun = [], 0, 0
    known: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for (_, owner), same in groupby(parts, key=lambda part: (id(part[1]), part[2])):
        ranks, (one, *_) = zip(*[(rank, one) for rank, one, _ in same], strict=True)
        if id(one) not in known:
            known[id(one)] = (*one.children(), durations_ns(one.rows, system, memory))
        start, children, durations = known[id(one)]
        rows, count = one.rows, len(ranks)
        part: Records = table[at : at + count * len(rows)].reshape(count, len(rows)).view(np.recarray)
        for name in ("kind", "bytes", "peer", "tag", "collective", "involved", "priority"):
            part[name] = rows[name]
        part.npu, part.duration_ns = np.array(ranks)[:, None], durations
        part.start_ns = part.end_ns = -1
        part.place = np.select(
            [rows["on_cpu"] != 0, rows["kind"] == t.COMPUTE, rows["kind"] == t.RECV],
            [t.ON_CPU, t.ON_GPU, t.ON_NOTHING],
            t.ON_WIRE,
        )
        if system.replay:
            part.kind = t.COMPUTE
        part.waits = np.diff(one.dep_start)
        turn = np.arange(count)[:, None]
        part.first_child, part.children = start[:-1] + begun + turn * len(children), np.diff(start)
        part.owner = owner
        if owner >= 0:
            table[owner].custom, table[owner].customs = at, len(rows)
        part.group = _numbered(rows["group"], ranks, numbers, groups, npus)
        part.involved[:, rows["group"] >= 0] = (1 << 62) - 1
        lists.append((children + at + turn * len(rows)).reshape(-1))
        at += count * len(rows)
        begun += count * len(children)
    flat = allocate(max(begun, 1), t.COUNTER)
    flat.value[:begun] = np.concatenate(lists) if lists else []
    places = allocate(npus * t.PLACES, t.PLACE)
    own = int(first[-1])
    key = table.npu[:own] * t.PLACES + table.place[:own]
    counts = np.bincount(key, minlength=npus * t.PLACES)
    places["first"] = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ready = allocate(max(own, 1), t.COUNTER)
    free = np.flatnonzero(table.waits[:own] == 0)
    free = free[np.argsort(key[free], kind="stable")]
    starts = np.bincount(key[free], minlength=npus * t.PLACES)
    before = np.concatenate([[0], np.cumsum(starts)[:-1]])
    ready.value[places["first"][key[free]] + np.arange(len(free)) - before[key[free]]] = free
    places.ready = starts
    return table, flat, ready, places


def _slow(table: Records, speeds: Mapping[int, Fraction], npus: int, where: str) -> None:
    """Let computations take the time of their NPU's speed, in whole nanoseconds, rounded down."""
    for rank, speed in speeds.items():
        if rank >= npus:
            raise InputError(
                f"npu-speed of rank {rank}, of {npus}", where=where, hint="name ranks that there are"
            )
        computes = (table.npu == rank) & np.isin(table.place, (t.ON_CPU, t.ON_GPU))
        table.duration_ns[computes] = at_speed(table.duration_ns[computes], speed)


def _numbered(
    named: np.ndarray,
    ranks: Sequence[int],
    numbers: Mapping[int, int],
    groups: Mapping[int, Sequence[int]],
    npus: int,
) -> np.ndarray:
    """The rows of the groups that operations of some ranks name; -1 for all NPUs."""
    row = {-1: -1}
    for number in set(named[named >= 0].tolist()):
        if number not in numbers:
            raise InputError(f"rank {ranks[0]} names group {number}", where="groups", hint="describe it")
        missing = set(ranks) - set(groups[number])
        if missing:
            raise InputError(
                f"rank {min(missing)} is not in its group {number}", where="groups", hint="add it"
            )
        row[number] = numbers[number] if len(groups[number]) < npus else -1
    return np.array([row[number] for number in named.tolist()], np.int64)
