"""Profiles of models: saved and loaded to the bit, and small however many ranks there are."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from astranb.core.errors import InputError
from astranb.traffic import Profile, profile_model
from astranb.workload.kernels import GPUS, KernelTimes, TimedKernel
from astranb.workload.models import ModelStep, Parallelism, workload
from tests.workload.models.support import divided, tiny

_COLUMNS = (
    "kind", "names", "flops", "size", "collective", "group", "peer", "tag", "useful", "counted", "kernels",
    "background", "deps", "computed", "units",
)  # fmt: skip


def assert_same(one: ModelStep, other: ModelStep) -> None:
    """Return whether two steps are the same: every column, and the traces of the first and last rank."""
    assert one.parallelism == other.parallelism
    assert one.plan == other.plan
    assert (one.tokens, one.unit, one.title, one.precision) == (
        other.tokens, other.unit, other.title, other.precision,
    )  # fmt: skip
    for here, there in zip(one.stages, other.stages, strict=True):
        for name in _COLUMNS:
            assert getattr(here, name) == getattr(there, name), name
    for rank in {0, one.ranks - 1}:
        assert one.trace_bytes(rank) == other.trace_bytes(rank)


def saved_and_loaded(profile: Profile, folder: Path) -> Profile:
    profile.save(folder / "profile.json")
    found = Profile.load(folder / "profile.json")
    assert (found.origin, found.source) == (profile.origin, profile.source)
    assert found.assumptions == profile.assumptions
    return found


@settings(max_examples=25, deadline=None)
@given(divided())
def test_a_saved_profile_is_the_same(tmp_path_factory: Any, drawn: Any) -> None:
    model, degrees, options = drawn
    profile = profile_model(model, degrees, **options)
    found = saved_and_loaded(profile, tmp_path_factory.mktemp("profile"))
    assert_same(profile.step, found.step)
    assert found.step.plan == profile.step.plan


@pytest.mark.parametrize("name", ["dlrm", "resnet-50", "deepseek-v3", "gpt3-125m"])
def test_every_kind_of_model_is_saved(name: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"microbatches": 1} if name == "deepseek-v3" else {}
    times = KernelTimes(replace(GPUS["b200-sxm"], kernel_ns=1234), "bf16", launch="graph", sustained=0.8)
    profile = profile_model(name, Parallelism(data=4), gpu=times, **more)
    found = saved_and_loaded(profile, tmp_path).step
    assert_same(profile.step, found)
    assert found.times is not None
    for field in fields(times.gpu):
        assert getattr(found.times.gpu, field.name) == getattr(times.gpu, field.name)
    assert [took.tolist() for took in found.durations_ns()] == [
        took.tolist() for took in profile.step.durations_ns()
    ]


def test_names_with_any_numbers_are_kept(tmp_path: Path) -> None:
    step = workload(tiny(), Parallelism(data=2))
    program = step.stages[0]
    names = ["007", "0", "a00b", "12345678901234567890", "#1 {2}", "", "x-1.50e+3", "é"]
    program.names[: len(names)] = names
    found = saved_and_loaded(Profile(step, "model", "tiny"), tmp_path).step
    assert found.stages[0].names == program.names


def test_recorded_durations_hold_on_every_gpu(tmp_path: Path) -> None:
    step = workload(tiny(), Parallelism(data=2), gpu="h100-sxm")
    program = step.stages[0]
    program.kernels = [(TimedKernel(1000 + row),) if one else () for row, one in enumerate(program.kernels)]
    found = saved_and_loaded(Profile(step, "traces", "tiny"), tmp_path).step
    (took,) = found.durations_ns()
    assert took[program.computed] == 1000 + program.computed
    ideal = KernelTimes(GPUS["a100-sxm"], efficiency=1.0)
    assert ideal.computation_ns(10**15, 10**15, (TimedKernel(7),)) == 7


def test_the_document_does_not_grow_with_the_ranks(tmp_path: Path) -> None:
    sizes = []
    for replicas in (1, 1024):
        profile = profile_model("gpt3-125m", Parallelism(data=2 * replicas, tensor=4, pipeline=2))
        profile.save(tmp_path / "profile.json")
        sizes.append((tmp_path / "profile.json").stat().st_size)
    assert sizes[1] < sizes[0] + 100


def test_what_a_profile_says_of_a_stage() -> None:
    profile = profile_model(tiny(), Parallelism(data=2, tensor=2, pipeline=2), microbatches=4, batch=8)
    rows = {(row["stage"], row["group"], row["collective"]): row for row in profile.communication()}
    activation = 32 * 64 * 2
    assert rows[0, "next stage", "send"] == {
        "stage": 0, "group": "next stage", "ranks": 2, "collective": "send", "count": 4,
        "bytes": 4 * activation,
    }  # fmt: skip
    # Four layers with two sums each, forward and backward, and the embedding's, of four microbatches.
    assert rows[0, "tensor", "all_reduce"]["count"] == 4 * (4 * 4 + 1)
    assert rows[0, "tensor", "all_reduce"]["bytes"] == 4 * (4 * 4 + 1) * activation
    one = profile.computation()[0]
    assert one["flops"] == sum(profile.step.stages[0].flops)
    assert one["duration_ns"] == profile.step.durations_ns()[0].sum() > 0


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    profile_model(tiny(), Parallelism(data=2, tensor=2)).save(file)
    whole = json.loads(file.read_text())

    def refused(document: Any) -> str:
        file.write_text(json.dumps(document))
        with pytest.raises(InputError) as caught:
            Profile.load(file)
        return str(caught.value)

    assert "not a profile" in refused({})
    assert "version 2" in refused(whole | {"version": 2})
    step = whole["step"]
    stage = step["stages"][0]
    broken: list[dict[str, Any]] = [
        {"stages": []},
        {"parallelism": {"data": 2, "tensor": 2, "cats": 1}},
        {"operators": [{"kind": "nap", "bytes": 0}]},
        {"kernels": [[{"kernel": "Product"}]]},
        {"plan": {"model": {}, "job": {}}},
        *(
            {"stages": [stage | {name: value}]}
            for name, value in (
                ("operators", [10**9]),
                ("wait", stage["wait"][:-1]),
                ("waits", [[-1]] * len(stage["waits"])),
                ("numbers", []),
                ("tags", [[10**9, 1]]),
                ("units", [[1]]),
                ("name", "x"),
            )
        ),
    ]
    for change in broken:
        assert str(file) in refused(whole | {"step": step | change})


def test_a_model_that_does_not_fit_in_memory_is_refused() -> None:
    with pytest.raises(InputError, match=r"needs .* GB .* of h100-sxm"):
        profile_model("llama3-405b", Parallelism(data=8), memory_limit_bytes=80 * 10**9)
    with pytest.raises(InputError, match="tensor parallelism 20000 exceeds an MLP's 14336"):
        profile_model("llama3-8b", Parallelism(tensor=20_000))
    with pytest.raises(InputError, match="unknown model"):
        profile_model("llama9")
