"""ASTRA-sim 1.0's files, unmodified, made into a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from astranb.core.document import Node, Source, read_document
from astranb.core.errors import InputError, near
from astranb.workload.astrasim1._network import COSTS, TOPOLOGIES, HierarchicalNetwork
from astranb.workload.astrasim1._text import read_system, read_workload

from ._run import Run

__all__ = ["load", "read_network"]

_MOST_BYTES: Final = 16 << 20
_MOST_NPUS: Final = 1 << 20

_LISTS: Final[Mapping[str, tuple[str, Callable[[Node], Any]]]] = {
    "topologies-per-dim": ("topologies", lambda node: node.choice(TOPOLOGIES)),
    "units-count": ("units", lambda node: node.number(1, _MOST_NPUS)),
    "links-count": ("links", lambda node: node.number(1, _MOST_NPUS)),
    "link-latency": ("latency_ns", lambda node: node.real(0, 1e12)),
    "link-bandwidth": ("bandwidth", lambda node: node.real(1e-6, 1e9)),
    # ASTRA-sim 1.0 takes every other word for Node, those of its own samples too.
    "dimension-type": ("kinds", lambda node: node.text() if node.text() in COSTS else "Node"),
    "nic-latency": ("nic_ns", lambda node: node.real(0, 1e12)),
    "router-latency": ("router_ns", lambda node: node.real(0, 1e12)),
    "hbm-latency": ("hbm_ns", lambda node: node.real(0, 1e12)),
    "hbm-bandwidth": ("hbm_bandwidth", lambda node: node.real(1e-6, 1e9)),
    "hbm-scale": ("hbm_scale", lambda node: node.real(0, 1e6)),
}
_NEEDED: Final = ("topologies-per-dim", "units-count", "links-count", "link-latency", "link-bandwidth")
_YAML_KEYS: Final = {
    "topology": "topologies-per-dim",
    "npus_count": "units-count",
    "bandwidth": "link-bandwidth",
    "latency": "link-latency",
}
_KEYS: Final = ("topology-name", "dimensions-count", "use-fast-version", *_LISTS)


def _yaml_document(path: str | Path) -> Node:
    """Read what the network with congestion takes, as the JSON that says the same: links are one each way."""
    node = read_document(path, _MOST_BYTES)
    value = node.value
    if not isinstance(value, dict):
        raise node.error(f"an object is expected, not {node.brief}", "see ASTRA-sim's examples")
    for key in value:
        if key not in _YAML_KEYS:
            raise node.get(key).error(f"unknown key {key[:60]!r}", near(key[:60], _YAML_KEYS))
    document = {name: node.get(key).value for key, name in _YAML_KEYS.items()}
    if isinstance(value["topology"], str):
        document["topologies-per-dim"] = [value["topology"]]
    source = Source(str(path))
    kinds = [kind.choice(TOPOLOGIES) for kind in Node(document["topologies-per-dim"], source).items()]
    units = [count.number(1, _MOST_NPUS) for count in node.get("npus_count").items()]
    full = [max(count - 1, 1) for count in units]
    document["links-count"] = [
        {"Ring": 2, "Switch": 1}.get(kind, most) for kind, most in zip(kinds, full, strict=False)
    ]
    return Node(document, source)


def read_network(
    path: str | Path, *, compat: bool = False, changes: Mapping[str, Sequence[float]] | None = None
) -> HierarchicalNetwork:
    """Read the description of a network.

    Parameters
    ----------
    path : str or Path
        JSON, or YAML as ASTRA-sim's network with congestion has it.
    compat : bool
        Whether ASTRA-sim 1.0's peculiarities are kept.
    changes : mapping of str to sequence of float, optional
        Keys of the file with other values.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is of no use.
    """
    if Path(path).suffix in (".yml", ".yaml"):
        document = _yaml_document(path)
    else:
        document = read_document(path, _MOST_BYTES, form="json", strict=False)
    if not isinstance(document.value, dict):
        raise document.error(f"an object is expected, not {document.brief}", "see ASTRA-sim 1.0's samples")
    document.value.update({key: list(values) for key, values in (changes or {}).items()})
    for key in document.value:
        if key not in _KEYS:
            raise document.get(key).error(f"unknown key {key[:60]!r}", near(key[:60], _KEYS))
    if document.has("topology-name"):
        document.get("topology-name").choice(("Hierarchical",))
    lists = {}
    for key, (name, check) in _LISTS.items():
        if key in _NEEDED or document.has(key):
            lists[name] = tuple(check(node) for node in document.get(key).items())
    count = len(lists["topologies"])
    if document.has("dimensions-count"):
        count = document.get("dimensions-count").number(1, 10)
    for key, (name, _) in _LISTS.items():
        if name in lists and len(lists[name]) != count:
            raise document.get(key).error(
                f"{len(lists[name])} values for {count} dimensions", "give one for each dimension"
            )
    network = HierarchicalNetwork(**lists, compat=compat, where=str(path))
    if network.npus > _MOST_NPUS:
        raise document.get("units-count").error(f"{network.npus} NPUs", f"take at most {_MOST_NPUS}")
    return network


def load(
    workload: str | Path,
    system: str | Path,
    network: str | Path,
    *,
    compute_scale: float = 1.0,
    comm_scale: float = 1.0,
    injection_scale: float = 1.0,
    passes: int = 1,
    queues: int = 1,
    changes: Mapping[str, Sequence[float]] | None = None,
    congested: bool = False,
    compat: bool = False,
) -> Run:
    """Read ASTRA-sim 1.0's files, as they are.

    Parameters
    ----------
    workload, system, network : str or Path
        The layer table, the system's text, the network's JSON.
    compute_scale, comm_scale : float
        Multiply compute times and sizes.
    injection_scale : float
        Multiplies the endpoint's delay.
    passes : int
        How often the training loop is gone through.
    queues : int
        Queues of one dimension.
    changes : mapping of str to sequence of float, optional
        Keys of the network's file with other values, as ``{"link-bandwidth": [50]}``.
    congested : bool
        Whether messages wait for one another on links.
    compat : bool
        Whether ASTRA-sim 1.0's peculiarities are kept, for its numbers to the nanosecond.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        A file cannot be read, or they do not fit together.
    """
    for name, scale in (("compute", compute_scale), ("comm", comm_scale), ("injection", injection_scale)):
        if not 0 < scale <= 1e9:
            raise InputError(
                f"{scale} is out of range", where=f"--{name}-scale", hint="take a number above 0"
            )
    table = read_workload(workload).scaled(compute_scale, comm_scale, compat=compat)
    layers = read_system(system, queues=queues, injection_scale=injection_scale)
    links = read_network(network, compat=compat, changes=changes)
    return Run(table, layers, links, passes, congested=congested)
