"""Measured kernels of engines: points as measured, sensible between them, the built-in model elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from astranb.workload.kernels import ENGINES_MEASURED, GPUS, KernelTimes, engine_table
from astranb.workload.kernels.work import Attention, Product

MEASURED = ("h100-sxm", "h200-sxm", "b200-sxm")


def table_of(gpu: str, engine: str) -> Any:  # whose times are numbers: these shapes are measured
    return engine_table(GPUS[gpu], engine)


@pytest.mark.parametrize("gpu", MEASURED)
@pytest.mark.parametrize("engine", ENGINES_MEASURED)
def test_a_measured_point_is_its_time(gpu, engine):
    table = table_of(gpu, engine)
    shape = (("n", 8192), ("k", 1024))
    line = table.lines["gemm", "bf16"][shape]
    for at, ns in zip(line.at, line.ns, strict=True):
        m = round(2.718281828459045**at)
        assert table.product_ns(Product(m, 8192, 1024), "bf16") == pytest.approx(
            2.718281828459045**ns, rel=1e-6
        )


def test_between_points_times_are_between():
    table = table_of("h100-sxm", "vllm")
    few, some, many = (table.product_ns(Product(2048, n, 3000), "fp8") for n in (4096, 6000, 8192))
    assert few < some < many
    short, long = (table.product_ns(Product(2048, 8192, k), "fp8") for k in (2048, 4096))
    assert short < table.product_ns(Product(2048, 8192, 3000), "fp8") < long
    # Beyond the largest size the time is in proportion.
    one, two = (table.product_ns(Product(64, 4096, k), "fp8") for k in (16384, 32768))
    assert two == pytest.approx(2 * one)


def test_attention_in_fp8_reads_less_and_a_window_costs_the_same_for_any_context():
    table = table_of("h200-sxm", "trtllm")
    wide = Attention(64, 1, 8192, 8, 1, 128, 128)
    assert table.attention_ns(replace(wide, kept_size=128)) < table.attention_ns(wide)
    assert table.attention_ns(replace(wide, queries=8)) is None
    assert table.attention_ns(replace(wide, heads=7)) is None
    windowed = Attention(16, 1, 128, 8, 1, 64, 64)
    assert table.attention_ns(windowed) == table.attention_ns(replace(windowed, keys=100))
    assert table.attention_ns(windowed) < table.attention_ns(replace(windowed, keys=8192))


def test_experts_are_measured_by_their_weights():
    table = table_of("b200-sxm", "sglang")
    shape = (7168, 256, 256, 8)
    eight, four = (table.experts_ns(64, *shape, weights) for weights in ("fp8-block", "nvfp4"))
    assert 1.2 * four < eight < 2 * four
    assert table.experts_ns(64, *shape, "") is None
    assert table.experts_ns(64, 7168, 100, 256, 8, "nvfp4") is None


def test_all_reduces_take_longer_with_more_bytes_and_more_gpus():
    for engine in ENGINES_MEASURED:
        table = table_of("h100-sxm", engine)
        for gpus in (2, 4, 8):
            times = [table.all_reduce_ns(gpus, 1 << power) for power in range(8, 30)]
            assert times == sorted(times)
        assert table.all_reduce_ns(2, 1 << 16) < table.all_reduce_ns(8, 1 << 16)
        assert table.all_reduce_ns(3, 1 << 16) is None


def test_what_was_not_measured_is_the_built_in_model():
    assert engine_table(GPUS["a100-sxm"], "vllm") is None
    assert engine_table(GPUS["h100-sxm"], "mine") is None
    assert engine_table(replace(GPUS["h100-sxm"], stream=0.5), "vllm") is None
    own = KernelTimes(GPUS["a100-sxm"])
    product = Product(16, 4096, 4096)
    assert own.costed("vllm").kernel_ns(product) == own.kernel_ns(product)
    known = KernelTimes(GPUS["h100-sxm"])
    prompt = Attention(1, 1024, 1024, 8, 1, 128, 128)
    assert known.costed("vllm").kernel_ns(prompt) == known.kernel_ns(prompt)
    assert known.costed("vllm").kernel_ns(product) != known.kernel_ns(product)
