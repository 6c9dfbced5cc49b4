"""A run that has ended, and one in the middle."""

import pytest

from tests.engine.cacheline.support import made


@pytest.fixture(scope="module")
def done():
    sim = made()
    sim.run()
    return sim


@pytest.fixture
def half(done):
    sim = made()
    sim.goto(done.result.time_ps // 2)
    return sim
