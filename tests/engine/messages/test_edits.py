"""Changing a workload's links, dimensions and ranks: exact, undone, and refused where it cannot be."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages.link_ends import dimension_of, ends_of, reverse_link
from astranb.infragraph import blueprint
from astranb.sim import Simulation
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)
from tests.engine.operations.support import SYSTEM, by_messages, mixed

ONE_MESSAGE = [
    Operations.of([{"kind": SEND, "peer": 1, "bytes": 50_000}]),
    Operations.of([{"kind": RECV, "peer": 0, "bytes": 50_000}]),
]


def pair(**options):
    return by_messages(
        ONE_MESSAGE,
        DimensionNetwork(["Ring"], [2], [50], [500]),
        System.from_document({}),
        congestion=True,
        **options,
    )


def reduced(network, *, congestion=True, **system):
    """An all-reduce after a computation of 4 us, on every rank."""
    rows = [{"kind": COMPUTE, "duration_ns": 4_000}, {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 18}]
    one = Operations.of(rows, [[], [0]])
    lists = ["ring", "direct", "ring"][: len(network.npus_count)]
    described = System.from_document({**SYSTEM, **{k: lists for k in SYSTEM if k.endswith("tion")}, **system})
    return by_messages([one] * network.npus, network, described, congestion=congestion)


def test_a_slow_link_is_as_slow_as_it_says():
    # 50,000 B at 50 B/ns and 500 ns: 1,500 ns; at 10 B/ns 5,500 ns; with 2 us of latency 3,000 ns.
    times = []
    for path, value in ((None, None), ("link[0].bandwidth", "10 GB/s"), ("link[0].latency", "2 us")):
        sim = pair()
        if path:
            sim.set(path, value)
        sim.run()
        times.append(sim.result.time_ps)
    assert times == [1_500_000, 5_500_000, 3_000_000]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 400), st.sampled_from(["bandwidth", "latency"]))
def test_all_links_of_a_dimension_are_the_dimension(at, field):
    value = {"bandwidth": "5 GB/s", "latency": "9 us"}[field]
    network = DimensionNetwork(["Ring", "Switch"], [2, 3], [50, 25], [500, 700])
    one, other = reduced(network), reduced(network)
    for sim in (one, other):
        sim.step(at)
    one.set(f"dim[1].{field}", value)
    m = other.engine.machine
    for link in range(int(m.dims[1].first_link), len(m.links)):
        other.set(f"link[{link}].{field}", value)
    assert one.run().now_ps == other.run().now_ps
    ends = ("end_ps", "compute_ps", "exposed_comm_ps")
    rows = [[{name: row[name] for name in ends} for row in sim.result.per_rank()] for sim in (one, other)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("congestion", [False, True])
@pytest.mark.parametrize("scheduling", ["baseline", "themis"])
@pytest.mark.parametrize("topology", ["Ring", "Switch", "FullyConnected"])
def test_a_change_at_the_start_is_another_network(congestion, scheduling, topology):
    system = {"inter-dimension-scheduling": scheduling}

    def network(rate, latency):
        return DimensionNetwork([topology, "Ring"], [4, 2], [rate, 25], [latency, 700])

    changed = reduced(network(50, 500), congestion=congestion, **system)
    changed.set("dim[0].bandwidth", "100 GB/s")
    changed.set("dim[0].latency", "250 ns")
    fresh = reduced(network(100, 250), congestion=congestion, **system)
    changed.run()
    fresh.run()
    assert changed.state_hash() == fresh.state_hash()


def test_a_rank_that_computes_in_no_time():
    sim = reduced(DimensionNetwork(["Ring"], [4], [50], [500]), congestion=False)
    other = sim.fork_with({f"rank[{rank}].speed": "inf" for rank in range(4)})
    sim.run()
    other.run()
    assert [row["compute_ps"] for row in other.result.per_rank()] == [0] * 4
    assert sim.result.time_ps - other.result.time_ps == 4_000_000
    assert other.parameters("rank[2]")[0].value == "inf"


def test_a_dead_link_takes_in_nothing_and_goes_on_when_it_is_back():
    sim = pair()
    sim.take_down("link[0]")
    assert dict(sim.inspect("link[0]")["state"])["sends"] == "no; it is down"
    with pytest.raises(
        Deadlock, match=r"link\[0\] \(rank\[0\] to rank\[1\]\) is down since 0 ps, and 1 message waits"
    ):
        sim.run()
    assert dict(sim.inspect("link[0]")["state"])["waiting"] == "1 message"
    sim.repair("link[0]")
    sim.run()
    assert sim.result.time_ps == 1_500_000  # the clock stood still meanwhile
    sim.undo(0)
    assert (sim.events, sim.edits) == (0, [])
    sim.run()
    assert sim.result.time_ps == 1_500_000


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 11))
def test_what_is_in_flight_on_a_link_arrives_when_it_goes_down(at, gone, link):
    sim, other = (mixed(congestion=True) for _ in range(2))
    other.run()
    sim.step(at)
    sim.take_down(f"link[{link}]", both=True)
    with suppress(Deadlock):
        sim.step(gone)
    sim.repair(f"link[{link}]", both=True)
    sim.run()
    assert sim.counts["message"] == other.counts["message"]
    assert sim.result.time_ps >= other.result.time_ps
    whole, events = sim.state_hash(), sim.events
    sim.back(events)
    sim.reset()
    assert sim.state_hash() == mixed(congestion=True).state_hash()
    sim.run()
    assert sim.state_hash() == other.state_hash()
    assert whole


def test_edits_are_undone_one_by_one_and_reset_keeps_the_last_of_each():
    sim = mixed()
    sim.step(100)
    here = sim.state_hash()
    sim.set("rank[1].speed", 0.5)
    sim.step(100)
    middle = sim.state_hash()
    sim.set("dim[0].bandwidth", "1 GB/s")
    sim.set("rank[1].speed", 0.25)
    sim.run()
    sim.undo(1)
    assert (sim.events, sim.state_hash(), len(sim.edits)) == (200, middle, 1)
    sim.undo()
    assert (sim.events, sim.state_hash(), sim.edits) == (100, here, [])
    sim.set("rank[1].speed", 0.5)
    sim.set("rank[1].speed", 0.25)
    sim.reset(keep=True)
    assert sim.edits == [(0, "rank[1].speed", "0.25")]
    with pytest.raises(InputError, match="unknown edit 3"):
        sim.undo(3)


def test_messages_wait_for_the_end_of_an_outage():
    for outage, end_us in (("2 us", 3.5), ("0 ps", 1.5)):
        sim = pair()
        for link in range(len(sim.engine.machine.links)):
            sim.set(f"link[{link}].outage", outage)
        assert sim.parameters("link[0]")[-1].value == outage.replace("2 us", "2 µs")
        for _ in range(2):
            sim.run()
            assert sim.result.time_ps == end_us * 1e6
            sim.reset(keep=True)
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    compat = Workload(ONE_MESSAGE, network, System.from_document({}), compat=True)
    sim = Simulation(compat, fidelity="congestion")
    with pytest.raises(InputError, match="no outage"):
        sim.set("link[0].outage", "1 us")


def test_parameters_are_what_set_takes():
    sim = mixed(congestion=True)
    for path, names in (
        ("rank[2]", ["speed"]), ("dim[0]", ["bandwidth", "latency"]),
        ("link[3]", ["bandwidth", "latency", "up", "outage"]), ("rank[2].op[1]", []),
    ):  # fmt: skip
        found = sim.parameters(path)
        assert [p.path for p in found] == [f"{path}.{name}" for name in names]
        before = sim.state_hash()
        for parameter in found:
            sim.set(parameter.path, parameter.value)
        assert sim.state_hash() == before
    assert sim.parameters() == []


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("link[0].bandwidth", "fast", "fast"),
        ("link[0].up", "perhaps", "neither yes nor no"),
        ("link[99].up", "no", "0 to 11"),
        ("link[0].bandwith", "1 GB/s", "did you mean 'bandwidth'"),
        ("rank[0].speed", "-1", "above 0"),
        ("rank[0].op[1].speed", 2, "cannot be changed"),
    ],
)
def test_what_cannot_be_changed(path, value, message):
    sim = mixed(congestion=True)
    before = sim.state_hash()
    with pytest.raises(InputError, match=message):
        sim.set(path, value)
    assert (sim.state_hash(), sim.edits) == (before, [])


# What links join --------------------------------------------------------------------


def test_links_of_several_dimensions_have_named_ends():
    # Ranks 0 to 7: a ring of 0, 1; then a switch for 0, 2 (and 1, 3); then all of 0, 4.
    network = DimensionNetwork(["Ring", "Switch", "FullyConnected"], [2, 2, 2], [50, 50, 50], [500] * 3)
    m, about = (sim := reduced(network)).engine.machine, sim.engine.about
    named = [ends_of(about, m, link) for link in range(len(m.links))]
    assert len(named) == 48
    assert named[0] == ("rank[0]", "rank[1]")
    assert named[3] == ("rank[3]", "rank[2]")
    assert named[8 + 5] == ("rank[5]", "rank[4]")
    assert named[16 + 3] == ("rank[3]", "switch of dim 1 (ranks 1, 3, …)")
    assert named[24 + 6] == ("switch of dim 1 (ranks 4, 6, …)", "rank[6]")
    assert named[32 + 2 * 3 + 1] == ("rank[3]", "rank[7]")
    assert [dimension_of(m, link) for link in (0, 15, 16, 31, 32, 47)] == [0, 0, 1, 1, 2, 2]
    for link, ends in enumerate(named):
        if ends[0] != ends[1]:  # of all of a dimension, each has one to itself, which nobody uses
            assert named[reverse_link(m, link)] == ends[::-1]


@pytest.mark.parametrize(
    "kinds", [["Ring", "Switch"], ["FullyConnected", "Ring"], ["Mesh", "FullyConnected"]]
)
def test_a_message_is_on_the_link_that_is_named(kinds):
    network = DimensionNetwork(kinds, [3, 2], [50, 50], [500, 500])
    for target in range(1, 6):
        ranks = [Operations.of([]) for _ in range(6)]
        ranks[0] = Operations.of([{"kind": SEND, "peer": target, "bytes": 1000}])
        ranks[target] = Operations.of([{"kind": RECV, "peer": 0, "bytes": 1000}])
        sim = by_messages(ranks, network, System.from_document({}), congestion=True)
        sim.run()
        links = [(row["source"], row["target"], row["dimension"]) for row in sim.result.table("links")]
        links.sort(key=lambda one: one[2])
        assert links[0][0] == "rank[0]"
        assert links[-1][1] == f"rank[{target}]"
        frame = sim.result.to_dataframe("links")
        assert set(frame["dimension"]) <= {0, 1}
        state = dict(sim.inspect(frame["link"][0])["state"])
        assert (state["source"], state["target"]) == (frame["source"][0], frame["target"][0])
        assert state["dimension"].startswith(str(frame["dimension"][0]))
        assert "Busiest links:" in sim.result.explain()
        assert f"{frame['source'][0]} to {frame['target'][0]}" in sim.result.explain()


def test_links_of_an_infrastructure_have_its_names(tmp_path):
    network = InfraNetwork(blueprint("ring:gpus=4"))
    sim = reduced(network)
    sim.run()
    rows = sim.result.table("links")
    assert {row["dimension"] for row in rows} == {-1}
    ring = {(f"gpu[{rank}]", f"gpu[{(rank + turn) % 4}]") for rank in range(4) for turn in (1, 3)}
    assert {(row["source"], row["target"]) for row in rows} <= ring
    sim.save(tmp_path / "run")
    assert Simulation.load(tmp_path / "run").result.table("links") == rows
    before = sim.result.time_ps
    slow = sim.fork()
    slow.reset()
    slow.set(f"{rows[0]['link']}.bandwidth", "1 GB/s")
    slow.run()
    assert slow.result.time_ps > before
    assert sim.parameters("dim[0]") == []
    with pytest.raises(InputError, match="change a link A->B"):
        sim.set("dim[0].bandwidth", "1 GB/s")
    sim.take_down("link[0]", both=True)
    ends = tuple(rows[0]["link"].split("->"))
    assert [path for _, path, _ in sim.edits] == [f"{a}->{b}.up" for a, b in (ends, ends[::-1])]


@pytest.mark.parametrize("compat", [False, True])
def test_a_link_comes_up_when_it_is_said_to_though_nothing_happens_until_then(compat, tmp_path):
    network, system = DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({})
    sim = Simulation(Workload(ONE_MESSAGE, network, system, compat=compat), fidelity="congestion")
    ends_ps = 9_000_000 + sim.fork().run().now_ps
    sim.take_down("link[0]")
    assert sim.repair("link[0]", at="9 us").why == "edit"
    events, here = sim.events, sim.state_hash()
    sim.save(tmp_path / "run.npz")
    assert sim.run().now_ps == ends_ps
    sim.back(sim.events - events)
    assert sim.state_hash() == here
    other = Simulation.load(tmp_path / "run.npz")
    assert other.run().now_ps == ends_ps
    with pytest.raises(InputError, match="no link"):
        sim.repair("link[99]", at="1 s")


def test_names_of_several_and_factors_by_messages():
    sim = anb.Simulation(
        "clos:servers=2", anb.collectives.all_reduce("64 KiB", "ring"), fidelity="congestion"
    )
    sim.set("rank[*].speed", "0.5")
    sim.set("gpu[2].speed", "x0.5")
    sim.set("GPU 0.speed", 2)
    assert [edit.path for edit in sim.engine.edits] == ["rank[*].speed", "rank[2].speed", "rank[0].speed"]
    assert sim.engine.edits[0].rows == tuple(range(16))
    assert [sim.parameters(f"host.0.xpu.{rank}")[0].value for rank in range(3)] == ["2", "0.5", "0.25"]
    wires = sim.engine.machine.wires
    before = wires["rate_Bpns"].copy()
    sim.set("gpu[2]->*.bandwidth", "x0.5")
    rows = list(sim.engine.edits[-1].rows)
    assert rows
    assert (wires["rate_Bpns"][rows] == before[rows] / 2).all()
    sim.set("gpu[2]->*.bandwidth", "10 GB/s")  # of each of its links to four switches
    assert wires["rate_Bpns"][rows].tolist() == [40.0] * len(rows)
    sim.undo()
    assert (sim.engine.machine.wires["rate_Bpns"][rows] == before[rows] / 2).all()
    change = sim.what_if("rank[*].speed", "x4")
    assert (change.path, change.was) == ("rank[*].speed", "0.25 to 2")


@pytest.mark.parametrize(
    "path,value,error",
    [
        ("link[0].up", "x2", "up takes no factor"),
        ("rank[*].speed", "xx", "'xx' is not a factor; for example x2 or x0.5"),
        ("rank[14-99].speed", "2", "they count from 0 to 15"),
        ("host.0.nvsw.0.speed", "2", "'host.0.nvsw.0' is not a GPU"),
        ("gpu[2]->nvsw.0.bandwidth", "x2", "lanes may stand for it; change host.0.xpu.2->host.0.nvsw.*"),
        ("gpu[0]->gpu[9].bandwidth", "x2", "unknown link"),
    ],
)
def test_names_by_messages_that_are_refused(path, value, error):
    sim = anb.Simulation(
        "clos:servers=2", anb.collectives.all_reduce("64 KiB", "ring"), fidelity="congestion"
    )
    with pytest.raises(InputError, match=re.escape(error)):
        sim.set(path, value)
    assert not sim.edits
