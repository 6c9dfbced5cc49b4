"""Read YAML or JSON text into plain data, and find the line of any part of it again.

The text is read once, event by event: libyaml's own composer recurses in C and a file of
100,000 brackets takes the process down with it. Lines are looked for only when an error
has to be told: a second pass over the same events, which costs nothing where all is well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from astranb.core.document import yaml_loader
from astranb.core.errors import InputError, near

__all__ = ["Place", "Source", "read_file", "read_text", "suffix_of"]

_MAX_BYTES = 256 * 2**20
_MAX_DEPTH = 40
_MAX_VALUES = 5_000_000

Place = tuple[str | int, ...]
"""Where something stands in a document: keys and list positions from the top."""


@dataclass(frozen=True)
class Source:
    """Where a document came from.

    Attributes
    ----------
    name : str
        File name, or what stands for it in an error line.
    text : str or None
        The text that was read; None where the document came as a dict or an object.
    """

    name: str = "infrastructure"
    text: str | None = None

    def where(self, place: Place = ()) -> str:
        """Name a place: ``cluster.yaml:12, devices[0].edges[3]``."""
        line = self._line(place)
        file = f"{self.name}:{line}" if line else self.name
        return f"{file}, {_spell(place)}" if place else file

    def error(self, what: str, place: Place = (), hint: str = "") -> InputError:
        """Make the error that says what is wrong at a place."""
        return InputError(what, where=self.where(place), hint=hint)

    def _line(self, place: Place) -> int:
        if self.text is None:
            return 0
        marks: dict[Place, int] = {}
        try:
            _Builder(self, self.text, marks).document()
        except (InputError, yaml.YAMLError):
            return 0
        while place and place not in marks:
            place = place[:-1]
        return marks.get(place, 0)


def suffix_of(path: Path) -> str:
    """Tell the format by a file's suffix: ``"json"`` or ``"yaml"``."""
    return "json" if path.suffix.lower() == ".json" else "yaml"


def read_file(path: Path) -> tuple[Any, Source]:
    """Read a file of YAML or JSON.

    Raises
    ------
    InputError
        There is no such file, it is no regular file, too large, or not UTF-8 text.
    """
    try:
        if path.is_dir():
            raise InputError("this is a folder", where=str(path), hint="name the file in it")
        if not path.exists():
            folder = path.parent if path.parent.is_dir() else Path()
            names = (p.name for p in folder.iterdir() if p.suffix.lower() in {".yaml", ".yml", ".json"})
            hint = near(path.name, names)
            raise InputError(
                "there is no such file", where=str(path), hint=hint if hint.startswith("did") else ""
            )
        if not path.is_file():
            raise InputError("this is not a regular file", where=str(path))
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"larger than {_MAX_BYTES >> 20} MiB", where=str(path))
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start} is not UTF-8", where=str(path), hint="save the file as UTF-8 text"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {error}", where=repr(str(path))) from None
    return read_text(text, str(path), suffix_of(path))


def read_text(text: str, name: str, form: str = "yaml") -> tuple[Any, Source]:
    """Read YAML or JSON text.

    Parameters
    ----------
    text : str
        The document.
    name : str
        File name for error lines.
    form : {"yaml", "json"}
        ``"json"`` refuses YAML that is not JSON.

    Returns
    -------
    data : Any
        Plain dicts, lists, texts, numbers, truth values and None.
    source : Source

    Raises
    ------
    InputError
        A syntax error, a duplicate key, a tag that is not plain data, or nesting and
        aliases that would never end.
    """
    source = Source(name, text)
    if form == "json" or text.lstrip()[:1] == "{":
        try:
            return json.loads(text, object_pairs_hook=_Unique(source), parse_constant=_no_constant), source
        except json.JSONDecodeError as error:
            if form == "json":
                raise InputError(
                    f"not JSON: {error.msg}", where=f"{name}:{error.lineno}", hint="correct the text there"
                ) from None
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            if form == "json":
                raise InputError(f"not JSON: {error}", where=name) from None
    try:
        return _Builder(source, text).document(), source
    except yaml.YAMLError as error:
        raise _syntax(error, source) from None


def _syntax(error: yaml.YAMLError, source: Source) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{source.name}:{mark.line + 1}" if mark else source.name
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return InputError(f"not YAML: {problem}", where=where, hint="correct the text there")


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


class _Unique:
    """Build JSON objects, refusing a key given twice."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [k for k, _ in pairs]
            twice = next(k for i, k in enumerate(keys) if k in keys[:i])
            raise InputError(f"key {twice!r} stands twice", where=self._source.name, hint="keep one of them")
        return found


class _Builder:
    """Plain data from YAML events, with the line of every part where asked for."""

    def __init__(self, source: Source, text: str, marks: dict[Place, int] | None = None) -> None:
        self._source = source
        self._text = text
        self._marks = marks
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._scalars: dict[tuple[str | None, tuple[bool, bool], str], Any] = {}
        self._values = 0

    def document(self) -> Any:
        # The loader reads the text's first bytes already when it is made.
        self._loader = yaml_loader()(self._text)
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
        return InputError(what, where=f"{self._source.name}:{event.start_mark.line + 1}", hint=hint)

    def _value(self, event: Any, events: Iterator[Any], place: Place, depth: int) -> Any:
        if self._marks is not None:
            self._marks.setdefault(place, event.start_mark.line + 1)
        if depth > _MAX_DEPTH:
            raise self._fail(f"nested deeper than {_MAX_DEPTH}", event, "InfraGraph needs eight levels")
        before = self._values
        self._count(1, event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._fail(f"alias *{event.anchor} stands for nothing before it", event)
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
        if self._values > _MAX_VALUES:
            raise self._fail(
                f"more than {_MAX_VALUES:,} values, aliases written out",
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
            key = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str):
                said = getattr(event, "value", "of a list or mapping")
                raise self._fail(f"key {said!r} is not text", event, "put it in quotes")
            merges = key == "<<" and event.implicit[0]
            if key in own:
                raise self._fail(f"key {key!r} stands twice", event, "keep one of them")
            if self._marks is not None:
                self._marks[*place, key] = event.start_mark.line + 1
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


def _spell(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
