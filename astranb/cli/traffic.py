"""``astranb traffic``: profile a job, record its traffic, write it for a simulator, replay it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time
from astranb.explore.runs import (
    RUNS,
    ExchangeRun,
    RunSpec,
    TraceRun,
    algorithm_of,
    are_missing,
    both_given,
    file_named,
    network_of,
    subject_of,
)

from .arguments import add_command, add_output, add_verbs, name_passed, typed
from .options import RUN_GROUPS, RunOutputs, add_fields, add_groups
from .parsing import Parser
from .printing import Report, summary_lines
from .run import add_kinds, rewritten, typed_spec
from .traffic_profile import add_profile

if TYPE_CHECKING:
    from astranb.traffic import MessageGraph, Pattern

__all__ = ["add_commands"]

_FILE = "pattern (.parquet), GOAL schedule (.goal) or htsim connection matrix (.cm)"
_FIDELITY = "--fidelity F"
_NETWORK = "an infrastructure, as for 'astranb run collective'"
_NOT_RECORDED = {"fidelity", "price", *(one.name for one in fields(RunOutputs))}
"""Options of a run that a record of its traffic has not, or has in its own way."""


def add_commands(commands: Any) -> None:
    """Add ``traffic`` and its verbs to the command line."""
    verbs = add_verbs(commands, "traffic", "network traces of a job, without a cluster")

    add_profile(verbs)

    _add_record(verbs)

    show = add_command(verbs, "show", "describe traffic: messages, sizes, bursts, incast", _show)
    show.add_argument("file", help=_FILE)
    show.add_argument(
        "--figure", metavar="FILE.html", type=file_named(".html", ".htm"),
        help="write plots: matrix and bytes over time, sizes, idle gaps, incast",
    )  # fmt: skip
    show.add_argument("--dark", action="store_true", help="plots for a dark background")

    write = add_command(verbs, "translate", "write traffic for a network simulator", _translate)
    write.add_argument("file", nargs="?", help=_FILE)
    write.add_argument("--to", metavar="TARGET", help="simulator or format; --list names them")
    write.add_argument("--list", action="store_true", help="list the targets")
    write.add_argument("--infra", help=f"{_NETWORK}: for targets that want a topology")
    write.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        help="an option of the target (repeatable)",
    )
    add_output(write, "the file; further files of a target lie beside it")

    replay = add_command(verbs, "replay", "send traffic over a network of ours", _replay)
    replay.add_argument("file", help=_FILE)
    replay.add_argument("--infra", help=_NETWORK)
    replay.add_argument("--network", metavar="FILE", help="an ASTRA-sim 2.0 network instead")
    replay.add_argument("--fidelity", help="analytical, congestion or cacheline (default: congestion)")


def _add_record(verbs: Any) -> None:
    """Add ``record`` and what it runs."""
    kinds = add_verbs(verbs, "record", "record the traffic of a run, or of a profile", "WHAT")
    verbs.choices["record"].rewritten = partial(rewritten, "astranb traffic record")
    run = "astranb traffic record"
    runs = [kind for kind in RUNS if kind is not ExchangeRun]  # which is simulated by cache lines only
    for kind, parser in add_kinds(kinds, _record, runs=runs, example=run):
        parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
        _add_recorded(parser)
        add_groups(parser, [kind], (one.without(_NOT_RECORDED) for one in RUN_GROUPS[kind.name]))
    profile = add_command(
        kinds, "profile", "record the traffic of a profile, of 'astranb traffic profile'", _record
    )
    profile.add_argument("profile", metavar="FILE.json", help="of 'astranb traffic profile'")
    profile.set_defaults(kind=None)
    _add_recorded(profile)
    add_fields(
        profile,
        [TraceRun],
        "--infra INFRA, --network FILE, --gpu GPU, --dimensions 8x4, --down LINK, --pxn",
    )


def _add_recorded(parser: Parser) -> None:
    add_output(parser, "the pattern, folded", metavar="FILE.parquet", endings=(".parquet",))
    add_fields(parser, [RunSpec], _FIDELITY, help="analytical or congestion (default: analytical)")
    parser.add_argument(
        "--use", metavar="COLLECTIVE=ALGORITHM", action="append",
        help="another algorithm: a name, FILE.py:FUNCTION, a plan",
    )  # fmt: skip
    parser.add_argument("--chakra", metavar="PREFIX", help="write its messages as Chakra traces, too")


def _record(args: argparse.Namespace) -> Report:
    from astranb.traffic import record, write_chakra, write_pattern

    if args.output is None and args.chakra is None:
        raise InputError(
            "nothing to write", where="traffic record", hint="give -o FILE.parquet or --chakra PREFIX"
        )
    args.fidelity = args.fidelity or "analytical"
    if args.fidelity == "cacheline":
        hint = "use analytical or congestion; replay it by cache lines"
        raise InputError("a pattern is not recorded at fidelity 'cacheline'", where="--fidelity", hint=hint)
    what, known = _recorded(args)
    name_passed(args, {"algorithms": "--use"})
    named = _pairs(args.use or (), "names no algorithm", where="--use", hint="write all_reduce=ring")
    algorithms = {name: algorithm_of(algorithm) for name, algorithm in named}
    pattern = record(what, fidelity=args.fidelity, algorithms=algorithms, assumptions=known)
    files = [] if args.output is None else [str(write_pattern(pattern, args.output))]
    if args.chakra is not None:
        files += [str(file) for file in write_chakra(pattern.unfold(), args.chakra)]
    document = _described(pattern) | {"files": files}
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    lines = [
        pattern.title,
        (
            f"{plural(pattern.ranks, 'rank')} of {plural(document['classes'], 'class', 'classes')}, "
            f"{plural(document['templates'], 'template')}"
        ),
        f"{plural(pattern.messages, 'message')}, {_size(pattern.bytes)}, {format_time(document['time_ps'])}",
        *_assumed(document),
    ]
    return Report(document, lines, notes=[f"{files[0]}{more}"])


def _pairs(texts: Sequence[str], what: str, *, where: str, hint: str) -> Iterator[tuple[str, str]]:
    """Divide texts as ``NAME=VALUE`` into names and values."""
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"{text[:40]!r} {what}", where=where, hint=hint)
        yield name, value


def _size(count: int) -> str:
    return format_bytes(count) if count < 10**9 else f"{count / 1e9:,.1f} GB"


def _assumed(document: dict[str, Any]) -> list[str]:
    return [f"assumed {name}: {text}" for name, text in document["assumptions"].items()]


def _recorded(args: argparse.Namespace) -> tuple[Any, dict[str, str]]:
    """Return what is run, and what it rests on."""
    if args.kind is not None:
        subject = subject_of(typed_spec(args))
        cluster = subject.inputs.cluster
        return subject.sim, {} if cluster is None else {"cluster": "; ".join(cluster.assumed)}
    from astranb.traffic import Profile
    from astranb.workload.astrasim2 import read_network

    if args.infra is not None and args.network is not None:
        raise both_given("--infra", "--network", "traffic record profile")
    profile = Profile.load(args.profile)
    network = network_of(
        args.infra, args.network, **typed(args, "gpu", "dimensions", "down"), pxn=bool(args.pxn)
    )
    used = read_network(network) if isinstance(network, str) else network
    return profile.workload(used), {f"profile: {name}": text for name, text in profile.assumptions.items()}


def _described(pattern: Pattern) -> dict[str, Any]:
    return {
        "title": pattern.title,
        "ranks": pattern.ranks,
        "messages": pattern.messages,
        "bytes": pattern.bytes,
        "classes": len(pattern.operations.patterns),
        "templates": len(pattern.templates),
        "time_ps": 1000 * pattern.time_ns,
        "assumptions": dict(pattern.assumptions),
    }


def _read(file: str) -> Pattern | MessageGraph:
    from astranb.traffic import read_traffic

    return read_traffic(file)


def _graph(file: str) -> MessageGraph:
    from astranb.traffic import MessageGraph

    found = _read(file)
    return found if isinstance(found, MessageGraph) else found.unfold()


def _show(args: argparse.Namespace) -> Report:
    from astranb.traffic import statistics

    if args.dark and args.figure is None:
        raise InputError("there are no plots to be dark", where="--dark", hint="give --figure FILE.html")
    found = statistics(_graph(args.file))
    document = found.document()
    if args.figure is None:
        return Report(document, _lines(document))
    from astranb.drawing import figures
    from astranb.traffic import traffic_figure

    path = figures.save(traffic_figure(found, dark=args.dark), args.figure)
    return Report(document | {"figure": str(path)}, _lines(document), notes=[str(path)])


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """Write statistics for people."""
    yield document["title"]
    for name in ("ranks", "messages", "computations", "dependencies", "pairs", "incast"):
        yield f"{name + ':':<15}{document[name]:,}"
    yield f"{'bytes:':<15}{_size(document['bytes'])}"
    for name, key, text in (
        ("message sizes", "message_bytes", format_bytes),
        ("idle gaps", "gap_ps", format_time),
    ):
        values = ", ".join(f"{which} {text(value)}" for which, value in document[key].items())
        yield f"{name + ':':<15}{values or 'none'}"
    yield (
        f"{'bursts:':<15}peak {document['peak_to_mean']:.1f} x the mean of bins of "
        f"{format_time(document['bin_ps'])}, {document['idle_bins']:.0%} of them idle"
    )
    for row in document["operations"]:
        called = " ".join(word for word in (row["job"], row["collective"], row["algorithm"]) if word)
        yield f"  {called:<28} {row['messages']:>12,} messages {_size(row['bytes']):>16}"
    yield from _assumed(document)


def _translate(args: argparse.Namespace) -> Report:
    from astranb.traffic import TARGETS, translate

    if args.list:
        rows = [
            {"target": one.name, "suffix": one.suffix, "description": one.description}
            for one in TARGETS.own().values()
        ]
        rows += [
            {"target": plugin.name, "suffix": "", "description": f"of {plugin.source}"}
            for plugin in TARGETS.plugins()
        ]
        return Report(rows, [f"{row['target']:<12} {row['suffix']:<10} {row['description']}" for row in rows])
    absent = [word for word, name in (("FILE", "file"), ("--to", "to")) if getattr(args, name) is None]
    if absent:
        hint = "--list names the targets of --to"
        raise InputError(are_missing(absent), where="traffic translate", hint=hint)
    topology = None
    if args.infra is not None:
        from astranb.infragraph import resolve

        topology = resolve(args.infra)
    named = _pairs(args.set or (), "is no option", where="--set", hint="write NAME=VALUE")
    options = {name.strip().replace("-", "_"): _value(value.strip()) for name, value in named}
    own = {name: f"--set {name}" for name in options}
    name_passed(args, {**own, "target": "--to", "options": "--set", "topology": "--infra"})
    suffix = TARGETS[args.to].suffix if args.to in TARGETS else ""
    path = Path(args.output or str(Path(args.file).with_suffix("")) + suffix)
    done = translate(_graph(args.file), args.to, path, topology=topology, **options)
    document = {
        "target": args.to, "files": [str(file) for file in done.files], "messages": done.messages,
        "not_expressed": list(done.not_expressed),
    }  # fmt: skip
    return Report(document, summary_lines(document))


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _replay(args: argparse.Namespace) -> Report:
    from astranb.sim import Simulation
    from astranb.traffic import MessageGraph
    from astranb.workload.astrasim2 import read_network

    if args.infra is not None and args.network is not None:
        raise both_given("--infra", "--network", "traffic replay")
    if args.infra is None and args.network is None:
        hint = "give --infra, or --network FILE"
        raise InputError("the network is missing", where="traffic replay", hint=hint)
    what = _read(args.file)
    network = args.infra if args.network is None else read_network(args.network)
    sim = Simulation(network, what, fidelity=args.fidelity or "congestion", record=False, checkpoint_bytes=0)
    sim.run()
    document = {"title": what.title, "fidelity": sim.fidelity, "time_ps": sim.now_ps, "events": sim.events}
    recorded = 0 if isinstance(what, MessageGraph) else 1000 * what.time_ns
    if recorded:
        document |= {"recorded_ps": recorded, "ratio": sim.now_ps / recorded}
    document |= {"state_hash": sim.state_hash()}
    shown = document | {"time_ps": format_time(sim.now_ps)}
    if recorded:
        shown |= {"recorded_ps": format_time(recorded), "ratio": f"{sim.now_ps / recorded:.6f}"}
    notes = _assumed({"assumptions": what.assumptions}) if isinstance(what, MessageGraph) else []
    return Report(document, summary_lines(shown), notes=notes)
