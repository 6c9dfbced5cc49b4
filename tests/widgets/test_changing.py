"""Changing, breaking and watching from a workbench, without a browser."""

import json

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.widgets.views import answers_of

LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"


@pytest.fixture
def bench():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"))
    bench = anb.Workbench(sim)
    yield bench
    bench.close()


def ask(bench, question, **options):
    meta, buffers = answers_of(bench.feed)[question](bench.feed, options)
    return json.loads(json.dumps(meta)), [np.frombuffer(b, "<f8") for b in buffers]


# Changing ------------------------------------------------------------------------


def test_a_change_is_a_verb_and_says_what_it_did(bench):
    bench.event(300)
    bench.set(f"{LINK}.bandwidth", "1 GB/s")
    assert bench.sim.edits == [(300, f"{LINK}.bandwidth", "1 GB/s")]
    assert bench.session.status == f"{LINK}.bandwidth = 1 GB/s from event 300 on"
    bench.take_down(LINK, both=True)
    assert "is down" in bench.session.status
    bench.to_end()
    assert bench.session.failed
    assert f"{LINK} is down since" in bench.session.status
    bench.repair(LINK, both=True)
    bench.to_end()
    assert bench.sim.finished
    bench.undo(1)
    assert (bench.sim.events, len(bench.sim.edits)) == (300, 1)
    bench.undo()
    assert bench.sim.edits == []
    bench.set(f"{LINK}.bandwidth", "fast")
    assert bench.session.failed
    assert "fast" in bench.session.status


def test_reset_of_the_workbench_keeps_parameters(bench):
    bench.event(300)
    bench.set("gpu[3].sms", 2)
    bench.reset()
    assert bench.sim.edits == [(0, "dgx_h100.0.xpu.3.sms", "2")]


def test_every_view_is_told_of_an_edit_of_a_cell(bench):
    other = anb.Workbench(bench.sim)
    told = []
    other.session.attach(lambda: told.append(other.session.status))
    bench.sim.set("gpu[1].l2", "1 us")
    assert told == ["changed at 0 ps, event 0"]
    other.close()


def test_the_panel_is_told_what_can_be_changed(bench):
    found, _ = ask(bench, "parameters", path=LINK)
    assert (found["title"], found["kind"]) == (LINK, "link")
    assert [p["path"].rpartition(".")[2] for p in found["object"]] == ["bandwidth", "latency", "up"]
    assert found["run"][0]["path"] == "algorithm"
    assert ask(bench, "parameters")[0]["object"] == []
    assert "unknown object" in ask(bench, "parameters", path="nowhere")[0]["title"]
    bench.set("gpu[1].l2", "1 us")
    assert ask(bench, "parameters")[0]["edits"] == [[0, "dgx_h100.0.xpu.1.l2", "1 us"]]


def test_what_is_wrong_is_said_where_it_was_asked(bench):
    with pytest.raises(InputError, match="did you mean 'bandwidth'"):
        ask(bench, "apply", verb="set", options={"path": f"{LINK}.bandwith", "value": "1 GB/s"})
    with pytest.raises(InputError, match="no such change"):
        ask(bench, "apply", verb="play")
    with pytest.raises(InputError, match="unknown edit"):
        ask(bench, "apply", verb="undo", options={"number": 3})
    with pytest.raises(InputError, match="did you mean 'ring'"):
        ask(bench, "fork", changes={"algorithm": "rign"})
    said, _ = ask(bench, "apply", verb="set", options={"path": "gpu[0].sms", "value": "9"})
    assert said["status"] == "dgx_h100.0.xpu.0.sms = 9 from event 0 on"


# Breaking and watching -------------------------------------------------------------


def test_a_hit_selects_its_object_and_says_why(bench):
    bench.break_when("gpu[3].sm.0.waiting > 0")
    bench.to_breakpoint()
    assert bench._selection == "dgx_h100.0.xpu.3.sm.0"
    assert bench.session.status.endswith(": waiting is 1")
    found, _ = ask(bench, "breaks", path=bench._selection)
    assert [point["hit"] for point in found["points"]] == [True]
    assert found["because"] == "waiting is 1"
    assert "waiting" in found["fields"]
    bench.select("gpu[0]")
    bench.event()
    assert bench._selection == "dgx_h100.0.xpu.0"  # a hit selects once
    assert not ask(bench, "breaks")[0]["points"][0]["hit"]


def test_a_hit_on_an_event_kind_selects_what_it_happened_to(bench):
    bench.break_on("hop")
    bench.to_breakpoint()
    assert "->" in bench._selection
    assert bench._selection in bench.sim.narrate()


def test_every_workbench_of_the_run_selects(bench):
    other = anb.Workbench(bench.sim)
    bench.break_when("gpu[2].sm.0.waiting > 0")
    bench.sim.run()  # in a cell
    assert bench._selection == other._selection == "dgx_h100.0.xpu.2.sm.0"
    other.close()


def test_breakpoints_stay_over_back_and_forth(bench):
    bench.break_when("gpu[3].sm.0.waiting > 0")
    bench.to_breakpoint()
    at = bench.sim.events
    bench.reset()
    bench.to_breakpoint()
    assert bench.sim.events == at
    bench.back(10)
    bench.to_breakpoint()
    assert bench.sim.events == at


def test_breakpoints_of_the_panel(bench):
    def add(**said):
        return ask(bench, "apply", verb="breakpoint", options=said)

    add(how="at", time="2 us")
    add(how="on", kind="hop", object=LINK)
    add(how="on", kind="", object="gpu[1]")
    add(how="when", condition="gpu[3].sm.0.waiting > 0")
    bench.break_when(lambda sim: sim.events == 10)
    found = ask(bench, "breaks")[0]["points"]
    assert [point["text"] for point in found[:3]] == [
        "at 2 µs",
        f"hop on {LINK}",
        "any event on dgx_h100.0.xpu.1",
    ]
    assert [point["slow"] for point in found] == [False] * 4 + [True]
    ask(bench, "apply", verb="enable", options={"number": 3, "enabled": False})
    ask(bench, "apply", verb="clear", options={"number": 0})
    assert [point["enabled"] for point in ask(bench, "breaks")[0]["points"]] == [True, True, False, True]
    ask(bench, "apply", verb="clear", options={})
    assert bench.sim.breakpoints == []
    for said, words in (
        ({"how": "when", "condition": "gpu[3].sm.0.wating > 0"}, "did you mean 'waiting'"),
        ({"how": "at", "time": "soon"}, "soon"),
        ({"how": "on"}, "an event kind or an object"),
        ({"how": "so"}, "at, on or when"),
    ):
        with pytest.raises(InputError, match=words):
            add(**said)


def test_watches_have_exact_curves_at_rest(bench):
    watch = bench.watch("gpu[3].sm.0.issued")
    bench.watch(lambda sim: sim.events)
    bench.event(4000)
    found, columns = ask(bench, "breaks", start_ps=0, end_ps=2 * bench.sim.now_ps)
    times, values = columns
    issued, events = values.reshape(2, -1)
    assert found["exact"]
    assert times[0] == 0
    assert times[-1] == bench.sim.now_ps
    assert issued[-1] == watch.value
    assert events[-1] == 4000
    assert (np.diff(events) >= 0).all()
    assert found["watches"][0]["now"] == f"{watch.value:,}"
    np.testing.assert_array_equal(issued, watch.series(points=len(times))[1])
    bench.session.playing = True  # as noted meanwhile
    found, columns = ask(bench, "breaks", end_ps=bench.sim.now_ps)
    assert not found["exact"]
    times, values = columns
    assert values[len(times) - 1] == watch.value
    bench.session.playing = False
    ask(bench, "apply", verb="unwatch", options={"number": 0})
    assert len(bench.sim.watches) == 1
    bench.unwatch()
    assert ask(bench, "breaks")[0]["watches"] == []


# Beside each other -----------------------------------------------------------------


def test_a_fork_moves_with_its_run(bench):
    bench.event(2000)
    other = bench.fork({"algorithm": "allpairs"})
    assert bench._other.startswith("anywidget:")
    assert bench._panels["compare"]
    for move in (lambda: bench.event(1000), lambda: bench.back(500), lambda: bench.sim.goto("2 us")):
        move()
        assert other.now_ps <= bench.sim.now_ps < int(other.engine.machine.event_queue.near[0].time_ps)
    twin = bench.linked.b
    bench.scrub("1 us")
    assert twin.cursor_ps == 1_000_000
    twin.follow()
    assert bench.cursor_ps == bench.sim.now_ps
    twin.select("gpu[5]")
    assert bench._selection == "dgx_h100.0.xpu.5"
    found, _ = ask(bench, "difference")
    assert found["names"] == ["algorithm ring", "algorithm allpairs"]
    twin.to_end()
    assert other.finished
    assert not bench.sim.finished
    bench.to_end()
    assert bench.sim.finished
    assert other.finished
    found, _ = ask(bench, "difference")
    assert "algorithm allpairs is faster" in found["verdict"]
    assert found["tables"][0]["rows"][0][0] == "total"
    bench.reset()
    assert (bench.sim.events, other.events) == (0, 0)
    assert ask(bench, "difference", part=True)[0] == {"other": False}
    bench.event(100)
    assert other.events == 0
    assert bench._other == ""


def test_a_fork_of_a_link_has_the_same_past(bench):
    bench.event(2000)
    other = bench.fork({f"{LINK}.bandwidth": "1 GB/s"})
    assert (other.events, other.edits) == (2000, [(2000, f"{LINK}.bandwidth", "1 GB/s")])
    assert bench.sim.edits == []
    a, b = bench._beside, bench.linked.b._beside
    assert (a["letter"], b["letter"]) == ("A", "B")
    assert b["changes"] == [(f"{LINK}.bandwidth", "1 GB/s from event 2000", "unchanged")]
    assert a["differing"] == b["differing"] == [LINK]
    bench.set("gpu[2].sms", 60)  # what is changed later is marked, too
    assert "dgx_h100.0.xpu.2" in bench._beside["differing"]
    bench.part()
    assert bench._beside == {}


def test_a_breakpoint_of_either_stops_both(bench):
    other = bench.fork({"algorithm": "allpairs"})
    other.break_at("1 us")
    bench.sim.goto("3 us")
    assert other.now_ps <= 1_000_000
    assert bench.sim.now_ps <= other.now_ps


def test_the_difference_follows_the_cursor(bench):
    other = bench.fork({"algorithm": "allpairs"})
    bench.to_end()
    then, _ = ask(bench, "difference", at_ps=1_000_000)
    stopped = anb.compare(*(sim.rebuilt() for sim in (bench.sim, other)))
    for sim in (stopped.a, stopped.b):
        sim.goto("1 us")
    total = stopped.time["difference_ps"]
    assert then["verdict"] == "not both at their end"
    assert then["tables"][0]["rows"][0][3].lstrip("+\u2212") == anb.core.units.format_time(abs(total))
    assert bench.sim.finished


def test_side_by_side():
    a = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    a.step(1500)
    b = a.rebuilt(algorithm="allpairs")
    both = anb.SideBySide(a, b)
    assert b.now_ps <= a.now_ps < int(b.engine.machine.event_queue.near[0].time_ps)
    both.step(3, "phase")
    assert both._difference["now"][0] == anb.core.units.format_time(a.now_ps)
    both.to_end()
    assert both.comparison.time["ended"]
    both.zoom("1 us", "2 us")
    assert both.a._window_ps == both.b._window_ps == [1e6, 2e6]
    both.b.zoom()
    assert both.a._window_ps == []
    both.reset()
    assert (a.events, b.events) == (0, 0)
    both.close()
    a.step(100)
    assert b.events == 0
    with pytest.raises(InputError, match="beside itself"):
        anb.SideBySide(a, a)
    with pytest.raises(InputError, match="unknown unit"):
        both.step(1, "hour")
