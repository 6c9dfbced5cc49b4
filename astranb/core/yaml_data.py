"""Plain data of YAML, event by event: what :mod:`.document` reads of files that are no JSON.

libyaml's own composer recurses in C, and a file of 100,000 brackets would crash the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import yaml
from yaml import YAMLError

from .errors import InputError

__all__ = ["Builder", "YAMLError"]

_MOST_DEPTH: Final = 100
_MOST_VALUES: Final = 5_000_000

_Place = tuple[str | int, ...]


@cache
def _loader() -> Any:
    """Make the loader of plain data: ``1e9`` is a number, as in YAML 1.2; to PyYAML (1.1) it is a string."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    power = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$", re.ASCII)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", power, list("-+.0123456789"))
    return Loader


class Builder:
    """Plain data from YAML events, with the line of every part where asked for."""

    def __init__(self, name: str, text: str, lines: dict[_Place, int] | None = None) -> None:
        self._name = name
        self._text = text
        self._lines = lines
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._scalars: dict[tuple[str | None, tuple[bool, bool], str], Any] = {}
        self._values = 0

    def document(self) -> Any:
        """Read the text.

        Raises
        ------
        InputError
            It holds something that is not plain data.
        YAMLError
            It is no YAML.
        """
        # The loader reads the text's first bytes already when it is made.
        self._loader = _loader()(self._text)
        try:
            events = self._events()
            first = next(events)
            data = None if isinstance(first, yaml.StreamEndEvent) else self._value(first, events, (), 0)
            if not isinstance(next(events, None), yaml.StreamEndEvent | None):
                raise InputError("holds more than one document", where=self._name, hint="keep one")
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
        return InputError(what, where=f"{self._name}:{_line_of(event)}", hint=hint)

    def _value(self, event: Any, events: Iterator[Any], place: _Place, depth: int) -> Any:
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

    def _mapping(self, events: Iterator[Any], place: _Place, depth: int) -> dict[str, Any]:
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
