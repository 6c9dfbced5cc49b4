"""Chains of waits: they lead to the rank that all others wait for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock
from astranb.workload.astrasim2 import (
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
)
from tests.engine.operations.support import by_messages, mixed


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
    assert str(sim.why("rank[4]")).endswith("rank 4 ended at 125.3 µs")
    assert len(sim.why("dim[0]")) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 900), st.integers(0, 5))
def test_there_is_a_chain_at_any_moment(events, rank):
    sim = mixed()
    sim.step(events)
    assert len(sim.why(f"rank[{rank}]")) >= 1
    assert len(sim.why()) >= 1


def test_a_circle_is_reported():
    rows = [{"kind": RECV, "peer": 1, "bytes": 8}, {"kind": SEND, "peer": 1, "bytes": 8}]
    ranks = [Operations.of([{**row, "peer": 1 - rank} for row in rows], [[], [0]]) for rank in range(2)]
    sim = by_messages(ranks, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    with pytest.raises(Deadlock):
        sim.run()
    assert sim.why("rank[0]").circle
