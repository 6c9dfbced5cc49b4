"""JavaScript draws and never answers: what a page without Python shows, Python gave when it was written."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.chakra import TraceBuilder
from astranb.core.plural import plural
from astranb.widgets import assets
from astranb.widgets.feed import feed_of
from astranb.widgets.feed import unpack as unpack_columns
from astranb.widgets.feed.modules import ModuleAnswers, facts_of
from astranb.widgets.graph_page import write_graph
from astranb.widgets.offline_page import packed
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from astranb.widgets.views.footprint import every_change
from astranb.widgets.views.ranks import every_track
from astranb.workload.models import Parallelism, workload
from tests.engine.operations.support import mixed, sim_of
from tests.node import NODE
from tests.widgets.test_leaving import unpack

HERE = Path(__file__).parent
STATIC = Path(assets.__file__).parent / "static"
PLAYERS = {
    assets.PLAYER: ["messages", "packed", "model", "replayed", "recorded_kernel", "offline"],
    assets.STUDY_PLAYER: ["packed", "reported"],
    assets.TRACE_GRAPH_PLAYER: ["messages", "packed", "tree_page"],
    assets.TRACED_PLAYER: ["loader", "messages", "columns", "model", "packed", "traced"],
    assets.COUNTED_PLAYER: ["loader", "packed", "counted"],
    assets.JUDGED_PLAYER: ["loader", "packed", "judged"],
    assets.LIVE_PLAYER: [
        "messages", "packed", "model", "replayed", "recorded_kernel", "theme", "python_kernel",
        "page_controls", "live_page",
    ],
}  # fmt: skip
"""Scripts of pages, and the modules of each: they look up, pass on, and draw."""

Sent = list[tuple[dict[str, Any], list[bytes]]]


def modules() -> Iterator[tuple[str, str]]:
    """The browser's modules."""
    for file in sorted([*STATIC.glob("*.js"), *STATIC.glob("*.d.ts")]):
        yield file.stem, file.read_text("utf-8")


def test_no_module_calls_itself_the_counterpart_of_python() -> None:
    assert [name for name, text in modules() if re.search("counterpart", text, re.IGNORECASE)] == []


def test_a_count_and_its_noun_are_written_by_plural() -> None:
    """Otherwise there are "1 blocks"; ``${plural(count, "block")}`` has both."""
    count = re.compile(r"\$\{([^{}`]*)\} ((?:[a-z-]+ )?[A-Za-z]+s)\b")
    measured = re.compile(r"plural\(|formatTime\(|formatShare\(|time\(|toPrecision\(")
    verbs_and_units = re.compile(r"(has|is|takes|ms|in|of) ?")
    bare = [
        (name, found[0])
        for name, text in modules()
        for found in count.finditer(text)
        if not measured.search(found[1]) and not verbs_and_units.match(found[2])
    ]
    assert bare == []
    assert [name for name, text in modules() if '? "s" : ""' in text or '? "" : "s"' in text] == []


def test_plural_counts_as_python_does(tmp_path: Path) -> None:
    counts = [
        (0, "line waits", "lines wait"),
        (1, "GPU", ""),
        (1, "more row", ""),
        (2048, "dependency", "dependencies"),
    ]
    assert NODE
    script = tmp_path / "count.mjs"
    script.write_text(
        f"import {{ plural }} from {json.dumps((STATIC / 'format.js').as_uri())};\n"
        f"const counts = {json.dumps(counts)};\n"
        "console.log(JSON.stringify(counts.map(([n, one, many]) => plural(n, one, many || undefined))));\n"
    )
    answer = subprocess.run([NODE, script], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [plural(*count) for count in counts]


def test_players_are_made_of_what_looks_up_and_draws() -> None:
    texts = dict(modules())
    import_ = re.compile(r'^import \{[^}]*\} from "\.\.?/([\w/]+)\.js";\n', re.MULTILINE)
    for player, parts in PLAYERS.items():
        assert player == "\n".join(import_.sub("", texts[name]) for name in parts), parts
    assert not any(file.is_dir() for file in STATIC.iterdir())


def step() -> anb.Simulation:
    model = workload("gpt3-1.3b", Parallelism(pipeline=2), batch=4, microbatches=2, gpu="h100-sxm")
    return anb.Simulation(model)


def ring() -> anb.Simulation:
    return anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("16 KiB", "ring"))


def played(
    header: dict[str, Any],
    buffers: list[bytes],
    tmp_path: Path,
    messages: list[Any],
    player: tuple[str, str] = ("offline", "createRecording"),
) -> Sent:
    """Return the answers of a page to messages."""
    file = tmp_path / "page"
    file.write_text(packed({**header, "buffers": buffers}))
    assert NODE
    command = [NODE, str(HERE / "play_recording.mjs"), str(STATIC), str(file), *player]
    done = subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [(meta, [base64.b64decode(one) for one in some]) for meta, some in json.loads(done.stdout)]


def wishes(sim: anb.Simulation, header: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the questions that views may ask at any time, with what the page holds and what it does not."""
    for answer in header["answers"]:
        for at_ps in (None, 0, sim.now_ps // 3, sim.now_ps):
            yield answer["question"], {**answer["options"], "at_ps": at_ps, "columns": 300}
    window = {"from": sim.now_ps // 4, "to": sim.now_ps // 2, "columns": 100, "at_ps": None}
    for question in sorted(answers_of(feed_of(session_of(sim)))):
        yield question, {}
        yield question, {"rank": 1, "path": "rank[1].op[0]", **window}
        yield question, {"kind": "operations", "ranks": [1, 0], **window}
        yield question, {"rank": 10**6, **window}


@pytest.mark.parametrize("make", [ring, mixed, sim_of, step])
def test_every_reply_of_a_page_is_one_that_was_recorded(make: Any, tmp_path: Path) -> None:
    sim = make()
    sim.run()
    header, buffers = unpack(anb.Workbench(sim).to_html(tmp_path / "run.html").read_text())
    recorded: dict[str, list[tuple[dict[str, Any], list[bytes]]]] = {}
    for answer in header["answers"]:
        one = (answer["message"], [buffers[k] for k in answer["buffers"]])
        recorded.setdefault(answer["question"], []).append(one)
    asked = list(wishes(sim, header))
    messages: list[dict[str, Any]] = [{"type": "ready"}]
    for when in ("reset", "cycle", "phase", "to_end"):
        messages.append({"type": when})
        messages += [
            {"type": "ask", "id": number, "question": question, "options": options}
            for number, (question, options) in enumerate(asked)
        ]
    replies = [one for one in played(header, buffers, tmp_path, messages) if one[0]["type"] == "answer"]
    assert len(replies) == 4 * len(asked)
    got = 0
    for (meta, some), (question, _) in zip(replies, 4 * asked, strict=True):
        said = {name: value for name, value in meta.items() if name not in ("type", "id", "at_ps")}
        if "error" in said:
            assert some == []
            assert re.search("needs the kernel", said["error"]), said
            continue
        got += 1
        own = [
            {name: value for name, value in one.items() if name != "at_ps"} for one, _ in recorded[question]
        ]
        assert (said, some) in list(zip(own, (columns for _, columns in recorded[question]), strict=True))
    assert got > len(header["answers"])


@pytest.mark.parametrize("make", [mixed, step])
def test_what_is_recorded_is_what_python_answers(make: Any, tmp_path: Path) -> None:
    sim = make()
    sim.run()
    header, buffers = unpack(anb.Workbench(sim).to_html(tmp_path / "run.html").read_text())
    feed: Any = feed_of(session_of(sim))
    known = answers_of(feed)
    whole = {
        "tracks": lambda options: every_track(feed, options["kind"], list(range(sim.ranks))),
        "footprint": lambda options: every_change(feed, options["rank"]),
    }
    seen = set()
    for answer in header["answers"]:
        question, options = answer["question"], dict(answer["options"])
        if answer.get("from_ps") is not None:
            options["at_ps"] = answer["from_ps"]
        message, columns = whole[question](options) if question in whole else known[question](feed, options)
        if message.get("working"):  # a page waits for it
            continue
        seen.add(question)
        assert answer["message"] == json.loads(json.dumps(message)), question
        assert [buffers[k] for k in answer["buffers"]] == columns, question
    assert seen > {"doing", "tracks", "graph", "footprint", "outcome"}
    # All of a recording is what views get of a run where there is room for it.
    for kind in ("operations", "chunks"):
        window = {
            "from": 0,
            "to": sim.now_ps + 1,
            "columns": 1000,
            "kind": kind,
            "ranks": list(range(sim.ranks)),
        }
        part, columns = known["tracks"](feed, window)
        assert part["drawn"] == "spans"
        every, same = whole["tracks"]({"kind": kind})
        assert columns == same
        assert {**part, **{name: every[name] for name in ("to", "columns", "labels")}} == every
        assert part["labels"] == [*every["labels"], ""]


def test_a_graph_holds_until_something_changes(tmp_path: Path) -> None:
    sim = mixed()
    sim.run()
    header, buffers = unpack(anb.Workbench(sim).to_html(tmp_path / "run.html").read_text())
    mine = [one for one in header["answers"] if (one["question"], one["options"]) == ("graph", {"rank": 0})]
    assert [one["from_ps"] for one in mine[1:]] == [one["until_ps"] for one in mine[:-1]]
    times = [0, mine[1]["from_ps"] - 1, mine[1]["from_ps"], mine[2]["from_ps"] + 1, sim.now_ps]
    asked = [
        {
            "type": "ask",
            "id": 1,
            "question": "graph",
            "options": {"rank": 0, "at_ps": at_ps, "path": "rank[3]"},
        }
        for at_ps in times
    ]
    replies = [meta for meta, _ in played(header, buffers, tmp_path, asked)]
    feed: Any = feed_of(session_of(sim))
    for at_ps, reply in zip(times, replies, strict=True):
        assert reply["at_ps"] == at_ps
        now, _ = answers_of(feed)["graph"](feed, {"rank": 0, "at_ps": at_ps})
        assert reply["counts"] == now["counts"]
        assert [node["state"] for node in reply["nodes"]] == [node["state"] for node in now["nodes"]]


def test_of_many_changes_some_graphs_are_held_and_say_of_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = sim_of()
    sim.run()
    most = 5 * len(sim.engine.about.rows_of(0))
    monkeypatch.setattr("astranb.widgets.recording._MOST_GRAPH_NODES", most)
    header, buffers = unpack(anb.Workbench(sim).to_html(tmp_path / "run.html").read_text())
    held = [one for one in header["answers"] if one["question"] == "graph"]
    assert len(held) == 5
    one = held[1]
    between = (one["until_ps"] + held[2]["from_ps"]) // 2
    assert one["until_ps"] < between < held[2]["from_ps"]
    asked = [
        {"type": "ask", "id": 1, "question": "graph", "options": {"rank": rank, "at_ps": at_ps}}
        for rank, at_ps in ((0, between), (0, sim.now_ps), (1, 0))
    ]
    middle, end, other = (meta for meta, _ in played(header, buffers, tmp_path, asked))
    assert middle["at_ps"] == one["from_ps"]
    assert middle["nodes"] == one["message"]["nodes"]
    assert end["at_ps"] == sim.now_ps
    assert end["counts"]["done"] == len(end["nodes"])
    assert "needs the kernel" in other["error"]


def test_of_many_ranks_the_first_have_graphs_and_charts_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = step()
    sim.run()
    monkeypatch.setattr("astranb.widgets.recording._MOST_GRAPH_NODES", 160)
    monkeypatch.setattr("astranb.widgets.recording._MOST_MEMORY_BYTES", 0)
    header, _ = unpack(anb.Workbench(sim).to_html(tmp_path / "run.html").read_text())
    asked = [(one["question"], one["options"].get("rank")) for one in header["answers"]]
    assert [rank for question, rank in asked if question == "graph"] == [0]
    assert [rank for question, rank in asked if question == "footprint"] == [None]


def test_a_page_of_a_graph_finds_and_describes_what_a_notebook_does(tmp_path: Path) -> None:
    built = TraceBuilder()
    done = built.compute("begin", num_ops=1)
    for number in range(300):
        done = built.compute(f"block.{number // 50}.{number % 7}/op", num_ops=10, duration_us=1, after=done)
    trace = built.build()
    tree = write_graph(trace, tmp_path / "graph.html")
    header, buffers = unpack((tmp_path / "graph.html").read_text())
    notebook = ModuleAnswers(tree, facts_of(trace))
    modules: list[dict[str, Any]] = [
        {"question": "module", "options": {"module": one}} for one in range(len(tree))
    ]
    nodes = [{"question": "module_detail", "options": {"entity": len(tree) + row}} for row in (0, 7, 299)]
    texts = ["", "42", "BLOCK 3", "4.6 op", "block", "nothing"]
    searches = [{"question": "module_search", "options": {"text": text}} for text in texts]
    asked: list[dict[str, Any]] = [
        {"type": "ask", "id": k, **one} for k, one in enumerate([*modules, *nodes, *searches])
    ]
    replies = played(header, buffers, tmp_path, asked, ("tree_page", "createRecordedGraph"))
    assert len(replies) == len(asked)
    for (meta, columns), message in zip(replies, asked, strict=True):
        question, options = message["question"], message["options"]
        said = {name: value for name, value in meta.items() if name not in ("type", "id")}
        if question == "module":
            about, same = notebook.module(options["module"])
            one, other = unpack_columns("module", columns), unpack_columns("module", same)
            labels = [said["labels"][k] for k in one.pop("text")]
            assert labels == [about["labels"][k] for k in other.pop("text")]
            assert {name: column.tolist() for name, column in one.items()} == {
                name: column.tolist() for name, column in other.items()
            }
        elif question == "module_detail":
            wanted = json.loads(json.dumps(notebook.detail(options["entity"])))
            known = dict(said.pop("facts"))
            assert known.items() <= dict(wanted.pop("facts")).items()
            assert said == wanted
        else:
            assert said == json.loads(json.dumps(notebook.search(options["text"]))), options
