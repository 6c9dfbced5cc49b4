"""Breakdown of a workload's time: exact, and in the same numbers everywhere."""

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.operations.engine import TABLES
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, RECV, SEND, DimensionNetwork, Operations, System
from tests.engine.operations.support import ONE_RING, SYSTEM, TWO_DIMS, by_messages, mixed


def _finished(**options):
    sim = mixed(**options)
    sim.run()
    return sim


@st.composite
def workloads(draw):
    """Ranks with computations and all-reduces in any order, on two dimensions."""
    count = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from([COMPUTE, COLLECTIVE]), min_size=count, max_size=count))
    ranks = []
    for _ in range(6):
        rows = [
            {
                "kind": COMPUTE,
                "duration_ns": 1000 * draw(st.integers(0, 30)),
                "on_cpu": draw(st.integers(0, 1)),
            }
            if kind == COMPUTE
            else {"kind": COLLECTIVE, "collective": 0, "bytes": 60_000}
            for kind in kinds
        ]
        deps = [
            draw(st.lists(st.integers(0, row - 1), max_size=2, unique=True)) if row else []
            for row in range(count)
        ]
        ranks.append(Operations.of(rows, deps))
    return ranks


@settings(max_examples=30, deadline=None)
@given(workloads(), st.integers(0, 600))
def test_the_parts_of_a_rank_are_its_time_counted_nanosecond_by_nanosecond(ranks, events):
    sim = by_messages(ranks, TWO_DIMS, System.from_document(SYSTEM))
    sim.step(events)
    rows = sim.result.per_rank()
    operations = sim.result.to_dataframe("operations")
    for row in rows:
        end = row["end_ps"] // 1000
        doing = {name: np.zeros(end + 1, bool) for name in ("compute", "communication", "memory")}
        for one in operations[operations["rank"] == row["rank"]].itertuples() if len(operations) else ():
            doing[one.track][one.start_ps // 1000 : one.end_ps // 1000] = True
        assert row["compute_ps"] == doing["compute"].sum() * 1000
        exposed = doing["communication"] & ~doing["compute"]
        assert row["exposed_comm_ps"] == exposed.sum() * 1000
        assert row["overlapped_comm_ps"] == (doing["communication"] & doing["compute"]).sum() * 1000
        parts = ("compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")
        assert sum(row[part] for part in parts) == row["end_ps"]
        assert all(row[part] >= 0 for part in parts)


@settings(max_examples=30, deadline=None)
@given(workloads())
def test_the_critical_path_is_the_whole_time_without_gaps(ranks):
    sim = by_messages(ranks, TWO_DIMS, System.from_document(SYSTEM))
    sim.run()
    path = sim.result.critical_path().segments
    assert path[0].start_ps == 0
    assert path[-1].end_ps == sim.result.time_ps
    for one, other in itertools.pairwise(path):
        assert one.end_ps == other.start_ps
    assert all(segment.start_ps <= segment.end_ps for segment in path)


def test_the_critical_path_goes_through_what_all_ranks_wait_for():
    path = _finished().result.critical_path().segments
    # Rank 5 computes for 9 us, the others for 3: the all-reduce begins when it has come.
    assert (path[0].rank, path[0].cause, path[0].end_ps) == (5, "compute", 9_000_000)
    assert path[1].cause == "collective"
    assert path[1].start_ps == 9_000_000


def test_a_message_leads_the_path_to_its_sender():
    one = Operations.of(
        [{"kind": COMPUTE, "duration_ns": 7_000}, {"kind": SEND, "peer": 1, "bytes": 50_000}], [[], [0]]
    )
    other = Operations.of(
        [{"kind": RECV, "peer": 0, "bytes": 50_000}, {"kind": COMPUTE, "duration_ns": 2_000}], [[], [0]]
    )
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    sim = by_messages([one, other], network, System.from_document({}))
    sim.run()
    found = [(p.rank, p.cause, p.start_ps // 1000, p.end_ps // 1000) for p in sim.result.critical_path()]
    assert found == [(0, "compute", 0, 7000), (1, "message", 7000, 8500), (1, "compute", 8500, 10500)]
    assert "rank 0: compute" in sim.result.explain()
    assert sim.result.per_rank()[1]["exposed_comm_ps"] == 8_500_000


@pytest.mark.parametrize("congestion", [False, True])
def test_what_was_sent_is_what_collectives_send(congestion):
    sim = _finished(congestion=congestion)
    messages = sim.counts["message"]
    dims = sim.result.table("dimensions")
    assert sum(row["messages"] for row in dims) >= messages  # the send crosses both dimensions
    if congestion:
        links = sim.result.table("links")
        assert sum(row["bytes"] for row in links) == sum(row["link_bytes"] for row in dims)
        assert all(0 < row["utilisation"] <= 1 for row in links)
        assert {row["source"] for row in links} == {f"rank[{r}]" for r in range(6)}
    # An all-reduce of 65,536 bytes: 2 x (n - 1) / n of it from each rank, first in rings of 2.
    one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 60_000}])
    system = System.from_document({"all-reduce-implementation": ["ring"], "local-mem-bw": 1600})
    plain = by_messages([one] * 6, ONE_RING, system)
    plain.run()
    assert plain.engine.dimension(0)["bytes"] == 6 * 2 * 5 * 10_000


_OTHERS = ("layers", "memory", "jobs", "job_links")
"""Tables of other runs: of layers, of models, of several jobs."""


def test_every_table_says_the_same_of_the_same(tmp_path):
    sim = _finished(congestion=True)
    frames = {name: sim.result.to_dataframe(name) for name in TABLES if name not in _OTHERS}
    assert frames["ranks"]["end_ps"].max() == sim.now_ps == frames["operations"]["end_ps"].max()
    collectives = frames["collectives"]
    assert collectives["name"].tolist() == ["all_reduce", "all_gather"]
    assert collectives["ranks"].tolist() == [6, 6]
    assert collectives["skew_ps"].tolist()[0] == 6_000_000
    phases = frames["phases"]
    assert len(phases) == sim.counts["phase"]
    assert (phases["queued_ps"] <= phases["start_ps"]).all()
    assert (phases["start_ps"] <= phases["end_ps"]).all()
    written = sim.result.write_frames(tmp_path / "frames")
    assert written == list(frames)
    with (tmp_path / "frames" / "ranks.csv").open() as file:
        assert [int(row["end_ps"]) for row in csv.DictReader(file)] == frames["ranks"]["end_ps"].tolist()
    with pytest.raises(InputError, match="name a folder"):
        sim.result.write_frames(tmp_path / "frames" / "ranks.csv")


def test_recording_goes_back_with_the_run():
    sim, other = mixed(congestion=True), mixed(congestion=True)
    sim.run()
    sim.back(300)
    other.step(sim.events)
    for name in sim.result.tables:
        assert sim.result.to_dataframe(name).equals(other.result.to_dataframe(name)), name
