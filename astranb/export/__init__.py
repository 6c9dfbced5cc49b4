"""What leaves the notebook: traces, figures for analysis, the picture of an infrastructure.

``perfetto`` writes a trace for Perfetto and Chrome, ``figures`` draws with Bokeh, ``draw`` an
InfraGraph as a picture, ``pyvis`` as a page to drag about. Pages that play, pictures and GIFs come
from :class:`astranb.Workbench` (``to_html``, ``to_svg``, ``to_png``, ``to_gif``, ``animate``),
tables from ``sim.result.to_dataframe``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._draw import draw
from ._pyvis import pyvis

if TYPE_CHECKING:
    from . import figures as figures

__all__ = ["draw", "figures", "perfetto", "pyvis"]


def __getattr__(name: str) -> Any:
    """Load Bokeh only when a figure is asked for: it takes a second."""
    if name == "figures":
        from importlib import import_module

        return import_module("astranb.export.figures")
    message = f"module 'astranb.export' has no attribute {name!r}"
    raise AttributeError(message)
