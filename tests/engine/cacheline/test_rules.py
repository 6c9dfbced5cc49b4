"""What the rules of a saved state refuse is damaged: no state that a run reaches is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import ALGORITHMS
from astranb.core.errors import InputError
from astranb.engine.cacheline.rules import check


def _runs(algorithm: Any, infra: str) -> Any:
    """Every protocol and sizes that leave chunks empty, short and whole."""
    for protocol in algorithm.protocols:
        for size in (1, 100, 5000, 70_000):
            work = anb.collectives.Collective(algorithm.collective, size, algorithm.name, protocol=protocol)
            try:
                yield anb.Simulation(infra, work, record=size == 5000)
            except InputError:  # not for this infrastructure, or the size does not divide
                continue


def _check_all(algorithm: Any, infra: str, moments: int, chance: random.Random) -> int:
    checked = 0
    for sim in _runs(algorithm, infra):
        machine = sim.engine.machine
        start = {name: np.array(table) for name, table in machine.tables.items()}
        check(start)
        for _ in range(moments):
            sim.step(chance.randrange(1, 1500))
            check(machine.tables, start)
            checked += 1
    return checked


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda a: f"{a.collective} {a.name}")
def test_no_state_of_an_algorithm_is_refused(algorithm: Any):
    assert _check_all(algorithm, "switch:gpus=4", 4, random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda a: f"{a.collective} {a.name}")
@pytest.mark.parametrize("infra", ["ring:gpus=3", "dgx-h100", "clos:servers=2", "mi300x"])
def test_no_state_on_other_infrastructures_is_refused(algorithm: Any, infra: str):
    _check_all(algorithm, infra, 12, random.Random(infra))
