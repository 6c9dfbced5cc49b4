"""What a file holds of a run by cache lines, and the run again from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from astranb.collectives import Collective, Lowered, Source, SourceText
from astranb.core.errors import InputError
from astranb.engine.edits import RECORD, Edit
from astranb.gpu import Preset
from astranb.infragraph import load as load_infra
from astranb.net import Fault, Network, compile_fabric
from astranb.net.roce import read_roce

from ._build import Plan, build, lower_for
from ._graph_tables import graph_of, graph_tables
from ._state import CacheLineState
from .loop import OWNERS
from .workload import Graph

__all__ = ["loaded", "saved"]

_PROGRAM: Final = ("blocks", "ops", "operands", "pieces", "semaphores", "phases", "block_channel", "lines")


def saved(engine: CacheLineState) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs for JSON, and arrays: the state, and the program (a workload is lowered again)."""
    what, program = _work(engine)
    inputs = {
        "infra": engine.infra.to_dict(),
        **what,
        "chosen": [dataclasses.asdict(p) for p in engine.chosen],
        "presets": [dataclasses.asdict(p) for p in engine.presets],
        "network": dataclasses.asdict(engine.network),
        "launch": engine.launch,
        "assumed": engine.assumed,
        "record": engine.recording,
    }
    return inputs, {**{f"state/{name}": table for name, table in engine.machine.tables.items()}, **program}


def _work(engine: CacheLineState) -> tuple[dict[str, Any], dict[str, Any]]:
    """What runs: a collective with its program, or a workload, which is lowered anew."""
    if isinstance(engine.work, Graph):
        said, tables = graph_tables(engine.work)
        return {"graph": said}, {f"graph/{name}": table for name, table in tables.items()}
    collective, program = engine.work, engine.program
    said = {
        "collective": {
            "name": collective.name,
            "size": collective.size,
            "algorithm": collective.algorithm_name,
            "channels": collective.channels,
            "root": collective.root,
            "protocol": collective.protocol,
        },
        "program": {
            "name": program.name,
            "ranks": program.ranks,
            "channels": program.channels,
            "line_bytes": program.line_bytes,
            "phase_names": list(program.phase_names),
            "flags": program.flags,
        },
        "source": [dataclasses.asdict(part) for part in program.source.parts],
    }
    tables = {f"program/{name}": getattr(program, name) for name in _PROGRAM}
    tables |= {"source/part": program.source.part, "source/line": program.source.line}
    return said, tables


def loaded(inputs: Mapping[str, Any], data: Mapping[str, np.ndarray], edits: list[Edit], make: Any) -> Any:
    """Make an engine of what :func:`saved` gave: at its start, with a second machine in the saved state.

    Parameters
    ----------
    inputs : mapping
    data : mapping of str to ndarray
    edits : list of Edit
    make : type
        Of the engine.

    Returns
    -------
    engine : CacheLineState
        At its start: what there was before is built again.
    enter : callable
        Puts the saved state into it.

    Raises
    ------
    InputError
        Something does not fit.
    """
    infra = load_infra(inputs["infra"])
    fabric = compile_fabric(infra.expand())
    chosen, presets = ([Preset(**p) for p in inputs[name]] for name in ("chosen", "presets"))
    options = dict(inputs["network"])
    faults = tuple(Fault(**fault) for fault in options.pop("faults"))
    network = Network(**{**options, "roce": read_roce(options.pop("roce")), "faults": faults})
    launch = inputs["launch"]
    if "graph" in inputs:
        own = {name.removeprefix("graph/"): table for name, table in data.items()}
        work: Collective | Graph = graph_of(inputs["graph"], own)
        _, program = lower_for(work, chosen, fabric, network.coalesce, launch)
    else:
        work = Collective(**inputs["collective"])
        tables: dict[str, Any] = {n: data[f"program/{n}"].view(np.recarray) for n in _PROGRAM[:6]}
        plain: dict[str, Any] = {n: data[f"program/{n}"] for n in _PROGRAM[6:]}
        words = {**inputs["program"], "phase_names": tuple(inputs["program"]["phase_names"])}
        program = Lowered(**words, **tables, **plain, source=_source(inputs, data, len(tables["ops"])))
    start, _ = build(Plan(fabric, presets, program, network, launch), record=inputs["record"])
    assumed = list(inputs["assumed"])
    engine = make(infra, work, fabric, chosen, presets, program, network, launch, start, assumed)

    def enter() -> None:
        for name, dtype in OWNERS:
            table = data[f"state/{name}"]
            if table.dtype != dtype or table.shape != start.tables[name].shape:
                raise InputError(f"the table {name!r} does not fit", hint="save it again")
            start.tables[name][...] = table
        if inputs["record"]:
            start.recorder[0].since_ps = int(start.clock[0].now_ps)  # the recording is not in the file
            paused = (edit.number for edit in reversed(edits) if edit.path == RECORD)
            start.recorder[0].paused = next(paused, 0)

    return engine, enter


def _source(said: Mapping[str, Any], data: Mapping[str, np.ndarray], ops: int) -> Source:
    """The text of the program: only to be shown, so that a file without it is as good."""
    parts = tuple(SourceText(**part) for part in said.get("source", ()))
    part, line = (data.get(f"source/{name}") for name in ("part", "line"))
    if part is None or line is None or part.shape != (ops,) or line.shape != (ops,):
        return Source()
    if part.max(initial=-1) >= len(parts) or not all(isinstance(p.text, str) for p in parts):
        return Source()
    return Source(parts, part, line)
