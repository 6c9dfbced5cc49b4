"""A limit of a GPU's power slows down what computes, not what moves memory."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore.runs import times_of
from astranb.workload.kernels import GPUS, Attention, KernelTimes, Product, Stream, power_part
from astranb.workload.models import Parallelism, workload


def test_products_and_attention_take_longer_in_proportion():
    full, half = (KernelTimes(GPUS["h100-sxm"], power=part) for part in (1.0, 0.5))
    around = GPUS["h100-sxm"].kernel_ns
    for kernel in (Product(16384, 16384, 16384), Attention(4, 8192, 8192, 32, 8, 128, 128, causal=True)):
        took = [one.kernel_ns(kernel) - around for one in (full, half)]
        assert took[1] == pytest.approx(2 * took[0], rel=1e-3)
    moved = Stream(10**9)
    assert half.kernel_ns(moved) == full.kernel_ns(moved)
    assert "limited to 50% of its power" in half.text
    assert half.launched("graph").power == 0.5


@pytest.mark.parametrize("text, part", [("700W", 1), ("500 W", 5 / 7), ("0.35kW", 0.5), (None, 1)])
def test_a_limit_is_a_part_of_the_gpus_power(text, part):
    assert power_part(GPUS["h100-sxm"], text) == pytest.approx(part)
    assert times_of("h100", power=text).power == pytest.approx(part)


@pytest.mark.parametrize("text", ["701W", "100W", "lots", "-500W", "500", ""])
def test_what_is_no_limit(text):
    with pytest.raises(InputError, match="no limit of h100-sxm's power; take 175W to 700W"):
        power_part(GPUS["h100-sxm"], text)
    with pytest.raises(InputError, match="a limit of power changes kernels, not an efficiency"):
        KernelTimes(GPUS["h100-sxm"], efficiency=0.5, power=0.5)


def test_energy_is_that_of_the_limit():
    found = {}
    for limit in (None, "350W"):
        step = workload("gpt3-125m", Parallelism(data=2), gpu=times_of("h100", power=limit))
        sim = anb.Simulation(step)
        sim.run()
        found[limit] = sim.result.time_ps, anb.explore.bill(sim, step).power_W
    assert found["350W"][0] > found[None][0]
    assert found["350W"][1] < 0.7 * found[None][1]
