"""XML files from outside, read strictly; errors name the place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# Documents that declare entities are refused before they are parsed, see xml_document().
from xml.etree import ElementTree as ET

from .errors import InputError

__all__ = ["Tag", "xml_document"]

_DOCTYPE = re.compile(rb"<!DOCTYPE\s+[\w.-]+(\s+SYSTEM\s+(\"[^\"<>]*\"|'[^'<>]*'))?\s*>")
"""A document type that only names its definition, as hwloc writes it: nothing is fetched."""


class Tag:
    """An element of an XML document, with its place."""

    __slots__ = ("element", "file", "path")

    def __init__(self, element: ET.Element, file: str, path: str) -> None:
        self.element, self.file, self.path = element, file, path

    def error(self, what: str, hint: str = "") -> InputError:
        """An error about this element."""
        return InputError(what, where=f"{self.file}: {self.path}", hint=hint)

    def children(self, *names: str) -> Iterator[Tag]:
        """The elements inside, which must have one of the names."""
        for number, child in enumerate(self.element):
            tag = Tag(child, self.file, f"{self.path}/{child.tag}[{number}]")
            if child.tag not in names:
                raise self.error(f"an element <{str(child.tag)[:40]}>", f"<{names[0]}> is expected here")
            yield tag

    def inside(self, *names: str) -> list[Tag]:
        """The elements inside that have one of the names; others are skipped."""
        return [
            Tag(child, self.file, f"{self.path}/{child.tag}[{number}]")
            for number, child in enumerate(self.element)
            if child.tag in names
        ]

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute's text; without a default it must be there."""
        value = self.element.get(name, default)
        if value is None:
            raise self.error(f"attribute {name!r} is missing", "give it")
        return value.encode("utf-8", "replace").decode()

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number between two bounds."""
        word = self.text(name, None if default is None else str(default)).strip()
        if len(word) > 20 or not word.removeprefix("-").isdecimal():
            raise self.error(f"{name}={word[:40]!r} is not a whole number")
        value = int(word)
        if not low <= value <= high:
            raise self.error(f"{name}={value} is out of range", f"take {low} to {high}")
        return value

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """One of some words."""
        word = self.text(name)
        if word not in among:
            raise self.error(f"unknown {name}={word[:40]!r}", f"take {', '.join(among)}")
        return word


def xml_document(path: str | Path, data: bytes) -> Tag:
    """Parse XML that declares nothing of its own: entities can make a short file endless."""
    file = str(path)
    plain = _DOCTYPE.sub(b"", data, count=1)
    if b"\0" in data or b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise InputError(
            "a DOCTYPE with declarations, an ENTITY or an encoding other than UTF-8",
            where=file,
            hint="take it out: such files have none",
        )
    try:
        element = ET.fromstring(data)  # noqa: S314
    except ET.ParseError as error:
        where = f"{file}: line {error.position[0]}"
        raise InputError(f"not XML: {error}", where=where, hint="correct the file") from error
    except (ValueError, LookupError) as error:  # an encoding that there is not
        raise InputError(f"not XML: {error}"[:200], where=file, hint="correct the file") from error
    return Tag(element, file, element.tag)
