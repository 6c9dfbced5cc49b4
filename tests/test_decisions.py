"""Decisions are numbered records with all their parts, and the index lists each."""

from __future__ import annotations

import re

import pytest

from scripts.decisions import FOLDER, INDEX, Decision, index, parse, records

RECORDS = records()
GOOD = """# 7. Links are FIFO

- Area: The machine
- Status: accepted

## Decision

Links are FIFO: events come in time order.

## Rejected

- Queues (memory for each
  line).
- A heap.
"""


def test_numbers_are_consecutive_and_those_of_the_files() -> None:
    assert [one.number for one in RECORDS.values()] == list(range(1, len(RECORDS) + 1))
    assert [name for name, one in RECORDS.items() if not name.startswith(f"{one.number:04d}-")] == []
    assert {file.name for file in FOLDER.iterdir()} == {INDEX.name, *(f"{name}.md" for name in RECORDS)}


def test_no_two_records_have_one_title() -> None:
    titles = [one.title for one in RECORDS.values()]
    assert len(set(titles)) == len(titles)


def test_a_status_is_accepted_or_names_a_later_record() -> None:
    for one in RECORDS.values():
        later = re.fullmatch(r"superseded by \[(\d+)\]\((\d{4}-[\w-]+)\.md\)", one.status)
        assert one.status == "accepted" or later, one.title
        if later:
            assert RECORDS[later[2]].number == int(later[1]) > one.number


def test_the_index_lists_every_record() -> None:
    said = "run 'python -m scripts.decisions --write'"
    assert INDEX.read_text(encoding="utf-8") == index(RECORDS), said


def test_lines_are_short() -> None:
    files = [FOLDER / f"{name}.md" for name in RECORDS]
    lines = [(file.name, line) for file in files for line in file.read_text("utf-8").splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 120] == []


def test_a_record_is_read() -> None:
    one = parse(GOOD)
    assert one == Decision(
        7,
        "Links are FIFO",
        "The machine",
        "accepted",
        "Links are FIFO: events come in time order.",
        "- Queues (memory for each\n  line).\n- A heap.\n",
    )
    assert "| 7 | [Links are FIFO](0007-links.md) | accepted |" in index({"0007-links": one})


@pytest.mark.parametrize(
    "old, new",
    [
        ("- Status: accepted\n", ""),
        ("## Rejected\n\n- Queues (memory for each\n  line).\n- A heap.\n", ""),
        ("- Queues (memory for each\n  line).\n- A heap.\n", "Queues.\n"),
        ("Links are FIFO: events come in time order.\n", ""),
        ("# 7. ", "# "),
    ],
)
def test_a_record_without_a_part_is_refused(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match="a record is"):
        parse(GOOD.replace(old, new))
