"""Facts about an object hold for the cursor's time: nothing in the past is reported as to come."""

import random
import re
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.engine.cacheline.lines import Lines
from astranb.widgets.feed import feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of

RUNS = [
    pytest.param(lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring")), id="ring"),
    pytest.param(
        lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs", protocol="LL128")),
        id="packets",
    ),
    pytest.param(
        lambda: anb.Simulation(
            "ring:gpus=4", anb.collectives.all_gather("16 KiB", "ring"), network=anb.Network(buffers=3)
        ),
        id="buffers",
    ),
    pytest.param(
        lambda: anb.Simulation("ring:gpus=8", anb.collectives.all_reduce("1 MiB"), fidelity="congestion"),
        id="messages",
    ),
]
_LATER = re.compile(
    r"(?:sent at|arrives at|until|passes it on at|launched at|instruction at) ([\d.,]+ (?:ps|ns|µs|ms))"
)


def _paths(sim, chance):
    if sim.fidelity != "cacheline":
        rank = chance.randrange(sim.ranks)
        return ["", f"rank[{rank}]", f"rank[{rank}].op[0]", "dim[0]", "link[0]"]
    fabric, machine = sim.engine.fabric, sim.engine.machine
    rank, link = chance.randrange(sim.ranks), chance.randrange(len(fabric.links))
    flying = machine.requests["live"].nonzero()[0].tolist()
    lines = [f"line[{line}]" for line in chance.sample(flying, min(6, len(flying)))]
    return ["", f"gpu[{rank}]", f"gpu[{rank}].sm.0", f"gpu[{rank}].block.0", fabric.name(link), *lines]


def _texts(found):
    yield from (text for _, text in found["state"])
    yield from found["in_flight"]
    yield from found.get("recent", [])


@pytest.mark.parametrize("make", RUNS)
def test_no_past_event_is_in_the_future_tense(make):
    sim, chance = make(), random.Random(7)
    sim.run()
    session = session_of(sim)
    later = 0
    for _ in range(40):
        when = chance.randrange(1, sim.now_ps)
        past = session.at(when)
        assert past.now_ps == when
        assert past.driver.next_ps > when
        for path in _paths(past, chance):
            why = past.why(path)
            assert why.now_ps == when
            assert all(step.since_ps <= when for step in why), str(why)
            times = [step.until_ps for step in why if step.until_ps >= 0]
            assert all(until > when for until in times), f"{when} ps: {why}"
            later += len(times)
            for text in _texts(past.inspect(path)) if path else []:
                # A text has four digits of a time.
                for found in _LATER.findall(text):
                    assert time_ps(found.replace(",", ""), where="test") >= when * 0.9995, (
                        f"{when} ps: {text}"
                    )
        if sim.fidelity == "cacheline":
            lines = Lines(past.engine)
            for line in past.engine.machine.requests["live"].nonzero()[0].tolist():
                spot = lines.spot(line)
                assert spot.since_ps <= when
                assert spot.until_ps == -1 or spot.until_ps > when, f"{when} ps: {spot}"
    assert later > 0 or sim.fidelity != "cacheline"  # no rank computes


@pytest.mark.parametrize("make", RUNS)
def test_looking_between_two_events_changes_nothing(make):
    sim, chance = make(), random.Random(3)
    sim.run()
    session = session_of(sim)
    for _ in range(12):
        when = chance.randrange(1, sim.now_ps)
        past, exact = session.at(when), make()
        exact.goto(when)
        assert past.state_hash() == exact.state_hash()
        assert past.events == exact.events
    assert session.at(None).state_hash() == sim.state_hash()


def test_an_edit_between_two_looks_is_replayed_at_its_own_time():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run("2 us")
    session = session_of(sim)
    session.at(700_123)
    sim.goto(700_123)
    link = sim.engine.fabric.name(int(sim.engine.machine.route_links[0])).partition("#")[0]
    sim.take_down(link)
    sim.step(500)
    sim.repair(link)
    sim.run()
    for when in (700_123, 900_001, 1_500_000):
        past = session.at(when)
        copy = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
        for events, path, value in sim.edits:
            copy.step(events - copy.events)
            if copy.now_ps <= when:
                copy.set(path, value)
        copy.goto(when)
        assert past.state_hash() == copy.state_hash()


PANELS: dict[str, list[dict[str, Any]]] = {
    "buffers": [{}],
    "traffic": [{}, {"window": [100_000, 400_000]}],
    "flows": [{}, {"order": "duration_ps"}, {"order": "waited_ps", "now": True}],
    "chunks": [{"buffer": "output"}],
    "buffer": [{"rank": 1, "buffer": name, "columns": 64} for name in ("output", "scratch")],
    "cell": [{"rank": 1, "buffer": "output", "columns": 64, "chunk": 2, "column": 3}],
    "source": [{}],
    "inside": [{}],
    "held": [{}],
    "events": [{}],
    "outcome": [{}],
    "why": [{"path": "gpu[1]"}, {"path": "rank[1]"}],
    "breaks": [{"path": "", "start_ps": 0, "end_ps": 1000}],
    "graph": [{"rank": 1}],
    "module_states": [{"rank": 1, "modules": [0]}],
    "ranks": [{}],
    "ports": [{}],
}
"""Questions of every panel that hold for one time."""


def _answer(feed, question, options):
    try:
        found, buffers = answers_of(feed)[question](feed, options)
    except InputError as error:
        return str(error), []
    if (
        question == "inside"
    ):  # how busy something was just before is summed in bins, whose width grows with the run
        return found["states"], buffers[:1]
    if question == "events":
        return [row for row in found["rows"] if row[0] <= feed.session.at(options["at_ps"]).now_ps], buffers
    return found, buffers


@pytest.mark.parametrize("make", RUNS)
def test_every_panel_at_the_cursor_is_that_of_a_run_up_to_there(make):
    sim, chance = make(), random.Random(5)
    watched = "gpu[1].sm.0.issued" if sim.fidelity == "cacheline" else "rank[1].in_flight"
    sim.watch(watched)
    sim.run()
    feed = feed_of(session_of(sim))
    known = answers_of(feed).keys() & PANELS.keys()
    assert len(known) == (13 if sim.fidelity == "cacheline" else 11)
    for when in sorted(chance.randrange(1, sim.now_ps) for _ in range(4)):
        exact = make()
        exact.watch(watched)
        exact.goto(when)
        exact.engine.as_of_ps = when  # looked at between two events
        other = feed_of(session_of(exact))
        for question in known:
            for options in PANELS[question]:
                shown = _answer(feed, question, {**options, "at_ps": when})
                expected = _answer(other, question, {**options, "at_ps": None})
                if question == "breaks":  # the value beside a curve
                    shown, expected = shown[0]["watches"][0]["now"], expected[0]["watches"][0]["now"]
                assert shown == expected, f"{question} {options} at {when} ps"
        if sim.fidelity == "cacheline":
            options = {"from": when // 3, "to": when, "ranks": None}
            shown, expected = (_answer(one, "aggregate", options)[0] for one in (feed, other))
            # Between two of its operations a phase ends, as far as is known, with the one before.
            for found in (shown, expected):
                del found["phases"]
            assert shown == expected
    assert feed.session.at(None) is sim
