"""Check whether a trace can be run."""

from __future__ import annotations

import numpy as np

from astranb.core.arrays import reversed_lists
from astranb.core.errors import InputError

from ._columns import Lists
from ._schema import CollectiveType, NodeType
from ._trace import Trace
from ._wire import Ints

__all__ = ["check", "topological_order"]

_SHOWN = 6


def check(trace: Trace) -> None:
    """Refuse a trace that cannot be run.

    Every node needs a unique id and a known type, every dependency must exist, and dependencies
    must not form a cycle. Sizes must not be negative, and a collective needs its type.

    Parameters
    ----------
    trace : Trace

    Raises
    ------
    InputError
        One line: the node, its fault, and the remedy.

    Examples
    --------
    >>> from astranb.chakra import Node
    >>> check(Trace.of([Node(1, "a", 4, data_deps=(2,)), Node(2, "b", 4, data_deps=(1,))]))
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: trace: nodes wait for each other in a cycle: 1 'a' waits for 2 'b', which
    waits for 1 'a'; drop one of these dependencies
    """
    _types(trace)
    _sizes(trace)
    topological_order(trace)


def topological_order(trace: Trace) -> Ints:
    """Return the rows of a trace in an order in which they can run: that of the file if possible.

    Raises
    ------
    InputError
        Nodes wait for each other; the message names the cycle.
    """
    parents = trace.parents
    if (parents.flat < parents.owner).all():
        return np.arange(len(trace))
    order, cycle = _ordered(parents)
    if not cycle:
        return np.array(order)
    names = [f"{trace.id[row]} {trace.names[row] or ''!r}" for row in cycle]
    middle = names[1:]
    if len(middle) > _SHOWN:
        middle = [*middle[: _SHOWN - 1], f"… {len(middle) - _SHOWN} more …", middle[-1]]
    chain = ", which waits for ".join([*middle, names[0]])
    raise InputError(
        f"nodes wait for each other in a cycle: {names[0]} waits for {chain}",
        where=trace.source,
        hint="drop one of these dependencies",
    )


def _types(trace: Trace) -> None:
    wrong = np.flatnonzero((trace.type < NodeType.METADATA) | (trace.type > NodeType.COMM_COLL))
    if len(wrong):
        row = int(wrong[0])
        known = ", ".join(f"{kind.value} {kind.name}" for kind in NodeType if kind)
        raise InputError(
            f"unknown node type {trace.type[row]}", where=trace.place(row), hint=f"use one of {known}"
        )
    collective = trace.type == NodeType.COMM_COLL
    wrong = np.flatnonzero(collective & ((trace.comm_type < 0) | (trace.comm_type >= len(CollectiveType))))
    if len(wrong):
        row = int(wrong[0])
        has_type = trace.has("comm_type")[row]
        what = f"unknown comm_type {trace.comm_type[row]}" if has_type else "a collective without comm_type"
        known = ", ".join(f"{kind.value} {kind.name}" for kind in CollectiveType)
        raise InputError(what, where=trace.place(row), hint=f"use one of {known}")


def _sizes(trace: Trace) -> None:
    for name in ("comm_size", "tensor_size", "num_ops"):
        column = trace.integers(name)
        wrong = np.flatnonzero(column < 0)
        if len(wrong):
            row = int(wrong[0])
            raise InputError(f"{name} is {column[row]}", where=trace.place(row), hint="use 0 or more")
    messages = (trace.type >= NodeType.COMM_SEND) & (trace.type <= NodeType.COMM_COLL)
    barrier = (trace.type == NodeType.COMM_COLL) & (trace.comm_type == CollectiveType.BARRIER)
    wrong = np.flatnonzero(messages & ~barrier & (trace.comm_size < 0))
    if len(wrong):
        what = f"{NodeType(int(trace.type[wrong[0]])).name} without comm_size"
        raise InputError(what, where=trace.place(int(wrong[0])), hint="give the number of bytes")


def _ordered(parents: Lists) -> tuple[list[int], list[int]]:
    """Order the rows, or find a cycle of rows, each of which waits for the next one."""
    count = len(parents.offset) - 1
    lengths = np.diff(parents.offset)
    waiting = lengths.tolist()
    offset, children = (each.tolist() for each in reversed_lists(lengths, parents.flat))
    ready = [row for row in range(count) if not waiting[row]]
    for row in ready:  # the loop appends to it
        for child in children[offset[row] : offset[row + 1]]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    if len(ready) == count:
        return ready, []
    row = next(row for row in range(count) if waiting[row])
    seen: dict[int, int] = {}
    while row not in seen:
        seen[row] = len(seen)
        row = next(int(parent) for parent in parents.of(row) if waiting[parent])
    return [], [other for other in seen if seen[other] >= seen[row]]
