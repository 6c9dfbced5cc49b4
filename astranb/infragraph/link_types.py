"""Bandwidths and latencies of known links and switches, every number with its source.

They are used only where a document has none, and listed in ``NodeGraph.assumed``. Bandwidths are
bytes per second of one lane in one direction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from astranb.core.errors import InputError, near

from .link_properties import LinkProperty

__all__ = [
    "CABLE",
    "DEFAULT",
    "LINK_TYPES",
    "LinkType",
    "Sourced",
    "between_gpus",
    "family",
    "forwarding",
    "link_type",
    "recognise",
]

_GB = 10**9
_NS = 1000
_NVLINK_5_NS = (
    "fitted to NCCL's ring all-reduce (26.37 us) and all-gather (16.88 us) of 4 KiB on 8 B200: the mean of "
    "400 and 315 ns"
)
_NVLINK_NS = (
    "derived from NCCL's ring-LL hop of 0.6 us (src/graph/tuning.cc @5067397c): less the L2 store and "
    "poll round trips, halved, less 100 ns of NVSwitch"
)
_NVSWITCH_NS = "assumed: with the NVLink latency it makes up NCCL's ring-LL hop"
_PCIE_NS = "assumed"
_ETH_NS = "assumed: about 120 ns of RS-FEC and 5 m of cable"
_MESSAGES = {
    200: (215_000_000, "NVIDIA ConnectX-6 user manual: 215 million messages a second"),
    400: (330_000_000, "NVIDIA ConnectX-7 data sheet: 330 to 370 million messages a second"),
}
"""By Gbps of the NIC; for others the rate is not limited."""


class Sourced(NamedTuple):
    """A number of a link type, in the unit of the property's column, and its source."""

    number: int
    source: str


@dataclass(frozen=True, slots=True)
class LinkType:
    """A kind of link.

    Attributes
    ----------
    name : str
    values : mapping
        By the name of the link property: of one lane, in one direction. The latency is from the end of the
        sender to the start of the receiver, without that of a switch.
    links_per_gpu : int
        All lanes of this type of a GPU, distributed over its edges; 0: one lane for each edge.
    """

    name: str
    values: Mapping[str, Sourced]
    links_per_gpu: int = 0

    def number(self, one: LinkProperty) -> int:
        """Return the number of a property in the unit of its column; its default if there is none."""
        return self.values[one.name].number if one.name in self.values else one.default

    def source(self, one: LinkProperty) -> str:
        """Return the source of a number."""
        return self.values[one.name].source


def _type(
    name: str, bandwidth: int, source: str, latency_ps: int, latency_source: str, links_per_gpu: int = 0
) -> LinkType:
    values = {"bandwidth": Sourced(bandwidth, source), "latency": Sourced(latency_ps, latency_source)}
    return LinkType(name, values, links_per_gpu)


_IB_RATE = {"100": "edr", "200": "hdr", "400": "ndr", "800": "xdr"}


def _nvlink(
    generation: str,
    gigabytes: int,
    links: int,
    total: str,
    latency_ps: int = 100 * _NS,
    latency_source: str = _NVLINK_NS,
) -> LinkType:
    source = f"NVIDIA data sheet of {total} both ways over {links} links"
    return _type(f"nvlink{generation}", gigabytes * _GB, source, latency_ps, latency_source, links)


def _of_nic(name: str, gigabits: int, source: str) -> LinkType:
    made = _type(name, gigabits * _GB // 8, source, 150 * _NS, _ETH_NS)
    if gigabits not in _MESSAGES:
        return made
    rate, rate_source = _MESSAGES[gigabits]
    return LinkType(name, {**made.values, "message_rate": Sourced(-(-(10**12) // rate), rate_source)})


_TYPES = (
    _nvlink("1", 20, 4, "P100: 160 GB/s"),
    _nvlink("2", 25, 6, "V100: 300 GB/s"),
    _nvlink("3", 25, 12, "A100: 600 GB/s"),
    _nvlink("3-a800", 25, 8, "A800: 400 GB/s"),
    _nvlink("4", 25, 18, "H100: 900 GB/s"),
    _nvlink("4-h800", 25, 8, "H800: 400 GB/s"),
    _nvlink("5", 50, 18, "B200: 1.8 TB/s", 360 * _NS, _NVLINK_5_NS),
    _type("nvlink-c2c", 450 * _GB, "NVIDIA GH200 data sheet: 900 GB/s both ways", 100 * _NS, "assumed"),
    _type(
        "xgmi", 56_250_000_000,
        "measured 50 GB/s of data one way (scalarlm.com), headers of 16 B for 128 B; the data sheet has 64",
        300 * _NS,
        "assumed: RCCL's ring-LL hop of 0.8 us (src/graph/tuning.cc) less about 0.5 us of store and poll", 7,
    ),
    _type("ici", 100 * _GB, "Google TPU7x: 1,200 GB/s both ways over 6 links", 200 * _NS, "assumed"),
    _type("pcie3", 15_750_000_000, "PCI Express 3.0 x16: 8 GT/s, 128b/130b", 250 * _NS, _PCIE_NS),
    _type("pcie4", 31_500_000_000, "PCI Express 4.0 x16: 16 GT/s, 128b/130b", 250 * _NS, _PCIE_NS),
    _type("pcie5", 63_000_000_000, "PCI Express 5.0 x16: 32 GT/s, 128b/130b", 250 * _NS, _PCIE_NS),
    _type("pcie6", 121_000_000_000, "PCI Express 6.0 x16: 64 GT/s, 242 of 256 B", 250 * _NS, _PCIE_NS),
    _type("qpi", 19_200_000_000, "Intel QPI: 9.6 GT/s, 2 B", 120 * _NS, "assumed"),
    _type("upi", 48 * _GB, "Intel UPI 2.0: 16 GT/s, 24 lanes", 120 * _NS, "assumed"),
    _type("ddr5", 44_800_000_000, "DDR5-5600, 8 B wide", 90 * _NS, "assumed"),
    *(_of_nic(f"eth{g}", g, "IEEE 802.3 line rate") for g in (10, 25, 40, 50, 100, 200, 400, 800)),
    *(_of_nic(f"ib-{rate}", int(g), "InfiniBand 4x data rate") for g, rate in _IB_RATE.items()),
    _type(
        "on-chip", 1000 * _GB, "assumed: wires inside a chip are wider than any port", 0,
        "assumed: contained in what the switch takes",
    ),
)  # fmt: skip

LINK_TYPES: dict[str, LinkType] = {t.name: t for t in _TYPES}
"""Every known kind by name."""

DEFAULT = _type(
    "unknown",
    12_500_000_000,
    "nothing else is specified: 100 Gbps, the default of astra-sim-service",
    500 * _NS,
    "nothing else is specified",
)

CABLE = _type("cable", *DEFAULT.values["bandwidth"], 150 * _NS, _ETH_NS)
"""An unrecognised link between two instances: its latency is that of a network cable."""

_Near = tuple[tuple[re.Pattern[str], str], ...]

_GPU_NVLINK: _Near = (
    (re.compile(r"gb[23]00|b[123]00|blackwell"), "nvlink5"),
    (re.compile(r"h800"), "nvlink4-h800"),
    (re.compile(r"h[12]00|h20|gh200|hopper"), "nvlink4"),
    (re.compile(r"a800"), "nvlink3-a800"),
    (re.compile(r"a100|ampere"), "nvlink3"),
    (re.compile(r"v100|dgx-?2"), "nvlink2"),
    (re.compile(r"p100|dgx-?1"), "nvlink1"),
)
_GPU_PCIE: _Near = (
    (re.compile(r"gb[23]00|b[123]00|h[128]00|h20|mi300|mi325"), "pcie5"),
    (re.compile(r"a[18]00|mi[12]"), "pcie4"),
    (re.compile(r"v100|p100|dgx-?[12]"), "pcie3"),
)
_ALONE = re.compile(r"pcie|gh200|[pv]100")
"""GPUs of cards, and those that are connected in several ways: by a mesh, by NVSwitches or not at all."""
# Matched against a name in lower case without spaces, dashes and underscores; first come, first served.
_NAMES = (
    (re.compile(r"c2c"), "nvlink-c2c"),
    (re.compile(r"nvlink(?P<gen>[1-5])?|^nvl(?P<gen2>[1-5])?$"), "nvlink"),
    (re.compile(r"xgmi|infinityfabric|^gmi"), "xgmi"),
    (re.compile(r"ultrapath|^upi"), "upi"),
    (re.compile(r"^qpi|quickpath"), "qpi"),
    (re.compile(r"^ici|interchipinterconnect"), "ici"),
    (re.compile(r"^ddr|^dimm"), "ddr5"),
    (re.compile(r"internal|serdes|^electrical"), "on-chip"),
    (re.compile(r"^pcie?(?:x?press)?(?:.*?gen)?(?P<gen>[3-6])?(?!\d)"), "pcie"),
    (re.compile(r"^(?:ib|infiniband)?(?P<ib>edr|hdr|ndr|xdr)"), "ib"),
    (re.compile(r"^(?:ib|infiniband)(?P<gb>100|200|400|800)?"), "ib"),
    (re.compile(r"^(?:eth|ethernet|roce|gbe)(?P<gb>10|25|40|50|100|200|400|800)?(?!\d)"), "eth"),
    (re.compile(r"^(?P<gb>10|25|40|50|100|200|400|800)g(?:b|be|bps)?$"), "eth"),
    (re.compile(r"^xbar|crossbar|^ic$|integratedcirc|^noc|onchip|onboard"), "on-chip"),
)  # fmt: skip
# Names of what is joined, not of the link: used only if the description is not recognised either.
_VAGUE = (
    (re.compile(r"^cpu(?:fabric|link)"), "upi"),
    (re.compile(r"^fabric$"), "on-chip"),
)


def link_type(name: str, *, where: str = "link type") -> LinkType:
    """Look a link type up by its exact name.

    Examples
    --------
    >>> link_type("nvlink4").links_per_gpu
    18
    """
    if name not in LINK_TYPES:
        raise InputError(f"there is no link type {name!r}", where=where, hint=near(name, LINK_TYPES))
    return LINK_TYPES[name]


_FAMILIES = {
    "nvlink": "NVLink", "xgmi": "xGMI", "ici": "ICI", "pcie": "PCIe", "qpi": "QPI", "upi": "UPI",
    "ddr": "DDR", "eth": "Ethernet", "ib-": "InfiniBand", "cable": "Ethernet", "on-chip": "on-chip",
}  # fmt: skip
"""By how the name of a link type begins; a cable between instances counts as Ethernet."""


def family(name: str) -> str:
    """Return the technology of a link type, without its generation.

    Examples
    --------
    >>> family("nvlink4"), family("eth400"), family("unknown")
    ('NVLink', 'Ethernet', 'unspecified')
    """
    return next((title for start, title in _FAMILIES.items() if name.startswith(start)), "unspecified")


def recognise(name: str, description: str, *context: str) -> tuple[LinkType, str]:
    """Guess the type of a link from its name, its description and the names around it.

    Each ``context`` has names and descriptions around it in lower case: they determine the
    generation if the link's name does not (``nvlink`` in a box of H100). Returns also the reason, empty
    if the name was enough; an unrecognised link is a `DEFAULT`.

    Examples
    --------
    >>> recognise("nvlink", "", "dgx_h100")[0].name, recognise("eth400", "", "")[0].name
    ('nvlink4', 'eth400')
    """
    texts = [re.sub(r"[\s_\-]+", "", text.lower()) for text in (name, description)]
    for patterns, why, ordered in ((_NAMES, "", texts), (_VAGUE, "the name is ambiguous", texts[::-1])):
        for text in ordered:
            for pattern, family in patterns:
                if text and (match := pattern.search(text)):
                    number = next((v for v in match.groupdict().values() if v), "")
                    deeper = re.search(r"gen *([3-6])", description.lower())
                    if family == "pcie" and not number and deeper:
                        number = deeper[1]
                    found, doubt = _generation(family, number, context)
                    return found, doubt or why
    return DEFAULT, ""


def between_gpus(gpu: str) -> LinkType | None:
    """Return the links by which a board connects GPUs of a name; None if it may have none.

    Examples
    --------
    >>> between_gpus("h800-sxm").name, between_gpus("mi300x").name, between_gpus("l40s")
    ('nvlink4-h800', 'xgmi', None)
    """
    name = gpu.lower()
    if _ALONE.search(name):
        return None
    found = next((found for pattern, found in _GPU_NVLINK if pattern.search(name)), "")
    if not found and re.search(r"mi[23]\d\d", name):
        found = "xgmi"
    return LINK_TYPES.get(found)


def _generation(family: str, number: str, context: tuple[str, ...]) -> tuple[LinkType, str]:
    if family == "ib":
        rate = _IB_RATE.get(number, number) or "ndr"
        return LINK_TYPES[f"ib-{rate}"], "" if number else "the rate is not specified"
    if family == "eth":
        return LINK_TYPES[f"eth{number or 100}"], "" if number else "the rate is not specified"
    if family not in {"nvlink", "pcie"}:
        return LINK_TYPES[family], ""
    if number:
        return LINK_TYPES[family + number], ""
    for pattern, found in _GPU_NVLINK if family == "nvlink" else _GPU_PCIE:
        for text in context:
            if match := _first_match(pattern, text):
                return LINK_TYPES[found], f"{match} is near"
    return LINK_TYPES["nvlink4" if family == "nvlink" else "pcie5"], "the generation is not specified"


# All links and components of a device search the text of that device, which may be long.
@lru_cache(maxsize=64)
def _first_match(pattern: re.Pattern[str], text: str) -> str:
    """Return what a pattern finds first in a text, or nothing."""
    match = pattern.search(text)
    return match[0] if match else ""


# Kind of node (a NodeKind's name), pattern of its component's or device's name, picoseconds, label, source.
_FORWARD = (
    ("SWITCH", re.compile(r"nv[ _-]?l?(?:ink)?[ _-]?sw"), 100 * _NS, "NVSwitch", _NVSWITCH_NS),
    ("SWITCH", re.compile(r"pci|plx"), 100 * _NS, "PCIe switch", "assumed"),
    ("SWITCH", re.compile(r"infiniband|quantum"), 130 * _NS, "InfiniBand switch", "assumed: port to port"),
    # From the first "asic" of each line only: otherwise the time is quadratic where it is repeated.
    (
        "CPU",
        re.compile(r"^(?>.*?asic).*infiniband", re.MULTILINE),
        130 * _NS,
        "InfiniBand switch",
        "assumed: port to port",
    ),
    (
        "CPU",
        re.compile(r"^(?>.*?asic).*switch", re.MULTILINE),
        500 * _NS,
        "Ethernet switch",
        "assumed: a cut-through ASIC",
    ),
)
_SWITCH_IN_LINE = re.compile(r"\A.*switch")
_LONGEST_WORD = 16  # longer than any match but that of "asic … switch"
_FORWARD_OTHERWISE = {
    "SWITCH": (500 * _NS, "Ethernet switch", "assumed: a cut-through ASIC"),
    "CPU": (200 * _NS, "CPU", "assumed"),
    "NIC": (300 * _NS, "NIC", "assumed"),
}


def forwarding(kind: str, name: str, description: str = "", device: str = "") -> tuple[int, str, str]:
    """Guess the forwarding latency of a node in ps (0 for ports, slots, memory, GPUs), its label and source.

    ``kind`` is the name of its `NodeKind`. The texts are in lower case, and searched in this order: its name,
    its name and description, and these with the name and description of its device.

    Examples
    --------
    >>> forwarding("SWITCH", "nvsw")[:2], forwarding("PORT", "port")[0]
    ((100000, 'NVSwitch'), 0)
    """
    # The device's text is searched once for all its components. A match may begin before it.
    joint = f"{description} {device[:_LONGEST_WORD]}"
    bridged = f"{description} … switch" if _first_match(_SWITCH_IN_LINE, device) else ""
    for texts in ((name,), (description,), (joint, bridged, device)):
        for known, pattern, ps, label, source in _FORWARD:
            if kind == known and any(_first_match(pattern, text) for text in texts):
                return ps, label, source
    return _FORWARD_OTHERWISE.get(kind, (0, "", ""))
