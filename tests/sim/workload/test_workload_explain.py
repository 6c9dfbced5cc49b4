"""What a workload explains: lost time that adds up, chains of waits, and what-ifs that are exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from astranb.engine.operations.lost_time import LOSSES, lost_times
from astranb.engine.operations.what_if import suggest
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
)

from .support import SYSTEM, by_messages, mixed

RING = {"all-reduce-implementation": ["ring"], "local-mem-bw": 1600}


def described(
    durations_us, *, rate=50.0, latency=500.0, speeds=None, congestion=False, scheduling="baseline"
):
    """On every rank a computation, an all-reduce that needs it, and once more."""
    ranks = []
    for duration_us in durations_us:
        rows = [
            {"kind": COMPUTE, "duration_us": duration_us},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 17},
        ]
        ranks.append(Operations.of(rows * 2, [[], [0], [1], [2]]))
    system = SYSTEM | {"inter-dimension-scheduling": scheduling, "npu-speed": speeds or {}}
    network = DimensionNetwork(["Ring", "FullyConnected"], [2, 3], [rate, 25], [latency, 700])
    return by_messages(ranks, network, System.from_document(system), congestion=congestion)


# Lost time -----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 800), st.booleans())
def test_lost_times_add_up_and_are_those_of_the_ranks(events, congestion):
    sim = mixed(congestion=congestion)
    sim.step(events)
    times = lost_times(sim.engine)
    assert (times >= 0).all()
    assert (times.sum(axis=1) == sim.result.time_ps).all()
    cause = {name: times[:, k] for k, name in enumerate(LOSSES)}
    for rank, row in enumerate(sim.result.per_rank()):
        assert cause["compute"][rank] == row["compute_ps"]
        exposed = sum(cause[name][rank] for name in ("collective", "message", "others", "broadcast"))
        assert exposed == row["exposed_comm_ps"]
        assert cause["idle"][rank] == row["idle_ps"]
    frame = sim.lost_time()
    assert frame["time_ps"].tolist() == [sim.result.time_ps] * 6
    assert list(frame.columns[2:]) == [f"{name}_ps" for name in LOSSES]


def test_waiting_for_the_slow_one_is_told_from_moving_data():
    sim = mixed()
    sim.run("9 us")  # rank 5 computes for 9 us, the others for 3
    others = list(LOSSES).index("others")
    # Ranks 0 to 4 are in the all-reduce since 3 us, and in a computation of 5 us from then on.
    assert lost_times(sim.engine)[:, others].tolist() == [1_000_000] * 5 + [0]
    assert lost_times(sim.engine)[5].tolist()[0] == 9_000_000


def test_a_receive_waits_for_its_sender_first():
    one = Operations.of(
        [{"kind": COMPUTE, "duration_us": 7}, {"kind": SEND, "peer": 1, "bytes": 50_000}], [[], [0]]
    )
    other = Operations.of([{"kind": RECV, "peer": 0, "bytes": 50_000}])
    sim = by_messages([one, other], DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    sim.run("3 us")
    assert sim.lost_time()["others_ps"].tolist() == [0, sim.now_ps]
    assert "has not sent it" in str(sim.why("rank[1]"))
    assert sim.why("rank[1]").resource == "rank[0].op[0]"
    sim.run()
    assert sim.lost_time()["others_ps"].tolist() == [0, 7_000_000]
    assert sim.lost_time()["message_ps"].tolist() == [1_500_000, 1_500_000]
    with pytest.raises(InputError, match="per rank"):
        sim.lost_time("gpu")


# Why -----------------------------------------------------------------------------------


def test_the_chain_leads_to_the_rank_that_computes():
    sim = mixed()
    sim.run("8500 ns")
    why = sim.why("rank[2]")
    assert [step.path for step in why] == ["rank[2].op[1]", "rank[5].op[0]"]
    assert "which rank 5 has not begun" in str(why)
    assert "rank 5 computes compute, until 9 µs" in str(why)
    assert why.links[0].since_ps == 3_000_000
    assert sim.why().links[-1].path == "rank[5].op[0]"
    assert "waits for" in sim.why("rank[0].op[4]").links[0].text
    sim.run()
    assert "has ended" in str(sim.why("rank[4]"))
    assert len(sim.why("dim[0]")) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 900), st.integers(0, 5))
def test_there_is_a_chain_at_any_moment(events, rank):
    sim = mixed()
    sim.step(events)
    assert len(sim.why(f"rank[{rank}]")) >= 1
    assert len(sim.why()) >= 1


def test_a_circle_is_told():
    rows = [{"kind": RECV, "peer": 1, "bytes": 8}, {"kind": SEND, "peer": 1, "bytes": 8}]
    ranks = [Operations.of([{**row, "peer": 1 - rank} for row in rows], [[], [0]]) for rank in range(2)]
    sim = by_messages(ranks, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    with pytest.raises(Deadlock):
        sim.run()
    assert sim.why("rank[0]").circle


# What if ---------------------------------------------------------------------------------


@pytest.mark.parametrize("congestion", [False, True])
@pytest.mark.parametrize("scheduling", ["baseline", "themis"])
@pytest.mark.parametrize(
    "path, value, fresh",
    [
        ("dim[0].bandwidth", "x2", {"rate": 100.0}),
        ("dim[0].latency", "x0.5", {"latency": 250.0}),
        ("dim[0].latency", "2 us", {"latency": 2000.0}),
        ("rank[4].speed", 0.5, {"speeds": {"4": 0.5}}),
        ("rank[*].speed", "x4", {"speeds": dict.fromkeys("012345", 4)}),
    ],
)
def test_a_what_if_is_the_run_that_was_described_so(path, value, fresh, congestion, scheduling):
    durations = [3, 3, 3, 3, 3, 12]
    sim = described(durations, congestion=congestion, scheduling=scheduling)
    sim.step(200)
    sim.set("dim[1].latency", "9 us")  # since the start: left out on both sides
    here, edits = sim.state_hash(), sim.edits
    change = sim.what_if(path, value)
    assert (sim.state_hash(), sim.edits) == (here, edits)
    for wanted, got in (({}, change.before_ps), (fresh, change.exact_ps)):
        other = described(durations, congestion=congestion, scheduling=scheduling, **wanted)
        other.run()
        assert other.result.time_ps == got
    assert sum(old for _, old, _ in change.causes) == change.before_ps
    assert sum(new for _, _, new in change.causes) == change.exact_ps


def test_a_slow_rank_is_found_and_what_it_costs():
    sim = described([3, 3, 3, 3, 3, 12])
    sim.run()
    found = {change.path: change for change in suggest(sim.engine, sim.critical_path())}
    slow = found["rank[5].speed"]
    assert (slow.value, slow.was, slow.on_path_ps) == ("x4", "1", 24_000_000)
    table = sim.what_if()
    rows = {(row.path, row.value): row for row in table}
    even = described([3] * 6)
    even.run()
    assert rows["rank[5].speed", "x4"].exact_ps == even.result.time_ps
    free = described([0] * 6)
    free.run()
    # 0 us is a nanosecond in a trace: twice on the way to the end.
    assert rows["rank[*].speed", "inf"].exact_ps == free.result.time_ps - 2000
    assert [row.exact_ps for row in table] == sorted(row.exact_ps for row in table)
    frame = table.to_dataframe()
    assert "compute_difference_ps" in frame.columns
    assert "estimate_ps" not in frame.columns
    assert "run and exact" in str(table)
    assert "<table>" in table._repr_html_()


def test_links_are_asked_about_where_there_are_some():
    sim = described([3] * 6, congestion=True)
    sim.run()
    paths = [change.path for change in suggest(sim.engine, sim.critical_path())]
    assert any(path.startswith("link[") for path in paths)
    one = sim.what_if("link[*].bandwidth", "x2")
    both = described([3] * 6, rate=100.0, congestion=True)
    both.set("dim[1].bandwidth", "50 GB/s")
    both.run()
    assert one.exact_ps == both.result.time_ps
    rows = [{"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 18}]
    network = InfraNetwork(blueprint("ring:gpus=4"))
    routed = by_messages([Operations.of(rows)] * 4, network, System.from_document(RING), congestion=True)
    routed.run()
    assert {change.path for change in suggest(routed.engine, routed.critical_path())} >= {
        "link[*].bandwidth",
        "link[*].latency",
    }
    assert (routed.what_if("link[*].bandwidth", "x2").exact_ps or 0) < routed.result.time_ps
    with pytest.raises(InputError, match="have no dimension"):
        routed.what_if("dim[*].bandwidth", "x2")


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("dim[0].bandwith", "x2", "did you mean 'bandwidth'"),
        ("dim[9].bandwidth", "x2", "0 to 1"),
        ("rank[*].speed", "x-1", "no factor"),
        ("rank[*].sped", "x2", "did you mean 'speed'"),
        ("rank[0].op[0].speed", "x2", "cannot be changed"),
        ("link[*].latency", "x2", "this run has no links"),
        ("dim[0].latency", "soon", "soon"),
    ],
)
def test_what_cannot_be_asked(path, value, message):
    with pytest.raises(InputError, match=message):
        mixed().what_if(path, value)
