"""A step's estimate against its simulation."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.explore._collective_times import CollectiveTimes
from astranb.explore._estimate import estimate_step
from astranb.workload.models import Job, Parallelism, machine, workload
from astranb.workload.models.library import TRANSFORMERS

CASES = [
    ("llama3-8b", {"data": 8, "zero": 1}, {"batch": 32, "microbatches": 4}),
    ("llama3-8b", {"data": 8, "zero": 3}, {"batch": 32, "microbatches": 4}),
    (
        "llama3-70b",
        {"data": 2, "tensor": 4, "pipeline": 4, "sequence": True, "zero": 1, "interleave": 5},
        {"batch": 32, "microbatches": 16},
    ),
    (
        "llama3-8b",
        {"tensor": 8, "pipeline": 4, "sequence": True},
        {"batch": 16, "microbatches": 16, "overlap": ("tensor",)},
    ),
    (
        "llama3-8b",
        {"data": 2, "context": 2, "tensor": 2, "sequence": True, "zero": 1},
        {"batch": 16, "microbatches": 8},
    ),
    (
        "gpt3-13b",
        {"data": 2, "tensor": 8, "pipeline": 2},
        {"batch": 32, "microbatches": 16, "recompute": "full"},
    ),
    (
        "mixtral-8x7b",
        {"data": 8, "tensor": 2, "expert": 8, "zero": 1, "sequence": True},
        {"batch": 32, "microbatches": 4},
    ),
]


@pytest.mark.parametrize("name, degrees, about", CASES)
def test_an_estimate_is_near_the_simulation(name, degrees, about):
    model, parallelism = TRANSFORMERS[name], Parallelism(**degrees)
    step = workload(model, parallelism, gpu="h100-sxm", **about)
    cluster = machine(step)
    job = Job(parallelism, sequence=model.sequence, **about)
    assert step.times is not None
    network = CollectiveTimes(cluster.network, cluster.system)
    found = estimate_step(model, job, step.times, network)
    sim = anb.Simulation(None, step)
    sim.run()
    assert found.step_ns * 1000 == pytest.approx(sim.result.time_ps, rel=0.06)
    parts = found.compute_ns + found.exposed_ns + found.bubble_ns + found.ends_ns
    assert parts == pytest.approx(found.step_ns, abs=2)
