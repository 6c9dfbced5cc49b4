"""Answers for the timeline of recorded traces: spans of threads and streams, else shares of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.chakra import ACTIVITIES, RecordedTracks
from astranb.core.errors import InputError
from astranb.core.units import format_bytes, format_time
from astranb.widgets.feed import Message, TraceFeed, View, pack

from .timeline import shares, span_of, window_of

__all__ = ["VIEW", "moment", "names_of", "rows", "span", "spans"]

KIND = "tracks"
_MOST_SPANS = 8_000
_MOST_LABEL = 120


def rows(feed: TraceFeed, _options: dict[str, Any]) -> Message:
    """Report the rank and the name of each track."""
    found = feed.tracks
    numbers = np.arange(len(found.names)).tolist()
    names = [_clean(one) for one in found.names]
    table = {"gpu": found.rank.tolist(), "number": numbers, "engine": [0] * len(numbers), "names": names}
    return {"states": list(ACTIVITIES), "gpus": len(found.traces), KIND: table}, []


def spans(feed: TraceFeed, options: dict[str, Any]) -> Message:
    """A window, as :func:`astranb.widgets.views.timeline.spans` has it; ``labels`` are names of nodes.

    A folded rank shows what counts of all that it does at once, in the order of :data:`ACTIVITIES`.
    """
    found = feed.tracks
    start, end, _ = window_of(options)
    from_ns, to_ns = start // 1000, max(-(-end // 1000), start // 1000 + 1)
    columns = max(1, min(int(options["columns"]), 1024, to_ns - from_ns))
    edges = from_ns + (np.arange(columns + 1) * ((to_ns - from_ns) / columns)).astype(np.int64)
    edges[-1] = to_ns
    folds = _within(options.get("folds", []), len(found.traces), "rank")
    single = _within(options.get("tracks", []), len(found.names), "track")
    count = found.count(single, from_ns, to_ns)
    folded = found.count(np.flatnonzero(np.isin(found.rank, folds)), from_ns, to_ns)
    parts = {"fold_shares": _shares(found, folds, edges, ranks=True)}
    columns_of: dict[str, Any] = {}
    labels: list[str] = []
    if count <= _MOST_SPANS:
        row, place = found.spans(single, from_ns, to_ns)
        known: dict[str, int] = {}
        label = [known.setdefault(name, len(known)) for name in names_of(found, place)]
        labels = list(known)
        columns_of = {
            "row": row, "state": found.state[place], "label": label,
            "start": found.start_ns[place] * 1000.0, "end": found.end_of_ns[place] * 1000.0,
        }  # fmt: skip
    else:
        parts["track_shares"] = _shares(found, single, edges)
    present = np.flatnonzero(np.any([one.any(axis=(0, 1)) for one in parts.values()], axis=0))
    by_state = {name: one[:, :, present].transpose(2, 0, 1) for name, one in parts.items()}
    about = {
        "from": int(from_ns) * 1000, "to": int(to_ns) * 1000, "columns": columns, "kind": KIND,
        "now_ps": found.end_ns * 1000, "count": count, "folded": folded, "present": present.tolist(),
        "drawn": "spans" if len(parts) == 1 else "density", "labels": labels,
    }  # fmt: skip
    return about, pack("spans", **by_state, **columns_of)


def _shares(found: RecordedTracks, some: np.ndarray, edges: np.ndarray, *, ranks: bool = False) -> np.ndarray:
    return shares(found.spent(some, edges, ranks=ranks), edges, np.ones(len(some), np.int64))


def moment(feed: TraceFeed, options: dict[str, Any]) -> Message:
    """Describe what a track did at a time, in a line."""
    found = feed.tracks
    place = _place(found, options)
    if place < 0:
        return {"text": ""}, []
    length = format_time(int(found.end_of_ns[place] - found.start_ns[place]) * 1000)
    return {"text": f"{names_of(found, [place])[0]} · {ACTIVITIES[found.state[place]]} · {length}"}, []


def span(feed: TraceFeed, options: dict[str, Any]) -> Message:
    """Describe the node that a track was at, with what the trace says of it and what it waited for."""
    found = feed.tracks
    place = _place(found, options)
    if place < 0:
        return {"found": False}, []
    track = int(found.track[place])
    rank, row = int(found.rank[track]), int(found.row[place])
    trace, when = found.traces[rank], found.times[rank]
    facts = [("rank", f"{rank}, {found.names[track]}"), ("activity", ACTIVITIES[found.state[place]])]
    waited = int(when.own_ns[row] - when.start_ns[row])
    facts += [("waited", format_time(waited * 1000))] if waited else []
    if trace.comm_size[row] >= 0:
        group = trace.pg_name[row] or "all ranks"
        facts += [("size", format_bytes(int(trace.comm_size[row]))), ("group", _clean(group))]
    if trace.num_ops[row] > 0:
        facts.append(("operations", f"{int(trace.num_ops[row]):,}"))
    parents = sorted(trace.present_parents.of(row).tolist(), key=lambda one: -int(when.end_ns[one]))
    facts += [("after", _clean(trace.names[one] or "")) for one in parents[:4]]
    start, end = int(found.start_ns[place]) * 1000, int(found.end_of_ns[place]) * 1000
    path = f"rank[{rank}].node.{trace.id[row]}"
    return span_of(path, names_of(found, [place])[0], start, end, facts), []


def _place(found: RecordedTracks, options: dict[str, Any]) -> int:
    track = int(_within([options["track"]], len(found.names), "track")[0])
    return found.at(track, int(options["time"]) // 1000)


def names_of(found: RecordedTracks, places: Any) -> list[str]:
    """The names of the nodes of some spans."""
    ranks = found.rank[found.track[places]].tolist()
    rows_of = found.row[places].tolist()
    return [_clean(found.traces[rank].names[row] or "") for rank, row in zip(ranks, rows_of, strict=True)]


def _clean(text: str) -> str:
    return text[:_MOST_LABEL].encode("utf-8", "replace").decode()


def _within(numbers: Any, count: int, what: str) -> np.ndarray:
    found = np.asarray(numbers, np.int64).reshape(-1)
    if len(found) and not (found.min() >= 0 and found.max() < count):
        raise InputError(f"no {what} {found.max()}", where="timeline", hint=f"0 to {count - 1}")
    return found


VIEW = View(TraceFeed, {"rows": rows, "spans": spans, "moment": moment, "span": span})
