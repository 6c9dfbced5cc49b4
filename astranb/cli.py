"""The command line: the same verbs, without a notebook.

Exit codes: 0 success, 2 bad input (one line on standard error), 3 deadlock, 4 a
collective that ended wrongly, 130 interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from astranb import __version__
from astranb._astrasim2 import add_options as add_file_options
from astranb._astrasim2 import files_or
from astranb._chakra import add_commands as add_chakra_commands
from astranb._gpu import add_commands as add_gpu_commands
from astranb._infra import add_commands as add_infra_commands
from astranb._leave import add_options as add_leave_options
from astranb._leave import recorded, write_files
from astranb._models import add_options as add_model_options
from astranb._models import model_or
from astranb._print import print_json, print_summary
from astranb.core.errors import AstranbError, InputError, near

__all__ = ["entry", "main"]

_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and an exception, not an exit."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, where=self.prog, hint=f"see {self.prog} --help")


def _joined(argv: list[str]) -> list[str]:
    """Join an option and its negative value, which argparse would take for another option."""
    joined: list[str] = []
    for word in argv:
        if re.match(r"-[\d.]", word) and joined and re.fullmatch(r"--[\w-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def main(argv: list[str]) -> int:
    """Run one command.

    Parameters
    ----------
    argv : list of str
        What follows ``astranb``.

    Returns
    -------
    int
        The exit code; never raises ``SystemExit``.

    Examples
    --------
    >>> main(["run", "--infra", "no-such-file.yaml", "--collective", "all_reduce", "--size", "1MiB"])
    2
    """
    try:
        if argv[:1] == ["lab"]:  # everything behind it is JupyterLab's, options first too
            from astranb._lab import open_lab

            return open_lab(argv[1:])
        args = _parser().parse_args(_joined(argv))
        return int(args.command(args))
    except AstranbError as error:
        print(f"astranb: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("astranb: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        return 0
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)


def entry() -> NoReturn:
    """The console script."""
    raise SystemExit(main(sys.argv[1:]))


def _parser() -> _Parser:
    parser = _Parser(
        prog="astranb", description="An exact simulator of distributed machine learning.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"astranb {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="run one collective, or ASTRA-sim's files", allow_abbrev=False)
    run.add_argument("--infra", help="an InfraGraph file, or a blueprint such as dgx-h100")
    run.add_argument("--collective", help="as all_reduce; `astranb collective list` has them")
    run.add_argument("--size", help="bytes of the larger buffer of a rank, as 1MiB")
    run.add_argument(
        "--algorithm",
        help="as listed by 'astranb collective list', a file as PLAN.json or ALGO.xml, "
        "or your own as FILE.py:FUNCTION",
    )
    run.add_argument("--lanes", type=int, help="sets of thread blocks (chosen from the size)")
    run.add_argument("--protocol", default="Simple", help="Simple, LL or LL128")
    run.add_argument("--root", help="root of a broadcast, reduce, gather or scatter; of files: folder")
    run.add_argument("--gpu", help="GPU preset, or its file (taken from the infrastructure)")
    run.add_argument("--fidelity", help="cacheline; of files analytical or congestion")
    run.add_argument("--launch", default="none", help="cost of starting a kernel: none, graph or stream")
    run.add_argument("--arbitration", default="fifo", help="fifo, round_robin, or fair to control messages")
    run.add_argument("--buffers", type=int, default=0, help="messages behind a link and class (0: no limit)")
    run.add_argument("--cut-through", action="store_true", help="pass a message on when its header has come")
    run.add_argument("--multipath", default="interleave", help="interleave, static, flow_hash or spray")
    run.add_argument(
        "--roce", nargs="?", const="pfc,ecn,dcqcn", help="Ethernet: all of pfc,ecn,dcqcn or some"
    )
    run.add_argument("--coalesce", type=int, default=1, help="lines of a request: faster, not exact (1)")
    run.add_argument("--explain", action="store_true", help="say where the time went")
    add_file_options(run)
    add_model_options(run)
    add_leave_options(run)
    run.add_argument("--json", action="store_true", help="one JSON document on standard output")
    run.set_defaults(command=model_or(files_or(_run)))

    add_infra_commands(commands, _Parser)
    collective = commands.add_parser("collective", help="algorithms").add_subparsers(
        required=True, metavar="VERB", parser_class=_Parser
    )
    listing = collective.add_parser("list", help="the algorithms there are", allow_abbrev=False)
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(command=_collective_list)

    reading = collective.add_parser("import", help="what an algorithm's file says", allow_abbrev=False)
    reading.add_argument("file", help="an MSCCL++ execution plan (.json) or an MSCCL algorithm (.xml)")
    reading.add_argument("--json", action="store_true")
    reading.set_defaults(command=_collective_import)
    writing = collective.add_parser("export", help="write an algorithm to a file", allow_abbrev=False)
    writing.add_argument("collective", help="as all_reduce")
    writing.add_argument("--algorithm", help="as for run")
    writing.add_argument("--ranks", type=int, required=True, help="how many ranks take part")
    writing.add_argument("--lanes", type=int, default=1, help="sets of thread blocks (1)")
    writing.add_argument("--protocol", default="Simple", help="Simple, LL or LL128")
    writing.add_argument(
        "--to", metavar="FILE", required=True, help="FILE.json (MSCCL++) or FILE.xml (MSCCL)"
    )
    writing.set_defaults(command=_collective_export)
    showing = collective.add_parser("show", help="what each thread block does", allow_abbrev=False)
    showing.add_argument("collective", help="as all_reduce")
    showing.add_argument("--algorithm", help="as for run")
    showing.add_argument(
        "--ranks", type=int, help="how many ranks take part (4, or as many as a file is for)"
    )
    showing.add_argument("--rank", type=int, help="only this one")
    showing.add_argument("--protocol", default="Simple", help="Simple, LL or LL128")
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(command=_collective_show)

    proving = collective.add_parser(
        "verify", help="whether algorithms are right, whatever the timing", allow_abbrev=False
    )
    proving.add_argument("collective", help="as all_reduce, or all")
    proving.add_argument("--algorithm", help="a name, FILE.py:FUNCTION, or a plan; all where not given")
    proving.add_argument("--ranks", type=int, default=8)
    proving.add_argument("--per-node", type=int, help="consecutive ranks that share a node")
    proving.add_argument("--lanes", type=int, default=2)
    proving.add_argument("--protocol", help="Simple, LL or LL128; all that it is written for where not given")
    proving.add_argument("--root", type=int, default=0)
    proving.add_argument("--size", default="1MiB")
    proving.add_argument("--picture", metavar="FILE.svg", help="draw a deadlock")
    proving.add_argument("--json", action="store_true")
    proving.set_defaults(command=_collective_verify)

    add_chakra_commands(commands, _Parser)
    add_gpu_commands(commands, _Parser)
    commands.add_parser("lab", help="JupyterLab on the tour notebook; takes its options, as --no-browser")
    return parser


def _run(args: argparse.Namespace) -> int:
    from astranb.collectives import Collective
    from astranb.net import Network, Roce
    from astranb.sim import Simulation

    algorithm = _algorithm(args.algorithm)
    collective = Collective.of(
        args.collective, args.size, algorithm, lanes=args.lanes, root=args.root, protocol=args.protocol
    )
    roce = None if args.roce is None else Roce.of(args.roce)
    ways = (args.arbitration, args.buffers, args.cut_through, args.multipath)
    network = Network(*ways, (), args.coalesce, roce)
    sim = Simulation(
        args.infra,
        collective,
        gpu=args.gpu,
        fidelity=args.fidelity,
        network=network,
        launch=args.launch,
        record=recorded(args),
        checkpoint_bytes=0,
    )
    sim.run()
    write_files(sim, args)
    result = sim.result
    if args.json:
        print_json(
            {
                "infra": sim.infra.name,
                "collective": collective.name,
                "algorithm": collective.algorithm_name,
                "protocol": collective.protocol,
                "size_bytes": collective.size,
                "fidelity": args.fidelity,
                "time_ps": result.time_ps,
                "events": sim.events,
                "line_hops": int(sim.machine.clock[0].hops),
                "algbw_GBps": result.algbw_Bps / 1e9,
                "busbw_GBps": result.busbw_Bps / 1e9,
                "per_rank": result.per_rank(),
                "breakdown": result.breakdown(),
                "assumed": sim.assumed,
                "state_hash": sim.state_hash(),
            }
        )
    else:
        print(result.explain() if args.explain else result.summary())
    return 0


def _algorithm(text: str | None) -> Any:
    """What ``--algorithm`` means: a name, ``PLAN.json`` or ``ALGO.xml``, or ``FILE.py:FUNCTION``.

    The Python file is run, as ``python FILE.py`` would.
    """
    if text is not None and text.lower().endswith((".json", ".xml")):
        from astranb.collectives import read_algorithm

        return read_algorithm(text)
    if text is None or ".py:" not in text:
        return text
    import runpy

    file, _, name = text.rpartition(":")
    try:
        defined = runpy.run_path(file)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=file, hint="give FILE.py:FUNCTION") from error
    except Exception as error:  # whatever a person's file raises
        raise InputError(f"{type(error).__name__}: {error}", where=file) from error
    functions = [key for key, value in defined.items() if callable(value) and not key.startswith("_")]
    if name not in functions:
        raise InputError(f"there is no function {name!r}", where=file, hint=near(name, functions))
    return defined[name]


def _collective_list(args: argparse.Namespace) -> int:
    from astranb.collectives import algorithms

    rows = [{"collective": a.collective, "algorithm": a.name, "summary": a.summary} for a in algorithms()]
    if args.json:
        print_json(rows)
    else:
        for row in rows:
            print(f"{row['collective']:<15} {row['algorithm']:<17} {row['summary']}")
    return 0


def _collective_import(args: argparse.Namespace) -> int:
    from astranb.collectives import read_algorithm

    return print_summary(read_algorithm(args.file).summary(), as_json=args.json)


def _collective_export(args: argparse.Namespace) -> int:
    from astranb.collectives import write_algorithm

    for note in write_algorithm(_program(args, args.ranks, args.lanes), args.to):
        print(f"astranb: {args.to}: {note}", file=sys.stderr)
    return 0


def _collective_show(args: argparse.Namespace) -> int:
    from astranb.collectives import listed

    program = _program(args, args.ranks)
    if args.rank is not None:
        program.rank(args.rank)  # is there such a one?
    blocks = listed(program, args.rank)
    if args.json:
        print_json({"program": program.name, "ranks": program.ranks, "blocks": blocks})
        return 0
    for block in blocks:
        unit = "copy engine" if block["unit"] == "engine" else "thread block"
        print(f"rank {block['rank']}, {unit} {block['block']}, lane {block['lane']}")
        print(*(f"  {operation}" for operation in block["operations"]), sep="\n")
    return 0


def _collective_verify(args: argparse.Namespace) -> int:
    from astranb.collectives import Collective, algorithms, draw_waits, verify
    from astranb.core.files import whole_file

    if args.algorithm is None:
        known = algorithms(None if args.collective == "all" else args.collective)
        ways = [(a.collective, a.name, p) for a in known for p in a.protocols if args.protocol in (None, p)]
        if args.ranks & (args.ranks - 1):
            fits = {(a.collective, a.name) for a in known if not a.power_of_two}
            ways = [way for way in ways if way[:2] in fits]
        if not ways:
            Collective.of(args.collective, 1)  # says what is wrong with the name
            raise InputError("no algorithm to verify", where=args.collective)
    else:
        ways = [(args.collective, _algorithm(args.algorithm), args.protocol or "Simple")]
    rows, worst = [], 0
    for kind, algorithm, protocol in ways:
        wanted = Collective.of(
            kind, args.size, algorithm, lanes=args.lanes, root=args.root, protocol=protocol
        )
        program = wanted.program(args.ranks, args.per_node)
        faults = verify(program, kind, root=args.root)
        rows.append({"name": wanted.title, "ranks": args.ranks, "faults": faults})
        errors = [fault for fault in faults if fault.severity == "error"]
        if errors:
            worst = max(worst, 3 if errors[0].kind == "deadlock" and worst != 4 else 4)
        drawn = next((draw_waits(fault) for fault in faults if fault.waits), "")
        if args.picture and drawn:
            with whole_file(Path(args.picture)) as file:
                file.write(drawn.encode())
    if args.json:
        print_json([row | {"faults": [dataclasses.asdict(f) for f in row["faults"]]} for row in rows])
        return worst
    for row in rows:
        wrong = [f for f in row["faults"] if f.severity == "error"]
        said = f"{len(wrong)} faults" if wrong else "right: no deadlock, no race, result as promised"
        print(f"{row['name']} ({row['ranks']} ranks): {said}")
        for fault in row["faults"]:
            print(f"  {fault.severity}, {fault.kind}: {fault.message}")
    return worst


def _program(args: argparse.Namespace, ranks: int | None, lanes: int | None = None) -> Any:
    """The program of the collective, algorithm and protocol that a command names."""
    from astranb.collectives import Collective

    algorithm = _algorithm(args.algorithm)
    count = getattr(algorithm, "ranks", 4) if ranks is None else ranks
    chosen = Collective.of(args.collective, "1MiB", algorithm, lanes=lanes or 1, protocol=args.protocol)
    return chosen.program(count)
