"""A timeline is sent no more than it can draw, and no time is lost or made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline import TRACK_STATES
from astranb.widgets.feed import LineFeed, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views import memory, timeline

NAMES = {name: number for number, name in enumerate(TRACK_STATES)}


@pytest.fixture(scope="module")
def feed() -> LineFeed:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    return LineFeed(session_of(sim))


def read(meta: dict[str, Any], buffers: list[bytes], folds: int, tracks: int) -> tuple[Any, Any]:
    """Read the answer like static/timeline.js."""
    shape = (len(meta["present"]), folds, meta["columns"])
    columns = unpack("spans", buffers)
    density = columns["fold_shares"].reshape(shape)
    if meta["drawn"] == "spans":
        return density, [columns[name] for name in ("row", "state", "start", "end")]
    return density, columns["track_shares"].reshape(shape[0], tracks, shape[2])


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0, 0.99), st.floats(0.0005, 1), st.integers(1, 300), st.sampled_from(["sms", "blocks"]),
    st.sets(st.integers(0, 7), max_size=4), st.sets(st.integers(0, 20), max_size=6),
)  # fmt: skip
def test_density_and_spans_hold_all_the_time_there_is(
    feed: LineFeed, at: float, part: float, columns: int, kind: str, folds: set[int], tracks: set[int]
) -> None:
    now = feed.sim.now_ps
    window = {"from": int(at * now), "to": int(at * now) + max(1, int(part * now)), "columns": columns}
    rows, single = sorted(folds), sorted(tracks)
    options = {**window, "kind": kind, "folds": rows, "tracks": single}
    meta, buffers = timeline.spans(feed, options)
    known = feed.sim.engine.tracks(kind)
    edges = timeline.window_of(options)[2]
    density, drawn = read(meta, buffers, len(rows), len(single))
    # A byte is rounded: half a 255th of each column.
    for k, gpu in enumerate(rows):
        members = np.flatnonzero(known.gpu == gpu)
        whole = sum(
            min(int(b), window["to"]) - max(int(a), window["from"])
            for track in members
            for a, b in zip(*known.spans(int(track), window["from"], window["to"])[1:], strict=True)
        )
        told = (density[:, k].sum(axis=0) / 255 * np.diff(edges)).sum() * len(members)
        assert (
            abs(told - whole) <= len(meta["present"]) * (window["to"] - window["from"]) * len(members) / 510
        )
    assert meta["drawn"] == "spans"
    row, state, start, end = drawn
    for k, track in enumerate(single):
        expected = known.spans(track, window["from"], window["to"])
        for one, other in zip((state, start, end), expected, strict=True):
            assert one[row == k].tolist() == other.tolist()


def test_what_does_not_fit_is_drawn_as_density_and_counted(feed: LineFeed, monkeypatch: Any) -> None:
    monkeypatch.setattr(timeline, "_MOST_SPANS", 50)
    options = {"from": 0, "to": feed.sim.now_ps, "columns": 200, "folds": [], "tracks": list(range(16))}
    meta, buffers = timeline.spans(feed, options)
    assert meta["drawn"] == "density"
    tracks = feed.sim.engine.tracks("sms")
    there = sum(len(tracks.spans(track, 0, feed.sim.now_ps)[0]) for track in range(16))
    assert there <= meta["count"] <= there + 16 * 8
    _, density = read(meta, buffers, 0, 16)
    edges = timeline.window_of(options)[2]
    exact = tracks.spent(np.arange(16), edges)
    assert not exact[:, :, [s for s in range(len(TRACK_STATES)) if s not in meta["present"]]].any()
    told = density.transpose(1, 2, 0) / 255 * np.diff(edges)[None, :, None]
    assert np.abs(told - exact[:, :, meta["present"]]).max() <= np.diff(edges).max() / 510 + 1


def test_rows_phases_and_moments(feed: LineFeed) -> None:
    told, _ = timeline.rows(feed, {})
    sim = feed.sim
    assert told["gpus"] == 8
    assert len(told["blocks"]["gpu"]) == len(sim.engine.machine.blocks)
    now = sim.now_ps
    window = {"from": 0, "to": now, "columns": 100, "kind": "phases", "folds": [2, 5]}
    meta, buffers = timeline.spans(feed, window)
    found = unpack("spans", buffers)
    row, phase, start, end = (found[name] for name in ("row", "state", "start", "end"))
    assert meta["count"] == 2 * len(sim.engine.program.phase_names)
    assert set(row.tolist()) == {0, 1}
    mine = sim.engine.machine.blocks["gpu"][sim.engine.machine.ops["block"]] == 5
    first = sim.engine.machine.ops[mine & (sim.engine.machine.ops["phase"] == 0)]
    place = np.flatnonzero((row == 1) & (phase == 0))[0]
    assert start[place] == first["started_ps"].min()
    assert end[place] == first["ended_ps"].max()
    tracks = sim.engine.tracks("sms")
    state, *_ = tracks.spans(7, now // 2, now // 2 + 1)
    text = timeline.moment(feed, {"kind": "sms", "track": 7, "time": now // 2})[0]["text"]
    assert text.startswith(TRACK_STATES[state[0]])
    assert any(name in text for name in sim.engine.program.phase_names)
    assert (
        sim.engine.program.phase_names[0]
        in timeline.moment(feed, {"kind": "phases", "track": 1, "time": 900_000})[0]["text"]
    )
    assert timeline.moment(feed, {"kind": "blocks", "track": 0, "time": 10 * now})[0]["text"] == ""


def test_activity_gets_finer_and_adds_up(feed: LineFeed) -> None:
    sim, now = feed.sim, feed.sim.now_ps
    bin_ps = int(sim.engine.recorder.activity()["bin_ps"])
    for start, end, columns in ((0, now, 100), (now // 3, now // 3 + 200_000, 400)):
        window = {"from": start, "to": end, "columns": columns, "bundles": [0, 3], "first": 1, "last": 4}
        meta, buffers = memory.activity(feed, window)
        assert meta["exact"] == ((end - start) // columns * 2 < bin_ps)
        issue, _, _, out = (np.frombuffer(b, "u1").reshape(3, columns) / 255 for b in buffers[:4])
        bundles = np.frombuffer(buffers[4], "u1").reshape(2, columns) / 255
        found = sim.aggregate(start, end)
        busy = {row["link"]: row["busy_ps"] for row in found.links}
        slack = (end - start) / 510 + (0 if meta["exact"] else 2 * bin_ps)
        for row, number in zip(bundles, (0, 3), strict=True):
            lanes = feed.layout.bundles[number][2]
            mean = sum(busy.get(sim.engine.fabric.name(lane), 0) for lane in lanes) / len(lanes)
            assert abs(row.mean() * (end - start) - mean) <= slack
        for k, gpu in enumerate((1, 2, 3)):
            node = int(sim.engine.fabric.gpus[gpu])
            leaving = np.flatnonzero(sim.engine.fabric.links["src"] == node)
            mean = sum(busy.get(sim.engine.fabric.name(int(lane)), 0) for lane in leaving) / len(leaving)
            assert abs(out[k].mean() * (end - start) - mean) <= slack
            states = found.states[gpu]
            issued = (
                sum(states[n] for n in ("issue", "compute", "signal")) / sim.engine.machine.gpus["sms"][gpu]
            )
            if meta["exact"]:
                assert abs(issue[k].mean() * (end - start) - issued) <= slack


@pytest.mark.parametrize(
    "options",
    [{"from": 5, "to": 5}, {"kind": "sm"}, {"tracks": [10**6]}, {"folds": [8]}],
)
def test_nonsense_is_refused(feed: LineFeed, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        timeline.spans(feed, {"from": 0, "to": 100, "columns": 10, **options})


def test_a_click_on_a_row_of_memories_and_links_gives_its_stretch(feed: LineFeed) -> None:
    """Busy from the first bit to the last one, or idle between two of them; numbers from every flight."""
    sim, chance = feed.sim, np.random.default_rng(3)
    flights = sim.engine.recorder.since(0)[1]
    for number, (_, _, lanes) in enumerate(feed.layout.bundles[:6]):
        mine = flights[np.isin(flights["link"], lanes)]
        out = mine["start_ps"] + mine["wire_ps"]
        for time in chance.integers(0, sim.now_ps, 12).tolist():
            found, _ = memory.activity_span(feed, {"bundle": number, "time": time})
            start, end, facts = found["start_ps"], found["end_ps"], dict(found["facts"])
            assert start <= time <= end
            on = ((mine["start_ps"] <= time) & (out > time)).any()
            assert found["what"] == ("link: busy" if on else "link: idle")
            assert found["path"] == sim.inspect(found["path"])["path"]
            inside = mine[(mine["start_ps"] < end) & (out > start)]
            assert len(inside) == (
                int(facts["carried"].split(" in ")[1].split()[0].replace(",", "")) if on else 0
            )
            # It is the whole of it: just outside it is otherwise.
            for beside in (start - 1, end):
                if 0 <= beside < sim.now_ps:
                    other, _ = memory.activity_span(feed, {"bundle": number, "time": beside})
                    assert other["what"] != found["what"]
    activity = sim.engine.recorder.activity(links=False)
    bin_ps = int(activity["bin_ps"])
    for strip in ("issue", "l2", "hbm"):
        row = activity[f"{strip}_busy"][3]
        for time in chance.integers(0, sim.now_ps, 12).tolist():
            found, _ = memory.activity_span(feed, {"gpu": 3, "strip": strip, "time": time})
            inside = row[found["start_ps"] // bin_ps : -(-found["end_ps"] // bin_ps)]
            assert (inside > 0).all() if found["what"].endswith("busy") else not inside.any()
            assert found["start_ps"] <= time <= found["end_ps"] <= sim.now_ps
    # Gaps that are too short to be seen do not divide a stretch.
    whole, _ = memory.activity_span(feed, {"gpu": 3, "strip": "out", "time": 460_000, "gap": sim.now_ps})
    assert whole["end_ps"] > 0.8 * sim.now_ps
    for wrong in ({"bundle": 10_000}, {"gpu": 3, "strip": "l3"}, {"gpu": 99, "strip": "l2"}):
        with pytest.raises(InputError):
            memory.activity_span(feed, {**wrong, "time": 0})
    assert memory.activity_span(feed, {"bundle": 0, "time": sim.now_ps + 1})[0] == {"found": False}
