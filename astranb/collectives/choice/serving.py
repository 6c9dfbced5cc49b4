"""The choice of vLLM and SGLang for all-reduces between the GPUs of a model, in a graph.

Both launch one kernel (``custom_all_reduce``) for small and middle sizes, whose blocks read from peers; vLLM
then PyTorch's kernels on symmetric memory. The rest is NCCL's or RCCL's. Sources: vllm-project/vllm
@b250ac3d, modules ``all_reduce_utils`` (limits by compute capability; of 10.3 @00d618aa) and ``symm_mem``,
``csrc/custom_all_reduce.cuh`` (one stage or two, 36 blocks; 16 where it is built for ROCm);
sgl-project/sglang @5a56108f, ``sgl-kernel/csrc/allreduce/custom_all_reduce.cuh``, and module
``custom_all_reduce`` (8 MiB).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from astranb.core.errors import InputError
from astranb.core.units import format_bytes

from .candidate import LibraryChoice
from .topology import LibraryView

__all__ = ["choose_sglang", "choose_vllm"]

_KiB: Final = 1 << 10
_MiB: Final = 1 << 20
_PACK: Final = 16  # bytes that a thread loads
_THREADS: Final = 512
_MOST_BLOCKS: Final = 36
_MOST_BLOCKS_AMD: Final = 16
_MULTIMEM_BLOCKS: Final = 24  # of PyTorch's kernels on symmetric memory, at most
_RANKS: Final = (2, 4, 6, 8)
_VLLM: Final = "vllm-project/vllm @b250ac3d, all_reduce_utils and csrc/custom_all_reduce.cuh"
_SGLANG: Final = "sgl-project/sglang @5a56108f, sgl-kernel/csrc/allreduce/custom_all_reduce.cuh"

_Sizes = Mapping[int, int]
# By compute capability: the largest all-reduce of each number of ranks.
_CUSTOM: Final[Mapping[int, _Sizes]] = {
    90: {2: 64 * _MiB, 4: 32 * _MiB, 6: 512 * _KiB, 8: 256 * _KiB},
    100: {2: 2 * _MiB, 4: 2 * _MiB, 6: _MiB, 8: _MiB},
    103: {2: 4 * _MiB, 4: 4 * _MiB, 6: 8 * _MiB, 8: 4 * _MiB},
}
_SYMMETRIC: Final[Mapping[int, _Sizes]] = {
    90: {2: 64 * _MiB, 4: 32 * _MiB, 6: 64 * _MiB, 8: 64 * _MiB},
    100: {2: 8 * _MiB, 4: 32 * _MiB, 6: 128 * _MiB, 8: 128 * _MiB},
    103: {2: 4 * _MiB, 4: 32 * _MiB, 6: 32 * _MiB, 8: 64 * _MiB},
}
_MULTIMEM: Final[Mapping[int, tuple[int, ...]]] = {90: (4, 6, 8), 100: (6, 8), 103: (6, 8)}
_OTHERWISE: Final = 8 * _MiB


def choose_vllm(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what vLLM runs.

    Raises
    ------
    InputError
        vLLM leaves this collective, size or machine to NCCL or RCCL.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> [choose_vllm(h100, "all_reduce", size).algorithm for size in (4096, 2**18, 2**20)]
    ['one stage', 'two stages', 'multimem']
    """
    _check("vLLM", view, collective)
    most = _CUSTOM.get(view.capability, {}).get(view.ranks, _OTHERWISE)
    if size_bytes <= most and size_bytes % _PACK == 0:
        return _custom("vllm", _VLLM, view, size_bytes, f"up to {format_bytes(most)} on {view.ranks} GPUs")
    limit = _SYMMETRIC.get(view.capability, {}).get(view.ranks, 0)
    if size_bytes >= limit or not view.multicast:
        raise _left("vLLM", f"an all-reduce of {format_bytes(size_bytes)}", view)
    multimem = view.ranks in _MULTIMEM[view.capability]
    return LibraryChoice(
        library="vllm",
        collective=collective,
        size_bytes=size_bytes,
        algorithm="multimem" if multimem else "two shots",
        protocol="Simple",
        blocks=_MULTIMEM_BLOCKS,
        threads=_THREADS,
        chunk_bytes=0,
        simulated="switch" if multimem else "allpairs_get",
        simulated_protocol="Simple",
        channels=_MULTIMEM_BLOCKS,
        why=(f"PyTorch's symmetric memory from {format_bytes(most)} to {format_bytes(limit)}",),
        source=_VLLM,
        difference="copies to its buffer and back take no time",
    )


def choose_sglang(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what SGLang runs.

    Raises
    ------
    InputError
        SGLang leaves this collective, size or machine to NCCL or RCCL.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> [choose_sglang(h100, "all_reduce", size).simulated for size in (4096, 2**20)]
    ['allpairs_oneshot', 'allpairs_get']
    """
    if view.amd:
        what = f"no model of SGLang's choice on {view.gpu[:40]}, where it takes AITER's kernels"
        raise InputError(what, where="library", hint="use rccl or vllm")
    _check("SGLang", view, collective)
    if size_bytes >= _OTHERWISE or size_bytes % _PACK:
        raise _left("SGLang", f"an all-reduce of {format_bytes(size_bytes)}", view)
    return _custom("sglang", _SGLANG, view, size_bytes, f"below {format_bytes(_OTHERWISE)}")


def _custom(library: str, source: str, view: LibraryView, size_bytes: int, range_: str) -> LibraryChoice:
    """Return the launch of the kernel that reads from peers: one stage for small sizes, else two."""
    least = 512 * _KiB if view.ranks <= 4 else 256 * _KiB
    once = view.ranks == 2 or size_bytes < least
    most = _MOST_BLOCKS_AMD if view.amd else _MOST_BLOCKS
    blocks = max(1, min(most, -(-size_bytes // (_PACK * _THREADS))))
    return LibraryChoice(
        library=library,
        collective="all_reduce",
        size_bytes=size_bytes,
        algorithm="one stage" if once else "two stages",
        protocol="Simple",
        blocks=blocks,
        threads=_THREADS,
        chunk_bytes=0,
        simulated="allpairs_oneshot" if once else "allpairs_get",
        simulated_protocol="Simple",
        channels=blocks,
        why=(f"its own kernel, {range_}", f"two stages from {format_bytes(least)} on, above two GPUs"),
        source=source,
    )


def _check(name: str, view: LibraryView, collective: str) -> None:
    if collective != "all_reduce":
        raise _left(name, collective, view)
    if view.nodes > 1 or view.ranks not in _RANKS or (view.pcie_GBps and view.ranks > 2):
        raise _left(name, f"{view.ranks} GPUs in {view.nodes} nodes", view)


def _left(name: str, what: str, view: LibraryView) -> InputError:
    other = "rccl" if view.amd else "nccl"
    return InputError(f"{name} leaves {what} to {other}", where="library", hint=f"use {other}")
