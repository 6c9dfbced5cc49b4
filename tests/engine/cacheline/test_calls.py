"""Workloads by cache lines: saved and gone on with, collectives of one's own, the cost of a launch."""

import json

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Joined
from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import InputError
from astranb.core.planes import pack, unpack
from astranb.engine.cacheline.workload import Graph
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    MEMORY,
    RECV,
    SEND,
    Memory,
    Operations,
    System,
)

SYSTEM = System.from_document(
    {"all-reduce-implementation": ["ring"], "model-shared-bus": 1, "L": 2, "npu-speed": {"1": 0.5}}
)
POOL = Memory.from_document(
    {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
)


def call(name, size, **more):
    return {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": size, **more}


def passed_on(rank, ranks=4, size=4096, us=0):
    """An all-gather of one's own: each sends what it has to the next, once, and computes."""
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    return Operations.of(
        [
            {"kind": SEND, "peer": after, "bytes": size, "tag": 5},
            {"kind": RECV, "peer": before, "bytes": size, "tag": 5},
            {"kind": COMPUTE, "duration_ns": 1000 * us},
        ],
        [[], [], [1]],
    )


def ended(sim):
    assert isinstance(sim.engine.program, Joined)
    return [int(sim.engine.machine.blocks[block].ended_ps) for block in sim.engine.program.completion]


def run(work, **more):
    sim = anb.Simulation(f"ring:gpus={len(work.operations)}", work, gpu="h100-sxm", **more)
    sim.run()
    return sim


def workload():
    """Everything that a workload may hold: shared and own operations, groups, graphs, memory."""
    rows = [
        call("all_reduce", 2048),
        {"kind": COMPUTE, "duration_ns": 2_000},
        call("all_gather", 4096),
        {"kind": MEMORY, "bytes": 5000},
        call("broadcast", 1024, group=3, peer=2),
    ]
    deps = [[], [0], [1], [], [2]]
    ranks = [Operations.of(rows, deps, {2: passed_on(rank, us=1)}) for rank in range(4)]
    return Graph(ranks, SYSTEM, {3: [2, 3, 0, 1]}, POOL, "all of it")


def test_a_run_is_saved_and_gone_on_with(tmp_path):
    sim = anb.Simulation("ring:gpus=4", workload(), gpu="h100-sxm", launch="graph")
    sim.step(700)
    sim.set("gpu[1].sms", 8)
    sim.step(100)
    sim.save(tmp_path / "run")
    again = anb.Simulation.load(tmp_path / "run")
    assert again.state_hash() == sim.state_hash()
    loaded = again.engine.work
    assert isinstance(loaded, Graph)
    assert (loaded.title, loaded.system, loaded.memory) == ("all of it", SYSTEM, POOL)
    again.back(300)
    sim.back(300)
    assert again.state_hash() == sim.state_hash()
    sim.run()
    again.run()
    assert again.state_hash() == sim.state_hash()
    assert again.engine.program.phase_names == sim.engine.program.phase_names
    assert loaded.compute_ps().tolist() == workload().compute_ps().tolist()
    again.save(tmp_path / "twice")
    assert anb.Simulation.load(tmp_path / "twice").state_hash() == sim.state_hash()


def test_operations_that_ranks_share_are_saved_once(tmp_path):
    one = Operations.of([call("all_reduce", 512)])
    anb.Simulation("ring:gpus=4", Graph([one] * 4, SYSTEM)).save(tmp_path / "run")
    assert len(members(tmp_path / "run")[0]["shared"]) == 1
    loaded = anb.Simulation.load(tmp_path / "run").engine.work
    assert isinstance(loaded, Graph)
    assert all(other is loaded.operations[0] for other in loaded.operations)


def members(path):
    """Return the document of a recipe, and its tables."""
    found = read_archive(path.read_bytes(), "", "", "")
    return json.loads(found["recipe.json"]), unpack(found["tables"], "", "", "")


def refused(path, document, tables):
    """Return the line with which a recipe of a document and tables is refused."""
    made = {"recipe.json": json.dumps(document).encode(), "tables": pack(tables)}
    path.write_bytes(write_archive(made))
    with pytest.raises(InputError) as found:
        anb.Simulation.load(path)
    return str(found.value)


def test_a_damaged_file_is_refused(tmp_path):
    one = Operations.of([call("all_reduce", 512)])
    anb.Simulation("ring:gpus=2", Graph([one] * 2, SYSTEM)).save(tmp_path / "run")
    document, tables = members(tmp_path / "run")
    rows = document["shared"][0]["rows"]["array"]
    bad = tmp_path / "bad"
    assert "is not valid" in refused(bad, document, tables | {rows: np.zeros(1)})
    assert "shared[0].rows" in refused(bad, document, {n: t for n, t in tables.items() if n != rows})
    document["inputs"]["work"]["operations"] = [{"ref": 0}, {"ref": 7}]
    assert "operations[1]: reference 7 does not exist" in refused(bad, document, tables)


def test_a_collective_of_ones_own_takes_as_long_as_what_it_is_made_of():
    custom = Graph(
        [Operations.of([call("all_gather", 4096)], [[]], {0: passed_on(r)}) for r in range(4)], SYSTEM
    )
    plain = Graph([passed_on(rank) for rank in range(4)], SYSTEM)
    whole, parts = run(custom), run(plain)
    # Of each rank four nodes (three of its own and the collective's end), and three.
    ends, same = np.reshape(ended(whole), (4, 4)), np.reshape(ended(parts), (4, 3))
    assert (ends[:, 0] == same[:, 0]).all()
    # A receive polls: thread blocks on other SMs may see what has come one round trip sooner or later.
    assert np.abs(ends[:, 1:3] - same[:, 1:]).max() < 700_000
    assert (ends[:, 3] == ends[:, :3].max(1)).all()
    assert "all_gather 0: message 0" in whole.engine.program.phase_names


def test_what_follows_waits_for_the_end_and_what_comes_before_is_waited_for():
    rows = [
        {"kind": COMPUTE, "duration_ns": 7_000},
        call("all_gather", 4096),
        {"kind": COMPUTE, "duration_ns": 2_000},
    ]
    deps = [[], [0], [1]]
    even = System.from_document({})
    alone = Graph([Operations.of([rows[1]], [[]], {0: passed_on(r, us=3)}) for r in range(4)], even)
    within = Graph([Operations.of(rows, deps, {1: passed_on(r, us=3)}) for r in range(4)], even)
    took, ends = ended(run(alone)), np.reshape(ended(run(within)), (4, 6))
    assert (ends[:, 4] == ends[:, 0] + np.array(took)[3::4]).all()
    assert (ends[:, 5] == ends[:, 4] + 2_000_000).all()


def test_messages_of_a_graph_do_not_meet_others_of_the_same_tag():
    rows = [
        call("all_gather", 4096),
        {"kind": SEND, "peer": None, "bytes": 4096, "tag": 5},
        {"kind": RECV, "peer": None, "bytes": 4096, "tag": 5},
    ]
    ranks = []
    for rank in range(4):
        own = [rows[0], rows[1] | {"peer": (rank + 1) % 4}, rows[2] | {"peer": (rank - 1) % 4}]
        ranks.append(Operations.of(own, [[], [0], []], {0: passed_on(rank)}))
    ends = np.reshape(ended(run(Graph(ranks, SYSTEM))), (4, 6))
    # The receive outside belongs to the message that is sent when the graph has ended.
    assert (ends[:, 5] > ends[:, 3]).all()


def test_ranks_without_the_graph_and_messages_without_a_half_are_named():
    with_it = Operations.of([call("all_gather", 64)], [[]], {0: passed_on(0, 2)})
    without = Operations.of([call("all_gather", 64)])
    with pytest.raises(InputError, match="graph of its own on rank 0, and none on rank 1"):
        Graph([with_it, without], SYSTEM)
    lonely = Operations.of([call("all_gather", 64)], [[]], {0: Operations.of([])})
    with pytest.raises(InputError, match="all_gather 0: rank 0 sends 1 message"):
        Graph([with_it, lonely], SYSTEM)


def test_a_launch_comes_before_each_collective_and_no_computation():
    gpu = anb.gpu.preset("h100-sxm")
    rows = [{"kind": COMPUTE, "duration_ns": 5_000}, call("all_reduce", 2048), call("all_reduce", 2048)]
    work = Graph([Operations.of(rows, [[], [0], [1]])] * 4, System.from_document({}))
    ends = {launch: ended(run(work, launch=launch)) for launch in ("none", "graph", "stream")}
    assert ends["none"][:3] != ends["stream"][:3]
    for launch, cost_ps in (("graph", gpu.graph_ps), ("stream", gpu.launch_ps)):
        assert cost_ps > 0
        compute, first_launch, first, second_launch, second = ends[launch][:5]
        assert compute == 5_000_000
        assert first_launch == compute + cost_ps
        assert first == ends["none"][1] + cost_ps
        assert second_launch == first + cost_ps
        assert second > second_launch
    with pytest.raises(InputError, match="unknown launch 'often'"):
        anb.Simulation("ring:gpus=4", work, launch="often")


def test_a_slow_rank_computes_slowly_and_the_others_wait_for_it():
    step = Operations.of([{"kind": COMPUTE, "duration_ns": 3_000}, call("all_reduce", 4096)], [[], [0]])
    plain = System.from_document({"all-reduce-implementation": ["ring"]})
    third = System.from_document({"all-reduce-implementation": ["ring"], "npu-speed": {"2": 0.3}})
    even, slow = (Graph([step] * 4, system) for system in (plain, third))
    assert slow.compute_ps().tolist() == [3_000_000, 3_000_000, 10_000_000, 3_000_000]
    # To the next poll: the others have begun, and look whether anything has come.
    assert 7_000_000 <= run(slow).now_ps - run(even).now_ps < 7_500_000


def test_a_number_that_no_operation_has_is_refused(tmp_path):
    anb.Simulation("ring:gpus=4", workload(), gpu="h100-sxm").save(tmp_path / "run")
    document, tables = members(tmp_path / "run")
    name = document["shared"][-1]["rows"]["array"]
    for field, value in (("kind", 99), ("collective", 8), ("on_cpu", 2)):
        rows = np.array(tables[name])
        rows[field][:] = value
        text = refused(tmp_path / "bad", document, tables | {name: rows})
        assert "inputs.work" in text
        assert f"rows.{field}: out of range in row 0" in text
    document["inputs"]["work"]["system"]["splits"] = 0
    assert "inputs.work.system" in refused(tmp_path / "bad", document, tables)
