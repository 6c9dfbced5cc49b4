"""Support of several tests of this folder: the upstream package's expansion, and ours, as sets."""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from typing import Any

import yaml

from astranb.infragraph import NodeGraph

MINIMAL: dict[str, Any] = {
    "name": "tiny",
    "devices": [
        {
            "name": "box",
            "components": [
                {"name": "gpu", "count": 4, "choice": "xpu"},
                {"name": "sw", "count": 2, "choice": "switch"},
                {"name": "nic", "count": 4, "choice": "nic"},
            ],
            "links": [{"name": "nvlink4"}, {"name": "pcie5"}],
            "edges": [
                {
                    "ep1": {"component": "gpu"},
                    "ep2": {"component": "sw"},
                    "scheme": "many2many",
                    "link": "nvlink4",
                },
                {
                    "ep1": {"component": "gpu"},
                    "ep2": {"component": "nic"},
                    "scheme": "one2one",
                    "link": "pcie5",
                },
            ],
        }
    ],
    "links": [
        {"name": "eth400", "physical": {"bandwidth": {"gigabits_per_second": 400}, "latency": {"ns": 300}}}
    ],
    "instances": [{"name": "host", "device": "box", "count": 2}],
    "edges": [
        {
            "ep1": {"instance": "host[0]", "component": "nic"},
            "ep2": {"instance": "host[1]", "component": "nic"},
            "scheme": "one2one",
            "link": "eth400",
        }
    ],
}

Sets = tuple[set[tuple[str, str]], set[tuple[str, str, str]]]


def ours(graph: NodeGraph) -> Sets:
    names = graph.names
    a, b, link = graph.simple_edges()
    nodes = {(name, graph.kind_name(i)) for i, name in enumerate(names)}
    pairs = {
        (*sorted((names[x], names[y])), graph.links[z].name)
        for x, y, z in zip(a.tolist(), b.tolist(), link.tolist(), strict=True)
    }
    return nodes, pairs


def upstream(document: Any) -> Sets:
    """Expand with the infragraph package (an object of it, or a dict)."""
    # It warns about what it imports and about nodes without edges, and prints.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from infragraph.infragraph_service import InfraGraphService

        service = InfraGraphService()
        service.set_graph(yaml.safe_dump(document) if isinstance(document, dict) else document)
        graph = service.get_networkx_graph()
    nodes = {(name, str(data["type"])) for name, data in graph.nodes(data=True)}
    return nodes, {(*sorted((a, b)), data["link"]) for a, b, data in graph.edges(data=True)}


def hashes(graph: NodeGraph) -> tuple[str, str]:
    """Hashes of the edge set and of the node set, as the recorded expansions have them."""
    nodes, pairs = ours(graph)
    edge_lines = sorted("|".join(pair) for pair in pairs)
    node_lines = [f"{name}|{kind}" for name, kind in sorted(nodes)]
    edge_hash, node_hash = (
        hashlib.sha256("\n".join(t).encode()).hexdigest() for t in (edge_lines, node_lines)
    )
    return edge_hash, node_hash
