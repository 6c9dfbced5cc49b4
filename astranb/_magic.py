"""``%%collective``: a notebook's cell that is a program."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from astranb.core.errors import InputError

__all__ = ["register"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, where="%%collective", hint=self.format_usage().strip())


def _parser() -> _Parser:
    parser = _Parser("%%collective", add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?", default="program")
    parser.add_argument("--infra", default="dgx-h100")
    parser.add_argument("--size", default="64 KiB")
    parser.add_argument("--collective", default="all_reduce")
    parser.add_argument("--protocol", default="Simple")
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--root", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    return parser


def register(shell: Any) -> None:
    """Teach a running IPython the magic ``%%collective``."""

    def collective(line: str, cell: str) -> Any:
        """Verify the program in this cell, and give it a name that ``algorithm=`` takes.

        %%collective [NAME] [--infra dgx-h100] [--size 64KiB] [--collective all_reduce]
                     [--protocol Simple] [--lanes N] [--root R] [--show]

        The cell defines a function over a Program, or is itself what such a function does, with
        the program as `p`. With --show it stands in an editor that verifies it as you type, and
        simulates it.
        """
        from astranb.widgets._draft import Draft, Unfit, listing

        try:
            words = shlex.split(line)
        except ValueError as error:
            raise InputError(str(error), where="%%collective") from error
        options = vars(_parser().parse_args(words))
        show = options.pop("show")
        if not options["name"].isidentifier():
            raise InputError(f"{options['name']!r} is no name", where="%%collective", hint="as two_shot")
        draft = Draft(cell, **options)
        problems = draft.check()
        errors = [problem for problem in problems if problem.severity == "error"]
        if not errors:
            from astranb.collectives import text_algorithm

            shell.user_ns[draft.name] = text_algorithm(cell, draft.name)
        if show:
            from astranb.widgets import Editor

            editor = Editor(cell, **options)
            if not errors:
                editor.simulate()
            return editor
        if errors:
            raise Unfit(draft.name, problems, cell)
        print(*listing(draft.name, problems, cell), sep="\n", end="\n" if problems else "")
        print(f"{draft.name}: a right {draft.collective} on {draft.checked_ranks} ranks")
        return None

    shell.register_magic_function(collective, "cell", "collective")
