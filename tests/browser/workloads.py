"""Random runs of operations of every kind, for comparing a page's kernel with Python's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import astranb as anb
from astranb.traffic import record
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
)
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Memory,
    Operations,
    System,
    Workload,
)
from astranb.workload.models import Parallelism, workload
from tests.engine.operations.support import CONVS, by_messages, mixed, sim_of

__all__ = ["LAYERS", "MESSAGES", "layers", "messages"]

_WORDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_MEMORY, _REPLAY, _DELAY = 4, 5, 6


def messages(seed: int) -> anb.Simulation:
    """A run of messages: ranks with computations, collectives, messages and delays on some network."""
    chance = random.Random(seed)
    congestion = chance.random() < 0.5
    dims = chance.choice([1, 1, 2])
    shapes = [chance.choice(["Ring", "FullyConnected", "Switch"]) for _ in range(dims)]
    nodes = [chance.choice([2, 4]) if dims > 1 else chance.choice([2, 4, 8]) for _ in range(dims)]
    ranks = 2**dims if not nodes else nodes[0] * (nodes[1] if dims > 1 else 1)
    network = DimensionNetwork(
        shapes, nodes, [chance.choice([25, 50, 400]) for _ in nodes], [chance.choice([0, 500]) for _ in nodes]
    )
    algorithms = ["ring", "direct", "halvingDoubling"]
    system: dict[str, Any] = {
        f"{word}-implementation": [chance.choice(algorithms[:2] if word == _WORDS[3] else algorithms)] * dims
        for word in _WORDS
    }
    system |= {
        "preferred-dataset-splits": chance.choice([1, 3, 8]),
        "active-chunks-per-dimension": chance.choice([1, 4]),
        "local-mem-bw": chance.choice([0, 1600]),
        "scheduling-policy": chance.choice(["LIFO", "FIFO"]),
    }
    shared = [(chance.randrange(4), chance.choice([1, 5000, 65536, 1 << 20])) for _ in range(3)]
    slow, peer = chance.randrange(ranks), chance.randrange(1, ranks)
    every = []
    for rank in range(ranks):
        rows: list[dict[str, Any]] = [{"kind": COMPUTE, "duration_ns": 9_000 if rank == slow else 2_000}]
        deps: list[list[int]] = [[]]
        if rank == slow and chance.random() < 0.5:
            rows[0] = {"kind": _DELAY, "duration_ns": 4_000}
        for collective, size in shared:
            rows.append({"kind": COLLECTIVE, "collective": collective, "bytes": size})
            deps.append([len(rows) - 2])
            rows.append({"kind": COMPUTE, "duration_ns": 1_000})
            deps.append([len(rows) - 3])
        if rank in (0, peer):
            kind = SEND if rank == 0 else RECV
            rows.append({"kind": kind, "peer": peer if rank == 0 else 0, "bytes": 100_000, "tag": 7})
            deps.append([len(rows) - 2])
        every.append(Operations.of(rows, deps))
    return by_messages(
        every, network, System.from_document(system), congestion=congestion, title=f"random {seed}"
    )


def layers(seed: int) -> anb.Simulation:
    """A run of a layer table."""
    chance = random.Random(seed)
    dims = chance.choice([1, 2, 3])
    network = HierarchicalNetwork(
        tuple(chance.choice(["Ring", "FullyConnected", "Switch"]) for _ in range(dims)),
        tuple(chance.choice([2, 4]) for _ in range(dims)), (6,) * dims, (500,) * dims, (50,) * dims,
    )  # fmt: skip
    names = ("ring", "direct", "halvingDoubling")
    algorithms = dict.fromkeys(_WORDS, tuple(LayerAlgorithm(chance.choice(names)) for _ in range(dims)))
    splits, within = chance.choice([1, 4]), chance.choice(["FIFO", "RG", "SCF"])
    system = LayerSystem(algorithms, splits=splits, within=within)
    table = LayerTable(chance.choice(["DATA", "MODEL", "HYBRID_DATA_MODEL", "DATA_REORDER"]), CONVS)
    return anb.Simulation(LayerWorkload(table, system, network, chance.choice([1, 2])))


def _growing() -> anb.Simulation:
    """All at once: far more messages under way than rows to begin with."""
    one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 20}])
    document = {"all-reduce-implementation": ["direct"], "local-mem-bw": 1600}
    document |= {"active-chunks-per-dimension": 8, "preferred-dataset-splits": 8}
    network = DimensionNetwork(["FullyConnected"], [32], [50], [500])
    return by_messages([one] * 32, network, System.from_document(document), congestion=True)


def _memory() -> anb.Simulation:
    """Remote memory, operations of a recorded duration, names."""
    rows = [
        {"kind": _MEMORY, "bytes": 4096},
        {"kind": _REPLAY, "duration_ns": 3_000},
        {"kind": COLLECTIVE, "collective": 0, "bytes": 8192},
    ]
    one = Operations.of(rows, [[], [0], [1]])
    document = {"all-reduce-implementation": ["ring"], "local-mem-bw": 1600}
    network = DimensionNetwork(["Ring"], [4], [50], [500])
    memory = Memory("PER_NPU_MEMORY_EXPANSION", 100, 10.0)
    return anb.Simulation(
        None,
        Workload([one] * 4, network, System.from_document(document), title="memory", memory=memory),
        fidelity="analytical",
    )


def _model() -> anb.Simulation:
    """A step of a transformer, with what ranks hold in memory."""
    plan = Parallelism(pipeline=2, tensor=2)
    return anb.Simulation(workload("gpt3-1.3b", plan, batch=4, microbatches=2, gpu="h100-sxm"))


def _replay(fidelity: str) -> Callable[[], anb.Simulation]:
    """A training step that is replayed: what it shows are recorded operations."""

    def made() -> anb.Simulation:
        step = workload(
            "gpt3-125m", Parallelism(tensor=2, pipeline=2, data=2), batch=4, microbatches=2, sequence=64
        )
        ran = anb.Simulation("dgx-h100", step, fidelity=fidelity)
        return anb.Simulation("dgx-h100", record(ran, fidelity=fidelity), fidelity=fidelity)

    return made


def _in_network() -> anb.Simulation:
    """Collectives that a switch does, in two dimensions."""
    one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 18}])
    document = {"all-reduce-implementation": ["inNetwork", "ring"], "preferred-dataset-splits": 3}
    network = DimensionNetwork(["Switch", "Ring"], [4, 2], [50, 25], [500, 700])
    return by_messages([one] * 8, network, System.from_document({**document, "local-mem-bw": 1600}))


def _stuck() -> anb.Simulation:
    """Ranks that never end: one receives what nobody sends."""
    ranks = [
        Operations.of(
            [{"kind": RECV, "peer": 1, "bytes": 1000, "tag": 1}, {"kind": COLLECTIVE, "bytes": 99}]
        ),
        Operations.of(
            [{"kind": SEND, "peer": 0, "bytes": 1000, "tag": 2}, {"kind": COLLECTIVE, "bytes": 99}]
        ),
    ]
    document = {"all-reduce-implementation": ["ring"], "local-mem-bw": 1600}
    return by_messages(ranks, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document(document))


def _too_late() -> anb.Simulation:
    """An operation that ends after more time than is counted."""
    rows = [{"kind": COMPUTE, "duration_ns": 10}, {"kind": COMPUTE, "duration_ns": 1 << 60}]
    one = Operations.of(rows, [[], [0]])
    return by_messages([one] * 2, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))


def _late() -> anb.Simulation:
    """A rank that starts late."""
    collective = anb.collectives.all_reduce("64 KiB", "ring")
    return anb.Simulation("ring:gpus=4", collective, fidelity="analytical", start={2: "20 us"})


def _infrastructure(fidelity: str) -> Callable[[], anb.Simulation]:
    collective = anb.collectives.all_reduce("64 KiB", "ring")
    return lambda: anb.Simulation("ring:gpus=4", collective, fidelity=fidelity)


MESSAGES: dict[str, Callable[[], anb.Simulation]] = {
    **{f"random {seed}": lambda seed=seed: messages(seed) for seed in range(10)},  # type: ignore[misc]
    "mixed": mixed,
    "mixed with congestion": lambda: mixed(congestion=True),
    "growing": _growing,
    "a model": _model,
    "memory": _memory,
    "a replay": _replay("analytical"),
    "a replay with congestion": _replay("congestion"),
    "in the network": _in_network,
    "stuck": _stuck,
    "too late": _too_late,
    "started late": _late,
    "routes": _infrastructure("analytical"),
    "routes with congestion": _infrastructure("congestion"),
}
"""Runs of messages by name."""

LAYERS: dict[str, Callable[[], anb.Simulation]] = {
    **{f"random {seed}": lambda seed=seed: layers(seed) for seed in range(10)},  # type: ignore[misc]
    "a torus": sim_of,
}
"""Runs of layer tables by name."""
