"""What the rules of a saved state refuse is damaged: no state that a run reaches is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages.rules import check
from astranb.engine.messages.run import Run
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
    assert _check_all(CASES[::16], congestion, 3)


@pytest.mark.slow
@pytest.mark.parametrize("congestion", [False, True])
def test_no_state_of_any_recorded_workload_is_refused(congestion: bool):
    assert _check_all(CASES, congestion, 6)
