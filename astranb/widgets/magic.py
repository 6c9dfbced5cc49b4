"""``%%collective``: a notebook cell that is a program."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import Any, NoReturn

from astranb.collectives import text_algorithm
from astranb.collectives.language import parameters_given, title_of
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .draft import Draft, Unfit, listing
from .editor import Editor

__all__ = ["run_cell"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, where="%%collective", hint=self.format_usage().strip())


def _parser() -> _Parser:
    parser = _Parser("%%collective", add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?", default="program")
    for name in ("infra", "size", "collective", "protocol"):
        parser.add_argument(f"--{name}", default=getattr(Draft, name))
    for name in ("channels", "root"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Draft, name))
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--show", action="store_true")
    return parser


def run_cell(shell: Any, line: str, cell: str) -> Any:
    """Verify the program in a cell, and give it a name in the notebook.

    Parameters
    ----------
    shell : InteractiveShell
    line : str
        What follows ``%%collective``.
    cell : str
        The rest of the cell: a function over a Program, or its body.

    Returns
    -------
    Editor or None
        The editor with ``--show``.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(str(error), where="%%collective") from error
    options = vars(_parser().parse_args(words))
    show = options.pop("show")
    options |= {"params": parameters_given(options.pop("param"), "%%collective"), "names": shell.user_ns}
    if not options["name"].isidentifier():
        what = f"{options['name']!r} is not a Python name"
        raise InputError(what, where="%%collective", hint="use one such as two_shot")
    draft = Draft(cell, **options)
    problems = draft.check()
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        write = text_algorithm(cell, draft.name, shell.user_ns)
        shell.user_ns[draft.name] = partial(write, **draft.params) if draft.params else write
    if show:
        editor = Editor(cell, **options)
        if not errors:
            editor.simulate()
        return editor
    if errors:
        raise Unfit(draft.name, problems, cell)
    print(*listing(draft.name, problems, cell), sep="\n", end="\n" if problems else "")
    print(
        f"{draft.name}{title_of(draft.params)}: "
        f"a correct {draft.collective} on {plural(draft.checked_ranks, 'rank')}"
    )
    return None
