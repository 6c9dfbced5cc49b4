"""PyTorch's execution traces of schema 1.0.1 (PyTorch 2.0 to 2.2) in the form of today's.

Until 1.0.2 a node had its caller as ``parent``, and its values, shapes and attributes as members of their own
(``torch/csrc/profiler/standalone/execution_trace_observer.cpp``).
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["OLDER", "renewed_document"]

OLDER: Final = ("1.0.0", "1.0.1")
"""Schemas that :func:`renewed_document` renews."""

_TYPES: Final = {
    "rf_id": "uint64",
    "fw_parent": "uint64",
    "seq_id": "int64",
    "scope": "uint64",
    "tid": "uint64",
    "fw_tid": "uint64",
    "op_schema": "string",
}


def renewed_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an execution trace of schema 1.0.1 as one of 1.0.2; what is no node stays.

    Examples
    --------
    >>> old = {"id": 3, "name": "aten::add", "parent": 2, "rf_id": 1, "inputs": [1], "input_types": ["Int"]}
    >>> made = renewed_document({"schema": "1.0.1", "nodes": [old]})["nodes"][0]
    >>> made["ctrl_deps"], made["inputs"], made["attrs"]
    (2, {'values': [1], 'shapes': [], 'types': ['Int']}, [{'name': 'rf_id', 'type': 'uint64', 'value': 1}])
    """
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        return document
    return document | {"nodes": [_node(node) if isinstance(node, dict) else node for node in nodes]}


def _node(node: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {name: node[name] for name in ("id", "name") if name in node}
    if "parent" in node:
        made["ctrl_deps"] = node["parent"]
    for side, word in (("inputs", "input"), ("outputs", "output")):
        made[side] = {
            "values": node.get(side, []),
            "shapes": node.get(f"{word}_shapes", []),
            "types": node.get(f"{word}_types", []),
        }
    made["attrs"] = [
        {"name": name, "type": kind, "value": node[name]} for name, kind in _TYPES.items() if name in node
    ]
    return made
