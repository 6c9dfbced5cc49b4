"""Sums over an interval: time in states, lines and bytes on links, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.data_frames import frame
from astranb.core.errors import InputError, near
from astranb.core.units import format_time

from .recorder import FLIGHT_KINDS
from .state import CacheLineState
from .tracks import TRACK_STATES, Tracks

if TYPE_CHECKING:
    import pandas as pd

    from astranb.net import Fabric

__all__ = ["Aggregate", "aggregate", "link_types", "phase_times"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Aggregate:
    """Sums over an interval of time.

    Attributes
    ----------
    start_ps, end_ps : int
        The interval, with its start and without its end.
    oldest_ps : int
        From when on every line's flight is still recorded: of what began before nothing is in
        ``classes`` and ``links``.
    states : list of dict
        A row a rank: ``rank``, ``tracks`` (SMs and copy engines in use), and for each of
        :data:`~astranb.sim.TRACK_STATES` the time of all of them in ps; ``idle`` is the rest.
    classes : list of dict
        A row a type of link and kind of message: ``type``, ``kind``, ``lines`` (messages that
        began to cross a link), ``bytes`` (with headers), ``busy_ps``.
    links : list of dict
        A row a link that carried anything, the busiest first: ``link``, ``type``, ``lines``,
        ``bytes``, ``busy_ps`` (time the wire carried bits within the interval),
        ``utilisation``, ``queued_ps`` (how long those lines had waited for it).
    phases : list of dict
        A row a rank and phase that overlap the interval: ``rank``, ``phase``, ``start_ps``,
        ``end_ps`` (cut off at the interval), ``time_ps``.
    """

    start_ps: int
    end_ps: int
    oldest_ps: int
    states: list[Row] = field(repr=False)
    classes: list[Row] = field(repr=False)
    links: list[Row] = field(repr=False)
    phases: list[Row] = field(repr=False)

    def to_dataframe(self, what: str = "states", *, time: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas frame.

        Parameters
        ----------
        what : str
            ``states``, ``classes``, ``links`` or ``phases``.
        time : str, optional
            Unit of all times: ``ps`` (by default), ``ns``, ``us``, ``ms`` or ``s``.

        Raises
        ------
        InputError
            There is no such table, or no such unit.
        """
        if what not in (known := ("states", "classes", "links", "phases")):
            raise InputError(f"unknown table {what!r}", where="to_dataframe", hint=near(what, known))
        return frame(getattr(self, what), time)

    def shares(self) -> dict[str, float]:
        """Fractions of the time of all SMs in use, by state; ``idle`` included, they add up to 1."""
        sums = {name: sum(row[name] for row in self.states) for name in (*TRACK_STATES, "idle")}
        total = max(1, sum(sums.values()))
        return {name: value / total for name, value in sums.items()}

    def __str__(self) -> str:
        """A few lines for a person."""
        span = f"{format_time(self.start_ps)} to {format_time(self.end_ps)}"
        parts = sorted(self.shares().items(), key=lambda item: -item[1])
        lines = [
            f"{span} ({format_time(self.end_ps - self.start_ps)})",
            "SMs     " + ", ".join(f"{name} {part:.0%}" for name, part in parts if part >= 0.005),
        ]
        lines += [
            f"{row['type']:<7} {row['lines']:,} x {row['kind']}, {row['bytes']:,} B" for row in self.classes
        ]
        lines += [f"{row['utilisation']:>6.0%}  {row['link']}" for row in self.links[:5]]
        return "\n".join(lines)


def aggregate(
    engine: CacheLineState, tracks: Tracks, start_ps: int, end_ps: int, ranks: Sequence[int] | None = None
) -> Aggregate:
    """Add up what happened in an interval (see :meth:`Simulation.aggregate`)."""
    count = len(engine.machine.gpus)
    chosen = np.unique(np.arange(count) if ranks is None else np.asarray(ranks, np.int64))
    if not 0 <= start_ps <= end_ps:
        raise InputError(f"an interval from {start_ps} to {end_ps} ps", where="aggregate")
    if len(chosen) and not (chosen[0] >= 0 and chosen[-1] < count):
        raise InputError(f"no rank {chosen[-1]}", where="aggregate", hint=f"ranks are 0 to {count - 1}")
    end_ps = min(end_ps, engine.now_ps)
    start_ps = min(start_ps, end_ps)
    classes, links = _links(engine, start_ps, end_ps, None if ranks is None else chosen)
    states = _states(engine, tracks, start_ps, end_ps, chosen)
    phases = _phases(engine, start_ps, end_ps, chosen)
    return Aggregate(start_ps, end_ps, engine.recorder.oldest_ps, states, classes, links, phases)


def _states(
    engine: CacheLineState, tracks: Tracks, start_ps: int, end_ps: int, ranks: np.ndarray
) -> list[Row]:
    spent = tracks.spent(ranks, np.array([start_ps, end_ps]), fold=True)[:, 0]
    counts = np.bincount(tracks.gpu, minlength=len(engine.machine.gpus))[ranks]
    idle = counts * (end_ps - start_ps) - spent.sum(axis=1)
    return [
        {"rank": rank, "tracks": n, **dict(zip(TRACK_STATES, row, strict=True)), "idle": rest}
        for rank, n, row, rest in zip(
            ranks.tolist(), counts.tolist(), spent.tolist(), idle.tolist(), strict=True
        )
    ]


def _links(
    engine: CacheLineState, start_ps: int, end_ps: int, ranks: np.ndarray | None
) -> tuple[list[Row], list[Row]]:
    """Messages that crossed links, by class and by link; where ranks are given, of their links."""
    kept = engine.recorder.since(0)[1]
    out_ps = kept["start_ps"] + kept["wire_ps"]
    kept = kept[(out_ps > start_ps) & (kept["start_ps"] < end_ps)]
    if ranks is not None:
        nodes = engine.fabric.gpus[ranks]
        links = engine.fabric.links
        mine = np.isin(links["src"], nodes) | np.isin(links["dst"], nodes)
        kept = kept[mine[kept["link"]]]
    busy = np.minimum(kept["start_ps"] + kept["wire_ps"], end_ps) - np.maximum(kept["start_ps"], start_ps)
    began = kept["start_ps"] >= start_ps
    names, of_link = link_types(engine.fabric)
    measures = (
        began,
        np.where(began, kept["bytes"], 0),
        busy,
        np.where(began, kept["start_ps"] - kept["queued_ps"], 0),
    )

    def sums(group: np.ndarray, groups: int) -> np.ndarray:
        return np.stack([np.bincount(group, m, groups).astype(np.int64) for m in measures], axis=1)

    kinds = len(FLIGHT_KINDS)
    by_class = sums(of_link[kept["link"]] * kinds + kept["kind"], len(names) * kinds)
    classes = [
        {
            "type": names[k // kinds], "kind": FLIGHT_KINDS[k % kinds],
            "lines": row[0], "bytes": row[1], "busy_ps": row[2],
        }
        for k, row in enumerate(by_class.tolist())
        if any(row)
    ]  # fmt: skip
    by_link = sums(kept["link"], len(engine.fabric.links))
    used = np.flatnonzero(by_link.any(axis=1))
    used = used[np.argsort(-by_link[used, 2], kind="stable")]
    length = max(1, end_ps - start_ps)
    found = [
        {
            "link": engine.fabric.name(link), "type": names[of_link[link]], "lines": row[0], "bytes": row[1],
            "busy_ps": row[2], "utilisation": row[2] / length, "queued_ps": row[3],
        }
        for link, row in zip(used.tolist(), by_link[used].tolist(), strict=True)
    ]  # fmt: skip
    return classes, found


def link_types(fabric: Fabric) -> tuple[list[str], np.ndarray]:
    """The types of links that there are, and which one each link is of."""
    graph = fabric.graph
    usable = np.flatnonzero(graph.edges.a != graph.edges.b)
    edge = np.repeat(
        usable, 2 * graph.edges.lanes[usable].astype(np.int64)
    )  # as compile_fabric lays them out
    declared = [link.type for link in graph.links] or [""]
    names = sorted(set(declared))
    number = np.array([names.index(name) for name in declared])
    return names, number[graph.edges.link[edge]]


def phase_times(engine: CacheLineState) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of each phase on each GPU.

    Returns
    -------
    start_ps, end_ps : ndarray of int64, shape (gpus, phases)
        From the first start of one of its operations to the last end, up to now while some
        are under way; -1 where nothing of it has begun.
    """
    ops, now_ps = engine.machine.ops, engine.now_ps
    begun = np.flatnonzero(ops["started_ps"] >= 0)
    names = max(1, len(engine.program.phase_names))
    group = engine.machine.blocks["gpu"][ops["block"][begun]] * names + ops["phase"][begun]
    count = len(engine.machine.gpus) * names
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(start, group, ops["started_ps"][begun])
    ended = ops["ended_ps"][begun]
    np.maximum.at(end, group, np.where(ended >= 0, ended, now_ps))
    return np.where(end >= 0, start, -1).reshape(-1, names), end.reshape(-1, names)


def _phases(engine: CacheLineState, start_ps: int, end_ps: int, ranks: np.ndarray) -> list[Row]:
    start, end = phase_times(engine)
    inside = (start >= 0) & (start < end_ps) & (end > start_ps)
    rows = []
    for rank in ranks.tolist():
        for phase in np.flatnonzero(inside[rank]).tolist():
            a, b = max(int(start[rank, phase]), start_ps), min(int(end[rank, phase]), end_ps)
            name = engine.program.phase_names[phase]
            rows.append({"rank": rank, "phase": name, "start_ps": a, "end_ps": b, "time_ps": b - a})
    return rows
