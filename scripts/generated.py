"""Parts of documents that programs write, between ``<!-- generated: COMMAND -->`` and ``<!-- end -->``.

``docs/generated.md`` lists them, and the files that are generated as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FIDELITY", "README", "generated", "write_generated"]

README: Final = Path(__file__).resolve().parents[1] / "README.md"
FIDELITY: Final = README.parent / "docs" / "fidelity.md"
_END: Final = "<!-- end -->"


def _parts(command: str, page: Path) -> tuple[str, str, str]:
    """Divide a page into what is before, within and behind a generated part."""
    begin = f"<!-- generated: {command} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    text, end, behind = rest.partition(_END)
    if not found or not end:
        raise ValueError(f"{page.name} has no {begin if not found else f'{_END} behind {begin}'}")
    return before + begin, text, _END + behind


def generated(command: str, page: Path = FIDELITY) -> str:
    """Return what a command has written into a page."""
    return _parts(command, page)[1].strip()


def write_generated(command: str, text: str, page: Path = FIDELITY) -> None:
    """Write what a command prints into a page: on lines of its own, or within a line where the comment is."""
    before, old, behind = _parts(command, page)
    space = "\n\n" if old.startswith("\n") else ""
    page.write_text(f"{before}{space}{text}{space}{behind}", encoding="utf-8")
