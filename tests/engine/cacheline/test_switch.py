"""Reductions and multicasts of a switch, and the staged form in which NCCL uses it."""

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.gpu import preset

H100 = preset("h100-sxm")


def _run(size, algorithm="switch", *, kind="all_reduce", gpu=H100, **options):
    wanted = Collective.of(kind, size, algorithm, **options)
    sim = anb.Simulation("dgx-h100", wanted, gpu=gpu, record=False, checkpoint_bytes=0)
    sim.run()
    return sim


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_lines_of_a_switch_get_their_share_of_a_link(kind):
    whole, part = (_run("1 MiB", kind=kind, gpu=H100.but(multimem_percent=share)) for share in (100, 50))
    rows = [sim.engine.machine.links for sim in (whole, part)]
    assert np.array_equal(rows[0]["bytes"], rows[1]["bytes"])  # the bytes are what they were
    assert part.now_ps > whole.now_ps
    busiest = int(rows[0]["busy_ps"].argmax())
    assert 1.5 < rows[1]["busy_ps"][busiest] / rows[0]["busy_ps"][busiest] <= 2.0


def test_other_lines_have_the_whole_link():
    times = [_run("256 KiB", "ring", gpu=H100.but(multimem_percent=share)).now_ps for share in (100, 50)]
    assert times[0] == times[1]


def test_in_switch_reduction_keeps_below_nccls_ceiling():
    """8 heads of 40 GB/s at 85 % (NCCL, src/graph/tuning.cc): 272 GB/s, 476 GB/s of bus bandwidth."""
    sim = _run("32 MiB", channels=16)
    assert 0.7 * 272 < 2**25 / sim.now_ps * 1e3 < 272


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size, chunk", [("96 KiB", 4096), ("1000 B", None), ("200 KiB", 5000)])
def test_the_staged_form_is_right_in_any_number_of_steps(kind, size, chunk):
    wanted = Collective.of(kind, size, "nvls", channels=2, chunk_bytes=chunk)
    program = wanted.program(8)
    rounds = -(-wanted.size // (8 * 2 * (chunk or 65_536)))
    assert program.cut.rounds == rounds
    assert anb.collectives.verify(program, kind) == []
    assert _run(size, "nvls", kind=kind, channels=2, chunk_bytes=chunk).finished


def test_the_staged_form_has_nccls_warps():
    sim = _run("64 KiB", "nvls", channels=1)
    of_rank = sim.engine.machine.blocks["warps"][sim.engine.machine.blocks["gpu"] == 0]
    assert of_rank.tolist() == [8, 5, 7]


def test_steps_overlap():
    """While a step is reduced, the next is being copied: several steps take less than one after another."""
    one, four = (_run(size, "nvls", channels=4, chunk_bytes=32_768).now_ps for size in ("1 MiB", "4 MiB"))
    assert four < 3.5 * one


def test_the_smallest_staged_reduction_is_what_nccls_25_us_have_beside_its_base():
    from astranb.collectives.choice.nccl import _LEAST_NVLS_US, _NVLS_BASE_US

    sim = _run("1 KiB", "nvls", channels=1)
    assert sim.now_ps / 1e6 == pytest.approx(_LEAST_NVLS_US, abs=0.3)
    from_table_us = _NVLS_BASE_US + _LEAST_NVLS_US - 2.4  # which is fitted
    assert from_table_us == pytest.approx(25)


def test_a_step_needs_bytes():
    with pytest.raises(InputError, match="chunk_bytes"):
        Collective.of("all_reduce", "1 MiB", "nvls", chunk_bytes=0)


def test_a_share_of_more_than_all_is_refused():
    with pytest.raises(InputError, match="multimem_percent"):
        H100.but(multimem_percent=0)
