"""The choice of NCCL and RCCL for copy engines: in symmetric memory, where a program asks for no SMs or CUs.

It is asked for by ``NCCL_CTA_POLICY_ZERO``; sums need SMs. Sources: NVIDIA/nccl @5067397c (2.30.7) and
ROCm/rocm-systems @008bf8ed, ``src/ce_coll.cc`` of both.
"""

from __future__ import annotations

from typing import Final

from astranb.core.errors import InputError

from .candidate import LibraryChoice
from .topology import LibraryView

__all__ = ["choose_nccl_engines", "choose_rccl_engines"]

_COLLECTIVES: Final = ("all_gather", "all_to_all")


def choose_nccl_engines(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what NCCL runs by copy engines.

    Raises
    ------
    InputError
        Copy engines have no such collective, or the GPUs are in several nodes.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> choose_nccl_engines(h100, "all_to_all", 2**20).simulated
    'engines'
    """
    source = "NVIDIA/nccl @5067397c (2.30.7), src/ce_coll.cc"
    return _choice(view, collective, size_bytes, "nccl", "copy engines", "SMs", source)


def choose_rccl_engines(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what RCCL runs by copy engines (SDMA).

    Raises
    ------
    InputError
        Copy engines have no such collective, or the GPUs are in several nodes.

    Examples
    --------
    >>> box = LibraryView(8, 8, "mi355x", 0, links=7, switched=False)
    >>> choose_rccl_engines(box, "all_gather", 2**20).simulated
    'engines'
    """
    source = "ROCm/rocm-systems @008bf8ed, projects/rccl/src/ce_coll.cc"
    return _choice(view, collective, size_bytes, "rccl", "copy engines (SDMA)", "CUs", source)


def _choice(
    view: LibraryView, collective: str, size: int, library: str, algorithm: str, units: str, source: str
) -> LibraryChoice:
    if collective not in _COLLECTIVES or view.nodes > 1:
        between = " between nodes" if view.nodes > 1 else ""
        what = f"no model of {collective} by {library.upper()}'s copy engines{between}"
        hint = f"use {library}, or all_gather or all_to_all in one node"
        raise InputError(what, where="library", hint=hint)
    return LibraryChoice(
        library=f"{library}-ce",
        collective=collective,
        size_bytes=size,
        algorithm=algorithm,
        protocol="Simple",
        blocks=0,
        threads=0,
        chunk_bytes=0,
        simulated="engines",
        simulated_protocol="Simple",
        channels=1,
        why=(f"buffers are in symmetric memory, and no {units} are asked for (NCCL_CTA_POLICY_ZERO)",),
        source=source,
        difference="calls of the host for each batch of copies take no time",
    )
