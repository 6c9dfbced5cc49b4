"""Questions of views of large systems: hottest links, aggregates, ports, one GPU from within."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.net import Network
from astranb.widgets.feed import LineFeed
from astranb.widgets.session import session_of
from astranb.widgets.views.aggregates import aggregates, hottest
from astranb.widgets.views.aggregates import answer as hot
from astranb.widgets.views.device import SM_STATES, device
from astranb.widgets.views.topology import NO_CREDIT, PAUSED, look, ports


def feed_of(infra: str, collective: Collective, **options: Any) -> tuple[anb.Simulation, LineFeed]:
    sim = anb.Simulation(infra, collective, **options)
    return sim, LineFeed(session_of(sim))


def test_the_hottest_links_are_those_that_were_busiest_in_the_window() -> None:
    sim, feed = feed_of(
        "clos:servers=4,per_leaf=2", Collective.of("all_gather", "128 KiB", "ring", channels=1)
    )
    sim.run()
    meta, _ = hot(feed, {})
    busy = [sim.engine.machine.links["busy_ps"][list(lanes)].mean() for *_, lanes in feed.layout.bundles]
    assert len(meta["bundles"]) == feed.layout.detail.hot < meta["of"] == len(busy)
    kept = set(meta["bundles"])
    least = min(busy[k] for k in kept)
    assert least * 1.001 >= max(busy[k] for k in range(len(busy)) if k not in kept)
    assert meta["busy"] == sorted(meta["busy"], reverse=True)
    early, _ = hot(feed, {"window": [0, sim.now_ps // 50]})
    assert early["bundles"] != meta["bundles"]
    idle = hottest(feed.layout, np.zeros(len(sim.engine.machine.links)), 3)
    assert idle == [(0, 0.0), (1, 0.0), (2, 0.0)]


def test_utilisation_of_windows_adds_up_to_the_counters() -> None:
    sim, _ = feed_of("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    now = sim.now_ps
    busy = sim.engine.machine.links["busy_ps"]
    np.testing.assert_allclose(sim.engine.recorder.utilisation(0, now) * now, busy, atol=1)
    cuts = [0, now // 7, now // 3, now // 2, now]
    parts = [sim.engine.recorder.utilisation(a, b) * (b - a) for a, b in itertools.pairwise(cuts)]
    # Within a bin time counts evenly: the last one ends before its end.
    np.testing.assert_allclose(
        sum(parts), busy, atol=2 * int(sim.engine.machine.recording.recorder[0].bin_ps)
    )
    silent, _ = feed_of("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"), record=False)
    silent.run()
    np.testing.assert_allclose(silent.engine.recorder.utilisation(0, now), busy / now)


def test_aggregates_tell_tiles_quantiles_and_the_busiest(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_COLLAPSED_FROM", 16), ("_AGGREGATES_FROM", 32)):
        monkeypatch.setattr(f"astranb.drawing.layout.collapse.{name}", value)
    monkeypatch.setattr("astranb.drawing.layout.layout._FEW_UNITS", 2)
    sim, feed = feed_of(
        "clos:servers=4,per_leaf=2", Collective.of("all_gather", "64 KiB", "ring", channels=1)
    )
    sim.run()
    scene, _ = feed.scene()
    assert scene["level"] == "aggregates"
    meta, (buffer,) = aggregates(feed, {})
    tiles = np.frombuffer(buffer, "<f4")
    assert len(tiles) == sum(map(len, scene["tiles"]))
    utilisation = sim.engine.machine.links["busy_ps"] / sim.now_ps
    # By hand: the mean over the used links that leave host.1.
    graph, links = sim.engine.fabric.graph, sim.engine.fabric.links
    used = np.unique(sim.engine.machine.route_links)
    mine = np.array([graph.name(int(links[k].src)).startswith("host.1.") for k in used])
    mine &= np.array([not graph.name(int(links[k].dst)).startswith("host.1.") for k in used])
    place = [name for names in scene["tiles"] for name in names].index("host.1")
    assert tiles[place] == pytest.approx(utilisation[used[mine]].mean(), rel=1e-4)
    assert meta["top"][0]["busy"] == pytest.approx(utilisation[used].max(), abs=1e-4)
    assert sum(group["links"] for group in meta["groups"]) == len(used)
    for group in meta["groups"]:
        assert sum(group["histogram"]) == group["links"]
        assert group["quantiles"] == sorted(group["quantiles"])
    meta, _ = look(feed, {"focus": "host.1"})
    assert [b["rank"] for b in meta["boxes"] if b["rank"] >= 0] == list(range(8, 16))
    assert feed.timeline()[0]["picture"] == meta["picture"] == 2


def test_one_gpu_from_within() -> None:
    sim, feed = feed_of("dgx-h100", anb.collectives.all_reduce("256 KiB", "ring"))
    meta, (state, blocks, requests, *_) = device(sim, 5)
    assert meta["sms"] == len(state) == 132
    assert set(state.tolist()) == {SM_STATES.index("free")}
    seen: set[str] = set()
    for until in range(1, 9):
        sim.run(until * 1_500_000)
        _, (state, blocks, requests, l2, l2_queue, hbm, _) = device(sim, 5)
        seen |= {SM_STATES[k] for k in state}
        first = int(sim.engine.machine.gpus[5].first_sm)
        assert (requests == sim.engine.machine.sms["outstanding"][first : first + 132]).all()
        assert (
            (blocks > 0) >= np.isin(state, [SM_STATES.index(n) for n in ("busy", "waiting", "draining")])
        ).all()
        assert (l2 >= 0).all()
        assert (l2 <= 1).all()
        assert (l2_queue >= 0).all()
        assert (hbm >= 0).all()
    assert {"free", "busy", "waiting"} <= seen
    served = sim.engine.machine.tables["l2_slices"]["busy_ps"][: meta["slices"]] / sim.now_ps
    np.testing.assert_allclose(device(sim, 0)[1][3], served)
    with pytest.raises(InputError, match="ranks are 0 to 7"):
        device(sim, 8)
    # At the cursor in the past: what a second simulation says then.
    then = feed.session.at(2_000_000)
    other = sim.fork(record=False)
    other.goto(2_000_000)
    assert (device(then, 5)[1][2] == device(other, 5)[1][2]).all()
    assert then is not sim


def test_ports_show_buffers_and_what_holds_lines_up() -> None:
    network = Network(buffers=4)
    sim, feed = feed_of("switch:gpus=8", anb.collectives.gather("256 KiB"), network=network)
    waiting, fill, marks = ports(sim, feed.layout)
    assert not waiting.any()
    assert not fill.any()
    assert not marks.any()
    sim.run("6 us")
    waiting, fill, marks = ports(sim, feed.layout)
    assert fill.max() == 1.0
    starved = np.flatnonzero(marks & NO_CREDIT)
    assert len(starved)
    assert (waiting[starved] > 0).all()
    assert (fill[starved] == 1.0).all()
    # What holds them up: seven GPUs send to one, whose link from the switch is the bottleneck.
    root = [k for k, (_, b, _) in enumerate(feed.layout.bundles) if feed.layout.boxes[b].rank == 0]
    assert waiting[root].max() > 0
    free, free_feed = feed_of("switch:gpus=8", anb.collectives.gather("64 KiB"))
    free.run("3 us")
    assert not ports(free, free_feed.layout)[1].any()
    assert PAUSED != NO_CREDIT


def test_instances_and_the_links_between_them_are_objects() -> None:
    sim, feed = feed_of(
        "clos:servers=4,per_leaf=2", Collective.of("all_gather", "64 KiB", "ring", channels=1)
    )
    sim.run()
    found = sim.inspect("host.1")
    assert found["kind"] == "instance"
    assert dict(map(tuple, found["state"]))["GPUs"] == "8, ranks 8 to 15"
    assert found["children"][0] == {"path": "host.1.xpu.0", "text": "host.1.xpu.0 (GPU8)"}
    between = sim.inspect("host.1->leafsw.0")
    assert dict(map(tuple, between["state"]))["bandwidth"] == "400 GB/s (8 lanes x 50 GB/s)"
    for name in [b.name for b in feed.layout.boxes] + [b["name"] for b in feed.scene()[0]["bundles"]]:
        assert sim.inspect(name)["path"] == name
    for wrong in ("host.9", "host.1->host.2", "leaf"):
        with pytest.raises(InputError):
            sim.inspect(wrong)
