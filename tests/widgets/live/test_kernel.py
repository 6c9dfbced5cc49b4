"""A page's kernel goes forward and back as Python's does: by every unit, to every table's last byte."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import astranb as anb
from tests.widgets.live.kernels import NodeKernel, PythonKernel, differing, page_kernel

UNITS = ("event", "cycle", "instruction", "hop", "line", "message", "phase")


def _both(python: PythonKernel, page: NodeKernel, message: dict[str, Any]) -> None:
    """Send a command to both, and check that they report the same and are in the same state."""
    mine, theirs = python.send(message), page.send(message)
    for kernel, sent in ((python, mine), (page, theirs)):
        for _ in sent:
            kernel.send({"type": "read"})
    (expected, columns), (found, theirs_columns) = mine[-1], theirs[-1]
    known = {"seq"}
    if len(theirs) == 1:
        assert theirs_columns == columns, message
    else:  # the page has played: it has sent states between, with a part of the news each
        known |= {"first", "total", "one_in", "coarse"}
    assert {k: v for k, v in found.items() if k not in known} == {
        k: v for k, v in expected.items() if k not in known
    }, message


def _command(random: Random, last_ps: int) -> dict[str, Any]:
    """A command that moves time, by any unit and distance."""
    unit = random.choice(UNITS)
    n = random.choice([0, 1, 2, 7, 100, 3000]) if unit != "phase" else random.choice([0, 1, 2])
    return random.choice(
        [
            {"type": unit, "n": n},
            {"type": unit, "n": n},
            {"type": "back", "n": n, "unit": unit},
            {"type": "goto", "when": random.randrange(last_ps)},
            {"type": "goto", "when": f"{random.randrange(last_ps // 1000)} ns"},
            {"type": "reset"},
            {"type": random.choice(["to_end", "event"]), "n": 20_000},
        ]
    )


@pytest.mark.parametrize("commands", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_goes_forward_and_back_as_in_python(commands: int) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    last_ps = sim.fork().run().now_ps
    random = Random(1)
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        for kernel in (python, page):
            kernel.send({"type": "ready"})
        for number in range(commands):
            _both(python, page, _command(random, last_ps))
            assert page.ask("hash")["hash"] == python.sim.state_hash()
            assert number % 8 or differing(python.sim, page) == []
