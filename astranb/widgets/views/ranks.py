"""Activities of ranks for the timeline: spans where they have room, else shares of each column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.engine.operations import ACTIVITIES, BUBBLE, LATE, Activity, activity_of, waits_of
from astranb.sim import Simulation
from astranb.widgets.feed import Message, OperationFeed, View, pack

from .timeline import span_of, window_of

__all__ = [
    "KINDS",
    "VIEW",
    "doing_of",
    "every_track",
    "index_of",
    "operation_span",
    "overview",
    "sums_of",
    "tracks",
]

KINDS = ("operations", "chunks")
_MOST_SPANS = 6_000
_MOST_RANKS = 256
_MOST_LABELS = 512
_MOST_STRETCHES = 40_000
_IDLE = (LATE, BUBBLE)


@dataclass(frozen=True)
class _Index:
    """Spans in the order of rank, track and start; ``first`` holds where those of a rank's track begin.

    Up to ``ready_ps`` a span waits for another rank; ``waits`` is what this is, in :data:`.ACTIVITIES`.
    """

    first: np.ndarray
    tracks: int
    row: np.ndarray
    slot: np.ndarray
    slots: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    ready_ps: np.ndarray
    waits: np.ndarray


def index_of(feed: OperationFeed, kind: str, ranks: Collection[int]) -> _Index:
    """The spans of some ranks now; kept until time moves."""
    return feed.found((kind, tuple(ranks)), lambda: _index(feed, kind, ranks))


def _index(feed: OperationFeed, kind: str, ranks: Collection[int]) -> _Index:
    sim = feed.sim
    columns = _operations(feed, ranks) if kind == "operations" else _chunks(feed, ranks)
    npu, track, row, start, end, ready, waits = columns
    count = len(feed.tracks) if kind == "operations" else len(sim.engine.about.topology)
    key_of = npu * count + track
    order = np.lexsort((row, start, key_of))
    key_of, start, end = key_of[order], start[order], end[order]
    first = np.searchsorted(key_of, np.arange(sim.ranks * count + 1))
    slot, slots = _stacked(key_of, start, end, first)
    return _Index(first, count, row[order], slot, slots, start, end, ready[order], waits[order])


def _operations(feed: OperationFeed, ranks: Collection[int]) -> tuple[np.ndarray, ...]:
    engine = feed.sim.engine
    spans = feed.found("spans", engine.track_spans).of(ranks)
    waits = waits_of(engine, spans, feed.found("ready", engine.ready_ps))
    return spans.npu, spans.track, spans.row, spans.start_ps, spans.end_ps, *waits


def _chunks(feed: OperationFeed, ranks: Collection[int]) -> tuple[np.ndarray, ...]:
    sim = feed.sim
    rows = sim.engine.passed()
    over = [np.ascontiguousarray(rows[name]) for name in ("npu", "dim", "operation", "begun_ps", "end_ps")]
    now = sim.engine.running()
    now.append(np.full(len(now[0]), sim.now_ps))
    every = [np.concatenate(columns) for columns in zip(over, now, strict=True)]
    kept = np.isin(every[0], np.asarray(ranks, np.int64))
    npu, dim, row, start, end = (column[kept] for column in every)
    return npu, dim, row, start, end, start, np.zeros(len(row), np.int64)


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
    ``tracks``, plus the track), slot and slots of that track, operation, label, start and end, and until when
    it waits for another rank and what this is; and when each rank had not started, or had a bubble, and
    which of them it was. Where it is ``"density"``: how much of each column of each track is busy, 255
    being all; of operations follow, for each rank, how much of it waits for peers, had not started, and is
    a bubble.
    """
    sim = feed.sim
    start_ps, end_ps, edges = window_of(options)
    kind = str(options.get("kind", KINDS[0]))
    if kind not in KINDS:
        raise InputError(f"unknown kind of tracks {kind!r}", where="timeline", hint=near(kind, KINDS))
    ranks = [int(rank) for rank in options.get("ranks", ())][:_MOST_RANKS]
    if any(not 0 <= rank < sim.ranks for rank in ranks):
        raise InputError(f"no such rank among {ranks[:4]}", where="timeline", hint=f"0 to {sim.ranks - 1}")
    index = index_of(feed, kind, ranks)
    place, row = _inside(index, ranks, start_ps, end_ps)
    about = {
        "from": start_ps, "to": end_ps, "columns": len(edges) - 1, "kind": kind, "ranks": ranks,
        "tracks": index.tracks, "count": len(row), "now_ps": sim.now_ps,
    }  # fmt: skip
    idle = _idle(feed, ranks if kind == KINDS[0] else [], start_ps, end_ps)
    if len(row) + len(idle.rank) > _MOST_SPANS:
        first = index.first.tolist()
        shares = []
        for at, rank in enumerate(ranks):
            keys = range(rank * index.tracks, (rank + 1) * index.tracks)
            parts = [slice(first[key], first[key + 1]) for key in keys]
            # What waits for a message is a bubble, and no communication.
            begun = np.where(index.waits == BUBBLE, index.ready_ps, index.start_ps)
            shares += [_busy(begun[one], index.end_ps[one], edges) for one in parts]
            if kind == KINDS[0]:
                every = slice(first[keys[0]], first[keys[-1] + 1])
                shares.append(_busy(begun[every], index.ready_ps[every], edges))
                for what in _IDLE:
                    mine = (idle.rank == at) & (idle.state == what)
                    shares.append(_busy(idle.start_ps[mine], idle.end_ps[mine], edges))
        return {**about, "drawn": "density"}, pack("tracks", shares=np.concatenate(shares))
    labels, columns = _columns(feed, index, ranks, place, row, idle)
    named = [*labels[:_MOST_LABELS], ""]
    columns["label"] = np.minimum(columns["label"], _MOST_LABELS)
    return {**about, "drawn": "spans", "labels": named}, pack("tracks", **columns)


def every_track(feed: OperationFeed, kind: str, ranks: list[int]) -> Message:
    """All that some ranks did up to now, for a page without a kernel.

    It is as :func:`tracks` answers about all time where spans have room, of however many; ``columns`` is 0.
    """
    now_ps = feed.sim.now_ps
    index = index_of(feed, kind, ranks)
    place, row = _inside(index, ranks, 0, now_ps + 1)
    idle = _idle(feed, ranks if kind == KINDS[0] else [], 0, now_ps + 1)
    labels, columns = _columns(feed, index, ranks, place, row, idle)
    about = {
        "from": 0, "to": now_ps, "columns": 0, "kind": kind, "ranks": ranks, "tracks": index.tracks,
        "count": len(row), "now_ps": now_ps, "drawn": "spans", "labels": labels,
    }  # fmt: skip
    return about, pack("tracks", **columns)


def _inside(
    index: _Index, ranks: Sequence[int], start_ps: float, end_ps: float
) -> tuple[np.ndarray, np.ndarray]:
    """The spans of some ranks within a window: the place of the track of each, and its row in the index."""
    places, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at, rank in enumerate(ranks):
        for track in range(index.tracks):
            one, other = index.first[rank * index.tracks + track : rank * index.tracks + track + 2].tolist()
            inside = np.arange(one, other)
            inside = inside[(index.start_ps[one:other] < end_ps) & (index.end_ps[one:other] > start_ps)]
            places.append(np.full(len(inside), at * index.tracks + track))
            found.append(inside)
    return np.concatenate(places), np.concatenate(found)


def _columns(
    feed: OperationFeed, index: _Index, ranks: list[int], place: np.ndarray, row: np.ndarray, idle: Activity
) -> tuple[list[str], dict[str, Any]]:
    """Labels and columns of an answer that has spans."""
    about = feed.sim.engine.about
    texts: dict[str, int] = {}
    label = [texts.setdefault(about.label(int(one)), len(texts)) for one in index.row[row]]
    track_of = np.array(ranks, np.int64)[place // index.tracks] * index.tracks + place % index.tracks
    return list(texts), {
        "place": place,
        "slot": index.slot[row],
        "slots": index.slots[track_of],
        "number": [about.number(int(one)) for one in index.row[row]],
        "label": np.array(label, np.int64),
        "start": index.start_ps[row],
        "end": index.end_ps[row],
        "ready": index.ready_ps[row],
        "waits": index.waits[row],
        "idle_at": idle.rank,
        "idle_state": idle.state,
        "idle_start": idle.start_ps,
        "idle_end": idle.end_ps,
    }


def _idle(feed: OperationFeed, ranks: list[int], start_ps: float, end_ps: float) -> Activity:
    """Return when ranks in sight had not started, or had a bubble; a rank is its place in ``ranks``."""
    found = doing_of(feed, ranks)
    place = np.full(feed.sim.ranks, -1)
    place[ranks] = np.arange(len(ranks))
    kept = np.isin(found.state, _IDLE) & (place[found.rank] >= 0)
    kept &= (found.start_ps < end_ps) & (found.end_ps > start_ps)
    return Activity(place[found.rank[kept]], *(column[kept] for column in found[1:]))


def doing_of(feed: OperationFeed, ranks: Sequence[int] | None = None) -> Activity:
    """Return the activities of some ranks (all, if none are named) up to now; kept until time moves."""
    engine = feed.sim.engine
    name = ("doing", None if ranks is None else tuple(ranks))
    return feed.found(name, lambda: activity_of(engine, ranks, feed.found("ready", engine.ready_ps)))


def sums_of(feed: OperationFeed, sim: Simulation) -> np.ndarray:
    """Return the parts of the time of each rank up to its end or now: ranks x :data:`.ACTIVITIES`, in ps."""
    found = doing_of(feed) if sim is feed.sim else activity_of(sim.engine)
    return found.sums(len(sim.engine.ends_ps()))


def doing(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with the activities of ranks that have a box of their own, as numbers in :data:`.ACTIVITIES`.

    Options: ``at_ps``, around which the stretches are chosen where there are many. ``from`` and ``to`` say
    what is covered.
    """
    alike = feed.sim.engine.stands_for > 1
    boxes = [box.rank for box in feed.layout.boxes if box.rank >= 0 and box.count == 1]
    found = doing_of(feed, None if alike else boxes)
    rows = np.arange(len(found.rank))
    from_ps, to_ps = 0.0, float(feed.sim.now_ps)
    if len(rows) > _MOST_STRETCHES:
        at_ps = options.get("at_ps")
        away = np.abs(found.start_ps[rows] - (feed.sim.now_ps if at_ps is None else float(at_ps)))
        rows = np.sort(rows[np.argpartition(away, _MOST_STRETCHES)[:_MOST_STRETCHES]])
        from_ps, to_ps = float(found.start_ps[rows].min()), float(found.start_ps[rows].max())
    about = {"from": from_ps, "to": to_ps, "names": list(ACTIVITIES), "alike": alike}
    return about, pack(
        "doing",
        rank=found.rank[rows],
        state=found.state[rows],
        start=found.start_ps[rows],
        end=found.end_ps[rows],
    )


def overview(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with how much of each column of time some ranks (``folds``) spend on each activity.

    Options and answer are as of :func:`astranb.widgets.views.timeline.spans`, of one row for each rank.
    """
    start_ps, end_ps, edges = window_of(options)
    ranks = [int(rank) for rank in options.get("folds", ())]
    found = doing_of(feed, ranks)
    present = np.unique(found.state).tolist()
    shares = [
        _busy(found.start_ps[mine], found.end_ps[mine], edges)
        for state in present
        for rank in ranks
        for mine in [(found.state == state) & (found.rank == rank)]
    ]
    about = {
        "from": start_ps, "to": end_ps, "columns": len(edges) - 1, "kind": "activities",
        "now_ps": feed.sim.now_ps, "drawn": "density", "count": 0, "folded": len(found.rank),
        "present": present,
    }  # fmt: skip
    every = np.array(shares, np.uint8).reshape(len(present), len(ranks), len(edges) - 1)
    return about, pack("spans", fold_shares=every)


def operation_span(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Describe an operation, or a phase of a chunk: ``path``, ``start``, ``end``, ``time`` (ps)."""
    path, start_ps, end_ps, time_ps = (options[name] for name in ("path", "start", "end", "time"))
    past = feed.session.at(int(time_ps))
    found = past.inspect(str(path))
    facts = [(label, text) for label, text in found["state"][:1]]
    facts += [("waits for" if k else "is", step.text) for k, step in enumerate(list(past.why(str(path)))[:4])]
    return span_of(str(path), found["title"], int(start_ps), int(end_ps), facts, int(time_ps)), []


def _busy(start: np.ndarray, end: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the share of each column that spans cover, 255 being all; overlaps count once."""
    start, end = np.sort(start), np.sort(end)

    def before(times: np.ndarray) -> Any:
        """Return the summed lengths at each edge of spans that begin at some times."""
        count = np.searchsorted(times, edges)
        sums = np.concatenate([[0], np.cumsum(times)])
        return count * edges - sums[count]

    taken = np.diff(before(start) - before(end))
    return np.asarray(np.minimum(255, np.round(255 * taken / np.diff(edges))).astype("u1"))


VIEW = View(
    OperationFeed, {"doing": doing, "spans": overview, "tracks": tracks, "operation_span": operation_span}
)
