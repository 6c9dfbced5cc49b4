"""Messages as they were recorded, a row for each: from which rank to which, when, of which operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.engine.operations import ALGORITHMS, recent

from . import tables as t
from .flights import kept_flights, link_graph, replayed

if TYPE_CHECKING:
    from .state import MessageState

__all__ = ["flow_columns", "flows"]

_WHOSE = ("src", "dst", "tag", "operation", "phase", "step", "bytes")
"""Fields that distinguish messages; those that agree in all of them cross each link in their order."""


def flow_columns(engine: MessageState) -> dict[str, np.ndarray]:
    """Return the recorded messages in the order in which they were sent, as columns of numbers.

    With congestion the recording has a row for each link that a message crosses: they are put together.

    Returns
    -------
    dict of str to ndarray
        ``source``, ``target``, ``bytes``, ``start_ps`` (when it was sent), ``end_ps`` (when it arrives; at
        its next node, if it is not there yet), ``waited_ps`` (for links and ports), ``operation`` (the row
        of the sender's; -1: not known), ``phase`` and ``chunk`` (-1: none), ``tag``, ``link`` (the first;
        -1: not recorded by link), ``done``.
    """
    m = engine.machine
    rows, _, _ = kept_flights(engine)
    taken = [np.asarray(rows[name]) for name in _WHOSE]
    queued, start, end, link = (
        np.asarray(rows[name]) for name in ("queued_ns", "start_ns", "end_ns", "link")
    )
    message = np.arange(len(rows))
    graph = link_graph(engine) if m.config[0].congestion and len(rows) else None
    if graph is not None:
        order = np.lexsort([message, link, *taken])
        same = [column[order] for column in (link, *taken)]
        fresh = _fresh(same)
        nth = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
        which = np.empty(len(order), np.int64)
        which[order] = nth
        order = np.lexsort([message, which, *taken])
        fresh = _fresh([column[order] for column in (which, *taken)])
        message[order] = np.cumsum(fresh) - 1
    first = np.full(int(message.max(initial=-1)) + 1, len(rows))
    np.minimum.at(first, message, np.arange(len(rows)))
    last = np.zeros(len(first), np.int64)
    np.maximum.at(last, message, np.arange(len(rows)))
    waited, ended = np.zeros(len(first), np.int64), end[last]
    np.add.at(waited, message, start - queued)
    done = 1000 * ended <= engine.now_ps
    if graph is not None:
        done &= graph.dst[link[last]] == graph.gpus[np.asarray(rows.dst)[last]]
    given: dict[str, Any] = {
        "operation": np.asarray(rows.operation)[first], "phase": np.asarray(rows.phase)[first],
        "chunk": np.where(np.asarray(rows.phase)[first] > 0, np.asarray(rows.tag)[first] % t.NATIVE_TAGS, -1),
    }  # fmt: skip
    given |= replayed(engine, given)
    found = {
        "source": np.asarray(rows.src)[first], "target": np.asarray(rows.dst)[first],
        "bytes": np.asarray(rows.bytes)[first], "start_ps": 1000 * queued[first], "end_ps": 1000 * ended,
        "waited_ps": 1000 * waited, **given,
        "tag": np.asarray(rows.tag)[first],
        "link": link[first] if graph is not None else np.full(len(first), -1), "done": done,
    }  # fmt: skip
    found["phase"] = np.where(found["phase"] > 0, found["phase"], -1)
    order = np.lexsort([first, found["start_ps"]])
    return {name: np.asarray(column)[order] for name, column in found.items()}


def _fresh(columns: list[np.ndarray]) -> np.ndarray:
    """Return whether each row differs from the one before it."""
    if not len(columns[0]):
        return np.zeros(0, bool)
    return np.concatenate([[True], np.any([np.diff(column) != 0 for column in columns], axis=0)])


def _algorithms(engine: MessageState, found: dict[str, np.ndarray], recorded: np.ndarray) -> list[str]:
    """Return the algorithm of each message: of its phase, where this has ended, or of what is replayed."""
    passed = recent(engine.machine)
    columns = (np.asarray(passed[name]).tolist() for name in ("operation", "phase", "algorithm"))
    known = {(row, phase): ALGORITHMS[number] for row, phase, number in zip(*columns, strict=True)}
    keys = zip(found["operation"].tolist(), found["phase"].tolist(), recorded.tolist(), strict=True)
    return [text or known.get((row, phase), "") for row, phase, text in keys]


def flows(engine: MessageState) -> dict[str, Any]:
    """Return the recorded messages as a table.

    ``GBps`` is bytes over duration, 1 GB being 10^9 bytes; ``complete``, whether the recording still has all
    messages.
    """
    found, about = flow_columns(engine), engine.about
    known, which = np.unique(found["operation"], return_inverse=True)
    which = which.reshape(-1)

    def text(of: Any) -> np.ndarray:
        return np.array([of(row) if row >= 0 else "" for row in known.tolist()] or [""], object)[
            which if len(known) else []
        ]

    lasted = found["end_ps"] - found["start_ps"]
    times = ("start_ps", "end_ps")
    return {
        **{name: found[name] for name in ("source", "target", "bytes", *times)},
        "duration_ps": lasted,
        "rate_GBps": np.divide(1e3 * found["bytes"], lasted, out=np.zeros(len(lasted)), where=lasted > 0),
        "waited_ps": found["waited_ps"],
        "operation": text(about.label),
        "collective": text(about.what),
        "algorithm": _algorithms(engine, found, text(lambda row: about.label_of(row).algorithm)),
        "job": text(lambda row: about.label_of(row).job),
        **{name: found[name] for name in ("phase", "chunk", "tag", "done")},
        "complete": np.full(len(lasted), kept_flights(engine)[1] == 0),
    }
