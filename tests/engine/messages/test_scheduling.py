"""The system layer beyond ASTRA-sim 2.0: Themis, speeds, switches that reduce, who waits for whom."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run, simulate
from astranb.engine.stops import ENDED
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)
from astranb.workload.astrasim2.documents import read_system

NAMES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
GIBPS = 2**30 / 1e9
INTER = ("baseline", "roundRobin", "offlineGreedy", "offlineGreedyFlex")
INTRA = ("FIFO", "RG", "SCF", "smallestFirst", "lessRemainingPhaseFirst")


def _document(*algorithms, **more):
    lists: dict[str, Any] = {f"{name}-implementation": list(algorithms) for name in NAMES}
    said = {key.replace("_", "-"): value for key, value in more.items()}
    usual = {"preferred-dataset-splits": 1, "collective-optimization": "localBWAware", "local-mem-bw": 1600}
    return {**lists, **usual, **said}


def _system(*algorithms, **more):
    return System.from_document(_document(*algorithms, **more))


def _collective(size, collective=0):
    return Operations.of([{"kind": COLLECTIVE, "collective": collective, "bytes": size}])


# ASTRA-sim 1.0 reports one ns more: its layer ends a tick after its collective. Its bandwidths
# are of single links, in GiB/s; a ring of 1.0 has two of them here.
RECORDED = {
    "sw8x8x8-AR1GB-FIFO-baseline": ("baseline", "FIFO", 35_008_129),
    "sw8x8x8-AR1GB-SCF-baseline": ("baseline", "SCF", 35_008_129),
    "sw8x8x8-AR1GB-SCF-themis": ("themis", "SCF", 13_635_871),
    "sw8x8x8-AR1GB-SCF-themisFlex": ("themisFlex", "SCF", 13_803_793),
    "R4_FC4_SW4-AR256MB-FIFO-baseline": ("baseline", "FIFO", 2_086_824),
    "R4_FC4_SW4-AR256MB-SCF-themis": ("themis", "SCF", 2_103_192),
}
"""Runs of ASTRA-sim 1.0 (tutorial ASPLOS 2023) that were recorded: Themis, and without it."""


@pytest.mark.reference
@pytest.mark.parametrize("name", RECORDED)
def test_themis_is_that_of_astra_sim_1(name):
    inter, intra, recorded = RECORDED[name]
    shapes, counts, rates, latency = ["Switch"] * 3, [8] * 3, [50.0] * 3, 1
    algorithms, splits, size = ["halvingDoubling"] * 3, 64, 1 << 30
    if name.startswith("R4"):
        shapes, counts, rates, latency = ["Ring", "FullyConnected", "Switch"], [4] * 3, [200, 50, 12.5], 500
        algorithms, splits, size = ["ring", "direct", "halvingDoubling"], 32, 256 << 20
    more = {"inter_dimension_scheduling": inter, "intra_dimension_scheduling": intra}
    system = _system(*algorithms, preferred_dataset_splits=splits, **more | {"local-mem-bw": 500_000})
    npus = counts[0] ** 3
    network = DimensionNetwork(shapes, counts, [rate * GIBPS for rate in rates], [latency] * 3)
    result = simulate(Workload([_collective(size)] * npus, network, system))
    assert set(result.end_ns.tolist()) == {recorded - 1}


@settings(max_examples=40, deadline=None)
@given(
    inter=st.sampled_from(INTER),
    intra=st.sampled_from(INTRA),
    counts=st.lists(st.sampled_from([2, 4]), min_size=2, max_size=3),
    splits=st.integers(1, 9),
    active=st.integers(1, 3),
    collective=st.integers(0, 3),
    size=st.integers(1 << 12, 1 << 24),
)
def test_no_order_of_dimensions_and_chunks_ends_in_a_deadlock(
    inter, intra, counts, splits, active, collective, size
):
    more = {"preferred_dataset_splits": splits, "active_chunks_per_dimension": active}
    more |= {"inter_dimension_scheduling": inter, "intra_dimension_scheduling": intra}
    network = (
        DimensionNetwork(
            ["Switch", "Ring", "FullyConnected"][: len(counts)],
            counts,
            [100, 50, 25][: len(counts)],
            [500] * 3,
        )
        if len(counts) == 3
        else DimensionNetwork(["Ring", "Switch"], counts, [100, 25], [500, 700])
    )
    ranks = [_collective(size, collective)] * network.npus
    system = _system(*["ring"] * len(counts), **more)
    for congestion in (False, True):
        result = simulate(Workload(ranks, network, system), congestion=congestion)
        assert result.end_ns.min() > 0


def test_themis_keeps_every_dimension_busy():
    network = DimensionNetwork(["Switch"] * 3, [4] * 3, [50] * 3, [500] * 3)
    ranks = [_collective(1 << 28)] * 64
    more = {"preferred_dataset_splits": 32, "intra_dimension_scheduling": "SCF"}
    plain, themis = (
        simulate(
            Workload(
                ranks, network, _system(*["halvingDoubling"] * 3, inter_dimension_scheduling=one, **more)
            )
        )
        for one in ("baseline", "themis")
    )
    # One after another, the first dimension carries 48 of 63 parts of all; in a third of the time.
    assert themis.end_ns.max() < 0.5 * plain.end_ns.max()


def test_compat_goes_through_the_dimensions_as_they_are_numbered():
    network = DimensionNetwork(["Ring", "Switch"], [4, 2], [100, 25], [500, 700])
    more = {"preferred_dataset_splits": 8}
    ranks = [_collective(1 << 20)] * 8
    plain = simulate(Workload(ranks, network, _system("ring", "ring", **more), compat=True))
    themis = _system("ring", "ring", inter_dimension_scheduling="themis", **more)
    assert simulate(Workload(ranks, network, themis, compat=True)).end_ns.tolist() == plain.end_ns.tolist()
    assert simulate(Workload(ranks, network, themis)).end_ns.tolist() != plain.end_ns.tolist()


@settings(max_examples=40, deadline=None)
@given(
    npus=st.integers(2, 8),
    size=st.integers(64, 1 << 24),
    collective=st.integers(0, 2),
    rate=st.sampled_from([25, 50, 100]),
    latency=st.integers(0, 1000),
    delay=st.integers(0, 500),
    congestion=st.booleans(),
)
def test_a_collective_in_a_switch_goes_up_and_down_once(
    npus, size, collective, rate, latency, delay, congestion
):
    network = DimensionNetwork(["Switch"], [npus], [rate], [latency])
    system = _system("inNetwork", in_network_delay=delay)
    result = simulate(
        Workload([_collective(size, collective)] * npus, network, system), congestion=congestion
    )
    chunk = max(size, npus)
    down = {0: chunk, 1: chunk // npus, 2: chunk * (npus - 1)}[collective]
    expected = 10 + int(latency + chunk / rate) + delay + int(latency + down / rate) + 10
    assert set(result.end_ns.tolist()) == {expected}
    assert result.messages == 2 * npus
    assert result.message_bytes == npus * (chunk + down)


def test_a_switch_takes_its_part_in_hierarchical_collectives():
    network = DimensionNetwork(["Ring", "Switch"], [4, 8], [100, 50], [500, 700])
    ranks = [_collective(1 << 22)] * 32
    for congestion in (False, True):
        more = {"preferred_dataset_splits": 4}
        inside, ring = (
            simulate(Workload(ranks, network, _system("ring", one, **more)), congestion=congestion)
            for one in ("inNetwork", "ring")
        )
        assert len(set(inside.end_ns.tolist())) == 1
        assert inside.end_ns.max() < ring.end_ns.max()


def test_chunks_of_a_switch_share_its_links():
    network = DimensionNetwork(["Switch"], [4], [50], [500])
    system = _system("inNetwork", preferred_dataset_splits=4, active_chunks_per_dimension=4)
    ranks = [_collective(1 << 20)] * 4
    free, full = (
        simulate(Workload(ranks, network, system), congestion=congestion).end_ns
        for congestion in (False, True)
    )
    wire = (1 << 18) / 50
    # One after another over the link up; the last one goes down as soon as it is there.
    assert set(full.tolist()) == {20 + 3 * math.ceil(wire) + 2 * int(500 + wire)}
    assert set(free.tolist()) == {20 + int(500 + 4 * wire) + int(500 + wire)}


@pytest.mark.parametrize(
    "network, algorithms, collective, options, message",
    [
        (["Ring"], ["inNetwork"], 0, {}, "inNetwork in dimension 0, which is not a Switch; use ring"),
        (["Switch", "Ring"], ["ring", "inNetwork"], 0, {}, "inNetwork in dimension 1, which is not a Switch"),
        (["Switch"], ["inNetwork"], 3, {}, "a switch cannot do an all-to-all"),
        (["Switch"], ["inNetwork"], 0, {"compat": True}, r"ASTRA-sim 2\.0 has no inNetwork"),
    ],
)
def test_what_cannot_be_done_in_a_switch_is_refused(network, algorithms, collective, options, message):
    counts = [4] * len(network)
    net = DimensionNetwork(network, counts, [50] * len(network), [500] * len(network))
    with pytest.raises(InputError, match=message):
        simulate(Workload([_collective(1024, collective)] * net.npus, net, _system(*algorithms), **options))


def _work(us, size):
    return Operations.of(
        [{"kind": COMPUTE, "duration_ns": 1000 * us}, {"kind": COLLECTIVE, "collective": 0, "bytes": size}],
        [[], [0]],
    )


@settings(max_examples=30, deadline=None)
@given(rank=st.integers(0, 7), speed=st.sampled_from([0.1, 0.3, 0.5, 0.9]), us=st.integers(1, 1000))
def test_a_straggler_holds_up_its_neighbours_around_the_ring(rank, speed, us):
    npus, size = 8, 1 << 20
    network = DimensionNetwork(["Ring"], [npus], [50], [500])
    even = simulate(Workload([_work(us, size)] * npus, network, _system("ring")))
    slow = simulate(
        Workload([_work(us, size)] * npus, network, _system("ring", npu_speed={str(rank): speed}))
    )
    parts = {0.1: (10, 1), 0.3: (10, 3), 0.5: (2, 1), 0.9: (10, 9)}[speed]
    taken = us * 1000 * parts[0] // parts[1]
    assert slow.compute_ns.tolist() == [taken if other == rank else us * 1000 for other in range(npus)]
    late = taken - us * 1000
    assert (slow.end_ns >= even.end_ns).all()
    # Its part goes round the ring twice but for two steps, each time as late: its second neighbour
    # upstream gets it last and loses all; what others sent it meanwhile waits for it.
    assert slow.end_ns[(rank - 2) % npus] == even.end_ns.max() + late
    assert slow.end_ns.max() == even.end_ns.max() + late


def test_skew_travels_one_neighbour_a_step():
    # A lone reduce-scatter: each rank waits for all before it in the ring, and its neighbour's
    # first message is what a straggler holds up first.
    npus = 6
    network = DimensionNetwork(["Ring"], [npus], [50], [500])
    rows = [{"kind": COMPUTE, "duration_ns": 1_000}, {"kind": SEND, "bytes": 50_000}]
    ends = []
    for speed in (1, 0.001):
        ranks = [Operations.of([rows[0], {**rows[1], "peer": 1}], [[], [0]])]
        for rank in range(1, npus):
            receive = {"kind": RECV, "peer": rank - 1, "bytes": 50_000}
            more = [{**rows[1], "peer": rank + 1}] if rank < npus - 1 else []
            ranks.append(Operations.of([receive, *more], [[], [0]][: 1 + len(more)]))
        system = System.from_document({"npu-speed": {"0": speed}})
        ends.append(simulate(Workload(ranks, network, system)).end_ns)
    assert (ends[1] - ends[0]).tolist() == [999_000] * npus


def test_speeds_are_read_and_refused(tmp_path):
    path = tmp_path / "system.json"
    path.write_text(json.dumps({"npu-speed": [1, 0.5, 1, 2]}))
    assert read_system(path).speeds == {1: 0.5, 3: 2}
    for said, message in (
        ([0], r"npu-speed\[0\]: 0 is out of range"),
        ({"x": 1}, "'x' is not a rank"),
        (3, "npu-speed"),
    ):
        path.write_text(json.dumps({"npu-speed": said}))
        with pytest.raises(InputError, match=message):
            read_system(path)
    network = DimensionNetwork(["Ring"], [4], [50], [500])
    with pytest.raises(InputError, match="npu-speed of rank 4, of 4"):
        simulate(Workload([_work(1, 64)] * 4, network, _system("ring", npu_speed={"4": 2})))
    with pytest.raises(InputError, match=r"ASTRA-sim 2\.0 has no npu-speed"):
        simulate(Workload([_work(1, 64)] * 4, network, _system("ring", npu_speed={"3": 2}), compat=True))


def _chain(*rows):
    return Operations.of(rows, [[row - 1] if row else [] for row in range(len(rows))])


_REDUCE = {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 20}
_GATHER = {**_REDUCE, "collective": 2}
_SMALL = {**_REDUCE, "bytes": 1024}


def _receive(peer, tag=0):
    return {"kind": RECV, "peer": peer, "bytes": 8, "tag": tag}


def _send(peer, tag=0):
    return {"kind": SEND, "peer": peer, "bytes": 8, "tag": tag}


@pytest.mark.parametrize(
    "ranks, message",
    [
        (
            [[_REDUCE, _REDUCE], [_REDUCE], [_REDUCE, _REDUCE]],
            "2 of 3 ranks never end; rank 0 waits in all_reduce #2 of 1048576 bytes; rank 1 has ended",
        ),
        (
            [[_REDUCE], [_GATHER], [_REDUCE]],
            "rank 1 waits in all_gather #1 of 1048576 bytes; a cycle of ranks: 0 -> 1 -> 0",
        ),
        ([[_REDUCE], [_REDUCE], [_SMALL]], "rank 2 waits in all_reduce #1 of 1024 bytes"),
        (
            [[_receive(1), _send(2)], [_receive(2), _send(0)], [_receive(0), _send(1)]],
            "rank 2 waits in a receive from rank 0, tag 0, of 8 bytes; a cycle of ranks: 0 -> 1 -> 2 -> 0",
        ),
        (
            [[_receive(1, 3)], [_send(0, 4)], []],
            "tag 3, of 8 bytes; rank 1 has sent it 8 bytes with tag 4; rank 1 has ended",
        ),
        (
            [[_REDUCE], [_receive(2), _REDUCE], [_REDUCE]],
            "rank 1 waits in a receive from rank 2, tag 0, of 8 bytes; rank 2 waits in all_reduce #1",
        ),
    ],
)
def test_a_deadlock_says_who_waits_for_whom(ranks, message):
    network = DimensionNetwork(["Ring"], [3], [50], [500])
    with pytest.raises(Deadlock) as error:
        simulate(Workload([_chain(*rows) for rows in ranks], network, _system("ring")))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_deadlock_of_an_algorithm_is_called_so():
    network = DimensionNetwork(["Ring"], [3], [50], [500])
    with pytest.raises(Deadlock, match="every rank is in it, and its algorithm waits"):
        simulate(Workload([_chain(_REDUCE)] * 3, network, _system("halvingDoubling"), compat=True))


def test_steps_change_nothing_with_grants_and_switches():
    network = DimensionNetwork(["Ring", "Switch"], [4, 4], [100, 25], [500, 700])
    system = _system("ring", "inNetwork", inter_dimension_scheduling="themis", preferred_dataset_splits=6)
    ranks = [_collective(1 << 20)] * 16
    for congestion in (False, True):
        whole, parts = (Run(Workload(ranks, network, system), congestion=congestion) for _ in range(2))
        whole.finish()
        while parts.go(steps=parts.events + 97) != ENDED:
            pass
        assert parts.digest() == whole.digest()
