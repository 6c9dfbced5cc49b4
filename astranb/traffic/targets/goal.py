"""GOAL, the schedules of LogGOPSim and ATLAHS: written and read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.core.arrays import flat_lists
from astranb.core.document import contents
from astranb.core.errors import InputError, near
from astranb.core.files import whole_file
from astranb.core.text_lines import text_lines
from astranb.traffic.graph import NODE, MessageGraph, matched
from astranb.traffic.order import node_name, overlapping
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .checked import checked_order, counted, labelled, one_line, sharing
from .translation import Translation

__all__ = ["TIME_UNITS", "read_goal", "write_goal"]

TIME_UNITS: Final = {"ns": 1000, "ps": 1}
"""Units of time of a schedule, in picoseconds."""

_LINES: Final = (
    "l{0}: calc {1}\n",
    "l{0}: send {1}b to {2} tag {3}\n",
    "l{0}: recv {1}b from {2} tag {3}\n",
    "l{0} requires l{1}\n",
    "rank {0} {\n",
    "}\n",
)
_REQUIRES, _OPEN, _CLOSE = 3, 4, 5
_LINE_OF: Final = {COMPUTE: 0, SEND: 1, RECV: 2}
_ANY_TAG: Final = 2**32 - 1
_MOST_RANKS: Final = 2**31 - 1
_ROWS: Final = 1 << 20  # of text made at a time
_MOST_BYTES: Final = 4 << 30
_MOST_NUMBER: Final = 2**53  # of bytes or units of time, so that sums fit


def write_goal(
    graph: MessageGraph,
    path: str | Path,
    *,
    time_unit: str = "ns",
) -> Translation:
    """Write a schedule in GOAL's text form: ``txt2bin`` of LogGOPSim reads it.

    Nodes become operations one to one, with ``requires`` for each dependency. All operations use ``cpu 0``
    and ``nic 0``: LogGOPSim starts an operation when its own CPU is free, and does not wait for what it
    requires on another one. The network is LogGOPSim's, by its parameters L, o, g and G.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
    time_unit : str
        Of computations, and so of these parameters: ``ns`` or ``ps``.

    Raises
    ------
    InputError
        The graph has a cycle, a tag that GOAL has no room for, or it cannot be written there.
    """
    if time_unit not in TIME_UNITS:
        hint = near(time_unit, TIME_UNITS)
        raise InputError(f"unknown unit of time {time_unit!r}", where="time_unit", hint=hint)
    order = checked_order(graph)
    nodes, unit_ps = graph.nodes, TIME_UNITS[time_unit]
    messages = nodes["kind"] != COMPUTE
    wrong = np.flatnonzero(messages & ((nodes["tag"] < 0) | (nodes["tag"] >= _ANY_TAG)))
    if len(wrong):
        tag = int(nodes["tag"][wrong[0]])
        raise InputError(
            f"{node_name(graph, int(wrong[0]))} has tag {tag}",
            where=graph.title,
            hint=f"tags of GOAL are 0 to {_ANY_TAG - 1}",
        )
    with whole_file(Path(path)) as file:
        head = f"// traffic: {one_line(graph.title)}\n// time unit: {time_unit}\nnum_ranks {graph.ranks}\n"
        file.write(head.encode(errors="replace"))
        for ranks in _blocks(graph):
            file.write(_block(graph, ranks, unit_ps))
    return Translation((Path(path),), graph.messages, _not_expressed(graph, order, unit_ps))


def _blocks(graph: MessageGraph) -> Iterator[slice]:
    """Divide the ranks so that the text of each part fits into memory."""
    rows = graph.first + graph.dep_start[graph.first]
    start = 0
    while start < graph.ranks:
        end = max(start + 1, int(np.searchsorted(rows, rows[start] + _ROWS, "right")) - 1)
        yield slice(start, min(end, graph.ranks))
        start = end


def _block(graph: MessageGraph, ranks: slice, unit_ps: int) -> bytes:
    """Write some ranks: of each its operations, then what they require."""
    first = graph.first[ranks.start : ranks.stop + 1]
    low, high = int(first[0]), int(first[-1])
    nodes, start = graph.nodes[low:high], graph.dep_start[low : high + 1]
    own = nodes["rank"] - ranks.start
    local = np.arange(len(nodes)) - (first[own] - low)
    lengths = np.diff(start)
    waits = np.repeat(np.arange(len(nodes)), lengths)
    ends = start[first - low] - start[0]  # where the dependencies of each rank begin
    count = len(first) - 1
    opened = first[:-1] - low + ends[:-1] + 2 * np.arange(count)  # the line on which each rank begins
    at_node = opened[own] + 1 + local
    at_dep = opened[own[waits]] + 1 + np.diff(first)[own[waits]] + np.arange(len(waits)) - ends[own[waits]]
    total = len(nodes) + len(waits) + 2 * count
    which, values = np.full(total, _CLOSE), np.zeros((total, 4), np.int64)
    which[opened], values[opened, 0] = _OPEN, np.arange(ranks.start, ranks.stop)
    computes = nodes["kind"] == COMPUTE
    which[at_node] = np.array([_LINE_OF[kind] for kind in sorted(_LINE_OF)])[
        np.searchsorted(sorted(_LINE_OF), nodes["kind"])
    ]
    size = np.where(computes, _units(nodes["duration_ps"], unit_ps), np.maximum(nodes["bytes"], 1))
    for column, field_ in enumerate((local, size, nodes["peer"], nodes["tag"])):
        values[at_node, column] = field_
    deps = graph.deps[start[0] : start[-1]] - low
    which[at_dep], values[at_dep, 0], values[at_dep, 1] = _REQUIRES, local[waits], local[deps]
    return text_lines(_LINES, which, values)


def _units(duration_ps: np.ndarray, unit_ps: int) -> np.ndarray:
    """Round durations to whole units of time."""
    return (duration_ps + unit_ps // 2) // unit_ps


def _not_expressed(graph: MessageGraph, order: np.ndarray, unit_ps: int) -> tuple[str, ...]:
    nodes = graph.nodes
    kinds = nodes["kind"]
    computes, sends = int((kinds == COMPUTE).sum()), nodes[graph.sends]
    rounded = int(((kinds == COMPUTE) & (nodes["duration_ps"] % unit_ps != 0)).sum())
    on_sends = int((kinds[graph.deps] == SEND).sum())
    return (
        *counted(rounded, computes, "computations", "rounded to whole nanoseconds"),
        *counted(
            overlapping(graph, order),
            computes,
            "computations",
            "may overlap with another one of their rank; LogGOPSim's cpu 0 does one after another",
        ),
        *counted(
            on_sends,
            len(graph.deps),
            "dependencies",
            "on a send, which ends in LogGOPSim when it has been injected (above S bytes: when the receiver "
            "is ready), here when it has arrived",
        ),
        *counted(int((sends["bytes"] == 0).sum()), len(sends), "messages", "of no bytes, written as 1 byte"),
        *counted(
            sharing(sends),
            len(sends),
            "messages",
            "share source, target and tag with another one; LogGOPSim matches them in order of time",
        ),
        *labelled(graph, "operation, phase and chunk have no place in GOAL"),
    )


_ITEM: Final = re.compile(
    rb"""
    (?P<space>[ \t\r\n]+)
    | (?P<comment>//[^\n]*\n|/\*.*?\*/)
    | (?P<end>\})
    | (?P<ranks>num_ranks(?!\w)[ \t]*(?P<count>\d+))
    | (?P<rank>rank(?!\w)[ \t]*(?P<number>\d+)[ \t]*\{)
    | (?P<op>(?:(?P<label>(?!(?:send|recv|calc|rank|num_ranks)(?!\w))[A-Za-z]\w*)[ \t]*:[ \t]*)?
        (?:calc[ \t]*(?P<time>\d+)(?:[ \t]*cpu[ \t]*(?P<cpu1>\d+))?
          |(?P<kind>send|recv)[ \t]*(?P<size>\d+)[ \t]*b[ \t]*(?P<to>to|from)[ \t]*(?P<peer>-1|\d+)
            (?:[ \t]*tag[ \t]*(?P<tag>-1|\d+))?
            (?:[ \t]*cpu[ \t]*(?P<cpu>\d+))?
            (?:[ \t]*nic[ \t]*(?P<nic>\d+))?
        )[ \t]*(?:\r?\n|\Z))
    | (?P<dep>(?P<after>[A-Za-z]\w*)[ \t]+(?P<how>i?requires)[ \t]*(?P<before>[A-Za-z]\w*)
        [ \t]*(?:\r?\n|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER: Final = re.compile(rb"//[ \t]*(traffic|time unit):[ \t]*([^\r\n]*)")


@dataclass
class _Schedule:
    """The schedule that has been read so far."""

    ranks: int = 0
    rank: int = -1  # whose block is open
    done: int = 0  # ranks that have had theirs
    nodes: list[tuple[int, ...]] = field(default_factory=list)
    deps: list[list[int]] = field(default_factory=list)
    labels: dict[bytes, int] = field(default_factory=dict)  # of the open block
    starts: list[tuple[int, int]] = field(default_factory=list)  # irequires: row, and the row that has begun
    counts: dict[str, int] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)


def read_goal(path: str | Path, *, time_unit: str = "") -> MessageGraph:
    r"""Read a schedule in GOAL's text form, by the rules of LogGOPSim's ``txt2bin``.

    ``a irequires b`` (a may begin when b has begun) becomes a dependency on all that b waits for, which
    says the same. CPUs and NICs are left out: the operations of a graph do not take turns.

    Parameters
    ----------
    path : str or Path
    time_unit : str
        Of computations: ``ns`` or ``ps``; empty: as the file's comment says, otherwise ``ns``.

    Raises
    ------
    InputError
        The file breaks a rule of the grammar, a message is not received, or a receive takes a message of
        any source or tag, so that nobody knows beforehand which.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pair.goal"
    >>> _ = file.write_text("num_ranks 2\nrank 0 {\nl0: calc 5\nl1: send 8b to 1\nl1 requires l0\n}\n"
    ...                     "rank 1 {\nrecv 8b from 0\n}\n")
    >>> graph = read_goal(file)
    >>> graph.nodes["duration_ps"].tolist(), graph.deps.tolist()
    ([5000, 0, 0], [0])
    """
    where = str(path)
    data = contents(path, _MOST_BYTES)
    schedule = _Schedule()
    place, size = 0, len(data)
    while place < size:
        found = _ITEM.match(data, place)
        if found is None:
            raise _error(data, place, where, _expected(data[place : place + 400]))
        kind = found.lastgroup
        try:
            _TAKE[str(kind)](schedule, found)
        except InputError as error:
            raise _error(data, place, where, error) from None
        place = found.end()
    if schedule.rank >= 0:
        raise InputError(
            f"rank {schedule.rank} has no closing bracket", where=where, hint="is the file cut off?"
        )
    if schedule.ranks == 0:
        raise InputError("num_ranks is missing", where=where, hint="is it a schedule of GOAL?")
    if schedule.done < schedule.ranks:
        what = f"num_ranks is {schedule.ranks}, but only {schedule.done} ranks have a block"
        raise InputError(what, where=where, hint="write 'rank N { }' for ranks that do nothing")
    return _graph(schedule, where, time_unit or schedule.header.get("time unit", "ns"))


def _graph(schedule: _Schedule, where: str, time_unit: str) -> MessageGraph:
    if time_unit not in TIME_UNITS:
        hint = near(time_unit, TIME_UNITS)
        raise InputError(f"unknown unit of time {time_unit!r}", where=where, hint=hint)
    columns = np.array(schedule.nodes, np.int64).reshape(-1, 5)
    nodes = np.zeros(len(columns), NODE)
    for name in ("start_ps", "match", "phase", "chunk"):
        nodes[name] = -1
    for column, name in enumerate(("rank", "kind", "peer", "bytes", "tag")):
        nodes[name] = columns[:, column]
    computes = nodes["kind"] == COMPUTE
    unit_ps = TIME_UNITS[time_unit]
    nodes["duration_ps"] = np.where(computes, nodes["bytes"] * unit_ps, 0)
    nodes["bytes"][computes] = 0
    start, deps = flat_lists(schedule.deps)
    said = {what: f"{count:,} in the file; {_SAID[what]}" for what, count in schedule.counts.items()}
    sizes = nodes["bytes"].copy()
    nodes = matched(nodes, where, wide_receives=True)
    if wider := int((nodes["bytes"] < sizes).sum()):
        said["receives"] = f"{wider:,} have room for more than is sent, as MPI's: what is sent counts"
    title = schedule.header.get("traffic", "") or Path(where).stem
    return MessageGraph(
        schedule.ranks,
        nodes,
        start,
        deps,
        title=title,
        assumptions={**said, "time unit": time_unit},
    )


_SAID: Final = {
    "irequires": "as dependencies on what the other operation waits for",
    "cpu": "operations do not take turns on CPUs",
    "nic": "messages do not take turns on NICs",
}


def _take_comment(schedule: _Schedule, found: re.Match[bytes]) -> None:
    header = _HEADER.match(found["comment"])
    if header and schedule.done == 0:
        schedule.header.setdefault(header[1].decode(), header[2].decode(errors="replace").strip())


def _take_ranks(schedule: _Schedule, found: re.Match[bytes]) -> None:
    count = _number(found["count"], _MOST_RANKS, "num_ranks")
    if schedule.ranks not in (0, count):
        raise InputError(f"num_ranks is {count} here and {schedule.ranks} before", hint="give it once")
    if count == 0:
        raise InputError("num_ranks is 0", hint="give at least one rank")
    schedule.ranks = count


def _take_rank(schedule: _Schedule, found: re.Match[bytes]) -> None:
    rank = _number(found["number"], _MOST_RANKS, "rank")
    if schedule.rank >= 0:
        raise InputError(
            f"rank {rank} begins inside rank {schedule.rank}", hint="close the bracket before it"
        )
    if schedule.ranks == 0:
        raise InputError("num_ranks is missing before the first rank", hint="is it a schedule of GOAL?")
    if rank != schedule.done or rank >= schedule.ranks:
        expected = f"rank {schedule.done}" if schedule.done < schedule.ranks else "the end of the file"
        raise InputError(
            f"rank {rank} where {expected} is expected", hint="write the ranks in order, each once"
        )
    schedule.rank, schedule.labels = rank, {}


def _take_end(schedule: _Schedule, found: re.Match[bytes]) -> None:  # noqa: ARG001 - as the others
    if schedule.rank < 0:
        raise InputError("a closing bracket without a rank", hint="drop it")
    _resolve_starts(schedule)
    schedule.rank, schedule.done = -1, schedule.done + 1


def _resolve_starts(schedule: _Schedule) -> None:
    """Turn "may begin when that has begun" into "waits for all that that one waits for"."""
    waiting: dict[int, list[int]] = {}
    for row, begun in schedule.starts:
        waiting.setdefault(row, []).append(begun)
    state: dict[int, bool] = {}  # False: being resolved
    for top in waiting:
        stack = [top]
        while stack:
            row = stack[-1]
            if row not in state:
                state[row] = False
                for begun in waiting[row]:
                    if state.get(begun) is False:
                        raise InputError(
                            "operations wait for one another's beginning in a cycle",
                            hint="drop one irequires",
                        )
                    if begun in waiting and begun not in state:
                        stack.append(begun)
                continue
            stack.pop()
            if state[row] is False:
                known = schedule.deps[row]
                for begun in waiting[row]:
                    known += [dep for dep in schedule.deps[begun] if dep not in known]
                state[row] = True
    schedule.starts = []


def _take_op(schedule: _Schedule, found: re.Match[bytes]) -> None:
    if schedule.rank < 0:
        raise InputError("an operation outside a rank", hint="write 'rank N {' before it")
    label, kind = found["label"], found["kind"]
    row = len(schedule.nodes)
    if label is not None and schedule.labels.setdefault(label, row) != row:
        raise InputError(
            f"label {label.decode()!r} is a duplicate within a rank", hint="name one of them differently"
        )
    for what in ("cpu", "nic"):
        given = found[what] or (found["cpu1"] if what == "cpu" else None)
        if given and _number(given, 255, what):
            schedule.counts[what] = schedule.counts.get(what, 0) + 1
    if kind is None:
        time = _number(found["time"], _MOST_NUMBER, "a computation's time")
        schedule.nodes.append((schedule.rank, COMPUTE, -1, time, 0))
    else:
        if found["to"] != (b"to" if kind == b"send" else b"from"):
            raise InputError(
                f"{kind.decode()} … {found['to'].decode()}", hint="write 'send … to' or 'recv … from'"
            )
        if b"-1" in (found["peer"], found["tag"]):
            what = "source" if found["peer"] == b"-1" else "tag"
            raise InputError(
                f"a {kind.decode()} with any {what} (-1)",
                hint=f"give the {what}: which message it takes would depend on the network",
            )
        peer = _number(found["peer"], _MOST_RANKS, "a rank")
        if peer >= schedule.ranks:
            raise InputError(f"rank {peer} does not exist", hint=f"num_ranks is {schedule.ranks}")
        size = _number(found["size"], _MOST_NUMBER, "a message's size")
        tag = _number(found["tag"] or b"0", _ANY_TAG - 1, "a tag")
        schedule.nodes.append((schedule.rank, SEND if kind == b"send" else RECV, peer, size, tag))
    schedule.deps.append([])


def _take_dep(schedule: _Schedule, found: re.Match[bytes]) -> None:
    rows = [schedule.labels.get(found[name]) for name in ("after", "before")]
    for name, known in zip(("after", "before"), rows, strict=True):
        if known is None:
            unknown = found[name].decode()
            raise InputError(
                f"label {unknown!r} is not defined before this line of its rank",
                hint=near(unknown, [label.decode() for label in schedule.labels]),
            )
    after, before = int(rows[0] or 0), int(rows[1] or 0)
    if after == before:
        raise InputError(f"{found['after'].decode()!r} waits for itself", hint="drop the line")
    if found["how"] == b"requires":
        schedule.deps[after].append(before)
    else:
        schedule.starts.append((after, before))
        schedule.counts["irequires"] = schedule.counts.get("irequires", 0) + 1


def _skip(schedule: _Schedule, found: re.Match[bytes]) -> None:
    """Take nothing."""


_TAKE: Final[dict[str, Any]] = {
    "space": _skip,
    "comment": _take_comment,
    "end": _take_end,
    "ranks": _take_ranks,
    "rank": _take_rank,
    "op": _take_op,
    "dep": _take_dep,
}


def _number(digits: bytes, most: int, what: str) -> int:
    value = int(digits) if len(digits) <= 20 else most + 1
    if value > most:
        raise InputError(f"{what} is too large: {digits[:24].decode()}", hint=f"at most {most}")
    return value


def _expected(text: bytes) -> InputError:
    """Return the error for text that cannot be read."""
    if text.startswith(b"/*"):
        return InputError("a comment has no end", hint="close it with */")
    line = text.split(b"\n", 1)[0].strip()[:60].decode(errors="replace")
    hint = (
        "operations of GOAL are send, recv, calc; then come requires and irequires, each on a line of its own"
    )
    return InputError(f"{line!r} cannot be read", hint=hint)


def _error(data: bytes, place: int, where: str, error: InputError) -> InputError:
    line = data.count(b"\n", 0, place) + 1
    return InputError(error.what, where=f"{where}:{line}", hint=error.hint)
