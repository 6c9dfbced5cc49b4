"""The picture as a message: boxes, frames and bundles of one layout, and which link is in which."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError
from astranb.sim import Simulation

from ._layout import Layout

if TYPE_CHECKING:
    from ._feed import Feed, Message

__all__ = ["answer", "bundle_name", "bundle_of", "describe", "picture"]

_MOST_OPENED = 64


def bundle_of(layout: Layout, links: int) -> np.ndarray:
    """Where each link is drawn.

    Parameters
    ----------
    layout : Layout
    links : int
        How many links there are.

    Returns
    -------
    ndarray of int32, shape (links,)
        Its bundle; -2 - b inside box b; -1 nowhere.
    """
    of = np.full(links, -1, np.int32)
    for number, (*_, lanes) in enumerate(layout.bundles):
        of[list(lanes)] = number
    for number, lanes in enumerate(layout.inside):
        of[list(lanes)] = -2 - number
    return of


def bundle_name(sim: Simulation, layout: Layout, number: int) -> str:
    """Name of a bundle: of its link where it is one, else of the boxes at its ends."""
    a, b, lanes = layout.bundles[number]
    rows = sim.engine.fabric.links[list(lanes)]
    if (rows["src"] == rows["src"][0]).all() and (rows["dst"] == rows["dst"][0]).all():
        return sim.engine.fabric.name(lanes[0]).partition("#")[0]
    return f"{layout.boxes[a].name}->{layout.boxes[b].name}"


def describe(layout: Layout) -> str:
    """Say in words what is drawn and what is left out."""
    words = [*layout.shapes]
    gpus = sum(box.count for box in layout.boxes if box.rank >= 0 and box.kind != "tier")
    total, hot = len(layout.bundles), layout.detail.hot
    if layout.focus:
        words.insert(0, f"only {layout.focus} and what it is joined with")
    elif layout.detail.level == "aggregates":
        words.append("too many to draw one by one: a tile is an instance, a band is a tier")
    else:
        if layout.detail.level == "collapsed":
            words.append(f"{gpus:,} GPUs: each instance is one box")
        elif hot and total > hot:
            words.append(f"{gpus:,} GPUs")
        if hot and total > hot:
            words.append(f"only the {hot} hottest of {total:,} links are drawn with lines")
    return " · ".join(words)


def picture(sim: Simulation, layout: Layout, number: int, opened: Collection[str] = ()) -> Message:
    """Make the part of the scene that says where everything stands.

    Parameters
    ----------
    sim : Simulation
    layout : Layout
    number : int
        Of the picture, counted by its view: timelines are about one of them.
    opened : collection of str
        Instances that were asked to be shown in full.

    Returns
    -------
    Message
        The one buffer holds :func:`bundle_of`.
    """
    rates = sim.engine.machine.links["bandwidth_Bps"]
    boxes: list[dict[str, Any]] = [
        {
            "name": b.name, "label": b.label, "kind": b.kind, "rank": b.rank if b.count == 1 else -1,
            "ranks": [b.rank, b.last_rank], "count": b.count, "x": b.x, "y": b.y, "w": b.width, "h": b.height,
        }
        for b in layout.boxes
    ]  # fmt: skip
    bundles = [
        {
            "from": a, "to": b, "rate": int(rates[list(lanes)].sum()),
            "name": bundle_name(sim, layout, number), "bent": layout.bent[number],
        }
        for number, (a, b, lanes) in enumerate(layout.bundles)
    ]  # fmt: skip
    frames = [{"name": f.name, "x": f.x, "y": f.y, "w": f.width, "h": f.height} for f in layout.frames]
    meta = {
        "picture": number,
        "level": layout.detail.level,
        "hot": layout.detail.hot,
        "note": describe(layout),
        "focus": layout.focus,
        "opened": list(opened),
        "width": layout.width,
        "height": layout.height,
        "hidden": layout.hidden,
        "boxes": boxes,
        "frames": frames,
        "bundles": bundles,
        "tiles": [list(names) for names in layout.tiles],
    }
    return meta, [bundle_of(layout, len(sim.engine.machine.links)).astype("<i4").tobytes()]


def answer(feed: Feed, content: dict[str, Any]) -> Message:
    """Look at another part: ``opened`` instances are drawn in full, ``focus`` is drawn alone."""
    opened = [str(name) for name in content.get("opened", ())]
    if len(opened) > _MOST_OPENED:
        raise InputError(f"{len(opened)} instances at once are more than fit", hint="look into one of them")
    feed.look(opened, str(content.get("focus", "")))
    return picture(feed.sim, feed.layout, feed.picture, feed.opened)
