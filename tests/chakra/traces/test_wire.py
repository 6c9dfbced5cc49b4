"""The kernels: as plain Python and compiled they find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra.traces import wire
from tests.chakra.support import framed


def walked(call: Any, raw: bytes, walks: int) -> tuple[int, list[Any]]:
    data = np.frombuffer(raw, np.uint8)
    starts, ends = np.array([0, len(raw) // 2]), np.array([len(raw) // 2, len(raw)])
    found = np.zeros(5 * (len(raw) + 1), np.int64)
    state = np.array([walks, 0, 0, 0, 0])
    count = int(call(data, starts, ends, found, state))
    return count, [found.tolist(), state.tolist()]


@given(st.binary(max_size=40), st.integers(0, 2))
def test_walk_is_the_same_compiled_or_not(raw: bytes, walks: int):
    assert walked(wire._WALK.function, raw, walks) == walked(wire._WALK, raw, walks)


@given(st.lists(st.binary(max_size=3), max_size=30))
def test_equal_bytes_have_equal_numbers(texts: list[bytes]):
    data = np.frombuffer(b"".join(texts) or b"x", np.uint8)
    ends = np.cumsum([len(text) for text in texts]).astype(np.int64)
    starts = ends - np.array([len(text) for text in texts], np.int64)
    which, first = wire.intern(data, starts, ends)
    order = list(dict.fromkeys(texts))
    assert which.tolist() == [order.index(text) for text in texts]
    assert first.tolist() == [texts.index(text) for text in order]
    table, plain, seen = np.full(64, -1), np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    wire._INTERN.function(data, starts, ends, table, plain, seen)
    assert plain.tolist() == which.tolist()


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=5))
def test_frames_hold_the_messages(messages: list[bytes]):
    raw = framed(*messages)
    found = wire.frames(np.frombuffer(raw, np.uint8), "f")
    assert [raw[start:end] for start, end in zip(found.value, found.end, strict=True)] == messages
