"""``astranb chakra merge`` and ``split``: the traces of all ranks in one file, and back."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.core.plural import plural

from .arguments import add_command, add_output
from .printing import Report

__all__ = ["add_merge_commands"]


def add_merge_commands(verbs: Any) -> None:
    """Add ``merge`` and ``split`` to the verbs of ``chakra``."""
    merges = add_command(verbs, "merge", "put the traces of all ranks and their groups into one file", _merge)
    merges.add_argument("prefix", metavar="PREFIX", help="of PREFIX.RANK.et, and PREFIX.groups.json if there")
    add_output(merges, "FILE.et or FILE.et.gz", required=True)

    splits = add_command(verbs, "split", "write the traces of all ranks from what 'merge' wrote", _split)
    splits.add_argument("file", help="FILE.et or FILE.et.gz")
    add_output(splits, "write PREFIX.RANK.et and its groups", required=True, metavar="PREFIX")


def _merge(args: argparse.Namespace) -> Report:
    from astranb.chakra import beside, merge, read_ranks, write
    from astranb.core.document import contents

    if not args.output.lower().endswith((".et", ".et.gz")):
        raise InputError("unknown file extension", where=args.output, hint="use FILE.et or FILE.et.gz")
    groups = beside(args.prefix, "groups.json")
    text = None
    if groups is not None:
        try:
            text = contents(groups).decode()
        except UnicodeDecodeError:
            raise InputError("not UTF-8 text", where=str(groups), hint="is it a file of groups?") from None
    merged = merge(read_ranks(args.prefix), text, source=args.output)
    write(merged, args.output)
    ranks = 1 + int(merged.integers("merged_rank").max(initial=-1))
    document = {"ranks": ranks, "nodes": len(merged), "groups": None if groups is None else str(groups)}
    named = "" if groups is None else f", and {groups}"
    return Report(document, [f"{plural(ranks, 'rank')}, {plural(len(merged), 'node')}{named}: {args.output}"])


def _split(args: argparse.Namespace) -> Report:
    from astranb.chakra import merged_groups, read, split, write_ranks

    merged = read(args.file)
    traces, groups = split(merged), merged_groups(merged)
    others = {} if groups is None else {Path(f"{args.output}.groups.json"): groups.encode()}
    files = list(
        map(str, write_ranks(lambda rank: traces[rank].data, args.output, ranks=len(traces), others=others))
    )
    text = f"{plural(len(traces), 'rank')}, {plural(len(merged), 'node')}: {args.output}.RANK.et"
    named = "" if groups is None else f", {args.output}.groups.json (--comm-group)"
    return Report({"ranks": len(traces), "nodes": len(merged), "files": files}, [text + named])
