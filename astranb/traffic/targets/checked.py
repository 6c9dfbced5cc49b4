"""Checks of a graph that every target needs, and the words of their reports."""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.traffic.graph import MessageGraph
from astranb.traffic.order import node_name, node_order
from astranb.workload.astrasim2 import COMPUTE

__all__ = ["checked_order", "counted", "labelled", "one_line", "sharing"]

_MOST: Final = 2**62


def checked_order(graph: MessageGraph) -> np.ndarray:
    """Return an order in which the nodes can begin, after checking that the graph can be written.

    Raises
    ------
    InputError
        A number is negative, a message is not received, or nodes wait for one another in a cycle.
    """
    nodes = graph.nodes
    for field, what in (("bytes", "size"), ("duration_ps", "duration")):
        wrong = np.flatnonzero(nodes[field] < 0)
        if len(wrong):
            value = int(nodes[field][wrong[0]])
            raise InputError(
                f"{node_name(graph, int(wrong[0]))} has a {what} of {value}",
                where=graph.title,
                hint="numbers must not be negative",
            )
        if len(nodes) and nodes[field].sum(dtype=float) > _MOST:
            raise InputError(f"the {what}s of all nodes add up to more than 62 bits", where=graph.title)
    alone = np.flatnonzero((nodes["kind"] != COMPUTE) & (nodes["match"] < 0))
    if len(alone):
        raise InputError(
            f"{node_name(graph, int(alone[0]))} has no other end",
            where=graph.title,
            hint="match sends and receives",
        )
    return node_order(graph)


def counted(count: int, total: int, noun: str, rest: str) -> tuple[str, ...]:
    """Word what cannot be expressed, ``3 of 120 computations: …``; nothing where the count is 0.

    Examples
    --------
    >>> counted(3, 120, "computations", "left out")
    ('3 of 120 computations: left out',)
    """
    return (f"{count:,} of {total:,} {noun}: {rest}",) if count else ()


def labelled(graph: MessageGraph, rest: str) -> tuple[str, ...]:
    """Report the nodes whose operation has a name, for targets that have no room for it."""
    named = np.array([bool(label.name or label.collective or label.job) for label in graph.labels])
    return counted(int(named[graph.nodes["label"]].sum()), len(graph.nodes), "nodes", rest)


def one_line(text: str) -> str:
    r"""Return text that fits into a comment: one line of printable characters.

    Examples
    --------
    >>> one_line("ring\nrank 0 {")
    'ring rank 0 {'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def sharing(sends: np.ndarray) -> int:
    """Count the messages that have source, target and tag in common with another one."""
    if len(sends) < 2:
        return 0
    pair = sends["rank"] * (int(sends["peer"].max()) + 1) + sends["peer"]
    tags = int(sends["tag"].max()) + 1
    if (int(pair.max()) + 1) * tags < 2**63 and int(sends["tag"].min()) >= 0:
        keys = np.sort(pair * tags + sends["tag"])
        same = keys[1:] == keys[:-1]
    else:
        order = np.lexsort((sends["tag"], pair))
        same = (np.diff(pair[order]) == 0) & (np.diff(sends["tag"][order]) == 0)
    return int((np.append(same, False) | np.append(False, same)).sum())
