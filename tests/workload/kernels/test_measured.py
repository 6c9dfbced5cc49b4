"""Published timings of kernels against predicted ones: no worse than docs/explanation/kernels.md says."""

from __future__ import annotations

from collections import Counter

import pytest

from astranb.workload.kernels import GPUS, KernelTimes
from scripts.fit_gpus import timings
from scripts.generated import generated
from scripts.kernel_times import PAGE, TABLE, compared, errors, table

ROWS = timings()
FOUND = compared(errors(ROWS))

BOUNDS = {
    "gemm bf16": (0.25, 0.50),
    "gemm fp8": (0.15, 0.70),
    "linear fp8": (0.25, 0.80),
    "linear fp4": (0.40, 0.80),
    "experts bf16": (0.30, 0.60),
    "experts fp8": (0.25, 0.90),
    "attention": (0.30, 0.50),
    "attention backward": (0.45, 0.50),
    "prompt": (0.35, 0.80),
    "decode": (0.20, 0.35),
    "pass": (0.20, 0.80),
}
"""Mean and worst absolute error of each GPU and use, by sort of kernel."""


@pytest.mark.parametrize("one", FOUND, ids=lambda one: f"{one.gpu} {one.sort} {one.use}")
def test_errors_are_within_their_bounds(one):
    mean, worst = BOUNDS[one.sort]
    assert one.mean <= mean
    assert abs(one.worst) <= worst


def test_every_gpu_has_its_shapes():
    """Eight products in bfloat16 and in fp8 (where it has that), blind and used for choosing."""
    for name, gpu in GPUS.items():
        if gpu.fitted:  # derived from another one
            continue
        count = Counter(row.precision for row in ROWS if row.gpu == name and row.kernel in ("gemm", "linear"))
        assert count["bf16"] >= 8
        assert count["fp8"] >= (8 if "fp8" in gpu.peaks else 0)
    assert all(row.source.count("github.com") for row in ROWS)


def test_the_mean_over_blind_products_is_below_an_eighth():
    found = [abs(error) for row, _, error in errors(ROWS) if row.use == "blind" and row.kernel == "gemm"]
    assert len(found) > 200
    assert sum(found) / len(found) < 0.125


def test_no_measured_product_beats_the_peak():
    """A published time below what the peak allows would be an error of the table."""
    for row in ROWS:
        if row.kernel == "gemm":
            (one,) = row.kernels
            peak = KernelTimes(GPUS[row.gpu], row.precision).peak_flops
            assert one.flops / row.ns * 1e9 < peak


def test_the_page_has_the_table_that_the_command_prints():
    assert generated(TABLE, PAGE) == table(FOUND).strip()
