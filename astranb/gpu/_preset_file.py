"""Presets in files: a GPU of one's own, wherever the name of a shipped one can stand."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from astranb.core.document import Node, read_document
from astranb.core.errors import InputError, near
from astranb.core.files import whole_file

from ._preset import Preset

__all__ = ["FORMAT", "NUMBERS", "VERSION", "checked_name", "read_preset", "write_preset"]

FORMAT, VERSION = "astranb-gpu-preset", 1

NUMBERS = {f.name: f.default is dataclasses.MISSING for f in dataclasses.fields(Preset) if f.type == "int"}
"""The numbers of a preset, and whether a file must give them."""

_MOST = (("_ps", 10**12), ("_Bps", 10**16), ("_bytes", 2**50), ("max_payload", 2**30))
_MOST_COUNT = 10**6
_KEYS = ("format", "version", "name", "sm_word", "numbers", "sources")


def write_preset(preset: Preset, path: str | Path) -> None:
    """Write a preset to a file, whole or not at all.

    Parameters
    ----------
    preset : Preset
    path : str or Path
        Where to; a name that ends in ``.json`` can be given as a preset afterwards.

    Raises
    ------
    InputError
        It cannot be written there, or the name does not end in ``.json``.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.gpu import preset
    >>> file = Path(tempfile.mkdtemp()) / "few.json"
    >>> write_preset(preset("h100-sxm").but(sms=66), file)
    >>> preset(file).sms
    66
    """
    file = Path(path)
    if file.suffix.lower() != ".json":
        raise InputError("a preset's file ends in .json", where=str(path), hint=f"take {file}.json")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": preset.name,
        "sm_word": preset.sm_word,
        "numbers": {name: getattr(preset, name) for name in NUMBERS},
        "sources": preset.sources,
    }
    with whole_file(file) as out:
        out.write((json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def read_preset(path: str | Path) -> Preset:
    """Read a preset from a file that :func:`write_preset` or a person has written.

    Raises
    ------
    InputError
        The file is missing or no preset: what, where, how to fix it.
    """
    return preset_of(read_document(path, form="json"))


def preset_of(root: Node) -> Preset:
    """A preset from its document."""
    check_header(root, FORMAT, VERSION, "is it a measurement? `astranb gpu from` makes a preset of one")
    for key in root.value:
        if key not in _KEYS:
            raise root.get(key).error(f"unknown {key[:40]!r}", near(key[:40], _KEYS))
    numbers = root.get("numbers")
    numbers.get("sms")  # an object?
    for name in numbers.value:
        if name not in NUMBERS:
            raise numbers.get(name).error(f"a GPU has no number {name[:40]!r}", near(name[:40], NUMBERS))
    given = {
        name: numbers.get(name).number(0, _most(name))
        for name, must in NUMBERS.items()
        if must or numbers.has(name)
    }
    told = root.get("sources", {})
    if not isinstance(told.value, dict):
        raise told.error("an object is expected", "give a source for each number")
    sources = {name: told.get(name).text() for name in told.value if name in NUMBERS}
    said = {name: sources.get(name) or f"given in {Path(root.file).name}" for name in NUMBERS}
    name = checked_name(root.get("name").text(), f"{root.file}: name")
    word = root.get("sm_word", "SM").choice(("SM", "CU"))
    try:
        return Preset(name=name, sm_word=word, sources=said, **given)
    except InputError as error:
        raise InputError(error.what, where=f"{root.file}: numbers", hint=error.hint) from None


def check_header(root: Node, wanted: str, version: int, hint: str) -> None:
    """Refuse a document of another format or version."""
    found = root.get("format")
    if found.value != wanted:
        raise found.error(f"{wanted!r} is expected, not {found.brief}", hint)
    there = root.get("version")
    if there.number(0, 2**31) != version:
        raise there.error(f"version {there.value} is not known", f"this release reads version {version}")


def checked_name(word: str, where: str = "name") -> str:
    """A preset's name: short, fit for a file's name."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,59}", word, re.ASCII):
        hint = "take letters, digits, '-', '_' and '.'"
        raise InputError(f"{word[:40]!r} is no name for a GPU", where=where, hint=hint)
    return word


def _most(name: str) -> int:
    return next((most for ending, most in _MOST if name.endswith(ending)), _MOST_COUNT)
