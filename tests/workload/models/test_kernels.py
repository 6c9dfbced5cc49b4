"""The kernels of a model's parts: which there are, and the bytes and operations of each by the sources."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import NodeType
from astranb.workload.kernels import GPUS, LAUNCHES, Attention, KernelTimes, Product, Stream
from astranb.workload.models import Job, Parallelism, workload
from astranb.workload.models.costs import Costs
from tests.workload.models.support import divided, tiny


def costs(model, **more):
    return Costs(model, Job(Parallelism(), model.sequence, 1, 1, **more))


def streams(cost):
    return [one.size for one in cost.kernels if isinstance(one, Stream)]


def test_each_fused_pass_has_the_bytes_of_its_source():
    """Two bytes a number: a norm reads and writes (4), a residual addition reads two and writes (6)."""
    model = tiny(gated=True, positions=0)
    c = costs(model)
    between = c.tokens * model.hidden
    assert streams(c.around()) == [4 * between, 6 * between]
    # Dropout's mask, of a byte (Korthikanti et al. 2022, section 4.1); its output is the residual's.
    assert streams(costs(model, dropout=True).around()) == [4 * between, 6 * between, between]
    # Rotation of queries and keys: read and written.
    rotated = c.tokens * (model.heads + model.kv_heads) * model.key_size
    assert streams(c.queries()) == [4 * rotated]
    assert streams(costs(tiny(positions=64)).queries()) == []
    # A gated activation reads two numbers for each that it writes, another one.
    opening, closing = c.mlp()
    assert streams(opening) == [6 * c.tokens * model.ffn]
    assert streams(costs(tiny(gated=False)).mlp()[0]) == [4 * c.tokens * model.ffn]
    assert streams(closing) == []


def test_the_loss_passes_over_the_logits():
    """bfloat16 read, float32 written, read for the maximum, exponentials: 14 bytes; half of that backward."""
    model = tiny()
    head = costs(model).head()
    logits = costs(model).tokens * model.vocab
    assert streams(head) == [14 * logits]
    assert streams(head.backward())[0] == 7 * logits
    assert streams(costs(model, mode="prefill").head()) == []


def test_the_optimizer_moves_its_state():
    """Adam with float32 master weights: 12 bytes a parameter read and written, and its two-byte copies."""
    step = workload(tiny())
    program = step.stages[0]
    (kernels,) = [program.kernels[row] for row, name in enumerate(program.names) if name == "optimizer"]
    (one,) = kernels
    assert isinstance(one, Stream)
    assert one.sort == "optimizer"
    parameters = tiny().parameters
    assert one.size == pytest.approx((2 * 12 + 2 * 2) * parameters, rel=0.02)


def test_a_bias_is_written_with_its_product_and_its_gradient_reads_the_output_s():
    with_bias, without = tiny(biases=True), tiny(biases=False)
    for part in ("queries", "output"):
        mine, other = (getattr(costs(model), part)() for model in (with_bias, without))
        assert streams(mine) == streams(other)
        (product,) = [one for one in mine.kernels if isinstance(one, Product)]
        more = sum(streams(mine.backward())) - sum(streams(other.backward()))
        assert more == 2 * product.m * product.n
    # The products of the backward pass have none.
    assert not any(getattr(one, "bias", False) for one in costs(with_bias).output().backward().kernels)


@pytest.mark.parametrize("tokens, experts", [(1, 2), (2, 4), (3, 5), (100, 8)])
def test_experts_that_no_token_goes_to_are_not_read(tokens, experts):
    """Tokens may go to the same experts: 8 (1 - (3/4)^n) are used on average, rounded up."""
    model = tiny(experts=8, top_k=2)
    cost = Costs(model, Job(Parallelism(), 16, tokens, 1, mode="decode")).experts()
    used = [one.copies for one in cost.kernels if isinstance(one, Product)]
    assert used == [experts] * 2
    times = KernelTimes(GPUS["h100-sxm"])
    whole = Costs(model, Job(Parallelism(), 16, 100, 1, mode="decode")).experts()
    assert times.computation_ns(0, 0, cost.kernels) <= times.computation_ns(0, 0, whole.kernels)


def test_experts_are_cast_to_fp8_apart_only_in_training():
    model = tiny(experts=8, top_k=2)
    for mode, cast in (("training", True), ("prefill", False), ("decode", False)):
        products = [one for one in costs(model, mode=mode).experts().kernels if isinstance(one, Product)]
        assert {one.cast for one in products} == {cast}


def _computed(step, times):
    """Return the time of all computations of all stages."""
    return sum(
        times.computation_ns(program.flops[row], program.size[row], program.kernels[row])
        for program in step.stages
        for row in range(len(program))
        if program.kind[row] == NodeType.COMP
    )


@settings(max_examples=40, deadline=None)
@given(divided(), st.sampled_from(list(GPUS.values())), st.sampled_from(["bf16", "fp16", "fp8", "fp4"]))
def test_ideal_is_a_lower_bound_of_every_step_and_launches_only_add(case, gpu, precision):
    model, degrees, more = case
    if precision not in gpu.peaks:
        return
    step = workload(model, degrees, **{**more, "precision": precision})
    ideal = KernelTimes(gpu, precision, efficiency=1.0)
    took = [_computed(step, KernelTimes(gpu, precision, launch=name)) for name in LAUNCHES]
    rows = sum(len(program) for program in step.stages)
    assert took[0] >= _computed(step, ideal) - 20 * rows
    assert took == sorted(took)
    assert _computed(step, KernelTimes(gpu, precision, efficiency=0.8)) == pytest.approx(
        _computed(step, ideal) / 0.8, abs=rows
    )


@pytest.mark.parametrize("mode", ["training", "prefill", "decode"])
@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_ideal_is_a_lower_bound_of_public_models(name, mode, precision):
    for gpu in ("h100-sxm", "mi300x", "gb300"):
        step = workload(name, mode=mode, batch=1, sequence=4096, precision=precision)
        real, ideal = (KernelTimes(GPUS[gpu], precision, efficiency=part) for part in (None, 1.0))
        for program in step.stages:
            for row in range(len(program)):
                if program.kind[row] == NodeType.COMP:
                    given_ = program.flops[row], program.size[row], program.kernels[row]
                    assert real.computation_ns(*given_) >= ideal.computation_ns(*given_) - 20


def test_attention_of_a_model_has_its_heads():
    model = tiny(heads=8, kv_heads=2, hidden=64)
    (one,) = [k for k in costs(model).attention(model.sequence).kernels if isinstance(k, Attention)]
    assert (one.heads, one.kept_heads, one.queries, one.keys) == (8, 2, model.sequence, model.sequence)
