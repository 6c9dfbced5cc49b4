"""Inputs by fidelity: which run, which are refused, and the results at each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.fidelity import FIDELITIES
from astranb.net import Network
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, DimensionNetwork, Operations, System, Workload

ONE = Operations.of([{"kind": COMPUTE, "duration_ns": 5_000}, {"kind": COLLECTIVE, "bytes": 4096}], [[], [0]])
DIMENSIONS = DimensionNetwork(["Ring"], [4], [50], [500])
STEP = Workload([ONE] * 4, DIMENSIONS, System.from_document({"all-reduce-implementation": ["ring"]}))
LAYERS = LayerWorkload(
    LayerTable("MICRO", (Layer("a", weight_gradient=Part(1000, "ALLREDUCE", 4096)),)),
    LayerSystem({"all-reduce": (LayerAlgorithm("ring"),)}),
    HierarchicalNetwork(("Ring",), (4,), (2,), (500,), (50,)),
)
SUBJECTS: dict[str, tuple[Any, Any]] = {
    "collective": (DIMENSIONS, anb.collectives.all_reduce("4 KiB", "ring")),
    "workload": (None, STEP),
    "layers": (None, LAYERS),
}
TABLES = {
    "ranks", "phases", "links", "blocks", "ops", "spans", "events", "signals", "flights", "activity",
    "operations", "collectives", "dimensions", "layers", "memory", "critical_path",
}  # fmt: skip
RANKS = {
    "rank", "done", "end_ps", "compute_ps", "exposed_comm_ps", "memory_ps", "communication_ps",
    "overlapped_comm_ps", "astrasim_compute_ps", "astrasim_exposed_comm_ps", "idle_ps",
}  # fmt: skip


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_what_a_result_does_not_have_is_absent_with_a_reason(name, fidelity):
    sim = anb.Simulation(*SUBJECTS[name], fidelity=fidelity)
    sim.run()
    result = sim.result
    assert set(result.tables) | set(result.absent) >= TABLES
    assert not set(result.tables) & set(result.absent)
    assert all(result.absent.values())
    for bandwidth in ("algbw_Bps", "busbw_Bps"):
        assert (getattr(result, bandwidth) is None) == (bandwidth in result.absent) == (name != "collective")
    rows = result.per_rank()
    assert set(rows[0]) >= RANKS
    parts = {"issue_or_data_ps", "semaphore_ps", "fence_ps", "signal_ps", "blocks_idle_ps"}
    assert parts <= set(rows[0]) | set(result.absent)
    for row in rows:
        assert row["done"]
        assert row["communication_ps"] == row["exposed_comm_ps"] + row["overlapped_comm_ps"]
        assert row["end_ps"] == row["astrasim_compute_ps"] + row["astrasim_exposed_comm_ps"]
        shares = ("compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")
        assert sum(row[part] for part in shares) == row["end_ps"]
    assert result.time_ps == max(row["end_ps"] for row in rows)
    with pytest.raises(InputError, match="unknown table"):
        result.table(next(iter(TABLES & set(result.absent))))


@pytest.mark.parametrize(
    "name, options, where",
    [
        ("collective", {"gpu": "h100-sxm"}, "gpu"),
        ("collective", {"network": Network(arbitration="fair")}, "network"),
        ("collective", {"launch": "graph"}, "launch"),
        ("collective", {"memory_bytes": 1 << 30}, "memory_bytes"),
        ("workload", {"gpu": "h100-sxm"}, "gpu"),
        ("workload", {"network": Network()}, "network"),
        ("layers", {"launch": "stream"}, "launch"),
    ],
)
def test_options_of_cache_lines_are_refused_by_messages(name, options, where):
    for fidelity in ("analytical", "congestion"):
        with pytest.raises(InputError) as error:
            anb.Simulation(*SUBJECTS[name], fidelity=fidelity, **options)
        said = f"{where}: does not apply at fidelity '{fidelity}'; leave it out, or use fidelity='cacheline'"
        assert str(error.value) == said


@pytest.mark.parametrize("changes", [{"protocol": "LL"}, {"channels": 2}])
def test_protocols_and_channels_of_a_collective_are_refused_by_messages(changes):
    infra, collective = SUBJECTS["collective"]
    with pytest.raises(InputError, match=f"{next(iter(changes))}: does not apply at fidelity 'congestion'"):
        anb.Simulation(infra, dataclasses.replace(collective, **changes), fidelity="congestion")


@pytest.mark.parametrize("changes", [{"rendezvous": True}, {"queues": 2}])
def test_options_of_the_system_layer_are_refused_by_cache_lines(changes):
    step = dataclasses.replace(STEP, system=dataclasses.replace(STEP.system, **changes))
    anb.Simulation(step)
    with pytest.raises(InputError, match=f"{next(iter(changes))}: does not apply at fidelity 'cacheline'"):
        anb.Simulation(step, fidelity="cacheline")


def test_a_function_named_as_an_algorithm_is_not_that_algorithm():
    def ring(p):
        del p

    with pytest.raises(InputError, match="'ring' is not simulated by messages; use fidelity='cacheline'"):
        anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", ring), fidelity="analytical")


def test_one_npu_stands_for_all_where_nobody_looks():
    sims = [anb.Simulation(STEP, record=record) for record in (False, True)]
    assert [sim.engine.run.folds for sim in sims] == [True, False]
    for sim in sims:
        sim.run()
    folded, each = sims
    assert folded.state_hash() == each.state_hash()
    assert folded.events == each.events
    for sim in sims:
        sim.back(3)
    assert folded.state_hash() == each.state_hash()
    edited = anb.Simulation(STEP, record=False)
    edited.set("rank[1].speed", 0.5)
    edited.run()
    assert edited.result.time_ps > each.result.time_ps
