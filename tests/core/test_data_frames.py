"""Tables as frames."""

from __future__ import annotations

import pytest

from astranb.core.data_frames import frame
from astranb.core.errors import InputError

ROWS = [{"path": "a", "end_ps": 1_500, "wait_ns": 3, "end_ps_difference": -500, "why_ps": "text"}]


@pytest.mark.parametrize(
    "time, expected",
    [
        (None, ROWS[0]),
        ("ps", {"path": "a", "end_ps": 1_500, "wait_ps": 3_000, "end_ps_difference": -500, "why_ps": "text"}),
        ("ns", {"path": "a", "end_ns": 1.5, "wait_ns": 3, "end_ns_difference": -0.5, "why_ps": "text"}),
    ],
)
def test_times_are_in_the_unit_that_is_asked_for(time, expected):
    assert frame(ROWS, time).to_dict("records") == [expected]


def test_columns_by_name_are_read_too():
    assert frame({"end_ps": [2_000_000]}, "us").to_dict("list") == {"end_us": [2.0]}


def test_an_unknown_unit_has_a_hint():
    with pytest.raises(InputError, match=r"unknown unit of time 'usec'.*did you mean 'us'"):
        frame(ROWS, "usec")
