"""What is changed in a page in the middle of a run has the effects, the words and the errors that it has in Python."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from astranb.net import Pfc, Roce
from tests.widgets.live.both import both


def ring(**options: Any) -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"), **options)


def packets() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "tree", protocol="LL128"))


def ethernet() -> anb.Simulation:
    network = anb.Network(roce=Roce(pfc=Pfc("8 KiB", "4 KiB")))
    return anb.Simulation("clos:servers=2", anb.collectives.all_reduce("64 KiB", "ring"), network=network)


def buffered(infra: str = "switch:gpus=4") -> anb.Simulation:
    return anb.Simulation(infra, anb.collectives.all_to_all("64 KiB"), network=anb.Network(buffers=4))


RUNS = {"ring": ring, "packets": packets, "ethernet": ethernet, "buffered": buffered}


def links_of(sim: anb.Simulation) -> list[str]:
    """A link that is used, with all its lanes, and a lane of it."""
    first = sim.engine.fabric.name(int(sim.engine.machine.route_links[0]))
    return [first.partition("#")[0], first]


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_edits_change_a_run_as_in_python(make: Any):
    sim = make()
    link, lane = links_of(sim)
    with both(sim) as run:
        for events, path, value in [
            (0, f"{link}.bandwidth", "3 GB/s"),
            (700, f"{link}.latency", "2 us"),
            (10, f"{lane}.latency", "1 ns"),
            (500, "gpu[1].sms", "2"),
            (300, "gpu[1].sms", 100),
            (5, "gpu[2].hbm", "1 us"),
            (900, "gpu[0].issue", 2500),
            (1, "gpu[*].noc", "1 ns"),
            (1, f"{link}.up", "perhaps"),
        ]:
            run.go(type="event", n=events)
            run.apply("set", path=path, value=value)
            run.ask("parameters", path=link)
            run.ask("parameters", path="gpu[1]")
        run.go(type="event", n=4000)
        assert run.apply("undo")["status"]
        run.go(type="event", n=400)
        run.apply("undo", number=2)
        run.go(type="to_end")
        run.go(type="reset")
        run.go(type="to_end")


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_links_that_are_down(make: Any):
    sim = make()
    link, lane = links_of(sim)
    with both(sim) as run:
        run.go(type="event", n=1500)
        assert "messages wait" in run.apply("take_down", link=link, both=True)["status"]
        run.ask("parameters", path=link)
        run.go(type="event", n=800)
        run.ask("parameters", path=link)
        run.apply("repair", link=lane)
        run.go(type="event", n=300)
        run.apply("take_down", link=lane)
        state = run.go(type="to_end")
        assert state["failed"]
        assert "the run cannot continue" in state["status"]
        run.apply("repair", link=link, both=True)
        run.apply("repair", link=link)
        state = run.go(type="to_end")
        assert not state["failed"]
        run.go(type="back", n=3000)
        run.go(type="to_end")


def test_buffers_that_wait_for_each_other():
    with both(buffered("ring:gpus=4")) as run:
        state = run.go(type="to_end")
        assert "links wait for room behind each other" in state["status"]
