"""Floor 7: pictures. Figures for analysis, an infrastructure, a rank's memory; where nodes are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from . import figures as figures
    from .algorithm_charts import algorithm_chart as algorithm_chart
    from .figure_style import cividis as cividis
    from .figure_style import mapped as mapped
    from .figure_style import name_ticks as name_ticks
    from .figure_style import new_figure as new_figure
    from .figure_style import styled as styled
    from .infrastructure import draw as draw
    from .infrastructure import pyvis as pyvis
    from .memory_chart import MemoryAxis as MemoryAxis
    from .memory_chart import memory as memory
    from .memory_chart import memory_picture as memory_picture
    from .raster import to_image as to_image
    from .raster import write_frames as write_frames
    from .svg_files import svg_of as svg_of
    from .topology import Dot as Dot
    from .topology import Edge as Edge
    from .topology import boxes_of as boxes_of
    from .topology import frames_of as frames_of
    from .traffic import traffic_of as traffic_of

# Bokeh takes a second to load.
__getattr__, __dir__ = lazy(__name__)
