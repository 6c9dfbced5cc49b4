"""Failed links of an infrastructure: cables, lanes, or all links of a node, as annotations of edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from astranb.core.errors import InputError

from .graph import NodeGraph
from .names import ambiguous, find_nodes, is_link, link_ends, one_node, spelled

__all__ = ["failed_edges"]


def failed_edges(graph: NodeGraph, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Annotate the edges that have failed.

    Parameters
    ----------
    graph : NodeGraph
    paths : iterable of str
        ``A->B`` (all lanes between two nodes, in both directions), ``A->B#k`` (one lane of them) or
        ``A`` (all links of a node); names as :func:`.names.find_nodes` reads them.

    Returns
    -------
    list of dict
        Annotations ``astranb.down`` of edges.

    Raises
    ------
    InputError
        There is no such link or node.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> failed_edges(blueprint("ring:gpus=3").expand(), ["gpu[0]->gpu[1]"])[0]["attributes"]
    [{'attribute': 'astranb.down', 'value': 'all'}]
    """
    lanes: dict[tuple[int, int], set[int] | None] = {}  # of each pair of nodes; None: all
    for path in paths:
        name = spelled(path, graph)
        if not is_link(graph, name):
            node = one_node(graph, name)
            others = {
                *graph.edges.b[graph.edges.a == node].tolist(),
                *graph.edges.a[graph.edges.b == node].tolist(),
            } - {node}
            if not others:
                raise InputError(f"{path!r} has no link", where=graph.title)
            lanes |= {_pair(node, other): None for other in others}
            continue
        first, second, number = link_ends(graph, name)
        one, other = (find_nodes(graph, end, allow_ambiguous=True) for end in (first, second))
        a, b = graph.edges.a, graph.edges.b
        rows = np.flatnonzero((np.isin(a, one) & np.isin(b, other)) | (np.isin(b, one) & np.isin(a, other)))
        pairs = {_pair(int(a[row]), int(b[row])) for row in rows}
        if not pairs:
            raise _no_link(path, graph, "write A->B, A->B#k or a node")
        if len(pairs) > 1:
            some = [f"{graph.name(a)}->{graph.name(b)}" for a, b in sorted(pairs)[:3]]
            raise ambiguous(path, some, len(pairs))
        pair = pairs.pop()
        if not number:
            lanes[pair] = None
            continue
        if len(rows) > 1:
            raise _no_link(path, graph, "its lanes are of several links: leave #k out")
        most = int(graph.edges.lanes[rows[0]])
        if not number.isdecimal() or int(number) >= most:
            raise _no_link(path, graph, f"lanes are #0 to #{most - 1}")
        if (known := lanes.setdefault(pair, set())) is not None:
            known.add(int(number))
    return [
        {
            "ep1": graph.name(a),
            "ep2": graph.name(b),
            "attributes": [{"attribute": "astranb.down", "value": "all" if one is None else len(one)}],
        }
        for (a, b), one in lanes.items()
    ]


def _pair(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)


def _no_link(path: str, graph: NodeGraph, hint: str) -> InputError:
    return InputError(f"unknown link {path!r}", where=graph.title, hint=hint)
