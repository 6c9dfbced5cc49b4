"""The example of ``docs/stepping.md`` runs, and its words are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astranb.engine.messages import EVENTS, UNITS
from astranb.engine.messages.paths import FIELDS
from astranb.engine.messages.readers import READERS
from astranb.engine.operations.engine import TABLES
from astranb.sim import Simulation

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "stepping.md").read_text(encoding="utf-8")


def test_the_python_of_the_document_runs(capsys):
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    scope: dict[str, object] = {}
    exec(compile(block, "docs/stepping.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "stopped at a breakpoint (collective end of rank[0])" in printed
    assert "What the time consists of (critical path):" in printed
    assert "run and exact" in printed
    assert "rank[3].speed" in printed
    assert getattr(scope["sim"], "finished", False)


@pytest.mark.parametrize("kind", READERS)
def test_what_can_be_watched_is_documented(kind):
    for word in READERS[kind]:
        assert f"`{word}`" in TEXT or f"{word}`" in TEXT or f"`{word}" in TEXT


@pytest.mark.parametrize(
    "verb", ["parameters", "take_down", "repair", "undo", "fork_with", "why", "lost_time"]
)
def test_every_documented_verb_exists(verb):
    assert f"`{verb}" in TEXT
    assert callable(getattr(Simulation, verb))


@pytest.mark.parametrize("word", [*TABLES, *UNITS, *(word for part in FIELDS.values() for word in part)])
def test_every_table_unit_and_field_is_documented(word):
    assert f"`{word}`" in TEXT or f"{word}`" in TEXT or f"`{word}" in TEXT


def test_every_kind_of_event_is_documented():
    for kind in EVENTS:
        assert f"`{kind}`" in TEXT or f"`{kind.partition('_')[0]}_…`" in TEXT
