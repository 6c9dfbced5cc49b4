"""What the nodes of a machine are called, for a page that finds objects by their paths."""

from __future__ import annotations

from typing import Any

from astranb.infragraph import NodeKind
from astranb.net import Fabric

__all__ = ["named"]


def named(fabric: Fabric) -> dict[str, Any]:
    """Describe nodes, and how their names are made (``static/live/node_names.js``)."""
    graph = fabric.graph
    class_of = {graph.kind_name(node): NodeKind(int(graph.kind[node])) for node in range(len(graph))}
    kinds = sorted(class_of)
    return {
        "kinds": kinds,
        "classes": [class_of[kind].name.lower() for kind in kinds],
        "kind": [kinds.index(graph.kind_name(node)) for node in range(len(graph))],
        "forward_ps": graph.forward_ps.tolist(),
        "plan": graph.naming(),
    }
