"""The browser's side as text: modules travel with the widget, because a notebook has no address for them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = [
    "COUNTED_MODULES",
    "COUNTED_PLAYER",
    "EDITOR",
    "ENTRY",
    "JUDGED_MODULES",
    "JUDGED_PLAYER",
    "LIVE_PLAYER",
    "MODULES",
    "PAIR",
    "PLAYER",
    "RECORDED",
    "RECORDED_MODULES",
    "RUNS",
    "STUDY",
    "STUDY_MODULES",
    "STUDY_PLAYER",
    "STYLES",
    "TRACED_PLAYER",
    "TRACE_GRAPH",
    "TRACE_GRAPH_MODULES",
    "TRACE_GRAPH_PLAYER",
    "WORKER",
]

_FOLDER = Path(__file__).parent / "static"
_ALONE = frozenset(
    {
        "counted", "editor", "judged", "live_page", "loader", "model", "offline", "packed", "page_controls",
        "pair", "python_kernel", "python_worker", "recorded", "recorded_kernel", "replayed", "reported",
        "runs", "schedule", "study", "trace_graph", "traced", "tree_page", "workbench",
    }
)  # fmt: skip
"""Modules that are part of an entry or of a page, and of nothing that an entry loads."""
_IMPORT = re.compile(r'^import \{[^}]*\} from "\.\.?/(\w+)\.js";\n', re.MULTILINE)


def _joined(*names: str) -> str:
    """One module out of several: imported ones come first."""
    texts = []
    for place, name in enumerate(names):
        text = (_FOLDER / f"{name}.js").read_text("utf-8")
        missing = set(_IMPORT.findall(text)) - set(names[:place])
        if missing:
            raise ImportError(f"{name}.js imports {', '.join(sorted(missing))}, which must come before it")
        texts.append(_IMPORT.sub("", text))
    return "\n".join(texts)


ENTRY = _joined("loader", "workbench")
"""The module of a workbench; it loads the others."""

PAIR = _joined("loader", "pair")
"""That of two workbenches beside each other."""

RUNS = _joined("loader", "runs")
"""That of several runs to switch between."""

STUDY = _joined("loader", "study")
"""That of a sweep."""

TRACE_GRAPH = _joined("loader", "trace_graph")
"""That of a trace's graph."""
RECORDED = _joined("loader", "recorded")
"""That of a timeline of traces."""

EDITOR = _joined("theme", "format", "heartbeat", "schedule", "editor")
"""That of the editor, which is a widget of its own."""

PLAYER = _joined("messages", "packed", "model", "replayed", "recorded_kernel", "offline")
"""Script of a page without a kernel."""

LIVE_PLAYER = _joined(
    "messages", "packed", "model", "replayed", "recorded_kernel", "theme", "python_kernel", "page_controls",
    "live_page",
)  # fmt: skip
"""Script of a page that simulates."""

WORKER = f"(() => {{{re.sub(r'^export ', '', _joined('packed', 'python_worker'), flags=re.MULTILINE)}}})();"
"""The script of its Worker, which is no module: Pyodide's own scripts are none."""

STUDY_PLAYER = _joined("packed", "reported")
"""Script of a page of a sweep."""

TRACE_GRAPH_PLAYER = _joined("messages", "packed", "tree_page")
"""Script of a page of a trace's graph."""
TRACED_PLAYER = _joined("loader", "messages", "columns", "model", "packed", "traced")
"""Script of a page of a timeline of traces."""

COUNTED_PLAYER = _joined("loader", "packed", "counted")
"""Script of a page of statistics of traces."""
JUDGED_PLAYER = _joined("loader", "packed", "judged")
"""Script of a page of reports about models of a corpus."""

MODULES = {
    file.stem: file.read_text("utf-8") for file in sorted(_FOLDER.glob("*.js")) if file.stem not in _ALONE
}
"""Text by name of the modules that `ENTRY`, `PAIR`, `RUNS`, `STUDY`, `TRACE_GRAPH` and `RECORDED` load."""


def _needed(name: str) -> dict[str, str]:
    """Return a module, and those that it imports."""
    found: dict[str, str] = {}
    names = [name]
    for one in names:  # grows while it is walked
        if one not in found:
            found[one] = MODULES[one]
            names += _IMPORT.findall(MODULES[one])
    return found


STUDY_MODULES = _needed("sweep")
"""Those of them that `STUDY` loads."""

TRACE_GRAPH_MODULES = _needed("tree")
"""Those of them that `TRACE_GRAPH` loads."""
RECORDED_MODULES = _needed("recordings")
"""Those of a timeline of traces."""

COUNTED_MODULES = _needed("statistics")
"""Those of a page of statistics."""
JUDGED_MODULES = _needed("quality")
"""Those of a page about models of a corpus."""


_FIRST = _FOLDER / "workbench.css"
STYLES = "\n".join(
    file.read_text("utf-8") for file in (_FIRST, *sorted(set(_FOLDER.glob("*.css")) - {_FIRST}))
)
"""All style sheets, the common one first."""
