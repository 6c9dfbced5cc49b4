"""The interactive views of a notebook.

The logic is Python and needs no browser: a session takes commands and plays (``session``), a feed
knows what a view lacks (``feed``), and each view is a module in ``views`` that answers what the ES
module of the same name in ``static`` asks. ``Workbench`` joins them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astranb.core.extras import needs_extra
from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .corpus_page import write_corpus_report as write_corpus_report
    from .editor import Editor as Editor
    from .files import files_of as files_of
    from .files import page as page
    from .graph_page import write_graph as write_graph
    from .runs import Runs as Runs
    from .side_by_side import SideBySide as SideBySide
    from .statistics_page import write_statistics as write_statistics
    from .study import Study as Study
    from .study_page import write_study as write_study
    from .trace_graph import TraceGraph as TraceGraph
    from .trace_page import write_trace_timeline as write_trace_timeline
    from .trace_timeline import TraceTimeline as TraceTimeline
    from .workbench import Workbench as Workbench

_load, __dir__ = lazy(__name__)


def _load_named(name: str) -> Any:
    """Load a name; where anywidget is missing, the error names the extra. Pages and pictures do without."""
    with needs_extra(f"anb.{name}"):
        return _load(name)


__getattr__ = _load_named
