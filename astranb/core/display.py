"""Display of a result as the last line of a notebook cell: its sentence, not its fields."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["Displayed"]


class Displayed:
    """Shows ``str(self)`` in notebooks and consoles; ``repr(self)`` stays as it is, for debugging.

    A class with a table of its own overrides :meth:`_repr_html_`.

    Examples
    --------
    >>> class Reached(Displayed):
    ...     def __str__(self):
    ...         return "stepped at 2 µs"
    >>> Reached()._repr_html_()
    '<span>stepped at 2 µs</span>'
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """IPython takes the printer of the class itself before that of a base: a ``__repr__`` would win."""
        super().__init_subclass__()
        setattr(cls, "_repr_pretty_", Displayed._repr_pretty_)  # noqa: B010 - mypy: a method

    def _repr_html_(self) -> str:
        """For a notebook: one line as text, several as a block."""
        text = str(self)
        tag = "pre" if "\n" in text else "span"
        return f"<{tag}>{escape(text)}</{tag}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """For a console, and for results in lists."""
        printer.text("..." if cycle else str(self))
