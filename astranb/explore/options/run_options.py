"""The options of ``astranb run``: one table that makes its help and says what each option applies to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.engine import FIDELITIES
from astranb.hardware import DEFAULT_GPU

from .arguments import Parser, flag_of, positive, whole
from .model import MODEL_OPTIONS

__all__ = [
    "COLLECTIVE",
    "EXCHANGE",
    "FILE_WORDS",
    "JOBS",
    "LAYERS",
    "MODEL",
    "TRACES",
    "add_options",
    "check_options",
    "kind_of",
    "line_of",
    "option_names",
    "options_of",
    "takes_several",
]

COLLECTIVE: Final = "a collective"
EXCHANGE: Final = "an exchange of experts"
MODEL: Final = "a model"
JOBS: Final = "several jobs"
TRACES: Final = "ASTRA-sim 2.0 files"
LAYERS: Final = "ASTRA-sim 1.0 files"
"""Names of what can run."""

_STARTERS: Final = {
    "collective": (COLLECTIVE,),
    "model": (MODEL,),
    "jobs": (JOBS,),
    "workload": (TRACES, LAYERS),
}
"""The option that chooses what runs."""
_EXCHANGES: Final = ("dispatch", "combine")
"""Collectives that are exchanges of experts."""

_ANY: Final = FIDELITIES
_MESSAGES: Final = FIDELITIES[:2]
_LINES: Final = FIDELITIES[2:]
_ALL: Final = {COLLECTIVE: _ANY, EXCHANGE: _LINES, MODEL: _ANY, JOBS: _ANY, TRACES: _ANY, LAYERS: _ANY}


def _for(*kinds: str, at: tuple[str, ...] = _ANY) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(kinds, at)


class _Option(NamedTuple):
    """One option: by what runs, the fidelities at which it has an effect."""

    flags: Sequence[str]  # the first one names it in messages; longer ones are ASTRA-sim's
    help: str
    applies: Mapping[str, Sequence[str]]
    more: Mapping[str, Any]  # arguments of ``add_argument``

    @property
    def name(self) -> str:
        return self.flags[0].removeprefix("--").replace("-", "_")


class _Group(NamedTuple):
    title: str
    example: str
    options: Sequence[_Option]


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither true nor false")
    return text == "true"


def _option(flags: str, text: str, applies: Mapping[str, Sequence[str]], **more: Any) -> _Option:
    return _Option(flags.split(), text, applies, more)


_file = partial(_option, metavar="FILE")
_folder = partial(_option, metavar="DIR")
_count = partial(_option, type=int, metavar="N")
_scale = partial(_option, type=positive, metavar="X")
_flag = partial(_option, action="store_true", default=None)

_COLLECTIVE_LINES = _for(COLLECTIVE, at=_LINES)
_EXCHANGE = _for(EXCHANGE, at=_LINES)
_BY_LINES = {**_COLLECTIVE_LINES, **_EXCHANGE}
_FILES = _for(TRACES, LAYERS)
_JOBS = _for(JOBS)
_SYSTEM = _for(MODEL, TRACES, LAYERS)
_SYSTEM_LAYER = _for(MODEL, TRACES, LAYERS, at=_MESSAGES)
_TABLES = _for(LAYERS, at=_MESSAGES)
_LAYERS = _for(LAYERS)

_SHARED: Final = {option[0][0]: option for option in MODEL_OPTIONS if option[0][0] in (
    "--library", "--tokens", "--precision", "--experts", "--topk",
)}  # fmt: skip
"""Options of a model that a collective has too: they stand with the collective's options."""


def _shared(flag: str, text: str, applies: Mapping[str, Sequence[str]], **more: Any) -> _Option:
    _, of_model, own = _SHARED[flag]
    return _Option((flag,), f"{text}; of a model, {of_model}", {**applies, **_for(MODEL)}, {**own, **more})


_GROUPS: Final = (
    _Group(
        "what to run: a collective on an infrastructure",
        "--infra dgx-h100 --collective all_reduce --size 64KiB --algorithm ring",
        (
            _option(
                "--collective",
                "name, as all_reduce ('astranb collective list' lists them), or a contract of your own, "
                "FILE.py:CONTRACT",
                {**_for(COLLECTIVE), **_EXCHANGE},
            ),
            _option(
                "--size",
                "bytes in a rank's larger buffer, as 1MiB (a contract has its own)",
                _for(COLLECTIVE),
            ),
            _option(
                "--algorithm",
                "name of 'astranb collective list', a file PLAN.json (MSCCL++), ALGO.xml (MSCCL) or "
                "SCHEDULE.csv (TACOS), or a function FILE.py:FUNCTION (default: as the library chooses)",
                {**_for(COLLECTIVE), **_EXCHANGE},
            ),
            _shared(
                "--library",
                "algorithm, protocol and channels as chosen by nccl, rccl or mscclpp; --explain says why "
                "(default: the GPUs' own, where its choice is modelled)",
                _COLLECTIVE_LINES,
                metavar="NAME",
            ),
            _count("--channels", "sets of thread blocks (default: as the library chooses)", _BY_LINES),
            _option(
                "--protocol",
                "Simple, LL or LL128 (default: Simple); without it and --algorithm, the library's",
                _COLLECTIVE_LINES,
            ),
            _option(
                "--param",
                "value of a parameter of the algorithm's function, as slices=16; repeatable",
                _COLLECTIVE_LINES,
                metavar="NAME=VALUE",
                action="append",
            ),
            _flag(
                "--unchecked",
                "time an algorithm or plan even where its result is wrong, and say so",
                _BY_LINES,
            ),
            _option(
                "--root",
                "root rank of a broadcast, reduce, gather or scatter (default: 0); "
                "with ASTRA-sim 2.0 files, the folder of custom collectives",
                _for(COLLECTIVE, TRACES),
                metavar="RANK|DIR",
            ),
        ),
    ),
    _Group(
        "what to run: an exchange of experts, as DeepEP's (--algorithm normal or low_latency)",
        "--infra dgx-h800 --collective dispatch --tokens 4096 --hidden 7168 --topk 8 --experts 256",
        (
            _shared("--tokens", "of each rank", _EXCHANGE),
            _count("--hidden", "elements of a token (default: 7168)", _EXCHANGE),
            _shared("--topk", "experts of each token (default: 8)", _EXCHANGE),
            _shared("--experts", "experts of all ranks (default: 256)", _EXCHANGE),
            _count(
                "--expert-groups", "nodes that the experts of a token may be on (default: all)", _EXCHANGE
            ),
            _shared("--precision", "fp8 or bf16 (default: fp8 of a dispatch, bf16 of a combine)", _EXCHANGE),
            _option(
                "--skew",
                "how unevenly popular experts are, the exponent of a Zipf law (default: 0)",
                _EXCHANGE,
                type=float,
                metavar="X",
            ),
            _count("--seed", "of the draw of experts (default: 0)", _EXCHANGE),
            _file("--routing", "experts of each token, or counts: .npz or .csv (default: drawn)", _EXCHANGE),
        ),
    ),
    _Group(
        "what to run: a model divided over ranks",
        "--model gpt3-6.7b --dp 2 --tp 8 --pp 2",
        tuple(
            _Option(flags, text, _for(MODEL), more)
            for flags, text, more in MODEL_OPTIONS
            if flags[0] not in _SHARED
        ),
    ),
    _Group(
        "what to run: several jobs on one network",
        "--jobs jobs.yaml --fidelity congestion",
        (
            _file(
                "--jobs",
                "jobs, where and from when on, and what varies (docs/how-to/several_jobs.md)",
                _JOBS,
            ),
            _option(
                "--runs",
                "repeat with other random numbers: mean, median, 95th percentile and how well they are known",
                _for(JOBS, at=_MESSAGES),
                type=whole(2, 100_000),
                metavar="N",
            ),
        ),
    ),
    _Group(
        "what to run: ASTRA-sim 2.0 files, or 1.0 files (recognised by their content)",
        "--workload traces/step --system system.json --network network.yml",
        (
            _option(
                "--workload --workload-configuration",
                "prefix of the traces PREFIX.RANK.et; 1.0: the layer table",
                _FILES,
                metavar="PREFIX",
            ),
            _file(
                "--system --system-configuration",
                "system.json (default: PREFIX.system.json); 1.0: its text file",
                _SYSTEM,
            ),
            _file(
                "--network --network-configuration",
                "network.yml (default: PREFIX.network.yml); 1.0: its JSON file",
                _SYSTEM,
            ),
            _file(
                "--memory --remote-memory-configuration",
                "remote memory, JSON (default: none)",
                _for(MODEL, TRACES),
            ),
            _file("--comm-group --comm-group-configuration", "communicator groups, JSON", _for(TRACES)),
            _option(
                "--num-queues-per-dim",
                "queues of a dimension (default: 1)",
                _SYSTEM_LAYER,
                type=whole(1, 1024),
                metavar="N",
            ),
            _scale("--injection-scale", "factor of the endpoint delay (default: 1)", _SYSTEM_LAYER),
            _scale("--comm-scale", "1.0: factor of communication sizes (default: 1); 2.0: no effect", _FILES),
            _scale("--compute-scale", "1.0: factor of compute times (default: 1); 2.0: no effect", _FILES),
            _option(
                "--rendezvous-protocol",
                "receivers request each message (default: false)",
                _for(MODEL, TRACES, at=_MESSAGES),
                nargs="?",
                const=True,
                type=_boolean,
                metavar="true|false",
            ),
            _file("--logging-configuration", "accepted, no effect", _FILES),
            _folder("--logging-folder", "accepted, no effect", _FILES),
            _option(
                "--compat",
                "astrasim2 or astrasim1: reproduce that simulator's results to the nanosecond, "
                "its deviations from its documentation included",
                _FILES,
                metavar="VERSION",
            ),
        ),
    ),
    _Group(
        "only ASTRA-sim 1.0 files",
        "--workload table.txt --system system.txt --network network.json --num-passes 2 --path results",
        (
            _count("--num-passes", "passes through the training loop (default: 1)", _LAYERS),
            _option(
                "--training-loops", "Python file that registers training loops", _LAYERS, metavar="FILE.py"
            ),
            *(
                _option(
                    f"--{key}",
                    f"replaces {key} of the network, one value per dimension",
                    _LAYERS,
                    type=kind,
                    nargs="+",
                    metavar="N",
                )
                for key, kind in (
                    ("units-count", int),
                    ("links-count", int),
                    ("link-latency", float),
                    ("link-bandwidth", float),
                )
            ),
            _folder("--path --csv", "write EndToEnd.csv and the other result tables", _TABLES),
            _option("--run-name", "name of the run in the tables (default: unnamed run)", _TABLES),
            _count("--total-stat-rows", "number of runs that share the tables (default: 1)", _TABLES),
            _count("--stat-row", "row of this run, from 0 (default: 0)", _TABLES),
        ),
    ),
    _Group(
        "the machine",
        "--infra clos:servers=4 --gpu h200-sxm --launch graph --collective all_reduce --size 64KiB",
        (
            _option(
                "--infra",
                "InfraGraph file, or blueprint such as dgx-h100",
                {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
            ),
            _option(
                "--down",
                "failed link A->B, lane A->B#k, or node A with all its links; may be given several times",
                {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
                action="append",
                metavar="LINK",
            ),
            _flag(
                "--pxn",
                "send to another rail by the NIC of the GPU that is on it, over NVLink (NCCL's PXN)",
                {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
            ),
            *(
                _option(
                    flag,
                    text,
                    {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
                    action="append",
                    metavar="LINK@TIME",
                )
                for flag, text in (
                    ("--fail", "a link, lane or node that fails while the run goes, as 'A->B@40us'; several"),
                    ("--repair", "when one of them comes up again; several"),
                )
            ),
            _option(
                "--start",
                "a rank that starts late and how late, as 3@20us; may be given several times",
                {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
                action="append",
                metavar="RANK@TIME",
            ),
            _option(
                "--reroute",
                "how long after each failure and repair the routes change, as 5us, or never: what comes to "
                "a failed link waits (default: never)",
                {**_for(COLLECTIVE, MODEL, JOBS, TRACES), **_EXCHANGE, LAYERS: _LINES},
                metavar="TIME",
            ),
            _option(
                "--gpu",
                "GPU preset or its file (default: that of the infrastructure); "
                f"of a model, whose kernels it runs (default: {DEFAULT_GPU})",
                {**_for(MODEL, JOBS), **_for(COLLECTIVE, EXCHANGE, TRACES, LAYERS, at=_LINES)},
            ),
            _option(
                "--dimensions",
                "number of GPUs in each dimension of collectives, with --infra",
                _for(MODEL, TRACES, at=_MESSAGES),
                metavar="8x4",
            ),
            _file(
                "--logical-topology --logical-topology-configuration",
                "the same as a file of ASTRA-sim's ns-3, whose topology --network or --infra is",
                _for(MODEL, TRACES, at=_MESSAGES),
            ),
            _option(
                "--price",
                "dollars for a GPU and hour: what a step and a million tokens cost",
                _for(MODEL, at=_MESSAGES),
                type=positive,
                metavar="X",
            ),
            _flag(
                "--energy",
                "energy of a step, and what the cluster, a step and a million tokens cost",
                _for(MODEL, at=_MESSAGES),
            ),
            _file(
                "--rates",
                "powers and prices for --energy, YAML (default: assumed)",
                _for(MODEL, at=_MESSAGES),
            ),
            _option(
                "--memory-limit",
                "memory of a GPU, as 64GiB, or none: do not check whether the step fits (default: the GPU's)",
                _for(MODEL),
                metavar="SIZE",
            ),
            _option(
                "--expanded-memory",
                "a second memory behind a GPU's own: capacity, bandwidth and latency, as "
                "'480 GB, 500 GB/s, 500 ns'; what does not fit in the first lies there",
                _for(MODEL, at=_MESSAGES),
                metavar="TIER",
            ),
            _option(
                "--expanded-shared",
                "who shares it: gpu (each has its own) or node (default: gpu)",
                _for(MODEL, at=_MESSAGES),
                metavar="WHO",
            ),
            _option(
                "--expanded-streaming",
                "serial: a kernel reads one memory after the other; concurrent: both at once "
                "(default: serial)",
                _for(MODEL, at=_MESSAGES),
                metavar="HOW",
            ),
            _option(
                "--expanded-placement",
                "what lies there: evenly, or coldest first: optimizer, activations, gradients, parameters "
                "(default: evenly)",
                _for(MODEL, at=_MESSAGES),
                metavar="HOW",
            ),
            _flag(
                "--memory-table",
                "print what a rank of each stage holds at its fullest moment, and what is free",
                _for(MODEL, at=_MESSAGES),
            ),
            _flag(
                "--suggest",
                "instead of simulating, search the best plans for the same GPUs and batch",
                _for(MODEL, at=_MESSAGES),
            ),
            _option(
                "--launch",
                "cost of a kernel launch: none, graph, stream, a time, or both: 'stream + 6.6 us'; where the "
                "library chooses, its own, with its base latency in a graph or stream (default: none)",
                {**dict.fromkeys(_ALL, _LINES), MODEL: _ANY},
            ),
        ),
    ),
    _Group(
        "the network of a collective",
        "--infra clos:servers=2 --collective all_to_all --size 1MiB --roce --multipath spray",
        (
            _option(
                "--arbitration",
                "fifo, round_robin or fair, which separates data and control (default: fifo)",
                _BY_LINES,
            ),
            _count(
                "--buffers",
                "messages buffered behind a link in each class; 0: unlimited (default: 0)",
                _BY_LINES,
            ),
            _flag("--cut-through", "forward a message once its header has arrived", _BY_LINES),
            _option(
                "--multipath",
                "interleave, static, flow_hash or spray (default: interleave)",
                _BY_LINES,
            ),
            _option(
                "--roce",
                "Ethernet flow control: some of pfc,ecn,dcqcn; all of them without a value",
                _BY_LINES,
                nargs="?",
                const="pfc,ecn,dcqcn",
                metavar="FEATURES",
            ),
            _count(
                "--coalesce",
                "cache lines per request; above 1 is faster and inexact (default: 1)",
                _for(COLLECTIVE, EXCHANGE, MODEL, at=_LINES),
            ),
            _count(
                "--compute-lines",
                "cache lines per request of compute kernels, also of an algorithm's products; 32 is coarse "
                "and fast (default: 1)",
                _for(COLLECTIVE, MODEL, TRACES, at=_LINES),
            ),
        ),
    ),
    _Group(
        "fidelity",
        "--model gpt3-125m --dp 8 --fidelity congestion",
        (
            _option(
                "--fidelity",
                "analytical: messages without congestion; congestion: messages queue on links; "
                "cacheline: every cache line (default: cacheline for a collective, analytical otherwise)",
                _ALL,
            ),
        ),
    ),
    _Group(
        "output",
        "--model gpt3-125m --dp 4 --html run.html --perfetto run.json.gz",
        (
            _flag("--explain", "explain where the time went", {**_ALL, LAYERS: _MESSAGES}),
            _file("--save", "save the finished simulation: inputs, changes, position and hash", _ALL),
            _file("--html", "write a page that replays the run offline", _ALL),
            _option(
                "--live",
                "let the page of --html simulate, from the start on; its Python is in the page, with "
                "“shared” in a folder beside it, else in the folder or at the address given",
                _ALL,
                nargs="?",
                const="page",
                metavar="shared|ADDRESS",
            ),
            _file(
                "--svg", "draw the topology with its link utilisation, or the timeline of a workload", _ALL
            ),
            _file(
                "--memory-svg",
                "draw what the fullest rank of a model's step holds in memory over time",
                _for(MODEL, at=_MESSAGES),
            ),
            _file("--perfetto", "write a trace for Perfetto and Chrome (.json, .json.gz)", _ALL),
            _folder(
                "--frames",
                "write tables of ranks, operations, collectives, … as DIR/*.csv",
                _for(MODEL, JOBS, TRACES, LAYERS, at=_MESSAGES),
            ),
        ),
    ),
)


def _all_options() -> Iterator[_Option]:
    for group in _GROUPS:
        yield from group.options


def add_options(parser: Parser) -> None:
    """Add all options to the command, in groups; each group shows an example."""
    for group in _GROUPS:
        section = parser.add_argument_group(group.title, f"example: astranb run {group.example}")
        for option in group.options:
            section.add_argument(*option.flags, dest=option.name, help=option.help, **option.more)


def kind_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Return what runs: one of the kinds, or the two that only the content of files distinguishes.

    Raises
    ------
    InputError
        Nothing to run is given, or two things are.
    """
    chosen = [name for name in _STARTERS if getattr(args, name) is not None]
    if len(chosen) > 1:
        what = " and ".join(map(flag_of, chosen[:2]))
        raise InputError(f"{what} exclude each other", where="run", hint="leave one of them out")
    if chosen:
        return (EXCHANGE,) if args.collective in _EXCHANGES else _STARTERS[chosen[0]]
    for option in _given(args):
        if COLLECTIVE not in option.applies:
            starters = [flag_of(name) for name, kinds in _STARTERS.items() if set(kinds) & {*option.applies}]
            what = f"{option.flags[0]} needs {' or '.join(sorted(starters, reverse=True))}"
            raise InputError(what, where="run", hint="see astranb run --help")
    return (COLLECTIVE,)


def check_options(args: argparse.Namespace, kind: str, fidelity: str) -> None:
    """Raise an error for an option that has no effect on what runs at this fidelity."""
    for option in _given(args):
        at = option.applies.get(kind, ())
        if fidelity in at:
            continue
        what = f"{option.flags[0]} does not apply to {kind}"
        if at:
            what += f" at --fidelity {fidelity}"
            hint = f"leave it out, or use --fidelity {' or '.join(at)}"
        else:
            hint = "leave it out"
        raise InputError(what, where="run", hint=hint)


def _given(args: argparse.Namespace) -> Iterator[_Option]:
    """Yield the options that were given; a flag that is false was not."""
    for option in _all_options():
        if getattr(args, option.name) not in (None, False):
            yield option


FILE_WORDS: Final = ("infra", "jobs", "workload", "system", "network", "memory", "comm_group", "algorithm",
                     "routing", "model", "gpu", "kernels", "root", "training_loops")  # fmt: skip
"""Options that may name a file or folder that is read."""

_OUTPUTS: Final = (
    *(option.name for option in _GROUPS[-1].options),
    "suggest", "runs", "memory_table", "path", "run_name", "total_stat_rows", "stat_row",
)  # fmt: skip


def option_names() -> list[str]:
    """Return the names of all options that decide what is simulated: those of outputs are not among them."""
    return [option.name for option in _all_options() if option.name not in _OUTPUTS]


def _is_repeated(option: _Option) -> bool:
    return option.more.get("action") == "append"


def takes_several(name: str) -> bool:
    """Return whether there is such an option, and it takes several values.

    Examples
    --------
    >>> takes_several("down"), takes_several("units_count"), takes_several("size")
    (True, True, False)
    """
    found = (option for option in _all_options() if option.name == name)
    return any(_is_repeated(option) or option.more.get("nargs") == "+" for option in found)


def line_of(words: Mapping[str, object], write: Callable[[object], str] = str) -> list[str]:
    """Return options as they are typed.

    Parameters
    ----------
    words : mapping
        As for :func:`options_of`.
    write : callable
        Writes one value.

    Examples
    --------
    >>> line_of({"down": ["A->B", "C"], "size": "1 MiB", "roce": True, "gpu": None})
    ['--down=A->B', '--down=C', '--size=1 MiB', '--roce']
    """
    repeated = {option.name for option in _all_options() if _is_repeated(option)}
    line: list[str] = []
    for name, value in words.items():
        flag = flag_of(name)
        several = list(value) if isinstance(value, list | tuple) else None
        if value is True:
            line.append(flag)
        elif several and name not in repeated:
            line += [flag, *map(write, several)]
        elif value is not None and value is not False:
            line += [f"{flag}={write(one)}" for one in ([value] if several is None else several)]
    return line


@cache
def _parser() -> Parser:
    parser = Parser(prog="astranb run", add_help=False, allow_abbrev=False)
    add_options(parser)
    return parser


def options_of(words: Mapping[str, object]) -> argparse.Namespace:
    """Read options as the command line does, from their names and values.

    Parameters
    ----------
    words : mapping
        By name, with ``_`` or ``-`` between words; a list for several values, True for an option without one.
        None and False are as if they were not given.

    Raises
    ------
    InputError
        There is no such option, or it does not take the value.

    Examples
    --------
    >>> options_of({"model": "gpt3-125m", "tp": 2, "sp": True}).tp
    2
    """
    known = option_names()
    named = {given.replace("-", "_"): value for given, value in words.items()}
    for name in named:
        if name not in known:
            raise InputError(f"unknown option {name[:40]!r}", where="run", hint=near(name, known))
    return _parser().parse_args(line_of(named))
