from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.ticks import MAX_RATE_BPS, transfer_ps


@given(st.integers(0, 2**40), st.integers(1, MAX_RATE_BPS))
def test_it_is_the_exact_ceiling(size, rate):
    if Fraction(size, rate) * 10**12 < 2**62:
        assert transfer_ps(size, rate) == ceil(Fraction(size, rate) * 10**12)


@pytest.mark.parametrize(
    "size,rate", [(1, 25 * 10**9), (2**40, 25 * 10**9), (2**40, MAX_RATE_BPS), (9_000_001, 3 * 10**12)]
)
def test_one_byte_and_one_tebibyte(size, rate):
    assert transfer_ps(size, rate) == -(-size * 10**12 // rate)
