"""A rank that starts late in the lanes of the timeline: started late up to its start, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.engine.cacheline import SPAN_STATES, TRACK_STATES
from astranb.engine.operations.activity import ACTIVITIES
from astranb.widgets.feed import LineFeed, OperationFeed, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views import ranks, timeline

LATE_PS = 20_000_000
LATE = TRACK_STATES.index("started late")


def made(fidelity: str, *, record: bool = True) -> anb.Simulation:
    collective = anb.collectives.all_reduce("64 KiB", "ring")
    return anb.Simulation("dgx-h100", collective, fidelity=fidelity, record=record, start={3: "20 us"})


@pytest.mark.parametrize("kind", ["sms", "blocks"])
@pytest.mark.parametrize("record", [True, False])
def test_lanes_of_a_late_gpu(kind: str, record: bool) -> None:
    sim = made("cacheline", record=record)
    feed = LineFeed(session_of(sim))
    tracks = sim.engine.tracks(kind)
    mine = np.flatnonzero(tracks.gpu == 3)
    for until in ("8 us", "15 us", None):
        sim.run(until=until)  # the tracks keep up, stretch by stretch
        late_ps = min(sim.now_ps, LATE_PS)
        for track in range(len(tracks)):
            state, start, end = tracks.spans(track, 0, sim.now_ps)
            late = state == LATE
            found = list(zip(start[late].tolist(), end[late].tolist(), strict=True))
            assert found == ([(0, late_ps)] if track in mine else []), track
            assert (start[~late] >= late_ps).all() or track not in mine
    options = {"from": 0, "to": sim.now_ps, "columns": 10, "kind": kind}
    meta, buffers = timeline.spans(feed, {**options, "folds": [2, 3], "tracks": mine[:1].tolist()})
    shares = unpack("spans", buffers)["fold_shares"].reshape(len(meta["present"]), 2, meta["columns"])
    _, late_shares = shares[meta["present"].index(LATE)]
    whole = LATE_PS * 10 // sim.now_ps
    assert (late_shares[:whole] == 255).all()
    assert not late_shares[whole + 1 :].any()
    text = timeline.moment(feed, {"time": 5_000_000, "track": int(mine[0]), "kind": kind})[0]["text"]
    assert text.startswith("started late · 0 ps to 20 µs (20 µs)")
    span, _ = timeline.span(feed, {"time": 5_000_000, "track": int(mine[0]), "kind": kind})
    assert (span["what"], span["start_ps"], span["end_ps"]) == ("started late", 0, LATE_PS)


def test_time_goes_back_before_the_start() -> None:
    sim = made("cacheline")
    sim.run()
    tracks = sim.engine.tracks("blocks")
    mine = int(np.flatnonzero(tracks.gpu == 3)[0])
    assert tracks.spans(mine, 0, LATE_PS)[2].tolist() == [LATE_PS]
    sim.goto("5 us")
    state, _, end = sim.engine.tracks("blocks").spans(mine, 0, LATE_PS)
    assert (state.tolist(), end.tolist()) == ([LATE], [sim.now_ps])


def test_a_page_without_a_kernel_has_the_late_spans() -> None:
    sim = made("cacheline")
    sim.run()
    meta, buffers = LineFeed(session_of(sim)).timeline()
    spans = unpack("timeline", buffers)
    late = np.flatnonzero(spans["what"] & 7 == SPAN_STATES.index("started late"))
    assert not meta["left_out"]
    assert sim.engine.machine.blocks["gpu"][spans["what"][late] >> 3].tolist() == [3] * len(late)
    assert len(late) == np.count_nonzero(sim.engine.machine.blocks["gpu"] == 3)
    assert (spans["start"][late] == 0).all()
    assert (spans["end"][late] == LATE_PS).all()


@pytest.mark.parametrize("fidelity", ["congestion", "analytical"])
def test_lanes_of_a_late_rank(fidelity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = made(fidelity)
    sim.run()
    feed = OperationFeed(session_of(sim))
    options = {"from": 0, "to": sim.now_ps, "columns": 10, "ranks": [2, 3]}
    meta, buffers = ranks.tracks(feed, options)
    spans = unpack("tracks", buffers)
    assert meta["drawn"] == "spans"
    late = spans["idle_state"] == ACTIVITIES.index("started late")
    found = [spans[name][late].tolist() for name in ("idle_at", "idle_start", "idle_end")]
    assert found == [[1], [0], [LATE_PS]]
    monkeypatch.setattr(ranks, "_MOST_SPANS", 0)
    meta, buffers = ranks.tracks(feed, options)
    assert meta["drawn"] == "density"
    shares = unpack("tracks", buffers)["shares"].reshape(2, meta["tracks"] + 3, meta["columns"])
    whole = LATE_PS * 10 // sim.now_ps
    assert not shares[0, meta["tracks"] + 1].any()
    assert (shares[1, meta["tracks"] + 1, :whole] == 255).all()
    assert (shares[1, :, :whole].sum(axis=0) == 255).all()  # and nothing else
