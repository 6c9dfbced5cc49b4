"""A page plays in short slices: Pause acts at once, and a run ends as if it had never stopped."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest

import astranb as anb
from tests.widgets.live.kernels import NodeKernel, Sent, differing, page_kernel

READY: dict[str, Any] = {"type": "ready"}


def _simulation(size: str = "1 MiB") -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, "ring"))


def _states(sent: Sent) -> list[dict[str, Any]]:
    return [meta for meta, _ in sent if meta["type"] == "state"]


def _last(page: NodeKernel) -> dict[str, Any]:
    """The state now, however many states before have not been read."""
    return _states(page.send({"type": "fine"}))[-1]


def test_pause_stops_a_run_that_goes_on_to_the_same_end() -> None:
    sim = _simulation()
    with page_kernel(sim) as page:
        played: list[dict[str, Any]] = [
            READY,
            {"type": "to_end"},
            {"type": "sleep", "ms": 60},
            {"type": "pause"},
        ]
        found = _states(page.send(played))
        assert [state["status"] for state in found[:2]] == ["ready", "running"]
        paused = _last(page)
        assert (paused["status"], paused["playing"], paused["finished"]) == ("paused", False, False)
        assert paused["events"] > 0
        times = [state["now_ps"] for state in [*found, paused]]
        assert times == sorted(times)
        done = [state["progress"]["done"] for state in found if state["fast"]]
        assert done == sorted(done)
        assert 0 <= done[0] <= done[-1] < 1
        sim.step(paused["events"])
        assert page.ask("hash")["hash"] == sim.state_hash()
        page.send({"type": "to_end"})
        sim.run()
        assert (page.ask("hash")["hash"], differing(sim, page)) == (sim.state_hash(), [])


def test_a_run_is_played_at_its_speed() -> None:
    with page_kernel(_simulation()) as page:
        page.send([READY, {"type": "set_speed", "speed": 2e7}])
        began, now_ps = perf_counter(), 0
        for ms in (300, 1_000, 4_000):  # a busy machine is late
            page.send([{"type": "play"}, {"type": "sleep", "ms": ms}, {"type": "pause"}])
            now_ps = _last(page)["now_ps"]
            if now_ps > 1e6:
                break
        assert 1e6 < now_ps < 2e7 * (perf_counter() - began)


def test_pause_goes_back_to_what_was_seen() -> None:
    sim = _simulation()
    with page_kernel(sim) as page:
        page.send([READY, {"type": "goto", "when": "4 us"}])
        page.send([{"type": "to_end"}, {"type": "sleep", "ms": 60}, {"type": "pause", "at_ps": 2_000_000}])
        paused = _last(page)
        assert paused["status"] == "paused"
        assert paused["now_ps"] == sim.goto(2_000_000).now_ps
        assert page.ask("hash")["hash"] == sim.state_hash()


@pytest.mark.parametrize("command, status", [
    ({"type": "phase", "n": 3}, "has ended at "),
    pytest.param({"type": "hop", "n": 20_000}, "a line enters a link at ", marks=pytest.mark.slow),
    ({"type": "goto", "when": "6 us"}, "reached the given time at 6 µs"),
    pytest.param({"type": "event", "n": 60_000}, "stepped at ", marks=pytest.mark.slow),
    ({"type": "cycle", "n": 30_000}, "stepped at "),
])  # fmt: skip
def test_long_steps_are_played_and_end_where_they_should(command: dict[str, Any], status: str) -> None:
    sim = _simulation()
    with page_kernel(sim) as page:
        states = _states(page.send([READY, command]))
        assert states[1]["status"] == "running"
        assert status in _last(page)["status"]
        verbs = {"goto": lambda: sim.goto(command["when"])}
        stop = verbs.get(command["type"], lambda: sim.step(command["n"], command["type"]))()
        assert _last(page)["status"] == stop.text
        assert page.ask("hash")["hash"] == sim.state_hash()


def test_another_command_ends_playing() -> None:
    sim = _simulation()
    with page_kernel(sim) as page:
        page.send([READY, {"type": "to_end"}, {"type": "sleep", "ms": 30}, {"type": "reset"}])
        assert _last(page)["events"] == 0
        assert page.ask("hash")["hash"] == sim.state_hash()


def test_a_view_that_lags_behind_is_sent_no_more_until_it_has_read() -> None:
    with page_kernel(_simulation()) as page:
        page.send(READY)
        sent = [len(page.send({"type": "event"})) for _ in range(8)]
        assert sent == [1] * 5 + [0] * 3
        assert page.send({"type": "read"})[0][0]["events"] == 8


def test_a_run_that_has_ended_says_so() -> None:
    with page_kernel(_simulation("8 KiB")) as page:
        page.send([READY, {"type": "to_end"}])
        assert _last(page)["finished"]
        page.send({"type": "play"})
        assert _last(page)["status"] == "nothing is left to happen: go back, or reset"


def test_checkpoints_keep_to_their_memory() -> None:
    budget = 25_000_000
    sim = _simulation()
    with page_kernel(sim) as page:
        page.send([{"type": "budget", "bytes": budget}, READY, {"type": "to_end"}])
        ((kept, _),) = page.send({"type": "kept"})
        events = [number for number, _ in kept["checkpoints"]]
        assert events[0] == 0
        assert 2 < len(events) < 8  # native: 8 without a limit, 49 MB
        assert sum(taken for _, taken in kept["checkpoints"]) <= budget
        sim.run()
        for back in (1, 200_000, 600_000):
            page.send({"type": "back", "n": back})
            sim.back(back)
            assert page.ask("hash")["hash"] == sim.state_hash()


def test_a_pause_on_the_way_to_the_next_line_leaves_no_breakpoint() -> None:
    with page_kernel(_simulation()) as page:
        page.send([READY, {"type": "goto", "when": "4 us"}])
        wait = [{"type": "next_line", "block": "gpu[2].block.3"}, {"type": "pause"}]
        page.send(wait)
        assert page.ask("breaks")["points"] == []
        page.send(wait[:1])
        assert page.ask("breaks")["points"] == []
