"""Time by line and by phase of a program: of its thread blocks, and of the critical path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.critical_path import CriticalPath
from astranb.engine.protocol import Rows

from .critical_path import LinePath
from .spans import SPAN_STATES, spans
from .state import CacheLineState

__all__ = ["OUTSIDE", "by_line", "by_phase", "line_rows", "phase_rows"]

OUTSIDE: Final = "(outside: before the first operation, or after the last)"
"""Name in tables of the time in which a thread block is at no operation."""
_UNKNOWN: Final = "(a line that is not known)"
_COLUMNS: Final = tuple(f"{name.replace(' ', '_')}_ps" for name in SPAN_STATES)
_FENCE: Final = SPAN_STATES.index("fence")


def by_line(engine: CacheLineState, path: CriticalPath | None = None) -> Rows:
    """Add up the time of all thread blocks, and of a critical path, by line of the program.

    Parameters
    ----------
    engine : CacheLineState
    path : CriticalPath, optional
        Of this run.

    Returns
    -------
    list of dict
        A row a line that has been reached, in the order of the text, and one for what is outside of all
        operations: ``source``, ``line``, ``text``, how many ``operations`` have begun, the time of thread
        blocks in each state and ``idle_ps``, all together ``block_ps``, and with a path ``path_ps``. The
        rows add up to the time of the run, for ``block_ps`` times the number of thread blocks.

    Raises
    ------
    InputError
        The text of the program is not known.
    """
    if not engine.program.source.known:
        what = "the text of this program is not known"
        raise InputError(what, where="by_line", hint="by_phase() divides its time by phase")
    return [{name: value for name, value in row.items() if name != "part"} for row in line_rows(engine, path)]


def line_rows(engine: CacheLineState, path: CriticalPath | None = None) -> Rows:
    """The rows of :func:`by_line`, with ``part``: which of the program's parts holds the line."""
    source = engine.program.source
    count = len(engine.machine.ops)
    part, line = (np.asarray(n) if len(n) else np.full(count, -1) for n in (source.part, source.line))
    places, of = np.unique(np.stack([part, line]), axis=1, return_inverse=True)

    def named(number: int) -> dict[str, Any]:
        at, row = int(places[0][number]), int(places[1][number])
        if at < 0:
            return {"part": -1, "source": "", "line": 0, "text": _UNKNOWN}
        found = source.parts[at]
        return {"part": at, "source": found.name, "line": row, "text": found.line(row)}

    outside = {"part": -1, "source": "", "line": 0, "text": OUTSIDE}
    return _rows(engine, path, of.reshape(-1), len(places[0]), named, outside)


def by_phase(engine: CacheLineState, path: CriticalPath | None = None) -> Rows:
    """Add up the time of all thread blocks, and of a critical path, by phase of the program.

    Parameters
    ----------
    engine : CacheLineState
    path : CriticalPath, optional
        Of this run.

    Returns
    -------
    list of dict
        As of :func:`by_line`, with ``phase`` for the line, and when it began and ended (-1: not yet).
    """
    names, phases = engine.program.phase_names, engine.machine.phases

    def named(number: int) -> dict[str, Any]:
        row = phases[number]
        times = {"start_ps": int(row["started_ps"]), "end_ps": int(row["ended_ps"])}
        return {"phase": names[number], **times, "operations_left": int(row["left"])}

    outside = {"phase": OUTSIDE, "start_ps": -1, "end_ps": -1, "operations_left": 0}
    return _rows(engine, path, np.asarray(engine.machine.ops["phase"]), len(names), named, outside)


def phase_rows(engine: CacheLineState) -> Rows:
    """The rows of :func:`by_phase`, of phases only."""
    return by_phase(engine)[:-1]


def _rows(
    engine: CacheLineState,
    path: CriticalPath | None,
    of: np.ndarray,
    count: int,
    named: Callable[[int], dict[str, Any]],
    outside: dict[str, Any],
) -> Rows:
    """A row for each of some groups of operations, and one for the time that is of none of them."""
    ops, blocks = engine.machine.ops, engine.machine.blocks
    states = np.zeros((count, len(_COLUMNS)), np.int64)
    every = spans(engine)
    outside_ps = np.zeros(len(_COLUMNS), np.int64)
    late = every[every["op"] < 0]  # at no operation: its rank has not started
    np.add.at(outside_ps, late["state"], late["end_ps"] - late["start_ps"])
    found = every[every["op"] >= 0]
    op = np.asarray(found["op"])
    # A fence belongs to the operation that stands behind it; at the end of a block to the last one.
    fenced = (found["state"] == _FENCE) & (op + 1 < blocks["last_op"][found["block"]])
    np.add.at(states, (of[op + fenced], found["state"]), found["end_ps"] - found["start_ps"])
    begun = np.bincount(of[ops["started_ps"] >= 0], minlength=count)
    on_path = np.zeros(count + 1, np.int64)
    for segment in path.line_segments if isinstance(path, LinePath) else ():
        on_path[of[segment.op] if segment.op >= 0 else count] += segment.end_ps - segment.start_ps
    rows = []
    for number in range(count):
        spent = dict(zip(_COLUMNS, states[number].tolist(), strict=True))
        times = {**spent, "idle_ps": 0, "block_ps": int(states[number].sum())}
        rows.append({**named(number), "operations": int(begun[number]), **times})
    block_ps = len(blocks) * engine.time_ps - int(states.sum())
    spent = dict(zip(_COLUMNS, outside_ps.tolist(), strict=True))
    times = {**spent, "idle_ps": block_ps - int(outside_ps.sum()), "block_ps": block_ps}
    rows.append({**outside, "operations": 0, **times})
    if path is not None:
        for row, ps in zip(rows, on_path.tolist(), strict=True):
            row["path_ps"] = ps
    return [row for row in rows[:-1] if "phase" in row or _reached(row)] + rows[-1:]


def _reached(row: dict[str, Any]) -> bool:
    return bool(row["operations"] or row["block_ps"] or row.get("path_ps"))
