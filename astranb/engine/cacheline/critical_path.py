"""The critical path of a run: what the time consists of, without a gap, from the start to the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from astranb.engine.critical_path import CriticalPath, Segment
from astranb.engine.protocol import Replica
from astranb.gpu import tables as t

from .event_trace import EventTrace
from .paths import block_path, gpu_path, sm_path
from .state import CacheLineState
from .time_classes import STARTED_LATE
from .tracing import STALLED

__all__ = ["CAUSES", "WAITS", "LinePath", "LineSegment", "Walker", "search"]


class LinePath(CriticalPath):
    """The critical path of a run by cache lines.

    Nothing is estimated and nothing need have been recorded: the run is deterministic, and a
    private copy replays it and records every event. A wait behind other lines (in a queue, for
    an issue slot) is a segment of the line that waits.

    Parameters
    ----------
    engine : CacheLineState
    line_segments : list of LineSegment
        As :class:`~astranb.engine.cacheline.critical_path.Walker` finds them, one for each segment.

    Attributes
    ----------
    gpu_of_sm : list of int
    """

    def __init__(self, engine: CacheLineState, line_segments: list[LineSegment]) -> None:
        title = f"{engine.work.title} on {engine.infra.name}"
        super().__init__(title, (_segment(engine, one) for one in line_segments), CAUSES)
        self.line_segments = line_segments
        self.gpu_of_sm: list[int] = engine.machine.sms["gpu"].tolist()


def search(engine: CacheLineState, replica: Callable[[], Replica]) -> Generator[float, None, LinePath]:
    """Find the critical path of a run up to now, in small steps.

    Parameters
    ----------
    engine : CacheLineState
        It must not be moved meanwhile.
    replica : callable
        Gives a private copy of the run that can be moved.

    Yields
    ------
    float
        The part of the time that is explained.

    Returns
    -------
    LinePath
    """
    walker = Walker(engine, EventTrace(engine.events, replica))
    total = max(1, engine.now_ps)
    for left_ps in walker.steps():
        yield 1 - left_ps / total
    return LinePath(engine, walker.segments())


def _segment(engine: CacheLineState, segment: LineSegment) -> Segment:
    """Name the parts of a segment."""
    machine, fabric = engine.machine, engine.fabric
    kind, number = segment.where
    if kind == "link":
        resource = fabric.name(number)
    elif kind == "gpu":
        resource = gpu_path(fabric, number)
    elif kind == "sm":
        resource = sm_path(fabric, machine, number)
    else:
        resource = str(fabric.graph.name(number)) if number >= 0 else "a switch"
    op = machine.ops[segment.op] if segment.op >= 0 else None
    names = engine.program.phase_names
    return Segment(
        segment.start_ps,
        segment.end_ps,
        int(machine.blocks[segment.block].gpu),
        block_path(fabric, machine, segment.block),
        -1 if op is None else int(op.number),
        "" if op is None or not names else names[int(op.phase)],
        segment.cause,
        resource,
        passes=segment.passes,
    )


CAUSES = {
    STARTED_LATE: "its rank had not started",
    "launch": "before its kernel began",
    "compute": "a computation: a step of a tile, or one of known duration",
    "matrix units": "a tile has its operands, the matrix units of its SM compute for another one",
    "issue": "its instructions are issued, or wait for the SM's next slot",
    "stalled": "every outstanding slot of the SM is taken",
    "on chip": "between an SM, the L2 and the ports of a GPU",
    "queue": "in the queue of a link, behind other lines",
    "wire": "on the wire: bytes over bandwidth",
    "latency": "propagation along a link",
    "switch": "forwarded by a switch or a NIC, or reduced in a switch",
    "pacing": "delayed by the rate limit of its flow",
    "L2 queue": "in the queue of an L2 slice",
    "L2": "served by the L2",
    "HBM queue": "in the queue of a memory channel",
    "HBM": "read from memory",
    "fence": "a system-wide fence",
    "poll": "the signal has arrived, the poll that sees it has not returned",
    "signal": "waiting for a signal that has not arrived",
}
"""Causes of the time on a critical path, and their meanings."""

_QUEUES = ("queue", "L2 queue", "HBM queue")
WAITS = (*_QUEUES, "matrix units", "issue", "stalled", "pacing", "poll", "signal")
"""The causes that are about others: they can vanish when others are faster or come at other times."""


@dataclass(frozen=True, slots=True)
class LineSegment:
    """A segment of a critical path, by rows of tables.

    Attributes
    ----------
    start_ps, end_ps : int
    block : int
        Thread block whose line, instruction or wait it is, counted over all GPUs.
    op : int
        Row of the table of operations, -1: none.
    cause : str
        One of :data:`CAUSES`.
    where : tuple of (str, int)
        ``("link", number)``, ``("gpu", rank)``, ``("sm", number)``.
    passes : int
        How many adjoining segments were merged into it.
    """

    start_ps: int
    end_ps: int
    block: int
    op: int
    cause: str
    where: tuple[str, int]
    passes: int = 1


class Walker:
    """Finds the critical path up to now.

    From the event that ended the run (in the middle of one: from the last event that
    brought something about) it goes back to the event that made it possible, and so on: from
    an instruction to the data that it needed, from data along its route to the load, from a
    signal's arrival to the signaller. Where a line or an instruction had to wait for others,
    the wait is a segment of the path and the path goes on with the line itself.

    Each segment begins where the one before it ends; the first begins at 0, the last ends at
    the end of the run, or now.

    Parameters
    ----------
    engine : CacheLineState
    trace : EventTrace
        Of it.
    """

    def __init__(self, engine: CacheLineState, trace: EventTrace) -> None:
        self._machine, self._fabric, self._trace = engine.machine, engine.fabric, trace
        self._now_ps, self._late_ps = engine.now_ps, engine.late_ps
        self._paced = engine.network.roce is not None
        self._segments: list[LineSegment] = []

    def steps(self) -> Iterator[int]:
        """Go back event by event; gives the time that is not explained yet, in ps."""
        at = self._start()
        while at is not None:
            yield int(at["time_ps"])
            at = self._before(at)

    def segments(self) -> list[LineSegment]:
        """Return the segments found so far, in the order of time; adjoining ones of a kind are merged."""
        segments: list[LineSegment] = []
        for segment in reversed(self._segments):
            last = segments[-1] if segments else None
            same = ("block", "op", "cause", "where")
            if last is not None and all(getattr(last, n) == getattr(segment, n) for n in same):
                segments[-1] = replace(last, end_ps=segment.end_ps, passes=last.passes + segment.passes)
            else:
                segments.append(segment)
        return segments

    def _put(self, start_ps: int, end_ps: int, row: Any, cause: str, where: tuple[str, int]) -> None:
        if end_ps > start_ps:
            self._segments.append(
                LineSegment(int(start_ps), int(end_ps), int(row["block"]), int(row["op"]), cause, where)
            )

    # Where it begins ---------------------------------------------------------

    def _start(self) -> Any:
        """The event that ended the run; in the middle of one the last that brought something about."""
        blocks, trace = self._machine.blocks, self._trace
        everything = 2**62
        if (blocks["state"] == t.DONE).all():  # what may still happen is no part of the run
            return trace.last(everything, resumes=int(np.argmax(blocks["ended_ps"])))
        at = trace.last(everything)
        while at is not None and self._idle(at):
            at = trace.last(int(at["event"]))
        if at is None:
            at = trace.last(everything)
        if at is None:
            return None
        if at["kind"] in (t.HOP, t.L2, t.HBM, t.SWITCH) or (at["kind"] == t.ISSUE and at["request"] >= 0):
            self._leg(at, self._now_ps, None)
        elif at["kind"] == t.FENCE or at["kind"] == t.LAUNCH or at["kind"] == t.ISSUE:
            self._put(at["time_ps"], self._now_ps, at, "issue", self._sm(at))
        else:
            self._put(at["time_ps"], self._now_ps, at, "signal", self._gpu(at))
        return at

    def _idle(self, at: Any) -> bool:
        """Return whether an event brought nothing about, or was of a thread block that has ended since."""
        if at["what"] == t.POLL or at["returning"] in (t.IN_VAIN, STALLED):
            return True
        return bool(self._machine.blocks["state"][int(at["block"])] == t.DONE)

    # From an event to the one before -------------------------------------------

    def _before(self, at: Any) -> Any:
        kind = at["kind"]
        if kind == t.LAUNCH:
            return self._before_launch(at)
        if kind == t.FENCE and at["op"] >= 0 and self._machine.ops["kind"][at["op"]] == t.TILE:
            return self._before_step(at)
        if kind == t.POST:
            return self._before_post(at)
        if kind == t.FENCE and at["op"] >= 0 and self._machine.ops["kind"][at["op"]] == t.WAIT:
            return self._before_wake(at)
        if kind == t.FENCE:
            begun = self._resumed(at)
            spent = at["op"] >= 0 and self._machine.ops["kind"][at["op"]] == t.SPEND
            self._put(begun["time_ps"], at["time_ps"], at, "compute" if spent else "fence", self._gpu(at))
            return begun
        if kind == t.ISSUE:
            return self._before_issue(at)
        came = self._raised(at)
        return self._before_request(at) if came is None else came

    def _before_post(self, at: Any) -> Any:
        """A signal behind stores follows the last acknowledgement, the one before it, or its block.

        Where as many are posted as may be, it follows the acknowledgement of an earlier one.
        """
        ops, op, event, block = self._machine.ops, int(at["op"]), int(at["event"]), int(at["block"])
        moves = range(op - int(ops["before"][op]), op)
        begun_ps = int(at["time_ps"]) - int(self._machine.gpus["fence_ps"][self._gpu(at)[1]])
        before = self._trace.last(
            event,
            {"kind": t.POST, "block": block},
            {"kind": t.RETURN, "what": t.SIGNAL, "block": block, "time_ps": begun_ps},
            {"resumes": block, "time_ps": int(ops["started_ps"][op])},
            *({"kind": t.RETURN, "what": t.STORE, "op": move} for move in moves),
        )
        self._put(before["time_ps"], at["time_ps"], at, "fence", self._gpu(at))
        return before

    def _before_wake(self, at: Any) -> Any:
        """A role goes on when another one has raised the semaphore in shared memory high enough."""
        op, event = int(at["op"]), int(at["event"])
        ops, needed = self._machine.ops, int(self._machine.ops["value"][op])
        raised, kinds = int(ops["semaphore"][op]), ({"kind": t.ISSUE}, {"kind": t.POST})
        came = self._trace.last(event, *kinds, semaphore=raised)
        while came is not None and came["value"] - ops["value"][came["op"]] >= needed:
            came = self._trace.last(int(came["event"]), *kinds, semaphore=raised)
        assert came is not None  # noqa: S101 - it has been woken
        self._put(came["time_ps"], at["time_ps"], at, "signal", self._gpu(at))
        return came

    def _before_step(self, at: Any) -> Any:
        """A step waits for its stage to be full, the one before to end and the matrix units to be free."""
        machine, block, op = self._machine, int(at["block"]), int(at["op"])
        step = int(at["line"]) - 1
        tile = machine.tiles[int(machine.ops["value"][op])]
        start_ps = int(at["time_ps"]) - int(tile.step_ps)
        stage = int(machine.blocks["first_warp"][block]) + step % int(tile.stages)
        arrived = {"kind": t.RETURN, "warp": stage, "op": op}
        before = ({"kind": t.FENCE, "block": block},) if step else ()
        came = self._trace.last(int(at["event"]), arrived, *before)
        self._put(start_ps, at["time_ps"], at, "compute", self._sm(at))
        self._put(came["time_ps"], start_ps, at, "matrix units", self._sm(at))
        return came

    def _before_fetch(self, at: Any) -> Any:
        """A tile's request follows the one before, or a step that has left its stage free."""
        event, block = int(at["event"]), int(at["block"])
        mine = ({"kind": t.ISSUE, "block": block}, {"kind": t.FENCE, "block": block}, {"resumes": block})
        return self._trace.last(event, *mine)

    def _resumed(self, at: Any) -> Any:
        """The event that let the block go on, before an event of it."""
        return self._trace.last(int(at["event"]), resumes=int(at["block"]))

    def _before_launch(self, at: Any) -> Any:
        """A block begins when its kernel does, when another one leaves its place, or those before it end."""
        blocks, block, time_ps = self._machine.blocks, int(at["block"]), int(at["time_ps"])
        ops, event = self._machine.ops, int(at["event"])
        before = ops["block"][(ops["kind"] == t.RELEASE) & (ops["value"] == block)]
        begun = blocks["started_ps"][before]
        if len(before) and ((begun >= 0) & (begun <= time_ps)).all():
            last = self._trace.last(event, *({"resumes": int(other)} for other in before))
            if last is not None and (last["time_ps"] == time_ps or time_ps <= blocks["launch_ps"][block]):
                self._put(last["time_ps"], time_ps, at, "launch", ("gpu", int(blocks["gpu"][block])))
                return last
        if time_ps > blocks["launch_ps"][block]:
            left = np.flatnonzero((blocks["sm"] == blocks["sm"][block]) & (blocks["ended_ps"] == time_ps))
            for other in left[left != block]:
                found = self._trace.last(int(at["event"]), resumes=int(other))
                if found is not None:
                    return found
        gpu = int(blocks["gpu"][block])
        late_ps = min(int(self._late_ps[gpu]), time_ps)
        self._put(late_ps, time_ps, at, "launch", ("gpu", gpu))
        self._put(0, late_ps, at, STARTED_LATE, ("gpu", gpu))
        return None

    def _before_issue(self, at: Any) -> Any:
        event, warp = int(at["event"]), int(at["warp"])
        cause = "issue"
        if at["job"] >= 0 and at["what"] in (t.STORE, -1):
            # Its data came; what the SM did since was for others.
            enabled = self._trace.last(
                event, kind=t.RETURN, what=t.LOAD, returning=1, warp=warp, job=int(at["job"])
            )
        elif at["what"] in (t.SIGNAL, t.POLL):
            enabled = self._resumed(at)
            if at["what"] == t.POLL and self._polled_in_vain(at):
                cause = "signal"
        elif at["op"] >= 0 and self._machine.ops["kind"][at["op"]] == t.TILE:
            enabled = self._before_fetch(at)
        elif self._is_again(at):
            enabled = self._trace.last(event, kind=t.RETURN, request=int(at["request"]))
        else:
            mine = ({"resumes": int(at["block"])}, {"kind": t.ISSUE, "warp": warp})
            enabled = self._trace.last(event, *mine)
        self._issue(enabled, at, cause)
        return enabled

    def _issue(self, enabled: Any, at: Any, cause: str) -> None:
        """Cut the time from when an instruction could be issued to when it was, where the SM stalled."""
        start_ps, end_ps = int(enabled["time_ps"]), int(at["time_ps"])
        if cause == "signal" or start_ps == end_ps:
            self._put(start_ps, end_ps, at, cause, self._gpu(at) if cause == "signal" else self._sm(at))
            return
        sm = int(at["place"])
        issued = self._trace.between(int(enabled["event"]), int(at["event"]), kind=t.ISSUE, place=sm)
        stalls = np.flatnonzero(issued["returning"] == STALLED)
        until = np.append(issued["time_ps"], end_ps)
        for k in stalls[::-1]:
            stalled_ps, resumed_ps = int(issued["time_ps"][k]), int(until[k + 1])
            self._put(resumed_ps, end_ps, at, "issue", ("sm", sm))
            self._put(stalled_ps, resumed_ps, at, "stalled", ("sm", sm))
            end_ps = stalled_ps
        self._put(start_ps, end_ps, at, "issue", ("sm", sm))

    def _is_again(self, at: Any) -> bool:
        """Return whether a load is issued again: its packet was not there, or its flag was (LL128)."""
        if at["request"] < 0 or at["what"] != t.LOAD or not self._has_flag(at):
            return False
        before = self._trace.last(int(at["event"]), since_ps=self._begun_ps(at), request=int(at["request"]))
        same = ("op", "operand", "line")
        return bool(
            before is not None and before["kind"] == t.RETURN and all(before[n] == at[n] for n in same)
        )

    def _polled_in_vain(self, at: Any) -> bool:
        """Return whether an earlier poll of the same wait found nothing."""
        polled = {"kind": t.RETURN, "what": t.POLL, "warp": int(at["warp"]), "op": int(at["op"])}
        return self._trace.last(int(at["event"]), since_ps=self._begun_ps(at), **polled) is not None

    def _has_flag(self, at: Any) -> bool:
        """Return whether a load reads packets, which may not be there yet."""
        return bool(self._machine.operands["flag"][at["operand"]] >= 0)

    def _begun_ps(self, at: Any) -> int:
        """Return the start of an event's operation: none of its events is older."""
        return int(self._machine.ops["started_ps"][at["op"]])

    # What others brought about -------------------------------------------------

    def _raised(self, at: Any) -> Any:
        """The arrival of the signal or packet that a read found, where earlier reads were in vain."""
        if at["kind"] not in (t.L2, t.HBM) or at["returning"] != 1 or at["parent"] >= 0:
            return None
        trace, event = self._trace, int(at["event"])
        if at["what"] == t.POLL:
            if not self._polled_in_vain(at):
                return None
            needed = int(self._machine.ops["value"][at["op"]])
            signal = {"kind": t.L2, "what": t.SIGNAL, "semaphore": int(at["semaphore"])}
            came = trace.last(event, **signal)
            while came is not None and came["value"] - self._machine.ops["value"][came["op"]] >= needed:
                came = trace.last(int(came["event"]), **signal)
        elif at["what"] == t.LOAD and self._has_flag(at):
            came_back = {"kind": t.RETURN, "request": int(at["request"])}
            before = trace.last(event, since_ps=self._begun_ps(at), **came_back)
            if before is None or before["returning"] != t.IN_VAIN or before["op"] != at["op"]:
                return None
            place = {"target": int(at["target"]), "line": int(at["line"])}
            came = trace.last(event, kind=t.L2, what=t.STORE, **place)
        else:
            return None
        if came is not None:
            self._leg_end(at, came)
        return came

    def _leg_end(self, at: Any, came: Any) -> None:
        """Add the time between the arrival of a signal and the read that sees it."""
        self._put(came["time_ps"], at["time_ps"], at, "poll", self._gpu(at))

    # The route of a line -----------------------------------------------------------

    def _before_request(self, at: Any) -> Any:
        event, request, parent = int(at["event"]), int(at["request"]), int(at["parent"])
        # A switch may have made it out of another one, since that came there.
        made = ({"kind": t.SWITCH, "request": parent},) if parent >= 0 else ()
        before = self._trace.last(event, {"request": request}, *made)
        if before["request"] == request and self._is_last(before):
            before = self._trace.last(event, *made)
        elif before["request"] == request and before["kind"] == t.SWITCH:
            # A switch answers when the last one that it asked has answered.
            answer = self._trace.last(event, kind=t.SWITCH, parent=request)
            before = before if answer is None else answer
        if before["kind"] != t.RETURN:
            self._leg(before, int(at["came_ps"]), at)
        return before

    def _is_last(self, row: Any) -> bool:
        """Return whether a row is the end of a request, whose number then goes to another."""
        ends = row["kind"] == t.RETURN and row["returning"] != t.IN_VAIN
        return bool(ends or (row["kind"] == t.RETURN and row["what"] == t.POLL)) or bool(
            row["kind"] == t.SWITCH and row["parent"] >= 0
        )

    def _leg(self, row: Any, until_ps: int, following: Any) -> None:
        """Cut what passes from one event of a line to its next one."""
        gpus, kind, time_ps = self._machine.gpus, row["kind"], int(row["time_ps"])
        parts: list[tuple[int, str, tuple[str, int]]] = []  # (end, cause, where), in their order
        if kind == t.ISSUE:
            gpu = self._gpu(row)
            if self._paced and not gpus["mesh"][gpu[1]]:
                parts.append((time_ps + int(gpus["noc_ps"][gpu[1]]), "on chip", gpu))
                parts.append((until_ps, "pacing", gpu))
            else:
                parts.append((until_ps, "on chip", gpu))
        elif kind == t.HOP:
            time_ps = int(row["came_ps"])
            parts = self._crossing(row, until_ps)
        elif kind == t.SWITCH:
            node = self._machine.links["src"][following["place"]] if following is not None else -1
            parts.append((until_ps, "switch", ("node", int(node))))
        else:
            name, gpu = "HBM" if kind == t.HBM else "L2", ("gpu", int(row["target"]))
            to_memory = following is not None and following["kind"] == t.HBM
            out_ps = 0 if to_memory or gpus["mesh"][gpu[1]] else int(gpus["noc_ps"][gpu[1]])
            parts = [
                (int(row["start_ps"]), f"{name} queue", gpu),
                (max(int(row["start_ps"]), until_ps - out_ps), name, gpu),
                (until_ps, "on chip", gpu),
            ]
        cut = []
        for latest_ps, cause, where in parts:
            end_ps = min(max(latest_ps, time_ps), until_ps)
            cut.append((time_ps, end_ps, cause, where))
            time_ps = end_ps
        if time_ps < until_ps:
            cut.append((time_ps, until_ps, parts[-1][1], parts[-1][2]))
        for start_ps, end_ps, cause, where in reversed(cut):
            self._put(start_ps, end_ps, row, cause, where)

    def _crossing(self, row: Any, until_ps: int) -> list[tuple[int, str, tuple[str, int]]]:
        link = int(row["place"])
        if link >= len(self._fabric.links):
            here = int(row["target"] if not row["returning"] else self._gpu(row)[1])
            return [(until_ps, "on chip", ("gpu", here))]
        node = int(self._machine.links["dst"][link])
        rank = np.flatnonzero(np.asarray(self._fabric.gpus) == node)
        after = ("on chip", ("gpu", int(rank[0]))) if len(rank) else ("switch", ("node", node))
        where = ("link", link)
        return [
            (int(row["start_ps"]), "queue", where),
            (int(row["sent_ps"]), "wire", where),
            (int(row["ahead_ps"]), "latency", where),
            (until_ps, *after),
        ]

    def _gpu(self, row: Any) -> tuple[str, int]:
        return ("gpu", int(self._machine.blocks["gpu"][row["block"]]))

    def _sm(self, row: Any) -> tuple[str, int]:
        return ("sm", int(self._machine.blocks["sm"][row["block"]]))
