"""Kernels of traces by cache lines: products of recorded shapes, and launches that hold SMs for a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import preset
from astranb.workload.astrasim2 import COMPUTE, Operations
from astranb.workload.kernels import GPUS, KernelTimes, Launch, Product, ShapedKernel, grids

from .test_kernels import REDUCE, ROOFLINE, SMALL, SYSTEM

H100 = preset("h100-sxm")
FEW = SMALL.but(sms=8)


def recorded(kernel, *rest, duration_ns=10_000, deps=(), **fields):
    """A computation whose kernel was recorded, and other operations."""
    one = Operations.of([{"kind": COMPUTE, "duration_ns": duration_ns, **fields}, *rest], deps)
    return replace(one, kernels={0: kernel})


def ran(one, system=SYSTEM, gpu=FEW, **more):
    sim = anb.Simulation("ring:gpus=2", Graph([one, one], system), gpu=gpu, **more)
    sim.run()
    return sim


def took(sim):
    rows = sim.result.to_dataframe("operations").query("rank == 0")
    return rows.set_index("operation")["duration_ps"].to_dict()


@pytest.mark.parametrize("blocks", [1, 8, 13, 1000])
@pytest.mark.parametrize("threads", [32, 1024])
def test_a_recorded_launch_keeps_its_duration(blocks, threads):
    for duration_ns in (1, 10_000):
        sim = ran(recorded(Launch(blocks, threads), duration_ns=duration_ns))
        assert sim.now_ps == 1000 * duration_ns


def test_a_collective_gets_what_a_recorded_launch_leaves():
    """Beside half of the SMs it is as fast as alone; beside all of them it waits for their end."""
    gpu = SMALL.but(sms=32)  # the collective has sixteen thread blocks
    alone = took(ran(Operations.of([REDUCE]), gpu=gpu))[0]
    half = took(ran(recorded(Launch(16, 2048), REDUCE), gpu=gpu))
    assert half == {0: 10_000_000, 1: alone}
    wait = {"kind": COMPUTE, "on_cpu": 1, "duration_ns": 10}
    behind = ran(recorded(Launch(32, 2048), wait, REDUCE, deps=[(), (), (1,)]), gpu=gpu)
    rows = behind.result.to_dataframe("operations").query("rank == 0").set_index("operation")
    assert rows.loc[0, "duration_ps"] == 10_000_000
    assert rows.loc[2, "end_ps"] >= 10_000_000 + 0.9 * alone
    # Several waves: blocks of high priority begin with the next one, and the kernel takes longer.
    urgent = {**REDUCE, "priority": 1}
    waves = ran(recorded(Launch(128, 2048), wait, urgent, deps=[(), (), (1,)]), gpu=gpu)
    rows = waves.result.to_dataframe("operations").query("rank == 0").set_index("operation")
    assert rows.loc[2, "end_ps"] < 10_000_000
    assert rows.loc[0, "duration_ps"] > 10_000_000


def test_sms_are_held_as_the_trace_states():
    sim = anb.Simulation("ring:gpus=2", Graph([recorded(Launch(5, 1024))] * 2, SYSTEM), gpu=FEW)
    sim.run("5 us")
    sms = sim.engine.machine.sms[: FEW.sms]
    assert sorted(sms["resident"].tolist()) == [0, 0, 0, 1, 1, 1, 1, 1]
    assert sms["free"].min() == sms["free"].max() // 2  # 1,024 of 2,048 threads


def test_recorded_shapes_are_the_product_s_thread_blocks():
    product = Product(512, 256, 1024, cast=False)
    one = recorded(ShapedKernel(product, "bf16", 2), flops=7, bytes=8)
    sim = ran(one, ROOFLINE, SMALL)
    tiles = grids(product, KernelTimes(GPUS["h100-sxm"], sustained=1.0), SMALL)
    computed = sum(grid.blocks * grid.steps * grid.step_ps for grid in tiles)
    assert sim.engine.machine.sms["matrix_ps"].sum() == 2 * computed > 0
    # Half the bytes a number: half as many steps of k.
    eight = ran(recorded(ShapedKernel(product, "fp8", 1), flops=7, bytes=8), ROOFLINE, SMALL)
    assert eight.now_ps < sim.now_ps
    # Without a roofline the duration counts.
    assert ran(one, SYSTEM, SMALL).now_ps == 10_000_000


def test_a_precision_without_rates_is_refused():
    one = recorded(ShapedKernel(Product(512, 256, 1024), "float32", 4), flops=7, bytes=8)
    with pytest.raises(InputError, match=r"h100-sxm does not compute in float32.*roofline-enabled"):
        ran(one, ROOFLINE, SMALL)


def test_operands_that_fit_no_memory_are_refused():
    large = ShapedKernel(Product(1 << 20, 1 << 20, 64), "bf16", 2)
    with pytest.raises(InputError, match=r"operands of 2,097,408 MiB, the memory of a h100-sxm .*shapes"):
        ran(recorded(large, flops=7, bytes=8), ROOFLINE, SMALL)


def test_recorded_kernels_are_saved_and_loaded(tmp_path):
    shaped = recorded(ShapedKernel(Product(128, 256, 128, cast=False), "fp16", 2), REDUCE, flops=7, bytes=8)
    for one, system in ((recorded(Launch(5, 1024, 32, 99), REDUCE), SYSTEM), (shaped, ROOFLINE)):
        sim = anb.Simulation("ring:gpus=2", Graph([one, one], system), gpu=SMALL)
        sim.run("2 us")
        sim.save(tmp_path / "half.npz")
        again = anb.Simulation.load(tmp_path / "half.npz")
        assert again.state_hash() == sim.state_hash()
        sim.run()
        again.run()
        assert again.state_hash() == sim.state_hash()
