"""ASTRA-sim 2.0's files, unmodified, made into a run."""

from __future__ import annotations

from pathlib import Path

from astranb.chakra import read_ranks
from astranb.workload.astrasim2._documents import (
    read_groups,
    read_json,
    read_memory,
    read_network,
    read_system,
)
from astranb.workload.astrasim2._durations import Memory
from astranb.workload.astrasim2._graphs import read_graphs
from astranb.workload.astrasim2._infra import InfraNetwork
from astranb.workload.astrasim2._operations import Operations
from astranb.workload.astrasim2._traces import check_peers, operations_of

from ._run import Run

__all__ = ["load"]


def load(
    workload: str | Path,
    system: str | Path,
    network: str | Path | InfraNetwork,
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
    system : str or Path
        ``system.json``.
    network : str, Path or InfraNetwork
        ``network.yml``, or an infrastructure.
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
        A file cannot be read or used; the text names it, the place and how to fix it.
    """
    described = network if isinstance(network, InfraNetwork) else read_network(network)
    npus = described.npus
    document = read_json(system)
    settings = read_system(document, queues=queues, injection_scale=injection_scale, rendezvous=rendezvous)
    members = {} if groups is None else read_groups(groups, npus)
    graphs = read_graphs(document, root)
    known: dict[bytes, Operations] = {}
    operations = []
    for rank, trace in enumerate(read_ranks(workload, npus)):
        check_peers(trace, rank, npus)
        if trace.data not in known:
            known[trace.data] = operations_of(
                trace, members, replay=settings.replay, roofline=settings.roofline, compat=compat
            )
        one = known[trace.data]
        operations.append(graphs.given_to(one, trace, rank, npus, members) if graphs else one)
    return Run(
        operations,
        described,
        settings,
        memory=Memory() if memory is None else read_memory(memory),
        groups=members,
        aware=aware,
        compat=compat,
    )
