"""Ensembles: intervals that cover what they say, runs that a seed repeats, failures on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import Ensemble, ensemble
from astranb.explore.ensembles.random_runs import student_t
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.jobs import Failures, Jitter, Variation
from astranb.workload.models import Parallelism, workload

RING = DimensionNetwork(["Ring"], [4], [50], [500])
STEP = workload("gpt3-125m", Parallelism(data=4), batch=4)


def test_quantiles_are_those_of_tables() -> None:
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""
    table = {(0.975, 1): 12.706, (0.975, 2): 4.303, (0.975, 4): 2.776, (0.95, 9): 1.833, (0.995, 29): 2.756}
    for (probability, degrees), quantile in table.items():
        assert student_t(probability, degrees) == pytest.approx(quantile, rel=1e-3)


@pytest.mark.parametrize("statistic, truth", [("mean", 1e9), ("median", 1e9)])
def test_an_interval_covers_the_truth_as_often_as_it_says(statistic: str, truth: float) -> None:
    draw = np.random.Generator(np.random.PCG64(1))
    covered = 0
    for _ in range(200):
        times = draw.normal(1e9, 1e8, 20).astype(np.int64)
        found = Ensemble("x", {"time": times}, 0.9, "").interval(statistic)
        covered += found.low_ps <= truth <= found.high_ps
    assert 0.82 <= covered / 200 <= 0.97


def test_a_seed_repeats_an_ensemble() -> None:
    one, again, other = (
        ensemble(STEP, Variation(seed, Jitter(0.1)), infra=RING, runs=3).times_ps["time"].tolist()
        for seed in (1, 1, 2)
    )
    assert one == again
    assert set(one).isdisjoint(other)
    assert len(set(one)) == 3


def test_it_stops_when_the_mean_is_known() -> None:
    found = ensemble(STEP, Variation(1, Jitter(0.01)), infra=RING, runs=40, until=0.01)
    assert found.runs == 10
    assert found.interval().width <= 0.01


def test_jobs_have_times_of_their_own() -> None:
    ring = anb.collectives.all_reduce("1 MiB", "ring")
    network = DimensionNetwork(["Ring"], [6], [50], [500])
    jobs = anb.Jobs([anb.Job(STEP, [0, 1, 3, 4], name="step"), anb.Job(ring, [2, 5], name="ring")])
    found = ensemble(jobs, Variation(4, Jitter(0.1)), infra=network, runs=4, fidelity="congestion")
    assert list(found.to_dataframe()) == ["run", "time_ps", "step_ps", "ring_ps"]
    summary = found.summary()
    step = summary[(summary["what"] == "step") & (summary["statistic"] == "mean")]
    assert step["value_ps"].tolist()[0] > 0
    assert "step" in str(found)


@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_links_that_fail_make_runs_slower(rate: float) -> None:
    calm = ensemble(STEP, Variation(1), infra=RING, runs=2, fidelity="congestion")
    failures = Failures(link_every="4 ms", link_repair="1 ms", link_rate=rate)
    found = ensemble(STEP, Variation(1, failures=failures), infra=RING, runs=2, fidelity="congestion")
    assert len(set(calm.times_ps["time"])) == 1
    assert (found.times_ps["time"] > calm.times_ps["time"][0]).all()
    again = ensemble(STEP, Variation(1, failures=failures), infra=RING, runs=2, fidelity="congestion")
    assert again.times_ps["time"].tolist() == found.times_ps["time"].tolist()


def test_a_function_makes_the_runs() -> None:
    def make(run: int) -> anb.Simulation:
        job = anb.Job.background(0.5, "64 KiB", until="100 us", seed=run)
        return anb.Simulation(RING, jobs=[job], fidelity="congestion")

    found = ensemble(make, runs=3)
    assert len(set(found.times_ps["time"])) == 3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"runs": 1, "variation": Variation()}, "1 runs"),
        ({"confidence": 1, "variation": Variation()}, "a confidence of 1"),
        ({}, "nothing varies"),
        ({"variation": Variation(failures=Failures(link_every=1, link_repair=1))}, "congestion only"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ensemble(STEP, options.pop("variation", None), infra=RING, **options)
    with pytest.raises(InputError, match="the function returns int"):
        ensemble(lambda run: run)
