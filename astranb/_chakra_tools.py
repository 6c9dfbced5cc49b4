"""``astranb chakra convert``, ``link``, ``timeline``, ``draw``, ``synthesize`` and ``compare``."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb._print import print_json
from astranb.core.errors import InputError

if TYPE_CHECKING:
    from astranb.chakra import Times, Trace

__all__ = ["add_tools"]

_MOST_RANKS = 1 << 20
_HEAD = 4096


def add_tools(verbs: Any) -> None:
    """Add the verbs that make something of traces."""

    def add(name: str, text: str, command: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, allow_abbrev=False)
        parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
        parser.set_defaults(command=command)
        return parser

    convert = add("convert", "a trace of an older schema, of PyTorch, or an ASTRA-sim 1.0 table", _convert)
    convert.add_argument("file", help="FILE.et, a PyTorch execution trace .json, or a layer table .txt")
    convert.add_argument("--output", required=True, metavar="FILE", help="FILE.et; of --npus PREFIX")
    convert.add_argument("--npus", type=int, help="of a layer table: write PREFIX.RANK.et for so many")
    convert.add_argument("--passes", type=int, default=1, help="of a layer table: how often (1)")

    link = add("link", "join PyTorch's trace of a host and Kineto's of its device", _link)
    link.add_argument("host", help="what torch's ExecutionTraceObserver wrote, JSON")
    link.add_argument("device", help="what Kineto wrote, JSON")
    link.add_argument("--output", required=True, metavar="FILE", help="FILE.et, or FILE.json for convert")

    timeline = add("timeline", "when what is done, for ui.perfetto.dev", _timeline)
    timeline.add_argument("file", help="FILE.et, or PREFIX of PREFIX.RANK.et for all ranks")
    timeline.add_argument("--output", required=True, metavar="FILE", help="FILE.json or FILE.json.gz")
    timeline.add_argument("--system", metavar="FILE", help="simulate: system.json")
    timeline.add_argument("--network", metavar="FILE", help="simulate: network.yml")
    timeline.add_argument("--comm-group", metavar="FILE", help="simulate: communicator groups")

    draw = add("draw", "the graph of a trace", _draw)
    draw.add_argument("file", help="FILE.et")
    draw.add_argument("--output", required=True, metavar="FILE", help="FILE.svg, or FILE.dot for Graphviz")
    draw.add_argument("--most", type=int, default=400, help="nodes that are drawn at most (400)")
    draw.add_argument("--start", type=int, default=0, help="nodes that are passed over first (0)")

    synthesize = add("synthesize", "a trace that is statistically like another one", _synthesize)
    synthesize.add_argument("file", help="FILE.et")
    synthesize.add_argument("--output", required=True, metavar="FILE", help="FILE.et; of --npus PREFIX")
    synthesize.add_argument("--nodes", type=int, help="how many (as the original)")
    synthesize.add_argument("--seed", type=int, default=0, help="the same seed, the same trace (0)")
    synthesize.add_argument("--npus", type=int, help="write PREFIX.RANK.et for so many, without groups")

    compare = add("compare", "what two traces have not in common", _compare)
    compare.add_argument("first", help="FILE.et, or PREFIX of PREFIX.RANK.et for all ranks")
    compare.add_argument("second", help="the same")


def _tell(args: argparse.Namespace, said: dict[str, Any], text: str) -> int:
    if args.json:
        print_json(said)
    else:
        print(text)
    return 0


def _write_ranks(output: str, trace: Trace, npus: int | None) -> list[str]:
    """Write one file, or the same for so many ranks."""
    from astranb.chakra import write

    if npus is None:
        if not output.lower().endswith((".et", ".et.gz")):
            raise InputError("no name of a trace", where=output, hint="take FILE.et, or say --npus N")
        write(output, trace)
        return [output]
    if not 1 <= npus <= _MOST_RANKS:
        raise InputError(f"{npus} ranks", where="--npus", hint=f"take 1 to {_MOST_RANKS}")
    files = [f"{output}.{rank}.et" for rank in range(npus)]
    for file in files:
        write(file, trace)
    return files


def _convert(args: argparse.Namespace) -> int:
    from astranb.chakra import layer_table_trace, pytorch_document, pytorch_trace, read

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
    said = {"from": how, "nodes": len(trace), "version": trace.version, "files": files}
    return _tell(args, said, f"{how}: {len(trace):,} nodes in {len(files)} files, schema {trace.version}")


def _link(args: argparse.Namespace) -> int:
    from astranb.chakra import link, pytorch_trace, write
    from astranb.core.document import Node, Source
    from astranb.core.files import whole_file

    if not args.output.lower().endswith((".json", ".et", ".et.gz")):
        raise InputError("neither trace nor JSON", where=args.output, hint="take FILE.et or FILE.json")
    found = link(args.host, args.device)
    if args.output.lower().endswith(".json"):
        with whole_file(Path(args.output)) as file:
            file.write(json.dumps(found.document).encode())
    else:
        write(args.output, pytorch_trace(Node(found.document, Source(args.host))))
    said = {
        "hosts": found.hosts,
        "devices": found.devices,
        "orphans": found.orphans,
        "waits": found.waits,
        "nodes": len(found.document["nodes"]),
    }
    text = f"{found.hosts:,} operations of the host, {found.devices:,} of the device"
    return _tell(args, said, f"{text}, {found.orphans:,} of it without a caller")


def _all(text: str) -> list[Trace]:
    """The trace of a file, or those of all ranks."""
    from astranb.chakra import rank_file, read, read_ranks

    return read_ranks(text) if not Path(text).is_file() and rank_file(text, 0).is_file() else [read(text)]


def _timeline(args: argparse.Namespace) -> int:
    from astranb.chakra import recorded_times, write_timeline

    traces = _all(args.file)
    if args.system or args.network:
        for name in ("system", "network"):
            if getattr(args, name) is None:
                raise InputError(f"--{name} is missing", where="timeline", hint="give both to simulate")
        times = _simulated(args, traces)
    else:
        times = [recorded_times(trace) for trace in traces]
    said = write_timeline(args.output, traces, times)
    text = f"{said['spans']:,} spans of {said['ranks']:,} ranks: {said['times']}"
    if said["ranks_left_out"]:
        text += f"; {said['ranks_left_out']:,} ranks left out"
    return _tell(args, said, text)


def _simulated(args: argparse.Namespace, traces: list[Trace]) -> list[Times]:
    """When nodes begin and end on ASTRA-sim's network."""
    import numpy as np

    from astranb.chakra import NodeType, Times

    from .engine.messages import load

    run = load(args.file, args.system, args.network, groups=args.comm_group)
    run.step()
    run.result()  # nobody waits for ever
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


def _draw(args: argparse.Namespace) -> int:
    from astranb.chakra import draw, read

    said = draw(read(args.file), args.output, most=args.most, start=args.start)
    text = f"{said['nodes']:,} nodes and {said['dependencies']:,} dependencies"
    if said["nodes_left_out"]:
        text += f"; left out: {said['nodes_left_out']:,} and {said['dependencies_left_out']:,}"
    return _tell(args, said, text)


def _synthesize(args: argparse.Namespace) -> int:
    from astranb.chakra import read, summary, synthesize

    made = synthesize(read(args.file), nodes=args.nodes, seed=args.seed, groups=args.npus is None)
    files = _write_ranks(args.output, made, args.npus)
    said = summary(made) | {"files": files}
    return _tell(args, said, f"{len(made):,} nodes in {len(files)} files, messages between ranks left out")


def _compare(args: argparse.Namespace) -> int:
    from astranb.chakra import compare

    first, second = _all(args.first), _all(args.second)
    rows = [{"rank": rank, **compare(*both)} for rank, both in enumerate(zip(first, second, strict=False))]
    said: dict[str, Any] = {
        "same": len(first) == len(second) and all(row["same"] for row in rows),
        "ranks": [len(first), len(second)],
        "traces": rows,
    }
    if args.json:
        print_json(said)
        return 0
    if len(first) != len(second):
        print(f"{len(first)} and {len(second)} ranks")
    for row in rows:
        if len(rows) > 1:
            print(f"rank {row['rank']}:", end=" ")
        _print_comparison(row)
    return 0


def _print_comparison(row: dict[str, Any]) -> None:
    if row["same"]:
        print("identical" if row["identical"] else "the same nodes; something that is not simulated differs")
        return
    print("different;", "the structure is the same" if row["same_structure"] else "so is the structure")
    for name, (one, other) in row["differences"].items():
        print(f"  {name}: {one:,} and {other:,}")
    at = row["first_difference"]
    print(f"  first at row {at['row']}: {', '.join(at['fields'])}")
    for side in ("first", "second"):
        print(f"    {side}: {json.dumps(at[side], ensure_ascii=False) if at[side] else 'no node'}")
