"""Schedules of a pipeline: their orders, memory and bubbles are those of the papers."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import astranb as anb
from astranb.chakra.scaling import SCHEDULES
from astranb.core.errors import InputError
from astranb.explore.algorithms import CollectiveTimes
from astranb.explore.plans import estimate_step
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.models import (
    EMBEDDING,
    HEAD,
    Job,
    Parallelism,
    Transformer,
    bubble_of,
    machine,
    rank_memory,
    stage_order,
    units,
    workload,
)
from astranb.workload.models.fits import options_of
from tests.workload.models.support import tiny

DIVIDED = SCHEDULES[1:]
STAGES = (2, 3, 4, 5, 6, 8, 9, 16)


def letters(schedule, stage, stages, microbatches):
    """Return an order as text, as ``F0 B0 W0``, with the chunk in front where there are two."""
    degrees = Parallelism(pipeline=stages, schedule=schedule)
    return " ".join(
        f"{'F' if one.is_forward else 'W' if one.is_weights else 'B'}"
        f"{'ab'[one.chunk] if degrees.is_vee else ''}{one.micro}"
        for one in stage_order(degrees, stage, microbatches)
    )


def in_flight(schedule, stages, microbatches):
    """Return how many microbatches' activations each stage keeps at most; half of a V's are of a chunk."""
    degrees = Parallelism(pipeline=stages, schedule=schedule)
    most = []
    for stage in range(stages):
        now = peak = 0
        for one in stage_order(degrees, stage, microbatches):
            now += one.is_forward - (one.is_weights if degrees.splits_backward else not one.is_forward)
            peak = max(peak, now)
        most.append(peak / degrees.interleave)
    return most


def waits(schedule, stages, microbatches):
    """Return the time for which each stage waits between its first and its last pass, which take one each."""
    degrees = Parallelism(pipeline=stages, schedule=schedule)
    orders = [stage_order(degrees, stage, microbatches) for stage in range(stages)]
    last = stages - 1

    def needs(one, stage):
        if one.is_weights:
            return None
        down = one.is_forward == (one.chunk == 0)
        at = stage - 1 if down else stage + 1
        if not degrees.is_vee:
            at = stage - 1 if one.is_forward else stage + 1
        if 0 <= at <= last:
            return one.is_forward, one.chunk, one.micro, at
        if degrees.is_vee and stage == last and one.is_forward == (one.chunk == 1):
            return one.is_forward, 1 - one.chunk, one.micro, stage
        if one.is_forward:
            return None
        return True, degrees.interleave - 1, one.micro, stage

    ends: dict[tuple[bool, int, int, int], int] = {}
    begun, free, place = [-1] * stages, [0] * stages, [0] * stages
    while any(place[k] < len(orders[k]) for k in range(stages)):
        moved = False
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                one = order[place[stage]]
                need = needs(one, stage)
                if need is not None and need not in ends:
                    break
                begin = max(free[stage], 0 if need is None else ends[need])
                begun[stage] = begin if begun[stage] < 0 else begun[stage]
                free[stage] = begin + 1
                if not one.is_weights:
                    ends[one.is_forward, one.chunk, one.micro, stage] = free[stage]
                place[stage], moved = place[stage] + 1, True
        assert moved, "stages wait for each other"
    return [end - begin - len(order) for end, begin, order in zip(free, begun, orders, strict=True)]


@pytest.mark.parametrize("schedule", DIVIDED)
@pytest.mark.parametrize("stages", STAGES)
def test_each_pass_is_done_once_behind_those_that_it_needs(schedule, stages):
    degrees = Parallelism(pipeline=stages, schedule=schedule)
    for microbatches in (1, 2, stages, 2 * stages + 1):
        for stage in range(stages):
            order = stage_order(degrees, stage, microbatches)
            assert len(order) == len(set(order)) == 3 * microbatches * degrees.interleave
            place = {one: at for at, one in enumerate(order)}
            for one in order:
                if one.is_weights:
                    assert place[one._replace(is_weights=False)] < place[one]
                elif not one.is_forward:
                    assert place[one._replace(is_forward=True)] < place[one]
                if one.micro:
                    assert place[one._replace(micro=one.micro - 1)] < place[one]
        waits(schedule, stages, microbatches)  # a deadlock fails there


def test_orders_of_the_papers():
    """ZB-H1 (arXiv 2401.10241, figure 3) and ZB-V (figure 6), of the first and the last of four stages."""
    assert letters("zbh1", 0, 4, 8).startswith("F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 F6")
    assert letters("zbh1", 3, 4, 8) == (
        "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 W5 W6 W7"
    )
    assert letters("zbv", 0, 4, 8).startswith(
        "Fa0 Fa1 Fa2 Fa3 Fa4 Fa5 Fa6 Fb0 Bb0 Wb0 Fb1 Bb1 Wb1 Fb2 Bb2 Wb2 Fb3 Bb3 Wb3 Fa7 Ba0 Wa0 Fb4"
    )
    assert letters("zbv", 3, 4, 8).startswith("Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Bb0 Wb0 Fa4 Ba0 Wa0 Fb4")


PRIMUS = """
zbh1 1 4 4:
  F0 F1 F2 B0 F3 B1 W0 B2 W1 B3 W2 W3
zbv 1 4 8:
  Fa0 Fa1 Fa2 Fa3 Fa4 Fb0 Fa5 Fb1 Bb0 Wb0 Fb2 Bb1 Wb1 Fb3 Bb2 Wb2 Fa6 Ba0 Wa0 Fb4 Bb3 Wb3 Fa7 Ba1
  Wa1 Fb5 Bb4 Wb4 Ba2 Wa2 Fb6 Bb5 Wb5 Ba3 Wa3 Fb7 Bb6 Wb6 Ba4 Bb7 Ba5 Wa4 Ba6 Wa5 Ba7 Wa6 Wb7 Wa7
v-half 0 4 8:
  Fa0 Fa1 Fa2 Fa3 Fa4 Fb0 Bb0 Wb0 Fb1 Bb1 Wb1 Fb2 Bb2 Wb2 Ba0 Wa0 Fa5 Fb3 Bb3 Wb3 Ba1 Wa1 Fa6 Fb4
  Bb4 Wb4 Ba2 Wa2 Fa7 Fb5 Bb5 Wb5 Ba3 Wa3 Fb6 Bb6 Wb6 Ba4 Wa4 Fb7 Bb7 Ba5 Wb7 Ba6 Wa5 Wa6 Ba7 Wa7
v-half 2 3 5:
  Fa0 Fb0 Fa1 Fb1 Bb0 Wb0 Ba0 Wa0 Fa2 Fb2 Bb1 Wb1 Ba1 Wa1 Fa3 Fb3 Bb2 Wb2 Ba2 Wa2 Fa4 Fb4 Bb3 Ba3
  Wb3 Wa3 Bb4 Ba4 Wb4 Wa4
v-min 0 4 8:
  Fa0 Fa1 Fa2 Fb0 Bb0 Wb0 Fb1 Bb1 Wb1 Fa3 Ba0 Wa0 Fb2 Bb2 Ba1 Wb2 Wa1 Fa4 Fb3 Bb3 Ba2 Wb3 Wa2 Fa5
  Fb4 Bb4 Ba3 Wb4 Wa3 Fa6 Fb5 Bb5 Ba4 Wb5 Wa4 Fa7 Fb6 Bb6 Ba5 Wb6 Wa5 Fb7 Bb7 Ba6 Wb7 Wa6 Ba7 Wa7
v-min 1 3 5:
  Fa0 Fa1 Fb0 Fb1 Bb0 Wb0 Fa2 Ba0 Wa0 Bb1 Wb1 Fb2 Fa3 Ba1 Wa1 Bb2 Wb2 Fb3 Fa4 Ba2 Wa2 Bb3 Wb3 Fb4
  Ba3 Bb4 Wa3 Wb4 Ba4 Wa4
"""
"""Schedule, stage, stages, microbatches: the passes in the table of AMD-AGI/Primus @fd1eeabb."""


@pytest.mark.parametrize("row", re.split(r"\n(?=\S)", PRIMUS.strip()))
def test_orders_are_those_of_primus(row):
    head, _, order = row.partition(":")
    schedule, *numbers = head.split()
    assert letters(schedule, *map(int, numbers)).split() == order.split()


@pytest.mark.parametrize("stages", STAGES)
def test_bubbles_are_those_of_the_papers(stages):
    many = 4 * stages
    one = {name: bubble_of(Parallelism(pipeline=stages, schedule=name), many) for name in SCHEDULES}
    assert one["1f1b"] == stages - 1
    # (p - 1) times a forward pass, and gradients of inputs less those of parameters: a third.
    assert one["zbh1"] == pytest.approx((stages - 1) / 3)
    # No stage waits once it has begun: the last one begins p - 1 half passes later.
    assert one["zbv"] == pytest.approx((stages - 1) / 6)
    assert set(waits("zbv", stages, many)) == {0}
    # Less than a half and two thirds of 1F1B's bubble (arXiv 2405.15362, table 1).
    assert one["v-half"] / one["1f1b"] < 0.5
    assert one["v-min"] / one["1f1b"] < 2 / 3 + 0.01
    for name in DIVIDED:
        each = 3 * Parallelism(pipeline=stages, schedule=name).interleave
        assert max(waits(name, stages, many)) <= one[name] * each + 1e-9


@pytest.mark.parametrize("stages", [*STAGES, 32, 64])
def test_activations_in_flight_are_those_of_the_papers(stages):
    many = 3 * stages
    assert in_flight("1f1b", stages, many) == list(range(stages, 0, -1))
    assert in_flight("zbh1", stages, many) == [stages] * stages
    assert max(in_flight("zbv", stages, many)) == stages
    half, least = (max(in_flight(name, stages, many)) for name in ("v-half", "v-min"))
    # A half and a third, and what is computed at the turns of the V.
    assert stages / 2 <= half <= stages / 2 + 1.5
    assert stages / 3 <= least <= stages / 3 + 4 / 3


def even(layers=8):
    """Return a model whose stages take equally long: it has no words."""
    return Transformer("even", layers, 4096, 32, 16384, 0, 1024)


def stepped(schedule, model=None, *, gpu="h100-sxm", **more):
    degrees = {"pipeline": 4, "schedule": schedule} | more.pop("degrees", {})
    return workload(
        model or even(), Parallelism(**degrees), gpu=gpu, **{"batch": 16, "microbatches": 16} | more
    )


def test_schedules_do_the_same_work():
    times = KernelTimes(GPUS["h100-sxm"], efficiency=0.5)
    sums, took = {}, {}
    for name in SCHEDULES:
        step = stepped(name, gpu=times)
        # Passes of parameters' gradients are computations of their own: their sum is what matters.
        sums[name] = step.model_flops, sum(sum(one.flops) for one in step.stages)
        sim = anb.Simulation(step)
        sim.run()
        took[name] = sim.result.time_ps
    assert len(set(sums.values())) == 1
    assert took["zbv"] < took["v-half"] < took["zbh1"] < took["v-min"] < took["1f1b"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_memory_is_that_of_the_passes_in_flight(schedule):
    stages, many = 4, 16
    degrees = Parallelism(pipeline=stages, schedule=schedule)
    model = even(16)
    job = Job(degrees, model.sequence, many, many)
    each = rank_memory(model, Job(Parallelism(pipeline=stages), model.sequence, 1, 1), 0).activations
    held = [rank_memory(model, job, stage).activations for stage in range(stages)]
    assert held == pytest.approx([count * each for count in in_flight(schedule, stages, many)], rel=0.02)


@pytest.mark.parametrize("schedule", DIVIDED)
@pytest.mark.parametrize(
    "model, degrees, more",
    [
        (tiny(), {"tensor": 2, "sequence": True}, {"overlap": ("tensor", "gradients")}),
        (tiny(), {"data": 2, "zero": 3}, {"recompute": "full"}),
        (tiny(tied=True), {"data": 2, "zero": 1}, {"elementwise": True}),
        (tiny(), {"context": 2}, {"recompute": "selective"}),
    ],
)
def test_schedules_go_with_other_parallelism(schedule, model, degrees, more):
    """They end, with the operations of 1F1B, and as much is sent but at the turns of the V."""
    counts = {}
    for name in ("1f1b", schedule):
        step = stepped(
            name, model, degrees={"pipeline": 2, **degrees}, batch=8, microbatches=4, gpu="h100-sxm", **more
        )
        sim = anb.Simulation(step)
        sim.run()
        assert sim.result.finished
        counts[name] = step.model_flops
    assert counts["1f1b"] == counts[schedule]


def test_both_ends_of_a_v_are_on_the_first_stage():
    model = tiny(tied=True)
    stages = [units(model, Parallelism(pipeline=2, schedule="zbv"), stage) for stage in range(2)]
    flat = [key for stage in stages for chunk in stage for key in chunk]
    assert Counter(flat) == Counter([*range(model.layers), EMBEDDING, HEAD])
    assert stages[0][0][0] == EMBEDDING
    assert stages[0][1][-1] == HEAD
    assert stages[1][0][-1] + 1 == stages[1][1][0]
    step = workload(model, Parallelism(pipeline=2, schedule="zbv"), batch=4, microbatches=4)
    names = [name for one in step.stages for name in one.names]
    assert not any("ends grads" in name for name in names)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_estimates_are_those_of_a_simulation(schedule):
    step = stepped(schedule, even(16))
    sim = anb.Simulation(step)
    sim.run()
    cluster = machine(step)
    network = CollectiveTimes(cluster.network, cluster.system)
    assert step.plan is not None
    assert step.times is not None
    model, job = step.plan
    estimate = estimate_step(model, job, step.times, network)
    assert estimate.step_ns * 1000 == pytest.approx(sim.result.time_ps, rel=0.08)


def test_options_and_mistakes():
    job = Job(Parallelism(pipeline=4, data=2, schedule="v-half"), 256, 16, 8)
    assert job.parallelism.interleave == 2
    assert options_of(job) == "--pp 4 --dp 2 --schedule v-half --batch 16 --microbatches 8"
    for degrees, what in (
        (
            {"pipeline": 4, "schedule": "gpipe"},
            "unknown schedule 'gpipe'; known: 1f1b, v-half, v-min, zbh1, zbv",
        ),
        ({"schedule": "zbv"}, "the schedule zbv needs more than one stage"),
        ({"pipeline": 4, "schedule": "zbh1", "interleave": 2}, "2 chunks, but the schedule zbh1 has 1"),
    ):
        with pytest.raises(InputError, match=what):
            Parallelism(**degrees)
    with pytest.raises(InputError, match="decode has no backward passes"):
        Job(Parallelism(pipeline=2, schedule="zbh1"), 16, 4, 2, mode="decode")
    with pytest.raises(InputError, match="16 stages and chunks, but only 8 layers"):
        stepped("v-min", degrees={"pipeline": 8})
