"""How a run ends in a page: its times, its check, and why it cannot go on, as in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import astranb as anb
from astranb.collectives import Collective
from tests.collectives.language.test_contract import doubled, exchange, one, without_one
from tests.collectives.proof.test_check import two_shots
from tests.engine.cacheline.test_workload import call, graph
from tests.widgets.live.both import both
from tests.widgets.live.selection import mostly_slow

Make = Callable[[], anb.Simulation]


def on_switch(algorithm: Any, kind: str = "all_reduce", size: str = "2 KiB", **more: Any) -> anb.Simulation:
    return anb.Simulation("switch:gpus=4", Collective.of(kind, size, algorithm, channels=1, **more))


def racing(p: Any) -> None:
    for r in range(p.ranks):
        p.block(r).copy(p.input(r)[0], *(p.output(q)[0] for q in range(p.ranks)))


def swapped(p: Any) -> None:
    for me in p.everyone:
        block = me.block()
        block.copy(me.input[1], me.output[0])
        block.copy(me.input[0], me.output[1])


WRONG: dict[str, Make] = {
    **{
        bug: lambda bug=bug: on_switch(lambda p: two_shots(p, **{bug: True}))  # type: ignore[misc]
        for bug in ("twice", "forget", "wrong_chunk", "too_early", "wrong_target")
    },
    "racing": lambda: on_switch(racing, "all_gather"),
    "swapped": lambda: on_switch(swapped, "all_to_all"),
    "layout": lambda: anb.Simulation(
        "ring:gpus=4",
        Collective.of(exchange(), algorithm=without_one(random.Random(3)), channels=1),
        gpu="h100-sxm",
    ),
    "layout twice": lambda: anb.Simulation(
        "ring:gpus=2",
        Collective.of(one(post=lambda r, k: {(0, 0), (1, 0)}, reduce="sum"), algorithm=doubled),
        gpu="h100-sxm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(WRONG, "twice", "racing", "layout"))
def test_a_wrong_result_is_named(name: str):
    with both(WRONG[name]()) as run:
        state = run.go(type="to_end")
        assert state["failed"]
        assert "wrong result on rank" in state["status"]
        run.ask("outcome", at_ps=None)


def stuck(p: Any) -> None:
    first, second = p.semaphore(0), p.semaphore(1)
    a, b = p.block(0), p.block(1)
    a.wait(first)
    a.signal(second)
    b.wait(second)
    b.signal(first)


def lonely(p: Any) -> None:
    gate = p.semaphore(0)
    p.block(0).wait(gate, 2)
    p.block(1).signal(gate)


def crossed(p: Any) -> None:
    for me in p.everyone:
        block = me.block()
        block.copy(p.packets(me.number)[0], me.output[0])
        block.copy(me.input[0], p.packets(me.right.number)[0])


def in_another_order() -> anb.Simulation:
    rows = [call("all_reduce", 64, group=1), call("all_reduce", 64, group=2)]
    work = graph((rows, ()), ([rows[1], rows[0]], ()), groups={1: [0, 1], 2: [1, 0]})
    return anb.Simulation("ring:gpus=2", work, fidelity="cacheline")


STUCK: dict[str, Make] = {
    "semaphores": lambda: on_switch(stuck, size="256 B"),
    "a signal too few": lambda: on_switch(lonely, size="256 B"),
    "packets": lambda: on_switch(crossed, "send_recv", "256 B", protocol="LL"),
    "collectives": in_another_order,
}


@pytest.mark.parametrize("name", mostly_slow(STUCK, "semaphores", "packets", "collectives"))
def test_a_deadlock_is_explained(name: str):
    with both(STUCK[name]()) as run:
        state = run.go(type="to_end")
        assert state["failed"]
        assert "deadlock" in state["status"]
        run.go(type="event", n=1)
        run.go(type="back", n=3)
        run.go(type="to_end")


RIGHT: dict[str, Make] = {
    "ring": lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring")),
    "late": lambda: anb.Simulation("dgx-h100", anb.collectives.all_gather("8 KiB"), start={3: "5 us"}),
    "switch": lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "switch")),
    "contract": lambda: anb.Simulation(
        "ring:gpus=2", Collective.of(one(reduce="max"), algorithm=doubled), gpu="h100-sxm"
    ),
    "workload": lambda: anb.Simulation(
        "ring:gpus=2", graph(*[([call("all_reduce", 4096)], ())] * 2), fidelity="cacheline"
    ),
}


@pytest.mark.parametrize("name", mostly_slow(RIGHT, "late", "workload"))
def test_what_a_run_took(name: str):
    sim = RIGHT[name]()
    with both(sim) as run:
        run.ask("outcome", at_ps=None)
        for n in (300, 1200):
            run.go(type="event", n=n)
            run.ask("outcome", at_ps=None)
        run.go(type="to_end")
        for at_ps in [None, 0, sim.now_ps // 3, sim.now_ps - 1, 10**14]:
            run.ask("outcome", at_ps=at_ps)
