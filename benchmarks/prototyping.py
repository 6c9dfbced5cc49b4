"""Waiting times while one writes an algorithm: for a proof, a run, a sweep, and a map of algorithms."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import astranb as anb
from astranb.collectives import Algorithm, Collective, Program, algorithms, check_text, verify
from astranb.widgets.editor import EXAMPLE

__all__ = ["prototyping"]

_EDITED_S, _PROVED_S, _SWEEP_S, _MAP_S = 1.0, 10.0, 5.0, 60.0
_INFRA, _SIZE, _MANY, _PER_NODE = "dgx-h100", "1 MiB", 64, 8


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
    """Measure the library's algorithms one by one, 24 proved runs of a function, and a map."""
    _edit(row)
    _explore(row)


def _explore(row: Any) -> None:
    """Measure 24 proved runs of 8 ranks x 1 MiB, and the map of an all-reduce on one machine."""
    one = Collective.of("all_reduce", _SIZE, _two_shot, channels=4)

    def single() -> float:
        began = perf_counter()
        sim = anb.Simulation(_INFRA, one, record=False, checkpoint_bytes=0)
        sim.run()
        return perf_counter() - began

    single()
    alone_s = min(single() for _ in range(3))
    began = perf_counter()
    found = anb.explore.sweep(
        _INFRA, "all_reduce", _two_shot, sizes=[_SIZE], params={"order": [1, -1]},
        channels=[1, 2, 4, 8], gpu={"unroll": [4, 8, 16]},
    )  # fmt: skip
    took_s = perf_counter() - began
    if not found.to_dataframe()["proved"].all():
        message = f"not all programs are right: {found.counts()}"
        raise RuntimeError(message)
    runs = len(found.rows)
    what = f"{runs} proved runs of 8 GPUs, {_SIZE} (limit {_SWEEP_S:g} s)"
    row(what, took_s, "s", f"{runs} runs that are not proved", took_s / (runs * alone_s))
    began = perf_counter()
    table = anb.explore.algorithm_map(_INFRA, "all_reduce").to_dataframe()
    took_s = perf_counter() - began
    events = int(table["events"].sum())
    what = f"map of {table['algorithm'].nunique()} all-reduces, 1 KiB to 4 MiB (limit {_MAP_S:g} s)"
    ratio = took_s / (events / found.to_dataframe()["events"].mean() * alone_s)
    row(what, took_s, "s", "single runs of as many events", ratio)


class _Times(NamedTuple):
    """Seconds until an algorithm is proved, and until it has been simulated as well."""

    proved: float
    simulated: float
    name: str


def _edit(row: Any) -> None:
    """Measure every algorithm of the library on 8 GPUs, and its proof on 64."""
    _times(algorithms("all_reduce")[0])  # compiled
    found = [_times(one) for one in algorithms()]
    whole = [one.proved + one.simulated for one in found]
    runs = median(one.simulated for one in found)
    worst = max(found, key=lambda one: one.proved + one.simulated)
    what = f"changed, proved, simulated: 8 GPUs x {_SIZE}, median of {len(found)}"
    row(what, median(whole), "s", "the run alone", median(whole) / runs)
    row(f"the same (limit {_EDITED_S:g} s)", median(whole), "s", "the limit", median(whole) / _EDITED_S)
    row(f"the slowest: {worst.name}", max(whole), "s", "its run alone", max(whole) / worst.simulated)
    began = perf_counter()
    problems = check_text(EXAMPLE, size=_SIZE)
    took = perf_counter() - began
    assert not problems
    row("the editor's example as text, checked for 8 ranks", took, "s", "the run alone", took / runs)
    many = [(_proof_s(one), f"{one.collective}/{one.name}") for one in algorithms()]
    seconds, name = max(many)
    what = f"proved for {_MANY} ranks, the slowest: {name} (limit {_PROVED_S:g} s)"
    row(what, seconds, "s", "the limit", seconds / _PROVED_S)
    middle = median(took for took, _ in many)
    row(f"the same, median of {len(many)}", middle, "s", "the run on 8 alone", middle / runs)


def _collective(one: Algorithm) -> Collective:
    if one.collective == "barrier":
        return Collective.of(one.collective, 1, one.name, channels=1)
    return Collective.of(one.collective, _SIZE, one.name)


def _times(one: Algorithm) -> _Times:
    collective = _collective(one)
    began = perf_counter()
    assert not verify(collective, _INFRA)
    proved = perf_counter()
    anb.Simulation(_INFRA, collective, record=False, checkpoint_bytes=0).run()
    return _Times(proved - began, perf_counter() - proved, f"{one.collective}/{one.name}")


def _proof_s(one: Algorithm) -> float:
    program = _collective(one).program(_MANY, _PER_NODE)
    began = perf_counter()
    assert not verify(program, one.collective)
    return perf_counter() - began
