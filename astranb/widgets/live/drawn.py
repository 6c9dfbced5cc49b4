"""What a page is given to draw a run by cache lines: the scene, and the pictures that may be asked for."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.cacheline.aggregate import link_types
from astranb.export.layout import bundle_of, lay_out
from astranb.widgets.feed.lines import names_of, picture_of, used_links

__all__ = ["drawn"]

_MOST_PICTURES = 32
"""Instances that a page can look into; of more JupyterLab lays out the picture."""


def drawn(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe the scene, and every picture in which one instance is shown alone or is opened."""
    used, links = used_links(engine), len(engine.machine.links)

    def picture(**look: Any) -> dict[str, Any]:
        layout = lay_out(engine.fabric, used, **look)
        return {**picture_of(engine, layout), "bundle_of": bundle_of(layout, links).tolist()}

    layout = lay_out(engine.fabric, used)
    units, kinds = layout.units, link_types(engine.fabric)
    few = len(units.names) <= _MOST_PICTURES
    collapsed = layout.detail.collapsed
    return {
        "scene": names_of(engine),
        "pictures": {
            "start": picture(),
            "alone": {name: picture(focus=name) for name in units.names} if few else {},
            "opened": {name: picture(opened=[name]) for name in units.names} if few and collapsed else {},
            "collapsed": collapsed,
        },
        "instances": {"names": units.names, "of": units.of.tolist(), "gpus": units.gpus},
        "link_types": {"names": kinds[0], "of": kinds[1].tolist()},
        "late_ps": engine.late_ps.tolist() if engine.late_ps.any() else [],
    }
