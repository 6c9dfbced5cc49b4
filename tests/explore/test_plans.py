"""The search for a plan."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import suggest
from astranb.workload.models import Parallelism, workload


@pytest.fixture(scope="module")
def found():
    return suggest(workload("llama3-8b", Parallelism(data=8), batch=32, gpu="h100-sxm"))


def test_the_best_come_first_and_fit(found):
    times = [plan.estimate.step_ns for plan in found.best]
    assert len(times) == 10
    assert times == sorted(times)
    assert all(plan.memory.total <= found.limit_bytes for plan in found.best)
    assert found.given.memory.total > found.limit_bytes
    assert found.considered > found.estimated >= len(times)


def test_a_plan_is_on_the_same_gpus_with_the_same_batch(found):
    for plan in found.best:
        assert plan.job.parallelism.ranks == 8
        assert plan.job.batch == 32
        assert plan.options.startswith("--")
    assert len({plan.options for plan in found.best}) == 10


def test_the_best_plan_is_the_best_of_a_simulation_too(found):
    """The first plan is simulated faster than the last one, and both as long as estimated."""
    took = []
    for plan in (found.best[0], found.best[-1]):
        job = plan.job
        step = workload(
            "llama3-8b", job.parallelism, batch=32, microbatches=job.microbatches, recompute=job.recompute,
            gpu="h100-sxm",
        )  # fmt: skip
        sim = anb.Simulation(None, step)
        sim.run()
        took.append(sim.result.time_ps / 1000)
        assert plan.estimate.step_ns == pytest.approx(took[-1], rel=0.03)
    assert took[0] < took[1]


def test_why_names_where_the_time_goes(found):
    text = found.text()
    assert "does not fit" in text
    assert "waiting for collectives" in text
    assert len(text.splitlines()) == 12
    document = found.document()
    assert document["best"][0]["estimate"]["step_ns"] == found.best[0].estimate.step_ns


def test_less_memory_takes_recomputation():
    step = workload("llama3-8b", Parallelism(data=8, zero=3), batch=8, gpu="h100-sxm")
    small = suggest(step, limit_bytes=20 << 30)
    assert small.best
    assert {plan.job.recompute for plan in small.best} == {"full"}
    none = suggest(step, limit_bytes=1 << 30)
    assert none.best == []
    assert "none fits" in none.text()


@pytest.mark.parametrize("name, mode", [("llama3-8b", "decode"), ("resnet-50", "training")])
def test_only_training_steps_of_transformers(name, mode):
    with pytest.raises(InputError, match="training steps of transformers"):
        suggest(workload(name, Parallelism(data=2), mode=mode, gpu="h100-sxm"))
