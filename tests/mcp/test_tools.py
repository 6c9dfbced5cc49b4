"""Tools of an assistant: the names, errors and exactness of ``Simulation``, within limits."""

import asyncio
import json
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.mcp import Limits, Tools
from astranb.widgets.session import session_of

RING = {"infra": "dgx-h100", "collective": "all_reduce", "size": "8 KiB", "algorithm": "ring"}
MODEL = {"model": "gpt3-125m", "dp": 4, "fidelity": "congestion"}


@pytest.fixture
def tools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Tools(Limits(tmp_path, seconds=20))


def called(tools, name, /, **arguments):
    found = asyncio.run(tools.call(name, arguments))
    json.dumps(found, allow_nan=False)
    return found


def test_every_tool_has_a_text_and_a_schema_of_its_arguments(tools):
    described = tools.described()
    assert [one["name"] for one in described][:3] == ["open", "state", "run"]
    for one in described:
        assert one["description"]
        assert one["schema"]["additionalProperties"] is False
        for argument in one["schema"]["properties"].values():
            assert argument["description"]
    assert next(one for one in described if one["name"] == "inspect")["schema"]["required"] == ["path"]


def test_moves_are_those_of_a_simulation(tools):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    assert called(tools, "open", options=RING)["events"] == 0
    moves: list[tuple[str, dict[str, Any]]] = [
        ("step", {"n": 1000}),
        ("step", {"n": 3, "unit": "cycle"}),
        ("step", {"n": 2, "unit": "phase"}),
        ("back", {"n": 100}),
        ("run", {"until": "5 us"}),
        ("goto", {"when": "3 us"}),
        ("back", {"n": 1, "unit": "phase"}),
        ("run", {}),
    ]
    for name, arguments in moves:
        stop = getattr(sim, name)(**arguments)
        said = called(tools, name, **arguments)
        assert (said["why"], said["now_ps"], said["events"]) == (stop.why, stop.now_ps, stop.events), name
        assert said["text"] == stop.text
        assert called(tools, "state")["state_hash"] == sim.state_hash()


def test_what_is_found_can_be_inspected_changed_and_asked_about(tools):
    called(tools, "open", options=RING)
    called(tools, "run", until="2 us")
    path = called(tools, "search", text="GPU5.hbm", most=1)["paths"][0]
    assert called(tools, "inspect", path=path)["kind"] == "hbm"
    link = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"
    names = [one["path"] for one in called(tools, "inspect", path=link)["parameters"]]
    assert f"{link}.bandwidth" in names
    assert called(tools, "set", path=f"{link}.bandwidth", value="1 GB/s")["value"] == "1 GB/s"
    assert called(tools, "why")["text"].startswith("Why ")
    assert called(tools, "break_when", condition="gpu[3].sm.0.waiting > 0")["breakpoints"]
    assert called(tools, "run")["why"] == "breakpoint"
    called(tools, "clear")
    assert called(tools, "run")["why"] == "end"
    assert sum(called(tools, "explain")["breakdown"].values()) == pytest.approx(1)
    change = called(tools, "what_if", path="*->*.latency", value="x0.5")["changes"][0]
    assert change["exact_ps"] < change["before_ps"]
    names = called(tools, "tables")["tables"]
    for name in names:
        table = called(tools, "tables", name=name, rows=3)
        assert len(table["rows"]) == min(3, table["all_rows"]), name
    ranks = called(tools, "tables", name="ranks", first=6)
    assert [row["rank"] for row in ranks["rows"]] == [6, 7]
    assert [one["path"] for one in called(tools, "parameters")["parameters"]][:2] == ["algorithm", "size"]


def test_a_model_runs_as_the_command_line_runs_it(tools, capsys):
    from astranb.cli import main

    assert main(["run", "model", "gpt3-125m", "--dp", "4", "--fidelity", "congestion", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for record in (True, False):
        called(tools, "open", options=MODEL, record=record)
        assert called(tools, "run")["now_ps"] == said["time_ps"]
        assert called(tools, "state")["state_hash"] == said["state_hash"]


def test_a_saved_simulation_goes_on(tools, tmp_path):
    called(tools, "open", options=RING)
    called(tools, "step", n=500)
    before = called(tools, "state")["state_hash"]
    called(tools, "save", file="run")
    assert anb.Simulation.load(tmp_path / "run").state_hash() == before
    called(tools, "open", options=MODEL)
    assert called(tools, "open", saved="run")["state_hash"] == before
    with pytest.raises(InputError, match="run: this name is taken"):
        called(tools, "save", file="run")


def test_verify_proves_or_lists_faults(tools):
    right = called(tools, "verify", collective="all_reduce", algorithm="ring", ranks=4)
    assert (right["correct"], right["faults"]) == (True, [])
    with pytest.raises(InputError, match="did you mean 'ring'"):
        called(tools, "verify", collective="all_reduce", algorithm="rign")
    python = Tools(Limits(tools.limits.folder, python=True))
    text = "p.block(0).wait(p.semaphore(0))"
    found = called(python, "verify", collective="barrier", program=text, ranks=2)
    assert not found["correct"]
    assert found["faults"][0]["line"] == 1
    nodes = "assert p.per_node == 8, 'not two nodes'\n" + text  # as on this infrastructure only
    for more, faults in (
        ({"infra": "single-tier:servers=2"}, "waits for 1"),
        ({"ranks": 16}, "not two nodes"),
    ):
        found = called(python, "verify", collective="barrier", program=nodes, **more)
        assert found["ranks"] == 16
        assert faults in found["faults"][0]["text"]
    endless = Tools(Limits(tools.limits.folder, seconds=0.3, python=True))
    found = called(endless, "verify", collective="barrier", program="while True: pass", ranks=2)
    assert "not done after" in found["faults"][0]["text"]


# Hostile ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,arguments,says",
    [
        ("rnu", {}, "did you mean 'run'"),
        ("step", {"count": 3}, "did you mean 'unit'|known: n, unit"),
        ("step", {"n": "3"}, "give a JSON integer"),
        ("step", {"n": True}, "give a JSON integer"),
        ("step", {"n": -1}, "not negative"),
        ("step", {"n": 10**30}, "at most"),
        ("step", {"unit": "phse"}, "did you mean 'phase'.*this run counts event"),
        ("back", {"n": -1}, "not negative"),
        ("inspect", {}, "path is missing"),
        ("inspect", {"path": "gpu[99]"}, "gpu"),
        ("inspect", {"path": "x" * 10**5}, "a name of 100,000 letters"),
        ("tables", {"name": "link"}, "did you mean 'links'"),
        ("tables", {"name": "links", "rows": 10**9}, "take 0 to 1,000"),
        ("tables", {"name": "links", "first": -1}, "take 0"),
        ("search", {"most": -1}, "take 0"),
        ("set", {"path": "gpu[0].smz", "value": 1}, "did you mean"),
        ("set", {"path": "gpu[0].sms", "value": [1]}, "give a JSON"),
        ("run", {"until": "5 parsec"}, "until"),
        ("run", {"until": "-1 us"}, "until"),
        ("goto", {"when": "soon"}, "when"),
        ("break_when", {"condition": "__import__('os')"}, "import"),
        ("open", {}, "open: options are missing"),
        ("open", {"options": RING, "saved": "run"}, "open: options and saved exclude each other"),
        ("what_if", {"value": "x2"}, "what_if: the value 'x2' has no path; give the path"),
        ("what_if", {"path": "*->*.latncy", "value": "x2"}, "did you mean 'latency'"),
        ("what_if", {"path": "*->*.latency", "value": "2 GB/s"}, "unknown time unit 'GB/s'"),
        ("set", {"path": "gpuu[3].sms", "value": 3}, "unknown object 'gpuu.3.'; did you mean 'gpu.3.'"),
        ("set", {"path": "gpu[99].sms", "value": 3}, "unknown gpu.99.; ranks are 0 to 7"),
        ("break_when", {"condition": "gpu[3]"}, "write <path>.<field> <op> <number>"),
        ("break_when", {"condition": "gpu[3].sm.0.waitng > 0"}, "no field 'waitng'; did you mean 'waiting'"),
        ("break_when", {"condition": "gpu[3].sm.0.waiting > many"}, "'many' is not a whole number"),
        ("verify", {"collective": "all_reduce", "infra": "dgx-h100", "ranks": 4},
         "verify: ranks and infra exclude each other"),
        ("open", {"options": {"infra": "dgx-h100", "colective": "x"}}, "did you mean 'collective'"),
        ("open", {"options": {**RING, "size": "1 PiB"}}, "memory"),
        ("open", {"options": {**RING, "html": "/tmp/x.html"}}, "unknown option 'html'"),
        ("open", {"options": {**RING, "fail": "a->b@1us"}}, "fail|repair|link"),
        ("verify", {"collective": "all_reduce", "ranks": 10**9}, "take 0 to 1,024"),
        ("verify", {"collective": "all_reduce", "program": "1"}, "Python files are not executed here"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_changes_nothing(tools, name, arguments, says):
    called(tools, "open", options=RING)
    called(tools, "step", n=100)
    before = called(tools, "state")
    with pytest.raises(InputError, match=says) as error:
        called(tools, name, **arguments)
    assert "\n" not in str(error.value)
    assert called(tools, "state") == before


def test_a_closed_server_says_what_to_do(tools):
    for name in ("state", "run", "explain", "tables"):
        with pytest.raises(InputError, match="call open first"):
            called(tools, name)


def test_files_outside_of_the_folder_are_refused(tmp_path, monkeypatch):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir(), folder.mkdir()
    monkeypatch.chdir(folder)
    tools = Tools(Limits(folder))
    infra = anb.infragraph.blueprint("switch:gpus=2")
    infra.save(outside / "net.yaml")
    (folder / "link.yaml").symlink_to(outside / "net.yaml")
    (folder / "deep").symlink_to(outside)
    (outside / "mine.py").write_text("open('ran', 'w')\ndef ring(p): pass\n")
    (folder / "mine.py").write_text("open('ran', 'w')\ndef ring(p): pass\n")
    (folder / "jobs.yaml").write_text(
        "infra: ../outside/net.yaml\njobs: [{collective: all_reduce, size: 1 KiB}]\n"
    )
    for place in (
        "../outside/net.yaml",
        str(outside / "net.yaml"),
        "link.yaml",
        "deep/net.yaml",
        "/etc/passwd",
    ):
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "open", options={**RING, "infra": place})
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "open", saved=place)
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "verify", collective="all_reduce", infra=place)
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "open", options={"jobs": place, "fidelity": "congestion"})
    with pytest.raises(InputError, match="outside of the folder"):  # a file that a file names
        called(tools, "open", options={"jobs": "jobs.yaml", "fidelity": "congestion"})
    for algorithm in ("../outside/mine.py:ring", "deep/mine.py:ring"):
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "open", options={**RING, "algorithm": algorithm})
    with pytest.raises(InputError, match="not executed here"):
        called(tools, "open", options={**RING, "algorithm": "mine.py:ring"})
    assert not (folder / "ran").exists()
    infra.save(folder / "net.yaml")
    called(tools, "open", options={**RING, "infra": "net.yaml"})
    for place in ("../outside/run", "deep/run", str(outside / "run"), "../run", "\0"):
        with pytest.raises(InputError, match="outside of the folder"):
            called(tools, "save", file=place)
    assert sorted(file.name for file in outside.iterdir()) == ["mine.py", "net.yaml"]
    anb.infragraph.load(outside / "net.yaml")  # only tools are confined


def test_a_long_run_stops_at_an_event_and_goes_on(tmp_path):
    tools = Tools(Limits(tmp_path))
    called(tools, "open", options={**RING, "size": "4 MiB"})
    tools.limits = Limits(tmp_path, seconds=0.2)
    first = called(tools, "run")
    assert first["why"] == "limit"
    assert "call again to go on" in first["text"]
    second = called(tools, "step", n=10**12)
    assert second["why"] == "limit"
    assert second["events"] > first["events"] > 0
    assert called(tools, "step", n=10**6, unit="phase")["why"] == "limit"
    assert called(tools, "step", n=100)["why"] == "steps"
    there = called(tools, "state")
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 MiB", "ring"))
    sim.step(there["events"])
    assert sim.state_hash() == there["state_hash"]
    with pytest.raises(InputError, match=r"what_if: not done after 0\.2 s"):
        called(tools, "what_if", path="*->*.latency")
    assert called(tools, "state") == there


def test_two_calls_at_once_are_answered_one_after_the_other(tools):
    called(tools, "open", options={**RING, "size": "64 KiB"})

    async def both():
        return await asyncio.gather(
            *(tools.call("step", {"n": 20_000}) for _ in range(3)), tools.call("state", {})
        )

    said = asyncio.run(both())
    assert [one["events"] for one in said] == [20_000, 40_000, 60_000, 60_000]


def test_a_call_that_is_cancelled_leaves_the_run_at_an_event(tools):
    called(tools, "open", options={**RING, "size": "1 MiB"})

    async def cancelled():
        task = asyncio.create_task(tools.call("run", {}))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await tools.call("step", {"n": 1})

    assert asyncio.run(cancelled())["why"] == "steps"
    assert not session_of(tools.sim).playing


def test_an_answer_has_a_bounded_length(tools):
    called(tools, "open", options=RING)
    called(tools, "run")
    table = called(tools, "tables", name="flights", rows=1000)
    assert len(json.dumps(table)) <= 40_000
    assert len(table["rows"]) + table["rows_left_out"] == 1000


def test_a_deadlock_is_the_error_that_it_is_elsewhere(tools):
    called(tools, "open", options=RING)
    called(tools, "set", path="gpu[0]->dgx_h100.0.nvsw.0.up", value=False)
    with pytest.raises(Deadlock, match="is down since 0 ps"):
        called(tools, "run")
    assert called(tools, "back", n=10**9)["events"] == 0


# A person watches -------------------------------------------------------------------


def test_views_follow_and_pause_ends_a_run(tmp_path):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
    whole = sim.fork().run().events
    tools = Tools(Limits(tmp_path), sim)
    with pytest.raises(InputError, match="unknown tool 'open'"):
        called(tools, "open", options=RING)

    async def watched():
        session, seen = session_of(sim), []
        paused: list[int] = []

        def view():
            seen.append((sim.events, session.status))
            if sim.events > 50_000 and not paused:
                paused.append(sim.events)
                session.ask("pause")

        session.attach(view)
        return seen, await tools.call("run", {}), await tools.call("step", {"n": 1})

    seen, said, later = asyncio.run(watched())
    assert said["why"] == "pause"
    assert 50_000 < said["events"] < whole
    assert later["events"] == said["events"] + 1
    assert seen[0][1] == "running"
    assert seen[-1] == (later["events"], later["text"])
    assert len(seen) < 200
