"""Device files: sections of numbers, each with its unit, range, source and kind.

A dataclass is the schema of a section: its fields are made by :func:`number_field` and :func:`text_field`.
A file holds for each number its value, how it is known (:data:`KINDS`) and from where. Numbers that it
leaves out are those of the device that ``like`` names.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from astranb.core.document import DocumentNode, form_of, read_document
from astranb.core.errors import InputError, near
from astranb.core.files import whole_file
from astranb.core.units import bandwidth_Bps, size_bytes, time_ps

__all__ = [
    "KINDS",
    "MOST_BPS",
    "MOST_BYTES",
    "MOST_NS",
    "DeviceFile",
    "GivenNumbers",
    "Provenance",
    "Quantity",
    "check_header",
    "check_ranges",
    "checked_name",
    "device_file",
    "device_names",
    "inherited_numbers",
    "is_file_name",
    "number_field",
    "quantities",
    "read_device_file",
    "read_section",
    "text_field",
    "unit_of",
    "write_device_file",
]

KINDS: Final = ("measured", "data sheet", "fitted", "assumed")
"""Kinds of numbers, by how they are known. ``data sheet`` includes white papers, standards and published
source code; what follows from measurements by arithmetic is ``measured``."""

FOLDER: Final = Path(__file__).parent

_SUFFIXES: Final = (".json", ".yaml", ".yml")
_UNITS: Final = {
    "_ps": "ps", "_ns": "ns", "_Bps": "B/s", "_bytes": "B", "payload": "B", "_W": "W", "_percent": "%",
    "_dollars": "$",
}  # fmt: skip
MOST_BPS: Final = 10**16
MOST_BYTES: Final = 2**50
MOST_NS: Final = 10**9
"""The largest bandwidth, size and time of a device."""

_MOST_FILE_BYTES: Final = 1 << 20
_Numbers = TypeVar("_Numbers")


class Provenance(NamedTuple):
    """Origin of a number.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    source : str
        Document, measurement or reasoning.
    """

    kind: str
    source: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.source}"


@dataclass(frozen=True)
class Quantity:
    """Type and allowed range of a field of a section.

    Attributes
    ----------
    low, high : float
        The allowed range, both included.
    whole : bool
        Whether it is a whole number.
    keys : tuple of str
        Of a number for each of some keys; empty: a single number.
    columns : int
        Of a table: the numbers in each row; 0 is no table.
    shared : str
        ``section.number`` that it is a copy of; such a field is not in its own section of a file.
    text : bool
        Whether it is a text instead of numbers.
    required : bool
        Whether a file, or the device that it is like, must give it.
    """

    low: float = 0
    high: float = 0
    whole: bool = True
    keys: tuple[str, ...] = ()
    columns: int = 0
    shared: str = ""
    text: bool = False
    required: bool = True


def number_field(
    low: float,
    high: float,
    *,
    whole: bool = True,
    keys: tuple[str, ...] = (),
    columns: int = 0,
    shared: str = "",
    default: Any = dataclasses.MISSING,
) -> Any:
    """Declare a number of a section: a dataclass field with its allowed range.

    The end of the field's name is its unit: ``_ps``, ``_ns``, ``_Bps``, ``_bytes``, ``_W``. A file may give a
    time, a bandwidth or a size as text with a unit, too.

    Parameters
    ----------
    low, high, whole, keys, columns, shared
        As of :class:`Quantity`.
    default
        Its value where a file gives none.
    """
    what = Quantity(low, high, whole, keys, columns, shared, required=default is dataclasses.MISSING)
    return field(default=default, metadata={_METADATA: what})


def text_field(default: Any = dataclasses.MISSING) -> Any:
    """Declare a text of a section."""
    return field(
        default=default, metadata={_METADATA: Quantity(text=True, required=default is dataclasses.MISSING)}
    )


_METADATA: Final = "quantity"


def quantities(schema: type) -> dict[str, Quantity]:
    """Return the quantities of a section by the names of the fields of its dataclass."""
    return {
        one.name: one.metadata[_METADATA] for one in dataclasses.fields(schema) if _METADATA in one.metadata
    }


def check_ranges(found: Any, where: str) -> None:
    """Check the numbers of a section's dataclass, which may be made without a file.

    Parameters
    ----------
    found : Any
        Of a dataclass whose fields are made by :func:`number_field` and :func:`text_field`.
    where : str
        The device, for errors.

    Raises
    ------
    InputError
        A number is out of range, of another type or of an unknown key.
    """
    for name, what in quantities(type(found)).items():
        value = getattr(found, name)
        if what.text:
            if not isinstance(value, str):
                raise InputError(f"{name} must be a text, got {value!r:.40}", where=where)
        elif what.keys:
            unknown = [key for key in value if key not in what.keys]
            if unknown or not value:
                problem = f"{name} has {unknown[0]!r:.40}" if unknown else f"{name} is empty"
                raise InputError(problem, where=where, hint=f"take {', '.join(what.keys)}")
            for key, one in value.items():
                _check_range(one, what, f"{name}.{key}", where)
        elif what.columns:
            for one in (one for row in value for one in row):
                _check_range(one, what, name, where)
        else:
            _check_range(value, what, name, where)


def _check_range(value: Any, what: Quantity, name: str, where: str) -> None:
    """Check one number; those of tables may be whole or not."""
    whole = what.whole and not what.columns
    number: Any = value
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        sort = "whole number" if whole else "number"
        raise InputError(f"{name} must be a {sort}, got {value!r:.40}", where=where)
    if not what.low <= number <= what.high:
        hint = f"take {what.low} to {what.high}"
        raise InputError(f"{name} is out of range: {value!r:.40}", where=where, hint=hint)


def unit_of(name: str) -> str:
    """Return the unit that a number's name ends with, or an empty text.

    Examples
    --------
    >>> unit_of("hbm_Bps"), unit_of("sms")
    ('B/s', '')
    """
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


class GivenNumbers(NamedTuple):
    """Values and sources of one section, inherited ones included.

    Attributes
    ----------
    values : dict of str to Any
        By name of the field.
    origins : dict of str to Provenance
        Of every number that is given.
    """

    values: dict[str, Any]
    origins: dict[str, Provenance]


@dataclass(frozen=True)
class DeviceFile:
    """A device as its file describes it.

    Attributes
    ----------
    name : str
    texts : dict of str to str
        Texts of the whole device.
    sections : dict of str to GivenNumbers
    root : DocumentNode
        The document, for errors.
    """

    name: str
    texts: dict[str, str]
    sections: dict[str, GivenNumbers]
    root: DocumentNode

    def make(self, section: str, schema: type[_Numbers], **others: Any) -> _Numbers:
        """Make the dataclass of a section.

        Parameters
        ----------
        section : str
        schema : type
            The dataclass, as when the file was read.
        **others
            Fields that are no quantities of this section.

        Raises
        ------
        InputError
            The section or one of its numbers is missing, or the numbers do not fit together.
        """
        hint = f"add it, or 'like' with the name of a device that has a section {section!r}"
        if section not in self.sections:
            raise self.root.error(f"section {section!r} is missing", hint)
        values, known = self.sections[section].values, quantities(schema)
        shared: dict[str, Any] = {}
        for name, what in known.items():
            if what.shared:
                other, _, number = what.shared.partition(".")
                found = self.sections[other].values if other in self.sections else {}
                if number in found:
                    in_ns = name.endswith("_ns") and number.endswith("_ps")
                    if in_ns and found[number] % 1000:
                        problem = f"{what.shared}: {found[number]} ps are no whole number of ns"
                        raise self.root.error(problem, f"{section} needs it: round it")
                    shared[name] = found[number] // 1000 if in_ns else found[number]
                elif what.required:
                    raise self.root.error(f"{what.shared} is missing, which {section} needs", "give it")
            elif what.required and name not in values:
                raise self._place(section).error(
                    f"{name!r} is missing", f"give it, or {hint.split(', or ')[1]}"
                )
        try:
            return schema(**values, **shared, **others)
        except InputError as error:
            raise self._place(section).error(error.what, error.hint) from None

    def _place(self, section: str) -> DocumentNode:
        return self.root.get(section) if self.root.has(section) else self.root


def is_file_name(name: str | Path) -> bool:
    """Return whether a device is given as a file: by the file's extension."""
    return isinstance(name, Path) or name.lower().endswith(_SUFFIXES)


@cache
def device_names(folder: str) -> tuple[str, ...]:
    """Return the names of the devices in a folder of this package, in alphabetical order."""
    return tuple(sorted(file.stem for file in (FOLDER / folder).glob("*.json")))


def device_file(folder: str, name: str) -> Path:
    """Return the file of a device of this package.

    Raises
    ------
    InputError
        There is none of this name.
    """
    if name not in device_names(folder):
        kind = {"gpus": "GPU"}.get(folder, folder.removesuffix("s"))
        hint = f"{near(name, device_names(folder))} (or give a file, as my-{kind.lower()}.yaml)"
        raise InputError(f"unknown {kind} {name[:40]!r}", hint=hint)
    return FOLDER / folder / f"{name}.json"


def read_device_file(
    path: str | Path,
    folder: str,
    sections: Mapping[str, type],
    texts: Mapping[str, tuple[str, ...]],
    advice: str = "",
) -> DeviceFile:
    """Read a device file.

    Parameters
    ----------
    path : str or Path
        JSON or YAML.
    folder : str
        Where devices that it may be like are: ``"gpus"``.
    sections : mapping of str to type
        The dataclass of each section that there may be.
    texts : mapping of str to tuple of str
        Texts of the whole device, with the words that each may be; the first is the default.
    advice : str
        A hint for a file of another format.

    Raises
    ------
    InputError
        It cannot be read; a key is unknown or given twice, a number is missing or out of range.
    """
    root = read_document(path, _MOST_FILE_BYTES)
    check_header(root, f"astranb-{folder.removesuffix('s')}", 1, advice)
    for key in root.value:
        if key not in (known := ("format", "version", "name", "like", *texts, *sections)):
            raise root.get(key).error(f"unknown key {key[:40]!r}", near(key[:40], known))
    name = root.get("name", Path(path).stem)
    checked_name(name.text(), name.source.where(name.place))
    like = None
    if root.has("like"):
        base = root.get("like")
        try:
            file = device_file(folder, base.text())
        except InputError as error:
            raise base.error(error.what, near(base.text(), device_names(folder))) from None
        like = read_device_file(file, folder, sections, texts)
    found: dict[str, GivenNumbers] = {}
    for section, schema in sections.items():
        values, origins = inherited_numbers(like, section) if like else ({}, {})
        if root.has(section):
            own = read_section(root.get(section), schema)
            values, origins = values | own.values, origins | own.origins
        if values or root.has(section):
            found[section] = GivenNumbers(values, origins)
    given = {
        key: root.get(key).choice(choices) if root.has(key) else like.texts[key] if like else choices[0]
        for key, choices in texts.items()
    }
    return DeviceFile(name.text(), given, found, root)


def inherited_numbers(like: DeviceFile, section: str) -> GivenNumbers:
    """Return the numbers of another device; sources of its own numbers name it."""
    if section not in like.sections:
        return GivenNumbers({}, {})
    values, origins = like.sections[section]
    own = like.root.value.get(section, {})
    named = {
        number: Provenance(one.kind, f"as {like.name}: {one.source}") if number in own else one
        for number, one in origins.items()
    }
    return GivenNumbers(values, named)


def read_section(node: DocumentNode, schema: type) -> GivenNumbers:
    """Read one section: an object with numbers.

    A number is an object with ``value``, ``kind`` and ``source``, or only the value; then it is assumed, and
    its source is the file.

    Raises
    ------
    InputError
        A number is unknown or out of range, its kind is unknown, or it has no source.
    """
    known = {name: what for name, what in quantities(schema).items() if not what.shared}
    values: dict[str, Any] = {}
    origins: dict[str, Provenance] = {}
    for name, what in known.items():
        if not node.has(name):
            node.get(name, None)  # reports a section that is not an object
            continue
        entry = node.get(name)
        if what.text:
            values[name] = entry.text()
            continue
        value, origins[name] = _entry(entry)
        values[name] = _value(value, name, what)
    for name in node.value:
        if name not in known:
            raise node.get(name).error(f"unknown number {name[:40]!r}", near(name[:40], known))
    return GivenNumbers(values, origins)


def _entry(entry: DocumentNode) -> tuple[DocumentNode, Provenance]:
    """Return the value of a number, and its origin."""
    if not entry.has("value"):
        return entry, Provenance("assumed", f"given in {Path(entry.file).name}")
    for key in entry.value:
        if key not in (parts := ("value", "kind", "source")):
            raise entry.get(key).error(f"unknown key {key[:40]!r}", near(key[:40], parts))
    source = entry.get("source")
    if not source.text().strip():
        raise source.error("the source is empty", "name the document or the measurement")
    return entry.get("value"), Provenance(entry.get("kind").choice(KINDS), source.text())


def _value(node: DocumentNode, name: str, what: Quantity) -> Any:
    if what.keys:
        node.get(what.keys[0], None)  # reports what is not an object
        for key in node.value:
            if key not in what.keys:
                raise node.get(key).error(f"unknown key {key[:40]!r}", near(key[:40], what.keys))
        return {key: _number(node.get(key), name, what) for key in what.keys if node.has(key)}
    if what.columns:
        rows = [row.items() for row in node.items()]
        for row, cells in zip(node.items(), rows, strict=True):
            if len(cells) != what.columns:
                raise row.error(f"{len(cells)} numbers instead of {what.columns}")
        return tuple(tuple(_cell(cell, what) for cell in row) for row in rows)
    return _number(node, name, what)


def _cell(node: DocumentNode, what: Quantity) -> float:
    """Read a number of a table; whole ones stay whole."""
    found = node.real(what.low, what.high)
    return int(found) if isinstance(node.value, int) else found


def _number(node: DocumentNode, name: str, what: Quantity) -> float:
    """Read one number; a text has a unit."""
    value = node.value
    if isinstance(value, str):
        node = DocumentNode(_with_unit(node, name), node.source, node.place)
    elif what.whole and isinstance(value, float) and value.is_integer():
        node = DocumentNode(int(value), node.source, node.place)  # 1e9
    if what.whole:
        return node.number(round(what.low), round(what.high))
    return node.real(what.low, what.high)


def _with_unit(node: DocumentNode, name: str) -> int | float:
    where = node.source.where(node.place)
    unit, text = unit_of(name), node.text()
    if unit == "ps":
        return time_ps(text, where=where)
    if unit == "ns":
        found = time_ps(text, where=where)
        return found // 1000 if found % 1000 == 0 else found / 1000
    if unit == "B/s":
        return bandwidth_Bps(text, where=where)
    if unit == "B":
        return size_bytes(text, where=where)
    raise node.error(f"a number is expected, not {node.brief}", f"in {unit}" if unit else "")


def check_header(root: DocumentNode, wanted: str, version: int, hint: str) -> None:
    """Check the format and version of a document; raise InputError if they are others."""
    found = root.get("format")
    if found.value != wanted:
        raise found.error(f"{wanted!r} is expected, not {found.brief}", hint)
    stated = root.get("version")
    if stated.number(0, 2**31) != version:
        raise stated.error(f"unknown version {stated.value}", f"this release reads version {version}")


def checked_name(word: str, where: str = "name") -> str:
    """Return the name of a device if it is short and usable as a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,59}", word, re.ASCII):
        hint = "use letters, digits, '-', '_' and '.'"
        raise InputError(f"{word[:40]!r} is not a valid name", where=where, hint=hint)
    return word


def write_device_file(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a device file as JSON, a line for each number; whole or not at all.

    Parameters
    ----------
    document : mapping
        As a file has it: texts and sections.
    path : str or Path
        Its name must end in ``.json``.

    Raises
    ------
    InputError
        The file cannot be written, or its name does not end in ``.json``.
    """
    file = Path(path)
    if form_of(file) != "json":
        raise InputError("the name of a device file ends in .json", where=str(path), hint=f"use {file}.json")
    with whole_file(file) as out:
        out.write("".join(_lines(document)).encode())


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    def members(inside: Mapping[str, Any], indent: int) -> Iterator[str]:
        for place, (key, value) in enumerate(inside.items()):
            comma = "," if place < len(inside) - 1 else ""
            if indent == 1 and isinstance(value, Mapping):
                yield f"{' ' * indent}{text(key)}: {{\n"
                yield from members(value, indent + 1)
                yield f"{' ' * indent}}}{comma}\n"
            else:
                yield f"{' ' * indent}{text(key)}: {text(value)}{comma}\n"

    yield "{\n"
    yield from members(document, 1)
    yield "}\n"
