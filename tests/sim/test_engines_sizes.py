"""The size of a collective means the same at every fidelity."""

from __future__ import annotations

import pytest

import astranb as anb


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
@pytest.mark.parametrize("name, other", [("all_gather", "reduce_scatter"), ("gather", "scatter")])
def test_what_is_gathered_is_the_size(name: str, other: str, fidelity: str) -> None:
    times = []
    for each in (name, other):
        collective = anb.collectives.Collective.of(each, "8 MiB", "ring" if "_" in each else "allpairs")
        sim = anb.Simulation("switch:gpus=8", collective, fidelity=fidelity)
        sim.run()
        times.append(sim.now_ps)
    assert times[0] == pytest.approx(times[1], rel=0.01)
    if "_" in name:  # seven eighths of 8 MiB over 50 GB/s
        assert times[0] == pytest.approx(7 / 8 * (8 << 20) / 50e9 * 1e12, rel=0.1)
