"""Output of ``astranb COMMAND --help``, command by command: the ``command-line`` directive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class CommandLine(SphinxDirective):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Make them."""
        os.environ["COLUMNS"] = "100"
        from astranb.cli import parser as all_commands
        from astranb.cli.parsing import EVERYTHING, leaves

        found: list[nodes.Node] = []
        for parser in leaves(all_commands()):
            section = nodes.section(ids=[nodes.make_id(parser.prog)])
            section += nodes.title(text=parser.prog)
            section += nodes.literal_block(text=parser.format_help(EVERYTHING), language="text")
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
