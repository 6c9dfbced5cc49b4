"""Bundles: links that are drawn as one line, their names, and what a layout leaves out."""

from __future__ import annotations

import numpy as np

from astranb.core.plural import plural
from astranb.net import Fabric

from .parts import Layout

__all__ = ["bundle_name", "bundle_of", "describe"]


def bundle_of(layout: Layout, links: int) -> np.ndarray:
    """Return the place of each link, as int32: its bundle; -2 - b inside box b; -1 if it is not drawn."""
    of = np.full(links, -1, np.int32)
    for number, (*_, lanes) in enumerate(layout.bundles):
        of[list(lanes)] = number
    for number, lanes in enumerate(layout.inside):
        of[list(lanes)] = -2 - number
    return of


def bundle_name(fabric: Fabric, layout: Layout, number: int) -> str:
    """Name of a bundle: of its link where it is one, else of the boxes at its ends."""
    a, b, lanes = layout.bundles[number]
    sources, targets = fabric.ends
    if len({(sources[lane], targets[lane]) for lane in lanes}) == 1:
        return fabric.name(lanes[0]).partition("#")[0]
    return f"{layout.boxes[a].name}->{layout.boxes[b].name}"


def describe(layout: Layout) -> str:
    """Describe what is drawn and what is left out."""
    notes = [*layout.shapes]
    gpus = sum(box.count for box in layout.boxes if box.rank >= 0 and box.kind != "tier")
    total, hot = len(layout.bundles), layout.detail.hot
    if layout.focus:
        notes.insert(0, f"only {layout.focus} and what it is joined with")
    elif layout.detail.level == "aggregates":
        notes.append("too many to draw one by one: a tile is an instance, a band is a tier")
    else:
        if layout.detail.level == "collapsed":
            notes.append(f"{plural(gpus, 'GPU')}: each instance is one box")
        elif hot and total > hot:
            notes.append(plural(gpus, "GPU"))
        if hot and total > hot:
            notes.append(f"of many lines in flight those on the {hot} hottest of {total:,} links are drawn")
    return " · ".join(notes)
