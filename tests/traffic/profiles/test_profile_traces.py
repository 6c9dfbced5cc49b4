"""Profiles of traces, scaled, against the same job generated at its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astranb.chakra import NodeType, TraceBuilder, write
from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.traffic import profile_traces
from astranb.workload.models import MODELS, ModelStep, Parallelism, Transformer, workload
from tests.workload.models.support import tiny


def traced(folder: Path, model: Any, degrees: Parallelism, **more: Any) -> Path:
    prefix = folder / "small"
    workload(model, degrees, gpu="h100-sxm", **more).write(prefix)
    return prefix


def llama(layers: int) -> Transformer:
    """Llama 3 8B with fewer layers: a step of it is quickly written."""
    one = MODELS["llama3-8b"]
    assert isinstance(one, Transformer)
    return tiny(
        layers=layers, hidden=one.hidden, heads=one.heads, kv_heads=one.kv_heads, ffn=one.ffn,
        vocab=one.vocab, gated=True, norm="rms", sequence=4096,
    )  # fmt: skip


def gpt(layers: int) -> Transformer:
    return tiny(
        layers=layers, hidden=1024, heads=16, ffn=4096, vocab=50257, sequence=2048, biases=True,
        positions=2048, tied=True,
    )  # fmt: skip


def assert_equal(one: ModelStep, other: ModelStep) -> None:
    """Return whether each rank of each stage has the same trace file, byte by byte."""
    assert one.ranks == other.ranks
    assert one.groups == other.groups
    for stage in range(one.parallelism.pipeline):
        first = stage * one.parallelism.per_stage
        for rank in (first, first + one.parallelism.per_stage // 2 + 1):
            assert one.trace_bytes(rank) == other.trace_bytes(rank), rank


@pytest.mark.parametrize("replicas", [16, 128])
@pytest.mark.parametrize(
    "model,degrees",
    [
        (llama(4), Parallelism(data=2, tensor=2, pipeline=2)),
        (gpt(4), Parallelism(data=2, tensor=4)),
        (gpt(4), Parallelism(data=2, pipeline=4, zero=1)),
        (llama(2), Parallelism(data=2, tensor=4, sequence=True)),
        (llama(4), Parallelism(data=2, tensor=2, context=2)),
        (llama(4), Parallelism(data=2, tensor=2, pipeline=2, interleave=2)),
    ],
    ids=["tp-pp", "tp", "pp-zero1", "sp", "cp", "interleaved"],
)
def test_more_replicas_are_exactly_the_generated_job(
    model: Transformer, degrees: Parallelism, replicas: int, tmp_path: Path
) -> None:
    """8 ranks, profiled and scaled to 64 and 512: what is generated for so many, byte by byte."""
    micro = 4
    prefix = traced(tmp_path, model, degrees, batch=2 * micro, microbatches=micro)
    larger = Parallelism(**{**vars(degrees), "data": replicas, "interleave": 1})
    found = profile_traces(prefix, larger)
    exact = Parallelism(**{**vars(degrees), "data": replicas})
    direct = workload(model, exact, batch=replicas * micro, microbatches=micro, gpu="h100-sxm")
    if not degrees.zero:
        assert_equal(found.step, direct)
        return
    # A part of the parameters is rounded up, and its update's time down or up, to a nanosecond.
    assert worst(found.step, direct) < {"flops": 1e-9, "bytes": 1e-9, "duration_ns": 1e-4}


class Differences(dict[str, float]):
    """Relative differences of two steps with the same operations: the worst of any, or of all together."""

    def __init__(self, one: ModelStep, other: ModelStep, *, together: bool) -> None:
        super().__init__()
        self.together = together
        for here, there in zip(one.stages, other.stages, strict=True):
            assert here.kind == there.kind
            assert here.names == there.names
            assert here.collective == there.collective
            assert here.group == there.group
            assert here.deps == there.deps
            for name, column in (("flops", "flops"), ("bytes", "size")):
                self._add(name, getattr(here, column), getattr(there, column))
        for took, wanted in zip(one.durations_ns(), other.durations_ns(), strict=True):
            self._add("duration_ns", took, wanted)

    def _add(self, name: str, here: Any, there: Any) -> None:
        a, b = (np.array(one, np.float64) for one in (here, there))
        if self.together:
            a, b = a.sum(keepdims=True), b.sum(keepdims=True)
        self[name] = max(self.get(name, 0.0), float((np.abs(a - b) / np.maximum(b, 1)).max()))

    def __lt__(self, limits: dict[str, float]) -> bool:
        return all(value < limits[name] for name, value in self.items())


def worst(one: ModelStep, other: ModelStep) -> Differences:
    return Differences(one, other, together=False)


def in_all(one: ModelStep, other: ModelStep) -> Differences:
    return Differences(one, other, together=True)


@pytest.mark.parametrize(
    "degrees,target,limits",
    [
        (Parallelism(data=2, tensor=2), Parallelism(data=4, tensor=8), (1e-3, 0.34, 0.35)),
        (Parallelism(data=2, tensor=4, sequence=True), Parallelism(data=4, tensor=8), (1e-3, 0.25, 0.13)),
    ],
    ids=["tp", "sp"],
)
def test_more_parts_of_matrices_are_near_the_generated_job(
    degrees: Parallelism, target: Parallelism, limits: tuple[float, ...], tmp_path: Path
) -> None:
    model = llama(2)
    prefix = traced(tmp_path, model, degrees, batch=2, microbatches=1)
    found = profile_traces(prefix, target)
    direct = workload(
        model, Parallelism(**{**vars(target), "sequence": degrees.sequence}), batch=4, microbatches=1,
        gpu="h100-sxm",
    )  # fmt: skip
    # Activations between matrices, which every rank has whole, and what kernels take anyway.
    assert in_all(found.step, direct) < dict(zip(("flops", "bytes", "duration_ns"), limits, strict=True))
    for here, there in zip(found.step.stages, direct.stages, strict=True):
        sums = [row for row, group in enumerate(here.group) if group == 0]
        assert [here.size[row] for row in sums] == [there.size[row] for row in sums]


def test_larger_microbatches_are_near_the_generated_job(tmp_path: Path) -> None:
    model, degrees = llama(2), Parallelism(data=2, tensor=2, pipeline=2)
    prefix = traced(tmp_path, model, degrees, batch=4, microbatches=2)
    found = profile_traces(prefix, Parallelism(data=8, tensor=2, pipeline=2), micro=2, tokens=4 * 4096)
    direct = workload(
        model, Parallelism(data=8, tensor=2, pipeline=2), batch=32, microbatches=2, gpu="h100-sxm"
    )
    # Parameters are read once, however many sequences there are.
    assert in_all(found.step, direct) < {"flops": 1e-9, "bytes": 0.5, "duration_ns": 0.11}
    assert found.step.tokens == direct.tokens
    for here, there in zip(found.step.stages, direct.stages, strict=True):
        moved = [row for row, kind in enumerate(here.kind) if kind != NodeType.COMP]
        assert [here.size[row] for row in moved] == [there.size[row] for row in moved]


def test_a_rank_of_each_stage_is_enough(tmp_path: Path) -> None:
    degrees = Parallelism(data=2, tensor=2, pipeline=2)
    prefix = traced(tmp_path, gpt(2), degrees, batch=4, microbatches=2)
    for rank in (0, 1, 3, 4, 6, 7):
        Path(f"{prefix}.{rank}.et").unlink()
    larger = Parallelism(data=32, tensor=2, pipeline=2)
    found = profile_traces(prefix, larger)
    assert_equal(found.step, workload(gpt(2), larger, batch=64, microbatches=2, gpu="h100-sxm"))
    assert found.assumptions["traces"].startswith("of 2 ranks")
    Path(f"{prefix}.2.et").unlink()
    with pytest.raises(InputError, match="no rank of pipeline stage 0 was traced; trace one of 0 to 3"):
        profile_traces(prefix)


def test_experts_keep_their_ranks(tmp_path: Path) -> None:
    model = tiny(layers=2, experts=8, top_k=2, gated=True)
    prefix = traced(tmp_path, model, Parallelism(data=4, tensor=2, expert=2), batch=4)
    larger = Parallelism(data=32, tensor=2, expert=2)
    found = profile_traces(prefix, larger)
    assert found.step.parallelism == larger
    assert_equal(found.step, workload(model, larger, batch=32, gpu="h100-sxm"))
    with pytest.raises(InputError, match="from expert 2 to 1: exchanges of tokens are no operations then"):
        profile_traces(prefix, Parallelism(data=32, tensor=2))


def test_more_ranks_of_experts_are_near_the_generated_job(tmp_path: Path) -> None:
    model = tiny(layers=2, experts=8, top_k=2, gated=True)
    prefix = traced(tmp_path, model, Parallelism(data=4, tensor=2, expert=2), batch=4)
    larger = Parallelism(data=32, tensor=2, expert=8)
    found = profile_traces(prefix, larger)
    direct = workload(model, larger, batch=32, gpu="h100-sxm")
    # A rank reads and updates fewer experts: of so small a model that is most of what moves.
    assert in_all(found.step, direct) < {"flops": 0.07, "bytes": 1.3, "duration_ns": 0.01}
    for here, there in zip(found.step.stages, direct.stages, strict=True):
        moved = [row for row, kind in enumerate(here.kind) if kind != NodeType.COMP]
        assert [here.size[row] for row in moved] == [there.size[row] for row in moved]


def test_without_durations_the_roofline_gives_them(tmp_path: Path) -> None:
    prefix = tmp_path / "small"
    step = workload(gpt(2), Parallelism(data=2, tensor=2))
    step.write(prefix)
    found = profile_traces(prefix, gpu="a100-sxm")
    (took,) = found.step.durations_ns()
    program = found.step.stages[0]
    row = program.flops.index(max(program.flops))
    assert took[row] == max(-(-program.flops[row] * 10**9 // (312 * 10**12)),
                            -(-program.size[row] * 10**9 // (2039 * 10**9)))  # fmt: skip
    assert "100% of the peak rates of a100-sxm" in found.assumptions["durations"]


def test_a_scaled_job_takes_as_long_as_the_generated_one(tmp_path: Path) -> None:
    degrees = Parallelism(data=2, tensor=2, pipeline=2, zero=1)
    prefix = traced(tmp_path, gpt(2), degrees, batch=8, microbatches=4)
    larger = Parallelism(data=32, tensor=2, pipeline=2, zero=1)
    found = profile_traces(prefix, larger)
    direct = workload(gpt(2), larger, batch=128, microbatches=4, gpu="h100-sxm")
    here, there = (simulate(one) for one in (found.workload(), direct.on()))
    assert here.end_ns == pytest.approx(there.end_ns, rel=1e-6)
    assert (here.messages, here.message_bytes) == (there.messages, there.message_bytes)


@pytest.mark.parametrize(
    "change,text",
    [
        ({"pipeline": 4}, "from 2 to 4 stages: none between the first and the last was traced"),
        ({"context": 2}, "the traced job has context 1, not 2"),
        ({"data": 1}, "from data 2 to 1: sums of gradients are no operations then"),
        ({"tensor": 1}, "from tensor 2 to 1"),
        ({"interleave": 2}, "the traced job has interleave 1, not 2"),
    ],
)
def test_what_does_not_follow_from_the_traces_is_refused(
    change: dict[str, int], text: str, tmp_path: Path
) -> None:
    degrees = Parallelism(data=2, tensor=2, pipeline=2)
    prefix = traced(tmp_path, tiny(), degrees, batch=4, microbatches=2)
    with pytest.raises(InputError, match=text):
        profile_traces(prefix, Parallelism(**{**vars(degrees), **change}))


def test_one_replica_tells_nothing_of_sums(tmp_path: Path) -> None:
    prefix = traced(tmp_path, tiny(), Parallelism(tensor=4))
    with pytest.raises(InputError, match="from data 1 to 2: traces of 1 tell nothing of sums of gradients"):
        profile_traces(prefix, Parallelism(data=2, tensor=4), traced=Parallelism(tensor=4))


def test_groups_that_can_be_either_have_to_be_told(tmp_path: Path) -> None:
    """All ranks in one group, and no stream that tells sums of gradients from those of activations."""
    prefix = tmp_path / "step"
    for rank in range(4):
        step = TraceBuilder()
        step.collective("all_reduce", 1024, after=step.compute("work", num_ops=10, tensor_size=10))
        write(step.build(), f"{prefix}.{rank}.et")
    with pytest.raises(InputError, match="groups of 4 ranks can be data 4 or tensor 4; say which"):
        profile_traces(prefix)
    found = profile_traces(prefix, traced=Parallelism(data=4))
    assert found.communication()[0]["group"] == "data"
    with pytest.raises(InputError, match="data 2, tensor 2 does not explain why tensor"):
        profile_traces(prefix, traced=Parallelism(data=2, tensor=2))


def test_ranks_of_a_stage_that_differ_are_refused(tmp_path: Path) -> None:
    prefix = tmp_path / "step"
    for rank in range(2):
        step = TraceBuilder()
        step.collective("all_reduce", 1024, after=step.compute("work", num_ops=10 + rank, tensor_size=10))
        write(step.build(), f"{prefix}.{rank}.et")
    with pytest.raises(InputError, match="ranks 0 and 1 of stage 0 differ in FLOPs"):
        profile_traces(prefix, traced=Parallelism(data=2))
    with pytest.raises(InputError, match=r"no trace none\.RANK\.et"):
        profile_traces(tmp_path / "none")
