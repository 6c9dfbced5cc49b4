"""Conditions as text: they mean what Python means, and can do nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.explore.sweeps.expressions import Expression, number_of

NAMES = {"tp": 8, "dp": 128, "step_ps": 2.5e9, "zero": 0}

_numbers = st.one_of(
    st.sampled_from(sorted(NAMES)), st.integers(0, 99).map(str), st.sampled_from(["0.5", "1e3"])
)
_expressions = st.recursive(
    _numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda three: f"({' '.join(three)})"
        ),
        st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">=", ">", "and", "or"]), inner).map(
            lambda three: f"({' '.join(three)})"
        ),
        inner.map("not {}".format).map("({})".format),
        st.tuples(inner, inner).map(lambda two: f"max({two[0]}, {two[1]})"),
    ),
    max_leaves=8,
)


@given(_expressions)
@settings(max_examples=60)
def test_an_expression_means_what_it_means_in_python(text: str) -> None:
    found: object
    try:
        meant: object = eval(text, {"max": max}, NAMES)
    except ZeroDivisionError:
        with pytest.raises(InputError, match=r"division|modulo"):
            Expression(text).value(NAMES)
        return
    found = Expression(text).value(NAMES)
    assert found == meant or bool(found) == bool(meant)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "().__class__", "tp ** 9 ** 9 ** 9", "[tp for tp in (1,)]",
        "lambda: 1", "tp if dp else 1", "open('x')", "tp := 3", "f'{tp}'", "max(*tp)", "1_000 << 9",
        "max(key=tp, default=1)", "tp @ dp", "", "tp ==", "1 +" * 400, "(" * 300, "x\0", "tp; dp", "None",
        "b'x'", "...",
    ],
)  # fmt: skip
def test_nothing_else_is_an_expression(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text).value(NAMES)


def test_units_make_numbers() -> None:
    values = {"memory": "80 GB", "rate": "1 TB/s", "time": "2 ms"}
    text = "memory <= 80 GB and memory > 79GB and rate == 1000 GB/s and time < 2001 us and memory == '80 GB'"
    assert Expression(text).value(values)
    assert number_of("400 Gbps") == 50e9


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(InputError, match=r"nothing is called 'step_p'; did you mean 'step_ps'\?"):
        Expression("step_p < 3").value(NAMES)


def test_text_and_numbers_do_not_compare() -> None:
    with pytest.raises(InputError, match="compare numbers with numbers"):
        Expression("gpu < 3").value({"gpu": "h100"})
    assert Expression("gpu == 'h100'").value({"gpu": "h100"})
