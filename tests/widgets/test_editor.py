"""The editor and the cell magic without a browser: what is typed is verified, kept and simulated."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.widgets.draft import Unfit
from astranb.widgets.feed import unpack
from astranb.widgets.magic import run_cell
from astranb.widgets.session import background_of

SMALL: dict[str, Any] = {"infra": "switch:gpus=4", "size": "4 KiB"}
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture
def editor() -> anb.Editor:
    return anb.Editor(name="mine", **SMALL)


class Wire:
    """A browser's end of an editor."""

    def __init__(self, editor: anb.Editor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.editor, self.got = editor, []  # type: tuple[anb.Editor, list[dict[str, Any]]]
        monkeypatch.setattr(editor._page, "send", self.take)

    def take(self, content: dict[str, Any]) -> None:
        json.dumps(content)  # it can travel
        self.got.append(content)

    def say(self, **content: Any) -> dict[str, Any]:
        self.got.clear()
        self.editor._received(self.editor._page, content, [])
        assert len(self.got) == 1
        return self.got[0]


@pytest.fixture
def wire(editor: anb.Editor, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(editor, monkeypatch)


def test_the_example_is_right_and_runs(editor: anb.Editor) -> None:
    assert editor.problems == []
    assert editor.good == editor.text
    sim = editor.simulate()
    assert sim.run().why == "end"
    assert sim.engine.work.title == "all_reduce/mine"
    assert editor.workbench is not None
    assert editor.workbench.sim is sim
    assert editor.children[1] is editor.workbench
    assert editor.workbench._panels == {"side": "source"}
    assert sim.source.parts[0].text == editor.text


def test_an_error_keeps_the_last_right_text(editor: anb.Editor) -> None:
    right = editor.text
    editor.text = right.replace("receive(", "recieve(")
    assert [problem.line for problem in editor.problems] == [7]
    assert editor.good == right
    with pytest.raises(Unfit, match="mine line 7: AttributeError"):
        editor.simulate()
    assert editor.sim is None
    assert "1 error" in repr(editor)
    editor.text = editor.good
    assert editor.problems == []
    assert repr(editor) == "<Editor of mine: all_reduce on switch:gpus=4, right>"


def test_a_message_is_answered_with_its_number(editor: anb.Editor, wire: Wire) -> None:
    broken = editor.text.replace("parts]", "parts")
    answer = wire.say(type="check", seq=7, text=broken)
    assert (answer["seq"], answer["ranks"]) == (7, 4)
    assert [problem["line"] for problem in answer["problems"]] == [8]
    assert answer["good"] != editor.text == broken
    again = wire.say(type="check", seq=8, text=broken)
    assert again["problems"] == answer["problems"]
    mended = wire.say(type="simulate", seq=9, text=answer["good"])
    assert "error" not in mended
    assert editor.sim is not None


def test_the_collective_and_place_can_be_chosen(editor: anb.Editor, wire: Wire) -> None:
    answer = wire.say(type="choose", seq=1, what={"infra": "switch:gpus=8"})
    assert (answer["ranks"], answer["problems"]) == (8, [])
    answer = wire.say(type="choose", seq=2, what={"collective": "reduce_scatter"})
    assert "does not exist" in answer["problems"][0]["text"]
    assert editor._page.chosen["collective"] == "reduce_scatter"
    editor.choose(collective="all_reduce", protocol="LL")
    assert editor.problems == []
    assert editor.simulate().engine.work.protocol == "LL"
    before = editor.sim
    editor.simulate()
    assert editor.sim is not before


@pytest.mark.parametrize(
    "message",
    [
        {"type": "check"},
        {"type": EVIL},
        {"type": "choose", "what": {"infra": "no-such-thing"}},
        {"type": "choose", "what": {"size": "many"}},
        {"type": "choose", "what": {"text": "x"}},
        {"type": "choose", "what": {"collective": EVIL}},
        {"type": "simulate", "text": f"raise KeyError('{EVIL}')"},
        {},
    ],
)
def test_a_bad_message_is_answered_with_an_error_and_changes_nothing(
    wire: Wire, message: dict[str, Any]
) -> None:
    before = dict(wire.editor._page.chosen)
    answer = wire.say(seq=3, **message)
    assert answer["error"]
    assert answer["seq"] == 3
    assert wire.editor._page.chosen == before
    assert wire.editor.sim is None


def test_what_is_not_the_texts_fault_is_said_at_once() -> None:
    with pytest.raises(InputError, match="did you mean 'all_reduce'"):
        anb.Editor(collective="all_reduc", **SMALL)
    with pytest.raises(InputError, match="size"):
        anb.Editor(size="-1 B", infra="switch:gpus=4")


def test_a_loop_without_end_leaves_the_kernel_alive(editor: anb.Editor) -> None:
    editor.text = "while True:\n    pass"
    assert "not done after 2 s" in editor.problems[0].text


def test_many_ranks_are_verified_on_fewer() -> None:
    editor = anb.Editor(infra="switch:gpus=32", size="64 KiB")
    assert editor._draft.ranks == 32
    assert editor._draft.checked_ranks == 8
    assert editor.problems == []


# The views' questions ---------------------------------------------------------


def test_the_workbench_is_told_text_lines_and_data(editor: anb.Editor) -> None:
    sim = editor.simulate()
    assert editor.workbench is not None
    feed = editor.workbench.feed
    from astranb.widgets.views import answers_of

    text, _ = answers_of(feed)["source"](feed, {})
    assert "\n".join(text["parts"][0]["lines"]) + "\n" == editor.text
    editor.workbench.next_line("gpu[2].block.0")
    editor.workbench.next_line("gpu[2].block.0")
    assert editor.workbench.session.status.startswith("GPU2 block 0 is at operation 2 of 22, mine line 6")
    columns = unpack("where", answers_of(feed)["where"](feed, {"at_ps": None})[1])
    assert (columns["op"][2], columns["line"][2]) == (1, 6)
    sim.run()
    columns = unpack("where", answers_of(feed)["where"](feed, {"at_ps": 1})[1])
    assert columns["op"].tolist() == [0] * 4, "at the cursor, not now"
    ask = answers_of(feed)["line_times"]
    now, _ = ask(feed, {"at_ps": None, "path": False})
    assert (now["path"], "working" in now, {row["path_ps"] for row in now["rows"]}) == (False, False, {-1})
    background_of(feed.session).finish()
    now, _ = ask(feed, {"at_ps": None})
    if now.get("working"):
        background_of(feed.session).finish()
        now, _ = ask(feed, {"at_ps": None})
    frame = sim.result.by_line()
    inside = frame[frame["line"] > 0]
    assert [row["path_ps"] for row in now["rows"]] == inside["path_ps"].tolist()
    assert [row["block_ps"] for row in now["rows"]] == inside["block_ps"].tolist()
    assert all(sum(row["states"].values()) == row["block_ps"] for row in now["rows"])
    assert sum(row["path_ps"] for row in now["rows"]) + now["outside"]["path_ps"] == sim.result.time_ps
    then, _ = ask(feed, {"at_ps": sim.now_ps // 2, "path": False})
    assert sum(row["block_ps"] for row in then["rows"]) < sum(row["block_ps"] for row in now["rows"])
    meta, buffers = answers_of(feed)["chunks"](feed, {"at_ps": None, "buffer": "output"})
    assert meta["texts"][0] == "GPU0 output[0]: 0+1+2+3 of 4, final"
    columns = unpack("chunks", buffers)
    assert (meta["cells"], meta["width"], len(columns["place"]), len(columns["most"])) == (16, 4, 16, 16 * 4)
    assert (meta["final"], meta["promised_cells"]) == (16, 16)
    meta, _ = answers_of(feed)["chunks"](feed, {"at_ps": 1, "buffer": "output"})
    assert meta["texts"][0] == "GPU0 output[0]: nothing"
    meta, _ = answers_of(feed)["chunks"](feed, {"at_ps": 1})
    assert (meta["buffer"], meta["texts"][1]) == ("fullest", "GPU0 input[1]: 0 of 4")
    assert meta["able"] == ["fullest", "input", "output", "scratch"]
    for bad in ({"buffer": EVIL}, {"at_ps": "soon"}):
        with pytest.raises((InputError, ValueError, TypeError)):
            answers_of(feed)["chunks"](feed, bad)


def test_beyond_32_ranks_only_counts_are_sent() -> None:
    from astranb.widgets.feed import LineFeed
    from astranb.widgets.session import session_of
    from astranb.widgets.views.chunks import chunks

    sim = anb.Simulation("switch:gpus=40", anb.collectives.all_gather("40 KiB", "allpairs", channels=1))
    meta, buffers = chunks(LineFeed(session_of(sim)), {"buffer": "output"})
    assert not meta["ticks"]
    columns = unpack("chunks", buffers)
    assert (len(columns["there"]), len(columns["least"]), len(columns["most"])) == (1600, 0, 0)
    assert (meta["cells"], meta["texts"]) == (1600, [])


def test_the_chunks_of_several_collectives_are_drawn_side_by_side() -> None:
    from astranb.widgets.feed import LineFeed
    from astranb.widgets.session import session_of
    from astranb.widgets.views.chunks import chunks
    from tests.engine.cacheline.test_calls import workload

    sim = anb.Simulation("ring:gpus=4", workload(), gpu="h100-sxm")
    meta, buffers = chunks(LineFeed(session_of(sim)), {"buffer": "output"})
    columns = unpack("chunks", buffers)
    for rank in range(4):
        place = columns["place"][columns["rank"] == rank]
        assert place.tolist() == list(range(len(place)))
    assert meta["width"] == np.bincount(columns["rank"]).max()


# The magic ----------------------------------------------------------------


class Shell:
    """IPython's shell, as far as the magic needs it."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        anb.load_ipython_extension(self)

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert (kind, name) == ("cell", "collective")
        self.run = function


def test_a_right_cell_becomes_an_algorithm(editor: anb.Editor, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    assert shell.run("mine --infra switch:gpus=4 --size '4 KiB'", editor.text) is None
    assert capsys.readouterr().out == "mine: a correct all_reduce on 4 ranks\n"
    sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("4 KiB", shell.user_ns["mine"]))
    assert sim.run().why == "end"


def test_a_wrong_cell_is_an_error_with_its_lines(editor: anb.Editor) -> None:
    shell = Shell()
    text = editor.text.replace("me.output[me])\n", "me.scratch[999])\n", 1)
    with pytest.raises(Unfit) as caught:
        shell.run("mine --infra switch:gpus=4 --size 4KiB", text)
    shown = caught.value._render_traceback_()
    assert shown[0].startswith("mine, line 10: error: rank 3 block 0 operation 10 [move] reads")
    assert shown[1] == "     10 |             wires[me, you].send(block, me.output[me])"
    assert shell.user_ns == {}


def test_show_gives_an_editor_that_simulates_what_is_right(editor: anb.Editor) -> None:
    shell = Shell()
    shown = shell.run("mine --infra switch:gpus=4 --size 4KiB --show", editor.text)
    assert isinstance(shown, anb.Editor)
    assert shown.workbench is not None
    wrong = shell.run("mine --infra switch:gpus=4 --show", "p.blok(0)")
    assert wrong.workbench is None
    assert wrong.problems[0].line == 1


@pytest.mark.parametrize(
    "line,says",
    [
        ("mine --infr x", "unrecognized arguments"),
        ("mine --channels two", "--channels: invalid int"),
        ("'", "No closing quotation"),
        ("'<img>'", "is not a Python name"),
        ("mine --infra nowhere", "nowhere"),
    ],
)
def test_a_wrong_line_of_the_magic_is_told(line: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Shell().run(line, "x = 1")


def test_in_ipython_the_magic_is_there_when_astranb_is_imported() -> None:
    code = (
        "import astranb, sys\n"
        "assert 'astranb.sim' not in sys.modules\n"
        "found = get_ipython().find_cell_magic('collective')\n"
        "get_ipython().run_line_magic('load_ext', 'astranb')\n"
        "print('there' if found else 'not there')"
    )
    command = (sys.executable, "-m", "IPython", "--no-banner", "--quick", "-c", code)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip().endswith("there"), done.stdout + done.stderr
    assert "not there" not in done.stdout


TUNED = """\
from typing import Literal

def pipeline(p, *, slices=4, order: Literal["near", "far"] = "near", share=0.5, last=False, note="a"):
    p.chunks(slices)
    arrived = [me.semaphore() for me in p.everyone]
    root = p.rank(0)
    others = root.others if order == "near" else root.others[::-1]
    block = root.block()
    for chunk in range(len(root.input)):
        block.copy(root.input[chunk], *(you.output[chunk] for you in p.everyone))
    for you in others:
        block.signal(arrived[you.number])
        you.block().wait(arrived[you.number])
"""


def test_each_parameter_has_a_control_that_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = anb.Editor(TUNED, collective="broadcast", name="pipeline", params={"share": 0.33}, **SMALL)
    wire = Wire(editor, monkeypatch)
    controls = {one["name"]: one for one in editor._page.parameters}
    assert [one["kind"] for one in controls.values()] == ["slider", "choice", "slider", "switch", "text"]
    assert controls["slices"]["values"] == [1, 2, 4, 8, 16, 32]
    assert 0.33 in controls["share"]["values"]  # what was given is among what is offered
    assert controls["order"]["values"] == ["near", "far"]
    answer = wire.say(type="tune", what={"slices": 16}, seq=1)
    assert (answer["problems"], answer.get("error")) == ([], None)
    assert next(one for one in editor._page.parameters if one["name"] == "slices")["value"] == 16
    sim = editor.simulate()
    assert sim.engine.work.title == "broadcast/pipeline(share=0.33, slices=16)"
    for what, words in (
        ({"slice": 2}, "did you mean 'slices'"),
        ({"order": "middle"}, "use 'near' or 'far'"),
    ):
        assert words in wire.say(type="tune", what=what, seq=2)["error"]
    wire.say(type="tune", what={"slices": 0}, seq=3)
    assert "chunks must be at least 1" in editor.problems[0].text


def test_a_parameter_that_the_text_no_longer_has_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = anb.Editor(TUNED, collective="broadcast", params={"slices": 8}, **SMALL)
    wire = Wire(editor, monkeypatch)
    assert wire.say(type="check", text=TUNED.replace("slices", "parts"), seq=1)["problems"] == []
    assert next(one["name"] for one in editor._page.parameters) == "parts"
    assert editor._page.parameters[0]["value"] == 4


class Notebook:
    """A notebook, as far as the magic needs it."""

    def __init__(self, **names: Any) -> None:
        self.user_ns: dict[str, Any] = names


def test_a_cell_sees_the_notebooks_variables_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [4]
    shell = Notebook(counts=counts, __name__="__main__")
    cell = TUNED.replace("p.chunks(slices)", "counts.append(1)\n    p.chunks(slices * counts[0])")
    line = "pipeline --collective broadcast --infra switch:gpus=4 --size 4KiB --param slices=2"
    run_cell(shell, line, cell)
    assert "pipeline(slices=2): a correct broadcast on 4 ranks" in capsys.readouterr().out
    assert counts == [4]  # the cell has a copy
    made = anb.collectives.broadcast("4 KiB", shell.user_ns["pipeline"])
    assert made.params == {"slices": 2}
    assert made.program(4).input_chunks == 8
    with pytest.raises(Unfit, match="pipeline has no parameter 'slice'; did you mean 'slices'"):
        run_cell(shell, line.replace("slices=2", "slice=2"), cell)
    with pytest.raises(InputError, match="'slices' is not a parameter with its value; write slices=16"):
        run_cell(shell, line.replace("slices=2", "slices"), cell)


def test_a_cell_meets_a_contract_of_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    swap = anb.collectives.Contract(
        name="swap",
        inputs=lambda r: 1000 + 8 * r,
        outputs=lambda r, n: 1000 + 8 * (n - 1 - r),
        post=lambda r, k, n: {(n - 1 - r, 0)},
    )
    body = """wires = p.connections()
for me in p.everyone:
    block, there = me.block(), p.rank(p.ranks - 1 - me.number)
    wires[me, there].send(block, me.input[0])
    block.copy(wires[there, me].receive(block), me.output[0])
"""
    line = "mirrored --collective swap --infra switch:gpus=4"
    run_cell(Notebook(swap=swap), line, body)
    assert "mirrored: a correct swap on 4 ranks" in capsys.readouterr().out
    with pytest.raises(Unfit, match=r"output\[1\] of rank 0 does not exist; the buffer has 1 chunk"):
        run_cell(Notebook(swap=swap), line, body.replace("me.output[0]", "me.output[1]"))
    with pytest.raises(InputError, match="unknown collective 'swap'"):
        run_cell(Notebook(), line, body)


def test_the_body_of_a_function_has_parameters_as_variables(capsys: pytest.CaptureFixture[str]) -> None:
    body = """came = [me.semaphore() for me in p.everyone]
for me in p.everyone:
    block, there = me.block(), p.rank((me.number + by) % 4)
    block.put(me.input[0], there.output[0])
    block.signal(came[there.number])
    block.wait(came[me.number])
"""
    line = "shift --collective custom --infra switch:gpus=4 --size 4KiB --channels 1"
    run_cell(Notebook(), f"{line} --param by=2", body)
    assert "shift(by=2)" in capsys.readouterr().out
    run_cell(Notebook(by=1), line, body)
    with pytest.raises(Unfit, match="the text does not use 'far'"):
        run_cell(Notebook(by=1), f"{line} --param far=2", body)
    with pytest.raises(Unfit, match="name 'by' is not defined"):
        run_cell(Notebook(), line, body)


def test_a_cell_sees_no_variable_that_could_do_harm() -> None:
    import os
    from pathlib import Path

    for name, value in (("os", os), ("Path", Path), ("file", Path("a")), ("open", open)):
        with pytest.raises(Unfit, match=f"name '{name}' is not defined"):
            run_cell(Notebook(**{name: value}), "--infra switch:gpus=4", f"{name}\np.block(0)")
