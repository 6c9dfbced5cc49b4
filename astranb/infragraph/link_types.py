"""Known kinds of links and of forwarding nodes, recognised by names.

Their numbers are files in ``hardware/links`` and ``hardware/nodes``, each with its source. They are used only
where a document has none, and listed in ``NodeGraph.assumed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.hardware import device_file, device_names, number_field, read_device_file, text_field

from .link_properties import LATEST_PS, LINK_PROPERTIES, LinkProperty

__all__ = [
    "CABLE",
    "DEFAULT",
    "LINK_TYPES",
    "LinkType",
    "NodeNumbers",
    "Sourced",
    "between_gpus",
    "family",
    "forwarding",
    "link_type",
    "read_link_type",
    "recognise",
]


class Sourced(NamedTuple):
    """A number of a link type, in the unit of the property's column, and its source.

    Attributes
    ----------
    number : int
    source : str
    kind : str
        How it is known: ``measured``, ``data sheet``, ``fitted`` or ``assumed``.
    """

    number: int
    source: str
    kind: str


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


_LINKS: Final = "links"
_LANES: Final = "links_per_gpu"


def _quantity_of(one: LinkProperty) -> Any:
    """Declare the number of a property; a link type must have those whose default is out of range."""
    if one.least <= one.default <= one.most:
        return number_field(one.least, one.most, default=one.default)
    return number_field(one.least, one.most)


_SECTION: Final = make_dataclass(
    "LinkNumbers",
    [
        *((one.column, int, _quantity_of(one)) for one in LINK_PROPERTIES),
        (_LANES, int, number_field(0, 1000, default=0)),
    ],
)
"""Fields of a link type's file: any link property, by its column."""

_OF_NO_NAME: Final = ("cable", "unknown")


class _LinkTypes(Mapping[str, LinkType]):
    """Link types by name, each read from its file in ``hardware/links`` when it is asked for."""

    def __getitem__(self, name: str) -> LinkType:
        if name not in self._names:
            raise KeyError(name)
        return _read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in device_names(_LINKS) if name not in _OF_NO_NAME)


@cache
def _read(name: str) -> LinkType:
    return read_link_type(device_file(_LINKS, name))


def read_link_type(path: str | Path) -> LinkType:
    """Read the file of a link type.

    Raises
    ------
    InputError
        A number is missing, unknown, given twice or out of range; the error has file, line and field.
    """
    file = read_device_file(path, _LINKS, {"link": _SECTION}, {})
    file.make("link", _SECTION)
    given = file.sections["link"]
    values = {
        one.name: Sourced(given.values[one.column], origin.source, origin.kind)
        for one in LINK_PROPERTIES
        if (origin := given.origins.get(one.column))
    }
    return LinkType(file.name, values, given.values.get(_LANES, 0))


LINK_TYPES: Final = _LinkTypes()
"""Every known kind by name."""

DEFAULT: Final = _read("unknown")
CABLE: Final = _read("cable")
"""An unrecognised link between two instances: its latency is that of a network cable."""

_IB_RATE = {"100": "edr", "200": "hdr", "400": "ndr", "800": "xdr"}

_Near = tuple[tuple[re.Pattern[str], str], ...]

_GPU_NVLINK: _Near = (
    (re.compile(r"gb[23]00|b[123]00|blackwell"), "nvlink5"),
    (re.compile(r"h800"), "nvlink4-h800"),
    (re.compile(r"h[12]00[ _-]?nvl(?!\d)"), "nvlink4-bridge"),
    (re.compile(r"h[12]00|h20|gh200|hopper"), "nvlink4"),
    (re.compile(r"a800"), "nvlink3-a800"),
    (re.compile(r"a100|ampere"), "nvlink3"),
    (re.compile(r"v100|dgx-?2"), "nvlink2"),
    (re.compile(r"p100|dgx-?1"), "nvlink1"),
)
_GPU_PCIE: _Near = (
    (re.compile(r"gb[23]00|b[123]00|h[128]00|h20|mi300|mi3[25]|rtx ?pro"), "pcie5"),
    (re.compile(r"a[18]00|mi[12]|l40"), "pcie4"),
    (re.compile(r"v100|p100|dgx-?[12]"), "pcie3"),
)
_GPU_XGMI: _Near = ((re.compile(r"mi35\d"), "xgmi-mi350"),)
_BY_GPU: Final = {"nvlink": _GPU_NVLINK, "pcie": _GPU_PCIE, "xgmi": _GPU_XGMI}
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
        raise InputError(f"unknown link type {name!r}", where=where, hint=near(name, LINK_TYPES))
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
        found = next((found for pattern, found in _GPU_XGMI if pattern.search(name)), "xgmi")
    return LINK_TYPES.get(found)


def _generation(family: str, number: str, context: tuple[str, ...]) -> tuple[LinkType, str]:
    if family == "ib":
        rate = _IB_RATE.get(number, number) or "ndr"
        return LINK_TYPES[f"ib-{rate}"], "" if number else "the rate is not specified"
    if family == "eth":
        return LINK_TYPES[f"eth{number or 100}"], "" if number else "the rate is not specified"
    if family not in _BY_GPU:
        return LINK_TYPES[family], ""
    if number:
        return LINK_TYPES[family + number], ""
    for pattern, found in _BY_GPU[family]:
        for text in context:
            if match := _first_match(pattern, text):
                return LINK_TYPES[found], f"{match} is near"
    if family == "xgmi":
        return LINK_TYPES["xgmi"], ""
    return LINK_TYPES["nvlink4" if family == "nvlink" else "pcie5"], "the generation is not specified"


# All links and components of a device search the text of that device, which may be long.
@lru_cache(maxsize=64)
def _first_match(pattern: re.Pattern[str], text: str) -> str:
    """Return what a pattern finds first in a text, or nothing."""
    match = pattern.search(text)
    return match[0] if match else ""


# Kind of node (a NodeKind's name), pattern of its component's or device's name, its file in hardware/nodes.
_FORWARD = (
    ("SWITCH", re.compile(r"nv[ _-]?l?(?:ink)?[ _-]?sw"), "nvswitch"),
    ("SWITCH", re.compile(r"pci|plx"), "pcie-switch"),
    ("SWITCH", re.compile(r"infiniband|quantum"), "infiniband-switch"),
    # From the first "asic" of each line only: otherwise the time is quadratic where it is repeated.
    ("CPU", re.compile(r"^(?>.*?asic).*infiniband", re.MULTILINE), "infiniband-switch"),
    ("CPU", re.compile(r"^(?>.*?asic).*switch", re.MULTILINE), "ethernet-switch"),
)
_SWITCH_IN_LINE = re.compile(r"\A.*switch")
_LONGEST_WORD = 16  # longer than any match but that of "asic … switch"
_FORWARD_OTHERWISE = {"SWITCH": "ethernet-switch", "CPU": "cpu", "NIC": "nic"}
_NODES: Final = "nodes"


@dataclass(frozen=True)
class NodeNumbers:
    """Content of the file of a switch, a CPU or a NIC.

    Attributes
    ----------
    forward_ps : int
        Forwarding latency.
    label : str
    """

    forward_ps: int = number_field(0, LATEST_PS)
    label: str = text_field()


@cache
def _forwarding_of(name: str) -> tuple[int, str, str]:
    """Return the forwarding latency of a kind of node, its label and its source."""
    file = read_device_file(device_file(_NODES, name), _NODES, {"node": NodeNumbers}, {})
    numbers = file.make("node", NodeNumbers)
    return numbers.forward_ps, numbers.label, file.sections["node"].origins["forward_ps"].source


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
        for known, pattern, file in _FORWARD:
            if kind == known and any(_first_match(pattern, text) for text in texts):
                return _forwarding_of(file)
    return _forwarding_of(_FORWARD_OTHERWISE[kind]) if kind in _FORWARD_OTHERWISE else (0, "", "")
