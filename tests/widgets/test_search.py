"""The search field, and the table of events around the cursor."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from astranb.widgets.feed import feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from tests.engine.operations.support import mixed


@pytest.fixture(scope="module")
def sim() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run("5 us")
    return sim


def ask(sim: anb.Simulation, question: str, **options: Any) -> dict[str, Any]:
    feed = feed_of(session_of(sim))
    return answers_of(feed)[question](feed, options)[0]


@pytest.mark.parametrize(
    "text, first",
    [
        ("gpu 3", ["GPU3", "gpu[3]", -1]),
        ("3", ["GPU3", "gpu[3]", -1]),
        ("GPU5", ["GPU5", "gpu[5]", -1]),
        ("3 us", ["time 3 µs", "", 3e6]),
        ("nvsw.2", ["dgx_h100.0.nvsw.2", "dgx_h100.0.nvsw.2", -1]),
        ("xpu.1->dgx_h100.0.nvsw.0", ["dgx_h100.0.xpu.1->dgx_h100.0.nvsw.0"] * 2 + [-1]),
        ("gpu[2].sm.1", ["dgx_h100.0.xpu.2.sm.1", "dgx_h100.0.xpu.2.sm.1", -1]),
    ],
)
def test_search_finds_by_number_name_path_and_time(sim: anb.Simulation, text: str, first: list[Any]) -> None:
    assert list(ask(sim, "search", text=text)["found"][0]) == first


def test_search_finds_a_link_by_the_same_name_by_messages() -> None:
    work = anb.collectives.all_reduce("64 KiB", "ring")
    for fidelity in ("congestion", "analytical"):
        sim = anb.Simulation("dgx-h100", work, fidelity=fidelity)
        name = "dgx_h100.0.xpu.1->dgx_h100.0.nvsw.*"
        assert list(ask(sim, "search", text="xpu.1->dgx_h100.0.nvsw")["found"][0]) == [name, name, -1]
        assert list(ask(sim, "search", text="gpu 3")["found"][0]) == ["GPU3", "rank[3]", -1]
        title = "dgx_h100.0.xpu.3 (GPU3)"
        assert list(ask(sim, "search", text="dgx_h100.0.xpu.3")["found"][0]) == [title, "rank[3]", -1]


def test_search_is_bounded(sim: anb.Simulation) -> None:
    found = ask(sim, "search", text="dgx")
    assert len(found["found"]) == 50
    assert found["more"]
    assert ask(sim, "search", text="  ") == {"found": [], "more": False}
    assert ask(sim, "search", text="no such thing")["found"] == []


def test_search_finds_operations_of_a_workload() -> None:
    sim = mixed()
    sim.run()
    found = ask(sim, "search", text="all_reduce")["found"]
    assert found[0][1].startswith("rank[")
    assert ".op[" in found[0][1]
    assert found[0][2] >= 0
    assert ask(sim, "search", text="rank 4")["found"][0][1] == "rank[4]"


def test_events_around_a_moment(sim: anb.Simulation) -> None:
    rows = ask(sim, "events", at_ps=2_000_000)["rows"]
    assert len(rows) == 40
    times = [row[0] for row in rows]
    assert times == sorted(times)
    assert sum(time <= 2_000_000 for time in times) == 20
    for _, _, path in rows:
        sim.inspect(path)
    last = ask(sim, "events", at_ps=None)["rows"]
    assert len(last) == 20
    assert last[-1][0] <= sim.now_ps
    flights = sim.result.to_dataframe("flights")
    sent = flights[(flights["start_ps"] > 2_000_000)]["start_ps"].min()
    assert sent in times  # the next line that is put on a link is in the table


def test_events_of_a_workload() -> None:
    sim = mixed()
    sim.run()
    rows = ask(sim, "events", at_ps=None)["rows"]
    assert rows[-1][0] == sim.now_ps
    assert "ends" in rows[-1][1]
    sim.inspect(rows[-1][2])
