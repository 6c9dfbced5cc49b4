"""A workload written down: operations that every rank does, one after another or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.hardware import Gpu

from .astrasim2 import COMPUTE, DimensionNetwork, InfraNetwork, Operations, System, Workload
from .jobs import collective_row, flat

__all__ = ["Compute", "OperationList", "compute", "workload"]


@dataclass(frozen=True)
class Compute:
    """A computation of every rank.

    Attributes
    ----------
    duration_ns : int
    name : str
    """

    duration_ns: int
    name: str = "compute"


def compute(duration: int | str, name: str = "compute") -> Compute:
    """Return a computation for :func:`workload`.

    Parameters
    ----------
    duration : int or str
        Picoseconds, or text as ``"50 us"``; whole nanoseconds are simulated.
    name : str

    Raises
    ------
    InputError
        It is shorter than a nanosecond.

    Examples
    --------
    >>> compute("50 us").duration_ns
    50000
    """
    duration_ns = time_ps(duration, where="compute") // 1000
    if duration_ns < 1:
        raise InputError(f"a computation takes at least 1 ns, got {duration!r}", where="compute")
    return Compute(duration_ns, name)


@dataclass(frozen=True)
class OperationList:
    """Operations of every rank, for any infrastructure: what :func:`workload` returns.

    Attributes
    ----------
    operations : sequence
        Computations and collectives; a list among them is done side by side.
    ranks : int or None
        How many ranks; None: as many as the infrastructure has.
    system : System or None
        The system layer; None: as the collectives need it.
    compat : bool
        As of :class:`.astrasim2.Workload`.
    title : str
    """

    subject: ClassVar = "operations"

    operations: Sequence[Any]
    ranks: int | None = None
    system: System | None = None
    compat: bool = False
    title: str = field(default="workload", compare=False)

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None = None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
    ) -> Workload:
        """Put the operations on a network.

        Raises
        ------
        InputError
            There is no network or it has too few ranks, or two collectives of one kind have different
            algorithms.
        """
        del gpu, by_lines  # every computation has its duration
        if network is None:
            raise InputError("an infrastructure is needed", where="infra", hint="for example 'dgx-h100'")
        network = flat(network)
        ranks = network.npus if self.ranks is None else self.ranks
        if ranks > network.npus:
            what = f"{ranks} ranks, and the infrastructure has {network.npus} GPUs"
            raise InputError(what, where="ranks", hint="use fewer ranks, or a larger infrastructure")
        rows: list[dict[str, Any]] = []
        names: list[str] = []
        deps: list[Sequence[int]] = []
        options: dict[str, Any] = {}
        before: list[int] = []
        for step in self.operations:
            first = len(rows)
            for one in step if isinstance(step, list | tuple) else [step]:
                row, words = _row(one, network, ranks)
                rows.append(row if ranks == network.npus else row | {"group": 1})
                names.append(one.name)
                deps.append(before)
                _add(options, words, one)
            before = list(range(first, len(rows)))
        idle = Operations.of([])
        each = Operations.of(rows, deps, names=names)
        system = System.from_document(options)
        if self.system is not None:
            system = replace(self.system, algorithms={**system.algorithms, **self.system.algorithms})
        groups = {} if ranks == network.npus else {1: range(ranks)}
        operations = [each] * ranks + [idle] * (network.npus - ranks)
        return Workload(operations, network, system, groups=groups, compat=self.compat, title=self.title)


def workload(
    *operations: Compute | Collective | Sequence[Any],
    ranks: int | None = None,
    system: System | None = None,
    compat: bool = False,
    title: str = "workload",
) -> OperationList:
    """Return a workload of operations that every rank does in this order.

    Parameters
    ----------
    *operations : sequence, or Compute and Collective
        A list of :func:`compute` and collectives (:func:`astranb.all_reduce`, ...), or these one by one; what
        stands in a list among them is done side by side.
    ranks : int, optional
        By default as many as the infrastructure has GPUs.
    system : System, optional
        ASTRA-sim 2.0's system layer, with its chunks, endpoint delay and memory. Collectives without an
        algorithm there take their own. By default a library's, which cuts only what goes from rank to rank.
    compat : bool
        As ASTRA-sim 2.0: bandwidths in GiB/s, a whole last chunk, and messages that pay for one dimension.
    title : str

    Raises
    ------
    InputError
        There is no operation, something else stands among them, or more follows a list.

    Examples
    --------
    >>> import astranb as anb
    >>> step = anb.workload([anb.compute("50 us"), [anb.compute("20 us"), anb.all_reduce("1 MiB")]], ranks=8)
    >>> sim = anb.Simulation("dgx-h100", step)
    >>> _ = sim.run()
    >>> sim.result.time_us
    78.916

    Four chunks, one after another, on a ring of ASTRA-sim:

    >>> ring = anb.astrasim2.DimensionNetwork("Ring", 8, bandwidth=100, latency=500)
    >>> chunks = anb.workload([anb.all_reduce("1 MiB", "ring")], system=anb.astrasim2.System(splits=4))
    >>> sim = anb.Simulation(ring, chunks)
    >>> _ = sim.run()
    >>> sim.result.time_us
    46.912
    """
    found: Sequence[Any] = operations
    if operations and isinstance(operations[0], list | tuple):
        found = operations[0]
        if len(operations) > 1:
            more = operations[1]
            hint = f"write ranks={more}" if isinstance(more, int) else "write all in one list"
            raise InputError(f"{more!r:.60} follows the list of operations", where="workload", hint=hint)
    hint = 'write [anb.compute("50 us"), anb.all_reduce("1 MiB")]'
    if not found:
        raise InputError("a workload needs at least one operation", where="workload", hint=hint)
    for number, step in enumerate(found):
        if step in ([], ()):
            raise InputError("a list among the operations is empty", where="workload", hint=hint)
        for one in step if isinstance(step, list | tuple) else [step]:
            if not isinstance(one, Compute | Collective):
                if isinstance(one, str) and not one[:1].isdigit():  # the name of a model, not a time
                    hint = f"of a model: anb.models.workload({one[:40]!r}, anb.models.Parallelism(data=2))"
                elif number and isinstance(one, int):
                    hint = f"write ranks={one}"
                raise InputError(f"{one!r:.60} is not an operation", where="workload", hint=hint)
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise InputError(f"ranks must be a whole number of at least 1, got {ranks!r}", where="workload")
    return OperationList(tuple(found), ranks, system, compat, title)


def _row(
    one: Compute | Collective, network: DimensionNetwork | InfraNetwork, ranks: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of an operation, and what the system layer has to be for it."""
    if isinstance(one, Compute):
        return {"kind": COMPUTE, "duration_ns": one.duration_ns}, {}
    return collective_row(one, network, ranks)


def _add(options: dict[str, Any], words: dict[str, Any], one: Compute | Collective) -> None:
    """Add what a collective needs of the system layer, which has one algorithm for each kind."""
    for key, value in words.items():
        if key in ("preferred-dataset-splits", "active-chunks-per-dimension"):
            options[key] = max(value, options.get(key, 1))
        elif key == "cost":  # a library's only where it chooses every algorithm
            options[key] = "wire" if options.get(key) == "wire" else value
        elif options.setdefault(key, value) != value:
            raise InputError(
                f"two algorithms of {one.name}",
                where="workload",
                hint="use one algorithm for each collective",
            )
