"""Jitter, stragglers and failures: what their draws must obey, and what is refused."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import COMPUTE, DimensionNetwork, Operations, System, Workload
from astranb.workload.jobs import Failures, Jitter, Stragglers, Variation
from astranb.workload.models import Parallelism, workload

RING = DimensionNetwork(["Ring"], [4], [50], [500])


def computing(count: int = 2000, took_ns: int = 10_000) -> Workload:
    """Four ranks that compute, one computation after the other."""
    rows = [{"kind": COMPUTE, "duration_ns": took_ns}] * count
    one = Operations.of(rows, [(), *((row,) for row in range(count - 1))])
    return Workload([one] * 4, RING, System({}))


def durations(workload: Workload) -> np.ndarray:
    return np.array([one.rows["duration_ns"] for one in workload.operations])


@pytest.mark.parametrize("shape", ["lognormal", "gamma", "normal"])
@pytest.mark.parametrize("cv", [0.05, 0.3])
def test_factors_have_mean_1_and_the_coefficient_of_variation(shape: str, cv: float) -> None:
    factors = Jitter(cv, shape).factors(np.random.Generator(np.random.PCG64(1)), 200_000)
    assert factors.min() > 0
    assert factors.mean() == pytest.approx(1, abs=0.005)
    assert factors.std() == pytest.approx(cv, rel=0.02)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 100))
def test_a_seed_and_a_run_decide_everything(seed: int, run: int) -> None:
    one = Variation(seed, Jitter(0.1), Stragglers(3, 2), Failures(gpu_every="5 ms", gpu_repair="1 ms"))
    program = computing(200)
    same, again, other = (durations(one.workload(program, which)) for which in (run, run, run + 1))
    assert (same == again).all()
    assert (same != other).any()


def test_no_purpose_changes_the_draws_of_another() -> None:
    program, jitter = computing(500), Jitter(0.2)
    alone = durations(Variation(7, jitter).workload(program))
    slow = durations(Variation(7, stragglers=Stragglers(2, 1)).workload(program))
    both = durations(Variation(7, jitter, Stragglers(2, 1)).workload(program))
    factor = slow / durations(program)
    assert sorted(factor[:, 0].tolist()) == [1, 1, 1, 2]
    assert np.abs(both - alone * factor).max() <= 1
    failing = durations(
        Variation(7, jitter, failures=Failures(gpu_every="1 ms", gpu_repair="9 ms")).workload(program)
    )
    added = failing - alone
    assert set(np.unique(added).tolist()) <= {9_000_000 * n for n in range(9)}
    assert 5 < np.count_nonzero(added) < 60  # four ranks compute 5 ms each: 20 failures


def test_a_failed_gpu_holds_up_the_step() -> None:
    step = workload("gpt3-125m", Parallelism(data=4), batch=4)
    calm = anb.Simulation(RING, step)
    calm.run()
    failures = Failures(gpu_every="10 ms", gpu_repair="70 ms")
    sim = anb.Simulation(RING, Variation(2, failures=failures).of(step))
    sim.run()
    assert sim.result.time_ps >= calm.result.time_ps + 70 * 10**9


def test_jobs_alone_have_what_was_drawn_for_all() -> None:
    jobs = anb.Jobs([anb.Job(computing(20), gpus=4, name=name) for name in ("a", "b")])
    network = DimensionNetwork(["FullyConnected"], [8], [50], [500])
    sim = anb.Simulation(network, Variation(3, Jitter(0.3), Stragglers(2)).of(jobs))
    sim.run()
    found = sim.result.jobs(alone=True)
    assert found["slowdown"].tolist() == [1, 1]
    assert found["duration_ps"].nunique() == 2


def test_links_fail_as_often_as_given() -> None:
    one = Variation(5, failures=Failures(link_every="1 ms", link_repair="2 us"))
    faults = list(islice(one.link_faults(10), 5000))
    assert faults == list(islice(one.link_faults(10), 5000))
    assert faults[-1].at_ps / 5000 == pytest.approx(1e9 / 10, rel=0.05)
    assert np.bincount([fault.link for fault in faults]).min() > 400
    assert {fault.until_ps - fault.at_ps for fault in faults} == {2_000_000}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Jitter(0), "coefficient of variation 0 is out of range"),
        (lambda: Jitter(0.8, "normal"), "at most 0.5 with normal"),
        (lambda: Jitter(0.1, "lognorm"), "did you mean 'lognormal'"),
        (lambda: Stragglers(0), "1 stragglers with factor 0 are out of range"),
        (lambda: Stragglers(2, 0), "0 stragglers"),
        (lambda: Variation(-1), "seed must not be negative, got -1"),
        (lambda: Failures(link_rate=1), "rate 1 is out of range"),
        (lambda: Failures(gpu_every="1 ms"), "gpu_repair must be greater than zero"),
        (lambda: Failures(link_every=0, link_repair=1), "link_every must be greater than zero"),
        (
            lambda: Variation(stragglers=Stragglers(2, 5)).workload(computing(2)),
            "5 stragglers, but only 4 ranks",
        ),
        (lambda: Variation().of("step"), "str cannot vary"),
    ],
)
def test_what_is_out_of_range_is_refused_in_a_line(make: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        make()
    assert message in str(refused.value)


def test_thread_blocks_do_not_vary() -> None:
    step = workload("gpt3-125m", Parallelism(data=8), gpu="h100-sxm")
    with pytest.raises(InputError, match="thread blocks"):
        anb.Simulation("dgx-h100", Variation(jitter=Jitter(0.1)).of(step), fidelity="cacheline")
