"""Display of a result as the last line of a notebook cell: its sentence, not its fields."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

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

    if not TYPE_CHECKING:  # mypy knows the attributes

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an unknown attribute, with the nearest that there is."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # the error of the property itself
            hint = ""
            if not name.startswith("_"):
                from .errors import suggestion  # an import of astranb loads nothing else

                known = [one for one in dir(type(self)) if not one.startswith("_")]
                hint = self._elsewhere(name) or suggestion(name, known)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{message}; {hint}" if hint else message)

    def _elsewhere(self, name: str) -> str:
        """Return what to write for an attribute of another object; empty where there is none."""
        del name
        return ""

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
