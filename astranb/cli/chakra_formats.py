"""``astranb chakra info``, ``check`` and ``convert``: every format that has, or can become, a trace."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.file_formats import TASK_GRAPHS, format_of, read_by_plugin
from astranb.core.packed import head
from astranb.core.plural import plural

from .arguments import typed
from .printing import Report

if TYPE_CHECKING:
    from astranb.chakra import Trace
    from astranb.workload.astrasim1 import TableTrace

__all__ = ["OpenedTraces", "check", "convert", "info", "opened", "without_durations", "write_copies"]

_HEAD = 512
_MOST_SHOWN = 8
_GRAPHS = ("GraphML", "node-link graph")
_TABLES = ("layer table", "SimAI workload")


class OpenedTraces(NamedTuple):
    """Contents of a file or a prefix.

    Attributes
    ----------
    form : str
        The format, in words.
    traces : dict of int to Trace
        By rank; of a file that of rank 0.
    notes : list of str
        What a reader should know, a line each.
    missing : tuple of str
        What of the file or of the ranks is not there, a line each.
    all_ranks : bool
        Whether it is a prefix, or a file with all ranks.
    table : TableTrace, optional
        What a table says about groups.
    """

    form: str
    traces: dict[int, Trace]
    notes: list[str]
    all_ranks: bool = False
    missing: tuple[str, ...] = ()
    table: TableTrace | None = None


def opened(name: str, passes: int = 1, *, whole: bool = True) -> OpenedTraces:
    """Read a trace of any format, recognized by its contents, or those of all ranks of a prefix.

    Parameters
    ----------
    name : str
    passes : int
        Of a layer table: passes through the loop.
    whole : bool
        Whether a truncated trace is an error; otherwise its whole nodes are read.
    """
    from astranb import chakra

    if not Path(name).is_file() and not Path(name).is_dir() and _has_ranks(name):
        if whole:
            return OpenedTraces("Chakra traces", dict(enumerate(chakra.read_ranks(name))), [], all_ranks=True)
        traces, missing = _present(name)
        return OpenedTraces("Chakra traces", traces, [], all_ranks=True, missing=missing)
    if not Path(name).exists() and not Path(name).suffix and name:
        chakra.traced_ranks(name)  # raises an error with the nearest prefix
    found = format_of(name)
    key = found.key if found else "layer table" if _begins_with_a_word(name) else ""
    if key in TASK_GRAPHS:
        of_gpus = chakra.task_graph_traces(chakra.read_task_graph(name))[0]
        return OpenedTraces("FlexFlow task graph", dict(enumerate(of_gpus)), [], all_ranks=True)
    if key in _TABLES:
        from astranb.workload.astrasim1 import layer_table_trace, simai_trace

        table = (simai_trace if key == "SimAI workload" else layer_table_trace)(name, passes)
        return OpenedTraces(key, {0: table.trace}, list(table.notes), table=table)
    cut = ""
    by_plugin = read_by_plugin(name, "traces", chakra.Trace)
    if found and by_plugin is not None:
        form, trace = found.name, by_plugin
    elif key == "execution trace":
        form, trace = "PyTorch execution trace", chakra.pytorch_trace(chakra.pytorch_document(name))
    elif key == "Chakra JSON":
        form, trace = key, chakra.json_trace(name)
    elif key in _GRAPHS:
        form, trace = key, chakra.graph_trace(name)
    else:
        form = "Chakra trace"
        if whole:
            trace = chakra.read(name)
        else:
            trace, cut = chakra.read_part(name)
        if chakra.is_merged(trace) and not cut:
            traces = dict(enumerate(chakra.split(trace)))
            return OpenedTraces("Chakra traces of all ranks in one file", traces, [], all_ranks=True)
    return OpenedTraces(form, {0: trace}, [], missing=(f"{name}: truncated: {cut}",) if cut else ())


def _begins_with_a_word(name: str) -> bool:
    """Return whether a file begins as a layer table of a loop that a user registered, or mistyped."""
    return re.match(rb"[A-Za-z]\w{2,60}[^\n\0]{0,400}\n\s*\d+\s", _head(name)) is not None


def _head(name: str) -> bytes:
    return head(name, _HEAD)


def _has_ranks(name: str) -> bool:
    from astranb.chakra import present_ranks

    try:
        return bool(present_ranks(name))
    except InputError:
        return False


def _present(name: str) -> tuple[dict[int, Trace], tuple[str, ...]]:
    """Read the ranks that there are, as far as they can be."""
    from astranb.chakra import present_ranks, rank_file, read_part

    traces, notes = {}, []
    for rank in present_ranks(name):
        traces[rank], cut = read_part(rank_file(name, rank))
        notes += [f"{rank_file(name, rank)}: truncated: {cut}"] if cut else []
    missing = sorted(set(range(min(max(traces) + 1, len(traces) + 8))) - set(traces))
    if missing:
        notes.append(f"{name}: no trace of rank {', '.join(map(str, missing[:8]))}")
    return traces, tuple(notes)


def faults_of(found: OpenedTraces) -> dict[int | None, list[Any]]:
    """The faults of each rank that has any, and under None those between ranks."""
    from astranb.chakra import faults, rank_faults

    listed: dict[int | None, list[Any]] = {
        rank: some for rank, trace in found.traces.items() if (some := faults(trace))
    }
    if len(found.traces) > 1 and (between := rank_faults(found.traces)):
        listed[None] = between
    return listed


def info(args: argparse.Namespace) -> Report:
    """Identify a file, and summarise it; faults are notes."""
    from astranb.chakra import summary

    if Path(args.file).is_file():
        found = format_of(args.file)
        if found is not None and found.key == "Kineto trace":
            return _kineto(args.file)
        if found is not None and found.key == "execution trace":
            return _execution_trace(args.file)
    read = opened(args.file, whole=False)
    rows = [summary(trace) for trace in read.traces.values()]
    problems = [
        f"{read.traces[rank].source if rank is not None else args.file}: {one}"
        for rank, some in faults_of(read).items()
        for one in some
    ]
    notes = [*read.notes, *read.missing, *problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        notes.append(f"… {len(problems) - _MOST_SHOWN:,} more: astranb chakra check {args.file}")
    if read.all_ranks:
        each = (
            f"rank {n}: {plural(row['nodes'], 'node')}, {_collectives(row)}"
            for n, row in zip(read.traces, rows, strict=True)
        )
        document: dict[str, Any] = {"ranks": len(rows), "traces": rows, "notes": notes}
        return Report(document, [plural(len(rows), "rank"), *each], notes=notes)
    row = rows[0]
    depth = "a cycle" if row["depth"] is None else row["depth"]
    lines = [] if read.form == "Chakra trace" else [f"format: {read.form}"]
    lines += [
        f"schema: {row['version'] or 'not given'}",
        f"nodes: {row['nodes']}, dependencies: {row['dependencies']}, longest chain: {depth}",
        f"types: {', '.join(f'{name} {count}' for name, count in row['types'].items()) or 'none'}",
        f"collectives: {_collectives(row)}",
        f"groups: {', '.join(row['groups']) or 'none'}",
        f"messages: {row['sent_bytes']:,} bytes sent, {row['received_bytes']:,} received",
        f"computation: {plural(row['num_ops'], 'operation')}; recorded durations: {row['duration_us']:,} us",
        f"attributes: {', '.join(row['attributes']) or 'none'}",
    ]
    if read.table is not None and read.table.ranks:
        one = read.table
        lines.append(f"ranks: {one.ranks:,}: TP {one.tensor}, EP {one.expert}, PP {one.pipeline}")
    document = {"format": read.form, **row, "notes": notes}
    more = (f"{name}: {value}" for name, value in row["metadata"].items())
    return Report(document, [*lines, *more], notes=notes)


def _collectives(row: dict[str, Any]) -> str:
    counts = (f"{name} {one['count']} ({one['bytes']:,} bytes)" for name, one in row["collectives"].items())
    return ", ".join(counts) or "no collectives"


def _kineto(name: str) -> Report:
    from astranb.chakra import kineto_summary, read_kineto

    document = {"format": "Kineto trace", **kineto_summary(read_kineto(name, whole=False))}
    shown = {name: value for name, value in document.items() if name not in ("truncated", "collectives")}
    lines = [
        f"{name}: {', '.join(f'{key} {count:,}' for key, count in value.items()) or 'none'}"
        if isinstance(value, dict)
        else f"{name}: {value:,}"
        if isinstance(value, int)
        else f"{name}: {value}"
        for name, value in shown.items()
    ]
    kinds = (f"{kind} {count:,}" for kind, count in document["collectives"].items())
    lines.append(f"collectives: {', '.join(kinds) or 'none'}")
    notes = [f"{name}: truncated: {document['truncated']}"] if document["truncated"] else []
    hint = f"astranb chakra convert {name} -o FILE.et; with its host trace: link HOST.json {name} -o FILE.et"
    notes.append(f"{name}: {hint}")
    return Report(document, lines, notes=notes)


def _execution_trace(name: str) -> Report:
    from astranb.chakra import pytorch_document, pytorch_summary

    document = {"format": "PyTorch execution trace", **pytorch_summary(pytorch_document(name))}
    lines = [
        f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}"
        for key, value in document.items()
    ]
    notes = []
    if not document["device operations"]:
        notes.append(f"{name}: no operations of a device: astranb chakra link {name} DEVICE.json -o FILE.et")
    return Report(document, lines, notes=notes)


def check(args: argparse.Namespace) -> Report:
    """List all faults of a trace or of a job's traces, and repair what can be repaired."""
    from astranb.chakra import repaired, write, write_ranks

    found = opened(args.file, whole=False)
    notes = []
    if args.repaired is not None:
        traces = {}
        for rank, trace in found.traces.items():
            traces[rank], done = repaired(trace)
            notes += [f"{trace.source}: {one}" for one in done]
        if found.all_ranks:
            if sorted(traces) != list(range(len(traces))):
                what = f"ranks are missing: {', '.join(map(str, sorted(traces)[:8]))} exist"
                raise InputError(what, where=args.file, hint="repair the files one by one")
            write_ranks(lambda rank: traces[rank].data, args.repaired, ranks=len(traces))
        else:
            _require_trace_name(args.repaired)
            write(traces[0], args.repaired)
        cut = [one for one in found.missing if "truncated" in one]
        notes += [f"{one}; the whole nodes before were kept" for one in cut]
        found = found._replace(traces=traces, missing=tuple(one for one in found.missing if one not in cut))
    listed = faults_of(found)
    lines = [*found.missing]
    for of, some in listed.items():
        where = f"rank {of}: " if found.all_ranks and of is not None else ""
        lines += [f"{where}{one}" for one in some]
    nodes = sum(map(len, found.traces.values()))
    fatal = bool(found.missing) or any(not one.runs for some in listed.values() for one in some)
    said = "cannot be run" if fatal else "can be run" if listed else "nothing wrong"
    lines.append(f"{plural(len(found.traces), 'trace')}, {plural(nodes, 'node')}: {said}")
    document = {
        "format": found.form,
        "ranks": len(found.traces),
        "nodes": nodes,
        "runs": not fatal,
        "missing": list(found.missing),
        "repaired": notes,
        "faults": [{"rank": rank, **asdict(one)} for rank, some in listed.items() for one in some],
    }
    return Report(document, lines, exit_code=1 if fatal else 0, notes=[*found.notes, *notes])


def convert(args: argparse.Namespace) -> Report:
    """Convert a file of any format to traces, or a trace to GraphML."""
    from astranb.chakra import write_graphml
    from astranb.workload.astrasim1 import write_table_ranks

    if Path(args.file).exists() and not Path(args.file).is_file():  # a pipe would be waited for
        raise InputError("this is not a regular file", where=args.file, hint="give a file to convert")
    found = format_of(args.file)
    if found is not None and found.key in TASK_GRAPHS:
        return _convert_task_graph(args)
    if found is not None and found.key == "Kineto trace":
        return _convert_kineto(args)
    read = opened(args.file, **typed(args, "passes"))
    trace = read.traces[0]
    notes = read.notes
    ranks: int | None = args.npus
    if ranks is None and read.table is not None and not _is_trace_name(args.output):
        ranks = read.table.ranks or None
    if args.output.lower().endswith(".graphml"):
        write_graphml(trace, args.output)
        files = [args.output]
    elif read.table is not None and ranks is not None:
        _check_ranks(ranks)
        files = list(map(str, write_table_ranks(read.table, args.output, ranks=ranks)))
    else:
        files = write_copies(trace, args.output, npus=ranks)
        named = sorted(name for name in trace.pg_name.values if name) if read.table is not None else []
        if named:
            notes.append(f"{args.file}: of one rank, in groups {', '.join(named)}; give PREFIX for all ranks")
    document = {"from": read.form, "nodes": len(trace), "version": trace.version, "files": files}
    shown = (
        f"{plural(len(trace), 'node')} in {plural(len(files), 'file')}, schema {trace.version or 'not given'}"
    )
    if read.form == "PyTorch execution trace":
        notes += [*without_durations(args.file, trace), *_without_communication(args.file, trace)]
    return Report(document, [f"{read.form}: {shown}"], notes=notes)


def _convert_kineto(args: argparse.Namespace) -> Report:
    """Convert what one rank's profiler recorded, without its host trace."""
    from astranb.chakra import RankFiles, link_job

    if args.npus is not None:
        raise InputError("a profile is one rank's", where="--npus", hint="leave it out, or link all ranks")
    job = link_job([RankFiles(None, Path(args.file))], one_rank=True)
    trace = job.traces[0]
    files = write_copies(trace, args.output, npus=None)
    document = {
        "from": "Kineto trace",
        "nodes": len(trace),
        "collectives": job.collectives,
        "steps_us": job.steps_us[0],
        "files": files,
    }
    measured = " + ".join(f"{one / 1000:.3f}" for one in job.steps_us[0])
    counted = f"{plural(len(trace), 'node')}, {plural(job.collectives, 'collective')}"
    line = f"Kineto trace: {counted}; steps as measured: {measured} ms"
    return Report(document, [line], notes=[f"{args.file}: {note}" for note in job.notes])


def without_durations(file: str, trace: Trace) -> list[str]:
    """Return a note if a trace from PyTorch gives computations no durations."""
    from astranb.chakra import NodeType, durations_note, untimed

    rows = np.flatnonzero(untimed(trace))
    first = f"{trace.id[rows[0]]} {trace.names[int(rows[0])]!r}" if len(rows) else ""
    computed = int((trace.type == NodeType.COMP).sum())
    return [f"{file}: {one}" for one in durations_note(len(rows), computed, first)]


def _without_communication(file: str, trace: Trace) -> list[str]:
    """Return a note if a trace from PyTorch communicates, and its nodes do not."""
    from astranb.chakra import NodeType

    asked = sum((trace.names[row] or "").startswith("c10d::") for row in range(len(trace)))
    if not asked or (trace.type >= NodeType.COMM_SEND).any():
        return []
    hint = "link the recordings of all ranks ('astranb chakra link PREFIX')"
    return [f"{file}: NO COMMUNICATION: {asked:,} calls of torch.distributed are computations; {hint}"]


def _convert_task_graph(args: argparse.Namespace) -> Report:
    from astranb.chakra import read_task_graph, write_task_graph

    if args.npus is not None:
        what = "a task graph has its own number of GPUs"
        raise InputError(what, where="--npus", hint="leave it out: PREFIX.RANK.et is written for each GPU")
    graph = read_task_graph(args.file)
    files = list(map(str, write_task_graph(graph, args.output)))
    document = {
        "from": "FlexFlow task graph",
        "tasks": len(graph.tasks),
        "ranks": graph.ranks,
        "files": files,
    }
    text = (
        f"FlexFlow task graph: {plural(len(graph.tasks), 'task')} of "
        f"{plural(graph.ranks, 'GPU')} in {plural(len(files), 'file')}"
    )
    return Report(document, [text])


def write_copies(trace: Trace, output: str, *, npus: int | None) -> list[str]:
    """Write one file, or the same trace for each rank; returns the files."""
    from astranb.chakra import write, write_ranks

    if npus is None:
        _require_trace_name(output)
        write(trace, output)
        return [output]
    return [str(file) for file in write_ranks(lambda _rank: trace.data, output, ranks=npus)]


def _is_trace_name(name: str) -> bool:
    return name.lower().endswith((".et", ".et.gz", ".graphml"))


def _require_trace_name(name: str) -> None:
    if not name.lower().endswith((".et", ".et.gz")):
        raise InputError("unknown file extension", where=name, hint="use FILE.et, or give --npus N")


def _check_ranks(npus: int) -> None:
    from astranb.core.limits import MOST_RANKS

    if not 1 <= npus <= MOST_RANKS:
        raise InputError(f"{npus} ranks", where="--npus", hint=f"use 1 to {MOST_RANKS}")
