"""Small workloads that have everything in them."""

import dataclasses
from typing import Any

from astranb.chakra.traces.columns import Distinct
from astranb.engine.layers import LayerRun
from astranb.sim import Simulation
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)

SYSTEM: dict[str, Any] = {
    f"{name}-implementation": ["ring", "direct"]
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
}
SYSTEM |= {"preferred-dataset-splits": 3, "active-chunks-per-dimension": 2, "local-mem-bw": 1600}

TWO_DIMS = DimensionNetwork(["Ring", "Switch"], [2, 3], [50, 25], [500, 700])
ONE_RING = DimensionNetwork(["Ring"], [6], [50], [500])


def by_messages(
    ranks: Any,
    network: Any,
    system: System,
    *,
    congestion: bool = False,
    title: str = "workload",
    **options: Any,
) -> Simulation:
    """A simulation of operations by whole messages."""
    workload = Workload(ranks, network, system, title=title)
    return Simulation(workload, fidelity="congestion" if congestion else "analytical", **options)


def mixed(**options: Any) -> Simulation:
    """Six ranks: computations, two all-reduces, one message, one rank slower than the others."""
    ranks = []
    for rank in range(6):
        rows = [
            {"kind": COMPUTE, "duration_ns": 9_000 if rank == 5 else 3_000},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 65536},
            {"kind": COMPUTE, "duration_ns": 5_000},
            {"kind": COLLECTIVE, "collective": 2, "bytes": 1 << 20},
        ]
        deps = [[], [0], [0], [2]]
        if rank in (0, 3):
            kind = SEND if rank == 0 else RECV
            rows.append({"kind": kind, "peer": 3 - rank, "bytes": 100_000, "tag": 7})
            deps.append([3])
        ranks.append(Operations.of(rows, deps))
    network = ONE_RING if options.get("congestion") else TWO_DIMS
    system = {k: v[:1] if options.get("congestion") and isinstance(v, list) else v for k, v in SYSTEM.items()}
    return by_messages(ranks, network, System.from_document(system), **options)


HOSTILE = "</script><img src=x onerror=alert(1)>&<!--"
"""Operations may be called anything."""


def hostile() -> Simulation:
    """Four ranks whose operations are all markup, run to the end."""
    ranks = []
    for rank in range(4):
        rows = [
            {"kind": COMPUTE, "duration_ns": 1000 * (3 + rank)},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 65536},
        ]
        one = Operations.of(rows * 3, [[], [0], [0], [2], [2], [4]])
        names = Distinct.of([HOSTILE, f"{rank} {HOSTILE}"] * 3)
        ranks.append(dataclasses.replace(one, names=names))
    system = {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 2, "local-mem-bw": 1600}
    network = DimensionNetwork(["Ring"], [4], [50], [500])
    sim = by_messages(ranks, network, System.from_document(system), title=HOSTILE)
    sim.run()
    return sim


_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
TORUS = HierarchicalNetwork(("Ring",) * 3, (4, 4, 4), (2, 2, 2), (500, 500, 500), (50, 50, 50))
CONVS = tuple(
    Layer(f"conv{n}", Part(3_000), Part(2_500), Part(2_000, "ALLREDUCE", (n + 1) << 17), update_ns=100)
    for n in range(3)
)


def inputs_of(
    loop: str = "DATA",
    layers: tuple[Layer, ...] = CONVS,
    passes: int = 2,
    network: HierarchicalNetwork = TORUS,
    **system: Any,
) -> LayerWorkload:
    """Inputs of a layer table: by default three layers, trained on 64 ranks."""
    dims = len(network.units)
    algorithms = dict.fromkeys(_KINDS, (LayerAlgorithm("ring"),) * dims)
    table, layer_system = LayerTable(loop, layers), LayerSystem(algorithms, **{"splits": 4, **system})
    return LayerWorkload(table, layer_system, network, passes)


def run_of(*args: Any, **more: Any) -> LayerRun:
    """A run of these inputs."""
    return LayerRun(inputs_of(*args, **more))


def sim_of(*args: Any, record: bool = True, **more: Any) -> Simulation:
    """The same under the verbs."""
    return Simulation(inputs_of(*args, **more), record=record)


def cycles_are_timesteps(sim: Simulation, until_ps: int) -> None:
    """Check that a cycle is one timestep, and that a time is reached alike from both sides."""
    times = []
    while sim.step(1, "cycle").why != "end":
        times.append(sim.now_ps)
    assert times == sorted(set(times))
    assert times[0] == 0
    until = f"{until_ps} ps"
    assert sim.goto(until).why == "back"
    assert sim.now_ps <= until_ps < (sim.next_ps or 0)
    here = sim.state_hash()
    sim.reset()
    assert sim.run(until=until).why == "time"
    assert sim.state_hash() == here
