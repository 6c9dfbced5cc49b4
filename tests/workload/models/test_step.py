"""Sizes, operations and bytes against closed forms, and the bubble of the pipeline."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import NodeType
from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import DimensionNetwork, System, Workload
from astranb.workload.models import TRANSFORMERS, Parallelism, Transformer, workload
from astranb.workload.models.weights import of_unit, units
from tests.workload.models.support import collected, tiny

PUBLISHED = {
    # Sums over the tensors of the published checkpoints, exactly.
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
}
ROUNDED = {
    # Parameters, and of experts those that a token meets, as papers round them.
    "gpt3-125m": (125, 1e6),
    "gpt3-350m": (356, 1e6),  # Brown et al., table D.1
    "gpt3-760m": (760, 1e6),
    "gpt3-1.3b": (1.3, 1e9),
    "gpt3-2.7b": (2.65, 1e9),
    "gpt3-6.7b": (6.66, 1e9),
    "gpt3-13b": (12.85, 1e9),
    "gpt3-175b": (174.6, 1e9),
    "deepseek-v3": (671.0, 1e9),
    "transformer-1t": (1008.0, 1e9),
    "minimax-m2": (229, 1e9),  # as its page at Hugging Face counts
}


def test_parameters_are_those_published():
    assert {name: TRANSFORMERS[name].parameters for name in PUBLISHED} == PUBLISHED
    for name, (number, unit) in ROUNDED.items():
        digits = len(str(number).partition(".")[2])
        assert round(TRANSFORMERS[name].parameters / unit, digits) == number, name
    assert set(PUBLISHED) | set(ROUNDED) == set(TRANSFORMERS)
    # Jiang et al.: 13 billion of 47 are active; DeepSeek-AI: 37 billion of 671, the embedding not counted.
    assert round(TRANSFORMERS["mixtral-8x7b"].active_parameters / 1e9) == 13
    deepseek = TRANSFORMERS["deepseek-v3"]
    assert round((deepseek.active_parameters - deepseek.embedding) / 1e9) == 37


_WAYS = st.builds(
    Parallelism,
    data=st.sampled_from([1, 2]),
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 4]),
    context=st.sampled_from([1, 2]),
    zero=st.sampled_from([0, 3]),
)


@settings(max_examples=25, deadline=None)
@given(_WAYS, st.integers(1, 3), st.sampled_from([1, 2]), st.booleans())
def test_operations_of_all_ranks_are_the_closed_form(degrees, micro, each, recompute):
    model = tiny(vocab=512, kv_heads=8)
    batch = degrees.data * micro * each
    step = workload(model, degrees, batch=batch, microbatches=micro, recompute=recompute)
    layers, h, s, v = model.layers, model.hidden, model.sequence, model.vocab
    # Narayanan et al. 2021, appendix, their B, s, l, h and V.
    forward = 24 * batch * s * layers * h * h + 4 * batch * s * s * layers * h
    head = 6 * batch * s * h * v
    assert step.model_flops == 3 * forward + head
    done = 0
    for rank in range(step.ranks):
        trace = step.trace(rank)
        matrices = trace.type == NodeType.COMP
        for at, name in enumerate(trace.names.values):
            if {"optimizer", "embedding"} & set(name.split()):
                matrices &= trace.names.index != at
        done += int(trace.num_ops[matrices].sum())
    assert done == (4 if recompute else 3) * forward + head


@pytest.mark.parametrize("name", ["gpt3-175b", "llama3-70b", "mixtral-8x7b"])
def test_a_token_takes_six_operations_a_parameter_and_attention(name):
    model = TRANSFORMERS[name]
    step = workload(model, batch=1)
    matrices = 6 * (model.active_parameters - model.embedding) * model.sequence
    if model.tied:
        matrices += 6 * model.vocab * model.hidden * model.sequence
    attention = 12 * model.layers * model.heads * model.head_size * model.sequence**2
    # Norms and biases are parameters, and multiply no matrix.
    assert step.model_flops == pytest.approx(matrices + attention, rel=2e-4)


@settings(max_examples=25, deadline=None)
@given(_WAYS, st.booleans())
def test_each_parameter_is_held_by_one_rank_of_a_replica(degrees, experts):
    more = {"experts": 4, "top_k": 2, "dense_layers": 2} if experts else {}
    model = tiny(**more)
    held = 0
    for stage in range(degrees.pipeline):
        for keys in units(model, degrees, stage):
            for key in keys:
                held += sum(of_unit(model, degrees, key))
    held *= degrees.tensor
    again = model.layers * (model.attention.small + model.mlp.small) + (
        model.head - model.vocab * model.hidden
    )
    again += (model.layers - 2) * model.around_experts.whole if experts else 0
    assert held == model.parameters + (degrees.tensor - 1) * again  # norms and routers, in every part


@pytest.mark.parametrize("recompute, each", [(False, 4), (True, 6)])
def test_tensor_parallelism_reduces_four_times_a_layer_and_microbatch(recompute, each):
    model = tiny()
    step = workload(model, Parallelism(tensor=4), microbatches=3, batch=6, recompute=recompute)
    activation = 2 * model.sequence * model.hidden * 2  # two sequences, two bytes
    for rank in range(4):
        assert collected(step.trace(rank), "all_reduce", "L") == (
            3 * each * model.layers,
            3 * each * model.layers * activation,
        )
        # And once for the embedding's, once for the head's gradients, and the loss.
        assert collected(step.trace(rank), "all_reduce")[0] == 3 * (each * model.layers + 3)


def test_sequence_parallelism_sends_as_much_in_two_halves():
    model = tiny(vocab=0)
    plain = workload(model, Parallelism(tensor=4), microbatches=2)
    halves = workload(model, Parallelism(tensor=4, sequence=True), microbatches=2)
    count, size = collected(plain.trace(0), "all_reduce")
    assert collected(halves.trace(0), "reduce_scatter") == (count, size)
    # Gathered: as often, and the layers' inputs once more for their gradients; a quarter from each rank.
    gathers, put = collected(halves.trace(0), "all_gather")
    assert (gathers, 4 * put) == (count + count // 2, size + size // 2)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_zero_sends_twice_or_three_times_the_parameters(zero):
    model, n = tiny(vocab=0, hidden=64), 4
    step = workload(model, Parallelism(data=n, zero=zero))
    trace, each = step.trace(2), 2 * model.parameters  # bytes
    reduced, gathered = collected(trace, "all_reduce")[1], collected(trace, "all_gather")[1]
    scattered = collected(trace, "reduce_scatter")[1]
    # Rajbhandari et al. 2020, arXiv 1910.02054, section 7: an all-reduce is worth two of its halves.
    assert (reduced, scattered) == ((each, 0) if zero == 0 else (0, each))
    assert n * gathered == {0: 0, 1: each, 2: each, 3: 2 * each}[zero]


def test_zero_2_and_3_reduce_gradients_of_every_microbatch():
    model, micro = tiny(vocab=0), 3
    for zero, times in ((1, 1), (2, micro), (3, micro)):
        trace = workload(model, Parallelism(data=2, zero=zero), microbatches=micro).trace(0)
        assert collected(trace, "reduce_scatter")[1] == times * 2 * model.parameters
        gathers = {1: 1, 2: 1, 3: 2 * micro}[zero]
        assert 2 * collected(trace, "all_gather")[1] == gathers * 2 * model.parameters


def test_experts_exchange_tokens_four_times_a_layer():
    model = tiny(vocab=0, experts=4, top_k=2, dense_layers=1)
    step = workload(model, Parallelism(data=4, expert=2))
    tokens = model.sequence * model.hidden * 2 * model.top_k
    layers = model.layers - 1
    assert collected(step.trace(3), "all_to_all") == (4 * layers, 4 * layers * tokens)
    own = 2 * model.experts // 2 * model.expert * layers
    assert (
        sum(n for n in collected(step.trace(0), "all_reduce")[1:])
        == 2 * (model.parameters - model.experts * model.expert * layers) + own
    )
    assert [group for group in step.groups.values() if len(group) == 2] == [[0, 1], [2, 3], [0, 2], [1, 3]]


def test_context_parallelism_sends_keys_and_values_round():
    model, parts = tiny(vocab=0, kv_heads=4), 4
    trace = workload(model, Parallelism(context=parts)).trace(1)
    sent = sum(
        int(trace.comm_size[row]) for row in range(len(trace)) if trace.type[row] == NodeType.COMM_SEND
    )
    block = 2 * 4 * model.head_size * (model.sequence // parts) * 2
    # Forward three times; backward with gradients, and home with those.
    assert sent == model.layers * block * ((parts - 1) + 2 * (parts - 1) + 1)


def test_stages_send_activations_and_gradients():
    model, micro = tiny(vocab=0), 5
    step = workload(model, Parallelism(pipeline=4), microbatches=micro, batch=10)
    size = 2 * model.sequence * model.hidden * 2
    for rank in range(4):
        trace = step.trace(rank)
        sent = [int(trace.comm_size[r]) for r in range(len(trace)) if trace.type[r] == NodeType.COMM_SEND]
        assert sent == [size] * (micro * (1 if rank in (0, 3) else 2))


def _free(step, **more):
    """A run in which only computations take time, by a roofline of 1 TFLOP/s."""
    system = {"roofline-enabled": 1, "peak-perf": 1, "local-mem-bw": 1e6, "endpoint-delay": 0, **more}
    network = DimensionNetwork(["FullyConnected"], [step.ranks], [1e9], [0])
    return simulate(Workload(step.operations(), network, System.from_document(system), groups=step.groups))


@pytest.mark.parametrize("stages, micro, interleave", [(4, 8, 1), (4, 4, 1), (2, 6, 1), (4, 8, 2), (4, 8, 4)])
def test_the_bubble_is_stages_less_one_by_microbatches(stages, micro, interleave):
    model = Transformer("equal", layers=16, hidden=1024, heads=8, ffn=4096, vocab=0, sequence=512)
    degrees = Parallelism(pipeline=stages, interleave=interleave)
    result = _free(workload(model, degrees, microbatches=micro))
    busy = int(result.compute_ns.max())
    bubble = (int(result.end_ns.max()) - busy) / busy
    # Narayanan et al. 2021, sections 2.2.1 and 2.2.2. The optimizer's step and nanoseconds of messages
    # are part of the times.
    assert bubble == pytest.approx((stages - 1) / (micro * interleave), rel=2e-3)


def test_generating_goes_forward_only_and_looks_back_at_what_is_there():
    model, batch, tokens = tiny(tied=True), 6, 3
    layers, h, s, v = model.layers, model.hidden, model.sequence, model.vocab
    step = workload(model, Parallelism(tensor=2, pipeline=2), mode="prefill", batch=batch, microbatches=3)
    matrices = 24 * batch * s * layers * h * h + 4 * batch * s * s * layers * h
    assert step.model_flops == matrices + 2 * batch * h * v  # the last token's words only
    step = workload(
        model, Parallelism(2, 2, 2), mode="decode", batch=batch, microbatches=3, sequence=20, tokens=tokens
    )
    seen = sum(20 + number + 1 for number in range(tokens))
    matrices = batch * (tokens * (24 * layers * h * h + 2 * h * v) + 4 * layers * h * seen)
    assert step.model_flops == matrices
    assert step.tokens == batch * tokens
    # Two all-reduces a layer, and what the embedding and the words take, for each pass.
    first = step.stages[0]
    assert len([1 for name in first.names if name.endswith("sum")]) == 3 * tokens * (2 * layers // 2 + 1)
