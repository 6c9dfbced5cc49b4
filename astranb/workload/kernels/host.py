"""The host of a GPU: its link, and its memory, where an optimizer is offloaded (ZeRO-Offload)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .work import HostUpdate

__all__ = ["HOSTS", "Host"]

_GB: Final = 10**9
_ACHIEVED: Final = 0.5
"""Part of the host's memory bandwidth that an optimizer on its cores achieves; assumed."""


@dataclass(frozen=True)
class Host:
    """A GPU's share of its host.

    Parameters
    ----------
    link_Bps : int
        What copies achieve between the memories of the host and of the GPU, in one direction.
    memory_Bps : int
        A GPU's share of the peak bandwidth of the host's memory.
    text : str
        What they are.

    Examples
    --------
    >>> HOSTS["h100-sxm"].update_ns(HostUpdate(sent=4 * 10**9, size=28 * 10**9)) / 1e6  # ms
    800.0
    """

    link_Bps: int  # noqa: N815 - unit in the name
    memory_Bps: int  # noqa: N815
    text: str

    def update_ns(self, one: HostUpdate) -> float:
        """Return the time of an update: copy gradients there, optimize, copy parameters back, in sequence."""
        return one.sent * 1e9 / self.link_Bps + one.size * 1e9 / (self.memory_Bps * _ACHIEVED)


_GEN4 = Host(26 * _GB, 51 * _GB, "PCIe 4 x16; 16 channels of DDR4-3200 for 8 GPUs")
_GEN5 = Host(55 * _GB, 77 * _GB, "PCIe 5 x16; 16 channels of DDR5-4800 for 8 GPUs")
_C2C = Host(
    180 * _GB, 256 * _GB, "NVLink-C2C, 450 GB/s and direction for 2 GPUs; LPDDR5X, 512 GB/s for 2 GPUs"
)

HOSTS: Final = {
    "a100-sxm": _GEN4,
    "h100-sxm": _GEN5,
    "h200-sxm": _GEN5,
    "h800-sxm": _GEN5,
    "h20-sxm": _GEN5,
    "b200-sxm": Host(55 * _GB, 90 * _GB, "PCIe 5 x16; 16 channels of DDR5-5600 for 8 GPUs"),
    "gb200": _C2C,
    "gb300": _C2C,
    "mi300x": Host(55 * _GB, 115 * _GB, "PCIe 5 x16; 24 channels of DDR5-4800 for 8 GPUs"),
}
"""By the GPU's name. Links as nvbandwidth shows them (26 GB/s: its README; 55.6 GB/s: NVIDIA's blog on
it); of NVLink-C2C 0.8 of the data sheet's, assumed. Memory from the data sheets of the DGX and their
processors."""
