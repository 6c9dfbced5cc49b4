"""An expanded infrastructure: arrays of nodes and edges, and their names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import connected
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .annotate import Annotations, locate
from .plan import Device, ExpansionPlan, NodeKind

__all__ = ["EdgeColumns", "Link", "NodeColumns", "NodeGraph"]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Link:
    """A link as declared in one scope.

    Attributes
    ----------
    name : str
    scope : str
        The device that declares it; empty for links between instances.
    type : str
        Its link type, recognised or annotated; ``"unknown"`` if neither.
    """

    name: str
    scope: str
    type: str


def _read_only(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.setflags(write=False)


@dataclass(frozen=True, eq=False, slots=True)
class NodeColumns:
    """Columns of nodes; read-only.

    Attributes
    ----------
    kind : ndarray of int8, shape (nodes,)
        `NodeKind` of each node.
    component : ndarray of int32, shape (nodes,)
        Row of its component in the plan.
    instance : ndarray of int32, shape (nodes,)
        The instance copy of the node, counted over all copies in document order.
    device : ndarray of int32, shape (nodes,)
        Innermost device of the node, an index into ``devices``.
    forward_ps : ndarray of int64, shape (nodes,)
        Forwarding latency of the node in ps.
    """

    kind: I8
    component: I32
    instance: I32
    device: I32
    forward_ps: I64

    def __post_init__(self) -> None:
        _read_only(self.kind, self.component, self.instance, self.device, self.forward_ps)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.kind)


@dataclass(frozen=True, eq=False, slots=True)
class EdgeColumns:
    """Columns of undirected edges; read-only.

    Attributes
    ----------
    a, b : ndarray of int32, shape (edges,)
        Nodes of each edge, in the order of the declaration.
    link : ndarray of int32, shape (edges,)
        Index into ``links``.
    lanes : ndarray of int32, shape (edges,)
        Parallel lanes, at least 1.
    values : mapping of str to ndarray of int64, shape (2, edges)
        By column of `LINK_PROPERTIES`, of one lane: from a to b, and from b to a.
    """

    a: I32
    b: I32
    link: I32
    lanes: I32
    values: Mapping[str, I64]

    def __post_init__(self) -> None:
        _read_only(self.a, self.b, self.link, self.lanes, *self.values.values())

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.a)

    def __getitem__(self, column: str) -> I64:
        """Return a link property by its column, ``"bandwidth_Bps"``: from a to b, and back."""
        return self.values[column]


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeGraph:
    """Nodes and undirected edges as arrays; read-only.

    Attributes
    ----------
    title : str
        Name of the infrastructure.
    nodes : NodeColumns
    edges : EdgeColumns
    gpus : ndarray of int32, shape (ranks,)
        Node of each rank.
    links : tuple of Link
    devices : tuple of str
    assumed : list of str
        Every number that is not from the document, with its source and how often it is used.
    failed : tuple of str
        Edges of which all lanes, or some, have failed: the former are not among the edges.
    plan : ExpansionPlan
    annotations : Annotations

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> graph = blueprint("ring:gpus=4").expand()
    >>> [graph.name(g) for g in graph.gpus]
    ['box.0.gpu.0', 'box.0.gpu.1', 'box.0.gpu.2', 'box.0.gpu.3']
    """

    title: str
    nodes: NodeColumns
    edges: EdgeColumns
    gpus: I32
    links: tuple[Link, ...]
    devices: tuple[str, ...]
    assumed: list[str]
    plan: ExpansionPlan = field(repr=False)
    annotations: Annotations = field(repr=False)
    failed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _read_only(self.gpus)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    def __repr__(self) -> str:
        counts = (
            f"{plural(len(self), 'node')}, {plural(len(self.edges), 'edge')}, {plural(len(self.gpus), 'GPU')}"
        )
        return f"<NodeGraph {self.title!r}: {counts}>"

    @cached_property
    def names(self) -> list[str]:
        """Fully qualified names of all nodes."""
        templates: dict[str, list[str]] = {}
        return [
            f"{i.name}.{copy}.{suffix}"
            for i in self.plan.instances.values()
            for copy in range(i.count)
            for suffix in self._suffixes(i.device, templates)
        ]

    def _suffixes(self, device: Device, templates: dict[str, list[str]]) -> list[str]:
        if device.name not in templates:
            made: list[str] = []
            for c in device.components.values():
                inner = [""]
                if c.kind is None:
                    inner = [f".{s}" for s in self._suffixes(self.plan.devices[c.name], templates)]
                made += [f"{c.name}.{k}{s}" for k in range(c.count) for s in inner]
            templates[device.name] = made
        return templates[device.name]

    def name(self, node: int) -> str:
        """Name one node, without the names of all."""
        node = int(node)
        if node not in self._named:
            self._named[node] = self._name(node)
        return self._named[node]

    @cached_property
    def _named(self) -> dict[int, str]:
        return {}

    def _name(self, node: int) -> str:
        if not 0 <= node < len(self):
            raise IndexError(node)
        instances = [i for i in self.plan.instances.values() if i.device.size]
        instance = instances[bisect_right([i.base for i in instances], node) - 1]
        device = instance.device
        copy, offset = divmod(node - instance.base, device.size)
        text = f"{instance.name}.{copy}"
        while True:
            name = next(n for n in reversed(device.base) if device.base[n] <= offset and device.stride[n])
            unit, offset = divmod(offset - device.base[name], device.stride[name])
            text += f".{name}.{unit}"
            if device.components[name].kind is not None:
                return text
            device = self.plan.devices[name]

    def naming(self) -> dict[str, dict[str, Any]]:
        """Return the naming scheme of instances, devices and components, ready for JSON.

        Returns
        -------
        dict
            ``instances``: of each its ``device``, ``count`` and first node (``base``). ``devices``: of each
            its ``size`` in nodes, and its ``components``, each with ``count``, first node, nodes of a unit
            (``stride``), and whether a unit is a node (``leaf``) or a device.
        """
        return {
            "instances": {
                name: {"device": one.device.name, "count": one.count, "base": one.base}
                for name, one in self.plan.instances.items()
            },
            "devices": {
                name: {"size": device.size, "components": _components(device)}
                for name, device in self.plan.devices.items()
            },
        }

    def instance_name(self, node: int) -> str:
        """Name the copy of an instance that a node is in."""
        return ".".join(self.name(node).split(".")[:2])

    def index(self, name: str) -> int:
        """Find a node by its fully qualified name.

        Raises
        ------
        InputError
            There is no such node, or the name is ambiguous.
        """
        try:
            blocks = locate(self.plan, name)
        except ValueError as error:
            raise InputError(f"unknown node {name!r}: {error}", where=self.title) from None
        if not blocks.leaf or blocks.first.size != 1:
            raise InputError(
                f"{name!r} names more than one node", where=self.title, hint="give the full name"
            )
        return int(blocks.first.nodes()[0])

    def select(self, identifier: str) -> I64:
        """Find all nodes that an annotation identifier names: int64, in its order."""
        try:
            return locate(self.plan, identifier).nodes()
        except ValueError as error:
            raise InputError(f"{identifier!r}: {error}", where=self.title) from None

    def kind_name(self, node: int) -> str:
        """Type of a node, as the upstream package names it: ``"xpu"``, ``"pcie_slot"``."""
        return self.plan.components[int(self.nodes.component[node])][1].type

    def node_types(self) -> dict[str, int]:
        """Count the nodes of each type, by name."""
        return _counted(self.nodes.component, [component.type for _, component in self.plan.components])

    def annotation(self, node: int) -> dict[str, Any]:
        """All annotations of a node; the later one of two with one key."""
        found: dict[str, Any] = {}
        for note in self.annotations.nodes:
            if np.any(note.about[0].nodes() == node):
                found.update(note.attributes)
        return found

    @property
    def pxn(self) -> bool:
        """Whether a GPU sends by the NIC of another one of its box that is on the target's rail (PXN)."""
        return self.annotations.pxn

    @cached_property
    def _simple(self) -> I64:
        """Rows of the edges that the upstream package's simple graph keeps."""
        a, b = self.edges.a, self.edges.b
        low, high = np.minimum(a, b).astype(np.int64), np.maximum(a, b)
        key = low * len(self) + high
        _, last = np.unique(key[::-1], return_index=True)
        rows: I64 = np.sort(len(key) - 1 - last)
        return rows

    def simple_edges(self) -> tuple[I32, I32, I32]:
        """Distinct undirected pairs, as the upstream package counts edges.

        Returns
        -------
        a, b, link : ndarray of int32, shape (pairs,)
            Where several links join one pair, the one declared last.
        """
        rows = self._simple
        return self.edges.a[rows], self.edges.b[rows], self.edges.link[rows]

    def edges_by_link(self) -> dict[str, int]:
        """Count the distinct pairs that each link name joins."""
        return _counted(self.simple_edges()[2], [link.name for link in self.links])

    def degree(self) -> I64:
        """Number of neighbours of each node: int64, shape (nodes,)."""
        a, b, _ = self.simple_edges()
        return np.bincount(a, minlength=len(self)) + np.bincount(b, minlength=len(self))

    def connected_components(self) -> int:
        """Count the connected components."""
        return int(self.component_labels.max(initial=-1)) + 1

    @cached_property
    def component_labels(self) -> I64:
        """Connected component of each node: int64, shape (nodes,), numbered by their first nodes."""
        a, b, _ = self.simple_edges()
        return connected(len(self), a, b)

    def kinds(self, kind: NodeKind) -> I64:
        """Nodes of one kind: int64, in document order."""
        return np.flatnonzero(self.nodes.kind == kind)


def _components(device: Device) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "count": one.count,
            "base": device.base[name],
            "stride": device.stride[name],
            "leaf": one.kind is not None,
        }
        for name, one in device.components.items()
    }


def _counted(rows: I32, names: list[str]) -> dict[str, int]:
    """Count how often rows with each name occur, by name."""
    found: dict[str, int] = {}
    for name, count in zip(names, np.bincount(rows, minlength=len(names)).tolist(), strict=True):
        if count:
            found[name] = found.get(name, 0) + count
    return dict(sorted(found.items()))
