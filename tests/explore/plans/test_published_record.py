"""The tables of what others measured: their form, and what no machine can do."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path

import pytest

from astranb.core.units import format_bytes, size_bytes
from astranb.hardware import FOLDER

DATA = Path(__file__).parents[2] / "data" / "published"
SHIPPED = {"collectives": FOLDER / "measured"}
USES, QUALITIES = {"blind", "seen"}, {"A", "B", "C"}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"}
SIZES = [format_bytes(1 << i) for i in range(10, 31)]
LINK_GBPS = {
    "a100-sxm": 300, "a100-sxm-40": 300, "h100-sxm": 450, "h200-sxm": 450, "h20": 450, "h800-sxm": 200,
    "b200-sxm": 900, "gb200": 900, "mi300x": 7 * 64, "mi355x": 7 * 76.8, "a100-pcie": 32,
}  # fmt: skip
"""Bandwidth of all links of a GPU to its box, in one direction, by data sheets."""

NUMBERS = {
    "collectives": {"boxes", "gpus", *SIZES},
    "overlap": {
        "gpus", "compute_sms", "collective_sms", "compute_alone_us", "compute_beside_us", "compute_ratio",
        "collective_alone_us", "collective_beside_us", "collective_ratio", "sequence_us", "together_us",
    },
    "deepep": {"gpus", "tokens", "hidden", "topk", "experts", "groups", "sms", "GBps", "us"},
    "nic": {"bytes", "value"},
}  # fmt: skip
"""Columns of each table that hold positive numbers or nothing."""

WORDS = {
    "collectives": {"gpu", "library", "collective", "settings"},
    "overlap": {"gpu", "kernel", "shape", "collective", "compute_library", "collective_library"},
    "deepep": {"gpu", "library", "kernel", "operation", "precision"},
    "nic": {"quantity", "unit", "conditions"},
}
"""Columns that no row may leave empty."""


def table(name: str) -> list[dict[str, str]]:
    with (SHIPPED.get(name, DATA) / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def points(row: dict[str, str]) -> dict[int, float]:
    """Return the sizes in bytes of a log and its times in microseconds."""
    return {size_bytes(size): float(row[size]) for size in SIZES if row[size]}


@pytest.mark.parametrize("name", NUMBERS)
def test_every_row_is_whole(name: str) -> None:
    rows = table(name)
    assert len({row["id"] for row in rows}) == len(rows) > 0
    for row in rows:
        assert {None}.isdisjoint(row.keys() | set(row.values())), row["id"]
        assert row["use"] in USES, row["id"]
        assert row["quality"] in QUALITIES, row["id"]
        assert all(row[column].strip() for column in WORDS[name] | {"id", "source"}), row["id"]
        assert all(float(row[column]) > 0 for column in NUMBERS[name] if row[column]), row["id"]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_source_can_be_found(name: str) -> None:
    """A repository with its commit, a thread, a paper, or a line by which to find a file (which is no A)."""
    pinned = r"github\.com/[\w.-]+/[\w.-]+ [0-9a-f]{7},? "
    thread = r"github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+|forums\.developer\.nvidia\.com/t/\d+"
    for row in table(name):
        if not re.match(rf"{pinned}|{thread}|arxiv\.org/abs/\d{{4}}\.\d{{5}}, ", row["source"]):
            assert row["source"].startswith("a public file on GitHub"), row["id"]
            assert row["quality"] != "A", row["id"]


@pytest.mark.parametrize("name", NUMBERS)
def test_no_measurement_is_there_twice(name: str) -> None:
    told = {"id", "use", "quality", "source", "note"}
    rows = [tuple(value for column, value in row.items() if column not in told) for row in table(name)]
    assert len(set(rows)) == len(rows)


def test_no_log_has_a_measurement_of_another() -> None:
    """Three times that two logs of a collective share would be one log under two names."""
    rows = table("collectives")
    for i, one in enumerate(rows):
        for other in rows[:i]:
            if one["collective"] == other["collective"]:
                assert len(points(one).items() & points(other).items()) < 3, (one["id"], other["id"])


def test_no_collective_beats_its_links() -> None:
    """NVLink's switches add up themselves and copy, so that an all-reduce takes half a ring's bytes."""
    for row in table("collectives"):
        assert row["collective"] in COLLECTIVES
        assert points(row)
        n = int(row["gpus"])
        assert n % int(row["boxes"]) == 0
        share = 1 if row["collective"] in ("all_reduce", "broadcast", "send_recv") else (n - 1) / n
        for size, us in points(row).items():
            assert size * share / us / 1e3 < LINK_GBPS[row["gpu"]], (row["id"], size)


def test_large_messages_take_longer() -> None:
    """A slip of a digit or a column would break the order; real logs dip by a third at most."""
    for row in table("collectives"):
        known = sorted(points(row).items())
        for (size, us), (larger, longer) in pairwise(known):
            assert longer > 0.6 * us, (row["id"], larger)
            assert longer < 3.2 * us * larger / size / 2, (row["id"], larger)


def test_ratios_are_those_of_the_times() -> None:
    for row in table("overlap"):
        for side in ("compute", "collective"):
            alone, beside, ratio = (row[f"{side}_{what}"] for what in ("alone_us", "beside_us", "ratio"))
            if alone:
                assert float(ratio) == pytest.approx(float(beside) / float(alone), rel=0.04), row["id"]
        assert row["compute_ratio"] or row["compute_beside_us"] or row["together_us"], row["id"]
        if row["together_us"]:
            assert float(row["together_us"]) < float(row["sequence_us"]), row["id"]


def test_latency_and_bandwidth_of_an_exchange_agree() -> None:
    """Low-latency kernels send every token to each of its experts, with a scale of 4 bytes for 128 in fp8."""
    found = 0
    for row in table("deepep"):
        assert row["GBps"] or row["us"], row["id"]
        if row["kernel"] == "low-latency" and row["GBps"] and row["us"]:
            hidden = int(row["hidden"])
            each = hidden + hidden / 128 * 4 + 16 if row["precision"] == "fp8" else hidden * 2
            moved = each * int(row["tokens"]) * int(row["topk"])
            assert moved / float(row["us"]) / 1e3 == pytest.approx(float(row["GBps"]), rel=0.2), row["id"]
            found += 1
    assert found > 20


def test_units_of_adapters() -> None:
    assert {row["unit"] for row in table("nic")} == {"us", "GB/s", "B", "M/s", "count"}


def test_logs_cover_the_machines_that_people_ask_for() -> None:
    rows = table("collectives")
    assert {row["collective"] for row in rows} == COLLECTIVES
    one_box = {row["gpu"] for row in rows if row["boxes"] == "1"}
    assert one_box >= {"a100-sxm", "h100-sxm", "h200-sxm", "h20", "h800-sxm", "b200-sxm", "mi300x"}
    assert {row["gpu"] for row in rows if row["boxes"] == "2"} >= {
        "a100-sxm",
        "h100-sxm",
        "h200-sxm",
        "mi300x",
    }
