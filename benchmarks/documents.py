"""Tables in the documentation that programs write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FIDELITY", "replace_table"]

FIDELITY: Final = Path(__file__).resolve().parents[1] / "docs" / "fidelity.md"
_END: Final = "<!-- end of the table -->"


def replace_table(name: str, text: str, page: Path = FIDELITY) -> None:
    """Put a table between the comment that names it and the end of the table."""
    begin = f"<!-- {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise ValueError(f"{page.name} has no {begin}")
    after = rest.partition(_END)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{_END}{after}", encoding="utf-8")
