"""*Synthesise* without a browser: what is found becomes a text, is simulated and compared."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.infragraph import blueprint
from astranb.widgets import synthesizing
from astranb.widgets.synthesizing import Press


@pytest.fixture
def editor() -> anb.Editor:
    return anb.Editor(infra="ring:gpus=4", size="16 KiB", name="mine")


def state(editor: anb.Editor) -> dict[str, Any]:
    found: dict[str, Any] = editor._page.synthesis
    return found


def test_what_is_found_is_a_text_that_is_right_and_takes_the_time_that_is_told(editor: anb.Editor) -> None:
    mine = editor.text
    found = editor.synthesize()
    assert found is editor.found
    assert editor.problems == []
    assert re.search(r"^sums = \[\n.*\n? +\(0, \d, \d, \d\),", editor.text, re.MULTILINE)
    assert editor.sim is not None
    assert editor.workbench is not None
    assert editor.workbench.sim is editor.sim
    schedule, times = state(editor)["lines"]
    assert f"{found.slower:.2f} times the bound" in schedule
    picture = editor._page.schedule
    assert [tuple(picture["links"][send[0]]) for send in picture["sends"]] == list(
        zip(found.steps.source, found.steps.target, strict=True)
    )
    assert max(send[3] for send in picture["sends"]) == picture["end"] == found.time_ps
    assert all(start < sent < there for _, start, sent, there, *_ in picture["sends"])
    editor.sim.run()
    assert times.startswith(f"by cache lines {format_time(editor.sim.now_ps)}")
    best = anb.explore.best_algorithm("ring:gpus=4", "all_reduce", "16 KiB").iloc[0]
    assert f"{best['algorithm']}/{best['protocol']}, {format_time(int(best['time_ps']))}" in times

    # A row that is taken away is missed.
    row = re.search(r"\(\d, \d, \d, \d\),", editor.text)
    assert row
    editor.text = editor.text.replace(row[0], "", 1)
    assert [problem.severity for problem in editor.problems][:1] == ["error"]

    editor.previous()
    assert editor.text == mine
    assert editor.problems == []
    assert editor._draft.channels is None
    assert state(editor) == {"state": "none"}
    editor.previous()  # which there is not
    assert editor.text == mine


def test_what_is_too_long_to_be_read_runs_as_it_is(
    editor: anb.Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesizing, "MOST_SENDS", 10)
    found = editor.synthesize()
    sends = len(found.schedule.edge)
    assert f"{sends} sends, too many to be read" in editor.text
    assert state(editor)["locked"]
    assert editor._page.schedule == {}
    assert editor._draft.checked_ranks == 4
    assert editor.problems == []
    assert editor.simulate().run().why == "end"
    editor.choose(size="32 KiB")
    assert editor.problems == []
    editor.choose(infra="ring:gpus=6")
    assert editor.problems[0].text == "it was synthesised for all_reduce of 4 ranks"
    with pytest.raises(InputError, match="it was synthesised for all_reduce of 4 ranks"):
        editor.simulate()
    editor.previous()
    assert editor.simulate().run().why == "end"


@pytest.mark.parametrize(
    "choice,says",
    [
        ({"collective": "barrier"}, "no algorithm can be synthesised for 'barrier'"),
        ({"infra": "switch:gpus=1"}, "one rank has nobody to send to"),
    ],
)
def test_what_cannot_be_synthesised_is_one_line_and_changes_nothing(
    editor: anb.Editor, choice: dict[str, str], says: str
) -> None:
    editor.choose(**choice)
    before = editor.text
    with pytest.raises(InputError, match=says):
        editor.synthesize()
    assert state(editor)["state"] == "failed"
    assert says in state(editor)["error"]
    assert "\n" not in state(editor)["error"]
    assert editor.text == before
    assert editor.found is None
    assert editor.sim is None


def test_ranks_that_are_not_connected_are_named() -> None:
    apart = blueprint("ring:gpus=4").without("gpu[0]->gpu[1]", "gpu[2]->gpu[3]")
    editor = anb.Editor(infra=apart, size="16 KiB", collective="all_gather")
    with pytest.raises(InputError, match="2 parts that do not reach each other"):
        editor.synthesize()
    assert "ranks 0, 3, ranks 1 to 2" in state(editor)["error"]


async def _pressed(editor: anb.Editor, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Send messages of a page, and wait until nothing is synthesised any more; returns the states seen."""
    seen: list[dict[str, Any]] = []
    editor._page.observe(lambda change: seen.append(change["new"]), "synthesis")
    for message in messages:
        editor._received(editor._page, message, [])
    while state(editor)["state"] == "working":  # noqa: ASYNC110 - a page waits for no event
        await asyncio.sleep(0.01)
    return seen


def test_a_press_leaves_the_kernel_free_and_tells_how_far_it_is(editor: anb.Editor) -> None:
    seen = asyncio.run(_pressed(editor, {"type": "synthesize", "seq": 1}))
    assert seen[0] == {"state": "working", "what": "synthesising", "part": None}
    assert any((one.get("part") or 0) > 0 for one in seen)
    assert len(state(editor)["lines"]) == 2
    assert editor.found is not None
    assert editor.sim is not None
    assert editor.text.startswith("# all_reduce on ring, 4 ranks")


def test_a_press_that_is_stopped_says_nothing_more(
    editor: anb.Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = editor.text
    presses: list[Press] = []
    start = Press.start

    def kept(press: Press, ended: Any) -> None:
        presses.append(press)
        start(press, ended)

    monkeypatch.setattr(Press, "start", kept)
    asyncio.run(_pressed(editor, {"type": "synthesize", "seq": 1}, {"type": "stop", "seq": 2}))
    assert state(editor)["state"] == "none"
    assert presses[0].ended.wait(60)
    assert state(editor)["state"] == "none"
    assert editor.text == before
    assert editor.found is None


def test_an_error_in_the_thread_comes_to_the_page(editor: anb.Editor) -> None:
    editor.choose(collective="barrier")
    asyncio.run(_pressed(editor, {"type": "synthesize", "seq": 1}))
    assert "no algorithm can be synthesised" in state(editor)["error"]
