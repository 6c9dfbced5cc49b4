"""Files for others: pages, figures, and pictures of an infrastructure.

``page`` writes a page that plays a run or simulates, ``figures`` draws with Bokeh, ``draw`` writes an
infrastructure as a picture, ``pyvis`` as a page with draggable nodes, ``memory`` draws what a rank of a
model's step holds over time. Pictures and GIFs of a run come from :class:`astranb.Workbench` (``to_svg``,
``to_png``, ``to_gif``, ``animate``), tables from ``sim.result.to_dataframe`` and Perfetto traces from
``sim.result.to_perfetto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy

if TYPE_CHECKING:
    from .drawing import draw as draw
    from .drawing import figures as figures
    from .drawing import memory as memory
    from .drawing import pyvis as pyvis
    from .widgets import page as page

__getattr__, __dir__ = lazy(__name__)
