"""The workbench of a workload, without a browser."""

import re
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.operations.activity import BUBBLE, WAITING, activity_of
from astranb.widgets.feed import unpack
from astranb.widgets.views import answers_of
from astranb.widgets.views.graph import window
from astranb.workload.astrasim2 import COMPUTE, DimensionNetwork, Operations, System
from tests.engine.operations.support import by_messages, mixed, sim_of


class _Page:
    """A browser that answers: what it was sent, in order."""

    def __init__(self, bench: anb.Workbench) -> None:
        self.bench, self.sent = bench, []  # type: ignore[var-annotated]
        bench.send = lambda content, buffers=None: self.sent.append((content, buffers or []))

    def say(self, kind: str, **more: Any) -> None:
        self.bench.connection.receive(None, {"type": kind, **more}, [])

    def ask(self, question: str, **options: Any) -> tuple[dict[str, Any], list[bytes]]:
        self.say("ask", id=1, question=question, options=options)
        answer: tuple[dict[str, Any], list[bytes]] = self.sent[-1]
        return answer


ASKED: dict[str, Any] = {
    "from": 0,
    "to": 1000,
    "columns": 10,
    "ranks": [0],
    "path": "rank[0].op[0]",
    "start": 0,
    "end": 1000,
    "time": 0,
}
"""Options of all questions."""


def _opened() -> tuple[Any, _Page]:
    sim = mixed()
    bench: Any = anb.Workbench(sim)
    assert isinstance(bench, anb.Workbench)
    page = _Page(bench)
    page.say("ready")
    return sim, page


def test_a_page_is_sent_what_it_needs_and_every_step():
    sim, page = _opened()
    scene, state = (content for content, _ in page.sent)
    assert (scene["type"], state["type"]) == ("scene", "state")
    assert (scene["ranks"], scene["tracks"], scene["dims"]) == (
        6,
        ["compute", "communication"],
        ["Ring", "Switch"],
    )
    for unit in ("event", "operation", "message", "phase"):
        before = sim.counts[unit]
        page.say("read")
        page.say(unit, n=2)
        state = page.sent[-1][0]
        assert sim.counts[unit] >= before + 2
        assert (state["events"], state["now_ps"]) == (sim.events, sim.now_ps)
        assert state["narration"] == sim.narrate()
    page.say("back", n=3, unit="operation")
    assert "went back" in page.sent[-1][0]["status"]
    page.say("to_end")  # nothing plays without an event loop: it runs
    assert sim.finished
    page.say("reset")
    assert sim.events == 0
    page.say("nonsense")
    assert page.sent[-1][0]["type"] == "error"


def test_methods_move_it_and_select():
    sim, page = _opened()
    bench = page.bench
    bench.operation(3)
    bench.message()
    bench.phase()
    bench.cycle(2)
    bench.back(1, "cycle")
    assert sim.counts["operation"] >= 3
    bench.select("rank[2]")
    selected: Any = bench.selected
    assert selected["title"] == "rank[2]"
    bench.scrub(0)
    selected = bench.selected
    assert dict(selected["state"])["operations"].startswith("4: ")
    assert bench.cursor_ps == 0
    assert sim.now_ps > 0
    bench.set("rank[2].speed", 0.5)
    assert [path for _, path, _ in sim.edits] == ["rank[2].speed"]
    with pytest.raises(InputError, match="unknown view"):
        bench.show_panel("grahp")
    bench.close()


def test_the_past_is_looked_at_without_moving_the_run():
    sim, page = _opened()
    sim.run("20 us")
    here = sim.state_hash()
    early, _ = page.ask("graph", rank=0, at_ps=0)
    late, _ = page.ask("graph", rank=0, at_ps=None)
    middle, _ = page.ask("graph", rank=0, at_ps=5_000_000)
    assert early["counts"]["done"] < middle["counts"]["done"] + middle["counts"]["running"]
    assert late["counts"]["done"] >= middle["counts"]["done"]
    assert sim.state_hash() == here
    other = mixed()
    other.run("5 us")
    page.say("inspect", path="rank[0]", at_ps=5_000_000.0)
    assert page.sent[-1][0]["found"] == other.inspect("rank[0]")


def test_breakpoints_of_the_panel():
    sim, page = _opened()
    page.ask("apply", verb="breakpoint", options={"how": "on", "kind": "collective_end", "object": "rank[5]"})
    page.ask("apply", verb="breakpoint", options={"how": "when", "condition": "rank[0].ongoing > 1"})
    page.say("to_breakpoint")
    found, _ = page.ask("breaks", path="rank[0]")
    assert [point["hit"] for point in found["points"]] == [False, True]
    assert "waiting" in found["fields"]
    assert page.bench._selection == "rank[0]"
    page.ask("apply", verb="clear", options={"number": 1})
    page.say("to_breakpoint")
    assert "rank 5 ends all_reduce" in page.sent[-1][0]["status"]
    answer, _ = page.ask("apply", verb="breakpoint", options={"how": "when", "condition": "rank[0].x > 1"})
    assert "no field 'x'" in answer["error"]
    answer, _ = page.ask("apply", verb="play", options={})
    assert "no such change" in answer["error"]
    assert [p.text for p in sim.breakpoints] == ["collective end of rank[5]"]


@pytest.mark.parametrize("kind", ["operations", "chunks"])
def test_spans_are_those_of_the_tables(kind):
    sim, page = _opened()
    sim.run("25 us")
    options = {"from": 0, "to": sim.now_ps + 1000, "columns": 100, "ranks": [3, 5], "kind": kind}
    meta, buffers = page.ask("tracks", **options)
    assert meta["drawn"] == "spans"
    columns = unpack("tracks", buffers)
    place, slot, start, end = (columns[name] for name in ("place", "slot", "start", "end"))
    frame = sim.result.to_dataframe("operations" if kind == "operations" else "phases")
    wanted = frame[frame["rank"].isin([3, 5])]
    assert len(start) >= len(wanted)
    assert set(wanted["start_ps"]) <= set(start)
    assert len(start) - len(wanted) == int((end == sim.now_ps).sum()) - int(
        (wanted["end_ps"] == sim.now_ps).sum()
    )
    assert place.max() < 2 * meta["tracks"]
    # Within a track, spans of one slot do not overlap.
    for key in set(zip(place.tolist(), slot.tolist(), strict=True)):
        mine = (place == key[0]) & (slot == key[1])
        order = np.argsort(start[mine], kind="stable")
        assert (start[mine][order][1:] >= end[mine][order][:-1]).all()


def test_many_spans_come_as_density(monkeypatch):
    sim, page = _opened()
    sim.run()
    monkeypatch.setattr("astranb.widgets.views.ranks._MOST_SPANS", 3)
    columns = 50
    options = {"from": 0, "to": sim.now_ps, "columns": columns, "ranks": [0, 5], "kind": "operations"}
    meta, buffers = page.ask("tracks", **options)
    assert meta["drawn"] == "density"
    shares = unpack("tracks", buffers)["shares"].reshape(2, 5, columns) / 255
    rows, sums = sim.result.per_rank(), activity_of(sim.engine).sums(6)
    for at, rank in enumerate((0, 5)):
        busy = shares[at].mean(axis=1) * sim.now_ps
        assert busy[0] == pytest.approx(rows[rank]["compute_ps"], rel=0.03)
        assert busy[1] == pytest.approx(rows[rank]["communication_ps"], rel=0.05)
        assert 0.95 * sums[rank, WAITING] <= busy[2] <= busy[1]  # also while it computes
        assert busy[3] == pytest.approx(sums[rank, BUBBLE], rel=0.05, abs=0.01 * sim.now_ps)
        assert busy[4] == 0  # no rank has started late


def test_the_overview_divides_all_time_among_activities():
    sim, page = _opened()
    sim.run()
    meta, buffers = page.ask("spans", **{"from": 0, "to": sim.now_ps, "columns": 40, "folds": [0, 5]})
    shares = unpack("spans", buffers)["fold_shares"].reshape(len(meta["present"]), 2, 40) / 255
    sums = activity_of(sim.engine).sums(6)[[0, 5]] / sim.now_ps
    for at, state in enumerate(meta["present"]):
        assert shares[at].mean(axis=1) == pytest.approx(sums[:, state], abs=0.01)
    assert shares.sum(axis=0).max() <= 1.01


@pytest.mark.parametrize(
    "question, options, message",
    [
        ("tracks", {"from": 5, "to": 5, "columns": 3}, "window from 5 to 5"),
        ("tracks", {"from": 0, "to": 5, "columns": 3, "ranks": [6]}, "0 to 5"),
        ("tracks", {"from": 0, "to": 5, "columns": 3, "kind": "chunk"}, "did you mean 'chunks'"),
        ("grpah", {}, "did you mean 'graph'"),
    ],
)
def test_a_question_that_cannot_be_answered_is_answered_with_why(question, options, message):
    _, page = _opened()
    answer, _ = page.ask(question, **options)
    assert re.search(message, answer["error"])


def test_the_graph_is_a_window_around_now():
    chain = Operations.of([{"kind": COMPUTE, "duration_ns": 1_000}] * 2000, [[]] + [[n] for n in range(1999)])
    sim = by_messages([chain] * 2, DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    sim.step(1000, "operation")
    page = _Page(anb.Workbench(sim))
    found, _ = page.ask("graph", rank=1, most=40)
    assert len(found["nodes"]) == 40
    assert found["hidden"] == 1960
    assert sum(found["counts"].values()) == 2000
    running = [node for node in found["nodes"] if node["state"] == "running"]
    assert [node["path"] for node in running] == ["rank[1].op[500]"]
    assert len(found["edges"]) == 39
    places = {(node["x"], node["y"]) for node in found["nodes"]}
    assert len(places) == 40
    assert window(sim.engine, 0, 40, centre=5)[0] <= 5


def test_every_question_has_an_answer_at_any_moment():
    sim, page = _opened()
    for _ in range(3):
        for question in answers_of(page.bench.feed):
            if question not in ("apply", "fork", "what_if_run", "critical_path"):
                answer, _ = page.ask(question, **ASKED)
                assert "error" not in answer, question
        sim.step(300)
    rows = page.ask("ranks")[0]["rows"]
    assert len(rows) == 6
    assert not any("-" in cell for row in rows for cell in row)


# Changing, watching, comparing, keeping ------------------------------------------------


def test_the_panel_changes_undoes_and_says_what_can_be():
    sim, page = _opened()
    sim.step(50)
    found, _ = page.ask("parameters", path="rank[2]")
    assert [(p["path"], p["value"]) for p in found["object"]] == [("rank[2].speed", "1")]
    assert found["run"] == []
    answer, _ = page.ask("apply", verb="set", options={"path": "rank[2].speed", "value": "0.5"})
    assert answer["status"] == "rank[2].speed = 0.5 from event 50 on"
    assert page.ask("parameters", path="")[0]["edits"] == [(50, "rank[2].speed", "0.5")]
    page.ask("apply", verb="undo", options={"number": 0})
    assert sim.edits == []
    answer, _ = page.ask("apply", verb="set", options={"path": "rank[2].sped", "value": "0.5"})
    assert "did you mean 'speed'" in answer["error"]
    assert "unknown object 'sm[0]'" in page.ask("parameters", path="sm[0]")[0]["title"]


def test_a_link_is_killed_from_the_panel():
    sim = mixed(congestion=True)
    page = _Page(anb.Workbench(sim))
    page.say("ready")
    page.ask("apply", verb="take_down", options={"link": "link[0]", "both": True})
    assert [path for _, path, _ in sim.edits] == ["link[0].up", "link[7].up"]
    page.say("to_end")
    assert "is down since" in page.sent[-1][0]["status"]
    parameters = page.ask("parameters", path="link[0]")[0]["object"]
    assert {one["path"].rpartition(".")[2]: one["value"] for one in parameters}["up"] == "no"
    page.bench.repair("link[0]", both=True)
    page.say("to_end")
    assert sim.counts["operation"] == 26


def test_watches_have_curves_that_are_exact():
    sim, page = _opened()
    sim.run("20 us")
    page.bench.watch("rank[3].in_flight")
    answer, _ = page.ask("apply", verb="watch", options={"what": "dim[0].bytes"})
    assert answer["status"] == "watching dim[0].bytes"
    found, buffers = page.ask("breaks", path="dim[0]", start_ps=0, end_ps=30_000_000)
    assert (found["fields"], found["values"]) == ([], ["messages", "bytes"])
    assert [watch["text"] for watch in found["watches"]] == ["rank[3].in_flight", "dim[0].bytes"]
    columns = unpack("breaks", buffers)
    times, (flying, sent) = columns["times"], columns["values"].reshape(2, -1)
    assert times[-1] == sim.now_ps
    assert flying.max() > 0
    assert (np.diff(sent) >= 0).all()
    assert sent[-1] == sim.watches[1].value
    page.ask("apply", verb="unwatch", options={"number": 0})
    assert [watch.text for watch in sim.watches] == ["dim[0].bytes"]


def test_a_fork_stands_beside_the_run_with_the_same_clock():
    sim, page = _opened()
    bench: Any = page.bench
    bench.operation(2)
    other = bench.fork({"rank[5].speed": 0.25})
    assert bench._panels["compare"]
    assert other.edits == [(sim.events, "rank[5].speed", "0.25")]
    bench.goto("15 us")
    assert abs(other.now_ps - sim.now_ps) < 10_000_000
    found, _ = page.ask("difference", at_ps=-1)
    assert found["other"]
    assert found["verdict"] == "not both at their end"
    bench.to_end()
    bench.linked.b.to_end()
    found, _ = page.ask("difference", at_ps=-1)
    assert "rank[5].speed unchanged is faster by" in found["verdict"]
    titles = [table["title"] for table in found["tables"]]
    assert titles[:2] == ["Time", "Ranks: end"]
    assert all(len(row) == 5 for table in found["tables"] for row in table["rows"])
    page.ask("difference", part=True)
    assert page.ask("difference")[0] == {"other": False, "type": "answer", "id": 1}
    both: Any = anb.SideBySide(sim.fork(), other)
    both.reset()
    both.step(3, "operation")
    assert both.a.sim.counts["operation"] >= 3
    with pytest.raises(InputError, match="unknown unit"):
        both.step(1, "instruction")
    both.to_end()
    assert both.comparison.time["ended"]
    both.close()


def test_what_is_looked_at_is_saved_with_the_run(tmp_path):
    sim, page = _opened()
    bench: Any = page.bench
    bench.operation(4)
    bench.select("rank[2]")
    bench.watch("rank[2].waiting")
    bench.show_panel("change")
    bench.save(tmp_path / "run")
    again = anb.Workbench.load(tmp_path / "run")
    assert isinstance(again, anb.Workbench)
    assert again.sim.state_hash() == sim.state_hash()
    assert (again._selection, again._panels) == ("rank[2]", {"side": "change"})
    assert [watch.text for watch in again.sim.watches] == ["rank[2].waiting"]
    kept: Any = anb.Workbench.kept(tmp_path / "kept", mixed)
    kept.operation(2)
    assert anb.Workbench.load(tmp_path / "kept").sim.events == kept.sim.events
    for one in (again, kept, bench):
        one.close()


# Explaining ------------------------------------------------------------------------------


def test_the_panel_explains_the_moment_and_runs_what_ifs():
    sim, page = _opened()
    sim.run("8500 ns")
    why, _ = page.ask("why", path="rank[2]", at_ps=None)
    assert [step["path"] for step in why["steps"]] == ["rank[2].op[1]", "rank[5].op[0]"]
    early, _ = page.ask("why", path="rank[2]", at_ps=1_000_000)
    assert [step["path"] for step in early["steps"]] == ["rank[2].op[0]"]
    lost, _ = page.ask("lost_time", path="rank[2].op[1]", at_ps=None)
    assert lost["of"] == "rank 2"
    assert sum(row["ps"] for row in lost["rows"]) == lost["total_ps"] == sim.result.time_ps
    sim.run()
    found, buffers = page.ask("critical_path", at_ps=None)
    start, end = (np.frombuffer(buffers[k], "<f8") for k in (0, 1))
    assert (start[0], end[-1]) == (0, sim.result.time_ps)
    assert (start[1:] == end[:-1]).all()
    assert sum(row["ps"] for row in found["causes"]) == found["time_ps"] == sim.result.time_ps
    assert found["top"][0]["path"].startswith("rank[")
    changes, _ = page.ask("what_if", at_ps=None)
    assert changes["quick"]
    row = next(row for row in changes["rows"] if row["path"] == "rank[5].speed")
    assert row["exact_ps"] is None
    answer, _ = page.ask("what_if_run", path=row["path"], value=row["value"])
    assert answer["row"]["exact_ps"] == sim.what_if(row["path"], row["value"]).exact_ps
    answer, _ = page.ask("what_if_run", path="rank[5].sped", value="x2")
    assert "did you mean 'speed'" in answer["error"]


def test_the_workbench_explains_what_its_cursor_shows():
    sim, page = _opened()
    bench: Any = page.bench
    sim.run()
    bench.scrub("8500 ns")
    assert bench.why("rank[2]").resource == "rank[5].op[0]"
    assert bench.lost_time()["time_ps"].iloc[0] <= 9_000_000
    assert bench.what_if("rank[5].speed", "x3").exact_ps < sim.result.time_ps
    bench.follow()
    assert bench.critical_path().segments[-1].end_ps == sim.result.time_ps


def test_layers_of_one_zero_are_shown_in_their_own_words():
    sim = sim_of()
    page = _Page(anb.Workbench(sim))
    page.say("ready")
    scene = page.sent[0][0]
    assert (scene["ranks"], scene["alike"], scene["title"]) == (
        1, 64, "workload: 64 ranks (all alike) on Ring x Ring x Ring",
    )  # fmt: skip
    assert scene["tracks"] == ["compute", "communication", "waiting"]
    assert "message" not in scene["units"]
    assert "layer[conv1]" in scene["names"]
    page.say("pass")
    assert sim.counts["pass"] == 1
    page.say("read")
    page.say("message")
    assert "unknown unit 'message'" in page.sent[-1][0]["status"]
    page.bench.loop_pass()
    page.say("to_end")
    assert sim.finished
    for kind, most in (("operations", 3), ("chunks", 3)):
        options = {"from": 0, "to": sim.now_ps + 1, "columns": 50, "ranks": [0], "kind": kind}
        meta, buffers = page.ask("tracks", **options)
        columns = unpack("tracks", buffers)
        place, start, end = (columns[name] for name in ("place", "start", "end"))
        assert (meta["drawn"], meta["tracks"], set(place.tolist())) == ("spans", most, {0, 1, 2})
        if kind == "operations":
            waited = (end - start)[place == 2].sum()
            assert waited == sim.result.per_rank()[0]["astrasim_exposed_comm_ps"] > 0
        else:
            assert len(place) == sim.counts["phase"]
    found, _ = page.ask("graph", rank=0)
    assert [node["label"] for node in found["nodes"]][:3] == ["conv0 FWD", "conv1 FWD", "conv2 FWD"]
    assert found["counts"]["done"] == sim.counts["operation"]
    table, _ = page.ask("ranks")
    assert (table["what"], table["rows"][0][0], len(table["rows"])) == ("layer", "layer[conv0]", 3)
    for question in answers_of(page.bench.feed):
        if question not in ("apply", "fork", "what_if_run"):
            answer, _ = page.ask(question, **ASKED)
            assert "error" not in answer, question
