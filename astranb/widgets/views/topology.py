"""The topology: what of it is drawn, and congestion at the entrances of links."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.drawing.layout import Layout
from astranb.engine.cacheline import any_down, is_down, waiting_at
from astranb.net import CLASSES
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, LineFeed, Message, View, pack

from .queues import DOWN

__all__ = ["NO_CREDIT", "PAUSED", "VIEW", "ports"]

_MOST_OPENED = 64

NO_CREDIT, PAUSED = 1, 2
"""Bits of a port's marks: messages wait although the wire is free for lack of a buffer behind
the link; a class has been reported to pause (PFC)."""


def ports(sim: Simulation, layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the queue at the entrance of each bundle at the present time.

    Messages in its queues (links without limits keep none while they are up: their queue is a time); the
    fraction of the buffers behind it that are taken, of the fullest class and lane (0 where buffers are
    unlimited); and `NO_CREDIT`, `PAUSED` and `DOWN`.
    """
    machine = sim.engine.machine
    count, links = len(layout.bundles), len(machine.links)
    waiting, fill, marks = np.zeros(count, np.int64), np.zeros(count), np.zeros(count, np.uint8)
    waits, taken, held = np.zeros(links, np.int64), np.zeros(links), np.zeros(links, np.uint8)
    managed, broken = sim.engine.network.managed, any_down(machine)
    if not managed and not broken:
        return waiting, fill, marks
    if managed:
        waits, taken, held = _entrances(sim, links)
    for link in [link for link in range(links) if broken and is_down(machine, link)]:
        waits[link] = len(waiting_at(machine, link))
        held[link] |= DOWN
    for number, (*_, lanes) in enumerate(layout.bundles):
        rows = list(lanes)
        waiting[number] = waits[rows].sum()
        fill[number] = taken[rows].max()
        marks[number] = np.bitwise_or.reduce(held[rows])
    return waiting, fill, marks


def _entrances(sim: Simulation, links: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each link that has queues: what waits in them, the share of taken buffers, and marks."""
    of = sim.engine.machine.queues[: links * CLASSES]
    waits = of["waiting"].reshape(links, CLASSES)
    paused = (of["paused"].reshape(links, CLASSES) == 1).any(axis=1)
    size = sim.engine.network.buffers
    taken, starved = np.zeros(links), np.zeros(links, bool)
    if size:
        free = of["credits"].reshape(links, CLASSES)
        taken = np.clip(1 - free.min(axis=1) / size, 0, 1)
        starved = ((waits > 0) & (free == 0)).any(axis=1)
    elif sim.engine.network.roce is not None and sim.engine.network.roce.pfc is not None:
        stored = of["stored"].reshape(links, CLASSES).max(axis=1)
        taken = np.clip(stored / max(1, int(sim.engine.machine.roce[0].xoff)), 0, 1)
    return waits.sum(axis=1), taken, (NO_CREDIT * starved + PAUSED * paused).astype(np.uint8)


def answer(feed: LineFeed, content: dict[str, Any]) -> Message:
    """The ports of the picture at the cursor (``at_ps``; now without)."""
    sim = feed.session.at(content.get("at_ps"))
    waiting, fill, marks = ports(sim, feed.layout)
    meta = {"picture": feed.picture, "at_ps": sim.now_ps, "managed": sim.engine.network.managed}
    return meta, pack("ports", waiting=waiting, fill=np.round(255 * fill), marks=marks)


def look(feed: LineFeed, content: dict[str, Any]) -> Message:
    """Look at another part: ``opened`` instances are drawn in full, ``focus`` is drawn alone."""
    opened = [str(name) for name in content.get("opened", ())]
    if len(opened) > _MOST_OPENED:
        raise InputError(f"{len(opened)} instances at once are more than fit", hint="look into one of them")
    feed.look(opened, str(content.get("focus", "")))
    return feed.drawn()


def line(feed: LineFeed, content: dict[str, Any]) -> Message:
    """The path of the line that is on a link and arrives at a time: ``link``, ``end_ps``, ``at_ps``."""
    machine = feed.session.at(content.get("at_ps")).engine.machine
    requests = machine.requests
    here = (requests["live"] == 1) & (requests["link"] == int(content["link"]))
    found = np.flatnonzero(here & (requests["arrives_ps"] == int(content["end_ps"])))
    if not len(found):
        raise InputError("this line has arrived", where="workbench")
    return {"path": f"line[{int(found[0])}]"}, []


VIEW = View(LineFeed, {"line": line, "picture": look, "ports": answer}, offline={"ports": (NOW,)})
