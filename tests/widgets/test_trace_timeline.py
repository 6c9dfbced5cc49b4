"""The timeline of recorded traces: what it answers, without a browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.chakra import ACTIVITIES, Node, NodeType, RecordedTracks, Trace, write
from astranb.core.errors import InputError
from astranb.widgets.feed import TraceFeed, unpack
from astranb.widgets.trace_page import write_trace_timeline
from astranb.widgets.views import answers_of

SUM: dict[str, Any] = {"comm_type": 0, "comm_size": 64}


def _feed(*ranks: Trace) -> TraceFeed:
    return TraceFeed(RecordedTracks(ranks), "job")


def _ask(feed: TraceFeed, question: str, **options: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    reply, buffers = answers_of(feed)[question](feed, options)
    return reply, unpack(question, buffers) if buffers else {}


def _job() -> TraceFeed:
    """Two ranks: a computation on a stream, and a collective on another one, to which rank 1 comes late."""
    ranks = []
    for late in (0, 4):
        own: dict[str, Any] = {"stream": 7}
        other: dict[str, Any] = {"stream": 20}
        nodes = [
            Node(0, "mm", 4, (), (), 1, 3 + late, own),
            Node(1, "sum <b>", 7, (0,), (), 4 + late, 10 - late, other | SUM),
        ]
        ranks.append(Trace.of(nodes, source="job"))
    return _feed(*ranks)


def test_spans_are_those_of_threads_and_streams_with_their_waits():
    feed = _job()
    reply, _ = _ask(feed, "rows")
    assert reply["tracks"]["names"] == ["stream 7", "stream 20"] * 2
    assert reply["tracks"]["gpu"] == [0, 0, 1, 1]
    reply, found = _ask(feed, "spans", **{"from": 0, "to": 20_000_000}, columns=10, folds=[0], tracks=[1, 3])
    assert (reply["drawn"], reply["count"], reply["folded"]) == ("spans", 3, 3)
    spans = [
        (row, ACTIVITIES[state], start, end, reply["labels"][label])
        for row, state, start, end, label in zip(
            *(found[name].tolist() for name in ("row", "state", "start", "end", "label")), strict=True
        )
    ]
    assert spans == [
        (0, "waiting", 3_000_000, 7_000_000, "sum <b>"),
        (0, "communication", 7_000_000, 13_000_000, "sum <b>"),
        (1, "communication", 7_000_000, 13_000_000, "sum <b>"),
    ]
    shares = found["fold_shares"].reshape(len(reply["present"]), 1, 10)
    names = [ACTIVITIES[state] for state in reply["present"]]
    # Columns of 2 µs: computing, half of each, waiting, …
    assert shares[names.index("compute"), 0].tolist() == [255, 128, 0, 0, 0, 0, 0, 0, 0, 0]
    assert shares[names.index("waiting"), 0, :4].tolist() == [0, 128, 255, 128]


def test_a_node_is_described_with_its_wait_and_what_it_waited_for():
    feed = _job()
    assert (
        _ask(feed, "moment", kind="tracks", track=1, time=5_000_000)[0]["text"] == "sum <b> · waiting · 4 µs"
    )
    assert _ask(feed, "moment", kind="tracks", track=1, time=19_000_000)[0]["text"] == ""
    reply, _ = _ask(feed, "span", kind="tracks", track=1, time=9_000_000)
    assert (reply["what"], reply["start_ps"], reply["end_ps"]) == ("sum <b>", 7_000_000, 13_000_000)
    facts = dict(map(tuple, reply["facts"]))
    assert (facts["rank"], facts["waited"], facts["after"]) == ("0, stream 20", "4 µs", "mm")
    assert _ask(feed, "span", kind="tracks", track=0, time=19_000_000)[0] == {"found": False}
    with pytest.raises(InputError, match="no track 9"):
        _ask(feed, "span", kind="tracks", track=9, time=0)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_window_holds_what_overlaps_it_and_densities_add_up(data):
    node = st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(0, 2))
    drawn = data.draw(st.lists(node, min_size=1, max_size=20))
    trace = Trace.of(
        [Node(k, f"n{k}", NodeType.COMP, (), (), start, took, dict[str, Any](stream=stream))
         for k, (start, took, stream) in enumerate(drawn)]
    )  # fmt: skip
    feed = _feed(trace)
    every = np.arange(len(feed.tracks.names))
    low, long = data.draw(st.integers(0, 60)), data.draw(st.integers(1, 40))
    first = min(start for start, _, _ in drawn)
    reply, found = _ask(
        feed, "spans", **{"from": low * 1_000_000, "to": (low + long) * 1_000_000},
        columns=7, folds=[0], tracks=every.tolist(),
    )  # fmt: skip
    shown = sorted(reply["labels"][label] for label in found["label"].tolist())
    expected = sorted(
        f"n{k}" for k, (start, took, _) in enumerate(drawn)
        if start - first < low + long and start - first + took > low
    )  # fmt: skip
    # A span that is in another one of its lane may be shown though it has just ended.
    assert set(expected) <= set(shown)
    inside = np.zeros(100, bool)
    for start, took, _ in drawn:
        inside[start - first : start - first + took] = True
    spent = feed.tracks.spent(np.array([0]), np.array([low, low + long]) * 1000, ranks=True).sum()
    assert spent == 1000 * inside[low : low + long].sum()


def test_many_spans_are_sent_as_density():
    streams: list[dict[str, Any]] = [{"stream": 0}, {"stream": 1}]
    nodes = [Node(k, "n", NodeType.COMP, (), (), 2 * k + 1, 1, streams[k % 2]) for k in range(9000)]
    feed = _feed(Trace.of(nodes))
    whole = {"from": 0, "to": 18_000_000_000}
    reply, found = _ask(feed, "spans", **whole, columns=100, folds=[], tracks=[0, 1])
    assert (reply["drawn"], reply["count"], reply["labels"]) == ("density", 9000, [])
    assert not len(found["row"])
    assert set(found["track_shares"].tolist()) <= {63, 64, 65}  # a quarter of each column
    reply, _ = _ask(feed, "spans", **{"from": 0, "to": 100_000_000}, columns=100, folds=[], tracks=[0, 1])
    assert (reply["drawn"], reply["count"]) == ("spans", 50)


def test_a_page_holds_so_many_spans(tmp_path, monkeypatch):
    feed = _job()
    page = write_trace_timeline(feed.tracks, tmp_path / "job.html", title="<job>")
    assert "&lt;job&gt;" in page.read_text()
    rank, state, start, end = feed.tracks.bands()
    assert [(r, ACTIVITIES[s], a, b) for r, s, a, b in zip(rank, state, start, end, strict=True)] == [
        (0, "compute", 0, 3000), (0, "waiting", 3000, 7000), (0, "communication", 7000, 13_000),
        (1, "compute", 0, 7000), (1, "communication", 7000, 13_000),
    ]  # fmt: skip
    monkeypatch.setattr("astranb.widgets.trace_page._MOST", 4)
    with pytest.raises(InputError, match="5 spans, and a page holds 4"):
        write_trace_timeline(feed.tracks, tmp_path / "more.html")
    assert not (tmp_path / "more.html").exists()


def test_what_can_be_shown(tmp_path):
    trace = Trace.of([Node(0, "bad \udcff", 4, start_us=3, duration_us=2)])
    for rank in range(2):
        write(trace, tmp_path / f"job.{rank}.et")
    shown = anb.TraceTimeline(tmp_path / "job")
    assert repr(shown) == "<TraceTimeline of job: 2 spans of 2 ranks>"
    reply, _ = _ask(shown.feed, "spans", **{"from": 0, "to": 9}, columns=9, folds=[0], tracks=[0])
    assert reply["labels"] == ["bad ?"]
    shown.close()
    assert repr(anb.TraceTimeline(tmp_path / "job.1.et")).endswith("1 span of 1 rank>")
    nothing: list[Any] = [3]
    for wrong in ([], nothing):
        with pytest.raises(InputError, match="no trace"):
            anb.TraceTimeline(wrong)
    with pytest.raises(InputError, match="No such file"):
        anb.TraceTimeline(tmp_path / "other")


def test_messages_of_the_page_are_answered():
    shown = anb.TraceTimeline([Trace.of([Node(0, "a", 4, start_us=3, duration_us=2)])])
    sent: list[dict[str, Any]] = []
    shown.send = lambda content, **_: sent.append(content)
    for message in (
        {"type": "ready"}, {"type": "timeline"}, {"type": "inspect", "path": "rank[0]"}, {"type": "play"},
        {"type": "ask", "id": 1, "question": "rows", "options": {}},
        {"type": "ask", "id": 2, "question": "spans", "options": {"from": 9, "to": 3}},
    ):  # fmt: skip
        shown.connection.receive(None, message, [])
    kinds = [one["type"] for one in sent]
    assert kinds == ["scene", "state", "timeline", "inspection", "error", "answer", "answer"]
    assert sent[0]["hint"] == "1 span of 1 rank: recorded starts and durations"
    assert "does not move" in sent[4]["text"]
    assert "a window from 9 to 3 ps" in sent[-1]["error"]
