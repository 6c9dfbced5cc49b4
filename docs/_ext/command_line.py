"""Output of ``astranb COMMAND --help``, command by command: the ``command-line`` directive."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands that do something."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other way
    for action in inner:
        for below in action.choices.values():
            yield from commands(below)
    if not inner:
        yield parser


class CommandLine(SphinxDirective):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Make them."""
        os.environ["COLUMNS"] = "100"
        from astranb.cli import parser as all_commands

        found: list[nodes.Node] = []
        for parser in commands(all_commands()):
            section = nodes.section(ids=[nodes.make_id(parser.prog)])
            section += nodes.title(text=parser.prog)
            section += nodes.literal_block(text=parser.format_help(), language="text")
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
