"""Questions and answers of the Explain panel, and the objects that a workbench gives to Python."""

import asyncio

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline import CAUSES
from astranb.sim import ObjectView, Replay
from astranb.widgets.feed import Columns
from astranb.widgets.offline_page import answers
from astranb.widgets.views import answers_of, offline_questions


@pytest.fixture
def bench():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "allpairs"))
    sim.run()
    return anb.Workbench(sim)


def asked(bench, question, **options):
    return answers_of(bench.feed)[question](bench.feed, options)


def test_the_cursor_says_when(bench):
    bench.scrub("1 us")
    now = bench.sim.now_ps
    replay = Replay(bench.sim)
    replay.look(10**6)
    there = replay.sim
    assert str(bench.why("gpu[2]")) == str(there.why("gpu[2]"))
    assert bench.critical_path().segments == there.critical_path().segments
    assert bench.lost_time().equals(there.lost_time())
    bench.select("gpu[5]")
    assert bench.why().path.endswith("xpu.5")
    assert bench.selected.now_ps == there.now_ps == 10**6
    assert bench.selected.recent == there.at("gpu[5]").recent
    assert bench.sim.now_ps == now
    bench.follow()
    assert bench.selected.now_ps == now
    change = bench.what_if("*->*.latency", "x0.5")
    assert 0 < (change.exact_ps or 0) < now


def test_what_is_selected_is_an_object(bench):
    assert bench.selected is None
    bench.select("gpu[3]")
    picked = bench.selected
    assert isinstance(picked, ObjectView)
    assert picked["title"] == picked.title == "dgx_h100.0.xpu.3 (GPU3)"
    assert picked.state["ended_ps"] == bench.sim.engine.machine.gpus["ended_ps"][3]
    bench.sim.goto("1 us")
    line = bench.sim.inspect("gpu[3]")["lines"][0]
    bench.select(line)
    assert bench.selected.kind == "line"
    assert bench.selected.state["gpu"] == 3


def test_the_chain_and_the_losses_travel(bench):
    reply, _ = asked(bench, "why", path="gpu[3]", at_ps=1_000_000)
    chain = bench.session.at(1_000_000).why("gpu[3]")
    assert [step["text"] for step in reply["steps"]] == [step.text for step in chain]
    for path, count in (
        ("", 8 * bench.sim.engine.program.channels),
        ("gpu[3]", bench.sim.engine.program.channels),
        ("gpu[3].block.0", 1),
    ):
        reply, _ = asked(bench, "lost_time", path=path)
        assert reply["parts"] == count
        assert sum(row["ps"] for row in reply["rows"]) == reply["total_ps"]
        assert reply["total_ps"] == count * bench.sim.result.time_ps
    with pytest.raises(InputError):
        asked(bench, "why", path="gpu[99]")


def test_the_path_travels_in_columns(bench):
    reply, buffers = asked(bench, "critical_path")
    path = bench.sim.critical_path()
    start, end = (np.frombuffer(b, "<f8") for b in buffers[:2])
    block, link, rank = (np.frombuffer(b, "<i4") for b in buffers[2:5])
    cause = np.frombuffer(buffers[5], "<u4")
    assert (start == [s.start_ps for s in path]).all()
    assert (end == [s.end_ps for s in path]).all()
    assert (block == [p.block for p in path.line_segments]).all()
    assert [list(CAUSES)[c] for c in cause] == [s.cause for s in path]
    blocks, sm = bench.sim.engine.machine.blocks, np.frombuffer(buffers[6], "<i4")
    assert ((sm >= 0) == (block >= 0)).all()
    first = bench.sim.engine.machine.gpus["first_sm"][blocks["gpu"][block]]
    assert (sm + first == blocks["sm"][block])[block >= 0].all()
    for k, segment in enumerate(path):
        if link[k] >= 0:
            assert bench.sim.engine.fabric.name(int(link[k])) == segment.resource
        elif rank[k] >= 0:
            assert segment.resource.startswith(f"dgx_h100.0.xpu.{rank[k]}")
    assert sum(row["ps"] for row in reply["causes"]) == reply["time_ps"] == path.time_ps
    lengths = [row["ps"] for row in reply["top"]]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == max(s.length_ps for s in path)


def test_estimates_and_an_exact_answer_travel(bench):
    rows = asked(bench, "what_if")[0]["rows"]
    assert rows[0]["exact_ps"] is None
    row = asked(bench, "what_if_run", path=rows[0]["path"], value=rows[0]["value"])[0]["row"]
    assert row["exact_ps"] == bench.sim.what_if(row["path"], row["value"]).exact_ps
    with pytest.raises(InputError):
        asked(bench, "what_if_run", path="gpu[0].nothing", value="x2")
    with pytest.raises(InputError, match="what is to be changed"):
        asked(bench, "what_if_run", path="gpu[0].hbm")


def test_a_long_answer_lets_the_kernel_do_other_things():
    """While a change is run, the simulation plays and pauses; the answer is that of the run alone."""

    async def both():
        sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("256 KiB", "allpairs"))
        bench = anb.Workbench(sim)
        bench.play()
        bench.set_speed("10 us")
        change = {"path": "*->*.latency", "value": "x2"}
        reply, _ = asked(bench, "what_if_run", **change)
        assert reply["working"]
        longest, seen = 0.0, []
        loop = asyncio.get_running_loop()
        while reply.get("working"):
            before = loop.time()
            await asyncio.sleep(0)
            longest = max(longest, loop.time() - before)
            seen.append(reply["progress"])
            if len(seen) == 5:
                bench.pause()
                paused_at = sim.events
            reply, _ = asked(bench, "what_if_run", **change)
        assert seen == sorted(seen)
        assert len(set(seen)) > 5
        assert 0 < paused_at == sim.events
        return reply["row"]["exact_ps"], longest

    exact, longest = asyncio.run(both())
    alone = anb.Simulation("dgx-h100", anb.collectives.all_reduce("256 KiB", "allpairs"))
    assert exact == alone.what_if("*->*.latency", "x2").exact_ps
    assert longest < 2


def test_a_wrong_question_is_reported_and_asked_again(bench):
    told = []
    bench.send = lambda content, **_: told.append(content)
    for question, options in (
        ("why", {"path": "nowhere"}),
        ("what_if_run", {"path": "gpu[0].hbm", "value": "soon"}),
    ):
        bench.connection.answer({"type": "ask", "id": 7, "question": question, "options": options})
        assert told[-1]["id"] == 7
        assert told[-1]["error"]


def test_a_dot_is_a_line(bench):
    """The browser's facts about a dot, its link and its arrival, identify the line."""
    bench.sim.goto("900 ns")
    flights, _ = bench.sim.engine.recorder.flights(bench.sim.now_ps, bench.sim.now_ps)
    assert len(flights)
    for flight in flights[:50]:
        reply, _ = asked(bench, "line", link=int(flight.link), end_ps=float(flight.end_ps))
        request = bench.sim.engine.machine.requests[int(reply["path"][5:-1])]
        assert (request.op, request.kind) == (flight.op, flight.kind // 2)
    with pytest.raises(InputError, match="has arrived"):
        asked(bench, "line", link=0, end_ps=1)


def test_a_page_without_a_kernel_has_the_path(bench):
    """Also where an event loop would have answered later."""

    async def written():
        return answers(bench.feed, Columns(), answers_of(bench.feed), offline_questions(bench.feed))

    told = {answer["question"]: answer for answer in asyncio.run(written())}
    assert told["critical_path"]["message"]["time_ps"] == bench.sim.result.time_ps
    assert told["what_if"]["message"]["rows"]
    assert told["why"]["message"]["steps"]
    assert "what_if_run" not in told
