"""How commands print: lines of text, or one JSON document."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["print_json", "print_notes", "print_result", "print_summary"]


def print_json(document: Any) -> None:
    """Print one JSON document on one line; NaN and infinity are errors."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False))


def print_result(document: Any, text: str, *, as_json: bool) -> int:
    """Print a JSON document where that was asked for, else text; returns exit code 0."""
    if as_json:
        print_json(document)
    else:
        print(text)
    return 0


def print_summary(summary: dict[str, Any], *, as_json: bool) -> int:
    """Print a summary, one line for each entry; returns exit code 0."""
    if as_json:
        print_json(summary)
        return 0
    for name, value in summary.items():
        if isinstance(value, list):
            print(f"{name}:", "".join(f"\n  - {line}" for line in value) or "none")
        elif isinstance(value, dict):
            print(f"{name}:", ", ".join(f"{key} {count}" for key, count in value.items()) or "none")
        else:
            print(f"{name}: {value}")
    return 0


def print_notes(file: str, notes: list[str]) -> None:
    """Print notes about a file on standard error."""
    for note in notes:
        print(f"astranb: {file}: {note}", file=sys.stderr)
