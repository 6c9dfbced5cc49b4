"""Replays a message graph on a network of ours."""

from __future__ import annotations

import numpy as np

from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)

from ._graph import MessageGraph

__all__ = ["replayed"]


def replayed(graph: MessageGraph, network: DimensionNetwork | InfraNetwork) -> Workload:
    """Give the workload that sends a graph's messages over a network.

    Each rank has one operation, a custom collective of its messages and computations: what begins when
    depends on the dependencies alone. Picoseconds are rounded up to nanoseconds.

    Parameters
    ----------
    graph : MessageGraph
    network : DimensionNetwork or InfraNetwork
        With as many NPUs as the graph has ranks.

    Returns
    -------
    Workload

    Examples
    --------
    >>> from astranb.engine.messages import simulate
    >>> pair = MessageGraph.of(2, [
    ...     {"rank": 0, "kind": 2, "peer": 1, "bytes": 50_000},
    ...     {"rank": 1, "kind": 3, "peer": 0, "bytes": 50_000},
    ... ])
    >>> simulate(replayed(pair, DimensionNetwork(["Ring"], [2], [50], [500]))).end_ns.tolist()
    [1500, 1500]
    """
    operations = []
    for rank in range(graph.ranks):
        first, last = int(graph.first[rank]), int(graph.first[rank + 1])
        nodes = graph.nodes[first:last]
        if not len(nodes):
            operations.append(Operations.of([]))
            continue
        rows = np.zeros(len(nodes), Operations.of([]).rows.dtype)
        for name in ("kind", "bytes", "tag", "peer"):
            rows[name] = nodes[name]
        rows["group"], rows["involved"] = -1, (1 << 62) - 1
        rows["duration_ns"] = -(-nodes["duration_ps"] // 1000)
        # A roofline says of those that take no time that they do not.
        rows["flops"] = np.where((nodes["kind"] == COMPUTE) & (nodes["duration_ps"] > 0), -1, 0)
        rows["peer"] = np.where(nodes["kind"] == COMPUTE, 0, nodes["peer"])
        begin, end = int(graph.dep_start[first]), int(graph.dep_start[last])
        every = Operations(rows, graph.dep_start[first : last + 1] - begin, graph.deps[begin:end] - first)
        top = Operations.of([{"kind": COLLECTIVE, "bytes": 1}], custom={0: every}, names=[graph.title])
        operations.append(top)
    system = System.from_document(
        {"all-reduce-implementation": ["ring"], "roofline-enabled": 1, "peak-perf": 1, "local-mem-bw": 1},
        "the replay",
    )
    return Workload(operations, network, system, title=graph.title)
