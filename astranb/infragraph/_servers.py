"""Real servers as InfraGraph documents, with the components and wiring of the upstream package.

Built from public descriptions, with the component names of the ``infragraph`` package, so
that both expand to the same nodes and edges; `NOTES` lists its errors that are corrected here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["NOTES", "SERVERS", "component", "edge", "generic_server", "link", "one_device", "switch_device"]

Document = dict[str, Any]


def component(name: str, count: int, choice: str, description: str = "", custom: str = "") -> Document:
    """One component; ``custom`` is the type of a custom one."""
    made: Document = {"name": name, **({"description": description} if description else {})}
    return made | {"count": count, "choice": choice, **({"custom": {"type": custom}} if custom else {})}


def edge(ep1: str, ep2: str, link: str, scheme: str = "many2many") -> Document:
    """One edge inside a device."""
    return {"ep1": {"component": ep1}, "ep2": {"component": ep2}, "scheme": scheme, "link": link}


def link(
    name: str,
    description: str = "",
    gigabits: float | None = None,
    gigabytes: float | None = None,
    ns: float | None = None,
) -> Document:
    """One link, with its bandwidth in Gbps or GB/s and its latency if they are known."""
    made: Document = {"name": name, **({"description": description} if description else {})}
    physical = {
        what: {"choice": unit, unit: value}
        for what, unit, value in (
            ("bandwidth", "gigabits_per_second", gigabits),
            ("bandwidth", "gigabytes_per_second", gigabytes),
            ("latency", "ns", ns),
        )
        if value is not None
    }
    return made | ({"physical": physical} if physical else {})


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


def _dgx_h100() -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("nvsw", "xpu", "xpu_fabric")]
    edges += [edge("cpu[0]", "pciesl[0:4]", "pcie"), edge("cpu[1]", "pciesl[4:8]", "pcie")]
    edges += [edge("cpu", "pciesw[0:2]", "pcie", "one2one"), edge("cpu[0]", "pciesw[2]", "pcie", "one2one")]
    edges += [edge("nvsw", "pciesw[2]", "pcie"), edge("pciesl", "xpu", "pcie", "one2one")]
    edges += [edge("pciesl", "cx7", "pcie", "one2one")]
    parts = _dgx_components("Intel Xeon Platinum 8480C", "NVIDIA H100 SXM5", 8, 4, 3, 8, "cx7")
    return _device("dgx_h100", "NVIDIA DGX H100", parts, _dgx_links("upi", "nvlink_4", "Gen5"), edges)


def _dgx_gb200() -> Document:
    edges = [edge("cpu", "cpu", "cpu_fabric"), edge("xpu", "nvsw", "xpu_fabric")]
    for c in range(2):
        pair = f"[{2 * c}:{2 * c + 2}]"
        edges += [edge(f"cpu[{c}]", f"pciesl{pair}", "pcie"), edge(f"cpu[{c}]", f"xpu{pair}", "c2c_link")]
    edges += [edge("pciesl", "cx7", "pcie", "one2one")]
    parts = _dgx_components("NVIDIA Grace", "NVIDIA Blackwell", 4, 18, 0, 4, "cx7")
    links = [*_dgx_links("nvlink_c2c", "nvlink_5", "Gen5"), link("c2c_link", "nvlink_c2c")]
    return _device(
        "dgx_gb200", "NVIDIA GB200 compute tray with the NVSwitches of its rack", parts, links, edges
    )


def _mi300x() -> Document:
    edges = [edge("cpu", "cpu", "qpi"), edge("xpu", "xpu", "infinity_fabric")]
    for s in range(4):
        pair = f"[{2 * s}:{2 * s + 2}]"
        edges += [edge(f"pciesw[{s}]", f"cpu[{s // 2}]", "pcie")]
        edges += [edge(f"pciesw[{s}]", f"{part}{pair}", "pcie") for part in ("xpu", "nic", "storage")]
    edges += [edge("cpu", "frontend_nic", "pcie", "one2one")]
    edges += [edge("cpu[0]", "lom", "pcie"), edge("cpu[0]", "bmc", "pcie")]
    parts = [
        component("cpu", 2, "cpu", "Host CPU"),
        component("xpu", 8, "xpu", "AMD Instinct MI300X OAM"),
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
    return _device("mi300x", "AMD Instinct MI300X platform", parts, links, edges)


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


def switch_device(ports: int) -> Document:
    """A switch: one ASIC (a ``cpu`` to InfraGraph's own blueprint) with its ports."""
    parts = [component("asic", 1, "cpu", "Generic ASIC"), component("port", ports, "port", "Generic port")]
    return _device(
        "switch",
        "A generic switch",
        parts,
        [link("ic", "Integrated circuitry")],
        [edge("asic", "port", "ic")],
    )


SERVERS: dict[str, tuple[Callable[[], Document], str]] = {
    "dgx-1": (_dgx_1, "NVIDIA DGX-1: 8 P100 in a hybrid cube mesh"),
    "dgx-2": (_dgx_2, "NVIDIA DGX-2: 16 V100, 12 NVSwitches"),
    "dgx-a100": (_dgx_a100, "NVIDIA DGX A100: 8 GPUs, 6 NVSwitches"),
    "dgx-h100": (_dgx_h100, "NVIDIA DGX H100: 8 GPUs, 4 NVSwitches"),
    "dgx-gb200": (_dgx_gb200, "NVIDIA GB200 compute tray: 4 GPUs, 18 NVSwitches"),
    "mi300x": (_mi300x, "AMD Instinct MI300X platform: 8 fully connected GPUs"),
    "xe9680": (_xe9680, "Dell PowerEdge XE9680: 8 H200, 4 NVSwitches"),
}
"""Servers by blueprint name: a function that builds the device, and a description."""

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
    "dgx-gb200": ("corrected: GPUs reach NVSwitches by NVLink 5; the infragraph package has NVLink-C2C",),
    "xe9680": ("corrected: the disks are of type nvme; the infragraph package gives them no type",),
    "switch": ("the ASIC of a switch is typed cpu, as in the infragraph package",),
}
"""What a blueprint corrects, by its name."""
