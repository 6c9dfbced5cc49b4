"""Tensor parallelism that does not divide heads and widths: ranks have different shares of the model."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra.scaling.parallelism import share
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.explore import account
from astranb.sim import Simulation
from astranb.traffic.profiles import Profile, profile_model
from astranb.workload.models import TRANSFORMERS, Job, Parallelism, Transformer, workload
from astranb.workload.models.costs import Costs
from astranb.workload.models.memory import StageMemory
from astranb.workload.models.weights import cached_width, of_unit, shares
from tests.workload.models.support import waiting_ranks

GPU = "h100-sxm"


def _model(**more):
    """A model whose heads have a width of their own, so that their number changes nothing else."""
    sizes = {"layers": 2, "hidden": 96, "heads": 6, "head_size": 16, "ffn": 384, "vocab": 960, "sequence": 64}
    return Transformer("small", **{**sizes, **more})


def _time_ps(step):
    sim = Simulation(step, fidelity="analytical", record=False)
    sim.run()
    return sim.result.time_ps


@given(st.integers(0, 10**6), st.integers(1, 300))
@settings(max_examples=30)
def test_shares_are_all_of_a_width_and_differ_by_one_at_most(width, parts):
    each = [share(width, parts, part) for part in range(parts)]
    assert sum(each) == width
    assert max(each) == each[0] == -(-width // parts)
    assert max(each) - min(each) == bool(width % parts)


@given(st.sampled_from(sorted(TRANSFORMERS)), st.integers(1, 48))
@settings(max_examples=25, deadline=None)
def test_ranks_together_have_the_model(name, tensor):
    """Heads, parameters and caches of all ranks are those of one rank, but for what every rank has."""
    model = TRANSFORMERS[name]
    job = Job(Parallelism(tensor=tensor), 64, 1)
    ranks = [Costs(model, job, part) for part in range(tensor)]
    assert sum(one.heads for one in ranks) == model.heads
    assert sum(one.kv_heads for one in ranks) == model.kv_heads
    blocks = [model.attention, model.mlp]
    if model.experts:
        last = model.layers - 1
        found = [of_unit(model, job.parallelism, last, part) for part in range(tensor)]
        assert sum(one.experts for one in found) == model.experts * model.expert
        blocks[1] = model.around_experts
    every = sum(block.whole + block.small for block in blocks)
    held = sum(of_unit(model, job.parallelism, model.layers - 1, part).shared for part in range(tensor))
    assert held - tensor * every == sum(block.split for block in blocks)
    if not model.is_latent:
        assert sum(cached_width(model, tensor, part) for part in range(tensor)) == model.cache_width
    first, *others = (StageMemory(model, job, 0, part) for part in range(tensor))
    assert all(first.weights >= one.weights and first.fullest() >= one.fullest() for one in others[:3])


@pytest.mark.parametrize("mode", ["training", "prefill", "decode"])
@pytest.mark.parametrize("degrees", [{"tensor": 4}, {"tensor": 4, "data": 2, "pipeline": 2, "zero": 1}])
def test_operations_are_those_of_one_rank_and_end(mode, degrees):
    if mode != "training":
        degrees = {name: value for name, value in degrees.items() if name != "zero"}
    model = _model(ffn=390, kv_heads=3)
    step = workload(model, Parallelism(**degrees), batch=4, mode=mode, gpu=GPU, uneven=True)
    alone = workload(model, batch=4, mode=mode, gpu=GPU, uneven=True)
    assert not step.is_even
    assert step.share_count == len({*shares(model, 4)}) > 1
    assert len(step.stages) == step.share_count * step.parallelism.pipeline
    assert waiting_ranks(step) == []
    assert step.model_flops == alone.model_flops


@pytest.mark.parametrize("more", [{}, {"recompute": "full"}, {"attention": "unfused"}, {"elementwise": True}])
def test_the_slowest_rank_decides(more):
    """As long as if all had its heads; ranks without a head wait."""
    two, four, six, eight = (
        _time_ps(workload(_model(heads=heads), Parallelism(tensor=4), gpu=GPU, uneven=True, **more))
        for heads in (2, 4, 6, 8)
    )
    assert two == four < six == eight


def test_more_heads_never_make_a_step_faster():
    """If one rank alone is slower, the first steps of rings do not wait for it."""
    times = [
        _time_ps(workload(_model(heads=heads), Parallelism(tensor=4), gpu=GPU, uneven=True))
        for heads in range(1, 10)
    ]
    assert times == sorted(times)
    assert times[3] < times[4] < times[7] < times[8]


def test_ranks_that_do_the_same_at_the_same_time_are_simulated_once():
    """160 heads over 128 ranks repeat every four; nodes of eight, so eight classes of 1,024 ranks."""
    model = replace(TRANSFORMERS["transformer-1t"], layers=1)
    step = workload(model, Parallelism(tensor=128, data=8), gpu="a100-sxm", uneven=True)
    assert shares(model, 128)[:5] == [0, 1, 1, 1, 0]
    folded = Run(step.on(), congestion=False)
    assert folded.finish_folded()
    represented = folded.represented
    assert represented is not None
    assert len(represented[0].machine.npus) == 8


def test_a_folded_run_ends_in_the_state_of_all_ranks():
    step = workload(_model(heads=12), Parallelism(tensor=8, data=4), gpu=GPU, uneven=True)
    folded, whole = (Run(step.on(), congestion=False) for _ in range(2))
    assert folded.finish_folded()
    whole.go()
    assert folded.digest() == whole.digest()


def test_light_ranks_wait_for_heavy_ones():
    step = workload(_model(ffn=3840), Parallelism(tensor=4), gpu=GPU, batch=8, uneven=True)
    sim = Simulation(step, fidelity="analytical")
    sim.run()
    compute = [row["compute_ps"] for row in sim.result.per_rank()]
    assert compute[0] == compute[2] > compute[1] == compute[3]
    found = account(sim, step)
    assert found.compute_ps + sum(found.exposed_ps.values()) == found.step_ps


def test_the_footprint_is_that_of_each_rank():
    step = workload(_model(), Parallelism(tensor=4, pipeline=2), batch=8, gpu=GPU, uneven=True)
    found = step.footprint()
    assert found is not None
    peaks = found.peaks().sum(axis=1)
    assert [int(peaks[at]) for at in (0, 2)] == [one.total for one in step.memory()]
    assert (peaks[[0, 2]] > peaks[[1, 3]]).all()
    of_rank = [step.program_of(rank) for rank in range(step.ranks)]
    assert of_rank == [0, 1, 0, 1, 2, 3, 2, 3]


def test_a_profile_keeps_the_shares(tmp_path):
    profile = profile_model(_model(), Parallelism(tensor=4), gpu=GPU, uneven=True)
    profile.save(tmp_path / "p.json")
    again = Profile.load(tmp_path / "p.json")
    assert again.step.shares == (0, 1, 0, 1)
    assert [again.step.trace_bytes(rank) for rank in range(4)] == [
        profile.step.trace_bytes(rank) for rank in range(4)
    ]
    assert {(row["stage"], row["share"]) for row in again.computation()} == {(0, 0), (0, 1)}
    text = (tmp_path / "p.json").read_text()
    assert '"shares"' in text
    (tmp_path / "bad.json").write_text(text.replace('"shares":[0,1,0,1]', '"shares":[0,2,0,1]'))
    with pytest.raises(InputError, match="not the shares of 4 ranks"):
        Profile.load(tmp_path / "bad.json")


def test_more_ranks_than_the_mlp_is_wide_are_refused():
    with pytest.raises(InputError, match="tensor parallelism 3 exceeds an MLP's 2 in small; take at most 2"):
        workload(_model(ffn=2), Parallelism(tensor=3), uneven=True)


@given(
    st.tuples(*[st.integers(1, 12)] * 2), st.integers(1, 40), st.integers(1, 16),
    st.sampled_from(["training", "prefill", "decode"]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_what_does_not_divide_is_refused_with_what_does(groups, ffn, tensor, mode):
    """Refused exactly where some rank would have another share; each degree in the hint is taken."""
    kept, each = groups
    heads, wide = kept * each, 8 * ffn
    model, plan = _model(heads=heads, kv_heads=kept, ffn=wide), Parallelism(tensor=tensor)
    even = [one for one in range(1, wide + 1) if not any(width % one for width in (heads, kept, wide))]
    if tensor in even:
        assert workload(model, plan, mode=mode).is_even
    elif tensor <= wide:
        said = rf"tensor: tensor parallelism {tensor} does not divide \d+ (heads|numbers)"
        with pytest.raises(InputError, match=said) as found:
            workload(model, plan, mode=mode)
        hint = found.value.hint.partition(";")[0].removeprefix("take ")
        assert [int(one) for one in hint.replace(" or", ",").split(", ")] == even
        assert not workload(model, plan, mode=mode, uneven=True).is_even


@pytest.mark.parametrize(
    "words, said",
    [
        (
            "run model llama3-8b --tp 7",
            "tensor parallelism 7 does not divide 32 heads in llama3-8b; take 1, 2, 4 or 8",
        ),
        ("run model llama3-8b --tp 16 --mode decode", "16 does not divide 8 heads of keys and values"),
        ("run model llama3-8b --tp 3 --suggest", "tensor parallelism 3 does not divide 32 heads"),
        (
            "chakra generate --model llama3-8b --tp 3 --mode prefill -o x",
            "tensor parallelism 3 does not divide 32 heads",
        ),
        (
            "traffic profile --model llama3-8b --tp 3 -o x.json",
            "tensor parallelism 3 does not divide 32 heads",
        ),
        (
            "serve --model llama3-8b --tp 3 --requests closed:users=1,prompt=9,output=9,count=2",
            "3 does not divide 32 heads",
        ),
        (
            "run model mixtral-8x7b --dp 3 --ep 3",
            "8 experts do not divide among 3 ranks; take 1, 2, 4 or 8",
        ),
        ("run model mixtral-8x7b --dp 4 --ep 3", "does not divide data parallelism 4; take 1, 2 or 4"),
        ("run model llama3-8b --cp 7", "a sequence of 8192 tokens; take 1, 2, 4, 8"),
        ("run model llama3-8b --cp 7", "or a multiple of 7 tokens, as 8190"),
        ("run model gpt3-125m --pp 13", "take at most 12"),
    ],
)
def test_commands_name_the_degrees_that_fit(words, said, capsys):
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
