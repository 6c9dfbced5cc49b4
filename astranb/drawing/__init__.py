"""Floor 7: pictures. Figures for analysis, an infrastructure, a rank's memory; where nodes are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from . import figures as figures
    from .infrastructure import draw as draw
    from .infrastructure import pyvis as pyvis
    from .memory_chart import memory as memory

# Bokeh takes a second to load.
__getattr__, __dir__ = lazy(__name__)
