"""RCCL's kernels that read from peers (DDA, direct data access), asked for by ``RCCL_DDA_ENABLE=1``.

Sources: ROCm/rocm-systems @de224e48, ``projects/rccl/src/rccl_arch_thresholds.cc`` (largest sizes of gfx942
and gfx950), @006a440c, ``src/algorithms/dda/`` (flat or tree, 24 blocks of 512 threads).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes

from .candidate import LibraryChoice
from .topology import LibraryView

__all__ = ["choose_rccl_direct"]

_SOURCE: Final = "ROCm/rocm-systems @006a440c, projects/rccl/src/algorithms/dda and rccl_arch_thresholds.cc"
_KiB: Final = 1 << 10
_MiB: Final = 1 << 20
_RANKS: Final = 8
_PACK: Final = 16  # bytes that a thread loads
_THREADS: Final = 512
_MOST_BLOCKS: Final = 24
_FLAT_BYTES: Final = 256 * _KiB  # all-reduce: up to here every rank reads everything
_COPY_US: Final = 2.05
"""Launch of the copy to the buffer, where it is a call of its own: as of any kernel (MI210,
RRZE-HPC/gpu-benches @1038c5d gpu-small-kernels)."""

_SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "gfx942": {"all_reduce": 8, "all_gather": 8, "reduce_scatter": 8, "all_to_all": 4},
    "gfx950": {"all_reduce": 128, "all_gather": 128, "reduce_scatter": 128, "all_to_all": 4},
}
"""The largest in MiB, all ranks' data together."""
_GENERATIONS: Final = {"mi300": "gfx942", "mi308": "gfx942", "mi325": "gfx942", "mi35": "gfx950"}


def choose_rccl_direct(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what RCCL runs with direct data access: on one node of eight GPUs.

    Raises
    ------
    InputError
        RCCL leaves this collective, size or machine to its other kernels.

    Examples
    --------
    >>> box = LibraryView(8, 8, "mi355x", 0, links=7, switched=False)
    >>> [choose_rccl_direct(box, "all_reduce", size).algorithm for size in (2**18, 2**20)]
    ['DDA flat', 'DDA tree']
    """
    generation = next((name for gpu, name in _GENERATIONS.items() if view.gpu.startswith(gpu)), "gfx950")
    sizes = _SIZES[generation]
    if collective not in sizes or view.ranks != _RANKS or view.nodes > 1:
        what = f"RCCL has no direct data access for {collective} on {plural(view.ranks, 'GPU')}"
        hint = f"use rccl, or one of {', '.join(sizes)} on one node of {_RANKS}"
        raise InputError(what, where="library", hint=hint)
    share = size_bytes if collective == "all_reduce" else size_bytes // view.ranks
    flat = collective == "all_reduce" and size_bytes <= _FLAT_BYTES
    if size_bytes > sizes[collective] * _MiB or share % _PACK or (not flat and size_bytes % (_RANKS * _PACK)):
        what = f"RCCL leaves {collective} of {format_bytes(size_bytes)} to its other kernels"
        limit = format_bytes(sizes[collective] * _MiB)
        hint = f"use rccl: direct data access is for multiples of {_PACK} B up to {limit}"
        raise InputError(what, where="library", hint=hint)
    packs = -(-share // _PACK)
    blocks = max(1, min(_MOST_BLOCKS, -(-packs // _THREADS)))
    inside = flat or collective == "all_gather" or (collective == "all_to_all" and packs < _THREADS)
    known = any(view.gpu.startswith(gpu) for gpu in _GENERATIONS)
    return LibraryChoice(
        library="rccl-dda",
        collective=collective,
        size_bytes=size_bytes,
        algorithm={"all_reduce": "DDA flat" if flat else "DDA tree"}.get(collective, "DDA"),
        protocol="Simple",
        blocks=blocks,
        threads=_THREADS,
        chunk_bytes=0,
        simulated="staged_oneshot" if flat else "staged_get",
        simulated_protocol="Simple",
        channels=blocks,
        why=(
            f"asked for (RCCL_DDA_ENABLE=1), up to {format_bytes(sizes[collective] * _MiB)} on {generation}",
            f"flat up to {format_bytes(_FLAT_BYTES)}: every rank reads everything; then a tree of two steps"
            if collective == "all_reduce"
            else f"{plural(blocks, 'block')}: {_THREADS} threads of {_PACK} B, {_MOST_BLOCKS} at most",
        ),
        source=_SOURCE,
        base_us=0.0 if inside else _COPY_US,
        difference=(
            ""
            if inside
            else "the copy to the buffer is a kernel of its own, here the first step of the blocks"
        ),
        nearest=""
        if known
        else f"RCCL's limits for {view.gpu[:40]} are not known: those of gfx950 are taken",
    )
