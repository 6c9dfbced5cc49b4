"""The choice of TensorRT-LLM for all-reduces between the GPUs of a model, in a graph.

Its strategy AUTO looks a kernel up by tokens and hidden size: one shot, whose ranks store everything to all
and poll the data (*lamport*), or two shots through a buffer; larger messages are NCCL's. Where NVLink joins
trays of four GPUs (MNNVL), switches multiply what ranks store. Sources: NVIDIA/TensorRT-LLM @005b299b,
``cpp/tensorrt_llm/common/customAllReduceUtils.h`` (tables, workspace), @04c74656,
``communicationKernels/allReduceFusionKernels.cu`` (grid), @0357203e, ``mnnvlAllreduceKernels.cu``, and module
``_torch/distributed/ops`` (where MNNVL is used, and for what one shot).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from astranb.core.errors import InputError
from astranb.core.units import format_bytes

from .candidate import LibraryChoice
from .topology import LibraryView

__all__ = ["choose_trtllm"]

_SOURCE: Final = "NVIDIA/TensorRT-LLM @005b299b, common/customAllReduceUtils.h and communicationKernels/"
_HIDDEN: Final = 8192
_ELEMENT: Final = 2  # bytes: bf16
_PACK: Final = 16  # bytes that a thread loads
_TABLE: Final[Mapping[int, Mapping[int, str]]] = {
    90: {2: "44554444440", 4: "44444545500", 8: "44444555500"},
    100: {2: "44544444440", 4: "44444444500", 8: "44444445500"},
}
"""By generation and ranks what runs for 1, 2, 4, ... tokens of a hidden size of 8,192, without a fused
operation: 4 one shot, 5 two shots, 0 NCCL. Smaller hidden sizes switch at about the same number of bytes."""
_BLOCK: Final = 512
"""Threads of a simulated thread block: TensorRT-LLM's are smaller, and so are as many fewer simulated."""
_LINE: Final = 128
_FLAGS: Final = 256  # kBarrierFlagCount: at a barrier the grid raises all, a block every so many-th of them
_MOST_SIMULATED: Final = 64  # more than eight GPUs' links need
_SMS: Final = {90: 132, 100: 148}  # that the grid may take
_ONE_SHOT_BYTES: Final = 1 << 20  # of MNNVL, all that a rank receives
_TRAY: Final = 4
_GRACE: Final = "gb"  # Blackwell beside Grace: TensorRT-LLM asks whether the processor is aarch64


def choose_trtllm(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what TensorRT-LLM runs.

    Raises
    ------
    InputError
        TensorRT-LLM leaves this collective, size or machine to NCCL.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> [choose_trtllm(h100, "all_reduce", size).simulated for size in (4096, 2**20)]
    ['oneshot_poison', 'staged_load_store']
    """
    if view.amd:
        what = f"TensorRT-LLM does not run on {view.gpu[:40]}"
        raise InputError(what, where="library", hint="use rccl or vllm")
    if collective != "all_reduce" or size_bytes % _PACK:
        raise _left(collective if collective != "all_reduce" else f"{size_bytes} B")
    tokens = max(1, size_bytes // (_HIDDEN * _ELEMENT))
    if view.ranks > _TRAY and view.gpu.startswith(_GRACE) and view.nodes == 1:
        return _joined_trays(view, size_bytes, tokens)
    table = _TABLE.get(_generation(view), {})
    if view.nodes > 1 or view.pcie_GBps or view.ranks not in table:
        raise _left(f"{view.ranks} GPUs of type {view.gpu[:40]} in {view.nodes} nodes")
    column = min(tokens.bit_length() - 1, len(table[view.ranks]) - 1)
    kind = table[view.ranks][column]
    if kind == "0":
        raise _left(f"an all-reduce of {format_bytes(size_bytes)}")
    once = kind == "4"
    blocks, threads = _grid(view, size_bytes, tokens if once else -(-tokens // view.ranks))
    return _choice(
        size_bytes,
        "one shot (lamport)" if once else "two shots",
        "oneshot_poison" if once else "staged_load_store",
        blocks,
        threads,
        f"table of {_generation(view) // 10}.0, {view.ranks} GPUs: "
        f"{'one shot' if once else 'two shots'} for {tokens} tokens of {_HIDDEN}",
        "its buffer of the call before is not filled with poison again" if once else "",
        {} if once else {"flags": -(-_FLAGS // blocks), "lines": _BLOCK * _PACK // _LINE},
    )


def _joined_trays(view: LibraryView, size: int, tokens: int) -> LibraryChoice:
    """Return the launch of the kernels for trays that NVLink joins."""
    once = size * view.ranks <= _ONE_SHOT_BYTES
    if once:
        blocks, threads = _grid(view, size, tokens)
    else:
        blocks, threads = tokens * max(1, min(size, _HIDDEN * _ELEMENT) // (_PACK * 128)), 128
    return _choice(
        size,
        "MNNVL one shot" if once else "MNNVL two shots",
        "oneshot_poison_mc" if once else "twoshot_poison_mc",
        min(blocks, _SMS[100] * (1024 // threads)),
        threads,
        f"NVLink joins trays of {_TRAY}: one shot if a rank gets up to {format_bytes(_ONE_SHOT_BYTES)}",
        "its buffers of the call before are not filled with poison again",
    )


def _choice(
    size: int,
    algorithm: str,
    simulated: str,
    blocks: int,
    threads: int,
    why: str,
    difference: str,
    params: dict[str, int] | None = None,
) -> LibraryChoice:
    return LibraryChoice(
        library="trtllm",
        collective="all_reduce",
        size_bytes=size,
        algorithm=algorithm,
        protocol="Simple",
        blocks=blocks,
        threads=threads,
        chunk_bytes=0,
        simulated=simulated,
        simulated_protocol="Simple",
        channels=max(1, min(_MOST_SIMULATED, blocks * threads // _BLOCK)),
        why=(why, f"simulated as thread blocks of {_BLOCK} threads, {_MOST_SIMULATED} at most"),
        source=_SOURCE,
        difference=difference,
        params=params or {},
    )


def _grid(view: LibraryView, size: int, clusters: int) -> tuple[int, int]:
    """Return blocks and threads: a cluster of eight blocks at most for each token, while SMs last."""
    of_token = max(1, min(size, _HIDDEN * _ELEMENT) // _PACK)
    cluster, sms = 8, _SMS[_generation(view)]
    while of_token % cluster:
        cluster //= 2
    threads = of_token // cluster
    while threads < 128 and cluster > 1:
        threads, cluster = 2 * threads, cluster // 2
    while clusters * cluster > sms and cluster > 1 and threads <= 512:
        threads, cluster = 2 * threads, cluster // 2
    return min(sms, clusters * cluster) // cluster * cluster, threads


def _generation(view: LibraryView) -> int:
    """Return the compute capability whose table is taken: 9.0 before Blackwell, 10.0 from it on."""
    return 100 if view.capability >= 100 else 90


def _left(what: str) -> InputError:
    return InputError(f"TensorRT-LLM leaves {what} to nccl", where="library", hint="use nccl")
