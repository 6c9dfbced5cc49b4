"""Save and load of a run by cache lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from astranb.chakra import Distinct
from astranb.collectives import Collective, Exchange, Lowered, ProgramSource, Routing, SourceText
from astranb.collectives.language.layout import ChunkLayout
from astranb.collectives.language.reduction import Reduction
from astranb.core.errors import InputError
from astranb.core.rules import require
from astranb.engine.edits import RECORD, Edit
from astranb.gpu import Preset
from astranb.infragraph import load as load_infra
from astranb.net import Fault, Network, compile_fabric
from astranb.net.roce import read_roce
from astranb.workload.astrasim2 import (
    DimensionAlgorithm,
    Memory,
    Operations,
    System,
    read_placed_jobs,
    saved_placed_jobs,
)
from astranb.workload.astrasim2.memory import Pool
from astranb.workload.kernels import Attention, Launch, ShapedKernel

from .build import MachinePlan, build, lower_for
from .faults import LAST_PS
from .loop import OWNERS
from .rules import check, check_program
from .state import CacheLineState
from .workload import Graph
from .workload_rules import check_tables, check_workload, grids_of, kernels_of

__all__ = ["graph_of", "graph_tables", "loaded", "saved"]

_COLLECTIVE: Final = (
    "name",
    "size",
    "channels",
    "root",
    "protocol",
    "chunk_bytes",
    "chunks",
    "params",
    "unchecked",
)
_CONTRACT: Final = ("inputs", "outputs", "first", "held", "places")
_PROGRAM: Final = (
    "blocks",
    "ops",
    "operands",
    "slices",
    "semaphores",
    "phases",
    "tiles",
    "block_channel",
    "lines",
)


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
        "late_ps": engine.late_ps.tolist() if engine.late_ps.any() else [],
        "assumed": engine.assumed,
        "record": engine.recording,
    }
    return inputs, {**{f"state/{name}": table for name, table in engine.machine.tables.items()}, **program}


def _work(engine: CacheLineState) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the work: a collective with its program, or an exchange or workload, which is lowered anew."""
    if isinstance(engine.work, Graph):
        document, tables = graph_tables(engine.work)
        return {"graph": document}, {f"graph/{name}": table for name, table in tables.items()}
    if isinstance(engine.work, Exchange):
        given = engine.work.given
        names = [field.name for field in dataclasses.fields(Exchange) if field.name != "given"]
        drawn = {name: getattr(engine.work, name) for name in names}
        return {"exchange": drawn}, {} if given is None else {"exchange/chosen": given.chosen}
    collective, program = engine.work, engine.program
    document = {
        "collective": {
            "algorithm": collective.algorithm_name,
            **{name: getattr(collective, name) for name in _COLLECTIVE},
        },
        "program": {
            "phase_names": list(program.phase_names),
            **{name: getattr(program, name) for name in ("name", "ranks", "channels", "line_bytes", "flags")},
        },
        "source": [dataclasses.asdict(part) for part in program.source.parts],
    }
    tables = {f"program/{name}": getattr(program, name) for name in _PROGRAM}
    tables |= {"source/part": program.source.part, "source/line": program.source.line}
    if program.layout is not None:
        layout, reduction = program.layout, program.layout.reduction
        document["contract"] = {
            **{name: getattr(layout, name) for name in ("ranks", "whole", "busbw", "base")},
            "own": collective.contract is not None,
            "reduction": dataclasses.asdict(reduction),
        }
        tables |= {f"contract/{name}": getattr(layout, name) for name in _CONTRACT}
    return document, tables


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
    launch, late_ps = inputs["launch"], inputs["late_ps"]
    require(isinstance(late_ps, list) and len(late_ps) in (0, len(presets)), "late_ps")
    require(all(type(ps) is int and 0 <= ps <= LAST_PS for ps in late_ps), "late_ps")
    if "graph" in inputs:
        own = {name.removeprefix("graph/"): table for name, table in data.items()}
        work: Collective | Graph = graph_of(inputs["graph"], own)
        _, program = lower_for(work, chosen, fabric, network, launch)
    elif "exchange" in inputs:
        chosen_experts = data.get("exchange/chosen")
        require(chosen_experts is None or chosen_experts.ndim == 3, "exchange.chosen")
        given = None if chosen_experts is None else Routing(chosen_experts, inputs["exchange"]["experts"])
        work = Exchange(**inputs["exchange"], given=given)
        _, program = lower_for(work, chosen, fabric, network, launch)
    else:
        contract = _layout(inputs, data)
        own_contract = contract if contract is not None and inputs["contract"]["own"] else None
        work = Collective(**inputs["collective"], contract=own_contract)
        tables: dict[str, Any] = {n: data[f"program/{n}"].view(np.recarray) for n in _PROGRAM[:7]}
        plain: dict[str, Any] = {n: data[f"program/{n}"] for n in _PROGRAM[7:]}
        check_program({**tables, **plain}, inputs["program"], len(presets))
        if "state/flags" in data:  # else what a machine of it takes is seen when it is built
            require(inputs["program"]["flags"] <= len(data["state/flags"]), "flags")
        words = {**inputs["program"], "phase_names": tuple(inputs["program"]["phase_names"])}
        source = _source(inputs, data, len(tables["ops"]))
        program = Lowered(**words, **tables, **plain, source=source, layout=contract)
        require(contract is None or contract.ranks == program.ranks, "contract.ranks")
    plan = MachinePlan(fabric, presets, program, network, launch, late_ps)
    start, _ = build(plan, record=bool(inputs["record"]))
    check(start.tables)
    assumed = list(inputs["assumed"])
    machine = (infra, work, fabric, chosen, presets, program, network, launch, start)
    engine = make(*machine, assumed, late_ps=late_ps)

    def enter() -> None:
        tables = {name: data[f"state/{name}"] for name in OWNERS}
        for name, dtype in OWNERS.items():
            if tables[name].dtype != dtype or tables[name].shape != start.tables[name].shape:
                raise InputError(f"the table {name!r} does not fit", hint="save it again")
        check(tables, start.tables)
        for name, table in tables.items():
            start.tables[name][...] = table
        if inputs["record"]:
            # The recording is not in the file, nor who wrote each line of memory: lines are counted by slice.
            recorder = start.recording.recorder[0]
            recorder.since_ps = int(start.clock[0].now_ps)
            if start.clock[0].events:
                recorder.landing = 0
            paused = (edit.number for edit in reversed(edits) if edit.path == RECORD)
            recorder.paused = next(paused, 0)

    return engine, enter


def _layout(document: Mapping[str, Any], data: Mapping[str, np.ndarray]) -> ChunkLayout | None:
    """Return the required outputs of the program where no collective defines them."""
    if "contract" not in document:
        return None
    words = dict(document["contract"])
    del words["own"]
    words["reduction"] = Reduction(**words["reduction"])
    words |= {name: data[f"contract/{name}"] for name in _CONTRACT}
    words["place"] = words.pop("places")
    return ChunkLayout(**words).checked()


def _source(document: Mapping[str, Any], data: Mapping[str, np.ndarray], ops: int) -> ProgramSource:
    """The text of the program: only to be shown, so that a file without it is as good."""
    parts = tuple(SourceText(**part) for part in document.get("source", ()))
    part, line = (data.get(f"source/{name}") for name in ("part", "line"))
    if part is None or line is None or part.shape != (ops,) or line.shape != (ops,):
        return ProgramSource()
    if part.max(initial=-1) >= len(parts) or not all(isinstance(p.text, str) for p in parts):
        return ProgramSource()
    return ProgramSource(parts, part, line)


_COLUMNS: Final = ("rows", "dep_start", "deps")


def graph_tables(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a workload is made of.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    document : dict
        What goes into JSON.
    tables : dict of str to ndarray
        Operations: those that many ranks share are there once.
    """
    numbers: dict[int, int] = {}
    listed: list[Operations] = []

    def number(one: Operations) -> int:
        if id(one) not in numbers:
            numbers[id(one)] = len(listed)
            listed.append(one)
        return numbers[id(one)]

    ranks = [number(one) for one in graph.operations]
    # The list grows by the graphs of collectives meanwhile.
    custom = [{row: number(own) for row, own in one.custom.items()} for one in listed]
    tables = {f"{n}/{name}": getattr(one, name) for n, one in enumerate(listed) for name in _COLUMNS}
    if graph.durations is not None:
        tables["durations"] = graph.durations
    tables |= {f"{n}/names": one.names.index for n, one in enumerate(listed) if one.names is not None}
    system = {field.name: getattr(graph.system, field.name) for field in dataclasses.fields(System)}
    system["algorithms"] = {
        collective: [dataclasses.asdict(one) for one in chosen]
        for collective, chosen in graph.system.algorithms.items()
    }
    system["speeds"] = {rank: str(speed) for rank, speed in graph.system.speeds.items()}
    document = {
        "title": graph.title,
        "jobs": saved_placed_jobs(graph.jobs),
        "ranks": ranks,
        "custom": custom,
        "names": [None if one.names is None else one.names.values for one in listed],
        "groups": {group: list(members) for group, members in graph.groups.items()},
        "system": system,
        "memory": dataclasses.asdict(graph.memory),
        "grids": [[[dataclasses.asdict(grid) for grid in of_row] for of_row in one.grids] for one in listed],
        "kernels": [{row: _kernel(kernel) for row, kernel in one.kernels.items()} for one in listed],
    }
    return document, tables


def _kernel(one: ShapedKernel | Launch) -> dict[str, Any]:
    """Return a recorded kernel for JSON, with the name of its class."""
    if isinstance(one, Launch):
        return {"launch": dataclasses.asdict(one)}
    kind = "attention" if isinstance(one.kernel, Attention) else "product"
    return {
        "precision": one.precision,
        "number_bytes": one.number_bytes,
        kind: dataclasses.asdict(one.kernel),
    }


def graph_of(document: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> Graph:
    """Make a workload of what :func:`graph_tables` gave.

    Parameters
    ----------
    document : mapping
    tables : mapping of str to ndarray

    Returns
    -------
    Graph

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is missing, or is no such thing.
    InputError
        It does not fit together.
    """
    custom, names = document["custom"], document["names"]
    made: dict[int, Operations] = {}
    durations = tables.get("durations")

    def operations(number: int) -> Operations:
        if number not in made:
            own_tables = {name: tables[f"{number}/{name}"] for name in _COLUMNS}
            called = names[number]
            if called is not None:
                if not isinstance(called, list) or not all(isinstance(name, str) for name in called):
                    raise TypeError("the names of operations are not texts")
                called = Distinct(tables[f"{number}/names"], tuple(called))
                own_tables |= {"names": called.index, "words": np.arange(len(called.values))}
            if durations is not None:
                own_tables["durations"] = durations
            check_tables(own_tables)
            own = {int(at): operations(inner) for at, inner in custom[number].items() if inner > number}
            rows, dep_start, deps = (own_tables[name] for name in _COLUMNS)
            kernels = kernels_of(document["kernels"][number], len(rows))
            launched = grids_of(document["grids"][number])
            made[number] = Operations(rows, dep_start, deps, own, called, launched, kernels)
        return made[number]

    system = dict(document["system"])
    system["algorithms"] = {
        int(collective): [DimensionAlgorithm(**one) for one in chosen]
        for collective, chosen in system["algorithms"].items()
    }
    system["speeds"] = {int(rank): Fraction(speed) for rank, speed in system["speeds"].items()}
    system["bus"] = None if system["bus"] is None else tuple(system["bus"])
    memory = dict(document["memory"])
    memory["pool"] = None if memory["pool"] is None else Pool(**memory["pool"])
    ranks = [operations(number) for number in document["ranks"]]
    groups = {int(group): members for group, members in document["groups"].items()}
    described, remote = System(**system), Memory(**memory)
    check_workload(ranks, described, groups, remote, document["title"])
    jobs = read_placed_jobs(document.get("jobs", []), len(ranks))
    return Graph(ranks, described, groups, remote, document["title"], durations, jobs)
