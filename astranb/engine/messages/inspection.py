"""Inspection of a rank, an operation, a queue, a dimension or a link."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_bytes, format_time
from astranb.engine.operations import (
    ALGORITHMS,
    MOST,
    listed,
    neighbours,
    operation_lines,
    rank_lines,
    when,
    written,
)
from astranb.infragraph import title_of
from astranb.net import DOWN

from . import tables as t
from .edits import values_of
from .link_ends import dimension_of, ends_of, link_title, waiting_for
from .paths import RunPart
from .state import MessageState
from .tables import BEGINS, DELIVERED, ENDS, PHASE_BEGINS, PHASE_ENDS, SENT
from .traffic import dimension

__all__ = ["HAPPENED", "INSPECTORS", "chunks_in", "in_flight", "states_of"]

_PLACES = ("CPU", "GPU", "network", "network, in the background", "nothing")


def states_of(engine: MessageState, rows: Any) -> Any:
    """Return the number of the state of each operation."""
    some = engine.machine.operations[rows]
    ready, start, end = np.where(some.waits <= 0, 1, 0), some.start_ns, some.end_ns
    if engine.about.parts is not None:
        start, end = (times[rows] for times in engine.times_ps())
    return np.where(end >= 0, 3, np.where(start >= 0, 2, ready))


def in_flight(m: t.MessageMachine) -> Any:
    """The rows of messages that are sent and have not arrived."""
    rows = t.in_use(m, "messages")
    return rows[(m.messages.sent[rows] == 1) & (m.messages.dst[rows] >= 0)]


def _rank(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, about = engine.machine, engine.about
    rows = about.rows_of(place.npu)
    states = states_of(engine, rows)
    flying = in_flight(m)
    flying = flying[(m.messages.src[flying] == place.npu) | (m.messages.dst[flying] == place.npu)]
    state = [
        *rank_lines(engine, rows, states),
        ("computed", format_time(int(engine.computed_ps()[place.npu]))),
        ("done at", when(engine.ends_ps()[place.npu])),
        ("speed", written("speed", values_of("rank", "speed", [place.npu], m, engine.edits)[0])),
    ]
    near = rows[(states == 2) | (states == 1)][:MOST]
    dims = [{"path": f"{place.path}.dim[{d}]", "text": f"dim {d}"} for d in range(m.config[0].dims)]
    return {
        "title": engine.rank_title(place.npu),
        "state": state,
        "in_flight": [_message(m, int(row)) for row in flying[:MOST]],
        "in_flight_count": len(flying),
        "children": [*listed(engine, near), *dims],
    }


def _message(m: t.MessageMachine, row: int) -> str:
    one = m.messages[row]
    return f"{format_bytes(int(one.bytes))} from rank {int(one.src)} to rank {int(one.dst)}"


def _op(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, about, row = engine.machine, engine.about, place.operation
    o = m.operations[row]
    state = operation_lines(engine, row)
    label = about.label_of(row)
    facts = (("algorithm", label.algorithm), ("job", label.job))
    state[1:1] = [(what, text) for what, text in facts if text]
    if o.owner < 0:
        state.insert(4, ("on", _PLACES[int(o.place)]))
    if o.end_ns < 0 and int(about.kind[row]) in (t.COMPUTE, t.MEMORY, t.REPLAY, t.DELAY):
        state.append(("takes", format_time(int(o.duration_ns) * 1000)))
    if size := int(o.bytes if o.owner < 0 else about.size[row]):
        state.append(("bytes" if o.owner < 0 else "sends", format_bytes(size)))
    if o.kind == t.COLLECTIVE and o.streams:
        state.append(("chunks", f"{int(o.streams_done)} of {int(o.streams)} done"))
    if int(about.kind[row]) in (t.SEND, t.RECV):
        state.append(("with", f"rank {int(o.peer)}, tag {int(o.tag)}"))
    waits, others = neighbours(engine, row)
    streams = t.in_use(m, "streams")
    chunks = [_chunk(engine, int(s)) for s in streams[m.streams.operation[streams] == row]]
    return {
        "title": title_of(place.path, about.label(row)),
        "state": state + waits,
        "in_flight": chunks[:MOST],
        "in_flight_count": len(chunks),
        "children": others,
    }


def _chunk(engine: MessageState, row: int) -> str:
    s = engine.machine.streams[row]
    state = "runs" if s.running else "waits"
    config = engine.machine.config[0]
    dim = int(s.queue) // int(config.queues) % int(config.dims)
    algorithm = ALGORITHMS[int(s.algorithm)]
    phase = f"phase {int(s.phase)} of {int(s.phases)}"
    return f"chunk {int(s.tag) % t.NATIVE_TAGS}: {phase}, {algorithm} in dim {dim}, {state}"


def chunks_in(m: t.MessageMachine, place: RunPart) -> Any:
    """The rows of chunks that run or wait in a queue."""
    rows = t.in_use(m, "streams")
    return rows[np.isin(m.streams.queue[rows], place.rows)]


def _queue(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m = engine.machine
    streams = chunks_in(m, place)
    running = int(m.queues.running[list(place.rows)].sum())
    state = [
        ("chunks", f"{running} run, {len(streams) - running} wait"),
        ("at once", str(int(m.config[0].concurrent))),
    ]
    if engine.recording:
        sent = m.traffic[place.npu * len(m.dims) + place.dim]
        state.append(("sent", f"{format_bytes(int(sent.bytes))} in {plural(int(sent.messages), 'message')}"))
    return {"state": state, "in_flight": [_chunk(engine, int(row)) for row in streams[:MOST]]}


def _dim(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, dim = engine.machine, place.dim
    row = m.dims[dim]
    state = [
        ("shape", f"{engine.about.topology[dim]} of {int(row.nodes)}"),
        ("bandwidth", f"{format_bandwidth(float(row.rate_Bpns) * 1e9)} of a link"),
        ("latency", f"{format_time(round(float(row.latency_ns) * 1000))} of a link"),
    ]
    if engine.recording:
        used = dimension(engine, dim)
        state.append(("sent", f"{format_bytes(used['bytes'])} in {plural(used['messages'], 'message')}"))
        state.append(("utilisation", f"{used['utilisation']:.1%} of its links' bandwidth so far"))
    return {"state": state}


def _named_dim(engine: MessageState, link: int) -> str:
    dim = dimension_of(engine.machine, link)
    return f"{dim} ({engine.about.topology[dim]})" if dim >= 0 else "none: of an infrastructure"


def _link(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, rows = engine.machine, list(place.rows)
    links, wires = m.links[rows], m.wires[rows]
    source, target = ends_of(engine.about, m, rows[0])
    state = [
        ("source", source), ("target", target), ("dimension", _named_dim(engine, rows[0])),
        ("bandwidth", format_bandwidth(float(wires.rate_Bpns.sum()) * 1e9)),
        ("latency", format_time(round(float(wires.latency_ns.max()) * 1000))),
    ]  # fmt: skip
    busy = links.busy
    if not m.config[0].congestion:
        state.append(("up", "no" if (busy & DOWN).any() else "yes"))
        return {"title": _link_title(engine, place), "state": state}
    sends = "yes" if (busy & 1).any() else "no; it is down" if (busy & DOWN).any() else "no"
    state += [("sends", sends), ("waiting", plural(sum(waiting_for(m, row) for row in rows), "message"))]
    lanes = 1 if engine.routed is None else sum(len(engine.routed.known(m).lanes[row]) for row in rows)
    if lanes > 1:
        state.append(("lanes", f"{lanes:,}"))
    if ((busy & 1 > 0) & (busy & DOWN > 0)).any():
        state.append(("down", "yes: messages wait"))
    if engine.recording:
        used = m.used[rows]
        carried = f"{format_bytes(int(used.bytes.sum()))} in {plural(int(used.messages.sum()), 'message')}"
        # The message on the wire counts from its begin on.
        share = min(1.0, int(used.busy_ns.max()) / max(1, engine.now_ps // 1000))
        state += [("carried", carried), ("busy", f"{share:.1%} of the time so far")]
    return {"title": _link_title(engine, place), "state": state}


def _link_title(engine: MessageState, place: RunPart) -> str:
    one = len(place.rows) == 1 and place.path.startswith("link[")
    return link_title(engine.about, engine.machine, place.rows[0]) if one else title_of(place.path)


INSPECTORS: Final = {"rank": _rank, "op": _op, "queue": _queue, "dim": _dim, "link": _link}
"""Functions that describe an object, by its kind."""

HAPPENED: Final = {
    BEGINS: "rank {npu} begins {what}",
    ENDS: "rank {npu} ends {what}",
    SENT: "rank {npu} sends to rank {other}",
    DELIVERED: "rank {npu} is sent a message by rank {other}",
    PHASE_BEGINS: "rank {npu} begins a phase of {what}",
    PHASE_ENDS: "rank {npu} ends a phase of {what}",
}
"""Texts of reported events."""
