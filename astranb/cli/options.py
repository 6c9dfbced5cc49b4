"""Options of commands that run something: groups of the fields of specifications."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from astranb.explore.runs import described, file_named, flag, setting, whole

from .parsing import Parser

__all__ = ["MODEL_GROUPS", "RUN_GROUPS", "Group", "RunOutputs", "add_fields", "add_groups"]


class Group(NamedTuple):
    """Options that help shows together.

    Attributes
    ----------
    title : str
    options : str
        Flags and metavar of each, divided by commas; help and default are those of the field.
    topic : str
        The help of the command only names them; ``--help=TOPIC`` shows them. Empty: they are shown.
    """

    title: str
    options: str
    topic: str = ""

    def without(self, names: Container[str]) -> Group:
        """Return the group without the options of some fields."""
        kept = [option for option in self.options.split(", ") if _name(option) not in names]
        return self._replace(options=", ".join(kept))


@described
@dataclass(frozen=True)
class RunOutputs:
    """Output of a run."""

    explain: bool = flag("explain where the time went")
    save: str | None = setting(
        "save the finished simulation: inputs, changes, position and hash", None, file_named("")
    )
    html: str | None = setting("write a page that replays the run offline", None, file_named(""))
    live: str | None = setting(
        "let the page of --html simulate; its Python is in the page, with “shared” in a folder beside it, "
        "else at the address given",
        alone="page",
    )
    svg: str | None = setting(
        "draw the topology with its link utilisation, or the timeline of a workload", None, file_named(".svg")
    )
    memory_svg: str | None = setting(
        "draw what the fullest rank of a model's step holds in memory over time", None, file_named(".svg")
    )
    perfetto: str | None = setting(
        "write a trace for Perfetto and Chrome (.json, .json.gz)", None, file_named(".json", ".json.gz")
    )
    frames: str | None = setting("write tables of ranks, operations, collectives, … as DIR/*.csv")
    json: bool = flag("print one JSON document on standard output")
    suggest: bool = flag("instead of simulating, search the best plans for the same GPUs and batch")
    memory_table: bool = flag("print what a rank of each stage holds at its fullest moment, and what is free")
    energy: bool = flag("energy of a step, and what the cluster, a step and a million tokens cost")
    rates: str | None = setting("powers and prices for --energy, YAML (default: assumed)")
    runs: int | None = setting(
        "repeat with other random numbers: mean, median, 95th percentile, and how well they are known",
        None,
        whole(2, 100_000),
    )
    path: str | None = setting("write EndToEnd.csv and the other result tables")
    run_name: str = setting("name of the run in the tables", "unnamed run")
    total_stat_rows: int = setting("number of runs that share the tables", 1, whole(1, 1 << 31))
    stat_row: int = setting("row of this run, from 0", 0, whole(0, 1 << 31))
    logging_configuration: str | None = setting("accepted, no effect")
    logging_folder: str | None = setting("accepted, no effect")


_MACHINE: Final = "--infra INFRA, --gpu GPU, --launch COST, --fidelity F"
_BY_MESSAGES: Final = f"{_MACHINE}, --cost C"
_FAILURES: Final = Group(
    "failures and late starts",
    "--down LINK, --fail LINK@TIME, --repair LINK@TIME, --reroute TIME, --start RANK@TIME, --pxn",
    "failures",
)
_NETWORK: Final = (
    "--arbitration A, --buffers N, --cut-through, --multipath HOW, --roce FEATURES, --coalesce N"
)
_OUTPUT: Final = "--explain, --json, --html FILE, --save FILE"
_PAGES: Final = "--live shared|ADDRESS, --svg FILE, --perfetto FILE"
_SYSTEM: Final = "--system --system-configuration FILE, --network --network-configuration FILE"
_TUNING: Final = (
    "--memory --remote-memory-configuration FILE, --num-queues-per-dim N, --injection-scale X, "
    "--rendezvous-protocol true|false, --dimensions 8x4, "
    "--logical-topology --logical-topology-configuration FILE, --compute-lines N"
)

MODEL_GROUPS: Final = (
    Group(
        "the plan",
        "--dp N, --tp N, --pp N, --cp N, --ep N, --sp, --zero N, --batch N, --microbatches N, --seq N, "
        "--recompute WHAT, --mode MODE",
    ),
    Group(
        "more of the plan",
        "--interleave N, --schedule NAME, --overlap LIST, --offload LIST, --update WHO, --gradient-bytes N, "
        "--lora N, --uneven, --dropout, --output-tokens N, --cache-precision P",
        "plan",
    ),
    Group(
        "experts",
        "--experts N, --topk N, --dispatch-node N, --expert-imbalance F, --expert-capacity F",
        "experts",
    ),
    Group(
        "kernels",
        "--precision P, --weights W, --power W, --framework NAME, --attention A, --elementwise, "
        "--efficiency E, --costs NAME, --kernels FILE.csv",
        "kernels",
    ),
)
"""Options of a step of a model."""

RUN_GROUPS: Final[dict[str, tuple[Group, ...]]] = {
    "collective": (
        Group(
            "the collective",
            "--size SIZE, --algorithm A, --library NAME, --channels N, --protocol P, --param NAME=VALUE, "
            "--root-rank R, --unchecked",
        ),
        Group("the machine", _BY_MESSAGES),
        Group("output", f"{_OUTPUT}, {_PAGES}"),
        Group("the network, by cache lines", f"{_NETWORK}, --compute-lines N", "network"),
        _FAILURES,
    ),
    "exchange": (
        Group(
            "the exchange",
            "--algorithm A, --tokens N, --hidden N, --topk N, --experts N, --expert-groups N, "
            "--token-precision P, --skew X, --seed N, --routing FILE, --channels N, --unchecked",
        ),
        Group("the machine", _MACHINE),
        Group("output", f"{_OUTPUT}, {_PAGES}"),
        Group("the network", _NETWORK, "network"),
        _FAILURES,
    ),
    "model": (
        *MODEL_GROUPS,
        Group("the machine", _MACHINE),
        Group("output", f"{_OUTPUT}, --suggest"),
        Group("cost", "--price X, --energy, --rates FILE", "cost"),
        Group("more files", f"{_PAGES}, --frames DIR, --memory-svg FILE", "files"),
        Group(
            "memory",
            "--memory-limit SIZE, --expanded-memory TIER, --expanded-shared WHO, --expanded-streaming HOW, "
            "--expanded-placement HOW, --memory-table",
            "memory",
        ),
        Group(
            "ASTRA-sim's files, and cache lines", f"{_SYSTEM}, {_TUNING}, --cost C, --coalesce N", "system"
        ),
        _FAILURES,
    ),
    "trace": (
        Group(
            "the files",
            f"{_SYSTEM}, --comm-group --comm-group-configuration FILE, --root DIR, --compat VERSION",
        ),
        Group("the machine", _BY_MESSAGES),
        Group("output", f"{_OUTPUT}, {_PAGES}, --frames DIR"),
        Group(
            "ASTRA-sim's options",
            f"{_TUNING}, --comm-scale X, --compute-scale X, --logging-configuration FILE, "
            "--logging-folder DIR",
            "astrasim",
        ),
        Group(
            "only 1.0 files",
            "--num-passes N, --training-loops FILE.py, --units-count N, --links-count N, --link-latency N, "
            "--link-bandwidth N, --path --csv DIR, --run-name NAME, --total-stat-rows N, --stat-row N",
            "astrasim1",
        ),
        _FAILURES,
    ),
    "jobs": (
        Group("the machine", _BY_MESSAGES),
        Group("output", f"--runs N, {_OUTPUT}, {_PAGES}, --frames DIR"),
        _FAILURES,
    ),
}  # fmt: skip
"""Options of each kind of run."""


def add_fields(
    parser: Parser, kinds: Iterable[type], options: str, *, group: Any = None, default: str = "", **own: Any
) -> None:
    """Add options that are fields to a parser, or to a group of it; all are None unless given.

    Parameters
    ----------
    parser : Parser
    kinds : iterable of type
        The dataclasses that have the fields.
    options : str
        As of a :class:`Group`.
    group : argument group, optional
        Of the parser.
    default : str
        What stands for options that are not given, if not the default of the fields.
    **own
        Arguments of ``add_argument`` that differ here.
    """
    known = {one.name: one for kind in kinds for one in fields(kind)}
    for option in options.split(", "):
        flags = _flags(option)
        field = known[_name(option)]  # there is no option without a field
        text = field.metadata["about"].replace("%", "%%")
        if default:
            text = f"{text.partition(' (default:')[0]} (default: {default})"
        elif field.default is not None and field.default is not False and field.default not in ((), ""):
            text += "" if "(default:" in text else f" (default: {_written(field.default)})"
        more: dict[str, Any] = {"metavar": option.rpartition(" ")[2], "type": field.metadata["read"]}
        if field.metadata["alone"] is True and len(option.split()) == len(flags):
            more = {"action": "store_true", "default": None}
        elif field.metadata["alone"] is not None:
            more |= {"nargs": "?", "const": field.metadata["alone"]}
        elif field.default == ():
            more |= {"nargs": "+"} if field.metadata["together"] else {"action": "append"}
        (group or parser).add_argument(*flags, **{"dest": field.name, "help": text, **more, **own})
        if parameter := field.metadata["parameter"]:
            parser.parameters.setdefault(parameter, flags[0])
            parser.namesakes.setdefault(parameter, {})[field.name] = flags[0]


def _flags(option: str) -> list[str]:
    return [word for word in option.split() if word.startswith("--")]


def _name(option: str) -> str:
    return _flags(option)[0][2:].replace("-", "_")


def _written(default: object) -> str:
    return f"{default:g}" if isinstance(default, float) else str(default)


def add_groups(parser: Parser, kinds: Iterable[type], groups: Iterable[Group]) -> None:
    """Add the groups of a command's options; those that are empty are left out."""
    kinds = list(kinds)
    for group in groups:
        if not group.options:
            continue
        add_fields(parser, kinds, group.options, group=parser.add_argument_group(group.title))
        if group.topic:
            parser.topics[group.title] = group.topic
