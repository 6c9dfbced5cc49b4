"""Builds the tables of the machine from a workload."""

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
from astranb.net.astrasim2 import FULLY_CONNECTED, SWITCH
from astranb.net.dimension_links import links_of_dimensions
from astranb.workload.astrasim2 import (
    COLLECTIVE_NAMES,
    DimensionAlgorithm,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    Operations,
    System,
    Workload,
)
from astranb.workload.astrasim2.durations import at_speed, durations_ns
from astranb.workload.astrasim2.kinds import INTER, INTRA

from . import tables as t
from .bus import LISTS, SIDES
from .network import Links, communicating_pairs, make_links

__all__ = ["build", "margins", "recording_tables"]

_BACKGROUND_CHUNKS: Final = 500_000
"""Numbers of chunks in the background begin here, so that they differ from those of the first stream."""
_MOST_POINTS: Final = 1024
_MOST_PASSED: Final = 1 << 18
"""Recorded phases of chunks: 21 MB."""
_MOST_FLIGHTS: Final = 1 << 18
"""Recorded messages on their links: 27 MB."""


def build(
    workload: Workload, *, congestion: bool, record: bool = False, folded: bool = False
) -> t.MessageMachine:
    """Make the tables.

    Parameters
    ----------
    workload : Workload
    congestion : bool
        Whether messages queue on links.
    record : bool
        Whether to record phases of chunks and traffic.
    folded : bool
        Whether the first NPU represents all (:mod:`.folding`).

    Raises
    ------
    InputError
        The inputs do not fit together.
    """
    operations, network, system, compat = (
        workload.operations, workload.network, workload.system, workload.compat,
    )  # fmt: skip
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
    rows, children, ready, places = _operations(operations, system, workload.memory, workload.groups)
    if compat and system.speeds:
        raise InputError("ASTRA-sim 2.0 has no npu-speed", where=system.where, hint="leave it out")
    for name, number in COLLECTIVE_NAMES.items():
        if compat and number >= t.BROADCAST and number in system.algorithms:
            what = f"ASTRA-sim 2.0 has no {name}-implementation"
            raise InputError(what, where=system.where, hint="leave it out")
    _apply_speeds(rows, system.speeds, npus, system.where)
    lanes = 1 + int((rows["place"] == t.ON_BACKGROUND).any())
    group_rows, members, streams = _groups(workload.groups, counts, npus, lanes)
    _find_roots(rows, group_rows, members, npus)
    implementations = _implementations(system, counts, npus)
    _check_algorithms(rows, implementations, network, system, compat=compat)
    routed = isinstance(network, InfraNetwork)
    pairs = (
        communicating_pairs(rows, implementations, group_rows, members, npus, compat=compat)
        if routed
        else set()
    )
    links = make_links(network, pairs, congestion=congestion, compat=compat)
    config = allocate(1, t.CONFIG)
    config.npus, config.splits, config.endpoint_ns = npus, system.splits, system.endpoint_ns
    config.concurrent = -(-system.active_chunks // system.queues)
    config.queues, config.lanes, config.baseline = system.queues, lanes, system.baseline
    config.priority_step, config.rendezvous = system.policy, system.rendezvous
    config.congestion, config.folded, config.routed, config.dims = congestion, folded, routed, len(counts)
    config.exact_chunks = config.every_dim = not compat
    config.cut_through, config.ports = congestion and not compat, links.ports
    config.max_phases = max(2 * len(counts), 1)
    config.local_group_ns, config.reduce_Bps = 10, system.memory_Bps
    config.memory_shared_by = workload.memory.shared_by(npus)
    chunks = 1
    collectives = rows[rows["kind"] == t.COLLECTIVE]
    if len(collectives):
        # A size that is not a multiple makes more chunks than given.
        part = np.maximum(collectives["bytes"] // system.splits, 1)
        chunks = int(max((-(-collectives["bytes"] // part)).max(), system.splits)) + 1
    npus = len(operations)
    clock = allocate(1, t.CLOCK)
    clock.cursor = -1
    queue = allocate(1, TIMESTEPS)
    queue.open = queue.latest = -1
    npu_rows = allocate(npus, t.NPU)
    npu_rows.timers = npu_rows.end_ns = -1
    npu_rows.next_background = _BACKGROUND_CHUNKS
    queues = allocate(npus * lanes * len(counts) * system.queues, t.QUEUE)
    queues.head = -1
    tails = allocate(len(queues), t.TAIL)
    tails.value = tails.newest = -1
    allocators = allocate(npus * len(counts), t.ALLOCATOR)
    allocators.last = system.queues // 2
    if not compat:
        # ASTRA-sim 2.0 reads both and goes through the dimensions in the order of their numbers.
        config.inter, config.intra = INTER[system.inter], INTRA[system.intra]
        config.same_order = len(counts) > 1
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
    machine = t.MessageMachine(
        config=config, clock=clock, dims=links.dims, implementations=implementations, npus=npu_rows,
        places=places, queues=queues, tails=tails, allocators=allocators,
        trees=allocate(npus * t.COLLECTIVES * len(counts), t.COUNTER),
        groups=group_rows, members=members, group_streams=streams, operations=rows,
        children=children, ready=ready, memories=memories,
        streams=allocate(npus * chunks + chunks + 8, t.STREAM_ROW),
        phases=allocate((npus * chunks + chunks + 8) * int(config[0].max_phases), t.PHASE),
        timers=allocate(many, t.TIMER), messages=allocate(many, t.MESSAGE),
        buckets=allocate(_power(many), t.BUCKET), links=links.servers,
        ports=allocate(max(1, 2 * npus * links.ports), t.PORT),
        routes=links.routes, hops=links.hops, wires=links.wires,
        schedule=_schedule(network, links), grants=allocate(lanes * len(counts) * system.queues, t.GRANTS),
        bus=allocate(sides, t.BUS), bus_lists=bus_lists, queue=queue,
        timesteps=allocate(_power(2 * many), TIMESTEP), pending=allocate(_power(2 * many), PENDING),
        **recording_tables(rows, config[0], links.dims, len(links.servers), many, record=record),
    )  # fmt: skip
    for name in ("head", "tail"):
        machine.buckets[name] = -1
    machine.timesteps.bucket = -1
    return t.chain_free_rows(machine)


def recording_tables(
    operations: Records, config: Any, dims: Records, links: int, messages: int, *, record: bool
) -> dict[str, Records]:
    """Make the tables of a recording; if nothing is recorded, they have one row each.

    Parameters
    ----------
    operations : recarray of OPERATION_ROW
    config : record of CONFIG
    dims : recarray of DIMENSION
    links, messages : int
        Rows of these tables.
    record : bool
        Whether anything is recorded.
    """
    watch = allocate(1, t.WATCH)
    watch.hit = watch.what = -1
    watch.recording = watch.noting = record
    collectives = int((operations.kind == t.COLLECTIVE).sum())
    phases = collectives * (int(config.splits) + 1) * int(config.max_phases)
    npus = int(config.npus)
    drawn = allocate(npus if record else 1, t.COUNTER)
    drawn.value = 1
    if record and not config.routed:
        drawn.value = links_of_dimensions(dims.kind.tolist(), dims.nodes.tolist()).drawn_ranks()
    # About as many as there are messages: two for each NPU of a phase, over some links each.
    flights = 8 * phases * int(dims.nodes.max()) + 4 * len(operations)
    return {
        "watch": watch,
        "points": allocate(_MOST_POINTS, t.POINT),
        "passed": allocate(max(1, min(phases, _MOST_PASSED)) if record else 1, t.PASSED),
        "traffic": allocate(max(1, npus * len(dims)) if record else 1, t.TRAFFIC),
        "used": allocate(links if record else 1, t.USED),
        "moving": allocate(messages if record else 1, t.MOVING),
        "flights": allocate(max(1024, min(flights, _MOST_FLIGHTS)) if record else 1, t.FLIGHT),
        "drawn": drawn,
    }


def margins(m: t.MessageMachine) -> tuple[int, int]:
    """Give the most rows of timers or messages, and of streams, that one event can take."""
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
    """Give the next power of two."""
    return 1 << (count - 1).bit_length()


def _schedule(network: DimensionNetwork | InfraNetwork, links: Links) -> Records:
    """Make the table of dimensions with their bandwidths."""
    table = allocate(len(network.npus_count), t.SCHEDULE)
    table.nodes = network.npus_count
    if not isinstance(network, DimensionNetwork):
        table.rate = links.dims.rate_Bpns
        return table
    # All links of an NPU together, as in ASTRA-sim 1.0, from which Themis comes.
    whole = np.where(np.array(network.shapes) == FULLY_CONNECTED, np.array(network.npus_count) - 1, 1)
    table.rate = np.array(network.bandwidth) * np.maximum(whole, 1)
    table.links = np.cumsum([0, *(len(sides) for _, sides in network.sides)])[:-1]
    return table


def _implementations(system: System, counts: Sequence[int], npus: int) -> Records:
    """Make the table of the algorithm of each collective in each dimension, -1 for none."""
    count = len(counts)
    strides = [1, *np.cumprod(counts).tolist()]
    table = allocate(t.COLLECTIVES * count, t.IMPLEMENTATION)
    table.algorithm = -1
    # ASTRA-sim 2.0 has no algorithms of collectives with a root; NCCL scatters and gathers directly.
    rings, direct = [DimensionAlgorithm(t.RING_STEPS)] * count, [DimensionAlgorithm(t.DIRECT)] * count
    defaults = {t.BROADCAST: rings, t.REDUCE: rings, t.SCATTER: direct, t.GATHER: direct}
    for collective, algorithms in (defaults | dict(system.algorithms)).items():
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


def _groups(
    groups: Mapping[int, Sequence[int]], counts: Sequence[int], npus: int, lanes: int
) -> tuple[Records, Records, Records]:
    """Make the tables of groups; the chunks of group G are numbered from G million, in each lane apart."""
    rows = allocate(max(len(groups), 1), t.GROUP)
    many = max(len(groups), 1)
    streams = allocate(npus * lanes * many, t.COUNTER)
    flat: list[int] = []
    for row, (number, ranks) in enumerate(groups.items()):
        if len(set(ranks)) != len(ranks) or not ranks or min(ranks) < 0 or max(ranks) >= npus:
            raise InputError(
                f"group {number} is not a list of different ranks below {npus}",
                where="groups",
                hint="list its ranks",
            )
        rows[row].first, rows[row].count = len(flat), len(ranks)
        ranks_of = np.array(ranks)
        for dim, (nodes, stride) in enumerate(zip(counts, np.cumprod([1, *counts]).tolist(), strict=False)):
            if len(set((ranks_of // stride % nodes).tolist())) > 1:
                rows[row].outer = dim
                sizes = set(np.unique(ranks_of // stride, return_counts=True)[1].tolist())
                rows[row].rails = sizes.pop() if len(sizes) == 1 else 1
        for lane in range(lanes):
            streams[lane * many + row :: lanes * many] = number * 1_000_000 + lane * _BACKGROUND_CHUNKS
        flat += ranks
    members = allocate(max(len(flat), 1), t.COUNTER)
    members.value[: len(flat)] = flat
    return rows, members, streams


def _operations(
    operations: Sequence[Operations], system: System, memory: Memory, groups: Mapping[int, Sequence[int]]
) -> tuple[Records, Records, Records, Records]:
    """Make the tables of all operations, of those that wait for each, and of those that can begin."""
    parts = [(rank, one, -1) for rank, one in enumerate(operations)]
    first = np.concatenate([[0], np.cumsum([len(one.rows) for one in operations])])
    for rank, one in enumerate(operations):
        parts += [(rank, own, int(first[rank]) + row) for row, own in one.custom.items()]
    total = sum(len(one.rows) for _, one, _ in parts)
    table = allocate(total, t.OPERATION_ROW)
    table.custom = table.owner = table.next = -1
    numbers = {number: row for row, number in enumerate(groups)}
    npus = len(operations)
    lists, at, listed = [], 0, 0
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
            [
                rows["on_cpu"] != 0,
                rows["kind"] == t.COMPUTE,
                rows["kind"] == t.RECV,
                (rows["kind"] == t.COLLECTIVE) & (rows["stream"] > 0),
            ],
            [t.ON_CPU, t.ON_GPU, t.ON_NOTHING, t.ON_BACKGROUND],
            t.ON_WIRE,
        )
        if system.replay:
            part.kind = t.COMPUTE
        part.waits = np.diff(one.dep_start)
        copy = np.arange(count)[:, None]
        part.first_child, part.children = start[:-1] + listed + copy * len(children), np.diff(start)
        part.owner = owner
        if owner >= 0:
            table[owner].custom, table[owner].customs = at, len(rows)
        part.group = _numbered(rows["group"], ranks, numbers, groups, npus)
        part.involved[:, rows["group"] >= 0] = (1 << 62) - 1
        lists.append((children + at + copy * len(rows)).reshape(-1))
        at += count * len(rows)
        listed += count * len(children)
    flat = allocate(max(listed, 1), t.COUNTER)
    flat.value[:listed] = np.concatenate(lists) if lists else []
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


def _find_roots(table: Records, groups: Records, members: Records, npus: int) -> None:
    """Set the root of each collective that has one; by default the first rank of its group."""
    rooted = (table.kind == t.COLLECTIVE) & (table.collective >= t.BROADCAST) & (table.custom < 0)
    for group, peer in {(int(o.group), int(o.peer)) for o in table[rooted]}:
        ranks = range(npus)
        if group >= 0:
            ranks = members.value[groups[group].first :][: groups[group].count].tolist()
        if peer >= 0 and peer not in ranks:
            raise InputError(
                f"the root of a collective is rank {peer}, which takes no part in it",
                where="broadcast, reduce, scatter or gather",
                hint="name a rank of its group (comm_src; of a reduce or gather comm_dst)",
            )
        if peer < 0:
            table.peer[rooted & (table.group == group) & (table.peer == peer)] = ranks[0]


def _check_algorithms(
    table: Records,
    implementations: Records,
    network: DimensionNetwork | InfraNetwork,
    system: System,
    *,
    compat: bool,
) -> None:
    """Check that every collective has algorithms that can do it."""
    chosen = implementations.reshape(t.COLLECTIVES, -1)
    used = table[(table.kind == t.COLLECTIVE) & (table.custom < 0)]
    names = {number: name.replace("_", "-") for name, number in COLLECTIVE_NAMES.items()}
    for collective in sorted(set(used.collective.tolist())):
        name = names[collective]
        if chosen[collective, 0].algorithm < 0:
            what = f"{name}-implementation is missing"
            raise InputError(what, where=system.where, hint="name an algorithm")
        for dim, row in enumerate(chosen[collective]):
            odd = row.nodes & (row.nodes - 1)
            what = ""
            if row.algorithm == t.IN_NETWORK:
                what = _no_switch(collective, dim, network, compat=compat)
            elif row.algorithm == t.HALVING and collective == t.ALL_TO_ALL:
                what = f"{name}-implementation cannot be halvingDoubling"
            elif collective >= t.BROADCAST:
                continue
            elif row.algorithm == t.TREE and (collective != t.ALL_REDUCE or odd):
                what = f"doubleBinaryTree does an all-reduce of 2, 4, 8, … NPUs, not {name} of {row.nodes}"
            elif row.algorithm == t.HALVING and odd and not compat:  # a deadlock in ASTRA-sim 2.0
                what = f"halvingDoubling does an {name} of 2, 4, 8, … NPUs, not of {row.nodes}"
            if what:
                raise InputError(what, where=system.where, hint="use ring")


def _no_switch(collective: int, dim: int, network: DimensionNetwork | InfraNetwork, *, compat: bool) -> str:
    """Say why no switch of a dimension can do a collective; empty if one can."""
    if compat:
        return "ASTRA-sim 2.0 has no inNetwork"
    if not isinstance(network, DimensionNetwork) or network.shapes[dim] != SWITCH:
        return f"inNetwork in dimension {dim}, which is not a Switch"
    if collective == t.ALL_TO_ALL:
        return "a switch cannot do an all-to-all (inNetwork)"
    return "a switch cannot do a scatter or a gather (inNetwork)" if collective >= t.SCATTER else ""


def _apply_speeds(table: Records, speeds: Mapping[int, Fraction], npus: int, where: str) -> None:
    """Scale the durations of computations by the speed of their NPU."""
    for rank, speed in speeds.items():
        if rank >= npus:
            raise InputError(f"npu-speed of rank {rank}, of {npus}", where=where, hint="name existing ranks")
        computes = (table.npu == rank) & np.isin(table.place, (t.ON_CPU, t.ON_GPU))
        table.duration_ns[computes] = at_speed(table.duration_ns[computes], speed)


def _numbered(
    named: np.ndarray,
    ranks: Sequence[int],
    numbers: Mapping[int, int],
    groups: Mapping[int, Sequence[int]],
    npus: int,
) -> np.ndarray:
    """Give the rows of the groups that operations name; -1 for all NPUs."""
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
