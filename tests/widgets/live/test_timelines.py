"""Timelines, activity, busiest links, intervals, traffic and ports: a page answers what Python answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import astranb as anb
from astranb.core.state import own
from astranb.gpu import preset
from astranb.net import Network
from astranb.widgets.feed import unpack
from astranb.widgets.views.queues import DOWN
from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same
from tests.widgets.live.machines import MACHINES
from tests.widgets.live.selection import mostly_slow

_BIT = 4_000
"""Events of a step that both kernels make at once."""

_MORE: dict[str, Callable[[], anb.Simulation]] = {
    "late": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"), start={0: "3 us", 3: "900 ns"}
    ),
    "not recorded": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"), record=False
    ),
    "two servers": lambda: anb.Simulation(
        "single-tier:server=dgx-h100,servers=2", anb.collectives.all_to_all("32 KiB"),
        network=Network(buffers=4),
    ),
    "few slots": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs", channels=1),
        gpu=preset("h100-sxm").but(max_outstanding=3),
    ),
    "all pairs, LL128": lambda: anb.Simulation(
        "mi300x", anb.collectives.all_reduce("32 KiB", "allpairs", protocol="LL128")
    ),
}  # fmt: skip

_HOSTILE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("spans", {}),
    ("spans", {"from": 5, "to": 5, "columns": 1}),
    ("spans", {"from": "x", "to": 5, "columns": 1}),
    ("spans", {"from": 0, "to": 9, "columns": None}),
    ("spans", {"from": 0, "to": "9", "columns": 1.7, "kind": "smss"}),
    ("spans", {"from": -9, "to": "9", "columns": -1, "kind": None}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "folds": [900], "tracks": []}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "folds": [-1]}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "folds": [[0], [1, 2]]}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "folds": 0, "tracks": "1"}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "tracks": [None]}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "tracks": {"a": 1}}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "kind": "phases", "folds": [-1, 0]}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "kind": "phases", "folds": [99]}),
    ("spans", {"from": 0, "to": 9, "columns": 3, "folds": [0, 0], "tracks": [1, 1, 0]}),
    ("moment", {}),
    ("moment", {"kind": "blocks", "time": 10, "track": 10**6}),
    ("moment", {"kind": "phases", "time": "now", "track": 0}),
    ("moment", {"kind": "phases", "time": 10, "track": -1}),
    ("span", {"kind": "sms", "time": -5, "track": 0}),
    ("span", {"kind": "phases", "time": 5, "track": 0, "phase": 10**6}),
    ("span", {"kind": "phases", "time": 5, "track": 0}),
    ("activity", {}),
    ("activity", {"from": 0, "to": 10, "columns": 4, "bundles": [-1, "0", 10**9, 1]}),
    ("activity", {"from": 0, "to": 10, "columns": 4, "bundles": 7}),
    ("activity", {"from": 0, "to": 10, "columns": 4, "bundles": [None]}),
    ("activity", {"from": 0, "to": 10, "columns": 4, "first": 9, "last": 3}),
    ("activity_span", {}),
    ("activity_span", {"time": 0}),
    ("activity_span", {"time": 0, "gpu": 0}),
    ("activity_span", {"time": 0, "gpu": 10**6, "strip": "l2"}),
    ("activity_span", {"time": 0, "gpu": 0, "strip": "toString"}),
    ("activity_span", {"time": 0, "bundle": -1}),
    ("activity_span", {"time": -1, "bundle": 0}),
    ("aggregate", {}),
    ("aggregate", {"from": 9, "to": 3}),
    ("aggregate", {"from": -9, "to": -3}),
    ("aggregate", {"from": 0, "to": 3, "ranks": [10**6]}),
    ("aggregate", {"from": 0, "to": 3, "ranks": 2}),
    ("aggregate", {"from": 0, "to": 10**6, "ranks": [1, "1", 0]}),
    ("aggregate", {"from": 0, "to": 10**6, "ranks": []}),
    ("hot", {"window": 5}),
    ("hot", {"window": [1]}),
    ("hot", {"window": [1, 2, 3]}),
    ("hot", {"window": ["1", "x"]}),
    ("hot", {"window": {"a": [1, None, True, "it's", {"b": 0.25}]}}),
    ("hot", {"window": [10**9, -5.5]}),
    ("aggregates", {"window": [None, 1]}),
    ("traffic", {"window": ["0", "1e6"]}),
    ("traffic", {"window": "nonsense"}),
    ("picture", {"opened": ["nothing"], "focus": "nowhere"}),
    ("picture", {"opened": 3}),
    ("picture", {"opened": [f"a.{k}" for k in range(65)]}),
    ("picture", {"opened": {"a": 1}, "focus": None}),
    ("line", {}),
    ("line", {"link": "a", "end_ps": 1}),
    ("line", {"link": 0, "end_ps": 1}),
)


class Both:
    """The two kernels of a run, asked the same questions."""

    def __init__(self, sim: anb.Simulation, page: NodeKernel) -> None:
        self.sim, self.python, self.page = sim, PythonKernel(sim), page

    def move(self, **message: Any) -> None:
        """Move both."""
        for kernel in (self.python, self.page):
            kernel.send(message)

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask both, and compare."""
        message = {"type": "ask", "id": 1, "question": question, "options": options}
        ((answer, _),) = same(self.python, self.page, message)
        return answer

    def ask_all(self) -> None:
        """Ask about all time so far, parts of it, and more than that."""
        now, ranks = self.sim.now_ps, self.sim.ranks
        self.ask("rows")
        windows = (0, max(1, now)), (now // 3, now // 2 + 10), (now // 3, now // 3 + 900), (0, 9 * now + 7)
        for start, end in windows:
            window = {"from": start, "to": end, "columns": 250}
            for kind in ("sms", "blocks"):
                tracks = len(self.sim.engine.tracks(kind))
                self.ask("spans", **window, kind=kind, folds=list(range(ranks)))
                self.ask("spans", **window, kind=kind, folds=[1], tracks=list(range(0, tracks, 3)))
                self.ask("moment", kind=kind, track=tracks - 1, time=end)
                self.ask("moment", kind=kind, track=0, time=(start + end) // 2)
                for track in (0, tracks // 2):
                    self.ask("span", kind=kind, track=track, time=(start + end) // 2)
            self.ask("spans", **window, kind="phases", folds=list(range(ranks)))
            self.ask("moment", kind="phases", track=1, time=(start + end) // 2)
            self.ask("span", kind="phases", track=0, phase=0, time=(start + end) // 2)
            self.ask("activity", **window, bundles=[0, 1])
            self.ask("activity", **{**window, "columns": 20}, first=1, last=3)
            for strip in ("issue", "l2", "hbm", "out"):
                self.ask("activity_span", gpu=1, strip=strip, time=(start + end) // 2, gap=4000)
            for flight in self.sim.engine.recorder.flights(start, end, limit=3)[0]:
                bundle = int(self.python.feed.bundle_of[flight.link])
                self.ask("activity_span", bundle=max(0, bundle), time=int(flight.start_ps) + 10, gap=500)
            self.ask("aggregate", **{"from": start, "to": end})
            self.ask("aggregate", **{"from": start, "to": end}, ranks=[0, ranks - 1])
            for question in ("hot", "aggregates", "traffic"):
                self.ask(question, window=[start, end])
        for question in ("hot", "aggregates", "traffic", "ports"):
            self.ask(question, at_ps=None)
        for question in ("traffic", "ports"):
            self.ask(question, at_ps=now // 2)
        same(self.python, self.page, {"type": "timeline"})


@pytest.mark.parametrize("name", mostly_slow(MACHINES | _MORE, "buffers", "deadlock", "few slots"))
def test_answers_at_every_stop(name: str) -> None:
    sim = (MACHINES | _MORE)[name]()
    with page_kernel(sim) as page:
        both = Both(sim, page)
        both.ask_all()
        for step in (300, 2_000, _BIT):
            both.move(type="event", n=step)
            both.ask_all()
        both.move(type="back", n=_BIT // 2, unit="event")
        both.ask_all()
        both.move(type="event", n=_BIT)
        both.move(type="back", n=2_000, unit="event")
        both.move(type="event", n=300)
        both.ask_all()
        for _ in range(60_000 // _BIT):  # no more: one of them never ends
            if sim.finished:
                break
            both.move(type="event", n=_BIT)
        both.ask_all()


_KEPT_UP = ["few slots", "copy engines", "late", "operations", "tree, LL128"]


@pytest.mark.parametrize("name", mostly_slow(_KEPT_UP, "copy engines", "tree, LL128"))
def test_a_timeline_is_kept_up(name: str) -> None:
    sim, random = (MACHINES | _MORE)[name](), Random(name)
    with page_kernel(sim) as page:
        both = Both(sim, page)
        for _ in range(70):
            back = random.random() < 0.3
            step = {"type": "back", "unit": "event"} if back else {"type": "event"}
            both.move(**step, n=random.choice([1, 7, 60, 400]))
            now = sim.now_ps
            window = {"from": random.randrange(now + 1), "to": now + random.randrange(2, 900), "columns": 90}
            for kind in ("sms", "blocks"):
                tracks = list(range(len(sim.engine.tracks(kind))))
                both.ask("spans", **window, kind=kind, folds=[0, 1], tracks=tracks)
                both.ask("moment", kind=kind, track=random.choice(tracks), time=now - 1)
            both.ask("activity", **window)


def test_ports_that_have_been_told_to_pause() -> None:
    sim = MACHINES["Ethernet"]()
    ahead = sim.fork(record=False)
    while not (ahead.engine.machine.queues["paused"] == 1).any():
        ahead.step(50)
    with page_kernel(sim) as page:
        both = Both(sim, page)
        for _ in range(0, ahead.events, 5_000):
            both.move(type="event", n=min(5_000, ahead.events - sim.events))
        assert sim.events == ahead.events
        ((_, columns),) = same(
            both.python, page, {"type": "ask", "id": 1, "question": "ports", "options": {"at_ps": None}}
        )
        assert any(mark & 2 for mark in unpack("ports", columns)["marks"])


def test_options_that_make_no_sense() -> None:
    sim = MACHINES["ring"]()
    with page_kernel(sim) as page:
        both = Both(sim, page)
        both.move(type="event", n=_BIT)
        errors = sum("error" in both.ask(question, **options) for question, options in _HOSTILE)
    assert 25 < errors < len(_HOSTILE)


def test_more_spans_than_are_drawn_one_by_one() -> None:
    sim = MACHINES["ring"]()
    with page_kernel(sim) as page:
        both = Both(sim, page)
        while not sim.finished:
            both.move(type="event", n=9_999)
        window = {"from": 0, "to": sim.now_ps, "columns": 700}
        tracks = list(range(len(sim.engine.tracks("blocks"))))
        assert both.ask("spans", **window, kind="blocks", tracks=tracks)["drawn"] == "spans"
        many = both.ask("spans", **window, kind="sms", folds=[0, 7], tracks=tracks * 20)
        assert many["drawn"] == "density"
        both.ask("spans", **{**window, "from": sim.now_ps // 3}, kind="blocks", tracks=tracks * 20)


def test_rings_that_have_lost_what_came_first() -> None:
    sim = MACHINES["ring"]()
    machine = sim.engine.machine
    flights, bursts = machine.recording.flights, machine.recording.bursts
    machine.recording = machine.recording._replace(flights=own(flights[:1_500]), bursts=own(bursts[:30]))
    with page_kernel(sim) as page:
        both = Both(sim, page)
        for step in (9_000, 9_000, 1_000):
            both.move(type="event", n=step)
            both.ask_all()
            both.move(type="back", n=1_500, unit="event")
            both.ask_all()
        assert sim.engine.recorder.oldest_ps > 0


def test_a_recording_that_is_switched() -> None:
    sim = MACHINES["ring"]()
    with page_kernel(sim) as page:
        both = Both(sim, page)
        for on in (False, True, False):
            both.move(type="event", n=3_000)
            both.move(type="record", on=on)
        both.move(type="event", n=3_000)
        both.ask_all()


@pytest.mark.parametrize("name", mostly_slow(["ring", "buffers"], "buffers"))
def test_ports_of_links_that_are_down(name: str) -> None:
    sim = MACHINES[name]()
    with page_kernel(sim) as page:
        both = Both(sim, page)
        both.move(type="event", n=4_000)
        crossed = int(sim.engine.recorder.since(0)[1]["link"][0])
        link = sim.engine.fabric.name(crossed).partition("#")[0]
        both.move(type="take_down", link=link, both=True)
        ask = {"type": "ask", "id": 1, "question": "ports", "options": {"at_ps": None}}
        ((_, columns),) = same(both.python, page, ask)
        assert DOWN in unpack("ports", columns)["marks"]
        both.move(type="event", n=3_000)
        ((_, columns),) = same(both.python, page, ask)
        shown = unpack("ports", columns)
        assert any(
            waiting for waiting, marks in zip(shown["waiting"], shown["marks"], strict=True) if marks & DOWN
        )
        both.move(type="repair", link=link, both=True)
        ((_, columns),) = same(both.python, page, ask)
        assert not any(marks & DOWN for marks in unpack("ports", columns)["marks"])
