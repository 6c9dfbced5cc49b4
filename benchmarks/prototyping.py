"""How fast a collective is prototyped: a sweep over a function's parameters, and a map of algorithms."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import astranb as anb
from astranb.collectives import Collective
from astranb.collectives.language.program import Program

__all__ = ["prototyping"]

_SWEEP_S = 5.0
_MAP_S = 60.0


def _two_shot(p: Program, *, order: int = 1) -> None:
    """Reduce one chunk on each rank, then send it to all; others in ascending or descending order."""
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others[::order]:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others[::order]]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others[::order]:
            wires[me, you].send(block, me.output[me.number])
        for you in me.others[::order]:
            block.copy(wires[you, me].receive(block), me.output[you.number])


def prototyping(row: Any, _bare: float) -> None:
    """Measure 24 proved runs of 8 ranks x 1 MiB, and the map of an all-reduce on one machine."""
    one = Collective.of("all_reduce", "1 MiB", _two_shot, channels=4)

    def single() -> float:
        began = perf_counter()
        sim = anb.Simulation("dgx-h100", one, record=False, checkpoint_bytes=0)
        sim.run()
        return perf_counter() - began

    single()
    alone_s = min(single() for _ in range(3))
    began = perf_counter()
    found = anb.explore.sweep(
        "dgx-h100", "all_reduce", _two_shot, sizes=["1 MiB"], params={"order": [1, -1]},
        channels=[1, 2, 4, 8], gpu={"unroll": [4, 8, 16]},
    )  # fmt: skip
    took_s = perf_counter() - began
    if not found.frame()["proved"].all():
        message = f"not all programs are right: {found.counts()}"
        raise RuntimeError(message)
    runs = len(found.rows)
    what = f"{runs} proved runs of 8 GPUs, 1 MiB (limit {_SWEEP_S:g} s)"
    row(what, took_s, "s", f"{runs} runs that are not proved", took_s / (runs * alone_s))
    began = perf_counter()
    table = anb.explore.algorithm_map("dgx-h100", "all_reduce").frame()
    took_s = perf_counter() - began
    events = int(table["events"].sum())
    what = f"map of {table['algorithm'].nunique()} all-reduces, 1 KiB to 4 MiB (limit {_MAP_S:g} s)"
    ratio = took_s / (events / found.frame()["events"].mean() * alone_s)
    row(what, took_s, "s", "single runs of as many events", ratio)
