"""GPUs in one box: rings, switches, tori, the paper's generic GPUs."""

from __future__ import annotations

from typing import Any

from astranb.core.errors import InputError

from .servers import component, edge, link, one_device

__all__ = ["dragonfly", "fully_connected", "generic", "mesh2d", "ring", "switch", "torus2d", "torus3d"]

Document = dict[str, Any]


def _box(name: str, gpus: int, edges: list[Document], more: tuple[Document, ...] = ()) -> Document:
    """GPUs in one box, connected by links with round numbers."""
    links = [link("link", "a link to learn with", 50 * 10**9, 500_000)]
    components = [component("gpu", gpus, "xpu"), *more]
    return one_device(name, {"name": "box", "components": components, "links": links, "edges": edges})


def ring(*, gpus: int) -> Document:
    """GPUs in a ring, each joined to the next."""
    # One to one, not InfraGraph's scheme ring, which the upstream package does not expand.
    edges = [edge(f"gpu[0:{gpus - 1}]", f"gpu[1:{gpus}]", "link", "one2one")]
    if gpus > 2:
        edges.append(edge(f"gpu[{gpus - 1}]", "gpu[0]", "link", "one2one"))
    return _box("ring", gpus, edges)


def fully_connected(*, gpus: int) -> Document:
    """GPUs joined each to each."""
    return _box("fully-connected", gpus, [edge("gpu", "gpu", "link")])


def switch(*, gpus: int) -> Document:
    """GPUs around one switch."""
    return _box("switch", gpus, [edge("gpu", "sw", "link")], (component("sw", 1, "switch"),))


def generic(*, gpus: int, ports: int, latency: int) -> Document:
    """The GPUs of ASTRA-sim 3.0's evaluation, with ports of 32 GiB/s, on one switch.

    ``latency`` is that from GPU to GPU in ns: 500 ns of the switch, and half of the rest on each link.
    """
    box = {
        "name": "box",
        "components": [component("gpu", gpus, "xpu"), component("sw", 1, "switch")],
        "links": [link("port", "an I/O port", 32 * 2**30, (latency - 500) * 500)],
        "edges": [edge("gpu", "sw", "port")] * ports,
    }
    return one_device("generic", box, "generic")


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
    """Join the neighbours in all rows of this many columns."""
    joined = range(columns if wrap and columns > 2 else columns - 1)
    return [
        edge(f"gpu[{c}::{columns}]", f"gpu[{(c + 1) % columns}::{columns}]", "link", "one2one")
        for c in joined
    ]


def torus2d(*, rows: int, columns: int) -> Document:
    """GPUs in a torus of rows and columns."""
    edges = [*_columns(columns, wrap=True), *_line(0, rows, columns, wrap=True)]
    return _box("torus2d", rows * columns, edges)


def mesh2d(*, rows: int, columns: int) -> Document:
    """GPUs in a mesh of rows and columns."""
    edges = [*_columns(columns, wrap=False), *_line(0, rows, columns, wrap=False)]
    return _box("mesh2d", rows * columns, edges)


def torus3d(*, planes: int, rows: int, columns: int) -> Document:
    """GPUs in a torus of planes, rows and columns."""
    plane = rows * columns
    n = planes * plane
    edges = [*_columns(columns, wrap=True), *_line(0, planes, plane, wrap=True)]
    for z in range(planes):
        edges += _line(z * plane, rows, columns, wrap=True)
    return _box("torus3d", n, edges)


def dragonfly(*, groups: int, routers: int, gpus: int, links: int) -> Document:
    """Groups of fully connected routers, with one link between any two groups.

    Kim et al., "Technology-driven, highly-scalable dragonfly topology" (ISCA 2008); port k of a
    group leads to the (k + 1)-th next group.
    """
    if groups - 1 > routers * links:
        raise InputError(
            f"{groups} groups need {groups - 1} links in each, which has {routers * links}",
            hint="use fewer groups, or more routers or links",
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
            peer = other * routers + (group - other - 1) % groups // links
            edges.append(edge(f"router[{here}]", f"router[{peer}]", "link"))
    switches = (component("router", groups * routers, "switch"),)
    return _box("dragonfly", groups * routers * gpus, edges, switches)
