"""A workbench of a page: it sends the page what a notebook's widget would send."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.sim import Simulation

from .bench import Bench
from .observed import Observed

__all__ = ["PageWorkbench", "Post"]

Post = Callable[[dict[str, Any], list[Any]], None]
"""Sends JSON and buffers to the page."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_window(value: Any) -> bool:
    return isinstance(value, list) and len(value) in (0, 2) and all(map(_is_number, value))


_MOST_TEXT: Final = 10_000
_TAKES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "_selection": ("a text", lambda v: isinstance(v, str) and len(v) < _MOST_TEXT),
    "_cursor_ps": ("a number", _is_number),
    "_window_ps": ("a list of two numbers, or none", _is_window),
    "_panels": ("a mapping", lambda v: isinstance(v, dict)),
    "_sizes": ("a mapping", lambda v: isinstance(v, dict)),
    "_redraw_hz": ("a number", _is_number),
}  # fmt: skip
"""Traits that a page may set: the type in words, and its check."""


class PageWorkbench(Bench, Observed):
    """A simulation in a page, by the number that the page knows it by.

    Parameters
    ----------
    sim : Simulation
    number : int
    post : callable
        Sends to the page.
    alike : callable
        Makes another one of these.
    """

    _first = {  # noqa: RUF012 - of the class
        "_selection": "", "_cursor_ps": -1.0, "_window_ps": [], "_other": "", "_beside": {},
        "_redraw_hz": 60.0, "_panels": {}, "_sizes": {},
    }  # fmt: skip

    def __init__(
        self, sim: Simulation, number: int, post: Post, alike: Callable[[Simulation], PageWorkbench]
    ) -> None:
        self.number = number
        self._post, self._made_alike = post, alike
        self._observe_from(lambda values: post({"bench": number, "traits": values}, []))
        self._begin(self._checked(sim))

    @property
    def described(self) -> dict[str, Any]:
        """Description from which the page builds a view."""
        return {"engine": self.feed.engine, "traits": self.attributes, "title": self.feed.title}

    def set_by_page(self, values: Any) -> None:
        """Set attributes that a message of the page names.

        Raises
        ------
        InputError
            There is no such attribute, or it is something else.
        """
        if not isinstance(values, Mapping):
            raise InputError("attributes are not a mapping", where="traits")
        for name, value in values.items():
            if name not in _TAKES:
                raise InputError(
                    f"unknown attribute {name!r:.80}", where="traits", hint=near(str(name), _TAKES)
                )
            what, right = _TAKES[name]
            if not right(value):
                raise InputError(f"{name} must be {what}, got {value!r:.80}", where="traits")
        self.take({n: float(v) if n in ("_cursor_ps", "_redraw_hz") else v for n, v in values.items()})

    def close(self) -> None:
        """Close the view, and say so."""
        self.session.ask("pause")
        super().close()
        self._post({"closed": self.number}, [])

    def _send_message(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        self._post({"bench": self.number, "message": content}, buffers)

    @property
    def _reference(self) -> str:
        return f"bench:{self.number}"

    def _alike(self, sim: Simulation) -> PageWorkbench:
        return self._made_alike(sim)
