"""Known kinds of networks between hosts, with what their software adds to a hop, recognised by names.

Each is a file in ``hardware/networks``, which gives every number's source. Software is what a library's
plug-in, its daemon and the NIC do for each message besides the links: it is a latency, and occupies nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError, near
from astranb.hardware import (
    Provenance,
    check_ranges,
    device_file,
    device_names,
    number_field,
    read_device_file,
    text_field,
)

__all__ = ["NETWORK_TYPES", "NetworkType", "network_type", "read_network_type", "recognise_network"]

_NETWORKS: Final = "networks"
_CABLES: Final = ("ethernet", "infiniband")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")
_MOST_PS: Final = 10**9


@dataclass(frozen=True)
class NetworkType:
    """A kind of network between hosts.

    Attributes
    ----------
    title : str
    cable : str
        Kind of its links and switches: ``"ethernet"`` or ``"infiniband"``.
    words : str
        Words in the names and descriptions of NICs and links by which it is recognised, spelled so: gIB is
        a network, and GiB a size.
    hop_ps : int
        What its software adds to a message between hosts, on top of the library's own table.
    stated_ps : int
        Latency that its plug-in states, by which the library chooses; 0: none.
    protocols : str
        The library's protocols that it can carry.

    Examples
    --------
    >>> network_type("efa").stated_ps, network_type("ethernet").hop_ps
    (75000000, 0)
    """

    title: str = text_field()
    cable: str = text_field("ethernet")
    words: str = text_field("")
    hop_ps: int = number_field(0, _MOST_PS, default=0)
    stated_ps: int = number_field(0, _MOST_PS, default=0)
    protocols: str = text_field(" ".join(_PROTOCOLS))
    name: str = ""
    hop_source: Provenance | None = None

    def __post_init__(self) -> None:
        """Check the numbers and words."""
        check_ranges(self, f"network {self.name!r}")
        for what, given, known in (
            ("cable", [self.cable], _CABLES),
            ("protocols", self.protocols.split(), _PROTOCOLS),
        ):
            if unknown := [one for one in given if one not in known]:
                raise InputError(f"{what}: unknown {unknown[0]!r:.40}", hint=near(unknown[0], known))

    @property
    def hop_us(self) -> float:
        """Time that its software adds to a message between hosts."""
        return self.hop_ps / 1e6

    @property
    def stated_us(self) -> float:
        """Latency that its plug-in states."""
        return self.stated_ps / 1e6

    @property
    def note(self) -> str:
        """Time that its software adds, with its source, as text; empty where it adds none."""
        if not self.hop_ps or self.hop_source is None:
            return ""
        return f"{self.title}: {self.hop_us:g} us of software on a hop ({self.hop_source})"


@cache
def network_type(name: str) -> NetworkType:
    """Return a kind of network by name.

    Raises
    ------
    InputError
        There is none of this name.
    """
    if name not in NETWORK_TYPES:
        raise InputError(f"unknown network {name!r:.40}", hint=near(name, NETWORK_TYPES))
    return read_network_type(device_file(_NETWORKS, name))


def read_network_type(path: str | Path) -> NetworkType:
    """Read the file of a kind of network.

    Raises
    ------
    InputError
        A number is missing, unknown, given twice or out of range; the error has file, line and field.
    """
    file = read_device_file(path, _NETWORKS, {"network": NetworkType}, {})
    source = file.sections["network"].origins.get("hop_ps") if "network" in file.sections else None
    return file.make("network", NetworkType, name=file.name, hop_source=source)


NETWORK_TYPES: Final = device_names(_NETWORKS)
"""Every known kind by name."""


def recognise_network(texts: Iterable[str], link_type: str = "") -> NetworkType:
    """Guess the network of a host: by words of its NICs and their links, else by the type of these links.

    Parameters
    ----------
    texts : iterable of str
        Names and descriptions, the nearest first.
    link_type : str
        Of the links that leave the NICs.

    Examples
    --------
    >>> recognise_network(["nic", "Elastic Fabric Adapter (EFA)"]).name
    'efa'
    >>> recognise_network(["cx7"], "ib-ndr").name, recognise_network(["cx7"]).name
    ('infiniband', 'ethernet')
    """
    types = [network_type(name) for name in NETWORK_TYPES]
    for text in texts:
        found = set(re.findall(r"[A-Za-z0-9]+", text))
        for one in types:
            if found & set(one.words.split()):
                return one
    return network_type("infiniband" if link_type.startswith("ib-") else "ethernet")
