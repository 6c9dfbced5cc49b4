"""Allocate the tables of a machine: from a fabric, GPU presets and a lowered program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from astranb.collectives import Lowered
from astranb.core.jit import Records
from astranb.core.queue import EVENT
from astranb.core.state import allocate, own, require_bytes
from astranb.core.ticks import transfer_ps
from astranb.gpu import Preset
from astranb.gpu import tables as t
from astranb.net import Fabric

from .loop import BREAK, CONTROL, ENTRY, OWNERS
from .recording import FLIGHT, RECORDER

__all__ = ["Machine", "build", "estimate"]

_BINS = 1024  # bins of activity a row: finer than a screen has columns for
_FIRST_BIN_PS = 16_384
_FLIGHTS = 2**20  # flights in the ring: 48 MiB, a 1 MiB ring all-reduce twice over
_BREAKS = 64


@dataclass
class Machine:
    """All tables of one simulated machine, and the loop bound to them.

    Attributes
    ----------
    tables : dict of str to recarray
        The simulated state: every owner of :data:`~astranb.sim.loop.OWNERS`.
    control, breaks, recorder, flights, activity : recarray
        Limits, breakpoints and recording: not simulated.
    """

    tables: dict[str, Records]
    control: Records
    breaks: Records
    recorder: Records
    flights: Records
    activity: Records
    _call: Callable[[], int] | None = None

    def __getattr__(self, name: str) -> Records:
        """Give a table by its name: ``machine.links``."""
        try:
            return self.__dict__["tables"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def run(self) -> int:
        """Call the loop once, up to the limits in ``control``."""
        if self._call is None:
            raw = [
                np.asarray(self.tables[n]).view(np.int64)
                for n in ("links", "gpus", "sms", "blocks", "semaphores")
            ]
            self._call = ENTRY.bind(
                self.control,
                self.breaks,
                self.recorder,
                self.flights,
                self.activity,
                *raw,
                *self.tables.values(),
            )
        return self._call()

    def copy(self, *, record: bool = True) -> Machine:
        """An independent machine in the same state; without its recording where not wanted."""
        recorder = own(self.recorder)
        recorder["on"] &= int(record)
        return Machine(
            {name: own(table) for name, table in self.tables.items()},
            own(self.control),
            own(self.breaks),
            recorder,
            own(self.flights if record else self.flights[:1]),
            own(self.activity if record else self.activity[:1]),
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for table in self.tables.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.nbytes for table in (*self.tables.values(), self.flights, self.activity))


def estimate(fabric: Fabric, presets: Sequence[Preset], program: Lowered) -> int:
    """Estimate the memory that a run takes, in bytes, before anything is allocated."""
    requests = sum(_requests(preset, program, rank) for rank, preset in enumerate(presets))
    warps = sum(p.warps_per_block * int((program.blocks["gpu"] == r).sum()) for r, p in enumerate(presets))
    unroll = max(p.unroll for p in presets)
    return (
        int(program.lines.sum())
        + requests * (t.REQUEST.itemsize + EVENT.itemsize)
        + warps * (t.WARP.itemsize + unroll * t.JOB.itemsize)
        + sum(table.nbytes for table in (program.ops, program.operands, program.pieces, program.blocks))
        + len(fabric.links) * (fabric.links.itemsize + 8 * _BINS)
        + _FLIGHTS * FLIGHT.itemsize
    )


def build(
    fabric: Fabric,
    presets: Sequence[Preset],
    program: Lowered,
    *,
    record: bool,
    memory_bytes: int | None = None,
) -> tuple[Machine, list[str]]:
    """Lay out a machine that is about to start.

    Parameters
    ----------
    fabric : Fabric
    presets : sequence of Preset
        One for each rank.
    program : Lowered
    record : bool
        Whether flights and activity are noted.
    memory_bytes : int, optional
        What the run may take; four fifths of what is free where not given.

    Returns
    -------
    machine : Machine
    notes : list of str
        What had to be assumed about routes.

    Raises
    ------
    InputError
        It would not fit in memory, or two GPUs that must talk have no route.
    """
    require_bytes(
        estimate(fabric, presets, program),
        where=program.name,
        mend="reduce the size, the number of GPUs or the lanes",
        allowed=memory_bytes,
    )
    operands, ways, route, notes = _route(fabric, program)
    tables: dict[str, Records] = {name: allocate(0, dtype) for name, dtype in OWNERS}
    gpus, sms, slices, channels = _gpus(presets, program)
    blocks = own(program.blocks)
    warps_of = np.array([p.warps_per_block for p in presets], np.int64)[blocks["gpu"]]
    unroll_of = np.array([p.unroll for p in presets], np.int64)[blocks["gpu"]]
    blocks["warps"] = warps_of
    blocks["first_warp"] = np.cumsum(warps_of) - warps_of
    blocks["sm"] = -1
    blocks["op"] = blocks["first_op"]
    blocks["started_ps"] = blocks["ended_ps"] = -1
    warps, jobs = _warps(warps_of, unroll_of)
    requests = allocate(
        sum(_requests(p, program, rank) for rank, p in enumerate(presets)), t.REQUEST
    )  # fmt: skip
    requests["next_free"] = np.arange(1, len(requests) + 1)
    clock = allocate(1, t.CLOCK)
    clock["now_ps"] = -1
    tables.update(
        clock=clock,
        heap=allocate(len(requests) + len(sms) + len(blocks) + 1, EVENT),
        gpus=gpus,
        sms=sms,
        slices=slices,
        channels=channels,
        blocks=blocks,
        warps=warps,
        jobs=jobs,
        ops=own(program.ops),
        operands=operands,
        pieces=own(program.pieces),
        semaphores=own(program.semaphores),
        phases=own(program.phases),
        ways=ways,
        route=route,
        requests=requests,
        resident=allocate(max(1, int(program.lines.sum())), np.dtype("u1")),
        links=own(fabric.links),
    )
    _seat(tables)
    recorder = allocate(1, RECORDER)
    rows = len(fabric.links) + 3 * len(presets)
    recorder[0].on, recorder[0].bin_ps, recorder[0].bins, recorder[0].rows = (
        int(record),
        _FIRST_BIN_PS,
        _BINS,
        rows,
    )
    machine = Machine(
        tables,
        allocate(1, CONTROL),
        allocate(_BREAKS, BREAK),
        recorder,
        allocate(_FLIGHTS if record else 1, FLIGHT),
        allocate(rows * _BINS if record else 1, np.dtype("i8")),
    )
    return machine, notes


def _seat(tables: dict[str, Records]) -> None:
    """Give the first blocks of each GPU their SMs, round robin, and queue their launch."""
    gpus, sms, blocks, clock, heap = (tables[n] for n in ("gpus", "sms", "blocks", "clock", "heap"))
    for gpu in range(len(gpus)):
        of_gpu = np.flatnonzero(blocks["gpu"] == gpu)
        first, count = (int(of_gpu[0]), len(of_gpu)) if len(of_gpu) else (0, 0)
        seats = min(count, int(gpus[gpu].sms * gpus[gpu].blocks_per_sm))
        seated = np.arange(first, first + seats)
        blocks["sm"][seated] = gpus[gpu].first_sm + (seated - first) % gpus[gpu].sms
        np.add.at(sms["resident"], blocks["sm"][seated], 1)
        gpus[gpu].next_block, gpus[gpu].last_block = first + seats, first + count
        gpus[gpu].blocks_left = count
    launched = np.flatnonzero(blocks["sm"] >= 0)
    # All at time 0 and in order of their sequence numbers: a list in order is a heap.
    heap["seq"][: len(launched)] = np.arange(len(launched))
    heap["kind"][: len(launched)] = t.LAUNCH
    heap["arg"][: len(launched)] = launched
    clock[0].queued = clock[0].seq = clock[0].busy = len(launched)


def _gpus(presets: Sequence[Preset], program: Lowered) -> tuple[Records, Records, Records, Records]:
    """The records of the GPUs and of their SMs, slices and channels."""
    gpus = allocate(len(presets), t.GPU)
    for name, values in {
        "sms": [p.sms for p in presets],
        "slices": [p.l2_slices for p in presets],
        "channels": [p.hbm_channels for p in presets],
        "issue_ps": [p.issue_ps for p in presets],
        "noc_ps": [p.noc_ps for p in presets],
        "l2_ps": [p.l2_ps for p in presets],
        "hbm_ps": [p.hbm_ps for p in presets],
        "slice_ps": [transfer_ps(p.line_bytes * p.l2_slices, p.l2_Bps) for p in presets],
        "channel_ps": [transfer_ps(p.line_bytes * p.hbm_channels, p.hbm_Bps) for p in presets],
        "max_outstanding": [p.max_outstanding for p in presets],
        "unroll": [p.unroll for p in presets],
        "blocks_per_sm": [p.blocks_per_sm for p in presets],
        "line_bytes": [p.line_bytes for p in presets],
        "header_bytes": [p.header_bytes for p in presets],
        "signal_bytes": [p.signal_bytes for p in presets],
    }.items():
        gpus[name] = values
    for first, count in (("first_sm", "sms"), ("first_slice", "slices"), ("first_channel", "channels")):
        gpus[first] = np.cumsum(gpus[count]) - gpus[count]
    gpus["first_line"] = np.cumsum(program.lines) - program.lines
    sms = allocate(int(gpus["sms"].sum()), t.SM)
    sms["gpu"] = np.repeat(np.arange(len(presets)), gpus["sms"])
    sms["ready_head"] = sms["ready_tail"] = -1
    slices = allocate(int(gpus["slices"].sum()), t.SERVER)
    channels = allocate(int(gpus["channels"].sum()), t.SERVER)
    return gpus, sms, slices, channels


def _warps(warps_of: np.ndarray, unroll_of: np.ndarray) -> tuple[Records, Records]:
    """The warps of every block, each with a list of free jobs as long as its unroll factor."""
    block = np.repeat(np.arange(len(warps_of)), warps_of)
    warps = allocate(len(block), t.WARP)
    unroll = unroll_of[block]
    first_job = np.cumsum(unroll) - unroll
    warps["block"] = block
    warps["loading"] = warps["ready_head"] = warps["ready_tail"] = warps["next_ready"] = -1
    warps["free_job"] = first_job
    jobs = allocate(int(unroll.sum()), t.JOB)
    jobs["warp"] = np.repeat(np.arange(len(block)), unroll)
    jobs["next"] = np.arange(1, len(jobs) + 1)
    jobs["next"][first_job + unroll - 1] = -1
    return warps, jobs


def _route(fabric: Fabric, program: Lowered) -> tuple[Records, Records, Records, list[str]]:
    """Find the ways between the ranks that talk, and enter them in the operands."""
    operands = own(program.operands)
    ops = program.ops
    counts = ops["sources"] + ops["targets"] + (ops["semaphore"] >= 0)
    issuer = np.repeat(program.blocks["gpu"][ops["block"]], counts)
    remote = np.flatnonzero(operands["gpu"] != issuer)
    pairs = set(zip(issuer[remote].tolist(), operands["gpu"][remote].tolist(), strict=True))
    found, notes = fabric.routes(pairs | {(b, a) for a, b in pairs})
    ways: list[tuple[int, int]] = []
    route: list[int] = []
    place: dict[tuple[int, int], tuple[int, int]] = {}
    for pair, options in found.items():
        place[pair] = (len(ways), len(options))
        for option in options:
            ways.append((len(route), len(route) + len(option)))
            route += option
    for operand in remote:
        here, there = int(issuer[operand]), int(operands["gpu"][operand])
        operands["out_way"][operand], operands["out_ways"][operand] = place[here, there]
        operands["back_way"][operand], operands["back_ways"][operand] = place[there, here]
    way_table = allocate(max(1, len(ways)), t.WAY)
    if ways:
        way_table[:] = ways
    route_table = allocate(max(1, len(route)), np.dtype("i4"))
    route_table[: len(route)] = route
    return operands, way_table, route_table, notes


def _requests(preset: Preset, program: Lowered, rank: int) -> int:
    """Requests that one GPU can have under way: the slots of the SMs that have blocks."""
    return preset.max_outstanding * min(preset.sms, int((program.blocks["gpu"] == rank).sum()))
