"""``astranb run``: read the inputs, simulate, write the results."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.explore.runs import (
    EXCHANGES,
    RUNS,
    JobsRun,
    ModelRun,
    RunSpec,
    TraceRun,
    both_given,
    ensemble_of,
    flag_of,
    given,
    made_of,
    parameter_of,
    search_of,
    subject_of,
)

from .arguments import add_command, add_verbs
from .options import RUN_GROUPS, RunOutputs, add_groups
from .printing import Report
from .report import ReportedRun, inspects, records, report_of, write_files

__all__ = ["add_commands", "add_kinds", "rewritten", "typed_spec"]

_SUMMARIES: Final = {
    "collective": ("NAME", "simulate a collective on an infrastructure"),
    "exchange": ("NAME", "simulate an exchange of experts, as DeepEP's"),
    "model": ("NAME", "simulate a step of a model that is divided over ranks"),
    "trace": ("PREFIX|TABLE", "simulate ASTRA-sim 2.0's traces, or a layer table of 1.0"),
    "jobs": ("FILE.yaml", "simulate several jobs on one network"),
}
_EXAMPLES: Final = {
    "collective": "all_reduce --infra dgx-h100 --size 64KiB --algorithm ring",
    "exchange": "dispatch --infra dgx-h800 --tokens 4096 --hidden 7168 --topk 8 --experts 256",
    "model": "gpt3-6.7b --dp 2 --tp 8 --pp 2",
    "trace": "traces/step --system system.json --network network.yml",
    "jobs": "jobs.yaml --fidelity congestion",
}
_STARTERS: Final = {
    "--collective": "collective", "--model": "model", "--jobs": "jobs", "--workload": "trace",
    "--workload-configuration": "trace",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    """Add ``run`` to the command line."""
    kinds = add_verbs(
        commands, "run", "simulate a collective, a model, several jobs or ASTRA-sim's files", "WHAT"
    )
    commands.choices["run"].rewritten = partial(rewritten, "astranb run")
    for kind, parser in add_kinds(kinds, _run):
        add_groups(parser, (kind, RunOutputs), RUN_GROUPS[kind.name])


def add_kinds(
    kinds: Any, command: Any, *, runs: Sequence[type[RunSpec]] = RUNS, example: str = "astranb run"
) -> Any:
    """Add a command for each kind of run; yields the kind and its parser."""
    for kind in runs:
        metavar, summary = _SUMMARIES[kind.name]
        description = (
            f"{summary[0].upper()}{summary[1:]}. Example: {example} {kind.name} {_EXAMPLES[kind.name]}"
        )
        parser = add_command(kinds, kind.name, summary, command, description=description, json=False)
        parser.set_defaults(kind=kind)
        more: dict[str, Any] = {"nargs": "?"} if kind is TraceRun else {}
        about = next(one.metadata["about"] for one in fields(kind) if one.name == kind.subject)
        parser.add_argument(kind.subject, metavar=metavar, help=about, **more)
        if kind is TraceRun:
            parser.add_argument("--workload-configuration", metavar="PREFIX", help=argparse.SUPPRESS)
        yield kind, parser


def typed_spec(args: argparse.Namespace) -> RunSpec:
    """Return the specification that a command line describes."""
    if args.kind is TraceRun and args.workload_configuration is not None:
        if args.workload is not None:
            raise both_given(repr(args.workload[:60]), "--workload-configuration", "run")
        args.workload = args.workload_configuration
    if args.kind.name == "collective" and args.collective in EXCHANGES:
        what = f"{args.collective} is an exchange of experts"
        raise InputError(what, where="run collective", hint=f"write: astranb run exchange {args.collective}")
    made: RunSpec = made_of(args.kind, args)
    return made


def rewritten(command: str, words: Sequence[str]) -> str:
    """Return a command line with the kind of run first, from one with it among the options.

    Raises
    ------
    InputError
        It names nothing to run.

    Examples
    --------
    >>> rewritten("astranb run", ["--infra", "dgx-h100", "--collective=all_reduce", "--size", "1MiB"])
    'astranb run collective all_reduce --infra dgx-h100 --size 1MiB'
    """
    rest = list(words)
    at = next((place for place, word in enumerate(rest) if word.partition("=")[0] in _STARTERS), None)
    starter, _, subject = ("", "", "") if at is None else rest.pop(at).partition("=")
    if at is not None and not subject and rest[at:]:
        subject = rest.pop(at)
    if not subject:
        what = f"what to run comes first: {', '.join(kind.name for kind in RUNS)}"
        raise InputError(what, where=command.partition(" ")[2], hint=f"see {command} --help")
    name = _STARTERS[starter]
    if subject in EXCHANGES:
        command, name = "astranb run", "exchange"
    kind = next(one for one in RUNS if one.name == name)
    named = {flag_of(parameter_of(kind, one.name)): flag_of(one.name) for one in reversed(fields(kind))}
    parts = [word.partition("=") for word in rest]
    return (
        f"{command} {shlex.join([name, subject, *(named.get(one, one) + eq + to for one, eq, to in parts)])}"
    )


def _run(args: argparse.Namespace) -> Report:
    spec, outputs = typed_spec(args), made_of(RunOutputs, args)
    wanted = list(given(outputs))
    if outputs.suggest:
        assert isinstance(spec, ModelRun)  # noqa: S101 - others have no such option
        found = search_of(spec, wanted)
        return Report(found.document(), [found.text()])
    if outputs.runs:
        assert isinstance(spec, JobsRun)  # noqa: S101 - others have no such option
        several = ensemble_of(spec, outputs.runs, wanted)
        return Report(several.document(), [str(several)])
    if outputs.live and not outputs.html:
        raise InputError("--live needs --html", where="run", hint="name the page: --html FILE --live")
    if outputs.stat_row >= outputs.total_stat_rows:
        what = f"row {outputs.stat_row} of {outputs.total_stat_rows}"
        raise InputError(what, where="--stat-row", hint="count rows from 0")
    made = subject_of(spec, record=records(outputs), inspected=inspects(outputs), outputs=wanted)
    subject = ReportedRun(**vars(made), outputs=outputs)
    subject.run()
    write_files(subject)
    return report_of(subject)
