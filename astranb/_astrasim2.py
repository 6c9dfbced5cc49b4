"""``astranb run --workload``: ASTRA-sim 2.0's files, unmodified, with its own options' names too."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from astranb._print import print_json
from astranb.core.errors import InputError, near

__all__ = ["add_options", "check_numbers", "files_or"]

_FIDELITIES = ("analytical", "congestion")
_COLLECTIVE_ONLY = (
    "infra",
    "collective",
    "size",
    "algorithm",
    "gpu",
    "lanes",
    "save",
    "roce",
    "html",
    "svg",
    "perfetto",
)
_FILES_ONLY = ("system", "network", "memory", "comm_group", "compat")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run of ASTRA-sim's files."""
    group = parser.add_argument_group("ASTRA-sim 2.0 files, instead of --infra, --collective and --size")

    def add(name: str, peer: str, text: str, **more: Any) -> None:
        group.add_argument(
            f"--{name}", f"--{peer}-configuration", dest=name.replace("-", "_"), help=text, **more
        )

    add("workload", "workload", "PREFIX of the Chakra traces PREFIX.RANK.et", metavar="PREFIX")
    add("system", "system", "system.json", metavar="FILE")
    add("network", "network", "network.yml", metavar="FILE")
    add("memory", "remote-memory", "remote memory, JSON (none)", metavar="FILE")
    add("comm-group", "comm-group", "communicator groups, JSON", metavar="FILE")
    group.add_argument("--compat", help="astrasim2: keep ASTRA-sim 2.0's peculiarities, to its nanosecond")
    group.add_argument("--num-queues-per-dim", type=int, default=1, help="queues of one dimension (1)")
    group.add_argument("--injection-scale", type=float, default=1.0, help="multiplies the endpoint's delay")
    group.add_argument("--comm-scale", type=float, default=1.0, help="has no effect, as in ASTRA-sim 2.0")
    group.add_argument("--compute-scale", type=float, default=1.0, help="the same")
    group.add_argument(
        "--rendezvous-protocol",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        help="whether receivers ask for messages",
    )


def files_or(collective: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Give the command that runs files where there are some, and a collective otherwise."""

    def run(args: argparse.Namespace) -> int:
        if args.workload is not None:
            return _run(args)
        for name in _FILES_ONLY:
            if getattr(args, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} needs --workload", where="run", mend="give --workload PREFIX")
        missing = [f"--{name}" for name in ("infra", "collective", "size") if getattr(args, name) is None]
        if missing:
            what = f"the following arguments are required: {', '.join(missing)}"
            mend = "see astranb run --help (or --workload, --system and --network for ASTRA-sim's files)"
            raise InputError(what, where="astranb run", mend=mend)
        args.fidelity = args.fidelity or "cacheline"
        if not str(args.root or 0).isdecimal():
            raise InputError(f"{args.root!r} is no rank", where="--root", mend="take a number from 0")
        args.root = int(args.root or 0)
        return collective(args)

    return run


def _run(args: argparse.Namespace) -> int:
    from astranb.workload.astrasim2 import load

    fidelity = _check(args)
    run = load(
        args.workload,
        args.system,
        args.network,
        memory=args.memory,
        groups=args.comm_group,
        aware=fidelity == "congestion",
        compat=args.compat is not None,
        queues=args.num_queues_per_dim,
        injection_scale=args.injection_scale,
        rendezvous=args.rendezvous_protocol == "true",
        root=args.root or None,
    )
    run.step()
    result = run.result()
    rows = zip(
        result.end_ns.tolist(), result.exposed_comm_ns.tolist(), result.compute_ns.tolist(), strict=True
    )
    if not args.json:
        for rank, (end, exposed, _) in enumerate(rows):
            print(f"sys[{rank}] finished, {end} cycles, exposed communication {exposed} cycles.")
        return 0
    print_json(
        {
            "workload": args.workload,
            "fidelity": fidelity,
            "compat": args.compat,
            "time_ps": int(result.end_ns.max()) * 1000,
            "events": result.events,
            "messages": result.messages,
            "message_bytes": result.message_bytes,
            "per_rank": [
                {
                    "rank": rank,
                    "end_ps": end * 1000,
                    "exposed_comm_ps": exposed * 1000,
                    "compute_ps": compute * 1000,
                }
                for rank, (end, exposed, compute) in enumerate(rows)
            ],
            "state_hash": run.state_hash(),
        }
    )
    return 0


def _check(args: argparse.Namespace) -> str:
    """Refuse options that do not go together; returns the fidelity."""
    for name in ("system", "network"):
        if getattr(args, name) is None:
            mend = f"give --{name} FILE (or --{name}-configuration=FILE)"
            raise InputError(f"--workload needs --{name}", where="run", mend=mend)
    for name in _COLLECTIVE_ONLY:
        if getattr(args, name) is not None:
            what = f"--{name} and --workload exclude each other"
            raise InputError(what, where="run", mend="leave one of them out")
    if args.compat not in (None, "astrasim2"):
        raise InputError(
            f"unknown {args.compat[:40]!r}", where="--compat", mend=near(args.compat, ["astrasim2"])
        )
    check_numbers(args)
    fidelity = str(args.fidelity or "analytical")
    if fidelity == "cacheline":
        what = "ASTRA-sim's files are not simulated by cache lines yet"
        raise InputError(what, where="--fidelity", mend="take analytical or congestion")
    if fidelity not in _FIDELITIES:
        raise InputError(f"unknown {fidelity[:40]!r}", where="--fidelity", mend=near(fidelity, _FIDELITIES))
    return fidelity


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse numbers of no use."""
    if not 1 <= args.num_queues_per_dim <= 1024:
        raise InputError(
            f"{args.num_queues_per_dim} queues", where="--num-queues-per-dim", mend="take 1 to 1024"
        )
    for name in ("injection_scale", "comm_scale", "compute_scale"):
        if not 0 < getattr(args, name) <= 1e6:
            where = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{getattr(args, name)} is out of range", where=where, mend="take a number above 0"
            )
