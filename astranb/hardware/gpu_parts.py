"""Parts of a GPU's file: its memory, host, links, power, price, and what libraries know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .reader import MOST_BPS, MOST_BYTES, MOST_NS, check_ranges, number_field, text_field

__all__ = ["PARTS", "GpuCosts", "GpuLibrary", "GpuMemory", "Host", "Interconnect"]


@dataclass(frozen=True)
class GpuMemory:
    """The memory of a GPU: two numbers, as vendors count and as programs find it.

    Parameters
    ----------
    sold_bytes : int
        As the data sheet says it: it names the product, and no simulation uses it.
    usable_bytes : int
        As the driver shows it (nvidia-smi, rocm-smi): whether a plan or a program's buffers fit, at every
        fidelity.
    """

    sold_bytes: int = number_field(2**20, MOST_BYTES)
    usable_bytes: int = number_field(2**20, MOST_BYTES)

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "memory of a GPU")


@dataclass(frozen=True)
class GpuLibrary:
    """Properties of a GPU by which NCCL and RCCL choose an algorithm.

    Parameters
    ----------
    compute_capability : int
        NVIDIA's, times ten: 90 for Hopper; 0 for AMD.
    """

    compute_capability: int = number_field(0, 999)

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "library of a GPU")


@dataclass(frozen=True)
class GpuCosts:
    """Power and price of a GPU.

    Parameters
    ----------
    peak_W : float
        Most that it draws with its memory.
    idle_part : float
        Part of that it draws while it does not compute.
    gpu_dollars : float
        Its price, with its share of a server.
    """

    peak_W: float = number_field(0, 1e5, whole=False)  # noqa: N815 - unit in the name
    idle_part: float = number_field(0, 1, whole=False)
    gpu_dollars: float = number_field(0, 1e9, whole=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "costs of a GPU")


@dataclass(frozen=True)
class Host:
    """A GPU's share of its host, where an optimizer is offloaded (ZeRO-Offload).

    Parameters
    ----------
    link_Bps : int
        What copies achieve between the memories of the host and of the GPU, in one direction.
    memory_Bps : int
        A GPU's share of the peak bandwidth of the host's memory.
    achieved : float
        Part of that which an optimizer on the host's cores achieves.
    text : str
        What they are.

    Examples
    --------
    >>> from astranb.hardware import gpu_named
    >>> gpu_named("h100-sxm").host.update_ns(sent=4 * 10**9, size=28 * 10**9)
    800000000.0
    """

    link_Bps: int = number_field(1, MOST_BPS)  # noqa: N815 - unit in the name
    memory_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    achieved: float = number_field(0.01, 1, whole=False)
    text: str = text_field("")

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "host of a GPU")

    def update_ns(self, sent: int, size: int) -> float:
        """Return the time of an update: copy gradients there, optimize, copy parameters back, in sequence.

        Parameters
        ----------
        sent : int
            Bytes that cross the link.
        size : int
            Bytes of the host's memory that are read and written.
        """
        return sent * 1e9 / self.link_Bps + size * 1e9 / (self.memory_Bps * self.achieved)


@dataclass(frozen=True)
class Interconnect:
    """The two tiers of a cluster of one kind of GPU; bandwidths are of a GPU and direction.

    Parameters
    ----------
    per_node : int
        GPUs of a node.
    inside_Bps, between_Bps : int
        What collectives achieve inside a node and between nodes.
    inside_ns, between_ns : int
        What a message takes besides: a step of a ring.
    inside_peak_Bps, between_peak_Bps : int
        What the links can carry.
    few_steps_Bps : int
        What all-reduces of few steps achieve inside a node: kernels of a library's own, for a few MB.
    large_ns : int
        A step's time of the algorithms for larger messages, which achieve ``inside_Bps``.
    small_Bps, small_ns : int
        What a server's kernel of one or two stages achieves for less than a few MB, and its time besides,
        of all steps together; 0 where none was measured.
    text : str
        What they are. Switches that add up (NVLS) are not assumed.

    Examples
    --------
    >>> from astranb.hardware import gpu_named
    >>> links = gpu_named("h100-sxm").interconnect
    >>> links.all_reduce(1 << 20, 4), links.all_reduce(1 << 27, 4)
    ((190000000000, 1300), (335000000000, 6000))
    """

    per_node: int = number_field(1, 2**20)
    inside_Bps: int = number_field(1, MOST_BPS)  # noqa: N815 - unit in the name
    between_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    inside_ns: int = number_field(0, MOST_NS)
    between_ns: int = number_field(0, MOST_NS)
    inside_peak_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    between_peak_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    few_steps_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    large_ns: int = number_field(0, MOST_NS)
    small_Bps: int = number_field(0, MOST_BPS, default=0)  # noqa: N815
    small_ns: int = number_field(0, MOST_NS, default=0)
    text: str = text_field("")

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "interconnect of a GPU")

    def all_reduce(self, size: int, ranks: int) -> tuple[int, int]:
        """Return bandwidth and time of a step with which an all-reduce inside a node is faster.

        Parameters
        ----------
        size : int
            Bytes of each rank's input.
        ranks : int

        Returns
        -------
        bandwidth_Bps, step_ns : int
        """
        # Of both, log2(ranks) halvings and as many doublings.
        steps, moved = 2 * math.log2(ranks), 2 * (ranks - 1) / ranks * size * 1e9
        options = [(self.few_steps_Bps, self.inside_ns), (self.inside_Bps, self.large_ns)]
        if self.small_Bps and ranks > 1:
            options.append((self.small_Bps, round(self.small_ns / steps)))
        return min(options, key=lambda one: moved / one[0] + steps * one[1])

    @property
    def inside_text(self) -> str:
        """The links inside a node, in words."""
        return self.text.partition("; ")[0]

    @property
    def between_text(self) -> str:
        """The links between nodes, in words."""
        return self.text.partition("; ")[2]


PARTS: Final[Mapping[str, type]] = {"host": Host, "interconnect": Interconnect, "costs": GpuCosts}
"""Sections of a GPU's file that models need in addition to ``kernels``."""
