"""Check whether a trace can be run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from astranb.core.arrays import offsets, reversed_lists
from astranb.core.errors import InputError

from .columns import Lists
from .rank_trace import Trace
from .schema import CollectiveType, NodeType
from .wire import Ints

__all__ = ["Malformed", "check", "cyclic_rows", "malformed", "ordered", "topological_order"]

_SHOWN = 6


def check(trace: Trace) -> None:
    """Check that a trace can be run; raise InputError if it cannot.

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
    for one in malformed(trace):
        raise one.error(trace)
    topological_order(trace)


def topological_order(trace: Trace) -> Ints:
    """Return the rows of a trace in an order in which they can run: that of the file if possible.

    Raises
    ------
    InputError
        Nodes wait for each other; the message names the cycle.
    """
    order, cycle = ordered(trace.parents)
    if not cycle:
        return np.array(order, np.int64)
    raise InputError(
        f"nodes wait for each other in a cycle: {_chain(trace, cycle)}",
        where=trace.source,
        hint="drop one of these dependencies",
    )


def cyclic_rows(trace: Trace) -> tuple[Ints, str]:
    """Find the nodes that wait for each other in cycles, or lie between two cycles; describe one cycle.

    Dependencies on nodes that do not exist are left out, so that a faulty trace can be described.
    """
    parents = trace.present_parents
    order, cycle = ordered(parents)
    if not cycle:
        return np.empty(0, np.int64), ""
    stuck = np.ones(len(trace), bool)
    stuck[order] = False
    inside = stuck[parents.owner] & stuck[parents.flat]
    owner, flat = parents.flat[inside], parents.owner[inside]
    children = Lists(offsets(owner, len(trace)), flat[np.argsort(owner, kind="stable")])
    stuck[ordered(children)[0]] = False  # what no node in a cycle waits for
    return np.flatnonzero(stuck), _chain(trace, cycle)


def _chain(trace: Trace, cycle: list[int]) -> str:
    """Write a cycle of rows, each of which waits for the next one."""
    names = [f"{trace.id[row]} {(trace.names[row] or '')[:80]!r}" for row in cycle]
    middle = names[1:]
    if len(middle) > _SHOWN:
        middle = [*middle[: _SHOWN - 1], f"… {len(middle) - _SHOWN} more …", middle[-1]]
    chain = ", which waits for ".join([*middle, names[0]])
    return f"{names[0]} waits for {chain}"


class Malformed(NamedTuple):
    """Nodes of a trace with one fault of their own.

    Attributes
    ----------
    what : str
        The fault, in a few words.
    rows : array of int64
        The nodes that have it.
    first : str
        The fault of the first of them, with its value.
    hint : str
    """

    what: str
    rows: Ints
    first: str
    hint: str

    def error(self, trace: Trace) -> InputError:
        """An error about the first node."""
        return InputError(self.first, where=trace.place(int(self.rows[0])), hint=self.hint)


def malformed(trace: Trace) -> Iterator[Malformed]:
    """Find nodes with an unknown type or collective, or without or with an impossible size."""
    wrong = np.flatnonzero((trace.type < NodeType.METADATA) | (trace.type > NodeType.COMM_COLL))
    if len(wrong):
        known = ", ".join(f"{kind.value} {kind.name}" for kind in NodeType if kind)
        said = f"unknown node type {trace.type[wrong[0]]}"
        yield Malformed("nodes of unknown type", wrong, said, f"use one of {known}")
    known = ", ".join(f"{kind.value} {kind.name}" for kind in CollectiveType)
    collective = trace.type == NodeType.COMM_COLL
    unknown = collective & ((trace.comm_type < 0) | (trace.comm_type >= len(CollectiveType)))
    declared, kept = trace.has("comm_type"), trace.keeps_duration
    for what, some in (
        ("collectives without comm_type", np.flatnonzero(unknown & ~declared & ~kept)),
        ("unknown collectives", np.flatnonzero(unknown & declared)),
    ):
        if len(some):
            said = f"unknown comm_type {trace.comm_type[some[0]]}"
            said = said if "unknown" in what else "a collective without comm_type"
            yield Malformed(what, some, said, f"use one of {known}")
    for name in ("comm_size", "tensor_size", "num_ops"):
        column = trace.integers(name)
        wrong = np.flatnonzero(column < 0)
        if len(wrong):
            yield Malformed(f"negative {name}", wrong, f"{name} is {column[wrong[0]]}", "use 0 or more")
    messages = (trace.type >= NodeType.COMM_SEND) & (trace.type <= NodeType.COMM_COLL)
    barrier = collective & (trace.comm_type == CollectiveType.BARRIER)
    wrong = np.flatnonzero(messages & ~barrier & ~kept & ~trace.has("comm_size"))
    if len(wrong):
        said = f"{NodeType(int(trace.type[wrong[0]])).name} without comm_size"
        yield Malformed("communication without comm_size", wrong, said, "give the number of bytes")


def ordered(parents: Lists) -> tuple[list[int], list[int]]:
    """Order the rows as far as they can run; find a cycle of rows, each of which waits for the next one."""
    if (parents.flat < parents.owner).all():
        return list(range(len(parents.offset) - 1)), []
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
    return ready, [other for other in seen if seen[other] >= seen[row]]
