"""``astranb run --workload TABLE.txt``: ASTRA-sim 1.0's files, unmodified, with its lines and tables."""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb._cacheline import run_lines
from astranb._leave import told_of, write_files
from astranb._print import print_json
from astranb.core.errors import InputError, near

if TYPE_CHECKING:
    from .engine.layers import Result, Run

__all__ = ["add_options", "is_astrasim1", "refuse_options", "run_files"]

_CHANGES = {"units-count": int, "links-count": int, "link-latency": float, "link-bandwidth": float}
_ROWS = ("total_stat_rows", "stat_row")
_ONLY_HERE = (
    *("num_passes", "run_name", "path", "training_loops"),
    *(key.replace("-", "_") for key in _CHANGES),
    *_ROWS,
)
_SLICE = 200_000
_FIDELITIES = ("analytical", "congestion", "cacheline")
_NOT_HERE = ("memory", "comm_group", "infra", "dimensions")
_NOT_LINES = ("path", "frames", "explain", "run_name", *_ROWS)


def add_options(group: Any) -> None:
    """Add the options that only ASTRA-sim 1.0's files have."""
    group.add_argument(
        "--num-passes", type=int, help="of 1.0: how often the training loop is gone through (1)"
    )
    group.add_argument(
        "--training-loops", metavar="FILE.py", help="of 1.0: a Python file with training loops of your own"
    )
    for key, kind in _CHANGES.items():
        group.add_argument(
            f"--{key}", type=kind, nargs="+", metavar="N", help="of 1.0: instead of the network's"
        )
    group.add_argument("--total-stat-rows", type=int, metavar="N", help="of 1.0: runs that share the tables")
    group.add_argument("--stat-row", type=int, metavar="N", help="of 1.0: which of them this one is, from 0")
    group.add_argument("--run-name", help="of 1.0: the run's name in result tables")
    group.add_argument(
        "--path", "--csv", metavar="DIR", help="of 1.0: write EndToEnd.csv and the other result tables there"
    )


def is_astrasim1(args: argparse.Namespace) -> bool:
    """Tell 1.0's layer table from a prefix of 2.0's traces, by content."""
    if Path(f"{args.workload}.0.et").exists():
        return False  # without a look at 1.0's modules, which take time to import
    from astranb.workload.astrasim1 import is_layer_table

    return args.compat == "astrasim1" or is_layer_table(args.workload) or args.workload.endswith(".txt")


def refuse_options(args: argparse.Namespace) -> None:
    """Refuse 1.0's options where the files are 2.0's."""
    for name in _ONLY_HERE:
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is for ASTRA-sim 1.0's files", where="run", hint="leave it out")


def _check(args: argparse.Namespace) -> None:
    """Refuse what 1.0's files do not have."""
    lines = args.fidelity == "cacheline"
    for name in _NOT_LINES if lines else ():
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            what = f"{option} does not go with --fidelity cacheline"
            raise InputError(what, where="run", hint="leave it out (--json has every number)")
    for name in _NOT_HERE:
        if getattr(args, name) is not None and not (lines and name == "infra"):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not for ASTRA-sim 1.0's files", where="run", hint="leave it out")
    if args.compat not in (None, "astrasim1"):
        raise InputError(
            f"{args.compat[:40]!r} is not for ASTRA-sim 1.0's files",
            where="--compat",
            hint=near(args.compat, ["astrasim1"]),
        )
    rows, row = _rows(args)
    if rows < 1 or not 0 <= row < rows:
        raise InputError(f"row {row} of {rows}", where="--stat-row", hint="count rows from 0")
    if args.rendezvous_protocol == "true":
        raise InputError("is not simulated for ASTRA-sim 1.0's files", where="--rendezvous-protocol")
    fidelity = args.fidelity or "analytical"
    if fidelity not in _FIDELITIES:
        what = f"ASTRA-sim 1.0's files are not simulated at {fidelity[:40]!r}"
        raise InputError(what, where="--fidelity", hint=near(fidelity, _FIDELITIES))


def _rows(args: argparse.Namespace) -> tuple[int, int]:
    """How many runs share the tables, and which of them this one is."""
    rows, row = (getattr(args, name) for name in _ROWS)
    return 1 if rows is None else rows, row or 0


def run_files(args: argparse.Namespace) -> int:
    """Run ASTRA-sim 1.0's files."""
    from .engine.layers import lines_of, load, write_tables

    _check(args)
    if args.training_loops is not None:
        _register(args.training_loops)
    run = load(
        args.workload,
        args.system,
        args.network,
        compute_scale=args.compute_scale,
        comm_scale=args.comm_scale,
        injection_scale=args.injection_scale,
        passes=1 if args.num_passes is None else args.num_passes,
        queues=args.num_queues_per_dim,
        changes={
            key: given for key in _CHANGES if (given := getattr(args, key.replace("-", "_"))) is not None
        },
        congested=args.fidelity == "congestion",
        compat=args.compat is not None,
    )
    if args.fidelity == "cacheline":
        inputs, durations = lines_of(run)
        return run_lines(args, inputs, durations)
    explained = ""
    if told_of(args):
        explained = _recorded(args, run)
    while not run.step(_SLICE):  # Ctrl-C acts between slices
        pass
    result = run.result()
    name = args.run_name or "unnamed run"
    if args.path is not None:
        rows, row = _rows(args)
        write_tables(result, args.path, name, row=row, rows=rows)
    if args.json:
        print_json(_document(args, run, result))
    elif args.explain:
        print(explained)
    else:
        _print_lines(result, name)
    return 0


def _recorded(args: argparse.Namespace, run: Run) -> str:
    """Run to the end with a recording, and leave what is asked for; returns what it has to say."""
    from astranb.sim.workload import WorkloadSimulation

    title = Path(args.workload).name
    sim = WorkloadSimulation.of_run(run, title=title, record=True, checkpoint_bytes=0)
    sim.run()
    write_files(sim, args)
    return sim.result.explain() if args.explain else ""


def _register(file: str) -> None:
    """Run a Python file for the training loops that it has."""
    if not Path(file).is_file():
        raise InputError("there is no such file", where=file, hint="name a Python file with training loops")
    try:
        runpy.run_path(file)
    except (Exception, SystemExit) as error:  # whatever the file does
        what = f"{type(error).__name__}: {error}"[:200]
        raise InputError(what, where=file, hint="correct the file") from error


def _document(args: argparse.Namespace, run: Run, result: Result) -> dict[str, Any]:
    from .engine.layers import LAYER_COLUMNS

    return {
        "workload": args.workload,
        "fidelity": args.fidelity or "analytical",
        "compat": args.compat,
        "training_loop": run.workload.loop,
        "npus": run.network.npus,
        "passes": len(result.pass_end_ps),
        "time_ps": result.time_ps,
        "compute_ps": result.compute_ps,
        "exposed_comm_ps": result.exposed_comm_ps,
        "message_bytes": result.message_bytes,
        "message_bytes_per_dim": list(result.bytes_per_dim),
        "cost_dollars": result.cost_dollars,
        "pass_end_ps": list(result.pass_end_ps),
        "layers": [
            {"layer": name, **dict(zip(LAYER_COLUMNS, row, strict=True))}
            for name, row in zip(result.layer_names, result.layers.tolist(), strict=True)
        ],
        "dimensions": [
            {"chunks": chunks, "chunk_ps": round(took), "busy_ps": busy}
            for chunks, took, busy in zip(
                result.chunks_per_dim, result.chunk_ps_per_dim, result.busy_ps_per_dim, strict=True
            )
        ],
        "events": result.events,
        "state_hash": run.state_hash(),
    }


_WORDS = (
    "Total cycles spent on fwd pass compute",
    "Total cycles spent on weight grad compute",
    "Total cycles spent on input grad compute",
    "Total cycles spent idle waiting for fwd finish",
    "Total cycles spent idle waiting for weight grad finish",
    "Total cycles spent idle waiting for input grad finish",
    "Total cycles spent on fwd pass comm",
    "Total cycles spent on weight grad comm",
    "Total cycles spent on input grad comm",
)


def _print_lines(result: Result, name: str) -> None:
    """Print ASTRA-sim 1.0's lines, and its tutorial's table."""
    from .engine.layers import result_tables

    for number, end in enumerate(result.pass_end_ps):
        print(f"pass: {number} finished at time: {end // 1000}")
    for layer, row in zip(result.layer_names, result.layers.tolist(), strict=True):
        for words, value in zip(_WORDS, row, strict=True):
            print(f"id: {layer} ,{words}: {value // 1000}")
    print(f"all passes finished at time: {result.time_ns}, id of first layer: {result.layer_names[0]}")
    for _, cells in result_tables(result, name)["tutorial_result.csv"]:
        print(",".join(cells))
