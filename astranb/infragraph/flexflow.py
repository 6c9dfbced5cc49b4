"""The cluster of a FlexFlow task graph: nodes with GPUs, switches, and the connections between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from astranb.core.errors import InputError

from .flat import FlatLink, FlatNetwork

if TYPE_CHECKING:
    from astranb.chakra import TaskGraph

__all__ = ["flexflow_network"]

_LATENCY_PS: Final = 10**6
"""Of a link between nodes: an assumption, as task graphs have no latencies."""


def flexflow_network(graph: TaskGraph) -> FlatNetwork:
    """Return the cluster that a task graph was planned for.

    A node of one GPU is that GPU; a node of several is a switch that joins them to its connections. Two nodes
    are joined in both directions by as many links as are listed for one of them.

    Raises
    ------
    InputError
        There are no connections, or a bandwidth is missing.

    Examples
    --------
    >>> from astranb.chakra import FlexFlowTask, TaskGraph
    >>> tasks = [FlexFlowTask("TASK_FORWARD", 0)]
    >>> network = flexflow_network(TaskGraph("pair", 1, 2, 1, tasks, [(2, 0, 1), (2, 1, 2)], 5e9))
    >>> network.names, [link.bandwidth_Bps for link in network.links]
    (('0', '1', 'switch 0'), [5000000000, 10000000000])
    """
    pairs: dict[tuple[int, int], int] = {}
    for a, b, count in graph.connections:
        if a != b and count:
            key = min(a, b), max(a, b)
            pairs[key] = max(pairs.get(key, 0), count)
    named = max(map(max, pairs), default=-1) + 1
    if pairs and named < graph.nodes + graph.switches:
        what = (
            f"nnode {graph.nodes} and nswitch {graph.switches}, but connections (conn) name {named} of them"
        )
        raise InputError(what, where=graph.where, hint="correct the numbers, or add the missing connections")
    several = graph.gpus_per_node > 1
    for what, missing in (
        ("connections between nodes (conn)", not pairs and graph.nodes > 1),
        ("bandwidth of links between nodes (netbw)", bool(pairs) and graph.link_Bps < 1),
        ("bandwidth between GPUs of a node (intergpubw)", several and graph.gpu_Bps < 1),
    ):
        if missing:
            hint = "describe the cluster as InfraGraph, or give --network"
            raise InputError(f"the task graph has no {what}", where=graph.where, hint=hint)
    gpus = graph.ranks
    first = gpus if several else 0  # what the graph calls node 0
    rate = int(graph.link_Bps)
    links = [FlatLink(first + a, first + b, rate * count, _LATENCY_PS) for (a, b), count in pairs.items()]
    names = [str(rank) for rank in range(gpus)]
    if several:
        links += [FlatLink(n, gpus + n // graph.gpus_per_node, int(graph.gpu_Bps), 0) for n in range(gpus)]
        names += [f"node {n}" for n in range(graph.nodes)]
    names += [f"switch {n}" for n in range(graph.switches)]
    remarks = (
        "a task graph of FlexFlow has no latencies: links between nodes have 1 us (assumed), switches none",
    )
    none = (0,) * len(names)
    return FlatNetwork(graph.title, tuple(names), gpus, none, tuple(links), remarks).with_routers()
