"""Adapters of attention's matrices are trained (LoRA); everything else is frozen."""

from __future__ import annotations

import json

import pytest

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.workload.kernels import Product
from astranb.workload.models import Job, Parallelism, rank_memory, workload
from astranb.workload.models.costs import Costs
from astranb.workload.models.weights import trained_of_unit
from tests.workload.models.support import tiny

MODEL = tiny(hidden=64, heads=8, kv_heads=2, ffn=256, vocab=1000)
DEGREES = Parallelism(data=2, zero=1)


def job(**more):
    return Job(DEGREES, MODEL.sequence, 2, **more)


def products(cost):
    return [one for one in cost.kernels if isinstance(one, Product)]


def test_adapters_have_the_parameters_of_their_two_matrices():
    """A matrix of k by n has k r + r n; queries, keys and values are one matrix."""
    wide = (MODEL.heads + 2 * MODEL.kv_heads) * MODEL.head_size
    own = 16 * (MODEL.hidden + wide) + 16 * (MODEL.heads * MODEL.head_size + MODEL.hidden)
    assert trained_of_unit(MODEL, DEGREES, 0, lora=16) == (own, 0)
    assert (
        trained_of_unit(MODEL, DEGREES, -1, lora=16) == trained_of_unit(MODEL, DEGREES, -2, lora=16) == (0, 0)
    )
    lora, full = (rank_memory(MODEL, job(lora=rank), 0) for rank in (16, 0))
    assert lora.gradients == 2 * own * MODEL.layers
    assert lora.optimizer == 12 * own * MODEL.layers // 2
    assert lora.activations < full.activations


def test_frozen_matrices_have_no_gradients_and_adapters_have_them():
    costs = Costs(MODEL, job(lora=16))
    opening, closing = costs.mlp()
    for cost in (opening, closing, costs.head()):
        forward, back = products(cost), products(cost.backward())
        assert [(one.m, one.n, one.k) for one in back] == [(one.m, one.k, one.n) for one in reversed(forward)]
        assert cost.backward().flops == cost.flops
    into, out = (one for one in products(costs.queries()) if not one.frozen)
    assert (into.n, out.k) == (16, 16)
    own = 2 * costs.tokens * 16 * (into.k + out.n)
    assert costs.queries().backward().flops == costs.queries().flops + own
    assert sum(one.sums for one in products(costs.queries().backward())) == 2


def test_a_step_sums_the_gradients_of_adapters_alone(capsys):
    step, full = (workload(MODEL, DEGREES, batch=2, lora=rank, gpu="h100-sxm") for rank in (1, 0))
    sent = [
        sum(size for size, group in zip(one.stages[0].size, one.stages[0].group, strict=True) if group >= 0)
        for one in (step, full)
    ]
    assert sent[0] < sent[1] / 10
    # Two of the three products of a frozen matrix; attention has no parameters.
    assert 2 / 3 < step.model_flops / full.model_flops < 0.75
    took = []
    for more in ([], ["--lora=16"]):
        asked = ["run", "model", "llama2-70b", "--dp=8", "--seq=8192", "--gpu=gb300", "--precision=fp8"]
        assert main([*asked, "--memory-limit=none", "--json", *more]) == 0
        took.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert took[1] < 0.8 * took[0]
    assert main([*asked, "--lora=16"]) == 0  # without adapters it does not fit
    capsys.readouterr()
    assert main(asked) == 2


@pytest.mark.parametrize("schedule", ["1f1b", "zbh1", "zbv"])
def test_a_schedule_that_divides_backward_passes_has_the_adapters_gradients_apart(schedule):
    degrees = Parallelism(data=2, pipeline=2, schedule=schedule)
    model = tiny(hidden=64, heads=8, kv_heads=2, ffn=256, vocab=1000, layers=4)
    step = workload(model, degrees, batch=8, microbatches=4, lora=4, gpu="h100-sxm")
    for program in step.stages:
        sums = [
            one.frozen
            for name, kernels in zip(program.names, program.kernels, strict=True)
            for one in kernels
            if isinstance(one, Product) and one.sums and ("weights" in name or schedule == "1f1b")
        ]
        assert sums == [False] * 16 * len({name.split()[0] for name in program.names if name[:1] == "L"})


def test_inference_has_no_adapters():
    with pytest.raises(InputError, match="lora does not apply to prefill"):
        Job(Parallelism(), 128, 1, mode="prefill", lora=8)
