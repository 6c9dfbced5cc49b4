"""What a page is given to draw a run by cache lines: the scene, and the pictures that may be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.cacheline.aggregate import link_types
from astranb.export.layout import bundle_of, lay_out
from astranb.widgets.feed.lines import names_of, picture_of, used_links

if TYPE_CHECKING:
    import numpy as np

__all__ = ["drawn", "pictures"]

_MOST_PICTURES = 32
"""Instances that a page can look into; of more JupyterLab lays out the picture."""


def drawn(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe the scene, and every picture in which one instance is shown alone or is opened."""
    used = used_links(engine)
    kinds = link_types(engine.fabric)
    return {
        "scene": names_of(engine),
        **pictures(engine, used),
        "link_types": {"names": kinds[0], "of": kinds[1].tolist()},
        "late_ps": engine.late_ps.tolist() if engine.late_ps.any() else [],
    }


def pictures(engine: CacheLineEngine, used: np.ndarray) -> dict[str, Any]:
    """Describe the pictures of a run that uses some links, and the instances in them."""
    links = len(engine.machine.links)

    def picture(**look: Any) -> dict[str, Any]:
        layout = lay_out(engine.fabric, used, **look)
        return {**picture_of(engine, layout), "bundle_of": bundle_of(layout, links).tolist()}

    layout = lay_out(engine.fabric, used)
    units, collapsed = layout.units, layout.detail.collapsed
    few = len(units.names) <= _MOST_PICTURES
    return {
        "pictures": {
            "start": picture(),
            "alone": {name: picture(focus=name) for name in units.names} if few else {},
            "opened": {name: picture(opened=[name]) for name in units.names} if few and collapsed else {},
            "collapsed": collapsed,
        },
        "instances": {"names": units.names, "of": units.of.tolist(), "gpus": units.gpus},
    }
