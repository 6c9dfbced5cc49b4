"""Save a simulation to a file, and go on with it later: arrays and JSON, no pickle.

A whole file holds the state. A *recipe* holds only what leads to it: inputs, edits, and how many events
were handled. Whoever reads one runs there and compares the hash. So a recipe is small, takes as long to open
as the run took, and shows what was recorded from the start on.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.number_files import read_tables, write_tables
from astranb.core.packed import first_bytes
from astranb.core.planes import BEGIN, pack, unpack
from astranb.engine.breakpoints import Breakpoint, check_point
from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.edits import RECORD, Edit, is_rerouted
from astranb.engine.layers import LayerEngine
from astranb.engine.messages import MessageEngine

from .driver import Driver
from .history import History

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["Savable", "document_of", "load", "read_saved", "recipe_of", "save"]

_FORMAT: Final = "astranb simulation 16"
_WHAT, _HINT = "a saved simulation", "save one with sim.save(path)"
_STATE, _START = "state/", "start/"
_ENGINES: Final[dict[str, Any]] = {
    "cacheline": CacheLineEngine,
    "messages": MessageEngine,
    "layers": LayerEngine,
}


class Savable(NamedTuple):
    """The parts of a simulation that are saved and loaded."""

    driver: Driver
    points: Sequence[Breakpoint]
    watches: Sequence[str]
    notes: dict[str, Any]


def save(what: Savable, path: Path, *, recipe: bool = False) -> None:
    """Write a simulation to exactly this path, whole or not at all; with its state, or as a recipe."""
    if recipe:
        made = recipe_of(what)
        with whole_file(path) as file:
            file.write(made)
        return
    document, tables = document_of(what)
    write_tables(path, {**tables, "inputs": _json(document)})


def recipe_of(what: Savable) -> bytes:
    """Return the recipe of a simulation as it is now."""
    document, tables = document_of(what)
    document |= {"events": what.driver.events, "hash": what.driver.engine.digest()}
    inputs = {name: table for name, table in tables.items() if not name.startswith(_STATE)}
    return pack({**inputs, "inputs": _json(document)})


def _json(document: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(document).encode(), np.uint8)


def document_of(what: Savable) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is saved of a simulation: a document for JSON, and arrays by name."""
    driver = what.driver
    engine = driver.engine
    inputs, tables = engine.saved()
    if not isinstance(engine, CacheLineEngine):  # its start is not built again from inputs: it is in the file
        start = driver.copy()
        start.restart()
        tables = {
            **tables,
            **{f"{_START}{name}": table for name, table in start.engine.machine._asdict().items()},
            **{f"{_STATE}{name}": table for name, table in engine.machine._asdict().items()},
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
    if is_rerouted(driver.edits):
        document |= {"events": driver.events, "hash": engine.digest()}
    return document, tables


def load(path: Path) -> Savable:
    """Read a simulation that :func:`save` wrote, of either kind.

    Raises
    ------
    InputError
        The file is not a saved simulation, or of another version.
    """
    if first_bytes(path, len(BEGIN)) == BEGIN:
        return _run_again(path.read_bytes(), str(path))
    return _loaded(read_tables(path, _WHAT, _HINT), str(path))


def read_saved(data: bytes, where: str) -> Savable:
    """Read what :func:`save` wrote, from the contents of a file.

    Parameters
    ----------
    data : bytes
    where : str
        What errors call it.

    Raises
    ------
    InputError
        It is no saved simulation, or of another version.
    """
    if data.startswith(BEGIN):
        return _run_again(data, where)
    with tempfile.TemporaryDirectory() as folder:  # the reader of whole files reads files
        file = Path(folder, "saved.anb")
        file.write_bytes(data)
        try:
            return load(file)
        except InputError as error:
            raise InputError(error.what, where=where, hint=error.hint) from error


def _run_again(data: bytes, where: str) -> Savable:
    """Run to the state that a recipe leads to."""
    tables = unpack(data, where, _WHAT, _HINT)
    return _loaded({name: table for name, table in tables.items() if not name.startswith(_STATE)}, where)


def _loaded(data: dict[str, np.ndarray], where: str) -> Savable:
    """Make a simulation of a file's tables: those of its state are there, or it is run again."""
    try:
        document = json.loads(data.pop("inputs").tobytes())
        version = document["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"not {_WHAT}", where=where, hint=_HINT) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version!s:.80})", where=where)
    recipe = not any(name.startswith(_STATE) for name in data)
    starting = {
        f"{_STATE}{name.removeprefix(_START)}": t for name, t in data.items() if name.startswith(_START)
    }
    try:
        if recipe:  # it begins where the run began
            data |= starting
        edits = [Edit(**{**edit, "rows": tuple(edit["rows"])}) for edit in document["edits"]]
        engine, enter = _ENGINES[document["engine"]].loaded(document, data, edits)
        for edit in edits:
            _check_edit(edit, engine, grown=is_rerouted(edits))
        history = History(_number(document["budget_bytes"], 0))
        history.take(engine, 0)
        driver = Driver(engine, history)
        if recipe or is_rerouted(edits):  # tables of routes have grown: they are made again, not believed
            driver.replay("events", _number(document["events"], 0), edits)
            if engine.digest() != document["hash"]:
                raise InputError("its inputs lead to another state than it says")  # noqa: TRY301 - see below
        else:
            enter()
        counts = [0, *(edit.events for edit in edits), driver.events]
        if counts != sorted(counts):
            raise InputError("its edits are not in order")  # noqa: TRY301 - where it is follows below
        engine.edits = edits
        points = [Breakpoint(**point) for point in document["breakpoints"]]
        for point in points:
            check_point(point, engine.owners)
        watches = [str(text) for text in document["watches"]]
        return Savable(driver, points, watches, dict(document["notes"]))
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint or _HINT) from error
    except MemoryError:
        hint = "open it where there is more, if it is not damaged"
        raise InputError("takes more memory than there is", where=where, hint=hint) from None
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        IndexError,
        ArithmeticError,
    ) as error:
        raise InputError(f"not {_WHAT}: {error}"[:200], where=where, hint=_HINT) from error


def _number(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < 1 << 62:
        raise TypeError(f"{value!r:.40} is not a number")
    return value


def _check_edit(edit: Edit, engine: Any, *, grown: bool) -> None:
    """Check that :meth:`Simulation.set` would have made this edit of its text."""
    for number in (edit.events, edit.at_ps):
        _number(number, 0)
    for number in edit.rows:
        _number(number, -1)  # -1: all of them
    if edit.path == RECORD:
        made = replace(edit, kind="recorder", field="paused", rows=(0,), number=int(edit.value == "off"))
    else:
        made = replace(engine.read_edit(edit.path, edit.value), events=edit.events, at_ps=edit.at_ps)
        if "->" in edit.path and grown:  # it may be about links that there are since routes have changed
            made = replace(made, rows=edit.rows)
    if made != edit:
        raise InputError(f"its edit of {edit.path!r:.60} is not what its text says")
