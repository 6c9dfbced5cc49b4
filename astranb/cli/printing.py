"""Output of commands: lines of text, or one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Report", "summary_lines"]


class Report(NamedTuple):
    """Output of a command, and its exit code.

    Attributes
    ----------
    document : any
        With ``--json`` the only output; NaN and infinity are errors.
    lines : iterable of str
        Printed otherwise.
    exit_code : int
    notes : iterable of str
        Printed with the lines, on standard error.
    """

    document: Any
    lines: Iterable[str] = ()
    exit_code: int = 0
    notes: Iterable[str] = ()

    def print(self, *, as_json: bool) -> int:
        """Print it, and return the exit code."""
        if as_json:
            print(json.dumps(self.document, ensure_ascii=False, allow_nan=False))
            return self.exit_code
        for note in self.notes:
            print(f"astranb: {note}", file=sys.stderr)
        for line in self.lines:
            print(line)
        return self.exit_code


def summary_lines(summary: dict[str, Any]) -> Iterator[str]:
    """Write a summary, one line for each entry."""
    for name, value in summary.items():
        if isinstance(value, list):
            yield f"{name}: " + ("".join(f"\n  - {line}" for line in value) or "none")
        elif isinstance(value, dict):
            yield f"{name}: " + (", ".join(f"{key} {count}" for key, count in value.items()) or "none")
        else:
            yield f"{name}: {value}"
