"""What-ifs of runs of operations: exact, as if the change had been described."""

import pytest

from astranb.core.errors import InputError
from astranb.engine.operations.what_if import suggest
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
)
from tests.engine.operations.support import SYSTEM, by_messages, mixed

RING = {"all-reduce-implementation": ["ring"], "local-mem-bw": 1600}


def described(
    durations_us, *, rate=50.0, latency=500.0, speeds=None, congestion=False, scheduling="baseline"
):
    """On every rank a computation, an all-reduce that needs it, and once more."""
    ranks = []
    for duration_us in durations_us:
        rows = [
            {"kind": COMPUTE, "duration_ns": 1000 * duration_us},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 17},
        ]
        ranks.append(Operations.of(rows * 2, [[], [0], [1], [2]]))
    system = SYSTEM | {"inter-dimension-scheduling": scheduling, "npu-speed": speeds or {}}
    network = DimensionNetwork(["Ring", "FullyConnected"], [2, 3], [rate, 25], [latency, 700])
    return by_messages(ranks, network, System.from_document(system), congestion=congestion)


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
    when_ps = sim.now_ps
    sim.run(when_ps)  # all events at one time: an edit is carried out at its time
    sim.set("dim[1].latency", "9 us")
    here, edits = sim.state_hash(), sim.edits
    change = sim.what_if(path, value)
    assert (sim.state_hash(), sim.edits) == (here, edits)
    for wanted, got in (({}, change.before_ps), (fresh, change.exact_ps)):
        other = described(durations, congestion=congestion, scheduling=scheduling, **wanted)
        other.run(when_ps)
        other.set("dim[1].latency", "9 us")
        other.run()
        assert other.result.time_ps == got
    sim.run()
    assert sim.result.time_ps == change.before_ps
    assert sim.what_if(path, value) == change


@pytest.mark.parametrize("congestion", [False, True])
def test_a_parameter_that_was_changed_before_has_the_new_value_throughout(congestion):
    durations = [3, 3, 3, 3, 3, 12]
    sim = described(durations, congestion=congestion)
    sim.step(100)
    sim.set("rank[3].speed", 0.5)
    sim.run()
    change = sim.what_if("rank[3].speed", "x4")  # 0.5 now, so 2
    assert change.before_ps == sim.result.time_ps
    fresh = described(durations, congestion=congestion, speeds={"3": 2})
    fresh.run()
    assert change.exact_ps == fresh.result.time_ps
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
    # 0 us is a nanosecond in a trace: twice until the end.
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
        "*->*.bandwidth",
        "*->*.latency",
    }
    every = [routed.what_if(f"{links}.bandwidth", "x2").exact_ps or 0 for links in ("*->*", "link[*]")]
    assert every[0] == every[1] < routed.result.time_ps
    with pytest.raises(InputError, match="have no dimension"):
        routed.what_if("dim[*].bandwidth", "x2")


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("dim[0].bandwith", "x2", "did you mean 'bandwidth'"),
        ("dim[9].bandwidth", "x2", "0 to 1"),
        ("rank[*].speed", "x-1", "not a factor"),
        ("rank[*].sped", "x2", "did you mean 'speed'"),
        ("rank[0].op[0].speed", "x2", "cannot be changed"),
        ("link[*].latency", "x2", "this run has no links"),
        ("dim[0].latency", "soon", "soon"),
    ],
)
def test_what_cannot_be_asked(path, value, message):
    with pytest.raises(InputError, match=message):
        mixed().what_if(path, value)
