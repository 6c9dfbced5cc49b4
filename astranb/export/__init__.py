"""Floor 7: export of figures for analysis and of pictures of an infrastructure.

``figures`` draws with Bokeh, ``draw`` writes an infrastructure as a picture, ``pyvis`` as a page
with draggable nodes. Pages that play without a kernel, pictures and GIFs of a run come from
:class:`astranb.Workbench` (``to_html``, ``to_svg``, ``to_png``, ``to_gif``, ``animate``), tables from
``sim.result.to_dataframe`` and Perfetto traces from ``sim.result.to_perfetto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .infrastructure import draw, pyvis

if TYPE_CHECKING:
    from . import figures as figures

__all__ = ["draw", "figures", "pyvis"]


def __getattr__(name: str) -> Any:
    """Load Bokeh, which takes a second, only when it is used."""
    if name == "figures":
        from importlib import import_module

        return import_module("astranb.export.figures")
    message = f"module 'astranb.export' has no attribute {name!r}"
    raise AttributeError(message)
