"""Time lost per cause: what every thread block did with the whole time of the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.gpu import tables as t

from .paths import block_path, gpu_path
from .state import CacheLineState
from .time_classes import STARTED_LATE

__all__ = ["LOSSES", "lost_time", "lost_times"]

LOSSES = {
    "issue": "its own instructions take the SM's issue slots",
    "data": "all it may load is under way, or the SM's slots are taken: waiting for data",
    "signal": "issuing signals",
    "semaphore": "polling a semaphore that another thread block has yet to raise",
    "fence: stores": "at a fence, until its stores are acknowledged",
    "fence: own": "in a system-wide fence",
    STARTED_LATE: "its rank has not started",
    "idle: launch": "its kernel has not begun",
    "idle: order": "what it depends on has not ended",
    "idle: no SM": "no SM has room for it",
    "idle: ended": "it has ended, others go on",
}
"""Classes of a thread block's time (names as in ``time_classes.py``), and their meanings."""


def lost_times(engine: CacheLineState) -> np.ndarray:
    """Times of all thread blocks by cause.

    Parameters
    ----------
    engine : CacheLineState

    Returns
    -------
    ndarray of int64, shape (blocks, causes)
        In ps, in the order of :data:`LOSSES`; each row adds up to the time of the run so far.
    """
    machine, now_ps = engine.machine, engine.now_ps
    blocks, total = machine.blocks, engine.time_ps
    times = np.zeros((len(blocks), len(LOSSES)), np.int64)
    column = {name: times[:, number] for number, name in enumerate(LOSSES)}
    begun = (blocks["state"] != t.PENDING) & (blocks["sm"] >= 0)
    ended = blocks["state"] == t.DONE
    spent = {n: np.asarray(blocks[f"{n}_ps"]).copy() for n in ("moving", "waiting", "draining", "signalling")}
    states = {t.MOVING: "moving", t.WAITING: "waiting", t.DRAINING: "draining", t.SIGNALLING: "signalling"}
    for state, name in states.items():
        here = blocks["state"] == state
        spent[name][here] += now_ps - blocks["since_ps"][here]
    column["signal"][:] = spent["signalling"]
    column["semaphore"][:] = spent["waiting"]
    column["issue"][:] = np.minimum(_issuing(engine), spent["moving"])
    column["data"][:] = spent["moving"] - column["issue"]
    column["fence: own"][:] = np.minimum(_fencing(engine), spent["draining"])
    column["fence: stores"][:] = spent["draining"] - column["fence: own"]
    column["idle: ended"][ended] = total - np.minimum(blocks["ended_ps"][ended], total)
    before = np.where(begun, blocks["started_ps"], total)
    column[STARTED_LATE][:] = late_ps = np.minimum(before, engine.late_ps[blocks["gpu"]])
    column["idle: launch"][:] = np.minimum(before, blocks["launch_ps"]) - late_ps
    before = before - late_ps
    ordered = np.isin(np.arange(len(blocks)), machine.ops["value"][machine.ops["kind"] == t.RELEASE])
    column["idle: order"][ordered] = (before - column["idle: launch"])[ordered]
    column["idle: no SM"][:] = before - column["idle: launch"] - column["idle: order"]
    return times


def _issuing(engine: CacheLineState) -> np.ndarray:
    """Time of the issue slots that a block's moves and computations have taken: lines times instructions."""
    machine = engine.machine
    ops, blocks, gpus = machine.ops, machine.blocks, machine.gpus
    gpu = blocks["gpu"][ops["block"]]
    loads = np.where(ops["in_switch"] & t.SWITCH_READS, 1, 2 * ops["sources"] - 1)
    stores = np.where(ops["in_switch"] & t.SWITCH_WRITES, 1, ops["targets"])
    done = np.where(ops["kind"] == t.MOVE, (ops["lines"] - ops["left"]) * (loads + stores), 0)
    slot = gpus["issue_ps"][gpu] * gpus["issue_lines"][gpu]
    unit = blocks["engine"][ops["block"]]
    slot = np.choose(unit, [slot, gpus["engine_issue_ps"][gpu], gpus["nic_issue_ps"][gpu]])
    counted = (ops["kind"] == t.COMPUTE) & (ops["started_ps"] >= 0)
    most = ops["value"].astype(np.int64) * blocks["warps"][ops["block"]]
    computed = np.where(counted, most - ops["left"], 0) * gpus["issue_ps"][gpu]
    spent = np.where(
        (ops["kind"] == t.SPEND) & (ops["started_ps"] >= 0),
        np.where(ops["ended_ps"] >= 0, ops["ended_ps"], engine.now_ps) - ops["started_ps"],
        0,
    )
    return _per_block(engine, done * slot + computed + spent + _tiles(engine))


def _tiles(engine: CacheLineState) -> np.ndarray:
    """Time that matrix units have computed for each operation."""
    ops, tiles = engine.machine.ops, engine.machine.tiles
    times = np.zeros(len(ops), np.int64)
    of = np.flatnonzero(ops["kind"] == t.TILE)
    row = tiles[ops["value"][of]]
    times[of] = row["computed"] * row["step_ps"]
    return times


def _fencing(engine: CacheLineState) -> np.ndarray:
    """Time of the system-wide fences that a block has passed or is in."""
    machine = engine.machine
    ops, blocks, gpus = machine.ops, machine.blocks, machine.gpus
    block = ops["block"]
    cost = gpus["fence_ps"][blocks["gpu"][block]]
    wide = (ops["fence"] & t.SYSTEM_WIDE) > 0
    passed = wide & (ops["started_ps"] >= 0)
    inside = wide & (np.arange(len(ops)) == blocks["op"][block]) & (blocks["fenced"][block] == 1)
    since = engine.now_ps - blocks["since_ps"][block]
    return _per_block(engine, np.where(passed, cost, np.where(inside, np.minimum(cost, since), 0)))


def _per_block(engine: CacheLineState, times: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(engine.machine.blocks), np.int64)
    np.add.at(sums, engine.machine.ops["block"], times)
    return sums


def lost_time(engine: CacheLineState, per: str) -> dict[str, Any]:
    """Columns of lost times, a row a rank or a thread block."""
    machine, fabric = engine.machine, engine.fabric
    times, total = lost_times(engine), engine.time_ps
    names = [f"{name.replace(': ', '_').replace(' ', '_')}_ps" for name in LOSSES]
    ranks = np.asarray(machine.blocks["gpu"])
    if per == "block":
        paths = [block_path(fabric, machine, b) for b in range(len(times))]
        who: dict[str, Any] = {"rank": ranks, "block": paths, "time_ps": np.full(len(times), total)}
        return who | dict(zip(names, times.T, strict=True))
    sums = np.zeros((len(machine.gpus), len(LOSSES)), np.int64)
    np.add.at(sums, ranks, times)
    blocks = np.bincount(ranks, minlength=len(sums))
    paths = [gpu_path(fabric, rank) for rank in range(len(sums))]
    who = {"rank": np.arange(len(sums)), "gpu": paths, "blocks": blocks, "time_ps": blocks * total}
    return who | dict(zip(names, sums.T, strict=True))
