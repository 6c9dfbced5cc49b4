"""Lost time: it adds up, and is what the ranks' rows say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.operations.lost_time import LOSSES, lost_times
from astranb.workload.astrasim2 import (
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
)
from tests.engine.operations.support import by_messages, mixed


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
    assert list(frame.columns[2:]) == [f"{name.replace(' ', '_')}_ps" for name in LOSSES]


def test_waiting_for_the_slow_rank_is_not_moving_data():
    sim = mixed()
    sim.run("9 us")  # rank 5 computes for 9 us, the others for 3
    others = list(LOSSES).index("others")
    # Ranks 0 to 4 are in the all-reduce since 3 us, and in a computation of 5 us from then on.
    assert lost_times(sim.engine)[:, others].tolist() == [1_000_000] * 5 + [0]
    assert lost_times(sim.engine)[5].tolist()[0] == 9_000_000


def test_a_receive_waits_for_its_sender_first():
    one = Operations.of(
        [{"kind": COMPUTE, "duration_ns": 7_000}, {"kind": SEND, "peer": 1, "bytes": 50_000}], [[], [0]]
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
