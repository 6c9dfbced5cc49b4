"""Exports of a workbench: the page, pictures, animations."""

from __future__ import annotations

import base64
import gzip
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import astranb as anb
from astranb.core.errors import InputError
from astranb.drawing.topology import Dot
from astranb.widgets import assets
from astranb.widgets.offline_page import VARIABLES
from astranb.widgets.pictures import topology_picture
from tests.drawing.support import HOSTILE, MARKUP, hostile_simulation

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def bench() -> anb.Workbench:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring", channels=2))
    sim.run()
    return anb.Workbench(sim)


def unpack(page: str) -> tuple[dict[str, Any], list[bytes]]:
    """Read a page's recording as static/offline.js does."""
    found = re.search(r'<script type="text/plain" id="anb-recording">([\w+/=]+)</script>', page)
    assert found
    data = gzip.decompress(base64.b64decode(found[1]))
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = -(-(8 + length) // 8) * 8
    return header, [data[start + at : start + at + size] for at, size in header["places"]]


def test_the_page_holds_what_was_recorded(bench: anb.Workbench, tmp_path: Path) -> None:
    sim = bench.sim
    header, buffers = unpack(bench.to_html(tmp_path / "run.html").read_text())
    _, flights = sim.engine.recorder.since(0)
    start, end, what, *_ = (buffers[k] for k in header["state"]["buffers"])
    assert (np.frombuffer(start, "<f8") == flights["start_ps"]).all()
    assert (np.frombuffer(end, "<f8") == flights["end_ps"]).all()
    assert (np.frombuffer(what, "<u4") >> 4 == flights["link"]).all()
    times, events, *_ = (buffers[k] for k in header["moments"])
    assert (np.frombuffer(events, "<f8") == flights["event"]).all()
    assert (np.diff(np.frombuffer(times, "<f8")) >= 0).all()
    assert header["phases"] == sorted(sim.engine.machine.phases["ended_ps"].tolist())
    assert header["inspections"]["dgx_h100.0.xpu.3"][-1][1] == json.loads(json.dumps(sim.inspect("gpu[3]")))
    moments = header["inspections"]["dgx_h100.0.xpu.3"]
    assert [at for at, _ in moments][:: len(moments) - 1] == [0, sim.now_ps]
    at_ps, found = moments[len(moments) // 2]
    assert found == json.loads(json.dumps(bench.session.inspect("gpu[3]", at_ps)))
    assert header["modules"] == assets.MODULES
    assert header["state"]["message"]["events"] == sim.events


def test_the_page_answers_what_views_ask(
    bench: anb.Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def traffic(_feed: Any, options: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        asked.append(options)
        return {"ranks": 8}, [b"12345678", b"9"]

    def never(_feed: Any, _options: dict[str, Any]) -> Any:
        pytest.fail("a question that may change something was asked")

    def working(_feed: Any, _options: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        return {"working": True}, []

    own = {"traffic": traffic, "apply": never, "critical_path": working}
    monkeypatch.setattr("astranb.widgets.offline_page.answers_of", lambda _feed: own)
    header, buffers = unpack(bench.to_html(tmp_path / "run.html").read_text())
    (answer,) = header["answers"]
    assert (answer["question"], answer["options"], answer["message"]) == (
        "traffic",
        {"at_ps": None},
        {"ranks": 8},
    )
    assert [buffers[k] for k in answer["buffers"]] == [b"12345678", b"9"]
    assert asked == [{"at_ps": None}]


def test_of_more_flights_every_nth_is_taken(bench: anb.Workbench, tmp_path: Path) -> None:
    page = bench.to_html(tmp_path / "run.html", most=100).read_text()
    header, buffers = unpack(page)
    one_in = header["state"]["message"]["one_in"]
    _, flights = bench.sim.engine.recorder.since(0)
    assert len(flights) / 100 <= one_in < len(flights) / 100 + 1
    start = np.frombuffer(buffers[header["state"]["buffers"][0]], "<f8")
    assert (start == flights["start_ps"][::one_in]).all()
    assert f"1 in {one_in} of them" in page
    with pytest.raises(InputError, match="most"):
        bench.to_html(tmp_path / "run.html", most=0)


def test_the_page_may_load_nothing_and_knows_every_colour(bench: anb.Workbench, tmp_path: Path) -> None:
    page = bench.to_html(tmp_path / "run.html").read_text()
    assert "default-src &#x27;none&#x27;; script-src &#x27;unsafe-inline&#x27; blob:" in page
    assert not re.search(r"<(script|link|img)\b[^>]*\b(src|href)\s*=", page)
    used = set(re.findall(r"--jp-[\w-]+", assets.STYLES + "".join(assets.MODULES.values())))
    fonts = {"--jp-ui-font-family", "--jp-code-font-family"}  # which have one of their own behind
    given = {*VARIABLES, *fonts, "--jp-error-color1"}
    assert used <= given, "give the page this colour (VARIABLES in page.py)"


def test_a_start_is_a_page_too(tmp_path: Path) -> None:
    bench = anb.Workbench(anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB")))
    header, _ = unpack(bench.to_html(tmp_path / "run.html").read_text())
    assert header["state"]["message"]["now_ps"] == 0
    assert header["phases"] == []


def test_what_was_not_recorded_cannot_be_played(tmp_path: Path) -> None:
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB"), record=False)
    bench = anb.Workbench(sim)
    for leave in (bench.to_html, bench.animate):
        with pytest.raises(InputError, match="nothing was recorded"):
            leave(tmp_path / "a.gif")
    assert "lines are not recorded" in bench.to_svg()
    assert list(tmp_path.iterdir()) == []


def test_names_are_text_everywhere(tmp_path: Path) -> None:
    bench = anb.Workbench(hostile_simulation())
    page = bench.to_html(tmp_path / "run.html").read_text()
    assert page.count("</script>") == page.count("<script") == 2
    assert "<img" not in page
    header, _ = unpack(page)
    assert HOSTILE in header["scene"]["message"]["title"]
    drawing = bench.to_svg()
    assert "<img" not in drawing
    assert "<script" not in drawing
    titles = [one.text or "" for one in ET.fromstring(drawing).iter(f"{SVG}title")]
    assert any(MARKUP in title for title in titles)
    bench.to_png(tmp_path / "a.png")


def test_the_still_picture_puts_lines_where_they_were(bench: anb.Workbench) -> None:
    feed: Any = bench.feed
    sim, layout = bench.sim, feed.layout
    _, flights = sim.engine.recorder.since(0)
    flight = flights[len(flights) // 3]
    at = int(flight.start_ps + (flight.end_ps - flight.start_ps) // 2)
    shapes = topology_picture(sim, layout, at).moving
    flying = (flights["start_ps"] <= at) & (flights["end_ps"] >= at)
    assert len(shapes) == flying.sum() > 0
    # The flight is half way between the edges of two boxes.
    a, b = next((a, b) for a, b, lanes in layout.bundles if int(flight.link) in lanes)
    p, q = layout.boxes[a], layout.boxes[b]
    middle = ((p.x + q.x) / 2, (p.y + q.y) / 2)
    dots = [one for one in shapes if isinstance(one, Dot) and one.kind == flight.kind]
    assert min(abs(dot.x - middle[0]) + abs(dot.y - middle[1]) for dot in dots) < 20


def test_svg_is_well_formed_and_says_the_load(bench: anb.Workbench, tmp_path: Path) -> None:
    text = bench.to_svg(tmp_path / "a.svg", at="3 us", dark=True)
    assert (tmp_path / "a.svg").read_text() == text
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    boxes = [one.text for one in root.iter(f"{SVG}text")]
    assert {f"GPU{rank}" for rank in range(8)} <= set(boxes)
    link = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.1"
    lanes = bench.sim.engine.fabric.find(link)
    busy = bench.sim.engine.machine.links["busy_ps"][lanes].mean() / bench.sim.now_ps
    now = [one.text for one in ET.fromstring(bench.to_svg()).iter(f"{SVG}title")]
    assert f"{link}: {busy:.0%} busy" in now
    with pytest.raises(InputError, match="has not been simulated"):
        bench.to_svg(at="1 s")


def test_png_has_the_size_that_was_asked_for(bench: anb.Workbench, tmp_path: Path) -> None:
    feed: Any = bench.feed
    layout = feed.layout
    for scale in (1, 2):
        with Image.open(bench.to_png(tmp_path / "a.png", scale=scale)) as image:
            image.load()
        assert abs(image.width - layout.width * scale) <= 2
    assert len(image.convert("RGB").getcolors(2**20) or ()) > 50
    with Image.open(bench.to_png(tmp_path / "b.png", dark=True)) as dark:
        dark.load()
    assert dark.getpixel((0, 0)) == (17, 17, 17)
    with pytest.raises(InputError, match="scale"):
        bench.to_png(tmp_path / "c.png", scale=100)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_frames_differ_and_are_as_many_as_asked_for(
    bench: anb.Workbench, tmp_path: Path, suffix: str
) -> None:
    path = bench.animate(tmp_path / f"a.{suffix}", "1 us", "3 us", frames=5, seconds=1, scale=0.5)
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == 5
        seen = []
        for k in range(5):
            image.seek(k)
            seen.append(image.convert("RGB").tobytes())
            if suffix != "webp" or k:
                assert image.info.get("duration", 200) == pytest.approx(200, abs=10)
    assert len(set(seen)) == 5


def test_an_animated_svg_shows_one_frame_at_a_time(bench: anb.Workbench, tmp_path: Path) -> None:
    root = ET.fromstring(bench.animate(tmp_path / "a.svg", frames=4, seconds=2).read_text())
    frames = [one for one in root.iter(f"{SVG}g") if one.find(f"{SVG}animate") is not None]
    assert [one.get("display") for one in frames] == ["inline", "none", "none", "none"]
    for k in range(4):
        shown = []
        for frame in frames:
            turn = frame.find(f"{SVG}animate")
            assert turn is not None
            times = [float(x) for x in (turn.get("keyTimes") or "").split(";")]
            values = (turn.get("values") or "").split(";")
            assert times[0] == 0
            assert turn.get("dur") == "2s"
            shown.append([v for at, v in zip(times, values, strict=True) if at <= (k + 0.5) / 4][-1])
        assert shown == ["inline" if j == k else "none" for j in range(4)]


def test_bad_wishes_get_one_line(bench: anb.Workbench, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write '\.mp4'"):
        bench.animate(tmp_path / "a.mp4")
    with pytest.raises(InputError, match=r"called \.gif"):
        bench.to_gif(tmp_path / "a.png")
    with pytest.raises(InputError, match="no time between"):
        bench.to_gif(tmp_path / "a.gif", start="3 us", end="2 us")
    with pytest.raises(InputError, match="frames must be"):
        bench.to_gif(tmp_path / "a.gif", frames=1)
    with pytest.raises(InputError, match="cannot be written"):
        bench.to_html(tmp_path / "no" / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_the_fallback_for_places_without_widgets_is_the_same_picture(bench: anb.Workbench) -> None:
    bundle = bench._repr_mimebundle_()
    assert bundle
    data, _ = bundle
    assert data["image/svg+xml"] == bench.to_svg()
    ET.fromstring(data["image/svg+xml"])
