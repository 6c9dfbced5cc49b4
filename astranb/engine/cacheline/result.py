"""Results of a run by cache lines: per rank, per link, per thread block, and words about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import numpy as np

from astranb.collectives import Joined
from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_bytes, format_time
from astranb.engine.critical_path import CriticalPath
from astranb.engine.jobs import job_rows
from astranb.engine.operations import KINDS, divide, rank_columns, tracks_of
from astranb.engine.protocol import Bound, Headline
from astranb.gpu import tables as t
from astranb.infragraph import LINK_PROPERTIES
from astranb.workload.astrasim2 import COLLECTIVE, COLLECTIVE_NAMES, DELAY

from .critical_path import CAUSES
from .ethernet import explain_ethernet, paused_ps, rates
from .faults import queued_ps
from .frames import FRAMES
from .machine import busy_until
from .program_times import by_line, phase_rows
from .state import CacheLineState
from .time_classes import BLOCK_CLASSES, BLOCK_COLUMNS, STARTED_LATE, TIME_CLASSES, doing
from .workload import Graph

__all__ = ["COALESCED_PERCENT", "bound", "breakdown", "explain", "headline", "links", "per_rank", "tables"]

COALESCED_PERCENT: Final = {2: 5, 4: 8, 8: 9, 16: 16}
"""Largest error of runs with so many lines a request, in percent: the table of docs/fidelity.md."""
_COLLECTIVES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_MOST_CAUSES = 6


def per_rank(engine: CacheLineState) -> list[dict[str, Any]]:
    """One dict a rank: its end, how its operations and how its thread blocks divide its time.

    The parts of thread blocks are means over the rank's blocks and add up to the time of the run.
    """
    columns, counts = _columns(engine), np.bincount(engine.machine.blocks["gpu"], minlength=engine.ranks)
    return [
        {
            "rank": rank,
            "name": engine.fabric.graph.name(int(engine.fabric.gpus[rank])),
            "done": bool(engine.machine.gpus["ended_ps"][rank] >= 0),
            **{name: column[rank] for name, column in columns.items()},
            "blocks": int(counts[rank]),
            **{column: parts[part] for part, column in BLOCK_COLUMNS.items()},
            "blocks_idle_ps": parts["idle"],
        }
        for rank, parts in enumerate(_parts(engine))
    ]


def _parts(engine: CacheLineState) -> list[dict[str, int]]:
    """For each rank, how long its thread blocks were in each state, and idle, on average."""
    machine, now, rows = engine.machine, engine.now_ps, []
    for rank in range(len(machine.gpus)):
        mine = machine.blocks[machine.blocks["gpu"] == rank]
        spent = {part: int(mine[f"{part}_ps"].sum()) for part in BLOCK_CLASSES}
        for state, part in ((t.MOVING, "moving"), (t.WAITING, "waiting"), (t.DRAINING, "draining")):
            under_way = mine[mine["state"] == state]
            spent[part] += int((now - under_way["since_ps"]).sum())
        row = {part: total // max(1, len(mine)) for part, total in spent.items()}
        rows.append({**row, "idle": max(0, engine.time_ps - sum(row.values()))})
    return rows


def _columns(engine: CacheLineState) -> dict[str, list[int]]:
    """Divide each rank's time by its operations; one collective is an operation from 0 to its end.

    A product in its program is a computation meanwhile.
    """
    ended, work = np.asarray(engine.machine.gpus["ended_ps"]), engine.work
    end = np.where(ended >= 0, ended, engine.now_ps).astype(np.int64)
    computed = np.zeros(len(end), np.int64)
    rank, start, until, track = np.arange(len(end)), computed, end, np.ones(len(end), np.int64)
    if isinstance(work, Graph):
        begun = {
            (one, row): times
            for (one, row), times in _begun(engine).items()
            if work.operations[one].rows["kind"][row] != DELAY
        }
        kinds = [work.operations[one].rows["kind"][row] for one, row in begun]
        rank, track = np.array([one for one, _ in begun], np.int64), tracks_of(np.array(kinds, np.int64))
        start, until = np.array(list(begun.values()), np.int64).reshape(-1, 2).T
        until, computed = np.where(until >= 0, until, engine.now_ps), work.compute_ps()
    elif len(engine.program.tiles):  # products of a collective's own program
        ops = engine.machine.ops
        tile = np.flatnonzero((ops["kind"] == t.TILE) & (ops["started_ps"] >= 0))
        of, ended = engine.machine.blocks["gpu"][ops["block"][tile]], ops["ended_ps"][tile]
        rank, start = np.concatenate([rank, of]), np.concatenate([start, ops["started_ps"][tile]])
        until = np.concatenate([until, np.where(ended >= 0, ended, engine.now_ps)])
        track = np.concatenate([track, np.zeros(len(tile), np.int64)])
    return rank_columns(divide(rank, start, until, track, end), computed)


def breakdown(engine: CacheLineState) -> dict[str, float]:
    """Fractions of all thread blocks' time, by what they did; they add up to 1."""
    rows = _parts(engine)
    named = {**BLOCK_CLASSES, "idle": "idle"}
    sums = {name: sum(row[part] for row in rows) for part, name in named.items()}
    total = max(1, sum(sums.values()))
    if engine.late_ps.any():  # a part of the idle time that has a name of its own
        late_ps = int(np.minimum(engine.late_ps, engine.time_ps).sum())
        sums |= {"idle": sums["idle"] - late_ps, STARTED_LATE: late_ps}
    return {part: value / total for part, value in sums.items()}


def bound(engine: CacheLineState) -> Bound | None:
    """The busiest GPU port: the run could not have been faster than its bytes take."""
    machine, best_ps, found = engine.machine, 0.0, None
    between = machine.links[: len(engine.fabric.links)]
    for rank, node in enumerate(engine.fabric.gpus):
        for field, direction in (("src", "out of"), ("dst", "into")):
            mine = between[(between[field] == node) & (between["messages"] > 0)]
            if len(mine):
                rate = float(mine["bandwidth_Bps"].sum())
                need_ps = float(mine["bytes"].sum()) / rate * 1e12
                if need_ps > best_ps:
                    name = f"{direction} GPU{rank} ({format_bandwidth(rate)})"
                    best_ps, found = need_ps, Bound(name, f"gpu[{rank}]", int(need_ps))
    return found


def _limits(engine: CacheLineState) -> list[str]:
    """The bandwidth limit in words."""
    found = bound(engine)
    if found is None or not engine.time_ps:
        return []
    share = found.alone_ps / engine.time_ps
    took = f"take {format_time(found.alone_ps)} at full rate, {share:.0%} of the time"
    wire = f"Bandwidth limit: the bytes {found.name}, headers and acknowledgements included, {took}"
    return [f"{wire}; the other {1 - share:.0%} is latency and waiting."]


def links(engine: CacheLineState) -> list[dict[str, Any]]:
    """A row a link: what it carried, how busy it was, and what queued at it."""
    links, fabric, total = engine.machine.links, engine.fabric, max(1, engine.time_ps)
    ethernet = engine.network.roce is not None
    queued = queued_ps(engine.machine, engine.now_ps)
    busy = busy_until(links, engine.now_ps)
    return [
        {
            "link": fabric.name(number),
            **dict(zip(("source", "target"), fabric.short_ends([number]), strict=True)),
            **{one.column: int(row[one.column]) for one in LINK_PROPERTIES if one.in_tables},
            "messages": int(row["messages"]),
            "bytes": int(row["bytes"]),
            "busy_ps": int(row["busy_ps"]),
            "queued_ps": int(queued[number]),
            "utilisation": int(busy[number]) / total,
            **(_ethernet(engine, number) if ethernet else {}),
        }
        for number, row in enumerate(links[: len(fabric.links)])
    ]


def _ethernet(engine: CacheLineState, link: int) -> dict[str, int]:
    row = engine.machine.links[link]
    return {
        "pauses": int(row.pauses),
        "paused_ps": paused_ps(engine.machine, np.array([link]), engine.now_ps),
        "marked": int(row.marked),
        "most_queued": int(row.most_queued),
        "most_stored": int(row.most_stored),
    }


def _blocks(engine: CacheLineState) -> list[dict[str, Any]]:
    rows, channels = [], engine.program.block_channel.tolist()
    for number, row in enumerate(engine.machine.blocks):
        sm = int(row["sm"] - engine.machine.gpus["first_sm"][row["gpu"]]) if row["sm"] >= 0 else -1
        rows.append(
            {
                "block": number, "rank": int(row["gpu"]), "channel": channels[number],
                "unit": ("thread block", "copy engine", "NIC")[row["engine"]], "sm": sm,
                "state": doing(int(row["state"])), "started_ps": int(row["started_ps"]),
                "ended_ps": int(row["ended_ps"]), "polls": int(row["polls"]),
                **{column: int(row[f"{part}_ps"]) for part, column in BLOCK_COLUMNS.items()},
            }
        )  # fmt: skip
    return rows


def _ops(engine: CacheLineState) -> list[dict[str, Any]]:
    ops, names = engine.machine.ops, engine.program.phase_names
    columns = {
        n: np.asarray(ops[n]).tolist()
        for n in ("block", "number", "lines", "started_ps", "issued_ps", "ended_ps")
    }
    rank = engine.machine.blocks["gpu"][ops["block"]].tolist()
    kinds = [t.OP_KINDS[k] for k in ops["kind"]]
    phases = [names[p] for p in ops["phase"]]
    return [
        {"rank": r, "kind": k, "phase": p, **dict(zip(columns, values, strict=True))}
        for r, k, p, values in zip(rank, kinds, phases, zip(*columns.values(), strict=True), strict=True)
    ]


def _begun(engine: CacheLineState) -> dict[tuple[int, int], tuple[int, int]]:
    """Return start and end of a workload's operations, by rank and row, in their order; -1: not yet."""
    blocks, program = engine.machine.blocks, cast("Joined", engine.program)
    started, ended = (np.asarray(blocks[name]).tolist() for name in ("started_ps", "ended_ps"))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for node, first, last in zip(program.nodes, program.first, program.completion, strict=True):
        key = node.rank, node.row
        if node.row >= 0 and (key in found or started[first] >= 0):
            # A row of several nodes begins with the earliest of them, and ends with the last.
            begun = [ps for ps in (started[first], found.get(key, (-1,))[0]) if ps >= 0]
            found[key] = (min(begun), ended[last])
    return dict(sorted(found.items()))


def _operations(engine: CacheLineState, graph: Graph) -> list[dict[str, Any]]:
    """A row for each operation of a workload that has begun; one under way ends now."""
    rows = []
    for (rank, row), (start, end) in _begun(engine).items():
        one, until = graph.operations[rank], end if end >= 0 else engine.now_ps
        kind, named = int(one.rows["kind"][row]), one.names[row] if one.names is not None else None
        what = _COLLECTIVES[int(one.rows["collective"][row])] if kind == COLLECTIVE else KINDS[kind]
        rows.append(
            {
                "rank": rank, "operation": row, "name": named or what, "what": what,
                "bytes": int(one.rows["bytes"][row]), "start_ps": start, "end_ps": until,
                "duration_ps": until - start, "done": end >= 0,
            }
        )  # fmt: skip
    return rows


def headline(engine: CacheLineState) -> Headline:
    """Return what ran on what, and how much work it was."""
    program = engine.program
    where = f"{plural(program.ranks, 'GPU')} on {engine.infra.name}, {plural(program.channels, 'channel')}"
    launch = "" if engine.launch == "none" else f", launch {engine.launch}"
    what = f"{engine.work.title}, {format_bytes(engine.work.size)}, {where}{launch}"
    work = f"{plural(engine.events, 'event')}, {plural(int(engine.machine.clock[0].hops), 'line hop')}"
    if engine.network.coalesce > 1 and not program.flags:  # packets travel line by line
        work += f", {_coalesced(engine.network.coalesce)}"
    return Headline(what, work)


def _coalesced(lines: int) -> str:
    """Number of lines that travel as one request, and how far such runs were off, as text."""
    measured = max((given for given in COALESCED_PERCENT if given <= lines), default=2)
    whose = "" if measured == lines else f"those of {measured} "
    return f"{lines} lines a request: {whose}up to {COALESCED_PERCENT[measured]} % off, docs/fidelity.md"


def tables(engine: CacheLineState) -> dict[str, Callable[[], Any]]:
    """Tables of results by name: lists of rows, or columns."""
    own: dict[str, Callable[[CacheLineState], Any]]
    own = {"ranks": per_rank, "links": links, "phases": phase_rows, "blocks": _blocks, "ops": _ops}
    if engine.program.source.known:
        own["lines"] = by_line
    if engine.network.roce is not None:
        own["rates"] = rates
    found: dict[str, Callable[[], Any]] = {}
    found |= {name: partial(make, engine) for name, make in {**own, **FRAMES}.items()}
    if isinstance(engine.work, Graph):
        found["operations"] = partial(_operations, engine, engine.work)
        if jobs := engine.work.jobs:
            found["jobs"] = lambda: job_rows(jobs, per_rank(engine))
    return found


def explain(engine: CacheLineState, path: CriticalPath | None) -> list[str]:
    """Lines about where the time went: per GPU, per link, and how far from the limits it is."""
    parts = sorted(breakdown(engine).items(), key=lambda item: -item[1])
    lines = ["Where the thread blocks' time went:"]
    lines += [f"  {part:>4.0%}  {name}: {TIME_CLASSES[name]}" for name, part in parts if part > 0]
    used = [row for row in links(engine) if row["messages"]]
    lines += ["", "Busiest links (of the time so far):"]
    for row in sorted(used, key=lambda r: (-r["utilisation"], r["link"]))[:5]:
        mean = row["queued_ps"] // row["messages"]
        queues = f"a message queues {format_time(mean)} on average"
        lines.append(f"  {row['utilisation']:>4.0%}  {row['link']}: {queues}")
    lines.append("")
    if path is not None:
        total = max(1, path.time_ps)
        causes = list(path.by_cause().items())[:_MOST_CAUSES]
        lines.append("What the time consists of (critical path):")
        lines += [f"  {ps / total:>4.0%}  {cause}: {CAUSES[cause]}" for cause, ps in causes]
        lines.append("")
    lines += _limits(engine)
    lines += explain_ethernet(engine.machine, engine.fabric, engine.now_ps)
    last = max(per_rank(engine), key=lambda r: (r["end_ps"], -r["rank"]))
    if engine.finished:
        lines.append(f"Rank {last['rank']} ({last['name']}) ended last, at {format_time(last['end_ps'])}.")
    if engine.assumed:
        lines += ["", "Assumed:", *(f"  - {note}" for note in engine.assumed)]
    return lines
