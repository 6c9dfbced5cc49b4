"""The picture of a buffer against its lines, one by one, now and at a cursor in the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives.language.fifo import index_name
from astranb.core.errors import InputError
from astranb.engine.cacheline.memory import buffer_of
from astranb.widgets.feed import LineFeed
from astranb.widgets.session import session_of
from astranb.widgets.views import buffer as view

ODD = 100 * 1024 + 384  # chunks of which the last is shorter


@pytest.fixture(scope="module")
def feed() -> LineFeed:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce(ODD, "ring", channels=3))
    sim.run()
    return LineFeed(session_of(sim))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 7), st.sampled_from(["input", "output", "scratch"]), st.integers(1, 400), st.floats(0, 1)
)
def test_cells_are_what_their_lines_are(
    feed: LineFeed, rank: int, name: str, columns: int, when: float
) -> None:
    at = int(when * feed.sim.now_ps)
    options = {"rank": rank, "buffer": name, "columns": columns, "at_ps": at}
    meta, buffers = view.answer(feed, options)
    then = feed.session.at(at)
    assert abs(then.now_ps - at) <= feed.sim.now_ps
    found = buffer_of(then.engine, rank, name)
    shape = (meta["chunks"], meta["columns"])
    kinds = ("u1", "<u2", "<u2", "u1")
    arrived, source, ranks_in, state = (
        np.frombuffer(b, k).reshape(shape) for b, k in zip(buffers, kinds, strict=True)
    )
    assert meta["columns"] <= max(1, columns)
    chunk = np.repeat(then.engine.machine.slices["chunk"][found.slices], np.diff(found.first))
    final = np.repeat(found.final, np.diff(found.first))
    for row, index in enumerate(np.unique(chunk)):
        assert meta["names"][row] == index_name(int(index))
        lines = np.flatnonzero(chunk == index)
        for column in range(meta["columns"]):
            here = lines[column * meta["fold"] : (column + 1) * meta["fold"]]
            if not len(here):
                assert state[row, column] == 2
                continue
            there = here[found.source[here] >= 0]
            assert arrived[row, column] == round(255 * len(there) / len(here))
            assert (state[row, column] == 1) == bool(final[here].all())
            if len(there):
                assert source[row, column] in found.source[there]
                sums = [int((found.times[found.number[line]] > 0).sum()) for line in there]
                assert ranks_in[row, column] == min(sums)
            else:
                assert source[row, column] == 65535
    assert meta["arrived_lines"] == found.arrived.sum()


def test_a_cell_in_words(feed: LineFeed) -> None:
    options = {"rank": 1, "buffer": "output", "columns": 1000, "chunk": 2, "column": 0}
    told, _ = view.cell(feed, options)
    assert told["text"].startswith("GPU1 output[2] · channel 0 · line 1 of ")
    assert told["text"].endswith("sum of ranks 0+1+2+3+4+5+6+7 (8 of 8) · final")
    found = buffer_of(feed.sim.engine, 1, "output")
    chunk = feed.sim.engine.machine.slices["chunk"][found.slices]
    assert told["source"] == found.source[found.first[np.flatnonzero(chunk == 2)[0]]]
    assert "not arrived" in view.cell(feed, {**options, "at_ps": 0})[0]["text"]
    assert "brought by itself" in view.cell(feed, {**options, "buffer": "input"})[0]["text"]
    partial = view.cell(feed, {**options, "buffer": "scratch", "chunk": 0, "at_ps": feed.sim.now_ps})[0]
    assert "from GPU0" in partial["text"]
    assert view.cell(feed, {**options, "column": 999})[0]["text"] == ""
    with pytest.raises(InputError):
        view.answer(feed, {"rank": 1, "buffer": "packets"})
