"""A server as tools detect it: its parts and links, and the InfraGraph document made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from astranb.core.errors import InputError

from .link_properties import BANDWIDTH
from .link_types import LinkType, between_gpus
from .servers import component, document_name, edge, link, one_device

__all__ = ["DetectedLink", "DetectedPart", "DetectedServer", "PcieSlot", "is_gpu"]

_CHOICES = {"gpu": "xpu", "nvsw": "switch", "pciesw": "switch", "nic": "nic", "eth": "nic", "cpu": "cpu"}
_IDLE_BPS = 8 * 10**9
_MOST_CPUS = 256
_MODEL = re.compile(r"gb[23]00|b[123]00|h[12]00|h20|h800|a100|a800|v100|p100|mi\d{3}x?")
_VGA = "0300"
_NVIDIA, _AMD = "10de", "1002"
_AMD_CONSOLES = {"4752", "5159", "515e", "5969"}
"""Rage XL, RV100, and ES1000 twice: graphics of servers (The PCI ID Repository, pci.ids)."""
_MOST_XGMI = 8  # GPUs of a platform in which each has a link to each


def is_gpu(code: str, vendor: str, device: str = "") -> bool:
    """Return whether a PCI device computes, and does not only draw a server's console.

    Parameters
    ----------
    code, vendor, device : str
        Hexadecimal digits in lower case: of the class code the first four at least.

    Examples
    --------
    >>> is_gpu("0302", ""), is_gpu("0300", "10de"), is_gpu("0300", "1002", "515e"), is_gpu("0300", "1a03")
    (True, True, False, False)
    """
    if not code.startswith(_VGA):
        return code[:2] in {"03", "12"}  # 3D and display controllers, processing accelerators
    return vendor == _NVIDIA or (vendor == _AMD and device not in _AMD_CONSOLES)


@dataclass(eq=False, slots=True)
class DetectedPart:
    """A GPU, NVSwitch, PCIe switch, NIC or CPU."""

    kind: str  # name of its component: gpu, nvsw, pciesw, nic, eth (a NIC without RDMA) or cpu
    address: str = ""  # PCI address, as 0000:07:00.0
    model: str = ""
    order: int = 0  # position among parts of its kind: GPUs by CUDA device, others as listed (0)


@dataclass(frozen=True, slots=True)
class DetectedLink:
    """A kind of link, with its bandwidth per lane and direction (None: unknown)."""

    name: str
    bandwidth_Bps: int | None = None  # noqa: N815 - unit in the name
    description: str = ""

    @classmethod
    def of_type(cls, known: LinkType) -> DetectedLink:
        """Return the link of a known type."""
        return cls(known.name, known.number(BANDWIDTH), known.source(BANDWIDTH))


_PCIE = DetectedLink("pcie")


@dataclass(eq=False, slots=True)
class PcieSlot:
    """A PCIe slot: a part, or a bridge with the slots behind it; its link leads upstream."""

    part: DetectedPart | None
    wire: DetectedLink = _PCIE
    address: str = ""
    inside: list[PcieSlot] = field(default_factory=list)

    def kept(self) -> list[PcieSlot]:
        """Return the slots behind it that lead to a part."""
        return [slot for slot in self.inside if slot.part or slot.kept()]


@dataclass(slots=True)
class DetectedServer:
    """The parts and links of a server, as the reader of a format finds them.

    Attributes
    ----------
    name : str
    parts : list of DetectedPart
    joints : list of (DetectedPart, DetectedPart, DetectedLink, int)
        Links with their ends and lanes.
    notes : list of str
    missing : str
        What the server must have and the file has not.
    """

    name: str
    parts: list[DetectedPart] = field(default_factory=list)
    joints: list[tuple[DetectedPart, DetectedPart, DetectedLink, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""

    @property
    def gpus(self) -> list[DetectedPart]:
        """The GPUs."""
        return [part for part in self.parts if part.kind == "gpu"]

    @property
    def linked(self) -> bool:
        """Whether any GPU has a link to another GPU or to an NVSwitch."""
        return any({a.kind, b.kind} <= {"gpu", "nvsw"} for a, b, _, _ in self.joints)

    def complete(self, gpu: str) -> None:
        """Add the links that GPUs of this kind have among themselves, as NCCL does, which asks the driver.

        NCCL sees all NVSwitches of a server as one.
        """
        gpus, known = self.gpus, between_gpus(gpu)
        if not gpus:
            return
        if known is None or (known.name == "xgmi" and len(gpus) > _MOST_XGMI):
            self.missing += f" (no links among {len(gpus)} GPUs {gpu[:40]!r} are known)"
            return
        wire = DetectedLink.of_type(known)
        for part in gpus:
            part.model = part.model or gpu
        if known.name == "xgmi":
            for a, b in combinations(gpus, 2):
                self.join(a, b, wire)
            added = "one xGMI link between any two GPUs"
        else:
            switch = DetectedPart("nvsw")
            self.parts.append(switch)
            for part in gpus:
                self.join(part, switch, wire, known.links_per_gpu)
            added = f"{known.links_per_gpu} NVLinks from each GPU to NVSwitches, which are drawn as one"
        self.notes.append(f"not in the file, added for {gpu[:40]}: {added}")
        self.missing = ""

    def join(self, a: DetectedPart, b: DetectedPart, wire: DetectedLink, lanes: int = 1) -> None:
        """Connect two parts by lanes of a kind of link."""
        self.joints.append((a, b, wire, lanes))

    def attach(self, slot: PcieSlot, onto: DetectedPart, above: DetectedLink = _PCIE) -> None:
        """Connect a PCIe slot to a CPU or a switch.

        A bridge with one slot behind it is a port, and limits the rate of the link; one with
        several is a PCIe switch.
        """
        known = [wire for wire in (above, slot.wire) if wire.bandwidth_Bps is not None]
        wire = min(known, key=lambda wire: wire.bandwidth_Bps or 0, default=_PCIE)
        kept = slot.kept()
        if slot.part is None and len(kept) == 1:
            self.attach(kept[0], onto, wire)
        elif slot.part or kept:
            part = slot.part or DetectedPart("pciesw", slot.address)
            self.parts.append(part)
            self.join(onto, part, wire)
            for inner in kept:
                self.attach(inner, part)
            rate = wire.bandwidth_Bps
            if part.kind == "gpu" and rate is not None and rate < _IDLE_BPS:
                reported = f"PCIe of GPU {part.address} is reported with {rate / 1e9:g} GB/s"
                self.notes.append(f"{reported}: an idle GPU lowers it")

    def join_cpus(self, cpus: Sequence[DetectedPart]) -> None:
        """Connect all CPUs of a host by an unspecified link."""
        if len(cpus) > _MOST_CPUS:
            raise InputError(
                f"too many CPUs in one host: {len(cpus):,}", where=self.name, hint="is the file whole?"
            )
        for a, b in combinations(cpus, 2):
            self.join(a, b, DetectedLink("cpu fabric"))

    def document(self) -> dict[str, Any]:
        """Return an InfraGraph document of one host."""
        members = {kind: [p for p in self.parts if p.kind == kind] for kind in _CHOICES}
        members = {
            kind: sorted(found, key=lambda part: part.order) for kind, found in members.items() if found
        }
        place = {part: f"{kind}[{n}]" for kind, found in members.items() for n, part in enumerate(found)}
        wires = {wire.name: wire for _, _, wire, _ in self.joints}
        models = " ".join(part.model for part in members.get("gpu", ())).lower()
        model = _MODEL.search(models)
        device = {
            "name": f"{model[0]}-server" if model else "server",
            "components": [
                component(kind, len(found), _CHOICES[kind], _described(found))
                for kind, found in members.items()
            ],
            "links": [link(wire.name, wire.description, wire.bandwidth_Bps) for wire in wires.values()],
            "edges": list(self._edges(members, place)),
        }
        return one_device(document_name(self.name), device, "host")

    def _edges(
        self, members: dict[str, list[DetectedPart]], place: dict[DetectedPart, str]
    ) -> Iterator[dict[str, Any]]:
        """Yield edges, one for each lane; a full mesh is one edge."""
        groups: dict[tuple[str, str, str, int], list[tuple[DetectedPart, DetectedPart]]] = {}
        for a, b, wire, lanes in self.joints:
            groups.setdefault((a.kind, b.kind, wire.name, lanes), []).append((a, b))
        for (one, other, wire_name, lanes), pairs in groups.items():
            count, distinct = len(members[one]), {frozenset(pair) for pair in pairs}
            every = count * (count - 1) // 2 if one == other else count * len(members[other])
            if len(pairs) == len(distinct) == every > 1:
                scheme, ends = "many2many", [(one, other)]
            else:
                scheme, ends = "one2one", [(place[a], place[b]) for a, b in pairs]
            for a_end, b_end in ends * lanes:
                yield edge(a_end, b_end, wire_name, scheme)


def _described(parts: list[DetectedPart]) -> str:
    models = "; ".join(dict.fromkeys(part.model for part in parts if part.model))
    places = ", ".join(part.address for part in parts if part.address)
    return ": ".join(filter(None, (models, places)))
