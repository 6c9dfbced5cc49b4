"""Expand a plan to arrays: vectorised over units, copies and instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import reduce_at

from .plan import Device, ExpansionPlan, Join

__all__ = ["Edges", "expand_edges", "expand_nodes"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edges:
    """Undirected edges: node ``a``, node ``b``, link row and how often each is declared."""

    a: Ints
    b: Ints
    link: Ints
    repeats: Ints

    def copies(self, starts: Ints) -> Edges:
        """Repeat the edges once for each first node, copy by copy."""
        n = len(starts)
        if n == 1:  # a document may have very many instances of one copy
            return Edges(self.a + starts[0], self.b + starts[0], self.link, self.repeats)
        return Edges(
            (starts[:, None] + self.a).ravel(),
            (starts[:, None] + self.b).ravel(),
            np.tile(self.link, n),
            np.tile(self.repeats, n),
        )


def expand_nodes(plan: ExpansionPlan) -> tuple[Ints, Ints]:
    """Return each node's row in ``plan.components``, and the number of its instance copy."""
    templates: dict[str, Ints] = {}
    component = [np.tile(_template(plan, i.device, templates), i.count) for i in plan.instances.values()]
    copy = [
        np.repeat(np.arange(i.first_copy, i.first_copy + i.count), i.device.size)
        for i in plan.instances.values()
    ]
    return _joined(component), _joined(copy)


def _template(plan: ExpansionPlan, device: Device, templates: dict[str, Ints]) -> Ints:
    if device.name not in templates:
        parts = [
            np.full(c.count, c.row, np.int64)
            if c.kind is not None
            else np.tile(_template(plan, plan.devices[c.name], templates), c.count)
            for c in device.components.values()
        ]
        templates[device.name] = _joined(parts)
    return templates[device.name]


def expand_edges(plan: ExpansionPlan) -> Edges:
    """Return all edges: inside instances first, in their order, then between them.

    Edges of one device are in the order in which the upstream package adds them, so that
    of several links between one pair of nodes the last one is the same.
    """
    templates: dict[str, Edges] = {}
    parts = [
        _device_edges(plan, i.device, templates).copies(
            i.base + i.device.size * np.arange(i.count, dtype=np.int64)
        )
        for i in plan.instances.values()
    ]
    return _concatenated([*parts, _merged(plan.joins)])


def _device_edges(plan: ExpansionPlan, device: Device, templates: dict[str, Edges]) -> Edges:
    if device.name not in templates:
        parts = []
        for c in device.components.values():
            if c.kind is None:
                starts = device.base[c.name] + device.stride[c.name] * np.arange(c.count, dtype=np.int64)
                parts.append(_device_edges(plan, plan.devices[c.name], templates).copies(starts))
        parts.append(_merged(device.joins, by_source=True))
        templates[device.name] = _concatenated(parts)
    return templates[device.name]


def _merged(joins: list[Join], *, by_source: bool = False) -> Edges:
    """Expand declarations; a pair of nodes with one link is one edge, however often declared.

    Several links of one pair stay several edges; the one that the upstream package adds
    last comes last. It adds the edges of a device grouped by first endpoint (``by_source``).
    """
    pairs = [_pairs(join) for join in joins]
    a, b = _joined([p[0] for p in pairs]), _joined([p[1] for p in pairs])
    if not len(a):
        return Edges(a, b, a, a)
    lengths = np.asarray([len(p[0]) for p in pairs], np.int64)
    link = np.repeat(np.asarray([j.link for j in joins], np.int64), lengths)
    declared = np.repeat(np.arange(len(joins)), lengths)
    added = np.arange(len(a))
    if by_source:
        _, first, group = np.unique(a, return_index=True, return_inverse=True)
        added[np.argsort(first[group], kind="stable")] = np.arange(len(a))
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((declared, link, high, low))
    changes = [np.diff(key[order], prepend=-1) != 0 for key in (low, high, link)]
    new = changes[0] | changes[1] | changes[2]
    again = new | (np.diff(declared[order], prepend=-1) != 0)
    starts = np.flatnonzero(new)
    # Within one declaration a clique names every pair in both directions: that is one cable.
    repeats = reduce_at(np.add, again.astype(np.int64), starts)
    last = reduce_at(np.maximum, added[order], starts)
    sequence = np.argsort(last)
    kept = order[starts][sequence]
    return Edges(a[kept], b[kept], link[kept], repeats[sequence])


def _pairs(join: Join) -> tuple[Ints, Ints]:
    """Return the pairs of one declaration, without those of a node with itself."""
    a, b = join.ep1.nodes(), join.ep2.nodes()
    if join.scheme == "ring":
        b = np.roll(a, -1)
    elif join.scheme == "many2many":
        a, b = np.repeat(a, len(b)), np.tile(b, len(a))
    else:
        n = min(len(a), len(b))
        a, b = a[:n], b[:n]
    differ = a != b
    return (a, b) if differ.all() else (a[differ], b[differ])


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _concatenated(parts: list[Edges]) -> Edges:
    return Edges(*(_joined([getattr(p, f) for p in parts]) for f in ("a", "b", "link", "repeats")))
