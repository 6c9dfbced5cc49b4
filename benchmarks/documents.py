"""Tables in the documentation that programs write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FIDELITY", "README", "replace_table", "replace_words", "table_of"]

README: Final = Path(__file__).resolve().parents[1] / "README.md"
FIDELITY: Final = README.parent / "docs" / "fidelity.md"
_END: Final = "<!-- end of the table -->"


def replace_table(name: str, text: str, page: Path = FIDELITY) -> None:
    """Put a table between the comment that names it and the end of the table."""
    _replace(page, f"<!-- {name} -->", _END, f"\n\n{text}\n\n")


def table_of(name: str, page: Path = FIDELITY) -> str:
    """Return the table that a comment names."""
    return page.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(_END)[0].strip()


def replace_words(name: str, text: str, page: Path = README) -> None:
    """Put words between the comment that names them and the next comment."""
    _replace(page, f"<!-- {name} -->", "<!--", text)


def _replace(page: Path, begin: str, end: str, text: str) -> None:
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise ValueError(f"{page.name} has no {begin}")
    page.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}", encoding="utf-8")
