import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.core.units import (
    bandwidth_Bps,
    format_bandwidth,
    format_bytes,
    format_time,
    quantity,
    size_bytes,
    time_ps,
)


@pytest.mark.parametrize(
    "text,expected",
    [
        ("1 MiB", 2**20),
        ("1MB", 10**6),
        ("4096", 4096),
        (4096, 4096),
        ("1.5 KiB", 1536),
        ("0", 0),
        ("2e3 B", 2000),
    ],
)
def test_sizes(text, expected):
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    "text,expected", [("500 ns", 500_000), ("1.5us", 1_500_000), ("2 µs", 2_000_000), (7, 7)]
)
def test_times(text, expected):
    assert time_ps(text) == expected


@pytest.mark.parametrize(
    "text,expected",
    [("50 GB/s", 50 * 10**9), ("400 Gbps", 50 * 10**9), ("1 GiB/s", 2**30), ("112.5 GBps", 112_500_000_000)],
)
def test_bandwidths(text, expected):
    assert bandwidth_Bps(text) == expected


@pytest.mark.parametrize(
    "text,says",
    [
        ("1 M", "ambiguous"),
        ("1 Mb", "MB"),
        ("-1 KiB", "negative"),
        ("1.5 B", "whole number"),
        ("1 parsec", "unknown size unit"),
        ("", "cannot read"),
        ("1 MiB MiB", "unknown size unit"),
        ("1e400 B", "larger"),
        ("nan", "cannot read"),
        (1.5, "whole number or text"),
        (True, "whole number or text"),
        (None, "whole number or text"),
    ],
)
def test_bad_sizes_are_one_line(text, says):
    with pytest.raises(InputError, match=says) as caught:
        size_bytes(text, where="--size")
    assert str(caught.value).startswith("--size: ")
    assert "\n" not in str(caught.value)


def test_times_and_bandwidths_need_a_unit():
    with pytest.raises(InputError, match="no unit"):
        time_ps("5")
    with pytest.raises(InputError, match="no unit"):
        bandwidth_Bps("5")
    with pytest.raises(InputError, match="positive"):
        bandwidth_Bps("0 GB/s")


@given(st.integers(0, 2**62))
def test_a_printed_size_reads_back(n):
    assert size_bytes(format_bytes(n).replace(",", "")) == n


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_one_line(text):
    try:
        size = size_bytes(text)
    except InputError as error:
        said = str(error)
    else:
        assert size >= 0
        said = ""
    assert "\n" not in said


def test_formats():
    assert format_time(25_099_602) == "25.1 µs"
    assert format_bandwidth(3.35e12) == "3350 GB/s"


@given(number=st.floats(0.001, 1e6), unit=st.sampled_from(["Gbps", "GBps", "GB/s"]))
def test_a_number_of_a_unit_is_what_its_text_is(number, unit):
    assert quantity("bandwidth", number, unit) == bandwidth_Bps(f"{number!r} {unit}")


@pytest.mark.parametrize(
    "kind,number,unit,said",
    [
        ("time", float("inf"), "ns", "time 'inf ns' is out of range"),
        ("time", float("nan"), "ns", "time 'nan ns' is out of range"),
        ("time", 0.0001, "ns", "not a whole number of picoseconds"),
        ("time", -1, "ns", "time must not be negative"),
        ("bandwidth", 0, "GBps", "bandwidth must be positive"),
        ("bandwidth", 1e11, "GBps", r"larger than 2\*\*63 - 1"),
    ],
)
def test_numbers_of_a_unit_out_of_range(kind, number, unit, said):
    with pytest.raises(InputError, match=said):
        quantity(kind, number, unit)
