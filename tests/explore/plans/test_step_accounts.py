"""Breakdown of the time of a step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import account
from astranb.explore.plans.step_accounts import WAITS
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.kernels import GPUS, SORTS, KernelTimes
from astranb.workload.models import Parallelism, workload
from tests.workload.models.support import divided, tiny


def simulated(step, fidelity="analytical"):
    sim = anb.Simulation(step, fidelity=fidelity)
    sim.run()
    return sim


@settings(max_examples=25, deadline=None)
@given(divided())
def test_the_parts_of_a_rank_are_the_whole_step(case):
    model, degrees, more = case
    step = workload(model, degrees, gpu="a100-sxm", **more)
    found = account(simulated(step), step)
    assert found.compute_ps + sum(found.exposed_ps.values()) == found.step_ps
    assert sum(found.sorts_ps.values()) == found.compute_ps
    assert set(found.sorts_ps) <= set(SORTS)
    assert set(found.exposed_ps) <= set(WAITS)
    assert 0 < found.mfu <= found.hfu < 1


def test_each_kind_of_parallelism_is_named_where_it_is_waited_for():
    cases = {
        "tensor": Parallelism(tensor=4),
        "context": Parallelism(context=4),
        "pipeline": Parallelism(pipeline=4),
        "data": Parallelism(data=4),
    }
    for name, degrees in cases.items():
        step = workload(tiny(), degrees, gpu="h100-sxm")
        sim = anb.Simulation(step.on(DimensionNetwork(["Switch"], [4], [1], [20_000])))
        sim.run()
        waits = account(sim, step).exposed_ps
        assert waits[name] > 0
        assert set(waits) <= {name, *{"context": ("data",), "pipeline": ("bubble",)}.get(name, ())}
    experts = tiny(experts=4, top_k=2)
    step = workload(experts, Parallelism(data=4, expert=4), gpu="h100-sxm")
    assert account(simulated(step), step).exposed_ps["expert"] > 0


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.integers(1, 6), st.sampled_from([1, 2]))
def test_the_bubble_is_what_the_schedule_leaves_empty(stages, times, interleave):
    """Equal stages and messages that take next to nothing: (p - 1) / (v m) of the time that is computed."""
    model = tiny(layers=stages * interleave, vocab=0)
    degrees = Parallelism(pipeline=stages, interleave=interleave)
    step = workload(model, degrees, batch=stages * times, microbatches=stages * times, gpu="h100-sxm")
    sim = anb.Simulation(step.on(DimensionNetwork(["Switch"], [stages], [10**6], [0])))
    sim.run()
    found = account(sim, step)
    passes = found.compute_ps - found.sorts_ps["optimizer"]
    assert found.bubble_ps == pytest.approx(passes * (stages - 1) / (interleave * stages * times), rel=0.02)
    assert found.exposed_ps.get("pipeline", 0) < found.step_ps / 100


def test_messages_of_stages_are_no_bubble():
    """On a slow network most of what a rank waits for is on its way, as is what its peers wait for."""
    step = workload(tiny(), Parallelism(pipeline=2), batch=8, microbatches=8, gpu="h100-sxm")
    sim = anb.Simulation(step.on(DimensionNetwork(["Switch"], [2], [0.001], [0])))
    sim.run()
    found = account(sim, step)
    assert found.exposed_ps["pipeline"] > found.bubble_ps > 0
    assert found.limited_by.startswith("waiting limits the step")
    assert found.document()["limited_by"].endswith("messages of other stages, from when they are sent")


def test_figures_are_those_of_the_papers():
    step = workload("gpt3-1.3b", Parallelism(tensor=2), batch=4, microbatches=4, recompute="full", gpu="a100")
    found = account(simulated(step), step, price=2.0)
    seconds = found.step_ps / 1e12
    assert (found.step_s, found.step_ms) == (seconds, found.step_ps / 1e9)
    assert found.tflops_per_s_per_gpu == found.flops_per_s_per_gpu / 1e12
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-9)
    model = step.tokens * 72 * 24 * 2048**2 * (1 + 2048 / (6 * 2048) + 50258 / (12 * 24 * 2048))
    again = step.tokens * 96 * 24 * 2048**2 * (1 + 2048 / (6 * 2048) + 50258 / (16 * 24 * 2048))
    assert found.mfu == pytest.approx(model / seconds / 2 / 312e12, rel=1e-3)
    assert found.hfu == pytest.approx(again / seconds / 2 / 312e12, rel=1e-3)
    assert found.tokens_per_s_per_gpu == pytest.approx(4 * 2048 / seconds / 2)
    assert found.dollars_per_step == pytest.approx(2 * seconds / 3600 * 2.0)
    assert found.dollars_per_million_tokens == pytest.approx(2 * seconds / 3600 * 2.0 / step.tokens * 1e6)
    assert found.limit == "matrices"


def test_with_an_efficiency_all_is_one_sort_and_ideal_is_the_roofline():
    times = KernelTimes(GPUS["h100-sxm"], efficiency=1.0)
    step = workload(tiny(), gpu=times)
    found = account(simulated(step), step)
    assert list(found.sorts_ps) == ["computing"]
    program = step.stages[0]
    least = sum(map(times.ideal_ns, program.flops, program.size, program.kernels))
    assert found.compute_ps == 1000 * least
    assert least <= sum(map(times.roofline_ns, program.flops, program.size))


def test_a_step_that_is_limited_by_launches_says_so():
    """Decoding of a small model waits for the host, less so with a graph; a training step hardly does."""
    took = {}
    for launch in ("none", "graph", "stream"):
        times = KernelTimes(GPUS["h100-sxm"], launch=launch)
        step = workload("gpt3-125m", mode="decode", batch=4, sequence=256, gpu=times)
        found = account(simulated(step), step)
        took[launch] = found.step_ps
        assert sum(found.sorts_ps.values()) == found.compute_ps
        assert ("launches" in found.sorts_ps) == (launch == "stream")
        assert (f"launched in {times.launch_ns:,} ns each" in times.text) == (launch != "none")
    assert took["none"] <= took["graph"] < 0.95 * took["stream"]
    degrees = Parallelism(tensor=8, sequence=True)
    gpus = [KernelTimes(GPUS["h100-sxm"], launch=name) for name in ("none", "stream")]
    none, stream = (simulated(workload("llama2-7b", degrees, gpu=gpu)).result.time_ps for gpu in gpus)
    assert none <= stream < 1.01 * none


def test_what_cannot_be_accounted_for_is_refused():
    step = workload(tiny())
    sim = anb.Simulation(step)
    with pytest.raises(InputError, match="has not ended"):
        account(sim, step)
    sim.run()
    with pytest.raises(InputError, match="give peak_flops"):
        account(sim, step)
