"""RCCL's choice on MI300X: MSCCL's algorithms within a box by size, else its cost model.

Source of all numbers and rules: ROCm/rccl @0cbce2a7 (October 2024): ``tools/msccl-algorithms/`` (which
file for which size; attributes of ``<algo>``, thread blocks counted), ``src/misc/msccl/msccl_lifecycle.cc``
(what fits), ``src/graph/tuning.cc`` (``tuning_model_5``, ``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``),
``src/graph/rome_models.cc`` (``rome_model_79`` of one box: 28 rings; ``rome_model_81`` with NICs),
``src/graph/connect.cc`` and ``src/enqueue.cc`` (``getChannnelThreadInfo``). From @00c78b70, 2025:
``src/rccl_wrap.cc`` (``rcclSetPxn`` and ``rcclSetP2pNetChunkSize``, from 64 GPUs on).
"""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes

from .candidate import LibraryCandidate, LibraryChoice, LibraryCost
from .topology import LibraryView

__all__ = ["choose_rccl", "rccl_candidates", "rccl_cost"]

_SOURCE: Final = "ROCm/rccl @0cbce2a7, src/graph/tuning.cc (model 5) and tools/msccl-algorithms/"
_PROTOCOLS: Final = ("LL", "Simple")  # LL128 is not built for gfx94x
_BOX: Final = 8

_BASE_US: Final = {"LL": 12.0, "Simple": 17.0}
_SAVED_US: Final = 6.2
"""Time that a replay in a graph saves of the base latency, which counts a launch: 1 KiB all-reduce on eight
MI300X takes 13.67 us launched one by one, 7.47 in a graph (ROCm/rocm-blogs c263176, mi300x-rccl-xgmi)."""
_HOP_US: Final = {"Tree": {"LL": 0.9, "Simple": 2.3}, "Ring": {"LL": 0.8, "Simple": 2.1}}
_NET_HOP_US: Final = {"Tree": {"LL": 10.5, "Simple": 25.0}, "Ring": {"LL": 9.5, "Simple": 320.0}}
_PROXY_US: Final = {"Tree": {"LL": 7.2, "Simple": 8.5}, "Ring": {"LL": 6.2, "Simple": 8.5}}
"""Time that proxy threads add to a hop between nodes: the table's latency, less that of the hop when NICs
alone are simulated (3.3 us for packets; of Simple half of what 1 KiB lacks of 82.2 us on two nodes). Rings of
Simple as trees: the table's 320 us keep RCCL from choosing them."""
_SHARE: Final = {
    "Tree": {"LL": (0.06, 0.06), "Simple": (0.11, 0.59)},
    "Ring": {"LL": (0.08, 0.08), "Simple": (1.0, 1.0)},
}
"""Of the bus bandwidth, on up to two nodes and on more."""
_CORRECTION: Final = {
    "Tree": {
        "LL": (*[0.1] * 6, *[1.0] * 5, 0.6, 1.0, 0.9, 1.0, 1.0, *[0.1] * 11),
        "Simple": (*[0.1] * 15, 0.7, *[1.0] * 10, 0.8),
    },
    "Ring": {
        "LL": (*[0.1] * 11, 1.0, 0.2, 1.0, 0.4, 0.4, 0.1, 0.2, 0.2, *[0.1] * 8),
        "Simple": (*[0.1] * 23, 0.8, 1.0, 1.0, 1.0),
    },
}
"""Factor of the bandwidth for 64 B, 128 B, ...; of rings only between nodes."""

_THREADS: Final = 256
_THREAD_BYTES: Final = {"LL": 8, "Simple": 64}
_CHANNELS: Final = (56, 64)  # of one box, of more
_LL_STEP: Final = 16_384
"""Data of a step of LL's buffer: 256 threads of 8 packets, each 8 B of data (``NCCL_LL_MAX_NTHREADS`` and
``NCCL_LL_LINES_PER_THREAD`` in src/include/device.h)."""
_PEER_LL: Final = 16_384
_PXN: Final = 64  # from so many GPUs on
_PXN_CHUNK: Final = 524_288


class _PlanFile(NamedTuple):
    """An algorithm file of MSCCL for eight GPUs, out of place."""

    most_bytes: int
    protocol: str
    blocks: int
    chunks: int  # the elements must divide by it
    file: str


_PLANS: Final = {
    "all_reduce": (
        _PlanFile(65_536, "LL", 32, 256, "allreduce-allpairs-8n-ll-32tb-op.xml"),
        _PlanFile(524_287, "LL", 64, 512, "allreduce-allpairs-8n-ll-64tb-op.xml"),
        _PlanFile(16_777_216, "Simple", 64, 512, "allreduce-allpairs-8n-simple-op.xml"),
    ),
    "all_to_all": (
        _PlanFile(9_216, "LL", 15, 8, "alltoall-8n-0-9kb.xml"),
        _PlanFile(194_560, "LL", 30, 16, "alltoall-8n-9kb-190kb.xml"),
        _PlanFile(524_288, "LL", 60, 32, "alltoall-8n-190kb-512kb.xml"),
        _PlanFile(7_340_032, "Simple", 60, 32, "alltoall-8n-512kb-7mb.xml"),
        _PlanFile(45_088_768, "Simple", 64, 64, "alltoall-8n-7mb-43mb.xml"),
    ),
}
_ALGORITHMS: Final = {
    "all_reduce": ("Tree", "Ring"),
    **dict.fromkeys(("all_gather", "reduce_scatter", "broadcast", "reduce"), ("Ring",)),
}


def rccl_candidates(view: LibraryView, collective: str, size_bytes: int) -> list[LibraryCandidate]:
    """Return every algorithm and protocol of RCCL's cost model, the fastest first."""
    found = []
    for algorithm in _ALGORITHMS[collective]:
        for protocol in _PROTOCOLS:
            if algorithm == "Tree" and protocol == "Simple" and view.nodes == 1:
                continue
            if protocol not in view.network.protocols.split():
                continue
            rate = _bandwidth_GBps(view, collective, algorithm, protocol, size_bytes)
            latency_us = _latency_us(view, collective, algorithm, protocol)
            time_us = latency_us + size_bytes / (1000 * rate)
            found.append(LibraryCandidate(algorithm, protocol, latency_us, rate, time_us))
    return sorted(found, key=lambda one: one.time_us)


def _bandwidth_GBps(  # noqa: N802 - unit in the name
    view: LibraryView, collective: str, algorithm: str, protocol: str, size_bytes: int
) -> float:
    rate = view.gpu_GBps * _SHARE[algorithm][protocol][view.nodes > 2]
    if algorithm == "Ring" and protocol == "LL" and collective in ("broadcast", "reduce") and view.nodes == 1:
        rate *= 1.65
    rate *= 0.5 if algorithm == "Tree" else view.ranks / _steps(view, collective)
    corrected = _CORRECTION[algorithm][protocol]
    power = max(0, min((size_bytes >> 6).bit_length() - 1, len(corrected) - 1))
    return rate * corrected[power] if algorithm == "Tree" or view.nodes > 1 else rate


def _steps(view: LibraryView, collective: str) -> int:
    once = view.ranks - 1
    return {"all_reduce": 2 * once, "all_gather": once, "reduce_scatter": once}.get(collective, view.ranks)


def _latency_us(view: LibraryView, collective: str, algorithm: str, protocol: str) -> float:
    base, hop = _BASE_US[protocol], _HOP_US[algorithm][protocol]
    net = _NET_HOP_US[algorithm][protocol] + view.network.stated_us
    if algorithm == "Tree":
        return base + 2 * ((view.per_node - 1) * hop + (view.nodes.bit_length() - 1) * net)
    if collective in ("broadcast", "reduce"):
        hop = _HOP_US["Tree"][protocol] if protocol == "Simple" else hop
        if view.nodes > 1:
            hop = _NET_HOP_US["Tree" if protocol == "Simple" else "Ring"][protocol]
        return base + _steps(view, collective) * hop
    between = 0 if view.nodes == 1 else 2 * view.nodes if collective == "all_reduce" else view.nodes - 1
    if view.nodes > 1:
        posting = (2.0 if view.cpu == "amd" else 1.0) * (3 if protocol == "Simple" else 1)
        hop = max(hop, posting)
    return base + (_steps(view, collective) - between) * hop + between * net


_KNOWN: Final = ("mi300", "mi308", "mi325")  # gfx942


def choose_rccl(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what RCCL runs on nodes of eight MI300X.

    Raises
    ------
    InputError
        RCCL has no such collective, or there is no model of the machine.

    Examples
    --------
    >>> box = LibraryView(8, 8, "mi300x", 0, links=7, switched=False)
    >>> choice = choose_rccl(box, "all_reduce", 2**20)
    >>> choice.algorithm, choice.protocol, choice.blocks
    ('MSCCL allpairs', 'Simple', 64)
    """
    if not view.amd or view.per_node != _BOX:
        what = f"no model of RCCL's choice for {view.per_node} GPUs of type {view.gpu[:40]} in a node"
        raise InputError(what, where="library", hint="only nodes of eight MI300X are modelled")
    found = _chosen(view, collective, size_bytes)
    if view.gpu.startswith(_KNOWN):
        return found
    return dataclasses.replace(
        found, nearest=f"RCCL's rules for {view.gpu[:40]} are not known: MI300X's are taken"
    )


def _chosen(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what RCCL runs by its rules for gfx942."""
    plan = _plan(view, collective, size_bytes)
    if plan is not None:
        return _by_plan(collective, size_bytes, plan)
    if collective not in _ALGORITHMS:
        if collective == "all_to_all":
            return _exchange(view, size_bytes)
        raise InputError(f"no model of RCCL's {collective}", where="library", hint="give an algorithm")
    candidates = rccl_candidates(view, collective, size_bytes)
    best = candidates[0]
    most, least = _CHANNELS[view.nodes > 1], _THREAD_BYTES[best.protocol]
    least *= view.ranks if (best.algorithm, best.protocol) == ("Ring", "LL") else 1
    blocks = max(1, min(most, size_bytes // (_THREADS * least)))
    simulated = "tree" if best.algorithm == "Tree" else "ring"
    packets = collective != "reduce"
    return LibraryChoice(
        library="rccl",
        collective=collective,
        size_bytes=size_bytes,
        algorithm=best.algorithm,
        protocol=best.protocol,
        blocks=blocks,
        threads=_THREADS,
        chunk_bytes=_LL_STEP if (best.algorithm, best.protocol) == ("Tree", "LL") else 0,
        simulated=simulated,
        simulated_protocol=best.protocol if packets else "Simple",
        channels=blocks,
        why=(
            f"model: rings of {view.gpu_GBps:g} GB/s together, {plural(most, 'channel')}",
            f"least of {len(candidates)} predicted times: {best.time_us:.1f} us",
            f"{blocks} of {most} channels: {least} B at least for each of {_THREADS} threads",
            *view.notes,
        ),
        source=_SOURCE,
        candidates=tuple(candidates),
        base_us=_BASE_US[best.protocol],
        saved_us=_SAVED_US,
        proxy_us=_PROXY_US[best.algorithm][best.protocol] + view.network.hop_us if view.nodes > 1 else 0.0,
    )


def _plan(view: LibraryView, collective: str, size_bytes: int) -> _PlanFile | None:
    """Return the file of MSCCL that fits: by size, and where the elements (float) divide by its chunks."""
    plans = _PLANS.get(collective, ()) if view.nodes == 1 else ()
    found = next((plan for plan in plans if size_bytes <= plan.most_bytes), None)
    return found if found and (size_bytes // 4) % found.chunks == 0 else None


def _by_plan(collective: str, size_bytes: int, plan: _PlanFile) -> LibraryChoice:
    simulated, channels = "allpairs", plan.blocks
    if plan.protocol == "Simple":
        put = collective == "all_to_all"
        simulated, channels = (
            ("put", -(-plan.blocks // (_BOX - 1))) if put else ("allpairs_fifo", plan.blocks // _BOX)
        )
    return LibraryChoice(
        library="rccl",
        collective=collective,
        size_bytes=size_bytes,
        algorithm="MSCCL allpairs" if collective == "all_reduce" else "MSCCL alltoall",
        protocol=plan.protocol,
        blocks=plan.blocks,
        threads=_THREADS,
        chunk_bytes=0,
        simulated=simulated,
        simulated_protocol=plan.protocol,
        channels=channels,
        why=(
            f"{plan.file}: up to {format_bytes(plan.most_bytes)} on {_BOX} GPUs",
            f"{plan.blocks} thread blocks",
        ),
        source=_SOURCE,
        base_us=_BASE_US[plan.protocol],
        saved_us=_SAVED_US,
    )


def _exchange(view: LibraryView, size_bytes: int) -> LibraryChoice:
    """Return how RCCL's grouped sends and receives exchange: eight channels for a peer in a box."""
    share = max(1, size_bytes // view.ranks)
    channels = 8 if view.nodes == 1 else 2
    protocol = "LL" if share <= channels * _PEER_LL and view.nodes == 1 else "Simple"
    peers, rails = view.ranks - 1, view.ranks >= _PXN
    simulated = "pxn" if rails else "put" if protocol == "Simple" else "allpairs"
    why = [f"grouped send and receive: {channels} channels for each peer"]
    if view.nodes > 1:
        by = "NIC of the receiver's rail (PXN)" if rails else "sender's own NIC"
        why.append(f"to other nodes by the {by}: {_PXN} GPUs or more use PXN")
    return LibraryChoice(
        library="rccl",
        collective="all_to_all",
        size_bytes=size_bytes,
        algorithm="SendRecv",
        protocol=protocol,
        blocks=channels * peers,
        threads=_THREADS,
        chunk_bytes=_PXN_CHUNK if rails else 0,
        simulated=simulated,
        simulated_protocol=protocol,
        channels=channels * peers if simulated == "allpairs" else channels,
        base_us=_BASE_US[protocol],
        saved_us=_SAVED_US,
        proxy_us=_PROXY_US["Ring"][protocol] + view.network.hop_us if view.nodes > 1 else 0.0,
        why=(*why, *view.notes),
        source=_SOURCE,
    )


_LINK_SHARE: Final = {"LL": 24 / 56.25, "Simple": 45 / 56.25}
"""Of what a link of gfx94x carries beside headers, 56.25 of 64 GB/s: RCCL counts 48 GB/s, and of these half
for packets and 15/16 for Simple."""
_DIRECT_SHARE: Final = {"LL": 0.375, "Simple": 0.7}
"""The same of exchanges and of MSCCL's plans: *assumed*, 48 GB/s as part of 64."""
_FAR_SHARE: Final = {"LL": 0.5, "Simple": 1.0}
"""Of what a NIC carries: half of the bytes of packets are flags."""


def rccl_cost(view: LibraryView, collective: str, size_bytes: int) -> LibraryCost:
    """Return the cost of what RCCL runs, taken apart into begin and hops; links bound its bandwidth.

    The shares and corrections of its cost model order the candidates, and are no bandwidths: on two nodes
    they make twice the measured time of 16 MiB, and eight times that of 256 MiB (mi300x-ar-rccl-2). A hop of
    a ring between nodes takes 320 us in it, so that trees are chosen; here it takes what one of a tree takes.

    Examples
    --------
    >>> box = LibraryView(8, 8, "mi300x", 0, links=7, switched=False)
    >>> cost = rccl_cost(box, "all_reduce", 2**20)
    >>> cost.algorithm, cost.begin_us, cost.near_us
    ('direct', 17.0, 2.1)
    """
    choice = choose_rccl(view, collective, size_bytes)
    name = "Tree" if choice.algorithm == "Tree" else "Ring"
    pattern = {"Tree": "doubleBinaryTree", "Ring": "ring"}.get(choice.algorithm, "direct")
    protocol = choice.protocol
    near, far = _HOP_US[name][protocol], _NET_HOP_US["Tree"][protocol] + view.network.hop_us
    share = (_DIRECT_SHARE if pattern == "direct" else _LINK_SHARE)[protocol]
    far_share = _FAR_SHARE[protocol]
    return LibraryCost(pattern, _BASE_US[protocol], near, far, 0.0, share, _SOURCE, _SAVED_US, far_share)
