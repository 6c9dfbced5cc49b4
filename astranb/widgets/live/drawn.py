"""What a page is given to draw a run by cache lines; ``static/live/layout.js`` lays pictures out."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.cacheline.aggregate import link_types
from astranb.infragraph import family
from astranb.widgets.feed.lines import names_of

__all__ = ["drawn"]


def drawn(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe the scene but for places, the types of links, and when ranks begin."""
    names, of = link_types(engine.fabric)
    return {
        "scene": names_of(engine),
        "link_types": {"names": names, "families": [family(name) for name in names], "of": of.tolist()},
        "late_ps": engine.late_ps.tolist() if engine.late_ps.any() else [],
    }
