"""Runs of operations in a page: what views are sent and what they show of objects is what Python says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import astranb as anb
from astranb.workload.models import Parallelism, workload
from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same
from tests.widgets.live.selection import mostly_slow
from tests.widgets.live.workloads import LAYERS, MESSAGES

RUNS = {**MESSAGES, **{f"layers, {name}": make for name, make in LAYERS.items()}}
SOME = [
    "random 0",
    "random 1",
    "random 2",
    "random 3",
    "mixed",
    "mixed with congestion",
    "growing",
    "a model",
    "memory",
    "routes",
    "routes with congestion",
    "a replay",
    "a replay with congestion",
    "in the network",
    "stuck",
    "too late",
    "started late",
    "layers, random 1",
    "layers, random 2",
    "layers, a torus",
]


@contextmanager
def kernels(name: str) -> Iterator[tuple[PythonKernel, NodeKernel]]:
    """Both kernels of a run at its start, after their views have opened."""
    sim = RUNS[name]()
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        same(python, page, {"type": "ready"})
        yield python, page


def _moves(sim: anb.Simulation, seed: int) -> Iterator[dict[str, Any]]:
    """Messages that move time forward and back, and at last to the end."""
    chance = random.Random(seed)
    units = list(sim.counts)
    for _ in range(6):
        yield {"type": "event", "n": chance.choice([1, 20, 500])}
        unit = chance.choice(units)
        yield {"type": unit, "n": chance.randrange(1, 5)}
    yield {"type": "back", "n": chance.randrange(1, 300), "unit": "event"}
    yield {"type": "goto", "when": sim.now_ps * 2 // 3}
    yield {"type": "goto", "when": sim.now_ps * 3}
    yield {"type": "to_end"}
    yield {"type": "back", "n": 3, "unit": "phase"}


@pytest.mark.parametrize("name", mostly_slow(SOME, "mixed", "a replay", "too late", "layers, random 1"))
def test_states_are_the_same_wherever_a_run_stops(name: str) -> None:
    with kernels(name) as (python, page):
        for message in _moves(python.sim, 1):
            # A command that is played in slices sends several states, and of many messages not all at once.
            mine, theirs = (kernel.send(message)[-1][0] | {"seq": 0} for kernel in (python, page))
            if mine["coarse"] or theirs["coarse"]:
                mine, theirs = ({**one, "first": 0, "one_in": 0, "coarse": True} for one in (mine, theirs))
            assert theirs == mine, message
            for kernel in (python, page):
                kernel.send({"type": "read"})
                kernel.send({"type": "read"})
            same(python, page, {"type": "ask", "id": 1, "question": "hash", "options": {"at_ps": None}})
        same(python, page, {"type": "ready"})
        same(python, page, {"type": "fine"})


def paths_of(sim: anb.Simulation, seed: int, most: int) -> list[str]:
    """Some objects of every kind, and what is none."""
    chance, engine = random.Random(seed), sim.engine
    found = list(engine.objects)
    for path in [one for one in found if one.startswith(("rank[", "layer["))]:
        found += [part for parts in engine.parts(path).values() for part in parts]
    hostile = [
        "",
        "rank",
        "rank[-1]",
        "rank[999]",
        "op[1]",
        "rank[0].op[99999]",
        "rank[0].op[no such]",
        "dim[7]",
        "link[99999]",
        "rank[0].dim[9]",
        "npu[1]",
        " rank[0] ",
        "link[0]",
        "<img src=x>",
        "layer[x]",
        "a" * 300,
        "rank[0].op[1].op[1]",
    ]
    return [*(chance.sample(found, most) if len(found) > most else found), *hostile]


@pytest.mark.parametrize("name", mostly_slow(SOME, "a model", "stuck", "layers, a torus"))
def test_objects_are_described_alike_now_and_in_the_past(name: str) -> None:
    with kernels(name) as (python, page):
        for number, message in enumerate(_moves(python.sim, 2)):
            python.send(message), page.send(message)
            if number % 5:
                continue
            for path in paths_of(python.sim, number, 40):
                same(python, page, {"type": "inspect", "path": path})
            for path in paths_of(python.sim, number, 8):
                for part in (3, 7):
                    same(
                        python,
                        page,
                        {"type": "inspect", "path": path, "at_ps": python.sim.now_ps * part // 9},
                    )


def _questions(sim: anb.Simulation, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Questions of views with options that make sense, and with some that do not."""
    chance = random.Random(seed)
    now = sim.now_ps
    moments = [None, now // 3, now * 2 // 3, now + 5]
    start = chance.randrange(max(1, now))
    windows = [(0, max(1, now), 400), (start, start + max(2, now // 5), 37), (0, 2 * now + 10, 3)]
    some = [rank for rank in range(sim.ranks) if chance.random() < 0.5]
    found: list[tuple[str, dict[str, Any]]] = []
    for at_ps in moments:
        rank = chance.randrange(-1, sim.ranks + 1)
        found.append(("graph", {"rank": rank, "at_ps": at_ps, "most": chance.choice([1, 9, 400])}))
        path = f"rank[{rank}].op[{chance.randrange(9)}]"
        found.append(("graph", {"rank": rank, "at_ps": at_ps, "most": 10, "path": path}))
    for first, last, columns in windows:
        for kind in ("operations", "chunks"):
            for ranks in (some, list(range(sim.ranks))[::-1], [], [0, 0]):
                window = {"from": first, "to": last, "columns": columns}
                found.append(("tracks", {**window, "kind": kind, "ranks": ranks}))
    found += [("doing", {"at_ps": None}), ("doing", {})]
    for path in ("rank[0].op[0]", f"rank[{sim.ranks - 1}].op[1]", "no", ""):
        found.append(("operation_span", {"path": path, "start": 5, "end": 9, "time": start}))
    paths = ["", "rank[0]", f"rank[{sim.ranks - 1}].op[1]", "rank[1].dim[0]", "dim[0]", "link[0]", "no"]
    for at_ps in moments:
        found += [
            (question, {"at_ps": at_ps}) for question in ("ranks", "outcome", "ports", "events", "buffers")
        ]
        found += [
            (question, {"at_ps": at_ps, "path": path}) for question in ("why", "lost_time") for path in paths
        ]
        for order in ("start_ps", "bytes", "duration_ps", "rate", "waited_ps"):
            options = {"order": order, "at_ps": at_ps, "rank": chance.randrange(-1, sim.ranks)}
            found.append(
                (
                    "flows",
                    {**options, "text": chance.choice(["", "all", "rank"]), "now": chance.random() < 0.3},
                )
            )
        found.append(("traffic", {"at_ps": at_ps}))
        found.append(("traffic", {"at_ps": at_ps, "window": [start, start + now // 4]}))
    for text in (
        "0",
        "rank 1",
        "3 us",
        "all",
        "dim",
        "rank[0]",
        "rank[0].op[1]",
        "compute",
        "conv",
        "link 1",
        "",
    ):
        found.append(("search", {"text": text}))
    for text in (
        "",
        "rank",
        "rank[1]",
        "rank[1].",
        "rank[0].op[1",
        "dim",
        "layer",
        "op",
        "rank[0].wai",
        "link[0].b",
    ):
        found += [("complete", {"text": text, "fields": of}) for of in (None, "condition", "watch")]
    for path in paths:
        found += [("breaks", {"path": path}), ("parameters", {"path": path})]
    for first, last, columns in windows:
        window = {"from": first, "to": last, "columns": columns, "at_ps": start}
        found += [("footprint", {**window, "rank": who}) for who in (None, 0, sim.ranks - 1, -1, 999)]
    hostile: list[Any] = [None, "x", -1, 10**9, [], {}, 1.5, True]
    for value in hostile:
        found += [
            ("graph", {"rank": value, "at_ps": None}),
            ("graph", {"most": value}),
            ("graph", {"path": value}),
            ("tracks", {"from": value, "to": 10, "columns": 3}),
            ("tracks", {"from": 0, "to": 10, "columns": value}),
            ("tracks", {"from": 0, "to": 10, "columns": 5, "ranks": value}),
            ("tracks", {"from": 0, "to": 10, "columns": 5, "ranks": [value]}),
            ("tracks", {"from": 0, "to": 10, "columns": 5, "kind": value}),
            ("operation_span", {"path": value, "start": 1, "end": 2, "time": 3}),
            ("operation_span", {"path": "rank[0]", "start": value, "end": 2, "time": 3}),
            ("flows", {"order": value}),
            ("flows", {"rank": value}),
            ("flows", {"text": value}),
            ("events", {"at_ps": value}),
            ("critical_path", {"at_ps": value}),
            ("buffers", {"at_ps": value}),
            ("why", {"path": value}),
            ("why", {"path": "", "at_ps": value}),
            ("lost_time", {"path": value}),
            ("search", {"text": value}),
            ("complete", {"text": value}),
            ("footprint", {"from": 0, "to": 10, "columns": 5, "rank": value}),
            ("traffic", {"at_ps": None, "window": value}),
        ]
    return found


_MOST_ASKED = 60
"""Questions at each stop, of some hundreds."""


@pytest.mark.parametrize("name", mostly_slow(SOME, "memory", "routes with congestion", "layers, random 2"))
def test_answers_are_the_same_wherever_a_run_stops(name: str) -> None:
    with kernels(name) as (python, page):
        for number, message in enumerate(_moves(python.sim, 3)):
            python.send(message), page.send(message)
            if number % 4 in (1, 2):
                every = _questions(python.sim, number)
                for question, options in random.Random(number).sample(every, _MOST_ASKED):
                    same(python, page, {"type": "ask", "id": 1, "question": question, "options": options})


def _changes(sim: anb.Simulation, seed: int) -> Iterator[dict[str, Any]]:
    """Commands that stop at breakpoints, watch, change and undo; some are refused."""
    chance = random.Random(seed)
    engine = sim.engine
    kinds = [*engine.kinds, "nothing"]
    paths = [
        "rank[0]",
        "rank[0].op[1]",
        "dim[0]",
        "rank[0].dim[0]",
        "link[1]",
        "layer[conv1]",
        "layer[conv0].wg",
        "no",
    ]
    conditions = [
        "rank[0].waiting > 0",
        "rank[0].op[1].end_ns >= 0",
        "rank[0].op[1].chunks_done > 0",
        "rank[0].dim[0].running == 1",
        "rank[0].compute_ns > 2 us",
        "dim[0].x > 1",
        "layer[conv1].ongoing > 0",
        "dim[0].inside > 1",
        "rank[0] > 1",
        "what",
        "rank[0].passes >= 1",
        "rank[0].op[0].chunks > 0",
    ]
    values = [
        ("rank[0].speed", "0.5"),
        ("rank[0].speed", "inf"),
        ("rank[0].speed", "no"),
        ("rank[0].speed", 2),
        ("rank[0].speed", 0),
        ("dim[0].bandwidth", "10 GB/s"),
        ("dim[0].latency", "1 us"),
        ("dim[0].latency", -1),
        ("dim[0].latency", 1.5),
        ("link[1].bandwidth", "10 GB/s"),
        ("link[1].outage", "2 us"),
        ("link[1].up", "no"),
        ("rank[0].size", "1"),
        ("reroute", "yes"),
        ("layer[conv1].speed", "0.25"),
        ("layer[conv0].fwd.speed", "3"),
        ("x", "y"),
        ("", ""),
        ("dim[0].bandwidth", True),
    ]
    for round_ in range(3):
        for _ in range(4):
            how = chance.choice(["on", "when", "at"])
            what = {
                "kind": chance.choice(kinds),
                "object": chance.choice([*paths, ""]),
                "condition": chance.choice(conditions),
            }
            yield {"type": "breakpoint", "how": how, "time": f"{chance.randrange(1, 20)} us", **what}
        yield {"type": "watch", "what": chance.choice(conditions).partition(" ")[0]}
        yield {"type": "to_breakpoint"}
        for path, value in chance.sample(values, 6):
            yield {"type": "set", "path": path, "value": value}
        yield {
            "type": "take_down",
            "link": chance.choice(["link[0]", "rank[0]", "dim[0]"]),
            "both": chance.random() < 0.5,
        }
        yield {"type": "to_breakpoint"}
        yield {"type": "event", "n": 50}
        yield {"type": "back", "n": 30, "unit": "event"}
        if round_ == 1:
            yield {"type": "undo"}
        yield {"type": "enable", "number": 0, "enabled": False}
        yield {"type": "clear", "number": 1}
    yield {"type": "clear"}
    yield {"type": "next_line", "block": "gpu[0].block.0"}
    yield {"type": "record", "on": False}
    yield {"type": "to_end"}
    yield {"type": "reset"}
    yield {"type": "to_end"}


@pytest.mark.parametrize("name", mostly_slow(SOME, "random 2", "in the network", "layers, a torus"))
def test_runs_are_stopped_watched_and_changed_alike(name: str) -> None:
    with kernels(name) as (python, page):
        for message in _changes(python.sim, SOME.index(name)):
            theirs = page.send(message)[-1][0]
            mine = python.send(message)[-1][0]
            left_out = {"seq", "first", "one_in", "coarse", "total"}
            assert {k: v for k, v in theirs.items() if k not in left_out} == {
                k: v for k, v in mine.items() if k not in left_out
            }, message
            for kernel in (python, page):
                kernel.send({"type": "read"})
            same(python, page, {"type": "ask", "id": 1, "question": "hash", "options": {"at_ps": None}})
            for path in ("rank[0]", "dim[0]", "link[1]", "layer[conv1]", ""):
                for question in ("breaks", "parameters"):
                    options = {"path": path, "at_ps": None}
                    same(python, page, {"type": "ask", "id": 1, "question": question, "options": options})


def test_of_many_spans_shares_are_the_same() -> None:
    plan = Parallelism(pipeline=4, tensor=8, data=2)
    sim = anb.Simulation(None, workload("gpt3-1.3b", plan, batch=16, microbatches=8, gpu="h100-sxm"))
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        for kernel in (python, page):
            kernel.send({"type": "event", "n": 9_999})
            kernel.send({"type": "to_end"})
        for kind in ("operations", "chunks"):
            options = {
                "from": 1,
                "to": sim.now_ps * 3 // 4,
                "columns": 333,
                "kind": kind,
                "ranks": [*range(64)],
            }
            message = {"type": "ask", "id": 1, "question": "tracks", "options": options}
            ((answer, _),) = same(python, page, message)
            assert answer["drawn"] == ("density" if answer["count"] > 6000 else "spans")
            assert kind == "chunks" or answer["count"] > 6000
