"""The fields of messages, as ``static/types.d.ts`` declares them, are those that Python sends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.widgets import assets
from astranb.widgets.feed import Feed, feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of, offline_questions
from tests.engine.operations.support import mixed

TYPES = (Path(assets.__file__).parent / "static" / "types.d.ts").read_text("utf-8")


def _body(text: str, start: int) -> str:
    """Return the text between a brace and the one that closes it."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start + 1 : place]
    raise AssertionError("a brace is not closed")


def _fields(body: str) -> dict[str, str]:
    """Types by name of the fields at the top of a body; an optional one's name ends with ``?``."""
    found, depth, part = {}, 0, ""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", body, flags=re.DOTALL).strip()
    for letter in plain if plain.endswith(";") else f"{plain};":
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(letter, 0)
        if letter == ";" and not depth:
            name, _, kind = part.strip().partition(":")
            found[name.removeprefix("readonly ").strip()] = kind.strip()
            part = ""
        else:
            part += letter
    return found


def _interface(name: str) -> dict[str, str]:
    head = re.search(rf"interface {name}(?: extends (\w+))? \{{", TYPES)
    assert head, name
    base = _interface(head[1]) if head[1] else {}
    return {**base, **_fields(_body(TYPES, head.end() - 1))}


def _answer(question: str) -> dict[str, str]:
    """The declared fields of an answer: of a body, of interfaces, or of both together."""
    kind = _interface("Answers")[question]
    found: dict[str, str] = {}
    for name in re.findall(r"\w+", kind.partition("{")[0]):
        found |= _interface(name) if name != "object" else {}
    return found | (_fields(_body(kind, kind.index("{"))) if "{" in kind else {})


def _differences(sent: dict[str, Any], declared: dict[str, str]) -> set[str]:
    """Fields that are sent and not declared, or declared as always there and not sent."""
    names = {name.removesuffix("?") for name in declared}
    always = {name for name in declared if not name.endswith("?")}
    return (sent.keys() - names) | (always - sent.keys())


TRACKS = {"from": 0, "to": 20_000_000, "columns": 20, "ranks": [0]}
MORE: dict[str, dict[str, Any]] = {
    "activity": {"from": 0, "to": 1_000_000, "columns": 20},
    "aggregate": {"from": 0, "to": 1_000_000},
    "breaks": {},
    "footprint": {"from": 0, "to": 1_000_000, "columns": 20},
    "hash": {},
    "complete": {"text": ""},
    "cell": {"rank": 0, "buffer": "output", "chunk": 0, "column": 0},
    "graph": {"rank": 0},
    "modules": {"rank": 0},
    "module": {"rank": 0, "module": 0},
    "module_detail": {"rank": 0, "entity": 2},
    "module_search": {"rank": 0, "text": "compute"},
    "module_states": {"rank": 0, "modules": [0]},
    "tracks": {**TRACKS, "kind": "operations"},
    "moment": {"kind": "sms", "track": 0, "time": 1000},
    "parameters": {"path": ""},
    "picture": {},
    "spans": {"from": 0, "to": 1_000_000, "columns": 20, "kind": "sms", "folds": [0], "tracks": [1]},
}
"""Options of questions that a page without a kernel does not hold."""


@pytest.fixture(scope="module")
def collective() -> Feed:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    sim.run()
    return feed_of(session_of(sim))


@pytest.fixture(scope="module")
def workload() -> Feed:
    sim = mixed()
    sim.run()
    return feed_of(session_of(sim))


def _checked(feed: Feed) -> set[str]:
    checked, options = set(), offline_questions(feed)
    for question, answer in answers_of(feed).items():
        asked = [*options.get(question, ()), *([MORE[question]] if question in MORE else [])]
        for given in asked[:1]:
            meta, _ = answer(feed, dict(given))
            if not meta.get("working"):
                assert _differences(meta, _answer(question)) == set(), question
                checked.add(question)
    return checked


def test_answers_of_a_collective_are_as_declared(collective: Feed) -> None:
    assert len(_checked(collective)) > 18


def test_answers_of_a_workload_are_as_declared(workload: Feed) -> None:
    assert len(_checked(workload)) > 6


def test_what_is_sent_unasked_is_as_declared(collective: Feed, workload: Feed) -> None:
    feeds: tuple[Any, ...] = (collective, workload)
    for feed in feeds:
        assert _differences(feed.timeline()[0], _interface("TimelineMessage")) == set()
        assert _differences(feed.state()[0], _interface("State")) == set()
    scene = _interface("SceneMessage")
    assert _differences(collective.scene()[0], scene) == set()
    # A workload has no picture of its system.
    assert _differences(workload.scene()[0], scene) <= _interface("Picture").keys()
