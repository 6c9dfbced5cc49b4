"""Memory of ranks in the course of a step: at its fullest exactly what the counts give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import Footprint
from astranb.workload.kernels import GPUS
from astranb.workload.models import Job, Parallelism, Transformer, workload
from astranb.workload.models.footprint import step_footprint
from astranb.workload.models.memory import step_memory
from astranb.workload.models.pipeline import check, stage_program
from tests.workload.models.support import TRANSFORMERS

_SMALL = (
    Transformer("dense", 8, 256, 8, 1024, 512, 128, kv_heads=4, gated=True),
    Transformer("experts", 8, 256, 8, 512, 512, 128, experts=4, top_k=2, dense_layers=3),
    Transformer("headless", 8, 256, 8, 1024, 0, 128),
)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Transformer, Job]:
    """Draw a step of a small model: training with all options, prompts, or decoding."""
    model = draw(st.sampled_from(_SMALL))
    mode = draw(st.sampled_from(["training", "training", "training", "prefill", "decode"]))
    training = mode == "training"
    pipeline = draw(st.sampled_from([1, 2, 4]))
    tensor = draw(st.sampled_from([1, 2, 4]))
    data = draw(st.sampled_from([1, 2]))
    degrees = Parallelism(
        data, tensor, pipeline, context=1 if mode == "decode" else draw(st.sampled_from([1, 2])),
        expert=data if model.experts else 1, sequence=tensor > 1 and mode != "decode",
        zero=draw(st.integers(0, 3)) if training else 0,
        interleave=draw(st.sampled_from([1, 2])) if training and pipeline > 1 else 1,
    )  # fmt: skip
    micro = pipeline * draw(st.integers(1, 3))
    offloads = ["none"]
    if training:
        offloads += ["optimizer", "activations", "optimizer,activations"]
    if degrees.zero in (0, 3):
        offloads += ["parameters", *(["optimizer,parameters,activations"] if training else [])]
    job = Job(
        degrees, 128, data * micro * draw(st.integers(1, 2)), micro, mode=mode,
        tokens=draw(st.integers(1, 4)),
        recompute=draw(st.sampled_from(["none", "selective", "full"])) if training else "none",
        attention=draw(st.sampled_from(["flash", "unfused"])),
        offload=draw(st.sampled_from(offloads)), update=draw(st.sampled_from(["host", "gpu"])),
    )  # fmt: skip
    return model, job


def footprint(model: Transformer, job: Job) -> Footprint:
    stages = [stage_program(model, job, stage) for stage in range(job.parallelism.pipeline)]
    return step_footprint(model, job, stages)


@settings(max_examples=150, deadline=None)
@given(jobs())
def test_the_fullest_moment_is_what_the_counts_give(drawn):
    model, job = drawn
    found = footprint(model, job).peaks()
    counted = step_memory(model, job)
    assert found.sum(axis=1).tolist() == [one.total for one in counted]
    for held, one in zip(found, counted, strict=True):
        assert held[:3].tolist() == [one.weights, one.gradients, one.optimizer]


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_nothing_is_left_but_states_and_the_cache(drawn):
    model, job = drawn
    found = footprint(model, job)
    for number in range(len(found.held)):
        rows = slice(found.first[number], found.first[number + 1])
        held = found.held[number] + np.cumsum(found.change[rows], axis=0)
        assert held.min() >= 0
        left = held[-1] - found.held[number]
        assert left[[0, 1, 2, 3, 5]].tolist() == [0] * 5
        assert (left[4] == 0) == (job.mode == "training")


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
@pytest.mark.parametrize("interleave, zero, again", [(1, 1, "none"), (2, 2, "selective"), (1, 3, "full")])
def test_every_model_of_the_library(name, interleave, zero, again):
    model = TRANSFORMERS[name]
    stages = 2
    degrees = Parallelism(2, 1, stages, zero=zero, interleave=interleave)
    job = Job(degrees, min(2048, model.sequence), 8, 4, recompute=again)
    check(model, job)
    found = footprint(model, job).peaks().sum(axis=1).tolist()
    assert found == [one.total for one in step_memory(model, job)]


@settings(max_examples=12, deadline=None)
@given(jobs())
def test_a_simulated_step_holds_that_at_its_times(drawn):
    """Whatever the durations are: the fullest moment of the simulation is that of the counts."""
    model, job = drawn
    degrees = job.parallelism
    step = workload(
        model, degrees, batch=job.batch, microbatches=job.microbatches, sequence=128, mode=job.mode,
        tokens=job.tokens, recompute=job.recompute, attention=job.attention, offload=job.offload,
        update=job.update, gpu="h100-sxm",
    )  # fmt: skip
    sim = anb.Simulation(step)
    sim.run()
    table = sim.result.to_dataframe("memory")
    assert table.groupby("stage")["total"].max().tolist() == [one.total for one in step.memory()]
    for _, rows in table.groupby("rank"):
        times = rows["time_ps"].to_numpy()
        assert times[0] == 0
        assert (np.diff(times) > 0).all()
        assert times[-1] <= sim.result.time_ps


def test_half_of_a_step_holds_less_and_is_saved_with_it(tmp_path):
    step = workload("gpt3-125m", Parallelism(pipeline=2), batch=8, microbatches=8, gpu="h100-sxm")
    sim = anb.Simulation(step)
    sim.run()
    whole = sim.result.to_dataframe("memory")
    sim.back(sim.events // 2)
    half = sim.result.to_dataframe("memory")
    assert len(half) < len(whole)
    same = whole.merge(half, how="inner")
    assert len(same) >= len(half) - 2  # what is under way now has no end yet
    sim.save(tmp_path / "half.sim")
    again = anb.Simulation.load(tmp_path / "half.sim")
    assert again.result.to_dataframe("memory").equals(half)
    again.run()
    assert again.result.to_dataframe("memory").equals(whole)


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_offload_takes_the_hosts_time(gpu):
    """Gradients of 2 bytes there, parameters back, and 28 bytes of the host's memory, one after another."""
    model = TRANSFORMERS["gpt3-1.3b"]
    took = {}
    for offload in ("none", "optimizer"):
        step = workload(model, Parallelism(data=2, zero=1), batch=2, offload=offload, gpu=gpu)
        sim = anb.Simulation(step)
        sim.run()
        took[offload] = anb.explore.account(sim, step)
    host, count = GPUS[gpu].host, model.parameters / 2
    expected = count * (4 / host.link_Bps + 28 / (host.memory_Bps / 2)) * 1e12
    assert took["optimizer"].sorts_ps["host"] == pytest.approx(expected, rel=1e-3)
    assert took["optimizer"].step_ps - took["none"].step_ps == pytest.approx(
        expected - took["none"].sorts_ps["optimizer"], rel=1e-2
    )
    assert "optimizer" not in took["optimizer"].sorts_ps


def test_other_runs_have_no_footprint():
    sim = anb.Simulation(workload("resnet-50", Parallelism(data=2), gpu="h100-sxm"))
    assert "memory" not in sim.result.tables
    with pytest.raises(InputError, match="unknown table 'memory'"):
        sim.result.table("memory")


def test_the_cache_grows_token_by_token():
    step = workload(
        "llama2-7b", Parallelism(tensor=8), mode="decode", batch=32, sequence=1000, tokens=24, gpu="h100-sxm"
    )
    sim = anb.Simulation(step)
    sim.run()
    table = sim.result.to_dataframe("memory")
    each = 2 * 2 * 32 * 4096 * 32 // 8  # keys and values of a token of each sequence, on a rank
    assert table["cache"].iloc[0] == 1000 * each
    assert table["cache"].iloc[-1] == 1024 * each
    assert table["cache"].is_monotonic_increasing
