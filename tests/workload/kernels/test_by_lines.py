"""Products by cache lines beside published times: as close as docs/explanation/kernels.md says."""

from __future__ import annotations

import re

import pytest

from astranb.gpu import preset
from astranb.gpu.tables import ROOM
from astranb.workload.kernels import GPUS, Attention, KernelTimes, Product, Stream, grids
from scripts.fit_gpus import timings
from scripts.generated import generated
from scripts.kernel_times import PAGE, TABLE_BY_LINES, errors_by_lines

QUICK = 3e10
"""Operations: a burst of lines each, tenths of a second."""


@pytest.mark.parametrize("gpu", ["a100-sxm", "h100-sxm"])
def test_published_products_are_within_15_per_cent(gpu):
    rows = [row for row in timings() if row.gpu == gpu and row.kernel == "gemm"]
    found = [error for row, _, error in errors_by_lines(row for row in rows if row.kernels[0].flops <= QUICK)]
    assert len(found) >= 8
    assert sum(map(abs, found)) / len(found) <= 0.15


def test_the_page_says_what_is_further_off():
    page = PAGE.read_text(encoding="utf-8")
    table = generated(TABLE_BY_LINES, PAGE)
    means = {
        (gpu, use): int(mean)
        for gpu, use, mean in re.findall(r"\| (\S+) \| gemm bf16 \| (\w+) \| \d+ \| (\d+)%", table)
    }
    assert max(means[gpu, use] for gpu, use in means if gpu != "mi300x") <= 15
    assert "AITER" in page.partition(table)[2][:900]


def test_a_block_s_work_is_the_kernel_s():
    times, gpu = KernelTimes(GPUS["h100-sxm"]), preset("h100-sxm")
    (one,) = grids(Product(4096, 4096, 4096), times, gpu)
    computed_ps = one.blocks * one.steps * one.step_ps / gpu.sms
    assert computed_ps == pytest.approx(2 * 4096**3 / (989e12 * 0.86 * 0.9) * 1e12, rel=0.01)
    (copy,) = grids(Stream(1 << 24), times, gpu)
    assert copy.rows * copy.row_lines * 128 == pytest.approx(1 << 23, rel=0.05)
    (attention,) = grids(Attention(2, 1024, 1024, 8, 2, 128, 128), times, gpu)
    # Of a causal mask the rows of blocks have one step more each; heads share keys and values.
    assert (attention.rows, attention.columns, attention.steps, attention.growth) == (8, 16, 1, 1)
    assert attention.shared == 4


def test_stream_k_divides_the_steps_of_the_last_wave():
    gpu = preset("h100-sxm")
    times = KernelTimes(GPUS["h100-sxm"], sustained=1.0, stream_k=True)
    (one,) = grids(Product(128 * 141, 256, 16384), times, gpu)
    assert 0 < one.rest < one.parts == gpu.sms
    assert one.blocks == one.rows * one.columns - one.rest + gpu.sms
    assert (one.blocks - one.parts) % gpu.sms == 0
    (plain,) = grids(Product(128 * 141, 256, 16384), KernelTimes(GPUS["h100-sxm"], sustained=1.0), gpu)
    assert plain.rest == plain.parts == 0


@pytest.mark.parametrize("name", ["a100-sxm", "h100-sxm", "mi300x", "b200-sxm"])
@pytest.mark.parametrize(
    "one", [Product(8192, 8192, 8192), Product(64, 512, 4096), Attention(1, 128, 128, 8, 8, 128, 128)]
)
def test_every_block_fits_an_sm(name, one):
    for grid in grids(one, KernelTimes(GPUS[name]), preset(name)):
        assert 0 < grid.held <= ROOM
