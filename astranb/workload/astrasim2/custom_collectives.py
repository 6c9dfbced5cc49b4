"""Custom collectives: traces of sends, receives and computations that replace an algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from astranb.chakra import NodeType, Trace, rank_file, read
from astranb.core.document import DocumentNode
from astranb.core.errors import InputError

from .documents import custom_collectives, per_node_graphs
from .kinds import COLLECTIVE, RECV, SEND
from .operations import COLLECTIVE_NAMES, Operations
from .traces import check_peers, operations_of

__all__ = ["CustomCollectives", "read_custom_collectives"]


@dataclass(frozen=True)
class CustomCollectives:
    """The prefixes of the traces that replace algorithms.

    Parameters
    ----------
    of_collective : mapping of int to Path
        For a kind of collective.
    of_node : mapping of int to Path
        For the collective with this id in the workload's traces; takes precedence over its kind.
    """

    of_collective: Mapping[int, Path]
    of_node: Mapping[int, Path]
    _read: dict[Path, Operations] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.of_collective or self.of_node)

    def applied_to(
        self, one: Operations, trace: Trace, rank: int, npus: int, groups: Mapping[int, Sequence[int]]
    ) -> Operations:
        """Replace the collectives of a rank that have custom traces.

        The ranks in custom traces are positions within the group, as in ASTRA-sim 2.0.

        Parameters
        ----------
        one : Operations
            The operations of the rank.
        trace : Trace
            The trace that they were read from.
        rank, npus : int
        groups : mapping of int to sequence of int

        Raises
        ------
        InputError
            A trace is missing or cannot be used.
        """
        ids = np.sort(trace.id[trace.type != NodeType.METADATA])
        custom = {}
        for row in np.flatnonzero(one.rows["kind"] == COLLECTIVE).tolist():
            kind = int(one.rows["collective"][row])
            prefix = self.of_node.get(int(ids[row]), self.of_collective.get(kind))
            if prefix is None:
                continue
            members = groups.get(int(one.rows["group"][row]), range(npus))
            place = list(members).index(rank) if rank in members else rank
            graph = self._graph(rank_file(prefix, place), place, len(members))
            custom[row] = _translated(graph, members)
        return replace(one, custom=custom)

    def _graph(self, path: Path, place: int, count: int) -> Operations:
        """Read the trace of one position."""
        if path not in self._read:
            trace = read(path)
            check_peers(trace, place, count)
            graph = operations_of(trace)
            if (graph.rows["kind"] == COLLECTIVE).any():
                hint = "make it of sends, receives and computations"
                raise InputError("a collective within a custom collective", where=trace.source, hint=hint)
            self._read[path] = graph
        return self._read[path]


def read_custom_collectives(system: DocumentNode, root: str | Path | None) -> CustomCollectives:
    """Find the traces that ``system.json`` names.

    Parameters
    ----------
    system : DocumentNode
        The document of ``system.json``.
    root : str or Path, optional
        Where files are looked for after the folder of ``system.json`` and the working directory.

    Raises
    ------
    InputError
        Something is missing.
    """
    folders = [Path(system.file).parent, Path(), Path(root or "")]
    of_node, where = per_node_graphs(system, folders)
    return CustomCollectives(
        {
            COLLECTIVE_NAMES[name]: _found(prefix, folders, system.file)
            for name, prefix in custom_collectives(system).items()
        },
        {number: _found(prefix, [Path(where).parent, *folders], where) for number, prefix in of_node.items()},
    )


def _found(prefix: str, folders: list[Path], where: str) -> Path:
    """Find the traces of a custom collective."""
    for folder in folders:
        if rank_file(folder / prefix, 0).exists():
            return folder / prefix
    what = f"there are no traces {prefix}.0.et of a custom collective"
    raise InputError(what, where=where, hint="give their folder (--root DIR)")


def _translated(graph: Operations, members: Sequence[int]) -> Operations:
    """Replace positions in a group by ranks."""
    if list(members) == list(range(len(members))):
        return graph
    rows = graph.rows.copy()
    talks = np.isin(rows["kind"], (SEND, RECV))
    rows["peer"][talks] = np.asarray(members, np.int64)[rows["peer"][talks]]
    return replace(graph, rows=rows)
