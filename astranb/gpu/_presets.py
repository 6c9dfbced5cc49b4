"""GPU presets: data, with a source for every number."""

from __future__ import annotations

from dataclasses import dataclass, field

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, time_ps

__all__ = ["PRESETS", "Preset", "preset"]

_MT4G = "measured, caps-tum/mt4g sample_results @4cc5566 (H100 SXM at 1980 MHz)"
_BENCHES = "measured, RRZE-HPC/gpu-benches @1038c5d (A100-80 at 1410 MHz)"
_NCCL = "derived: NVLink 4 carries 450 GB/s a direction, NCCL reaches 370 (nccl-tests#212): 128/(128+16+16)"
_LINE = "NVIDIA L1 and L2 lines; one wavefront request of ASTRA-sim 3.0 (arXiv 2606.10440)"
_WARPS = "512 threads a block, as NCCL's and MSCCL++'s copy kernels launch"


@dataclass(frozen=True)
class Preset:
    """What one kind of GPU is, as far as lines notice.

    Attributes
    ----------
    name : str
    sms : int
        Streaming multiprocessors.
    issue_ps : int
        Between two instructions of one SM, each of one line.
    unroll : int
        Lines that one warp keeps under way.
    max_outstanding : int
        Requests that one SM keeps under way.
    warps_per_block, blocks_per_sm : int
    noc_ps : int
        SM to L2 slice, or L2 slice or SM to I/O port, one way.
    l2_slices, l2_ps, l2_Bps
        Slices, time from the end of service to the response, bandwidth of all together.
    hbm_channels, hbm_ps, hbm_Bps
        Likewise for memory channels; ``hbm_ps`` comes on top of the L2's time.
    l2_bytes : int
        Capacity, for the warning that capacity misses are not modelled.
    line_bytes, header_bytes, signal_bytes : int
    sources : dict of str to str
        Where each number comes from.
    """

    name: str
    sms: int
    issue_ps: int
    unroll: int
    max_outstanding: int
    warps_per_block: int
    blocks_per_sm: int
    noc_ps: int
    l2_slices: int
    l2_ps: int
    l2_Bps: int  # noqa: N815 - unit in the name
    l2_bytes: int
    hbm_channels: int
    hbm_ps: int
    hbm_Bps: int  # noqa: N815
    line_bytes: int
    header_bytes: int
    signal_bytes: int
    sm_word: str = "SM"
    sources: dict[str, str] = field(default_factory=dict, compare=False)


PRESETS = {
    "h100-sxm": Preset(
        name="h100-sxm",
        sms=132,
        issue_ps=1010,
        unroll=4,
        max_outstanding=256,
        warps_per_block=16,
        blocks_per_sm=2,
        noc_ps=time_ps("30 ns"),
        l2_slices=80,
        l2_ps=time_ps("48 ns"),
        l2_Bps=4529 * 2**30,
        l2_bytes=50 * 2**20,
        hbm_channels=80,
        hbm_ps=time_ps("307 ns"),
        hbm_Bps=bandwidth_Bps("3.35 TB/s"),
        line_bytes=128,
        header_bytes=16,
        signal_bytes=16,
        sources={
            "sms": "NVIDIA H100 data sheet",
            "issue_ps": "64 B a clock between SM and L2 at 1.98 GHz (NVIDIA A100 white paper)",
            "unroll": "assumed: four 16 B loads a thread, as NCCL's Simple protocol unrolls",
            "max_outstanding": "assumed: 32 KiB under way an SM, a proxy for its registers",
            "warps_per_block": _WARPS,
            "blocks_per_sm": "2048 threads an SM and 512 a block allow 4; half, for registers (assumed)",
            "noc_ps": "derived: an L2 hit takes 219 clocks = 111 ns (" + _MT4G + "), shared out with l2_ps",
            "l2_slices": "assumed as A100: 80 slices (NVIDIA A100 white paper)",
            "l2_ps": "derived: with two noc_ps and the slice's service an L2 hit takes 111 ns; " + _MT4G,
            "l2_Bps": "4529 GiB/s read, " + _MT4G,
            "l2_bytes": "NVIDIA H100 data sheet",
            "hbm_channels": "5 HBM3 stacks of 16 channels (JEDEC JESD238)",
            "hbm_ps": "derived: 834 clocks = 421 ns to HBM less the L2 hit; " + _MT4G,
            "hbm_Bps": "3.35 TB/s, NVIDIA H100 data sheet",
            "line_bytes": _LINE,
            "header_bytes": _NCCL,
            "signal_bytes": "one 16 B flit (assumed)",
        },
    ),
    "a100-sxm": Preset(
        name="a100-sxm",
        sms=108,
        issue_ps=1418,
        unroll=4,
        max_outstanding=256,
        warps_per_block=16,
        blocks_per_sm=2,
        noc_ps=time_ps("40 ns"),
        l2_slices=80,
        l2_ps=time_ps("64 ns"),
        l2_Bps=bandwidth_Bps("5.4 TB/s"),
        l2_bytes=40 * 2**20,
        hbm_channels=80,
        hbm_ps=time_ps("224 ns"),
        hbm_Bps=bandwidth_Bps("2.039 TB/s"),
        line_bytes=128,
        header_bytes=16,
        signal_bytes=16,
        sources={
            "sms": "NVIDIA A100 data sheet",
            "issue_ps": "64 B a clock between SM and L2 at 1.41 GHz (NVIDIA A100 white paper)",
            "unroll": "assumed: four 16 B loads a thread, as NCCL's Simple protocol unrolls",
            "max_outstanding": "assumed: 32 KiB under way an SM, a proxy for its registers",
            "warps_per_block": _WARPS,
            "blocks_per_sm": "2048 threads an SM and 512 a block allow 4; half, for registers (assumed)",
            "noc_ps": "derived: a near L2 hit takes 205.7 clocks = 146 ns ("
            + _BENCHES
            + "), shared out with l2_ps",
            "l2_slices": "80 slices of 64 B a clock (NVIDIA A100 white paper)",
            "l2_ps": "derived: with two noc_ps and the slice's service a near L2 hit takes 146 ns; "
            + _BENCHES,
            "l2_Bps": "5.4 TB/s, " + _BENCHES,
            "l2_bytes": "NVIDIA A100 data sheet",
            "hbm_channels": "5 HBM2e stacks of 8 channels, 2 pseudo channels each (JEDEC JESD235)",
            "hbm_ps": "derived: 512 to 552 clocks = 363 to 392 ns to HBM less the L2 hit; " + _BENCHES,
            "hbm_Bps": "2.039 TB/s, NVIDIA A100 80 GB data sheet",
            "line_bytes": _LINE,
            "header_bytes": _NCCL + ", taken for NVLink 3 too",
            "signal_bytes": "one 16 B flit (assumed)",
        },
    ),
}
"""The presets by name."""


def preset(name: str) -> Preset:
    """Find a preset; an unknown name is an error with the near names.

    Examples
    --------
    >>> preset("h100-sxm").sms
    132
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise InputError(f"unknown GPU preset {name!r}", mend=near(name, PRESETS)) from None
