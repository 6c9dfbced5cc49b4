"""What ranks did when, for the timeline: spans where they have room, else shares of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.sim import Simulation
from astranb.widgets.feed import Message, OperationFeed, View, pack

from .timeline import span_of, window_of

__all__ = ["KINDS", "VIEW", "index_of", "operation_span", "tracks"]

KINDS = ("operations", "chunks")
_MOST_SPANS = 6_000
_MOST_RANKS = 256
_MOST_LABELS = 512


@dataclass(frozen=True)
class _Index:
    """Spans in the order of rank, track and start; ``first`` holds where those of a rank's track begin."""

    first: np.ndarray
    tracks: int
    row: np.ndarray
    slot: np.ndarray
    slots: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray


def index_of(feed: OperationFeed, kind: str) -> _Index:
    """The spans of now; kept until time moves."""
    sim = feed.sim
    key = (kind, sim.events, tuple(sim.edits))
    if feed.index is not None and feed.index[0] == key:
        found: _Index = feed.index[1]
        return found
    npu, track, row, start, end = _operations(sim) if kind == "operations" else _chunks(sim)
    count = len(feed.tracks) if kind == "operations" else len(sim.engine.about.topology)
    key_of = npu * count + track
    order = np.lexsort((row, start, key_of))
    key_of, start, end = key_of[order], start[order], end[order]
    first = np.searchsorted(key_of, np.arange(sim.ranks * count + 1))
    slot, slots = _stacked(key_of, start, end, first)
    index = _Index(first, count, row[order], slot, slots, start, end)
    feed.index = (key, index)
    return index


def _operations(sim: Simulation) -> tuple[np.ndarray, ...]:
    spans = sim.engine.track_spans()
    return spans.npu, spans.track, spans.row, spans.start_ps, spans.end_ps


def _chunks(sim: Simulation) -> tuple[np.ndarray, ...]:
    rows = sim.engine.passed()
    over = [np.ascontiguousarray(rows[name]) for name in ("npu", "dim", "operation", "begun_ps", "end_ps")]
    now = sim.engine.running()
    now.append(np.full(len(now[0]), sim.now_ps))
    return tuple(np.concatenate(both) for both in zip(over, now, strict=True))


def _stacked(key: np.ndarray, start: np.ndarray, end: np.ndarray, first: np.ndarray) -> tuple[Any, Any]:
    """Rows within a track, so that overlapping spans are drawn above one another; and how many there are."""
    slot = np.zeros(len(key), np.int64)
    slots = np.ones(len(first) - 1, np.int64)
    # Where nothing overlaps, as mostly, there is nothing to do.
    same = np.flatnonzero(np.diff(key) == 0)
    busy = np.unique(key[same[start[same + 1] < end[same]]])
    for track in busy.tolist():
        free: list[int] = []
        for number in range(int(first[track]), int(first[track + 1])):
            at = next((k for k, until in enumerate(free) if until <= start[number]), len(free))
            if at == len(free):
                free.append(0)
            free[at] = int(end[number])
            slot[number] = at
        slots[track] = len(free)
    return slot, slots


def tracks(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """A window of the timeline.

    Options: ``from``, ``to`` (ps), ``columns``, ``ranks`` (those in sight), ``kind``: ``operations`` (a
    rank's tracks are what they do) or ``chunks`` (a track is a dimension). Where ``drawn`` is ``"spans"``,
    columns hold of each span the place of its track (that of the rank in ``ranks``, times the number of
    ``tracks``, plus the track), slot and slots of that track, operation, label, start and end. Where it is
    ``"density"``: how much of each column of each track is busy, 255 being all.
    """
    sim = feed.sim
    start_ps, end_ps, edges = window_of(options)
    kind = str(options.get("kind", KINDS[0]))
    if kind not in KINDS:
        raise InputError(f"unknown kind of tracks {kind!r}", where="timeline", hint=near(kind, KINDS))
    ranks = [int(rank) for rank in options.get("ranks", ())][:_MOST_RANKS]
    if any(not 0 <= rank < sim.ranks for rank in ranks):
        raise InputError(f"no such rank among {ranks[:4]}", where="timeline", hint=f"0 to {sim.ranks - 1}")
    index = index_of(feed, kind)
    places, found = [], []
    for at, rank in enumerate(ranks):
        for track in range(index.tracks):
            one, other = index.first[rank * index.tracks + track : rank * index.tracks + track + 2].tolist()
            inside = np.arange(one, other)
            inside = inside[(index.start_ps[one:other] < end_ps) & (index.end_ps[one:other] > start_ps)]
            places.append(np.full(len(inside), at * index.tracks + track))
            found.append(inside)
    place = np.concatenate(places) if places else np.zeros(0, np.int64)
    row = np.concatenate(found) if found else np.zeros(0, np.int64)
    about = {
        "from": start_ps, "to": end_ps, "columns": len(edges) - 1, "kind": kind, "ranks": ranks,
        "tracks": index.tracks, "count": len(row), "now_ps": sim.now_ps,
    }  # fmt: skip
    if len(row) > _MOST_SPANS:
        tracks_of = range(index.tracks)
        shares = [_busy(index, rank * index.tracks + track, edges) for rank in ranks for track in tracks_of]
        return {**about, "drawn": "density"}, pack("tracks", shares=np.concatenate(shares))
    texts: dict[str, int] = {}
    label = [texts.setdefault(sim.engine.about.label(int(one)), len(texts)) for one in index.row[row]]
    number = [sim.engine.about.number(int(one)) for one in index.row[row]]
    track_of = np.array(ranks, np.int64)[place // index.tracks] * index.tracks + place % index.tracks
    labels = [*list(texts)[:_MOST_LABELS], ""]
    return {**about, "drawn": "spans", "labels": labels}, pack(
        "tracks",
        place=place,
        slot=index.slot[row],
        slots=index.slots[track_of],
        number=number,
        label=np.minimum(label, _MOST_LABELS),
        start=index.start_ps[row],
        end=index.end_ps[row],
    )


def operation_span(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Describe an operation, or a phase of a chunk: ``path``, ``start``, ``end``, ``time`` (ps)."""
    path, start_ps, end_ps, time_ps = (options[name] for name in ("path", "start", "end", "time"))
    past = feed.session.at(int(time_ps))
    found = past.inspect(str(path))
    facts = [(label, text) for label, text in found["state"][:1]]
    facts += [("waits for" if k else "is", step.text) for k, step in enumerate(list(past.why(str(path)))[:4])]
    return span_of(str(path), found["title"], int(start_ps), int(end_ps), facts, int(time_ps)), []


def _busy(index: _Index, track: int, edges: np.ndarray) -> np.ndarray:
    """Which part of each column a track is busy, 255 being all; what overlaps counts once at most."""
    one, other = index.first[track], index.first[track + 1]
    start, end = (np.sort(column[one:other]) for column in (index.start_ps, index.end_ps))

    def before(times: np.ndarray) -> Any:
        """How long spans that begin at some times have lasted at each edge, summed."""
        count = np.searchsorted(times, edges)
        sums = np.concatenate([[0], np.cumsum(times)])
        return count * edges - sums[count]

    taken = np.diff(before(start) - before(end))
    return np.asarray(np.minimum(255, np.round(255 * taken / np.diff(edges))).astype("u1"))


VIEW = View(OperationFeed, {"tracks": tracks, "operation_span": operation_span})
