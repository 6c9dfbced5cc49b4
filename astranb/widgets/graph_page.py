"""One file that shows a trace's graph by module in any browser, without a network."""

from __future__ import annotations

from html import escape
from pathlib import Path

from astranb.chakra import NODE_KINDS, ModuleTree, Trace
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.version import __version__
from astranb.widgets.feed import ModuleAnswers, attributes_message, facts_of, shown_text, tree_message

from .assets import TRACE_GRAPH, TRACE_GRAPH_MODULES, TRACE_GRAPH_PLAYER
from .feed import Columns
from .offline_page import wrapped

__all__ = ["write_graph"]

_MOST_NODES = 500_000


def write_graph(trace: Trace, path: str | Path, *, by: str | None = None) -> ModuleTree:
    """Write the page of a trace, whole or not at all; a faulty trace has notes.

    It holds the drawing of every module, so that it can open any of them: 100,000 nodes take about 2 MB.

    Parameters
    ----------
    trace : Trace
    path : str or Path
    by : str, optional
        ``callers`` or ``names``, as for :class:`~astranb.chakra.ModuleTree`.

    Raises
    ------
    InputError
        The file cannot be written, or there are more than 500,000 nodes.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("L0 fwd", num_ops=10**6)
    >>> len(write_graph(step.build(), tempfile.mkdtemp() + "/step.html"))
    1
    """
    if len(trace) > _MOST_NODES:
        hint = "show it in a notebook (anb.TraceGraph), which sends one module at a time"
        raise InputError(f"{len(trace):,} nodes are too many for a page", where=trace.source, hint=hint)
    tree = ModuleTree(trace, by)
    columns = Columns()
    whole, buffers = tree_message(tree)
    known = ModuleAnswers(tree, facts_of(trace))
    links = [known.link(module)[1] for module in range(len(tree))]
    attributes, buffers["module_values"] = attributes_message(trace)
    numbers = {name: columns.add(*some) for name, some in buffers.items()}
    page = wrapped(
        {
            "about": whole.pop("about"),
            "tree": {
                **whole,
                **attributes,
                "buffers": numbers,
                "modules": [shown_text(label) for label in tree.labels],
                "links": links,
            },
            "buffers": columns.buffers,
            "modules": TRACE_GRAPH_MODULES,
            "entry": TRACE_GRAPH,
        },
        title=shown_text(f"Graph of {trace.source}"),
        still=f"<p>{escape(_in_words(tree))}</p>",
        caption=(
            f"{plural(len(trace), 'node')} of {shown_text(trace.source)}. Written with astranb {__version__}."
        ),
        player=TRACE_GRAPH_PLAYER,
    )
    with whole_file(Path(path)) as file:
        file.write(page.encode())
    return tree


def _in_words(tree: ModuleTree) -> str:
    """Return the text for a browser without scripts."""
    counts = [f"{n:,} {kind}" for kind, n in zip(NODE_KINDS, tree.kinds[0].tolist(), strict=True) if n]
    parts = f"{plural(tree.count, 'node')} ({', '.join(counts)}) in {plural(len(tree) - 1, 'module')}"
    return f"{shown_text(tree.labels[0])}: {parts}."
