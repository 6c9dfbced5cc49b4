"""Every part of a document that a program writes is listed with its command, which is there."""

from __future__ import annotations

import importlib.util
import re

from scripts.generated import generated
from tests.documents import DOCS, REPOSITORY

PAGE = DOCS / "generated.md"
ROWS = re.findall(r"^\| [^|]+ \| ([^|]+) \| `([^`|]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
_MARK = re.compile(r"<!-- generated: (.+?) -->")


def test_every_generated_part_is_listed_and_not_empty() -> None:
    found = set()
    for page in (*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md")):
        for command in _MARK.findall(page.read_text(encoding="utf-8")) if page != PAGE else ():
            assert generated(command, page), (page.name, command)
            found.add((page.relative_to(REPOSITORY).as_posix(), command))
    listed = {(page, command) for pages, command in ROWS for page in re.findall(r"`([^`]+\.md)`", pages)}
    assert found
    assert found <= listed
    commands = {command for _, command in found}
    assert {(page, command) for page, command in listed if command in commands} == found


def test_what_is_listed_is_there() -> None:
    assert len(ROWS) >= 15
    for pages, command in ROWS:
        for place in re.findall(r"`([^`]+)`", pages):
            assert (REPOSITORY / place).exists(), place
        program, *words = command.split()
        if program == "make":
            assert re.search(rf"^{words[0]}:", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
        elif words[0] == "-m":
            assert importlib.util.find_spec(words[1]), command
            options = [word for word in words if word.startswith("--")]
            source = (REPOSITORY / f"{words[1].replace('.', '/')}.py").read_text(encoding="utf-8")
            assert all(option in source for option in options), command
        else:
            assert (REPOSITORY / words[0]).is_file(), command


def test_no_other_comment_marks_a_part() -> None:
    known = re.compile(r"generated: .+|end|run here: \S+|towncrier release notes start")
    for page in (*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md")):
        comments = re.findall(r"<!-- (.+?) -->", page.read_text(encoding="utf-8"))
        assert [one for one in comments if not known.fullmatch(one)] == [], page.name
