"""Real servers as InfraGraph documents, with the components and wiring of the upstream package.

Built from public descriptions, with the component names of the ``infragraph`` package, so
that both expand to the same nodes and edges; `NOTES` lists its errors that are corrected here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from astranb.core.document import read_document
from astranb.hardware import FOLDER, check_header, number_field, read_section, text_field

from .network_types import NETWORK_TYPES

__all__ = [
    "NOTES",
    "SERVERS",
    "HostNumbers",
    "Server",
    "component",
    "document_name",
    "edge",
    "generic_server",
    "link",
    "one_device",
    "read_hosts",
    "switch_device",
]

Document = dict[str, Any]
_NO_NAME = re.compile(r"[^a-zA-Z0-9_() -]+")


def document_name(text: str) -> str:
    """Make a name that InfraGraph allows of a file's."""
    return _NO_NAME.sub("-", text).strip("- ")[:60] or "converted"


def component(name: str, count: int, choice: str, description: str = "", custom: str = "") -> Document:
    """One component; ``custom`` is the type of a custom one."""
    made: Document = {"name": name, **({"description": description} if description else {})}
    return made | {"count": count, "choice": choice, **({"custom": {"type": custom}} if custom else {})}


def edge(ep1: str, ep2: str, link: str, scheme: str = "many2many") -> Document:
    """One edge inside a device."""
    return {"ep1": {"component": ep1}, "ep2": {"component": ep2}, "scheme": scheme, "link": link}


_BITS = {"gigabits_per_second": 8, "gigabytes_per_second": 1}


def link(
    name: str,
    description: str = "",
    bandwidth_Bps: float | None = None,  # noqa: N803 - unit in the name
    latency_ps: float | None = None,
    unit: str = "gigabytes_per_second",
) -> Document:
    """One link, with its bandwidth (in Gbps or GB/s) and its latency if they are known."""
    made: Document = {"name": name, **({"description": description} if description else {})}
    physical: Document = {}
    if bandwidth_Bps is not None:
        physical["bandwidth"] = {"choice": unit, unit: _number(bandwidth_Bps * _BITS[unit], 10**9)}
    if latency_ps is not None:
        physical["latency"] = {"choice": "ns", "ns": _number(latency_ps, 1000)}
    return made | ({"physical": physical} if physical else {})


def _number(value: float, unit: int) -> float:
    return value // unit if value % unit == 0 else value / unit


def one_device(name: str, device: Document, instance: str = "") -> Document:
    """An infrastructure of one device; its instance is called like it by default."""
    instances = [{"name": instance or device["name"], "device": device["name"], "count": 1}]
    return {"name": name, "devices": [device], "instances": instances}


def _device(
    name: str, text: str, components: list[Document], links: list[Document], edges: list[Document]
) -> Document:
    return {"name": name, "description": text, "components": components, "links": links, "edges": edges}


def _dgx_links(cpu: str, xpu: str, pcie: str) -> list[Document]:
    return [link("cpu_fabric", cpu), link("xpu_fabric", xpu), link("pcie", f"PCI Express {pcie} x16")]


def _dgx_components(
    cpu: str, gpu: str, gpus: int, nvswitches: int, pcie_switches: int, slots: int, nic: str
) -> list[Document]:
    return [
        component("cpu", 2, "cpu", cpu),
        component("xpu", gpus, "xpu", gpu),
        *([component("nvsw", nvswitches, "switch", "NVIDIA NVSwitch")] if nvswitches else []),
        *([component("pciesw", pcie_switches, "switch", "PCI Express switch")] if pcie_switches else []),
        component("pciesl", slots, "custom", "PCI Express slot", "pcie_slot"),
        component(nic, slots, "nic", "NVIDIA ConnectX"),
    ]


def _dgx_1() -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("pciesw", "pciesl", "pcie", "one2one")]
    for switch, gpus in enumerate(("xpu[0:3:2]", "xpu[1:4:2]", "xpu[4:7:2]", "xpu[5:8:2]")):
        edges += [
            edge(f"pciesw[{switch}]", gpus, "pcie"),
            edge(f"pciesw[{switch}]", f"cpu[{switch // 2}]", "pcie"),
        ]
    edges += [edge(f"xpu[{quad}]", f"xpu[{quad}]", "xpu_fabric") for quad in ("0:4", "4:8")]
    edges += [edge("xpu[0:4]", "xpu[4:8]", "xpu_fabric", "one2one"), edge("pciesl", "cx5", "pcie", "one2one")]
    parts = _dgx_components("Intel Xeon E5-2698 v4", "NVIDIA Tesla P100 SXM2", 8, 0, 4, 4, "cx5")
    return _device("dgx1", "NVIDIA DGX-1", parts, _dgx_links("qpi", "nvlink_1", "Gen3"), edges)


def _dgx_2() -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("pciesw[0:8]", "pciesl", "pcie", "one2one")]
    edges += [edge(f"pciesw[{s}]", f"xpu[{2 * s}:{2 * s + 2}]", "pcie") for s in range(8)]
    edges += [edge("pciesw[8:10]", "cpu[0]", "pcie"), edge("pciesw[10:12]", "cpu[1]", "pcie")]
    edges += [edge("cpu", "pciesw[12:14]", "pcie", "one2one")]
    edges += [edge("pciesw[12]", "nvsw[0:6]", "pcie"), edge("pciesw[13]", "nvsw[6:12]", "pcie")]
    edges += [edge(f"pciesw[{8 + r}]", f"pciesw[{2 * r}:{2 * r + 2}]", "pcie") for r in range(4)]
    edges += [edge("xpu[0:8]", "nvsw[0:6]", "xpu_fabric"), edge("xpu[8:16]", "nvsw[6:12]", "xpu_fabric")]
    edges += [edge("nvsw[0:6]", "nvsw[6:12]", "xpu_fabric"), edge("pciesl", "cx5", "pcie", "one2one")]
    parts = _dgx_components("Intel Xeon Platinum 8168", "NVIDIA Tesla V100 SXM3", 16, 12, 14, 8, "cx5")
    return _device("dgx2", "NVIDIA DGX-2", parts, _dgx_links("upi", "nvlink_2", "Gen3"), edges)


def _dgx_a100() -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("xpu", "nvsw", "xpu_fabric")]
    edges += [edge("cpu[0]", "pciesw[0:2]", "pcie"), edge("cpu[1]", "pciesw[2:4]", "pcie")]
    for s in range(4):
        pair = f"[{2 * s}:{2 * s + 2}]"
        edges += [edge(f"pciesw[{s}]", f"pciesl{pair}", "pcie"), edge(f"pciesw[{s}]", f"xpu{pair}", "pcie")]
    edges += [edge("pciesw[4]", "nvsw", "pcie"), edge("pciesw[4]", "pciesw[3]", "pcie", "one2one")]
    edges += [edge("pciesl", "cx6", "pcie", "one2one")]
    parts = _dgx_components("AMD EPYC 7742", "NVIDIA A100 SXM4", 8, 6, 5, 8, "cx6")
    return _device(
        "dgx_a100", "NVIDIA DGX A100", parts, _dgx_links("infinity_fabric", "nvlink_3", "Gen4"), edges
    )


def _dgx_h100(
    name: str = "dgx_h100",
    text: str = "NVIDIA DGX H100",
    gpu: str = "NVIDIA H100 SXM5",
    nvlink: str = "nvlink_4",
    cpu: str = "Intel Xeon Platinum 8480C",
    nvswitches: int = 4,
    nic: str = "cx7",
) -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("nvsw", "xpu", "xpu_fabric")]
    edges += [edge("cpu[0]", "pciesl[0:4]", "pcie"), edge("cpu[1]", "pciesl[4:8]", "pcie")]
    edges += [edge("cpu", "pciesw[0:2]", "pcie", "one2one"), edge("cpu[0]", "pciesw[2]", "pcie", "one2one")]
    edges += [edge("nvsw", "pciesw[2]", "pcie"), edge("pciesl", "xpu", "pcie", "one2one")]
    edges += [edge("pciesl", nic, "pcie", "one2one")]
    parts = _dgx_components(cpu, gpu, 8, nvswitches, 3, 8, nic)
    return _device(name, text, parts, _dgx_links("upi", nvlink, "Gen5"), edges)


def _grace(name: str, text: str, trays: int, nic: str = "cx7") -> Document:
    """Compute trays of 2 Grace and 4 Blackwell, all on the 18 NVSwitches of a rack."""
    edges = [edge("xpu", "nvsw", "xpu_fabric")]
    edges += [edge(f"cpu[{2 * t}]", f"cpu[{2 * t + 1}]", "cpu_fabric", "one2one") for t in range(trays)]
    for c in range(2 * trays):
        pair = f"[{2 * c}:{2 * c + 2}]"
        edges += [edge(f"cpu[{c}]", f"pciesl{pair}", "pcie"), edge(f"cpu[{c}]", f"xpu{pair}", "c2c_link")]
    edges += [edge("pciesl", nic, "pcie", "one2one")]
    parts = _dgx_components("NVIDIA Grace", "NVIDIA Blackwell", 4 * trays, 18, 0, 4 * trays, nic)
    parts[0]["count"] = 2 * trays
    links = [*_dgx_links("nvlink_c2c", "nvlink_5", "Gen5"), link("c2c_link", "nvlink_c2c")]
    return _device(name, text, parts, links, edges)


def _tray(chip: str, nic: str) -> Document:
    name = f"dgx_{chip}"
    return _grace(name, f"NVIDIA {chip.upper()} compute tray with the NVSwitches of its rack", 1, nic)


def _rack(chip: str, nic: str, trays: int = 18) -> Document:
    text = f"NVIDIA {chip.upper()} NVL72: {trays} compute trays, one NVLink domain"
    return _grace(f"{chip}_nvl72", text, trays, nic)


def _hgx(
    name: str,
    text: str,
    cpu: str,
    sockets: str,
    nic: str,
    switches: int,
    nics: int,
    host_pcie: str = "Gen5",
    gpu: str = "NVIDIA H100 SXM5",
    nvlink: str = "nvlink_4",
    nvswitches: int = 4,
    pcie: str = "Gen5",
    cpus: int = 2,
) -> Document:
    """An HGX board whose 8 GPUs and ``nics`` NICs are shared out over PCIe switches, those over CPUs."""
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("xpu", "nvsw", "xpu_fabric")]
    for s in range(switches):
        edges += [edge(f"pciesw[{s}]", f"cpu[{cpus * s // switches}]", "host_pcie")]
        edges += [
            edge(f"pciesw[{s}]", f"{part}[{count * s // switches}:{count * (s + 1) // switches}]", "pcie")
            for part, count in (("xpu", 8), ("nic", nics))
        ]
    parts = [
        component("cpu", cpus, "cpu", cpu),
        component("xpu", 8, "xpu", gpu),
        component("nvsw", nvswitches, "switch", "NVIDIA NVSwitch"),
        component("pciesw", switches, "switch", "PCI Express switch"),
        component("nic", nics, "nic", nic),
    ]
    links = [*_dgx_links(sockets, nvlink, pcie), link("host_pcie", f"PCI Express {host_pcie} x16")]
    return _device(name, text, parts, links, edges)


def _instinct(gpu: str) -> Document:
    """A platform of eight OAM that are fully connected."""
    edges = [edge("cpu", "cpu", "qpi"), edge("xpu", "xpu", "infinity_fabric")]
    for s in range(4):
        pair = f"[{2 * s}:{2 * s + 2}]"
        edges += [edge(f"pciesw[{s}]", f"cpu[{s // 2}]", "pcie")]
        edges += [edge(f"pciesw[{s}]", f"{part}{pair}", "pcie") for part in ("xpu", "nic", "storage")]
    edges += [edge("cpu", "frontend_nic", "pcie", "one2one")]
    edges += [edge("cpu[0]", "lom", "pcie"), edge("cpu[0]", "bmc", "pcie")]
    parts = [
        component("cpu", 2, "cpu", "Host CPU"),
        component("xpu", 8, "xpu", f"AMD Instinct {gpu} OAM"),
        component("pciesw", 4, "switch", "PCI Express switch"),
        component("nic", 8, "nic", "400G NIC"),
        component("frontend_nic", 2, "custom", "Front-end NIC", "front_end_nic"),
        component("storage", 8, "custom", "NVMe SSD", "nvme"),
        component("lom", 1, "custom", "Management NIC", "lom_nic"),
        component("bmc", 1, "custom", "Baseboard management controller", "bmc_nic"),
    ]
    links = [
        link("qpi", "between sockets"),
        link("infinity_fabric", "xGMI"),
        link("pcie", "PCI Express Gen5 x16"),
    ]
    return _device(gpu.lower(), f"AMD Instinct {gpu} platform", parts, links, edges)


def _cards(name: str, gpu: str, pcie: str) -> Document:
    """Eight cards without NVLink: two and a NIC behind each of four PCIe switches, two switches a socket."""
    edges = [edge("cpu", "cpu", "cpu_fabric")]
    for s in range(4):
        edges += [edge(f"pciesw[{s}]", f"cpu[{s // 2}]", "pcie")]
        edges += [
            edge(f"pciesw[{s}]", f"{part}", "pcie") for part in (f"xpu[{2 * s}:{2 * s + 2}]", f"nic[{s}]")
        ]
    parts = [
        component("cpu", 2, "cpu", "Host CPU"),
        component("xpu", 8, "xpu", f"NVIDIA {gpu}"),
        component("pciesw", 4, "switch", "PCI Express switch"),
        component("nic", 4, "nic", "400G NIC"),
    ]
    links = [link("cpu_fabric", "upi"), link("pcie", f"PCI Express {pcie} x16")]
    return _device(name, f"A server of 8 NVIDIA {gpu}", parts, links, edges)


def _pair() -> Document:
    """Two cards joined by NVLink bridges, behind a PCIe switch with a NIC for both."""
    edges = [edge("pciesw", part, "pcie") for part in ("cpu", "xpu", "nic")]
    parts = [
        component("cpu", 1, "cpu", "Host CPU"),
        component("xpu", 2, "xpu", "NVIDIA H100 NVL"),
        component("pciesw", 1, "switch", "PCI Express switch"),
        component("nic", 1, "nic", "400G NIC"),
    ]
    links = [link("nvlink_bridge", "NVLink 4, 12 links"), link("pcie", "PCI Express Gen5 x16")]
    edges += [edge("xpu", "xpu", "nvlink_bridge")]
    return _device("h100_nvl", "2 NVIDIA H100 NVL on NVLink bridges", parts, links, edges)


def _xe9680() -> Document:
    edges = [edge("cpu", "cpu", "upi"), edge("xpu", "nvsw", "nvlink_4"), edge("cpu[0]", "lom", "pcie_gen5")]
    for s, slots in enumerate(("0:3", "3:5", "5:7", "7:10")):
        pair = f"[{2 * s}:{2 * s + 2}]"
        edges += [
            edge(f"pciesw[{s}]", f"cpu[{s // 2}]", "pcie_gen5"),
            edge(f"pciesw[{s}]", f"xpu{pair}", "pcie_gen5"),
        ]
        edges += [edge(f"pciesw[{s}]", f"pciesl[{slots}]", "pcie_gen5")]
        edges += [edge(f"pciesw[{s}]", f"storage{pair}", "pcie_gen5")]
    edges += [edge("cpu[0]", "memory[0:16]", "ddr5"), edge("cpu[1]", "memory[16:32]", "ddr5")]
    parts = [
        component("cpu", 2, "cpu", "Intel Xeon Scalable"),
        component("xpu", 8, "xpu", "NVIDIA HGX H200 SXM5"),
        component("nvsw", 4, "switch", "NVIDIA NVSwitch"),
        component("pciesw", 4, "switch", "PCI Express switch"),
        component("pciesl", 10, "custom", "PCI Express slot", "pcie_slot"),
        component("memory", 32, "memory", "DDR5 RDIMM"),
        component("storage", 8, "custom", "NVMe SSD", "nvme"),
        component("lom", 2, "nic", "LOM 1GbE"),
    ]
    links = [link("upi"), link("nvlink_4"), link("pcie_gen5"), link("ddr5")]
    return _device("xe9680", "Dell PowerEdge XE9680", parts, links, edges)


def generic_server(factor: int) -> Document:
    """A server of 2 GPUs, 2 NICs, a CPU and a PCIe switch ``factor`` times, on one NVSwitch."""
    edges = [
        edge("mgmt", "cpu[0]", "pcie", "one2one"),
        edge("cpu", "cpu", "fabric"),
        edge("xpu", "nvlsw", "nvlink"),
    ]
    edges += [edge("cpu", "pciesw", "pcie", "one2one")]
    for c in range(factor):
        pair = f"[{2 * c}:{2 * c + 2}]"
        edges += [edge(f"xpu{pair}", f"pciesw[{c}]", "pcie"), edge(f"nic{pair}", f"pciesw[{c}]", "pcie")]
    parts = [
        component("cpu", factor, "cpu", "Generic CPU"),
        component("xpu", 2 * factor, "xpu", "Generic GPU"),
        component("nvlsw", 1, "switch", "NVLink switch"),
        component("pciesw", factor, "switch", "PCI Express switch Gen 4"),
        component("nic", 2 * factor, "nic", "Generic NIC"),
        component("mgmt", 1, "custom", "Management NIC", "mgmt-nic"),
    ]
    links = [link("fabric", "CPU fabric"), link("nvlink"), link("pcie", "PCI Express Gen 4")]
    return _device("server", "A generic server", parts, links, edges)


def switch_device(ports: int, asic: str = "Generic ASIC") -> Document:
    """A switch: one ASIC (a ``cpu`` to InfraGraph's own blueprint) with its ports."""
    parts = [component("asic", 1, "cpu", asic), component("port", ports, "port", "Generic port")]
    return _device(
        "switch",
        "A generic switch",
        parts,
        [link("ic", "Integrated circuitry")],
        [edge("asic", "port", "ic")],
    )


@dataclass(frozen=True)
class HostNumbers:
    """A server in ``hardware/hosts.json``.

    Attributes
    ----------
    title : str
    network : str
        Of its NICs: a kind of :data:`NETWORK_TYPES`, as ``"infiniband"``.
    nic_Bps : int
        Of each NIC that joins it to others, in one direction; 0: it has none.
    trays : int
        Most trays of a server that is made of them; 0: it is not.
    """

    title: str = text_field()
    network: str = text_field("ethernet")
    nic_Bps: int = number_field(0, 10**13, default=0)  # noqa: N815 - unit in the name
    trays: int = number_field(0, 1000, default=0)


class Server(NamedTuple):
    """A server that has a name: its components and wiring, and its numbers."""

    build: Callable[..., Document]
    numbers: HostNumbers


_h20 = partial(_dgx_h100, "dgx_h20", "NVIDIA HGX H20, with the host of a DGX", "NVIDIA H20 SXM5")
_dgx_b200 = partial(
    _dgx_h100, "dgx_b200", "NVIDIA DGX B200", "NVIDIA B200 SXM6", "nvlink_5", "Intel Xeon Platinum 8570", 2
)
_dgx_b300 = partial(
    _dgx_h100, "dgx_b300", "NVIDIA DGX B300", "NVIDIA B300 SXM6", "nvlink_5", "Intel Xeon 6776P", 2, "cx8"
)
_h800 = partial(
    _dgx_h100, "dgx_h800", "NVIDIA HGX H800, with the host of a DGX", "NVIDIA H800 SXM5", "nvlink"
)
_p5 = partial(_hgx, "p5_h100", "AWS p5.48xlarge", "AMD EPYC 7R13", "infinity_fabric", "EFA", 8, 32, "Gen4")
_ndv5 = partial(
    _hgx, "ndv5_h100", "Azure ND H100 v5", "Intel Xeon Platinum 8480C", "upi", "NVIDIA ConnectX-7", 8, 8
)
_a3 = partial(_hgx, cpu="Intel Xeon Platinum 8481C", sockets="upi", nic="Google virtual NIC")

_a3_ultra = partial(
    _hgx,
    "a3_ultra_h200",
    "Google Cloud a3-ultragpu-8g",
    cpu="Intel Xeon Platinum 8581C",
    sockets="upi",
    nic="NVIDIA ConnectX-7",
    switches=8,
    nics=8,
    gpu="NVIDIA H200 SXM5",
)

_a100 = partial(_hgx, nvlink="nvlink_3", nvswitches=6, switches=4)
_p4 = partial(
    _a100, cpu="Intel Xeon Platinum 8275CL", sockets="upi", nic="EFAv1", nics=4, host_pcie="Gen3", pcie="Gen3"
)
_ndv4 = partial(
    _a100, cpu="AMD EPYC 7V12", sockets="infinity_fabric", nic="NVIDIA ConnectX-6", nics=8, cpus=4,
    host_pcie="Gen4", pcie="Gen4",
)  # fmt: skip
_b200 = partial(_hgx, gpu="NVIDIA B200 SXM6", nvlink="nvlink_5", nvswitches=2, switches=8, nics=8)
_p5en = partial(
    _hgx, "p5en_h200", "AWS p5en.48xlarge", "Intel Xeon Platinum 8488C", "upi", "EFAv3", 8, 16,
    gpu="NVIDIA H200 SXM5",
)  # fmt: skip
_p6 = partial(
    _b200, "p6_b200", "AWS p6-b200.48xlarge", cpu="Intel Xeon Platinum 8559C", sockets="upi", nic="EFAv4"
)
_a4 = partial(
    _b200, "a4_b200", "Google Cloud a4-highgpu-8g", cpu="Intel Xeon Platinum 8581C", sockets="upi",
    nic="NVIDIA ConnectX-7",
)  # fmt: skip

_BUILD: dict[str, Callable[..., Document]] = {
    "dgx-1": _dgx_1,
    "dgx-2": _dgx_2,
    "dgx-a100": _dgx_a100,
    "dgx-h100": _dgx_h100,
    "dgx-h20": _h20,
    "dgx-h800": _h800,
    "dgx-b200": _dgx_b200,
    "dgx-b300": _dgx_b300,
    "dgx-gb200": partial(_tray, "gb200", "cx7"),
    "gb200-nvl72": partial(_rack, "gb200", "cx7"),
    "dgx-gb300": partial(_tray, "gb300", "cx8"),
    "gb300-nvl72": partial(_rack, "gb300", "cx8"),
    "h100-nvl": _pair,
    "p4d": partial(_p4, "p4d_a100_40", "AWS p4d.24xlarge", gpu="NVIDIA A100 SXM4 40 GB"),
    "p4de": partial(_p4, "p4de_a100", "AWS p4de.24xlarge", gpu="NVIDIA A100 SXM4"),
    "p5": _p5,
    "p5en": _p5en,
    "p6-b200": _p6,
    "ndv4": partial(_ndv4, "ndv4_a100_40", "Azure ND A100 v4", gpu="NVIDIA A100 SXM4 40 GB"),
    "ndmv4": partial(_ndv4, "ndmv4_a100", "Azure NDm A100 v4", gpu="NVIDIA A100 SXM4"),
    "ndv5": _ndv5,
    "a3-mega": partial(_a3, "a3_mega_h100", "Google Cloud a3-megagpu-8g", switches=8, nics=8),
    "a3-high": partial(_a3, "a3_high_h100", "Google Cloud a3-highgpu-8g", switches=4, nics=4),
    "a3-ultra": _a3_ultra,
    "a4": _a4,
    **{gpu.lower(): partial(_instinct, gpu) for gpu in ("MI300X", "MI325X", "MI350X", "MI355X")},
    "l40s": partial(_cards, "l40s", "L40S", "Gen4"),
    "rtxpro6000": partial(_cards, "rtxpro6000", "RTX PRO 6000 Blackwell Server Edition", "Gen5"),
    "xe9680": _xe9680,
}


def read_hosts(path: str | Path) -> dict[str, HostNumbers]:
    """Read the numbers of servers, by name.

    Raises
    ------
    InputError
        A number is missing, unknown, given twice or out of range; the error has file, line and field.
    """
    root = read_document(path)
    check_header(root, "astranb-hosts", 1, "")
    names = [name for name in root.value if name not in ("format", "version")]
    for name in names:
        if "network" in root.get(name).value:
            root.get(name).get("network").choice(NETWORK_TYPES)
    return {name: HostNumbers(**read_section(root.get(name), HostNumbers).values) for name in names}


SERVERS: dict[str, Server] = {
    name: Server(_BUILD[name], numbers) for name, numbers in read_hosts(FOLDER / "hosts.json").items()
}
"""Servers by blueprint name."""

NOTES: dict[str, tuple[str, ...]] = {
    "dgx-2": (
        "corrected: the infragraph package names the NVSwitches nvlsw in its edges, and so draws no NVLink",
        "corrected: PCIe switches 12 and 13, alone in the infragraph package, reach CPU and NVSwitch",
        "the 48 NVLinks between the boards are 36 edges of one lane, as in the infragraph package",
    ),
    "dgx-h100": (
        "corrected: PCIe slots 3 and 7 have a CPU, which the infragraph package forgets (pciesl[0:3])",
        "corrected: the CPUs are Intel Xeon 8480C, joined by UPI (NVIDIA DGX H100 user guide)",
    ),
    "dgx-h20": ("NIC and host as in a DGX H100: HGX H20 is a board, which vendors build hosts for",),
    "dgx-h800": (
        "NVLink: 8 of 18 links, 400 GB/s (arXiv 2505.09343: H800 has 400 of H100's 900 GB/s)",
        "NIC and host as in a DGX H100: HGX H800 is a board, which vendors build hosts for",
    ),
    "dgx-b200": (
        "2 NVSwitches, 18 links a GPU, 8 ConnectX-7 of 400 Gbps, Xeon 8570 (NVIDIA DGX B200 user guide)",
        "host as in a DGX H100",
    ),
    "gb200-nvl72": (
        "a link of each GPU to each of 18 NVSwitches, 4 NICs of 400 Gbps a tray (DGX GB200 user guide)",
    ),
    "dgx-b300": (
        "2 NVSwitches, 18 links a GPU, 8 ConnectX-8 of 800 Gbps, Xeon 6776P (NVIDIA DGX B300 data sheet)",
        "host as in a DGX H100",
    ),
    "gb300-nvl72": ("as a GB200 NVL72, with NICs of 800 Gbps (NVIDIA GB300 NVL72 data sheet)",),
    "l40s": ("assumed: 2 GPUs and a NIC behind each PCIe switch, 2 switches a socket",),
    "rtxpro6000": ("assumed: 2 GPUs and a NIC behind each PCIe switch, 2 switches a socket",),
    "p5": (
        "PCIe: a GPU and 4 NICs behind each switch (aws/aws-ofi-nccl @8807ce1, topology/p5.48xl-topo.xml)",
        "32 network cards of 100 Gbps each (Amazon EC2 user guide, EFA on P5)",
        "of SRD and the plug-in a latency is modelled",
    ),
    "ndv5": (
        "PCIe: a GPU and a NIC behind each bridge (Azure/azhpc-images @6db46df, topology/ndv5-topo.xml)",
        "8 NDR InfiniBand of 400 Gbps (Microsoft Azure documentation, ND H100 v5)",
    ),
    "h100-nvl": ("assumed: both cards and a NIC behind one PCIe switch",),
    "p4d": (
        "PCIe 3, 2 GPUs and a NIC behind each switch: aws/aws-ofi-nccl @2daf7d30, topology/p4d-24xl-topo.xml",
        "of SRD and the plug-in a latency is modelled",
    ),
    "p4de": (
        "PCIe 3, 2 GPUs and a NIC behind each switch: aws/aws-ofi-nccl @2daf7d30, p4de-24xl-topo.xml",
        "of SRD and the plug-in a latency is modelled",
    ),
    "p5en": ("assumed: a GPU and 2 NICs behind each PCIe switch, as in p5 with 4",),
    "p6-b200": ("assumed: a GPU and a NIC behind each PCIe switch, as in p5 with 4",),
    "ndv4": (
        "PCIe: 2 GPUs and 2 NICs behind each of 4 bridges (Azure/azhpc-images @8e9d055f, ndv4-topo.xml)",
    ),
    "ndmv4": ("as ndv4, with GPUs of 80 GB",),
    "a4": ("assumed: a GPU and a NIC behind each PCIe switch",),
    "a3-mega": (
        "8 of 9 NICs of 200 Gbps are for GPUs (Google Cloud documentation, GPU network bandwidth)",
        "assumed: a GPU and a NIC behind each PCIe switch",
        "of what the host does for GPUDirect-TCPXO a latency is modelled",
    ),
    "a3-high": (
        "4 of 5 NICs of 200 Gbps are for GPUs (Google Cloud documentation, GPU network bandwidth)",
        "assumed: 2 GPUs and a NIC behind each PCIe switch",
        "what the host does for GPUDirect-TCPX takes no time",
    ),
    "a3-ultra": (
        "8 ConnectX-7 of 400 Gbps for GPUs (Google Cloud documentation, GPU network bandwidth)",
        "assumed: a GPU and a NIC behind each PCIe switch",
    ),
    "dgx-gb200": ("corrected: GPUs reach NVSwitches by NVLink 5; the infragraph package has NVLink-C2C",),
    "xe9680": ("corrected: the disks are of type nvme; the infragraph package gives them no type",),
    "switch": ("the ASIC of a switch is typed cpu, as in the infragraph package",),
}
"""Corrections by a blueprint, by its name."""
