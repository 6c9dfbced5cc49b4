"""Builds the tables of the machine from a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.core.timesteps import PENDING, TIMESTEP, TIMESTEPS
from astranb.net import FULLY_CONNECTED, SWITCH, links_of_dimensions
from astranb.workload.astrasim2 import (
    COLLECTIVE_NAMES,
    DimensionNetwork,
    InfraNetwork,
    RankOperations,
    System,
    Workload,
    at_speed,
)
from astranb.workload.astrasim2.kinds import INTER, INTRA

from . import tables as t
from .bus import LISTS, SIDES
from .channels import add_channels
from .fold import Fold
from .implementations import implementations_of
from .library_costs import CollectiveCosts, add_costs
from .network import Links, Pairs, communicating_pairs, make_links
from .operation_tables import BACKGROUND_CHUNKS, Chosen, group_rows, make_groups, make_operations

__all__ = ["build", "margins", "recording_tables"]

_MOST_POINTS: Final = 1024
_MOST_PASSED: Final = 1 << 18
"""Recorded phases of chunks: 21 MB."""
_MOST_FLIGHTS: Final = 1 << 18
"""Recorded messages on their links: 27 MB."""


def build(
    workload: Workload,
    *,
    congestion: bool,
    record: bool = False,
    fold: Fold | None = None,
    frame: bool = False,
) -> t.MessageMachine:
    """Make the tables.

    Parameters
    ----------
    workload : Workload
    congestion : bool
        Whether messages queue on links.
    record : bool
        Whether to record phases of chunks and traffic.
    fold : Fold, optional
        Which ranks represent all others: only these have rows (:mod:`.folding`).
    frame : bool
        With ``fold``: all ranks have rows, but their operations are left out.

    Raises
    ------
    InputError
        The inputs do not fit together.
    """
    network, system, compat = workload.network, workload.system, workload.compat
    npus = network.npus
    if len(workload.operations) != npus:
        raise InputError(
            f"{len(workload.operations)} ranks for a network of {npus} NPUs",
            where=network.where,
            hint="give as many traces as the network has NPUs",
        )
    counts = list(network.npus_count)
    groups: Sequence[tuple[int, Sequence[int]]] = list(workload.groups.items())
    if fold is None:
        ranks = RankOperations.of(workload.operations)
        chosen = Chosen(np.arange(npus), group_rows(ranks, workload.groups, npus))
        made = make_operations(ranks, chosen, system, workload.memory)
    else:
        made = make_operations(fold.operations, fold.chosen, system, workload.memory)
        groups = groups if frame else fold.groups
    rows, children, ready, places = made
    owners = npus if fold is None or frame else len(fold.chosen.ranks)
    for given, name in ((system.speeds, "npu-speed"), (system.library_channels, "channels")):
        if compat and given:
            raise InputError(f"ASTRA-sim 2.0 has no {name}", where=system.where, hint="leave it out")
    for name, number in COLLECTIVE_NAMES.items():
        if compat and number >= t.BROADCAST and number in system.algorithms:
            what = f"ASTRA-sim 2.0 has no {name}-implementation"
            raise InputError(what, where=system.where, hint="leave it out")
    _apply_speeds(rows, system.speeds, npus, system.where)
    lanes = 1 + int((rows["place"] == t.ON_BACKGROUND).any())
    implementations = implementations_of(system, counts, npus)
    routed = isinstance(network, InfraNetwork)
    number = 1 + max((number for number, _ in groups), default=0)
    channels, costs = [], CollectiveCosts(allocate(1, t.COST), everyone=False)
    if isinstance(network, InfraNetwork) and system.cost != "wire":
        costs = add_costs(rows, [ranks for _, ranks in groups], network, in_graph=system.cost == "graph")
        if costs.everyone:
            groups, number = [*groups, (number, range(npus))], number + 1
    by_library = system.library_channels or system.cost != "wire"
    if isinstance(network, InfraNetwork) and by_library and system.bus is None:
        channels = add_channels(rows, [ranks for _, ranks in groups], network, implementations, costs.table)
    rings = [(number + k, channel.ranks) for k, channel in enumerate(channels)]
    group_table, members, streams = make_groups([*groups, *rings], counts, npus, lanes)
    if channels:
        group_table.rails = 1  # no ring stands for others
    group_table.chain[len(groups) : len(groups) + len(rings)] = [channel.chain for channel in channels]
    _find_roots(rows, group_table, members, npus)
    _check_algorithms(rows, implementations, network, system, compat=compat)
    pairs = Pairs.none()
    if routed:
        pairs = communicating_pairs(
            rows, implementations, costs.table, group_table, members, npus, compat=compat
        )
    links = make_links(network, pairs, congestion=congestion, compat=compat)
    config = allocate(1, t.CONFIG)
    config.npus, config.splits, config.endpoint_ns = npus, system.splits, system.endpoint_ns
    config.concurrent = -(-system.active_chunks // system.queues)
    config.queues, config.lanes, config.baseline = system.queues, lanes, system.baseline
    config.priority_step, config.rendezvous = system.policy, system.rendezvous
    config.congestion, config.routed, config.dims, config.width = congestion, routed, len(counts), 1
    config.folded = fold is not None and not frame
    config.exact_chunks = config.every_dim = not compat
    config.cut_through, config.ports = congestion and not compat, links.ports
    config.max_phases = max(2 * len(counts), 1)
    config.local_group_ns, config.reduce_Bps = 10, system.memory_Bps
    config.memory_shared_by = workload.memory.shared_by(npus)
    chunks = 1
    collectives = rows[rows["kind"] == t.COLLECTIVE]
    if len(collectives):
        # A size that is not a multiple makes more chunks than given.
        chunks = int(_most_chunks(collectives, system.splits, costs.table).max())
    npus = owners
    clock = allocate(1, t.CLOCK)
    clock.cursor = -1
    queue = allocate(1, TIMESTEPS)
    queue.open = queue.latest = -1
    npu_rows = allocate(npus, t.NPU)
    npu_rows.timers = npu_rows.end_ns = -1
    if isinstance(network, InfraNetwork):
        shape = network.fabric.shape
        npu_rows.node = np.arange(npus) // shape.per_node
        config.width = 1 if compat else shape.per_node
        group_table.width = [shape.among(ranks).per_node for _, ranks in [*groups, *rings]] or 1
    npu_rows.next_background = BACKGROUND_CHUNKS
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
        config=config, clock=clock, dims=links.dims, implementations=implementations,
        costs=costs.table, npus=npu_rows,
        places=places, queues=queues, tails=tails, allocators=allocators,
        trees=allocate(npus * t.COLLECTIVES * len(counts), t.COUNTER),
        groups=group_table, members=members, group_streams=streams, operations=rows,
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
        fold=allocate(1, t.FOLDED), meeting=allocate(1, t.TIE), last_use=allocate(1, t.LAST_USE),
        **recording_tables(rows, config[0], links.dims, len(links.servers), many, record=record),
    )  # fmt: skip
    if fold is not None and frame:
        machine = machine._replace(places=fold.spread_places(places, len(rows)))
    elif fold is not None:
        last_use = allocate(len(machine.ports) + len(queues) + npus, t.LAST_USE)
        last_use.block = -1
        meeting = allocate(len(machine.messages), t.TIE)
        machine = machine._replace(fold=fold.table(), meeting=meeting, last_use=last_use)
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
    rings = int(operations.rings[operations.kind == t.COLLECTIVE].sum())
    phases = rings * (int(config.splits) + 1) * int(config.max_phases)
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
    """Return the most rows of timers or messages, and of streams, that one event can take."""
    operations = m.operations
    window = 1
    direct = (t.DIRECT, t.ONE_SHOT)
    if np.isin(m.implementations.algorithm, direct).any() or np.isin(m.costs.algorithm, direct).any():
        window = int(m.config[0].npus)
    collectives = operations[operations.kind == t.COLLECTIVE]
    chunks = 1
    if len(collectives):
        splits = int(m.config[0].splits)
        splits = max(splits, int(m.costs.pieces.max()))
        chunks = int(_most_chunks(collectives, splits, m.costs).max()) + splits + 2
    concurrent = max(int(m.config[0].concurrent), int(m.costs.pieces.max()))
    at_once = min(chunks, concurrent * int(operations.rings.max(initial=1))) + 1
    posted = int(np.bincount(operations.npu).max()) if len(operations) else 0
    each = 1 + int(m.config[0].routed)  # a message that goes in quanta has a row of its first link, too
    return each * (4 * window * at_once + 2 * posted) + 64, chunks


def _most_chunks(collectives: Records, splits: int, costs: Records) -> np.ndarray:
    """Bound the chunks of each collective: a size that is not a multiple makes more than given."""
    given = np.where(collectives.cost >= 0, costs.pieces[collectives.cost], splits) * collectives.rings
    part = np.maximum(collectives.bytes // given, 1)
    found: np.ndarray = np.maximum(-(-collectives.bytes // part), given) + 1
    return found


def _power(count: int) -> int:
    """Return the next power of two."""
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
    used = table[(table.kind == t.COLLECTIVE) & (table.custom < 0) & (table.cost < 0)]
    names = {number: name.replace("_", "-") for name, number in COLLECTIVE_NAMES.items()}
    for collective in sorted(set(used.collective.tolist())):
        name = names[collective]
        if chosen[collective, 0].algorithm < 0:
            what = f"{name}-implementation is missing"
            raise InputError(what, where=system.where, hint="name an algorithm")
        # NCCL's trees are there for any number of ranks.
        chained = (used[used.collective == collective].ring >= 0).all()
        for dim, row in enumerate(chosen[collective]):
            odd = row.nodes & (row.nodes - 1)
            what = ""
            if row.algorithm == t.IN_NETWORK:
                what = _no_switch(collective, dim, network, compat=compat)
            elif row.algorithm == t.ONE_SHOT and collective != t.ALL_REDUCE:
                what = f"directOneShot does an all-reduce, not {name}"
            elif row.algorithm == t.HALVING and collective == t.ALL_TO_ALL:
                what = f"{name}-implementation cannot be halvingDoubling"
            elif collective >= t.BROADCAST:
                continue
            elif row.algorithm == t.TREE and (collective != t.ALL_REDUCE or (odd and not chained)):
                what = f"doubleBinaryTree does an all-reduce of 2, 4, 8, … NPUs, not {name} of {row.nodes}"
            elif row.algorithm == t.HALVING and odd and not compat:  # a deadlock in ASTRA-sim 2.0
                what = f"halvingDoubling does an {name} of 2, 4, 8, … NPUs, not of {row.nodes}"
            if what:
                raise InputError(what, where=system.where, hint="use ring")


def _no_switch(collective: int, dim: int, network: DimensionNetwork | InfraNetwork, *, compat: bool) -> str:
    """Explain why no switch of a dimension can do a collective; empty if one can."""
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
