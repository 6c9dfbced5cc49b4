"""``astranb chakra statistics``, ``timeline`` and ``compare``: looking at traces of one job, or of two."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time
from astranb.explore.runs import flag_of, whole

from .arguments import add_command, add_output, typed
from .chakra_formats import opened
from .printing import Report

if TYPE_CHECKING:
    from astranb.chakra import Times, Trace, TraceStatistics

__all__ = ["add_views", "viewed"]

_MOST_ROWS = 12
_MOST_DEPTH = 48
_SIMULATED = (
    ("--system", "simulate the times: system.json"),
    ("--network", "simulate the times: network.yml"),
    ("--comm-group", "communicator groups (default: PREFIX.groups.json)"),
)


def add_views(verbs: Any, traces: str) -> None:
    """Add the verbs; `traces` says what files they take."""
    counts = add_command(
        verbs, "statistics",
        "say where the time of each rank goes: operators, communication, critical path, skew", _statistics,
    )  # fmt: skip
    counts.add_argument("file", help=traces)
    counts.add_argument(
        "--html", metavar="FILE.html", help="write a page with pictures, which needs no network"
    )
    counts.add_argument(
        "--rows",
        type=whole(1),
        default=_MOST_ROWS,
        metavar="N",
        help=f"most rows of a table (default: {_MOST_ROWS})",
    )
    _add_simulated(counts)

    timeline = add_command(
        verbs, "timeline", "write a timeline of a trace, for Perfetto or as a page", _timeline
    )
    timeline.add_argument("file", help=traces)
    add_output(timeline, "FILE.json or FILE.json.gz for Perfetto, or FILE.html", required=True)
    _add_simulated(timeline)

    compare = add_command(
        verbs, "compare", "show how two traces or jobs differ, and why one is slower", _compare
    )
    compare.add_argument("first", help=traces)
    compare.add_argument("second", help="the same")
    compare.add_argument(
        "--depth",
        type=whole(1, _MOST_DEPTH),
        metavar="N",
        help="modules by so many words of names (default: 2)",
    )
    _add_simulated(compare)
    compare.add_argument("--second-system", metavar="FILE", help="another system.json for the second")
    compare.add_argument("--second-network", metavar="FILE", help="another network.yml for the second")


def _add_simulated(parser: Any) -> None:
    for flag, text in _SIMULATED:
        parser.add_argument(flag, metavar="FILE", help=text)


def viewed(name: str) -> tuple[list[Trace], list[str]]:
    """Return traces to look at: faulty ones repaired where that is clear; notes name faults that are left."""
    from astranb.chakra import faults, repaired

    found = opened(name, whole=False)
    traces, notes = [], [*found.notes]
    for trace in found.traces.values():
        better, done = repaired(trace)
        traces.append(better)
        notes += [f"{trace.source}: {one} to show it" for one in done]
        notes += [f"{trace.source}: {one}" for one in faults(better) if not one.runs]
    return traces, notes


def _timeline(args: argparse.Namespace) -> Report:
    from astranb.chakra import write_timeline

    traces, notes = viewed(args.file)
    times = _times(args, args.file, traces, notes)
    if args.output.lower().endswith(".html"):
        from astranb.chakra import RecordedTracks
        from astranb.widgets import write_trace_timeline

        tracks = RecordedTracks(traces, times)
        write_trace_timeline(tracks, args.output, title=Path(args.file).name)
        page = {"spans": len(tracks), "ranks": len(traces), "times": tracks.how}
        return Report(
            page,
            [f"{plural(len(tracks), 'span')} of {plural(len(traces), 'rank')}: {tracks.how}"],
            notes=notes,
        )
    document = write_timeline(traces, times, args.output)
    text = f"{plural(document['spans'], 'span')} of {plural(document['ranks'], 'rank')}: {document['times']}"
    if document["ranks_left_out"]:
        text += f"; {plural(document['ranks_left_out'], 'rank')} left out"
    return Report(document, [text], notes=notes)


def _times(
    args: argparse.Namespace, file: str, traces: list[Trace], notes: list[str], second: bool = False
) -> list[Times]:
    """The times in traces themselves, or simulated ones; of the former `notes` says which are missing."""
    from astranb.chakra import job_times

    inputs = {name: getattr(args, name) for name in ("system", "network")}
    options = {name: flag_of(name) for name in inputs}
    if second:
        own = {name: getattr(args, f"second_{name}") for name in inputs}
        options = {name: flag_of(f"second_{name}") if any(own.values()) else options[name] for name in own}
        inputs = {name: own[name] or value for name, value in inputs.items()}
    if not any(inputs.values()):
        times = job_times(traces)
        notes += _missing_durations(file, traces, times)
        return times
    for name, value in inputs.items():
        if value is None:
            hint = f"{' and '.join(options.values())} simulate the times"
            raise InputError(f"{options[name]} is missing", where="run", hint=hint)
    return _simulated(file, traces, inputs["system"], inputs["network"], args.comm_group)


def _missing_durations(file: str, traces: list[Trace], times: list[Times]) -> list[str]:
    """Return a note where nothing takes time as recorded, or no communication of several does."""
    from astranb.chakra import NodeType

    if not any(when.end_ns.max(initial=0) > 0 for when in times):
        return [f"{file}: no operation has a duration: simulate it (--system, --network)"]
    long = [
        (when.end_ns - when.start_ns)[trace.type >= NodeType.COMM_SEND]
        for trace, when in zip(traces, times, strict=True)
    ]
    if not any(map(len, long)) or any(took.any() for took in long):
        return []
    return [f"{file}: no communication has a duration: simulate it (--system, --network)"]


def _simulated(file: str, traces: list[Trace], system: str, network: str, groups: str | None) -> list[Times]:
    """Return when nodes begin and end on ASTRA-sim's network."""
    import numpy as np

    from astranb.chakra import Times, issue_order
    from astranb.engine.messages import Run
    from astranb.workload.astrasim2 import load

    run = Run(load(file, system, network, groups=groups))
    run.finish()
    run.result()  # raises an error for a deadlock
    table = run.machine.operations
    begun, found = 0, []
    for trace in traces:
        kept, _ = issue_order(trace)
        start, end = np.full(len(trace), -1, np.int64), np.full(len(trace), -1, np.int64)
        own = slice(begun, begun + len(kept))
        start[kept], end[kept] = table["start_ns"][own], table["end_ns"][own]
        begun += len(kept)
        found.append(Times(start, end, "simulated"))
    return found


# Statistics


def _statistics(args: argparse.Namespace) -> Report:
    traces, notes = viewed(args.file)
    found = _counted(args, args.file, traces, notes)
    document = found.as_document()
    lines = [*_statistics_lines(found, args.rows)]
    if args.html:
        from astranb.widgets import write_statistics

        write_statistics(traces, found, args.html, title=Path(args.file).name)
        lines.append(f"pictures: {args.html}")
        document["html"] = args.html
    return Report(document, lines, notes=notes)


def _counted(
    args: argparse.Namespace, file: str, traces: list[Trace], notes: list[str], *, second: bool = False
) -> TraceStatistics:
    from astranb.chakra import statistics

    work = [_work(trace, notes) for trace in traces]
    times = _times(args, file, traces, notes, second)
    return statistics(traces, times, groups=_groups(args, file, len(traces)), work=work)


def _work(trace: Trace, notes: list[str]) -> dict[int, tuple[int, int]]:
    """The operations and bytes of computations whose shapes are recorded."""
    from astranb.workload.astrasim2 import shaped_of

    try:
        found = shaped_of(trace)
    except InputError as error:
        notes.append(f"{error.where}: {error.what}: no roofline from shapes")
        return {}
    return {row: (one.flops, one.touched) for row, one in found.items() if one is not None}


def _groups(args: argparse.Namespace, file: str, ranks: int) -> dict[str, list[int]]:
    """The ranks of process groups, where a file says them."""
    from astranb.chakra import beside, read_groups

    path = args.comm_group or beside(file, "groups.json")
    return {} if path is None else {str(one): members for one, members in read_groups(path, ranks).items()}


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.3f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> Iterator[str]:
    """Lay out rows of text: so many columns are words, the others are numbers."""
    every = [list(head), *map(list, rows)]
    widths = [max(len(row[at]) for row in every) for at in range(len(head))]
    for row in every:
        cells = [
            cell.ljust(widths[at]) if at < text_columns else cell.rjust(widths[at])
            for at, cell in enumerate(row)
        ]
        yield "  ".join(cells).rstrip()


def _short(text: str, most: int = 56) -> str:
    readable = "".join(one if one.isprintable() else "?" for one in text)
    return readable if len(readable) <= most else f"{readable[: most - 1]}…"


def _statistics_lines(found: TraceStatistics, most: int) -> Iterator[str]:
    from astranb.chakra import ACTIVITIES

    yield f"{plural(found.ranks, 'rank')}, {format_time(found.makespan_ns * 1000)}: {found.how}"
    yield ""
    yield "Time of each rank, ms: communication that a computation hides is not in its column"
    parts = [*ACTIVITIES, "idle"]
    head = ["rank", *parts, "transfers", "overlapped"]
    names = [*parts, "transfers", "overlapped"]
    rows = [[str(row["rank"]), *(_ms(row[f"{name}_ns"]) for name in names)] for row in found.by_rank[:most]]
    yield from table(head, rows)
    yield from _left(found.by_rank, most)
    yield ""
    yield "Critical path, ms"
    shares = found.path.shares()
    yield from table(
        ["part", "time", "share"],
        [
            [name, _ms(took), f"{took / max(found.makespan_ns, 1):.1%}"]
            for name, took in sorted(shares.items(), key=lambda one: -one[1])
            if took
        ],
    )
    yield ""
    yield "Operators, all ranks, ms"
    yield from table(
        ["name", "kind", "count", "time", "share"],
        [
            [
                _short(row["name"]),
                row["kind"],
                f"{row['count']:,}",
                _ms(row["time_ns"]),
                f"{row['share']:.1%}",
            ]
            for row in found.operators[:most]
        ],
        text_columns=2,
    )
    yield from _left(found.operators, most)
    if found.communication:
        many = len(found.communication) > most
        sums = found.dimensions if many else found.communication
        first = ["groups", "dimension"] if many else ["group", "dimension"]
        yield ""
        yield "Communication: bytes of a rank, times of the transfer and of a rank's waits, ms"
        yield from table(
            [*first, "collective", "count", "bytes", "transfer", "waiting"],
            [
                [str(row["groups"]) if many else _group(row), row["dimension"], row["collective"],
                 f"{row['count']:,}", _bytes(row), _ms(row["transfer_ns"]),
                 _ms(row["waiting_ns"])]
                for row in sums[:most]
            ],
            text_columns=3,
        )  # fmt: skip
        yield from _left(sums, most)
    if any(row["late_ns"] or row["waiting_ns"] for row in found.skew):
        yield ""
        yield "Skew: how late ranks come to collectives, on average, and how long they wait in all, ms"
        yield from table(
            ["group", "rank", "collectives", "late", "waiting", "last"],
            [
                [_group(row), str(row["rank"]), f"{row['count']:,}", _ms(row["late_ns"]),
                 _ms(row["waiting_ns"]), f"{row['last']:,}"]
                for row in found.skew[:most]
            ],
        )  # fmt: skip
        yield from _left(found.skew, most)


def _bytes(row: dict[str, Any]) -> str:
    if row["unsized"] == row["count"]:
        return "unknown"
    return format_bytes(row["bytes"]) + (" + unknown" if row["unsized"] else "")


def _group(row: dict[str, Any]) -> str:
    return row["group"] or ("-" if row.get("collective") == "message" else "all")


def _left(rows: Sequence[Any], most: int, how: str = "--rows, --json") -> Iterator[str]:
    if len(rows) > most:
        yield f"and {len(rows) - most:,} more ({how})"


# Comparison


def _compare(args: argparse.Namespace) -> Report:
    from astranb.chakra import compare, why_slower

    first, second = (list(opened(name).traces.values()) for name in (args.first, args.second))
    rows = [{"rank": rank, **compare(*pair)} for rank, pair in enumerate(zip(first, second, strict=False))]
    same = len(first) == len(second) and all(row["same"] for row in rows)
    document: dict[str, Any] = {"same": same, "ranks": [len(first), len(second)], "traces": rows}
    lines = [] if len(first) == len(second) else [f"{len(first)} and {len(second)} ranks"]
    for row in rows:
        named, *more = _comparison_lines(row)
        lines += [f"rank {row['rank']}: {named}" if len(rows) > 1 else named, *more]
    notes: list[str] = []
    if not same or args.second_network or args.second_system:
        traces: list[list[Trace]] = []
        for name in (args.first, args.second):
            found, said = viewed(name)
            traces.append(found)
            notes += said
        counted = (
            _counted(args, args.first, traces[0], notes),
            _counted(args, args.second, traces[1], notes, second=True),
        )
        document["slower"] = why_slower(traces[0], traces[1], counted, **typed(args, "depth"))
        lines += _slower_lines(document["slower"])
    return Report(document, lines, notes=notes)


def _slower_lines(found: dict[str, Any]) -> Iterator[str]:
    """Describe which of the two is slower, and what the difference consists of."""
    (one, other), apart = found["makespan_ns"], found["difference_ns"]
    part = f" ({apart / one:+.1%})" if one else ""
    yield ""
    yield f"{_ms(one)} ms and {_ms(other)} ms: {apart / 1e6:+,.3f} ms{part}"
    if not one and not other:
        return
    yield ""
    yield "What the difference is, ms of a rank on average: it adds up"
    yield from table(
        ["part", "first", "second", "difference"],
        [
            [row["activity"], *(_ms(row[f"{side}_ns"]) for side in ("first", "second")), _apart(row)]
            for row in found["activities"]
        ],
    )
    yield ""
    yield "By module, ms of a rank on average: the largest differences"
    names = ("compute", "communication", "waiting")
    shown = [row for row in found["modules"] if row["difference_ns"] or any(row["only"])]
    yield from table(
        ["module", "first", "second", "difference", *names, "nodes", "only in one"],
        [
            [_short(row["module"], 40), _ms(row["first_ns"]), _ms(row["second_ns"]), _apart(row),
             *(_signed(row["activities"].get(name, 0)) for name in names),
             f"{row['nodes'][0]:,} {row['nodes'][1]:,}", f"{row['only'][0]:,} {row['only'][1]:,}"]
            for row in shown[:_MOST_ROWS]
        ],
    )  # fmt: skip
    yield from _left(shown, _MOST_ROWS, "--json")


def _signed(ns: float) -> str:
    return f"{ns / 1e6:+,.3f}" if ns else ""


def _apart(row: dict[str, Any]) -> str:
    return f"{row['difference_ns'] / 1e6 or 0:+,.3f}"


def _comparison_lines(row: dict[str, Any]) -> list[str]:
    if row["same"]:
        return [
            "identical" if row["identical"] else "the same nodes; only data that is not simulated differs"
        ]
    at = row["first_difference"]
    return [
        f"different, {'with the same structure' if row['same_structure'] else 'in structure too'}",
        *(f"  {name}: {one:,} and {other:,}" for name, (one, other) in row["differences"].items()),
        f"  first at row {at['row']}: {', '.join(at['fields'])}",
        *(
            f"    {side}: {json.dumps(at[side], ensure_ascii=False) if at[side] else 'no node'}"
            for side in ("first", "second")
        ),
    ]
