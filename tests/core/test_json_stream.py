"""A list in a JSON text, element by element: whatever the blocks, and wherever it ends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError, TruncatedFile
from astranb.core.json_stream import JsonStream

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.integers(1, 9),
    st.booleans(),
    st.data(),
)
def test_elements_are_those_of_the_whole_text(elements, members, size, escaped, data):
    text = json.dumps({**members, "events": elements}, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    stream = JsonStream(blocks, "t.json", "events")
    assert list(stream) == elements
    assert stream.members == {name: one for name, one in members.items() if name != "events"}
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(InputError, match=r"t\.json: byte \d+: "):
        list(JsonStream([text[:cut]], "t.json", "events"))


def test_a_number_that_a_block_cuts_is_whole():
    stream = JsonStream([b'{"a": 1', b".", b"5e", b'1, "events": [2.', b"5, -", b"0.5]}"], "t.json", "events")
    assert list(stream) == [2.5, -0.5]
    assert stream.members == {"a": 15.0}


@pytest.mark.parametrize(
    "text, said",
    [
        (b'{"events": [1, 2', "byte 16: the list ends after 2 elements; is the file cut off"),
        (b'{"events": [1, {"a": "b', "element 1 is not JSON .Unterminated string"),
        (
            b'{"events": [1, {"a": tru, 3]}',
            "byte 21: element 1 is not JSON .Expecting value.; is it the right",
        ),
        (b'{"events": [' + b"[" * 100_000, "element 0 is nested too deep"),
        (b'{"events": [' + b"9" * 9000 + b"]}", "element 0: Exceeds the limit"),
        (b'{"events" 7}', "no ':' follows a name"),
        (b"[1] 2", "more text follows"),
        (b'{"a": "\xff"}', "not JSON: invalid start byte; save the file as UTF-8"),
        (b"", "empty"),
        (b"traces", "neither an object nor a list"),
    ],
)
def test_what_is_wrong_is_said_with_its_byte(text: bytes, said: str):
    with pytest.raises(InputError, match=said) as caught:
        list(JsonStream([text], "t.json", "events"))
    assert isinstance(caught.value, TruncatedFile) == ("cut off" in str(caught.value))


def test_a_value_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("astranb.core.json_stream.MOST_VALUE", 1000)
    endless = (b'{"events": ["' if n == 0 else b"x" * 5000 for n in range(10**9))
    with pytest.raises(InputError, match="element 0 is larger than"):
        list(JsonStream(endless, "t.json", "events"))
