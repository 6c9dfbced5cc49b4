"""Synthetic traces with the statistics of another trace: kinds, sizes and dependencies of nodes."""

from __future__ import annotations

import numpy as np

from astranb.core.errors import InputError

from ._check import check, topological_order
from ._schema import Attribute, Node, NodeType
from ._trace import Trace

__all__ = ["synthesize"]

_MOST = 10_000_000
_KEPT = ("num_ops", "tensor_size", "comm_type", "comm_size", "pg_name", "involved_dim", "comm_priority")


def synthesize(trace: Trace, *, nodes: int | None = None, seed: int = 0, groups: bool = True) -> Trace:
    """Make a trace that is statistically like another one.

    Kinds of nodes (type and collective) follow each other as in the original (a first-order Markov
    chain over the topological order). Each new node copies the size, duration and group of a random
    node of that kind, with the same number of dependencies, equally far back. Its name is its type
    and number. Messages between two ranks are left out: the other rank's trace would lack their
    other end.

    Parameters
    ----------
    trace : Trace
    nodes : int, optional
        By default as many as the original has without messages.
    seed : int
        The same seed gives the same trace.
    groups : bool
        Whether collectives keep their groups; otherwise they run on all ranks.

    Returns
    -------
    Trace
        To be used for all ranks of a group, so that their collectives match.

    Raises
    ------
    InputError
        The trace has only messages and metadata, or the number of nodes is out of range.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step, last = TraceBuilder(), []
    >>> for layer in range(50):
    ...     last = [step.compute(f"layer {layer}", num_ops=1000 + layer, after=last)]
    ...     last = [step.collective("all_reduce", 4096, after=last)]
    >>> made = synthesize(step.build(), nodes=1000)
    >>> len(made), int((made.type == 7).sum())
    (1000, 500)
    """
    check(trace)
    rows = topological_order(trace)
    messages = (trace.type == NodeType.COMM_SEND) | (trace.type == NodeType.COMM_RECV)
    rows = rows[~(messages | (trace.type == NodeType.METADATA))[rows]]
    count = len(rows) if nodes is None else nodes
    if not len(rows):
        raise InputError("only messages and metadata", where=trace.source, hint="give another trace")
    if not 1 <= count <= _MOST:
        raise InputError(f"{count} nodes", where="nodes", hint=f"use 1 to {_MOST}")
    random = np.random.default_rng(seed)
    place = np.full(len(trace), -1)
    place[rows] = np.arange(len(rows))
    keys = trace.type * 64 + np.where(trace.type == NodeType.COMM_COLL, trace.comm_type, 0)
    kinds, kind = np.unique(keys[rows] * 2 + trace.is_cpu_op[rows], return_inverse=True)
    chain = np.zeros((len(kinds), len(kinds)))
    np.add.at(chain, (kind[:-1], kind[1:]), 1)
    chain[chain.sum(axis=1) == 0] = np.bincount(kind, minlength=len(kinds))
    steps = np.cumsum(chain / chain.sum(axis=1, keepdims=True), axis=1)
    donors = [np.flatnonzero(kind == number) for number in range(len(kinds))]
    parents = trace.parents
    made, now = [], int(kind[0])
    kept = [name for name in _KEPT if groups or name != "pg_name"]
    for number in range(count):
        donor = int(rows[random.choice(donors[now])])
        before = place[parents.of(donor)]
        back = np.unique(place[donor] - before[before >= 0])
        deps = tuple(number - int(one) for one in back[::-1] if one <= number)
        if number and not deps and len(back):
            deps = (number - 1,)
        made.append(_node(trace, donor, number, deps, kept))
        now = min(int(np.searchsorted(steps[now], random.random(), "right")), len(kinds) - 1)
    return Trace.of(made, metadata={"made_like": trace.source, "seed": seed}, source="made")


def _node(trace: Trace, donor: int, number: int, deps: tuple[int, ...], kept: list[str]) -> Node:
    kind = NodeType(int(trace.type[donor]))
    given = trace.node(donor).attributes
    declared = {name: given[name] for name in kept if name in given}
    declared["is_cpu_op"] = Attribute(bool(trace.is_cpu_op[donor]), "bool_val")
    duration = int(trace.duration_us[donor])
    return Node(number, f"{kind.name} {number}", kind, deps, duration_us=duration, attributes=declared)
