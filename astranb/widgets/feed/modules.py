"""Messages about the modules of a graph: one module at a time, or all of them for a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from astranb.chakra import (
    NODE_KINDS,
    ModuleDrawing,
    ModuleTree,
    NodeType,
    Trace,
    as_document,
    draw_module,
    draw_modules,
)
from astranb.core.arrays import distinct

from .messages import Message, pack

__all__ = ["ModuleAnswers", "attributes_message", "facts_of", "shown_text", "tree_message"]

Facts = list[tuple[str, str]]

_MOST_FOUND: Final = 50
_MOST_LINKS: Final = 12
_SHOWN_AROUND: Final = 4
_MOST_TEXT: Final = 400
_FIELDS: Final = ("name", "id", "type", "start_us", "duration_us")
_MOST_INPUTS: Final = 20_000  # nodes whose inputs and outputs a page has
_TYPES: Final = frozenset(NodeType)
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def facts_of(trace: Trace) -> Callable[[int], Facts]:
    """Return what gives the fields and attributes of a node of a trace, by its row."""

    def facts(row: int) -> Facts:
        document = as_document(trace.node(row))
        found = [
            (name, shown_text(str(document[name])))
            for name in _FIELDS
            if document.get(name) not in (None, "")
        ]
        found += [(shown_text(name), _value(value)) for name, value in document.get("attributes", {}).items()]
        for side in ("inputs", "outputs"):
            found += [
                (f"{side}: {name}", _value(value)) for name, value in document.get(side, {}).items() if value
            ]
        return found

    return facts


def _value(value: Any) -> str:
    """An attribute's value as text."""
    if isinstance(value, tuple | list):
        return shown_text(f"[{', '.join(map(_value, value))}]")
    if isinstance(value, bool | None):
        return str(value).lower()
    return shown_text(value.hex() if isinstance(value, bytes) else str(value))


class ModuleAnswers:
    """Answers to what a view of modules asks.

    Parameters
    ----------
    tree : ModuleTree
    facts : callable
        What is known of the node in a row: names and values.
    """

    def __init__(self, tree: ModuleTree, facts: Callable[[int], Facts]) -> None:
        self.tree, self.facts = tree, facts
        self._words: list[str] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """Return what does not depend on a module."""
        return _about(self.tree)

    def module(self, module: int) -> Message:
        """The drawing of one module."""
        if not 0 <= module < len(self.tree):
            return {"module": 0, "labels": []}, pack("module")
        labels = _Labels()
        columns = _columns(self.tree, draw_module(self.tree, module), labels)
        return {"module": module, "labels": labels.texts}, pack("module", **columns)

    def search(self, text: str) -> dict[str, Any]:
        """Nodes and modules whose names hold every word, or the node with that number; the best first."""
        wanted = text.lower().split()
        tree, nodes = self.tree, self.tree.nodes
        if self._words is None:
            self._words = [name.lower() for name in nodes.names.values]
        found = []
        if len(wanted) == 1 and wanted[0].isdecimal() and (row := self.row_of(int(wanted[0]))) >= 0:
            found.append(row + len(tree))
        if wanted:
            hits = [number for number, name in enumerate(self._words) if all(word in name for word in wanted)]
            modules = [
                number
                for number, name in enumerate(tree.labels)
                if number and all(word in name.lower() for word in wanted)
            ]
            rows = np.flatnonzero(np.isin(nodes.names.index, hits))
            total = len(found) + len(modules) + len(rows)
            found += [*modules, *(rows + len(tree)).tolist()]
        else:
            total = 0
        return {"found": [self.link(one) for one in found[:_MOST_FOUND]], "total": total}

    def row_of(self, number: int) -> int:
        """The row of the node with an id; -1: there is none."""
        ids = self.tree.nodes.ids
        if ids is None:
            return number if 0 <= number < self.tree.count else -1
        found = np.flatnonzero(ids == np.uint64(number)).tolist() if number < 1 << 64 else []
        return found[0] if found else -1

    def detail(self, entity: int) -> dict[str, Any]:
        """Return the facts about one node, what it waits for and what waits for it."""
        tree, nodes = self.tree, self.tree.nodes
        row = tree.row(entity)
        if not 0 <= row < tree.count:
            return {"entity": entity, "facts": [], "before": [], "after": [], "counts": [0, 0]}
        before = nodes.before[nodes.after == row] + len(tree)
        after = nodes.after[nodes.before == row] + len(tree)
        return {
            "entity": entity,
            "facts": self.facts(row),
            "before": [self.link(one) for one in before[:_MOST_LINKS].tolist()],
            "after": [self.link(one) for one in after[:_MOST_LINKS].tolist()],
            "counts": [len(before), len(after)],
        }

    def link(self, entity: int) -> tuple[int, str, list[int]]:
        """An entity, its whole name and the modules around it."""
        tree, row = self.tree, self.tree.row(entity)
        chain = tree.chain(entity)
        if row >= 0:
            ids = tree.nodes.ids
            number = row if ids is None else int(ids[row])
            return entity, f"{shown_text(tree.nodes.names[row] or 'no name')} ({number})", chain
        around = " / ".join(shown_text(tree.labels[one]) for one in chain[1:][-_SHOWN_AROUND:])
        return entity, f"{shown_text(tree.labels[entity])} (module){around and f', in {around}'}", chain


def _about(tree: ModuleTree) -> dict[str, Any]:
    """Return what does not depend on a module."""
    return {
        "title": shown_text(tree.labels[0]),
        "modules": len(tree),
        "nodes": tree.count,
        "by": tree.by,
        "notes": [shown_text(note) for note in tree.notes],
    }


class _Labels:
    """Texts, each once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._known)

    def number(self, label: str) -> int:
        """The number of a text."""
        return self._known.setdefault(shown_text(label), len(self._known))


def _columns(tree: ModuleTree, drawn: ModuleDrawing, labels: _Labels) -> dict[str, Any]:
    """The columns of a drawing."""
    some = drawn.entities
    nodes, count = tree.nodes, len(tree)
    is_node = some >= count
    rows, modules = np.where(is_node, some - count, 0), np.where(is_node, 0, some)

    def figure(own: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return np.where(is_node, own[rows], whole[modules]) if len(own) else whole[modules]

    numbers = {
        name: figure(nodes.kind == number, tree.kinds[:, number]) for number, name in enumerate(NODE_KINDS)
    }
    return {
        "entity": some,
        "text": [labels.number(tree.label(one)) for one in some.tolist()],
        "row": drawn.row,
        "slot": drawn.slot,
        **numbers,
        "duration": figure(nodes.duration_ns, tree.duration_ns),
        "bytes": figure(nodes.bytes, tree.bytes),
        "flops": figure(nodes.flops, tree.flops),
        "critical": figure(tree.share, tree.critical),
        "before": drawn.before,
        "after": drawn.after,
        "data": drawn.data,
        "control": drawn.control,
        "implied": drawn.implied,
    }


def tree_message(tree: ModuleTree) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """All modules, for a page: as :meth:`ModuleAnswers.module` gives them, one behind the other.

    Returns
    -------
    dict
        What does not depend on a module (``about``), and all texts (``labels``, ``names``).
    dict of str to list of bytes
        ``module`` and ``module_tree``.
    """
    nodes, labels = tree.nodes, _Labels()
    drawn, first, edge = draw_modules(tree)
    whole: dict[str, np.ndarray] = {
        "first": first,
        "edge": edge,
        "around": tree.parent,
        "module_of": tree.module_of,
        "name": np.where(nodes.names.index < 0, len(nodes.names.values), nodes.names.index),
        "id": np.arange(tree.count) if nodes.ids is None else nodes.ids,
        "from": nodes.before,
        "to": nodes.after,
    }
    names = [*map(shown_text, nodes.names.values), "no name"]
    columns = _columns(tree, drawn, labels)
    return {"about": _about(tree), "labels": labels.texts, "names": names}, {
        "module": pack("module", **columns),
        "module_tree": pack("module_tree", **whole),
    }


def attributes_message(trace: Trace) -> Message:
    """The fields and attributes of all nodes, for a page.

    Of each attribute all texts (``values``), and, one attribute behind the other, which of them each node
    has; the one after the last is none.
    """
    found: list[dict[str, Any]] = []
    numbers = []

    def add(name: str, values: Sequence[str], index: np.ndarray) -> None:
        found.append({"name": shown_text(name), "values": values})
        numbers.append(np.where(index < 0, len(values), index))

    for name, column in (
        ("type", trace.type),
        ("start_us", trace.start_us),
        ("duration_us", trace.duration_us),
    ):
        some = distinct(column)
        labels = [
            NodeType(one).name if name == "type" and one in _TYPES else str(one) for one in some.tolist()
        ]
        labels = ["" if name != "type" and one == "0" else one for one in labels]
        add(name, labels, np.searchsorted(some, column))
    for name in trace.attribute_names:
        values = trace.values(name).map(lambda one: _value(one.value))
        add(name, values.values, values.index)
    rows = np.flatnonzero(trace.has_inputs)[:_MOST_INPUTS].tolist()
    sides: dict[str, tuple[dict[str, int], np.ndarray]] = {}
    for row in rows:
        node = trace.node(row)
        for side, texts in (("inputs", node.inputs), ("outputs", node.outputs)):
            for name, value in zip(("values", "shapes", "types"), texts or (), strict=False):
                if value:
                    known, index = sides.setdefault(f"{side}: {name}", ({}, np.full(len(trace), -1)))
                    index[row] = known.setdefault(_value(value), len(known))
    for name, (known, index) in sides.items():
        add(name, list(known), index)
    return {"attributes": found}, pack("module_values", value=np.concatenate(numbers))


def shown_text(value: str) -> str:
    """A text that can be shown and sent, not too long."""
    readable = _UNPRINTABLE.sub("?", value.encode("utf-8", "replace").decode())
    return readable if len(readable) <= _MOST_TEXT else f"{readable[: _MOST_TEXT - 1]}…"
