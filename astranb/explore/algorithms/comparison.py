"""Compare all algorithms and protocols of a collective."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astranb.collectives import PROTOCOLS, library_choice
from astranb.core.errors import InputError
from astranb.gpu import GpuChoice, chosen_preset
from astranb.infragraph import Infra, resolve
from astranb.net import Network

from .trials import Trial, candidates, race

if TYPE_CHECKING:
    import pandas as pd

    from .trials import Writer

__all__ = ["best_algorithm"]

_MOST_EVENTS = 200_000_000


def best_algorithm(
    infra: Infra | str | Path,
    collective: str,
    size: int | str,
    *,
    algorithms: Sequence[str | Writer] | None = None,
    gpu: GpuChoice | None = None,
    channels: int | None = None,
    root: int = 0,
    network: Network | None = None,
    launch: str = "none",
    library: str | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    most_events: int = _MOST_EVENTS,
) -> pd.DataFrame:
    """Run every algorithm of a collective with every protocol that it supports.

    Parameters
    ----------
    infra : Infra or str or Path
        As for :class:`astranb.Simulation`.
    collective : str
        As ``"all_reduce"``.
    size : int or str
        Bytes of the larger buffer of a rank.
    algorithms : sequence of str or callable, optional
        Names, functions or plans to try; by default all names of ``astranb collective list``.
    gpu, channels, root, network, launch
        As for :class:`astranb.Simulation` and :class:`astranb.collectives.Collective`.
    library : str, optional
        A library of :data:`astranb.collectives.LIBRARIES`: what it would choose gets a row of its own, with
        the library's channels, and the column ``library`` names it.
    protocols : sequence of str
        Those to try; of large sizes, packets take many events.
    most_events : int
        After so many events, and again after as many, a run that is slower than the best so far stops; not
        the library's.

    Returns
    -------
    pandas.DataFrame
        One row for each algorithm and protocol, the fastest first: ``algorithm``, ``protocol``,
        ``size_bytes``, ``time_ps``, ``algbw_Bps``, ``busbw_Bps``, ``slower`` (times the fastest), ``events``,
        ``reason`` (why it could not run; its times are missing then). Tables of several sizes
        make a figure: :func:`astranb.drawing.figures.latency_curve`.

    Raises
    ------
    InputError
        The collective or the infrastructure is unknown, or no algorithm can run.

    Examples
    --------
    >>> import astranb as anb
    >>> table = anb.explore.best_algorithm("switch:gpus=4", "all_gather", "2 KiB")
    >>> table.loc[0, "protocol"]
    'LL128'

    How far NCCL's choice is from the best:

    >>> table = anb.explore.best_algorithm("dgx-h100", "all_gather", "1 KiB", library="nccl")
    >>> nccl = table[table["library"] == "nccl"].iloc[0]
    >>> nccl["algorithm"], nccl["protocol"], bool(nccl["slower"] > 1)
    ('ring', 'LL', True)
    """
    import pandas as pd

    where = resolve(infra)
    asked = [Trial(one) for one in candidates(collective, size, algorithms, protocols, channels, root)]
    if library is not None:
        choice = library_choice(where, collective, size, gpu=chosen_preset(gpu)[0], library=library)
        asked.append(Trial(choice.to_run(root=root), library))
    rows = race(where, asked, gpu=gpu, network=network, launch=launch, most_events=most_events)
    best_ps = min((row["time_ps"] for row in rows if "time_ps" in row), default=None)
    if best_ps is None:
        raise InputError(f"no algorithm of {collective} can run: {rows[0]['reason']}", where=where.name)
    first = ["algorithm", "protocol", *(["library"] if library else []), "size_bytes", "time_ps", "slower"]
    table = pd.DataFrame(rows).reindex(columns=[*first, "algbw_Bps", "busbw_Bps", "events", "reason"])
    table["slower"] = table["time_ps"] / best_ps
    table = table.sort_values(["time_ps", "algorithm", "protocol"], kind="stable", ignore_index=True)
    return table.astype({"time_ps": "Int64", "events": "Int64"})
