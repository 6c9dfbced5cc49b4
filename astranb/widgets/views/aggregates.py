"""The busiest links of a window of time; of very large systems tiles, quantiles and a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.drawing.layout import Layout
from astranb.widgets.feed import NOW, Feed, LineFeed, Message, View, pack

__all__ = ["QUANTILES", "VIEW", "aggregates", "hottest", "window_of"]

QUANTILES = (0, 25, 50, 75, 90, 99, 100)
_BINS = 20  # of a histogram of utilisation
_TOP = 12


def window_of(feed: Feed, content: dict[str, Any]) -> tuple[float, float]:
    """The ``window`` of time of a question, in ps, up to the cursor (``at_ps``); all time without one."""
    at_ps = content.get("at_ps")
    now_ps = float(feed.sim.now_ps if at_ps is None else min(at_ps, feed.sim.now_ps))
    window = content.get("window") or (0, now_ps)
    try:
        start, end = (float(part) for part in window)
    except (TypeError, ValueError):
        raise InputError(f"a window is two times in ps, got {window!r}", where="window") from None
    return min(start, now_ps), min(end, now_ps)


def hottest(layout: Layout, busy: np.ndarray, most: int) -> list[tuple[int, float]]:
    """The busiest bundles, and how busy they are; idle ones last, so that there is always a picture.

    ``busy`` is the utilisation of each link; ``most`` how many bundles at most, 0 for all.
    """
    mean = [float(busy[list(lanes)].mean()) for *_, lanes in layout.bundles]
    order = sorted(range(len(mean)), key=lambda number: (-mean[number], number))
    return [(number, mean[number]) for number in (order[:most] if most else order)]


def answer(feed: LineFeed, content: dict[str, Any]) -> Message:
    """Report the bundles of the picture that are drawn with lines: the busiest of a window."""
    layout = feed.layout
    busy = feed.sim.engine.recorder.utilisation(*window_of(feed, content))
    found = hottest(layout, busy, layout.detail.hot)
    meta = {
        "picture": feed.picture,
        "bundles": [number for number, _ in found],
        "busy": [round(part, 4) for _, part in found],
        "of": len(layout.bundles),
    }
    return meta, []


def aggregates(feed: LineFeed, content: dict[str, Any]) -> Message:
    """A very large system in a few numbers: per tile, per pair of tiers, and the busiest links.

    The buffer holds for each tile, in the order of the picture, the mean utilisation of the
    links that leave the instance (float32).
    """
    sim, layout = feed.sim, feed.layout
    busy = sim.engine.recorder.utilisation(*window_of(feed, content))
    used = feed.used
    of = feed.units.of
    src, dst = of[sim.engine.fabric.links["src"][used]], of[sim.engine.fabric.links["dst"][used]]
    leaving = src != dst
    alone = len(feed.units.names) == 1
    units, values = src[leaving | alone], busy[used][leaving | alone]
    count = np.bincount(units, minlength=len(feed.units.names))
    mean = np.bincount(units, values, len(feed.units.names)) / np.maximum(1, count)
    number = {name: unit for unit, name in enumerate(feed.units.names)}
    tiles = np.array([mean[number[name]] for names in layout.tiles for name in names])
    boxes = layout.boxes
    parts = [(f"{boxes[a].label} → {boxes[b].label}", lanes) for a, b, lanes in layout.bundles]
    parts += [(f"within {b.label}", lanes) for b, lanes in zip(boxes, layout.inside, strict=True) if lanes]
    groups = []
    for title, lanes in parts:
        of_group = busy[list(lanes)]
        histogram = np.bincount(np.minimum((of_group * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS)
        groups.append(
            {
                "title": title,
                "links": len(lanes),
                "quantiles": [round(float(q), 4) for q in np.percentile(of_group, QUANTILES)],
                "histogram": histogram.tolist(),
            }
        )
    top = used[np.argsort(-busy[used], kind="stable")[:_TOP]]
    meta = {
        "picture": feed.picture,
        "quantiles": list(QUANTILES),
        "groups": groups,
        "top": [
            {"name": sim.engine.fabric.name(int(k)), "busy": round(float(busy[k]), 4)}
            for k in top
            if busy[k] > 0
        ],
        "links": len(used),
    }
    return meta, pack("aggregates", tiles=tiles)


VIEW = View(LineFeed, {"aggregates": aggregates, "hot": answer}, offline={"aggregates": (NOW,), "hot": ({},)})
