"""A workload by cache lines as arrays and plain values, for a file: no pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from astranb.chakra import Distinct
from astranb.workload.astrasim2 import Algorithm, Memory, Operations, System
from astranb.workload.astrasim2.memory import Pool
from astranb.workload.astrasim2.operations import COLUMN

from .workload import Graph

if TYPE_CHECKING:
    import numpy as np

__all__ = ["graph_of", "graph_tables"]

_COLUMNS: Final = ("rows", "dep_start", "deps")


def graph_tables(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Give what a workload is made of.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    said : dict
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
    # The list grows by the graphs of collectives on the way.
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
    said = {
        "title": graph.title,
        "ranks": ranks,
        "custom": custom,
        "names": [None if one.names is None else one.names.values for one in listed],
        "groups": {group: list(members) for group, members in graph.groups.items()},
        "system": system,
        "memory": dataclasses.asdict(graph.memory),
    }
    return said, tables


def graph_of(said: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> Graph:
    """Make a workload of what :func:`graph_tables` gave.

    Parameters
    ----------
    said : mapping
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
    custom, names = said["custom"], said["names"]
    made: dict[int, Operations] = {}

    def operations(number: int) -> Operations:
        if number not in made:
            rows, dep_start, deps = (tables[f"{number}/{name}"] for name in _COLUMNS)
            if rows.dtype != COLUMN:
                raise TypeError("the table of operations does not fit")
            own = {int(row): operations(inner) for row, inner in custom[number].items() if inner > number}
            called = names[number]
            if called is not None:
                called = Distinct(tables[f"{number}/names"], tuple(called))
            made[number] = Operations(rows, dep_start, deps, own, called)
        return made[number]

    system = dict(said["system"])
    system["algorithms"] = {
        int(collective): [Algorithm(**one) for one in chosen]
        for collective, chosen in system["algorithms"].items()
    }
    system["speeds"] = {int(rank): Fraction(speed) for rank, speed in system["speeds"].items()}
    system["bus"] = None if system["bus"] is None else tuple(system["bus"])
    memory = dict(said["memory"])
    memory["pool"] = None if memory["pool"] is None else Pool(**memory["pool"])
    return Graph(
        [operations(number) for number in said["ranks"]],
        System(**system),
        {int(group): members for group, members in said["groups"].items()},
        Memory(**memory),
        said["title"],
        tables.get("durations"),
    )
