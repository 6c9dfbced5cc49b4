"""Messages that wait for the links of a workload's network now, and links that are down."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.widgets.feed import NOW, Message, OperationFeed, View, pack

__all__ = ["DOWN", "VIEW"]

DOWN = 4
"""A bit of a bundle's marks: one of its links is down (``static/sketch.js``)."""


def answer(feed: OperationFeed, content: dict[str, Any]) -> Message:
    """The queues of the bundles at the cursor (``at_ps``; now without)."""
    sim = feed.session.at(content.get("at_ps"))
    waiting, down = sim.engine.queues(feed.drawn)
    count = len(feed.layout.bundles)
    on = feed.bundle_of >= 0
    sums = np.bincount(feed.bundle_of[on], waiting[on], count)
    marks = DOWN * (np.bincount(feed.bundle_of[on], down[on], count) > 0)
    meta = {"picture": 0, "at_ps": sim.now_ps, "managed": False}
    return meta, pack("ports", waiting=sums, fill=np.zeros(count), marks=marks)


VIEW = View(OperationFeed, {"ports": answer}, offline={"ports": (NOW,)})
