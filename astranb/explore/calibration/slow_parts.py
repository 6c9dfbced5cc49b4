"""Search for the single slow part of a machine that explains a log best: exact runs, one slow part each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from astranb.collectives.library import Writer
from astranb.core.errors import InputError
from astranb.core.progress import bar
from astranb.core.units import format_bandwidth, size_bytes
from astranb.gpu import Preset
from astranb.infragraph import Infra, NodeKind
from astranb.sim import Simulation

from .log_runs import LogRuns
from .logs import CollectiveLog, LogRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Diagnosis", "Suspect", "diagnose"]

Array = NDArray[np.float64]
_T = TypeVar("_T")

_UP_TO: Final = "4 MiB"
_FEW_KEYS: Final = 4  # so many collectives and roots, or fewer, are compared at several sizes
_SIZES: Final = 4
_FEWEST: Final = 4  # rows: the time outside the kernel and a factor alone explain two
_SCREENED_AT: Final = 0.5
_IDLE: Final = 0.15
"""While suspects are screened, a run keeps its time where a part is busy for a smaller share of it."""
_REFINED: Final = 3
_CLOSE: Final = 12
_STEPS: Final = 5
_SLOWEST: Final = 1 / 16
_ALIKE: Final = 0.005
"""Suspects whose predicted times, or whose errors, differ by a smaller part count as equal."""
_NOISE: Final = 0.02
_EXPLAINED: Final = 0.6
_LEFT: Final = 0.05
"""A suspect explains a log if it leaves at most so much of the error without faults, and so little at all."""
_RUNNERS_UP: Final = 3
_HELPS: Final = 0.9
_MOST_MEMBERS, _MOST_ROOTS = 5, 4
_ROOTED_TESTS: Final = ("gather", "scatter")
_OTHER_TESTS: Final = ("send_recv", "all_to_all", "all_reduce")
_TESTS: Final = {"all_to_all": "alltoall", "send_recv": "sendrecv"}


@dataclass(frozen=True, slots=True)
class _SlowPart:
    """Something that may be slow: what to change in a simulation, and by how much at factor 1."""

    name: str
    kind: str  # link, cable, lane, NIC, rank or clock
    paths: tuple[tuple[str, int], ...]  # of links, with their bandwidth; of a GPU, with the time of an issue
    links: frozenset[int]  # rows of the fabric; of a GPU's clock none: it changes every run

    def change(self, sim: Simulation, factor: float) -> None:
        for path, value in self.paths:
            new = value * factor if path.endswith(".bandwidth") else value / factor
            sim.set(path, max(1, round(new)))


_RANKS: Final = ("link", "lane", "cable", "NIC", "rank", "clock")
"""The simplest first: it is named where several explain a log alike."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part that may be slow, or several that the log cannot tell apart.

    Attributes
    ----------
    name : str
        ``A->B`` (a link in one direction), ``A<->B``, ``A->B#0`` (a lane), the name of a NIC or a rank.
    kind : str
        ``link``, ``lane``, ``cable`` (both directions), ``NIC``, ``rank`` (all links of a GPU) or ``clock``
        (of a GPU's SMs).
    factor : float
        Its speed, relative to the machine as described.
    error : float
        What it leaves unexplained: root mean square of relative errors.
    alike : tuple of str
        Other parts that explain the log as well.
    now : str
        The bandwidth at that factor, of a link.
    """

    name: str
    kind: str
    factor: float
    error: float
    alike: tuple[str, ...] = ()
    now: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Slow parts that explain a log.

    Attributes
    ----------
    healthy : float
        Root mean square of relative errors without any fault.
    suspects : tuple of Suspect
        The best explanation first; empty if the machine as described explains the log.
    explained : bool
        Whether the first one explains the log.
    next : str
        What to measure next.
    by_root : bool
        Whether a collective was compared root by root. Otherwise a description of the machine that is
        too fast looks like a slow link.
    visible : tuple of int
        How many of the links that the runs use would change a time by 2 % or more at half their
        bandwidth, and how many they use.
    rows : pandas.DataFrame
        ``collective``, ``size_bytes``, ``root``, ``measured_us``, ``healthy_us`` and ``suspect_us``.
    """

    healthy: float
    suspects: tuple[Suspect, ...]
    explained: bool
    next: str
    by_root: bool
    visible: tuple[int, int]
    rows: pd.DataFrame


def diagnose(
    log: CollectiveLog,
    infra: Infra | str | Path,
    *,
    gpu: str | Path | Preset | None = None,
    algorithm: str | Writer | None = None,
    protocol: str | None = None,
    channels: int | None = None,
    up_to: int | str = _UP_TO,
) -> Diagnosis:
    """Find the one slow link, lane, NIC or rank that explains a log best.

    Every part is slowed in runs of their own, line by line, of the largest size that the log has of each
    collective and root (the four largest, where there are few). The time outside the kernel is fitted
    to every suspect; a collective that was measured with three roots or more is compared root by root, so
    that what the machine's description gets wrong for all of them does not matter.

    Parameters
    ----------
    log : CollectiveLog
        What :func:`read_log` returns. ``scatter_perf -r N`` and ``gather_perf -r N`` with every root tell
        links apart that all ranks use alike in an all-reduce.
    infra : Infra or str or Path
        The machine that was measured.
    gpu : str or Path or Preset, optional
        As fitted by :func:`fit_log` to a machine without faults.
    algorithm, protocol, channels
        As for :class:`astranb.collectives.Collective`.
    up_to : int or str
        Sizes above are not used.

    Raises
    ------
    InputError
        The log is of another machine, or has only larger sizes.
    """
    limit = size_bytes(up_to, where="up_to")
    rows = _chosen(log, limit)
    small = replace(log, rows=rows)
    runs = LogRuns(small, infra, gpu, algorithm=algorithm, protocol=protocol, channels=channels)
    return _Search(runs, rows).diagnosis()


def _chosen(log: CollectiveLog, limit: int) -> tuple[LogRow, ...]:
    """Choose the largest sizes up to the limit of each collective and root."""
    by_key: dict[tuple[str, int], list[LogRow]] = defaultdict(list)
    for row in log.rows:
        if row.size <= limit:
            by_key[row.collective, row.root].append(row)
    if not by_key:
        smallest = min(row.size for row in log.rows)
        raise InputError(f"no size up to {limit} bytes", where=log.where, hint=f"use --up-to {smallest}")
    most = _SIZES if len(by_key) <= _FEW_KEYS else 1
    rows = tuple(row for rows in by_key.values() for row in rows[-most:])
    if len(rows) < _FEWEST:
        hint = f"give {_FEWEST} sizes or roots up to {limit} bytes"
        raise InputError(f"only {len(rows)} rows to compare", where=log.where, hint=hint)
    return rows


class _Explanation(NamedTuple):
    """A part, how slow it is, what it leaves unexplained, and the parts that explain the log alike."""

    part: _SlowPart
    factor: float
    error: float
    alike: list[_SlowPart]
    times: Array


def _ranked(errors: Mapping[_SlowPart, float]) -> list[_SlowPart]:
    """Return parts by error, the simplest first among equals."""
    return sorted(errors, key=lambda part: (errors[part], _RANKS.index(part.kind)))


class _Search:
    """Simulates suspects, and holds each against the measured times."""

    def __init__(self, runs: LogRuns, rows: Sequence[LogRow]) -> None:
        self.runs, self.rows = runs, rows
        self.measured = np.array([row.time_us for row in rows])
        self.starts = [runs.simulation(row, runs.gpu, runs.protocol(row)) for row in rows]
        self.used: list[frozenset[int]] = []
        self.bytes: list[NDArray[np.int64]] = []
        self.busy: list[Array] = []  # share of each run, of every lane
        self.healthy_us = np.array([self._healthy(start) for start in self.starts])
        self.fabric = self.starts[0].engine.fabric
        self.known: dict[tuple[int, str, float], float] = {}
        self.rooted = _rooted(rows)

    def _healthy(self, start: Simulation) -> float:
        sim = start.fork(record=False)
        sim.run()
        links = sim.engine.machine.links
        carried = links["bytes"].astype(np.int64)
        self.bytes.append(carried)
        self.busy.append(links["busy_ps"] / max(1, sim.now_ps))
        self.used.append(frozenset(np.flatnonzero(carried).tolist()))
        return sim.now_ps / 1e6

    def times(self, part: _SlowPart, factor: float) -> Array:
        """Return the times of all rows with a part slowed; a run that does not use it keeps its time."""
        return np.array([self._time(at, part, factor) for at in range(len(self.rows))])

    def screened(self, part: _SlowPart) -> Array:
        """Return the times of all rows with a part at half its speed, exact where that can matter."""
        lanes = sorted(part.links)
        return np.array(
            [
                self._time(at, part, _SCREENED_AT)
                if part.kind == "clock" or self.busy[at][lanes].max() > _IDLE
                else self.healthy_us[at]
                for at in range(len(self.rows))
            ]
        )

    def _time(self, at: int, part: _SlowPart, factor: float) -> float:
        key = at, part.name, round(factor, 4)
        if part.kind != "clock" and not part.links & self.used[at]:
            return float(self.healthy_us[at])
        if key not in self.known:
            sim = self.starts[at].fork(record=False)
            part.change(sim, factor)
            sim.run()
            self.known[key] = sim.now_ps / 1e6
        return self.known[key]

    def error(self, times: Array) -> float:
        """Return the root mean square of relative errors, with the best time outside the kernel."""
        return float(np.sqrt(np.mean(np.log(self.predicted(times) / self.measured) ** 2)))

    def predicted(self, times: Array) -> Array:
        """Return what a log of these kernels shows.

        The time outside the kernel comes on top, and a collective with several roots has a scale of its own.
        """
        weights = 1 / self.measured**2
        outside = max(0.0, float(np.sum(weights * (self.measured - times)) / np.sum(weights)))
        found = times + outside
        for places in self.rooted:
            found[places] *= np.median(self.measured[places] / found[places])
        return found

    def _refined(self, found: _Explanation) -> _Explanation:
        """Find the factor that explains the log best."""
        part = found.part
        tried = {factor: self.error(self.times(part, factor)) for factor in (0.25, _SCREENED_AT, 0.75)}
        for _ in range(_STEPS):
            best = min(tried, key=lambda factor: tried[factor])
            lower = max((one for one in tried if one < best), default=_SLOWEST)
            upper = min((one for one in tried if one > best), default=1.0)
            # The middle of the wider side, in logarithms.
            middle = (best * (lower if best / lower > upper / best else upper)) ** 0.5
            tried[middle] = self.error(self.times(part, middle))
        best = min(tried, key=lambda factor: tried[factor])
        times = self.predicted(self.times(part, best))
        return found._replace(factor=best, error=tried[best], times=times)

    def suspects(self) -> list[_Explanation]:
        """Return the best parts, with those that explain the rows as well; none if nothing is slow."""
        self.healthy = self.error(self.healthy_us)
        links = list(self._links())
        by_class: dict[Any, list[_SlowPart]] = defaultdict(list)
        for part in links:
            by_class[self._class(part)].append(part)
        leads = [members[0] for members in by_class.values()]
        screened = {part: self.screened(part) for part in self._shown(leads)}
        self.links = len(links)
        self.visible = sum(
            len(members)
            for members in by_class.values()
            if np.max(np.abs(screened[members[0]] / self.healthy_us - 1)) > _NOISE
        )
        if self.fine:
            return []
        errors = {part: self.error(times) for part, times in screened.items()}
        tops = _ranked(errors)[:_REFINED]
        enough = errors[tops[0]] <= _EXPLAINED * self.healthy
        ends = {end for part in tops for end in self._ends(part)} if enough else None
        more = [*self._ranks(ends), *self._nics(ends)]
        more += [other for part in tops for other in (*self._cables(part, links), *self._lanes(part))]
        errors |= {part: self.error(self.screened(part)) for part in self._shown(more)}
        ranked = _ranked(errors)
        groups = self._grouped(ranked[:_CLOSE], {same[0].name: same for same in by_class.values()})
        near = groups[0].error + max(_NOISE, groups[0].error)
        found = [self._refined(one) if one.error <= near else one for one in self._shown(groups)]
        best, *rest = sorted(found, key=lambda one: one.error)
        while rest and rest[0].error < best.error + _ALIKE:  # it explains the log as well
            same = rest.pop(0)
            best.alike.extend([same.part, *same.alike])
        return [best, *rest]

    def _shown(self, parts: Sequence[_T]) -> Iterator[_T]:
        """Yield parts or explanations with a progress bar."""
        with bar(len(parts), what="suspects", unit="run") as shown:
            for part in parts:
                yield part
                shown.update()

    @property
    def fine(self) -> bool:
        """Whether the machine as described explains the log."""
        off = np.abs(np.log(self.predicted(self.healthy_us) / self.measured))
        return bool(np.all(off <= np.maximum(_NOISE, [row.spread for row in self.rows])))

    def _grouped(
        self, parts: Sequence[_SlowPart], members: Mapping[str, list[_SlowPart]]
    ) -> list[_Explanation]:
        """Join parts whose predicted times are alike; the simplest part speaks for its group."""
        exact = {part: self.times(part, _SCREENED_AT) for part in parts}
        errors = {part: self.error(times) for part, times in exact.items()}
        groups: list[_Explanation] = []
        for part in sorted(parts, key=lambda one: (round(errors[one], 3), _RANKS.index(one.kind))):
            times = self.predicted(exact[part])
            others = [one for one in members.get(part.name, []) if one.name != part.name]
            for group in groups:
                if np.max(np.abs(times / group.times - 1)) < _ALIKE:
                    group.alike.extend([part, *others])
                    break
            else:
                groups.append(_Explanation(part, _SCREENED_AT, errors[part], others, times))
        return groups

    def _links(self) -> Iterator[_SlowPart]:
        """Yield every link that some run uses, all lanes of one direction together."""
        used = frozenset().union(*self.used)
        lanes: dict[str, list[int]] = defaultdict(list)
        for link in range(len(self.fabric.links)):
            lanes[self.fabric.name(link).partition("#")[0]].append(link)
        for name, rows in lanes.items():
            if used & set(rows):
                yield self._part(name, "link", [(name, rows)])

    def _part(self, name: str, kind: str, links: Iterable[tuple[str, list[int]]]) -> _SlowPart:
        rates = self.fabric.links["bandwidth_Bps"]
        paths = tuple((f"{link}.bandwidth", int(rates[rows].sum())) for link, rows in links)
        rows = frozenset(row for _, rows in links for row in rows)
        return _SlowPart(name, kind, paths, rows)

    def _ends(self, part: _SlowPart) -> tuple[int, int]:
        row = self.fabric.links[min(part.links)]
        return int(row["src"]), int(row["dst"])

    def _class(self, part: _SlowPart) -> Any:
        """Return what links have in common that all runs use alike: lanes of one GPU to equal switches."""
        kinds = self.fabric.graph.nodes.kind
        ends = self._ends(part)
        at_gpu = [end if kinds[end] == NodeKind.XPU else -1 for end in ends]
        if max(at_gpu) < 0:
            return part.name  # between switches: each by itself
        rows = sorted(part.links)
        carried = tuple(int(b[rows].sum()) for b in self.bytes)
        rates = tuple(self.fabric.links["bandwidth_Bps"][rows].tolist())
        return (*at_gpu, rates, carried, tuple(int(kinds[end]) for end in ends))

    def _touching(self, node: int) -> list[tuple[str, list[int]]]:
        """Return the used links of a node, in both directions."""
        return [(part.name, sorted(part.links)) for part in self._links() if node in self._ends(part)]

    def _ranks(self, ends: set[int] | None) -> Iterator[_SlowPart]:
        """Yield GPUs among some nodes: each with all its links, and the clock of its SMs."""
        issue = int(self.runs.gpu.issue_ps)
        for rank, node in enumerate(self.fabric.gpus.tolist()):
            if ends is None or node in ends:
                touching = self._touching(node)
                if touching:
                    yield self._part(f"rank {rank}, all links", "rank", touching)
                yield _SlowPart(f"rank {rank}, clock", "clock", ((f"gpu[{rank}].issue", issue),), frozenset())

    def _nics(self, ends: set[int] | None) -> Iterator[_SlowPart]:
        for node in self.fabric.graph.kinds(NodeKind.NIC).tolist():
            touching = self._touching(node) if ends is None or node in ends else []
            if touching:
                yield self._part(self.fabric.graph.name(node), "NIC", touching)

    def _cables(self, part: _SlowPart, links: Sequence[_SlowPart]) -> Iterator[_SlowPart]:
        """Yield a link together with its other direction."""
        one, other = part.name.split("->")
        back = [link for link in links if link.name == f"{other}->{one}"]
        if back:
            directions = [(link.name, sorted(link.links)) for link in (part, back[0])]
            yield self._part(f"{one}<->{other}", "cable", directions)

    def _lanes(self, part: _SlowPart) -> Iterator[_SlowPart]:
        """Yield one lane of a link that has several: they are alike."""
        if len(part.links) > 1:
            first = min(part.links)
            yield self._part(self.fabric.name(first), "lane", [(self.fabric.name(first), [first])])

    def diagnosis(self) -> Diagnosis:
        """Search, and put the answer together."""
        import pandas as pd

        found = self.suspects()
        # A runner-up explains some of what is off.
        shown = found[:1] + [one for one in found[1:] if one.error < _HELPS * self.healthy][:_RUNNERS_UP]
        explained = bool(found) and found[0].error <= min(_LEFT, _EXPLAINED * self.healthy)
        table = pd.DataFrame(
            {
                "collective": [row.collective for row in self.rows],
                "size_bytes": [row.size for row in self.rows],
                "root": [row.root for row in self.rows],
                "measured_us": self.measured,
                "healthy_us": self.predicted(self.healthy_us),
                "suspect_us": found[0].times if found else np.nan,
            }
        )
        return Diagnosis(
            self.healthy,
            tuple(map(self._suspect, shown)),
            explained,
            self._next(found[0]) if explained else "",
            bool(self.rooted),
            (self.visible, self.links),
            table,
        )

    def _suspect(self, found: _Explanation) -> Suspect:
        part, factor, error, alike, _ = found
        now = ""
        if part.kind in ("link", "lane"):
            rate = part.paths[0][1]
            now = f"{format_bandwidth(rate * factor)} instead of {format_bandwidth(rate)}"
        return Suspect(part.name, part.kind, factor, error, tuple(one.name for one in alike), now)

    def _next(self, found: _Explanation) -> str:
        """Return the measurement in which the parts that explain the rows alike differ most."""
        best, factor, _, alike, _ = found
        rivals = [best, *[part for part in alike if part.kind in ("link", "rank", "NIC")]][:_MOST_MEMBERS]
        if len(rivals) == 1:
            return "read the counters of this link" if best.kind in ("link", "lane", "cable") else ""
        rows = tuple(self._proposals(rivals))
        if rows:  # with the algorithms of these collectives, not that of the log's
            self.other = LogRuns(replace(self.runs.log, rows=rows), self.runs.infra, self.runs.gpu)
        spread = {row: self._spread(row, rivals, factor) for row in rows}
        if not spread or max(spread.values()) < _NOISE:
            return (
                "no collective tells these apart, because all of them are used alike: "
                "read the counters of the links (nvidia-smi nvlink -e, rocm-smi --showxgmierr, perfquery)"
            )
        chosen = max(spread, key=lambda row: spread[row])
        test = _TESTS.get(chosen.collective, chosen.collective)
        root = f" -r {chosen.root}" if chosen.collective in _ROOTED_TESTS else ""
        size = chosen.size
        return (
            f"{test}_perf{root} -b {size} -e {size}: "
            f"its time differs by {spread[chosen]:.0%} among these {len(rivals)}"
        )

    def _proposals(self, rivals: Sequence[_SlowPart]) -> Iterator[LogRow]:
        """Yield measurements that the log does not have, with roots at the ends of the rivals."""
        size = max(row.size for row in self.rows)
        have = {(row.collective, row.root) for row in self.rows}
        ends = {end for part in rivals for link in part.links for end in self._ends_of(link)}
        roots = [rank for rank, node in enumerate(self.fabric.gpus) if int(node) in ends]
        rows = [(test, root) for test in _ROOTED_TESTS for root in roots[:_MOST_ROOTS]]
        for collective, root in [*rows, *((test, 0) for test in _OTHER_TESTS)]:
            if (collective, root) not in have:
                yield LogRow(collective, size, root, 1.0, 0.0, "a proposed measurement")

    def _ends_of(self, link: int) -> tuple[int, int]:
        row = self.fabric.links[link]
        return int(row["src"]), int(row["dst"])

    def _spread(self, row: LogRow, rivals: Sequence[_SlowPart], factor: float) -> float:
        start = self.other.simulation(row)
        times = []
        for part in rivals:
            sim = start.fork(record=False)
            part.change(sim, factor)
            sim.run()
            times.append(sim.now_ps)
        return max(times) / min(times) - 1


def _rooted(rows: Sequence[LogRow]) -> list[list[int]]:
    """Return the places of rows of one collective and size that were measured with three roots or more."""
    by_size: dict[tuple[str, int], list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        by_size[row.collective, row.size].append(at)
    return [places for places in by_size.values() if len({rows[at].root for at in places}) > 2]
