"""Documents of other people: numbers as their programs read them, errors with their place."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.document import parse_document, read_document
from astranb.core.errors import InputError


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["e", "E"]))
def test_yaml_reads_every_way_to_write_a_number(value, sign):
    for text in (repr(value), f"{value:.17e}".replace("e", sign), f"{value:.16e}".replace("e+", "e")):
        found = parse_document(f"bandwidth: [{text}]", "net.yml").get("bandwidth").value
        assert found == [pytest.approx(value, rel=1e-15)]


@pytest.mark.parametrize("text", ["1e9x", "e9", "1e", "0x1e+2y", "1 e9", "'1e9'"])
def test_yaml_reads_words_as_words(text):
    assert isinstance(parse_document(text, "a.yml").value, str)


def test_yaml_keys_are_strings_as_in_json():
    assert parse_document("{3: a, yes: b, 1.5: c}", "a.yml").value == {"3": "a", "yes": "b", "1.5": "c"}


@pytest.mark.parametrize(
    "form, data, message",
    [
        ("yaml", b"a: [1\nb: 2", r"net:2: not YAML: "),
        ("yaml", b"a: \xff", r"net: not YAML: byte 3 is not UTF-8; "),
        ("yaml", b"[" * 100_000, r"net:1: nested deeper than 100; "),
        ("yaml", b"!!python/object:os.system x", r"net:1: tag .* is not plain data; "),
        ("yaml", b"a: 1\nb: 2\na: 3", r"net:3: duplicate key 'a'; keep one"),
        ("yaml", b"a: &x [1, 2]\n? [b]\n: 3", r"net:2: a list or mapping as a key; "),
        ("yaml", b"a: 1\n---\nb: 2", r"net: holds more than one document; "),
        ("json", b'{"a": 1,}', r"net:1: not JSON: "),
        ("json", b"[" * 100_000, r"net: not JSON: nested too deep"),
        ("json", b"\xff\xfe", r"net: not JSON: byte 0 is not UTF-8; "),
        ("json", b'{"a": 1,\n "b": {"c": 1,\n "c": 2}}', r"net:3: duplicate key 'c'; keep one"),
        ("json", b'{"a": NaN}', r"net: not JSON: NaN is not a number"),
    ],
)
def test_what_is_no_document_is_said_in_one_line(form, data, message):
    with pytest.raises(InputError, match=message) as failed:
        parse_document(data, "net", form)
    assert "\n" not in str(failed.value)


def test_aliases_count_as_what_they_stand_for():
    laughs = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"{name}: &{name} [{', '.join(['*' + of] * 10)}]" for of, name in pairwise("abcdefgh")]
    with pytest.raises(InputError, match=r"net:\d: more than 5,000,000 values, with aliases expanded"):
        parse_document("\n".join(laughs), "net")


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_an_error_names_line_and_place(form):
    text = '{"dims": [\n  {"kind": "ring"},\n  {"kind": 3}\n]}'
    second = parse_document(text, "net", form).get("dims").items()[1]
    with pytest.raises(InputError, match=r"^net:3, dims\[1\].kind: a string is expected, not 3$"):
        second.get("kind").text()
    with pytest.raises(InputError, match=r"^net:3, dims\[1\]: 'size' is missing; give it$"):
        second.get("size")


def test_what_programs_write_may_hold_duplicates_and_nan():
    text = '{"a": 1, "a": NaN}'
    assert parse_document(text, "trace.json", "json", strict=False).get("a").value != 1


def test_a_file_that_cannot_be_read_is_said_in_one_line(tmp_path):
    (tmp_path / "system.json").write_text(json.dumps({}))
    with pytest.raises(InputError, match=r"sytem.json: No such file .*; did you mean 'system.json'"):
        read_document(tmp_path / "sytem.json")
    with pytest.raises(InputError, match="this is a folder; name the file in it"):
        read_document(tmp_path)
    with pytest.raises(InputError, match=r"larger than 0 MiB; is it the right file"):
        read_document(tmp_path / "system.json", 1)
    with pytest.raises(InputError, match="null byte"):
        read_document("a\0b.json")


def test_halves_of_surrogate_pairs_are_replaced():
    """A program cut from a longer text can hold halves, which can neither be printed nor written."""
    text = '{"a\\ud800": ["x\\uDFFF", {"k\\udc00": "\\ud83d\\ude00"}], "b": "plain"}'
    value = {"a\ufffd": ["x\ufffd", {"k\ufffd": "\U0001f600"}], "b": "plain"}
    assert parse_document(text, "names.json", "json").value == value
    assert parse_document(text, "names.json", "json", strict=False).value == value
    assert parse_document("a: \ud800", "text").value == {"a": "\ufffd"}
    assert parse_document('{"a": "\ud800"}', "text", "json").value == {"a": "\ufffd"}
    with pytest.raises(InputError, match=r"names\.yml:1: not YAML: "):
        parse_document('a: "\\ud800"', "names.yml")
