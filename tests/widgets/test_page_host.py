"""Python's side of a page, without a page: what is sent to it does what the verbs of a simulation do."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.collectives import Collective, read_algorithm, write_algorithm
from astranb.core import host as core_host
from astranb.core.errors import InputError
from astranb.widgets.desk import EXAMPLE
from astranb.widgets.page_host import PageHost
from astranb.widgets.panels import PANELS
from astranb.widgets.shared_link import Brought, link_of, read_link
from tests.collectives.formats.test_mscclpp import all_pairs, in_pipelines
from tests.sim.test_engines import SUBJECTS
from tests.sim.test_recipe import travelled
from tests.sim.test_time_travel import CASES

LINK = "gpu[0]->dgx_h100.0.nvsw.0"


def ring(size: str = "16 KiB", infra: str = "dgx-h100", **options: Any) -> anb.Simulation:
    return anb.Simulation(infra, anb.collectives.all_reduce(size, "ring"), **options)


def small() -> anb.Simulation:
    return ring("1 KiB", "switch:gpus=2")


class Page:
    """A page's view of a run."""

    def __init__(self, sim: anb.Simulation) -> None:
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self.host = PageHost(self._post)
        self.main = -1
        self.questions = 0
        self.traits: dict[int, dict[str, Any]] = {}
        self.closed: list[int] = []
        self.host.open(sim.recipe())
        assert self.sent[0][0]["own"] is True

    def _post(self, text: str, buffers: list[bytes]) -> None:
        message = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in {text[:200]}"))
        assert all(isinstance(one, bytes) for one in buffers)
        if "show" in message or "made" in message:
            number = message.get("show", message.get("made"))
            self.main = message.get("show", self.main)
            self.traits[number] = dict(message["traits"])
        elif "traits" in message:
            self.traits[message["bench"]] |= message["traits"]
        elif "closed" in message:
            self.closed.append(message["closed"])
        elif "bench" in message:
            assert message["bench"] not in self.closed
        self.sent.append((message, buffers))

    def say(self, message: Any, buffers: Sequence[bytes] = ()) -> list[dict[str, Any]]:
        del self.sent[:]
        self.host.receive(message if isinstance(message, str) else json.dumps(message), list(buffers))
        return [found for found, _ in self.sent]

    def edit(self, kind: str, **options: Any) -> dict[str, Any]:
        (found,) = [
            one["editor"] for one in self.say({"editor": {"type": kind, **options}}) if "editor" in one
        ]
        return dict(found)

    def view(self, kind: str, bench: int | None = None, **options: Any) -> list[dict[str, Any]]:
        number = self.main if bench is None else bench
        sent = self.say({"bench": number, "message": {"type": kind, **options}})
        return [found["message"] for found in sent if found.get("bench") == number and "message" in found]

    def answer(self, question: str, buffers: Sequence[bytes] = (), **options: Any) -> dict[str, Any]:
        self.questions += 1
        sent = self.say({"ask": self.questions, "do": question, **options}, buffers)
        (found,) = [one for one in sent if "answer" in one]
        assert found["answer"] == self.questions
        return found

    def ask(self, question: str, buffers: Sequence[bytes] = (), **options: Any) -> dict[str, Any]:
        found = self.answer(question, buffers, **options)
        assert "error" not in found, found
        return dict(found["result"])

    def refused(self, question: str, buffers: Sequence[bytes] = (), **options: Any) -> str:
        error = str(self.answer(question, buffers, **options)["error"])
        assert "\n" not in error
        return error

    @property
    def hash(self) -> str:
        return str(self.ask("hash")["hash"])

    def status(self) -> str:
        return str(self.view("fine")[-1]["status"])

    def file(self) -> bytes:
        self.ask("save")
        (found,) = [buffers for message, buffers in self.sent if "answer" in message]
        return found[0]


@pytest.mark.parametrize("name", ["lines", "lines, a workload", "messages, its links", "layers"])
def test_a_page_does_what_a_simulation_does(name: str) -> None:
    case = CASES[name]
    sim, page = case.make(), Page(case.make())
    assert page.view("ready")[0]["type"] == "scene"
    path, values = case.edits[0]
    for verb, options in (
        ("event", {"n": 120}),
        ("set", {"path": path, "value": values[0]}),
        ("phase", {}),
        ("back", {"n": 30}),
        ("cycle", {"n": 3}),
        ("breakpoint", {"how": "when", "condition": case.conditions[0]}),
        ("to_end", {}),
    ):
        page.view(verb, **options)
        if verb == "set":
            sim.set(path, values[0])
        elif verb == "breakpoint":
            sim.break_when(case.conditions[0])
        elif verb == "back":
            sim.back(30)
        elif verb == "to_end":
            sim.run()
        else:
            sim.step(int(options.get("n", 1)), verb)
        assert page.hash == sim.state_hash(), verb
    found = page.view("inspect", path=sim.paths("")[0])[-1]
    assert found["type"] == "inspection"
    assert "found" in found
    again = anb.Simulation.of_saved_bytes(page.file())
    assert (again.edits, again.state_hash()) == (sim.edits, sim.state_hash())
    assert [p.text for p in again.breakpoints] == [p.text for p in sim.breakpoints]


def test_it_plays_where_an_event_loop_runs() -> None:
    async def watched() -> tuple[list[str], str]:
        page = Page(ring())
        page.view("ready")
        page.view("to_end")
        bench = page.host._benches[page.main]
        kinds = ["playing" if bench.session.playing else "over"]
        while bench.session.playing:  # noqa: ASYNC110 - as a page sees it
            await asyncio.sleep(0.01)
        kinds.append("over")
        return kinds, page.hash

    kinds, found = asyncio.run(watched())
    sim = ring()
    sim.run()
    assert (kinds, found) == (["playing", "over"], sim.state_hash())


def test_attributes_go_both_ways_and_never_come_back() -> None:
    page = Page(small())
    page.view("ready")
    shown = {"_selection": "gpu[1]", "_panels": {"events": True}, "_sizes": {"main": 300}, "_redraw_hz": 30}
    sent = page.say({"bench": 0, "traits": {**shown, "_window_ps": [0, 500.0], "_cursor_ps": 100}})
    assert sent == []
    bench = page.host._benches[0]
    assert (bench._selection, bench._cursor_ps, bench._window_ps) == ("gpu[1]", 100.0, [0, 500.0])
    sent = page.say({"bench": 0, "message": {"type": "event", "n": 5}})  # the cursor follows
    assert {"bench": 0, "traits": {"_cursor_ps": -1.0}} in sent
    bench.select("gpu[0]")
    assert page.traits[0]["_selection"] == "box.0.gpu.0"
    again = anb.Simulation.of_saved_bytes(page.file())
    assert again.notes["workbench"]["panels"] == {"events": True}
    page.ask("open", [page.file()], name="a.anb")
    assert page.traits[page.main]["_sizes"] == {"main": 300}
    wrongs: list[Any] = [
        {"_selection": 3}, {"_cursor_ps": "now"}, {"_window_ps": [1]}, {"_window_ps": ["a", "b"]},
        {"_panels": []},
        {"_sizes": 3}, {"_redraw_hz": None}, {"_modules": {}}, {"_other": "bench:3"}, {"sim": 1}, [], 3, None,
    ]  # fmt: skip
    for wrong in wrongs:
        (found,) = page.say({"bench": page.main, "traits": wrong})
        assert found["answer"] is None
        assert "traits" in found["error"]


def test_a_fork_is_shown_beside_and_goes_along() -> None:
    page, sim = Page(ring()), ring()
    page.view("ready")
    page.view("event", n=800)
    sim.step(800)
    options = {"changes": {f"{LINK}.bandwidth": "50 GB/s"}}
    page.view("ask", id=1, question="fork", options=options)
    beside = int(page.traits[0]["_other"].removeprefix("bench:"))
    assert beside == 1
    assert page.traits[beside]["_beside"]["letter"] == "B"
    assert page.view("ready", bench=beside)[0]["type"] == "scene"
    other = sim.fork_with(options["changes"])
    page.view("event", n=700)
    sim.step(700)
    other.goto(sim.now_ps)
    assert page.hash == sim.state_hash()
    assert page.ask("hash", bench=beside)["hash"] == other.state_hash()
    found = page.view("ask", id=2, question="difference", options={})[-1]
    assert found["other"]
    assert found["tables"]
    page.say({"bench": 0, "traits": {"_selection": "gpu[2]"}})
    assert page.traits[beside]["_selection"].endswith("xpu.2")
    assert page.refused("close_bench", bench=0) == "workbench 0: it is beside no other one"
    page.ask("close_bench", bench=beside)
    assert page.closed == [beside]
    assert page.traits[0]["_other"] == ""
    assert page.say({"bench": beside, "message": {"type": "read"}}) == []  # what was on its way
    changes = {"changes": {"algorithm": "allpairs", "gpu.unroll": "8"}}
    page.view("ask", id=3, question="fork", options=changes)
    other = sim.fork_with(changes["changes"])
    other.goto(sim.now_ps)
    assert page.ask("hash", bench=2)["hash"] == other.state_hash()
    found = page.view("ask", id=4, question="difference", options={"part": True})[-1]
    assert found["other"] is False
    assert page.closed == [1, 2]


@pytest.mark.parametrize("name", ["lines", "messages, its links", "layers, micro", "messages, a model"])
def test_links_go_between_pages_and_jupyterlab(name: str) -> None:
    case = CASES[name]
    sim = travelled(case, 3)
    lab, page = anb.Workbench(sim), Page(case.make())
    lab.set_redraw(20)
    link = lab.link()
    assert page.ask("enter_link", text=link) == {"text": "the state of the link"}
    assert page.hash == sim.state_hash()
    assert page.traits[page.main]["_redraw_hz"] == 20
    page.view("clear")
    page.view("event", n=50)
    back = page.ask("link")["fragment"]
    other = anb.Workbench(case.make())
    other.enter(f"https://example.org/run.html{back}")
    assert other.sim.state_hash() == page.hash
    assert page.main == 0  # it went there in place
    page.ask("enter_link", text=back)
    assert page.ask("link")["fragment"] == back


def test_a_link_that_is_wrong_leads_nowhere() -> None:
    page, other = Page(small()), Page(ring())
    page.view("event", n=50)
    before, link = page.hash, page.ask("link")["fragment"]
    assert "belongs to another page" in other.refused("enter_link", text=link)
    for wrong in (
        link[:-20],
        "#state=",
        "#state=" + "A" * 100_000,
        "#state=AAAA",
        "",
        "nothing",
        "#state=\u00e9",
    ):
        assert page.refused("enter_link", text=wrong).startswith("this link is damaged")
    document = json.loads(zlib.decompress(base64.urlsafe_b64decode(link[7:] + "=="), -15))

    def made(**changes: Any) -> str:
        packing = zlib.compressobj(9, zlib.DEFLATED, -15)
        text = json.dumps({**document, **changes}).encode()
        return "#state=" + base64.urlsafe_b64encode(packing.compress(text) + packing.flush()).decode().rstrip(
            "="
        )

    assert "belongs to another page" in page.refused("enter_link", text=made(version=1))
    assert "not the state of a run" in page.refused("enter_link", text=made(state=3))
    assert page.refused("enter_link", text=made(brought={"kind": "x"})) == "not a plan of a run"
    assert page.refused("enter_link", text=7).startswith("text: 7 is not a text")
    assert page.hash == before
    late = made(state={**document["state"], "events": 10**9})
    assert "the run ends after" in page.refused("enter_link", text=late)


def plans(tmp_path: Path) -> dict[str, Path]:
    program = Collective.of("all_reduce", "64 KiB", "ring").program(2)
    (tmp_path / "made.json").write_text(json.dumps(all_pairs(2)))
    for name in ("ring.json", "ring.xml"):
        write_algorithm(program, tmp_path / name)
    return {name: tmp_path / name for name in ("made.json", "ring.json", "ring.xml")}


def test_plans_run_on_the_machine_of_the_page(tmp_path: Path) -> None:
    network = anb.Network(buffers=4)
    own = ring("1 KiB", "switch:gpus=2", network=network)
    page = Page(own)
    for name, file in plans(tmp_path).items():
        plan = read_algorithm(file)
        found = page.ask("open", [file.read_bytes()], name=name)
        assert found["title"].startswith(f"“{plan.name}”: all_reduce, Simple, for 2 GPUs")
        assert (found["kind"], found["cost"]) == ("plan", "")
        assert page.ask("plan_cost", size="1 MiB")["cost"] == ""
        page.ask("run_plan", size="16 KiB")
        assert page.traits[page.main]["_selection"] == ""
        work = Collective.of("all_reduce", "16 KiB", read_algorithm(file))
        sim = anb.Simulation("switch:gpus=2", work, network=network)
        assert page.hash == sim.state_hash()
        page.view("event", n=200)
        page.view("set", path="gpu[1].l2", value="300 ns")
        page.view("event", n=100)
        sim.step(200)
        sim.set("gpu[1].l2", "300 ns")
        sim.step(100)
        assert page.hash == sim.state_hash()
        link, saved = page.ask("link")["fragment"], page.file()
        assert anb.Simulation.of_saved_bytes(saved).state_hash() == sim.state_hash()
        page.ask("own_run")
        assert page.hash == own.state_hash()
        shown = page.main
        page.ask("enter_link", text=link)
        assert page.main == shown + 1
        assert page.hash == sim.state_hash()
        assert page.ask("link")["fragment"] == link
        other = Page(ring("1 KiB", "switch:gpus=2", network=network))
        other.ask("open", [saved], name="a.anb")
        assert other.hash == sim.state_hash()
        assert other.ask("link")["fragment"] == link  # a file remembers what it runs
        with pytest.raises(InputError, match="this link is to a plan that was opened on a page"):
            anb.Workbench(own.fork()).enter(link)


def test_what_is_said_of_a_plan(tmp_path: Path) -> None:
    page = Page(ring())
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(all_pairs(2) | {"collective": "mystery"}))
    found = page.ask("open", [file.read_bytes()], name="odd.json")
    assert "no collective that is known, run unchecked" in found["title"]
    assert found["title"].endswith("(this page has 8)")
    assert found["size"] == "16 KiB"
    assert "8" in page.refused("run_plan", size="16 KiB")
    assert page.refused("run_plan", size="much")
    assert page.refused("run_plan", size=[])
    assert page.refused("open", [b"[]"], name="notes.json").startswith("notes.json: ")
    assert page.refused("run_plan", size="1 KiB") == "page: no plan is open"
    assert page.refused("open", [b"PK\3\4"], name="a.anb").startswith("a.anb: not a saved simulation")
    assert page.refused("open", name="a.anb") == "a.anb: the file is missing"
    by_messages = Page(anb.Simulation(*SUBJECTS["workload"]))
    assert "this page simulates whole messages" in by_messages.refused("open", [b"{}"], name="a.json")


def test_what_a_large_plan_takes_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(ring())
    data = json.dumps(in_pipelines(all_pairs(8), 1024)).encode()
    assert page.ask("open", [data], name="many.json")["cost"] == ""
    found = page.ask("plan_cost", size="8 MiB")["cost"]
    assert re.fullmatch(r"294,912 operations: about \d+ MB of memory, and \d+ s until it can run", found)
    monkeypatch.setattr("astranb.widgets.page_plan._MOST_MEMORY", 4e8)
    for question in ("plan_cost", "run_plan"):
        assert "more than 250,000 operations" in page.refused(question, size="8 MiB")
    assert page.hash == ring().state_hash()


def test_a_file_of_a_page_opens_in_jupyterlab(tmp_path: Path) -> None:
    page = Page(ring())
    page.say({"bench": 0, "traits": {"_selection": "gpu[3]", "_panels": {"events": True}}})
    page.view("event", n=900)
    (tmp_path / "a.anb").write_bytes(page.file())
    again = anb.Workbench.load(tmp_path / "a.anb")
    assert (again.sim.events, again.sim.state_hash()) == (900, page.hash)
    assert (again._selection, again._panels) == ("gpu[3]", {"events": True})
    again.event(100)
    again.save(tmp_path / "b.anb")
    page.ask("open", [(tmp_path / "b.anb").read_bytes()], name="b.anb")
    assert page.status() == "opened b.anb"
    assert page.hash == again.sim.state_hash()
    assert page.ask("link")["fragment"] == again.link()


def test_a_plan_too_large_for_a_link_goes_into_a_file() -> None:
    page = Page(small())
    noise = random.Random(1).randbytes(8000).hex()
    page.ask("open", [json.dumps(all_pairs(2) | {"name": noise}).encode()], name="noise.json")
    page.ask("run_plan", size="16 KiB")
    assert page.refused("link") == "this plan is too large for a link; save it as a file"
    again = anb.Simulation.of_saved_bytes(page.file())
    assert again.state_hash() == page.hash


def test_a_plan_of_the_library_fits_into_a_link(tmp_path: Path) -> None:
    file = tmp_path / "ring.json"
    write_algorithm(Collective.of("all_reduce", "64 KiB", "ring").program(8), file)
    assert file.stat().st_size > 100_000
    page = Page(ring())
    page.ask("open", [file.read_bytes()], name="ring.json")
    page.ask("run_plan", size=65536)
    assert len(page.ask("link")["fragment"]) < 8192


def test_a_file_of_another_run_is_shown() -> None:
    page = Page(small())
    other = anb.Simulation(*SUBJECTS["layers"])
    other.step(40)
    page.ask("open", [other.recipe()], name="b.anb")
    assert page.hash == other.state_hash()
    assert "this run came in a file" in page.refused("link")
    found = page.ask("own_run")
    assert found == {"text": "the run of this page"}
    assert page.hash == small().state_hash()
    assert page.closed == [0, 1]


def test_the_editor_verifies_and_simulates() -> None:
    page = Page(ring(gpu={"sms": 40}))
    traits = page.ask("editor_open")["traits"]
    assert (traits["text"], traits["chosen"]["size"]) == (EXAMPLE, "16 KiB")
    wrong = EXAMPLE.replace("send(", "sent(", 1)
    sent = page.say({"editor": {"type": "check", "seq": 7, "text": wrong}})
    assert {"editor_traits": {"text": wrong}} in sent
    found = sent[-1]["editor"]
    assert (found["type"], found["seq"], found["good"]) == ("problems", 7, EXAMPLE)
    assert found["problems"][0]["line"] == 6
    assert (
        "sent" in page.say({"editor": {"type": "simulate", "seq": 8, "text": wrong}})[-1]["editor"]["error"]
    )
    found = page.edit("check", text=EXAMPLE)
    assert (found["problems"], found["ranks"]) == ([], 8)
    page.say({"editor": {"type": "simulate", "seq": 9, "text": EXAMPLE}})
    assert page.traits[page.main]["_panels"] == {"side": "source"}
    editor = anb.Editor(EXAMPLE, size="16 KiB")
    sim = ring(gpu={"sms": 40}).rebuilt(collective=editor._draft.work())
    assert page.hash == sim.state_hash()
    page.view("event", n=300)
    sim.step(300)
    assert page.hash == sim.state_hash()
    link = page.ask("link")["fragment"]
    other = Page(ring(gpu={"sms": 40}))
    other.ask("enter_link", text=link)
    assert other.hash == sim.state_hash()
    assert other.ask("editor_open")["traits"]["text"] == EXAMPLE
    page.edit("choose", what={"infra": "switch:gpus=4", "size": "4 KiB"})
    page.edit("simulate", text=EXAMPLE)
    elsewhere = anb.Simulation(
        "switch:gpus=4", anb.Editor(EXAMPLE, infra="switch:gpus=4", size="4 KiB")._draft.work()
    )
    assert page.hash == elsewhere.state_hash()
    assert "error" in page.edit("choose", what={"infra": "nowhere"})
    assert page.edit("choose", what={"infra": traits["chosen"]["infra"]})["problems"] == []
    assert "error" in page.edit("tune", what={"slices": 3})
    assert "JupyterLab" in page.say({"editor": {"type": "synthesize"}})[-1]["editor"]["error"]
    assert "unknown message" in page.say({"editor": {"type": "fly"}})[-1]["editor"]["error"]
    hostile: list[Any] = [{}, [], None, 3, {"type": "choose"}, {"type": "choose", "what": 3}]
    for message in (*hostile, {"type": "tune", "what": []}):
        page.say({"editor": message})


def test_an_editor_of_a_run_of_messages_has_a_machine_of_its_own() -> None:
    page = Page(anb.Simulation(*SUBJECTS["workload"]))
    assert page.ask("editor_open")["traits"]["chosen"]["infra"] == "dgx-h100"
    page.edit("simulate", text=EXAMPLE)
    assert page.ask("link")["fragment"]


TO_A_VIEW: list[Any] = [
    None, [], {"type": 3}, {"type": "fly"}, {"type": "event", "n": -1}, {"type": "event", "n": "many"},
    {"type": "set", "command": "x", "path": 3}, {"type": "set_speed"}, {"type": "set_speed", "speed": "x"},
    {"type": "goto", "when": 9 * 10**18}, {"type": "goto", "when": {}}, {"type": "pause", "at_ps": "x"},
    {"type": "inspect"}, {"type": "inspect", "path": 3, "at_ps": []}, {"type": "ask"},
    {"type": "inspect", "path": "gpu[0]", "at_ps": 1e300}, {"type": "ask", "id": 1, "question": "x"},
    {"type": "ask", "id": 1, "question": "hash", "options": {"at_ps": -1e300}},
    {"type": "ask", "id": 1, "question": "timeline", "options": {"from_ps": 1e300}},
    {"type": "ask", "id": 1, "question": "fork", "options": {"changes": []}},
]  # fmt: skip
ASKED: list[dict[str, Any]] = [
    {}, {"do": 3}, {"do": "fly"}, {"do": "_take"}, {"do": "hash", "bench": {}}, {"do": "hash", "bench": 7},
    {"do": "open"}, {"do": "open", "name": 3}, {"do": "run_plan"}, {"do": "plan_cost", "size": -1},
    {"do": "enter_link"}, {"do": "close_bench"},
]  # fmt: skip
HOSTILE = [
    *(json.dumps({"bench": 0, "message": message}) for message in TO_A_VIEW),
    *(json.dumps({"ask": 1, **asked}) for asked in ASKED),
    *("", "nothing", "[]", "3", "null", "{}", "[" * 100_000, '{"bench": 0}', '{"ask": {}, "do": "hash"}'),
    *('{"bench": 99, "message": {}}', '{"bench": "0", "message": {}}', '{"bench": -1, "message": {}}'),
    '{"bench": 0, "message": {"type": "event", "n": 1e999}}',
    '{"bench": 0, "message": {"type": "event", "n": NaN}}',
    '{"bench": 0, "message": {"type": "event", "n": ' + "9" * 6000 + "}}",
    *('{"editor": null}', '{"editor": {"type": "check"}}', '{"editor": {"type": "choose", "what": 1}}'),
    *('{"fly": 1}', '{"bench": 0, "traits": {"_cursor_ps": 1e999}}'),
]


def test_nothing_that_is_sent_is_raised() -> None:
    page = Page(small())
    page.view("ready")
    page.view("event", n=30)
    for text in HOSTILE:
        page.say(text)
        assert page.sent or "fly" not in text, text
        for message, _ in page.sent:
            assert "\n" not in str(message.get("error", ""))
    errors = [page.say(text)[-1] for text in ("[]", "nothing", '{"fly": 1}', '{"ask": 5, "do": "fly"}')]
    assert [one["answer"] for one in errors] == [None, None, None, 5]
    assert "unknown message 'fly'" in errors[2]["error"]
    assert "unknown question 'fly'" in errors[3]["error"]
    small_again = small()
    page.view("reset")
    assert page.hash == small_again.state_hash()


def test_nothing_is_answered_before_a_run_is_open() -> None:
    sent: list[str] = []
    host = PageHost(lambda text, _: sent.append(text))
    host.receive('{"ask": 1, "do": "hash"}')
    assert json.loads(sent[-1]) == {"answer": 1, "error": "page: no run is open"}
    with pytest.raises(InputError, match="the run of this page: not a saved simulation"):
        host.open(b"nothing")


PLAIN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not in a page")
# What links machine code here, llvmlite and platformdirs, has its counterpart in a page.
BLOCKED = set("anywidget ipywidgets traitlets IPython pandas tqdm bokeh networkx".split())
sys.meta_path.insert(0, Absent())
import asyncio, json
from pathlib import Path
import astranb.widgets.page_host as page_host
from astranb.widgets.desk import EXAMPLE
from astranb.widgets.session.background import background_of
sent = []
host = page_host.PageHost(lambda text, buffers: sent.append(json.loads(text)))
def ask(**message):
    host.receive(json.dumps({"ask": 1, **message}))
    (found,) = [one for one in sent if "answer" in one]
    sent.clear()
    assert "error" not in found, found
    return found["result"]
def view(**message):
    host.receive(json.dumps({"bench": 0, "message": message}))
    for one in sent:
        inner = one.get("message", {})
        assert "error" not in one and "error" not in inner and inner.get("type") != "error", one
    sent.clear()
async def main():
    host.open(Path(sys.argv[1]).read_bytes())
    sent.clear()
    view(type="ready")
    view(type="to_end")
    while host._benches[0].session.playing:
        await asyncio.sleep(0.01)
    sent.clear()
    print(ask(do="hash")["hash"])
    for question in "outcome search why lost_time critical_path what_if parameters hash".split():
        view(type="ask", id=1, question=question, options={"path": "gpu[0]", "text": "gpu"})
        background_of(host._benches[0].session).finish()
        view(type="ask", id=1, question=question, options={"path": "gpu[0]", "text": "gpu"})
    view(type="ask", id=2, question="fork", options={"changes": {"algorithm": "allpairs"}})
    host.receive(json.dumps({"editor": {"type": "check", "text": EXAMPLE}}))
    print(sent[-1]["editor"]["problems"])
    sent.clear()
    ask(do="link"), ask(do="save")
asyncio.run(main())
print(sorted(BLOCKED & set(sys.modules)))
"""


def test_a_page_needs_nothing_but_numpy_and_yaml(tmp_path: Path) -> None:
    sim = small()
    (tmp_path / "run.anb").write_bytes(sim.recipe())
    command = [sys.executable, "-c", PLAIN, str(tmp_path / "run.anb")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    sim.run()
    assert done.stdout.splitlines() == [sim.state_hash(), "[]", "[]"]


def test_what_needs_processes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_host, "THREADS", False)
    editor = anb.Editor(infra="switch:gpus=4", size="4 KiB")
    with pytest.raises(InputError, match="synthesis: a page has no processes; run it in JupyterLab"):
        editor.start_synthesis()
    assert editor._page.synthesis["state"] == "none"


def test_the_panels_are_those_of_the_script() -> None:
    script = Path(anb.__file__).parent / "widgets/static/panels.js"
    lines, _, of_operations = script.read_text("utf-8").partition("const OF_OPERATIONS")
    row = re.compile(r'^  \["(stage|side|below)", "(\w+)"', re.MULTILINE)
    found = {"cacheline": lines, "operations": of_operations}
    assert {name: {p: slot for slot, p in row.findall(text)} for name, text in found.items()} == PANELS


def test_a_link_says_what_was_brought() -> None:
    sim, text = small(), 'line one\n{"a" : 1}\nline three'
    about = {
        "name": "x",
        "infra": None,
        "size": "1 KiB",
        "collective": "all_reduce",
        "protocol": "Simple",
        "params": {"a": 1},
    }
    brought = Brought("text", about, text)
    assert read_link(link_of(sim, {}, "0" * 32, brought)).brought == brought
    plan = Brought("plan", {"name": "y", "size": 1024}, '{ "a b" : [ 1, "c\\"  d" ] }')
    assert read_link(link_of(sim, {}, "", plan)).brought == plan._replace(text='{"a b":[1,"c\\"  d"]}')


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    page = Page(small())
    monkeypatch.setitem(page.host.questions, "hash", full)
    monkeypatch.setattr(page.host._benches[0].connection, "receive", full)
    assert "too little memory" in page.refused("hash")
    assert "too little memory" in page.view("event")[-1]["text"]
