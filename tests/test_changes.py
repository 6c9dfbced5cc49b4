"""Each change that a user sees has a file in ``changes/`` that a release can take."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.documents import REPOSITORY

CHANGES = REPOSITORY / "changes"
SETTINGS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]
_NAME = re.compile(rf"(?:\+[a-z0-9]+(?:-[a-z0-9]+)*|\d+)\.(?:{'|'.join(KINDS)})(?:\.\d+)?\.md")


def faults(name: str, text: str) -> list[str]:
    """Name what is wrong with a file of a change."""
    found = []
    if not _NAME.fullmatch(name):
        found.append(f"its name is not +WORDS.KIND.md with one of {', '.join(KINDS)}")
    if len(text.split()) < 4 or not text.rstrip().endswith((".", ")")):
        found.append("it is not a sentence")
    if re.match(r"\s*[-*#]", text):
        found.append("it begins with a bullet or a heading, which the changelog adds")
    if len(text) > 800 or any(len(line) > 120 for line in text.splitlines()):
        found.append("it is longer than 800 characters, or has a line above 120")
    return found


def test_changes_are_written_as_a_release_takes_them() -> None:
    assert SETTINGS["directory"] == CHANGES.name
    files = [file for file in CHANGES.iterdir() if file.name not in SETTINGS["ignore"]]
    wrong = {file.name: faults(file.name, file.read_text(encoding="utf-8")) for file in files}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_kinds_are_those_that_the_page_explains() -> None:
    page = (CHANGES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == KINDS


def test_a_release_finds_its_place() -> None:
    assert (REPOSITORY / SETTINGS["filename"]).read_text("utf-8").count(SETTINGS["start_string"]) == 1


@pytest.mark.parametrize(
    "name, text, wrong",
    [
        ("+saved-recipes.changed.md", "A saved run is a recipe.\n", 0),
        ("42.fixed.2.md", "`run` names the file.\n", 0),
        ("saved.md", "A saved run is a recipe.\n", 1),
        ("+saved.better.md", "A saved run is a recipe.\n", 1),
        ("+Saved_Runs.added.md", "A saved run is a recipe.\n", 1),
        ("+saved.added.md", "recipes\n", 1),
        ("+saved.added.md", "- A saved run is a recipe.\n", 1),
        ("+saved.added.md", "A saved run is " + "long " * 30 + ".\n", 1),
    ],
)
def test_a_file_that_is_wrong_is_found(name: str, text: str, wrong: int) -> None:
    assert len(faults(name, text)) == wrong
