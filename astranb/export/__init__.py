"""Floor 7: export of figures for analysis and of pictures of an infrastructure.

``figures`` draws with Bokeh, ``draw`` writes an infrastructure as a picture, ``pyvis`` as a page
with draggable nodes, ``memory`` draws what a rank of a model's step holds over time. Pages that play
without a kernel, pictures and GIFs of a run come from :class:`astranb.Workbench` (``to_html``,
``to_svg``, ``to_png``, ``to_gif``, ``animate``), tables from ``sim.result.to_dataframe`` and Perfetto
traces from ``sim.result.to_perfetto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from . import figures as figures
    from .infrastructure import draw as draw
    from .infrastructure import pyvis as pyvis
    from .memory_chart import memory as memory

__all__ = ["draw", "figures", "memory", "pyvis"]

# Bokeh takes a second to load.
__getattr__, __dir__ = lazy(
    __name__,
    {"draw": "infrastructure", "figures": "figures", "memory": "memory_chart", "pyvis": "infrastructure"},
)
