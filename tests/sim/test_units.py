"""Units of steps: what they count, and that every one of them can be stepped forward and back."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu import tables as t
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, DimensionNetwork, Operations, System, Workload


def collective(algorithm: str = "ring", protocol: str = "Simple") -> anb.Simulation:
    work = anb.collectives.all_reduce("16 KiB", algorithm, protocol=protocol)
    return anb.Simulation("dgx-h100", work)


def messages() -> anb.Simulation:
    rows = [{"kind": COMPUTE, "duration_ns": 5_000}, {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 16}]
    rank = Operations.of(2 * rows, [[], [0], [1], [2]])
    system = System.from_document({"all-reduce-implementation": ["ring"]})
    return anb.Simulation(Workload([rank] * 4, DimensionNetwork(["Ring"], [4], [50], [500]), system))


RUNS = {
    "ring": collective,
    "allpairs": lambda: collective("allpairs"),
    "packets": lambda: collective("allpairs", "LL"),
    "in the switch": lambda: collective("switch"),
    "messages": messages,
}


@pytest.mark.parametrize("run", RUNS)
def test_every_unit_is_stepped_and_taken_back(run: str) -> None:
    sim = RUNS[run]()
    for unit, field in sim.engine.traits.units.items():
        sim.reset()
        sim.run("3 us" if run != "messages" else "6 us")
        before, hashed = sim.counts[unit], sim.state_hash()
        assert sim.engine.count(field) == before
        # Events, timesteps and the counts of whole pictures (several at one event) are left exactly.
        stop = sim.step(3, unit)
        assert sim.finished or sim.counts[unit] >= before + (2 if unit == "cycle" else 3)
        assert stop.why in (unit, "steps", "end")
        there, at = sim.state_hash(), sim.counts[unit]
        sim.back(1, unit)
        assert sim.counts[unit] < at
        sim.goto("3 us" if run != "messages" else "6 us")
        assert sim.state_hash() == hashed
        sim.step(3, unit)
        assert sim.state_hash() == there


@pytest.mark.parametrize("run", ["ring", "allpairs", "in the switch"])
def test_lines_hops_and_messages_are_those_of_the_program(run: str) -> None:
    sim = RUNS[run]()
    sim.run()
    machine = sim.engine.machine
    lines = moves = 0
    for op in machine.ops[machine.ops["kind"] == t.MOVE]:
        read = np.arange(op["first_source"], op["first_source"] + op["sources"])
        written = np.arange(op["first_target"], op["first_target"] + op["targets"])
        far = machine.operands["out_routes"][np.concatenate([read, written])] > 0
        lines += int(op["lines"]) * int(far.sum())
        moves += bool(far.any()) and op["lines"] > 0
    assert sim.counts["message"] == moves > 0
    if run != "in the switch":  # there one request is for several GPUs
        assert sim.counts["line"] == lines > 0
    _, flights = sim.engine.recorder.since(0)
    assert sim.counts["hop"] == len(flights)


def test_a_step_by_line_shows_a_line_that_arrives() -> None:
    sim = collective()
    stop = sim.step(1, "line")
    assert stop.text.startswith("a line has arrived at ")
    assert "arrives from GPU" in sim.narrate()
    _, flights = sim.engine.recorder.since(0)
    assert (flights["end_ps"] <= sim.now_ps).any()
    sim.back(1, "line")
    assert sim.counts["line"] == sim.events == 0


def test_a_unit_that_an_engine_lacks_is_refused_with_those_it_has() -> None:
    for sim, unit in ((collective(), "operation"), (messages(), "line")):
        with pytest.raises(InputError, match=f"unknown unit '{unit}'") as error:
            sim.step(1, unit)
        for known in sim.counts:
            assert known in str(error.value)
