"""Figures: what they show, one look, and names as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bokeh.embed import json_item
from bokeh.models import Image, Quad, Scatter

import astranb as anb
from astranb.core.colours import DARK, LIGHT
from astranb.core.errors import InputError
from astranb.export import figures
from astranb.gpu import preset
from tests.drawing.support import HOSTILE, hostile_simulation


def data_of(figure: Any, glyph: type) -> list[dict[str, Any]]:
    return [dict(r.data_source.data) for r in figure.renderers if isinstance(r.glyph, glyph)]


def test_traffic_by_hand() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_gather("16 KiB", "allpairs"))
    assert not figures.traffic(sim).any()
    while not figures.traffic(sim).any():
        sim.step(20)
    halfway = figures.traffic(sim)
    sim.run()
    found = figures.traffic(sim)
    # Every rank sends its 2 KiB to each of the seven others.
    assert (found == 2048 * (1 - np.eye(8, dtype=int))).all()
    assert (halfway <= found).all()
    assert 0 < halfway.sum() < found.sum()


def test_a_ring_only_talks_to_its_neighbour(ring: anb.Simulation) -> None:
    found = figures.traffic(ring)
    to = (np.arange(8) + 1) % 8
    # 2 (n - 1) steps of an n-th of the buffer.
    assert (found[np.arange(8), to] == 14 * 32 * 1024 // 8).all()
    assert np.count_nonzero(found) == 8


def test_heat_maps_show_what_was_counted(ring: anb.Simulation) -> None:
    (shown,) = data_of(figures.heat_map(ring), Image)
    assert (np.asarray(shown["image"][0]) == figures.traffic(ring)).all()
    figure = figures.heat_map(ring, "links")
    (shown,) = data_of(figure, Image)
    rows = np.asarray(shown["image"][0])
    names = [figure.yaxis[0].major_label_overrides[k + 0.5] for k in range(len(rows))]
    noted = ring.engine.recorder.activity()
    lanes = ring.engine.fabric.find("dgx_h100.0.xpu.2->dgx_h100.0.nvsw.1")
    fold = -(-noted["bins"] // rows.shape[1])
    assert rows[names.index("xpu.2->nvsw.1")].mean() == pytest.approx(
        noted["link_busy"][lanes].mean(axis=0).sum() / fold / rows.shape[1]
    )
    silent = anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB"), record=False)
    with pytest.raises(InputError, match="nothing was recorded"):
        figures.heat_map(silent, "links")
    with pytest.raises(InputError, match="did you mean 'traffic'"):
        figures.heat_map(ring, "trafic")


def test_the_gantt_chart_holds_every_span(ring: anb.Simulation) -> None:
    shown = data_of(figures.gantt(ring), Quad)
    spans = ring.spans()
    assert sum(len(one["left"]) for one in shown) == len(spans)
    ends = np.sort(np.concatenate([one["right"] for one in shown]))
    assert (ends == np.sort(spans["end_ps"] / 1e6)).all()


def test_a_latency_curve_has_a_line_for_each_algorithm() -> None:
    tables = [
        anb.explore.best_algorithm("switch:gpus=2", "all_gather", size, channels=1)
        for size in ("1 KiB", "4 KiB")
    ]
    shown = data_of(figures.latency_curve(tables), Scatter)
    ran = [table.dropna(subset=["time_ps"]) for table in tables]
    assert len(shown) == len(ran[0])
    times = sorted(us for one in shown for us in one["y"])
    assert times == sorted(ps / 1e6 for table in ran for ps in table["time_ps"])
    assert all(one["x"] == [1024, 4096] for one in shown)
    with pytest.raises(InputError, match="no column 'size_bytes'"):
        figures.latency_curve(tables[0].drop(columns="size_bytes"))
    with pytest.raises(InputError, match="no row"):
        figures.latency_curve(tables[0].iloc[:0])


def test_the_roof_holds_every_rank(ring: anb.Simulation) -> None:
    figure = figures.roofline(ring)
    (points,) = data_of(figure, Scatter)
    assert len(points["x"]) == 8
    roofs = {r.name or k: r.data_source.data for k, r in enumerate(figure.renderers) if r.name != "ranks"}
    links = roofs[3]
    bound = np.interp(points["x"], links["x"], links["y"])
    assert (points["y"] < bound).all()
    sent = figures.traffic(ring).sum(axis=1)
    assert points["y"].tolist() == pytest.approx((sent / ring.result.time_ps * 1e3).tolist())
    # Little's law and the flat part, by hand: memory of an H100.
    h100 = preset("h100-sxm")
    memory = figures.roofline("h100-sxm").renderers[0].data_source.data
    assert memory["y"][-1] == pytest.approx(h100.hbm_Bps / 1e9)
    latency_ns = (2 * h100.noc_ps + h100.l2_ps + h100.hbm_ps) / 1000
    assert memory["y"][0] == pytest.approx(memory["x"][0] / latency_ns)


@pytest.mark.parametrize("dark", [False, True])
def test_one_look(ring: anb.Simulation, dark: bool) -> None:
    colours = DARK if dark else LIGHT
    made = [
        figures.roofline(ring, dark=dark), figures.heat_map(ring, dark=dark), figures.gantt(ring, dark=dark),
        figures.heat_map(ring, "links", dark=dark),
    ]  # fmt: skip
    for figure in made:
        assert figure.background_fill_color == figure.border_fill_color == colours.back
        assert figure.title.text_color == colours.ink
        assert {axis.axis_label_text_color for axis in figure.axis} == {colours.ink}


def test_a_saved_figure_is_whole_and_fetches_nothing(ring: anb.Simulation, tmp_path: Path) -> None:
    text = figures.save(figures.gantt(ring), tmp_path / "gantt.html").read_text()
    assert text.count("<html") == text.count("</html>") == 1
    assert "cdn.bokeh.org/bokeh/release" not in text.replace("\\/", "/").split("<body>")[1]
    assert not any(tag in text for tag in ('<script src="http', "<script src='http", '<link href="http'))


def test_names_are_text(tmp_path: Path) -> None:
    sim = hostile_simulation()
    for number, figure in enumerate(
        [figures.gantt(sim), figures.heat_map(sim), figures.heat_map(sim, "links"), figures.roofline(sim)]
    ):
        assert HOSTILE in json.dumps(json_item(figure), ensure_ascii=False).replace('\\"', '"')
        text = figures.save(figure, tmp_path / f"{number}.html").read_text()
        assert "<img" not in text
    assert figures.gantt(sim).title.text.count("$$") == 0


def test_a_figure_is_only_shown_where_there_is_a_notebook(ring: anb.Simulation) -> None:
    with pytest.raises(InputError, match="not in a notebook"):
        figures.show(figures.gantt(ring))
