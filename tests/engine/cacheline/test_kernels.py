"""Compute kernels by cache lines: laws of SMs and memory, and how they slow collectives down."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.kernels import lower_grid
from astranb.engine.cacheline.paths import gpu_path
from astranb.engine.cacheline.tracks import TRACK_STATES
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import preset
from astranb.gpu import tables as t
from astranb.workload.astrasim2 import COLLECTIVE, COLLECTIVE_NAMES, COMPUTE, Operations, System
from astranb.workload.kernels import GPUS, Attention, Grid, KernelTimes, Product, Stream, grids, kernel_of

from .support import check_path

SYSTEM = System.from_document({"all-reduce-implementation": ["direct"], "preferred-dataset-splits": 1})
SMALL = preset("h100-sxm").but(sms=4, l2_slices=8, hbm_channels=8)
TILES = Grid(
    "product", rows=3, columns=2, steps=3, row_lines=4, column_lines=8, stored_lines=4, step_ps=70_000,
    stages=2, held=t.ROOM // 2,
)  # fmt: skip
REDUCE = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_reduce"], "bytes": 1 << 16}


def step(*kernels, deps=(), rest=(), **fields):
    """Operations of a rank: a computation of each list of grids, and others."""
    rows = [{"kind": COMPUTE, "duration_ns": 1, **fields} for _ in kernels]
    one = Operations.of([*rows, *rest], deps or [()] * (len(rows) + len(rest)))
    return replace(one, grids=(*(tuple(each) for each in kernels), *(() for _ in rest)))


def simulate(*ranks, gpu=SMALL, **more):
    return anb.Simulation(f"ring:gpus={len(ranks)}", Graph(list(ranks), SYSTEM), gpu=gpu, **more)


def ran(*ranks, **more):
    sim = simulate(*ranks, **more)
    sim.run()
    return sim


def idle():
    return Operations.of([{"kind": COMPUTE, "on_cpu": 1, "duration_ns": 1}])


@st.composite
def any_grid(draw):
    few = st.integers(1, 4)
    copies = draw(st.integers(1, 2))
    return Grid(
        "any", copies=copies, rows=copies * draw(few), columns=draw(few),
        splits=draw(st.integers(1, 2)), steps=draw(few),
        row_lines=draw(st.integers(0, 5)), column_lines=draw(st.integers(1, 9)),
        own_lines=draw(st.integers(0, 3)), stored_lines=draw(st.integers(0, 6)),
        step_ps=draw(st.integers(1, 100_000)), stages=draw(st.integers(1, 4)),
        growth=draw(st.integers(0, 2)), held=draw(st.sampled_from([t.ROOM, t.ROOM // 2, t.ROOM // 5])),
        launch_ps=draw(st.sampled_from([0, 1000])),
    )  # fmt: skip


@st.composite
def stream_k(draw):
    """A grid whose last tiles are shared."""
    grid = replace(draw(any_grid()), splits=1, growth=0, stored_lines=draw(st.integers(1, 6)))
    rest = min(draw(st.integers(1, 7)), grid.blocks - 1)
    return replace(grid, rest=rest, parts=draw(st.integers(rest, 8)) if rest else 0)


@settings(max_examples=30, deadline=None)
@given(any_grid() | stream_k(), st.integers(1, 3))
def test_work_is_conserved(grid, burst):
    sim = ran(step([grid]), idle(), network=anb.net.Network(compute_lines=burst))
    machine, program = sim.engine.machine, lower_grid(grid, line_bytes=128, burst_lines=burst)
    tiles = program.tiles
    # Time of the matrix units, on all SMs together.
    computed = int((tiles["steps"] * tiles["step_ps"]).sum())
    assert machine.sms["matrix_ps"].sum() == computed
    assert sim.now_ps >= computed // SMALL.sms
    # Every line is served by the L2; memory gives each line that is read once, because all fit into the L2.
    loads = program.ops["kind"] == t.TILE
    lines = int((program.ops["lines"] * program.ops["payload"])[loads].sum()) // 128
    stored = grid.blocks * grid.stored_lines
    if grid.rest:  # parts store twice the lines of a tile, and what they take over is read and stored
        taken = -(-grid.stored_lines * grid.rest // grid.parts)
        stored = (grid.blocks - grid.parts) * grid.stored_lines
        stored += grid.parts * 2 * (grid.stored_lines + taken)
    assert machine.l2_slices["lines"].sum() == lines + stored
    operands = program.slices[program.slices["writer"] == t.INITIAL]
    assert machine.hbm_channels["lines"].sum() <= operands["lines"].sum()
    assert (
        machine.hbm_channels["busy_ps"].sum()
        >= machine.hbm_channels["lines"].sum() * machine.gpus[0].channel_ps
    )
    # All blocks have left their SMs, and nothing waits for one.
    assert (machine.sms["free"] == t.ROOM).all()
    assert (machine.sms["resident"] == 0).all()
    assert machine.gpus[0].pending_head == -1


@settings(max_examples=12, deadline=None)
@given(any_grid(), st.data())
def test_steps_lead_back(grid, data):
    sim = simulate(step([grid], rest=[REDUCE]), step([TILES], rest=[REDUCE]), record=False)
    sim.run(data.draw(st.integers(0, 20_000_000)))
    before, events = sim.state_hash(), sim.events
    sim.step(data.draw(st.integers(1, 500)))
    sim.back(sim.events - events)
    assert sim.state_hash() == before


def test_a_duration_alone_takes_exactly_as_long():
    for duration_ns in (1, 7, 5000):
        sim = ran(Operations.of([{"kind": COMPUTE, "duration_ns": duration_ns}]), idle())
        assert sim.now_ps == 1000 * duration_ns


ROOFLINE = System.from_document(
    {"all-reduce-implementation": ["direct"], "preferred-dataset-splits": 1, "roofline-enabled": 1,
     "peak-perf": 900, "local-mem-bw": 3000}
)  # fmt: skip


def test_operations_and_bytes_of_a_trace_are_a_kernel():
    """If a roofline would time it and the GPU's rates are known; otherwise it is a duration."""
    fields = {"kind": COMPUTE, "duration_ns": 7, "flops": 2 * 512 * 512 * 1024, "bytes": 1 << 22}
    one = Operations.of([fields])
    graph = Graph([one, one], ROOFLINE)
    sim = anb.Simulation("ring:gpus=2", graph, gpu=SMALL)
    sim.run()
    times = KernelTimes(GPUS["h100-sxm"], sustained=1.0)
    tiles = [
        grid for grid in grids(kernel_of(fields["flops"], fields["bytes"]), times, SMALL) if grid.step_ps
    ]
    computed = sum(grid.blocks * grid.steps * grid.step_ps for grid in tiles)
    assert sim.engine.machine.sms["matrix_ps"].sum() == 2 * computed > 0
    for system, gpu in (
        (SYSTEM, SMALL),
        (ROOFLINE, preset("generic")),
        (replace(ROOFLINE, replay=True), SMALL),
    ):
        other = anb.Simulation("ring:gpus=2", Graph([one, one], system), gpu=gpu)
        other.run()
        assert other.engine.machine.sms["matrix_ps"].sum() == 0
        took_ns = int(other.engine.work.took_ns(one, 0)[0])
        assert other.now_ps == 1000 * took_ns


@given(st.integers(10**8, 10**14), st.integers(1, 10**11))
def test_a_kernel_has_the_operations_and_bytes_that_it_is_for(operations, touched):
    kernel = kernel_of(operations, touched)
    if isinstance(kernel, Stream):
        assert kernel.size == touched
        # A product of these bytes with a k of 32 or more would have more operations.
        assert operations < 40 * touched
        return
    assert kernel.m == kernel.n
    assert kernel.flops == pytest.approx(operations, rel=0.1)
    moved = 2 * (2 * kernel.m * kernel.k + kernel.m**2)
    if kernel.k < 0.9 * kernel.m:  # no cube
        assert moved == pytest.approx(touched, rel=0.1)
    else:
        assert moved >= 0.9 * touched


def test_a_duration_is_longer_while_others_hold_sms():
    spend = {"kind": COMPUTE, "duration_ns": 100_000}
    one = Operations.of([spend, REDUCE])
    rows = ran(one, one).result.to_dataframe("operations").set_index(["rank", "operation"])
    took, beside = rows.loc[(0, 0), "duration_ps"], rows.loc[(0, 1), "duration_ps"]
    assert 0 < took - 100_000_000 <= beside
    # The collective's blocks are on so many of the four SMs for its time; one is always kept.
    sm = {int(block.sm) for block in ran(one, one).engine.machine.blocks if block.gpu == 0 and block.held}
    assert took - 100_000_000 == pytest.approx(beside * min(len(sm), 3) / 4, rel=0.01)


def test_tiles_wait_for_room():
    two = ran(step([TILES]), idle()).now_ps
    one = ran(step([replace(TILES, held=t.ROOM)]), idle()).now_ps
    assert one > two  # six tiles on four SMs, one or two at a time


def test_a_collective_and_a_kernel_slow_each_other_down():
    many = replace(TILES, rows=32, held=t.ROOM)
    both = step([many], rest=[{**REDUCE, "priority": 1}])
    reduce = Operations.of([REDUCE])
    kernel, together, collective = (
        ran(one, one).result.to_dataframe("operations").set_index(["rank", "what"])["duration_ps"]
        for one in (step([many]), both, reduce)
    )
    assert together[0, "compute"] > kernel[0, "compute"]
    assert together[0, "all_reduce"] >= collective[0, "all_reduce"]
    assert max(together) < kernel[0, "compute"] + collective[0, "all_reduce"]


def test_urgent_blocks_are_placed_first():
    """A later collective of high priority passes the blocks of a kernel that wait for an SM."""
    many = replace(TILES, rows=40, held=t.ROOM)
    ends = {}
    for priority in (0, 1):
        wait = {"kind": COMPUTE, "on_cpu": 1, "duration_ns": 2000}
        one = step([many], rest=[wait, {**REDUCE, "priority": priority}], deps=[(), (), (1,)])
        rows = ran(one, one).result.to_dataframe("operations").set_index(["rank", "operation"])
        ends[priority] = rows.loc[(0, 2), "end_ps"]
    assert ends[1] < ends[0]


def test_products_take_what_they_take_by_formula():
    """If L2 and memory are not the limit: within the time of filling and draining the pipeline."""
    times, gpu = KernelTimes(GPUS["h100-sxm"]), preset("h100-sxm")
    one = Product(512, 512, 1024)
    found = ran(step(grids(one, times, gpu)), idle(), gpu=gpu).now_ps
    assert found == pytest.approx(1000 * times.kernel_ns(one), rel=0.15)


def test_products_at_once_have_matrices_of_their_own():
    times, gpu = KernelTimes(GPUS["a100-sxm"]), preset("a100-sxm")
    one, four = (
        lower_grid(grids(Product(64, 256, 512, copies), times, gpu)[0], line_bytes=128) for copies in (1, 4)
    )
    operands = [int(p.slices["lines"][p.slices["writer"] == t.INITIAL].sum()) for p in (one, four)]
    assert operands == [(64 + 256) * 512 * 2 // 128, 4 * (64 + 256) * 512 * 2 // 128]
    # No two of them load the same lines of the second matrix.
    second = four.operands["slice"][1::3].reshape(4, -1)
    assert all(set(second[a]).isdisjoint(second[b]) for a in range(4) for b in range(a))


def test_a_last_wave_is_shared_along_k():
    """Four tiles for three SMs take two waves; with Stream-K a third less, and what handing on costs."""
    gpu = SMALL.but(sms=3)
    tiles = replace(TILES, rows=2, steps=12, held=t.ROOM, step_ps=5_000_000)
    shared = replace(tiles, rest=1, parts=3)
    whole, even = (ran(step([grid]), idle(), gpu=gpu).now_ps for grid in (tiles, shared))
    wave_ps = 12 * 5_000_000
    assert whole >= 2 * wave_ps
    assert wave_ps * 4 / 3 <= even < wave_ps * 4 / 3 + 0.1 * wave_ps


def test_bursts_are_close_to_lines():
    times, gpu = KernelTimes(GPUS["h100-sxm"]), preset("h100-sxm")
    kernels = [
        *grids(Product(1024, 512, 512), times, gpu),
        *grids(Attention(1, 512, 512, 4, 2, 128, 128), times, gpu),
        *grids(Stream(1 << 21), times, gpu),
    ]  # fmt: skip
    fine, coarse = (
        ran(step(kernels), idle(), gpu=gpu, network=anb.net.Network(compute_lines=lines)) for lines in (1, 16)
    )
    assert coarse.now_ps == pytest.approx(fine.now_ps, rel=0.05)
    assert coarse.events * 8 < fine.events


def test_the_path_goes_through_tiles():
    sim = simulate(
        step([TILES], rest=[REDUCE], deps=[(), (0,)]), step([TILES], rest=[REDUCE], deps=[(), (0,)])
    )
    sim.run()
    check_path(sim)
    assert sim.critical_path().by_cause()["compute"] > 0


def test_a_kernel_is_saved_and_loaded(tmp_path):
    sim = simulate(step([TILES], rest=[REDUCE]), step([TILES], rest=[REDUCE]))
    sim.run("2 us")
    sim.save(tmp_path / "half.npz")
    again = anb.Simulation.load(tmp_path / "half.npz")
    assert again.state_hash() == sim.state_hash()
    sim.run()
    again.run()
    assert again.state_hash() == sim.state_hash()


def test_what_a_tile_does_is_explained():
    sim = simulate(step([TILES]), idle())
    sm = f"{gpu_path(sim.engine.fabric, 0)}.sm.0"
    said = set()
    while not sim.finished:
        sim.step(7)
        said |= {word for word in ("matrix units", "of its operands under way") if word in str(sim.why(sm))}
        inspected = str(sim.inspect(sm))
        at_tile = [b for b in sim.engine.machine.blocks if b.sm == 0 and b.held and b.state == t.MOVING]
        assert ("of a tile" in inspected) == any(b.op == b.first_op for b in at_tile)
    assert said == {"matrix units", "of its operands under way"}


def test_every_table_and_lane_knows_tiles():
    many = replace(TILES, rows=9, held=t.ROOM)
    one = step([many], rest=[REDUCE])
    sim = simulate(one, one)
    for when in ("1 us", "4 us", None):
        sim.run(when) if when else sim.run()
        for name in sim.result.tables:
            assert sim.result.to_dataframe(name) is not None
        assert sim.contributions() is not None
        for kind in ("sms", "blocks"):
            tracks = sim.engine.tracks(kind)
            spent = tracks.spent(np.arange(len(tracks)), np.array([0, sim.now_ps]))
            assert spent.sum(axis=-1).max() <= sim.now_ps
    computed = spent[..., TRACK_STATES.index("compute")].sum()
    assert computed >= sim.engine.machine.sms["matrix_ps"].sum()


def test_a_tile_that_fits_no_sm():
    small = preset("h100-sxm").but(shared_bytes=1024, register_bytes=64 * 1024)
    with pytest.raises(InputError, match="KiB of registers"):
        grids(Product(4096, 4096, 4096), KernelTimes(GPUS["h100-sxm"]), small)
