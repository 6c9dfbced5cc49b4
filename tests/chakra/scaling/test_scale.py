"""Traces of a few ranks scaled to many, against jobs generated at that size."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    Attribute,
    Node,
    NodeType,
    ScaledJob,
    Trace,
    TraceBuilder,
    check,
    link_job,
    rank_faults,
    read_ranks,
    recorded_files,
    scale,
    write,
)
from astranb.chakra.corpus import read_corpus
from astranb.chakra.scaling.parallelism import Parallelism
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import load
from astranb.workload.models import ModelStep, workload
from tests.workload.models.support import tiny

DATA = Path(__file__).resolve().parents[2] / "data" / "recorded"
MICRO = 2


def generated(degrees: Parallelism) -> ModelStep:
    """A job with as many sequences for each replica, however many there are."""
    return workload(tiny(), degrees, batch=MICRO * degrees.data, microbatches=MICRO, gpu="h100-sxm")


def traces_of(step: ModelStep) -> list[Trace]:
    return [step.trace(rank) for rank in range(step.ranks)]


def groups_of(step: ModelStep) -> dict[str, list[int]]:
    return {str(number): members for number, members in step.groups.items()}


def rank_times(folder: Path, prefix: Path, ranks: int) -> np.ndarray:
    """Return the completion time of each rank, on one switch."""
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    (folder / "system.json").write_text(json.dumps({f"{one}-implementation": ["direct"] for one in kinds}))
    (folder / "network.yml").write_text(
        f"topology: [Switch]\nnpus_count: [{ranks}]\nbandwidth: [50]\nlatency: [500]\n"
    )
    groups = Path(f"{prefix}.groups.json")
    return simulate(load(prefix, folder / "system.json", folder / "network.yml", groups=groups)).end_ns


@settings(max_examples=5, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.booleans(), st.sampled_from([3, 4, 7]),
    st.data(),
)  # fmt: skip
def test_more_replicas_are_byte_by_byte_the_generated_job(tensor, pipeline, context, sequence, data, drawn):
    """The law of replicas, from two: whatever the plan, and however few ranks were traced."""
    small = Parallelism(2, tensor, pipeline, context, sequence=sequence and tensor > 1)
    few, many = generated(small), generated(replace(small, data=data))
    each = [range(small.per_stage * stage, small.per_stage * (stage + 1)) for stage in range(pipeline)]
    kept = {rank for ranks in each for rank in drawn.draw(st.sets(st.sampled_from(ranks), min_size=1))}
    traces = {rank: few.trace(rank) for rank in sorted(kept)}
    job = scale(traces, many.ranks, groups=groups_of(few), traced=replace(small, sequence=False))
    assert (job.plan.ranks, job.programs, job.groups) == (many.ranks, pipeline, many.groups)
    assert all(job.trace_bytes(rank) == many.trace_bytes(rank) for rank in range(many.ranks))


@pytest.mark.parametrize("degrees", [Parallelism(2, 2, 2), Parallelism(2, 4), Parallelism(8)], ids=str)
def test_eight_ranks_become_1024_of_the_same_bytes(degrees: Parallelism, tmp_path: Path) -> None:
    """All groups, peers, sizes, durations and dependencies; the plan is recognized."""
    generated(degrees).write(tmp_path / "few")
    many = generated(replace(degrees, data=degrees.data * 128))
    job = scale(tmp_path / "few", 1024)
    assert (job.traced, job.plan, job.groups) == (degrees, many.parallelism, many.groups)
    assert job.nodes == many.nodes
    assert all(job.trace_bytes(rank) == many.trace_bytes(rank) for rank in range(1024))
    assert job.assumptions["traced job"].startswith("8 ranks")


@pytest.mark.parametrize("zero", [1, 3])
def test_shards_of_zero_are_near(zero: int) -> None:
    """The worst case: a shard is rounded up to whole elements, and its update to nanoseconds."""
    small = Parallelism(2, 2, 2, zero=zero)
    few, many = generated(small), generated(replace(small, data=32))
    job = scale(traces_of(few), 128, groups=groups_of(few))
    assert job.traced.zero == 1
    for rank in (0, 77):
        here, there = job.trace(rank), many.trace(rank)
        for name in ("type", "comm_type", "comm_src", "comm_dst", "comm_tag"):
            assert np.array_equal(getattr(here, name), getattr(there, name)), name
        assert here.parents.flat.tolist() == there.parents.flat.tolist()
        assert np.abs(here.comm_size - there.comm_size).max() <= 2  # an element
        took = here.integers("duration_ns"), there.integers("duration_ns")
        updates = np.array([(here.names[row] or "").startswith("optimizer") for row in range(len(here))])
        assert np.array_equal(took[0][~updates], took[1][~updates])


def test_the_scaled_job_takes_as_long_as_the_generated_one(tmp_path: Path) -> None:
    small = Parallelism(2, 2, 2)
    generated(small).write(tmp_path / "few")
    scale(tmp_path / "few", 32).write(tmp_path / "many")
    direct = generated(replace(small, data=8))
    direct.write(tmp_path / "direct")
    here, there = (rank_times(tmp_path, tmp_path / name, 32) for name in ("many", "direct"))
    assert np.array_equal(here, there)
    assert here.max() > rank_times(tmp_path, tmp_path / "few", 8).max()


@pytest.mark.parametrize(
    "small,layers,micro,stages",
    [
        pytest.param(Parallelism(2, 2, 3), 12, 8, 6, marks=pytest.mark.slow),
        (Parallelism(2, 1, 4), 12, 3, 2),
        (Parallelism(2, 2, 3, sequence=True), 12, 3, 4),
        (Parallelism(2, 1, 5, zero=1), 15, 4, 3),
        pytest.param(Parallelism(2, 2, 4, 2), 12, 3, 3, marks=pytest.mark.slow),
        (Parallelism(2, 1, 3), 12, 1, 6),
    ],
    ids=str,
)
def test_other_stages_are_those_of_the_generated_job(
    small: Parallelism, layers: int, micro: int, stages: int
) -> None:
    """Layers divided anew, passes in 1F1B's order, every dependency: all but the time of an update."""

    def made(degrees: Parallelism) -> ModelStep:
        batch = micro * degrees.data
        return workload(tiny(layers=layers), degrees, batch=batch, microbatches=micro, gpu="h100-sxm")

    few, many = made(small), made(replace(small, pipeline=stages, data=4))
    job = scale(traces_of(few), groups=groups_of(few), target={"pipeline": stages, "data": 4})
    assert (job.plan.pipeline, job.groups, job.nodes) == (stages, many.groups, many.nodes)
    for rank in range(0, many.ranks, max(1, many.parallelism.per_stage - 1)):
        here, there = job.trace(rank), many.trace(rank)
        for name in ("type", "comm_type", "comm_size", "comm_src", "comm_dst", "num_ops", "tensor_size"):
            off = np.abs(getattr(here, name) - getattr(there, name))
            # A part of ZeRO's is rounded up, with 28 bytes and 12 operations for each parameter.
            most = 56 if small.zero and name in ("num_ops", "tensor_size") else 0
            assert off.max() <= most, name
        assert here.pg_name.values == there.pg_name.values
        assert here.pg_name.index.tolist() == there.pg_name.index.tolist()
        assert here.parents.flat.tolist() == there.parents.flat.tolist()
        assert here.parents.offset.tolist() == there.parents.offset.tolist()
        took = here.integers("duration_ns"), there.integers("duration_ns")
        updates = np.array([there.names[row] == "optimizer" for row in range(len(here))])
        assert np.array_equal(took[0][~updates], took[1][~updates])
    assert rank_faults({rank: job.trace(rank) for rank in range(job.ranks)}) == []
    assert job.assumptions["pipeline parallelism"].startswith(f"{small.pipeline} to {stages}: ")


@pytest.mark.parametrize(
    "small,layers,stages,text",
    [
        (Parallelism(2, 1, 3, zero=3), 12, 6, "stages do not repeat as many equal layers"),
        (Parallelism(2, 1, 3), 13, 4, "stages do not repeat as many equal layers"),
        (
            Parallelism(2, 1, 3),
            12,
            5,
            "12 layers do not divide among 5 stages; take a number that divides them",
        ),
        (
            Parallelism(2, 1, 3),
            12,
            12,
            "12 layers do not divide among 12 stages; take a number that divides them",
        ),
    ],
    ids=str,
)
def test_stages_that_cannot_be_divided_are_refused(
    small: Parallelism, layers: int, stages: int, text: str
) -> None:
    few = workload(tiny(layers=layers), small, batch=8, microbatches=4, gpu="h100-sxm")
    with pytest.raises(InputError, match=text):
        scale(traces_of(few), groups=groups_of(few), target={"pipeline": stages})


def test_passes_in_another_order_are_refused() -> None:
    """All microbatches forward before the first comes back, as GPipe has it."""
    traces = []
    for stage in range(3):
        step = TraceBuilder()
        for number in range(2):
            if stage:
                step.recv(8, stage - 1, rank=stage, tag=number)
            for _ in range(4):
                step.compute("layer", num_ops=10, tensor_size=10)
            if stage < 2:
                step.send(8, stage + 1, rank=stage, tag=number)
        for number in range(2):
            if stage < 2:
                step.recv(8, stage + 1, rank=stage, tag=number)
            for _ in range(4):
                step.compute("back", num_ops=20, tensor_size=10)
            if stage:
                step.send(8, stage - 1, rank=stage, tag=number)
        traces.append(step.build())
    assert scale(traces, 3).plan == Parallelism(pipeline=3)
    with pytest.raises(InputError, match=r"passes of stage [12] are not in the order of 1F1B"):
        scale(traces, target={"pipeline": 6})


@pytest.fixture(scope="module")
def recorded() -> dict[str, ScaledJob]:
    """The recorded jobs of two and four ranks, on 16."""
    jobs = {name: link_job(recorded_files(DATA / name)) for name in ("two", "four")}
    return {name: scale(job.traces, 16, groups=job.groups) for name, job in jobs.items()}


@pytest.mark.parametrize(
    "name,plan,text",
    [
        ("two", Parallelism(data=16, expert=2), "2 ranks: data 2, expert 2"),
        ("four", Parallelism(data=8, tensor=2), "4 ranks: data 2, tensor 2"),
    ],
)
def test_recorded_jobs_grow(
    recorded: dict[str, ScaledJob], name: str, plan: Parallelism, text: str, tmp_path: Path
) -> None:
    """Pairs stay pairs: their collectives and messages; what all ranks do, all 16 do."""
    job = recorded[name]
    assert (job.plan, job.assumptions["traced job"]) == (plan, text)
    job.write(tmp_path / name)
    traces = read_ranks(tmp_path / name)
    for one in traces:
        check(one)
    assert rank_faults(dict(enumerate(traces))) == []
    sent = Counter(
        (rank, int(peer)) for rank, one in enumerate(traces) for peer in one.comm_dst[one.type == 5]
    )
    assert sent == {(rank, rank + 1): 2 for rank in range(0, 16, 2)}
    assert list(job.groups.values()) == [[rank, rank + 1] for rank in range(0, 16, 2)]
    alone = link_job(recorded_files(DATA / name)).traces
    for rank, one in enumerate(traces):
        like = alone[rank % len(alone)]
        assert np.array_equal(one.comm_size, like.comm_size)
        assert np.array_equal(one.integers("duration_ns"), like.integers("duration_ns"))
        roots = one.comm_src[(one.type == NodeType.COMM_COLL) & one.has("comm_src")]
        assert roots.tolist() == [0, 0]
    assert {"all-to-all", "roots", "durations of communication"} <= set(job.assumptions)
    assert rank_times(tmp_path, tmp_path / name, 16).min() > 0


def test_what_is_written_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = tmp_path / "few"
    generated(Parallelism(2, 2, 2)).write(prefix)
    many = str(tmp_path / "many")
    assert main(["chakra", "scale", str(prefix), "-o", many, "--ranks", "32"]) == 0
    shown = capsys.readouterr().out
    assert "32 ranks (data 8, tensor 2, pipeline 2)" in shown
    assert "data parallelism: 2 to 8: a replica's batch and operators are the same" in shown
    about = json.loads(Path(f"{many}.job.json").read_text())
    assert about["plan"] == {"tensor": 2, "context": 1, "data": 8, "pipeline": 2, "expert": 1}
    assert all(f"  {subject}: {text}" in shown for subject, text in about["assumptions"].items())
    (job,) = read_corpus(many)
    assert (job.ranks, job.tensor, job.data, job.pipeline) == (32, 2, 8, 2)
    # Fewer again: the files of further ranks go, and what was there at first is there.
    assert main(["chakra", "scale", many, "-o", many, "--dp", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 8
    assert [one.data for one in read_ranks(many)] == [one.data for one in read_ranks(prefix)]


@pytest.mark.parametrize(
    "options,text",
    [
        (["--ranks", "30"], "30 ranks are not a multiple of a replica's 4 (tensor 2, pipeline 2)"),
        (["--ranks", "32", "--dp", "4"], "are 16 ranks, not 32; leave one of them out"),
        ([], "nothing to scale"),
        (["--pp", "4"], "none between the first and the last was traced; trace three stages or more"),
        (["--pp", "1"], "from pipeline 2 to 1: messages between stages are no operations then"),
        (["--cp", "2"], "the traced job has context 1, not 2"),
        (["--tp", "1"], "from tensor 2 to 1: sums of partial products are no operations then"),
        (["--traced", "dp=4,tp=2", "--ranks", "64"], "dp=4,tp=2"),
        (["--traced", "dp=8", "--ranks", "64"], "data 8 does not explain the group"),
        (["--traced", "dp=x", "--dp", "4"], "no degree 'dp=x'; write dp=2,tp=4,pp=2"),
    ],
)
def test_what_does_not_follow_is_refused(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generated(Parallelism(2, 2, 2)).write(tmp_path / "few")
    assert main(["chakra", "scale", str(tmp_path / "few"), "-o", str(tmp_path / "many"), *options]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert text in shown.replace("data 4, tensor 2 does not explain", "dp=4,tp=2")
    assert not (tmp_path / "many.0.et").exists()


def ring(ranks: int, far: int, group: str | None = None) -> dict[int, Trace]:
    """Ranks that sum gradients, and send to one that is so far away."""
    traces = {}
    for rank in range(ranks):
        step = TraceBuilder()
        done = step.compute("work", duration_us=5)
        step.send(8, (rank + far) % ranks, rank=rank, after=done)
        step.recv(8, (rank - far) % ranks, rank=rank)
        step.collective("all_reduce", 64, group=group, after=done)
        traces[rank] = step.build()
    return traces


def test_messages_between_replicas_stay_among_as_many() -> None:
    """Four replicas in a ring become rings of four, with the same neighbours."""
    job = scale(ring(4, 1), 12, traced=Parallelism(data=4))
    peers = [(int(job.trace(rank).comm_dst[1]), int(job.trace(rank).comm_src[2])) for rank in range(12)]
    assert peers[4:8] == [(5, 7), (6, 4), (7, 5), (4, 6)]
    assert rank_faults({rank: job.trace(rank) for rank in range(12)}) == []
    with pytest.raises(InputError, match="another rank of data 4, and 6 is not a multiple"):
        scale(ring(4, 1), 6, traced=Parallelism(data=4))
    some = ring(4, 1)
    del some[2]
    with pytest.raises(InputError, match="another rank of data 4, and not all ranks were traced"):
        scale(some, 8, traced=Parallelism(data=4))


def test_roots_and_groups_of_one_rank() -> None:
    traces = []
    for rank in range(4):
        step = TraceBuilder()
        step.collective("broadcast", 8, root=2)
        step.collective("reduce", 8, root=1 + rank // 2 * 2, group=str(1 + rank // 2))
        step.collective("all_reduce", 8, group=str(10 + rank))
        traces.append(step.build())
    groups = {"1": [0, 1], "2": [2, 3]} | {str(10 + rank): [rank] for rank in range(4)}
    job = scale(traces, 8, groups=groups, traced=Parallelism(data=2, tensor=2))
    for rank in range(8):
        one = job.trace(rank)
        assert (int(one.comm_src[0]), one.pg_name[0]) == (2, None)
        assert int(one.comm_dst[1]) == rank // 2 * 2 + 1
        assert job.groups[int(one.pg_name[1] or 0)] == [rank // 2 * 2, rank // 2 * 2 + 1]
        assert job.groups[int(one.pg_name[2] or 0)] == [rank]


def test_lists_of_groups_are_not_those_of_the_few_ranks() -> None:
    """PyTorch's process groups in a metadata node, which ASTRA-sim reads."""
    listed = """['[{"pg_name": "0", "ranks": [0, 1]}]']"""
    nodes = [
        Node(3, "## process_group:init ##", NodeType.METADATA, inputs=(listed, "[[]]", "['String']")),
        Node(4, "work", NodeType.COMP, data_deps=(3,), duration_us=5),
        Node(
            5,
            "sum",
            NodeType.COMM_COLL,
            (4,),
            attributes={"comm_type": Attribute(0, "int64_val"), "comm_size": Attribute(64, "int64_val")},
        ),
    ]
    job = scale([Trace.of(nodes)] * 2, 8, traced=Parallelism(data=2))
    assert job.trace(5).node(0).inputs == ("['[]']", "[[]]", "['String']")
    assert "lists of groups" in job.assumptions
    assert job.trace(5).parents.of(1).tolist() == [0]


def test_faulty_traces_are_refused_in_one_line(tmp_path: Path) -> None:
    traces = ring(4, 1, group="1")
    with pytest.raises(InputError, match="unknown group '1'"):
        scale(traces, 8)
    with pytest.raises(InputError, match="rank 3 takes part in a collective of group 1"):
        scale(traces, 8, groups={"1": [0, 1, 2]})
    with pytest.raises(InputError, match="no degrees of parallelism in Megatron's order explain 4 ranks"):
        scale({rank: traces[rank] for rank in range(3)}, 8, groups={"1": [0, 1, 2], "2": [3]})
    with pytest.raises(InputError, match="no rank of pipeline stage 1"):
        scale({0: generated(Parallelism(2, pipeline=2)).trace(0)}, 8, traced=Parallelism(2, pipeline=2),
              groups=groups_of(generated(Parallelism(2, pipeline=2))))  # fmt: skip
    write(traces[0], tmp_path / "x.0.et")
    with pytest.raises(InputError, match=r"no trace none\.RANK\.et"):
        scale(tmp_path / "none", 8)
    step = TraceBuilder()
    step.memory_load("1 MiB", after=step.compute("work"))
    step.collective("reduce_scatter", 64)
    with pytest.raises(InputError, match="what the memory outside the GPUs holds does not follow"):
        scale([step.build()] * 2, 8, traced=Parallelism(data=2))
    with pytest.raises(InputError, match="unknown rank 8"):
        scale(ring(4, 1), 8, traced=Parallelism(data=4)).trace(8)
