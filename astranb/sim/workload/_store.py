"""Save a workload's simulation to a file, and go on with it later: arrays and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import own, read_tables, write_tables
from astranb.engine.layers import LayerState
from astranb.engine.messages._edits import Edit
from astranb.engine.messages._state import State
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._history import History

from ._driver import Driver

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["KIND", "load", "save"]

KIND = "astranb workload"
"""How the format of such a file begins."""

_FORMAT = f"{KIND} 2"
_WHAT, _HINT = "a saved simulation of a workload", "save one with sim.save(path)"
_ENGINES: dict[str, Any] = {"astrasim2": State, "astrasim1": LayerState}


def save(sim: WorkloadSimulation, path: Path) -> None:
    """Write a simulation to exactly this path, whole or not at all: its start, and where it stands."""
    driver = sim._driver  # noqa: SLF001 - its own file format
    start = sim.fork()
    start._return_to("events", 0)  # noqa: SLF001
    own, columns = sim.state.saved()
    said = {
        "format": _FORMAT,
        "engine": next(name for name, engine in _ENGINES.items() if isinstance(sim.state, engine)),
        "title": sim.title,
        "edits": [dataclasses.asdict(edit) for edit in driver.edits],
        "breakpoints": [
            {k: v for k, v in vars(p).items() if k != "call"} for p in sim.breakpoints if p.call is None
        ],
        "watches": [watch.text for watch in sim.watches if watch.field],
        "notes": sim.notes,
        "budget": driver.history.budget_bytes,
        **own,
    }
    tables: dict[str, Any] = dict(columns)
    tables |= {f"start/{name}": table for name, table in start.state.machine._asdict().items()}
    tables |= {f"state/{name}": table for name, table in sim.state.machine._asdict().items()}
    tables["inputs"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    write_tables(path, tables)


def load(sim: WorkloadSimulation, path: Path) -> None:
    """Fill an empty simulation with one that :func:`save` wrote."""
    data = read_tables(path, _WHAT, _HINT)
    try:
        said = json.loads(data["inputs"].tobytes())
        version = said["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not {_WHAT}", where=str(path), hint=_HINT) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version})", where=str(path))
    try:
        engine = _ENGINES[said.get("engine", "astrasim2")]
        start, state = (_machine(data, which, path, engine) for which in ("start", "state"))
        held = engine.loaded(said, data, start)
        history = History(said["budget"])
        history.take(held, 0)
        held.run.machine = state
        sim.title = said["title"]
        edits = [Edit(**{**edit, "rows": tuple(edit["rows"])}) for edit in said["edits"]]
        sim._start(Driver(held, history, edits))  # noqa: SLF001
        sim._points = [Breakpoint(**point) for point in said["breakpoints"]]  # noqa: SLF001
        for text in said["watches"]:
            sim.watch(text)
        sim.notes = dict(said["notes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not {_WHAT}: {error}", where=str(path), hint=_HINT) from error


def _machine(data: dict[str, np.ndarray], which: str, path: Path, engine: Any) -> Any:
    """The tables of one moment; the simulator's rows are what they were when it was saved."""
    tables = {name: data[f"{which}/{name}"] for name in engine.tables_of._fields}
    for name, table in tables.items():
        if table.ndim != 1 or table.dtype != engine.dtypes[name]:
            raise InputError(f"the table {name!r} does not fit", where=str(path), hint="save it anew")
    return engine.tables_of(**{name: own(table.view(np.recarray)) for name, table in tables.items()})
