"""YAML and JSON files: plain data, and errors that name the file, line and key.

Lines are looked up only for an error, by a second pass over the same events: correct files pay nothing
for them.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from .errors import InputError
from .json_stream import clean_text
from .packed import readable

__all__ = [
    "MOST_BYTES",
    "DocumentNode",
    "DocumentSource",
    "Place",
    "contents",
    "form_of",
    "parse_document",
    "read_document",
]

MOST_BYTES = 64 << 20
"""Largest file that is read unless a caller allows more: public plans of collectives have a few MiB."""

_MOST_LINED: Final = 32 << 20  # larger JSON is not searched for lines: it takes 50 times as long as reading

_ESCAPED: Final = re.compile(r"\\u[dD][89a-fA-F]")

Place = tuple[str | int, ...]
"""Position of a value in a document: keys and list indices from the top."""


@dataclass(frozen=True)
class DocumentSource:
    """Origin of a document.

    Attributes
    ----------
    name : str
        File name, or what error lines call the document.
    text : str or None
        The text that was read; None where the document came as a dict or an object.
    """

    name: str
    text: str | None = None

    def where(self, place: Place = ()) -> str:
        """Name a place: ``cluster.yaml:12, devices[0].edges[3]``."""
        line = self._line(place)
        file = f"{self.name}:{line}" if line else self.name
        return f"{file}, {_spell(place)}" if place else file

    def error(self, what: str, place: Place = (), hint: str = "") -> InputError:
        """Return an error about a place."""
        return InputError(what, where=self.where(place), hint=hint)

    def _line(self, place: Place) -> int:
        """Line of a place, or of the nearest value around it; 0 where unknown."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 0)

    @cached_property
    def _lines(self) -> dict[Place, int]:
        lines: dict[Place, int] = {}
        if self.text is not None:
            from .yaml_data import Builder, YAMLError

            try:
                Builder(self.name, self.text, lines).document()
            except (InputError, YAMLError):
                return {}
        return lines


class DocumentNode:
    """A value of a document, with its place."""

    __slots__ = ("place", "source", "value")

    def __init__(self, value: Any, source: DocumentSource, place: Place = ()) -> None:
        self.value, self.source, self.place = value, source, place

    def error(self, what: str, hint: str = "") -> InputError:
        """An error about this value."""
        return self.source.error(what, self.place, hint)

    @property
    def file(self) -> str:
        """The name of the document."""
        return self.source.name

    @property
    def brief(self) -> str:
        """The value as an error gives it: short."""
        return _brief(self.value)

    def has(self, key: str) -> bool:
        """Return whether an object has a key."""
        return isinstance(self.value, dict) and key in self.value

    def get(self, key: str, default: Any = ...) -> DocumentNode:
        """A member of an object; without a default it must be there."""
        if not isinstance(self.value, dict):
            raise self.error(f"an object is expected, not {_brief(self.value)}")
        if key not in self.value and default is ...:
            raise self.error(f"{key!r} is missing", "give it")
        return DocumentNode(self.value.get(key, default), self.source, (*self.place, key))

    def items(self) -> list[DocumentNode]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"a list is expected, not {_brief(self.value)}")
        return [DocumentNode(value, self.source, (*self.place, n)) for n, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.error(f"a string is expected, not {_brief(self.value)}")
        return self.value.encode("utf-8", "replace").decode()

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.error(f"true or false is expected, not {_brief(self.value)}")
        return self.value

    def number(self, low: int, high: int) -> int:
        """A whole number between two bounds."""
        return int(self._within(int, "a whole number", low, high))

    def real(self, low: float, high: float) -> float:
        """A number between two bounds."""
        return float(self._within(int | float, "a number", low, high))

    def _within(self, kind: Any, expected: str, low: float, high: float) -> Any:
        if isinstance(self.value, bool) or not isinstance(self.value, kind):
            raise self.error(f"{expected} is expected, not {_brief(self.value)}")
        if not low <= self.value <= high:  # NaN is not, either
            bounds = f"{low} to {high}" if kind is int else f"{low:g} to {high:g}"
            raise self.error(f"{_brief(self.value)} is out of range", f"take {bounds}")
        return self.value

    def choice(self, among: tuple[str, ...]) -> str:
        """One of some words."""
        word = self.text()
        if word not in among:
            raise self.error(f"unknown {word[:40]!r}", f"take {', '.join(among)}")
        return word


def contents(path: str | Path, most: int | None = None) -> bytes:
    """Read a whole file.

    Parameters
    ----------
    path : str or Path
    most : int, optional
        Largest size in bytes; ``MOST_BYTES`` where not given.

    Raises
    ------
    InputError
        There is no such file, it is not a regular file, it is larger, or it cannot be read.
    """
    most = MOST_BYTES if most is None else most
    with readable(path) as file:
        size = file.stat().st_size
        data = file.read_bytes() if size <= most else b""
    if size > most:
        raise InputError(f"larger than {most >> 20} MiB", where=str(path), hint="is it the right file?")
    return data


def form_of(path: str | Path) -> str:
    """Return the format by a file's extension: ``"json"`` or ``"yaml"``."""
    return "json" if Path(path).suffix.lower() == ".json" else "yaml"


def read_document(
    path: str | Path, most: int | None = None, *, form: str | None = None, strict: bool = True
) -> DocumentNode:
    """Read a file of YAML or JSON.

    Parameters
    ----------
    path : str or Path
    most : int, optional
        Largest size in bytes; ``MOST_BYTES`` where not given.
    form : {"yaml", "json"}, optional
        By the file's extension where not given.
    strict : bool
        See :func:`parse_document`.

    Raises
    ------
    InputError
        It cannot be read (see :func:`contents` and :func:`parse_document`), or is empty.
    """
    data = contents(path, most)
    if not data.strip():
        raise InputError("the file is empty", where=str(path), hint="is it the right file?")
    return parse_document(data, str(path), form or form_of(path), strict=strict)


def parse_document(data: str | bytes, name: str, form: str = "yaml", *, strict: bool = True) -> DocumentNode:
    """Parse YAML or JSON.

    Parameters
    ----------
    data : str or bytes
        The document; bytes are UTF-8.
    name : str
        What error lines call the document.
    form : {"yaml", "json"}
        ``"json"`` refuses YAML that is not JSON.
    strict : bool
        Whether JSON with a duplicate key or NaN is refused. Programs write such files; the last of duplicate
        keys counts then. YAML is always strict.

    Returns
    -------
    DocumentNode
        Of plain dicts, lists, strings, numbers, booleans and None.

    Raises
    ------
    InputError
        Not UTF-8, a syntax error, a duplicate key, a tag that is not plain data, or too many levels,
        values or aliases.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        what = f"not {form.upper()}: byte {error.start} is not UTF-8"
        raise InputError(what, where=name, hint="save the file as UTF-8 text") from None
    if isinstance(data, str):
        text = clean_text(text)
    if form == "json" or text.lstrip()[:1] == "{":
        try:
            return _json(text, name, strict=strict)
        except InputError as error:
            if form == "json" or not error.what.startswith("not JSON"):
                raise
    return _yaml(text, name)


def _json(text: str, name: str, *, strict: bool) -> DocumentNode:
    source = DocumentSource(name, text if len(text) <= _MOST_LINED else None)
    rules: dict[str, Any] = {"object_pairs_hook": _unique, "parse_constant": _no_constant} if strict else {}
    try:
        with _no_collection():
            data = json.loads(text, **rules)
        return DocumentNode(_without_surrogates(data) if _ESCAPED.search(text) else data, source)
    except _Duplicate as error:
        _refuse_duplicate(source)
        raise InputError(f"duplicate key {error.args[0]!r}", where=name, hint="keep one of them") from None
    except json.JSONDecodeError as error:
        where = f"{name}:{error.lineno}"
        raise InputError(f"not JSON: {error.msg}", where=where, hint="correct the text there") from None
    except RecursionError:
        raise InputError("not JSON: nested too deep", where=name, hint="is it the right file?") from None
    except ValueError as error:  # a huge number, NaN
        raise InputError(f"not JSON: {error}"[:200], where=name, hint="correct the file") from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: plain data has no cycles, and each collection would visit all of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _without_surrogates(data: Any) -> Any:
    """Replace halves of surrogate pairs, which no text file, picture or page can hold, in a document."""
    top = [data]
    places: list[Any] = [top]
    while places:
        inside = places.pop()
        for key in range(len(inside)) if isinstance(inside, list) else list(inside):
            value = inside.pop(key) if isinstance(key, str) else inside[key]
            if isinstance(value, str):
                value = clean_text(value)
            elif isinstance(value, dict | list):
                places.append(value)
            inside[clean_text(key) if isinstance(key, str) else key] = value
    return top[0]


class _Duplicate(Exception):
    """A JSON object that gives a key twice."""


def _refuse_duplicate(source: DocumentSource) -> None:
    """Name the line of a duplicate key, where the text can be read as YAML too."""
    if source.text is not None:
        from .yaml_data import Builder, YAMLError

        with suppress(YAMLError):
            Builder(source.name, source.text).document()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Duplicate(next(key for n, key in enumerate(keys) if key in keys[:n]))
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _yaml(text: str, name: str) -> DocumentNode:
    from .yaml_data import Builder, YAMLError  # pages of runs never read any

    source = DocumentSource(name, text)
    try:
        return DocumentNode(Builder(name, text).document(), source)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise InputError(f"not YAML: {problem}", where=where, hint="correct the text there") from None


def _spell(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _brief(value: Any) -> str:
    """A value for an error, short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a huge number"
    return repr(value)[:40]
