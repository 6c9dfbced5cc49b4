"""The loss without each link is that of one run with each failure."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import survive
from astranb.workload.astrasim2 import DimensionNetwork

RING = anb.collectives.all_reduce("1 MiB", "ring")


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_each_link_is_a_run_without_it(fidelity: str) -> None:
    table = survive("ring:gpus=4", RING, fidelity=fidelity)
    infra = anb.infragraph.blueprint("ring:gpus=4")
    whole = anb.Simulation(infra, RING, fidelity=fidelity)
    whole.run()
    assert sorted(table.failed) == [
        f"box.0.gpu.{a}->box.0.gpu.{b}" for a, b in ((0, 1), (0, 3), (1, 2), (2, 3))
    ]
    for failed, time_ps, slower in zip(table.failed, table.time_ps, table.slower, strict=True):
        sim = anb.Simulation(infra.without(failed), RING, fidelity=fidelity)
        sim.run()
        assert (sim.now_ps, sim.now_ps / whole.now_ps) == (time_ps, slower)
    assert (table.took_over != "").all() == (fidelity == "congestion")


def test_in_the_middle_by_cache_lines() -> None:
    what = anb.collectives.all_reduce("8 KiB", "ring")
    table = survive("ring:gpus=4", what, [("gpu[0]->gpu[1]",)], at="5 us", detection="2 us")
    sim = anb.Simulation("ring:gpus=4", what)
    sim.run(until="5 us")
    sim.take_down("gpu[0]->gpu[1]", both=True)
    sim.reroute(at=sim.now_ps + 2_000_000)
    sim.run()
    assert table.time_ps[0] == sim.now_ps
    assert table.failed[0] == "gpu[0]->gpu[1]"


def test_nodes_and_ranks_that_are_cut_off() -> None:
    table = survive("switch:gpus=3", RING, fidelity="congestion")
    assert table.time_ps.isna().all()
    assert table.reason[1].startswith("no route to rank 1 (box.0.gpu.1)")
    late = survive("switch:gpus=3", RING, "each switch", fidelity="congestion", at="10 us")
    assert late.failed.tolist() == ["box.0.sw.0"]
    assert "is down since" in late.reason[0]
    nics = survive(
        "clos:servers=2", RING, ["host.0.cx7.0"], fidelity="congestion", at="10 us", detection="1 us"
    )
    assert nics.slower[0] > 1


@pytest.mark.parametrize(
    "infra,failures,error",
    [
        ("ring:gpus=4", "each nick", "did you mean 'each nic'"),
        ("ring:gpus=4", ["gpu[0]->gpu[2]"], "unknown link"),
        (DimensionNetwork(["Ring"], [4], [50], [500]), "each link", "no"),
    ],
)
def test_bad_input(infra: object, failures: object, error: str) -> None:
    with pytest.raises((InputError), match=error):
        survive(infra, RING, failures, fidelity="congestion")  # type: ignore[arg-type]
