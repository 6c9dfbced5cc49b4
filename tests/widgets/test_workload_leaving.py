"""Exports of a workload's workbench: the page and pictures."""

import json
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from PIL import Image

import astranb as anb
from astranb.core.errors import InputError
from astranb.widgets.feed import unpack as unpack_columns
from tests.engine.operations.support import HOSTILE, by_messages, hostile, mixed, sim_of
from tests.widgets.test_leaving import unpack

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench():
    sim = mixed()
    sim.run()
    bench = anb.Workbench(sim)
    yield bench
    bench.close()


def tracks_of(
    header: dict[str, Any], buffers: list[bytes], kind: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a page's data for the timeline of ranks: the message, and its columns."""
    (found,) = (
        one for one in header["answers"] if (one["question"], one["options"]) == ("tracks", {"kind": kind})
    )
    return found["message"], unpack_columns("tracks", [buffers[k] for k in found["buffers"]])


def test_the_page_holds_every_operation_and_phase(bench, tmp_path):
    sim = bench.sim
    header, buffers = unpack(bench.to_html(tmp_path / "run.html").read_text())
    frame = sim.result.to_dataframe("operations")
    work = header["workload"]
    ranks, texts = (np.frombuffer(buffers[k], "<u4") for k in work["operations"])
    assert ranks.tolist() == frame["rank"].tolist()
    assert len(texts) == len(frame)
    assert texts.max() < len(work["texts"])
    spans, columns = tracks_of(header, buffers, "operations")
    names = [spans["labels"][k] for k in columns["label"]]
    rank = columns["place"] // spans["tracks"]
    found = zip(
        rank.tolist(), columns["number"].tolist(), names, columns["start"], columns["end"], strict=True
    )
    wanted = frame[["rank", "operation", "name", "start_ps", "end_ps"]].itertuples(index=False, name=None)
    assert sorted(found) == sorted(wanted)
    phases = sim.result.to_dataframe("phases")
    assert len(tracks_of(header, buffers, "chunks")[1]["place"]) == len(phases)
    start, end = frame["start_ps"].to_numpy(), frame["end_ps"].to_numpy()
    times, what, row = (
        np.frombuffer(buffers[header["moments"][k]], kind) for k, kind in ((0, "<f8"), (2, "u1"), (3, "<u4"))
    )
    assert (np.diff(times) >= 0).all()
    assert len(times) == 2 * len(frame) == header["state"]["message"]["events"]
    assert (times == np.where(what == 1, end[row], start[row])).all()
    assert header["phases"] == sorted(set(phases["end_ps"].tolist()))
    assert header["inspections"]["rank[3]"][-1][1] == json.loads(json.dumps(sim.inspect("rank[3]")))
    assert header["scene"]["message"]["ranks"] == 6


def test_the_page_answers_what_views_ask_at_the_end(bench, tmp_path):
    header, _ = unpack(bench.to_html(tmp_path / "run.html").read_text())
    found: dict[str, list[dict[str, Any]]] = {}
    for answer in header["answers"]:
        found.setdefault(answer["question"], []).append(answer)
    assert set(found) == {
        "buffers",
        "doing",
        "flows",
        "footprint",
        "graph",
        "tracks",
        "traffic",
        "ports",
        "ranks",
        "critical_path",
        "events",
        "lost_time",
        "outcome",
        "why",
        "what_if",
        "what_if_run",
    }
    asked = [(row["path"], row["value"]) for row in found["what_if"][0]["message"]["rows"]]
    assert [(a["options"]["path"], a["options"]["value"]) for a in found["what_if_run"]] == asked
    exact = found["what_if_run"][0]["message"]["row"]["exact_ps"]
    assert exact == bench.sim.what_if(*asked[0]).exact_ps


def test_of_many_ranks_the_first_are_taken(bench, tmp_path):
    page = bench.to_html(tmp_path / "run.html", most=10).read_text()
    header, buffers = unpack(page)
    assert header["scene"]["message"]["ranks"] == 2
    for question in ("graph", "footprint"):
        held = {one["options"]["rank"] for one in header["answers"] if one["question"] == question}
        assert held - {None} == {0, 1}
    assert set(np.frombuffer(buffers[header["workload"]["operations"][0]], "<u4")) == {0, 1}
    assert header["scene"]["message"]["names"] == ["rank[0]", "rank[1]", "dim[0]", "dim[1]"]
    assert "the first 2 of 6 ranks" in page
    with pytest.raises(InputError, match="most"):
        bench.to_html(tmp_path / "run.html", most=0)


@pytest.mark.parametrize("events", [0, 37, 200])
def test_the_middle_of_a_run_is_a_page_too(events, tmp_path):
    sim = mixed()
    sim.step(events)
    bench = anb.Workbench(sim)
    header, buffers = unpack(bench.to_html(tmp_path / "run.html").read_text())
    assert header["state"]["message"]["now_ps"] == sim.now_ps
    begun = (sim.engine.times_ps()[0] >= 0).sum()
    assert len(tracks_of(header, buffers, "operations")[1]["place"]) == begun
    count = sum(int((times >= 0).sum()) for times in sim.engine.times_ps())
    assert header["state"]["message"]["events"] == count
    assert ET.fromstring(bench.to_svg()).tag == f"{SVG}svg"
    assert ET.fromstring(bench.to_svg(what="graph", rank=5)).tag == f"{SVG}svg"


def test_names_are_text_everywhere(tmp_path):
    sim = hostile()
    bench = anb.Workbench(sim)
    page = bench.to_html(tmp_path / "run.html").read_text()
    assert page.count("</script>") == page.count("<script") == 2
    assert "<img" not in page
    header, _ = unpack(page)
    assert HOSTILE in tracks_of(header, [b""] * len(header["places"]), "operations")[0]["labels"]
    for what in ("ranks", "graph"):
        drawing = bench.to_svg(what=what)
        assert "<img" not in drawing
        assert any(HOSTILE in (one.text or "") for one in ET.fromstring(drawing).iter(f"{SVG}title"))
    bench.to_png(tmp_path / "a.png", what="graph")
    data, _ = bench._repr_mimebundle_() or ({}, {})
    assert data["image/svg+xml"] == bench.to_svg()
    assert "<img" not in data["image/svg+xml"]


def test_the_picture_shows_what_was_when(bench, tmp_path):
    sim = bench.sim
    frame = sim.result.to_dataframe("operations")
    titles = [one.text for one in ET.fromstring(bench.to_svg(tmp_path / "a.svg")).iter(f"{SVG}title")]
    assert len(titles) - 1 == len(frame)
    assert (tmp_path / "a.svg").read_text() == bench.to_svg()
    early = [one.text for one in ET.fromstring(bench.to_svg(at="4 us", dark=True)).iter(f"{SVG}title")]
    assert len(early) - 1 == (frame["start_ps"] < 4_000_000).sum() < len(titles) - 1
    graph = bench.to_svg(what="graph", rank=3, at="4 us")
    said = [one.text or "" for one in ET.fromstring(graph).iter(f"{SVG}text")]
    assert "all_reduce" in said
    assert any("since 3 µs" in text for text in said)
    for options, message in (({"what": "grpah"}, "did you mean 'graph'"), ({"rank": 6}, "0 to 5")):
        with pytest.raises(InputError, match=message):
            bench.to_svg(**options)
    with pytest.raises(InputError, match="has not been simulated"):
        bench.to_svg(at="1 s")


def test_short_spans_are_drawn_as_one():
    from astranb.workload.astrasim2 import COMPUTE, DimensionNetwork, Operations, System

    many = Operations.of(
        [{"kind": COMPUTE, "duration_ns": 1_000}] * 20_000, [[]] + [[n] for n in range(19_999)]
    )
    sim = by_messages([many] * 2, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    sim.run()
    drawing = anb.Workbench(sim).to_svg()
    assert len(drawing) < 20_000


def test_pictures_that_are_pixels_and_that_move(bench, tmp_path):
    with Image.open(bench.to_png(tmp_path / "a.png", scale=1)) as image:
        image.load()
    assert image.width == 900
    assert len(image.convert("RGB").getcolors(2**20) or ()) > 20
    path = bench.animate(tmp_path / "a.gif", frames=4, seconds=1, scale=0.5)
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == 4
    assert bench.to_gif(tmp_path / "b.gif", frames=3).exists()
    text = bench.animate(tmp_path / "a.svg", frames=3).read_text()
    assert text.count("<animate") == 3


def test_layers_of_one_zero_leave_a_page_and_explain_themselves(tmp_path):
    sim = sim_of()
    sim.run()
    bench = anb.Workbench(sim)
    header, buffers = unpack(bench.to_html(tmp_path / "run.html").read_text())
    _, spans = tracks_of(header, buffers, "operations")
    assert len(spans["start"]) > len(sim.result.to_dataframe("operations"))  # waits stand among them
    assert ET.fromstring(bench.to_svg()).tag == f"{SVG}svg"
    lost = sim.lost_time().iloc[0]
    assert lost["compute_ps"] == sim.result.per_rank()[0]["compute_ps"]
    assert sum(lost[2:]) == lost["time_ps"] == sim.result.time_ps
    sim.goto("4 us")
    assert sim.why().links[0].path.startswith("rank[0].op[")
    change = sim.what_if("dim[0].bandwidth", "x2")
    assert change.exact_ps is not None
    assert change.exact_ps < change.before_ps
    fork = sim.fork()
    fork.reset()
    fork.set("dim[0].bandwidth", "100 GB/s")
    fork.run()
    assert fork.result.time_ps == change.exact_ps
    assert any(row["question"] == "what_if_run" for row in header["answers"])
