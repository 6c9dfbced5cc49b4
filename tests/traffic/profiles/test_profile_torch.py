"""Profiles of PyTorch models against our models of the same sizes, and against figures computed by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from astranb.core.errors import InputError
from astranb.traffic import Profile, profile_model, profile_torch
from astranb.workload.kernels import Attention, Product, TimedKernel
from astranb.workload.models import Parallelism, Transformer
from tests.traffic.profiles.test_profile import assert_same, saved_and_loaded
from tests.workload.models.support import waiting_ranks

pytest.importorskip("torch", reason="PyTorch is an extra of its own: pip install 'astranb[torch]'")

from tests.traffic.profiles import torch_models as models

OURS = Transformer("gpt", 4, 256, 8, 1024, 1024, 128, positions=128, tied=True)
PLANS: list[dict[str, Any]] = [
    {},
    {"data": 4},
    {"tensor": 2},
    {"data": 2, "pipeline": 2},
    {"data": 2, "tensor": 4, "pipeline": 2},
    {"data": 2, "tensor": 2, "pipeline": 2, "zero": 1},
    {"data": 4, "zero": 3},
    {"tensor": 2, "pipeline": 2, "interleave": 2},
]


def of_ours(degrees: Parallelism, **more: Any) -> Profile:
    return profile_model(OURS, degrees, batch=2 * 4 * degrees.data, microbatches=4, **more)


def rows(found: Profile) -> list[str]:
    return sorted(map(str, found.communication()))


@pytest.mark.parametrize(
    "plan", PLANS, ids=lambda plan: "-".join(f"{k}{v}" for k, v in plan.items()) or "one"
)
def test_a_gpt_is_that_of_our_models(plan: dict[str, Any], tmp_path: Path) -> None:
    """Parameters, operations and communication of one written in PyTorch, without biases: the same."""
    degrees = Parallelism(**plan)
    found = profile_torch(partial(models.gpt, bias=False), parallelism=degrees, microbatches=4)
    ours = of_ours(degrees)
    assert found.assumptions["parameters"] == f"{OURS.parameters:,}"
    assert found.assumptions["units"].startswith("4, of which 1 ran")
    assert found.step.model_flops == ours.step.model_flops
    assert found.step.tokens == ours.step.tokens
    assert rows(found) == rows(ours)
    assert waiting_ranks(found.step) == []
    for here, there in zip(found.step.stages, ours.step.stages, strict=True):
        assert [(one.key, one.is_forward) for one in here.units] == [
            (one.key, one.is_forward) for one in there.units
        ]
    assert_same(saved_and_loaded(found, tmp_path).step, found.step)


def test_parameters_and_biases() -> None:
    ours = Transformer("gpt", 4, 256, 8, 1024, 1024, 128, positions=128, tied=True, biases=True)
    found = profile_torch(models.gpt, parallelism=Parallelism(data=2), microbatches=4)
    assert found.assumptions["parameters"] == f"{ours.parameters:,}"
    theirs = profile_model(ours, Parallelism(data=2), batch=16, microbatches=4)
    assert rows(found) == rows(theirs)
    assert found.step.model_flops == theirs.step.model_flops


def test_a_llama_is_that_of_our_models_but_for_attention_backward() -> None:
    """One kernel of attention computes its scores again: 2.5 times the operations, not twice."""
    ours = Transformer("llama", 2, 256, 8, 512, 1024, 64, kv_heads=4, gated=True, norm="rms")
    degrees = Parallelism(data=2, tensor=2)
    found = profile_torch(models.llama, parallelism=degrees, microbatches=1)
    theirs = profile_model(ours, degrees, batch=2, microbatches=1)
    attention = 2 * 64 * 64 * 2 * 256 * 2 // 2  # of a replica: tokens, tokens seen, both products, two layers
    assert found.assumptions["parameters"] == f"{ours.parameters:,}"
    assert found.step.model_flops == theirs.step.model_flops + degrees.data * attention
    kernels = [one for program in found.step.stages for listed in program.kernels for one in listed]
    heads = {(one.heads, one.kept_heads, one.causal) for one in kernels if isinstance(one, Attention)}
    assert heads == {(4, 2, True)}


def test_without_a_loss_the_words_stay_divided() -> None:
    found = profile_torch(models.llama, parallelism=Parallelism(tensor=2))
    of_gpt = profile_torch(models.gpt, parallelism=Parallelism(tensor=2))
    losses = [
        size
        for one in (found, of_gpt)
        for program in one.step.stages
        for size, group in zip(program.size, program.group, strict=True)
        if group == 0 and size == 12 * 2 * 128
    ]
    assert len(losses) == 1


def test_kernels_have_the_shapes_of_a_rank() -> None:
    found = profile_torch(models.gpt, parallelism=Parallelism(tensor=4))
    program = found.step.stages[0]
    row = program.names.index("layers.0 fwd 0 part 0")
    shapes = [(one.m, one.n, one.k, one.copies) for one in program.kernels[row] if isinstance(one, Product)]
    # Queries, keys and values; scores; their sum; what each head adds to the output.
    assert shapes == [*[(256, 64, 256, 1)] * 3, (128, 128, 32, 4), (128, 32, 128, 4), (256, 256, 64, 1)]
    assert program.flops[row] == sum(2 * m * n * k * copies for m, n, k, copies in shapes)


def test_bytes_of_an_operator() -> None:
    """A product reads both matrices and writes a third, in two bytes."""
    found = profile_torch(models.perceptron, precision="bf16")
    operators = {(one["unit"], one["pass"], one["operator"]): one for one in found.operators}
    one = operators["1", "forward", "addmm"]
    assert one["bytes"] == 2 * (64 + 16 * 64 + 64 * 64 + 16 * 64)
    assert one["flops"] == 2 * 16 * 64 * 64
    assert operators["1", "backward", "mm"]["flops"] == 2 * one["flops"]
    # The input of the model needs no gradient.
    assert operators["0", "backward", "mm"]["count"] == 1
    assert ("2", "forward", "addmm") not in operators  # as "1"


def test_a_sequence_of_modules_is_divided_by_operations() -> None:
    found = profile_torch(
        models.perceptron, parallelism=Parallelism(pipeline=2), balance="flops", precision=None
    )
    first, second = found.step.stages
    assert [{one.key for one in program.units} for program in (first, second)] == [{0, 1}, {2, 3}]
    assert {size for size, peer in zip(first.size, first.peer, strict=True) if peer >= 0} == {16 * 64 * 4}


def test_a_convolutional_network() -> None:
    found = profile_torch(models.convolutional, parallelism=Parallelism(data=2))
    products = {
        (one["unit"], one["pass"]): one["flops"]
        for one in found.operators
        if "convolution" in one["operator"]
    }
    first, second = 2 * 4 * 16 * 16 * 16 * 27, 2 * 4 * 8 * 8 * 32 * 144
    assert products == {
        ("0", "forward"): first,
        ("0", "backward"): first,  # of the parameters only
        ("3", "forward"): second,
        ("3", "backward"): 2 * second,
    }
    sums = [one for one in found.communication() if one["group"] == "data"]
    assert sums[0]["bytes"] == 2 * (16 * 28 + 2 * 16 + 32 * 145 + 10 * (32 * 64 + 1))


def test_measured_operators_are_scaled() -> None:
    made = partial(models.gpt, layers=3, positions=32)
    slow, fast = (profile_torch(made, measured=factor) for factor in (1, 1000))
    for one in (slow, fast):
        kernels = {type(kernel) for listed in one.step.stages[0].kernels[:-1] for kernel in listed}
        assert kernels == {TimedKernel}
    took = [one.computation()[0]["duration_ns"] for one in (slow, fast)]
    assert took[0] > 20 * took[1]
    assert slow.computation()[0]["flops"] == fast.computation()[0]["flops"]


def test_a_layer_again_before_its_backward_pass() -> None:
    plain, again = (
        profile_torch(models.gpt, parallelism=Parallelism(data=2), recompute=how) for how in ("none", "full")
    )
    assert plain.step.model_flops == again.step.model_flops
    added = again.step.hardware_flops - plain.step.hardware_flops
    layers = [one for one in plain.operators if one["unit"] == "layers.0" and one["pass"] == "forward"]
    assert added == 2 * 4 * sum(one["flops"] for one in layers)


def test_weights_take_no_memory() -> None:
    """Llama 3 405B, 126 layers, of which one runs: 812 GB of parameters."""
    sizes = {"layers": 126, "hidden": 16384, "heads": 128, "ffn": 53248, "vocab": 128256, "tokens": 8192}
    found = profile_torch(
        partial(models.llama, **sizes, kv_heads=8), parallelism=Parallelism(data=2, tensor=8, pipeline=16),
        microbatches=1,
    )  # fmt: skip
    theirs = profile_model("llama3-405b", Parallelism(data=2, tensor=8, pipeline=16), batch=2, microbatches=1)
    assert found.assumptions["parameters"] == "405,853,388,800"
    assert found.step.model_flops == pytest.approx(theirs.step.model_flops, rel=0.014)
    wanted = [one for one in rows(theirs) if "tensor" not in one or "'stage': 15" not in one]
    assert set(wanted) <= set(rows(found))  # ours sums the loss of the last stage, too


@pytest.mark.parametrize(
    "made,degrees,more,text",
    [
        (models.gpt, {"tensor": 3}, {}, "tensor parallelism 3 does not divide 1024 of wte"),
        (models.gpt, {"tensor": 16}, {}, "tensor parallelism 16 does not divide 8 n_heads of layers.0.attn"),
        (models.gpt, {"tensor": 2}, {"plan": {"wq": "colwise"}}, "result of layers.0 is divided"),
        (models.gpt, {"tensor": 2}, {"plan": {"fc2": "rowwise"}}, "what it multiplies is whole"),
        (models.gpt, {"tensor": 2}, {"plan": {"fc1": "colwise", "fc2": "colwise"}}, "is divided already"),
        (models.gpt, {"tensor": 2}, {"plan": {"wx": "colwise"}}, "no module is called 'wx'"),
        (models.gpt, {"tensor": 2}, {"plan": {"wq": "sideways"}}, "unknown style 'sideways' of 'wq'"),
        (models.gpt, {}, {"plan": {"wq": "colwise"}}, "a plan without tensor parallelism"),
        (models.perceptron, {"tensor": 2}, {}, "no module has a name that is known"),
        (models.convolutional, {"tensor": 2}, {"plan": {"0": "colwise"}}, "weights of 4 dimensions"),
        (models.gpt, {"pipeline": 8}, {}, "8 stages and chunks of 4 units"),
        (models.gpt, {"context": 2}, {}, "context parallelism of a PyTorch model is not profiled"),
        (models.gpt, {"tensor": 2, "sequence": True}, {}, "sequence parallelism of a PyTorch model"),
        (models.gpt, {}, {"precision": "fp7"}, "unknown precision 'fp7'"),
        (models.gpt, {}, {"balance": "luck"}, "unknown balance 'luck'"),
        (models.gpt, {}, {"memory_limit_bytes": 10**6}, "a rank of stage 0 needs 0.1 GB of the 0.0 GB"),
        (lambda: 1 / 0, {}, {}, "ZeroDivisionError: division by zero"),
        (lambda: 3, {}, {}, "a module is expected, or a module and its inputs, not int"),
        (lambda: models.gpt()[0], {}, {}, "there are no inputs"),
        (lambda: (models.gpt()[0], models.torch.zeros(2, 2, 2).long()), {}, {}, "ValueError: too many"),
        (lambda: (models.torch.nn.Identity(), (models.torch.zeros(2),)), {}, {}, "result has no gradient"),
    ],
)  # fmt: skip
def test_what_cannot_be_profiled_is_refused(
    made: Any, degrees: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        profile_torch(made, parallelism=Parallelism(**degrees), **more)


def test_a_module_of_ones_own_is_left_as_it_was() -> None:
    module, inputs = models.perceptron()
    before = [one.clone() for one in module.parameters()]
    found = profile_torch(module, inputs, Parallelism(data=2))
    assert all(
        (one == old).all() and one.grad is None for one, old in zip(module.parameters(), before, strict=True)
    )
    assert "forward" not in vars(module[0])
    assert found.communication()[0]["bytes"] == 4 * (32 * 64 + 64 + 2 * (64 * 64 + 64) + 64 * 8 + 8)
