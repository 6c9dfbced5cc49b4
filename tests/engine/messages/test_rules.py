"""What the rules of a saved state refuse is damaged: no state that a run reaches is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages.rules import check
from astranb.engine.messages.run import Run

from .test_recorded import CASES, workload_of


def _check_all(cases: Sequence[Any], congestion: bool, moments: int) -> int:
    chance, checked = random.Random(3), 0
    for case in cases:
        try:
            run = Run(workload_of(case), congestion=congestion)
        except InputError:  # for the other network only, or refused
            continue
        start = run.copy().machine
        try:
            check(start)
            for _ in range(moments):
                run.go(steps=run.events + chance.choice((1, 7, 60, 500, 4000)))
                check(run.machine, start)
                checked += 1
        except Deadlock:  # as the recorded run
            continue
        except InputError as error:
            error.add_note(case["id"])
            raise
    return checked


@pytest.mark.parametrize("congestion", [False, True])
def test_no_state_of_a_recorded_workload_is_refused(congestion: bool):
    assert _check_all(CASES[::16], congestion, 3)


@pytest.mark.slow
@pytest.mark.parametrize("congestion", [False, True])
def test_no_state_of_any_recorded_workload_is_refused(congestion: bool):
    assert _check_all(CASES, congestion, 6)
