"""Bandwidths and latencies of layer tables' networks that change in a page: every table is as in Python."""

from __future__ import annotations

import random
from typing import Any

import pytest

import astranb as anb
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)
from tests.widgets.live.both import both
from tests.widgets.live.kernels import page_kernel

_WORDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_PARTS = ("ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL")


def _algorithms(chance: random.Random, word: str, dims: int) -> tuple[LayerAlgorithm, ...]:
    if chance.random() < 0.2:
        return (LayerAlgorithm(chance.choice(("ring", "direct")), whole=True),)
    names = ["ring", "direct", "direct2", "direct3"]
    names += ["halvingDoubling"] if word != "all-to-all" else []
    names += ["doubleBinaryTree"] if word == "all-reduce" else []
    return tuple(LayerAlgorithm.parse(chance.choice(names)) for _ in range(dims))


def _table(chance: random.Random) -> LayerTable:
    def part() -> Part:
        return Part(chance.randrange(5_000), chance.choice(_PARTS), chance.choice((99, 1 << 17, 1_000_003)))

    layers = tuple(Layer(f"layer{n}", part(), part(), part(), update_ns=50) for n in range(2))
    return LayerTable(chance.choice(("DATA", "MODEL", "HYBRID_DATA_MODEL")), layers)


def random_run(seed: int) -> anb.Simulation:
    """Any kind of network, system and algorithms."""
    chance = random.Random(seed)
    dims = chance.choice((1, 2, 3))
    compat = chance.random() < 0.5
    more: dict[str, Any] = {}
    if chance.random() < 0.6:
        more = {
            "nic_ns": tuple(chance.choice((0.0, 12.5)) for _ in range(dims)),
            "router_ns": tuple(chance.choice((0.0, 33.3)) for _ in range(dims)),
            "hbm_ns": (400.0,) * dims,
            "hbm_bandwidth": (chance.choice((0.5, 900.0)),) * dims,
            "hbm_scale": (chance.choice((0.0, 1.5)),) * dims,
        }
    network = HierarchicalNetwork(
        tuple(chance.choice(("Ring", "FullyConnected", "Switch")) for _ in range(dims)),
        tuple(chance.choice((2, 4, 8)) for _ in range(dims)),
        tuple(chance.choice((7, 8)) for _ in range(dims)),
        tuple(chance.choice((0.5, 500.0)) for _ in range(dims)),
        tuple(chance.choice((3.7, 50.0)) for _ in range(dims)),
        compat=compat,
        **more,
    )
    system = LayerSystem(
        {word: _algorithms(chance, word, dims) for word in _WORDS},
        splits=chance.choice((1, 3)),
        endpoint_ns=chance.choice((0, 10)),
        baseline=chance.random() < 0.3,
        between=chance.choice(("ascending", "roundRobin", "themis", "themisFlex")),
        active_chunks=chance.choice((1, 2)),
        queues=chance.choice((1, 2)),
    )
    return anb.Simulation(None, LayerWorkload(_table(chance), system, network, chance.choice((1, 2))))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]
)
def test_networks_change_as_in_python(seed: int) -> None:
    sim, chance = random_run(seed), random.Random(seed)
    dims = len(sim.engine.about.topology)
    with both(sim) as run:
        for number in range(6):
            dim = f"dim[{chance.randrange(dims)}]"
            run.go(type="event", n=chance.choice((1, 5, 40)))
            bandwidth = chance.choice(
                (f"{chance.randrange(1, 900)} GB/s", "12345678 B/s", "3 GiB/s", "9 Gb/s")
            )
            latency = chance.choice((f"{chance.randrange(900)} ns", "1 ps", "0 ns", "70 us"))
            name, value = chance.choice((("bandwidth", bandwidth), ("latency", latency)))
            run.refused_or_done("set", path=f"{dim}.{name}", value=value)
            run.same_tables()
            run.ask("parameters", path=dim)
            run.ask("hash")
            for path in ("rank[0]", dim):
                message = {"type": "inspect", "path": path}
                assert run.page.send(message) == run.python.send(message)
            if number == 3:
                run.apply("undo")
                run.go(type="back", n=11)
        assert sim.edits
        run.go(type="to_end")
        run.same_tables()
        run.go(type="reset")
        run.go(type="to_end")


def test_networks_that_are_far_too_slow() -> None:
    sim = random_run(1)
    with both(sim) as run:
        run.go(type="event", n=3)
        for path, value in [
            ("dim[0].bandwidth", "1 B/s"),
            ("dim[0].latency", "5000 s"),
            ("dim[0].latency", "3000 s"),
            ("dim[0].bandwidth", "0 B/s"),
            ("dim[9].bandwidth", "1 GB/s"),
            ("dim[0].bandwidth", None),
        ]:
            before = sim.state_hash()
            run.refused_or_done("set", path=path, value=value)
            assert sim.state_hash() == before
            run.agree()
            run.same_tables()
        assert not sim.edits


def test_with_congestion_a_network_is_changed_in_jupyterlab() -> None:
    network = HierarchicalNetwork(("Ring",), (4,), (2,), (500,), (50,))
    system = LayerSystem(dict.fromkeys(_WORDS, (LayerAlgorithm("ring"),)))
    table = LayerTable("DATA", (Layer("a", weight_gradient=Part(1, "ALLREDUCE", 1 << 16)),))
    work = LayerWorkload(table, system, network, congestion=True)
    with page_kernel(anb.Simulation(None, work)) as page:
        options = {"verb": "set", "options": {"path": "dim[0].bandwidth", "value": "1 GB/s"}}
        ((answer, _),) = page.send({"type": "ask", "id": 1, "question": "apply", "options": options})
        assert "needs JupyterLab" in answer["error"]
