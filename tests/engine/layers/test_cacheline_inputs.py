"""Layer tables on the cache-line engine: the same operations, simulated by cache lines."""

import json

import numpy as np
import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.cacheline.workload import Graph
from astranb.engine.layers import cacheline_inputs
from astranb.infragraph import dimensions
from astranb.workload.astrasim1 import HierarchicalNetwork, Layer, LayerTable, Part, write_layer_table
from astranb.workload.astrasim2 import DimensionNetwork
from tests.engine.operations.support import inputs_of, run_of

PTRACK = HierarchicalNetwork(("Ring", "Switch"), (2, 2), (2, 1), (500, 500), (50, 50))
LAYERS = tuple(
    Layer(f"l{n}", Part(3000, "ALLGATHER", 2048), Part(2001), Part(2000, "ALLREDUCE", 8192), update_ns=100)
    for n in range(2)
)


def _simulated(run):
    inputs, durations = cacheline_inputs(run.inputs)
    graph = Graph.of(inputs, "layers", durations)
    assert isinstance(inputs.network, DimensionNetwork)
    rates = [rate * 1e9 for rate in inputs.network.bandwidth]
    infra = dimensions(inputs.network.topology, inputs.network.npus_count, rates, inputs.network.latency)
    sim = anb.Simulation(infra, graph, gpu="h100-sxm", checkpoint_bytes=0)
    sim.run()
    return graph, sim


def test_what_waits_for_what_and_how_long_it_takes():
    inputs, took = cacheline_inputs(inputs_of("DATA", LAYERS, 1, PTRACK))
    one = inputs.operations[0]
    # Two forward passes; of the last layer the weights' gradient, its collective, the update, the input's.
    assert took.tolist() == [3000, 3000, 2000, 0, 100, 2001, 2000, 0, 100]
    deps = [one.deps[a:b].tolist() for a, b in zip(one.dep_start[:-1], one.dep_start[1:], strict=True)]
    assert deps == [[], [0], [1], [2], [3], [2], [5], [6], [7]]
    assert inputs.groups == {}
    assert all(other is one for other in inputs.operations)
    twice, _ = cacheline_inputs(inputs_of("DATA", LAYERS, 2, PTRACK))
    second = twice.operations[0]
    # The second pass begins with what the first layer's update gives, and what was computed last.
    assert second.deps[second.dep_start[9] : second.dep_start[10]].tolist() == [6, 8]


def test_collectives_are_among_those_who_share_their_dimensions():
    inputs, _ = cacheline_inputs(inputs_of("HYBRID_DATA_MODEL", LAYERS, 1, PTRACK))
    assert inputs.groups == {0: (0, 1), 1: (0, 2), 2: (1, 3), 3: (2, 3)}
    groups = [one.rows["group"][one.rows["kind"] == 1].tolist() for one in inputs.operations]
    assert groups == [[0, 0, 1, 1], [0, 0, 2, 2], [3, 3, 1, 1], [3, 3, 2, 2]]


def test_the_machine_computes_what_the_table_says():
    for loop in ("DATA", "HYBRID_DATA_MODEL"):
        run = run_of(loop, LAYERS, 1, PTRACK)
        graph, sim = _simulated(run)
        kept = anb.Simulation.of_saved_bytes(sim.recipe()).engine.work
        assert kept.compute_ps().tolist() == graph.compute_ps().tolist()
        run.go()
        assert set(graph.compute_ps().tolist()) == {run.result().compute_ps}
        ends = np.asarray(sim.engine.machine.gpus["ended_ps"])
        assert (ends > run.result().compute_ps).all()


@pytest.mark.parametrize("infra", ["ring:gpus=4", PTRACK], ids=["infrastructure", "dimensions"])
def test_its_routes_change_by_cache_lines(infra):
    sim = anb.Simulation(infra, inputs_of("DATA", LAYERS, 1, PTRACK), fidelity="cacheline", record=False)
    whole = sim.fork()
    whole.run()
    sim.take_down("gpu[0]->gpu[1]", both=True, at=whole.now_ps // 3)
    sim.reroute()
    assert sim.run().why == "end"
    lines = [int(one.engine.machine.clock[0].lines) for one in (sim, whole)]
    assert lines[0] == lines[1]
    assert sim.now_ps > whole.now_ps


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_its_own_network_has_no_other_routes(fidelity):
    sim = anb.Simulation(PTRACK, inputs_of("DATA", LAYERS, 1, PTRACK), fidelity=fidelity)
    with pytest.raises(InputError, match="no other routes; take an infrastructure"):
        sim.reroute()


def test_the_command_runs_it(tmp_path, capsys):
    write_layer_table(LayerTable("DATA", LAYERS), tmp_path / "w.txt")
    keys = ["scheduling-policy: LIFO", "endpoint-delay: 10", "active-chunks-per-dimension: 1"]
    keys += ["preferred-dataset-splits: 2", "all-reduce-implementation: ring_ring"]
    keys += ["collective-optimization: localBWAware", "boost-mode: 1"]
    (tmp_path / "s.txt").write_text("\n".join(keys) + "\n")
    network = {
        "topologies-per-dim": ["Ring", "Switch"], "units-count": [2, 2], "links-count": [2, 1],
        "link-latency": [500, 500], "link-bandwidth": [50, 50],
    }  # fmt: skip
    (tmp_path / "n.json").write_text(json.dumps(network))
    files = [f"{tmp_path}/w.txt", f"--system={tmp_path}/s.txt", f"--network={tmp_path}/n.json"]
    command = ["run", "trace", *files, "--fidelity", "cacheline"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fidelity"] == "cacheline"
    assert [row["compute_ps"] for row in document["per_rank"]] == [12_001_000] * 4
    assert document["line_hops"] > 0
    for option in ("--explain", f"--frames={tmp_path}", f"--csv={tmp_path}"):
        assert main([*command, option]) == 2
        assert "does not apply to ASTRA-sim 1.0 files at --fidelity cacheline" in capsys.readouterr().err
