"""A network of dimensions as an infrastructure: a ring, a switch or a full mesh in each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from astranb.core.document import DocumentSource
from astranb.core.errors import InputError, near
from astranb.core.units import quantity

from .infra import Infra
from .servers import component, edge, link, one_device

__all__ = ["dimensions"]

_MOST = 4096
_SHAPES = ("Ring", "FullyConnected", "Switch")


def dimensions(
    shapes: Sequence[str],
    sizes: Sequence[int],
    bandwidth_Bps: Sequence[float],  # noqa: N803 - the unit
    latency_ns: Sequence[float],
    name: str = "dimensions",
) -> Infra:
    """Make an infrastructure of a network as ASTRA-sim describes it.

    Parameters
    ----------
    shapes : sequence of str
        ``Ring``, ``FullyConnected`` or ``Switch``, one for each dimension; neighbours in the
        first dimension have consecutive ranks.
    sizes : sequence of int
        GPUs of each dimension.
    bandwidth_Bps, latency_ns : sequence of float
        Of one link in one direction, for each dimension. Switches forward without latency.
    name : str

    Raises
    ------
    InputError
        An unknown shape, or more than 4,096 GPUs.

    Examples
    --------
    >>> infra = dimensions(["Ring", "Switch"], [4, 2], [50e9, 25e9], [500, 1000])
    >>> graph = infra.expand()
    >>> len(graph.gpus)
    8
    """
    gpus = int(np.prod(sizes))
    if gpus > _MOST:
        hint = "use the analytical or the congestion network"
        raise InputError(f"{gpus:,} GPUs, at most {_MOST:,} by cache lines", where=name, hint=hint)
    components = [component("gpu", gpus, "xpu")]
    links: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    switches: list[str] = []
    stride = 1
    for at, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
        if shape not in _SHAPES:
            raise InputError(
                f"{shape!r} cannot be simulated by cache lines", where=name, hint=near(shape, _SHAPES)
            )
        firsts = [rank for rank in range(gpus) if rank // stride % size == 0]
        groups = [[first + stride * n for n in range(size)] for first in firsts]
        dim = f"dim{at}"
        links.append(
            link(dim, bandwidth_Bps=bandwidth_Bps[at], latency_ps=quantity("time", latency_ns[at], "ns"))
        )
        if shape == "Switch" and size > 1:
            components.append(component(f"sw{at}", len(groups), "switch"))
            switches += [f"{name}.0.sw{at}.{number}" for number in range(len(groups))]
            edges += [
                edge(f"gpu[{group[0]}:{group[-1] + 1}:{stride}]", f"sw{at}[{number}]", dim)
                for number, group in enumerate(groups)
            ]
        else:
            edges += [
                edge(f"gpu[{a}]", f"gpu[{b}]", dim, "one2one")
                for group in groups
                for a, b in _pairs(shape, group)
            ]
        stride *= size
    box = {"name": "box", "components": components, "links": links, "edges": edges}
    no_latency = [{"attribute": "astranb.latency", "value": "0 ns"}]
    annotations = {"nodes": [{"name": switch, "attributes": no_latency} for switch in switches]}
    return Infra(one_device(name, box, name), annotations if switches else None, source=DocumentSource(name))


def _pairs(shape: str, group: list[int]) -> list[tuple[int, int]]:
    """Neighbours in one dimension."""
    if shape == "Ring":
        around = [*group, group[0]] if len(group) > 2 else group
        return list(pairwise(around))
    return [(a, b) for n, a in enumerate(group) for b in group[n + 1 :]]
