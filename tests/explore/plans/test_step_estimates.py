"""A step's estimate against its simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

import astranb as anb
from astranb.engine.messages import simulate
from astranb.explore import CollectiveTimes, estimate_step
from astranb.explore.algorithms.collective_times import times_on
from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System, Workload
from astranb.workload.models import Job, Parallelism, machine, workload
from astranb.workload.models.library import TRANSFORMERS

CASES = [
    ("llama3-8b", {"data": 8, "zero": 1}, {"batch": 32, "microbatches": 4}),
    ("llama3-8b", {"data": 8, "zero": 3}, {"batch": 32, "microbatches": 4}),
    (
        "llama3-70b",
        {"data": 2, "tensor": 4, "pipeline": 4, "sequence": True, "zero": 1, "interleave": 5},
        {"batch": 32, "microbatches": 16},
    ),
    (
        "llama3-8b",
        {"tensor": 8, "pipeline": 4, "sequence": True},
        {"batch": 16, "microbatches": 16, "overlap": ("tensor",)},
    ),
    (
        "llama3-8b",
        {"data": 2, "context": 2, "tensor": 2, "sequence": True, "zero": 1},
        {"batch": 16, "microbatches": 8},
    ),
    (
        "gpt3-13b",
        {"data": 2, "tensor": 8, "pipeline": 2},
        {"batch": 32, "microbatches": 16, "recompute": "full"},
    ),
    (
        "mixtral-8x7b",
        {"data": 8, "tensor": 2, "expert": 8, "zero": 1, "sequence": True},
        {"batch": 32, "microbatches": 4},
    ),
]


@pytest.mark.parametrize("name, degrees, about", CASES)
def test_an_estimate_is_near_the_simulation(name, degrees, about):
    model, parallelism = TRANSFORMERS[name], Parallelism(**degrees)
    step = workload(model, parallelism, gpu="h100-sxm", **about)
    cluster = machine(step)
    job = Job(parallelism, sequence=model.sequence, **about)
    assert step.times is not None
    network = CollectiveTimes(cluster.network, cluster.system)
    found = estimate_step(model, job, step.times, network)
    sim = anb.Simulation(step)
    sim.run()
    assert found.step_ns * 1000 == pytest.approx(sim.result.time_ps, rel=0.06)
    assert sum(found.parts_ns.values()) == pytest.approx(found.step_ns, abs=2)
    assert found.parts_s["computing"] == found.compute_ns / 1e9
    assert found.step_s == pytest.approx(found.step_ms / 1000)
    assert found.limit == "computing"  # of all of these most of the step
    assert replace(found, exposed_ns=found.step_ns).limit == "collectives"


def test_an_estimate_is_of_the_rank_with_the_largest_share():
    """12 heads on eight ranks: as a simulation of all of them, in which the others wait."""
    model = replace(TRANSFORMERS["gpt3-125m"], layers=3)
    step = workload(model, Parallelism(tensor=8, data=2), batch=4, gpu="h100-sxm", uneven=True)
    assert not step.is_even
    cluster = machine(step)
    assert step.times is not None
    assert step.plan is not None
    found = estimate_step(*step.plan, step.times, CollectiveTimes(cluster.network, cluster.system))
    sim = anb.Simulation(step, fidelity="analytical", record=False)
    sim.run()
    assert found.step_ns * 1000 == pytest.approx(sim.result.time_ps, rel=0.03)


def test_collectives_along_dimensions_take_what_they_take_in_a_step():
    """All groups of a dimension at once; a group that is no whole dimension stays a ring."""
    network = DimensionNetwork(["Switch"] * 3, [4, 2, 4], [300, 25, 25], [500.0, 2000.0, 2000.0])
    chosen = {"all-reduce-implementation": ["ring"] * 3, "collective-optimization": "localBWAware"}
    system = System.from_document({**chosen, "group-implementation": "dimensions"})
    known, rings = (
        CollectiveTimes(network, one) for one in (system, replace(system, group_dimensions=False))
    )
    inner, across, part = list(range(8)), list(range(0, 32, 4)), [0, 1, 2]
    size = 64 << 20
    row = {"kind": COLLECTIVE, "bytes": size}
    for ranks, groups in (
        (inner, [range(n, n + 8) for n in (0, 8, 16, 24)]),
        (across, [range(n, 32, 4) for n in range(4)]),
    ):
        members = dict(enumerate(map(list, groups)))
        of = {rank: number for number, listed in members.items() for rank in listed}
        operations = [Operations.of([{**row, "group": of[rank]}]) for rank in range(32)]
        whole = simulate(Workload(operations, network, system, groups=members))
        assert int(whole.end_ns.max()) == known.collective_ns("all_reduce", ranks, size)
    times = [each.collective_ns("all_reduce", across, size) for each in (known, rings)]
    assert times[0] != times[1]
    assert known.collective_ns("all_reduce", part, size) == rings.collective_ns("all_reduce", part, size)


def test_times_of_collectives_are_kept_by_network_and_system():
    cluster = machine(workload("gpt3-125m", Parallelism(tensor=2)))
    network, system = cluster.network, cluster.system
    known = times_on(network, system)
    assert times_on(replace(network), replace(system)) is known
    others = [times_on(network, replace(system, splits=splits)) for splits in range(11, 15)]
    assert len({id(one) for one in (known, *others)}) == 5
    assert times_on(network, system) is not known  # four of them are kept
