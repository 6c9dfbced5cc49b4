"""Read the topology file of NCCL or RCCL (``NCCL_TOPO_DUMP_FILE``, or one for ``NCCL_TOPO_FILE``).

The elements form the PCIe tree; ``link_speed`` and ``link_width`` are those of the upstream link.
NVLinks cross the tree: ``count`` of them lead to each ``target``. Files for ``NCCL_TOPO_FILE``, as clouds
have them, leave out what NCCL asks the driver: ``<gpu>`` and NVLinks.
"""

from __future__ import annotations

import re
from decimal import Decimal

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.xml import Tag

from .detected import DetectedLink, DetectedPart, DetectedServer, PcieSlot, is_gpu
from .link_properties import pcie_Bps
from .link_types import LINK_TYPES

__all__ = ["NcclReader"]

_DEEPEST = 60
_MOST_LANES = 64
_KINDS = {"0x02": "nic", "0x0c06": "nic", "0x0604": "bridge"}
"""By the first digits of a PCI class code (PCI Code and ID Assignment Specification)."""
_TO_SWITCH, _TO_CPU = "0x068000", "0x068001"
_WITH_NVLINK = {60, 70, 80, 90, 100, 103}
"""Compute capabilities of GPUs that are also built as modules with NVLink."""
_BY_SM = ((100, "B200", 5), (90, "H100", 4), (80, "A100", 3), (70, "V100", 2), (60, "P100", 1))
_NARROW_SM = 86
_NARROW = DetectedLink(
    "nvlink3-14GBps", 14_062_500_000, "NVIDIA data sheet of A40: 112.5 GB/s both ways over 4 links"
)
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*GT/s", re.ASCII)


class NcclReader:
    """Add the parts and links of a ``<system>`` to a machine."""

    def __init__(self, machine: DetectedServer) -> None:
        self.machine = machine
        self._at: dict[str, DetectedPart] = {}
        self._links: list[tuple[DetectedPart, int, Tag]] = []
        """Each GPU, its compute capability as NCCL writes it (80), and one of its links."""
        self._over: dict[DetectedPart, DetectedPart] = {}
        """The CPU that each GPU is connected to."""
        self._sm: dict[DetectedPart, int] = {}
        """The compute capability of GPUs that have a ``<gpu>``; 0: it is not given."""
        self._left_out: dict[str, list[str]] = {}
        """Addresses of other devices by class."""

    def read(self, root: Tag) -> None:
        """Read the hosts below the root of a file of NCCL's topology."""
        if not len(root.element):
            raise root.error("the system has no content", "write it again with NCCL_TOPO_DUMP_FILE")
        hosts: dict[str, list[DetectedPart]] = {}
        for tag in root.inside("cpu"):
            cpu = DetectedPart("cpu", f"NUMA {tag.text('numaid', '?')}", tag.text("vendor", ""))
            self.machine.parts.append(cpu)
            hosts.setdefault(tag.text("host_hash", ""), []).append(cpu)
            for inner in tag.inside("pci"):
                self.machine.attach(self._slot(inner, cpu, 1), cpu)
            for inner in tag.inside("nic"):
                self.machine.attach(PcieSlot(self._nic(inner, "")), cpu)
        for cpus in hosts.values():
            self.machine.join_cpus(cpus)
        if len(hosts) > 1:
            self.machine.notes.append(
                f"the file describes {len(hosts)} hosts, but only the NVLinks between them"
            )
        for code, others in self._left_out.items():
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            self.machine.notes.append(f"{others[0]}{more} of class {code[:20] or '?'}: left out")
        self._join()
        self.machine.missing = self._missing()

    def _missing(self) -> str:
        """Explain what NCCL would ask the driver for."""
        gpus = self.machine.gpus
        if not gpus:
            return "no GPU in the file: NCCL adds those of the machine that it runs on"
        if len(gpus) == 1 or self.machine.linked:
            return ""
        if any(part not in self._sm for part in gpus):
            left_out = "neither <gpu> nor <nvlink>, as in a file for NCCL_TOPO_FILE"
        elif all(sm in _WITH_NVLINK for sm in self._sm.values()):
            left_out = "no <nvlink>"
        else:
            return ""
        return (
            f"{len(gpus)} GPUs have {left_out}: they reach one another by PCIe only; "
            "name the GPU (--gpu h100-sxm, in 'infra convert' too) to add its NVLinks"
        )

    def _slot(self, tag: Tag, cpu: DetectedPart, depth: int) -> PcieSlot:
        if depth > _DEEPEST:
            raise tag.error(f"elements are nested deeper than {_DEEPEST}", "is it a file of NCCL's?")
        address, code = tag.text("busid").lower(), tag.text("class", "").lower()
        part = None
        gpu, nic = next(iter(tag.inside("gpu")), None), next(iter(tag.inside("nic")), None)
        kind = next((kind for start, kind in _KINDS.items() if code.startswith(start)), "")
        vendor, device = (tag.text(name, "").lower().removeprefix("0x") for name in ("vendor", "device"))
        if gpu or is_gpu(code.removeprefix("0x"), vendor, device):
            part = self._gpu(gpu, address, cpu)
        elif nic or kind == "nic":
            part = self._nic(nic, address)
        elif kind != "bridge" and not tag.inside("pci"):
            self._left_out.setdefault(code, []).append(address)
        if part:
            if address in self._at:
                raise tag.error(f"duplicate address {address!r}", "keep one of them")
            self._at[address] = part
        return PcieSlot(
            part, _upwards(tag), address, [self._slot(t, cpu, depth + 1) for t in tag.inside("pci")]
        )

    def _gpu(self, tag: Tag | None, address: str, cpu: DetectedPart) -> DetectedPart:
        part = DetectedPart("gpu", address, "", 1 << 20)
        if tag:
            sm = tag.number("sm", 0, 10_000, 0)
            part.model = next((model for least, model, _ in _BY_SM if sm >= least), "")
            if sm:
                part.model = f"{part.model or 'GPU'} (sm {sm})"
            if tag.element.get("gcn"):
                part.model, sm = f"gfx{tag.text('gcn').removeprefix('gfx')}", 0
            self._sm[part] = sm
            part.order = tag.number("rank", -1, 1 << 20, tag.number("dev", -1, 1 << 20, 0))
            self._links += [(part, sm, link) for link in tag.inside("nvlink", "xgmi", "c2c")]
        self._over[part] = cpu
        return part

    def _nic(self, tag: Tag | None, address: str) -> DetectedPart:
        ports = tag.inside("net") if tag else []
        declared = [f"{p.text('name', '?')} {p.number('speed', -1, 10**9, 0) / 1000:g} Gb/s" for p in ports]
        return DetectedPart("nic", address, " + ".join(declared))

    def _join(self) -> None:
        """Connect the parts that NVLink, xGMI and C2C connect: each pair is listed at both ends."""
        switches: dict[str, DetectedPart] = {}
        seen: set[frozenset[DetectedPart]] = set()
        missing: dict[str, int] = {}
        for gpu, sm, tag in self._links:
            target, towards = tag.text("target", "").lower(), tag.text("tclass", "").lower()
            lanes = tag.number("count", 1, _MOST_LANES, 1)
            if tag.element.tag == "c2c" or towards == _TO_CPU:
                other: DetectedPart | None = self._over[gpu]
            elif towards == _TO_SWITCH:
                other = switches.setdefault(target, DetectedPart("nvsw", target))
            else:
                other = self._at.get(target)
            if other is None or other.kind not in {"gpu", "nvsw", "cpu"}:
                missing[target] = missing.get(target, 0) + 1
            elif other is not gpu and frozenset((gpu, other)) not in seen:
                seen.add(frozenset((gpu, other)))
                self.machine.join(gpu, other, _wire(tag, sm), lanes)
        self.machine.parts += switches.values()
        for target, count in missing.items():
            self.machine.notes.append(
                f"left out: {plural(count, 'NVLink')} to {target[:40] or 'nothing'}, which is not in the file"
            )


def _wire(tag: Tag, sm: int) -> DetectedLink:
    """The type of a link, by the generation of the GPU."""
    if tag.element.tag == "xgmi":
        known = LINK_TYPES["xgmi"]
    elif tag.element.tag == "c2c":
        known = LINK_TYPES["nvlink-c2c"]
    else:
        if sm == _NARROW_SM:
            return _NARROW
        generation = next((g for least, _, g in _BY_SM if sm >= least), 0)
        if not generation:
            return DetectedLink("nvlink")
        known = LINK_TYPES[f"nvlink{generation}"]
    return DetectedLink.of_type(known)


def _upwards(tag: Tag) -> DetectedLink:
    """The upstream PCIe link; without a rate if its speed or width is unknown."""
    speed = _SPEED.match(tag.text("link_speed", "").strip())
    try:
        width = tag.number("link_width", 0, 255, 0)
    except InputError:
        width = 0  # "Unknown", and the like
    if not speed or not 0 < width <= 32 or not float(speed[1]):
        return DetectedLink("pcie")
    generation = _GENERATIONS.get(float(speed[1]), "")
    name = f"pcie{generation}-x{width}" if generation else f"pcie-{speed[1]}GT-x{width}".replace(".", "_")
    rate = round(pcie_Bps(Decimal(speed[1]), width), -6)
    return DetectedLink(name, rate, f"PCIe, {speed[1]} GT/s, {width} lanes")
