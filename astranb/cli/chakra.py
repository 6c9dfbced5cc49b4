"""``astranb chakra``: make, inspect, convert and compare Chakra execution traces."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural
from astranb.explore.runs import StepSpec, are_missing, flag_of, made_of, whole, workload_of

from .arguments import add_command, add_output, add_verbs, check_apply, chosen_of, typed
from .chakra_cases import add_case_options, generate_cases
from .chakra_corpus import add_synthesize
from .chakra_formats import check, convert, info, opened, without_durations
from .chakra_look import add_views, viewed
from .chakra_merge import add_merge_commands
from .chakra_scale import add_scale
from .options import MODEL_GROUPS, add_fields, add_groups
from .printing import Report

__all__ = ["add_commands"]

_TRACE = "FILE.et or FILE.et.gz"
_ANY = (
    "Chakra trace (.et, JSON), PyTorch execution trace or Kineto trace (.json), layer table of ASTRA-sim 1.0 "
    "or SimAI workload (.txt), GraphML or node-link JSON, or task graph of FlexFlow"
)
_APPLY: Final = {
    "model": {"--gpu", *(flag_of(one.name) for one in fields(StepSpec))} - {"--model"},
    "case": {"--npus", "--case-duration", "--case-memory", "--case-message"},
}
"""Options of 'generate' that have an effect, by what is generated."""
_TRACES = f"{_TRACE}, or PREFIX of PREFIX.RANK.et for all ranks, or a task graph of FlexFlow"


def add_commands(commands: Any) -> None:
    """Add ``chakra`` and its verbs to the command line."""
    verbs = add_verbs(commands, "chakra", "make, inspect, convert and compare Chakra execution traces")

    described = add_command(verbs, "info", "say what a file is, and summarise it", info)
    described.add_argument("file", help=f"{_ANY}, or PREFIX of PREFIX.RANK.et for all ranks")

    checks = add_command(
        verbs, "check", "list everything that is wrong with a trace or a job's traces (exit code 1)", check
    )
    checks.add_argument("file", help=f"{_TRACES}, or another format that 'convert' reads")
    checks.add_argument(
        "--repaired", metavar="OUT", help="write FILE.et or PREFIX with what can be repaired safely"
    )

    listing = add_command(verbs, "json", "print a trace as JSON, one node per line", _json)
    listing.add_argument("file", help=_TRACE)

    generate = add_command(
        verbs, "generate", "write the traces of a model divided over ranks, or small ones to test", _generate,
        description="Write traces, as: astranb chakra generate --model gpt3-125m --dp 2 --tp 2 -o step",
    )  # fmt: skip
    add_fields(generate, [StepSpec], "--model NAME")
    add_groups(generate, [StepSpec], MODEL_GROUPS)
    add_case_options(generate)
    generate.add_argument("--list", action="store_true", help="list all models, and cases")
    generate.add_argument("--gpu", help="write durations of this GPU's kernels, as h100-sxm")
    add_output(generate, "write PREFIX.RANK.et, its groups and its plan (PREFIX.job.json)", metavar="PREFIX")

    converts = add_command(verbs, "convert", "convert a file of any format to traces", convert)
    converts.add_argument("file", help=_ANY)
    add_output(
        converts,
        "FILE.et or FILE.graphml; with --npus, and of a task graph or SimAI workload, PREFIX",
        required=True,
    )
    converts.add_argument(
        "--npus",
        type=whole(1, MOST_RANKS),
        metavar="N",
        help="layer table, SimAI workload: write PREFIX.RANK.et for N ranks",
    )
    converts.add_argument(
        "--passes", type=whole(1), metavar="N", help="layer table: passes through the loop (default: 1)"
    )

    link = add_command(
        verbs, "link", "join what the ranks of a PyTorch job recorded, or one host trace with Kineto's", _link
    )
    link.add_argument(
        "host",
        help="PREFIX of what all ranks recorded (PREFIX.RANK.et.json, PREFIX.RANK.kineto.json.gz); or the "
        "JSON of torch's ExecutionTraceObserver",
    )
    link.add_argument("device", nargs="?", help="of one host trace: the JSON of Kineto")
    add_output(
        link,
        "PREFIX of the traces (default: that of the recording); of one host trace FILE.et, or FILE.json to "
        "convert later",
    )

    add_views(verbs, _TRACES)

    draw = add_command(verbs, "draw", "draw the graph of a trace", _draw)
    draw.add_argument("file", help=_TRACE)
    add_output(draw, "FILE.html, modules that open; FILE.svg, or FILE.dot for Graphviz", required=True)
    draw.add_argument(
        "--by", choices=("callers", "names"), help="page: what modules are (default: callers, if recorded)"
    )
    draw.add_argument("--most", type=whole(1), metavar="N", help="most nodes to draw (default: 400)")
    draw.add_argument("--skip", type=whole(0), metavar="N", help="nodes to skip first (default: 0)")

    add_scale(verbs)

    add_synthesize(verbs)

    add_merge_commands(verbs)


def _json(args: argparse.Namespace) -> Report:
    from astranb.chakra import as_document, present_ranks, read

    if not Path(args.file).exists() and (ranks := present_ranks(Path(args.file))):
        what = f"it is the prefix of {plural(len(ranks), 'trace')}"
        raise InputError(what, where=args.file, hint=f"name one: {args.file}.{ranks[0]}.et")
    nodes = map(as_document, read(args.file).nodes())
    if args.json:
        return Report(list(nodes))
    return Report(None, (json.dumps(node, ensure_ascii=False) for node in nodes))


def _generate(args: argparse.Namespace) -> Report:
    if args.list:
        return _list_models()
    if chosen := chosen_of(args, _APPLY, "chakra generate"):
        check_apply(args, chosen, _APPLY, "chakra generate")
    if args.case is not None:
        return generate_cases(args)
    if missing := [flag_of(name) for name in ("model", "output") if getattr(args, name) is None]:
        hint = "give --case for small ones, or --list to see all"
        raise InputError(are_missing(missing), where="chakra generate", hint=hint)
    step = workload_of(made_of(StepSpec, args), args.gpu)
    files = step.write(args.output)
    size = sum(file.stat().st_size for file in files if file.suffix == ".et")
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
        f"{plural(step.ranks, 'trace')}, {plural(step.nodes, 'node')}, {size:,} bytes: {args.output}.RANK.et",
        f"{plural(len(step.groups), 'group')} of ranks: {args.output}.groups.json (--comm-group)",
        (
            f"{plural(step.tokens, step.unit.removesuffix('s'))} per step, "
            f"{step.model_flops:.4g} FLOPs in the model's matrices"
        ),
    ]
    return Report(document, lines)


def _list_models() -> Report:
    from astranb.chakra import CASES
    from astranb.workload.models import MODELS

    rows = [
        {"model": name, "parameters": one.parameters, "source": one.source} for name, one in MODELS.items()
    ]
    lines = [f"{r['model']:<14} {r['parameters']:>17,}  {r['source']}" for r in rows]
    lines += ["cases (--case):", *(f"{name:<38} {text}" for name, text in CASES.items())]
    return Report(rows, lines)


def _link(args: argparse.Namespace) -> Report:
    from astranb.chakra import link
    from astranb.core.files import whole_file

    if args.device is None:
        return _link_job(args)
    if args.output is None:
        raise InputError("--output is missing", where="chakra link", hint="give FILE.et or FILE.json")
    if not args.output.lower().endswith((".json", ".et", ".et.gz")):
        raise InputError("unknown file extension", where=args.output, hint="use FILE.et or FILE.json")
    if not args.output.lower().endswith(".json"):
        return _link_rank(args)
    found = link(args.host, args.device)
    with whole_file(Path(args.output)) as file:
        file.write(json.dumps(found.document).encode())
    document = {name: getattr(found, name) for name in ("hosts", "devices", "orphans", "waits")}
    document["nodes"] = len(found.document["nodes"])
    text = f"{found.hosts:,} host operations, {found.devices:,} device operations"
    return Report(document, [f"{text} ({found.orphans:,} without a caller)"])


def _link_rank(args: argparse.Namespace) -> Report:
    """Make a trace of what one rank recorded."""
    from astranb.chakra import RankFiles, link_job, write

    job = link_job([RankFiles(Path(args.host), Path(args.device))], one_rank=True)
    write(job.traces[0], args.output)
    row = {"rank": 0, "nodes": len(job.traces[0]), "steps_us": job.steps_us[0], "begun_us": 0.0}
    counts = {"collectives": job.collectives, "messages": job.messages, "nodes": row["nodes"]}
    notes = [*job.notes, *without_durations(args.host, job.traces[0])]
    lines = [plural(job.collectives, "collective"), _recorded_line(row)]
    return Report(counts | {"steps_us": job.steps_us[0], "notes": job.notes}, lines, notes=notes)


_REPLAYED: Final[dict[str, bytes | None]] = {"network.yml": None, "system.json": b'{"replay-only": 1}\n'}
"""Files on which a job of unknown network is simulated, by the ends of names."""


def _link_job(args: argparse.Namespace) -> Report:
    """Join the recordings of all ranks of a job."""
    from astranb.chakra import NodeType, link_job, recorded_files, write_job
    from astranb.explore import job_network

    job = link_job(recorded_files(args.host))
    prefix = args.output or args.host
    network = job_network(job)
    files = list(map(str, write_job(job, prefix, more=network.files() if network else _REPLAYED)))
    rows = [
        {"rank": rank, "nodes": len(trace), "steps_us": steps, "begun_us": begun}
        for rank, (trace, steps, begun) in enumerate(zip(job.traces, job.steps_us, job.begun_us, strict=True))
    ]
    document: dict[str, Any] = {
        "collectives": job.collectives,
        "messages": job.messages,
        "groups": job.groups,
        "network": network and asdict(network),
    }
    counted = (
        f"{plural(job.collectives, 'collective')}, {plural(job.messages, 'message')}, "
        f"{plural(len(job.groups), 'group')}"
    )
    lines = [
        f"{plural(len(rows), 'rank')}: {counted}: {prefix}.RANK.et, {prefix}.groups.json",
        *(_recorded_line(row) for row in rows),
        *([f"{prefix}.network.yml: {network}"] if network else []),
    ]
    notes = [*job.notes]
    if network is None and any((trace.type >= NodeType.COMM_SEND).any() for trace in job.traces):
        what = "the recorded transfers do not say what the bandwidth is: communication keeps its durations"
        notes.append(f"{what} ({prefix}.system.json), unless --system and --network are given")
    return Report(document | {"ranks": rows, "files": files, "notes": notes}, lines, notes=notes)


def _recorded_line(row: dict[str, Any]) -> str:
    steps = " + ".join(f"{one / 1000:.3f}" for one in row["steps_us"]) or "none recorded"
    later = f", begun {row['begun_us'] / 1000:.3f} ms after the first" if row["begun_us"] else ""
    return f"rank {row['rank']}: {plural(row['nodes'], 'node')}; steps as measured: {steps} ms{later}"


def _draw(args: argparse.Namespace) -> Report:
    from astranb.chakra import draw

    if args.output.lower().endswith(".html"):
        return _draw_page(args)
    if args.by is not None:
        raise InputError("--by is for pages", where="chakra draw", hint="give --output FILE.html")
    traces, notes = viewed(args.file)
    document = draw(traces[0], args.output, **typed(args, "most", start="skip"))
    text = (
        f"{plural(document['nodes'], 'node')} and "
        f"{plural(document['dependencies'], 'dependency', 'dependencies')}"
    )
    if document["nodes_left_out"]:
        text += f"; left out: {document['nodes_left_out']:,} and {document['dependencies_left_out']:,}"
    return Report(document, [text], notes=notes)


def _draw_page(args: argparse.Namespace) -> Report:
    """Write the graph by module as a page: faults are drawn, not repaired."""
    from astranb.widgets import write_graph

    found = opened(args.file, whole=False)
    tree = write_graph(next(iter(found.traces.values())), args.output, by=args.by)
    document = {"nodes": tree.count, "modules": len(tree) - 1, "by": tree.by, "notes": list(tree.notes)}
    text = f"{plural(tree.count, 'node')} in {plural(len(tree) - 1, 'module')} by {tree.by}"
    return Report(document, [text], notes=[*found.notes, *tree.notes])
