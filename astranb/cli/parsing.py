"""Parser of all commands: help that fits a screen, and errors of one line that say what to write."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise, takewhile
from typing import Any, Final, NoReturn

from astranb.core.errors import InputError, near
from astranb.explore.runs import are_missing, both_given

__all__ = ["EVERYTHING", "Parser", "leaves"]

_WIDTH: Final = 100
_MOST_OWNERS: Final = 3
_OPTION: Final = re.compile(r"(--[\w-]+|-[A-Za-z])(=.*)?", re.DOTALL)
_IDENTIFIER: Final = re.compile(r"(?<![\w.'\"/-])[a-z]+(?:_[a-z]+)+(?![\w.'\"/=(-])")
_WORDS: Final = (
    ("expected one argument", "its value is missing"),
    ("expected at least one argument", "its values are missing"),
    ("ignored explicit argument", "it takes no value, not"),
)
"""Words of argparse, and ours."""
EVERYTHING: Final = "all"
"""Topic of help that is all of it."""


class Parser(argparse.ArgumentParser):
    """A parser that raises an error of one line instead of exiting.

    The value of an option that may stand alone is written after ``=``: the next word is never taken for it.

    Attributes
    ----------
    above : Parser, optional
        The one whose command this is.
    topics : dict of str to str
        By title of a group whose options are only named in the help, the word after ``--help=`` that shows
        it.
    parameters : dict of str to str
        By parameter of the library that has another name than its option, the option.
    namesakes : dict of str to dict
        By parameter, all options of that name, by the field of each: a model's sequence is a length, of a
        plan it is a kind of parallelism.
    rewritten : callable, optional
        Returns how a command that is written without its verb is written now.
    """

    def __init__(self, *, above: Parser | None = None, **more: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Formatter, **more, "add_help": False})
        self.above = above
        self.topics: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.namesakes: dict[str, dict[str, str]] = {}
        self.rewritten: Callable[[Sequence[str]], str] | None = None
        self.add_argument("-h", "--help", action=_Help, nargs="?", const="", help=argparse.SUPPRESS)

    def add_subparsers(self, **more: Any) -> Any:
        """Add commands, whose parsers know this one."""
        return super().add_subparsers(**{"parser_class": partial(Parser, above=self), **more})

    def add_argument(self, *flags: str, **more: Any) -> argparse.Action:
        """Add an option, or a positional, whose name is written in capitals."""
        if flags and not flags[0].startswith("-"):
            more.setdefault("metavar", flags[0].upper())
        return super().add_argument(*flags, **more)

    @property
    def top(self) -> Parser:
        """The parser of all commands."""
        return self if self.above is None else self.above.top

    def named(self, error: InputError, passed: Mapping[str, str]) -> InputError:
        """Return an error that names options where the library's names parameters.

        Parameters
        ----------
        error : InputError
        passed : mapping of str to str
            By parameter, an option that was passed to it under another name.
        """
        flags = {one.dest: one.option_strings for one in self._actions if one.option_strings}
        own = {name: next(one for one in some if one[:2] == "--") for name, some in flags.items()}
        options = {"run": self._command, **self.parameters, **own, **passed}
        if self._command.endswith(f" {error.where.removeprefix('run ')}"):  # of a run that this command makes
            hint = error.hint.replace(f"astranb {error.where} ", f"{self.prog} ")
            return InputError(error.what, where=self._command, hint=hint)
        if error.where not in options:
            return error
        what, hint = (
            _IDENTIFIER.sub(lambda name: options.get(name[0], name[0]), text)
            for text in (error.what, error.hint)
        )
        return InputError(what, where=options[error.where], hint=hint)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        what = message.removeprefix("argument ")
        hint = f"see {self.prog} --help"
        if found := re.fullmatch(r"the following arguments are required: (.*)", what):
            what = are_missing([name.rpartition("/")[2] for name in found[1].split(", ")])
            for action in filter(_is_group, self._actions):
                hint = f"give one of {', '.join(action.choices or ())}"
        elif found := re.fullmatch(r"(.*): not allowed with argument (.*)", what):
            raise both_given(found[1], found[2], self._command)
        for theirs, ours in _WORDS:
            what = what.replace(theirs, ours)
        raise InputError(what, where=self._command, hint=hint)

    @property
    def _command(self) -> str:
        return self.prog.partition(" ")[2]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; unknown ones are errors here, where the command is known."""
        words = list(args or ())
        own = list(takewhile(lambda word: word != "--", words))
        if any(map(_is_group, self._actions)):  # the words from the command on are the command's
            own = list(takewhile(lambda word: word.startswith("-"), own))
        for word in own:
            if (found := _OPTION.match(word)) and found[1] not in self._option_string_actions:
                if self.rewritten is not None:
                    raise InputError(f"write: {self.rewritten(words)}")
                self._refuse(found[1])
        known, extra = super().parse_known_args([*map(self._attached, own), *words[len(own) :]], namespace)
        if extra:
            for word, after in pairwise(own):
                if self._attached(word) != word and not after.startswith("-"):
                    hint = f"write {word}={after}"
                    raise InputError(f"{word} takes its value after =", where=self._command, hint=hint)
            if "--model" in self._option_string_actions and all(one.option_strings for one in self._actions):
                hint = f"write --model {extra[0][:60]}"
                raise InputError(f"unexpected {extra[0][:60]!r}", where=self._command, hint=hint)
            self.error(f"unexpected {extra[0][:60]!r}")
        return known, extra

    def _attached(self, word: str) -> str:
        """Write an option that stands alone with the value that it has then."""
        action = self._option_string_actions.get(word)
        if action is None or action.nargs != "?":
            return word
        return f"{word}={'true' if action.const is True else action.const}"

    def _refuse(self, option: str) -> NoReturn:
        """Raise an error for an unknown option: which one does it, whose it is, or what is like it."""
        see, hints, close = f"see {self.prog} --help", [], []
        if instead := self.parameters.get(option[2:].replace("-", "_")):
            about = str(self._option_string_actions[instead].help).partition(" (default:")[0]
            hints = [f"write {instead} ({about})"]
        elif option[:2] == "--":
            own = {flag[2:]: flag for flag in self._option_string_actions}
            hints = [f"it belongs to {owners}"] if (owners := self._owners(option)) else []
            close = [own[name] for name in get_close_matches(option[2:], own, n=2)]
        if close:
            hints.append(f"did you mean {' or '.join(close)}? {see}")
        raise InputError(f"unknown option {option}", where=self._command, hint="; ".join(hints) or see)

    def _owners(self, option: str) -> str:
        """Return the commands that have an option: those beside this one, else the first few."""
        own = self.prog.split()
        whose = [one.prog.split() for one in leaves(self.top) if option in one._option_string_actions]  # noqa: SLF001
        whose = [words for words in whose if words[:2] == own[:2]] or whose
        whose.sort(key=lambda words: words[-1] != own[-1])
        more = ["…"] if len(whose) > _MOST_OWNERS else []
        return ", ".join([*map(" ".join, whose[:_MOST_OWNERS]), *more])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        kind = "command" if _is_group(action) else f"value of {action.option_strings[-1]}"
        what = f"unknown {kind} {str(value)[:40]!r}"
        hint = near(str(value), map(str, action.choices))
        if _is_group(action):
            word = f" {value} "
            progs = [f"{one.prog} " for one in leaves(self.top)]
            elsewhere = [prog[: prog.index(word)] + word.rstrip() for prog in progs if word in prog]
            if elsewhere := list(dict.fromkeys(elsewhere))[:_MOST_OWNERS]:
                hint = f"there is {', '.join(elsewhere)}; {hint}"
        raise InputError(what, where=self._command, hint=hint)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return action.type(arg_string) if callable(action.type) else arg_string
        except InputError as error:
            raise argparse.ArgumentError(action, error.what) from None
        except (TypeError, ValueError):
            return super()._get_value(action, arg_string)  # argparse has the words

    def format_help(self, topic: str | None = None) -> str:
        """Return the help: without a topic, groups that have one are only named."""
        if topic not in (None, EVERYTHING, *self.topics.values()):
            hint = near(str(topic), [EVERYTHING, *self.topics.values()])
            raise InputError(f"no help about {str(topic)[:40]!r}", where=self._command, hint=hint)
        more: list[tuple[str, str]] = []
        formatter = self._get_formatter()
        formatter.add_usage(self._short_usage(), self._actions, ())
        if topic in (None, EVERYTHING):
            formatter.add_text(self.description)
        for group in self._action_groups:
            about = self.topics.get(str(group.title))
            shown = group._group_actions  # noqa: SLF001 - argparse has no other way
            if not shown or topic not in (None, EVERYTHING, about):
                continue
            if topic is None and about is not None:
                more.append((about, " ".join(action.option_strings[0] for action in shown)))
                continue
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(shown)
            formatter.end_section()
        text = formatter.format_help()
        if not more:
            return text
        lines = [f"more options, shown by --help=TOPIC (--help={EVERYTHING}: all):"]
        for about, named in more:
            indents = {"initial_indent": f"  {about:<10} ", "subsequent_indent": " " * 13}
            lines += textwrap.wrap(named, _width(), break_on_hyphens=False, **indents)  # type: ignore[arg-type]
        return "\n".join([text, *lines, ""])

    def _short_usage(self) -> str:
        """Return what has to be given."""
        parts = [self.prog]
        for action in self._actions:
            name = str(action.metavar or action.dest)
            if not action.option_strings:
                parts.append(f"[{name}]" if action.nargs == "?" else name)
            elif action.required:
                parts.append(f"{action.option_strings[-1]} {name.upper()}")
        return " ".join([*parts, "..." if any(map(_is_group, self._actions)) else "[options]"])

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse would ignore a full disk."""
        (file or sys.stdout).write(message)


class _Help(argparse.Action):
    def __call__(self, parser: Any, _namespace: Any, values: Any, _option: str | None = None) -> None:
        parser._print_message(parser.format_help(values or None))  # noqa: SLF001 - as argparse's own
        parser.exit()


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDTH)


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Write an option, and its value after = if the option may stand alone."""
        if not action.option_strings or action.nargs != "?":
            return super()._format_action_invocation(action)
        return ", ".join(
            f"{flag}[={action.metavar or action.dest.upper()}]" for flag in action.option_strings
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap a text, and no option."""
        options: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": indent}
        return textwrap.fill(text, width, break_on_hyphens=False, **options)


def _is_group(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - argparse has no other way


def leaves(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    """Yield the parsers of all commands that do something."""
    inner = [action for action in parser._actions if _is_group(action)]  # noqa: SLF001 - argparse has no other way
    for action in inner:
        choices: Any = action.choices
        for below in choices.values():
            yield from leaves(below)
    if not inner and isinstance(parser, Parser):
        yield parser
