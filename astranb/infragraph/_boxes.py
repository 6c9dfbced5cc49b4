"""GPUs in one box: rings, switches, tori, the paper's generic GPUs."""

from __future__ import annotations

from typing import Any

from astranb.core.errors import InputError

from ._servers import component, edge

__all__ = ["dragonfly", "fully_connected", "generic", "mesh2d", "ring", "switch", "torus2d", "torus3d"]

Document = dict[str, Any]


def _box(name: str, gpus: int, edges: list[Document], more: tuple[Document, ...] = ()) -> Document:
    """GPUs in one box, connected by links with round numbers."""
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


def _line(first: int, count: int, stride: int, *, wrap: bool) -> list[Document]:
    """Join ``count`` groups of ``stride`` neighbouring GPUs each, one group to the next."""
    end = first + count * stride
    edges = []
    if count > 1:
        ahead = f"gpu[{first + stride}:{end}]"
        edges.append(edge(f"gpu[{first}:{end - stride}]", ahead, "link", "one2one"))
    if wrap and count > 2:
        back = f"gpu[{first}:{first + stride}]"
        edges.append(edge(f"gpu[{end - stride}:{end}]", back, "link", "one2one"))
    return edges


def _columns(columns: int, *, wrap: bool) -> list[Document]:
    """Join GPUs along all rows of so many."""
    joined = range(columns if wrap and columns > 2 else columns - 1)
    return [
        edge(f"gpu[{c}::{columns}]", f"gpu[{(c + 1) % columns}::{columns}]", "link", "one2one")
        for c in joined
    ]


def torus2d(*, rows: int, columns: int) -> Document:
    n = rows * columns
    edges = [*_columns(columns, wrap=True), *_line(0, rows, columns, wrap=True)]
    return _box("torus2d", n, edges)


def mesh2d(*, rows: int, columns: int) -> Document:
    n = rows * columns
    edges = [*_columns(columns, wrap=False), *_line(0, rows, columns, wrap=False)]
    return _box("mesh2d", n, edges)


def torus3d(*, planes: int, rows: int, columns: int) -> Document:
    plane = rows * columns
    n = planes * plane
    edges = [*_columns(columns, wrap=True), *_line(0, planes, plane, wrap=True)]
    for z in range(planes):
        edges += _line(z * plane, rows, columns, wrap=True)
    return _box("torus3d", n, edges)


def dragonfly(*, groups: int, routers: int, gpus: int, links: int) -> Document:
    """Groups of fully connected routers, with one link between any two groups.

    Kim et al., "Technology-driven, highly-scalable dragonfly topology" (ISCA 2008), with
    ``a`` routers of ``p`` GPUs and ``h`` links to other groups: port k of a group leads to the
    group k + 1 further on.
    """
    if groups - 1 > routers * links:
        raise InputError(
            f"{groups} groups need {groups - 1} links of a group, which has {routers * links}",
            hint="take fewer groups, or more routers or links",
        )
    edges = [
        edge(f"gpu[{r * gpus}:{(r + 1) * gpus}]", f"router[{r}]", "link") for r in range(groups * routers)
    ]
    for group in range(groups if routers > 1 else 0):
        own = f"router[{group * routers}:{(group + 1) * routers}]"
        edges.append(edge(own, own, "link"))
    for group in range(groups):
        for other in range(group + 1, groups):
            here = group * routers + (other - group - 1) // links
            there = other * routers + (group - other - 1) % groups // links
            edges.append(edge(f"router[{here}]", f"router[{there}]", "link"))
    switches = (component("router", groups * routers, "switch"),)
    return _box("dragonfly", groups * routers * gpus, edges, switches)
