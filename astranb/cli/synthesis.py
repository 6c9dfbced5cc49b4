"""``astranb collective synthesize``: an algorithm made for a network."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural
from astranb.explore.runs import both_given, flag_of, infra_of, root_of, whole

from . import arguments
from .arguments import add_output, typed
from .printing import Report

if TYPE_CHECKING:
    from astranb.explore import Condition, Synthesis

__all__ = ["add_command"]

_MOST_EVENTS: Final = 1_000_000  # of a library's algorithm once it is slower than the best so far
_FEW_BYTES: Final = 2**20
"""Of larger collectives, so many bytes' lines or more travel as one request in the comparison."""


def add_command(verbs: Any) -> None:
    """Add ``synthesize`` to the verbs of ``collective``."""
    parser = arguments.add_command(
        verbs, "synthesize", "make an algorithm for a network, and say how good it is", _synthesize
    )
    parser.add_argument("--infra", required=True, help="file, or name as torus2d:rows=4,columns=4")
    parser.add_argument("--collective", help="name, as all_gather")
    parser.add_argument(
        "--condition",
        metavar="FILE",
        help="instead: before and after, with the chunks of each rank (YAML, JSON)",
    )
    parser.add_argument("--size", help="bytes in a rank's larger buffer (default: 64 MiB)")
    parser.add_argument("--root-rank", type=whole(0, MOST_RANKS), metavar="R", help="root rank (default: 0)")
    parser.add_argument(
        "--slices", type=whole(1, 1024), metavar="N", help="slices of each chunk (default: several are tried)"
    )
    parser.add_argument("--trials", type=whole(1, 10_000), metavar="N", help="schedules to draw (default: 8)")
    parser.add_argument(
        "--seed", type=whole(0, 2**31), metavar="N", help="of the first schedule (default: 0)"
    )
    parser.add_argument("--down", action="append", metavar="'A->B'", help="a link that has failed")
    parser.add_argument("--protocol", help="Simple, LL or LL128 (default: what is expected to be fastest)")
    parser.add_argument(
        "--exact", action="store_true", help="solve for the least number of steps: few ranks and chunks"
    )
    parser.add_argument(
        "--schedule-only",
        action="store_true",
        help="simulate nothing: neither it nor the library's algorithms",
    )
    add_output(parser, "write it to FILE.json (MSCCL++) or FILE.xml (MSCCL), for astranb run collective")


def _synthesize(args: argparse.Namespace) -> Report:
    from astranb.core.units import format_bandwidth, format_time
    from astranb.explore import synthesize

    if args.collective is not None and args.condition is not None:
        raise both_given("--collective", "--condition", "collective synthesize")
    if args.collective is None and args.condition is None:
        hint = "as --collective all_gather"
        raise InputError("give --collective or --condition", where="collective synthesize", hint=hint)
    for name in ("trials", "seed") if args.exact else ():
        if getattr(args, name) is not None:
            raise InputError(f"{flag_of(name)} does not apply to --exact", where="run", hint="leave it out")
    what = args.collective if args.condition is None else _condition_of(args.condition)
    options = typed(args, "size", "slices", "trials", "seed", "down", "exact", "protocol")
    options |= root_of(args.collective, args.root_rank)
    found = synthesize(args.infra, what, **options)
    name, schedule = found.schedule.condition.name, found.schedule
    flaws = found.verify()
    notes = found.write(args.output) if args.output else []
    how = "fewest steps" if found.exact else f"best of {len(found.trials_ps)}, seed {found.seed}"
    document: dict[str, Any] = {
        "collective": name,
        "ranks": found.network.ranks,
        "size_bytes": found.size,
        "slices": schedule.slices,
        "protocol": found.protocol,
        "transfers": len(schedule.edge),
        "schedule_ps": found.time_ps,
        "bound_ps": found.bound_ps,
        "bound_Bps": found.bound_Bps,
        "slower_than_bound": found.slower,
        "trials_ps": list(found.trials_ps),
        "seed": found.seed,
        "exact": found.exact,
        "faults": [flaw.message for flaw in flaws],
        "simulated_ps": None,
        "library": None,
        "file": args.output,
        "notes": notes,
    }
    limit = found.limit
    bound = "latency" if limit.latency_ps > limit.bandwidth_ps else "links"
    if bound == "links" and limit.cuts == "sampled":
        bound = "links (cuts around single ranks, and at 64 sampled ones)"
    slices = f"{plural(schedule.slices, 'slice')} a chunk"
    lines = [
        (
            f"{name} of {plural(found.network.ranks, 'rank')}: "
            f"{plural(len(schedule.edge), 'transfer')}, {slices} ({how})"
        ),
        f"schedule: {format_time(found.time_ps)}, {found.slower:.3f} times the bound",
        f"bound: {format_time(found.bound_ps)} by {bound}, {format_bandwidth(found.bound_Bps)}",
    ]
    if not args.schedule_only and name != "custom":
        lines += _compared(args, found, document)
    lines.append(
        f"{plural(sum(flaw.count for flaw in flaws), 'fault')}: {flaws[0].message}"
        if flaws
        else "correct at any timing: no deadlock, no race, the promised result"
    )
    if args.output:
        lines.append(f"written to {args.output}")
    return Report(document, lines, 4 if flaws else 0, [f"{args.output}: {note}" for note in notes])


def _compared(args: argparse.Namespace, found: Synthesis, document: dict[str, Any]) -> list[str]:
    """Simulate the algorithm and those of the library by cache lines; returns what to print."""
    from astranb.core.units import format_time
    from astranb.explore import best_algorithm
    from astranb.net import Network
    from astranb.sim import Simulation

    together = max(1, min(64, found.size // _FEW_BYTES))
    network = Network(coalesce=together)
    infra = infra_of(args.infra, args.down or ())
    sim = Simulation(infra, found.collective, network=network, record=False, checkpoint_bytes=0)
    ours_ps = sim.run().now_ps
    table = best_algorithm(
        infra, found.collective.name, found.size, root=found.root, network=network,
        most_events=_MOST_EVENTS,
    )  # fmt: skip
    best = table.iloc[0]
    title = f"{best['algorithm']}/{best['protocol']}"
    best_ps = int(best["time_ps"])
    document["simulated_ps"] = ours_ps
    document["library"] = {"algorithm": title, "time_ps": best_ps}
    lines = "line by line" if together == 1 else f"{together} lines as one request"
    faster = f"{best_ps / ours_ps:.2f} times as long" if best_ps >= ours_ps else (
        f"{ours_ps / best_ps:.2f} times faster"
    )  # fmt: skip
    return [
        f"by cache lines ({found.protocol}, {lines}): {format_time(ours_ps)}",
        f"library's best: {title}, {format_time(best_ps)}, {faster}",
    ]


def _condition_of(file: str) -> Condition:
    """Read a condition from a document."""
    from astranb.core.document import read_document
    from astranb.explore import Condition

    root = read_document(file)
    sides: dict[str, dict[int, list[int]]] = {"before": {}, "after": {}}
    for side, ranks in sides.items():
        node = root.get(side)
        if not isinstance(node.value, dict):
            raise node.error("not a mapping of ranks to chunks", f"write {side}: {{0: [0, 1]}}")
        for rank in node.value:
            if not rank.isdecimal() or len(rank) > 9:
                raise node.error(f"{rank[:40]!r} is not a rank", "use numbers from 0")
            ranks[int(rank)] = [chunk.number(0, 2**20) for chunk in node.get(rank).items()]
    return Condition(sides["before"], sides["after"], reduces=root.get("reduces", default=False).truth())
