"""A communication library's view of a machine: GPUs and nodes, NVLink or xGMI, NICs, the processor.

NCCL counts links and gives each a rate of its own, below the data sheet's; these rates are used here,
because its choices follow from them. Source: NVIDIA/nccl @5067397c, ``src/graph/topo.h``
(``SM90_NVLINK_BW``, ...), ``src/graph/topo.cc`` (PCIe and network rates); ROCm/rccl @0cbce2a7,
``src/graph/topo.h`` (``GFX94X_XGMI_WIDTH``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.gpu import named_gpus
from astranb.hardware import GpuLibrary, Preset, read_gpu
from astranb.infragraph import (
    Infra,
    NetworkType,
    NodeGraph,
    NodeKind,
    family,
    network_type,
    recognise_network,
)

__all__ = ["LibraryView", "library_view"]

_NVLINK_GBPS: Final = ((100, 40.1), (90, 20.6), (70, 20.0), (60, 18.0))  # of one link, by capability
_XGMI_GBPS: Final = 48.0  # of one link of gfx94x
_SHARP: Final = 90  # least compute capability whose NVSwitches add
_PCIE_GBPS: Final = {"pcie3": 12.0, "pcie4": 24.0, "pcie5": 48.0, "pcie6": 96.0}  # x16, as NCCL has them
_ETHERNET: Final = network_type("ethernet")
_SOCKETS_GBPS: Final = {"intel": 22.0, "amd": 16.0}  # between sockets: Sapphire Rapids; any of AMD's
_INTEL, _AMD_CPU = ("upi", "qpi"), ("xgmi",)


@dataclass(frozen=True)
class LibraryView:
    """Properties of the machine that a library knows when it chooses.

    Attributes
    ----------
    ranks, per_node : int
        GPUs, and those of one node.
    gpu : str
        Name of the preset of all GPUs.
    capability : int
        Compute capability times ten, as 90; 0 for AMD.
    links : int
        NVLink or xGMI links of one GPU.
    switched : bool
        Whether the links lead to switches.
    nics : int
        NICs of one node that lead out of it; 0 if none does.
    nic_GBps : float
        Of one NIC, no more than its PCIe slot carries.
    cpu : str
        ``"intel"``, ``"amd"`` or ``""`` if unknown, by the link between the sockets.
    network : NetworkType
        That the NICs lead to, with what its software adds to a hop.
    pcie_GBps : float
        Where GPUs have PCIe only: of a GPU's slot, no more than what joins the sockets; otherwise 0.
    saved_us : float
        What a replay in a graph saves of a launch from the host.
    joined : bool
        Whether a switch joins all GPUs of a node directly, so that it can add and copy for them.
    version : tuple of int
        Release of the library, as (2, 27, 3); empty for the one that is modelled.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> view = library_view(blueprint("dgx-h100"), "h100-sxm")
    >>> view.nodes, view.links, view.link_GBps, view.switched
    (1, 18, 20.6, True)
    """

    ranks: int
    per_node: int
    gpu: str
    capability: int
    links: int
    switched: bool
    nics: int = 0
    nic_GBps: float = 0.0  # noqa: N815 - unit in the name
    cpu: str = ""
    network: NetworkType = _ETHERNET
    pcie_GBps: float = 0.0  # noqa: N815 - unit in the name
    saved_us: float = 0.0
    joined: bool = True
    version: tuple[int, ...] = ()

    @property
    def multicast(self) -> bool:
        """Whether NVSwitches add and copy (NVLink SHARP): from Hopper on, where one joins all GPUs."""
        return self.switched and self.joined and not self.pcie_GBps and self.capability >= _SHARP

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.ranks // self.per_node

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the network between nodes, if they use it."""
        return (self.network.note,) if self.nodes > 1 and self.network.note else ()

    @property
    def amd(self) -> bool:
        """Whether the GPUs are AMD's."""
        return not self.capability

    @property
    def link_GBps(self) -> float:  # noqa: N802 - unit in the name
        """Bandwidth that the library assumes for one NVLink or xGMI link."""
        return (
            _XGMI_GBPS if self.amd else next(rate for least, rate in _NVLINK_GBPS if self.capability >= least)
        )

    @property
    def gpu_GBps(self) -> float:  # noqa: N802 - unit in the name
        """All links of a GPU together."""
        return self.pcie_GBps or self.links * self.link_GBps


def library_view(infra: Infra, gpu: str | Path | Preset | None = None) -> LibraryView:
    """Derive what a library sees of an infrastructure whose GPUs are of one kind.

    Parameters
    ----------
    infra : Infra
    gpu : str or Path or Preset, optional
        The kind of all GPUs; by default the one that the infrastructure names.

    Raises
    ------
    InputError
        The GPU's library is unknown, nodes differ in size, or GPUs have neither NVLink nor xGMI.
    """
    graph = infra.expand()
    name, known, saved_us = _library(_one_gpu(infra) if gpu is None else gpu)
    if known is None:
        what = f"no model of the library of GPU {name!r}"
        hint = "give an algorithm, or a section 'library' in the GPU's file"
        raise InputError(what, where="library", hint=hint)
    fast = np.array([family(link.type) in ("NVLink", "xGMI") for link in graph.links], bool)[graph.edges.link]
    first = int(graph.gpus[0])
    mine = fast & ((graph.edges.a == first) | (graph.edges.b == first)) & ~_touches(graph, NodeKind.CPU)
    links = int(graph.edges.lanes[mine].sum())
    per_node = _per_node(graph, infra.name)
    pcie_GBps = 0.0 if links else _pcie(graph, first)  # noqa: N806 - unit in the name
    if pcie_GBps and known.compute_capability and per_node == len(graph.gpus):
        capability, cpu = known.compute_capability, _cpu(graph)
        rate = min(pcie_GBps, _SOCKETS_GBPS.get(cpu, pcie_GBps))
        return LibraryView(
            per_node,
            per_node,
            name,
            capability,
            links=1,
            switched=True,
            cpu=cpu,
            pcie_GBps=rate,
            saved_us=saved_us,
        )
    if not links:
        what = f"no model of a library's choice where {infra.name[:40]!r} joins GPUs without NVLink or xGMI"
        raise InputError(what, where="library", hint="give an algorithm")
    ends = np.where(graph.edges.a[mine] == first, graph.edges.b[mine], graph.edges.a[mine])
    nics, rate, network = _nics(graph)
    return LibraryView(
        len(graph.gpus),
        per_node,
        name,
        known.compute_capability,
        links,
        bool((graph.nodes.kind[ends] == NodeKind.SWITCH).all()),
        nics,
        rate,
        cpu=_cpu(graph),
        network=network,
        saved_us=saved_us,
        joined=_joined(graph, fast),
    )


def _joined(graph: NodeGraph, fast: np.ndarray) -> bool:
    """Return whether the GPUs of the first node have a switch in common."""
    ours = graph.gpus[graph.nodes.instance[graph.gpus] == graph.nodes.instance[graph.gpus[0]]]
    a, b = graph.edges.a[fast], graph.edges.b[fast]
    return bool(set.intersection(*({*b[a == gpu].tolist(), *a[b == gpu].tolist()} for gpu in ours)))


def _pcie(graph: NodeGraph, gpu: int) -> float:
    """Return what NCCL counts for the PCIe slot of a GPU; 0 if it has none."""
    mine = (graph.edges.a == gpu) | (graph.edges.b == gpu)
    return max((_PCIE_GBPS.get(graph.links[k].type, 0.0) for k in graph.edges.link[mine]), default=0.0)


def _library(gpu: str | Path | Preset) -> tuple[str, GpuLibrary | None, float]:
    """Return the name of a GPU, by what its library chooses, and what a graph saves it."""
    if isinstance(gpu, Preset):
        return gpu.name, gpu.library, (gpu.launch_ps - gpu.graph_ps) / 1e6
    device = read_gpu(gpu)
    known = device.library if "library" in device.file.sections else None
    machine = device.machine if "machine" in device.file.sections else None
    return device.name, known, (machine.launch_ps - machine.graph_ps) / 1e6 if machine else 0.0


def _touches(graph: NodeGraph, kind: NodeKind) -> np.ndarray:
    found: np.ndarray = (graph.nodes.kind[graph.edges.a] == kind) | (graph.nodes.kind[graph.edges.b] == kind)
    return found


def _per_node(graph: NodeGraph, where: str) -> int:
    sizes = set(Counter(graph.nodes.instance[graph.gpus].tolist()).values())
    if len(sizes) > 1:
        what = f"nodes of {' and '.join(map(str, sorted(sizes)))} GPUs: no model of a library's choice"
        raise InputError(what, where=where, hint="give an algorithm")
    return sizes.pop()


def _nics(graph: NodeGraph) -> tuple[int, float, NetworkType]:
    """Return how many NICs of the first node lead out of it, what one carries, and their network."""
    node = int(graph.nodes.instance[graph.gpus[0]])
    outward = graph.nodes.instance[graph.edges.a] != graph.nodes.instance[graph.edges.b]
    ends = np.concatenate([graph.edges.a[outward], graph.edges.b[outward]])
    ours = np.unique(ends[(graph.nodes.kind[ends] == NodeKind.NIC) & (graph.nodes.instance[ends] == node)])
    if not len(ours):
        return 0, 0.0, _ETHERNET
    mine = (graph.edges.a == ours[0]) | (graph.edges.b == ours[0])
    link = int(graph.edges.link[np.flatnonzero(mine & outward)[0]])
    device, nic = graph.plan.components[int(graph.nodes.component[ours[0]])]
    named = (graph.plan.links[link], nic, device)
    network = recognise_network((f"{one.name} {one.description}" for one in named), graph.links[link].type)
    wire = int(graph.edges["bandwidth_Bps"][0][mine & outward].sum()) / 1e9
    slots = [_PCIE_GBPS.get(graph.links[number].type, wire) for number in graph.edges.link[mine & ~outward]]
    return len(ours), min([wire, *slots]), network


def _cpu(graph: NodeGraph) -> str:
    """Return the processor's vendor, by the link that joins the sockets."""
    between = (graph.nodes.kind[graph.edges.a] == NodeKind.CPU) & (
        graph.nodes.kind[graph.edges.b] == NodeKind.CPU
    )
    types = {graph.links[number].type for number in graph.edges.link[between]}
    return "intel" if types & {*_INTEL} else "amd" if types & {*_AMD_CPU} else ""


def _one_gpu(infra: Infra) -> str:
    """Return the kind of all GPUs."""
    names = sorted(set(named_gpus(infra)[0]))
    if len(names) > 1:
        what = f"no model of a library's choice for {' and '.join(names)} together"
        raise InputError(what, where="library", hint="give an algorithm")
    return names[0]
