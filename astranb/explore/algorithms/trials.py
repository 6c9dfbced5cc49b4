"""Algorithms of one collective, run one after the other on one infrastructure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from astranb.collectives import PROTOCOLS, Collective, Program
from astranb.collectives import algorithms as registered
from astranb.collectives.language import check_protocol
from astranb.collectives.library import find
from astranb.core.errors import AstranbError, InputError, near
from astranb.core.progress import bar
from astranb.core.units import format_time
from astranb.gpu import GpuChoice
from astranb.infragraph import Infra
from astranb.net import Network
from astranb.sim import Simulation

__all__ = ["Trial", "Writer", "candidates", "race"]

Writer: TypeAlias = Callable[[Program], None]


class Trial(NamedTuple):
    """A collective that takes part in a race.

    Attributes
    ----------
    collective : Collective
    library : str
        The library that chose it, which lets it run to its end; empty otherwise.
    least_ps : int
        What it took at a smaller size; 0: nobody knows.
    """

    collective: Collective
    library: str = ""
    least_ps: int = 0


def candidates(
    collective: str,
    size: int | str,
    algorithms: Sequence[str | Writer] | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    channels: int | None = None,
    root: int = 0,
) -> list[Collective]:
    """Return a collective by every algorithm, with every protocol that the algorithm supports.

    Those with protocol Simple come first: they have the fewest events, and others stop once they are slower.

    Parameters
    ----------
    collective : str
    size : int or str
    algorithms : sequence of str or callable, optional
        All that are registered, where not given.
    protocols : sequence of str
    channels : int, optional
    root : int

    Raises
    ------
    InputError
        The collective, an algorithm or a protocol is unknown.

    Examples
    --------
    >>> [one.title for one in candidates("all_gather", "1 KiB", ["ring"], ["LL", "Simple"])]
    ['all_gather/ring', 'all_gather/ring/LL']
    """
    for protocol in protocols:
        check_protocol(protocol)
    known = registered(collective)
    if not known and algorithms is None:
        names = sorted({one.collective for one in registered()})
        raise InputError(f"unknown collective {collective!r}", hint=near(collective, names))
    asked = [one.name for one in known] if algorithms is None else algorithms
    supported = {
        one: find(collective, one).protocols if isinstance(one, str) else tuple(protocols) for one in asked
    }
    return [
        Collective.of(collective, size, one, channels=channels, root=root, protocol=protocol)
        for protocol in sorted(protocols, key=PROTOCOLS.index)
        for one, able in supported.items()
        if protocol in able
    ]


def race(
    where: Infra,
    trials: Sequence[Trial],
    *,
    gpu: GpuChoice | None = None,
    network: Network | None = None,
    launch: str = "none",
    most_events: int,
    margin: float = inf,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Run collectives, each until it has ended or is slower than the best so far.

    Parameters
    ----------
    where : Infra
    trials : sequence of Trial
        In this order: a fast one at the beginning saves time.
    gpu, network, launch
        As for :class:`astranb.Simulation`.
    most_events : int
        After how many events, and again after as many, a run is compared with the best one.
    margin : float
        What took more than so many times the best time at a smaller size is not run.
    quiet : bool
        Whether the caller shows the progress.

    Returns
    -------
    list of dict
        A row for each: ``algorithm``, ``protocol``, ``library``, ``size_bytes``, ``reason`` (why it has no
        time), ``slower_than_ps`` (of one that was stopped: it takes longer); of those that ended also
        ``time_ps``, ``algbw_Bps``, ``busbw_Bps``, ``events``.
    """
    rows: list[dict[str, Any]] = []
    best_ps: int | None = None
    with bar(len(trials), what="trying algorithms", unit="run", quiet=quiet) as shown:
        for wanted, library, least_ps in trials:
            row: dict[str, Any] = {"algorithm": wanted.algorithm_name, "protocol": wanted.protocol}
            row |= {"reason": "", "size_bytes": wanted.size, "library": library}
            rows.append(row)
            shown.update(1)
            if best_ps is not None and least_ps > margin * best_ps:
                row["reason"] = f"not run: it took {format_time(least_ps)} or more at a smaller size"
                continue
            try:
                sim = Simulation(
                    where, wanted, gpu=gpu, network=network, launch=launch, record=False, checkpoint_bytes=0
                )
                sim.step(most_events)
                while not sim.finished and (library or best_ps is None or sim.now_ps <= best_ps):
                    sim.step(most_events)
                if sim.finished:
                    result = sim.result
                    best_ps = min(best_ps or result.time_ps, result.time_ps)
                    row |= {"time_ps": result.time_ps, "events": sim.events}
                    row |= {"algbw_Bps": result.algbw_Bps, "busbw_Bps": result.busbw_Bps}
                else:
                    row["slower_than_ps"] = sim.now_ps
                    row["reason"] = f"stopped after {sim.events:,} events: slower than the best"
            except AstranbError as error:
                row["reason"] = str(error)
    return rows
