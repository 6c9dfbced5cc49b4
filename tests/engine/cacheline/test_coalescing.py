"""Lines that travel as one request: a run says so, and how far such runs were off."""

from __future__ import annotations

import math
import re

import pytest

import astranb as anb
from astranb.engine.cacheline.result import COALESCED_PERCENT
from benchmarks.coalescing import LINES, TABLE
from scripts.generated import generated


def summary(lines, protocol="Simple"):
    wanted = anb.collectives.all_reduce("64 KiB", "ring", protocol=protocol)
    sim = anb.Simulation("dgx-h100", wanted, network=anb.Network(coalesce=lines), record=False)
    sim.run()
    return sim.result.summary()


def test_the_known_error_is_the_most_of_the_table():
    rows = [line for line in generated(TABLE).splitlines() if line.count("%") == len(LINES)]
    assert len(rows) >= 10
    errors = [[abs(float(cell)) for cell in re.findall(r"([+-][\d.]+)%", row)] for row in rows]
    worst = [math.ceil(max(column)) for column in zip(*errors, strict=True)]
    assert dict(zip(LINES, worst, strict=True)) == COALESCED_PERCENT


@pytest.mark.parametrize(
    "lines, text",
    [(8, "8 lines a request: up to {8} % off"), (64, "64 lines a request: those of 16 up to {16} % off")],
)
def test_the_summary_says_so(lines, text):
    known = COALESCED_PERCENT[min(lines, 16)]
    assert re.sub(r"\{\d+\}", str(known), text) in summary(lines)


def test_exact_runs_and_packets_do_not():
    assert "lines a request" not in summary(1)
    assert "lines a request" not in summary(8, "LL")
