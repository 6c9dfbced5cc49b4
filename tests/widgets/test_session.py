"""The workbench without a browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.progress import announce
from astranb.core.units import format_time
from astranb.widgets.session import COMMANDS, PLAYING, Session, session_of


def small(algorithm: str = "allpairs", size: str = "8 KiB") -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, algorithm))


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what is waited for knows no events
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def shared() -> anb.Simulation:
    return small()


def test_one_session_for_all_views() -> None:
    sim = small()
    assert session_of(sim) is session_of(sim)
    assert session_of(sim) is not session_of(sim.fork())


def test_commands_are_the_verbs(shared: anb.Simulation) -> None:
    shared.reset()
    session = session_of(shared)
    session.ask("event", n=500)
    assert shared.events == 500
    session.ask("cycle")
    after = shared.events
    assert after > 500
    session.ask("back", n=after - 100)
    assert shared.events == 100
    session.ask("phase")
    assert session.status.startswith("reduce-scatter has ended at ")
    session.ask("reset")
    assert shared.events == 0


def test_what_a_step_waits_for_is_shown() -> None:
    sim = small()
    session = session_of(sim)
    seen: list[str] = []
    session.attach(lambda: seen.append(session.status))

    def waits(_sim: anb.Simulation) -> bool:
        with announce("compiling cacheline", 40):
            return False

    sim.break_when(waits)
    session.ask("event", n=1)
    assert seen[0] == "compiling cacheline: about 40 s"
    assert "compiling" not in session.status


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["event", "cycle", "back", "reset"]), max_size=12), st.integers(1, 700))
def test_however_one_came_there_the_state_is_the_same(commands: list[str], n: int) -> None:
    sim = small()
    session = session_of(sim)
    for command in commands:
        session.ask(command, n=n)
    straight = small()
    straight.step(sim.events)
    assert straight.state_hash() == sim.state_hash()


def test_an_unknown_command_names_the_near_ones(shared: anb.Simulation) -> None:
    with pytest.raises(InputError, match="phase"):
        session_of(shared).ask("phases")


def test_without_an_event_loop_play_runs(shared: anb.Simulation) -> None:
    shared.reset()
    session = session_of(shared)
    session.ask("play")
    assert shared.finished
    assert not session.playing
    session.ask("play")
    assert "go back, or reset" in session.status


def test_views_are_notified_and_can_leave(shared: anb.Simulation) -> None:
    shared.reset()
    session = session_of(shared)
    told: list[int] = []
    leave = session.attach(lambda: told.append(shared.events))
    session.ask("event", n=3)
    shared.step(4)  # a cell moves it
    shared.back(2)
    leave()
    shared.step(1)
    assert told == [3, 7, 5]


def test_a_long_run_in_a_cell_is_shown_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.sim.simulation._BEAT_S", 0.0)
    sim = small("ring", "1 MiB")
    session = session_of(sim)
    told: list[tuple[int, str]] = []
    session.attach(lambda: told.append((sim.events, session.status)))
    sim.run()
    events = [e for e, _ in told]
    assert events == sorted(set(events))
    assert all("running in a cell" in status for _, status in told[:-1])
    assert len(told) > 10
    assert "nothing is left" in told[-1][1]


def test_playing_lets_others_work_and_pauses_at_once() -> None:
    sim = small("ring", "1 MiB")

    async def watch() -> tuple[int, float, int]:
        session = session_of(sim)
        session.ask("to_end")
        turns = 0
        while sim.events < 300_000:
            await asyncio.sleep(0)
            turns += 1
        session.ask("pause")
        events, began = sim.events, perf_counter()
        await asyncio.sleep(0.1)
        assert sim.events == events
        assert not session.playing
        session.ask("event")
        assert sim.events == events + 1
        return turns, perf_counter() - began, events

    turns, _, events = asyncio.run(watch())
    assert turns >= events // 40_000  # somebody else had a turn after every slice


@pytest.mark.parametrize("large", [False, True])
def test_pause_goes_back_to_what_was_seen_unless_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr("astranb.widgets.session.session._MOST_WORK", 1000)
    sim = small("ring", "1 MiB")
    sim.run("5 us")
    session = session_of(sim)
    events = sim.events
    session.ask("pause", at_ps=4_500_000)
    if large:
        assert sim.events == events
        ahead = format_time(sim.now_ps - 4_500_000)
        assert session.status == f"paused: the run is {ahead} ahead of the view (going back takes long)"
    else:
        assert sim.now_ps <= 4_500_000 < sim.driver.next_ps
        assert session.status == "paused"


def test_the_speed_sets_how_far_it_gets() -> None:
    sim = small("ring", "1 MiB")

    async def watch() -> None:
        session = session_of(sim)
        session.ask("set_speed", speed=2e6)
        session.ask("play")
        began, from_ps = perf_counter(), sim.now_ps
        await until(lambda: sim.now_ps >= 500_000)
        took = perf_counter() - began
        session.ask("pause")
        assert (sim.now_ps - from_ps) / took < 2.2e6  # it does not run ahead
        assert not sim.finished

    asyncio.run(watch())


def test_a_cell_may_move_what_plays() -> None:
    sim = small("ring", "1 MiB")

    async def watch() -> None:
        session = session_of(sim)
        session.ask("play")
        await asyncio.sleep(0.05)
        sim.goto("9 us")
        await asyncio.sleep(0.05)
        assert 9_000_000 <= sim.now_ps < 10_000_000
        sim.reset()
        await asyncio.sleep(0.05)
        assert sim.now_ps < 1_000_000  # and does not race to where it was
        session.ask("pause")

    asyncio.run(watch())


def test_play_pause_play_is_one_player() -> None:
    sim = small("ring", "1 MiB")

    async def watch() -> int:
        session = session_of(sim)
        for _ in range(5):
            session.ask("play")
            session.ask("pause")
        session.ask("play")
        await asyncio.sleep(0.05)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        session.ask("pause")
        await asyncio.sleep(0.05)
        return len(others)

    assert asyncio.run(watch()) == 1


def test_commands_of_another_thread_are_applied_by_the_owner() -> None:
    sim = small()

    async def watch() -> None:
        session = session_of(sim)
        movers: set[int] = set()
        sim.subscribe(lambda _: movers.add(threading.get_ident()))
        threads = [threading.Thread(target=session.ask, args=("event",), kwargs={"n": 10}) for _ in range(8)]
        for thread in threads:
            thread.start()
        await until(lambda: sim.events >= 80)
        for thread in threads:
            thread.join()
        assert sim.events == 80
        assert movers == {threading.get_ident()}

    asyncio.run(watch())


def test_a_breakpoint_stops_playing_and_says_which() -> None:
    sim = small("ring", "64 KiB")

    async def watch() -> Session:
        session = session_of(sim)
        sim.break_at("1 us")
        session.ask("to_breakpoint")
        await until(lambda: not session.playing)
        return session

    session = asyncio.run(watch())
    assert "breakpoint" in session.status
    assert sim.now_ps <= 1_000_000
    assert not sim.finished


def test_a_failing_breakpoint_function_stops_with_its_error() -> None:
    sim = small()

    async def watch() -> Session:
        session = session_of(sim)
        sim.break_when(lambda s: 1 // (3 - s.events) == 7)
        session.ask("to_end")
        await until(lambda: not session.playing)
        return session

    session = asyncio.run(watch())
    assert session.failed
    assert "ZeroDivisionError" in session.status
    sim.clear()
    session.ask("event")
    assert not session.failed


def deadlock(p: anb.collectives.Program) -> None:
    for rank in range(p.ranks):
        p.block(rank).wait(p.semaphore(rank))


def test_a_deadlock_is_reported_and_can_be_inspected() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", algorithm=deadlock))
    session = session_of(sim)
    session.ask("to_end")
    assert session.failed
    assert "wait" in session.status
    session.ask("back", n=5)
    assert not session.failed


def test_looking_into_the_past_leaves_the_simulation_where_it_is() -> None:
    sim = small("ring", "256 KiB")
    sim.run("3 us")
    session = session_of(sim)
    before = sim.state_hash()
    for at in (2_000_000, 500_000, 2_500_000, 10**12):
        other = sim.fork(record=False)
        other.goto(min(at, sim.now_ps))
        other.engine.as_of_ps = min(at, sim.now_ps)
        assert session.inspect("gpu[3]", at) == other.inspect("gpu[3]")
    assert sim.state_hash() == before


def test_the_past_holds_the_edits_of_then() -> None:
    sim = small("ring", "256 KiB")
    sim.run("1 us")
    link = sim.engine.fabric.name(int(sim.engine.machine.route_links[0])).partition("#")[0]
    sim.set(f"{link}.bandwidth", "1 GB/s")
    sim.run("2 us")
    session = session_of(sim)

    def bandwidth(at: float | None) -> str:
        return str(dict(map(tuple, session.inspect(link, at)["state"]))["bandwidth"])

    early, late, now = bandwidth(500_000), bandwidth(1_500_000), bandwidth(None)
    assert late == now != early


def test_every_command_can_be_asked_for() -> None:
    for command in (*PLAYING, *COMMANDS):
        session_of(small()).ask(command, **({"speed": 5.0} if command == "set_speed" else {}))
