"""What the tables of a page do not hold of its machine, and a plan that is dropped on the page needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from astranb.collectives import COLLECTIVES, algorithms
from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.cacheline.build import launches_ps
from astranb.engine.cacheline.network import fault_tables
from astranb.gpu import Preset

__all__ = ["plan_machine"]

_NUMBERS = (
    "name", "line_bytes", "l2_bytes", "l2_ways", "near_bytes", "far_ps", "hbm_bytes", "access_lines",
    "unroll", "warps_per_block", "bulk_lines", "issue_lines", "max_outstanding", "blocks_on_sm",
    "engine_lines", "engine_outstanding", "nic_lines", "nic_outstanding", "nic_post_ps",
)  # fmt: skip
"""What of a preset the layout of a program depends on; all else is in the table of GPUs."""


def plan_machine(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe the GPUs, how they are joined, and the options that act on any program.

    Where several lines travel as one request, ``exact`` has the GPUs for packets, which travel one by one.
    """
    fabric, network, presets = engine.fabric, engine.network, engine.chosen
    coalesced = [preset.coalesced(network.coalesce) for preset in presets]
    faults, fault_ps = fault_tables(network, fabric, engine.machine.links)
    del faults  # the table of the page has them
    return {
        "title": fabric.graph.title,
        "per_node": fabric.shape.per_node,
        "rdma": fabric.shape.rdma,
        "gpus": _described(coalesced),
        "exact": None if network.coalesce == 1 else _described(presets),
        "coalesce": network.coalesce,
        "launch_ps": _alike(launches_ps(presets, engine.launch)),
        "fault_ps": fault_ps,
        "slow_faults": any(fault.latency for fault in network.faults),
        "proxy_ps": network.proxy_ps,
        "proxied": np.flatnonzero(fabric.leave_nics).tolist() if network.proxy_ps else [],
        "failed": list(fabric.graph.failed),
        "cut_off": fabric.cut_off(),
        "algorithms": {name: [one.name for one in algorithms(name)] for name in COLLECTIVES},
    }


def _described(presets: Sequence[Preset]) -> dict[str, Any]:
    """Give the numbers of each kind of GPU, and the kind of each rank."""
    kinds: dict[str, int] = {}
    of_rank, listed = [], []
    for preset in presets:
        key = repr(dataclasses.astuple(preset))
        if key not in kinds:
            kinds[key] = len(kinds)
            listed.append({name: getattr(preset, name) for name in _NUMBERS})
        of_rank.append(kinds[key])
    return {"kinds": listed, "of_rank": _alike(of_rank)}


def _alike(values: Sequence[int]) -> list[int]:
    """Give one value where all are the same."""
    return list(values[:1]) if len(set(values)) == 1 else list(values)
