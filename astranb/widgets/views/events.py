"""A table of what happened around the cursor: when, what, and to which object."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import events_around
from astranb.engine.operations import ends_around
from astranb.widgets.feed import Feed, Message, View

__all__ = ["VIEW"]

_MOST = 20  # before the cursor, and after it


def events(feed: Feed, options: dict[str, Any]) -> Message:
    """List the events around ``at_ps`` (null: now): time in ps, what happened, the object."""
    sim, at_ps = feed.sim, options.get("at_ps")
    here = sim.now_ps if at_ps is None else int(at_ps)
    around = events_around if sim.fidelity == "cacheline" else ends_around
    return {"at_ps": here, "rows": around(sim.engine, here, _MOST)}, []


VIEW = View(Feed, {"events": events}, offline={"events": ({"at_ps": None},)})
