"""Stages of profiled units, without PyTorch: the schedule, messages, sums and memory of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import CollectiveType, NodeType
from astranb.core.errors import InputError
from astranb.traffic.profiles.units import (
    ProfiledModel,
    ProfiledUnit,
    UnitSegment,
    _balanced,
    stages_of,
    unit_memory,
)
from astranb.workload.kernels import GPUS, KernelTimes, Stream
from astranb.workload.models import Job, ModelStep, Parallelism
from astranb.workload.models.program import Cost
from tests.workload.models.support import waiting_ranks

REDUCE_SCATTER = int(CollectiveType.REDUCE_SCATTER)


def unit(name: str, flops: int, received: int, *, summed: int = 64, kept: int = 100) -> ProfiledUnit:
    def segments(factor: int) -> tuple[UnitSegment, ...]:
        cost = Cost(factor * flops, 10, kernels=(Stream(10),))
        return (UnitSegment(cost, summed), UnitSegment(cost))

    return ProfiledUnit(name, segments(1), segments(2), 1000, received, kept)


def model(count: int = 6, tied: int = 0) -> ProfiledModel:
    units = tuple(unit(f"layer{number}", 100 + number, 1000 + number) for number in range(count))
    return ProfiledModel(unit("before", 7, 0), units, unit("behind", 9, 3000), tied)


def job(degrees: Parallelism, microbatches: int = 4) -> Job:
    return Job(degrees, 1, 2 * microbatches * degrees.data, microbatches)


@pytest.mark.parametrize(
    "degrees",
    [
        Parallelism(data=2, tensor=2, pipeline=3),
        Parallelism(data=2, pipeline=2, interleave=2, zero=1),
        Parallelism(data=4, tensor=2, zero=3),
        Parallelism(tensor=2, pipeline=2, zero=2, data=2),
    ],
)
@pytest.mark.parametrize("balance", ["layers", "flops"])
def test_no_rank_waits_for_ever(degrees: Parallelism, balance: str) -> None:
    stages = stages_of(model(tied=10), job(degrees), balance)
    step = ModelStep(degrees, stages, 8, KernelTimes(GPUS["h100-sxm"]))
    assert waiting_ranks(step) == []
    done = sum(
        sum(one.flops[row] for row in range(len(one)) if one.names[row] != "optimizer") for one in stages
    )
    # Two segments, of which the backward ones have twice the operations.
    assert done == 4 * 6 * (7 + 9 + sum(100 + number for number in range(6)))


def test_messages_have_the_bytes_of_the_unit_behind() -> None:
    first, second = stages_of(model(), job(Parallelism(pipeline=2)))
    sizes = {
        (kind, size)
        for program in (first, second)
        for kind, size in zip(program.kind, program.size, strict=True)
        if kind in (NodeType.COMM_SEND, NodeType.COMM_RECV)
    }
    assert sizes == {(NodeType.COMM_SEND, 1003), (NodeType.COMM_RECV, 1003)}


def test_parameters_of_both_ends_are_summed_once() -> None:
    alone, *_ = stages_of(model(tied=50), job(Parallelism(data=2)))
    sums = sorted(
        size for size, kind in zip(alone.size, alone.kind, strict=True) if kind == NodeType.COMM_COLL
    )
    assert sums == [2 * 1000] * 8
    first, last = stages_of(model(tied=50), job(Parallelism(data=2, pipeline=2)))
    assert sorted(first.size[row] for row, group in enumerate(first.group) if group >= 0) == [
        100,
        *[2000] * 4,
    ]
    assert sorted(last.size[row] for row, group in enumerate(last.group) if group >= 0) == [
        100,
        *[2000] * 3,
        2100,
    ]


def test_gradients_are_summed_in_buckets() -> None:
    """Units of 2,000 bytes of gradients, from the last to the first: a bucket is full with two of them."""
    (program,) = stages_of(model(), job(Parallelism(data=2)), bucket_bytes=3000)
    sums = [row for row, group in enumerate(program.group) if group >= 0]
    assert [program.size[row] for row in sums] == [4000] * 4
    assert [program.names[row] for row in sums] == [
        "L5 to head grads 3", "L3 to L4 grads 3", "L1 to L2 grads 3", "embedding to L0 grads 3",
    ]  # fmt: skip
    (program,) = stages_of(model(), job(Parallelism(data=2, zero=1)), bucket_bytes=10**9)
    assert (
        sum(program.size[row] for row, kind in enumerate(program.collective) if kind == REDUCE_SCATTER)
        == 16000
    )
    step = ModelStep(Parallelism(data=2), [program], 8, KernelTimes(GPUS["h100-sxm"]))
    assert waiting_ranks(step) == []


def test_memory_of_a_stage() -> None:
    degrees = Parallelism(data=2, pipeline=2)
    first, last = stages_of(model(), job(degrees))
    # Two microbatches are under way in the first stage: the embedding and three layers of each.
    assert unit_memory(model(), job(degrees), first) == 4000 * (2 + 2 + 12) + 2 * 4 * 100
    assert unit_memory(model(), job(degrees), last) == 4000 * (2 + 2 + 12) + 4 * 100
    divided = Parallelism(data=2, pipeline=2, zero=3)
    program = stages_of(model(), job(divided))[1]
    assert unit_memory(model(), job(divided), program) == 2000 * (2 + 2 + 12) + 4 * 100


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_no_division_has_a_smaller_largest_part(flops: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(flops)))

    def least(rest: list[int], left: int) -> int:
        if left == 1:
            return sum(rest)
        ends = range(1, len(rest) - left + 2)
        return min(max(sum(rest[:end]), least(rest[end:], left - 1)) for end in ends)

    found = _balanced(flops, parts)
    assert [at for part in found for at in part] == list(range(len(flops)))
    assert all(found)
    assert max(sum(flops[at] for at in part) for part in found) == least(flops, parts)


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(InputError, match="7 stages and chunks of 6 units; take at most 6"):
        stages_of(model(), job(Parallelism(pipeline=7)))
    with pytest.raises(InputError, match="operations of a rank"):
        stages_of(model(9), job(Parallelism(), 1 << 16))
