"""How long one waits for an algorithm that one has changed: until it is proved, and until it is simulated."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import astranb as anb
from astranb.collectives import Algorithm, Collective, algorithms, check_text, verify
from astranb.widgets.editor import EXAMPLE

__all__ = ["writing"]

_EDITED_S, _PROVED_S = 1.0, 10.0
_INFRA, _SIZE, _MANY, _PER_NODE = "dgx-h100", "1 MiB", 64, 8


class _Times(NamedTuple):
    """Seconds until an algorithm is proved, and until it has been simulated as well."""

    proved: float
    simulated: float
    name: str


def writing(row: Any, _bare: float) -> None:
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
