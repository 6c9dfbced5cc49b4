"""Numbers in lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.text_lines import text_lines

if TYPE_CHECKING:
    import pytest


@given(st.lists(st.tuples(st.integers(0, 2), *[st.integers(-(2**63) + 1, 2**63 - 1)] * 3), max_size=20))
def test_lines_are_what_formatting_each_gives(rows: list[tuple[int, int, int, int]]) -> None:
    templates = ["{0}", "{2} and {1}\n", "é {0}{1}{2} {0} end"]
    table = np.array(rows, np.int64).reshape(-1, 4)
    expected = "".join(templates[which].format(*numbers) for which, *numbers in rows)
    assert text_lines(templates, table[:, 0], table[:, 1:]).decode() == expected


def test_many_lines_are_written_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.core.text_lines._BLOCK", 3)
    assert text_lines(["{0},"], np.zeros(8, int), np.arange(8).reshape(-1, 1)) == b"0,1,2,3,4,5,6,7,"
