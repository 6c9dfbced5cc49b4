"""Runs by cache lines that have, together, every kind of object, event and link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import astranb as anb
from astranb.collectives import Collective, gemm_reduce_scatter
from astranb.gpu import preset
from astranb.net import Dcqcn, Ecn, Fault, Network, Pfc, Roce
from tests.engine.cacheline import test_calls, test_fused, test_nic
from tests.engine.cacheline.support import playing_roles, posting

__all__ = ["MACHINES"]


def _made(
    infra: str, kind: str, size: str, algorithm: Any, protocol: str = "Simple", **options: Any
) -> anb.Simulation:
    work = {name: options.pop(name) for name in ("channels",) if name in options}
    return anb.Simulation(infra, Collective.of(kind, size, algorithm, protocol=protocol, **work), **options)


def _deadlock(p: Any) -> None:
    """Two ranks that wait for each other, after one move."""
    first, second = p.semaphore(0), p.semaphore(1)
    one, other = p.block(0), p.block(1)
    one.put(p.rank(0).input[:], p.rank(1).output[:])
    one.wait(first)
    one.signal(second)
    other.wait(second)
    other.signal(first)


_ROCE = Roce(
    Pfc("2 KiB", "1 KiB"),
    Ecn("1 kB", "4 kB", 0.5),
    Dcqcn(interval="2 us", alpha_timer="3 us", increase_timer="3 us", byte_counter="4 kB"),
)
_DOWN = Fault("dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0", at="1 us", until="2 us", down=True)

MACHINES: dict[str, Callable[[], anb.Simulation]] = {
    "ring": lambda: _made("dgx-h100", "all_reduce", "64 KiB", "ring"),
    "tree, LL128": lambda: _made("dgx-a100", "all_reduce", "16 KiB", "tree", "LL128"),
    "all pairs, LL": lambda: _made("switch:gpus=4", "all_gather", "8 KiB", "allpairs", "LL"),
    "in switches": lambda: _made("dgx-h100", "all_reduce", "96 KiB", "nvls", channels=2),
    "Ethernet": lambda: _made(
        "clos:servers=4", "all_reduce", "32 KiB", "allpairs", network=Network(roce=_ROCE)
    ),
    "buffers": lambda: _made(
        "ring:gpus=4", "all_gather", "16 KiB", "ring",
        network=Network(buffers=3, arbitration="round_robin", cut_through=True, multipath="spray"),
    ),
    "mesh": lambda: _made("generic:gpus=4,ports=4", "all_reduce", "4 KiB", "ring"),
    "copy engines": lambda: _made("switch:gpus=2", "send_recv", "64 KiB", "engine", launch="stream"),
    "fault": lambda: _made("dgx-h100", "all_reduce", "32 KiB", "allpairs", network=Network(faults=(_DOWN,))),
    "posts": lambda: _made("switch:gpus=3", "broadcast", "24 KiB", posting),
    "roles": lambda: _made("ring:gpus=3", "broadcast", "24 KiB", playing_roles, gpu=preset("h100-sxm")),
    "operations": lambda: anb.Simulation(
        "ring:gpus=4", test_calls.workload(), gpu="h100-sxm", launch="graph"
    ),
    "late": lambda: _made(
        "dgx-h100", "all_gather", "64 KiB", "ring", "LL128", start={1: "3 us", 3: "4 us"}
    ),
    "NICs": lambda: _made(
        "single-tier:servers=2,server=dgx-h100", "send_recv", "64 KiB", test_nic._post, channels=1
    ),
    "products": lambda: test_fused.simulate(gemm_reduce_scatter(256, 128, 128, 2, (64, 64))),
    "deadlock": lambda: _made("switch:gpus=2", "send_recv", "4 KiB", _deadlock),
}  # fmt: skip
"""By name, what makes a simulation at its start."""
