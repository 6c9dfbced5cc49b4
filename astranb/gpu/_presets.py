"""GPU presets: data, with a source for every number."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, time_ps

from ._preset import Preset
from ._preset_file import read_preset

__all__ = ["PRESETS", "preset"]

_MT4G = "measured, caps-tum/mt4g sample_results @4cc5566"
_BENCHES = "measured, RRZE-HPC/gpu-benches @1038c5d"
_NCCL = "derived: NVLink 4 carries 450 GB/s a direction, NCCL reaches 370 (nccl-tests#212): 128/(128+16+16)"
_KERNELS = "period of back-to-back kernels of 64 KiB, " + _BENCHES + " gpu-small-kernels"

_COMMON = {
    "unroll": "assumed: four 16 B loads a thread, as NCCL's Simple protocol unrolls",
    "max_outstanding": "assumed: 32 KiB under way an SM, a proxy for its registers",
    "warps_per_block": "512 threads a block, as NCCL's and MSCCL++'s copy kernels launch",
    "blocks_per_sm": "2048 threads an SM and 512 a block allow 4; half, for registers (assumed)",
    "warps_per_sm": "2048 threads an SM (NVIDIA and AMD data sheets)",
    "bulk_lines": "one line an instruction; TMA-like requests are asked for with but(bulk_lines=...)",
    "issue_lines": "one slot an instruction; more only where lines are coalesced",
    "l2_ways": "16 ways: NVIDIA publishes none; dissected for V100 by Jia et al., arXiv 1804.06826",
    "atomic_ps": "assumed: one more clock of the slice",
    "row_bytes": "1 KiB pages of a pseudo channel (JEDEC JESD235, JESD238)",
    "row_miss_ps": "fitted: streaming reads reach the measured 0.82 of the peak (other banks hide most)",
    "engines": "assumed: the copy engines that peer copies use",
    "engine_issue_ps": "assumed: a request a nanosecond",
    "engine_outstanding": "assumed: enough for the link's bandwidth times its latency",
    "engine_lines": "assumed: requests of 1 KiB",
    "line_bytes": "NVIDIA and AMD L2 lines; one wavefront request of ASTRA-sim 3.0 (arXiv 2606.10440)",
    "header_bytes": _NCCL,
    "max_payload": "one line behind each header: SM-driven stores are of lines",
    "signal_bytes": "one 16 B flit (assumed)",
    "columns": "a crossbar, not a mesh",
    "rows": "a crossbar, not a mesh",
    "ports": "a crossbar, not a mesh",
    "chip_Bps": "a crossbar, not a mesh",
    "chip_ps": "a crossbar, not a mesh",
}

_H100 = Preset(
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
    near_bytes=25 * 2**20,
    far_ps=time_ps("65 ns"),
    atomic_ps=505,
    hbm_channels=80,
    hbm_ps=time_ps("306 ns"),
    hbm_Bps=bandwidth_Bps("3.35 TB/s"),
    hbm_bytes=80 * 10**9,
    row_miss_ps=667,
    fence_ps=time_ps("600 ns"),
    launch_ps=time_ps("2.43 us"),
    graph_ps=time_ps("1.26 us"),
    sources={
        **_COMMON,
        "sms": "NVIDIA H100 data sheet",
        "issue_ps": "64 B a clock between SM and L2 at 1.98 GHz (NVIDIA A100 white paper)",
        "noc_ps": f"derived: an L2 hit takes 219 clocks = 111 ns ({_MT4G}), shared out with l2_ps",
        "l2_slices": "assumed as A100: 80 slices (NVIDIA A100 white paper)",
        "l2_ps": f"derived: with two noc_ps and the slice's service an L2 hit takes 111 ns; {_MT4G}",
        "l2_Bps": f"4529 GiB/s read, {_MT4G}",
        "l2_bytes": "NVIDIA H100 data sheet",
        "near_bytes": "half of the L2: two partitions (NVIDIA A100 white paper)",
        "far_ps": f"derived: GH200 far 231 to 314 ns, near 142 ns; {_BENCHES}",
        "hbm_channels": "5 HBM3 stacks of 16 channels (JEDEC JESD238)",
        "hbm_ps": f"derived: 834 clocks = 421 ns to HBM less the L2 hit and a row miss; {_MT4G}",
        "hbm_Bps": "3.35 TB/s, NVIDIA H100 data sheet",
        "hbm_bytes": "80 GB, NVIDIA H100 data sheet",
        "fence_ps": "fitted: see docs/fidelity.md",
        "launch_ps": "H200 2.43 us, " + _KERNELS,
        "graph_ps": "H200 1.26 us, " + _KERNELS,
    },
)

_A100 = Preset(
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
    near_bytes=20 * 2**20,
    far_ps=time_ps("69 ns"),
    atomic_ps=709,
    hbm_channels=80,
    hbm_ps=time_ps("224 ns"),
    hbm_Bps=bandwidth_Bps("2.039 TB/s"),
    hbm_bytes=80 * 10**9,
    row_miss_ps=667,
    fence_ps=time_ps("700 ns"),
    launch_ps=time_ps("2.6 us"),
    graph_ps=time_ps("1.34 us"),
    sources={
        **_COMMON,
        "sms": "NVIDIA A100 data sheet",
        "issue_ps": "64 B a clock between SM and L2 at 1.41 GHz (NVIDIA A100 white paper)",
        "noc_ps": f"derived: a near L2 hit takes 205.7 clocks = 146 ns ({_BENCHES}), shared out with l2_ps",
        "l2_slices": "80 slices of 64 B a clock (NVIDIA A100 white paper)",
        "l2_ps": f"derived: with two noc_ps and the slice's service a near hit takes 146 ns; {_BENCHES}",
        "l2_Bps": "5.4 TB/s, " + _BENCHES,
        "l2_bytes": "NVIDIA A100 data sheet",
        "near_bytes": "half of the L2: two partitions (NVIDIA A100 white paper)",
        "far_ps": f"derived: about 400 clocks = 285 ns beyond 20 MB, 146 ns below; {_BENCHES}",
        "hbm_channels": "5 HBM2e stacks of 8 channels, 2 pseudo channels each (JEDEC JESD235)",
        "hbm_ps": f"derived: 512 to 552 clocks = 363 to 392 ns to HBM less the L2 hit; {_BENCHES}",
        "hbm_Bps": "2.039 TB/s, NVIDIA A100 80 GB data sheet",
        "hbm_bytes": "NVIDIA A100 80 GB data sheet",
        "header_bytes": _NCCL + ", taken for NVLink 3 too",
        "fence_ps": "fitted: see docs/fidelity.md",
        "launch_ps": "A100 2.6 us, " + _KERNELS,
        "graph_ps": "A100 1.34 us, " + _KERNELS,
    },
)


def _like(base: Preset, name: str, sources: dict[str, str], **numbers: int) -> Preset:
    """Another GPU of the same family: what differs has its own source."""
    words = {**base.sources, **sources}
    return dataclasses.replace(base, name=name, sources=words, **numbers)  # type: ignore[arg-type]


_H200 = _like(
    _H100,
    "h200-sxm",
    {
        "hbm_channels": "6 HBM3e stacks of 16 channels (JEDEC JESD238)",
        "l2_slices": "as many as memory channels (assumed)",
        "hbm_Bps": "4.8 TB/s, NVIDIA H200 data sheet",
        "hbm_bytes": "141 GB, NVIDIA H200 data sheet",
        "launch_ps": "2.43 us, " + _KERNELS,
        "graph_ps": "1.26 us, " + _KERNELS,
    },
    row_miss_ps=562,
    hbm_channels=96,
    l2_slices=96,
    hbm_Bps=bandwidth_Bps("4.8 TB/s"),
    hbm_bytes=141 * 10**9,
)

_B200 = _like(
    _H100,
    "b200-sxm",
    {
        "sms": "NVIDIA Blackwell: 148 SMs enabled in B200",
        "issue_ps": "64 B a clock at 1.965 GHz boost (NVIDIA B200 data sheet)",
        "l2_slices": "as many as memory channels (assumed)",
        "l2_ps": "derived: 295 clocks to L2 = 150 ns (markdewing/AI_kernels latency/README.md)",
        "noc_ps": "derived with l2_ps",
        "l2_Bps": "assumed: H100's a slice",
        "l2_bytes": "126 MB of L2 (NVIDIA Blackwell architecture brief)",
        "near_bytes": "half of the L2: two dies",
        "far_ps": "assumed as H100's partitions",
        "hbm_channels": "8 HBM3e stacks of 16 channels (JEDEC JESD238)",
        "hbm_ps": "derived: 860 clocks = 438 ns to HBM (markdewing/AI_kernels latency/README.md)",
        "hbm_Bps": "8 TB/s, NVIDIA B200 data sheet",
        "hbm_bytes": "180 GB, NVIDIA B200 data sheet",
        "launch_ps": "taken from H200",
        "graph_ps": "taken from H200",
    },
    sms=148,
    issue_ps=1018,
    l2_slices=128,
    noc_ps=time_ps("45 ns"),
    l2_ps=time_ps("58 ns"),
    l2_Bps=4529 * 2**30 * 128 // 80,
    l2_bytes=126 * 2**20,
    near_bytes=63 * 2**20,
    row_miss_ps=450,
    hbm_channels=128,
    hbm_ps=time_ps("287 ns"),
    hbm_Bps=bandwidth_Bps("8 TB/s"),
    hbm_bytes=180 * 10**9,
)

_MI300X = _like(
    _H100,
    "mi300x",
    {
        "sms": "304 CUs, AMD Instinct MI300X data sheet",
        "issue_ps": "64 B a clock between CU and L2 at 2.1 GHz (AMD CDNA 3 white paper)",
        "warps_per_block": "512 threads a block, 8 wavefronts of 64",
        "warps_per_sm": "2048 threads a CU, 32 wavefronts of 64 (AMD CDNA 3 ISA guide)",
        "noc_ps": f"derived: 213 clocks = 102 ns to the XCD's own L2; {_BENCHES}",
        "l2_slices": "128 slices of the Infinity Cache (AMD CDNA 3 white paper)",
        "l2_ps": f"derived: with two noc_ps 102 ns to the near cache; {_BENCHES}",
        "l2_Bps": "11.9 TB/s from the Infinity Cache (Chips and Cheese, Testing AMD's Giant MI300X)",
        "l2_bytes": "256 MB of Infinity Cache, AMD CDNA 3 white paper",
        "l2_ways": "16 (AMD CDNA 3 white paper)",
        "near_bytes": "4 MB of L2 in each XCD (AMD CDNA 3 white paper)",
        "far_ps": f"derived: 218 ns to the Infinity Cache, 102 ns to the XCD's L2; {_BENCHES}",
        "hbm_channels": "8 HBM3 stacks of 16 channels (JEDEC JESD238)",
        "hbm_ps": f"derived: 835 to 884 clocks = 399 to 422 ns to HBM; {_BENCHES}",
        "hbm_Bps": "5.3 TB/s, AMD Instinct MI300X data sheet",
        "hbm_bytes": "192 GB, AMD Instinct MI300X data sheet",
        "row_miss_ps": "fitted: 4.0 TB/s of streaming reads (mt4g 3.69, STREAM 4.13)",
        "header_bytes": "derived: 48 to 50 of 64 GB/s a link (RCCL 316 GB/s all-reduce over 7 links)",
        "fence_ps": "agent-scope release 126 to 134 ns and acquire 120 ns, cross-die flag 601 ns (probe)",
        "launch_ps": "MI210 2.05 us, " + _KERNELS,
        "graph_ps": "MI210 2.05 us, " + _KERNELS,
    },
    sms=304,
    issue_ps=956,
    warps_per_block=8,
    warps_per_sm=32,
    noc_ps=time_ps("28 ns"),
    l2_slices=128,
    l2_ps=time_ps("44 ns"),
    l2_Bps=bandwidth_Bps("11.9 TB/s"),
    l2_bytes=256 * 2**20,
    near_bytes=4 * 2**20,
    far_ps=time_ps("58 ns"),
    hbm_channels=128,
    hbm_ps=time_ps("302 ns"),
    hbm_Bps=bandwidth_Bps("5.3 TB/s"),
    hbm_bytes=192 * 10**9,
    row_miss_ps=1000,
    header_bytes=16,
    fence_ps=time_ps("600 ns"),
    launch_ps=time_ps("2.05 us"),
    graph_ps=time_ps("2.05 us"),
)
_MI300X = dataclasses.replace(_MI300X, sm_word="CU")

_PAPER = "ASTRA-sim 3.0, section 5 (arXiv 2606.10440)"
_UNSAID = "assumed: the paper gives none"

_GENERIC = Preset(
    name="generic",
    sms=128,
    issue_ps=1000,
    unroll=16,
    max_outstanding=1024,
    warps_per_block=4,
    blocks_per_sm=2,
    noc_ps=0,
    l2_slices=256,
    l2_ps=0,
    l2_Bps=0,
    l2_bytes=0,
    hbm_channels=256,
    hbm_ps=time_ps("120 ns"),
    hbm_Bps=4 * 2**40,
    hbm_bytes=64 * 2**30,
    fence_ps=time_ps("600 ns"),
    columns=8,
    rows=4,
    ports=32,
    chip_Bps=512 * 2**30,
    chip_ps=1000,
    sm_word="CU",
    sources={
        **dict.fromkeys(_COMMON, _UNSAID),
        "sms": "4 CUs at each of 32 routers, " + _PAPER,
        "issue_ps": _UNSAID,
        "noc_ps": "a mesh, not a crossbar",
        "l2_slices": "one behind each memory channel: no cache, " + _PAPER,
        "l2_ps": "no cache, " + _PAPER,
        "l2_Bps": "no cache, " + _PAPER,
        "l2_bytes": "no cache, " + _PAPER,
        "near_bytes": "no cache, " + _PAPER,
        "far_ps": "no cache, " + _PAPER,
        "hbm_channels": "16 at each router of the top and bottom edges, " + _PAPER,
        "hbm_ps": "120 ns, a public re-implementation's note on the paper, unconfirmed",
        "hbm_Bps": "4 TiB/s, " + _PAPER,
        "hbm_bytes": _UNSAID,
        "fence_ps": "assumed as MI300X: the paper gives none",
        "launch_ps": "launch is not modelled, " + _PAPER,
        "graph_ps": "launch is not modelled, " + _PAPER,
        "line_bytes": "one wavefront request, " + _PAPER,
        "columns": "8 x 4 routers, " + _PAPER,
        "rows": "8 x 4 routers, " + _PAPER,
        "ports": "4 at each router of the left and right edges, " + _PAPER,
    },
)

PRESETS = {p.name: p for p in (_H100, _A100, _H200, _B200, _MI300X, _GENERIC)}
"""The presets by name."""


def preset(name: str | Path) -> Preset:
    """Find a preset by its name, or read it from a file ``.json``.

    Parameters
    ----------
    name : str or Path
        The name of a shipped preset, or a file as :func:`write_preset` writes it.

    Raises
    ------
    InputError
        The name is unknown (near names are given), or the file is no preset.

    Examples
    --------
    >>> preset("h100-sxm").sms
    132
    """
    if isinstance(name, Path) or name.lower().endswith(".json"):
        return read_preset(name)
    try:
        return PRESETS[name]
    except KeyError:
        hint = f"{near(name, PRESETS)}; or give a file, as my-gpu.preset.json"
        raise InputError(f"unknown GPU preset {name!r}", hint=hint) from None
