"""ASTRA-sim 2.0's files, unmodified, made into a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from astranb.chakra import Trace, rank_file, read, read_ranks
from astranb.core.errors import InputError

from ._documents import custom_collectives, read_groups, read_memory, read_network, read_system
from ._durations import Memory
from ._operations import COLLECTIVE_NAMES, Operations
from ._run import Run
from ._tables import COLLECTIVE
from ._traces import check_peers, operations_of

__all__ = ["load"]


def load(
    workload: str | Path,
    system: str | Path,
    network: str | Path,
    *,
    memory: str | Path | None = None,
    groups: str | Path | None = None,
    aware: bool = False,
    compat: bool = False,
    queues: int = 1,
    injection_scale: float = 1.0,
    rendezvous: bool = False,
    root: str | Path | None = None,
) -> Run:
    """Read ASTRA-sim 2.0's files, as they are.

    Parameters
    ----------
    workload : str or Path
        What the names of the traces have before ``.RANK.et``; one for each NPU.
    system, network : str or Path
        ``system.json`` and ``network.yml``.
    memory, groups : str or Path, optional
        The remote memory and the communicator groups, JSON.
    aware : bool
        Whether messages wait for one another on links.
    compat : bool
        Whether ASTRA-sim 2.0's peculiarities are kept.
    queues : int
        Queues of one dimension.
    injection_scale : float
        Multiplies the endpoint's delay.
    rendezvous : bool
        Whether the receiver asks for each message.
    root : str or Path, optional
        Where the names of custom collectives begin, if neither in the folder of ``system.json``
        nor in the working directory.

    Returns
    -------
    Run
        Nothing has happened yet.

    Raises
    ------
    InputError
        A file cannot be read or used; the text names it, the place and how to mend it.
    """
    described = read_network(network)
    npus = described.npus
    settings = read_system(system, queues=queues, injection_scale=injection_scale, rendezvous=rendezvous)
    members = {} if groups is None else read_groups(groups, npus)
    graphs = {
        COLLECTIVE_NAMES[name]: _found(prefix, [Path(system).parent, Path(), Path(root or "")], str(system))
        for name, prefix in custom_collectives(system).items()
    }
    known: dict[bytes, Operations] = {}
    operations = []
    for rank, trace in enumerate(read_ranks(workload, npus)):
        check_peers(trace, rank, npus)
        if trace.data not in known:
            known[trace.data] = operations_of(
                trace, members, replay=settings.replay, roofline=settings.roofline
            )
        one = known[trace.data]
        operations.append(_with_graphs(one, graphs, rank, npus) if graphs else one)
    return Run(
        operations,
        described,
        settings,
        memory=Memory() if memory is None else read_memory(memory),
        groups=members,
        aware=aware,
        compat=compat,
    )


def _found(prefix: str, folders: list[Path], where: str) -> Path:
    """Look for the traces of a custom collective."""
    for folder in folders:
        if rank_file(folder / prefix, 0).exists():
            return folder / prefix
    what = f"there are no traces {prefix}.0.et of a custom collective"
    raise InputError(what, where=where, mend="say where the names begin (--root DIR)")


def _with_graphs(one: Operations, graphs: dict[int, Path], rank: int, npus: int) -> Operations:
    """Give the collectives of a rank their graphs; a group's stays a ring, as in ASTRA-sim 2.0."""
    rows = one.rows
    custom = {}
    for collective, prefix in graphs.items():
        mine = (rows["kind"] == COLLECTIVE) & (rows["collective"] == collective) & (rows["group"] < 0)
        if mine.any():
            trace: Trace = read(rank_file(prefix, rank))
            check_peers(trace, rank, npus)
            graph = operations_of(trace)
            if (graph.rows["kind"] == COLLECTIVE).any():
                mend = "make it of sends, receives and computations"
                raise InputError("a collective within a custom collective", where=trace.source, mend=mend)
            custom.update(dict.fromkeys(mine.nonzero()[0].tolist(), graph))
    return replace(one, custom=custom)
