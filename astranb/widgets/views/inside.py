"""Inside of each GPU in the topology at the cursor: SMs, memories, links and contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.cacheline import sums
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, LineFeed, Message, View, pack

from .device import SM_STATES, sm_states

__all__ = ["VIEW", "held", "inside"]

_MOST_CELLS = 4_096  # chunks of all GPUs together
_MOST_NUMBERS = 4_000_000  # ranks times slices: working out what they hold takes about 50 ms


def inside(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Answer with the activity of each GPU at the cursor (``at_ps``; now without).

    Columns: ``sms``, by GPU and state (`SM_STATES`), how many of its SMs with thread blocks are in it;
    ``l2``, ``hbm`` and ``out``, a byte a GPU, 255 being all: how busy its L2 slices, HBM channels and links
    to the outside were around the cursor, on average over ``over_ps``, if this is ``known``: was recorded.
    """
    sim = feed.session.at(options.get("at_ps"))
    machine, gpus = sim.engine.machine, len(sim.engine.machine.gpus)
    engaged = np.unique(machine.blocks["sm"][machine.blocks["sm"] >= 0])
    state, of = sm_states(machine)[engaged], machine.sms["gpu"][engaged]
    counts = np.bincount(of * len(SM_STATES) + state, minlength=gpus * len(SM_STATES))
    over_ps, links, inner = feed.sim.engine.recorder.near(sim.now_ps)
    known = feed.sim.engine.recorder.on and not _unrecorded(feed, sim.now_ps - over_ps, sim.now_ps)
    sizes = [len(out) for out in feed.out_of]
    leaving = links[[link for out in feed.out_of for link in out]]
    out = np.bincount(np.repeat(np.arange(gpus), sizes), leaving, gpus) / np.maximum(1, sizes)
    meta = {"at_ps": sim.now_ps, "over_ps": over_ps, "known": known, "states": list(SM_STATES)}
    return meta, pack("inside", sms=counts, l2=_bytes(inner[:, 1]), hbm=_bytes(inner[:, 2]), out=_bytes(out))


def _bytes(part: np.ndarray) -> np.ndarray:
    """Fractions as bytes; what is busy at all is not 0."""
    return np.asarray(np.ceil(255 * np.clip(part, 0, 1)))


def _unrecorded(feed: LineFeed, start_ps: int, end_ps: int) -> bool:
    """Return whether a part of an interval has not been recorded."""
    return any(start < end_ps and end > start_ps for start, end in feed.sim.unrecorded)


def held(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Report the chunks on each rank at the cursor (``at_ps``; now without), and the links of the last phase.

    Columns: of each chunk of the result, by rank and chunk, its ``rank``, how much of it is there (``share``,
    a byte: 255 is all) and whether it is ``final``; of each bundle of links how busy it was in the phase. No
    ``phase`` is named before the first one has ended, and where it was not recorded.
    """
    sim = feed.session.at(options.get("at_ps"))
    name, start, end = sim.engine.last_event().phase
    if _unrecorded(feed, start, end):
        name = ""
    busy = feed.sim.engine.recorder.utilisation(start, end) if name else np.zeros(0)
    lanes = [list(bundle[2]) for bundle in feed.layout.bundles] if name else []
    rank, share, final = _chunks(sim)
    meta = {
        "picture": feed.picture, "at_ps": sim.now_ps, "phase": name, "from_ps": start, "to_ps": end,
        "chunks": int(np.bincount(rank).max(initial=0)),
    }  # fmt: skip
    links = np.array([float(busy[of].mean()) for of in lanes])
    return meta, pack("held", rank=rank, share=share, final=final, bundles=_bytes(links))


def _chunks(sim: Simulation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank, share that is there and whether it is final of each promised chunk; none of too many."""
    none = np.zeros(0, np.int64)
    if len(sim.engine.machine.slices) * sim.engine.program.ranks > _MOST_NUMBERS:
        return none, none, none
    try:
        found = sim.contributions("fullest" if sums(sim.engine) else "output")
    except InputError:
        return none, none, none
    wanted = found.cells["promised"] > 0
    if wanted.sum() > _MOST_CELLS:
        return none, none, none
    cells = found.cells[wanted]
    present = np.minimum((found.least[wanted] > 0).sum(axis=1), cells["promised"])
    return cells["rank"], np.round(255 * present / cells["promised"]), cells["kept"]


VIEW = View(LineFeed, {"inside": inside, "held": held}, offline={"inside": (NOW,), "held": (NOW,)})
