"""Statistics by hand, and that they lose no byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from bokeh.models import Plot
from bokeh.models.widgets import Slider
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.export import figures
from astranb.traffic import MessageGraph, statistics, traffic_figure


def _graph(messages: list[tuple[int, int, int, int]], ranks: int) -> MessageGraph:
    """Messages of source, target, bytes and start."""
    nodes = []
    for number, (source, target, size, start) in enumerate(messages):
        ends = {"bytes": size, "tag": number, "start_ps": start}
        nodes += [
            {"rank": source, "kind": 2, "peer": target, **ends},
            {"rank": target, "kind": 3, "peer": source, **ends},
        ]
    nodes.sort(key=lambda node: node["rank"])
    return MessageGraph.of(ranks, nodes)


def test_three_senders_make_an_incast_of_three() -> None:
    graph = _graph([(0, 3, 100, 0), (1, 3, 100, 5), (2, 3, 100, 9), (0, 3, 50, 95)], 4)
    found = statistics(graph, bin_ps=10)
    assert found.incast().tolist() == [0, 0, 0, 3]
    assert found.matrix().tolist() == [[0, 0, 0, 150], [0, 0, 0, 100], [0, 0, 0, 100], [0] * 4]
    assert found.matrix(0, 10)[0].tolist() == [0, 0, 0, 100]
    assert found.over_time().sum(axis=0).tolist() == [300, *[0] * 8, 50]
    assert found.gaps_ps().tolist() == [95]
    assert found.burstiness() == pytest.approx(
        {"peak_to_mean": 300 / 35, "dispersion": np.var([300, *[0] * 8, 50]) / 35, "idle_bins": 0.8}
    )
    assert found.sizes()["messages"].tolist() == [1, 3]


def test_statistics_are_json() -> None:
    document = statistics(_graph([(0, 1, 1, 0)], 2)).document()
    assert json.loads(json.dumps(document))["messages"] == 1


def test_nothing_sent_is_no_error() -> None:
    document = statistics(MessageGraph.of(2, [{"rank": 0, "kind": 0, "duration_ps": 5}])).document()
    assert (document["messages"], document["incast"], document["message_bytes"]) == (0, 0, {})


def test_unknown_starts_are_said() -> None:
    with pytest.raises(InputError, match="1 of 1 messages have no start"):
        statistics(_graph([(0, 1, 1, -1)], 2))
    with pytest.raises(InputError, match="a bin of 0 ps"):
        statistics(_graph([(0, 1, 1, 3)], 2), bin_ps=0)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 1 << 30), st.integers(0, 10**6)),
        max_size=30,
    )
)
def test_every_byte_is_in_a_cell_and_in_a_bin(messages: list[tuple[int, int, int, int]]) -> None:
    found = statistics(_graph(messages, 5))
    whole = sum(size for _, _, size, _ in messages)
    assert found.matrix().sum() == found.over_time().sum() == whole
    assert (found.sizes()["bytes"] * found.sizes()["messages"]).sum() == whole
    assert found.by_operation()["bytes"].sum() == whole
    assert found.incast().max(initial=0) <= 5


def test_figures_show_what_was_counted_and_need_no_network(tmp_path: Path) -> None:
    graph = _graph([(0, 3, 100, 0), (1, 3, 100, 5), (2, 3, 100, 9), (0, 3, 50, 95)], 4)
    found = statistics(graph, bin_ps=10)
    for dark in (False, True):
        layout = traffic_figure(found, dark=dark)
        drawn = {plot.title.text: plot for plot in layout.select({"type": Plot})}
        matrix = next(plot for title, plot in drawn.items() if title.startswith("Bytes from rank to rank"))
        assert (matrix.renderers[0].data_source.data["image"][0] == found.matrix()).all()
        incast = next(plot for title, plot in drawn.items() if title.startswith("Incast"))
        assert incast.renderers[0].data_source.data["top"].tolist() == [3, *[0] * 8, 1]
        sizes = next(plot for title, plot in drawn.items() if title.startswith("Sizes"))
        assert dict(sizes.renderers[0].data_source.data)["share"].tolist() == [0.25, 1.0]
        (slider,) = layout.select({"type": Slider})
        every = slider.js_property_callbacks["change:value"][0].args["every"].data["image"]
        assert sum(every[1:]).tolist() == every[0].tolist() == found.matrix().ravel().tolist()
        text = figures.save(layout, tmp_path / "traffic.html").read_text()
        assert text.index("<style>body{background:#") < text.index("<script")
        assert not re.findall(r"<(?:script|link)[^>]+(?:src|href)=", text)


def test_matrices_of_many_ranks_are_folded() -> None:
    graph = _graph([(rank, (rank + 1) % 130, 10, rank) for rank in range(130)], 130)
    layout = traffic_figure(statistics(graph))
    matrix = next(plot for plot in layout.select({"type": Plot}) if "rank to rank" in plot.title.text)
    shown = matrix.renderers[0].data_source.data["image"][0]
    assert shown.shape == (44, 44)  # three ranks are one row
    assert shown.sum() == 1300
