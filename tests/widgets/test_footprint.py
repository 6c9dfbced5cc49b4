"""Messages to the panel of GPU memory, against the table of the result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.colours import MEMORY_COLOURS
from astranb.core.errors import InputError
from astranb.drawing.memory_chart import MemoryAxis
from astranb.engine.operations.run import OperationRun
from astranb.widgets.feed import OperationFeed, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views.footprint import footprint
from astranb.workload.models import Parallelism, workload
from astranb.workload.models.memory import MEMORY_PARTS
from tests.engine.operations.support import mixed


def step() -> anb.Simulation:
    model = workload("gpt3-1.3b", Parallelism(pipeline=2, tensor=2), batch=8, microbatches=4, gpu="h100-sxm")
    return anb.Simulation(model)


class _Panel:
    def __init__(self, sim: anb.Simulation) -> None:
        self.sim, self.feed = sim, OperationFeed(session_of(sim))

    def ask(self, **options: Any) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
        """The chart, its moments, and bytes by moments and parts."""
        asked = {
            "from": 0,
            "to": self.sim.now_ps + 1,
            "columns": 1000,
            "rank": None,
            "at_ps": None,
            **options,
        }
        meta, buffers = footprint(self.feed, asked)
        columns = unpack("footprint", buffers)
        parts = len(meta["chart"]["parts"])
        return meta, columns["time"], columns["held"].reshape(parts, -1).T

    def table(self, rank: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """The same of the result, without the part that is never held."""
        frame = self.sim.result.to_dataframe("memory")
        every = [name for name in MEMORY_PARTS if name != "cache"]  # of keys and values
        assert not frame["cache"].any()
        mine = frame[frame["rank"] == rank]
        return mine["time_ps"].to_numpy(), mine[every].to_numpy(), every


def test_the_panel_shows_what_the_result_holds_as_far_as_it_is_simulated() -> None:
    panel = _Panel(step())
    for _ in range(3):
        for rank in (0, 2):
            meta, times, held = panel.ask(rank=rank)
            expected_times, expected, parts = panel.table(rank)
            assert meta["exact"]
            assert meta["chart"]["parts"] == parts
            assert np.array_equal(times, expected_times)
            assert np.array_equal(held, expected)
            peak = int(np.argmax(expected.sum(axis=1)))
            assert meta["chart"]["peak"] == expected[peak].tolist()
            assert (meta["chart"]["peak_ps"], meta["chart"]["stage"]) == (expected_times[peak], rank // 2)
            assert meta["chart"]["at"] == expected[-1].tolist()
        panel.sim.step(1500)
    panel.sim.run()
    # At the end the fullest moment is what was counted beforehand, so that the axis never moves.
    meta, _, _ = panel.ask()
    axis = MemoryAxis(sum(meta["chart"]["peak"]), panel.sim.engine.about.footprint.limit_bytes)
    assert (meta["chart"]["top_bytes"], meta["chart"]["shows_limit"]) == (axis.top_bytes, axis.shows_limit)
    first, _, _ = _Panel(step()).ask()
    assert first["chart"]["ticks"] == meta["chart"]["ticks"]


def test_the_fullest_rank_is_shown_unless_one_is_chosen() -> None:
    panel = _Panel(step())
    panel.sim.run()
    assert panel.ask()[0]["chart"]["rank"] == 0  # its stage keeps the most activations
    assert panel.ask(rank=3)[0]["chart"]["rank"] == 3
    with pytest.raises(InputError, match="no such rank 4"):
        panel.ask(rank=4)


def test_a_window_begins_with_what_is_held_there() -> None:
    panel = _Panel(step())
    panel.sim.run()
    expected_times, expected, _ = panel.table(0)
    start, end = int(expected_times[10]) + 1, int(expected_times[20])
    _, times, held = panel.ask(**{"from": start, "to": end})
    assert np.array_equal(times, expected_times[10:20])
    assert np.array_equal(held, expected[10:20])
    for row in (0, 7, len(expected) - 2):
        at_ps = int(expected_times[row + 1]) - 1
        assert panel.ask(at_ps=at_ps)[0]["chart"]["at"] == expected[row].tolist()
    beyond, times, _ = panel.ask(**{"from": 2 * panel.sim.now_ps, "to": 3 * panel.sim.now_ps})
    assert beyond["exact"]
    assert times.tolist() == expected_times[-1:].tolist()


def test_of_many_changes_each_column_has_its_fullest_moment() -> None:
    panel = _Panel(step())
    panel.sim.run()
    expected_times, expected, _ = panel.table(0)
    total = expected.sum(axis=1)
    end = 2 * panel.sim.now_ps  # half of the columns are not simulated
    meta, times, held = panel.ask(columns=16, to=end)
    assert not meta["exact"]
    assert len(expected_times) > 16 >= len(times) >= 8
    assert times.max() <= panel.sim.now_ps
    for k, row in enumerate(held):
        until = times[k + 1] if k + 1 < len(times) else end
        first = np.searchsorted(expected_times, times[k], "right") - 1
        inside = slice(first, max(first + 1, np.searchsorted(expected_times, until)))
        assert row.sum() == total[inside].max()
    assert held.sum(axis=1).max() == sum(meta["chart"]["peak"])


def test_a_run_without_figures_says_why() -> None:
    sim = mixed()
    sim.step(50)
    meta, buffers = footprint(OperationFeed(session_of(sim)), {"from": 0, "to": 1000, "columns": 10})
    assert meta["chart"] is None
    assert not any(buffers)
    assert meta["absent"] == sim.engine.absent["memory"]


@pytest.mark.parametrize("make", [step, mixed])
def test_times_of_some_operations_are_those_among_all(make: Any) -> None:
    sim = make()
    sim.step(400)
    engine: OperationRun = sim.engine
    for rows in (slice(0, 3), slice(5, 17), slice(None)):
        for some, every in zip(engine.times_ps(rows), engine.times_ps(), strict=True):
            assert np.array_equal(some, every[rows])


def test_python_and_the_browser_have_the_same_colours() -> None:
    text = (Path(anb.__file__).parent / "widgets/static/theme.js").read_text(encoding="utf-8")
    listed = re.search(r"MEMORY_COLOURS = \{(.*?)\};", text, re.DOTALL)
    assert listed
    assert dict(re.findall(r'(\w+): "(#\w+)"', listed[1])) == MEMORY_COLOURS
    assert MEMORY_COLOURS.keys() == MEMORY_PARTS.keys()
