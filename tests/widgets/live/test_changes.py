"""What is changed in a page in the middle of a run has the effects and the words that it has in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import astranb as anb
from astranb.net import Pfc, Roce
from tests.engine.cacheline.test_workload import call, graph, spend
from tests.widgets.live.both import both
from tests.widgets.live.selection import mostly_slow


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


def switched() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "switch"))


def workload() -> anb.Simulation:
    """Collectives and computations of two streams, which take SMs from each other."""
    rows = [call("all_reduce", 16384), spend(3), call("all_gather", 8192), spend(2)]
    return anb.Simulation("switch:gpus=2", graph(*[(rows, [[], [], [0], [1]])] * 2), fidelity="cacheline")


def crowded() -> anb.Simulation:
    """More thread blocks than the SMs have room for at once."""
    what = anb.collectives.all_reduce("128 KiB", "allpairs", channels=12)
    return anb.Simulation("switch:gpus=4", what, gpu={"preset": "h100-sxm", "sms": 8, "blocks_per_sm": 1})


MORE_RUNS = {**RUNS, "switched": switched, "workload": workload, "crowded": crowded}


def links_of(sim: anb.Simulation) -> list[str]:
    """A link that is used, with all its lanes, and a lane of it."""
    first = sim.engine.fabric.name(int(sim.engine.machine.route_links[0]))
    return [first.partition("#")[0], first]


@pytest.mark.parametrize("name", mostly_slow(RUNS, "packets", "buffered"))
def test_edits_change_a_run_as_in_python(name: str):
    sim = RUNS[name]()
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


@pytest.mark.parametrize("name", mostly_slow(RUNS, "ring", "packets"))
def test_links_that_are_down(name: str):
    sim = RUNS[name]()
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


@pytest.mark.parametrize("name", mostly_slow(MORE_RUNS, "switched", "workload"))
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_changes_at_random_moments(name: str, seed: int):
    sim, rng = MORE_RUNS[name](), random.Random(seed)
    used = [
        sim.engine.fabric.name(int(link)) for link in sorted(set(sim.engine.machine.route_links.tolist()))
    ]
    links = [*used, *{name.partition("#")[0] for name in used}]
    changes: list[Callable[[], tuple[str, dict[str, Any]]]] = [
        lambda: ("set", {"path": f"{rng.choice(links)}.bandwidth", "value": f"{rng.randint(1, 60)} GB/s"}),
        lambda: ("set", {"path": f"{rng.choice(links)}.latency", "value": f"{rng.randint(0, 900)} ns"}),
        lambda: ("set", {"path": f"gpu[{rng.randrange(sim.ranks)}].sms", "value": rng.randint(1, 100)}),
        lambda: (
            "set",
            {"path": f"gpu[{rng.randrange(sim.ranks)}].hbm", "value": f"{rng.randint(1, 99)} ns"},
        ),
        lambda: ("take_down", {"link": rng.choice(links), "both": rng.random() < 0.5}),
        lambda: ("repair", {"link": rng.choice(links), "both": rng.random() < 0.5}),
        lambda: ("undo", {}),
    ]
    with both(sim) as run:
        for _ in range(14):
            run.go(type="event", n=rng.choice([1, 60, 700]))
            verb, options = rng.choice(changes)()
            run.refused_or_done(verb, **options)
            run.agree()
        run.go(type="back", n=rng.randint(1, 1500))
        run.go(type="event", n=2500)


def test_faults_of_the_network_beside_changes_by_hand():
    link = "box.0.gpu.0->box.0.gpu.1"
    down, slow = (
        anb.Fault(link, at="1 us", until="4 us", down=True),
        anb.Fault(link, at="5 us", bandwidth="1 GB/s"),
    )
    network = anb.Network(faults=(down, slow))
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("64 KiB", "ring"), network=network)
    with both(sim) as run:
        run.go(type="goto", when="2 us")
        run.ask("parameters", path=link)
        run.apply("take_down", link=link)
        run.go(type="event", n=200)
        run.apply("repair", link=link)
        run.go(type="to_end")


def test_recording_is_switched_off_and_on():
    with both(ring()) as run:
        run.go(type="event", n=400)
        run.go(type="record", on=False)
        run.go(type="event", n=400)
        run.apply("take_down", link=links_of(run.sim)[0])
        run.go(type="event", n=300)
        run.apply("repair", link=links_of(run.sim)[0])
        run.go(type="record", on=True)
        run.go(type="event", n=400)
        run.go(type="back", n=900)
        run.go(type="to_end")


def test_what_cannot_be_changed_is_refused_in_the_same_words():
    sim = ethernet()
    link, lane = links_of(sim)
    paths = [
        "",
        "gpu[0]",
        "gpu[0].cow",
        "gpu[9999].l2",
        "nobody.l2",
        f"{link}.colour",
        f"{lane}9.up",
        "gpu[0].sm.0.l2",
        link,
        "record",
    ]
    values: list[Any] = [
        "",
        "1 us",
        "-3 ns",
        "40 days",
        "1 GB/s",
        "0 GB/s",
        "20 TB/s",
        "1 Mb",
        0,
        7,
        True,
        None,
        [1],
        {"a": 1},
        "yes",
    ]
    with both(sim) as run:
        run.go(type="event", n=100)
        for path in paths:
            run.refused_or_done("set", path=path, value="1 us")
            run.ask("parameters", path=path)
        for path in [
            f"{link}.bandwidth",
            f"{lane}.latency",
            f"{link}.up",
            "gpu[1].sms",
            "gpu[1].issue",
            "gpu[1].fence",
        ]:
            for value in values:
                run.refused_or_done("set", path=path, value=value)
        for value in [3, None, ["a"], "gpu[0]", "a->b", "->", f"{link}#77"]:
            for both_ways in (True, False, 0, "", "yes"):
                run.refused_or_done("take_down", link=value, both=both_ways)
                run.refused_or_done("repair", link=value, both=both_ways)
        for number in [99, -1, "0", True, None, 1.5]:
            run.refused_or_done("undo", number=number)
        for verb in ["sets", "", None, 3, "constructor"]:
            run.ask("apply", verb=verb, options={})
        for verb in ["set", "take_down", "breakpoint", "enable", "watch"]:
            run.refused_or_done(verb)
        run.agree()


def test_a_time_that_is_never_reached():
    with both(buffered()) as run:
        run.go(type="event", n=50)
        run.apply("set", path=f"{links_of(run.sim)[0]}.latency", value="2000000 s")
        state = run.go(type="to_end")
        assert "more than 26 days" in state["status"]


def test_buffers_that_wait_for_each_other():
    with both(buffered("ring:gpus=4")) as run:
        state = run.go(type="to_end")
        assert "links wait for room behind each other" in state["status"]
