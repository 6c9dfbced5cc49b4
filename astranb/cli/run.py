"""``astranb run``: read the inputs, simulate, write the results."""

from __future__ import annotations

import argparse
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.explore.options import add_options, ensemble_of, search_of, simulation_of

from .arguments import add_command
from .printing import Report
from .report import inspects, records, report_of, write_files

__all__ = ["add_commands"]

_USAGE: Final = """\
astranb run --infra INFRA --collective NAME --size SIZE [options]
       astranb run --model MODEL [options]
       astranb run --jobs JOBS.yaml [options]
       astranb run --workload PREFIX --system FILE --network FILE [options]"""


def add_commands(commands: Any) -> None:
    """Add ``run`` to the command line."""
    parser = add_command(
        commands,
        "run",
        "simulate a collective, a model, several jobs or ASTRA-sim's files",
        _run,
        usage=_USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)


def _run(args: argparse.Namespace) -> Report:
    if args.suggest:
        found = search_of(args)
        return Report(found.document(), [found.text()])
    if args.runs:
        several = ensemble_of(args)
        return Report(several.document(), [str(several)])
    if args.live and not args.html:
        raise InputError("--live needs --html", where="run", hint="name the page: --html FILE --live")
    subject = simulation_of(args, record=records(args), inspected=inspects(args))
    subject.run()
    write_files(subject)
    return report_of(subject)
