"""One small run for all tests of what leaves the notebook."""

from __future__ import annotations

import pytest

import astranb as anb


@pytest.fixture(scope="session")
def ring() -> anb.Simulation:
    """A ring all-reduce of 32 KiB on eight GPUs, run to its end; tests only look at it."""
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring", channels=2))
    sim.run()
    return sim
