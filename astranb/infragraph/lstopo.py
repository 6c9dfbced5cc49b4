"""Read the topology file of hwloc's ``lstopo FILE.xml``.

PCIe is a tree of objects; NVLinks are a matrix of bandwidths between GPUs and NVSwitches,
which only an lstopo built with NVML (or RSMI, for xGMI) writes.
"""

from __future__ import annotations

import re
from itertools import combinations

from astranb.core.xml import Tag

from .detected import DetectedLink, DetectedPart, DetectedServer, PcieSlot, is_gpu
from .link_properties import BANDWIDTH
from .link_types import recognise

__all__ = ["LstopoReader"]

_DEEPEST = 120
_NVIDIA = "10de"
_PCI = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.ASCII)
_DEVICE = re.compile(r"(?:nvml|cuda|rsmi|ze)(\d{1,4})", re.ASCII)
_COPROCESSOR, _RDMA = "5", "3"  # osdev_type of hwloc 2: HWLOC_OBJ_OSDEV_COPROC and _OPENFABRICS
_MODULE = re.compile(r"\b(?:SXM\d?|OAM)\b")
_LINKS = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_INDEX = re.compile(r"(?:\w+:)?(\d{1,9})", re.ASCII)
_VALUE = re.compile(r"(\d{1,19})", re.ASCII)
_MOST = 4096
_FASTEST_MBPS = 10**7  # hwloc writes a huge one for a GPU with itself


class LstopoReader:
    """Add the parts and links of a ``<topology>`` to a machine."""

    def __init__(self, machine: DetectedServer) -> None:
        self.machine = machine
        self._by_index: dict[int, DetectedPart] = {}
        self._cpus: list[DetectedPart] = []
        self._bridges: list[tuple[DetectedPart | None, PcieSlot]] = []
        self._switches: list[DetectedPart] = []

    def read(self, root: Tag) -> None:
        """Read the machine below the root of a file of hwloc."""
        machine = next(iter(root.inside("object")), None)
        if machine is None or machine.text("type") != "Machine":
            raise root.error("no object of type Machine", "write the file with 'lstopo FILE.xml'")
        if declared := _infos(machine).get("DMIProductName", "").strip():
            self.machine.name = declared
        self._walk(machine, None, 0)
        if not self._cpus:
            self._cpus.append(DetectedPart("cpu"))
            self.machine.notes.append("no CPU package is listed: one is assumed")
        self.machine.parts += self._cpus
        unknown = 0
        for cpu, slot in self._bridges:
            unknown += cpu is None and bool(slot.kept())
            for inner in slot.kept():
                self.machine.attach(inner, cpu or self._cpus[0])
        if unknown and len(self._cpus) > 1:
            self.machine.notes.append(
                f"lstopo does not report the CPU of {unknown} PCIe bridges: they are connected to the first"
            )
        self.machine.parts += self._switches
        self.machine.join_cpus(self._cpus)
        for tag in root.inside("distances2", "distances2hetero"):
            if family := _LINKS.get(tag.text("name", "")):
                self._join(tag, family)
        self._unconnected()
        modules = [part for part in self.machine.gpus if _MODULE.search(part.model)]
        if len(modules) > 1 and not self.machine.linked:
            self.machine.missing = (
                f"{len(modules)} GPUs on a board have no links in the file, as lstopo without NVML or RSMI "
                "writes it: they reach one another by PCIe only; "
                "name the GPU (--gpu h100-sxm, in 'infra convert' too) to add its links"
            )

    def _walk(self, tag: Tag, cpu: DetectedPart | None, depth: int) -> None:
        """Find packages, and the host bridges inside or outside of them."""
        _bounded(tag, depth)
        for inner in tag.inside("object"):
            kind = inner.text("type")
            if kind in {"Package", "Socket"}:
                package = DetectedPart(
                    "cpu", f"package {inner.text('os_index', '?')}", _infos(inner).get("CPUModel", "")
                )
                self._cpus.append(package)
                self._walk(inner, package, depth + 1)
            elif kind in _ON_PCI:
                slot = self._slot(inner, depth + 1)
                self._bridges.append((cpu, slot if kind == "Bridge" else PcieSlot(None, inside=[slot])))
            elif kind not in {"PU", "Core"}:
                self._walk(inner, cpu, depth + 1)

    def _slot(self, tag: Tag, depth: int) -> PcieSlot:
        _bounded(tag, depth)
        address = tag.text("pci_busid", "").lower()
        wire = _upwards(tag)
        if tag.text("type") == "PCIDev":
            return PcieSlot(self._device(tag, address), wire, address)
        found = [self._slot(t, depth + 1) for t in tag.inside("object") if t.text("type") in _ON_PCI]
        return PcieSlot(None, wire, address, _cards(found))

    def _device(self, tag: Tag, address: str) -> DetectedPart | None:
        match = _PCI.match(tag.text("pci_type", "").lower())
        code, vendor, number = match.groups() if match else ("", "", "")
        systems = [t for t in tag.inside("object") if t.text("type") == "OSDev"]
        infos = _infos(tag, *systems)
        types = {t.text("osdev_type", "") for t in systems}
        model = infos.get("GPUModel") or infos.get("PCIDevice", "")
        if code[:2] in {"03", "12"}:
            numbers = [int(m[1]) for t in systems if (m := _DEVICE.fullmatch(t.text("name", "")))]
            if not (numbers or _COPROCESSOR in types or is_gpu(code, vendor, number)):
                return None  # the console's graphics
            part = DetectedPart("gpu", address, model, min(numbers, default=1 << 20))
        elif code == "0680" and (vendor == _NVIDIA or tag.text("subtype", "") == "NVSwitch"):
            self._switches.append(DetectedPart("nvsw", address, model))
            self._note(self._switches[-1], tag)
            return None  # on PCIe for its management: no data passes there
        elif code[:2] == "02" or code == "0c06":
            part = DetectedPart("nic" if _RDMA in types else "eth", address, model)
        else:
            return None
        self._note(part, tag, *systems)
        return part

    def _note(self, part: DetectedPart, *tags: Tag) -> None:
        for tag in tags:
            self._by_index[tag.number("gp_index", 0, 10**9, 0)] = part

    def _join(self, tag: Tag, family: str) -> None:
        ends, values = _numbers(tag, "indexes", _INDEX), _numbers(tag, "u64values", _VALUE)
        if len(values) != len(ends) ** 2:
            raise tag.error(
                f"the matrix has {len(values)} values, not the square of {len(ends)} objects",
                "correct the file",
            )
        parts = [self._by_index.get(index) for index in ends]
        for i, j in combinations(range(len(parts)), 2):
            a, b = parts[i], parts[j]
            rate = max(values[i * len(ends) + j], values[j * len(ends) + i])
            if a and b and a is not b and 0 < rate <= _FASTEST_MBPS:
                first, second = (b, a) if b.kind == "gpu" != a.kind else (a, b)
                self.machine.join(first, second, *_wire(a, b, family, rate))

    def _unconnected(self) -> None:
        """Report parts that NVLink does not connect: lstopo does not see links between NVSwitches."""
        linked = [(a, b) for a, b, wire, _ in self.machine.joints if wire.name.startswith("nvlink")]
        group = {part: {part} for pair in linked for part in pair}
        for a, b in linked:
            if group[a] is not group[b]:
                group[a] |= group[b]
                for part in group[b]:
                    group[part] = group[a]
        parts = {id(members) for members in group.values()}
        if len(parts) > 1:
            self.machine.notes.append(
                f"NVLink falls into {len(parts)} parts: links between NVSwitches are not in the file"
            )


_ON_PCI = {"Bridge", "PCIDev"}


def _bounded(tag: Tag, depth: int) -> None:
    if depth > _DEEPEST:
        raise tag.error(f"elements are nested deeper than {_DEEPEST}", "is it a file of lstopo's?")


def _cards(slots: list[PcieSlot]) -> list[PcieSlot]:
    """Merge the functions of a card: they share its link."""
    cards: dict[tuple[str, str], PcieSlot] = {}
    for number, slot in enumerate(slots):
        card = slot.address.rpartition(".")[0]
        key = (card or str(number), slot.part.kind if slot.part else str(number))
        if key in cards and slot.part and (first := cards[key].part):
            first.address += f" + {slot.address}"
        cards.setdefault(key, slot)
    return list(cards.values())


def _infos(*tags: Tag) -> dict[str, str]:
    return {info.text("name", ""): info.text("value", "") for tag in tags for info in tag.inside("info")}


def _upwards(tag: Tag) -> DetectedLink:
    """The upstream PCIe link: lstopo gives GB/s, and 0 if it is unknown."""
    try:
        rate = float(tag.text("pci_link_speed", "0"))
    except ValueError:
        rate = 0.0
    if not 1e-3 <= rate < 1e6:
        return DetectedLink("pcie")
    shown = f"{rate:.3g}"
    name = f"pcie at {shown} GBps".replace(".", "_").replace("+", "")
    return DetectedLink(name, round(float(shown) * 1e9), "PCIe, as found")


def _numbers(tag: Tag, name: str, pattern: re.Pattern[str]) -> list[int]:
    words = [word for part in tag.inside(name) for word in (part.element.text or "").split()]
    found = [match for word in words if (match := pattern.fullmatch(word))]
    if len(words) > _MOST**2 or len(found) < len(words):
        raise tag.error(
            f"<{name}> of {tag.text('name', '')!r} holds something that is not a number", "correct the file"
        )
    return [int(match[1]) for match in found]


def _wire(a: DetectedPart, b: DetectedPart, family: str, rate: int) -> tuple[DetectedLink, int]:
    """The type of a link with a rate in MB/s, and its number of lanes."""
    known, _ = recognise(family, "", f"{a.model} {b.model}".lower())
    lanes, rest = divmod(rate * 10**6, known.number(BANDWIDTH))
    if not rest and lanes <= 64:
        return DetectedLink.of_type(known), lanes
    return DetectedLink(f"{family} at {rate} MBps", rate * 10**6, "as found"), 1
