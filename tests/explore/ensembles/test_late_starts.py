"""Late starts drawn many times: the same for all algorithms, and what each loses by them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore.ensembles.late_starts import DISTRIBUTIONS, drawn_starts

SEVERAL = [anb.collectives.all_reduce("4 KiB", name) for name in ("ring", "allpairs", "tree")]


@given(
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    spread=st.integers(0, 10**9),
    ranks=st.integers(1, 64),
    seed=st.integers(0, 2**32),
    run=st.integers(0, 1000),
)
def test_starts_are_drawn_again_the_same(distribution, spread, ranks, seed, run):
    starts = drawn_starts(distribution, spread, ranks, seed, run)
    assert starts == drawn_starts(distribution, spread, ranks, seed, run)
    assert len(starts) == ranks
    assert min(starts) == 0
    if distribution != "exponential":
        assert max(starts) <= spread
    if distribution == "one":
        assert max(starts) == (spread if ranks > 1 else 0)
        assert np.count_nonzero(starts) <= 1


def test_starts_have_the_distribution_that_is_named():
    drawn = np.array([drawn_starts("exponential", 1_000_000, 64, 5, run) for run in range(200)])
    assert drawn.mean() == pytest.approx(
        1e6, rel=0.05
    )  # the first of 64 starts at a 64th of it, which is taken off
    drawn = np.array([drawn_starts("uniform", 1_000_000, 64, 5, run) for run in range(200)])
    assert drawn.mean() == pytest.approx(0.5e6, rel=0.05)
    late = [int(np.argmax(drawn_starts("one", 1, 8, 5, run))) for run in range(200)]
    assert set(late) == set(range(8))


@pytest.mark.parametrize("fidelity", ["cacheline", "congestion"])
def test_each_run_is_that_of_its_starts(fidelity):
    found = anb.explore.skew(
        "switch:gpus=4", SEVERAL, spreads=["0 ns", "3 us", "30 us"], seed=7, runs=3, fidelity=fidelity
    )
    frame = found.to_dataframe()
    assert len(frame) == 3 * 3 * 3
    for row in frame.to_dict("records"):
        which = found.names.index(row["collective"])
        start = drawn_starts("uniform", int(row["spread_ps"]), 4, 7, int(row["run"]))
        sim = anb.Simulation("switch:gpus=4", SEVERAL[which], fidelity=fidelity, start=start)
        sim.run()
        assert (row["time_ps"], row["latest_ps"]) == (sim.result.time_ps, max(start))
    together = frame[frame["spread_ps"] == 0]
    assert (together["lost_ps"] == 0).all()
    summary = found.summary()
    assert (summary["low_ps"] <= summary["time_ps"]).all()
    assert (summary["time_ps"] <= summary["worst_ps"]).all()
    wide = summary[summary["spread_ps"] == 30_000_000]
    # Starts that are far apart are all that counts: the last rank's is lost whole, by every algorithm.
    assert (wide["lost_fraction"] > 0.5).all()
    assert "times together" in str(found)
    figure = found.figure(dark=True)
    assert [item.label.value for item in figure.legend[0].items] == list(found.names)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"distribution": "unifrom"}, "uniform"),
        ({"spreads": []}, "nothing to run"),
        ({"spreads": "1 us"}, "nothing to run"),
        ({"spreads": ["1"]}, "no unit"),
        ({"seed": -1}, "a seed of -1"),
        ({"runs": 1}, "two runs or more"),
        ({"start": {1: "1 us"}}, "starts are drawn"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        anb.explore.skew("switch:gpus=2", SEVERAL[0], **given)
    with pytest.raises(InputError, match="nothing to run"):
        anb.explore.skew("switch:gpus=2", [])


def test_a_figure_needs_its_columns():
    from astranb.export import figures

    found = anb.explore.skew("switch:gpus=2", SEVERAL[0], spreads=["1 us"], runs=2)
    with pytest.raises(InputError, match="collective"):
        figures.skew_curve(found.summary().rename(columns={"collective": "colective"}))
