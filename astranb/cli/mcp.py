"""``astranb mcp``: tools for assistants over the Model Context Protocol."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from astranb.core.units import size_bytes, time_ps
from astranb.explore.runs import whole

from .arguments import add_command, typed
from .printing import Report

__all__ = ["add_commands"]

_TEXT = "Serve a simulation to an assistant (MCP) until it closes standard input; files of this folder only."


def add_commands(commands: Any) -> None:
    """Add ``mcp`` to the command line; it prints no result, so it has no ``--json``."""
    summary = "serve tools for assistants (MCP) over standard input and output"
    parser = add_command(commands, "mcp", summary, _serve, description=_TEXT, json=False)
    parser.add_argument(
        "--port", type=whole(0, 65535), metavar="N",
        help="serve on this port of this machine instead; 0: a free one; the address is printed",
    )  # fmt: skip
    parser.add_argument(
        "--time-limit", metavar="TIME",
        help="of one call; a run stops at an event then and can go on (default: 25s)",
    )  # fmt: skip
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="of a simulation, as 4GiB (default: 4/5 of what is free)"
    )
    parser.add_argument(
        "--python",
        action="store_true",
        help="execute algorithms as Python when asked to: they can do anything",
    )
    parser.set_defaults(json=False)


def _serve(args: argparse.Namespace) -> Report:
    from astranb.core.ahead import in_background
    from astranb.mcp import Limits, serve_port, serve_stdio

    options = typed(args, "python", seconds="time_limit", memory_bytes="memory_limit")
    if "seconds" in options:
        options["seconds"] = time_ps(options["seconds"], where="seconds") / 1e12
    if "memory_bytes" in options:
        options["memory_bytes"] = size_bytes(options["memory_bytes"], where="memory_bytes")
    limits = Limits(Path.cwd().resolve(), **options)
    with in_background():
        if args.port is None:
            serve_stdio(limits)
        else:
            serve_port(limits, args.port, lambda url: print(url, file=sys.stderr, flush=True))
    return Report(None)
