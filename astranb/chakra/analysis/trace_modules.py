"""The modules of a graph: a hierarchy of its nodes, as recorded or derived from their names.

A PyTorch trace records which operation called which (``ctrl_deps``): a caller is a module. Elsewhere the
words of names are: ``L3 fwd 0 attn`` lies in ``L3``, ``fwd``, ``0``. A module has at most a hundred children;
of more, runs of a hundred are modules of their own, so that whatever shows one module needs little.

Modules and nodes together are *entities*: module K is entity K, the node in row R is entity ``modules + R``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.chakra.traces import Distinct, Ints, Lists, NodeType, Trace, ordered
from astranb.core.arrays import offsets
from astranb.core.errors import InputError

__all__ = ["NODE_KINDS", "FoldedEdges", "GraphNodes", "ModuleTree"]

NODE_KINDS: Final = ("compute", "communication", "memory", "other")
"""Kinds of nodes, by their number."""

MOST_CHILDREN: Final = 100
_MOST_DEPTH: Final = 48
_MOST_LETTERS: Final = 1000
_WORD: Final = re.compile(r"[^\s/.]+")
_BETWEEN: Final = " /.\t\n"
_KIND_OF: Final = {
    NodeType.COMP: 0,
    NodeType.COMM_COLL: 1,
    NodeType.COMM_SEND: 1,
    NodeType.COMM_RECV: 1,
    NodeType.MEM_LOAD: 2,
    NodeType.MEM_STORE: 2,
}

Floats = NDArray[np.float64]


class GraphNodes(NamedTuple):
    """Nodes from which modules are found: a row for each node.

    Attributes
    ----------
    names : Distinct of str
    kind : array of int64
        As :data:`NODE_KINDS`.
    before, after : array of int64
        The rows of each dependency: the second waits for the first.
    control : array of bool
        Whether it is one of control only.
    duration_ns, bytes, flops : array of int64
        0 where they are not known.
    callers : array of int64, optional
        The row that called each node; -1: none is known.
    ids : array of uint64, optional
        By default the rows.
    source : str
        The name of the whole.
    notes : tuple of str
        What is wrong with it.
    """

    names: Distinct[str]
    kind: Ints
    before: Ints
    after: Ints
    control: NDArray[np.bool_]
    duration_ns: Ints
    bytes: Ints
    flops: Ints
    callers: Ints | None = None
    ids: NDArray[np.uint64] | None = None
    source: str = "trace"
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, trace: Trace) -> GraphNodes:
        """Take the nodes of a trace, a faulty one too."""
        after, wanted, before = trace.linked
        is_control = np.arange(len(after)) >= len(trace.data_deps.flat)
        present = before >= 0
        count = max(len(trace), 1)
        pairs, first = _first_of(after[present] * count + before[present])
        control = is_control[present][first]
        notes = _notes(trace, len(wanted) - int(present.sum()))

        def column(name: str, otherwise: int) -> Ints:
            try:
                found = trace.integers(name, otherwise)
            except InputError as error:
                notes.append(str(error))
                return np.full(len(trace), otherwise, np.int64)
            return found

        kind = np.full(len(trace), 3, np.int64)
        for number, which in _KIND_OF.items():
            kind[trace.type == number] = which
        exact, size, flops = (column(name, -1) for name in ("duration_ns", "comm_size", "num_ops"))
        rough = np.clip(trace.duration_us, 0, np.iinfo(np.int64).max // 1000) * 1000
        return cls(
            trace.names.map(lambda name: name or ""),
            kind,
            pairs % count,
            pairs // count,
            control,
            np.where(exact >= 0, exact, rough),
            np.where(kind == 1, np.maximum(size, 0), 0),
            np.maximum(flops, 0),
            _callers(trace),
            trace.id,
            trace.source,
            tuple(notes),
        )


class FoldedEdges(NamedTuple):
    """The dependencies between the children of a module, with those of all nodes inside.

    Attributes
    ----------
    before, after : array of int64
        Entities: two children of one module.
    data, control : array of int64
        How many dependencies of each kind there are.
    """

    before: Ints
    after: Ints
    data: Ints
    control: Ints


class ModuleTree:
    """The modules of a graph.

    Parameters
    ----------
    nodes : GraphNodes or Trace
    by : str, optional
        ``callers`` or ``names``; by default callers if they are recorded.

    Attributes
    ----------
    labels : list of str
        The name of each module within the one around it; module 0 is the whole.
    parent : array of int64
        The module around each one; -1 around the whole.
    depth : array of int64
    module_of : array of int64
        The innermost module of each node.
    kinds : array of int64, shape (modules, 4)
        How many nodes of each kind are in each module, as :data:`NODE_KINDS`.
    duration_ns, bytes, flops : array of float64
        What they have together: recorded time, bytes of communication, operations.
    critical : array of float64
        The part of the critical path that is in each module: the chain of dependencies with the most recorded
        time. ``share`` is that of each node.
    by : str
    notes : tuple of str
        Faults: cycles, dependencies on nodes that do not exist, ids that occur twice.

    Raises
    ------
    InputError
        Callers are asked for and not recorded.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> done = step.compute("L0 fwd attn", num_ops=10**6, duration_us=3)
    >>> done = step.collective("all_reduce", 1024, name="L0 fwd sum", after=done)
    >>> _ = step.compute("L1 fwd", num_ops=10**6, duration_us=2, after=done)
    >>> tree = ModuleTree(step.build())
    >>> tree.labels, [tree.label(one) for one in tree.children(1)]
    (['trace', 'L0 fwd'], ['attn', 'sum'])
    >>> tree.edges(0).data, tree.duration_ns, tree.critical.round(1)
    (array([1]), array([5000., 3000.]), array([1. , 0.6]))
    """

    def __init__(self, nodes: GraphNodes | Trace, by: str | None = None) -> None:
        self.nodes = nodes = GraphNodes.of(nodes) if isinstance(nodes, Trace) else nodes
        if by not in (None, "callers", "names"):
            raise InputError(f"unknown kind of modules {by!r}", where="by", hint="use callers or names")
        if by == "callers" and nodes.callers is None:
            hint = "use names; PyTorch execution traces record callers"
            raise InputError(
                "the trace does not record which node called which", where=nodes.source, hint=hint
            )
        self.by = by or ("names" if nodes.callers is None else "callers")
        self.count = len(nodes.kind)
        self.notes = nodes.notes
        self._order()
        if self.by == "callers" and nodes.callers is not None:
            labels, parent, self.module_of, self._heads = _by_callers(nodes, nodes.callers)
            self._prefix = [""] * len(labels)
        else:
            labels, parent, self.module_of, self._prefix = _by_names(nodes.names)
            self._heads = {}
        labels[0] = nodes.source
        self.labels, self._above = labels, parent
        self._split()
        self._sum()

    def __len__(self) -> int:
        """Return the number of modules."""
        return len(self.labels)

    def _order(self) -> None:
        """Number the nodes in an order in which they can run, and find the longest path."""
        nodes = self.nodes
        real = nodes.before != nodes.after
        before, after = nodes.before[real], nodes.after[real]
        by_child = np.argsort(after, kind="stable")
        parents = Lists(offsets(after, self.count), before[by_child])
        order, _ = ordered(parents)
        done = np.zeros(self.count, bool)
        done[order] = True
        rest = np.flatnonzero(~done)
        if len(rest):
            what = f"nodes that wait for each other in a cycle, or for these: {len(rest):,}"
            self.notes = (*self.notes, f"{what}; they are in the order of the file, and on no critical path")
        self.position = np.empty(self.count, np.int64)
        self.position[np.concatenate([np.array(order, np.int64), rest])] = np.arange(self.count)
        self.on_path = _longest_path(order, parents, nodes.duration_ns)

    def _split(self) -> None:
        """Divide modules with many children into runs, in their order."""
        labels, parent = self.labels, self._above
        first = np.full(len(labels), self.count, np.int64)
        np.minimum.at(first, self.module_of, self.position)
        before = first.tolist()
        for module in _inner_first(parent):
            above = parent[module]
            if above >= 0:
                before[above] = min(before[above], before[module])
        members = np.concatenate([np.array(parent, np.int64), self.module_of])
        places = np.concatenate([np.array(before, np.int64), self.position])
        crowded = np.flatnonzero(np.bincount(members[1:], minlength=len(labels)) > MOST_CHILDREN)
        size = len(labels)
        for module in crowded.tolist():
            mine = np.flatnonzero(members == module)
            mine = mine[np.argsort(places[mine], kind="stable")]
            self._split_run(module, mine, members, size, 0, len(mine))
        self.parent = np.concatenate([members[:size], np.array(parent[size:], np.int64)])
        self.module_of = members[size:]

    def _split_run(self, module: int, mine: Ints, members: Ints, size: int, begun: int, whole: int) -> None:
        """Put runs of children, as few as can be, into modules of their own."""
        each = MOST_CHILDREN
        while each * MOST_CHILDREN < len(mine):
            each *= MOST_CHILDREN
        for at in range(0, len(mine), each):
            run = mine[at : at + each]
            number = len(self.labels)
            self.labels.append(f"{begun + at + 1:,} to {begun + at + len(run):,} of {whole:,}")
            self._above.append(module)
            self._prefix.append(self._prefix[module])
            members[run] = number
            if len(run) > MOST_CHILDREN:
                self._split_run(number, run, members, size, begun + at, whole)

    def _sum(self) -> None:
        """Add up what is in each module, with all that is inside."""
        nodes, count = self.nodes, len(self.labels)
        self.depth = np.zeros(count, np.int64)
        inner_first = _inner_first(self.parent.tolist())
        parent = self.parent.tolist()
        for module in reversed(inner_first):
            if parent[module] >= 0:
                self.depth[module] = self.depth[parent[module]] + 1
        self.first = np.full(count, max(self.count, 1), np.int64)
        np.minimum.at(self.first, self.module_of, self.position)
        path_ns = np.where(self.on_path, nodes.duration_ns, 0).astype(float)
        self.share: Floats = path_ns / max(float(path_ns.sum()), 1.0)
        self._levels = self._outer_levels()
        weights = (nodes.duration_ns, nodes.bytes, nodes.flops, self.share)
        self.duration_ns, self.bytes, self.flops, self.critical = (self.sums(one) for one in weights)
        self.kinds = np.column_stack([self.sums(nodes.kind == kind) for kind in range(4)]).astype(np.int64)
        for some in self._levels:
            np.minimum.at(self.first, self.parent[some], self.first[some])

    def _outer_levels(self) -> list[Ints]:
        """The modules of each depth, the innermost first, without the whole."""
        order = np.argsort(self.depth, kind="stable")[::-1]
        bounds = np.flatnonzero(np.diff(self.depth[order])) + 1
        return np.split(order, bounds)[:-1]

    def sums(self, values: NDArray[Any]) -> Floats:
        """Add up a number of each node by modules, with all that is inside."""
        found = np.bincount(self.module_of, values, len(self.labels)).astype(float)
        for some in self._levels:
            np.add.at(found, self.parent[some], found[some])
        return found

    # What one module shows

    @cached_property
    def all_children(self) -> Lists:
        """The children of each module."""
        around = np.concatenate([self.parent, self.module_of])
        place = np.concatenate([self.first, self.position])
        order = np.lexsort([place, around])[1:]  # without the whole, which is around all
        return Lists(offsets(around[1:], len(self)), order)

    def children(self, module: int) -> Ints:
        """The entities right inside a module, in an order in which they can begin."""
        return self.all_children.of(module)

    def row(self, entity: int) -> int:
        """The row of an entity that is a node; -1: it is a module."""
        return entity - len(self) if entity >= len(self) else -1

    def around(self, entity: int) -> int:
        """The module around an entity; -1 around the whole."""
        row = self.row(entity)
        return int(self.parent[entity] if row < 0 else self.module_of[row])

    def chain(self, entity: int) -> list[int]:
        """The modules around an entity, the outermost first."""
        found = []
        module = self.around(entity)
        while module >= 0:
            found.append(module)
            module = self.around(module)
        return found[::-1]

    def label(self, entity: int) -> str:
        """The name of an entity within the module around it."""
        row = self.row(entity)
        if row < 0:
            return self.labels[entity]
        name = self.nodes.names[row] or ""
        prefix = self._prefix[int(self.module_of[row])]
        return _within(name, prefix) if prefix and name.startswith(prefix) else name

    def edges(self, module: int) -> FoldedEdges:
        """The dependencies between the children of a module."""
        starts, edges = self.all_edges
        return FoldedEdges(*(column[starts[module] : starts[module + 1]] for column in edges))

    @cached_property
    def all_edges(self) -> tuple[Ints, FoldedEdges]:
        """First edge of each module, and the edges of all modules.

        Each dependency is in one of them: in the innermost module around both of its nodes, between two
        children of it.
        """
        nodes = self.nodes
        up = np.concatenate([self.parent, self.module_of])
        depth = np.concatenate([self.depth, self.depth[self.module_of] + 1])
        real = nodes.before != nodes.after
        a, b = nodes.before[real] + len(self), nodes.after[real] + len(self)
        control = nodes.control[real]
        for one, other in ((a, b), (b, a)):  # up to the same depth
            while (deeper := depth[one] > depth[other]).any():
                one[deeper] = up[one[deeper]]
        while (apart := up[a] != up[b]).any():
            a[apart], b[apart] = up[a[apart]], up[b[apart]]
        entities = len(up)
        pairs, inverse = np.unique(a * entities + b, return_inverse=True)
        before, after = pairs // entities, pairs % entities
        controls = np.bincount(inverse, control, len(pairs)).astype(np.int64)
        every = np.bincount(inverse, minlength=len(pairs)).astype(np.int64)
        owner = up[before]
        order = np.argsort(owner, kind="stable")
        edges = FoldedEdges(before[order], after[order], (every - controls)[order], controls[order])
        return offsets(owner, len(self)), edges


def _first_of(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, and where each occurs first."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    fresh = np.ones(len(values), bool)
    fresh[1:] = values[1:] != values[:-1]
    return values[fresh], order[fresh]


def _notes(trace: Trace, dangling: int) -> list[str]:
    """List the faults in the dependencies of a trace."""
    found = []
    if again := len(trace.duplicates):
        found.append(f"nodes with the id of another one: {again:,}; dependencies lead to the first")
    if dangling:
        found.append(f"dependencies on nodes that do not exist, not drawn: {dangling:,}")
    own = trace.linked[0] == trace.linked[2]
    if own.any():
        found.append(f"dependencies of nodes on themselves, not drawn: {int(own.sum()):,}")
    return found


def _callers(trace: Trace) -> Ints | None:
    """The row that called each node, where a PyTorch trace recorded it; -1: none is known."""
    if not (trace.has("rf_id") | trace.has("tid")).any() or not len(trace.ctrl_deps.flat):
        return None
    if (np.diff(trace.ctrl_deps.offset) > 1).any():
        return None
    after, _, before = trace.linked
    called = slice(len(trace.data_deps.flat), None)
    found = np.full(len(trace), -1, np.int64)
    found[after[called]] = before[called]
    found[found == np.arange(len(trace))] = -1
    return found


def _inner_first(parent: Sequence[int]) -> list[int]:
    """Modules so that each comes before the one around it."""
    count = len(parent)
    waiting = [0] * count
    for above in parent:
        if above >= 0:
            waiting[above] += 1
    order = [module for module in range(count) if not waiting[module]]
    for module in order:  # grows while it is walked
        above = parent[module]
        if above >= 0:
            waiting[above] -= 1
            if not waiting[above]:
                order.append(above)
    return order


def _by_callers(nodes: GraphNodes, callers: Ints) -> tuple[list[str], list[int], Ints, dict[int, int]]:
    """Make a module of every caller; the caller is in it, too."""
    count = len(callers)
    above = callers.tolist()
    state = [0] * count  # 1: on the way up, 2: known to end
    depth = [0] * count
    for row in range(count):
        path = []
        at = row
        while at >= 0 and not state[at]:
            state[at] = 1
            path.append(at)
            at = above[at]
        if at >= 0 and state[at] == 1:  # callers that call each other
            above[path[-1]] = -1
        for one in reversed(path):
            state[one] = 2
            depth[one] = depth[above[one]] + 1 if above[one] >= 0 else 1
            if depth[one] > _MOST_DEPTH:  # beside its caller instead of in it
                above[one], depth[one] = above[above[one]], _MOST_DEPTH
    calls = [False] * count
    for caller in above:
        if caller >= 0:
            calls[caller] = True
    number: dict[int, int] = {}
    for row in range(count):
        if calls[row]:
            number[row] = len(number) + 1
    labels = ["", *(nodes.names[row] or f"node {row}" for row in number)]
    parent = [-1, *(number[above[row]] if above[row] >= 0 else 0 for row in number)]
    inside = [
        number[row] if calls[row] else number[above[row]] if above[row] >= 0 else 0 for row in range(count)
    ]
    return labels, parent, np.array(inside, np.int64), {module: row for row, module in number.items()}


def _by_names(names: Distinct[str]) -> tuple[list[str], list[int], Ints, list[str]]:
    """Make a module of every word that names have in common; one that holds one thing is left out.

    Returns labels, the module around each one, that of each node, and what the names in each begin with.
    """
    known = {"": 0}  # by what names begin with
    parent, prefix, depth = [-1], [""], [0]
    ends = []
    for name in names.values:
        begin = name[:_MOST_LETTERS].strip(_BETWEEN)
        at = known.get(begin)
        fresh = []
        while at is None:
            fresh.append(begin)
            cut = max(begin.rfind(between) for between in _BETWEEN)
            begin = begin[: max(cut, 0)].rstrip(_BETWEEN)
            at = known.get(begin)
        for text in reversed(fresh):
            if depth[at] < _MOST_DEPTH:
                parent.append(at)
                prefix.append(text)
                depth.append(depth[at] + 1)
                at = len(parent) - 1
            known[text] = at
        ends.append(at)
    nodes = np.bincount(names.index[names.index >= 0], minlength=len(ends)).tolist()
    holds = [0] * len(parent)  # how many things are right inside
    for end, many in zip(ends, nodes, strict=True):
        holds[end] += many
    kept = [False] * len(parent)
    kept[0] = True
    for at in range(len(parent) - 1, 0, -1):  # a word comes after those before it
        kept[at] = holds[at] > 1
        holds[parent[at]] += 1 if holds[at] else 0
    number, labels, around, begins = [0] * len(parent), [""], [-1], [""]
    for at in range(1, len(parent)):
        above = number[parent[at]]
        number[at] = above
        if kept[at]:
            number[at] = len(labels)
            labels.append(_within(prefix[at], begins[above]))
            around.append(above)
            begins.append(prefix[at])
    module_of = np.zeros(len(names.index), np.int64)
    of_end = np.array([number[end] for end in ends], np.int64)
    named = names.index >= 0
    module_of[named] = of_end[names.index[named]]
    return labels, around, module_of, begins


def _within(name: str, prefix: str) -> str:
    """A name without what it has in common with the module around it; a number keeps the word before it."""
    rest = name[len(prefix) :].strip(_BETWEEN)
    if rest and not (rest[0].isdigit() and prefix):
        return rest
    words = _WORD.findall(prefix)
    return f"{words[-1]} {rest}".rstrip() if words else name


def _longest_path(order: Sequence[int], parents: Lists, duration_ns: Ints) -> NDArray[np.bool_]:
    """Mark the nodes of a chain of dependencies with the most time: those of a cycle are left out."""
    found = np.zeros(len(duration_ns), bool)
    offset, flat = parents.offset.tolist(), parents.flat.tolist()
    took = [float(one) for one in duration_ns.tolist()]
    ends = [0.0] * len(took)
    last = [-1] * len(took)
    for row in order:
        begin, best = 0.0, -1
        for one in flat[offset[row] : offset[row + 1]]:
            if best < 0 or ends[one] > begin:
                begin, best = ends[one], one
        ends[row], last[row] = begin + took[row], best
    at = max(order, key=ends.__getitem__, default=-1)
    while at >= 0:
        found[at] = True
        at = last[at]
    return found
