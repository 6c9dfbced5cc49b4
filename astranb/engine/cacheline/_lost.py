"""Time lost per cause: what every thread block did with the whole time of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from astranb.gpu import tables as t

from ._paths import block_path, gpu_path

if TYPE_CHECKING:
    import pandas as pd

    from astranb.sim._simulation import Simulation

__all__ = ["LOSSES", "lost_time", "lost_times"]

LOSSES = {
    "issuing": "its own instructions take the SM's issue slots",
    "data": "all it may load is under way, or the SM's slots are taken: waiting for data",
    "signalling": "issuing signals",
    "signal": "polling a semaphore that another thread block has yet to raise",
    "stores": "at a fence, until its stores are acknowledged",
    "fence": "in a system-wide fence",
    "launch": "its kernel has not begun",
    "order": "what it depends on has not ended",
    "no SM": "no SM has room for it",
    "ended": "it has ended, others go on",
}
"""Where a thread block's time may go, and what each means."""


def lost_times(sim: Simulation) -> np.ndarray:
    """Times of all thread blocks by cause.

    Parameters
    ----------
    sim : Simulation

    Returns
    -------
    ndarray of int64, shape (blocks, causes)
        In ps, in the order of :data:`LOSSES`; each row adds up to the time of the run so far.
    """
    machine, now_ps = sim.machine, sim.now_ps
    blocks, total = machine.blocks, sim.result.time_ps
    times = np.zeros((len(blocks), len(LOSSES)), np.int64)
    column = {name: times[:, number] for number, name in enumerate(LOSSES)}
    begun = (blocks["state"] != t.PENDING) & (blocks["sm"] >= 0)
    ended = blocks["state"] == t.DONE
    spent = {n: np.asarray(blocks[f"{n}_ps"]).copy() for n in ("moving", "waiting", "draining", "signalling")}
    states = {t.MOVING: "moving", t.WAITING: "waiting", t.DRAINING: "draining", t.SIGNALLING: "signalling"}
    for state, name in states.items():
        here = blocks["state"] == state
        spent[name][here] += now_ps - blocks["since_ps"][here]
    column["signalling"][:] = spent["signalling"]
    column["signal"][:] = spent["waiting"]
    column["issuing"][:] = np.minimum(_issuing(sim), spent["moving"])
    column["data"][:] = spent["moving"] - column["issuing"]
    column["fence"][:] = np.minimum(_fencing(sim), spent["draining"])
    column["stores"][:] = spent["draining"] - column["fence"]
    column["ended"][ended] = total - np.minimum(blocks["ended_ps"][ended], total)
    before = np.where(begun, blocks["started_ps"], total)
    column["launch"][:] = np.minimum(before, blocks["launch_ps"])
    ordered = np.isin(np.arange(len(blocks)), machine.ops["value"][machine.ops["kind"] == t.RELEASE])
    column["order"][ordered] = (before - column["launch"])[ordered]
    column["no SM"][:] = before - column["launch"] - column["order"]
    return times


def _issuing(sim: Simulation) -> np.ndarray:
    """Time of the issue slots that a block's moves and computations have taken: lines times instructions."""
    machine = sim.machine
    ops, blocks, gpus = machine.ops, machine.blocks, machine.gpus
    gpu = blocks["gpu"][ops["block"]]
    loads = np.where(ops["in_switch"] & t.SWITCH_READS, 1, 2 * ops["sources"] - 1)
    stores = np.where(ops["in_switch"] & t.SWITCH_WRITES, 1, ops["targets"])
    done = np.where(ops["kind"] == t.MOVE, (ops["lines"] - ops["left"]) * (loads + stores), 0)
    slot = gpus["issue_ps"][gpu] * gpus["issue_lines"][gpu]
    slot = np.where(blocks["engine"][ops["block"]] == 1, gpus["engine_issue_ps"][gpu], slot)
    counted = (ops["kind"] == t.COMPUTE) & (ops["started_ps"] >= 0)
    most = ops["value"].astype(np.int64) * blocks["warps"][ops["block"]]
    computed = np.where(counted, most - ops["left"], 0) * gpus["issue_ps"][gpu]
    spent = np.where(
        (ops["kind"] == t.SPEND) & (ops["started_ps"] >= 0),
        np.where(ops["ended_ps"] >= 0, ops["ended_ps"], sim.now_ps) - ops["started_ps"],
        0,
    )
    return _per_block(sim, done * slot + computed + spent)


def _fencing(sim: Simulation) -> np.ndarray:
    """Time of the system-wide fences that a block has passed or is in."""
    machine = sim.machine
    ops, blocks, gpus = machine.ops, machine.blocks, machine.gpus
    block = ops["block"]
    cost = gpus["fence_ps"][blocks["gpu"][block]]
    wide = (ops["fence"] & t.SYSTEM_WIDE) > 0
    passed = wide & (ops["started_ps"] >= 0)
    inside = wide & (np.arange(len(ops)) == blocks["op"][block]) & (blocks["fenced"][block] == 1)
    since = sim.now_ps - blocks["since_ps"][block]
    return _per_block(sim, np.where(passed, cost, np.where(inside, np.minimum(cost, since), 0)))


def _per_block(sim: Simulation, times: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(sim.machine.blocks), np.int64)
    np.add.at(sums, sim.machine.ops["block"], times)
    return sums


def lost_time(sim: Simulation, per: str) -> pd.DataFrame:
    """The table of lost times, a row a GPU or a thread block."""
    import pandas as pd

    machine, fabric = sim.machine, sim.fabric
    times, total = lost_times(sim), sim.result.time_ps
    names = [f"{name.replace(' ', '_')}_ps" for name in LOSSES]
    ranks = np.asarray(machine.blocks["gpu"])
    if per == "block":
        paths = [block_path(fabric, machine, b) for b in range(len(times))]
        frame = pd.DataFrame(times, columns=names)
        frame.insert(0, "block", paths)
        frame.insert(0, "rank", ranks)
        frame.insert(2, "time_ps", total)
        return frame
    sums = np.zeros((len(machine.gpus), len(LOSSES)), np.int64)
    np.add.at(sums, ranks, times)
    frame = pd.DataFrame(sums, columns=names)
    frame.insert(0, "gpu", [gpu_path(fabric, rank) for rank in range(len(sums))])
    frame.insert(0, "rank", range(len(sums)))
    frame.insert(2, "blocks", np.bincount(ranks, minlength=len(sums)))
    frame.insert(3, "time_ps", frame["blocks"] * total)
    return frame
