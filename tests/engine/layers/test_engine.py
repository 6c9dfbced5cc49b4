"""ASTRA-sim 1.0's layer tables under the verbs of a workload: exact, there and back."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.layers import LayerRun
from astranb.sim import Simulation
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerTable,
    LayerWorkload,
    Part,
    read_system,
    training_loop,
    write_layer_table,
)
from astranb.workload.astrasim1.loops import registered
from tests.engine.operations.support import CONVS, TORUS, cycles_are_timesteps, run_of, sim_of

UNITS = ("event", "cycle", "operation", "phase", "pass")
WHOLE = run_of()
WHOLE.go()


@st.composite
def runs(draw):
    """Tables of any loop, computations of any length (none too), in both modes."""
    loop = draw(st.sampled_from(["DATA", "DATA_REORDER", "MODEL", "HYBRID_DATA_MODEL", "MICRO"]))
    kinds = st.sampled_from(["ALLREDUCE", "ALLGATHER", "ALLTOALL", "NONE"])
    layers = []
    for number in range(draw(st.integers(1, 4))):
        parts = []
        for _ in range(3):
            kind = draw(kinds)
            parts.append(Part(draw(st.integers(0, 3_000)), kind, 0 if kind == "NONE" else 40_000))
        forward, given_, weight = parts
        layers.append(Layer(f"l{number}", forward, given_, weight, update_ns=draw(st.integers(0, 50))))
    network = replace(TORUS, compat=draw(st.booleans()))
    queues, active = draw(st.sampled_from([(1, 1), (2, 2), (1, 3)]))
    more = {"queues": queues, "active_chunks": active, "lifo": draw(st.booleans())}
    return (loop, tuple(layers), draw(st.integers(1, 2)), network), more


# The verbs.


@settings(max_examples=25, deadline=None)
@given(runs(), st.lists(st.tuples(st.sampled_from(UNITS), st.integers(0, 30)), max_size=8))
def test_steps_of_any_kind_are_the_run(made, steps):
    run, parts = run_of(*made[0], **made[1]), sim_of(*made[0], record=False, **made[1])
    for unit, n in steps:
        before = parts.counts[unit]
        stop = parts.step(n, unit)
        if stop.why != "end" and unit == "event":
            assert parts.counts[unit] == before + n
        elif stop.why != "end" and unit != "cycle":
            assert parts.counts[unit] >= before + n
    run.go(steps=parts.events)
    assert run.digest() == parts.state_hash()
    run.go()
    assert parts.run().why == "end"
    assert run.digest() == parts.state_hash()
    assert parts.result.time_ps == run.result().time_ps


@settings(max_examples=25, deadline=None)
@given(runs(), st.integers(0, 200), st.sampled_from(UNITS), st.integers(0, 60))
def test_back_undoes_step(made, first, unit, n):
    sim = sim_of(*made[0], **made[1])
    sim.step(first)
    before, count, events = sim.state_hash(), sim.counts[unit], sim.events
    sim.step(n, unit)
    after, reached = sim.state_hash(), sim.events
    sim.back(sim.events - events)
    assert sim.state_hash() == before
    sim.step(reached - events)
    assert sim.state_hash() == after
    sim.back(sim.counts[unit] - count, unit)
    assert sim.counts[unit] == count or sim.events == 0


def test_cycles_are_timesteps_and_time_is_reached():
    sim = sim_of()
    cycles_are_timesteps(sim, 25_000_000)


def test_there_are_no_messages_to_step_by():
    with pytest.raises(InputError, match="unknown unit 'message'"):
        sim_of().step(1, "message")


@pytest.mark.parametrize("why", ["speed", "layer", "bandwidth", "latency"])
@pytest.mark.parametrize("compat", [False, True])
def test_what_is_changed_at_the_start_is_another_input(why, compat):
    network = replace(TORUS, compat=compat)
    layers, other = CONVS, network
    if why == "speed":
        change = ("rank[0].speed", "0.5")
        layers = LayerTable("DATA", CONVS).scaled(compute_scale=2).layers
    elif why == "layer":
        change = ("conv1.speed", "0.5")
        slow = LayerTable("DATA", CONVS[1:2]).scaled(compute_scale=2).layers
        layers = (CONVS[0], *slow, CONVS[2])
    elif why == "bandwidth":
        change = ("dim[1].bandwidth", f"{5 * 2**30 if compat else 5 * 10**9} B/s")
        other = replace(network, bandwidth=(50, 5, 50))
    else:
        change = ("dim[2].latency", "3 us")
        other = replace(network, latency_ns=(500, 500, 3000))
    sim, changed = sim_of(network=network), run_of(layers=layers, network=other)
    sim.set(*change)
    sim.run()
    changed.go()
    assert sim.now_ps == changed.now_ps > WHOLE.now_ps
    built = Simulation(changed.inputs)
    built.run()
    assert sim.result.table("layers") == built.result.table("layers")
    end = sim.state_hash()
    sim.back(7)
    sim.step(7)
    assert sim.state_hash() == end
    sim.reset()
    assert len(sim.edits) == 1  # it was made at this very moment


def test_what_is_in_flight_keeps_its_time_when_something_is_changed():
    sim = sim_of()
    sim.step(1)
    end, unchanged = sim.next_ps, sim.state_hash()
    sim.set("rank[0].speed", 0.1)
    assert sim.next_ps == end
    sim.step(1, "operation")
    assert sim.now_ps == end == 3_000_000
    sim.step(1, "operation")
    assert sim.now_ps == 33_000_000
    assert [(p.path, p.value) for p in sim.parameters("rank[0]")] == [("rank[0].speed", "0.1")]
    sim.set("dim[0].latency", "2 us")
    assert [p.value for p in sim.parameters("dim[0]")] == ["50 GB/s", "2 µs"]
    assert len(sim.edits) == 2
    sim.reset()
    sim.step(1)
    assert sim.edits == []
    assert sim.state_hash() == unchanged


@pytest.mark.parametrize("between", ["ascending", "themis"])
def test_forks_and_files_go_on_to_the_same_end(tmp_path, between):
    sim = sim_of(between=between)
    start = sim.state_hash()
    sim.step(30)
    sim.set("dim[0].bandwidth", "20 GB/s")
    sim.step(20)
    sim.break_on("collective_end", "conv1")
    fork = sim.fork()
    sim.save(tmp_path / "run.npz")
    loaded = Simulation.load(tmp_path / "run.npz")
    assert [p.text for p in loaded.breakpoints] == ["collective end of layer[conv1]"]
    assert (loaded.title, repr(loaded)) == (sim.title, repr(sim))
    for one in (sim, fork, loaded):
        one.clear()
        one.set("dim[1].latency", "1 us")
        one.run()
    assert sim.state_hash() == fork.state_hash() == loaded.state_hash()
    assert loaded.result.explain() == sim.result.explain()
    assert loaded.inspect("dim[0]") == sim.inspect("dim[0]")
    loaded.reset()
    assert loaded.state_hash() == start


# Breakpoints, and what is known of things.


def test_breakpoints_stop_where_they_say():
    sim = sim_of()
    point = sim.break_on("compute_end", "layer[conv1].wg")
    stop = sim.run()
    assert (stop.why, stop.breakpoint, stop.where) == ("breakpoint", point, "layer[conv1].wg")
    assert "all ranks end conv1 WG (compute)" in stop.text
    # Three forward passes, then the last layer's two gradients, then this one.
    assert sim.now_ps == (3 * 3000 + 2000 + 2500 + 2000) * 1000
    sim.clear()
    sim.break_on("collective_end", "conv2")
    sim.run()
    start, end = sim.engine.times_ps()
    row = int(np.flatnonzero(sim.engine.about.name == sim.engine.about.names.index("conv2 WG comm"))[0])
    assert end[row] == sim.now_ps > start[row] > 0
    sim.clear()
    sim.reset()
    sim.break_when("rank[0].waiting > 0")
    assert sim.run().because == "waiting is 1"
    assert sim.inspect("rank[0]")["state"][3] == ("waits", "yes, for a collective")
    sim.clear()
    sim.break_when("rank[0].op[conv0 WG comm].chunks_done >= 2")
    assert sim.run().because == "over is 2"
    sim.clear()
    sim.break_when("layer[conv0].wg.exposed_ps > 1 us")
    assert sim.run().because.startswith("exposed_ps is ")
    sim.clear()
    sim.reset()
    sim.break_on("phase_end", "dim[1]")
    sim.run()
    assert "a phase of conv2 WG comm (all_reduce, 384 KiB) ends in dim 1" in sim.narrate()
    sim.clear()
    sim.break_when(lambda s: s.counts["pass"] == 1)
    assert sim.run().breakpoint is not None
    sim.clear()
    sim.break_at("30 us")
    assert sim.goto(0).why == "back"
    assert sim.run().why == "breakpoint"
    assert sim.now_ps <= 30_000_000 < (sim.next_ps or 0)


@pytest.mark.parametrize(
    "do, message",
    [
        (lambda s: s.break_on("message"), "unknown event kind 'message'"),
        (lambda s: s.break_on(), "needs an event kind or an object"),
        (lambda s: s.break_on("compute_end", "dim[0]"), "take phase_begin or phase_end"),
        (lambda s: s.break_on("compute_end", "rank[7]"), "which stands for all 64"),
        (lambda s: s.break_on("compute_end", "rank[64]"), "0 to 63"),
        (lambda s: s.break_on(None, "layer[conv9]"), "did you mean 'conv"),
        (lambda s: s.break_on(None, "layer[conv1].wgg"), "did you mean 'wg'"),
        (lambda s: s.break_on(None, "conv9"), r"unknown object 'conv9'; did you mean 'layer\[conv"),
        (lambda s: s.break_when("rank[0].wating > 0"), "did you mean 'waiting'"),
        (lambda s: s.break_when("rank[0].op[0].chunks_done > 0"), "name a collective"),
        (lambda s: s.break_when("rank[0].waiting > yes"), "not a whole number"),
        (lambda s: s.set("dim[3].latency", "1 us"), "0 to 2"),
        (lambda s: s.set("dim[0].speed", 2), "take latency, or bandwidth|cannot be changed"),
        (lambda s: s.set("rank[0].speed", 0), "above 0"),
        (lambda s: s.set("dim[0].latency", 1.0), "with a unit"),
        (lambda s: s.inspect("rank[0].op[conv1 WG com]"), "did you mean 'conv1 WG comm'"),
        (
            lambda s: s.inspect("link[0]"),
            r"'link\[0\]'; did you mean 'rank\[0\]' or 'dim\[0\]' or",
        ),
        (lambda s: s.result.table("links"), "unknown table 'links'"),
    ],
)
def test_a_mistake_is_one_clear_line(do, message):
    with pytest.raises(InputError, match=message):
        do(sim_of())


def test_objects_are_described_in_words():
    sim = sim_of()
    sim.break_when("rank[0].ongoing > 1")
    sim.run()
    rank = sim.inspect("rank[0]")
    assert dict(rank["state"])["stands for"].startswith("all 64 ranks")
    assert any("chunk 0: phase" in text for text in rank["in_flight"])
    assert rank["in_flight_count"] == int(sim.engine.machine.clock[0].streams_left)
    for child in rank["children"]:
        assert sim.inspect(child["path"])["path"] == child["path"]
    op = sim.inspect("rank[0].op[conv2 WG comm]")
    assert dict(op["state"])["bytes"] == "384 KiB"
    assert "conv2 WG · done" in [child["text"] for child in op["children"]]
    assert sim.fields("layer[conv1]") == ["ongoing", "waiting", "compute_ps", "exposed_ps", "total_ps"]
    assert sim.fields("nothing") == []
    assert "64 ranks (all alike)" in repr(sim)


# Results.


@settings(max_examples=30, deadline=None)
@given(runs(), st.integers(0, 150))
def test_figures_are_those_of_the_run_and_add_up(made, events):
    sim = sim_of(*made[0], **made[1])
    sim.step(events)
    row = sim.result.per_rank()[0]
    parts = ("compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")
    assert sum(row[part] for part in parts) == row["end_ps"]
    assert all(row[part] >= 0 for part in parts)
    assert row["astrasim_compute_ps"] == row["compute_ps"]
    sim.run()
    result = sim.engine.run.result()
    row = sim.result.per_rank()[0]
    assert (row["end_ps"], row["compute_ps"]) == (result.time_ps, result.compute_ps)
    assert row["astrasim_exposed_comm_ps"] == result.exposed_comm_ps
    if not sim.engine.run.inputs.network.compat:  # steps take no time: the rest is exposed
        spans = sim.engine.track_spans()
        waited = (spans.end_ps - spans.start_ps)[spans.track == 2]
        assert int(waited.sum()) == result.exposed_comm_ps
    frames = {name: sim.result.to_dataframe(name) for name in sim.result.tables}
    assert len(frames["phases"]) == sim.counts["phase"]
    assert len(frames["operations"]) == sim.counts["operation"]
    for frame in (frames["operations"], frames["phases"]):  # names have spaces: columns divide them
        columns = zip(frame["name"], frame["layer"], frame["part"], strict=True)
        assert all(name.removesuffix(" comm") == f"{layer} {part}" for name, layer, part in columns)
    if len(frames["collectives"]):
        totals = [column for column in map(str, frames["layers"]) if column.endswith("total_comm_ps")]
        took = frames["collectives"]["end_ps"] - frames["collectives"]["start_ps"]
        assert took.sum() == frames["layers"][totals].to_numpy().sum()
    assert sum(one["bytes"] for one in sim.result.table("dimensions")) == 64 * result.message_bytes


@settings(max_examples=30, deadline=None)
@given(runs())
def test_the_critical_path_is_the_whole_time_without_gaps(made):
    sim = sim_of(*made[0], **made[1])
    sim.run()
    path = sim.result.critical_path()
    if not path:
        assert sim.result.time_ps == 0
        return
    assert (path.segments[0].start_ps, path.segments[-1].end_ps) == (0, sim.result.time_ps)
    assert all(one.end_ps == other.start_ps for one, other in itertools.pairwise(path))
    assert all(segment.start_ps < segment.end_ps for segment in path)


def test_the_path_goes_by_the_collective_that_is_waited_for():
    layer = (Layer("a", Part(1000), Part(0), Part(1000, "ALLREDUCE", 1 << 20), update_ns=7),)
    sim = sim_of(layers=layer, network=HierarchicalNetwork(("Ring",), (8,), (2,), (500,), (50,)))
    sim.run()
    causes = [(s.cause, s.name.partition(" (")[0]) for s in sim.result.critical_path()]
    once = [("compute", "a FWD"), ("compute", "a WG"), ("collective", "a WG comm")]
    assert causes == once * 2
    assert "a WG comm (all_reduce, 1 MiB); a FWD waits for it" in sim.result.explain()
    assert "Layers whose collectives are waited for longest:" in sim.result.explain()


def test_recording_goes_back_with_the_run_and_changes_nothing():
    sim, other, silent = sim_of(), sim_of(), sim_of(record=False)
    sim.run()
    silent.run()
    assert silent.state_hash() == sim.state_hash()
    assert silent.result.table("phases")["rank"].tolist() == []
    assert silent.result.per_rank() == sim.result.per_rank()
    sim.back(60)
    other.step(sim.events)
    for name in sim.result.tables:
        assert sim.result.to_dataframe(name).equals(other.result.to_dataframe(name)), name


def test_a_trace_for_perfetto_has_tracks_of_passes_collectives_and_waits(tmp_path):
    sim = sim_of()
    sim.run()
    written = sim.result.to_perfetto(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    waits = int((sim.engine.track_spans().track == 2).sum())
    assert waits > 0
    assert written["operations"] == sim.counts["operation"] + waits
    assert written["phases"] == sim.counts["phase"]
    assert len(spans) == written["operations"] + written["phases"]
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for span in spans:
        times = (span["args"]["start_ps"], span["args"]["end_ps"])
        tracks.setdefault((span["pid"], span["tid"]), []).append(times)
    for found in tracks.values():
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(sorted(found)))
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"compute", "communication", "waiting"} <= names


# Loops of one's own, and files.


def _order(sim):
    frame = sim.result.to_dataframe("operations")
    return frame[frame["track"] == "compute"]["name"].tolist()


def test_loops_step_side_by_side():
    @training_loop("TEST_LAST", dimensions="DATA")
    def _last(layers):
        for layer in layers:
            yield layer.weight_gradient.wait(), layer.forward.compute()
        for layer in reversed(layers[1:]):
            yield layer.input_gradient.compute()
        for layer in reversed(layers):
            yield layer.weight_gradient.compute(), layer.weight_gradient.issue()

    plain, last = sim_of("DATA", passes=1), sim_of("TEST_LAST", passes=1)
    for _ in range(5):
        plain.step(1, "operation")
        last.step(1, "operation")
    forward = ["conv0 FWD", "conv1 FWD", "conv2 FWD"]
    assert _order(plain)[:5] == [*forward, "conv2 WG", "conv2 IG"]
    assert _order(last)[:5] == [*forward, "conv2 IG", "conv1 IG"]
    for sim in (plain, last):
        sim.run()
    assert _order(last)[5:] == ["conv2 WG", "conv1 WG", "conv0 WG"]
    assert last.result.time_ps > plain.result.time_ps
    saved = last.recipe()
    del registered["TEST_LAST"]  # whoever opens it does not have the function
    again = Simulation.of_saved_bytes(saved)
    assert again.state_hash() == last.state_hash()
    assert again.recipe() == saved


def test_files_are_recognised_by_their_content(tmp_path):
    write_layer_table(LayerTable("DATA", CONVS), tmp_path / "w.txt")
    keys = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1}
    keys |= {"preferred-dataset-splits": 4, "all-reduce-implementation": "ring_ring_ring"}
    keys |= {"collective-optimization": "localBWAware"}
    (tmp_path / "s.txt").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    network = {
        "topologies-per-dim": ["Ring"] * 3, "units-count": [4] * 3, "links-count": [2] * 3,
        "link-latency": [500] * 3, "link-bandwidth": [50] * 3,
    }  # fmt: skip
    (tmp_path / "n.json").write_text(json.dumps(network))
    sim = anb.Simulation.of_files(tmp_path / "w.txt", tmp_path / "s.txt", tmp_path / "n.json", passes=2)
    assert sim.title == "w.txt"
    sim.run()
    run = LayerRun(LayerWorkload(LayerTable("DATA", CONVS), read_system(tmp_path / "s.txt"), TORUS, 2))
    run.go()
    assert sim.state_hash() == run.digest()


def test_a_layers_run_is_watched_and_compared_as_any_other():
    sim = sim_of()
    watch = sim.watch("rank[0].compute_ps")
    slow = sim.fork_with({"rank[0].speed": 0.5})
    sim.run(), slow.run()
    times, values = watch.series(points=9)
    assert times[-1] == sim.now_ps
    assert values[-1] == watch.value == sim.result.per_rank()[0]["astrasim_compute_ps"]
    assert (np.diff(values) >= 0).all()
    both = anb.compare(sim, slow)
    assert both.time["difference_ps"] == slow.now_ps - sim.now_ps > 0
    causes = both.to_dataframe("causes")
    assert causes["time_ps_difference"].sum() == both.time["difference_ps"]
    with pytest.raises(InputError, match="no single links"):
        sim.take_down("link[0]")


def test_a_question_about_a_rank_is_answered_where_layers_have_speeds():
    sim = sim_of()
    sim.set("layer[*].speed", 2)
    faster = sim.fork_with({"rank[0].speed": 4})
    faster.run()
    assert sim.what_if("rank[0].speed", "4").exact_ps == faster.now_ps > 0
    with pytest.raises(InputError, match="layers have speeds of their own"):
        sim.set("rank[0].speed", "x2")
