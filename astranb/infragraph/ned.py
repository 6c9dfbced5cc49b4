"""A network of OMNeT++ with INET's hosts and routers (``.ned``), written only."""

from __future__ import annotations

import re
from typing import Final

from .flat import FlatNetwork

__all__ = ["network_name", "write_ned"]

_WORD: Final = re.compile(r"[^A-Za-z0-9_]+")


def network_name(title: str) -> str:
    """Make a name that the NED language allows.

    Examples
    --------
    >>> network_name("dgx-h100 (8)"), network_name("2 racks"), network_name("network")
    ('Dgx_h100_8', 'N2_racks', 'Network')
    """
    name = _WORD.sub("_", title).strip("_")[:60] or "Network"
    if name[0].isdigit():
        name = f"N{name}"
    return name[0].upper() + name[1:]  # no keyword of the language begins with a capital


def write_ned(network: FlatNetwork) -> tuple[str, list[str]]:
    """Return a network of StandardHosts and Routers with point-to-point links, and what it does not express.

    Examples
    --------
    >>> from .flat import FlatLink
    >>> two = FlatNetwork("two", ("0", "1"), 2, (0, 0), (FlatLink(0, 1, 25 * 10**9, 500_000),))
    >>> "host[0].pppg++ <--> Link0 <--> host[1].pppg++;" in write_ned(two)[0]
    True
    """
    network = network.latency_in_links().with_routers().merged()
    kinds = {
        key: f"Link{n}"
        for n, key in enumerate(dict.fromkeys((k.bandwidth_Bps, k.latency_ps) for k in network.links))
    }
    lines = [
        "import inet.networklayer.configurator.ipv4.Ipv4NetworkConfigurator;",
        "import inet.node.inet.Router;",
        "import inet.node.inet.StandardHost;",
        "import ned.DatarateChannel;",
        "",
        f"network {network_name(network.title)}",
        "{",
        "    types:",
    ]
    for (rate, ps), name in kinds.items():
        lines += [
            f"        channel {name} extends DatarateChannel",
            "        {",
            f"            datarate = {rate * 8}bps;",
            f"            delay = {ps}ps;",
            "        }",
        ]
    lines += [
        "    submodules:",
        "        configurator: Ipv4NetworkConfigurator;",
        f"        host[{network.hosts}]: StandardHost;",
    ]
    if network.switches:
        lines.append(f"        switch[{network.switches}]: Router;")
    lines.append("    connections:")

    def end(node: int) -> str:
        return f"host[{node}]" if node < network.hosts else f"switch[{node - network.hosts}]"

    for link in network.links:
        kind = kinds[link.bandwidth_Bps, link.latency_ps]
        lines.append(f"        {end(link.a)}.pppg++ <--> {kind} <--> {end(link.b)}.pppg++;")
    lines.append("}")
    remarks = [*network.remarks]
    if network.switches:
        remarks.append(
            f"{network.switches:,} switches are IP routers with one path for each target: no multipath"
        )
    return "\n".join(lines) + "\n", remarks
