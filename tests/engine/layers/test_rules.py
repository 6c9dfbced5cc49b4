"""What the rules of a saved state refuse is damaged: no state that a run reaches is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from astranb.core.errors import InputError
from astranb.engine.layers.rules import check
from tests.engine.operations.support import check_moments

from .test_recorded import OWN, run_of


def test_no_state_of_a_recorded_workload_is_refused(tmp_path: Path):
    chance = random.Random(1)
    for case in OWN:
        check_moments(run_of(case, tmp_path), check, 12, chance, case["name"])


def test_a_state_that_no_run_reaches_is_refused(tmp_path: Path):
    run = run_of(OWN[0], tmp_path)
    start = run.copy().machine
    run.go(steps=5)
    run.machine.clock.now_ps = -5
    with pytest.raises(InputError, match=r"damaged: clock.now_ps is -5"):
        check(run.machine, start)
