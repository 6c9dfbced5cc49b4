"""The widget: its methods without a browser, and what it answers to a browser's messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError


class Wire:
    """A browser's end: sends messages, keeps the answers."""

    def __init__(self, workbench: anb.Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workbench, self.got = workbench, []  # type: tuple[anb.Workbench, list[dict[str, Any]]]
        monkeypatch.setattr(workbench, "send", lambda content, buffers=None: self.take(content, buffers))

    def take(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        json.dumps(content)  # it can travel
        assert all(isinstance(b, bytes) for b in buffers)
        self.got.append(content)

    def say(self, **content: Any) -> list[dict[str, Any]]:
        self.got.clear()
        self.workbench.connection.receive(self.workbench, content, [])
        return list(self.got)


@pytest.fixture
def bench() -> anb.Workbench:
    return anb.Workbench(anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs")))


@pytest.fixture
def wire(bench: anb.Workbench, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(bench, monkeypatch)


def test_every_button_is_a_method(bench: anb.Workbench) -> None:
    sim = bench.sim
    bench.event(100)
    bench.cycle(2)
    assert sim.events > 100
    bench.back(sim.events - 50)
    assert sim.events == 50
    bench.phase()
    bench.set_speed("5 us")
    bench.pause()
    bench.to_breakpoint()
    assert sim.finished
    bench.reset()
    assert sim.events == 0
    bench.play()
    bench.to_end()
    assert sim.finished


def test_scrubbing_and_following(bench: anb.Workbench) -> None:
    sim = bench.sim
    sim.run("1 us")
    bench.select("gpu[1]")
    now = bench.selected
    bench.scrub("200 ns")
    assert bench.cursor_ps == 200_000
    assert sim.now_ps > 800_000
    assert bench.selected != now
    bench.follow()
    assert (bench.cursor_ps, bench.selected) == (sim.now_ps, now)
    bench.scrub("1 s")  # beyond what is simulated: at the simulation
    assert bench.cursor_ps == sim.now_ps
    bench.scrub(100)
    bench.event()
    assert bench.cursor_ps == sim.now_ps


def test_bad_words_get_one_line(bench: anb.Workbench) -> None:
    with pytest.raises(InputError):
        bench.select("gpu[99]")
    with pytest.raises(InputError):
        bench.scrub("yesterday")


def test_zooming(bench: anb.Workbench) -> None:
    bench.zoom("100 ns", 300_000)
    assert bench._window_ps == [100_000, 300_000]
    bench.zoom()
    assert bench._window_ps == []
    with pytest.raises(InputError, match="one end"):
        bench.zoom("1 us")
    with pytest.raises(InputError, match="window from"):
        bench.zoom("2 us", "1 us")
    with pytest.raises(InputError):
        bench.set_speed(0)
    with pytest.raises(InputError, match="not a simulation"):
        anb.Workbench("dgx-h100")  # type: ignore[arg-type]
    assert bench.selected is None


def test_nothing_is_sent_before_a_browser_is_ready(wire: Wire) -> None:
    wire.workbench.event(10)
    assert wire.got == []
    kinds = [m["type"] for m in wire.say(type="ready")]
    assert kinds == ["scene", "state"]


def test_a_browser_that_lags_behind_gets_one_message_with_all(wire: Wire) -> None:
    wire.say(type="ready")
    wire.say(type="read")
    wire.got.clear()
    for _ in range(10):
        wire.workbench.event(50)
    assert [m["events"] for m in wire.got] == [50, 100, 150, 200, 250, 300]
    assert [m["events"] for m in wire.say(type="read")] == [500]
    assert wire.say(type="read") == []
    wire.workbench.event()
    assert wire.got[-1]["events"] == 501


def test_nothing_is_sent_when_nobody_looks(wire: Wire) -> None:
    wire.say(type="ready")
    assert wire.say(type="away") == [{"type": "roll"}]
    wire.got.clear()
    wire.workbench.event(10)
    assert wire.got == []
    assert wire.say(type="ready")[-1]["events"] == 10


def test_questions_get_answers(wire: Wire) -> None:
    wire.say(type="ready")
    assert wire.say(type="event", n=300)[0]["events"] == 300
    assert wire.say(type="timeline")[0]["type"] == "timeline"
    (answer,) = wire.say(type="inspect", path="gpu[2]", at_ps=None)
    assert answer["found"]["title"] == "dgx_h100.0.xpu.2 (GPU2)"
    (answer,) = wire.say(type="inspect", path="gpu[2].nonsense")
    assert "nonsense" in answer["error"]
    assert wire.say(type="back", n=300)[0]["events"] == 0


@pytest.mark.parametrize(
    "message",
    [
        {"type": "fly"},
        {},
        {"type": "event", "n": -1},
        {"type": "event", "n": "many"},
        {"type": "event", "n": None},
        {"type": "inspect"},
        {"type": "set_speed", "speed": "fast"},
        {"type": "back", "unit": "week"},
    ],
)
def test_nonsense_is_answered_and_changes_nothing(wire: Wire, message: dict[str, Any]) -> None:
    wire.say(type="ready")
    wire.workbench.event(10)
    answers = wire.say(**message)
    assert any(a["type"] == "error" or a.get("failed") for a in answers)
    assert wire.workbench.sim.events == 10
    wire.say(type="read")
    assert wire.say(type="event", n=1)[-1]["events"] == 11


def test_two_workbenches_show_one_simulation(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    second = Wire(anb.Workbench(wire.workbench.sim), monkeypatch)
    wire.say(type="ready")
    second.say(type="ready")
    wire.say(type="event", n=5)
    assert second.got[-1]["events"] == 5
    second.workbench.close()
    second.got.clear()
    wire.say(type="event", n=5)
    assert second.got == []


def test_it_brings_a_still_picture_for_places_without_widgets(bench: anb.Workbench) -> None:
    bundle = bench._repr_mimebundle_()
    assert bundle
    data, _ = bundle
    assert data["image/svg+xml"].startswith("<svg")
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(bench)
    assert "8 GPUs" in repr(bench)
