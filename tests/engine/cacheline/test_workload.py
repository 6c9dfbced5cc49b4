"""Workloads by cache lines: the same machine as for one collective, and a graph around it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Joined
from astranb.core.errors import Deadlock, InputError, WrongResult
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import tables as t
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    MEMORY,
    RECV,
    SEND,
    InfraNetwork,
    Memory,
    Operations,
    System,
    Workload,
)

SYSTEM = System.from_document(
    {
        "all-reduce-implementation": ["ring"],
        "all-gather-implementation": ["direct"],
        "preferred-dataset-splits": 1,
    }
)


def call(name, size, **more):
    return {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": size, **more}


def spend(us, **more):
    return {"kind": COMPUTE, "duration_ns": 1000 * us, **more}


def graph(*ranks, **more):
    return Graph([Operations.of(rows, deps) for rows, deps in ranks], SYSTEM, **more)


def alike(count, rows, deps=()):
    one = Operations.of(rows, deps)
    return Graph([one] * count, SYSTEM)


def ended(sim):
    """Return the end of each node of each rank, in ps."""
    return [int(sim.engine.machine.blocks[block].ended_ps) for block in joined(sim).completion]


def joined(sim):
    assert isinstance(sim.engine.program, Joined)
    return sim.engine.program


def run(graph, infra=None):
    sim = anb.Simulation(infra or f"ring:gpus={len(graph.operations)}", graph, gpu="h100-sxm")
    sim.run()
    return sim


@pytest.mark.parametrize(
    "name, size, whole, algorithm",
    [
        ("all_reduce", 4096, 4096, "ring"),
        ("all_gather", 1024, 4096, "allpairs"),
        ("reduce_scatter", 4096, 4096, "ring"),
        ("all_to_all", 4096, 4096, "allpairs"),
    ],
)
def test_one_collective_takes_as_long_as_alone(name, size, whole, algorithm):
    alone = anb.Simulation("ring:gpus=4", getattr(anb.collectives, name)(whole, algorithm), gpu="h100-sxm")
    alone.run()
    sim = run(alike(4, [call(name, size)]))
    assert ended(sim) == alone.engine.machine.gpus["ended_ps"].tolist()
    # One event more a rank: its gate is launched.
    assert sim.events == alone.events + 4


def test_operations_are_the_same_table_as_by_messages():
    names = ["warm up", "sum", "rest"]
    step = Operations.of([spend(5), call("all_reduce", 4096), spend(3)], [[], [0], [0]], names=names)
    infra = anb.infragraph.blueprint("ring:gpus=4")
    workload = Workload([step] * 4, InfraNetwork(infra), SYSTEM)
    tables = {}
    for fidelity in ("analytical", "cacheline"):
        sim = anb.Simulation(infra, workload, fidelity=fidelity)
        sim.run("6 us")
        rows = sim.result.to_dataframe("operations").set_index(["rank", "operation"]).sort_index()
        assert dict(rows.loc[(0, 1), ["name", "what", "done"]]) == {
            "name": "sum", "what": "all_reduce", "done": False
        }  # fmt: skip
        assert (rows.loc[(0, 1), "start_ps"], rows.loc[(0, 1), "end_ps"]) == (5_000_000, sim.now_ps)
        sim.run()
        tables[fidelity] = sim.result.to_dataframe("operations").set_index(["rank", "operation"]).sort_index()
        assert tables[fidelity]["done"].all()
        assert tables[fidelity]["end_ps"].max() == sim.result.time_ps
    known = ["name", "what", "bytes", "start_ps"]
    assert tables["cacheline"][known].equals(
        tables["analytical"][known].astype(tables["cacheline"][known].dtypes)
    )
    alone = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", "ring"))
    assert "operations" not in alone.result.tables


@pytest.mark.parametrize("root", [0, 2])
def test_a_broadcast_comes_from_its_root(root):
    alone = anb.Simulation("ring:gpus=4", anb.collectives.broadcast(4096, root=root), gpu="h100-sxm")
    alone.run()
    assert (
        ended(run(alike(4, [call("broadcast", 4096, peer=root)])))
        == alone.engine.machine.gpus["ended_ps"].tolist()
    )


@pytest.mark.parametrize("name", ["reduce", "scatter", "gather"])
def test_others_have_a_root_too(name):
    size = 4096
    whole = size * 4 if name == "gather" else size  # what each puts in, and the larger of the buffers
    make = getattr(anb.collectives, name)
    alone = anb.Simulation("ring:gpus=4", make(whole, root=2), gpu="h100-sxm")
    alone.run()
    took = ended(run(alike(4, [call(name, size, peer=2)])))
    assert took == alone.engine.machine.gpus["ended_ps"].tolist()


def test_roots_that_differ_are_named():
    with pytest.raises(InputError, match="root 0 on rank 0 meets root 1 on rank 1"):
        graph(([call("broadcast", 64)], ()), ([call("broadcast", 64, peer=1)], ()))


def test_what_follows_a_computation_comes_so_much_later():
    alone = run(alike(4, [call("all_reduce", 4096)]))
    later = run(alike(4, [spend(7), call("all_reduce", 4096)], [[], [0]]))
    assert ended(later)[1::2] == [7_000_000 + end for end in ended(alone)]
    assert ended(later)[::2] == [7_000_000] * 4


def test_computation_and_communication_overlap_and_two_computations_do_not():
    both = run(alike(2, [spend(900), call("all_reduce", 4096), spend(100)]))
    collective_ps = ended(run(alike(2, [call("all_reduce", 4096)])))[0]
    computed_ps, reduced_ps, end_ps = ended(both)[:3]
    assert (reduced_ps, end_ps) == (collective_ps, computed_ps + 100_000_000)
    # The first computation makes up for the SM that the collective has, one of 132.
    assert 900_000_000 < computed_ps <= 900_000_000 + -(-collective_ps // 132)


def test_messages_are_matched_by_rank_tag_and_size():
    first = [{"kind": SEND, "peer": 1, "tag": 3, "bytes": 5000}, {"kind": RECV, "peer": 1, "bytes": 64}]
    second = [{"kind": RECV, "peer": 0, "tag": 3, "bytes": 5000}, {"kind": SEND, "peer": 0, "bytes": 64}]
    sim = run(graph((first, [[], []]), (second, [[], [0]])))
    sent, answered, received, answer = ended(sim)
    # A sender ends when its signal is acknowledged.
    assert 0 < received < sent
    assert received < answered < answer


def test_every_poll_is_of_the_own_gpu():
    sim = run(alike(4, [call("all_reduce", 4096), call("all_gather", 512), call("all_reduce", 64)]))
    kinds = sim.engine.machine.recording.flights["kind"][
        : int(sim.engine.machine.recording.recorder[0].flights)
    ]
    assert len(kinds)
    assert set(kinds.tolist()) <= {0, 1, 2, 3, 4, 5}  # loads, stores and signals, there and back
    ops, operands = sim.engine.machine.ops, sim.engine.machine.operands
    waits = ops["kind"] == t.WAIT
    assert (
        operands["gpu"][ops["first_source"][waits]] == sim.engine.machine.blocks["gpu"][ops["block"][waits]]
    ).all()
    assert (operands["out_routes"][ops["first_source"][waits]] == 0).all()


def test_what_is_done_twice_far_apart_takes_the_same_time_twice():
    gap = [call("all_reduce", 4096), spend(50), call("all_reduce", 4096)]
    ends = ended(run(alike(4, gap, [[], [0], [1]])))
    assert ends[2] - ends[1] == pytest.approx(ends[0], rel=0.02)


def test_groups_run_beside_one_another():
    ranks = [([call("all_reduce", 8192, group=1 + rank // 2)], ()) for rank in range(4)]
    sim = run(graph(*ranks, groups={1: [0, 1], 2: [2, 3]}), "switch:gpus=4")
    assert len(set(ended(sim))) <= 2
    assert max(ended(sim)) < max(ended(run(alike(4, [call("all_reduce", 8192)]), "switch:gpus=4")))


def test_every_verb_works_as_for_a_collective():
    sim = anb.Simulation(
        "ring:gpus=4", alike(4, [spend(2), call("all_reduce", 2048), spend(1)], [[], [0], [1]])
    )
    sim.step(500)
    before, fork = sim.state_hash(), sim.fork()
    sim.step(700)
    sim.back(700)
    assert sim.state_hash() == before
    sim.run()
    fork.run()
    assert sim.state_hash() == fork.state_hash()
    assert sim.engine.program.phase_names[0].startswith("all_reduce 1")
    assert "compute 0" in sim.engine.program.phase_names
    assert "4 GPUs" in repr(sim)
    assert "workload" in sim.result.summary()
    phases = sim.result.to_dataframe("phases")
    assert len(phases) == len(sim.engine.program.phase_names)


def test_the_critical_path_is_the_time_and_goes_through_the_graph():
    sim = run(alike(4, [spend(3), call("all_reduce", 2048), spend(2)], [[], [0], [1]]))
    path = sim.critical_path()
    assert sum(segment.end_ps - segment.start_ps for segment in path.line_segments) == sim.result.time_ps
    assert sum(p.end_ps - p.start_ps for p in path.line_segments if p.cause == "compute") == 5_000_000


def test_what_waits_says_for_what():
    sim = anb.Simulation("ring:gpus=2", alike(2, [spend(3), call("all_reduce", 2048)], [[], [0]]))
    sim.run(until="1 us")
    waiting = int(joined(sim).first[1])
    why = str(sim.why(f"gpu[0].block.{waiting}"))
    assert "waits for the end of 1 other" in why
    assert "until 3 µs" in why


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=6))
def test_computations_of_a_rank_follow_one_another(listed):
    rows = [spend(us, on_cpu=int(cpu)) for us, cpu in listed]
    sim = run(alike(2, rows))
    # A computation of no time takes a nanosecond, as in ASTRA-sim 2.0.
    cpu = sum(max(1000 * us, 1) for us, on_cpu in listed if on_cpu)
    gpu = sum(max(1000 * us, 1) for us, on_cpu in listed if not on_cpu)
    assert sim.result.time_ps == 1000 * max(cpu, gpu)


def test_remote_memory_takes_its_time():
    memory = Memory.from_document(
        {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
    )
    one = Operations.of([{"kind": MEMORY, "bytes": 5000}])
    assert run(Graph([one] * 2, SYSTEM, memory=memory)).result.time_ps == 200_000


@pytest.mark.parametrize(
    "ranks, message",
    [
        ([([call("all_reduce", 64)], ()), ([], ())], "rank 1 never calls"),
        ([([call("all_reduce", 64)], ()), ([call("all_reduce", 65)], ())], "64 B on rank 0 meets"),
        ([([call("all_reduce", 64)], ()), ([call("all_gather", 64)], ())], "meets all_gather"),
        ([([{"kind": SEND, "peer": 1, "bytes": 8}], ()), ([], ())], "rank 1, which receives 0"),
        ([([spend(1), spend(1)], [[1], [0]]), ([], ())], "in a circle"),
    ],
)
def test_ranks_that_do_not_match_are_named(ranks, message):
    with pytest.raises(InputError, match=message):
        graph(*ranks)


def test_too_many_ranks_are_refused():
    with pytest.raises(InputError, match="4 ranks for an infrastructure of 8 GPUs"):
        anb.Simulation("ring:gpus=8", alike(4, [spend(1)]))
    sim = anb.Simulation("ring:gpus=2", alike(2, [spend(1)]))
    with pytest.raises(InputError, match="no algorithm"):
        sim.rebuilt(algorithm="allpairs")


def test_collectives_in_another_order_are_a_deadlock():
    rows = [call("all_reduce", 64, group=1), call("all_reduce", 64, group=2)]
    second = [rows[1], rows[0]]
    work = graph((rows, ()), (second, ()), groups={1: [0, 1], 2: [1, 0]})
    with pytest.raises(Deadlock, match="begins when 1 other has ended"):
        run(work)


def test_a_wrong_result_of_one_part_is_found():
    sim = anb.Simulation("ring:gpus=4", alike(4, [call("all_reduce", 4096), call("all_reduce", 4096)]))
    program = joined(sim)
    where = program.of_part[1]
    output = where.start + int(np.flatnonzero(sim.engine.machine.slices["buffer"][where] == 1)[0])
    sim.run()
    sim.engine.machine.slices["writer"][output] = t.UNWRITTEN
    with pytest.raises(WrongResult, match="all_reduce 1: wrong result on rank 0"):
        program.check(sim.engine.machine.ops, sim.engine.machine.operands, sim.engine.machine.slices)


def test_plain_python_does_the_same(monkeypatch):
    work = alike(2, [spend(1), call("all_reduce", 512)], [[], [0]])
    compiled = run(work)
    monkeypatch.setenv("ASTRANB_JIT", "0")
    assert run(work).state_hash() == compiled.state_hash()
