"""Several jobs on one network: laws, placements, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)
from astranb.workload.jobs import FreeGpus
from astranb.workload.models import Parallelism, workload

SYSTEM = System.from_document(
    {
        "all-reduce-implementation": ["ring"],
        "all-gather-implementation": ["direct"],
        "all-to-all-implementation": ["direct"],
        "preferred-dataset-splits": 2,
    }
)
FULL = DimensionNetwork(["FullyConnected"], [8], [50], [500])
RING = DimensionNetwork(["Ring"], [8], [50], [500])
MESSAGES = ("analytical", "congestion")


@st.composite
def programs(draw: Any, ranks: int) -> Workload:
    """Draw what some ranks do: computations, collectives of all or of halves, messages around a ring."""
    kinds = draw(st.lists(st.sampled_from(["compute", "all", "half", "pass"]), min_size=1, max_size=5))
    names = draw(
        st.lists(st.sampled_from(["all_reduce", "all_gather", "all_to_all"]), min_size=5, max_size=5)
    )
    sizes = draw(st.lists(st.integers(1, 1 << 20), min_size=5, max_size=5))
    halves = {7: list(range(ranks // 2)), 9: list(range(ranks // 2, ranks))}
    operations = []
    for rank in range(ranks):
        rows: list[dict[str, int]] = []
        deps: list[tuple[int, ...]] = []
        for kind, name, size in zip(kinds, names, sizes, strict=False):
            last = (len(rows) - 1,) if rows else ()
            if kind == "compute":
                rows.append({"kind": COMPUTE, "duration_ns": size + rank})
            elif kind == "pass":
                rows.append({"kind": SEND, "peer": (rank + 1) % ranks, "bytes": size, "tag": 3})
                rows.append({"kind": RECV, "peer": (rank - 1) % ranks, "bytes": size, "tag": 3})
                deps.append(last)
            else:
                group = -1 if kind == "all" else 7 if rank in halves[7] else 9
                collective = COLLECTIVE_NAMES[name]
                rows.append({"kind": COLLECTIVE, "collective": collective, "bytes": size, "group": group})
            deps.append(last)
        operations.append(Operations.of(rows, deps))
    return Workload(operations, FULL, SYSTEM, groups=halves)


def finished(infra: Any, what: Any = None, **options: Any) -> anb.Simulation:
    sim = anb.Simulation(infra, what, **options)
    assert sim.run().why == "end"
    return sim


def ends(sim: anb.Simulation) -> list[int]:
    return [row["end_ps"] for row in sim.result.per_rank()]


@settings(max_examples=15, deadline=None)
@given(programs(8), st.sampled_from(MESSAGES))
def test_the_only_job_takes_as_long_as_without_jobs(program: Workload, fidelity: str) -> None:
    without = finished(RING, program, fidelity=fidelity)
    job = finished(RING, jobs=[anb.Job(program)], fidelity=fidelity)
    assert (ends(job), job.counts) == (ends(without), without.counts)
    assert job.result.jobs(alone=True)["slowdown"].tolist() == [1.0]


@settings(max_examples=15, deadline=None)
@given(programs(4), programs(4), st.sampled_from(MESSAGES), st.permutations(range(8)))
def test_jobs_that_share_no_link_take_as_long_as_alone(
    a: Workload, b: Workload, fidelity: str, ranks: list[int]
) -> None:
    """Every pair of GPUs has links of its own."""
    jobs = [anb.Job(a, ranks[:4], name="a"), anb.Job(b, ranks[4:], name="b")]
    found = finished(FULL, jobs=jobs, fidelity=fidelity).result.jobs(alone=True)
    assert (found["duration_ps"] == found["alone_ps"]).all()


@settings(max_examples=15, deadline=None)
@given(programs(4), st.integers(1, 10**7), st.sampled_from(MESSAGES))
def test_a_later_start_shifts_everything(program: Workload, start_ns: int, fidelity: str) -> None:
    ranks = [1, 3, 4, 6]
    now, later = (
        finished(RING, jobs=[anb.Job(program, ranks, start=start * 1000)], fidelity=fidelity)
        for start in (0, start_ns)
    )
    shifted = [end + (rank in ranks) * start_ns * 1000 for rank, end in enumerate(ends(now))]
    assert ends(later) == shifted
    assert later.result.jobs()["duration_ps"].tolist() == now.result.jobs()["duration_ps"].tolist()
    assert later.result.per_rank()[1]["compute_ps"] == now.result.per_rank()[1]["compute_ps"]


@settings(max_examples=15, deadline=None)
@given(programs(4), programs(4), st.permutations(range(8)))
def test_jobs_on_shared_links_send_the_bytes_of_each(a: Workload, b: Workload, ranks: list[int]) -> None:
    jobs = anb.Jobs([anb.Job(a, ranks[:4], name="a"), anb.Job(b, ranks[4:], name="b")])
    together, *apart = (
        finished(RING, what, fidelity="congestion") for what in (jobs, jobs.only("a"), jobs.only("b"))
    )
    sent = [sim.engine.run.result().message_bytes for sim in (together, *apart)]
    assert sent[0] == sent[1] + sent[2]
    links = together.result.to_dataframe("links")
    shared = together.result.to_dataframe("job_links")
    if len(links):
        assert shared.groupby("link", sort=False)["bytes"].sum().tolist() == links["bytes"].tolist()
    # Not that each job ends later than alone: another order of messages can be a better one (Graham, 1969).
    machine = together.engine.machine
    assert (machine.used.bytes / machine.wires.rate_Bpns <= together.now_ps / 1000).all()


@pytest.mark.parametrize("pattern", ["uniform", "permutation", "incast"])
def test_background_traffic_is_the_same_with_the_same_seed(pattern: str) -> None:
    def run(seed: int) -> anb.Simulation:
        job = anb.Job.background(0.3, "64 KiB", pattern, until="50 us", seed=seed)
        return finished(RING, jobs=[job], fidelity="congestion")

    assert run(1).state_hash() == run(1).state_hash() != run(2).state_hash()


def test_background_traffic_has_its_load() -> None:
    job = anb.Job.background(0.25, "16 KiB", until="4 ms", seed=5)
    sim = finished(RING, jobs=[job], fidelity="analytical")
    sent = sim.engine.run.result().message_bytes
    assert sent / (8 * 50e9 * 4e-3) == pytest.approx(0.25, rel=0.02)
    assert sim.result.jobs()["background"].tolist() == [True]


def test_a_permutation_gives_every_rank_one_target_and_incast_bursts() -> None:
    one = anb.Job.background(0.5, "64 KiB", "permutation", until="1 ms").what.operations(8, 50e9)
    targets = [set(each.rows["peer"][each.rows["kind"] == SEND]) for each in one]
    assert all(len(each) == 1 for each in targets)
    assert set.union(*targets) == set(range(8))
    many = anb.Job.background(0.5, "64 KiB", "incast", until="1 ms").what.operations(8, 50e9)
    received = np.array([np.count_nonzero(each.rows["kind"] == RECV) for each in many])
    assert (received % 7 == 0).all()
    assert received.sum() > 0


def test_jobs_are_told_apart_by_their_names() -> None:
    step = workload("gpt3-125m", Parallelism(data=2, pipeline=2), batch=4)
    ring = anb.collectives.all_reduce("1 MiB", "ring")
    jobs = [anb.Job(step, name="step"), anb.Job(ring, [4, 5], name="b", start="1 us")]
    sim = finished("clos:servers=2", jobs=jobs, fidelity="congestion")
    names = set(sim.result.to_dataframe("operations")["name"])
    assert "b: all_reduce" in names
    assert {name.partition(": ")[0] for name in names} == {"step", "b"}
    assert sim.inspect("rank[4].op[0]")["title"].endswith("(b: start)")
    assert ends(sim)[6:] == [0] * 10


def test_repetitions_follow_one_another() -> None:
    ring = anb.collectives.all_reduce("1 MiB", "ring")
    once, thrice = (
        finished(RING, jobs=[anb.Job(ring, [0, 1, 2], repeat=n)], fidelity="congestion") for n in (1, 3)
    )
    # A rank begins again while others end.
    assert 2 < thrice.result.time_ps / once.result.time_ps <= 3
    assert thrice.counts["message"] == 3 * once.counts["message"]


def test_roots_and_messages_go_to_the_ranks_of_the_job() -> None:
    cast = anb.collectives.broadcast("1 MiB", root=1)
    sim = finished(RING, jobs=[anb.Job(cast, [6, 2, 4], name="a")], fidelity="congestion")
    assert {row["job"] for row in sim.result.table("job_links")} == {"a"}
    assert sorted(rank for rank, end in enumerate(ends(sim)) if end) == [2, 4, 6]


def test_a_saved_run_knows_its_jobs(tmp_path: Any) -> None:
    ring = anb.collectives.all_reduce("256 KiB", "ring")
    for fidelity in ("congestion", "cacheline"):
        sim = finished(
            "clos:servers=1", jobs=[anb.Job(ring, [0, 2]), anb.Job(ring, [1, 3])], fidelity=fidelity
        )
        sim.save(tmp_path / "run")
        loaded = anb.Simulation.load(tmp_path / "run")
        assert loaded.result.table("jobs") == sim.result.table("jobs")
        assert sim.fork().result.jobs(alone=True)["slowdown"].ge(1).all()
        with pytest.raises(InputError, match="saved"):
            loaded.result.jobs(alone=True)


def test_lines_of_two_jobs_share_links() -> None:
    """On a ring of GPUs they do; behind a switch every GPU has links of its own."""
    ring = anb.collectives.all_reduce("256 KiB", "ring")
    jobs = [anb.Job(ring, [0, 2], name="a"), anb.Job(ring, [1, 3], name="b", start="1 us")]
    sim = finished("ring:gpus=4", jobs=jobs, fidelity="cacheline")
    found = sim.result.jobs(alone=True)
    assert found["slowdown"].min() > 1.1
    assert found["start_ps"].tolist() == [0, 1_000_000]
    assert sim.result.per_rank()[1]["compute_ps"] == 0
    assert {str(step["name"]).partition(": ")[0] for step in sim.result.critical_path().rows()} <= {"a", "b"}
    jobs = [anb.Job(ring, [0, 1]), anb.Job(ring, [2, 3], start="1 us")]
    apart = finished("dgx-h100", jobs=jobs, fidelity="cacheline").result.jobs(alone=True)
    assert apart["slowdown"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "placement, ranks",
    [("contiguous", (5, 6)), ("by node", (8, 9)), ("scattered", (1, 5)), ([11, 3], (11, 3))],
)
def test_placements(placement: Any, ranks: tuple[int, ...]) -> None:
    free = FreeGpus(12, 4)
    free.take("a", [0, 2, 4], 3)
    assert free.take("b", placement, 2) == ranks
    drawn = FreeGpus(12, 4).take("c", "random", 5, seed=3)
    assert drawn == FreeGpus(12, 4).take("c", "random", 5, seed=3) == tuple(sorted(drawn))


RING_8 = anb.collectives.all_reduce("64 KiB", "ring")
ALL_PAIRS = anb.collectives.all_reduce("1 KiB", "allpairs")


@pytest.mark.parametrize(
    "jobs, message",
    [
        (list, "no jobs are given"),
        (lambda: [RING_8], "Collective is not a job"),
        (lambda: [anb.Job("gpt3")], "str cannot be a job"),
        (lambda: [anb.Job(RING_8, [0, 1]), anb.Job(RING_8, [1, 2])], "rank 1 has job job 0 already"),
        (lambda: [anb.Job(RING_8, [0, 0])], "duplicate rank 0"),
        (lambda: [anb.Job(RING_8, [0, 8])], "unknown rank 8"),
        (lambda: [anb.Job(RING_8, gpus=9)], "it needs 9 GPUs, but the network has 8"),
        (lambda: [anb.Job(RING_8, gpus=5), anb.Job(RING_8, gpus=5)], "it needs 5 GPUs, but 3 are free"),
        (lambda: [anb.Job(RING_8, [0, 3]), anb.Job(RING_8, gpus=5)], "no 5 neighbouring GPUs are free"),
        (lambda: [anb.Job(RING_8, []), anb.Job(RING_8)], "the job has no ranks"),
        (lambda: [anb.Job(RING_8), anb.Job(RING_8)], "no GPU is left"),
        (lambda: [anb.Job(RING_8, "near", gpus=2)], "unknown placement 'near'"),
        (lambda: [anb.Job(RING_8, [0], name="a"), anb.Job(RING_8, [1], name="a")], "duplicate job name a"),
        (lambda: [anb.Job(RING_8, [0, 1], repeat=0)], "repeat count must be positive, got 0"),
        (lambda: [anb.Job(anb.collectives.broadcast("1 KiB", root=2), [0, 1])], "root 2 is not one of 2"),
        (
            lambda: [
                anb.Job(RING_8, [0, 1]),
                anb.Job(anb.collectives.all_reduce("1 KiB", "allpairs"), [2, 3]),
            ],
            "jobs job 0 and job 1 do all_reduce by different algorithms",
        ),
        (lambda: [anb.Job.background(1.5, until="1 ms")], "load 1.5 is out of range"),
        (lambda: [anb.Job.background(0.5, until="1 ms", pattern="all")], "unknown pattern 'all'"),
        (
            lambda: [anb.Job.background(0.5, until="1 ms", gpus=1)],
            "traffic between GPUs needs at least 2 GPUs, got 1",
        ),
        (lambda: [anb.Job.background(0.5, until="1 ns", seed=1)], "no message in 1 ns"),
        (lambda: [anb.Job.background(0.5, "1 B", until="1 s")], "messages"),
        (lambda: [anb.Job(workload("gpt3-125m", Parallelism(data=16)))], "it needs 16 GPUs"),
    ],
)
def test_what_cannot_run_is_refused_in_a_line(jobs: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        anb.Simulation(RING, jobs=jobs(), fidelity="congestion")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_jobs_and_something_else_exclude_each_other() -> None:
    with pytest.raises(InputError, match="leave one of them out"):
        anb.Simulation(RING, RING_8, jobs=[anb.Job(RING_8)])


def test_systems_of_jobs_must_agree_unless_one_is_given() -> None:
    a, b = (
        Workload([Operations.of([])] * 2, RING, System.from_document({"endpoint-delay": n})) for n in (5, 9)
    )
    jobs = [anb.Job(a, [0, 1]), anb.Job(b, [2, 3])]
    with pytest.raises(InputError, match="different endpoint_ns: 5 and 9"):
        anb.Simulation(RING, jobs=jobs)
    assert anb.Simulation(RING, anb.Jobs(jobs, system=SYSTEM)).run().why == "end"
