"""Search runs by cache lines for a state that repeats, but for a shift in time and in addresses.

``python -m benchmarks.periods [--size 1GiB] [--samples N] [--seconds S] [--only WORD...]`` prints a table:
for each case, and for the same one with parts of the model switched off, the shortest period of what is
looked at. Each column is a part of the state: where one does not repeat, the state does not.
"""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Iterator, Sequence
from math import gcd
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import astranb as anb
from astranb.collectives import Collective
from astranb.core.queue import ARGUMENTS, live
from astranb.core.state import digest
from astranb.engine.stops import BREAK
from astranb.gpu import Preset, preset
from astranb.gpu import tables as t

PARTS = ("pace", "queue", "units", "memory")
"""Compared quantities, from the least to the most: the time of the thread block since the sample before; the
times of all pending events; the SMs, blocks and links of each; lines and memory."""

_TRAVELS = (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH)
_LEAST = 16  # samples that a period has to explain


class Found(NamedTuple):
    """A period.

    Attributes
    ----------
    start : int
        First sample from which on everything repeats.
    length : int
        Samples of a period.
    """

    start: int
    length: int


def period(samples: Sequence[Hashable]) -> Found | None:
    """Find the shortest period with which samples repeat up to the last one; None where there is none.

    What it foretells, all samples but those of the first period, has to be as long as a period, a quarter
    of all samples, and sixteen of them.

    Examples
    --------
    >>> period([7, 9, *[1, 2, 3] * 8])
    Found(start=2, length=3)
    >>> period([n * n for n in range(40)]) is None
    True
    """
    last = list(samples)[::-1]
    same = [0] * len(last)  # how many from here on are as the first ones (the Z function)
    left = right = 0
    for place in range(1, len(last)):
        if place < right:
            same[place] = min(right - place, same[place - left])
        while place + same[place] < len(last) and last[same[place]] == last[place + same[place]]:
            same[place] += 1
        if place + same[place] > right:
            left, right = place, place + same[place]
        if same[place] >= max(place, len(last) // 4, _LEAST):
            return Found(len(last) - place - same[place], place)
    return None


def state(engine: Any) -> tuple[str, ...]:
    """Hash the parts of the state but ``pace``, relative to now and to the line that each block is at.

    What caches and buffers hold is not looked at, nor is what is only counted: that these parts repeat is
    necessary, not enough.
    """
    m = engine.machine
    now_ps = int(m.clock[0].now_ps)
    blocks, warps, jobs, requests = (np.asarray(m.tables[n]) for n in ("blocks", "warps", "jobs", "requests"))

    def ahead(name: str) -> np.ndarray:
        left: np.ndarray = np.maximum(0, np.asarray(m.tables[name])["free_at_ps"] - now_ps)
        return left

    def line(block: np.ndarray, op: np.ndarray, number: np.ndarray) -> list[np.ndarray]:
        """An operation and a line of it, as the distance from where the block's first warp is."""
        first = warps[blocks["first_warp"][block]]
        ended = np.where(op < first["op"], np.asarray(m.ops)["lines"][op], 0)
        return [op - first["op"], number - np.where(op == first["op"], first["next_line"], ended)]

    coming = live(m.event_queue)
    kind, arg = np.divmod(coming[:, 1], ARGUMENTS)
    queue = np.stack([coming[:, 0] - now_ps, kind], axis=1)
    travels = np.isin(kind, _TRAVELS)
    about = requests[arg[travels]]
    who = arg.copy()
    who[travels] = about["warp"]
    sms = np.asarray(m.sms)
    units = [
        who,
        *(about[name] for name in ("gpu", "target", "kind", "returning", "link", "leg")),
        *(sms[name] for name in ("outstanding", "stalled", "scheduled", "resident")),
        np.maximum(0, sms["next_issue_ps"] - now_ps),
        *(blocks[name] for name in ("state", "unacked", "fenced")),
        *(warps[name] for name in ("queued", "under_way")),
        ahead("links"),
    ]
    moved = about[about["job"] >= 0]
    memory = [
        *line(warps["block"][moved["warp"]], moved["op"], jobs["line"][moved["job"]]),
        *line(warps["block"], warps["op"], warps["next_line"]),
    ]
    # Which slice and channel is busy may change, as long as as many are busy for as long.
    for name, first in (("l2_slices", "first_l2_slice"), ("hbm_channels", "first_hbm_channel")):
        memory += [np.sort(part) for part in np.split(ahead(name), m.gpus[first][1:])]
    tables = [queue]
    found = []
    for more in ([], units, memory):
        tables += more
        found.append(digest((str(number), table) for number, table in enumerate(tables)))
    return tuple(found)


def sample(
    sim: anb.Simulation, count: int, *, warm: int = 0, operations: bool = False, seconds: float = 1e9
) -> Iterator[tuple[Hashable, ...]]:
    """Yield the parts of the state whenever the first thread block begins another line, or operation.

    Parameters
    ----------
    sim : Simulation
    count : int
        Samples, if the run has so many.
    warm : int
        Events before the first one.
    operations : bool
        Whether only operations count: of a ring one moves a slice.
    seconds : float
        How long to go on, at most.
    """
    engine: Any = sim.engine
    machine = engine.machine
    first_warp = int(machine.blocks[0].first_warp)
    engine.go(steps=warm, closely=False)
    issues = engine.on_event("issue", "gpu[0].block.0")
    began, before_ps, at = perf_counter(), engine.now_ps, (-1, -1)
    while count > 0 and perf_counter() < began + seconds:
        op = int(machine.blocks[0].op)
        engine.install([engine.condition(f"gpu[0].block.0.op > {op}") if operations else issues])
        if engine.go(steps=2**62, closely=True) != BREAK:
            return
        here = int(machine.warps[first_warp].op), int(machine.warps[first_warp].next_line)
        if operations or here != at:
            at = here
            yield engine.now_ps - before_ps, *state(engine)
            before_ps = engine.now_ps
            count -= 1


def least_shift_bytes(gpu: Preset) -> int:
    """Return the least shift of addresses that keeps lines together which are in one L2 slice.

    ``gpu/travel.py: spread`` hashes a line's number, modulo 2^32, to a part of the interval up to 2^32, one
    for each slice. The hash of a shifted line is shifted, too, by an amount that is a multiple of a power of
    two exactly where the shift is; bounds of the parts become bounds only where that moves a whole number of
    parts by a whole number.

    Examples
    --------
    >>> least_shift_bytes(preset("h100-sxm")) // 2**30, least_shift_bytes(preset("generic")) // 2**30
    (32, 2)
    """
    return 2**32 // gcd(2**32, gpu.l2_slices) * gpu.line_bytes


_NO_HASH = {"l2_slices": 1, "hbm_channels": 1}  # with the bandwidth of all
_NO_MEMORY = {"row_miss_ps": 0, "far_ps": 0, "l2_bytes": 2**37}
MODELS: dict[str, dict[str, dict[str, int]]] = {
    "h100-sxm": {
        "as it is": {},
        "only the hash": _NO_MEMORY,
        "all but the hash": _NO_HASH,
        "neither": _NO_MEMORY | _NO_HASH,
    },
    "generic": {
        "as it is": {},
        "without mesh and hash": dict.fromkeys(("columns", "rows", "ports", "chip_Bps", "chip_ps"), 0)
        | _NO_HASH,
    },
}
"""Parts of the model of memory that are on: the hash of addresses to slices and channels; rows of HBM, the
halves of the L2, and its capacity."""

_CASES = (
    # infrastructure, GPU, algorithm, channels, whether samples are at operations
    ("dgx-h100", "h100-sxm", "ring", 1, True),
    ("dgx-h100", "h100-sxm", "ring", 24, False),
    ("dgx-h100", "h100-sxm", "allpairs", 1, False),
    ("dgx-h100", "h100-sxm", "allpairs", 24, False),
    ("dgx-h100", "h100-sxm", "allpairs_get", 36, False),
    ("dgx-h100", "h100-sxm", "nvls", 16, False),
    ("generic:gpus=8", "generic", "ring", 24, False),
    ("generic:gpus=8", "generic", "allpairs", 24, False),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.periods", description=main.__doc__)
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--warm", type=int, default=3_000_000, help="events before the first sample")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60, help="for each row")
    parser.add_argument("--only", nargs="+", default=[], help="words of the cases to look at")
    options = parser.parse_args()
    print(f"| all-reduce, {options.size} | model of memory | samples | {' | '.join(PARTS)} |")
    print("|---|---|---|" + "---|" * len(PARTS))
    for infra, gpu, algorithm, channels, operations in _CASES:
        case = f"{infra} {algorithm} {channels}"
        if any(word not in case.split() for word in options.only):
            continue
        for model, changes in MODELS[gpu].items():
            wanted = Collective.of("all_reduce", options.size, algorithm, channels=channels)
            chosen = preset(gpu).but(**changes)
            sim = anb.Simulation(infra, wanted, gpu=chosen, record=False, checkpoint_bytes=0)
            warm = 0 if operations else options.warm
            rows = list(
                sample(sim, options.samples, warm=warm, operations=operations, seconds=options.seconds)
            )
            found = [period(part) for part in zip(*rows, strict=True)]
            paces: list[Any] = [row[0] for row in rows]
            shown = " | ".join(
                f"{one.length} ({sum(paces[-one.length :]) / 1e6:,.1f} µs)" if one else "none"
                for one in found
            )
            looked = f"{len(rows)} {'operations' if operations else 'lines'}, {sum(paces) / 1e6:,.0f} µs"
            print(f"| {case} | {model} | {looked} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
