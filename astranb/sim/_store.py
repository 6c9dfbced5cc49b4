"""Save a simulation to a file, and go on with it later: arrays and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.collectives import Collective, Lowered, Part, Source
from astranb.core.errors import InputError
from astranb.core.state import read_tables, write_tables
from astranb.engine.cacheline._build import Plan, build, lower_for
from astranb.engine.cacheline._edits import RECORD, Edit
from astranb.engine.cacheline._graph_tables import graph_of, graph_tables
from astranb.engine.cacheline.loop import OWNERS
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import Preset
from astranb.infragraph import load as load_infra
from astranb.net import Fault, Network, compile_fabric
from astranb.net._roce import read_roce

from ._breakpoints import Breakpoint
from ._history import History

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["load", "save"]

_FORMAT = "astranb simulation 6"
_WHAT, _HINT = "a saved simulation", "save one with sim.save(path)"
_PROGRAM = ("blocks", "ops", "operands", "pieces", "semaphores", "phases", "block_lane", "lines")


def save(sim: Simulation, path: Path) -> None:
    """Write a simulation to exactly this path, whole or not at all."""
    what, program = _said_of(sim)
    said = {
        "format": _FORMAT,
        "infra": sim.infra.to_dict(),
        **what,
        "chosen": [dataclasses.asdict(p) for p in sim.chosen],
        "presets": [dataclasses.asdict(p) for p in sim.presets],
        "network": dataclasses.asdict(sim.network),
        "launch": sim.launch,
        "edits": [dataclasses.asdict(e) for e in sim._driver.edits],  # noqa: SLF001 - its own file format
        "assumed": sim.assumed,
        "breakpoints": [
            {k: v for k, v in vars(p).items() if k != "call"} for p in sim.breakpoints if p.call is None
        ],
        "watches": [watch.text for watch in sim.watches if watch.field],
        "notes": sim.notes,
        "record": bool(sim.machine.recorder[0].on),
    }
    tables: dict[str, Any] = {f"state/{name}": table for name, table in sim.machine.tables.items()}
    tables |= program
    tables["inputs"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    write_tables(path, tables)


def _said_of(sim: Simulation) -> tuple[dict[str, Any], dict[str, Any]]:
    """What runs: a collective with its program, or a workload, which is lowered anew."""
    if isinstance(sim.collective, Graph):
        said, tables = graph_tables(sim.collective)
        return {"graph": said}, {f"graph/{name}": table for name, table in tables.items()}
    collective, program = sim.collective, sim.program
    said = {
        "collective": {
            "name": collective.name,
            "size": collective.size,
            "algorithm": collective.algorithm_name,
            "lanes": collective.lanes,
            "root": collective.root,
            "protocol": collective.protocol,
        },
        "program": {
            "name": program.name,
            "ranks": program.ranks,
            "lanes": program.lanes,
            "line_bytes": program.line_bytes,
            "phase_names": list(program.phase_names),
            "flags": program.flags,
        },
        "source": [dataclasses.asdict(part) for part in program.source.parts],
    }
    tables = {f"program/{name}": getattr(program, name) for name in _PROGRAM}
    tables |= {"source/part": program.source.part, "source/line": program.source.line}
    return said, tables


def _program(sim: Simulation, said: dict[str, Any], data: Mapping[str, np.ndarray], path: Path) -> None:
    """Put what runs into a simulation that has its infrastructure, presets and network."""
    if "graph" in said:
        own = {name.removeprefix("graph/"): table for name, table in data.items()}
        try:
            sim.collective = graph_of(said["graph"], own)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not {_WHAT}: {error}", where=str(path), hint=_HINT) from error
        coalesce = sim.network.coalesce
        _, sim.program = lower_for(sim.collective, sim.chosen, sim.fabric, coalesce, sim.launch)
        return
    sim.collective = Collective(**said["collective"])
    tables: dict[str, Any] = {n: data[f"program/{n}"].view(np.recarray) for n in _PROGRAM[:6]}
    plain: dict[str, Any] = {n: data[f"program/{n}"] for n in _PROGRAM[6:]}
    words = {**said["program"], "phase_names": tuple(said["program"]["phase_names"])}
    sim.program = Lowered(**words, **tables, **plain, source=_source(said, data, len(tables["ops"])))


def _paused(edits: list[Edit]) -> int:
    """Whether the recording was switched off last."""
    return next((edit.number for edit in reversed(edits) if edit.path == RECORD), 0)


def load(path: Path, make: Callable[[], Simulation]) -> Simulation:
    """Read a simulation that :func:`save` wrote, into an empty one that ``make`` gives."""
    data = read_tables(path, _WHAT, _HINT)
    try:
        said = json.loads(data["inputs"].tobytes())
        version = said["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not {_WHAT}", where=str(path), hint=_HINT) from error
    if version != _FORMAT:
        raise InputError(f"written by another version ({version})", where=str(path))
    sim = make()
    sim.infra = load_infra(said["infra"])
    sim.fabric = compile_fabric(sim.infra.expand())
    sim.chosen, sim.presets = ([Preset(**p) for p in said[name]] for name in ("chosen", "presets"))
    sim.assumed = list(said["assumed"])
    # The start is built anew, so that the loaded run can be taken back to it.
    faults = tuple(Fault(**fault) for fault in said["network"].pop("faults"))
    roce = read_roce(said["network"].pop("roce"))
    sim.network, sim.launch = Network(**said["network"], faults=faults, roce=roce), said["launch"]
    _program(sim, said, data, path)
    plan = Plan(sim.fabric, sim.presets, sim.program, sim.network, sim.launch)
    start, _ = build(plan, record=said["record"])
    sim.machine = start
    history = History(2**30)
    history.take(start, 0)
    edits = [Edit(**{**e, "rows": tuple(e["rows"])}) for e in said["edits"]]
    for name, dtype in OWNERS:
        table = data[f"state/{name}"]
        if table.dtype != dtype or table.shape != start.tables[name].shape:
            raise InputError(f"the table {name!r} does not fit", where=str(path), hint="save it anew")
        start.tables[name][...] = table
    if said["record"]:
        start.recorder[0].since_ps = int(start.clock[0].now_ps)  # what was noted is not in the file
        start.recorder[0].paused = _paused(edits)
    sim._start(history, edits)  # noqa: SLF001 - the second half of its construction
    sim._points = [Breakpoint(**point) for point in said["breakpoints"]]  # noqa: SLF001
    for text in said["watches"]:
        sim.watch(text)
    sim.notes = dict(said["notes"])
    return sim


def _source(said: dict[str, Any], data: Mapping[str, np.ndarray], ops: int) -> Source:
    """The text of the program: only to be shown, so that a file without it is as good."""
    parts = tuple(Part(**part) for part in said.get("source", ()))
    part, line = (data.get(f"source/{name}") for name in ("part", "line"))
    if part is None or line is None or part.shape != (ops,) or line.shape != (ops,):
        return Source()
    if part.max(initial=-1) >= len(parts) or not all(isinstance(p.text, str) for p in parts):
        return Source()
    return Source(parts, part, line)
