"""``astranb collective``: list, show, verify, import and export algorithms."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.limits import MOST_CHANNELS, MOST_RANKS
from astranb.core.plural import plural
from astranb.core.units import format_bytes
from astranb.explore.runs import (
    algorithm_of,
    both_given,
    collective_of,
    file_named,
    flag_of,
    infra_of,
    is_contract,
    params_of,
    root_of,
    whole,
)
from astranb.hardware import DEFAULT_GPU

from . import synthesis
from .arguments import add_command, add_output, add_verbs, typed
from .printing import Report, summary_lines

if TYPE_CHECKING:
    from astranb.collectives import Flaw
    from astranb.infragraph import Infra

__all__ = ["add_commands"]

_MOST_RANKS: Final = 65_536
_COLLECTIVE = "name, as all_reduce, or a contract FILE.py:CONTRACT"
_ALGORITHM = "as for 'astranb run collective' (default: that of the collective)"
_PROTOCOL = "Simple, LL or LL128 (default: Simple)"
_RIGHT = "correct: no deadlock, no race, the promised result"
_UNCHECKED = "no deadlock, no race; the result is not checked"


def add_commands(commands: Any) -> None:
    """Add ``collective`` and its verbs to the command line."""
    verbs = add_verbs(commands, "collective", "list, verify, read and write algorithms")
    add_command(verbs, "list", "list all collectives and their algorithms", _list)

    read = add_command(verbs, "import", "summarise an algorithm's file, or refuse it", _import)
    read.add_argument(
        "file", help="MSCCL++ execution plan (.json), MSCCL algorithm (.xml) or schedule of TACOS (.csv)"
    )

    write = add_command(verbs, "export", "write an algorithm to a file", _export)
    write.add_argument("collective", help=_COLLECTIVE)
    write.add_argument(
        "--algorithm",
        help="as for 'astranb run collective' (default: that of the collective; with --infra, the library's)",
    )
    write.add_argument(
        "--ranks", type=whole(1, _MOST_RANKS), metavar="N", help="number of ranks (or give --infra)"
    )
    _add_infra(write, "read it back, and simulate program and file here: what the file costs")
    write.add_argument("--size", help="bytes in a rank's larger buffer (default: 1MiB)")
    write.add_argument(
        "--channels",
        type=whole(1, MOST_CHANNELS),
        metavar="N",
        help="sets of thread blocks (default: as 'astranb run collective' takes)",
    )
    write.add_argument("--protocol", help=_PROTOCOL)
    _add_param(write)
    add_output(write, "FILE.json (MSCCL++) or FILE.xml (MSCCL)", required=True)

    show = add_command(verbs, "show", "print the operations of each thread block", _show)
    show.add_argument("collective", help=_COLLECTIVE)
    show.add_argument("--algorithm", help=_ALGORITHM)
    show.add_argument(
        "--ranks",
        type=whole(1, _MOST_RANKS),
        metavar="N",
        help="number of ranks (default: that of the file, else 4)",
    )
    _add_infra(show, "infrastructure whose nodes and links it is made for (instead of --ranks)")
    show.add_argument("--rank", type=whole(0, MOST_RANKS), metavar="R", help="only this rank")
    show.add_argument("--protocol", help=_PROTOCOL)
    _add_param(show)

    verify = add_command(verbs, "verify", "prove algorithms correct at any timing", _verify)
    verify.add_argument("collective", help=f"{_COLLECTIVE}, or all")
    verify.add_argument(
        "--algorithm", help="name, FILE.py:FUNCTION, or a file (default: all algorithms of the collective)"
    )
    verify.add_argument(
        "--ranks",
        type=whole(1, _MOST_RANKS),
        metavar="N",
        help="number of ranks (default: that of the file, else 8)",
    )
    _add_infra(verify, "infrastructure whose GPUs, nodes and links it is verified for (instead of --ranks)")
    verify.add_argument(
        "--per-node", type=whole(1, _MOST_RANKS), metavar="N", help="consecutive ranks that share a node"
    )
    verify.add_argument(
        "--channels",
        type=whole(1, MOST_CHANNELS),
        metavar="N",
        help="sets of thread blocks (default: 2, of a file 1)",
    )
    verify.add_argument("--protocol", help="Simple, LL or LL128 (default: all that the algorithm supports)")
    _add_param(verify)
    verify.add_argument("--root-rank", type=whole(0, MOST_RANKS), metavar="R", help="root rank (default: 0)")
    verify.add_argument("--size", help="bytes in a rank's larger buffer (default: 1MiB)")
    verify.add_argument(
        "--gpu", help=f"GPU whose SMs hold the thread blocks (default: that of --infra, else {DEFAULT_GPU})"
    )
    verify.add_argument(
        "--picture", metavar="FILE.svg", help="draw a deadlock's cycle of waits", type=file_named(".svg")
    )
    synthesis.add_command(verbs)


def _add_infra(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--infra", help=about)
    command.add_argument(
        "--down", action="append", metavar="'A->B'", help="a link of --infra that has failed (repeatable)"
    )


def _check_place(args: argparse.Namespace, *without: str) -> None:
    """Check that an infrastructure, with its failed links, or other options say where it runs."""
    if args.infra is None and args.down:
        raise InputError("--down needs --infra", where="run", hint="name the infrastructure")
    for name in without:
        if args.infra is not None and getattr(args, name) is not None:
            raise both_given("--infra", flag_of(name), "run")


def _add_param(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--param", action="append", metavar="NAME=VALUE", help="a parameter of the function, as slices=16"
    )


def _list(args: argparse.Namespace) -> Report:
    from astranb.collectives import ALGORITHMS, COLLECTIVES, EXCHANGE_KERNELS

    del args
    own = ALGORITHMS.own()
    found = [(*key, own[key].summary) for kind in COLLECTIVES for key in own if key[0] == kind]
    for plugin in ALGORITHMS.plugins():
        collective, _, name = plugin.name.partition(".")
        found.append((collective, name, f"of {plugin.source}"))
    routed = [name for name, kind in COLLECTIVES.items() if kind.routed]
    found += [(name, kernels, summary) for name in routed for kernels, summary in EXCHANGE_KERNELS.items()]
    rows = [dict(zip(("collective", "algorithm", "summary"), row, strict=True)) for row in found]
    return Report(rows, [f"{r['collective']:<15} {r['algorithm']:<18} {r['summary']}" for r in rows])


def _import(args: argparse.Namespace) -> Report:
    from astranb.collectives import read_algorithm

    summary = read_algorithm(args.file).summary()
    return Report(summary, summary_lines(summary))


def _export(args: argparse.Namespace) -> Report:
    from astranb.collectives import write_algorithm

    _check_place(args, "ranks")
    if args.infra is not None:
        return _export_for(args)
    if args.ranks is None:
        raise InputError("give --ranks or --infra", where="collective export", hint="as --ranks 8")
    program = _program(args, args.ranks, channels=args.channels)
    notes = list(write_algorithm(program, args.output))
    if args.channels is None and program.channels > 1:
        notes.append(
            f"{plural(program.channels, 'channel')}, as for {format_bytes(program.size)} (--size, --channels)"
        )
    document = {"file": args.output, "channels": program.channels, "notes": notes}
    return Report(document, notes=[f"{args.output}: {note}" for note in notes])


def _export_for(args: argparse.Namespace) -> Report:
    """Write what ``astranb run collective`` simulates on an infrastructure."""
    from astranb.explore import export_algorithm
    from astranb.explore.runs import CollectiveRun, collective_asked, made_of
    from astranb.net import Network

    if not is_contract(args.collective):
        args.size = args.size or "1MiB"
    infra = infra_of(args.infra, args.down or ())
    collective, choice = collective_asked(made_of(CollectiveRun, args), infra)
    options: dict[str, Any] = {}
    if choice is not None:
        options["launch"] = choice.launched(None)
        if choice.proxy_ps:
            options["network"] = Network(proxy_ps=choice.proxy_ps)
    found = export_algorithm(infra, collective, args.output, **options)
    return Report(found.document(), str(found).splitlines())


def _show(args: argparse.Namespace) -> Report:
    from astranb.collectives import list_operations

    _check_place(args, "ranks")
    where = args.ranks if args.infra is None else infra_of(args.infra, args.down or ())
    program = _program(args, where, channels=1)
    if args.rank is not None:
        program.rank(args.rank)  # raises an error if there is no such rank
    blocks, lines = list_operations(program, args.rank), []
    for block in blocks:
        unit = {"sm": "thread block", "engine": "copy engine", "nic": "NIC"}[block["unit"]]
        lines.append(f"rank {block['rank']}, {unit} {block['block']}, channel {block['channel']}")
        lines += [f"  {operation}" for operation in block["operations"]]
    return Report({"program": program.name, "ranks": program.ranks, "blocks": blocks}, lines)


def _verify(args: argparse.Namespace) -> Report:
    from astranb.collectives import draw_waits, prove
    from astranb.core.files import whole_file
    from astranb.gpu import preset

    rows, lines, exit_code = [], [], 0
    notes = [f"{args.picture}: not written, there is no deadlock"] if args.picture else []
    slots = preset(args.gpu or DEFAULT_GPU).slots if args.gpu or args.infra is None else None
    algorithm = algorithm_of(args.algorithm)
    plan = hasattr(algorithm, "fitted")
    collective = collective_of(args.collective)
    _check_place(args, "ranks", "per_node")
    infra = None if args.infra is None else infra_of(args.infra, args.down or ())
    if infra is not None:
        args.ranks = len(infra.expand().gpus)
    ranks = args.ranks or getattr(collective, "ranks", None) or (algorithm.ranks if plan else 8)
    channels = args.channels or (1 if plan else 2)
    for wanted in _to_verify(args, collective, algorithm, ranks, channels):
        if infra is not None:
            proof = prove(wanted, infra, slots=slots)
        else:
            program = wanted.program(ranks, args.per_node)
            proof = prove(program, wanted.name, root=wanted.root, slots=slots)
        faults = proof.flaws
        count = sum(fault.count for fault in faults if fault.severity == "error")
        rows.append(
            {
                "name": wanted.title,
                "ranks": ranks,
                "count": count,
                "roundings": proof.roundings,
                "faults": [dataclasses.asdict(f) for f in faults],
            }
        )
        if count:
            exit_code = max(exit_code, 3 if faults[0].kind == "deadlock" and exit_code != 4 else 4)
        right = _UNCHECKED if wanted.name == "custom" else _RIGHT
        right += f"; {proof.rounding_text}" if proof.rounding_text else ""
        found = plural(count, "fault") if count else right
        lines.append(f"{wanted.title} ({plural(ranks, 'rank')}): {found}")
        lines += _listed(faults)
        drawn = next((draw_waits(fault) for fault in faults if fault.waits), "")
        if args.picture and drawn:
            with whole_file(Path(args.picture)) as file:
                file.write(drawn.encode())
            notes = []
    return Report(rows, lines, exit_code, notes)


def _listed(faults: Sequence[Flaw]) -> Iterator[str]:
    """Write the first fault of each kind and line, or operation of a file; count what is alike."""
    alike: dict[tuple[Any, ...], list[Flaw]] = {}
    for fault in faults:
        where = fault.lines or fault.places[:1] or fault.message
        alike.setdefault((fault.severity, fault.kind, where), []).append(fault)
    for first, *more in alike.values():
        yield from f"  {first.severity}, {first.kind}: {first}".splitlines()
        if more:
            yield f"    and {len(more):,} more like it"


def _to_verify(
    args: argparse.Namespace, collective: Any, algorithm: Any, ranks: int, channels: int
) -> list[Any]:
    """Return the collectives to verify: one, or all that run on this number of ranks."""
    from astranb.collectives import Collective, algorithms

    chosen: list[tuple[Any, Any, dict[str, Any]]]
    if args.algorithm is not None or collective is not args.collective:
        chosen = [(collective, algorithm, typed(args, "protocol") | params_of(args.param))]
    else:
        known = algorithms(None if args.collective == "all" else args.collective)
        power_of_two = ranks & (ranks - 1) == 0
        chosen = [
            (one.collective, one.name, {"protocol": protocol})
            for one in known
            for protocol in one.protocols
            if args.protocol in (None, protocol) and (power_of_two or not one.power_of_two)
        ]
        if not chosen:
            name = "all_reduce" if args.collective == "all" else args.collective
            Collective.of(name, 1, **typed(args, "protocol"))  # raises an error for an unknown name
            raise InputError("no algorithm to verify", where=args.collective, hint="take other --ranks")
    options: dict[str, Any] = {"channels": channels, **root_of(args.collective, args.root_rank)}
    size = args.size if is_contract(args.collective) else args.size or "1MiB"
    return [Collective.of(kind, size, one, **options, **protocol) for kind, one, protocol in chosen]


def _program(args: argparse.Namespace, where: int | Infra | None, *, channels: int | None) -> Any:
    """Return the program of the collective, algorithm and protocol that a command names."""
    from astranb.collectives import Collective

    algorithm, collective = algorithm_of(args.algorithm), collective_of(args.collective)
    where = where or getattr(collective, "ranks", 0) or int(getattr(algorithm, "ranks", 4))
    size = None if is_contract(args.collective) else getattr(args, "size", None) or "1MiB"
    options = typed(args, "protocol") | params_of(args.param)
    return Collective.of(collective, size, algorithm, channels=channels, **options).program(where)
