"""The topology of runs of operations: what is placed, and that messages move as the engine recorded them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.engine.messages import tables as t
from astranb.engine.messages.instances import pairs
from astranb.engine.messages.link_ends import waiting_for
from astranb.engine.operations.activity import BUBBLE, COMMUNICATION, WAITING, activity_of
from astranb.engine.operations.activity import COMPUTE as COMPUTING
from astranb.net.astrasim2 import FULLY_CONNECTED, MESH, RING, SWITCH
from astranb.net.dimension_links import links_of_dimensions
from astranb.widgets.feed import OperationFeed, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views.queues import answer as queues
from astranb.widgets.views.ranks import KINDS, doing, doing_of, index_of, tracks
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)
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
from tests.workload.models.support import tiny

NETWORKS = {
    "ring": DimensionNetwork(["Ring"], [5], [50], [500]),
    "ring and switch": DimensionNetwork(["Ring", "Switch"], [4, 2], [50, 25], [500, 700]),
    "full mesh and ring": DimensionNetwork(["FullyConnected", "Ring"], [4, 4], [50, 25], [500, 700]),
    "torus": DimensionNetwork(["Torus2D"], [9], [50], [500]),
}


def simulation(network: Any, fidelity: str, algorithm: str = "ring", **words: Any) -> anb.Simulation:
    """Two all-reduces, each behind a computation, on every rank; of the second rank a longer one."""
    dims = len(network.npus_count)
    system = System.from_document(
        {"all-reduce-implementation": [algorithm] * dims, "preferred-dataset-splits": 3, "local-mem-bw": 1600}
    )

    def rank(compute_us: int) -> Operations:
        rows = [
            {"kind": COMPUTE, "duration_ns": 1000 * compute_us},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 18},
            {"kind": COMPUTE, "duration_ns": 1_000},
            {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 16},
        ]
        return Operations.of(rows, [[], [0], [1], [2]])

    ranks = [rank(20 if number == 1 else 10) for number in range(network.npus)]
    return anb.Simulation(Workload(ranks, network, system), fidelity=fidelity, **words)


def layers() -> anb.Simulation:
    """Two layers of ASTRA-sim 1.0 on a ring of 8."""
    made = tuple(
        Layer(f"conv{n}", Part(1000), Part(1000), Part(1000, "ALLREDUCE", 1 << 20)) for n in range(2)
    )
    ring = HierarchicalNetwork(("Ring",), (8,), (2,), (500,), (50,))
    system = LayerSystem({"all-reduce": (LayerAlgorithm("ring"),)}, splits=4)
    return anb.Simulation(LayerWorkload(LayerTable("DATA", made), system, ring, 1))


class Browser:
    """Model of ``static/flights.js``: the messages sent to it."""

    def __init__(self, sim: anb.Simulation) -> None:
        self.feed = OperationFeed(session_of(sim))
        self.scene, columns = self.feed.scene()
        self.bundle_of = unpack("scene", columns)["bundle_of"]
        self.rows: dict[str, np.ndarray] = {}

    def read(self) -> None:
        """Take the news."""
        meta, buffers = self.feed.state(fine=True)
        assert meta["one_in"] == 1
        for name, column in unpack("state", buffers).items():
            self.rows[name] = np.concatenate([self.rows.get(name, column[:0])[: meta["first"]], column])
        assert len(self.rows["start"]) == meta["total"]


def test_the_longest_queues_are_listed_first() -> None:
    sim = simulation(NETWORKS["ring"], "congestion", "direct")
    assert len(sim.buffers()) == 0
    while not len(rows := sim.buffers()):
        sim.step(10)
        assert not sim.finished
    assert rows.waiting.is_monotonic_decreasing
    assert rows.waiting[0] > 0
    waiting, _ = sim.engine.queues(np.arange(10))
    assert dict(zip(rows.path, rows.waiting, strict=True)) == {
        f"link[{link}]": count for link, count in enumerate(waiting.tolist()) if count
    }
    analytical = simulation(NETWORKS["ring"], "analytical")
    analytical.step(1, "message")
    assert len(analytical.buffers()) == 0  # its links are always free


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_before_the_first_message_there_are_no_flights(name: str, fidelity: str) -> None:
    browser = Browser(simulation(NETWORKS[name], fidelity))
    browser.read()
    assert len(browser.rows["start"]) == 0


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_with_congestion_flights_are_what_links_carried(name: str, algorithm: str) -> None:
    sim = simulation(NETWORKS[name], "congestion", algorithm)
    browser = Browser(sim)
    while not sim.finished:
        sim.step(700)
        browser.read()
    rows, feed = browser.rows, browser.feed
    link = feed.drawn[rows["what"] >> 4]
    used: Any = sim.engine.machine.used
    assert np.array_equal(np.bincount(link, rows["bytes"], len(used)), used.bytes)
    assert np.array_equal(np.bincount(link, minlength=len(used)), used.messages)
    recorded: Any = sim.engine.machine.flights[: int(sim.engine.machine.watch[0].flights)]
    assert np.array_equal(rows["start"], recorded.start_ns * 1000.0)
    assert np.array_equal(rows["end"], recorded.end_ns * 1000.0)
    assert np.array_equal(rows["start"] - rows["wait"], recorded.queued_ns * 1000.0)
    # A link sends one message after the other: it is free when its bytes have left.
    rate = feed.graph.rate_Bps[link]
    left = rows["start"] + np.floor(rows["bytes"] / rate * 1e9) * 1000
    for one in np.unique(link):
        mine = np.flatnonzero(link == one)
        assert (rows["start"][mine][1:] >= left[mine][:-1]).all()
    # Each is of an all-reduce of its sender, and within its time.
    start, _ = sim.engine.times_ps()
    own = sim.engine.about.start[rows["source"]] + rows["number"]
    assert set(rows["number"].tolist()) == {1, 3}
    assert (rows["start"] >= start[own]).all()
    assert (rows["chunk"] < 2 * 3).all()
    assert (rows["phase"] > 0).all()
    assert (rows["step"] > 0).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_without_congestion_a_message_takes_its_links_in_its_time(name: str) -> None:
    sim = simulation(NETWORKS[name], "analytical", "direct")
    browser = Browser(sim)
    sim.run()
    browser.read()
    rows, m = browser.rows, sim.engine.machine
    recorded: Any = m.flights[: int(m.watch[0].flights)]
    assert len(recorded) == sim.counts["message"]
    whole: Any = m.traffic.reshape(-1, len(m.dims))
    link = browser.feed.drawn[rows["what"] >> 4]
    dim = links_of_dimensions(m.dims.kind.tolist(), m.dims.nodes.tolist()).dim[link]
    assert np.array_equal(np.bincount(dim, rows["bytes"], len(m.dims)), whole.crossed.sum(axis=0))
    begins = np.flatnonzero(np.diff(rows["start"], prepend=-1) != 0)  # of some message each
    assert set(rows["start"][begins]) >= set((recorded.start_ns * 1000.0).tolist())
    assert set(rows["end"]) >= set((recorded.end_ns * 1000.0).tolist())
    assert rows["end"].max() == recorded.end_ns.max() * 1000


def test_going_back_takes_messages_away_and_replay_gives_the_same_ones() -> None:
    sim = simulation(NETWORKS["ring and switch"], "congestion")
    browser = Browser(sim)
    for _ in range(4):
        sim.step(400)
        browser.read()
    before = {name: column.copy() for name, column in browser.rows.items()}
    sim.back(700)
    browser.feed.mark()
    browser.read()
    kept = len(browser.rows["start"])
    assert 0 < kept < len(before["start"])
    assert all(np.array_equal(browser.rows[name], before[name][:kept]) for name in before)
    sim.step(700)
    browser.read()
    assert all(np.array_equal(browser.rows[name], before[name]) for name in before)


def test_a_recording_that_is_full_gives_the_latest_messages_only() -> None:
    sim = simulation(NETWORKS["ring"], "congestion")
    m = sim.engine.machine
    sim.engine.run.machine = m._replace(flights=m.flights[:64].copy())
    sim.run()
    total = int(sim.engine.machine.watch[0].flights)
    assert total > 200
    assert (sim.engine.flights(0).first, len(sim.engine.flights(0).flights)) == (total - 64, 64)
    sim.back(100)  # the newest rows are now of the future
    now = int(sim.engine.machine.watch[0].flights)
    found = sim.engine.flights(0)
    assert found.total == now < total
    assert (found.flights.start_ps <= sim.now_ps).all()


def test_without_a_recording_nothing_is_kept_and_the_state_is_the_same() -> None:
    recorded, other = (simulation(NETWORKS["ring and switch"], "congestion", record=r) for r in (True, False))
    recorded.run()
    other.run()
    assert recorded.state_hash() == other.state_hash()
    assert (len(other.engine.machine.flights), len(other.engine.machine.moving)) == (1, 1)
    browser = Browser(other)
    browser.read()
    assert not len(browser.rows["start"])
    assert not browser.scene["recording"]


def test_a_layer_tables_chunks_go_round_the_ring() -> None:
    sim = layers()
    browser = Browser(sim)
    while not sim.finished:
        sim.step(3)
        browser.read()
    rows, passed = browser.rows, sim.engine.passed()
    assert browser.scene["kinds"] == ["conv1 WG comm", "conv0 WG comm"]
    assert (
        len(rows["start"]) == len(passed["end_ps"]) * 14 * 8
    )  # all-reduce: two rounds of 7 steps, 8 ranks each
    assert set(rows["end"]) >= set(passed["end_ps"].astype(float))
    assert set(rows["start"]) >= set(passed["begun_ps"].astype(float))
    assert set((rows["target"].astype(int) - rows["source"].astype(int)) % 8) == {1}
    sent = rows["bytes"][rows["source"] == 0].sum()
    assert sent == sum(sim.engine.dimension(d)["bytes"] for d in range(1)) / 8


def test_every_link_of_the_numbering_leads_where_messages_go() -> None:
    links = links_of_dimensions([RING, SWITCH, MESH, FULLY_CONNECTED], [5, 2, 3, 2])
    ranks = np.arange(links.npus)
    source, target = (one.reshape(-1) for one in np.meshgrid(ranks, ranks))
    message, link, nth, count = links.paths(source, target)
    assert links.exists[link].all()
    first, last = nth == 0, nth == count - 1
    assert (links.source[link[first]] == source[message[first]]).all()
    assert (links.target[link[last]] == target[message[last]]).all()
    inner = np.flatnonzero(~first)
    assert (links.source[link[inner]] == links.target[link[inner - 1]]).all()


@pytest.mark.parametrize(
    "shapes, counts, note",
    [
        (["Ring", "Ring"], [8, 128], "dim 0: 1 of 128 rings drawn · dim 1: 1 of 8 rings drawn"),
        (
            ["FullyConnected", "Switch"],
            [8, 128],
            "dim 0: 1 of 128 full meshes drawn · dim 1: 1 of 8 switches drawn",
        ),
        (["Ring"], [1024], ""),
        (["FullyConnected"], [1024], ""),
        (["Switch", "Ring", "Ring"], [8, 16, 8], "dim 0: 1 of 128 switches drawn"),
    ],
)
def test_of_1024_ranks_one_group_of_each_dimension_is_drawn(
    shapes: list[str], counts: list[int], note: str
) -> None:
    network = DimensionNetwork(shapes, counts, [50] * len(shapes), [500] * len(shapes))
    feed = OperationFeed(session_of(simulation(network, "analytical")))
    scene, columns = feed.scene()
    assert note in scene["note"]
    assert sum(box["count"] for box in scene["boxes"] if box["ranks"][0] >= 0) == 1024
    assert len(scene["boxes"]) < 200
    assert len(scene["bundles"]) < 2000
    assert sum(map(len, columns)) < 100_000
    alone = [box["rank"] for box in scene["boxes"] if box["rank"] >= 0]
    assert alone[:8] == list(range(8))


def test_messages_of_an_infrastructure_go_over_its_links() -> None:
    collective = anb.collectives.all_reduce("1 MiB", "ring")
    for fidelity in ("analytical", "congestion"):
        sim = anb.Simulation("dgx-h100", collective, fidelity=fidelity)
        browser = Browser(sim)
        sim.run()
        browser.read()
        assert len([box for box in browser.scene["boxes"] if box["label"].startswith("rank ")]) == 8
        rows = browser.rows
        assert set(browser.feed.graph.src[browser.feed.drawn[rows["what"] >> 4]]) >= set(
            browser.feed.graph.gpus.tolist()
        )
        first = rows["wait"] >= 0
        assert first.all()
        names = {bundle["name"] for bundle in browser.scene["bundles"]}
        assert len(names) == len(browser.scene["bundles"])


def test_tables_are_as_long_as_what_they_describe() -> None:
    sim = simulation(NETWORKS["ring and switch"], "congestion")
    sim.run()
    m = sim.engine.machine
    assert len(m.moving) == len(m.messages)
    assert len(m.drawn) == 8
    assert m.flights.dtype == t.FLIGHT


def test_every_moment_of_a_rank_has_one_activity() -> None:
    sim = simulation(NETWORKS["ring and switch"], "congestion")
    while not sim.finished:
        sim.step(900)
        found = activity_of(sim.engine)
        rows, sums = sim.result.per_rank(), found.sums(8)
        for row, parts in zip(rows, sums.tolist(), strict=True):
            compute, communication, waiting, memory, late, bubble = parts
            assert compute == row["compute_ps"]
            assert communication + waiting == row["exposed_comm_ps"]
            assert (memory, late, bubble) == (row["memory_ps"], 0, row["idle_ps"])
        for rank in range(8):
            mine = found.rank == rank
            assert (found.start_ps[mine][1:] == found.end_ps[mine][:-1]).all()
            assert (found.state[mine][1:] != found.state[mine][:-1]).all()
    # All wait 10 us for the second rank.
    assert sums[1, WAITING] < 5_000_000
    assert (np.delete(sums[:, WAITING], 1) >= 10_000_000).all()


def of_some_ranks(sim: anb.Simulation, ranks: list[int]) -> None:
    """Check that answers for some ranks are those for all, as far as they are theirs."""
    feed = OperationFeed(session_of(sim))
    whole, some = activity_of(sim.engine), doing_of(feed, ranks)
    mine = np.isin(whole.rank, ranks)
    for name in ("rank", "state", "start_ps", "end_ps"):
        assert getattr(some, name).tolist() == getattr(whole, name)[mine].tolist()
    for kind in KINDS:
        every, part = (index_of(feed, kind, of) for of in (range(sim.ranks), ranks))
        keys = [rank * every.tracks + track for rank in ranks for track in range(every.tracks)]
        assert part.slots[keys].tolist() == every.slots[keys].tolist()
        for name in ("row", "slot", "start_ps", "end_ps", "ready_ps", "waits"):
            found = [
                [getattr(one, name)[one.first[key] : one.first[key + 1]].tolist() for key in keys]
                for one in (part, every)
            ]
            assert found[0] == found[1]


def pairs_one_by_one(sim: anb.Simulation) -> set[tuple[int, int]]:
    """The k-th send with the same ends, tag and bytes, and the k-th such receive."""
    rows = sim.engine.machine.operations[: sim.engine.about.own]
    begun: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    for row in sorted(np.flatnonzero(rows.start_ns >= 0).tolist(), key=lambda n: (int(rows[n].start_ns), n)):
        one = rows[row]
        if one.kind in (SEND, RECV):
            ends = (one.npu, one.peer) if one.kind == SEND else (one.peer, one.npu)
            key = tuple(map(int, (*ends, one.tag, one.bytes)))
            begun.setdefault(key, ([], []))[int(one.kind == RECV)].append(row)
    return {pair for both in begun.values() for pair in zip(*both, strict=False)}


def test_a_training_step_is_worked_out_for_the_ranks_in_sight() -> None:
    step = anb.models.workload(tiny(), anb.models.Parallelism(data=2, pipeline=4), microbatches=8)
    sim = anb.Simulation(step)
    some = 0
    while not sim.finished:
        sim.step(97)
        of_some_ranks(sim, [1, 6])
        found = pairs(sim.engine)
        assert set(zip(*(part.tolist() for part in found), strict=True)) == pairs_one_by_one(sim)
        some += len(found[0])
    assert some


@pytest.mark.slow
def test_a_training_step_of_a_thousand_ranks_is_built_stepped_and_shown() -> None:
    step = anb.models.workload("gpt3-1.3b", anb.models.Parallelism(data=16, tensor=8, pipeline=8))
    sim = anb.Simulation(step)
    assert sim.ranks == 1024
    browser = Browser(sim)
    assert 64 < len(browser.scene["boxes"]) < 200
    for unit in ("event", "message", "operation", "phase"):
        before = sim.counts[unit]
        sim.step(1, unit)
        assert sim.counts[unit] == before + 1
    sim.step(200_000)
    at = sim.state_hash()
    sim.step(1)
    sim.back(1)
    assert sim.state_hash() == at
    of_some_ranks(sim, [0, 511, 1023])
    options = {"from": 0, "to": sim.now_ps, "columns": 50, "ranks": [1016, 1023]}
    meta, _ = tracks(OperationFeed(session_of(sim)), options)
    assert meta["ranks"] == [1016, 1023]
    assert meta["count"] > 0
    assert sim.run().why == "end"


def test_a_stage_of_a_pipeline_has_bubbles_and_does_not_wait_for_peers() -> None:
    system = System.from_document({"all-reduce-implementation": ["ring"], "local-mem-bw": 1600})
    first = [{"kind": COMPUTE, "duration_ns": 50_000}, {"kind": SEND, "peer": 1, "tag": 0, "bytes": 1 << 20}]
    second = [{"kind": RECV, "peer": 0, "tag": 0, "bytes": 1 << 20}, {"kind": COMPUTE, "duration_ns": 30_000}]
    stages = [Operations.of(rows, [[], [0]]) for rows in (first, second)]
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    sim = anb.Simulation(Workload(stages, network, system))
    sim.run()
    found = activity_of(sim.engine)
    mine = found.rank == 1
    assert found.state[mine].tolist() == [BUBBLE, COMMUNICATION, COMPUTING]
    assert found.end_ps[mine][0] == 50_000_000
    feed = OperationFeed(session_of(sim))
    options = {"from": 0, "to": sim.now_ps, "columns": 50, "ranks": [0, 1]}
    meta, buffers = tracks(feed, options)
    spans = unpack("tracks", buffers)
    assert meta["drawn"] == "spans"
    receive = int(np.flatnonzero((spans["place"] // meta["tracks"] == 1) & (spans["number"] == 0))[0])
    assert (spans["ready"][receive], spans["waits"][receive]) == (50_000_000, BUBBLE)
    assert (spans["idle_at"].tolist(), spans["idle_end"].tolist()) == ([1], [50_000_000])
    assert spans["idle_state"].tolist() == [BUBBLE]
    _, columns = doing(feed, {})
    assert np.array_equal(unpack("doing", columns)["state"], found.state)


def test_queues_and_links_that_are_down_are_counted_at_their_bundles() -> None:
    sim = simulation(NETWORKS["ring"], "congestion", "direct")
    feed = OperationFeed(session_of(sim))
    sim.step(200)
    waiting = np.array([waiting_for(sim.engine.machine, int(link)) for link in feed.drawn])
    assert waiting.sum() > 0
    _, buffers = queues(feed, {})
    assert np.array_equal(unpack("ports", buffers)["waiting"], np.bincount(feed.bundle_of, waiting))
    sim.take_down("link[2]")
    _, buffers = queues(feed, {})
    marks = unpack("ports", buffers)["marks"]
    assert np.flatnonzero(marks).tolist() == [int(feed.bundle_of[np.searchsorted(feed.drawn, 2)])]
