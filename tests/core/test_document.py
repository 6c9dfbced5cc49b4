"""Documents of other people: numbers as their programs read them, errors with their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.document import json_document, yaml_document
from astranb.core.errors import InputError


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["e", "E"]))
def test_yaml_reads_every_way_to_write_a_number(value, sign):
    for text in (repr(value), f"{value:.17e}".replace("e", sign), f"{value:.16e}".replace("e+", "e")):
        found = yaml_document("net.yml", f"bandwidth: [{text}]".encode()).get("bandwidth").value
        assert found == [pytest.approx(value, rel=1e-15)]


@pytest.mark.parametrize("text", ["1e9x", "e9", "1e", "0x1e+2y", "1 e9", "'1e9'"])
def test_yaml_reads_words_as_words(text):
    assert isinstance(yaml_document("a.yml", text.encode()).value, str)


@pytest.mark.parametrize(
    "read, data, message",
    [
        (yaml_document, b"a: [1\nb: 2", r"net: line 2: no YAML: "),
        (yaml_document, b"a: \xff", r"net: no YAML: "),
        (yaml_document, b"[" * 100_000, r"net: nested deeper than 100; "),
        (yaml_document, b"!!python/object:os.system x", r"net: line 1: no YAML: "),
        (json_document, b'{"a": 1,}', r"net: line 1: no JSON: "),
        (json_document, b"[" * 100_000, r"net: no JSON: "),
    ],
)
def test_what_is_no_document_is_said_in_one_line(read, data, message):
    with pytest.raises(InputError, match=message) as failed:
        read("net", data)
    assert "\n" not in str(failed.value)
