"""Synthesise an algorithm for a network and a collective, and say how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from astranb.collectives import PROTOCOLS, Collective, Flaw, Program, verify, write_algorithm
from astranb.collectives.language import check_protocol
from astranb.core.errors import InputError
from astranb.core.progress import bar
from astranb.core.units import size_bytes
from astranb.infragraph import Infra

from .bound import SpeedLimit, speed_limit
from .condition import Condition, condition_of
from .exact import exact_schedule
from .flows import flows_of
from .network import RankNetwork, rank_network
from .program import SynthesizedAlgorithm
from .schedule import Schedule, drawn_schedule
from .text import channels_of_text, program_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Synthesis", "synthesize"]

_LOOKED: Final = 16  # candidates of each match
_MOST_SLICES: Final = 8
_ENOUGH_CHUNKS: Final = 128  # of a rank: with so many, links are busy almost to the end
_LEAST_BYTES: Final = 4096  # of a slice: smaller ones cost blocks more than they save links (measured)
_FROM_ROOT: Final = 8
_CLOSE: Final = 1.01  # a schedule so near the bound is not improved further


@dataclass(frozen=True)
class Synthesis:
    """A synthesised algorithm, its schedule, and the bound.

    Attributes
    ----------
    schedule : Schedule
        Which link carries which slice of which chunk when.
    limit : SpeedLimit
        The least time that any algorithm takes.
    size : int
        Bytes of a rank's larger buffer.
    root : int
    seed : int
        That of the best trial.
    trials_ps : tuple of int
        The time of every trial.
    exact : bool
        Whether no schedule has fewer steps.
    protocol : str
        The one by which it is expected to be fastest by cache lines, or that was asked for.
    """

    schedule: Schedule
    limit: SpeedLimit
    size: int
    root: int
    seed: int
    trials_ps: tuple[int, ...]
    exact: bool = False
    protocol: str = "Simple"

    @property
    def network(self) -> RankNetwork:
        """Direct sends between ranks."""
        return self.schedule.network

    @property
    def time_ps(self) -> int:
        """Time of the schedule."""
        return self.schedule.time_ps

    @property
    def expected_ps(self) -> int:
        """Time to be expected by cache lines: see :meth:`Schedule.expected_ps`."""
        return self.schedule.expected_ps(self.protocol)

    @property
    def bound_ps(self) -> int:
        """Least time of any algorithm: see :func:`~astranb.explore.synthesis.bound.speed_limit`."""
        return self.limit.time_ps

    @property
    def bound_Bps(self) -> int:  # noqa: N802 - unit in the name
        """Greatest algorithm bandwidth: the size for each second of the bound."""
        return self.size * 10**12 // max(1, self.bound_ps)

    @property
    def slower(self) -> float:
        """Time of the schedule over the bound."""
        return self.time_ps / max(1, self.bound_ps)

    @property
    def steps(self) -> pd.DataFrame:
        """The schedule as a table, one row for each transfer: see :meth:`Schedule.to_dataframe`."""
        return self.schedule.to_dataframe()

    @cached_property
    def algorithm(self) -> SynthesizedAlgorithm:
        """The value for ``algorithm=`` of the collective."""
        return SynthesizedAlgorithm(self.schedule, self.root, packets=self.protocol != "Simple")

    @cached_property
    def collective(self) -> Collective:
        """The collective with this algorithm, to be simulated."""
        name = self.schedule.condition.name
        return Collective.of(name, self.size, self.algorithm, root=self.root, protocol=self.protocol)

    @property
    def text(self) -> str:
        """The schedule as the text of a program, to be read and changed."""
        return program_text(self.schedule, self.slower)

    @property
    def text_channels(self) -> int:
        """The channels with which the text is to be run."""
        return channels_of_text(self.schedule, self.algorithm.channels)

    @cached_property
    def program(self) -> Program:
        """The program of one channel, without NICs: what is verified and written to files."""
        name = self.schedule.condition.name
        one = Collective.of(
            name, self.size, self.algorithm, channels=1, root=self.root, protocol=self.protocol
        )
        return one.program(self.network.ranks)

    def verify(self) -> list[Flaw]:
        """Return what is wrong with the program at any timing: nothing."""
        return list(self._flaws)

    @cached_property
    def _flaws(self) -> list[Flaw]:
        return verify(self.program, self.schedule.condition.name, root=self.root)

    def write(self, path: str | Path) -> list[str]:
        """Write the program to a file, ``.json`` (MSCCL++) or ``.xml`` (MSCCL); returns remarks."""
        return write_algorithm(self.program, path)


def synthesize(
    infra: Infra | str | Path,
    collective: str | Condition,
    size: int | str = "64 MiB",
    *,
    root: int = 0,
    slices: int | None = None,
    trials: int = 8,
    seed: int = 0,
    down: Sequence[str] = (),
    exact: bool = False,
    protocol: str | None = None,
) -> Synthesis:
    """Synthesise an algorithm of a collective for a network.

    Parameters
    ----------
    infra : Infra or str or Path
        As for :class:`astranb.Simulation`.
    collective : str or Condition
        As ``"all_gather"``; or which chunks ranks have before and need after.
    size : int or str
        Bytes of a rank's larger buffer.
    root : int
        The root of a rooted collective.
    slices : int, optional
        Slices of each chunk, which follow one another; by default several numbers are tried.
    trials : int
        Schedules that are drawn for each number of slices, at most; the fastest one is kept.
    seed : int
        The first trial's; the same gives the same algorithm.
    down : sequence of str
        Links that have failed, as ``"A->B"``.
    exact : bool
        Solve for the least number of steps instead: for a few ranks and chunks.
    protocol : str, optional
        ``"Simple"``, ``"LL"`` or ``"LL128"``; by default what is expected to be fastest.

    Returns
    -------
    Synthesis

    Raises
    ------
    InputError
        The infrastructure is not connected, the condition cannot be met, or a value is out of range.

    Examples
    --------
    >>> import astranb as anb
    >>> found = anb.explore.synthesize("torus2d:rows=3,columns=3", "all_gather", "9 MiB")
    >>> bool(found.slower < 1.1), found.verify()
    (True, [])
    >>> sim = anb.Simulation("torus2d:rows=3,columns=3", found.collective)
    >>> _ = sim.run()
    >>> sim.finished
    True
    """
    for name, value, least in (("trials", trials, 1), ("slices", slices, 1), ("seed", seed, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InputError(
                f"{name} must be a whole number from {least}, got {value!r:.40}", where="synthesize"
            )
    network = rank_network(infra, down)
    if network.ranks < 2:
        raise InputError("one rank has nobody to send to", where=f"infrastructure {network.title!r}")
    condition = (
        collective if isinstance(collective, Condition) else condition_of(collective, network.ranks, root)
    )
    condition.require_met(network)
    total = size_bytes(size)
    if total < 1:
        raise InputError("size must be at least 1 B", where="size")
    flows = flows_of(network, condition)
    limit = speed_limit(network, condition, -(-total // condition.most), flows)
    if protocol is not None:
        check_protocol(protocol)
    # A condition's chunks have no packets of equal sizes.
    able = (protocol,) if protocol else PROTOCOLS if condition.name != "custom" else ("Simple",)

    def slice_bytes(count: int) -> int:
        return -(-total // (condition.most * count))

    if exact:
        count = slices or 1
        best = exact_schedule(network, condition, count, slice_bytes(count))
        protocol = min(able, key=best.expected_ps)
        return Synthesis(best, limit, total, root, seed, (best.time_ps,), exact=True, protocol=protocol)
    times: list[int] = []
    best_of: list[tuple[Schedule, int]] = []  # for each number of slices
    counts = _slice_counts(condition, total // condition.most) if slices is None else [slices]
    with bar(len(counts) * trials, what="synthesising", unit="trial") as shown:
        for count in counts:
            drawn: list[tuple[Schedule, int]] = []
            for trial in range(seed, seed + trials):
                found = drawn_schedule(
                    network, condition, count, slice_bytes(count), seed=trial, looked=_LOOKED, flows=flows
                )
                times.append(found.time_ps)
                drawn.append((found, trial))
                shown.update(1)
                if found.time_ps <= _CLOSE * limit.time_ps:
                    break
            best_of.append(min(drawn, key=lambda one: one[0].time_ps))
    # Small slices keep links busy, and cost more signals: that decides between numbers of slices.
    expected = {(number, how): one[0].expected_ps(how) for number, one in enumerate(best_of) for how in able}
    number, how = min(expected, key=lambda pair: expected[pair])
    schedule, trial = best_of[number]
    return Synthesis(schedule, limit, total, root, trial, tuple(times), protocol=how)


def _slice_counts(condition: Condition, chunk_bytes: int) -> list[int]:
    """Return numbers of slices to try: as many as keep links busy, then fewer, which have less latency."""
    many = 1
    if condition.most == 1 or min(len(condition.before), len(condition.after)) == 1:
        many = _FROM_ROOT  # the farthest rank waits while the first slice is on its way
    most = min(many * _MOST_SLICES, many * _ENOUGH_CHUNKS // condition.most, chunk_bytes // _LEAST_BYTES)
    counts = [max(1, most)]
    while counts[-1] > 1:
        counts.append(counts[-1] // 2)
    return counts
