"""Reason for a rank's wait: the chain of waits from rank to rank, up to one that waits for no other."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.engine.operations import COMMUNICATION
from astranb.engine.why import WaitStep, Why

from . import tables as t
from .inspection import in_flight, states_of
from .instances import instances, pairs, rows_of
from .ready_times import members_of
from .state import MessageState

__all__ = ["explain_wait"]

_MOST = 64


def explain_wait(engine: MessageState, path: str) -> Why:
    """Follow the waits of a rank or an operation.

    Parameters
    ----------
    engine : MessageState
    path : str
        Of a rank, an operation or a rank's dimension; empty: the rank that has waited longest.
    """
    if path:
        place = engine.resolve(path)
        if place.npu < 0:
            why = Why(place.path, engine.now_ps)
            why.links.append(WaitStep("ranks and operations wait; this does not", place.path))
            return why
        rank, row, name = place.npu, place.operation, place.path
    else:
        rank, row = _longest(engine), -1
        name = f"rank[{rank}]"
    why = Why(name, engine.now_ps)
    chain = _Chain(engine, why)
    seen: set[int] = set()
    while rank >= 0 and len(why) < _MOST:
        row = chain.current(rank) if row < 0 else row
        if row in seen:
            why.circle = True
            break
        seen.add(row)
        rank, row = chain.follow(rank, row)
    return why


def _shown(time_ns: int) -> str:
    return format_time(int(time_ns) * 1000)


def _longest(engine: MessageState) -> int:
    """The rank that has waited longest: that computes nothing, and in what began first."""
    rows = rows_of(engine)
    running = np.flatnonzero((rows.start_ns >= 0) & (rows.end_ns < 0))
    computing = np.unique(rows.npu[running[rows.kind[running] == t.COMPUTE]])
    waits = running[~np.isin(rows.npu[running], computing)]
    if len(waits):
        return int(rows.npu[waits[np.argmin(rows.start_ns[waits])]])
    going = np.flatnonzero(engine.machine.npus.end_ns < 0)
    return int(going[0]) if len(going) else 0


class _Chain:
    """Waits of ranks at one moment.

    Parameters
    ----------
    engine : MessageState
    why : Why
        Gets the steps.
    """

    def __init__(self, engine: MessageState, why: Why) -> None:
        self.engine, self.why = engine, why
        self.number = instances(engine)
        sends, receives = pairs(engine)
        self.sender = dict(zip(receives.tolist(), sends.tolist(), strict=True))

    def current(self, rank: int) -> int:
        """The operation that a rank is in: a computation, else communication; -1: none."""
        about = self.engine.about
        rows: Any = self.engine.machine.operations
        mine = about.leaves_of(rank)
        running = mine[(rows.start_ns[mine] >= 0) & (rows.end_ns[mine] < 0)]
        for kinds in ((t.COMPUTE,), COMMUNICATION, (t.MEMORY,), (t.DELAY,)):
            found = running[np.isin(rows.kind[running], kinds)]
            if len(found):
                return int(found[0])
        states = states_of(self.engine, mine)
        for state in (1, 0):
            if (states == state).any():
                return int(mine[states == state][0])
        return -1

    def follow(self, rank: int, row: int) -> tuple[int, int]:
        """Add one step; returns the rank that is waited for next and its operation (-1: its current one)."""
        about, m = self.engine.about, self.engine.machine
        if row < 0:
            self._add(f"rank {rank} ended at {_shown(m.npus.end_ns[rank])}", f"rank[{rank}]", -1)
            return -1, -1
        parts, shown = about.parts, int(about.shown(np.array([row]))[0])
        if parts is not None and (at := parts.at(row)) >= 0:
            # What of a recorded operation is under way, or else has not begun.
            rows: Any = m.operations[row : int(parts.until[at])]
            left = np.flatnonzero(rows.end_ns < 0)
            row += int(left[np.argmin(rows.start_ns[left] < 0)]) if len(left) else len(rows) - 1
        o, path, text = m.operations[row], about.path(shown), about.text(shown)
        if o.end_ns >= 0:
            self._add(f"rank {rank} finished {text} at {_shown(o.end_ns)}", path, -1)
            return -1, -1
        if o.start_ns < 0:
            return self._before(rank, row, path, text)
        since = int(o.start_ns)
        if o.kind == t.COMPUTE:
            ends_ns = since + int(o.duration_ns)
            self._add(f"rank {rank} computes {text}, until {_shown(ends_ns)}", path, since, ends_ns)
        elif o.kind == t.DELAY and since == 0:
            ends_ns = int(o.duration_ns)
            late = f"rank {rank} has not begun: it starts late, at {_shown(ends_ns)}"
            self._add(late, path, since, ends_ns)
        elif o.kind == t.COLLECTIVE:
            begun = m.operations.npu[: len(self.number)][self.number == self.number[row]]
            missing = np.setdiff1d(members_of(m, int(o.group)), begun)
            if len(missing):
                more = f", nor have {len(missing) - 1:,} more" if len(missing) > 1 else ""
                first = int(missing[0])
                self._add(f"rank {rank} is in {text}, which rank {first} has not begun{more}", path, since)
                return first, -1
            done = (
                f"{int(o.streams_done)} of {plural(int(o.streams), 'chunk')} done"
                if o.streams
                else "under way"
            )
            self._add(f"rank {rank} is in {text}, which all have begun; {done}", path, since)
        elif o.kind == t.RECV and row not in self.sender:
            self._add(f"rank {rank} is in {text} from rank {int(o.peer)}, which has not sent it", path, since)
            return int(o.peer), -1
        elif o.kind in (t.SEND, t.RECV):
            peer = int(o.peer)
            flying = m.messages[in_flight(m)]
            source, target = (rank, peer) if o.kind == t.SEND else (peer, rank)
            under_way = bool(((flying.src == source) & (flying.dst == target) & (flying.tag == o.tag)).any())
            state = "is under way" if under_way else f"waits for rank {peer}"
            self._add(f"rank {rank} is in {text}; the message {state}", path, since)
            if not under_way and o.kind == t.SEND:
                return peer, -1
        else:
            self._add(f"rank {rank} is in {text}", path, since)
        return -1, -1

    def _before(self, rank: int, row: int, path: str, text: str) -> tuple[int, int]:
        """Add the step of an operation that has not begun: what it depends on, or what occupies its place."""
        m, about = self.engine.machine, self.engine.about
        left = [int(p) for p in about.waited_for(row) if m.operations.end_ns[p] < 0]
        if left:
            self._add(
                f"{text} of rank {rank} waits for {about.label(int(about.shown(np.array(left))[0]))}",
                path,
                -1,
            )
            return rank, left[0]
        rows: Any = m.operations
        mine = np.arange(about.start[rank], about.start[rank + 1])
        if row >= about.own:
            mine = mine[:0]  # what a replay does occupies nothing
        running = (rows.place[mine] == rows.place[row]) & (rows.start_ns[mine] >= 0) & (rows.end_ns[mine] < 0)
        if running.any():
            other = int(mine[running][0])
            self._add(f"{text} of rank {rank} needs the place of {about.label(other)}", path, -1)
            return rank, other
        self._add(f"{text} of rank {rank} can begin", path, -1)
        return -1, -1

    def _add(self, text: str, path: str, since_ns: int, until_ns: int = -1) -> None:
        since_ps, until_ps = (ns * 1000 if ns >= 0 else -1 for ns in (since_ns, until_ns))
        self.why.links.append(WaitStep(text, path, since_ps, until_ps))
