"""Both sides of the wire: what Python packs by is what the modules in the browser unpack by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astranb.widgets import assets
from astranb.widgets.feed import messages

PACKAGE = Path(messages.__file__).parents[1]
STATIC = PACKAGE / "static"


def test_every_column_has_a_type_that_both_sides_know() -> None:
    text = (STATIC / "messages.js").read_text("utf-8")
    types = dict(re.findall(r"\b([uif]\d): (\w+)Array\b", text))
    assert types == {
        "u1": "Uint8", "u2": "Uint16", "u4": "Uint32", "i4": "Int32", "f4": "Float32", "f8": "Float64",
    }  # fmt: skip
    assert {kind for columns in messages.COLUMNS.values() for kind in columns.values()} <= set(types)


def test_every_message_is_packed_in_python_and_read_in_the_browser() -> None:
    python = "\n".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    packed = set(re.findall(r'\bpack\(\s*"(\w+)"', python))
    # The scene's columns are those of the picture in it, and a page without a kernel packs for itself.
    assert packed | {"scene"} == set(messages.COLUMNS)
    assert messages.COLUMNS["scene"] == messages.COLUMNS["picture"]
    scripts = "\n".join(file.read_text("utf-8") for file in STATIC.glob("*.js"))
    unpacked = set(re.findall(r'\bunpack\("(\w+)"', scripts))
    ask = r"createAsker\(store, |createTracks\(store, theme, |store\.ask\(|patiently\("
    asked = set(re.findall(rf'(?:{ask})"(\w+)"', scripts))
    assert unpacked | (asked & set(messages.COLUMNS)) == set(messages.COLUMNS)


def test_a_column_that_is_not_described_is_refused() -> None:
    with pytest.raises(TypeError, match="no column speed"):
        messages.pack("ports", speed=[1])


def test_modules_that_are_joined_have_what_they_import() -> None:
    for text in (assets.ENTRY, assets.PAIR, assets.EDITOR, assets.PLAYER):
        assert not re.search(r'^(import|export) .* from "\./', text, re.MULTILINE)
    for name, text in assets.MODULES.items():
        imported = set(re.findall(r'^(?:import|export) \{.*\} from "\./(\w+)\.js";', text, re.MULTILINE))
        assert imported <= set(assets.MODULES), name
