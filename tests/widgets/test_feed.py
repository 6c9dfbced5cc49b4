"""A view is sent only what it lacks, and never what has been taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.engine.cacheline.machine import CacheLineMachine
from astranb.widgets.feed import LineFeed
from astranb.widgets.session import session_of


def feed_of(
    size: str = "8 KiB", algorithm: str = "allpairs", **options: Any
) -> tuple[anb.Simulation, LineFeed]:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, algorithm), **options)
    return sim, LineFeed(session_of(sim))


class Browser:
    """Model of static/store.js: it forgets from ``first`` on, and appends."""

    def __init__(self, feed: LineFeed) -> None:
        self.feed = feed
        self.flights: list[tuple[float, ...]] = []
        self.sequence = 0

    def read(self) -> None:
        meta, (start, end, what, wait, *_) = self.feed.state()
        self.sequence += 1
        assert meta["seq"] == self.sequence
        del self.flights[meta["first"] :]
        assert len(self.flights) == meta["first"]
        columns = [
            np.frombuffer(b, kind) for b, kind in ((start, "<f8"), (end, "<f8"), (what, "<u4"), (wait, "<u4"))
        ]
        self.flights += zip(*(column.tolist() for column in columns), strict=True)
        assert len(self.flights) == meta["total"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["step", "back", "both"]), st.integers(1, 900)), max_size=10))
def test_a_browser_that_appends_has_exactly_the_recording(moves: list[tuple[str, int]]) -> None:
    sim, feed = feed_of()
    session_of(sim).attach(feed.mark)
    browser = Browser(feed)
    for move, n in moves:
        if move in ("step", "both"):
            sim.step(n)
        if move in ("back", "both"):
            sim.back(n)
        if move == "both":
            sim.step(n // 2)
        browser.read()
    kept, one_in = sim.engine.recorder.flights(0, 2**62)
    assert one_in == 1
    expected = [
        (f.start_ps, f.end_ps, int(f.link) << 4 | int(f.kind), f.start_ps - f.queued_ps) for f in kept
    ]
    assert browser.flights == expected


def test_what_was_taken_back_between_two_messages_is_sent_anew() -> None:
    sim, feed = feed_of("64 KiB", "ring")
    session_of(sim).attach(feed.mark)
    browser = Browser(feed)
    sim.step(20_000)
    browser.read()
    # Back and on again, on other ways, until there are more flights than before.
    sim.back(15_000)
    sim.set(
        f"{sim.engine.fabric.name(int(sim.engine.machine.route_links[0])).partition('#')[0]}.latency",
        "900 ns",
    )
    sim.step(20_000)
    browser.read()
    kept, _ = sim.engine.recorder.flights(0, 2**62)
    assert [f[1] for f in browser.flights] == kept.end_ps.tolist()


def test_a_full_ring_keeps_the_newest_and_says_from_when(monkeypatch: Any) -> None:
    monkeypatch.setattr("astranb.engine.cacheline.build._FLIGHTS", 1024)
    sim, feed = feed_of("64 KiB", "ring")
    sim.run()
    total = int(sim.engine.machine.recording.recorder[0].flights)
    assert total > 2048
    meta, (start, *_) = feed.state()
    assert meta["first"] == total - 1024
    assert len(start) == 1024 * 8
    monkeypatch.undo()
    whole = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    whole.run()
    kept, _ = whole.engine.recorder.flights(0, 2**62)
    assert np.frombuffer(start, "<f8").tolist() == kept.start_ps[-1024:].tolist()
    assert meta["oldest_ps"] == kept.start_ps[-1024]
    # What the ring has lost by going back is never given as if it were the past.
    sim.back(sim.events // 2)
    now = int(sim.engine.machine.recording.recorder[0].flights)
    first, rows = sim.engine.recorder.since(0)
    assert rows.start_ps.tolist() == kept.start_ps[first:now].tolist()


def test_scene_and_timeline_fit_together() -> None:
    sim, feed = feed_of("64 KiB", "ring")
    sim.run()
    scene, (drawn,) = feed.scene()
    bundle_of = np.frombuffer(drawn, "<i4")
    assert [b["rank"] for b in scene["boxes"] if b["rank"] >= 0] == list(range(8))
    assert len({b["name"] for b in scene["boxes"]}) == len(scene["boxes"])
    assert len(scene["blocks"]) == len(sim.engine.machine.blocks)
    meta, buffers = feed.timeline()
    start, end = (np.frombuffer(b, "<f8") for b in buffers[:2])
    what, phase = np.frombuffer(buffers[2], "<u4"), np.frombuffer(buffers[3], "<i4")
    assert len(start) == len(end) == len(what) == len(phase) > 0
    assert (end > start).all()
    assert end.max() <= meta["now_ps"]
    assert what.max() >> 3 < len(scene["blocks"])
    issue, l2, hbm, link, out = (np.frombuffer(b, "u1") for b in buffers[4:])
    assert len(issue) == len(l2) == len(hbm) == len(out) == 8 * meta["bins"]
    assert len(link) == len(scene["bundles"]) * meta["bins"]
    assert link.max() > 50
    # Busy fractions times bins give back the busy time of the links.
    for number in range(8):
        row = link[number * meta["bins"] : (number + 1) * meta["bins"]] / 255
        busy = sim.engine.machine.links["busy_ps"][bundle_of == number].mean()
        assert abs(row.sum() * meta["bin_ps"] - busy) < meta["bins"] * meta["bin_ps"] / 255


def test_without_recording_there_is_a_picture_without_flights() -> None:
    sim, feed = feed_of(record=False)
    sim.run()
    scene, _ = feed.scene()
    assert not scene["recording"]
    meta, (start, *_) = feed.state()
    assert (meta["total"], len(start)) == (0, 0)
    assert feed.timeline()[0]["bins"] == 0


def test_what_changed_is_a_box_or_a_bundle() -> None:
    sim, feed = feed_of()
    scene, _ = feed.scene()
    known = {""} | {b["name"] for b in scene["boxes"]} | {b["name"] for b in scene["bundles"]}
    for _ in range(400):
        sim.step(7)
        assert feed.state()[0]["changed"] in known
    assert isinstance(sim.engine.machine, CacheLineMachine)
