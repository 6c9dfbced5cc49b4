"""Attributes whose changes are reported: what traits are in a notebook, without a widget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Observed"]


class Observed:
    """Holds attributes of which a page has a copy.

    Attributes
    ----------
    _first : dict
        Of the class: the attributes that are observed, and what each is at first.
    """

    _first: ClassVar[Mapping[str, Any]] = {}

    def _observe_from(self, report: Callable[[dict[str, Any]], None]) -> None:
        """Begin: each change that does not come from the page is reported to it."""
        self.__dict__.update(
            {name: type(value)(value) for name, value in self._first.items()},
            _report=report,
            _handlers={},
            _theirs=False,
        )

    def observe(self, handler: Callable[[Any], None], names: str | Iterable[str]) -> None:
        """Call something with a mapping, the ``new`` value among it, when an attribute changes."""
        for name in (names,) if isinstance(names, str) else names:
            self.__dict__["_handlers"].setdefault(name, []).append(handler)

    @property
    def attributes(self) -> dict[str, Any]:
        """All of them as they are."""
        return {name: getattr(self, name) for name in self._first}

    def take(self, values: Mapping[str, Any]) -> None:
        """Set attributes as the page has set them: these changes are not reported to it."""
        with self._of_the_page():
            for name, value in values.items():
                setattr(self, name, value)

    @contextmanager
    def _of_the_page(self) -> Iterator[None]:
        self.__dict__["_theirs"] = True
        try:
            yield
        finally:
            self.__dict__["_theirs"] = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a change of one that is observed is reported, and its handlers are called."""
        if name not in self._first or "_handlers" not in self.__dict__:
            object.__setattr__(self, name, value)
            return
        old = self.__dict__[name]
        if type(old) is type(value) and old == value:
            return
        self.__dict__[name] = value
        theirs = self.__dict__["_theirs"]
        self.__dict__["_theirs"] = False  # what follows from it is reported
        try:
            if not theirs:
                self.__dict__["_report"]({name: value})
            for handler in list(self.__dict__["_handlers"].get(name, ())):
                handler({"name": name, "old": old, "new": value, "owner": self})
        finally:
            self.__dict__["_theirs"] = theirs
