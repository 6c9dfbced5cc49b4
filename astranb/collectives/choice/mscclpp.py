"""MSCCL++'s choice: by size ranges, as its NCCL-compatible library selects its own kernels.

Source: microsoft/mscclpp @1f5f065d, ``src/ext/nccl/algorithm_selector.cc`` (which kernel), the kernels'
default launch sizes in ``src/ext/collectives/`` and the plans for several nodes in
``python/mscclpp/__main__.py``. Buffers are ordinary memory, not symmetric, and not captured in a graph,
as in nccl-tests.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from astranb.core.errors import InputError
from astranb.core.units import format_bytes

from .candidate import LibraryChoice
from .topology import LibraryView

__all__ = ["choose_mscclpp"]

_SOURCE: Final = "microsoft/mscclpp @1f5f065d, src/ext/nccl/algorithm_selector.cc, src/ext/collectives/"
_KiB: Final = 1 << 10
_MiB: Final = 1 << 20
_BLACKWELL: Final = 10  # compute capability of B200, B300 and GB200; that of workstations is 12


class _LaunchedKernel(NamedTuple):
    """A kernel of MSCCL++, with its launch, and what simulates it."""

    name: str
    protocol: str
    blocks: int
    threads: int
    simulated: str
    simulated_protocol: str
    up_to: str
    difference: str = ""


def choose_mscclpp(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what MSCCL++ runs.

    Raises
    ------
    InputError
        MSCCL++ leaves this collective, size or machine to NCCL or RCCL.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> choice = choose_mscclpp(h100, "all_reduce", 4096)
    >>> choice.algorithm, choice.blocks, choice.simulated
    ('allpair_packet', 28, 'allpairs_oneshot')
    """
    if view.nodes > 1:
        kernel = _plan(view, collective, size_bytes)
    elif collective == "all_reduce":
        choose = _all_reduce_blackwell if view.capability // 10 == _BLACKWELL else _all_reduce
        kernel = choose(view, size_bytes)
    elif collective == "all_gather":
        kernel = _all_gather(view, size_bytes)
    else:
        raise _left(f"{collective} within a node", view)
    channels = kernel.blocks if kernel.simulated != "put" else -(-kernel.blocks // (view.ranks - 1))
    return LibraryChoice(
        library="mscclpp",
        collective=collective,
        size_bytes=size_bytes,
        algorithm=kernel.name,
        protocol=kernel.protocol,
        blocks=kernel.blocks,
        threads=kernel.threads,
        chunk_bytes=0,
        simulated=kernel.simulated,
        simulated_protocol=kernel.simulated_protocol,
        channels=channels,
        why=(f"{kernel.name} {kernel.up_to}",),
        source=_SOURCE,
        difference=kernel.difference,
    )


def _left(what: str, view: LibraryView) -> InputError:
    other = "rccl" if view.amd else "nccl"
    return InputError(f"MSCCL++ leaves {what} to {other}", where="library", hint=f"use {other}")


def _packet(view: LibraryView, size: int, most: int) -> _LaunchedKernel:
    """Return the two-shot kernel of packets."""
    if size < 32 * _KiB:
        blocks, threads = (view.per_node - 1) * 4, 1024
    else:
        blocks, threads = (view.ranks - 1) * 8, 512 if size <= 153_600 else 1024
    return _LaunchedKernel("packet", "LL", blocks, threads, "allpairs", "LL", f"up to {format_bytes(most)}")


def _all_reduce(view: LibraryView, size: int) -> _LaunchedKernel:
    peers = view.per_node - 1
    nvls = view.multicast
    if size <= 16 * _KiB:
        blocks, threads = (peers, peers * 32) if size < view.per_node * 4 else (peers * 4, 512)
        return _LaunchedKernel(
            "allpair_packet", "LL", blocks, threads, "allpairs_oneshot", "LL", "up to 16 KiB"
        )
    if size <= 32 * _KiB and nvls:
        return _nvls_packet(size)
    if size <= _MiB:
        return _packet(view, size, _MiB)
    if nvls and size < 16 * _MiB:
        return _LaunchedKernel(
            "nvls_warp_pipeline",
            "Simple",
            view.per_node * 4,
            1024,
            "switch",
            "Simple",
            "from 1 to 16 MiB, with NVLS",
        )
    if nvls:
        return _LaunchedKernel(
            "nvls_block_pipeline",
            "Simple",
            view.per_node * 5,
            1024,
            "switch",
            "Simple",
            "from 16 MiB on, with NVLS",
        )
    return _LaunchedKernel("fullmesh", "Simple", 35, 512, "allpairs", "Simple", "above 1 MiB, without NVLS")


def _nvls_packet(size: int) -> _LaunchedKernel:
    blocks, threads = (4, 512) if size <= 8 * _KiB else (8, 1024)
    return _LaunchedKernel(
        "nvls_packet", "LL", blocks, threads, "oneshot_packets_mc", "Simple", "up to 32 KiB, with NVLS"
    )  # fmt: skip


def _all_reduce_blackwell(view: LibraryView, size: int) -> _LaunchedKernel:
    if size <= 32 * _KiB:
        return _nvls_packet(size)
    if size <= 2 * _MiB:
        return _packet(view, size, 2 * _MiB)
    if size <= 8 * _MiB:
        return _LaunchedKernel("rsag", "Simple", 64, 1024, "staged_load_store", "Simple", "from 2 to 8 MiB")
    return _LaunchedKernel(
        "rsag_pipeline", "Simple", 128, 1024, "allpairs", "Simple", "above 8 MiB",
        "a thread block puts, adds and gathers, the kernel has blocks for each that work on different pieces",
    )  # fmt: skip


def _all_gather(view: LibraryView, size: int) -> _LaunchedKernel:
    share = size // view.ranks  # MSCCL++ goes by what one rank sends
    if share > 32 * _MiB and not view.amd:
        return _LaunchedKernel("fullmesh", "Simple", 56, 1024, "put", "Simple", "above 32 MiB of a rank")
    elements = share // 4
    blocks = 7 if elements <= 4096 else 14 if elements <= 32_768 else 28 if elements < 2_097_152 else 35
    return _LaunchedKernel(
        "fullmesh2", "Simple", blocks, 1024, "put", "Simple", "up to 32 MiB of a rank, or on AMD"
    )


def _plan(view: LibraryView, collective: str, size: int) -> _LaunchedKernel:
    """Return the default plan for several nodes of eight GPUs."""
    if (
        collective == "all_reduce"
        and view.per_node == 8
        and view.nodes in (2, 4)
        and _KiB <= size <= 2 * _MiB
    ):
        group = 1 if size <= 64 * _KiB else 4
        return _LaunchedKernel(
            f"allreduce_{view.nodes}nodes", "LL", 1 + 7 * group, 1024, "two_level", "Simple",
            "plan of python/mscclpp/__main__.py, 1 KiB to 2 MiB",
            "the plan sends packets within and between nodes, the hierarchical algorithm does not",
        )  # fmt: skip
    raise _left(f"{collective} of {format_bytes(size)} over {view.nodes} nodes", view)
