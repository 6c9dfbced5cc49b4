"""Parameters in four bits: fewer bytes in memory and to read, the same operations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from astranb.core.errors import InputError
from astranb.explore import serve
from astranb.workload.kernels import GPUS, KernelTimes, Product
from astranb.workload.models import TRANSFORMERS, Job, Parallelism, rank_memory, workload
from astranb.workload.serving import requests_of

DENSE = Product(16, 1024, 2048)
EXPERTS = replace(DENSE, copies=4, experts=True)


def times(weights, precision="bf16"):
    return KernelTimes(GPUS["b200-sxm"], precision, weights=weights)


@pytest.mark.parametrize("precision, each", [("bf16", 2), ("fp8", 1)])
def test_bytes_of_a_product(precision, each):
    """NVFP4 has a scale of a byte for 16 numbers, MXFP4 for 32; inputs and outputs are as they were."""
    numbers, around = 1024 * 2048, each * 16 * 2048 + 2 * 16 * 1024
    for weights, dense, experts in (
        ("", each * numbers, each * numbers),
        ("nvfp4", numbers * 9 // 16, numbers * 9 // 16),
        ("mxfp4", each * numbers, numbers * 17 // 32),
    ):
        found = times(weights, precision)
        assert found.moved(DENSE) == around + dense
        assert found.moved(EXPERTS) == 4 * (around + experts)
        assert found.moved_parts(EXPERTS) == {"weights": 4 * experts, "activations": 4 * around}
        # The router and the head are never in so few bits.
        assert found.moved(replace(DENSE, plain=True)) == times("", precision).moved(
            replace(DENSE, plain=True)
        )


def test_few_tokens_take_less_time_and_many_the_same():
    assert times("nvfp4").kernel_ns(replace(DENSE, n=16384, k=16384)) < 0.5 * times("").kernel_ns(
        replace(DENSE, n=16384, k=16384)
    )
    many = Product(65536, 16384, 16384)
    assert times("nvfp4").kernel_ns(many) == times("").kernel_ns(many)


def test_memory_of_a_rank():
    model = TRANSFORMERS["mixtral-8x7b"]
    held = {
        name: rank_memory(model, Job(Parallelism(), 128, 1, mode="decode", weights=name), 0).weights
        for name in ("", "mxfp4", "nvfp4")
    }
    experts = 8 * model.expert * model.layers
    assert held["mxfp4"] == held[""] - 2 * experts + experts * 17 // 32
    ends = 2 * (2 * model.vocab * model.hidden + model.hidden)
    assert held["nvfp4"] == pytest.approx((held[""] - ends) * 9 / 32 + ends, rel=1e-4)


def test_steps_and_serving_read_them():
    took = {
        name: workload(
            "llama3-70b", Parallelism(tensor=4), mode="decode", batch=4, gpu="b200-sxm", weights=name
        )
        for name in ("", "nvfp4")
    }
    assert took["nvfp4"].memory()[0].weights < 0.4 * took[""].memory()[0].weights
    trace = requests_of("offline:prompt=64,output=16,count=4")
    served = {name: serve("llama3-8b", trace, gpu=times(name)) for name in ("", "nvfp4")}
    assert served["nvfp4"].duration_ns < 0.7 * served[""].duration_ns
    assert served["nvfp4"].blocks > served[""].blocks
    assert any("weights in nvfp4" in line for line in served["nvfp4"].assumed)


def test_a_checkpoint_says_how_it_is_stored():
    model = replace(TRANSFORMERS["llama3-8b"], weights="nvfp4")
    trace = requests_of("offline:prompt=64,output=16,count=4")
    found = {name: serve(model, trace, gpu=times(name)).duration_ns for name in ("", "nvfp4", "none")}
    assert found[""] == found["nvfp4"] < found["none"]
    step = {
        (mode, name): workload(model, mode=mode, batch=4, gpu="b200-sxm", weights=name).memory()[0].weights
        for mode in ("decode", "training")
        for name in ("", "none")
    }
    assert step["decode", ""] < 0.4 * step["decode", "none"]
    assert step["training", ""] == step["training", "none"]


def test_what_is_refused():
    with pytest.raises(InputError, match="unknown weights 'int4'; known: fp8-block, mxfp4, none, nvfp4"):
        times("int4")
    with pytest.raises(InputError, match="unknown weights 'int4'"):
        Job(Parallelism(), 128, 1, mode="decode", weights="int4")
    with pytest.raises(InputError, match="weights in four bits do not apply to training"):
        Job(Parallelism(), 128, 1, weights="nvfp4")
