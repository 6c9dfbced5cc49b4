"""The recorded grids of ASTRA-sim 3.0's figures are what the present simulator says."""

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.figures import ALL, ASSUMPTIONS, Point

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "figures.json").read_text())
VARIED = json.loads(ASSUMPTIONS.read_text())
FIELDS = [field.name for field in dataclasses.fields(Point)]


@pytest.mark.parametrize("figure", sorted(RECORDED))
def test_the_smallest_point_comes_out_again(figure):
    row = min(RECORDED[figure], key=lambda row: (row["size"] * row["gpus"], row["events"]))
    sim = Point(**{name: row[name] for name in FIELDS}).simulate()
    assert (sim.result.time_ps, sim.events) == (row["time_ps"], row["events"])


def columns(figure, key):
    """Times in ps by size, for each of the other parameter's values."""
    found: dict[int, dict[object, int]] = {}
    for row in RECORDED[figure]:
        found.setdefault(row["size"], {})[key(row)] = row["time_ps"]
    return found


def test_figure_4_crossovers_move_with_latency():
    """Simple wins from a larger size on when links take longer, and when they are wider."""

    def first(ports, latency):
        times = columns("4", lambda row: (row["ports"], row["latency"], row["protocol"]))
        return min(
            size for size, of in times.items() if of[ports, latency, "Simple"] < of[ports, latency, "LL"]
        )

    for ports in (8, 32):
        assert 2 <= first(ports, 5000) / first(ports, 500) <= 8
    for latency in (500, 5000):
        assert first(32, latency) > first(8, latency)


def test_figure_10_get_wins_when_large():
    times = columns("10", lambda row: row["algorithm"])
    ahead = [times[size]["allpairs"] / times[size]["get"] for size in sorted(times)]
    assert 1 < ahead[-2] < ahead[-1]


def test_figure_11_get_is_slower_and_fair_arbitration_narrows_it():
    times = columns("11", lambda row: (row["algorithm"], row["arbitration"]))
    for size, of in times.items():
        gap = {how: of["get", how] - of["put", how] for how in ("fifo", "fair")}
        assert 0 < gap["fair"] <= gap["fifo"], size
    assert gap["fair"] < 0.7 * gap["fifo"]


@pytest.mark.parametrize("figure, number", [("12", "unroll"), ("13", "max_outstanding")])
def test_figures_12_and_13_lines_in_flight_help_until_something_else_is_the_limit(figure, number):
    times = columns(figure, lambda row: row["changes"][number])
    small, large = times[min(times)], times[max(times)]
    assert large[min(large)] > 1.6 * large[max(large)]
    assert large[min(large)] / large[max(large)] > small[min(small)] / small[max(small)]


def test_figures_14_and_15_events_grow_as_lines_do():
    rows = {(row["gpus"], row["size"]): row["events"] for row in RECORDED["14"]}
    for (gpus, size), events in rows.items():
        if (gpus, 2 * size) in rows and size >= 2**20:
            assert 1.6 < rows[gpus, 2 * size] / events < 2.1, (gpus, size)


def test_the_table_of_assumptions_holds_those_that_the_benchmark_varies():
    assert {name: list(row) for name, row in VARIED.items()} == {one.name: list(one.figures) for one in ALL}


def test_an_assumption_comes_out_again():
    put, get, *_ = (point.simulate().result.time_ps for point in ALL[0].points("10")[:2])
    assert VARIED["the setting"]["10"]["64 KiB, fifo"] == round(put / get, 3)


def test_figures_come_out_together_with_the_setting():
    """Crossovers are within a factor of two, get wins figure 10 and loses 11, less with fair arbitration."""
    row = VARIED["the setting"]
    assert all(0.5 < ratio < 2 for ratio in row["4"].values())
    assert all(ratio > 1 for ratio in row["10"].values())
    for size in ("2 MiB", "4 MiB"):
        fifo, fair = (row["11"][f"{size}, {arbitration}"] for arbitration in ("fifo", "fair"))
        assert fifo < 1
        assert abs(fair - 1) < abs(fifo - 1)
