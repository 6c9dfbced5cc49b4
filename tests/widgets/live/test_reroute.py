"""Routes that are changed in a page are those of Python, and so is all that follows from them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.net import Network
from tests.engine.cacheline.test_reroute import NETWORKS
from tests.widgets.live.both import Both, both, travelled
from tests.widgets.live.kernels import page_kernel
from tests.widgets.live.selection import mostly_slow


def _ring(name: str) -> anb.Simulation:
    return anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("8 KiB", "ring"), network=NETWORKS[name])


def _clos(name: str) -> anb.Simulation:
    return anb.Simulation(
        "clos:servers=2", anb.collectives.all_reduce("32 KiB", "allpairs"), network=NETWORKS[name]
    )


RUNS: dict[str, Callable[[], anb.Simulation]] = {
    **{name: partial(_ring, name) for name in NETWORKS},
    "dgx": lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "allpairs")),
    "packets": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("32 KiB", "tree", protocol="LL128")
    ),
    "switch planes": lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "nvls")),
    "torus": lambda: anb.Simulation(
        "torus2d:rows=3,columns=3", anb.collectives.all_to_all("16 KiB"), network=Network(buffers=4)
    ),
    "NICs": lambda: anb.Simulation(
        "single-tier:servers=2,server=dgx-h100", anb.collectives.all_gather("64 KiB", "ring"), launch="graph"
    ),
    "clos": lambda: _clos("plain"),
    "clos, Ethernet": lambda: _clos("roce"),
}


def _links(sim: anb.Simulation) -> list[str]:
    machine, fabric = sim.engine.machine, sim.engine.fabric
    used = [fabric.name(link) for link in sorted(set(machine.route_links.tolist()))]
    return [*used, *{name.partition("#")[0] for name in used}]


def _reroute(run: Both, value: Any = "0 ps") -> None:
    run.refused_or_done("set", path="reroute", value=value)
    run.agree()


@pytest.mark.parametrize("name", mostly_slow(RUNS, "roce and buffers", "dgx"))
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_routes_change_as_in_python(name: str, seed: int) -> None:
    sim, rng = RUNS[name](), random.Random(f"{name} {seed}")
    links = _links(sim)
    with both(sim) as run:
        for number in range(5):
            run.go(type="event", n=rng.choice([1, 300, 900]))
            for _ in range(rng.randint(1, 2)):
                run.refused_or_done("take_down", link=rng.choice(links), both=rng.random() < 0.5)
            run.go(type="event", n=rng.choice([0, 1, 200]))
            if number % 2:
                run.apply("reroute")
            else:
                _reroute(run, rng.choice(["0 ps", f"{sim.now_ps + rng.randint(0, 3_000_000)} ps"]))
            run.go(type="event", n=rng.choice([0, 100, 500]))
            if rng.random() < 0.4:
                run.refused_or_done("repair", link=rng.choice(links), both=True)
        run.ask("inspect", path="gpu[1]")
        run.go(type="back", n=rng.randint(1, 1200))
        run.go(type="event", n=700)
        run.refused_or_done("undo", number=rng.randrange(max(1, len(sim.edits))))
        run.agree()
        run.go(type="to_end")
        run.go(type="reset")
        run.go(type="event", n=400)


def test_when_routes_change_is_read_as_in_python() -> None:
    values: list[Any] = ["", "soon", "-1 ns", 5, None, True, "3 us", [1]]
    with both(_ring("plain")) as run:
        run.go(type="event", n=300)
        for value in values:
            _reroute(run, value)


def _rerouted() -> anb.Simulation:
    """A run whose routes have changed, and that has gone on."""
    sim = RUNS["dgx"]()
    sim.step(900)
    sim.take_down("gpu[1]->dgx_h100.0.nvsw.2", both=True)
    sim.step(300)
    sim.reroute(at=sim.now_ps + 40_000)
    sim.step(2000)
    return sim


def test_files_of_runs_whose_routes_have_changed(tmp_path: Path) -> None:
    sim = _rerouted()
    with page_kernel(sim.fork()) as page:
        again = travelled(sim, page, tmp_path, 500)
        assert again.edits == sim.edits
        ((link, _),) = page.send({"type": "copy_link"})
        page.send({"type": "reset"})
        page.send({"type": "follow_link", "fragment": link["fragment"]})
        assert page.ask("hash")["hash"] == sim.state_hash()
        page.send({"type": "to_end"})
        sim.run()
        assert page.ask("hash")["hash"] == sim.state_hash()
        page.send({"type": "back", "n": 3000})
        sim.back(3000)
        assert page.ask("hash")["hash"] == sim.state_hash()
