"""What differs between a run and its fork in one page is what differs between them in Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.linked_clock import LinkedClock
from astranb.widgets.live import live
from astranb.widgets.page import packed
from astranb.widgets.session import session_of
from astranb.widgets.views.compare import report
from astranb.widgets.workbench import Workbench
from tests.widgets.live.kernels import HERE, NODE, STATIC
from tests.widgets.live.selection import mostly_slow
from tests.widgets.live.workloads import MESSAGES, layers, messages

LINK = "gpu[0]->dgx_h100.0.nvsw.0"


def dgx() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))


def servers(n: int, size: str) -> anb.Simulation:
    return anb.Simulation(f"clos:servers={n}", anb.collectives.all_to_all(size))


def in_a_page(sim: anb.Simulation, steps: list[Any], folder: Path) -> Any:
    """What Node finds in the page of a simulation."""
    columns = Columns()
    file = folder / "page.txt"
    file.write_text(packed({"live": live(feed_of(session_of(sim)), columns), **columns.placed()}))
    command = [NODE, str(HERE / "difference.mjs"), str(STATIC), str(file), json.dumps(steps)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.parametrize("make", [dgx, lambda: messages(3), lambda: layers(3)])
def test_the_run_beside_can_be_closed(make: Any, tmp_path: Path):
    ((first, *closed),) = in_a_page(make(), [("a", "closed")], tmp_path)
    assert first is True
    assert closed == [False, False, True]


RUNS: dict[str, Callable[[], anb.Simulation]] = {
    "dgx": dgx,
    "two servers": lambda: servers(2, "64 KiB"),
    "many links": lambda: servers(4, "256 KiB"),
}


@pytest.mark.parametrize("name", mostly_slow(RUNS, "dgx", "two servers"))
def test_a_fork_differs_as_in_python(name: str, tmp_path: Path):
    make = RUNS[name]
    first = make().engine.fabric.name(0).partition("#")[0]
    steps: list[Any] = [
        ("a", "step", 700), ("b", "fork"), ("a", "difference", None),
        ("b", "set", f"{first}.bandwidth", "2 GB/s"), ("a", "step", 1000), ("b", "step", 900),
        ("a", "difference", None), ("a", "difference", 10_000), ("a", "difference", 10**12),
        ("b", "set", "gpu[2].l2", "900 ns"), ("b", "run"), ("a", "difference", None), ("a", "run"),
        ("a", "difference", None), ("a", "difference", 2_000_000), ("b", "take_down", first, False),
        ("a", "difference", None), ("a", "beside"), ("a", "set", "gpu[2].l2", "700 ns"),
        ("a", "set", "gpu[1].l2", "800 ns"), ("b", "set", "gpu[2].l2", "700 ns"), ("a", "record", False),
        ("a", "beside"),
    ]  # fmt: skip
    same_differences(make(), steps, 10, tmp_path)


OPERATIONS = {
    **{f"messages {seed}": lambda seed=seed: messages(seed) for seed in range(6)},  # type: ignore[misc]
    **{f"layers {seed}": lambda seed=seed: layers(seed) for seed in range(6)},  # type: ignore[misc]
    **{name: MESSAGES[name] for name in ("a model", "a replay", "routes with congestion", "started late")},
}


@pytest.mark.parametrize("name", mostly_slow(OPERATIONS, "messages 1", "layers 1", "a replay"))
def test_a_fork_of_operations_differs_as_in_python(name: str, tmp_path: Path):
    sim = OPERATIONS[name]()
    few = 1 if name.startswith("layers") else 10  # events
    changes = [("dim[0].bandwidth", "3 GB/s"), ("dim[0].latency", "2 us")]
    if "congestion" in name:
        changes = [("link[0].bandwidth", "3 GB/s"), ("link[1].latency", "2 us")]
    elif name in ("a replay", "started late"):  # an infrastructure's links have no dimensions
        changes = [("rank[1].speed", "0.25"), ("rank[2].speed", "0.75")]
    steps: list[Any] = [
        ("a", "step", 4 * few), ("b", "fork"), ("a", "difference", None),
        ("b", "set", "rank[0].speed", "0.5"), ("a", "step", 3 * few), ("b", "step", 6 * few),
        ("a", "difference", None), ("a", "difference", 10_000), ("a", "difference", 10**12),
        ("b", "set", *changes[0]), ("b", "run"), ("a", "difference", None),
        ("a", "set", *changes[1]), ("a", "run"), ("a", "difference", None),
        ("a", "difference", 2_000_000), ("a", "beside"),
    ]  # fmt: skip
    same_differences(sim, steps, 8, tmp_path)


def same_differences(sim: anb.Simulation, steps: list[Any], count: int, folder: Path) -> None:
    """Carry out steps in a page and in Python; what is shown of the difference is the same, and how often."""
    theirs = in_a_page(sim, steps, folder)
    mine: list[Any] = []
    runs = {"a": sim}
    for run, verb, *options in steps:
        if verb == "fork":
            runs["b"] = sim.fork()
        elif verb == "difference":
            both = anb.compare(runs["a"], runs["b"])
            mine.append(report(both if options[0] is None else both.at(options[0])))
        elif verb == "beside":
            benches = [Workbench(run) for run in runs.values()]
            clock = LinkedClock(*benches)
            mine.append([bench._beside for bench in benches])
            clock.close()
        elif verb == "take_down":
            runs[run].take_down(options[0])
        else:
            getattr(runs[run], verb)(*options)
    assert len(mine) == count
    for number, (one, other) in enumerate(zip(theirs, json.loads(json.dumps(mine)), strict=True)):
        assert one == other, number
