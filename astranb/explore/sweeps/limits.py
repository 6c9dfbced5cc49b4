"""Limits of a point of a sweep: shares of its time, from the row of its figures."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from astranb.explore.runs import line_of, option_names

from .points import PROVE, is_document_key, is_parameter, option_words

__all__ = ["command_of", "shares_of"]

Row = Mapping[str, Any]

_FRACTION: Final = "_fraction"
_EXPOSED: Final = "exposed_"


def shares_of(row: Row) -> dict[str, float]:
    """Return what a point's time consists of, as fractions; nothing where the row does not say.

    Of a step of a transformer it is the time of the rank that finishes last: computing, and what it waits for
    meanwhile. Of other runs it is the time of all ranks.

    Examples
    --------
    >>> shares_of({"step_ps": 10, "compute_ps": 6, "exposed_tensor_ps": 3, "exposed_ps": 4})
    {'compute': 0.6, 'exposed tensor': 0.3, 'exposed communication': 0.1}
    >>> shares_of({"time_ps": 10, "compute_fraction": 0.25, "idle_fraction": 0.75})
    {'compute': 0.25, 'idle': 0.75}
    """
    step_ps = row.get("step_ps")
    if step_ps and "compute_ps" in row:
        waits = {
            name: row[name]
            for name in row
            if name.startswith(_EXPOSED) and name.endswith("_ps") and name != "exposed_ps"
        }
        rest = row.get("exposed_ps", 0) - sum(waits.values())
        parts = {
            "compute": row["compute_ps"],
            **{name.removesuffix("_ps").replace("_", " "): took for name, took in waits.items()},
            "exposed communication": rest,
            "before and after the passes": row.get("ends_ps", 0),
        }
        return {name: took / step_ps for name, took in parts.items() if took > 0}
    return {
        name.removesuffix(_FRACTION).replace("_", " "): part
        for name, part in row.items()
        if name.endswith(_FRACTION) and part > 0
    }


def command_of(words: Row) -> tuple[str, list[str]]:
    """Return the command that runs a point, and what it cannot say: changes of files and paths.

    Files are named as the sweep names them.

    Examples
    --------
    >>> command_of({"collective": "all_gather", "infra": "dgx-h100", "link[0].latency": "1 us"})
    ('astranb run collective all_gather --infra=dgx-h100', ['link[0].latency = 1 us'])
    """
    known = option_names()
    options = option_words(words)
    typed = {name: value for name, value in options.items() if name in known and not is_document_key(name)}
    said = {PROVE, *typed, *filter(is_parameter, words)}
    rest = [f"{name} = {value}" for name, value in words.items() if name not in said]
    return shlex.join(line_of(typed, _written)), rest


def _written(value: Any) -> str:
    """Return a value as it is typed: files relative to where we are, if they are below."""
    if callable(value):
        return f"FILE.py:{getattr(value, '__name__', 'FUNCTION')}"
    text = str(value)
    here = str(Path.cwd()) + "/"
    return text.removeprefix(here)
