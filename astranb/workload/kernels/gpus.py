"""GPUs: peaks of their data sheets, and what kernels achieve of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from astranb.core.errors import InputError, near
from astranb.gpu import SHORT_NAMES

__all__ = ["DEFAULT_GPU", "GPUS", "PRECISIONS", "Gpu", "gpu_named"]

PRECISIONS: Final = ("bf16", "fp16", "fp8")
"""Numbers that matrices may have; fp8 has as many bits as its name says."""


STREAM_NS: Final = 4500
"""Host time of launching a kernel from a framework. The driver's call alone has a period of 2.05 to
2.6 µs on these GPUs (the presets of :mod:`astranb.gpu`, which have the graphs' periods too); 2.65 µs to
enqueue and 6.4 µs with a synchronisation are measured at github.com/ahrefs/ocannl, issue 488, and 4 to 6 µs
for the calls of driver and runtime at susun-blog.com/blog/pegainfer-3-cuda-graph."""


@dataclass(frozen=True)
class Gpu:
    """A GPU: peaks, and the parts of them that kernels achieve.

    Parameters
    ----------
    name : str
        As the preset of :mod:`astranb.gpu` is named.
    sms : int
        Multiprocessors (AMD: compute units) that each compute one tile of a product at a time.
    memory_Bps, memory_bytes : int
        Peak bandwidth of the memory, and its size as the driver shows it (nvidia-smi, rocm-smi).
    peaks : mapping of str to int
        Dense operations on matrices per second, by precision.
    matrices : mapping of str to float
        Part of the peak that full tiles of large products achieve, by precision.
    attention, attention_back : float
        Part of the bfloat16 peak that long causal attention achieves, forward and backward.
    attention_2 : float
        Part that FlashAttention-2 achieves where its kernels, made for A100, miss what the GPU can do; 0: as
        the other kernels.
    half_keys : int
        Keys at which attention achieves half of that.
    stream, feed : float
        Parts of the memory's bandwidth that a long pass over memory, and the matrices of a product, achieve.
    kernel_ns : int
        What a kernel takes besides, however little it does.
    decode_ns : int
        What attention of single tokens takes besides.
    graph_ns, stream_ns : int
        From the launch of a kernel to that of the next, in a CUDA graph and one after another from a
        framework on the host: :data:`STREAM_NS`.
    fp8_tiles : tuple of (int, int, float)
        Rows, columns and the part of the largest tile's rate of the tiles of products in fp8 of two rows or
        more, where these never split ``k``; empty: they are like other products.
    cluster : int
        Thread blocks that share what one of them loads, by multicast.
    source : str
        Where the peaks are from.
    fitted : str
        The timings that the parts are fitted to, and how well; empty: docs/explanation/kernels.md holds them
        against published timings.

    Examples
    --------
    >>> GPUS["h100-sxm"].peaks["bf16"] / 1e12, GPUS["h100-sxm"].sms
    (989.0, 132)
    """

    name: str
    sms: int
    memory_Bps: int  # noqa: N815 - unit in the name
    memory_bytes: int
    peaks: Mapping[str, int]
    matrices: Mapping[str, float]
    attention: float
    attention_back: float
    half_keys: int
    stream: float
    feed: float
    kernel_ns: int
    decode_ns: int = 6000
    graph_ns: int = 1260
    stream_ns: int = STREAM_NS
    attention_2: float = 0.0
    fp8_tiles: tuple[tuple[int, int, float], ...] = ()
    cluster: int = 1
    source: str = ""
    fitted: str = ""

    @property
    def peak_flops(self) -> int:
        """Dense bfloat16 operations on matrices per second."""
        return self.peaks["bf16"]


def _tera(**values: float) -> dict[str, int]:
    """Peaks in tera-operations per second; fp16 has that of bf16."""
    found = {name: round(value * 1e12) for name, value in values.items()}
    return {**found, "fp16": found["bf16"]}


def _parts(bf16: float, fp8: float = 0.0) -> dict[str, float]:
    return {"bf16": bf16, "fp16": bf16, **({"fp8": fp8} if fp8 else {})}


_H100: Final = Gpu(
    "h100-sxm", 132, 3350 * 10**9, 81_559 << 20,
    _tera(bf16=989, fp8=1979), _parts(0.86, 0.73), 0.66, 0.58, 700, 0.88, 0.79, 2500,
    attention_2=0.35, cluster=2,
    source="NVIDIA H100 data sheet: 1,979 and 3,958 TFLOP/s with sparsity, halved",
)  # fmt: skip
_B200: Final = Gpu(
    "b200-sxm", 148, 8000 * 10**9, 183_359 << 20,
    _tera(bf16=2250, fp8=4500), _parts(0.745, 0.67), 0.62, 0.45, 1000, 0.82, 0.68, 2200, 4000, cluster=2,
    source="NVIDIA DGX B200 data sheet: 36 and 72 PFLOP/s with sparsity for 8 GPUs, halved; 1,440 GB",
)  # fmt: skip
_ALL: Final = (
    Gpu(
        "a100-sxm", 108, 2039 * 10**9, 81_920 << 20,
        _tera(bf16=312), _parts(0.88), 0.64, 0.56, 500, 0.85, 0.70, 2800, graph_ns=1340,
        source="NVIDIA A100 80 GB data sheet",
    ),
    _H100,
    replace(_H100, name="h200-sxm", memory_Bps=4800 * 10**9, memory_bytes=143_771 << 20,
            source="NVIDIA H200 data sheet: 1,979 and 3,958 TFLOP/s with sparsity, halved"),
    replace(_H100, name="h800-sxm", fitted="as those of h100-sxm",
            source="as H100, but for NVLink and float64: arXiv 2505.09343"),
    replace(_H100, name="h20-sxm", sms=78, memory_Bps=4000 * 10**9, memory_bytes=97_871 << 20,
            peaks=_tera(bf16=148, fp8=296), fitted="by the parts that h100-sxm achieves of its peaks",
            source="NVIDIA HGX H20 data sheet, in SemiAnalysis of November 2023"),
    _B200,
    replace(_B200, name="gb200", memory_bytes=189_471 << 20, peaks=_tera(bf16=2500, fp8=5000),
            matrices=_parts(0.73, 0.63),
            source="NVIDIA GB200 NVL72 data sheet: 360 and 720 PFLOP/s with sparsity for 72 GPUs, halved"),
    replace(_B200, name="gb300", memory_bytes=284_208 << 20, peaks=_tera(bf16=2500, fp8=5000),
            matrices=_parts(0.865, 0.72), attention=0.72, attention_back=0.54,
            source="NVIDIA GB300 NVL72 data sheet: 360 and 720 PFLOP/s with sparsity for 72 GPUs, halved"),
    Gpu(
        "mi300x", 304, 5300 * 10**9, 196_592 << 20,
        _tera(bf16=1307, fp8=2615), _parts(0.48, 0.38), 0.38, 0.28, 1000, 0.78, 0.70, 3500, graph_ns=2050,
        # Those of AITER's tuned configurations (github.com/ROCm/aiter 082a563), all with splitK 0; the parts
        # those of n=7168 k=2048. A single row has a kernel that splits k (vLLM's wvSplitKQ).
        fp8_tiles=((16, 64, 0.28), (64, 64, 0.73), (128, 128, 1.0)),
        source="AMD Instinct MI300X data sheet",
    ),
)  # fmt: skip

GPUS: Final = {one.name: one for one in _ALL}
"""By the names of the presets of :mod:`astranb.gpu`."""

DEFAULT_GPU: Final = "h100-sxm"
"""The default GPU of a model's ranks."""


def gpu_named(name: str) -> Gpu:
    """Find a GPU by its name; ``h100`` is ``h100-sxm``.

    Raises
    ------
    InputError
        There is no such GPU.

    Examples
    --------
    >>> gpu_named("b200").name
    'b200-sxm'
    """
    known = SHORT_NAMES.get(name, name)
    if known not in GPUS:
        raise InputError(f"no GPU {name[:40]!r} for a model", where="gpu", hint=near(name, GPUS))
    return GPUS[known]
