"""YAML and JSON files: plain data, and errors that name the file, line and key.

YAML is parsed once, event by event: libyaml's own composer recurses in C, and a file of 100,000
brackets would crash the process. Lines are looked up only for an error, by a second pass over the
same events, so that correct files pay nothing for them.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import yaml

from .errors import InputError, near
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

_MOST_DEPTH: Final = 100
_MOST_VALUES: Final = 5_000_000
_MOST_LINED: Final = 32 << 20  # larger JSON is not searched for lines: it takes 50 times as long as reading
_MOST_NEIGHBOURS: Final = 1000

_ESCAPED: Final = re.compile(r"\\u[dD][89a-fA-F]")

Place = tuple[str | int, ...]
"""Position of a value in a document: keys and list indices from the top."""


@dataclass(frozen=True)
class DocumentSource:
    """Where a document came from.

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
            try:
                _Builder(self, self.text, lines).document()
            except (InputError, yaml.YAMLError):
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
        """Whether an object has a key."""
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

    def _within(self, kind: Any, words: str, low: float, high: float) -> Any:
        if isinstance(self.value, bool) or not isinstance(self.value, kind):
            raise self.error(f"{words} is expected, not {_brief(self.value)}")
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
    try:
        with readable(path) as file:
            size = file.stat().st_size
            data = file.read_bytes() if size <= most else b""
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError) and (near_by := _neighbour(Path(path))):
            raise InputError(error.what, where=str(path), hint=near_by) from None
        raise
    if size > most:
        raise InputError(f"larger than {most >> 20} MiB", where=str(path), hint="is it the right file?")
    return data


def _neighbour(file: Path) -> str:
    """Suggest files of the folder with a near name: documents, and files with the same extension."""
    if not file.parent.is_dir():
        return ""
    kinds = {".yaml", ".yml", ".json", file.suffix.lower()}
    names = (one.name for one in islice(file.parent.iterdir(), _MOST_NEIGHBOURS))
    hint = near(file.name, (name for name in names if Path(name).suffix.lower() in kinds))
    return hint if hint.startswith("did") else ""


def form_of(path: str | Path) -> str:
    """Give the format by a file's extension: ``"json"`` or ``"yaml"``."""
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
        It cannot be read (see :func:`contents` and :func:`parse_document`).
    """
    return parse_document(contents(path, most), str(path), form or form_of(path), strict=strict)


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
        with suppress(yaml.YAMLError):
            _Builder(source, source.text).document()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Duplicate(next(key for n, key in enumerate(keys) if key in keys[:n]))
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _yaml(text: str, name: str) -> DocumentNode:
    source = DocumentSource(name, text)
    try:
        return DocumentNode(_Builder(source, text).document(), source)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise InputError(f"not YAML: {problem}", where=where, hint="correct the text there") from None


@cache
def _loader() -> Any:
    """Make the loader of plain data: ``1e9`` is a number, as in YAML 1.2; to PyYAML (1.1) it is a string."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    power = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$", re.ASCII)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", power, list("-+.0123456789"))
    return Loader


class _Builder:
    """Plain data from YAML events, with the line of every part where asked for."""

    def __init__(self, source: DocumentSource, text: str, lines: dict[Place, int] | None = None) -> None:
        self._source = source
        self._text = text
        self._lines = lines
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._scalars: dict[tuple[str | None, tuple[bool, bool], str], Any] = {}
        self._values = 0

    def document(self) -> Any:
        # The loader reads the text's first bytes already when it is made.
        self._loader = _loader()(self._text)
        try:
            events = self._events()
            first = next(events)
            data = None if isinstance(first, yaml.StreamEndEvent) else self._value(first, events, (), 0)
            if not isinstance(next(events, None), yaml.StreamEndEvent | None):
                raise InputError("holds more than one document", where=self._source.name, hint="keep one")
        finally:
            self._loader.dispose()
        return data

    def _events(self) -> Iterator[Any]:
        skipped = (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)
        while self._loader.check_event():
            event = self._loader.get_event()
            if not isinstance(event, skipped):
                yield event

    def _fail(self, what: str, event: Any, hint: str = "") -> InputError:
        return InputError(what, where=f"{self._source.name}:{_line_of(event)}", hint=hint)

    def _value(self, event: Any, events: Iterator[Any], place: Place, depth: int) -> Any:
        if self._lines is not None:
            self._lines.setdefault(place, _line_of(event))
        if depth > _MOST_DEPTH:
            raise self._fail(f"nested deeper than {_MOST_DEPTH}", event, "is it the right file?")
        before = self._values
        self._count(1, event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._fail(f"alias *{event.anchor} has no anchor before it", event)
            data, weight = self._anchors[event.anchor]
            self._count(weight, event)
            return data
        if isinstance(event, yaml.ScalarEvent):
            data = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._plain(event, "tag:yaml.org,2002:seq")
            data = []
            while not isinstance(part := next(events), yaml.SequenceEndEvent):
                data.append(self._value(part, events, (*place, len(data)), depth + 1))
        else:
            self._plain(event, "tag:yaml.org,2002:map")
            data = self._mapping(events, place, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (data, self._values - before)
        return data

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > _MOST_VALUES:
            raise self._fail(
                f"more than {_MOST_VALUES:,} values, with aliases expanded",
                event,
                "use counts and slices instead of copies",
            )

    def _plain(self, event: Any, tag: str) -> None:
        if event.tag not in (None, "!", tag):
            raise self._fail(f"tag {event.tag} is not plain data", event, "remove the tag")

    def _mapping(self, events: Iterator[Any], place: Place, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._fail("a list or mapping as a key", event, "take a string")
            self._scalar(event)  # refuses tags that are not plain data
            key = event.value  # always a string, as in JSON: 3 is '3'
            merges = key == "<<" and event.implicit[0]
            if key in own:
                raise self._fail(f"duplicate key {key!r}", event, "keep one of them")
            if self._lines is not None:
                self._lines[*place, key] = _line_of(event)
            value = self._value(next(events), events, (*place, key), depth + 1)
            if not merges:
                own[key] = value
                continue
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, dict):
                    raise self._fail("<< merges something that is not a mapping", event)
                merged = {**part, **merged}
        return {**merged, **own}

    def _scalar(self, event: Any) -> Any:
        key = (event.tag, event.implicit, event.value)
        if key not in self._scalars:
            tag = event.tag
            if tag in (None, "!"):
                tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            short = tag.removeprefix("tag:yaml.org,2002:")
            if short in {"str", "timestamp", "merge", "value"}:
                self._scalars[key] = event.value
            elif short in {"int", "float", "bool", "null"}:
                try:
                    self._scalars[key] = self._loader.construct_object(yaml.ScalarNode(tag, event.value))
                except (ValueError, KeyError, IndexError, OverflowError):
                    raise self._fail(f"{event.value[:40]!r} is not of type {short}", event) from None
            else:
                raise self._fail(f"tag {tag} is not plain data", event, "remove the tag")
        return self._scalars[key]


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1


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
