"""Links of runs by messages that go down and come up again in a page: every table is as in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import astranb as anb
from astranb.engine.messages.link_ends import waiting_for
from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System
from astranb.workload.models import Parallelism, workload
from tests.engine.operations.support import by_messages, mixed
from tests.widgets.live.both import both
from tests.widgets.live.selection import mostly_slow
from tests.widgets.live.workloads import messages


def infrastructure(
    infra: str, kind: str = "all_reduce", fidelity: str = "congestion"
) -> Callable[[], anb.Simulation]:
    collective = anb.collectives.Collective.of(kind, "64 KiB", None)
    return lambda: anb.Simulation(infra, collective, fidelity=fidelity)


def folded_rings() -> anb.Simulation:
    """Rings over groups, whose messages are divided over parallel links."""
    one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 18}] * 2)
    document = {"all-reduce-implementation": ["ring", "ring"], "preferred-dataset-splits": 4}
    network = DimensionNetwork(["Ring", "Ring"], [4, 4], [50, 25], [500, 700])
    return by_messages([one] * 16, network, System.from_document(document), congestion=True)


def training() -> anb.Simulation:
    plan = Parallelism(pipeline=2, tensor=2, data=2)
    step = workload("gpt3-125m", plan, batch=4, microbatches=2, sequence=64)
    return anb.Simulation("dgx-h100", step, fidelity="congestion")


RUNS: dict[str, Callable[[], anb.Simulation]] = {
    "mixed": lambda: mixed(congestion=True),
    "random 0": lambda: messages(0),
    "random 3": lambda: messages(3),
    "random 5": lambda: messages(5),
    "rings": folded_rings,
    "a box": infrastructure("dgx-h100"),
    "two servers": infrastructure("clos:servers=2", "all_to_all"),
    "a torus": infrastructure("torus2d:rows=3,columns=3"),
    "without congestion": infrastructure("ring:gpus=4", fidelity="analytical"),
    "training": training,
}


def links_of(sim: anb.Simulation) -> list[str]:
    """Links by number and by the names of their ends; some that no message takes."""
    engine: Any = sim.engine
    found = [path for path in engine.objects if path.startswith("link[")]
    if engine.routed is not None:
        fabric = engine.routed.fabric
        found += {
            name
            for link in range(len(fabric.links))
            for name in (fabric.name(link), fabric.name(link).partition("#")[0])
        }
        found += ["gpu[0]->gpu[1]", "gpu[99]->gpu[1]", "a->b", "->"]
    return [*sorted(found), "rank[0]", "dim[0]", "link[999999]"]


@pytest.mark.parametrize("name", mostly_slow(RUNS, "mixed", "a torus"))
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_links_go_down_and_come_up_again(name: str, seed: int) -> None:
    sim, chance = RUNS[name](), random.Random(seed)
    links = links_of(sim)
    down: list[str] = []
    with both(sim) as run:
        for number in range(24):
            if number != 1:  # also before the first event, and while ranks start
                run.go(type="event", n=chance.choice([1, 7, 60, 300]))
            link, both_ways = chance.choice(links), chance.random() < 0.5
            if down and chance.random() < 0.5:
                link = down.pop(chance.randrange(len(down)))
                run.refused_or_done("repair", link=link, both=both_ways)
            else:
                run.refused_or_done("take_down", link=link, both=both_ways)
                down.append(link)
            run.same_tables()
            run.ask("parameters", path=link)
            run.ask("breaks", path=link)
            if number % 6 == 5:
                run.go(type="to_end")  # which may wait for a link
            if number == 12:
                run.go(type="back", n=200)
            if number == 18:
                run.refused_or_done("undo")
        for link in down:
            run.refused_or_done("repair", link=link, both=True)
        run.go(type="to_end")
        run.same_tables()
        run.go(type="back", n=100)
        run.go(type="reset")
        run.go(type="to_end")


def _messages_that_wait(sim: anb.Simulation) -> int:
    machine = sim.engine.machine
    return sum(waiting_for(machine, link) for link in range(len(machine.links)))


@pytest.mark.parametrize("name", mostly_slow(RUNS, "random 0"))
def test_what_waits_for_a_link_goes_on_when_it_is_up(name: str) -> None:
    sim = RUNS[name]()
    engine: Any = sim.engine
    links = [path for path in engine.objects if path.startswith("link[")]
    if engine.routed is not None:  # by the names of their first lanes
        links = [engine.about.links[int(link[5:-1])].partition(" ")[0] for link in links]
    with both(sim) as run:
        for link in links:
            run.apply("take_down", link=link)
        run.go(type="event", n=sim.ranks // 2)  # before the first timestep
        for link in links[:2]:
            run.apply("repair", link=link)
        run.same_tables()
        released = 0
        for link in links:
            run.go(type="to_end")
            held = _messages_that_wait(sim)
            run.apply("repair", link=link)
            run.same_tables()
            released += held - _messages_that_wait(sim)
        assert run.go(type="to_end")["status"]
        assert sim.finished
        assert released or not links
        assert not _messages_that_wait(sim)
        run.go(type="goto", when=sim.now_ps // 2)
