"""The network that is fitted to a recorded job."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import Attribute, CollectiveType, LinkedJob, Node, NodeType, Trace
from astranb.explore import CollectiveTimes, job_network
from astranb.workload.astrasim2 import DimensionNetwork, System, read_network

_SYSTEM = System.from_document(
    {f"{name}-implementation": ["ring"] for name in ("all-reduce", "all-gather", "reduce-scatter")}
    | {"all-to-all-implementation": ["direct"]}
)
_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def recorded(times: list[tuple[str, list[int], int, int]], ranks: int) -> LinkedJob:
    """A job of these collectives: kind, ranks, bytes, time in ns."""
    groups = {str(number): members for number, (_, members, _, _) in enumerate(times, 1)}
    traces = []
    for rank in range(ranks):
        nodes = [
            Node(
                number, kind, NodeType.COMM_COLL,
                attributes={
                    "comm_type": Attribute(int(CollectiveType[kind.upper()])), "comm_size": Attribute(size),
                    "pg_name": Attribute(str(number)), "duration_ns": Attribute(took),
                },
            )
            for number, (kind, members, size, took) in enumerate(times, 1)
            if rank in members
        ]  # fmt: skip
        traces.append(Trace.of(nodes))
    return LinkedJob(traces, groups, [], [], len(times), 0, [])


@settings(max_examples=8, deadline=None)
@given(st.floats(1, 400), st.floats(2000, 200_000), st.data())
def test_a_network_is_found_again(tmp_path_factory, bandwidth, latency, data):
    ranks = data.draw(st.sampled_from([2, 4, 8]))
    times = CollectiveTimes(DimensionNetwork(["Switch"], [ranks], [bandwidth], [latency]), _SYSTEM)
    rows = []
    for size in (4_000, 80_000_000, 640_000):
        kind = data.draw(st.sampled_from(_KINDS))
        members = list(range(data.draw(st.integers(2, ranks))))
        rows.append((kind, members, size, times.collective_ns(kind, members, size)))
    found = job_network(recorded(rows, ranks))
    assert found is not None
    assert found.bandwidth_GBps == pytest.approx(bandwidth, rel=0.02)
    assert found.latency_ns == pytest.approx(latency, rel=0.02, abs=100)
    assert found.worst_error < 0.1
    file = tmp_path_factory.mktemp("network") / "network.yml"
    file.write_bytes(found.files()["network.yml"])
    assert read_network(file).npus == ranks


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=4), st.integers(1000, 20_000))
def test_of_times_that_may_be_nothing_but_latency_no_bandwidth_is_known(sizes, took):
    """At most 4 KB within 20 µs, and all alike: whatever they are, it is not 0.0002 GB/s."""
    assert job_network(recorded([("all_reduce", [0, 1], size, took) for size in sizes], 2)) is None


def test_of_transfers_of_one_size_the_latency_is_not_known():
    """An all-reduce of two ranks moves its bytes once in each direction: 20 MB in 1 ms are 20 GB/s."""
    found = job_network(recorded([("all_reduce", [0, 1], 20_000_000, 1_000_000)] * 3, 2))
    assert found is not None
    assert found.latency_ns == 0
    assert found.bandwidth_GBps == pytest.approx(20, rel=0.001)


def test_a_bandwidth_that_no_network_has_is_not_written():
    assert job_network(recorded([("all_reduce", [0, 1], 100, 10**9)], 2)) is None


@pytest.mark.parametrize("sizes", [(10**6,), (10**6, 10**6), (10**6, 1_050_000)])
def test_transfers_that_are_alike_do_not_tell_latency_from_bandwidth(sizes):
    """Of one size, least squares gave a latency of a few ps or ms, as the numbers fell."""
    rows = [("all_reduce", [0, 1], size, 1_000_000 + 10_000 * at) for at, size in enumerate(sizes)]
    found = job_network(recorded(rows, 2))
    assert found is not None
    assert found.latency_ns == 0
    assert found.bandwidth_GBps == pytest.approx(1, rel=0.06)  # 10^6 bytes each way in 1 ms
    assert "no known latency" in str(found)


def test_without_transfers_there_is_none():
    assert job_network(recorded([], 2)) is None
