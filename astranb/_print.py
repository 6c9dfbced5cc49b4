"""How commands print: one JSON document, where it was asked for."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["print_json"]


def print_json(document: Any) -> None:
    """Print one JSON document on a line; a number that JSON does not have is an error."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False))
