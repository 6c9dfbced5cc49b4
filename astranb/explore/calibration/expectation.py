"""Expected times of a collective: published on such machines, simulated, and bounded by links.

For a person with a log of nccl-tests in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from astranb.collectives import Collective, LibraryView, library_choice, library_view
from astranb.core.errors import InputError
from astranb.core.units import format_bytes, size_bytes
from astranb.explore.algorithms import LinkBound
from astranb.hardware import MeasuredCollective, measured_collectives
from astranb.infragraph import Infra, resolve
from astranb.net import Network, compile_fabric
from astranb.sim import Simulation

from .logs import CollectiveLog, LogRow, check_measured

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Expectation", "expected", "library_run", "period_us"]

_SIZES: Final = tuple(1 << power for power in range(10, 31, 2))
_CHAINS: Final = ("broadcast", "reduce")
_UNKNOWN: Final = float("nan")
_FASTER_THAN_LINKS: Final = 0.95
"""Of the links' time: a log below is of another machine; nccl-tests prints four digits."""


def library_run(
    infra: Infra | str | Path,
    collective: str,
    size: int | str,
    *,
    gpu: str | None = None,
    fidelity: str = "cacheline",
    in_graph: bool = False,
    coalesce: int = 1,
) -> Simulation:
    """Return the run of what the library of the GPUs does by default, at its start.

    Parameters
    ----------
    infra : Infra or str or Path
    collective : str
    size : int or str
        Bytes as nccl-tests counts them.
    gpu : str, optional
        By cache lines; by default that of the infrastructure.
    fidelity : str
        By messages it has the library's costs.
    in_graph : bool
        Whether a graph replays it.
    coalesce : int
        Cache lines that are simulated as one request.

    Examples
    --------
    >>> fidelities = ("cacheline", "congestion")
    >>> sims = [library_run("dgx-h100", "all_reduce", "1 KiB", fidelity=name) for name in fidelities]
    >>> tuple(sim.run().now_ps // 10**6 for sim in sims)
    (17, 15)
    """
    if fidelity != "cacheline":
        cost = "graph" if in_graph else "library"
        return Simulation(infra, Collective.of(collective, size), fidelity=fidelity, cost=cost, record=False)
    choice = library_choice(infra, collective, size, gpu=gpu)
    return Simulation(
        infra,
        choice.to_run(),
        gpu=gpu,
        launch=choice.launched("graph" if in_graph else None),
        network=Network(proxy_ps=choice.proxy_ps, coalesce=coalesce),
        record=False,
        checkpoint_bytes=0,
    )


def period_us(sim: Simulation, collective: str) -> float:
    """Return what nccl-tests prints of a library's run that has ended: the time from one call to the next.

    It makes many calls one after another and divides (NVIDIA/nccl-tests, ``src/common.cu``: ``BenchTime``).
    Down a chain no rank waits for those behind it, and each begins the next call when its part is done: calls
    follow one another as fast as the rank is that waits for none, however long the chain. By messages the
    library's costs count so, too.
    """
    if collective in _CHAINS and sim.fidelity == "cacheline":
        return float(min(rank["end_ps"] for rank in sim.result.per_rank()) / 1e6)
    return sim.now_us


@dataclass(frozen=True)
class Expectation:
    """Expected times of a collective.

    Attributes
    ----------
    infra, collective : str
    rows : DataFrame
        A row for each size: ``size_bytes``; ``bound_us``, what the links need; ``messages_us`` and
        ``lines_us``, simulated with the library's choice; ``published_us``, the median of ``tables``,
        ``published_least_us`` and ``published_most_us``; ``log_us``, and ``log_ratio``, that over what is
        expected: published, else by lines, else by messages. What is not known is NaN.
    tables : tuple of MeasuredCollective
        Published on such machines, of what the library runs by default, with some of these sizes.
    notes : tuple of str
        What was left out, and why.
    """

    infra: str
    collective: str
    rows: pd.DataFrame
    tables: tuple[MeasuredCollective, ...]
    notes: tuple[str, ...]


def expected(
    infra: Infra | str | Path,
    collective: str,
    *,
    gpu: str | None = None,
    sizes: Iterable[int | str] | None = None,
    log: CollectiveLog | None = None,
    lines_to: int | str = "1 MiB",
) -> Expectation:
    """Return what a collective should take on a machine, and what a log says that it took.

    Parameters
    ----------
    infra : Infra or str or Path
    collective : str
        As ``all_reduce``.
    gpu : str, optional
        By default that of the infrastructure.
    sizes : iterable of int or str, optional
        Bytes as nccl-tests counts them; by default those of the log, or powers of four to 1 GiB.
    log : CollectiveLog, optional
        Of the same collective on this machine, see :func:`read_log`.
    lines_to : int or str
        Largest size that is simulated line by line.

    Raises
    ------
    InputError
        No test measures the collective, or the log is not of this machine: it has other ranks, or its times
        are shorter than what the links need.

    Examples
    --------
    >>> found = expected("dgx-h100", "all_reduce", sizes=["64 KiB"])
    >>> round(float(found.rows.published_us[0]), 1), [table.id for table in found.tables]
    (19.5, ['h100-ar-dgxc'])
    """
    import pandas as pd

    check_measured(collective)
    machine = resolve(infra)
    fabric = compile_fabric(machine.expand())
    measured = [] if log is None else _rows_of(log, collective, machine, len(fabric.gpus))
    in_graph = log is not None and log.graph
    wanted = [size_bytes(one) for one in sizes or [row.size for row in measured] or _SIZES]
    notes, tables, in_switch, simulated = list[str](), tuple[MeasuredCollective, ...](), False, True
    try:
        view = library_view(machine, gpu)
        choice = library_choice(machine, collective, max(wanted), gpu=gpu)
        in_switch = any(one.algorithm.startswith("NVLS") for one in choice.candidates)
        tables = _published(view, collective, in_graph=in_graph)
    except InputError as error:
        simulated = False
        notes.append(f"not simulated: {error}")
    if not tables:
        notes.append(f"no published table of {collective} on such a machine is known")
    bound, limit = LinkBound.of(fabric), size_bytes(lines_to)
    taken = {row.size: row.time_us for row in measured}
    rows = []
    for size in wanted:
        known = [one.times_us[size] for one in tables if _has(one, size)]

        def time_us(fidelity: str, size: int = size) -> float:
            sim = library_run(machine, collective, size, gpu=gpu, fidelity=fidelity, in_graph=in_graph)
            sim.run()
            return period_us(sim, collective)

        row = {
            "size_bytes": size,
            "bound_us": bound.least_us(collective, size, in_switch=in_switch),
            "messages_us": time_us("congestion") if simulated and collective != "send_recv" else _UNKNOWN,
            "lines_us": time_us("cacheline") if simulated and size <= limit else _UNKNOWN,
            "published_us": median(known) if known else _UNKNOWN,
            "published_least_us": min(known, default=_UNKNOWN),
            "published_most_us": max(known, default=_UNKNOWN),
            "log_us": taken.get(size, _UNKNOWN),
        }
        best = [row[name] for name in ("published_us", "lines_us", "messages_us") if not isnan(row[name])]
        rows.append({**row, "log_ratio": row["log_us"] / best[0] if best else _UNKNOWN})
    _check_links(rows, log, machine)
    used = tuple(one for one in tables if any(_has(one, size) for size in wanted))
    return Expectation(machine.name, collective, pd.DataFrame(rows), used, tuple(notes))


def _has(table: MeasuredCollective, size: int) -> bool:
    """Return whether a table has the library's time of a size."""
    return size in table.times_us and size >= table.least_bytes


def _rows_of(log: CollectiveLog, collective: str, machine: Infra, ranks: int) -> list[LogRow]:
    """Return the rows of a log that are of the collective."""
    if log.ranks and log.ranks != ranks:
        what = f"a log of {log.ranks} ranks, but {machine.name} has {ranks} GPUs"
        raise InputError(what, where=log.where, hint="give --infra as it was measured")
    rows = [row for row in log.rows if row.collective == collective]
    if not rows:
        others = ", ".join(sorted({row.collective for row in log.rows}))
        raise InputError(f"the log has no {collective}", where=log.where, hint=f"it has {others}")
    return rows


def _published(view: LibraryView, collective: str, *, in_graph: bool) -> tuple[MeasuredCollective, ...]:
    """Return the tables of machines that a library sees as this one, of the kernel that runs by default."""
    found = []
    for table in measured_collectives():
        alike = table.collective == collective and table.in_graph == in_graph and table.by_default
        if alike and table.infra and table.boxes == view.nodes:
            with suppress(InputError):  # a machine whose library is not known
                if library_view(resolve(table.infra), table.gpu) == view:
                    found.append(table)
    return tuple(found)


def _check_links(rows: Sequence[dict[str, float]], log: CollectiveLog | None, machine: Infra) -> None:
    """Check that the log is not faster than links are."""
    faster = [row for row in rows if row["log_us"] < _FASTER_THAN_LINKS * row["bound_us"]]
    if faster and log is not None:
        row = max(faster, key=lambda one: one["bound_us"] / one["log_us"])
        size = format_bytes(int(row["size_bytes"]))
        what = (
            f"{size} in {row['log_us']:.5g} us, where the links of {machine.name} need {row['bound_us']:.5g}"
        )
        raise InputError(
            what, where=log.where, hint="the log is of another machine: give --infra as measured"
        )
