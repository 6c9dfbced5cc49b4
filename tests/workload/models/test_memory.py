"""The memory of a rank, against published formulas and steps that have run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.workload.kernels import GPUS
from astranb.workload.models import Job, Parallelism, Transformer
from astranb.workload.models.memory import RUNTIME_BYTES, rank_memory, schedule, step_memory
from scripts.published_steps import rows
from tests.workload.models.support import TRANSFORMERS


def gpt(hidden: int, heads: int, layers: int = 1) -> Transformer:
    return Transformer("mine", layers, hidden, heads, 4 * hidden, 0, 2048)


def activations(model: Transformer, job: Job) -> int:
    return rank_memory(model, job, 0).activations


@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("sequence", [False, True])
def test_a_layers_activations_are_korthikantis(tensor, sequence):
    """Equations 1, 2 and 4 of arXiv 2205.05198: s b h (34 + 5 a s / h), divided as the paper says."""
    h, a, s, b = 6144, 64, 2048, 4
    degrees = Parallelism(tensor=tensor, sequence=sequence and tensor > 1)
    job = Job(degrees, s, b, attention="unfused", dropout=True)
    divided = 34 / tensor if degrees.sequence else 10 + 24 / tensor
    expected = s * b * h * (divided + 5 * a * s / (h * tensor))
    assert activations(gpt(h, a), job) == pytest.approx(expected, rel=1e-12)


def test_recomputation_keeps_less():
    h, a, s = 6144, 64, 2048
    kept = {
        again: activations(gpt(h, a), Job(Parallelism(), s, 1, attention="unfused", recompute=again))
        for again in ("none", "selective", "full")
    }
    assert kept["full"] == 2 * s * h
    assert kept["selective"] == 32 * s * h
    assert kept["none"] == 32 * s * h + 2 * a * s * s


@pytest.mark.parametrize("zero, shares", [(0, (1, 1, 1)), (1, (1, 1, 8)), (2, (1, 8, 8)), (3, (8, 8, 8))])
def test_zero_divides_states(zero, shares):
    """Rajbhandari et al. 2020, figure 1: 2, 2 and 12 bytes for each parameter."""
    model = TRANSFORMERS["gpt3-1.3b"]
    found = rank_memory(model, Job(Parallelism(data=8, zero=zero), 2048, 8), 0)
    sizes = (found.weights, found.gradients, found.optimizer)
    for size, each, share in zip(sizes, (2, 2, 12), shares, strict=True):
        assert size == pytest.approx(each * model.parameters / share, rel=1e-6)


@pytest.mark.parametrize("zero, gigabytes", [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_papers_example(zero, gigabytes):
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 GPUs."""
    h = 4096
    model = gpt(h, 32, layers=37)
    held = rank_memory(model, Job(Parallelism(data=64, zero=zero), 2048, 64), 0)
    states = held.weights + held.gradients + held.optimizer
    assert states / model.parameters * 7.5 == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize(
    "a, h, layers, batch",
    [(64, 6144, 48, 4), (96, 12288, 96, 1), (128, 20480, 105, 1), (160, 25600, 128, 1)],
)  # fmt: skip
def test_korthikantis_models_keep_less_than_a_quarter(a, h, layers, batch):
    """22, 175 and 530 billion and a trillion parameters (table 3), t = 8: sequence parallelism and selective
    recomputation keep 34 / t of 10 + 24 / t + 5 a s / (h t), under a quarter."""
    s, t = 2048, 8
    job = Job(Parallelism(tensor=t), s, batch, attention="unfused", dropout=True)
    both = Job(
        Parallelism(tensor=t, sequence=True), s, batch, attention="unfused", dropout=True,
        recompute="selective",
    )  # fmt: skip
    before, after = (activations(gpt(h, a, layers), one) for one in (job, both))
    assert before == pytest.approx(layers * s * batch * h * (10 + 24 / t + 5 * a * s / (h * t)), rel=1e-9)
    assert after == pytest.approx(layers * s * batch * h * 34 / t, rel=1e-9)
    assert after / before < 0.24


@pytest.mark.parametrize(
    "name, expected",
    [("llama3-8b", 131_072), ("llama3-70b", 327_680), ("llama3-405b", 516_096), ("deepseek-v3", 70_272)],
)
def test_cache_of_a_token(name, expected):
    """2 l kv_heads head_size numbers of 2 bytes; DeepSeek-V3 (arXiv 2412.19437): 61 layers of 512 + 64."""
    model = TRANSFORMERS[name]
    small, large = (
        rank_memory(model, Job(Parallelism(), 1024, 1, mode="decode", tokens=tokens), 0).cache
        for tokens in (1, 2)
    )
    assert large - small == expected


def test_offload_moves_the_optimizer():
    job = Job(Parallelism(), 2048, 1, offload="optimizer")
    assert rank_memory(TRANSFORMERS["gpt3-1.3b"], job, 0).optimizer == 0


def test_the_first_stage_keeps_a_microbatch_for_each_stage():
    model = gpt(1024, 16, layers=8)
    job = Job(Parallelism(pipeline=4), 2048, 16, 16)
    kept = [one.activations for one in step_memory(model, job)]
    assert kept == [kept[-1] * many for many in (4, 3, 2, 1)]


def test_a_cache_holds_keys_and_values():
    model = TRANSFORMERS["llama2-7b"]
    job = Job(Parallelism(tensor=8), 1000, 32, mode="decode", tokens=24)
    assert rank_memory(model, job, 0).cache == 2 * 2 * 32 * 4096 * 1024 * 32 // 8


@given(
    st.sampled_from(["llama3-8b", "mixtral-8x7b", "gpt3-13b", "deepseek-v3"]),
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 1, 2, 3]), st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["flash", "unfused"]),
)  # fmt: skip
def test_dividing_and_recomputing_never_need_more(name, tensor, pipeline, data, zero, again, attention):
    model = TRANSFORMERS[name]
    degrees = Parallelism(data, tensor, pipeline, zero=zero, sequence=tensor > 1)
    job = Job(degrees, 2048, data * 8, 8, recompute=again, attention=attention)
    for one in step_memory(model, job):
        assert one.total == sum(one.parts.values())
        assert one.total_GB == pytest.approx(sum(one.parts_GB.values()))
        assert min(one.parts.values()) >= 0
        assert one.buffers > RUNTIME_BYTES
        # Whole layers divide evenly only if stages have as many of them.
        more = rank_memory(model, Job(Parallelism(), 2048, 1, recompute=again, attention=attention), 0)
        assert one.weights <= more.weights
        assert one.optimizer <= more.optimizer
    kept = [
        rank_memory(model, Job(degrees, 2048, data * 8, 8, recompute=one, attention=attention), 0).activations
        for one in ("none", "selective", "full")
    ]
    assert kept == sorted(kept, reverse=True)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.data())
def test_a_schedule_frees_what_it_keeps(pipeline, times, interleave, data):
    if pipeline == 1:
        interleave = 1
    stage = data.draw(st.integers(0, pipeline - 1))
    degrees = Parallelism(pipeline=pipeline, interleave=interleave)
    job = Job(degrees, 8, pipeline * times, pipeline * times)
    passes = schedule(job, stage)
    alive: set[tuple[int, int]] = set()
    for one in passes:
        key = one.chunk, one.micro
        if one.is_forward:
            assert key not in alive
            alive.add(key)
        else:
            alive.remove(key)
    assert not alive
    assert len(passes) == 2 * job.microbatches * interleave


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 4), st.data())
def test_a_full_pipeline_repeats(pipeline, times, interleave, data):
    """More microbatches than four for each stage hold no more, so that these are enough to count."""
    interleave = interleave if pipeline > 1 else 1
    stage = data.draw(st.integers(0, pipeline - 1))
    job = Job(Parallelism(pipeline=pipeline, interleave=interleave), 8, pipeline * times, pipeline * times)
    weights = data.draw(st.lists(st.integers(1, 9), min_size=interleave, max_size=interleave))

    def most(count):
        now = found = 0
        for one in schedule(job, stage, count):
            now += weights[one.chunk] * (1 if one.is_forward else -1)
            found = max(found, now)
        return found

    assert most(None) == most(4 * pipeline)


def test_published_steps_fit():
    """All that have run on a GPU fit in its memory, but those whose source does not give all of the plan."""
    over = []
    for row in rows():
        most = max(one.total for one in step_memory(row.model, row.job))
        if most > GPUS[row.fields["gpu"]].memory_bytes:
            over.append(row)
    assert [row.name for row in over if "not give" not in row.fields["note"]] == []
    assert len(over) <= 13 < len(rows()) / 15


def test_an_unknown_size_is_refused():
    with pytest.raises(InputError, match="gradient_bytes"):
        Job(Parallelism(), 2048, 1, gradient_bytes=0)
