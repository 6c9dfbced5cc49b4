"""``astranb chakra generate --case``: small traces of every type of node."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.core.files import made_folder
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural
from astranb.core.units import size_bytes
from astranb.explore.runs import whole

from .arguments import typed
from .printing import Report

__all__ = ["add_case_options", "generate_cases"]

_ALL: Final = "all"


def add_case_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of small test traces."""
    group = parser.add_argument_group(
        "small test traces", "example: astranb chakra generate --case one_comp_node --npus 8 --output ."
    )
    group.add_argument(
        "--case", metavar="NAME",
        help="write FOLDER/NAME.RANK.et, as mlcommons' generator does; all: every case (--list names them)",
    )  # fmt: skip
    group.add_argument("--npus", type=whole(1, MOST_RANKS), metavar="N", help="ranks (default: 64)")
    group.add_argument(
        "--case-duration", type=whole(1, 1 << 40), metavar="US", help="of computations (default: 5 us)"
    )
    group.add_argument("--case-memory", metavar="SIZE", help="of loads and stores (default: 1 KiB)")
    group.add_argument("--case-message", metavar="SIZE", help="of communication (default: 64 KiB)")


def generate_cases(args: argparse.Namespace) -> Report:
    """Write the traces of one case or of all."""
    from astranb.chakra import CASES, case, write_ranks

    if args.output is None:
        hint = "give a folder for NAME.RANK.et"
        raise InputError("--output is missing", where="chakra generate", hint=hint)
    more = typed(
        args, "npus", duration_us="case_duration", tensor_size="case_memory", comm_size="case_message"
    )
    for name in {"tensor_size", "comm_size"} & more.keys():
        more[name] = size_bytes(more[name], where=name)
    names = list(CASES) if args.case == _ALL else [args.case]
    made = [case(name, **more) for name in names]
    folder = made_folder(args.output)
    for one in made:
        prefix = folder / one.name
        groups = json.dumps({str(number): ranks for number, ranks in one.groups.items()}).encode()
        others = {Path(f"{prefix}.groups.json"): groups} if one.groups else {}
        write_ranks(lambda rank, one=one: one.traces[rank].data, prefix, ranks=len(one.traces), others=others)  # type: ignore[misc]
    rows = [{"case": one.name, "ranks": len(one.traces), "nodes": sum(map(len, one.traces))} for one in made]
    lines = [
        f"{one.name}: {plural(len(one.traces), 'rank')}, {plural(sum(map(len, one.traces)), 'node')}"
        for one in made
    ]
    return Report(rows, [*lines, f"written: {folder}/NAME.RANK.et"])
