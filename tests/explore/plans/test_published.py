"""Published steps against predicted ones: the tables of ``docs/steps.md``, and what they say of changes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from astranb.explore.plans.step_estimates import estimate_step
from astranb.workload.kernels import GPUS, KernelTimes
from scripts.generated import generated
from scripts.published_steps import (
    KINDS,
    PAGE,
    RATIOS,
    STEPS,
    Compared,
    compare,
    listing,
    network_of,
    page,
    ratio,
    rows,
)

QUICK = (
    "sc21-7.5b", "korthikanti-22b", "nemo-llama2-70b-64", "long-llama2-7b", "mlperf-b200-n8",
    "foundry-mpt-7b-a100-2048", "titan-llama2-13b", "dgxc-llama3-8b-fp8-8", "bridge-25.11-llama3-405b-b200",
    "megatron-mixtral", "foundry-mpt-7b-h100-1024", "bridge-26.02.01-qwen3-30b-b200", "tprimat",
    "mlperf5.1-8b-hpg-8", "mlperf5.1-8b-theia-8", "mlperf5.1-lora-mi355x-8",
)  # fmt: skip
"""Rows of every sort that are predicted in a moment."""


def of_page() -> str:
    return generated(STEPS, PAGE)


@pytest.fixture(scope="module")
def known() -> dict[str, Compared]:
    """Return the compared ratios."""
    names = sorted({one for pair in RATIOS.values() for one in pair})
    return {one.row.name: one for one in compare(names)}


def test_the_page_has_what_the_command_prints() -> None:
    found, text = list(compare(QUICK)), of_page()
    assert {one.row.kind for one in found} >= set(KINDS) - {"other"}
    for kind in KINDS:
        for line in listing(found, kind)[2:]:
            assert f"{line}\n" in text


@pytest.mark.slow
def test_the_whole_table_is_what_the_command_prints() -> None:
    assert of_page() == "\n".join(page(list(compare()))).strip()


def test_every_row_is_in_the_page() -> None:
    assert re.findall(r"^\| ([\w.-]+) \| \d+ \w+, ", of_page(), re.MULTILINE) == [
        row.name for kind in KINDS for row in rows() if row.kind == kind
    ]


def errors(*kinds: str) -> list[float]:
    """The errors of sorts of rows in the page."""
    names = {row.name for row in rows() if row.kind in kinds}
    listed = re.findall(r"^\| (\S+) \| \d+ .*? ([+-][\d.]+)% \|", of_page(), re.MULTILINE)
    return [float(error) / 100 for name, error in listed if name in names]


def test_rows_that_chose_no_number_are_as_near_as_promised() -> None:
    """At least 30, within 10 % on average and 25 % at most; experts are further off."""
    nemo, pytorch = "blind, NeMo and Megatron-Bridge", "blind, PyTorch FSDP"
    for kinds in ((nemo,), (nemo, pytorch)):
        blind = errors(*kinds)
        assert len(blind) >= 30
        assert sum(map(abs, blind)) / len(blind) <= 0.10
        assert max(map(abs, blind)) <= 0.25
    experts = errors("blind, experts")
    assert len(experts) >= 8
    assert sum(map(abs, experts)) / len(experts) <= 0.25
    other = errors("visible, NeMo and Megatron-Bridge")
    assert len(other) >= 30
    assert sum(map(abs, other)) / len(other) <= 0.10
    assert max(map(abs, other)) <= 0.25


def test_the_summary_adds_up() -> None:
    for kind, title in KINDS.items():
        found = errors(kind)
        (line,) = re.findall(rf"^\| {re.escape(title)} \| (.*) \|$", of_page(), re.MULTILINE)
        count, mean, worst, *_ = line.split(" | ")
        assert int(count) == len(found)
        assert float(mean.rstrip("%")) / 100 == pytest.approx(sum(map(abs, found)) / len(found), abs=1e-3)
        assert float(worst.rstrip("%")) / 100 == pytest.approx(max(map(abs, found)), abs=1e-3)


def test_blind_rows_keep_their_first_prediction() -> None:
    first = [row for row in rows() if row.fields["first_s"]]
    assert {row.name for row in rows() if row.fields["use"] == "blind"} <= {row.name for row in first}
    assert len(first) == 193


def test_a_row_has_one_published_figure_and_a_source() -> None:
    for row in rows():
        assert row.fields["source"], row.name
        assert row.fields["step_s"] or row.fields["tokens_per_s_per_gpu"] or row.fields["TFLOPs_per_gpu"]
        assert row.job.parallelism.ranks == row.number("gpus"), row.name
    assert len({row.name for row in rows()}) == len(rows())


@pytest.mark.parametrize(
    "name, published, near",
    [
        ("H100 over A100, GPT-3 175B, bf16", 3.31, 0.15),
        ("H100 over A100, MPT-7B, FSDP", 2.29, 0.2),
        ("B200 over H100, GPT-3 175B, fp8", 2.04, 0.15),
        ("GB200 over H100, Llama-3 405B, bf16", 2.08, 0.2),
        ("GB200 over H100, Llama-3 405B, fp8", 1.98, 0.25),
        ("selective over full recomputation, 22B", 1.29, 0.12),
        ("selective over full recomputation, 175B", 1.32, 0.08),
        ("selective over full recomputation, 530B", 1.30, 0.08),
        ("selective over full recomputation, 1T", 1.32, 0.08),
        ("tensor degree 4 (H200) over 8 (H100), 405B, fp8", 1.10, 0.1),
        ("fp8 over bf16, Llama-3 8B", 1.32, 0.15),
        ("fp8 over bf16, Llama-3 405B", 1.60, 0.2),
        ("fp8 over bf16, Nemotron 15B", 1.34, 0.15),
        ("fp8 over bf16, Nemotron 340B", 1.48, 0.2),
        ("fp8 over bf16, GPT-3 175B", 1.48, 0.15),
        ("fp8 over bf16, 405B on GB200", 1.52, 0.15),
    ],
)
def test_a_change_is_worth_what_was_published(known, name, published, near) -> None:
    measured, predicted = ratio(known, name)
    assert measured == pytest.approx(published, abs=0.005)
    assert predicted == pytest.approx(measured, rel=near)
    assert predicted > 1


@pytest.mark.parametrize("size", ["22b", "175b"])
def test_recomputation_costs_as_much_with_element_wise_operations(known, size) -> None:
    """Korthikanti et al. 2022, table 5: full over selective recomputation, whatever counts as a kernel."""
    took = []
    for again in ("full", "selective"):
        row = known[f"korthikanti-{size}-{again}"].row
        job, times = replace(row.job, elementwise=True), KernelTimes(GPUS["a100-sxm"])
        took.append(estimate_step(row.model, job, times, network_of(times, job)).step_ns)
    measured = known[f"korthikanti-{size}-full"].row.measured_s()
    measured /= known[f"korthikanti-{size}-selective"].row.measured_s()
    assert took[0] / took[1] == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(
    "name, near",
    [("korthikanti-22b-selective", 0.001), ("nemo-llama3-8b-8", 0.001), ("titan-llama2-13b-64", 0.01),
     ("dgxc-nemotron-15b-bf16-16", 0.005), ("nemo-llama2-13b-16", 0.03), ("megatron-mixtral-8x7b", 0.1)],
)  # fmt: skip
def test_an_estimate_is_as_near_the_simulation_as_the_page_says(name, near) -> None:
    (row,) = (row for row in rows() if row.name == name)
    assert row.predicted_s() == pytest.approx(row.simulated_s(), rel=near)
