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


@pytest.mark.parametrize(
    "name, ranks, batch, gpu", [("gpt3-1.3b", 8, 64, "a100"), ("llama2-7b", 8, 32, "mi300x")]
)
def test_the_best_plan_is_the_best_of_a_simulation_too(name, ranks, batch, gpu):
    """The first of ten is simulated within 2 % of the best of them, and all within 8 % of the estimate.

    Of 50 plans of five models the worst estimate was 7.3 % too short (Mixtral on 16 H200).
    """
    search = suggest(workload(name, Parallelism(data=ranks), batch=batch, gpu=gpu))
    took = []
    for plan in search.best:
        job = plan.job
        step = workload(
            name,
            job.parallelism,
            batch=batch,
            microbatches=job.microbatches,
            recompute=job.recompute,
            library=job.library,
            gpu=gpu,
        )
        sim = anb.Simulation(step)
        sim.run()
        took.append(sim.result.time_ps / 1000)
        assert plan.estimate.step_ns == pytest.approx(took[-1], rel=0.08)
        assert plan.memory.total == max(one.total for one in step.memory())
    assert len(took) == 10
    assert took[0] <= 1.02 * min(took)


def test_the_table_says_why(found):
    lines = found.text().splitlines()
    assert len(lines) == 13
    assert lines[2].endswith("given, does not fit")
    assert "computing +" in lines[3]
    assert "update -" in lines[3]
    starts = {line.index("--") for line in lines[2:]}
    assert len(starts) == 1  # aligned
    frame = found.to_dataframe()
    assert frame["plan"].tolist()[1:] == [plan.options for plan in found.best]
    assert not frame["fits"][0]
    assert (found.to_dataframe(time="ms")["step_ms"] == frame["step_ns"] / 1e6).all()
    document = found.document()
    assert document["best"][0]["estimate"]["step_ns"] == found.best[0].estimate.step_ns
    assert "collectives" in document["best"][0]["why"]


def test_parts_of_a_plan_are_its_step(found):
    for plan in (found.given, *found.best):
        assert sum(plan.estimate.parts_ns.values()) == plan.estimate.step_ns
    assert found.given.against(found.given) == "as fast"


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
