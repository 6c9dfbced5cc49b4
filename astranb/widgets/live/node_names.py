"""What the nodes of a machine are called, for a page that finds objects by their paths."""

from __future__ import annotations

from typing import Any

from astranb.net import Fabric

__all__ = ["named"]


def named(fabric: Fabric) -> dict[str, Any]:
    """Describe nodes, and how their names are made (``static/live/node_names.js``)."""
    graph = fabric.graph
    kinds = sorted({graph.kind_name(node) for node in range(len(graph))})
    return {
        "kinds": kinds,
        "kind": [kinds.index(graph.kind_name(node)) for node in range(len(graph))],
        "forward_ps": graph.forward_ps.tolist(),
        "plan": graph.naming(),
    }
