"""Write the index of the decisions, ``docs/decisions/index.md``: ``python -m scripts.decisions --write``."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"
INDEX = FOLDER / "index.md"

_RECORD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n- Area: (?P<area>.+)\n- Status: (?P<status>.+)\n\n"
    r"## Decision\n\n(?P<decision>(?:.|\n)+?)\n\n## Rejected\n\n(?P<rejected>(?:- .+\n(?:  .+\n)*)+)"
)
_HEAD = """# Decisions

What was decided, why, and what was rejected: a record each. To decide something else, write a record with the
next number, and change the status of the old one to `superseded by [N](NAME.md)`; its text stays.
`python -m scripts.decisions --write` writes this page from the records, which have these parts:

```text
# N. A sentence that says what holds

- Area: one of those below
- Status: accepted

## Decision

The decision, the files that hold it, and its reasons.

## Rejected

- What else was tried or considered (why not).
```
"""


@dataclass(frozen=True)
class Decision:
    """A record.

    Attributes
    ----------
    number : int
    title, area, status, decision, rejected : str
    """

    number: int
    title: str
    area: str
    status: str
    decision: str
    rejected: str


def parse(text: str) -> Decision:
    """Read a record.

    Raises
    ------
    ValueError
        A part is missing, or in another place.
    """
    found = _RECORD.fullmatch(text)
    if not found:
        message = "a record is a title, area, status, decision and a list of what was rejected"
        raise ValueError(message)
    return Decision(int(found["number"]), *(found[name] for name in list(found.groupdict())[1:]))


def records(folder: Path = FOLDER) -> dict[str, Decision]:
    """Read all records, by the names of their files, in order."""
    return {file.stem: parse(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("[0-9]*.md"))}


def index(found: dict[str, Decision]) -> str:
    """Return the index of the records."""
    text = _HEAD
    for area in dict.fromkeys(one.area for one in found.values()):
        text += f"\n## {area}\n\n| | decision | status |\n|---|---|---|\n"
        for name, one in found.items():
            if one.area == area:
                text += f"| {one.number} | [{one.title}]({name}.md) | {one.status} |\n"
    return text + "\n```{toctree}\n:hidden:\n\n" + "".join(f"{name}\n" for name in found) + "```\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m scripts.decisions --write")
    INDEX.write_text(index(records()), encoding="utf-8")
