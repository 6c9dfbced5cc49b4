"""One GPU from within: what each SM does, and how busy L2 slices and HBM channels are."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.gpu import tables as t
from astranb.sim import Simulation
from astranb.widgets.feed import COLUMNS, NOW, LineFeed, Message, View, pack

__all__ = ["SM_STATES", "VIEW", "device", "sm_states"]

SM_STATES = ("free", "done", "busy", "waiting", "draining", "stalled")
"""States of an SM, by number; of several blocks' states the last named one counts."""


def sm_states(machine: Any) -> np.ndarray:
    """Return the state of every SM of every GPU, by number in `SM_STATES`."""
    blocks = machine.blocks
    state = np.zeros(len(machine.sms), np.uint8)
    placed = blocks["sm"] >= 0
    sm, now = blocks["sm"][placed], blocks["state"][placed]
    # Lowest first, so that of several blocks the one that does most counts.
    for name, of in (
        ("done", (t.DONE,)), ("draining", (t.DRAINING,)), ("waiting", (t.WAITING,)),
        ("busy", (t.MOVING, t.SIGNALLING)),
    ):  # fmt: skip
        state[sm[np.isin(now, of)]] = SM_STATES.index(name)
    state[machine.sms["stalled"] == 1] = SM_STATES.index("stalled")
    return state


def device(sim: Simulation, rank: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the activity inside one GPU at the present time.

    The columns hold of each SM its state (number in `SM_STATES`), blocks on it and requests under way;
    of each L2 slice and then of each HBM channel the busy fraction of all time so far, and for how long
    (ps) what waits there will keep it busy.

    Raises
    ------
    InputError
        There is no such rank.
    """
    machine = sim.engine.machine
    if not 0 <= rank < len(machine.gpus):
        raise InputError(f"unknown gpu[{rank}]", hint=f"ranks are 0 to {len(machine.gpus) - 1}")
    gpu, now = machine.gpus[rank], max(1, sim.now_ps)
    first, last = int(gpu.first_sm), int(gpu.first_sm + gpu.sms)
    blocks = machine.blocks
    mine = np.flatnonzero((blocks["sm"] >= first) & (blocks["sm"] < last))
    place = blocks["sm"][mine] - first
    live = np.isin(blocks["state"][mine], (t.DONE, t.PENDING), invert=True)
    here = np.bincount(place[live], minlength=last - first)
    under_way = machine.sms["outstanding"][first:last]
    memory = []
    for table, begin, count in (
        ("l2_slices", gpu.first_l2_slice, gpu.l2_slices),
        ("hbm_channels", gpu.first_hbm_channel, gpu.hbm_channels),
    ):
        rows = machine.tables[table][int(begin) : int(begin + count)]
        memory += [np.minimum(rows["busy_ps"] / now, 1.0), np.maximum(0, rows["free_at_ps"] - sim.now_ps)]
    meta = {
        "rank": rank,
        "name": sim.engine.fabric.graph.name(int(sim.engine.fabric.gpus[rank])),
        "preset": sim.engine.presets[rank].name,
        "at_ps": sim.now_ps,
        "states": list(SM_STATES),
        "sms": last - first,
        "slices": int(gpu.l2_slices),
        "channels": int(gpu.hbm_channels),
        "slots": int(gpu.max_outstanding),
    }
    return meta, [sm_states(machine)[first:last], here, under_way, *memory]


def answer(feed: LineFeed, content: dict[str, Any]) -> Message:
    """One GPU at the cursor (``at_ps``; now without)."""
    sim = feed.session.at(content.get("at_ps"))
    meta, columns = device(sim, int(content["rank"]))
    return meta, pack("device", **dict(zip(COLUMNS["device"], columns, strict=True)))


VIEW = View(LineFeed, {"device": answer}, offline={"device": tuple({"rank": r, **NOW} for r in range(8))})
