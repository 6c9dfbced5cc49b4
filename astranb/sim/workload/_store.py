"""Save a workload's simulation to a file, and go on with it later: arrays and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import own, read_tables, write_tables
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._history import History
from astranb.workload.astrasim2 import DTYPES, Run
from astranb.workload.astrasim2 import _tables as t

from ._about import About
from ._driver import Driver
from ._edits import Edit
from ._state import State

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["KIND", "load", "save"]

KIND = "astranb workload"
"""How the format of such a file begins."""

_FORMAT = f"{KIND} 2"
_WHAT, _MEND = "a saved simulation of a workload", "save one with sim.save(path)"
_COLUMNS = ("npu", "kind", "collective", "size", "name", "first", "parents")


def save(sim: WorkloadSimulation, path: Path) -> None:
    """Write a simulation to exactly this path, whole or not at all: its start, and where it stands."""
    driver = sim._driver  # noqa: SLF001 - its own file format
    start = sim.fork()
    start._return_to("events", 0)  # noqa: SLF001
    said = {
        "format": _FORMAT,
        "title": sim.title,
        "names": sim.about.names,
        "topology": sim.about.topology,
        "own": sim.about.own,
        "edits": [dataclasses.asdict(edit) for edit in driver.edits],
        "breakpoints": [
            {k: v for k, v in vars(p).items() if k != "call"} for p in sim.breakpoints if p.call is None
        ],
        "watches": [watch.text for watch in sim.watches if watch.field],
        "notes": sim.notes,
        "links": sim.about.links,
        "budget": driver.history.budget_bytes,
    }
    tables: dict[str, Any] = {f"about/{name}": getattr(sim.about, name) for name in _COLUMNS}
    tables |= {f"start/{name}": table for name, table in start.state.machine._asdict().items()}
    tables |= {f"state/{name}": table for name, table in sim.state.machine._asdict().items()}
    tables["base_ns"] = driver.base_ns
    tables["inputs"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    write_tables(path, tables)


def load(sim: WorkloadSimulation, path: Path) -> None:
    """Fill an empty simulation with one that :func:`save` wrote."""
    data = read_tables(path, _WHAT, _MEND)
    try:
        said = json.loads(data["inputs"].tobytes())
        version = said["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not {_WHAT}", where=str(path), mend=_MEND) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version})", where=str(path))
    try:
        start, state = (_machine(data, which, path) for which in ("start", "state"))
        sim.about = About(
            **{name: data[f"about/{name}"] for name in _COLUMNS},
            names=said["names"], topology=said["topology"], own=said["own"],
            name_links=partial(list, said["links"]),
        )  # fmt: skip
        history = History(said["budget"])
        held = State(Run.of_machine(start))
        history.take(held, 0)
        held.run.machine = state
        sim.title = said["title"]
        edits = [Edit(**{**edit, "rows": tuple(edit["rows"])}) for edit in said["edits"]]
        sim._start(Driver(held, history, edits, data["base_ns"]))  # noqa: SLF001
        sim._points = [Breakpoint(**point) for point in said["breakpoints"]]  # noqa: SLF001
        for text in said["watches"]:
            sim.watch(text)
        sim.notes = dict(said["notes"])
    except (KeyError, TypeError) as error:
        raise InputError(f"not {_WHAT}: {error}", where=str(path), mend=_MEND) from error


def _machine(data: dict[str, np.ndarray], which: str, path: Path) -> t.Machine:
    """The tables of one moment; the simulator's rows are what they were when it was saved."""
    tables = {name: data[f"{which}/{name}"] for name in t.Machine._fields}
    for name, table in tables.items():
        if table.ndim != 1 or table.dtype != DTYPES[name]:
            raise InputError(f"the table {name!r} does not fit", where=str(path), mend="save it anew")
    return t.Machine(**{name: own(table.view(np.recarray)) for name, table in tables.items()})
