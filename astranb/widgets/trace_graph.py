"""``TraceGraph``: the graph of a trace by module, in a notebook cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from astranb.chakra import ModuleTree, Node, Trace
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.widgets.feed import ModuleAnswers, facts_of

from .assets import STYLES, TRACE_GRAPH, TRACE_GRAPH_MODULES
from .graph_page import write_graph

__all__ = ["TraceGraph"]


class TraceGraph(anywidget.AnyWidget):
    """Look at a trace as a graph of modules that open and close.

    Modules are what the trace records (which operation of PyTorch called which) or what the words of names
    tell. The browser gets one module at a time, so that 100,000 nodes open at once. A faulty trace is drawn,
    with notes.

    Parameters
    ----------
    trace : Trace, str or Path
        A trace, or a ``.et`` file.
    by : str, optional
        ``callers`` or ``names``; by default callers if they are recorded.

    Raises
    ------
    InputError
        It is no trace, or callers are not recorded.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> done = step.compute("L0 fwd attn", num_ops=10**6)
    >>> _ = step.collective("all_reduce", 1024, name="L0 fwd sum", after=done)
    >>> graph = anb.TraceGraph(step.build())
    >>> [node.name for node in graph.find("sum")]
    ['L0 fwd sum']
    >>> graph.close()
    """

    _esm = TRACE_GRAPH
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _about = traitlets.Dict().tag(sync=True)
    _selected = traitlets.Int(-1).tag(sync=True)  # a module or node; negative: none

    def __init__(self, trace: Trace | str | Path, *, by: str | None = None) -> None:
        if isinstance(trace, str | Path):
            from astranb.chakra import read

            trace = read(trace)
        if not isinstance(trace, Trace):
            hint = "TraceGraph(astranb.chakra.read(...))"
            raise InputError(f"not a trace: {type(trace).__name__}", where="TraceGraph", hint=hint)
        self.trace = trace
        self.tree = ModuleTree(trace, by)
        self._answers = ModuleAnswers(self.tree, facts_of(trace))
        super().__init__(_modules=TRACE_GRAPH_MODULES, _about=self._answers.about)
        self.on_msg(self._received)

    @property
    def selected(self) -> Node | None:
        """The node that is selected in the picture; None if it is a module."""
        row = self.tree.row(self._selected)
        return self.trace.node(row) if 0 <= row < len(self.trace) else None

    def find(self, text: str) -> list[Node]:
        """Return the first fifty nodes whose names hold every word, or that have this number."""
        found = self._answers.search(text)["found"]
        rows = [self.tree.row(entity) for entity, *_ in found]
        return [self.trace.node(row) for row in rows if row >= 0]

    def to_html(self, path: str | Path) -> Path:
        """Write one file that shows the graph in any browser, without a network."""
        write_graph(self.trace, path, by=self.tree.by)
        return Path(path)

    def __repr__(self) -> str:
        """One line: what it shows."""
        counts = f"{plural(self.tree.count, 'node')} in {plural(len(self.tree) - 1, 'module')}"
        return f"<TraceGraph of {self.trace.source}: {counts}>"

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer the browser."""
        if content.get("type") != "ask":
            return
        options = content.get("options", {})
        buffers: list[bytes] = []
        answer: dict[str, Any] = {}
        if content.get("question") == "module":
            answer, buffers = self._answers.module(int(options.get("module", 0)))
        elif content.get("question") == "module_detail":
            answer = self._answers.detail(int(options.get("entity", -1)))
        elif content.get("question") == "module_search":
            answer = self._answers.search(str(options.get("text", "")))
        self.send({**answer, "type": "answer", "id": content.get("id")}, buffers=buffers)
