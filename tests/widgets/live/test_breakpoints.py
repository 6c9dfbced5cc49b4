"""Breakpoints and watches of a page stop where Python's do, say the same, and refuse the same."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from astranb.gpu.tables import EVENT_KINDS
from astranb.net import Pfc, Roce
from tests.widgets.live.both import Both, both
from tests.widgets.live.selection import mostly_slow


def ring() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring"))


def ethernet() -> anb.Simulation:
    network = anb.Network(roce=Roce(pfc=Pfc("8 KiB", "4 KiB")))
    return anb.Simulation("clos:servers=2", anb.collectives.all_reduce("64 KiB", "ring"), network=network)


RUNS = {"ring": ring, "Ethernet": ethernet}

OBJECTS = [
    "gpu[1]",
    "gpu[0].sm.0",
    "gpu[1].block.0",
    "gpu[2].l2.3",
    "gpu[2].hbm.1",
    "gpu[3].semaphore.3",
    "gpu[1].engine.0",
]


def objects_of(sim: anb.Simulation) -> list[str]:
    """Objects of every kind, and names of none."""
    lane = sim.engine.fabric.name(int(sim.engine.machine.route_links[0]))
    link = lane.partition("#")[0]
    a, b = link.split("->")
    instance = ".".join(a.split(".")[:2])
    wrong = ["", "gpu[99]", "nobody", f"{a}->", "line[0]", "gpu[0].sm.9999", "gpu[0].cow.0"]
    return [*OBJECTS, lane, link, f"{link}.buffer.requests", b, instance, f"{a}.port.0", "gpu[0-1]", *wrong]


def test_breakpoints_on_events():
    sim = ring()
    with both(sim) as run:
        for kind in [*EVENT_KINDS, "", "jump", "lunch"]:
            for path in ["", "gpu[1]", "gpu[2].l2.3"]:
                run.refused_or_done("breakpoint", how="on", kind=kind, object=path)
        for path in objects_of(sim):
            run.refused_or_done("breakpoint", how="on", kind="", object=path)
            run.refused_or_done("breakpoint", how="on", kind="hop", object=path)
        run.ask("breaks", path="gpu[1]")
        while len(sim.breakpoints) > 12:
            run.apply("clear", number=len(sim.breakpoints) // 2)
        for _ in range(30):
            run.go(type="to_breakpoint")
            run.ask("breaks")
            hit = next((n for n, point in enumerate(run.ask("breaks")["points"]) if point["hit"]), None)
            if hit is not None:
                run.apply("enable", number=hit, enabled=False)
        run.apply("clear")
        run.ask("breaks")


CONDITIONS = [
    "gpu[1].sm.0.waiting > 0",
    "gpu[0].block.0.op >= 3",
    "gpu[2].semaphore.3.value != 0",
    "gpu[2].l2.1.busy_ps > 2 ns",
    "LINK.bytes >= 4 KiB",
    "LINK.bandwidth_Bps < 1 GB/s",
    "LINK.queued_ps == 0 ps",
    "gpu[0].ended_ps > 0",
    "gpu[0].sm.0.waiting >> 3",
    "gpu[0].sm.0.waiting",
    "waiting > 3",
    "gpu[0].waitin > 3",
    "gpu[0].sm.0.bytes > 3",
    "gpu[77].sm.0.waiting > 3",
    "LINK.bytes > a few",
    "LINK.bytes > 5 Mb",
    "LINK.latency_ps > 5",
    "gpu[0].sm.0.waiting > 1.5",
    "",
]


@pytest.mark.parametrize("name", mostly_slow(RUNS, "ring"))
def test_conditions(name: str):
    sim = RUNS[name]()
    link = objects_of(sim)[len(OBJECTS) + 1]
    with both(sim) as run:
        run.go(type="event", n=400)
        for text in CONDITIONS:
            run.refused_or_done("breakpoint", how="when", condition=text.replace("LINK", link))
        for how in ["at", "when", "on", "soon", 3]:
            run.refused_or_done("breakpoint", how=how, time="3 us")
        run.refused_or_done("breakpoint", how="at", time="soon")
        for _ in range(2 * len(sim.breakpoints)):
            run.go(type="to_breakpoint")
            run.ask("breaks", path="gpu[1].sm.0", at_ps=None)
        run.go(type="back", n=300)
        run.ask("breaks", path=link, at_ps=None)
        for number in [0, len(sim.breakpoints), -1, True, "0", None]:
            run.refused_or_done("enable", number=number, enabled=False)
            run.refused_or_done("clear", number=number)


def watch(run: Both) -> None:
    """Watch what there is, and what there is not."""
    link = objects_of(run.sim)[len(OBJECTS) + 1]
    of_link = [f"{link}.bytes", f"{link}.free_at_ps", f"{link}.buffer.requests.waiting"]
    of_parts = ["gpu[1].sm.0.waiting", "gpu[0].block.0.op", "gpu[2].blocks_left", "gpu[0].ended_ps"]
    for what in [*of_link, *of_parts, "gpu[0]", "gpu[0].nothing", "gpu[100].waiting", ""]:
        run.refused_or_done("watch", what=what)


@pytest.mark.parametrize("name", mostly_slow(RUNS, "Ethernet"))
def test_watches_and_their_curves(name: str):
    sim = RUNS[name]()
    with both(sim) as run:
        run.go(type="event", n=900)
        watch(run)
        run.ask("breaks", path="gpu[1]", at_ps=None)
        run.go(type="event", n=1200)
        run.apply("set", path="gpu[1].l2", value="1 us")
        run.go(type="phase", n=1)
        for at_ps in [None, 0, sim.now_ps // 3, 10**15]:
            run.ask("breaks", path="gpu[0].block.0", at_ps=at_ps)
            run.ask("breaks", start_ps=0, end_ps=sim.now_ps // 2, at_ps=at_ps)
            run.ask("breaks", start_ps=100, end_ps=130, at_ps=at_ps)
        run.ask("breaks", start_ps="12", end_ps=3.7)
        refused: list[tuple[str, Any]] = [
            ("start_ps", "soon"),
            ("start_ps", None),
            ("end_ps", []),
            ("path", 12),
        ]
        for option, wrong in [*refused, ("path", None)]:
            run.ask("breaks", **{option: wrong})
        run.go(type="back", n=500)
        run.ask("breaks", path="nobody")
        run.apply("unwatch", number=1)
        run.refused_or_done("unwatch", number=99)
        run.apply("unwatch")
        run.ask("breaks")


def test_the_next_operation_of_a_thread_block():
    with both(ring()) as run:
        for _ in range(4):
            run.go(type="next_line", block="gpu[2].block.0")
        for wrong in ["gpu[2]", "gpu[2].block.99", ""]:
            run.go(type="next_line", block=wrong)
