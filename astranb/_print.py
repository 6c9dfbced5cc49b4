"""How commands print: lines of facts, or one JSON document where it was asked for."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["print_json", "print_summary"]


def print_json(document: Any) -> None:
    """Print one JSON document on a line; a number that JSON does not have is an error."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False))


def print_summary(summary: dict[str, Any], *, as_json: bool) -> int:
    """Print what a document says of itself, a line a fact."""
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
