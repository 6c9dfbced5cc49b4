"""``astranb chakra``: make, inspect, convert and compare Chakra execution traces."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError
from astranb.core.file_formats import is_task_graph
from astranb.explore.options.model import add_model_options, workload_of

from .arguments import add_command, add_output, add_verbs
from .printing import Report

if TYPE_CHECKING:
    from astranb.chakra import Times, Trace

__all__ = ["add_commands"]

_MOST_RANKS = 1 << 20
_HEAD = 4096
_TRACE = "FILE.et or FILE.et.gz"
_TRACES = f"{_TRACE}, or PREFIX of PREFIX.RANK.et for all ranks, or a task graph of FlexFlow"


def add_commands(commands: Any) -> None:
    """Add ``chakra`` and its verbs to the command line."""
    verbs = add_verbs(commands, "chakra", "make, inspect, convert and compare Chakra execution traces")

    info = add_command(verbs, "info", "summarise a trace and check that it can run", _info)
    info.add_argument("file", help=_TRACES)

    listing = add_command(verbs, "json", "print a trace as JSON, one node per line", _json)
    listing.add_argument("file", help=_TRACE)

    generate = add_command(
        verbs, "generate", "write the traces of a model divided over ranks", _generate,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_model_options(generate)
    generate.add_argument("--list", action="store_true", help="list all models")
    generate.add_argument("--gpu", help="write durations of this GPU's kernels, as h100-sxm")
    add_output(generate, "write PREFIX.RANK.et and PREFIX.groups.json", metavar="PREFIX")

    convert = add_command(
        verbs,
        "convert",
        "convert an older Chakra trace, a PyTorch trace, a FlexFlow task graph or an ASTRA-sim 1.0 table",
        _convert,
    )
    convert.add_argument(
        "file",
        help="FILE.et, PyTorch execution trace (.json), layer table (.txt) or task graph of FlexFlow "
        "(FlatBuffers or JSON)",
    )
    add_output(convert, "FILE.et; with --npus, and of a task graph, PREFIX", required=True)
    convert.add_argument(
        "--npus", type=int, metavar="N", help="layer table: write PREFIX.RANK.et for N ranks"
    )
    convert.add_argument(
        "--passes", type=int, default=1, metavar="N", help="layer table: passes through the loop (default: 1)"
    )

    link = add_command(verbs, "link", "join a PyTorch host trace with its Kineto device trace", _link)
    link.add_argument("host", help="JSON written by torch's ExecutionTraceObserver")
    link.add_argument("device", help="JSON written by Kineto")
    add_output(link, "FILE.et, or FILE.json to convert later", required=True)

    timeline = add_command(verbs, "timeline", "write a Perfetto timeline of a trace", _timeline)
    timeline.add_argument("file", help=_TRACES)
    add_output(timeline, "FILE.json or FILE.json.gz", required=True)
    timeline.add_argument("--system", metavar="FILE", help="simulate the times: system.json")
    timeline.add_argument("--network", metavar="FILE", help="simulate the times: network.yml")
    timeline.add_argument("--comm-group", metavar="FILE", help="simulate the times: communicator groups")

    draw = add_command(verbs, "draw", "draw the graph of a trace", _draw)
    draw.add_argument("file", help=_TRACE)
    add_output(draw, "FILE.svg, or FILE.dot for Graphviz", required=True)
    draw.add_argument("--most", type=int, default=400, metavar="N", help="most nodes to draw (default: 400)")
    draw.add_argument("--start", type=int, default=0, metavar="N", help="nodes to skip first (default: 0)")

    synthesize = add_command(
        verbs, "synthesize", "learn from a corpus of traces and write a synthetic workload", _synthesize
    )
    synthesize.add_argument(
        "corpus", nargs="+",
        help="folder of PREFIX.RANK.et, PREFIX or FILE.et; beside it PREFIX.groups.json and PREFIX.job.json",
    )  # fmt: skip
    add_output(synthesize, "write PREFIX.RANK.et, its groups and conditions", required=True, metavar="PREFIX")
    synthesize.add_argument("--ranks", type=int, metavar="N", help="number of ranks")
    synthesize.add_argument("--model-size", type=float, metavar="P", help="parameters of the model, as 1e9")
    synthesize.add_argument("--batch", type=float, metavar="B", help="batch of a step, in the corpus' unit")
    for flag, what in (("tp", "parts of matrices"), ("pp", "stages"), ("dp", "replicas")):
        synthesize.add_argument(f"--{flag}", type=int, metavar="N", help=f"{what} (default: the corpus')")
    synthesize.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    synthesize.add_argument(
        "--report", metavar="FILE.json",
        help="write how near held-out workloads are, on simulated clusters too, and what is given away",
    )  # fmt: skip

    compare = add_command(verbs, "compare", "show how two traces differ", _compare)
    compare.add_argument("first", help=_TRACES)
    compare.add_argument("second", help="the same")


def _read(name: str) -> tuple[list[Trace], bool]:
    """Return the trace of a file, or those of all ranks of a prefix, and which of the two."""
    from astranb.chakra import rank_file, read, read_ranks, read_task_graph, task_graph_traces

    if is_task_graph(name):
        return task_graph_traces(read_task_graph(name))[0], True
    all_ranks = not Path(name).is_file() and rank_file(name, 0).is_file()
    return (read_ranks(name) if all_ranks else [read(name)]), all_ranks


def _info(args: argparse.Namespace) -> Report:
    from astranb.chakra import check, summary

    traces, all_ranks = _read(args.file)
    for trace in traces:
        check(trace)
    rows = [summary(trace) for trace in traces]
    if all_ranks:
        each = (f"rank {n}: {row['nodes']} nodes, {_collectives(row)}" for n, row in enumerate(rows))
        return Report({"ranks": len(rows), "traces": rows}, [f"{len(rows)} ranks", *each])
    row = rows[0]
    lines = [
        f"schema: {row['version'] or 'not given'}",
        f"nodes: {row['nodes']}, dependencies: {row['dependencies']}, longest chain: {row['depth']}",
        f"types: {', '.join(f'{name} {count}' for name, count in row['types'].items()) or 'none'}",
        f"collectives: {_collectives(row)}",
        f"groups: {', '.join(row['groups']) or 'none'}",
        f"messages: {row['sent_bytes']:,} bytes sent, {row['received_bytes']:,} received",
        f"computation: {row['num_ops']:,} operations; recorded durations: {row['duration_us']:,} us",
        f"attributes: {', '.join(row['attributes']) or 'none'}",
    ]
    return Report(row, [*lines, *(f"{name}: {value}" for name, value in row["metadata"].items())])


def _collectives(row: dict[str, Any]) -> str:
    counts = (f"{name} {one['count']} ({one['bytes']:,} bytes)" for name, one in row["collectives"].items())
    return ", ".join(counts) or "no collectives"


def _json(args: argparse.Namespace) -> Report:
    from astranb.chakra import as_document, read

    nodes = map(as_document, read(args.file).nodes())
    if args.json:
        return Report(list(nodes))
    return Report(None, (json.dumps(node, ensure_ascii=False) for node in nodes))


def _generate(args: argparse.Namespace) -> Report:
    if args.list:
        return _list_models()
    for name in ("model", "output"):
        if getattr(args, name) is None:
            raise InputError(f"--{name} is missing", where="generate", hint="or give --list")
    step = workload_of(args, args.gpu)
    files = step.write(args.output)
    size = sum(file.stat().st_size for file in files)
    document = {
        "model": args.model,
        "ranks": step.ranks,
        "nodes": step.nodes,
        "bytes": size,
        "groups": len(step.groups),
        "tokens": step.tokens,
        "model_flops": step.model_flops,
        "files": [str(file) for file in files],
    }
    lines = [
        f"{step.ranks} traces, {step.nodes:,} nodes, {size:,} bytes: {args.output}.RANK.et",
        f"{len(step.groups)} groups of ranks: {args.output}.groups.json (--comm-group)",
        f"{step.tokens:,} {step.unit} per step, {step.model_flops:.4g} FLOPs in the model's matrices",
    ]
    return Report(document, lines)


def _list_models() -> Report:
    from astranb.workload.models import MODELS

    rows = [
        {"model": name, "parameters": one.parameters, "source": one.source} for name, one in MODELS.items()
    ]
    return Report(rows, [f"{r['model']:<14} {r['parameters']:>17,}  {r['source']}" for r in rows])


def _write_ranks(output: str, trace: Trace, npus: int | None) -> list[str]:
    """Write one file, or the same trace for each rank; returns the files."""
    from astranb.chakra import write, write_ranks

    if npus is None:
        if not output.lower().endswith((".et", ".et.gz")):
            raise InputError("unknown file extension", where=output, hint="use FILE.et, or give --npus N")
        write(output, trace)
        return [output]
    if not 1 <= npus <= _MOST_RANKS:
        raise InputError(f"{npus} ranks", where="--npus", hint=f"use 1 to {_MOST_RANKS}")
    return [str(file) for file in write_ranks(output, npus, lambda _rank: trace.data)]


def _convert(args: argparse.Namespace) -> Report:
    from astranb.chakra import layer_table_trace, pytorch_document, pytorch_trace, read

    if is_task_graph(args.file):
        return _convert_task_graph(args)
    if Path(args.file).exists() and not Path(args.file).is_file():  # a pipe would be waited for
        raise InputError("this is not a regular file", where=args.file, hint="give a file to convert")
    try:
        with Path(args.file).open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise InputError(
            error.strerror or str(error), where=args.file, hint="give a file to convert"
        ) from None
    plain = head.removeprefix(b"\xef\xbb\xbf")
    if re.match(rb"\s*[\[{]\s*[\[{\"}\]]", plain):
        how, trace = "PyTorch execution trace", pytorch_trace(pytorch_document(args.file))
    elif re.match(rb"\s*[A-Za-z_]{3}", plain):
        how, trace = "layer table", layer_table_trace(args.file, args.passes)
    else:
        how, trace = "Chakra trace", read(args.file)
    files = _write_ranks(args.output, trace, args.npus)
    document = {"from": how, "nodes": len(trace), "version": trace.version, "files": files}
    text = f"{how}: {len(trace):,} nodes in {len(files)} files, schema {trace.version}"
    notes = _without_durations(args.file, trace) if how == "PyTorch execution trace" else ()
    return Report(document, [text], notes=notes)


def _convert_task_graph(args: argparse.Namespace) -> Report:
    from astranb.chakra import read_task_graph, write_task_graph

    if args.npus is not None:
        what = "a task graph has its own number of GPUs"
        raise InputError(what, where="--npus", hint="leave it out: PREFIX.RANK.et is written for each GPU")
    graph = read_task_graph(args.file)
    files = list(map(str, write_task_graph(args.output, graph)))
    document = {
        "from": "FlexFlow task graph",
        "tasks": len(graph.tasks),
        "ranks": graph.ranks,
        "files": files,
    }
    text = f"FlexFlow task graph: {len(graph.tasks):,} tasks of {graph.ranks:,} GPUs in {len(files):,} files"
    return Report(document, [text])


def _without_durations(file: str, trace: Trace) -> list[str]:
    """Return a note if a trace from PyTorch gives its computations no durations."""
    from astranb.chakra import NO_DURATIONS, summary

    found = summary(trace)
    return [f"{file}: {NO_DURATIONS}"] if found["types"].get("COMP") and not found["duration_us"] else []


def _link(args: argparse.Namespace) -> Report:
    from astranb.chakra import link, pytorch_trace, write
    from astranb.core.document import DocumentNode, DocumentSource
    from astranb.core.files import whole_file

    if not args.output.lower().endswith((".json", ".et", ".et.gz")):
        raise InputError("unknown file extension", where=args.output, hint="use FILE.et or FILE.json")
    found = link(args.host, args.device)
    notes: list[str] = []
    if args.output.lower().endswith(".json"):
        with whole_file(Path(args.output)) as file:
            file.write(json.dumps(found.document).encode())
    else:
        trace = pytorch_trace(DocumentNode(found.document, DocumentSource(args.host)))
        write(args.output, trace)
        notes = _without_durations(args.host, trace)
    document = {name: getattr(found, name) for name in ("hosts", "devices", "orphans", "waits")}
    document["nodes"] = len(found.document["nodes"])
    text = f"{found.hosts:,} host operations, {found.devices:,} device operations"
    return Report(document, [f"{text} ({found.orphans:,} without a caller)"], notes=notes)


def _timeline(args: argparse.Namespace) -> Report:
    from astranb.chakra import recorded_times, write_timeline

    traces, _ = _read(args.file)
    if args.system or args.network:
        for name in ("system", "network"):
            if getattr(args, name) is None:
                raise InputError(f"--{name} is missing", where="timeline", hint="give both to simulate")
        times = _simulated(args, traces)
    else:
        times = [recorded_times(trace) for trace in traces]
    document = write_timeline(args.output, traces, times)
    text = f"{document['spans']:,} spans of {document['ranks']:,} ranks: {document['times']}"
    if document["ranks_left_out"]:
        text += f"; {document['ranks_left_out']:,} ranks left out"
    return Report(document, [text])


def _simulated(args: argparse.Namespace, traces: list[Trace]) -> list[Times]:
    """Return when nodes begin and end on ASTRA-sim's network."""
    import numpy as np

    from astranb.chakra import NodeType, Times
    from astranb.engine.messages import Run
    from astranb.workload.astrasim2 import load

    run = Run(load(args.file, args.system, args.network, groups=args.comm_group))
    run.finish()
    run.result()  # raises an error for a deadlock
    table = run.machine.operations
    begun, found = 0, []
    for trace in traces:
        order = np.argsort(trace.id, kind="stable")
        kept = order[trace.type[order] != NodeType.METADATA]
        start, end = np.full(len(trace), -1, np.int64), np.full(len(trace), -1, np.int64)
        own = slice(begun, begun + len(kept))
        start[kept], end[kept] = table["start_ns"][own], table["end_ns"][own]
        begun += len(kept)
        found.append(Times(start, end, "simulated"))
    return found


def _draw(args: argparse.Namespace) -> Report:
    from astranb.chakra import draw, read

    document = draw(read(args.file), args.output, most=args.most, start=args.start)
    text = f"{document['nodes']:,} nodes and {document['dependencies']:,} dependencies"
    if document["nodes_left_out"]:
        text += f"; left out: {document['nodes_left_out']:,} and {document['dependencies_left_out']:,}"
    return Report(document, [text])


def _synthesize(args: argparse.Namespace) -> Report:
    from astranb.chakra import summary
    from astranb.chakra.corpus import Corpus, CorpusModel, read_corpus
    from astranb.core.files import whole_file
    from astranb.explore import corpus_report

    jobs = read_corpus(*args.corpus)
    made = CorpusModel(jobs).sample(
        parameters=args.model_size, batch=args.batch, tensor=args.tp, data=args.dp, pipeline=args.pp,
        ranks=args.ranks, seed=args.seed,
    )  # fmt: skip
    files = [str(file) for file in made.write(args.output)]
    plan = {name: getattr(made, name) for name in ("tensor", "data", "pipeline")}
    document = {"ranks": made.ranks, "nodes": made.nodes, **plan, "first": summary(made.traces[0])}
    text = f"{made.ranks} ranks, {made.nodes:,} nodes, like {len(jobs)} workloads: {args.output}.RANK.et"
    lines = [f"{text} (tensor {made.tensor}, data {made.data}, pipeline {made.pipeline})"]
    if args.report:
        report = corpus_report(Corpus.of(jobs, seed=args.seed), seed=args.seed)
        with whole_file(Path(args.report)) as file:
            file.write(json.dumps(report, indent=1).encode())
        document["report"] = report
        worst = max(max(abs(row["makespan_off"]), abs(row["exposed_off"])) for row in report["clusters"])
        verbatim = report["privacy"]["verbatim_sizes"]
        lines.append(
            f"held-out workloads on {len(report['clusters'])} clusters: makespan and exposed communication "
            f"off by {worst:.1%} at most; {verbatim:.0f} sizes verbatim: {args.report}"
        )
    return Report(document | {"files": files}, lines)


def _compare(args: argparse.Namespace) -> Report:
    from astranb.chakra import compare

    first, second = _read(args.first)[0], _read(args.second)[0]
    rows = [{"rank": rank, **compare(*both)} for rank, both in enumerate(zip(first, second, strict=False))]
    document: dict[str, Any] = {
        "same": len(first) == len(second) and all(row["same"] for row in rows),
        "ranks": [len(first), len(second)],
        "traces": rows,
    }
    lines = [] if len(first) == len(second) else [f"{len(first)} and {len(second)} ranks"]
    for row in rows:
        named, *more = _comparison_lines(row)
        lines += [f"rank {row['rank']}: {named}" if len(rows) > 1 else named, *more]
    return Report(document, lines)


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
