"""Tables of what happened, by column: what frames and traces are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.gpu import tables as t

from .recorder import FLIGHT_KINDS
from .spans import SPAN_STATES
from .spans import spans as all_spans
from .state import CacheLineState

__all__ = ["FRAMES", "signals", "spans"]

Columns = dict[str, Any]

_OP_TIMES = (("started_ps", "begins"), ("issued_ps", "is issued"), ("ended_ps", "is acknowledged"))


def spans(engine: CacheLineState) -> Columns:
    """Return the states of every thread block: ``sim.spans()`` with names, and each span's length.

    ``rank``, ``sm`` (of its GPU), ``block``, ``op`` (-1: its rank has not started), ``state``, ``phase``,
    ``start_ps``, ``end_ps``, ``duration_ps``.
    """
    found = all_spans(engine)
    return {
        "rank": np.asarray(found["gpu"]),
        "sm": np.asarray(found["sm"]),
        "block": np.asarray(found["block"]),
        "op": np.asarray(found["op"]),
        "state": np.array(SPAN_STATES)[found["state"]],
        "phase": _phases(engine, found["phase"]),
        "start_ps": np.asarray(found["start_ps"]),
        "end_ps": np.asarray(found["end_ps"]),
        "duration_ps": np.asarray(found["end_ps"] - found["start_ps"]),
    }


def flights(engine: CacheLineState) -> Columns:
    """Every line on every link, as far back as it was recorded; empty with ``record=False``.

    ``event`` (that put it on the wire), ``link``, ``kind``, ``op``, ``line`` (of its operation),
    ``queued_ps`` (it reached the link's entrance), ``start_ps`` (first bit on the wire),
    ``end_ps`` (last bit at the far end), ``waited_ps``.
    """
    _, found = engine.recorder.since(0)
    used = np.unique(found["link"])
    names = np.array([engine.fabric.name(int(link)) for link in used], object)
    return {
        "event": np.asarray(found["event"]),
        "link": names[np.searchsorted(used, found["link"])] if len(used) else names,
        "kind": np.array(FLIGHT_KINDS)[found["kind"]],
        "op": np.asarray(found["op"]),
        "line": np.asarray(found["line"]),
        "queued_ps": np.asarray(found["queued_ps"]),
        "start_ps": np.asarray(found["start_ps"]),
        "end_ps": np.asarray(found["end_ps"]),
        "waited_ps": np.asarray(found["start_ps"] - found["queued_ps"]),
    }


def activity(engine: CacheLineState) -> Columns:
    """Return the use of links, issue slots, L2 and HBM: a row an object and bin; without idle links.

    ``what`` (``link``, ``issue``, ``l2`` or ``hbm``), ``object``, ``bin_start_ps``, ``bin_ps``
    (its width), ``busy_fraction`` (of the bin; the mean over the GPU's SMs, slices or channels).
    """
    recorded = engine.recorder.activity()
    bins, bin_ps = int(recorded["bins"]), int(recorded["bin_ps"])
    kinds, objects, rows = [], [], []
    if bins:
        used = np.flatnonzero(recorded["link_busy"].any(axis=1))
        gpus = [engine.fabric.graph.name(int(node)) for node in engine.fabric.gpus]
        for kind, names, busy in (
            ("link", [engine.fabric.name(int(link)) for link in used], recorded["link_busy"][used]),
            ("issue", gpus, recorded["issue_busy"]),
            ("l2", gpus, recorded["l2_busy"]),
            ("hbm", gpus, recorded["hbm_busy"]),
        ):
            kinds += [kind] * len(names)
            objects += names
            rows.append(busy)
    busy = np.concatenate(rows) if rows else np.zeros((0, 0))
    return {
        "what": np.repeat(np.array(kinds, object), bins),
        "object": np.repeat(np.array(objects, object), bins),
        "bin_start_ps": np.tile(np.arange(bins, dtype=np.int64) * bin_ps, len(kinds)),
        "bin_ps": np.full(bins * len(kinds), bin_ps, np.int64),
        "busy_fraction": busy.ravel(),
    }


def signals(engine: CacheLineState) -> Columns:
    """Match each wait that has been passed with the signal that released it.

    ``semaphore``, ``signal_op``, ``wait_op`` (rows of the table ``ops``), ``from_rank``,
    ``to_rank``, ``issued_ps`` (of the signal), ``passed_ps`` (the wait), ``value`` (waited for).
    Signals count in the order of their issue: the one named is that with which the semaphore
    could first have held the value.
    """
    ops, blocks = engine.machine.ops, engine.machine.blocks
    sent = np.flatnonzero((ops["kind"] == t.NOTIFY) & (ops["issued_ps"] >= 0))
    sent = sent[np.lexsort((sent, ops["issued_ps"][sent], ops["semaphore"][sent]))]
    waited = np.flatnonzero((ops["kind"] == t.WAIT) & (ops["issued_ps"] >= 0) & (ops["value"] > 0))
    # Sums run on over all semaphores; a wait looks from where its own begins.
    sums = np.cumsum(ops["value"][sent], dtype=np.int64)
    first = np.searchsorted(ops["semaphore"][sent], ops["semaphore"][waited])
    before = np.append(0, sums)[first]
    at = np.searchsorted(sums, before + ops["value"][waited])
    inside = np.minimum(at, max(0, len(sent) - 1))
    raised = np.zeros(len(waited), bool)
    if len(sent):
        raised = (at < len(sent)) & (ops["semaphore"][sent[inside]] == ops["semaphore"][waited])
    source, waited = sent[inside[raised]] if len(sent) else sent, waited[raised]
    return {
        "semaphore": np.asarray(ops["semaphore"][waited]),
        "signal_op": source,
        "wait_op": waited,
        "from_rank": np.asarray(blocks["gpu"][ops["block"][source]]),
        "to_rank": np.asarray(blocks["gpu"][ops["block"][waited]]),
        "issued_ps": np.asarray(ops["issued_ps"][source]),
        "passed_ps": np.asarray(ops["issued_ps"][waited]),
        "value": np.asarray(ops["value"][waited]),
    }


def events(engine: CacheLineState) -> Columns:
    """Beginnings and ends of thread blocks, operations and phases, in the order of time.

    ``time_ps``, ``what``, ``rank``, ``block``, ``op`` (each -1 where it does not apply), ``phase``.
    """
    ops, blocks, phases = engine.machine.ops, engine.machine.blocks, engine.machine.phases
    names = np.array(engine.program.phase_names, object)
    parts: list[tuple[Any, ...]] = []
    begun, done = blocks["state"] != t.PENDING, blocks["state"] == t.DONE
    for field, mask, word in (("started_ps", begun, "begins"), ("ended_ps", done, "ends")):
        row = np.flatnonzero(mask & (blocks[field] >= 0))
        none, texts = np.full(len(row), -1), [f"a thread block {word}"] * len(row)
        parts.append((blocks[field][row], texts, blocks["gpu"][row], row, none, [""] * len(row)))
    for field, word in _OP_TIMES:
        row = np.flatnonzero(ops[field] >= 0)
        block = ops["block"][row]
        what = [f"{t.OP_KINDS[kind]} {word}" for kind in ops["kind"][row].tolist()]
        parts.append(
            (ops[field][row], what, blocks["gpu"][block], block, row, _phases(engine, ops["phase"][row]))
        )
    for field, mask, word in (
        ("started_ps", phases["left"] >= 0, "begins"),
        ("ended_ps", phases["left"] == 0, "ends"),
    ):
        row = np.flatnonzero(mask & (phases[field] >= 0))
        none = np.full(len(row), -1)
        parts.append((phases[field][row], [f"a phase {word}"] * len(row), none, none, none, names[row]))
    columns = [
        np.concatenate([np.asarray(part[k], object if k in (1, 5) else np.int64) for part in parts])
        for k in range(6)
    ]
    order = np.argsort(columns[0], kind="stable")
    return {
        name: column[order]
        for name, column in zip(("time_ps", "what", "rank", "block", "op", "phase"), columns, strict=True)
    }


def _phases(engine: CacheLineState, numbers: Any) -> Any:
    """Names of phases; a program may have none."""
    names = np.array([*engine.program.phase_names, ""], object)
    known = (np.asarray(numbers) >= 0) & (np.asarray(numbers) < len(names) - 1)
    return names[np.where(known, numbers, len(names) - 1)]


FRAMES = {"spans": spans, "flights": flights, "activity": activity, "signals": signals, "events": events}
"""Tables that ``Result.to_dataframe`` returns beside those of the result itself."""
