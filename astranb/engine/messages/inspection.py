"""What is known of a rank, an operation, a dimension or a link: words and what to go on to."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.units import format_bandwidth, format_bytes, format_time
from astranb.engine.operations.about import ALGORITHMS, STATES
from astranb.engine.operations.changes import written
from astranb.net.astrasim2 import DEAD

from . import tables as t
from .edits import value_of
from .link_ends import dimension_of, ends_of, waiting_for
from .paths import RunPart, resolve
from .state import MessageState
from .tables import BEGINS, DELIVERED, ENDS, PHASE_BEGINS, PHASE_ENDS, SENT
from .traffic import dimension

__all__ = [
    "chunks_in",
    "chunks_of",
    "in_flight",
    "inspect",
    "narrate",
    "running_chunks",
    "states_of",
]

_MOST = 64
_PLACES = ("CPU", "GPU", "network", "nothing")


def states_of(m: t.MessageMachine, rows: Any) -> Any:
    """Give the number of the state of each operation."""
    some = m.operations[rows]
    ready = np.where(some.waits <= 0, 1, 0)
    return np.where(some.end_ns >= 0, 3, np.where(some.start_ns >= 0, 2, ready))


def in_flight(m: t.MessageMachine) -> Any:
    """The rows of messages that are sent and have not arrived."""
    rows = t.in_use(m, "messages")
    return rows[(m.messages.sent[rows] == 1) & (m.messages.dst[rows] >= 0)]


def inspect(engine: MessageState, path: str) -> dict[str, Any]:
    """Look at an object.

    Parameters
    ----------
    engine : MessageState
    path : str

    Returns
    -------
    dict
        ``title``, ``kind``, ``path``, ``state`` (pairs of words), ``in_flight`` (texts),
        ``in_flight_count``, ``children`` (``path`` and ``text`` of each).
    """
    place = resolve(path, engine.about, engine.machine)
    make = {"rank": _rank, "op": _op, "queue": _queue, "dim": _dim, "link": _link}[place.kind]
    found: dict[str, Any] = {
        "title": place.path,
        "kind": place.kind,
        "path": place.path,
        "in_flight": [],
        "children": [],
    }
    found |= make(engine, place)
    found.setdefault("in_flight_count", len(found["in_flight"]))
    return found


def _time(ns: int) -> str:
    return format_time(int(ns) * 1000) if ns >= 0 else "not yet"


def _child(engine: MessageState, row: int) -> dict[str, str]:
    state = STATES[int(states_of(engine.machine, np.array([row]))[0])]
    return {"path": engine.about.path(row), "text": f"{engine.about.label(row)} · {state}"}


def _rank(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, about = engine.machine, engine.about
    npu = m.npus[place.npu]
    rows = np.arange(about.start[place.npu], about.start[place.npu + 1])
    states = states_of(m, rows)
    counts = np.bincount(states, minlength=4).tolist()
    flying = in_flight(m)
    flying = flying[(m.messages.src[flying] == place.npu) | (m.messages.dst[flying] == place.npu)]
    running = rows[states == 2]
    state = [
        (
            "operations",
            f"{len(rows):,}: " + ", ".join(f"{c:,} {w}" for w, c in zip(STATES, counts, strict=True) if c),
        ),
        ("under way", ", ".join(about.text(int(row)) for row in running[:4]) or "nothing"),
        ("computed", format_time(int(engine.computed_ps()[place.npu]))),
        ("done at", _time(npu.end_ns)),
        ("speed", written("speed", value_of("rank", "speed", place.npu, m, engine.edits))),
    ]
    near = rows[(states == 2) | (states == 1)][:_MOST]
    dims = [{"path": f"{place.path}.dim[{d}]", "text": f"dim {d}"} for d in range(m.config[0].dims)]
    return {
        "state": state,
        "in_flight": [_message(m, int(row)) for row in flying[:_MOST]],
        "in_flight_count": len(flying),
        "children": [*(_child(engine, int(row)) for row in near), *dims],
    }


def _message(m: t.MessageMachine, row: int) -> str:
    one = m.messages[row]
    return f"{format_bytes(int(one.bytes))} from rank {int(one.src)} to rank {int(one.dst)}"


def _op(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, about, row = engine.machine, engine.about, place.operation
    o = m.operations[row]
    state = [
        ("what", about.what(row)),
        ("state", STATES[int(states_of(m, np.array([row]))[0])]),
        ("begins", _time(o.start_ns)),
        ("ends", _time(o.end_ns)),
        ("on", _PLACES[int(o.place)]),
    ]
    if o.start_ns >= 0 and o.end_ns >= 0:
        state.append(("took", format_time(int(o.end_ns - o.start_ns) * 1000)))
    elif int(about.kind[row]) in (t.COMPUTE, t.MEMORY, t.REPLAY):
        state.append(("takes", format_time(int(o.duration_ns) * 1000)))
    if o.bytes:
        state.append(("bytes", format_bytes(int(o.bytes))))
    if o.kind == t.COLLECTIVE and o.streams:
        state.append(("chunks", f"{int(o.streams_done)} of {int(o.streams)} done"))
    if o.kind in (t.SEND, t.RECV):
        state.append(("with", f"rank {int(o.peer)}, tag {int(o.tag)}"))
    parents = about.parents_of(row)
    left = [int(p) for p in parents if m.operations[int(p)].end_ns < 0]
    if left:
        state.append(("waits for", ", ".join(about.label(p) for p in left[:4])))
    children = about.children_of(row)
    streams = t.in_use(m, "streams")
    chunks = [_chunk(engine, int(s)) for s in streams[m.streams.operation[streams] == row]]
    return {
        "title": f"{place.path}: {about.label(row)}",
        "state": state,
        "in_flight": chunks[:_MOST],
        "in_flight_count": len(chunks),
        "children": [_child(engine, int(r)) for r in [*parents[:_MOST], *children[:_MOST]]],
    }


def chunks_of(m: t.MessageMachine, row: int) -> tuple[int, int]:
    """How many chunks of an operation are done, of how many."""
    o = m.operations[row]
    return int(o.streams_done), int(o.streams)


def running_chunks(m: t.MessageMachine) -> Any:
    """Phases of chunks that are under way: ranks, dimensions, operations, and when they began (ns)."""
    rows = t.in_use(m, "streams")
    rows = rows[m.streams.running[rows] == 1]
    each = int(m.config[0].queues)
    dim = (m.streams.queue[rows] % (each * m.config[0].dims)) // each
    found = (m.streams.npu[rows], dim, m.streams.operation[rows], m.streams.begun_ns[rows])
    return [np.asarray(column) for column in found]


def _chunk(engine: MessageState, row: int) -> str:
    s = engine.machine.streams[row]
    where = "runs" if s.running else "waits"
    config = engine.machine.config[0]
    dim = int(s.queue) // int(config.queues) % int(config.dims)
    how = ALGORITHMS[int(s.algorithm)]
    phase = f"phase {int(s.phase)} of {int(s.phases)}"
    return f"chunk {int(s.tag) % t.NATIVE_TAGS}: {phase}, {how} in dim {dim}, {where}"


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
        state.append(("sent", f"{format_bytes(int(sent.bytes))} in {int(sent.messages):,} messages"))
    return {"state": state, "in_flight": [_chunk(engine, int(row)) for row in streams[:_MOST]]}


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
        state.append(("sent", f"{format_bytes(used['bytes'])} in {used['messages']:,} messages"))
        state.append(("utilisation", f"{used['utilisation']:.1%} of its links' bandwidth so far"))
    return {"state": state}


def _named_dim(engine: MessageState, link: int) -> str:
    dim = dimension_of(engine.machine, link)
    return f"{dim} ({engine.about.topology[dim]})" if dim >= 0 else "none: of an infrastructure"


def _link(engine: MessageState, place: RunPart) -> dict[str, Any]:
    m, row = engine.machine, place.rows[0]
    link = m.links[row]
    waiting = waiting_for(m, row)
    source, target = ends_of(engine.about, m, row)
    state = [
        ("from", source), ("to", target), ("dimension", _named_dim(engine, row)),
        ("bandwidth", format_bandwidth(float(m.wires[row].rate_Bpns) * 1e9)),
        ("latency", format_time(round(float(m.wires[row].latency_ns) * 1000))),
        ("sends", "yes" if link.busy & 1 else "no; it is down" if link.busy else "no"),
        ("waiting", f"{waiting:,} messages"),
    ]  # fmt: skip
    if link.busy & 1 and link.busy & DEAD:
        state.append(("down", "yes: messages wait"))
    if engine.recording:
        used = m.used[row]
        state.append(("carried", f"{format_bytes(int(used.bytes))} in {int(used.messages):,} messages"))
        state.append(("busy", f"{int(used.busy_ns) / max(1, engine.now_ps // 1000):.1%} of the time so far"))
    return {"title": f"{place.path}: {source} to {target}", "state": state}


_SAID = {
    BEGINS: "rank {npu} begins {what}",
    ENDS: "rank {npu} ends {what}",
    SENT: "rank {npu} sends to rank {other}",
    DELIVERED: "rank {npu} is sent a message by rank {other}",
    PHASE_BEGINS: "rank {npu} begins a phase of {what}",
    PHASE_ENDS: "rank {npu} ends a phase of {what}",
}


def narrate(engine: MessageState) -> str:
    """Say in one line what happened last."""
    events = engine.count("events")
    if not events:
        return "nothing has happened yet"
    watch = engine.machine.watch[0]
    at = format_time(engine.now_ps)
    if watch.what < 0 or watch.step != events - 1:
        return f"{at}: event {events:,}"
    what = engine.about.text(int(watch.operation)) if watch.operation >= 0 else ""
    said = _SAID[int(watch.what)].format(npu=int(watch.npu), other=int(watch.other), what=what)
    return f"{at}: {said}"
