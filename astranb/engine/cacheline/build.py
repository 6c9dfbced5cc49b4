"""Allocate the tables of a machine: from a fabric, GPU presets and a lowered program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from astranb.collectives import Collective, Joined, Lowered, lower
from astranb.core.errors import InputError, near
from astranb.core.progress import stage
from astranb.core.queue import ARGUMENTS, EVENT, LATER, new_queue
from astranb.core.state import allocate, own, require_bytes
from astranb.core.ticks import transfer_ps
from astranb.core.units import format_bytes, format_time, time_ps
from astranb.gpu import EMPTY, Preset
from astranb.gpu import tables as t
from astranb.net import ARBITRATIONS, CLASSES, FLOW, LINK, MULTIPATHS, QUEUE, Fabric, Network
from astranb.workload.kernels import tile_of

from .loop import CONTROL, OWNERS
from .machine import CacheLineMachine
from .matching import POINT
from .network import fault_tables, frames_of, roce_table
from .occupancy import place_blocks
from .recording import BURST, CURRENT, FLIGHT, GPU_ROWS, RECORDER, Recording
from .routes import flows_of, machine_links, planes_of, route_program
from .tracing import TRACE
from .workload import Graph

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = [
    "BINS",
    "LAUNCHES",
    "MachinePlan",
    "build",
    "lower_for",
    "lowers_alike",
    "recording_bytes",
    "recording_tables",
]

_BREAKS = 1024
_MOST_LATENCY_PS = 10**12  # a thread block that waits polls each microsecond or so
_MOST_GPUS = 65_535  # a request names them in 16 bits
_UNLIMITED = 2**40
_QUEUE_PAIR = 64  # requests whose data one queue pair of a NIC reads at once: 256 KiB

LAUNCHES = ("none", "graph", "stream")
"""Launch modes of kernels: without cost, replayed in a graph, launched one by one."""


@dataclass(frozen=True)
class MachinePlan:
    """Everything a machine is built from.

    Attributes
    ----------
    fabric : Fabric
    presets : sequence of Preset
        One for each rank.
    program : Lowered
    network : Network
    launch : str
        As :func:`launches_ps` takes it.
    late_ps : sequence of int
        How late each rank starts; empty: none does.
    """

    fabric: Fabric
    presets: Sequence[Preset]
    program: Lowered
    network: Network
    launch: str = "none"
    late_ps: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Check the launch mode."""
        launches_ps((), self.launch)


def lower_for(
    collective: Collective | Graph,
    presets: Sequence[Preset],
    fabric: Fabric,
    network: Network,
    launch: str = "none",
) -> tuple[list[Preset], Lowered]:
    """Lower what is to run for the GPUs of a fabric; packets always travel line by line."""
    chosen = [p.coalesced(network.coalesce) for p in presets]
    first = chosen[0]
    stage("thread blocks", 0.4)
    if isinstance(collective, Graph):
        if len(collective.operations) != len(presets):
            raise InputError(
                f"{len(collective.operations)} ranks for an infrastructure of {len(presets)} GPUs",
                where=collective.title,
                hint="take one with as many GPUs",
            )
        return chosen, collective.lowered(
            fabric.shape,
            chosen,
            compute_lines=network.compute_lines,
            launch_ps=launches_ps(presets, launch),
        )
    if collective.size > first.memory_bytes:  # before a program of so many steps is written
        raise InputError(
            f"a buffer of {format_bytes(collective.size)}, the memory of a {first.name} is "
            f"{format_bytes(first.memory_bytes)}",
            where=collective.title,
            hint="reduce the size",
        )
    program = lower(
        collective.on_gpu(first.sms).program(len(presets), fabric.shape),
        kind=collective.name,
        size=collective.size,
        tiled=partial(tile_of, gpu=first),
        **_lowering(first, network),
    )
    if program.flags and network.coalesce > 1:
        return lower_for(collective, presets, fabric, replace(network, coalesce=1), launch)
    return presets_for(program, presets, network), program


def _lowering(first: Preset, network: Network) -> dict[str, int]:
    """Return the numbers that a program of a collective is lowered with; lines are coalesced already."""
    return {
        "line_bytes": first.line_bytes,
        "unroll": first.unroll,
        "bulk_lines": first.bulk_lines,
        "engine_lines": first.engine_lines,
        "nic_lines": first.nic_lines,
        "nic_post_ps": first.nic_post_ps,
        "tile_lines": network.compute_lines,
    }


def lowers_alike(program: Lowered, one: tuple[Preset, Network], other: tuple[Preset, Network]) -> bool:
    """Return whether lowering again, for another kind of GPU and network, would give the same program."""
    if len(program.tiles) and one[0] != other[0]:  # a tile depends on what its GPU's kernels achieve
        return False
    now, then = (_lowering(gpu.coalesced(network.coalesce), network) for gpu, network in (one, other))
    return now == then


def presets_for(program: Lowered, presets: Sequence[Preset], network: Network) -> list[Preset]:
    """Return the presets of GPUs that run a program: lines coalesced, and as many under way as it asks for.

    Parameters
    ----------
    program : Lowered
    presets : sequence of Preset
        As chosen.
    network : Network
    """
    lines = 1 if program.flags else network.coalesce  # packets travel line by line
    most = -(-program.lines_per_sm // lines)
    chosen = (p.coalesced(lines) for p in presets)
    return [p if p.max_outstanding >= most else p.but(max_outstanding=most) for p in chosen]


def launches_ps(presets: Sequence[Preset], launch: str) -> list[int]:
    """Return what each GPU takes to launch a kernel, in ps.

    Parameters
    ----------
    presets : sequence of Preset
    launch : str
        One of :data:`LAUNCHES`, a time, or both with a plus: ``stream + 6.6 us``.

    Raises
    ------
    InputError
        There is no such launch.
    """
    name, plus, more = (part.strip() for part in launch.partition("+"))
    if name[:1].isdigit() and not plus:
        name, more = "none", name
    if name not in LAUNCHES:
        raise InputError(f"unknown launch {launch!r:.80}", where="launch", hint=near(name, LAUNCHES))
    if plus and not more:
        what = f"{launch!r:.80} has no time after +"
        raise InputError(what, where="launch", hint="write it as 'stream + 6.6 us'")
    costs_ps = {"none": [0] * len(presets)}
    costs_ps |= {"graph": [p.graph_ps for p in presets], "stream": [p.launch_ps for p in presets]}
    extra_ps = time_ps(more, where="launch") if more else 0
    return [cost_ps + extra_ps for cost_ps in costs_ps[name]]


def build(
    plan: MachinePlan, *, record: bool, memory_bytes: int | None = None
) -> tuple[CacheLineMachine, list[str]]:
    """Lay out a machine that is about to start.

    Parameters
    ----------
    plan : MachinePlan
    record : bool
        Whether flights and activity are recorded.
    memory_bytes : int, optional
        What the run may take; four fifths of what is free where not given.

    Returns
    -------
    machine : CacheLineMachine
    notes : list of str
        What had to be assumed about routes.

    Raises
    ------
    InputError
        It would not fit in memory, a link's latency is above a second, two GPUs that must talk
        have no route, or a switch that should add up cannot be found.
    """
    program, fabric, presets = plan.program, plan.fabric, plan.presets
    delay = fabric.links["latency_ps"] + fabric.links["forward_ps"]
    for link in np.flatnonzero(delay > _MOST_LATENCY_PS)[:1].tolist():
        raise InputError(
            f"the latency of {fabric.name(link)} is {format_time(int(delay[link]))}",
            where=program.name,
            hint="at most 1 s in a run by cache lines; use fidelity='congestion'",
        )
    require_bytes(
        _estimate(plan),
        where=program.name,
        hint="reduce the size, the number of GPUs or the channels",
        allowed=memory_bytes,
    )
    for rank, preset in enumerate(presets):
        taken = int(program.lines[rank]) * preset.line_bytes
        if taken > preset.memory_bytes:
            raise InputError(
                f"the buffers of rank {rank} take {format_bytes(taken)}, the memory of a {preset.name} is "
                f"{format_bytes(preset.memory_bytes)}",
                where=program.name,
                hint="reduce the size",
            )
    stage("routes", 0.9)
    operands, routes, found, notes = route_program(fabric, program)
    stage("memory and queues", 1.0)
    tables: dict[str, Records] = {name: allocate(0, dtype) for name, dtype in OWNERS.items()}
    gpus = _gpus(plan)
    planes, routes, route_links = planes_of(fabric, program, gpus, routes, found)
    roce = roce_table(plan.network, fabric)
    flows = flows_of(fabric, routes, route_links) if roce[0].dcqcn else allocate(1, FLOW)
    links = machine_links(fabric, presets, gpus, plan.network.proxy_ps)
    blocks, ops = own(program.blocks), own(program.ops)
    if (
        plan.network.arbitration == "fair"
        or gpus["mesh"].any()
        or any(f.latency for f in plan.network.faults)
    ):
        # A signal could overtake the data that it announces: the NIC waits until the data has come.
        posted = (blocks["engine"][ops["block"]] == t.NIC) & (ops["kind"] == t.NOTIFY)
        ops["fence"][posted] = t.ACKNOWLEDGED
    warps_of, unroll_of = _width(presets, program)
    blocks["warps"] = warps_of
    blocks["first_warp"] = np.cumsum(warps_of) - warps_of
    blocks["sm"] = blocks["post"] = -1
    blocks["roles"] = np.bincount(np.arange(len(blocks)) - blocks["role"], minlength=len(blocks))
    blocks["op"] = blocks["first_op"]
    blocks["started_ps"] = blocks["ended_ps"] = -1
    if not isinstance(program, Joined):  # whose kernels are launched when their dependencies have ended
        # Kernels come one after the other through one queue.
        cost_ps = np.array(launches_ps(presets, plan.launch), np.int64)
        blocks["launch_ps"] = cost_ps[blocks["gpu"]] * (blocks["kernel"] + 1)
    if len(plan.late_ps):
        blocks["launch_ps"] += np.array(plan.late_ps, np.int64)[blocks["gpu"]]
    warps, jobs = _warps(warps_of, unroll_of)
    requests = allocate(_requests(plan), t.REQUEST)
    requests["next_free"] = np.arange(1, len(requests) + 1)
    faults, when = fault_tables(plan.network, fabric, links)
    if len(presets) > _MOST_GPUS:
        raise InputError(f"{len(presets):,} GPUs", where=program.name, hint=f"at most {_MOST_GPUS:,}")
    frames = frames_of(roce, links)
    paused = 2 * CLASSES * len(fabric.links) if frames else 0
    if max(len(requests), len(blocks), len(links), len(faults), len(flows), paused) >= ARGUMENTS:
        raise InputError(
            f"a machine of more than {ARGUMENTS:,} requests, thread blocks, links or flows",
            where=program.name,
            hint="reduce the number of GPUs, the channels or max_outstanding",
        )
    clock = allocate(1, t.CLOCK)
    clock["now_ps"] = clock["resumes"] = -1
    clock["multipath"] = MULTIPATHS.index(plan.network.multipath)
    clock["cut_through"] = plan.network.cut_through
    clock["managed"] = plan.network.managed
    clock["finite"] = plan.network.buffers > 0
    clock["arbitration"] = ARBITRATIONS.index(plan.network.arbitration)
    clock["detailed"] = (
        plan.network.managed
        or gpus["mesh"].any()
        or program.flags > 0
        or program.ops["in_switch"].any()
        or (program.ops["payload"] > gpus["line_bytes"].min()).any()
    )
    units = gpus["sms"] + gpus["engines"] + gpus["nics"]
    sms = allocate(int(units.sum()), t.SM)
    sms["gpu"] = np.repeat(np.arange(len(presets)), units)
    behind = np.arange(len(sms)) - (gpus["first_sm"] + gpus["sms"])[sms["gpu"]]
    sms["engine"] = np.select([behind < 0, behind < gpus["engines"][sms["gpu"]]], [0, t.COPY_ENGINE], t.NIC)
    sms["ready_head"] = sms["ready_tail"] = -1
    queues = allocate(len(links) * CLASSES if plan.network.managed else 1, QUEUE)
    queues["head"] = queues["tail"] = -1
    queues["credits"] = plan.network.buffers or _UNLIMITED
    held = gpus["sets"] * gpus["l2_ways"]
    direct = gpus["direct"] == 1
    tags = allocate(max(1, int(held[~direct].sum())), "i4")
    tags[:] = EMPTY
    channels = allocate(int(gpus["hbm_channels"].sum()), t.SERVER)
    channels["row"] = -1
    wires = len(links) if plan.network.managed else 0
    queue = new_queue(
        clock, len(requests) + len(sms) + 2 * len(blocks) + len(faults) + wires + frames + 2 * len(flows) + 1
    )
    tables.update(
        clock=clock,
        near=queue.near,
        later=queue.later,
        slots=queue.slots,
        far=queue.far,
        gpus=gpus,
        sms=sms,
        l2_slices=allocate(int(gpus["l2_slices"].sum()), t.SERVER),
        hbm_channels=channels,
        blocks=blocks,
        warps=warps,
        jobs=jobs,
        ops=ops,
        tiles=own(program.tiles),
        operands=operands,
        slices=own(program.slices),
        semaphores=own(program.semaphores),
        phases=own(program.phases),
        routes=routes,
        planes=planes,
        route_links=route_links,
        requests=requests,
        details=allocate(len(requests) if clock[0].detailed else 1, t.DETAIL),
        tags=tags,
        present=allocate(max(1, int(held[direct].sum())), "u1"),
        flags=allocate(max(1, program.flags), "u1"),
        faults=faults,
        queues=queues,
        roce=roce,
        flows=flows,
        links=links,
    )
    place_blocks(tables, presets, when)
    recording = recording_tables(program, len(fabric.links), len(presets), len(sms), record=record)
    machine = CacheLineMachine(tables, allocate(1, CONTROL), allocate(_BREAKS, POINT), recording)
    if presets[0].issue_lines > 1:
        notes = [*notes, f"{presets[0].issue_lines} lines travel as one request: times are not exact"]
    return machine, notes


def _estimate(plan: MachinePlan) -> int:
    """Estimate the memory that a run takes, in bytes, before anything is allocated."""
    program = plan.program
    warps_of, unroll_of = _width(plan.presets, program)
    shapes = [_tags(p, int(n)) for p, n in zip(plan.presets, program.lines, strict=True)]
    tags = sum((1 if direct else 4) * sets * ways for sets, ways, direct in shapes)
    return (
        tags
        + program.flags
        + _requests(plan) * (t.REQUEST.itemsize + t.DETAIL.itemsize + 2 * EVENT.itemsize + LATER.itemsize)
        + int(warps_of.sum()) * t.WARP.itemsize
        + int((warps_of * unroll_of).sum()) * t.JOB.itemsize
        + sum(table.nbytes for table in (program.ops, program.operands, program.slices, program.blocks))
        + len(plan.fabric.links) * LINK.itemsize
        + recording_bytes(program, len(plan.fabric.links))
    )


def _width(presets: Sequence[Preset], program: Lowered) -> tuple[np.ndarray, np.ndarray]:
    """Warps of each block, and lines that each of its warps keeps under way."""
    gpu, engine = program.blocks["gpu"], program.blocks["engine"]
    warps = np.array([p.warps_per_block for p in presets], np.int64)[gpu]
    unroll = np.array([p.unroll for p in presets], np.int64)[gpu]
    # Of packets a thread keeps one access of 16 B under way (LL, MSCCL++) or four (LL128), of NCCL_LL128_
    # SHMEM_ELEMS_PER_THREAD words (NVIDIA/nccl @5067397c, src/include/device.h, src/device/prims_ll.h).
    access = np.array([p.access_lines for p in presets], np.int64)[gpu]
    line_bytes = np.array([p.line_bytes for p in presets], np.int64)[gpu]
    least = np.full(len(gpu), np.iinfo(np.int64).max)
    packed = np.flatnonzero((program.ops["kind"] == t.MOVE) & (program.ops["lines"] > 0))
    np.minimum.at(least, program.ops["block"][packed], program.ops["payload"][packed])
    unroll = np.where(least <= line_bytes // 2, np.minimum(unroll, access), unroll)
    unroll = np.where(
        (least > line_bytes // 2) & (least < line_bytes), np.minimum(unroll, 4 * access), unroll
    )
    deep = np.array([p.engine_outstanding for p in presets], np.int64)[gpu]
    posted = np.array([min(p.nic_outstanding, _QUEUE_PAIR) for p in presets], np.int64)[gpu]
    own_warps = program.blocks["warps"]  # of compute kernels, whose warps are stages
    warps = np.where(own_warps > 0, own_warps, warps)
    tiles = np.flatnonzero(program.ops["kind"] == t.TILE)
    stages = program.tiles["stages"][program.ops["value"][tiles]]
    np.maximum.at(warps, program.ops["block"][tiles], stages)
    return np.where(engine > 0, 1, warps), np.choose(engine, [unroll, deep, posted])


def _requests(plan: MachinePlan) -> int:
    """Requests that can be under way: at most the slots of the SMs and engines that have blocks.

    A switch makes one for each of its GPUs out of one. A load that waits to be tried again has given
    its slot back, but not its row: each warp can have as many as its lines have sources.
    """
    ops = plan.program.ops
    spinning = np.flatnonzero(ops["spins"] > 0)
    sources = np.zeros(len(plan.program.blocks), np.int64)
    np.maximum.at(sources, ops["block"][spinning], ops["sources"][spinning])
    warps, unroll = _width(plan.presets, plan.program)
    total = int((sources * warps * unroll).sum())
    # No more than a GPU ever makes: a line of each operand, and each signal or wait.
    reads, writes = ((ops["in_switch"] & bit) > 0 for bit in (t.SWITCH_READS, t.SWITCH_WRITES))
    made = ops["lines"] * (np.where(reads, 1, ops["sources"]) + np.where(writes, 1, ops["targets"])) + 1
    made_by_switch = ops["lines"] * (reads.astype(np.int64) + writes)
    # Of a block, loads have a place in its warps each; stores have those of its SM.
    multiplied = np.where(np.bincount(ops["block"], reads, len(sources)) > 0, warps * unroll, 0)
    multiplied[ops["block"][writes]] = np.iinfo(np.int64).max
    copies = int(np.maximum(reads * ops["sources"], writes * ops["targets"]).max(initial=0))
    owner = plan.program.blocks["gpu"][ops["block"]]
    ever, ever_multiplied = (np.bincount(owner, each, len(plan.presets)) for each in (made, made_by_switch))
    staged = _staged(plan)
    posts = np.bincount(ops["block"][(ops["kind"] == t.NOTIFY) & (ops["before"] > 0)], minlength=len(sources))
    total += int(np.minimum(posts, t.POSTED).sum())
    for rank, preset in enumerate(plan.presets):
        mine = plan.program.blocks[plan.program.blocks["gpu"] == rank]
        blocks, lists, pairs = np.bincount(mine["engine"], minlength=3).tolist()
        slots = preset.max_outstanding * min(preset.sms, blocks)
        slots += preset.engine_outstanding * min(preset.engines, lists)
        slots += preset.nic_outstanding * min(preset.nics, pairs) + 2 * pairs
        slots += int(staged[rank]) * preset.sms
        total += min(slots, int(ever[rank]))
        in_switch = np.minimum(multiplied[plan.program.blocks["gpu"] == rank], preset.max_outstanding)
        total += min(slots, int(in_switch.sum()), int(ever_multiplied[rank])) * copies
    return total


def _staged(plan: MachinePlan) -> np.ndarray:
    """Requests that fill the stages of as many tiles as fit on one SM, of each GPU."""
    program, most = plan.program, np.zeros(len(plan.presets), np.int64)
    ops, blocks = program.ops, program.blocks
    tiles = np.flatnonzero(ops["kind"] == t.TILE)
    block = ops["block"][tiles]
    row = program.tiles[ops["value"][tiles]]
    filled = row["stages"] * row["step_lines"].astype(np.int64)
    on_sm = t.ROOM // np.maximum(1, blocks["held"][block])
    np.maximum.at(most, blocks["gpu"][block], filled * on_sm)
    return most


def _tags(preset: Preset, lines: int) -> tuple[int, int, int]:
    """Sets and ways of the L2, and whether each line has a place of its own.

    Buffers of at most half its capacity never overflow a set to speak of: then a place a
    line is the same, smaller and faster.
    """
    capacity = preset.l2_bytes // preset.line_bytes
    if 2 * lines <= capacity:
        return lines, 1, 1
    return capacity // preset.l2_ways, preset.l2_ways, 0


def _gpus(plan: MachinePlan) -> Records:
    """The records of the GPUs."""
    presets, program = plan.presets, plan.program
    gpus = allocate(len(presets), t.GPU)
    same = (
        "sms", "blocks_on_sm", "engines", "issue_ps", "issue_lines", "noc_ps", "l2_ps", "hbm_ps",
        "atomic_ps", "row_miss_ps", "fence_ps", "poll_ps", "access_lines", "packet_ps", "max_outstanding",
        "engine_issue_ps", "engine_outstanding", "nics", "nic_issue_ps", "nic_outstanding",
        "nic_header_bytes", "line_bytes", "header_bytes", "max_payload", "signal_bytes", "multimem_percent",
        "mesh", "columns", "rows", "ports", "l2_slices", "hbm_channels",
    )  # fmt: skip
    for name in same:
        gpus[name] = [getattr(p, name) for p in presets]
    gpus["usable"] = np.minimum(program.sms or gpus["sms"], gpus["sms"])
    gpus["slice_ps"] = [_service_ps(p.line_bytes * p.l2_slices, p.l2_Bps) for p in presets]
    gpus["channel_ps"] = [_service_ps(p.line_bytes * p.hbm_channels, p.hbm_Bps) for p in presets]
    gpus["row_lines"] = [max(1, p.row_bytes // p.line_bytes) * p.hbm_channels for p in presets]
    used = [int(n) for n in program.lines]
    shapes = [_tags(p, n) for p, n in zip(presets, used, strict=True)]
    gpus["sets"], gpus["l2_ways"], gpus["direct"] = (list(column) for column in zip(*shapes, strict=True))
    gpus["far_ps"] = [
        p.far_ps if n * p.line_bytes > p.near_bytes else 0 for p, n in zip(presets, used, strict=True)
    ]
    for first, count in (
        ("first_sm", gpus["sms"] + gpus["engines"] + gpus["nics"]),
        ("first_l2_slice", gpus["l2_slices"]),
        ("first_hbm_channel", gpus["hbm_channels"]),
    ):
        gpus[first] = np.cumsum(count) - count
    for kind in (0, 1):
        held = np.where(gpus["direct"] == kind, gpus["sets"] * gpus["l2_ways"], 0)
        gpus["first_tag"] += np.where(gpus["direct"] == kind, np.cumsum(held) - held, 0)
    return gpus


def _service_ps(size: int, rate: int) -> int:
    return transfer_ps(size, rate) if rate else 0


def _warps(warps_of: np.ndarray, unroll_of: np.ndarray) -> tuple[Records, Records]:
    """The warps of every block, each with a list of free jobs as long as its unroll factor."""
    block = np.repeat(np.arange(len(warps_of)), warps_of)
    warps = allocate(len(block), t.WARP)
    unroll = unroll_of[block]
    first_job = np.cumsum(unroll) - unroll
    warps["block"] = block
    for name in ("loading", "ready_head", "ready_tail", "next_ready", "retry_head", "retry_tail"):
        warps[name] = -1
    warps["free_job"] = first_job
    jobs = allocate(int(unroll.sum()), t.JOB)
    jobs["warp"] = np.repeat(np.arange(len(block)), unroll)
    jobs["next"] = np.arange(1, len(jobs) + 1)
    jobs["next"][first_job + unroll - 1] = -1
    return warps, jobs


BINS = 1024
"""Bins of activity a row: finer than a screen has columns for."""

_FIRST_BIN_PS = 16_384
_FLIGHTS = 2**20  # flights in the ring: 64 MiB, a 1 MiB ring all-reduce twice over
_BURSTS = 2**20  # of SMs in theirs: 24 MiB
_LANDED = 2**22  # most lines of memory whose last writer is recorded: 16 MiB


def recording_tables(program: Lowered, links: int, gpus: int, sms: int, *, record: bool) -> Recording:
    """Allocate the tables of a recording by name; of one row each without a recording."""
    recorder = allocate(1, RECORDER)
    rows = links + GPU_ROWS * gpus
    recorder[0].on, recorder[0].bin_ps, recorder[0].bins = int(record), _FIRST_BIN_PS, BINS
    recorder[0].rows, recorder[0].links = rows, links
    lines = int(program.slices["lines"].sum())
    recorder[0].landing = int(record and lines <= _LANDED)
    landed = allocate(lines if recorder[0].landing else 1, "i4")
    if recorder[0].landing:
        landed[:] = np.repeat(program.slices["writer"], program.slices["lines"])
    places = allocate(len(program.slices), "i8")
    places[:] = np.cumsum(program.slices["lines"]) - program.slices["lines"]
    current = allocate(sms if record else 1, CURRENT)
    current["state"] = -1
    return Recording(
        recorder=recorder,
        flights=allocate(_FLIGHTS if record else 1, FLIGHT),
        activity=allocate(rows * BINS if record else 1, "i8"),
        trace=allocate(1, TRACE),
        bursts=allocate(_BURSTS if record else 1, BURST),
        current=current,
        landed=landed,
        places=places,
    )


def recording_bytes(program: Lowered, links: int) -> int:
    """Estimate what they take, in bytes."""
    lines = 4 * min(_LANDED, int(program.lines.sum()))
    return links * 8 * BINS + _FLIGHTS * FLIGHT.itemsize + _BURSTS * BURST.itemsize + lines
