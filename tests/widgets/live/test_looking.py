"""A page says of every object what Python says, at every moment: its state, lines, waits, events, place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import Deadlock
from astranb.engine.cacheline.paths import object_names, part_names
from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same
from tests.widgets.live.machines import MACHINES
from tests.widgets.live.selection import mostly_slow

_MOST = 60  # objects of one kind that are asked about


def _few(names: list[str], most: int) -> list[str]:
    return names[:: max(1, -(-len(names) // most))]


def _paths(sim: anb.Simulation) -> list[str]:
    """Objects of every kind, some of each."""
    fabric, machine = sim.engine.fabric, sim.engine.machine
    names = list(object_names(fabric))
    found = _few([name for name in names if "->" not in name], _MOST)
    found += _few([name for name in names if "->" in name], _MOST)
    owners = _few([name for name in names if "->" not in name], 4) + _few(names, 4) + ["gpu[0]", "gpu[1]"]
    for owner in owners:
        for parts in part_names(owner, fabric, machine).values():
            listed = list(islice(parts, 200))
            found += [*listed[:2], *listed[-1:], *_few(listed, 3)]
    instances = sorted(
        {".".join(fabric.graph.name(node).split(".")[:2]) for node in range(len(fabric.graph))}
    )
    found += [f"{a}->{b}" for a, b in pairwise(instances)]
    return list(
        dict.fromkeys([*found, *instances[:4], "gpu[0-1]", "gpu[0].sm.9999", "nothing", "line[0]", ""])
    )


def _lines(python: PythonKernel) -> list[str]:
    """Some of the lines under way, of each kind."""
    requests = python.sim.engine.machine.requests
    live = np.flatnonzero(requests["live"] == 1).tolist()
    kinds = {(int(requests[n].kind), int(requests[n].returning), int(requests[n].leg)): n for n in live}
    return [f"line[{number}]" for number in {*kinds.values(), *live[:: max(1, len(live) // 3)]}]


def _asked(path: str, at_ps: float | None) -> Iterator[dict[str, Any]]:
    yield {"type": "inspect", "path": path, "at_ps": at_ps}
    yield {"type": "ask", "id": 1, "question": "why", "options": {"path": path, "at_ps": at_ps}}


def _look(python: PythonKernel, page: NodeKernel, paths: list[str], at_ps: float | None) -> None:
    lines = _lines(python)
    for path in [*paths, *(lines if at_ps is None else lines[::4])]:
        for message in _asked(path, at_ps):
            same(python, page, message)
    same(python, page, {"type": "ask", "id": 2, "question": "where", "options": {"at_ps": at_ps}})


def _move(python: PythonKernel, page: NodeKernel, events: int) -> bool:
    """Go on by some events; whether both could."""
    message = {"type": "event", "n": events}
    python.send(message)
    page.send(message)
    return not python.sim.finished


def _events_of(name: str) -> int:
    """How many events a run has."""
    sim = MACHINES[name]()
    with suppress(Deadlock):
        sim.run()
    return sim.events


@pytest.mark.parametrize("name", mostly_slow(MACHINES, "all pairs, LL", "buffers", "operations"))
def test_every_object_at_several_moments(name):
    sim, events = MACHINES[name](), _events_of(name)
    paths = _paths(sim)
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        _look(python, page, paths[::5], None)
        for stop, part in enumerate((0.07, 0.26, 0.5, 0.85, 1.0)):
            _move(python, page, max(1, int(part * events) - sim.events))
            past_ps = int(0.6 * sim.now_ps)
            _look(python, page, paths[stop::5], None)
            _look(python, page, paths[stop::23], past_ps)
            for at_ps in (None, past_ps, 0):
                options = {"at_ps": at_ps}
                same(python, page, {"type": "ask", "id": 3, "question": "events", "options": options})


@pytest.mark.parametrize("name", ["ring", "posts", "operations"])
def test_the_program(name):
    sim = MACHINES[name]()
    with page_kernel(sim) as page:
        message = {"type": "ask", "id": 1, "question": "source", "options": {}}
        ((answer, _),) = same(PythonKernel(sim), page, message)
    assert all(part["lines"] for part in answer["parts"])


def test_links_that_are_down():
    sim = MACHINES["ring"]()
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        _move(python, page, 20_000)
        link = sim.engine.fabric.name(int(sim.engine.machine.route_links[0]))
        for one in (python, page):
            one.send({"type": "take_down", "link": link, "both": True})
        for events in (1, 3_000, 30_000):
            _move(python, page, events)
            back = "->".join(reversed(link.partition("#")[0].split("->")))
            paths = [
                link,
                link.partition("#")[0],
                back,
                *link.partition("#")[0].split("->"),
                "gpu[0]",
                "gpu[1]",
            ]
            _look(python, page, paths, None)
        assert any("down" in label for label, _ in sim.inspect(link)["state"])


@pytest.mark.parametrize("name", mostly_slow(MACHINES, "in switches", "roles", "Ethernet"))
def test_every_event_in_words(name):
    sim = MACHINES[name]()
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        for message in ({"type": "ready"}, {"type": "event", "n": 150}):
            python.send(message)
            page.send(message)
        for _ in range(400):
            sent = [one.send({"type": "event", "n": 1 + 7 * (_ // 100)}) for one in (python, page)]
            mine, theirs = ([meta for meta, _ in one if meta["type"] == "state"] for one in sent)
            assert [meta["narration"] for meta in theirs] == [meta["narration"] for meta in mine]
            for one in (python, page):
                one.send({"type": "read"})


def _texts(sim: anb.Simulation) -> list[str]:
    names = list(object_names(sim.engine.fabric))
    texts = [
        *_few(names, 12),
        "gpu",
        "GPU1",
        "gpu1.",
        "gpu[1].sm",
        "gpu[1].sm.",
        "gpu[1].sm.1",
        "l2",
        "hbm.0",
        "s",
        "l2.1",
    ]
    texts += [
        "GPU1.block.0",
        "->",
        "#",
        "0->",
        "port",
        "buf",
        "semaphore.0",
        "",
        "xpu.0",
        "lane",
        "b",
        "gpu[0].hbm.0.",
        "[",
        " ]",
    ]
    return (
        texts + [text[: len(text) // 2] for text in texts] + [text[len(text) // 2 :] for text in texts[:12]]
    )


@pytest.mark.parametrize(
    "name", mostly_slow(["ring", "buffers", "mesh", "copy engines"], "mesh", "copy engines")
)
def test_search_and_completion(name):
    sim = MACHINES[name]()
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        texts = [
            *_texts(sim),
            "1 us",
            "1us gpu",
            "3.5 µs",
            "-1 us",
            "7",
            "rank 1",
            "rank[1]",
            "gpu 1",
            "1e99 s",
            "9999",
            "xpu 1",
            "a b",
        ]
        for text in texts:
            for question, options in (
                ("search", {"text": text}),
                ("complete", {"text": text}),
                ("complete", {"text": text, "fields": "condition"}),
                ("complete", {"text": text, "fields": "watch"}),
            ):
                same(python, page, {"type": "ask", "id": 1, "question": question, "options": options})


_HOSTILE: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e30,
    "",
    "x",
    "1 us",
    "💥\n",
    [],
    [1],
    {},
    {"a": 1},
    "gpu[0]",
    "a" * 5000,
]


@pytest.fixture(scope="module")
def all_pairs() -> Iterator[tuple[PythonKernel, NodeKernel]]:
    """Both kernels in the middle of a run; tests only ask them."""
    sim = MACHINES["all pairs, LL"]()
    python = PythonKernel(sim)
    with page_kernel(sim) as page:
        _move(python, page, 2000)
        yield python, page


@pytest.mark.parametrize(
    "question, option", [("why", "path"), ("search", "text"), ("complete", "text"), ("complete", "fields")]
)
def test_hostile_options(all_pairs, question, option):
    python, page = all_pairs
    for value in _HOSTILE:
        options = {option: value, **({"text": "gpu[0].sm.0.wai"} if option == "fields" else {})}
        same(python, page, {"type": "ask", "id": 1, "question": question, "options": options})
        same(python, page, {"type": "inspect", "path": value})


@pytest.mark.parametrize("question", ["why", "events", "where"])
def test_hostile_times(all_pairs, question):
    python, page = all_pairs
    for value in [None, 0, -5, 10**18, 1.5, True]:
        same(python, page, {"type": "ask", "id": 1, "question": question, "options": {"at_ps": value}})
