"""Pictures of a sweep: heat maps, sensitivity, the limits of a point, the command that runs it."""

from __future__ import annotations

import json
import math
import shlex

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import Sweep, SweepResult
from astranb.explore.sweeps import running
from astranb.explore.sweeps.columns import AxisColumn, FigureColumn, axis_columns, figure_columns
from astranb.explore.sweeps.heat import heat_cells
from astranb.explore.sweeps.limits import shares_of
from astranb.explore.sweeps.sensitivity import axis_effects, with_distances

RUN = {"infra": "switch:gpus={gpus}", "collective": "all_reduce", "fidelity": "analytical"}
AXES = {"gpus": [2, 4], "size": "1 MiB..4 MiB by x2", "algorithm": ["ring", "nonsense"]}
OBJECTIVES = {"time_ps": "min", "busbw_Bps": "max"}


@pytest.fixture(scope="module")
def found() -> SweepResult:
    return Sweep.of({"run": RUN, "axes": AXES, "objectives": OBJECTIVES}).run(workers=0)


def column(codes: list[int], name: str = "a") -> AxisColumn:
    labels = [str(code) for code in range(max(codes) + 1)]
    return AxisColumn(name, labels, ordered=True, codes=np.array(codes))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 50)), min_size=1, max_size=30))
@settings(max_examples=25, deadline=None)
def test_a_cell_is_the_best_and_the_mean_of_its_points(points: list[tuple[int, int, int]]) -> None:
    x, y = column([one[0] for one in points]), column([one[1] for one in points])
    values = np.array([float(one[2]) for one in points])
    for goal, best in (("min", min), ("max", max)):
        cells = heat_cells(x, y, FigureColumn("t", "", goal, values), np.ones(len(points), np.bool_))
        for k in range(len(cells.x)):
            inside = [value for a, b, value in points if (a, b) == (cells.x[k], cells.y[k])]
            assert (cells.best[k], cells.count[k]) == (best(inside), len(inside))
            assert cells.mean[k] == pytest.approx(sum(inside) / len(inside))
            assert values[cells.point[k]] == cells.best[k]
        assert sum(cells.count) == len(points)


def test_points_that_failed_are_in_no_cell(found: SweepResult) -> None:
    axes = axis_columns(found.spec, [point.axes for point in found.points])
    time = figure_columns(found.spec, found.rows)[0]
    done = np.array([row["status"] == "done" for row in found.rows])
    cells = heat_cells(axes[0], axes[2], time, done)
    assert (cells.x.tolist(), cells.y.tolist(), cells.count.tolist()) == ([0, 1], [0, 0], [3, 3])


def test_the_shares_of_a_full_grid_without_interaction_add_up_to_one() -> None:
    a, b = np.meshgrid(np.arange(4), np.arange(3))
    first, second = (column(codes.ravel().tolist(), name) for codes, name in ((a, "a"), (b, "b")))
    figure = FigureColumn("t", "", "min", (10.0 * a + b**2).ravel().astype(np.float64))
    effects = axis_effects([second, first], figure, np.ones(12, np.bool_))
    assert [one.axis for one in effects] == ["a", "b"]
    assert sum(one.share for one in effects) == pytest.approx(1)
    assert (effects[0].least, effects[0].most) == ("0", "3")
    assert effects[0].least_mean == pytest.approx(5 / 3)


def test_a_distance_is_seen_without_a_shift_of_the_mean_and_is_by_chance_for_an_idle_axis() -> None:
    pytest.importorskip("SALib")
    rng = np.random.default_rng(3)
    wide, idle = rng.integers(2, size=600), rng.integers(3, size=600)
    figure = FigureColumn("t", "", "min", rng.normal(size=600) * np.where(wide == 1, 5.0, 0.1))
    axes = [column(wide.tolist(), "wide"), column(idle.tolist(), "idle")]
    use = np.ones(600, np.bool_)
    by_name = {one.axis: one for one in with_distances(axis_effects(axes, figure, use), axes, figure, use)}
    assert by_name["wide"].share < 0.05
    assert by_name["wide"].distance > 0.2 > 3 * by_name["wide"].chance
    assert by_name["idle"].distance < 2 * by_name["idle"].chance


def test_a_distance_is_the_mean_of_the_largest_differences() -> None:
    pytest.importorskip("SALib")
    # Values of the axis split the figure in halves: each is 1/2 away from the whole.
    codes = [0] * 40 + [1] * 40
    figure = FigureColumn("t", "", "min", np.arange(80.0))
    axes, use = [column(codes)], np.ones(80, np.bool_)
    (effect,) = with_distances(axis_effects(axes, figure, use), axes, figure, use)
    assert effect.distance == pytest.approx(0.5, abs=0.02)


def test_sensitivity_of_a_sweep_says_which_axes_matter(found: SweepResult) -> None:
    effects = found.sensitivity()
    assert [one.axis for one in effects] == ["size", "gpus"]  # one algorithm only has ended
    assert all(math.isnan(one.distance) for one in effects)  # few points
    with pytest.raises(InputError, match="no objective 'mfu'"):
        found.sensitivity("mfu")


def test_the_front_of_some_objectives_is_that_of_their_values(found: SweepResult) -> None:
    assert found.pareto("time_ps") == [one for one in found.pareto("time_ps") if one in found.best(2)]
    assert found.pareto("time_ps", "busbw_Bps") == found.pareto()


def test_what_limits_a_point_of_a_model_is_its_time() -> None:
    spec = {"run": {"model": "gpt3-125m", "batch": 8, "tp": 2, "dp": 2}, "axes": {"seq": [128, 256]}}
    shares = Sweep.of(spec).run(workers=0).shares(0)
    assert list(shares) == sorted(shares, key=lambda name: -shares[name])
    assert {"compute", "exposed tensor"} <= shares.keys()
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert shares_of({"status": "failed", "error": "no"}) == {}


def test_the_command_of_a_point_runs_it(found: SweepResult, capsys: pytest.CaptureFixture[str]) -> None:
    number = found.best()[0]
    command, rest = found.command(number)
    words = shlex.split(command)
    assert (words[:3], rest) == (["astranb", "run", "collective"], [])
    assert main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == found.rows[number]["time_ps"]
    with pytest.raises(InputError, match="unknown point 99"):
        found.command(99)


def test_progress_counts_the_points_of_the_stage_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_SHOWN_S", 0)
    seen: list[tuple[str, int, int]] = []
    run = {"infra": RUN["infra"], "collective": "all_reduce", "size": "1 MiB"}
    stages = [{"fidelity": "analytical"}, {"fidelity": "congestion", "keep": 2}]
    sweep = Sweep.of({"run": run, "axes": {"gpus": [2, 4, 8]}, "stages": stages})

    def go_on(result: SweepResult) -> bool:
        seen.append(result.progress())
        return True

    sweep.run(workers=0, on_result=go_on)
    assert seen == [("analytical", k, 3) for k in (1, 2, 3)] + [("congestion", k, 2) for k in (1, 2)]


def test_values_are_named_as_people_write_them() -> None:
    spec = Sweep.of({"axes": {"infra": ["switch:gpus=4", "ring:gpus=4"], "size": "1 MiB..2 MiB by x2"}}).spec
    infra, size = axis_columns(spec, [{"infra": "ring:gpus=4", "size": "1048576 B"}, {"infra": "other"}])
    assert (infra.labels, infra.codes.tolist()) == (["switch:gpus=4", "ring:gpus=4"], [1, -1])
    assert (size.labels, size.ordered, size.label(0), size.label(1)) == (
        ["1 MiB", "2 MiB"],
        True,
        "1 MiB",
        "",
    )
    assert anb.explore.SweepResult is SweepResult
