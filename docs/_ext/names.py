"""Links from names in signatures and docstrings: to the one thing they can mean, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class OneMeaning(SphinxPostTransform):
    """Settle what a bare name of a type refers to before Sphinx guesses.

    A class has its public name and that of the private file it stands in: the public one counts.
    Where two public things have one name, and for words in lower case (``shape (ranks, chunks)``
    is no link to an attribute ``ranks``), the name stays as it is, without a link.
    """

    default_priority = 5  # Sphinx resolves at 10

    def run(self, **_: Any) -> None:
        """Go over all names of a page."""
        domain = self.env.domains.python_domain
        for node in list(self.document.findall(pending_xref)):
            if node.get("refdomain") != "py" or not node.hasattr("refspecific"):
                continue
            found = domain.find_obj(
                self.env, node.get("py:module"), node.get("py:class"), node["reftarget"], node["reftype"], 1
            )
            public = {name for name, _ in found if "._" not in name}
            if len(public) == 1 and not node["reftarget"].islower():
                node["reftarget"] = public.pop()
            elif found or node["reftarget"].islower():
                node.replace_self([child.deepcopy() for child in node.children] or [nodes.Text("")])


def _skip(*said: Any) -> bool | None:
    """Leave out what a named tuple says of its fields: the class does it with units."""
    thing = said[3]
    return True if str(getattr(thing, "__doc__", "")).startswith("Alias for field number") else None


_COLON = "\ue000"


def _no_type(*said: Any) -> None:
    """Keep Napoleon from taking what stands before a colon in a property's docstring for its type."""
    what, lines = said[1], said[-1]
    if what == "property":
        lines[:] = [line.replace(": ", f"{_COLON} ") for line in lines]


def _colon(*said: Any) -> None:
    """Put the colons back."""
    said[-1][:] = [line.replace(_COLON, ":") for line in said[-1]]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_post_transform(OneMeaning)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _no_type, priority=400)  # Napoleon's is 500
    app.connect("autodoc-process-docstring", _colon, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
