"""Blueprints, infrastructures by name: servers, fabrics of servers, and small ones to learn with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from astranb.core.document import DocumentSource
from astranb.core.errors import InputError, near

from . import boxes
from .infra import Infra
from .loading import load
from .network_types import NETWORK_TYPES, network_type
from .servers import NOTES, SERVERS, HostNumbers, Server, generic_server, link, one_device, switch_device

__all__ = ["blueprint", "blueprints", "resolve"]

Document = dict[str, Any]
_GBPS = 10**9 // 8
"""1 Gbps in bytes a second."""
_SUFFIXES = (".yaml", ".yml", ".json", ".xml", ".topo", ".anynet")


class _Whole(NamedTuple):
    """A parameter that is a whole number; ``unit`` is what 1 is worth, ``of`` what it counts."""

    default: int
    least: int
    most: int
    unit: int = 1
    of: str = ""

    def read(self, text: str, where: str) -> int:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
        if not self.least <= number <= self.most:
            what = f"{text!r} is not a whole number{self.of and f' of {self.of}'}"
            raise InputError(f"{what} from {self.least} to {self.most}", where=where)
        return number * self.unit


class _OneOf(NamedTuple):
    """A parameter that is one of several names."""

    default: str
    names: tuple[str, ...]

    def read(self, text: str, where: str) -> str:
        text = _ALSO.get(text, text)
        if text not in self.names:
            raise InputError(f"unknown value {text!r}", where=where, hint=near(text, self.names))
        return text


class _Made(NamedTuple):
    """A blueprint with parameters."""

    build: Callable[..., Document]
    text: str
    parameters: dict[str, _Whole | _OneOf]


def _joined(ep1: tuple[str, str], ep2: tuple[str, str], name: str) -> Document:
    ends = {
        key: dict(zip(("instance", "component"), ep, strict=True)) for key, ep in (("ep1", ep1), ("ep2", ep2))
    }
    return {**ends, "scheme": "one2one", "link": name}


class _Host(NamedTuple):
    """A server in a fabric: its device, the name and number of its NICs, and what they are connected to."""

    device: Document
    nic: str
    nics: int
    nic_Bps: int  # noqa: N815 - unit in the name
    network: str

    @property
    def name(self) -> str:
        return str(self.device["name"])

    def switch(self, ports: int) -> Document:
        """A switch of the network."""
        infiniband = network_type(self.network).cable == "infiniband"
        asic = "InfiniBand switch ASIC" if infiniband else "Generic ASIC"
        return switch_device(ports, asic)

    def cable(self, name: str, text: str, rate_Bps: int) -> Document:  # noqa: N803 - unit in the name
        """A link of the network, which names its kind unless it is plain Ethernet."""
        network = network_type(self.network)
        rate = f" {rate_Bps / _GBPS:.12g}" if network.cable == "infiniband" else ""
        kind = "" if self.network == "ethernet" else f"{network.title}{rate} "
        return link(name, f"{kind}{text}".strip(), rate_Bps, unit="gigabits_per_second")


def _host(server: str, factor: int, bandwidth: int, network: str) -> _Host:
    known = SERVERS.get(server)
    device, numbers = (known.build(), known.numbers) if known else (generic_server(factor), _GENERIC)
    nic = next(c for c in device["components"] if c["choice"] == "nic")
    network = numbers.network if network == "own" else network
    return _Host(device, nic["name"], nic["count"], bandwidth or numbers.nic_Bps, network)


def _fabric(
    name: str,
    description: str,
    devices: list[Document],
    links: list[Document],
    instances: list[tuple[str, str, int]],
    edges: list[Document],
) -> Document:
    """Servers and switches; an instance is its name, its device and how many there are."""
    made = [{"name": own, "device": device, "count": count} for own, device, count in instances]
    parts = {"devices": devices, "links": links, "instances": made, "edges": edges}
    return {"name": name, "description": description, **parts}


def _single_tier(*, servers: int, server: str, factor: int, bandwidth: int, network: str) -> Document:
    host = _host(server, factor, bandwidth, network)
    return _fabric(
        "single-tier-fabric",
        f"{servers} servers on one switch",
        [host.device, host.switch(host.nics * servers)],
        [host.cable("switch-link", "between servers and the switch", host.nic_Bps)],
        [(host.name, host.name, servers), ("switch", "switch", 1)],
        [_joined((host.name, host.nic), ("switch[0]", "port"), "switch-link")],
    )


def _rails(
    *,
    servers: int,
    server: str,
    factor: int,
    bandwidth: int,
    network: str,
    spines: int,
    spine_bandwidth: int,
) -> Document:
    host = _host(server, factor, bandwidth, network)
    rails = host.nics
    spines = spines or -(-servers * host.nic_Bps // spine_bandwidth)
    edges = [
        _joined((host.name, f"{host.nic}[{r}]"), (f"leafsw[{r}]", f"port[0:{servers}]"), "leaf-link")
        for r in range(rails)
    ]
    edges += [
        _joined(("leafsw", f"port[{servers + s}]"), (f"spinesw[{s}]", f"port[0:{rails}]"), "spine-link")
        for s in range(spines)
    ]
    return _fabric(
        "rail-fabric",
        f"{servers} servers on {rails} leaf switches, one for each NIC, and {spines} spine switches",
        [host.device, host.switch(max(16, servers + spines, rails))],
        [
            host.cable("leaf-link", "between servers and leaf switches", host.nic_Bps),
            host.cable("spine-link", "between leaf and spine switches", spine_bandwidth),
        ],
        [(host.name, host.name, servers), ("leafsw", "switch", rails), ("spinesw", "switch", spines)],
        edges,
    )


def _clos(
    *,
    servers: int,
    server: str,
    factor: int,
    bandwidth: int,
    network: str,
    per_leaf: int,
    spines: int,
    spine_bandwidth: int,
) -> Document:
    host = _host(server, factor, bandwidth, network)
    if servers % per_leaf:
        raise InputError(
            f"{servers} servers do not divide by {per_leaf} a leaf", hint="choose per_leaf to divide servers"
        )
    leaves, down = servers // per_leaf, host.nics * per_leaf
    spines = spines or -(-down * host.nic_Bps // spine_bandwidth)
    edges = [
        _joined(
            (f"host[{k * per_leaf}:{(k + 1) * per_leaf}]", host.nic),
            (f"leafsw[{k}]", f"port[0:{down}]"),
            "leaf-link",
        )
        for k in range(leaves)
    ]
    edges += [
        _joined(("leafsw", f"port[{down + s}]"), (f"spinesw[{s}]", f"port[0:{leaves}]"), "spine-link")
        for s in range(spines)
    ]
    return _fabric(
        "closfabric",
        f"{servers} servers on {leaves} leaf and {spines} spine switches",
        [host.device, host.switch(max(16, down + spines, leaves))],
        [
            host.cable("leaf-link", "between servers and leaf switches", host.nic_Bps),
            host.cable("spine-link", "between leaf and spine switches", spine_bandwidth),
        ],
        [("host", host.name, servers), ("leafsw", "switch", leaves), ("spinesw", "switch", spines)],
        edges,
    )


def _fat_tree(
    *,
    servers: int,
    ports: int,
    levels: int,
    server: str,
    factor: int,
    bandwidth: int,
    network: str,
    spine_bandwidth: int,
) -> Document:
    host = _host(server, factor, bandwidth, network)
    nics = host.nics
    if not ports:
        ports = _FAT_TREE_PORTS if not servers else _fewest_ports(servers, nics, levels)
    half = ports // 2
    if ports % 2 or not half or half % nics:
        raise InputError(
            f"half of {ports} ports cannot be shared by servers of {nics} NICs",
            hint=f"choose ports as a multiple of {2 * nics}",
        )
    per_rack, most = half // nics, _most_servers(ports, nics, levels)
    servers = servers or most
    if servers > most:
        raise InputError(
            f"{servers} servers, of which {levels} levels of {ports}-port switches join {most}",
            hint="leave ports out, or use more levels",
        )
    racks = -(-servers // per_rack)
    tops = half ** (levels - 1)
    edges = []
    for rack in range(racks):
        first, last = rack * per_rack, min((rack + 1) * per_rack, servers)
        down = f"port[0:{(last - first) * nics}]"
        edges.append(
            _joined((f"{host.name}[{first}:{last}]", host.nic), (f"tier_0[{rack}]", down), "tier_0_link")
        )
    tiers = [("tier_0", racks), ("tier_1", tops)]
    if levels == 2:
        edges += [
            _joined((f"tier_1[{s}]", f"port[0:{racks}]"), ("tier_0", f"port[{half + s}]"), "tier_1_link")
            for s in range(tops)
        ]
    else:
        pods = -(-racks // half)
        tiers = [("tier_0", racks), ("tier_1", pods * half), ("tier_2", tops)]
        for pod in range(pods):
            first, last = pod * half, min((pod + 1) * half, racks)
            for s in range(half):
                upper, lower = f"tier_1[{pod * half + s}]", (f"tier_0[{first}:{last}]", f"port[{half + s}]")
                edges.append(_joined((upper, f"port[0:{last - first}]"), lower, "tier_1_link"))
                core = f"tier_2[{s * half}:{(s + 1) * half}]"
                edges.append(_joined((core, f"port[{pod}]"), (upper, f"port[{half}:{ports}]"), "tier_2_link"))
    rates = [host.nic_Bps, spine_bandwidth, spine_bandwidth][:levels]
    return _fabric(
        "clos-fat-tree-fabric",
        f"{servers} servers under {levels} levels of {ports}-port switches",
        [host.device, host.switch(ports)],
        [host.cable(f"tier_{k}_link", "", rate) for k, rate in enumerate(rates)],
        [(host.name, host.name, servers), *((name, "switch", count) for name, count in tiers)],
        edges,
    )


def _most_servers(ports: int, nics: int, levels: int) -> int:
    """Return how many servers switches of so many ports join."""
    racks: int = 2 * (ports // 2) ** (levels - 1)
    return racks * (ports // 2 // nics)


def _fewest_ports(servers: int, nics: int, levels: int) -> int:
    """Return how many ports the smallest switches have that join so many servers."""
    step = 2 * nics
    found = next(
        (p for p in range(step, _MOST_PORTS + 1, step) if _most_servers(p, nics, levels) >= servers), 0
    )
    if not found:
        raise InputError(
            f"{servers} servers, of which {levels} levels of {_MOST_PORTS}-port switches join "
            f"{_most_servers(_MOST_PORTS // step * step, nics, levels)}",
            hint="use fewer servers" if levels == _MOST_LEVELS else f"use levels={_MOST_LEVELS}",
        )
    return found


_FAT_TREE_PORTS = 16
_MOST_PORTS, _MOST_LEVELS = 128, 3
_GENERIC = HostNumbers("A generic server", nic_Bps=400 * _GBPS)
_WITH_NICS = (*(name for name, server in SERVERS.items() if server.numbers.nic_Bps), "server")
_IN_FABRIC: dict[str, _Whole | _OneOf] = {
    "server": _OneOf("dgx-h100", _WITH_NICS),
    "factor": _Whole(4, 1, 64),
    "bandwidth": _Whole(0, 0, 10_000, _GBPS, "Gb/s"),
    "network": _OneOf("own", ("own", *NETWORK_TYPES)),
}
_SPINES: dict[str, _Whole | _OneOf] = {"spine_bandwidth": _Whole(400, 1, 10_000, _GBPS, "Gb/s")}
_GRID: dict[str, _Whole | _OneOf] = {"rows": _Whole(4, 1, 128), "columns": _Whole(4, 1, 128)}


def _alone(server: Server) -> _Made:
    """A server by itself, perhaps of fewer trays."""

    def build(**trays: int) -> Document:
        device = server.build(**trays)
        return one_device(f"{device['name']}-infra", device)

    most = server.numbers.trays
    return _Made(build, server.numbers.title, {"trays": _Whole(most, 1, most)} if most else {})


_ALSO = {"h20": "dgx-h20", "h800": "dgx-h800"}
_MADE = {
    **{name: _alone(server) for name, server in SERVERS.items()},
    "single-tier": _Made(
        _single_tier, "servers on one switch", {"servers": _Whole(2, 1, 4096), **_IN_FABRIC}
    ),
    "rails": _Made(
        _rails,
        "servers on leaf switches, one for each of their NICs; spines=0 makes it non-blocking",
        {"servers": _Whole(2, 1, 4096), **_IN_FABRIC, "spines": _Whole(0, 0, 1024), **_SPINES},
    ),
    "clos": _Made(
        _clos,
        "servers on leaf and spine switches; spines=0 makes it non-blocking",
        {
            "servers": _Whole(4, 1, 16_384),
            **_IN_FABRIC,
            "per_leaf": _Whole(1, 1, 256),
            "spines": _Whole(0, 0, 1024),
            **_SPINES,
        },
    ),
    "fat-tree": _Made(
        _fat_tree,
        "servers under a folded Clos of switches with equally many ports: servers=0 is as many as they join "
        "(ports=0: 16), ports=0 is as few as join the servers",
        {
            "servers": _Whole(0, 0, 16_384),
            "ports": _Whole(0, 0, _MOST_PORTS),
            "levels": _Whole(2, 2, _MOST_LEVELS),
            **_IN_FABRIC,
            **_SPINES,
        },
    ),
    "ring": _Made(boxes.ring, "GPUs in a ring", {"gpus": _Whole(8, 2, 4096)}),
    "fully-connected": _Made(boxes.fully_connected, "fully connected GPUs", {"gpus": _Whole(8, 2, 1024)}),
    "switch": _Made(boxes.switch, "GPUs on one switch", {"gpus": _Whole(8, 1, 4096)}),
    "generic": _Made(
        boxes.generic,
        "generic GPUs of ASTRA-sim 3.0 with ports of 32 GiB/s on one switch; latency in ns",
        {
            "gpus": _Whole(16, 2, 1024),
            "ports": _Whole(32, 1, 32),
            "latency": _Whole(1000, 500, 1_000_000, of="ns"),
        },
    ),
    "torus2d": _Made(boxes.torus2d, "GPUs in a torus of two dimensions", _GRID),
    "torus3d": _Made(
        boxes.torus3d,
        "GPUs in a torus of three dimensions",
        {"planes": _Whole(4, 1, 32), "rows": _Whole(4, 1, 32), "columns": _Whole(4, 1, 32)},
    ),
    "mesh2d": _Made(boxes.mesh2d, "GPUs in a mesh of two dimensions", _GRID),
    "dragonfly": _Made(
        boxes.dragonfly,
        "GPUs on groups of routers, a link between any two groups; links of a router to other groups",
        {
            "groups": _Whole(9, 1, 256),
            "routers": _Whole(4, 1, 64),
            "gpus": _Whole(2, 1, 64),
            "links": _Whole(2, 1, 64),
        },
    ),
}


def blueprints() -> list[tuple[str, str]]:
    """List the blueprints.

    Returns
    -------
    list of (str, str)
        The name, followed by a colon and the parameters with their defaults, and a description.
        Bandwidths are in Gbps; ``bandwidth=0`` is that of the server's NICs, and ``network=own`` what they
        are connected to. ``factor`` counts pairs of GPUs in the generic server (``server=server``).

    Examples
    --------
    >>> ("ring:gpus=8", "GPUs in a ring") in blueprints()
    True
    """
    listed = []
    for name, made in _MADE.items():
        defaults = ",".join(f"{key}={parameter.default}" for key, parameter in made.parameters.items())
        listed.append((f"{name}:{defaults}" if defaults else name, made.text))
    return listed


def blueprint(name: str, **parameters: Any) -> Infra:
    """Make an infrastructure by name.

    Parameters
    ----------
    name : str
        ``"dgx-h100"``, or with parameters ``"clos:servers=16,spines=8"``; see `blueprints`.
    **parameters
        The same by name: ``blueprint("clos", servers=16, spines=8)``.

    Returns
    -------
    Infra
        ``Infra.notes`` lists what it corrects of the ``infragraph`` package's.

    Raises
    ------
    InputError
        An unknown name or parameter, or a value out of range.

    Examples
    --------
    >>> len(blueprint("dgx-h100").expand().gpus), len(blueprint("clos:servers=16").expand().gpus)
    (8, 128)
    >>> len(blueprint("clos", servers=2).expand().gpus)
    16
    """
    rest = name.strip().partition(":")[2]
    kind = _kind(name)
    where = f"blueprint {name.strip()!r}"
    if kind not in _MADE:
        raise InputError(f"unknown blueprint {kind!r}", hint=near(kind, _MADE))
    made = _MADE[kind]
    if (rest.strip() or parameters) and not made.parameters:
        raise InputError(
            f"{kind} takes no parameters", where=where, hint=f"write single-tier:server={kind},servers=2"
        )
    texts = {key: str(one.default) for key, one in made.parameters.items()}
    given: set[str] = set()
    written = [part.partition("=") for part in (rest.split(",") if rest.strip() else [])]
    written += [(key, "=", str(value)) for key, value in parameters.items()]
    for parts in written:
        key, equals, text = (part.strip() for part in parts)
        if key not in made.parameters:
            first = next(iter(made.parameters))
            hint = f"write {kind}:{first}={key}" if key.isdecimal() else near(key, made.parameters)
            raise InputError(f"{kind} has no parameter {key!r}", where=where, hint=hint)
        if key in given or not equals:
            raise InputError(
                f"duplicate parameter {key}" if key in given else f"{key} has no value",
                where=where,
                hint="write key=value",
            )
        given.add(key)
        counted = f"{key}s"
        if text.isdecimal() and isinstance(made.parameters.get(counted), _Whole):
            what = f"{key} is a name, not a number"
            raise InputError(what, where=where, hint=f"did you mean {counted}={text}?")
        texts[key] = text
    values = {key: made.parameters[key].read(text, f"{where}, {key}") for key, text in texts.items()}
    try:
        document = made.build(**values)
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from None
    notes = NOTES.get(str(values.get("server", kind)), ())
    fabric = "server" in made.parameters
    return Infra(document, source=DocumentSource(kind), notes=(*notes, *(NOTES["switch"] if fabric else ())))


def resolve(infra: Infra | str | Path) -> Infra:
    """Find the infrastructure that ``--infra`` names: a file if it exists, else a blueprint.

    Parameters
    ----------
    infra : Infra or str or Path
        Path of an InfraGraph file or of a topology file that `convert` reads, or a blueprint's name; an
        infrastructure is returned as it is.

    Raises
    ------
    InputError
        It is neither.

    Examples
    --------
    >>> resolve("dgx-a100").name
    'dgx_a100-infra'
    """
    if isinstance(infra, Infra):
        return infra
    text = str(infra)
    looks_like_file = text.lower().endswith(_SUFFIXES) or os.sep in text
    if looks_like_file or os.path.lexists(text.replace("\0", "")):
        return load(os.fspath(text)) if "\n" not in text else load(text)
    if _kind(text) not in _MADE:
        raise InputError(
            f"{text[:80]!r} is neither a file nor a blueprint", hint=near(text.partition(":")[0], _MADE)
        )
    return blueprint(text)


def _kind(text: str) -> str:
    """The blueprint's name in a text with parameters."""
    kind = text.partition(":")[0].strip()
    return _ALSO.get(kind, kind)
