"""Save a simulation to a file, and go on with it later: arrays and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import read_tables, write_tables
from astranb.engine.breakpoints import Breakpoint
from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.edits import Edit
from astranb.engine.layers import LayerEngine
from astranb.engine.messages import MessageEngine

from .driver import Driver
from .history import History

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["Savable", "load", "save"]

_FORMAT: Final = "astranb simulation 7"
_WHAT, _HINT = "a saved simulation", "save one with sim.save(path)"
_ENGINES: Final[dict[str, Any]] = {
    "cacheline": CacheLineEngine,
    "messages": MessageEngine,
    "layers": LayerEngine,
}


class Savable(NamedTuple):
    """What is saved of a simulation, and read again."""

    driver: Driver
    points: Sequence[Breakpoint]
    watches: Sequence[str]
    notes: dict[str, Any]


def save(what: Savable, path: Path) -> None:
    """Write a simulation to exactly this path, whole or not at all."""
    driver = what.driver
    engine = driver.engine
    inputs, tables = engine.saved()
    if not isinstance(engine, CacheLineEngine):  # its start is not built again from inputs: it is in the file
        start = driver.copy()
        start.restart()
        tables = {
            **tables,
            **{f"start/{name}": table for name, table in start.engine.machine._asdict().items()},
            **{f"state/{name}": table for name, table in engine.machine._asdict().items()},
        }
    document = {
        "format": _FORMAT,
        "engine": next(name for name, kind in _ENGINES.items() if isinstance(engine, kind)),
        "edits": [dataclasses.asdict(edit) for edit in driver.edits],
        "breakpoints": [
            {k: v for k, v in vars(p).items() if k != "call"} for p in what.points if p.call is None
        ],
        "watches": list(what.watches),
        "notes": what.notes,
        "budget_bytes": driver.history.budget_bytes,
        **inputs,
    }
    write_tables(path, {**tables, "inputs": np.frombuffer(json.dumps(document).encode(), np.uint8)})


def load(path: Path) -> Savable:
    """Read a simulation that :func:`save` wrote.

    Raises
    ------
    InputError
        The file is not a saved simulation, or of another version.
    """
    data = read_tables(path, _WHAT, _HINT)
    try:
        document = json.loads(data["inputs"].tobytes())
        version = document["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not {_WHAT}", where=str(path), hint=_HINT) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version})", where=str(path))
    try:
        edits = [Edit(**{**edit, "rows": tuple(edit["rows"])}) for edit in document["edits"]]
        engine, enter = _ENGINES[document["engine"]].loaded(document, data, edits)
        history = History(document["budget_bytes"])
        history.take(engine, 0)
        enter()
        engine.edits = edits
        points = [Breakpoint(**point) for point in document["breakpoints"]]
        return Savable(Driver(engine, history), points, list(document["watches"]), dict(document["notes"]))
    except InputError as error:
        raise InputError(error.what, where=str(path), hint=error.hint or _HINT) from error
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"not {_WHAT}: {error}", where=str(path), hint=_HINT) from error
