"""The command ``astranb chakra``: what is in a trace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from astranb._chakra_tools import add_tools
from astranb._models import add_generate
from astranb._print import print_json

__all__ = ["add_commands"]


def add_commands(commands: Any, parser_class: type[argparse.ArgumentParser]) -> None:
    """Add the verbs of ``chakra`` to the command line."""
    chakra = commands.add_parser("chakra", help="Chakra execution traces").add_subparsers(
        required=True, metavar="VERB", parser_class=parser_class
    )
    info = chakra.add_parser("info", help="what is in a trace, and whether it can run", allow_abbrev=False)
    info.add_argument("file", help="FILE.et or FILE.et.gz, or PREFIX of PREFIX.RANK.et for all ranks")
    info.add_argument("--json", action="store_true")
    info.set_defaults(command=_info)
    listing = chakra.add_parser("json", help="all of a trace, a node a line", allow_abbrev=False)
    listing.add_argument("file", help="FILE.et or FILE.et.gz")
    listing.add_argument("--json", action="store_true", help="one document instead of lines")
    listing.set_defaults(command=_json)
    add_generate(chakra)
    add_tools(chakra)


def _info(args: argparse.Namespace) -> int:
    from astranb.chakra import check, rank_file, read, read_ranks, summary

    all_ranks = not Path(args.file).is_file() and rank_file(args.file, 0).is_file()
    traces = read_ranks(args.file) if all_ranks else [read(args.file)]
    for trace in traces:
        check(trace)
    rows = [summary(trace) for trace in traces]
    if args.json:
        print_json({"ranks": len(rows), "traces": rows} if all_ranks else rows[0])
    elif all_ranks:
        print(f"{len(rows)} ranks")
        for rank, row in enumerate(rows):
            print(f"rank {rank}: {row['nodes']} nodes, {_collectives(row)}")
    else:
        row = rows[0]
        print(f"schema: {row['version'] or 'not told'}")
        print(f"nodes: {row['nodes']}, dependencies: {row['dependencies']}, longest chain: {row['depth']}")
        print("types:", ", ".join(f"{name} {count}" for name, count in row["types"].items()) or "none")
        print("collectives:", _collectives(row))
        print("groups:", ", ".join(row["groups"]) or "none")
        print(f"messages: {row['sent_bytes']:,} bytes sent, {row['received_bytes']:,} received")
        print(f"computation: {row['num_ops']:,} operations; recorded durations: {row['duration_us']:,} us")
        print("attributes:", ", ".join(row["attributes"]) or "none")
        for name, value in row["metadata"].items():
            print(f"{name}: {value}")
    return 0


def _collectives(row: dict[str, Any]) -> str:
    told = (f"{name} {said['count']} ({said['bytes']:,} bytes)" for name, said in row["collectives"].items())
    return ", ".join(told) or "no collectives"


def _json(args: argparse.Namespace) -> int:
    from astranb.chakra import as_document, read

    trace = read(args.file)
    nodes = map(as_document, trace.nodes())
    if args.json:
        print_json(list(nodes))
        return 0
    for node in nodes:
        print(json.dumps(node, ensure_ascii=False))
    return 0
