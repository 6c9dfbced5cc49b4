"""``astranb run --workload``: ASTRA-sim 2.0's files, unmodified, with its own options' names too."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb import _astrasim1 as astrasim1
from astranb._cacheline import LINES_TOO, run_lines
from astranb._leave import told_of, write_files
from astranb._print import print_json
from astranb.core.errors import InputError, near

if TYPE_CHECKING:
    from .engine.messages import Run
    from .workload.astrasim2 import InfraNetwork

__all__ = ["add_options", "check_infra", "check_numbers", "files_or", "infra_network"]

_FIDELITIES = ("analytical", "congestion", "cacheline")
_COLLECTIVE_ONLY = (
    "collective",
    "size",
    "algorithm",
    "gpu",
    "lanes",
    "roce",
)
_COLLECTIVE_USUAL = {
    "protocol": "Simple",
    "launch": "none",
    "arbitration": "fifo",
    "buffers": 0,
    "cut_through": False,
    "multipath": "interleave",
    "coalesce": 1,
}
"""Options of collectives that files have nothing for, with what they are when they are not given."""

_FILES_ONLY = ("system", "network", "memory", "comm_group", "compat", "frames", "dimensions")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run of ASTRA-sim's files."""
    group = parser.add_argument_group(
        "ASTRA-sim 2.0 or 1.0 files, instead of --infra, --collective and --size"
    )

    def add(name: str, peer: str, text: str, **more: Any) -> None:
        group.add_argument(
            f"--{name}", f"--{peer}-configuration", dest=name.replace("-", "_"), help=text, **more
        )

    add("workload", "workload", "PREFIX of the traces PREFIX.RANK.et; 1.0's layer table", metavar="PREFIX")
    add("system", "system", "system.json; 1.0's text", metavar="FILE")
    add("network", "network", "network.yml; 1.0's JSON", metavar="FILE")
    add("memory", "remote-memory", "remote memory, JSON (none)", metavar="FILE")
    add("comm-group", "comm-group", "communicator groups, JSON", metavar="FILE")
    group.add_argument("--compat", help="astrasim2 or astrasim1: keep its peculiarities, to its nanosecond")
    group.add_argument("--dimensions", metavar="8x4", help="GPUs of each dimension of collectives (--infra)")
    group.add_argument("--logging-configuration", metavar="FILE", help="accepted, has no effect")
    group.add_argument("--logging-folder", metavar="DIR", help="accepted, has no effect")
    group.add_argument("--num-queues-per-dim", type=int, default=1, help="queues of one dimension (1)")
    group.add_argument("--injection-scale", type=float, default=1.0, help="multiplies the endpoint's delay")
    group.add_argument(
        "--comm-scale", type=float, default=1.0, help="of 1.0: multiplies sizes (no effect in 2.0)"
    )
    group.add_argument("--compute-scale", type=float, default=1.0, help="of 1.0: multiplies compute times")
    astrasim1.add_options(group)
    group.add_argument(
        "--rendezvous-protocol",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        help="whether receivers ask for messages",
    )
    group.add_argument("--frames", metavar="DIR", help="write ranks, operations, collectives, … as DIR/*.csv")


def files_or(collective: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Give the command that runs files where there are some, and a collective otherwise."""

    def run(args: argparse.Namespace) -> int:
        if args.workload is not None:
            return _run(args)
        for name in _FILES_ONLY:
            if getattr(args, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} needs --workload", where="run", hint="give --workload PREFIX")
        missing = [f"--{name}" for name in ("infra", "collective", "size") if getattr(args, name) is None]
        if missing:
            what = f"the following arguments are required: {', '.join(missing)}"
            hint = "see astranb run --help (or --workload, --system and --network for ASTRA-sim's files)"
            raise InputError(what, where="astranb run", hint=hint)
        args.fidelity = args.fidelity or "cacheline"
        if not str(args.root or 0).isdecimal():
            raise InputError(f"{args.root!r} is no rank", where="--root", hint="take a number from 0")
        args.root = int(args.root or 0)
        return collective(args)

    return run


def _run(args: argparse.Namespace) -> int:
    _check_options(args)
    if astrasim1.is_astrasim1(args):
        return astrasim1.run_files(args)
    from .engine.messages import load

    astrasim1.refuse_options(args)
    fidelity = _check(args)
    run = load(
        args.workload,
        args.system,
        args.network if args.infra is None or args.network else infra_network(args),
        memory=args.memory,
        groups=args.comm_group,
        aware=fidelity == "congestion",
        compat=args.compat is not None,
        queues=args.num_queues_per_dim,
        injection_scale=args.injection_scale,
        rendezvous=args.rendezvous_protocol == "true",
        root=args.root or None,
    )
    if fidelity == "cacheline":
        _refuse(args, ("frames",), "--fidelity cacheline")
        return run_lines(args, run.inputs)
    if not told_of(args):
        run.step()
        result = run.result()
    if not (args.json or told_of(args)):
        rows = zip(result.end_ns.tolist(), result.exposed_comm_ns.tolist(), strict=True)
        for rank, (end, exposed) in enumerate(rows):
            print(f"sys[{rank}] finished, {end} cycles, exposed communication {exposed} cycles.")
        return 0
    _tell(run, args, fidelity)
    return 0


def _tell(run: Run, args: argparse.Namespace, fidelity: str) -> None:
    """Run with a recording where that is asked for and it has not run, and say more than ASTRA-sim does."""
    from astranb.sim.workload import WorkloadSimulation

    recorded = told_of(args)
    title = Path(args.workload).name
    sim = WorkloadSimulation.of_run(run, title=title, record=recorded, checkpoint_bytes=0)
    if recorded:
        sim.run()
    result = sim.result
    write_files(sim, args)
    rows = result.per_rank()
    if args.compat:
        rows = [{**row, "exposed_comm_ps": row["astrasim_exposed_comm_ps"]} for row in rows]
    if not args.json:
        if args.explain:
            print(result.explain())
            return
        for row in rows:
            end, exposed = row["end_ps"] // 1000, row["astrasim_exposed_comm_ps"] // 1000
            print(f"sys[{row['rank']}] finished, {end} cycles, exposed communication {exposed} cycles.")
        return
    simulated = run.result()
    document = {
        "workload": args.workload,
        "fidelity": fidelity,
        "compat": args.compat,
        "time_ps": result.time_ps,
        "events": simulated.events,
        "messages": simulated.messages,
        "message_bytes": simulated.message_bytes,
        "cost_dollars": run.inputs.network.cost_dollars(),
        "breakdown": result.breakdown(),
        "per_rank": [{name: value for name, value in row.items() if name != "done"} for row in rows],
    }
    if recorded:
        document["dimensions"] = result.table("dimensions")
    print_json({**document, "state_hash": run.state_hash()})


def infra_network(args: argparse.Namespace) -> InfraNetwork:
    """Make a network of an infrastructure, with the dimensions that were asked for."""
    from astranb.infragraph import resolve

    from .workload.astrasim2 import InfraNetwork

    text, dimensions = args.infra, args.dimensions
    counts = [] if dimensions is None else dimensions.split("x")
    if any(not (count.isascii() and count.isdecimal() and int(count[:9]) > 0) for count in counts):
        what = f"{str(dimensions)[:40]!r} are no dimensions"
        raise InputError(what, where="--dimensions", hint="write 8x4")
    return InfraNetwork(resolve(text), tuple(map(int, counts)), text)


def check_infra(args: argparse.Namespace) -> None:
    """Refuse what does not go with an infrastructure."""
    lines = args.fidelity == "cacheline"  # the network is that of the files' dimensions then
    if args.infra is not None and args.network is not None and not lines:
        raise InputError(
            "--infra and --network exclude each other", where="run", hint="leave one of them out"
        )
    if args.infra is not None and args.compat is not None and not lines:
        what = "ASTRA-sim 2.0 reads no infrastructures"
        raise InputError(what, where="--infra", hint="give --network FILE, or leave --compat out")
    if args.dimensions is not None and args.infra is None:
        what = "--dimensions goes with --infra"
        raise InputError(what, where="run", hint="say npus_count in the network's file")


def _refuse(args: argparse.Namespace, names: tuple[str, ...], what: str) -> None:
    """Refuse options that would be left unheard."""
    for name in names:
        if getattr(args, name):
            hint = "leave it out (--json has every number)"
            raise InputError(f"--{name} does not go with {what}", where="run", hint=hint)


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that do not go together, of whichever files."""
    check_infra(args)
    lines = args.fidelity == "cacheline"
    for name in ("system", "network"):
        if getattr(args, name) is None and (name == "system" or args.infra is None):
            hint = f"give --{name} FILE (or --{name}-configuration=FILE)"
            hint += ", or --infra" if name == "network" else ""
            raise InputError(f"--workload needs --{name}", where="run", hint=hint)
    for name in _COLLECTIVE_ONLY:
        if getattr(args, name) is not None and not (lines and name in LINES_TOO):
            what = f"--{name} and --workload exclude each other"
            raise InputError(what, where="run", hint="leave one of them out")
    for name, usual in _COLLECTIVE_USUAL.items():
        if getattr(args, name) != usual and not (lines and name in LINES_TOO):
            what = f"--{name.replace('_', '-')} has no effect on --workload"
            raise InputError(what, where="run", hint="leave it out")
    check_numbers(args)


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse numbers of no use."""
    if not 1 <= args.num_queues_per_dim <= 1024:
        raise InputError(
            f"{args.num_queues_per_dim} queues", where="--num-queues-per-dim", hint="take 1 to 1024"
        )
    for name in ("injection_scale", "comm_scale", "compute_scale"):
        if not 0 < getattr(args, name) <= 1e6:
            where = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{getattr(args, name)} is out of range", where=where, hint="take a number above 0"
            )


def _check(args: argparse.Namespace) -> str:
    """Refuse what ASTRA-sim 2.0's files do not have; returns the fidelity."""
    if args.compat not in (None, "astrasim2"):
        raise InputError(
            f"unknown {args.compat[:40]!r}", where="--compat", hint=near(args.compat, ["astrasim2"])
        )
    fidelity = str(args.fidelity or "analytical")
    if fidelity not in _FIDELITIES:
        raise InputError(f"unknown {fidelity[:40]!r}", where="--fidelity", hint=near(fidelity, _FIDELITIES))
    return fidelity
