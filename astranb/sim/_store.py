"""Save a simulation to a file, and go on with it later: arrays and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.collectives import Collective, Lowered
from astranb.core.errors import InputError
from astranb.gpu import Preset
from astranb.infragraph import load as load_infra
from astranb.net import compile_fabric

from ._edits import Edit
from ._history import History
from ._machine import build
from .loop import OWNERS

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["load", "save"]

_FORMAT = "astranb simulation 1"
_PROGRAM = ("blocks", "ops", "operands", "pieces", "semaphores", "phases", "block_lane", "lines")


def save(sim: Simulation, path: Path) -> None:
    """Write a simulation to exactly this path, whole or not at all."""
    said = {
        "format": _FORMAT,
        "infra": sim.infra.to_dict(),
        "collective": {
            "name": sim.collective.name,
            "size": sim.collective.size,
            "algorithm": sim.collective.title.partition("/")[2],
            "lanes": sim.collective.lanes,
            "root": sim.collective.root,
        },
        "program": {
            "name": sim.program.name,
            "ranks": sim.program.ranks,
            "lanes": sim.program.lanes,
            "line_bytes": sim.program.line_bytes,
            "phase_names": list(sim.program.phase_names),
        },
        "presets": [dataclasses.asdict(p) for p in sim.presets],
        "edits": [dataclasses.asdict(e) for e in sim._driver.edits],  # noqa: SLF001 - its own file format
        "assumed": sim.assumed,
        "record": bool(sim.machine.recorder[0].on),
    }
    arrays: dict[str, Any] = {
        f"state/{name}": np.asarray(table) for name, table in sim.machine.tables.items()
    }
    arrays |= {f"program/{name}": np.asarray(getattr(sim.program, name)) for name in _PROGRAM}
    arrays["inputs"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write there: {error.strerror}", where=str(path)) from error
    try:
        with os.fdopen(handle, "wb") as out:
            np.savez(out, allow_pickle=False, **arrays)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Path, make: Callable[[], Simulation]) -> Simulation:
    """Read a simulation that :func:`save` wrote, into an empty one that ``make`` gives."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            data = {name: file[name] for name in file.files}
        said = json.loads(data["inputs"].tobytes())
        version = said["format"]
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path)) from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            "not a saved simulation", where=str(path), mend="save one with sim.save(path)"
        ) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version})", where=str(path))
    sim = make()
    sim.infra = load_infra(said["infra"])
    sim.collective = Collective(**said["collective"])
    sim.fabric = compile_fabric(sim.infra.expand())
    sim.presets = [Preset(**p) for p in said["presets"]]
    tables = {n: data[f"program/{n}"].view(np.recarray) for n in _PROGRAM[:6]}
    plain = {n: data[f"program/{n}"] for n in _PROGRAM[6:]}
    words = {**said["program"], "phase_names": tuple(said["program"]["phase_names"])}
    sim.program = Lowered(**words, **tables, **plain)
    sim.assumed = list(said["assumed"])
    # The start is built anew, so that the loaded run can be taken back to it.
    start, _ = build(sim.fabric, sim.presets, sim.program, record=said["record"])
    sim.machine = start
    history = History(2**30)
    history.take(start, 0)
    edits = [Edit(**{**e, "rows": tuple(e["rows"])}) for e in said["edits"]]
    for name, dtype in OWNERS:
        table = data[f"state/{name}"]
        if table.dtype != dtype or table.shape != start.tables[name].shape:
            raise InputError(f"the table {name!r} does not fit", where=str(path), mend="save it anew")
        start.tables[name][...] = table
    sim._start(history, edits)  # noqa: SLF001 - the second half of its construction
    return sim
