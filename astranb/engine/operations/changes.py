"""Fields that a person may change in a run of operations: words, units and limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from astranb.core.errors import InputError
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps
from astranb.engine.edits import yes_or_no

__all__ = ["CHANGEABLE", "SPEED", "checked_number", "read_value", "written"]

_LINK = {
    "bandwidth": ("rate_Bpns", "bytes/s", "above 0", "of one link"),
    "latency": ("latency_ns", "ps", "from 0", "of one link"),
}
SPEED: Final = ("speed", "", "above 0, or inf", "of its computations: 0.5 is half as fast")
CHANGEABLE: Final = {
    "rank": {"speed": SPEED},
    "dim": _LINK,
    "link": {
        **_LINK,
        "up": ("up", "", "yes or no", "no: messages wait until the link is up"),
        "outage": ("outage_ns", "ps", "from 0", "for so long from now on, messages wait"),
    },
}
"""Fields that a person may change: field, unit of a bare number, limits, meaning."""
_MOST_SPEED = 1e6


def read_value(field: str, value: float | str | bool, where: str) -> float:
    """Read a value in the unit of its field."""
    if field == "up":
        return yes_or_no(value, where)
    if isinstance(value, bool):
        raise InputError(f"{value!r} is not a value with a unit", where=where)
    if field == "speed":
        text = str(value).strip().removesuffix("x")
        if text == "inf":
            return math.inf
        if (
            not re.fullmatch(r"\d{1,9}(\.\d{1,17})?(e[+-]?\d)?", text)
            or not 1 / _MOST_SPEED <= float(text) <= _MOST_SPEED
        ):
            hint = "0.5 is half as fast, 2 twice, inf takes no time"
            raise InputError(f"a speed must be a number above 0, got {value!r}", where=where, hint=hint)
        return float(text)
    if isinstance(value, float):
        raise InputError(
            f"{value!r} is not a value with a unit", where=where, hint='write "25 GB/s" or "1 us"'
        )
    if field == "rate_Bpns":
        return bandwidth_Bps(value, where=where) / 1e9
    return time_ps(value, where=where) / 1000


def checked_number(field: str, number: float, where: str) -> float:
    """Check what a factor has made of a value, in the unit of its field.

    Raises
    ------
    InputError
        It is out of the range of the field.
    """
    least, most = {"speed": (1 / _MOST_SPEED, _MOST_SPEED), "rate_Bpns": (1e-9, 1e9)}.get(field, (0.0, 1e15))
    if not (least <= number <= most or (field == "speed" and number == math.inf)):
        raise InputError("the factor leads out of what is possible", where=where, hint="use one nearer to 1")
    return number


_WRITTEN: dict[str, Callable[[float], str]] = {
    "speed": lambda speed: f"{speed:g}",
    "rate_Bpns": lambda rate: format_bandwidth(rate * 1e9),
    "latency_ns": lambda ns: format_time(round(ns * 1000)),
    "outage_ns": lambda ns: format_time(round(ns * 1000)),
    "up": lambda up: "yes" if up else "no",
}


def written(field: str, number: float) -> str:
    """Write a number in the unit of its field for a person."""
    return _WRITTEN[field](number)
