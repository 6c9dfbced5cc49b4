"""GPUs in one box: rings, switches, tori, the paper's generic GPUs."""

from __future__ import annotations

from typing import Any

from ._servers import component, edge

__all__ = ["fully_connected", "generic", "ring", "switch", "torus2d"]

Document = dict[str, Any]


def _box(name: str, gpus: int, edges: list[Document], more: tuple[Document, ...] = ()) -> Document:
    """GPUs in one box, joined by a link with round numbers."""
    rate = {"choice": "gigabytes_per_second", "gigabytes_per_second": 50}
    physical = {"bandwidth": rate, "latency": {"choice": "ns", "ns": 500}}
    box = {
        "name": "box",
        "components": [component("gpu", gpus, "xpu"), *more],
        "links": [{"name": "link", "description": "a link to learn with", "physical": physical}],
        "edges": edges,
    }
    return {"name": name, "devices": [box], "instances": [{"name": "box", "device": "box", "count": 1}]}


def ring(*, gpus: int) -> Document:
    # One to one, not InfraGraph's scheme ring, which the upstream package does not expand.
    edges = [edge(f"gpu[0:{gpus - 1}]", f"gpu[1:{gpus}]", "link", "one2one")]
    if gpus > 2:
        edges.append(edge(f"gpu[{gpus - 1}]", "gpu[0]", "link", "one2one"))
    return _box("ring", gpus, edges)


def fully_connected(*, gpus: int) -> Document:
    return _box("fully-connected", gpus, [edge("gpu", "gpu", "link")])


def switch(*, gpus: int) -> Document:
    return _box("switch", gpus, [edge("gpu", "sw", "link")], (component("sw", 1, "switch"),))


def generic(*, gpus: int, ports: int, latency: int) -> Document:
    """The GPUs of ASTRA-sim 3.0's evaluation, ports of 32 GiB/s, on one switch.

    From GPU to GPU it takes ``latency`` ns: the 500 ns that a switch is taken for, and half of
    the rest on each side of it.
    """
    rate = {"choice": "gigabytes_per_second", "gigabytes_per_second": 32 * 1.073741824}
    delay = {"choice": "ns", "ns": (latency - 500) / 2}
    link = {
        "name": "port",
        "description": "an I/O port",
        "physical": {"bandwidth": rate, "latency": delay},
    }
    box = {
        "name": "box",
        "components": [component("gpu", gpus, "xpu"), component("sw", 1, "switch")],
        "links": [link],
        "edges": [edge("gpu", "sw", "port")] * ports,
    }
    instances = [{"name": "generic", "device": "box", "count": 1}]
    return {"name": "generic", "devices": [box], "instances": instances}


def torus2d(*, rows: int, columns: int) -> Document:
    n = rows * columns
    edges = [
        edge(f"gpu[{c}::{columns}]", f"gpu[{(c + 1) % columns}::{columns}]", "link", "one2one")
        for c in range(columns if columns > 2 else columns - 1)
    ]
    if rows > 1:
        edges.append(edge(f"gpu[0:{n - columns}]", f"gpu[{columns}:{n}]", "link", "one2one"))
    if rows > 2:
        edges.append(edge(f"gpu[{n - columns}:{n}]", f"gpu[0:{columns}]", "link", "one2one"))
    return _box("torus2d", n, edges)
