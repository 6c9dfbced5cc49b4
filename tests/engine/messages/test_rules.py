"""What the rules of a saved state refuse is damaged: no state that a run reaches is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages.rules import check
from astranb.engine.messages.run import Run
from astranb.engine.messages.tables import KIND_BITS
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)
from tests.engine.operations.support import check_moments

from .test_recorded import CASES, workload_of


def _check_all(cases: Sequence[Any], congestion: bool, moments: int) -> int:
    chance, checked = random.Random(3), 0
    for case in cases:
        try:
            run = Run(workload_of(case), congestion=congestion)
        except InputError:  # for the other network only, or refused
            continue
        try:
            checked += check_moments(run, check, moments, chance, case["id"])
        except Deadlock:  # as the recorded run
            continue
    return checked


@pytest.mark.parametrize("congestion", [False, True])
def test_no_state_of_a_recorded_workload_is_refused(congestion: bool):
    assert _check_all(CASES[::32], congestion, 3)


@pytest.mark.parametrize("congestion", [False, True])
def test_a_ring_whose_bytes_no_ranks_carry_is_refused(congestion: bool):
    tiers = DimensionNetwork(["Switch", "Switch"], [8, 2], [335.0, 46.0], [650.0, 2700.0])
    ranks = [0, 1, 2, 3, 8, 9, 10, 11]
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_gather"], "bytes": 1 << 20, "group": 1}
    operations = [Operations.of([row] if rank in ranks else []) for rank in range(16)]
    system = System.from_document({"all-gather-implementation": ["ring", "ring"]})
    run = Run(Workload(operations, tiers, system, groups={1: ranks}), congestion=congestion)
    start = run.copy().machine
    run.go(steps=40)
    check(run.machine, start)
    m = run.machine
    shared = np.flatnonzero((m.messages.sent == 1) & (m.messages.sender > 0))
    assert len(shared)
    m.messages.sender[shared] += 1 << KIND_BITS  # of a group that is not there
    with pytest.raises(InputError, match=r"messages\.sender"):
        check(m, start)
    for rails in (0, 3, 8, -4):
        start.groups.rails = rails
        with pytest.raises(InputError, match=r"groups\.rails"):
            check(start)


@pytest.mark.slow
@pytest.mark.parametrize("congestion", [False, True])
def test_no_state_of_any_recorded_workload_is_refused(congestion: bool):
    assert _check_all(CASES, congestion, 6)
