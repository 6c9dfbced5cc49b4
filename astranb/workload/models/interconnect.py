"""Interconnects of the GPUs of each kind: inside a node, and between nodes, as libraries achieve it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["INTERCONNECTS", "Interconnect"]


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
    text : str
        What they are.
    few_steps_Bps : int
        What all-reduces of few steps achieve inside a node: kernels of a library's own, for a few MB.
    large_ns : int
        A step's time of the algorithms for larger messages, which achieve ``inside_Bps``.
    source : str
        Where the figures are from.

    Examples
    --------
    >>> INTERCONNECTS["h100-sxm"].all_reduce(1 << 20, 4), INTERCONNECTS["h100-sxm"].all_reduce(1 << 27, 4)
    ((190000000000, 1300), (335000000000, 6000))
    """

    per_node: int
    inside_Bps: int  # noqa: N815 - unit in the name
    between_Bps: int  # noqa: N815
    inside_ns: int
    between_ns: int
    inside_peak_Bps: int  # noqa: N815
    between_peak_Bps: int  # noqa: N815
    text: str
    few_steps_Bps: int  # noqa: N815
    large_ns: int
    source: str = ""

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
        both = (self.few_steps_Bps, self.inside_ns), (self.inside_Bps, self.large_ns)
        return min(both, key=lambda one: moved / one[0] + steps * one[1])

    @property
    def inside_text(self) -> str:
        """The links inside a node, in words."""
        return self.text.partition("; ")[0]

    @property
    def between_text(self) -> str:
        """The links between nodes, in words."""
        return self.text.partition("; ")[2]


_GB: Final = 10**9
_AIC: Final = (
    "inside: reduce-scatter of 1 GiB and of 512 B on 8 GPUs, github.com/ai-dynamo/aiconfigurator 095f58a, "
    "nccl_perf (NCCL 2.27 to 2.29); all-reduces of 1 to 64 MB on 2, 4 and 8 GPUs: custom_allreduce_perf of "
    "TensorRT-LLM 1.0 to 1.3 there, whose sizes are numbers of two bytes"
)
_NIC_NS: Final = 5400
"""A step of a ring through two NICs and a leaf switch; chosen."""

_H100: Final = Interconnect(
    8, 335 * _GB, 46 * _GB, 1300, _NIC_NS, 450 * _GB, 50 * _GB, "NVLink 4; 400 Gbit/s",
    190 * _GB, 6000, _AIC,
)  # fmt: skip

INTERCONNECTS: Final = {
    "a100-sxm": Interconnect(
        8, 213 * _GB, 23 * _GB, 2000, _NIC_NS, 300 * _GB, 25 * _GB, "NVLink 3; 200 Gbit/s",
        105 * _GB, 12000, _AIC,
    ),
    "h100-sxm": _H100,
    "h200-sxm": _H100,
    "h20-sxm": replace(_H100, source=f"as H100: {_AIC}"),
    "h800-sxm": replace(
        _H100, inside_Bps=160 * _GB, inside_peak_Bps=200 * _GB, text="NVLink 4, 8 links; 400 Gbit/s",
        few_steps_Bps=84 * _GB,
        source="inside: about 160 GB/s at most, docs/legacy.md of github.com/deepseek-ai/DeepEP; all-reduces "
        "of few steps in proportion to H100's; all else as H100",
    ),
    "b200-sxm": Interconnect(
        8, 613 * _GB, 46 * _GB, 2200, _NIC_NS, 900 * _GB, 50 * _GB, "NVLink 5; 400 Gbit/s",
        450 * _GB, 7500, _AIC,
    ),
    "gb200": Interconnect(
        64, 613 * _GB, 46 * _GB, 2200, _NIC_NS, 900 * _GB, 50 * _GB, "NVLink 5, NVL72; 400 Gbit/s",
        450 * _GB, 7500, _AIC,
    ),
    "gb300": Interconnect(
        64, 613 * _GB, 92 * _GB, 2200, _NIC_NS, 900 * _GB, 100 * _GB, "NVLink 5, NVL72; 800 Gbit/s",
        450 * _GB, 7500, _AIC,
    ),
    "mi300x": Interconnect(
        8, 315 * _GB, 46 * _GB, 3000, _NIC_NS, 448 * _GB, 50 * _GB, "7 xGMI links; 400 Gbit/s",
        255 * _GB, 6000,
        "inside: bus bandwidth of rccl-tests' all-reduce on 8 MI300X, about 310 to 330 GB/s (ROCm blogs); "
        "all-reduces of 1 to 16 MB on 4 GPUs, 36 GB/s for each link: github.com/vllm-project/vllm, pull "
        "request 19744; a step of larger ones as on H100, assumed",
    ),
}  # fmt: skip
"""By the GPU's name. Switches that add up (NVLS) are not assumed."""
