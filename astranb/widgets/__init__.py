"""The interactive views of a notebook.

The logic is Python and needs no browser: a session takes commands and plays (``session``), a feed
knows what a view lacks (``feed``), and each view is a module in ``views`` that answers what the ES
module of the same name in ``static`` asks. ``Workbench`` joins them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from astranb.core.extras import needs_extra

if TYPE_CHECKING:
    from .editor import Editor as Editor
    from .runs import Runs as Runs
    from .side_by_side import SideBySide as SideBySide
    from .study import Study as Study
    from .trace_graph import TraceGraph as TraceGraph
    from .trace_timeline import TraceTimeline as TraceTimeline
    from .workbench import Workbench as Workbench

__all__ = ["Editor", "Runs", "SideBySide", "Study", "TraceGraph", "TraceTimeline", "Workbench"]

_WIDGETS = {
    "Editor": "editor",
    "Runs": "runs",
    "SideBySide": "side_by_side",
    "Study": "study",
    "TraceGraph": "trace_graph",
    "TraceTimeline": "trace_timeline",
    "Workbench": "workbench",
}


def __getattr__(name: str) -> Any:
    """Load anywidget only with a widget: pages and pictures do without."""
    if name not in _WIDGETS:
        message = f"module 'astranb.widgets' has no attribute {name!r}"
        raise AttributeError(message)
    with needs_extra(f"anb.{name}"):
        return getattr(import_module(f"astranb.widgets.{_WIDGETS[name]}"), name)
