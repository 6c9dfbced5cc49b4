"""The InfraGraph document of a flat network, as files of packet simulators describe it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .flat import FlatLink, FlatNetwork
from .servers import component, document_name, edge, link, one_device

__all__ = ["document_of"]

Document = dict[str, Any]
_INSTANCE = "network"


def document_of(network: FlatNetwork, description: str) -> tuple[Document, Document]:
    """Return a document of one device with all GPUs and switches, and its annotations.

    Parameters
    ----------
    network : FlatNetwork
        A link with a bandwidth of 0 gets none.
    description : str
        Of the format.

    Examples
    --------
    >>> pair = FlatNetwork("two", ("0", "1"), 2, (0, 0), (FlatLink(0, 1, 25 * 10**9, 500_000),))
    >>> document_of(pair, "by hand")[0]["devices"][0]["links"]
    [{'name': '200Gbps-500ns', 'physical': {'bandwidth': {'choice': 'gigabits_per_second',
    'gigabits_per_second': 200}, 'latency': {'choice': 'ns', 'ns': 500}}}]
    """
    kinds = dict.fromkeys((one.bandwidth_Bps, one.latency_ps) for one in network.links)
    links = {
        (rate, ps): link(
            _named(rate, ps), bandwidth_Bps=rate or None, latency_ps=ps, unit="gigabits_per_second"
        )
        for rate, ps in kinds
    }
    components = [component("gpu", network.hosts, "xpu")]
    if network.switches:
        components.append(component("switch", network.switches, "switch"))
    device = {
        "name": _INSTANCE,
        "description": description,
        "components": components,
        "links": list(links.values()),
        "edges": list(_edges(network)),
    }
    nodes: list[Document] = []
    forward = network.forward_ps[network.hosts :]
    first = 0
    for last in range(1, len(forward) + 1):
        if last == len(forward) or forward[last] != forward[first]:
            value = {"attribute": "astranb.latency", "value": f"{forward[first]} ps"}
            nodes.append({"name": f"{_INSTANCE}.0.switch[{first}:{last}]", "attributes": [value]})
            first = last
    return one_device(document_name(network.title), device), {"nodes": nodes}


def _edges(network: FlatNetwork) -> Iterator[Document]:
    """Yield edges; a run of neighbours with equal links to one node is one."""

    def place(node: int, last: int) -> str:
        name, base = ("gpu", 0) if node < network.hosts else ("switch", network.hosts)
        return f"{name}[{node - base}]" if node == last else f"{name}[{node - base}:{last - base + 1}]"

    run: list[FlatLink] = []

    def ended() -> Iterator[Document]:
        if run:
            name = _named(run[0].bandwidth_Bps, run[0].latency_ps)
            ends = place(run[0].a, run[-1].a), place(run[0].b, run[-1].b)
            yield edge(*ends, name, "many2many" if len(run) > 1 else "one2one")

    for one in network.links:
        if not run or not _continues(run, one, network.hosts):
            yield from ended()
            run.clear()
        run.append(one)
    yield from ended()


def _continues(run: list[FlatLink], one: FlatLink, hosts: int) -> bool:
    """Return whether a link is that of the next node to the same one."""
    first, last = run[0], run[-1]
    if one[2:4] != first[2:4] or one.lanes != first.lanes:
        return False
    if len(run) > 1 and (first.a == last.a) != (last.a == one.a):
        return False
    sides = ((last.a, one.a), (last.b, one.b))
    step = [new - old for old, new in sides]
    same_kind = all((old < hosts) == (new < hosts) for old, new in sides)
    return same_kind and step in ([1, 0], [0, 1])


def _named(rate_Bps: int, ps: int) -> str:  # noqa: N803 - unit in the name
    name = f"{rate_Bps * 8 / 10**9:.12g}Gbps-" if rate_Bps else ""
    return f"{name}{ps / 1000:.12g}ns".replace(".", "_").replace("+", "")
