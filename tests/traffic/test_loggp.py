"""LogGP replays against what LogGOPSim printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astranb.core.errors import InputError
from astranb.traffic import MessageGraph, loggp
from astranb.traffic.loggp import LogGP, loggp_finish_ps
from astranb.traffic.targets.goal import write_goal
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from tests.traffic.targets.graphs import NAMED, Builder, random_graph

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "traffic.json").read_text())["loggopsim"]
CASES = [(name, run["parameters"], run["ns"]) for name, runs in RECORDED["graphs"].items() for run in runs]


def unstable(rows: list[int], before: Callable[[int, int], bool]) -> list[int]:
    """Sort as the C++ library of GCC does, whose order of equal elements LogGOPSim's results depend on."""
    a = list(rows)

    def to_first(first: int, x: int, y: int, z: int) -> None:
        if before(a[x], a[y]):
            middle = y if before(a[y], a[z]) else z if before(a[x], a[z]) else x
        else:
            middle = x if before(a[x], a[z]) else z if before(a[y], a[z]) else y
        a[first], a[middle] = a[middle], a[first]

    def partition(first: int, last: int) -> int:
        to_first(first, first + 1, (first + last) // 2, last - 1)
        left, right = first + 1, last
        while True:
            while before(a[left], a[first]):
                left += 1
            right -= 1
            while before(a[first], a[right]):
                right -= 1
            if left >= right:
                return left
            a[left], a[right] = a[right], a[left]
            left += 1

    def loop(first: int, last: int) -> None:
        while last - first > 16:
            cut = partition(first, last)
            loop(cut, last)
            last = cut

    loop(0, len(a))
    for at in range(1, len(a)):  # insertion, which keeps the order of equal elements
        row, to = a[at], at
        while to and before(row, a[to - 1]):
            a[to] = a[to - 1]
            to -= 1
        a[to] = row
    return a


class AsLogGOPSim(loggp._Replay):
    """Operations that may begin at once in the order of LogGOPSim, where there are more than 16."""

    def _ordered(self, rows: list[int]) -> list[int]:
        return unstable(rows, lambda one, other: self.kind[one] < self.kind[other])


def network(parameters: dict[str, int]) -> LogGP:
    """LogGOPSim's whole numbers as nanoseconds."""
    latency, overhead, gap, byte = (parameters[name] * 1000 for name in "LogG")
    return LogGP(latency, overhead, gap, byte, parameters["S"])


@pytest.mark.reference
@pytest.mark.parametrize("name, parameters, ns", CASES)
def test_every_rank_ends_when_loggopsim_says(name: str, parameters: dict[str, int], ns: list[int]) -> None:
    finish_ps = AsLogGOPSim(NAMED[name](), network(parameters)).run()
    assert (finish_ps // 1000).tolist() == ns
    assert not (finish_ps % 1000).any()


@pytest.mark.reference
@pytest.mark.parametrize("name, parameters, ns", CASES)
def test_the_stable_order_is_the_same_where_few_operations_begin_at_once(
    name: str, parameters: dict[str, int], ns: list[int]
) -> None:
    graph = NAMED[name]()
    free = np.bincount(graph.nodes["rank"][np.diff(graph.dep_start) == 0])
    finish_ps = loggp_finish_ps(graph, network(parameters))
    if free.max() <= 16:
        assert (finish_ps // 1000).tolist() == ns
    else:  # ties are broken otherwise, which moves the end by up to a sixth
        assert finish_ps.max() / 1000 == pytest.approx(max(ns), rel=0.2)
        assert (finish_ps // 1000).tolist() != ns


def program(name: str, variable: str) -> str:
    """Find a program by a variable of the environment, or on the path."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not on the path, and {variable} does not name it")
    return found


def loggopsim(graph: MessageGraph, folder: Path, parameters: dict[str, int], **options: Any) -> list[int]:
    """Run LogGOPSim; returns when each rank is done."""
    simulator, converter = program("LogGOPSim", "LOGGOPSIM"), program("txt2bin", "TXT2BIN")
    write_goal(graph, folder / "a.goal", **options)
    subprocess.run([converter, "-i", "a.goal", "-o", "a.bin"], cwd=folder, check=True, capture_output=True)
    flags = [each for name, value in parameters.items() for each in (f"-{name}", str(value))]
    done = subprocess.run(
        [simulator, "-f", "a.bin", *flags], cwd=folder, check=True, capture_output=True, text=True
    )
    return [int(number) for number in re.findall(r"^Host \d+: (\d+)$", done.stdout, re.MULTILINE)]


@pytest.mark.parametrize("name", NAMED)
def test_loggopsim_still_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    for run in RECORDED["graphs"][name]:
        assert loggopsim(NAMED[name](), tmp_path, run["parameters"]) == run["ns"]


@pytest.mark.parametrize("seed", range(20))
def test_loggopsim_agrees_on_random_graphs(seed: int, tmp_path: Path) -> None:
    graph = random_graph(2 + seed % 6, 30 + 10 * seed, seed, zero=True)
    parameters = {
        "L": 900 + seed,
        "o": 70 * (seed % 4),
        "g": 40 * (seed % 3),
        "G": seed % 3,
        "S": 5000 * seed,
    }
    finish_ps = AsLogGOPSim(graph, network(parameters)).run()
    assert loggopsim(graph, tmp_path, parameters) == (finish_ps // 1000).tolist()


def test_picoseconds_are_exact_in_loggopsim(tmp_path: Path) -> None:
    made = Builder(2, "odd")
    made.send(0, 1, 1000, deps=[made.compute(0, 1234)])
    made.receive(1, 0, 1000)
    found = loggopsim(made.graph(), tmp_path, {"L": 5, "o": 3, "g": 0, "G": 7, "S": 9999}, time_unit="ps")
    assert found == [1237, 1234 + 3 + 5 + 3 + 7 * 999]
    assert loggp_finish_ps(made.graph(), LogGP(5, 3, 0, 7, 9999)).tolist() == found


def test_one_message_takes_what_the_model_says() -> None:
    pair = MessageGraph.of(
        2,
        [
            {"rank": 0, "kind": SEND, "peer": 1, "bytes": 1 << 20},
            {"rank": 0, "kind": COMPUTE, "duration_ps": 10},
            {"rank": 1, "kind": COMPUTE, "duration_ps": 50_000_000},
            {"rank": 1, "kind": RECV, "peer": 0, "bytes": 1 << 20},
        ],
        [(), (0,), (), (2,)],
    )
    eager = LogGP(eager_bytes=1 << 20)
    # The message takes the receiver's CPU when it is free: after the computation.
    end_ps = 50_000_000 + eager.overhead_ps + eager.byte_gap_ps * ((1 << 20) - 1)
    assert loggp_finish_ps(pair, eager).tolist() == [1_500_010, end_ps]
    late = loggp_finish_ps(pair, LogGP(eager_bytes=(1 << 20) - 1))
    assert late.tolist() == [50_000_010, end_ps]  # the sender waits for the receive to begin


def test_wrong_parameters_and_cycles_are_refused() -> None:
    with pytest.raises(InputError, match="LogGP: gap_ps is -1"):
        LogGP(gap_ps=-1)
    made = Builder(1, "itself")
    made.compute(0, 5, [0])
    with pytest.raises(InputError, match=r"cycle: node 0 of rank 0 .compute., which waits for node 0"):
        loggp_finish_ps(made.graph())
