"""Read and print sizes, times and bandwidths: strict, always with a unit.

A maintained units library was considered (``pint``): it costs 0.3 s of import time
and reads ``"1 m"`` as a metre. Here the units are in three closed tables; what is not in
them, or is ambiguous, is an error.
"""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .errors import InputError, near
from .lazy import no_attribute

__all__ = [
    "GB",
    "MB",
    "PS_PER_S",
    "TB",
    "Gbps",
    "GiB",
    "KiB",
    "MiB",
    "TiB",
    "bandwidth_Bps",
    "format_bandwidth",
    "format_bytes",
    "format_time",
    "kB",
    "ms",
    "ns",
    "quantity",
    "s",
    "size_bytes",
    "time_ps",
    "us",
]

PS_PER_S = 10**12

# Units in numbers: `sim.goto(20 * us)`, `result.time_ps / us`, `Gpu(memory_bytes=80 * GB)`; rates are bytes a
# second, `result.busbw_Bps / GB` in GB/s, `/ Gbps` in Gbit/s.
ns, us, ms, s = 10**3, 10**6, 10**9, PS_PER_S
kB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12  # noqa: N816 - units as they are written
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40
Gbps = GB // 8

if not TYPE_CHECKING:  # mypy knows the names

    def __getattr__(name: str) -> Any:
        raise no_attribute("astranb.units", name, __all__)


_INT64_MAX = 2**63 - 1

_SIZE = MappingProxyType(
    {
        "B": 1,
        "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
        "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
    }
)  # fmt: skip
_TIME = MappingProxyType(
    {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "μs": 10**6, "ms": 10**9, "s": 10**12}
)
_RATE = MappingProxyType(
    {
        **{f"{unit}/s": Decimal(scale) for unit, scale in _SIZE.items()},
        **{f"{p}Bps": Decimal(s) for p, s in (("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))},
        **{f"{p}bps": Decimal(s) / 8 for p, s in (("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))},
        **{f"{p}b/s": Decimal(s) / 8 for p, s in (("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))},
        **{f"{p}bit/s": Decimal(s) / 8 for p, s in (("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))},
    }
)  # fmt: skip

_UNITS = MappingProxyType(
    {
        "size": {unit: Decimal(scale) for unit, scale in _SIZE.items()},
        "time": {unit: Decimal(scale) for unit, scale in _TIME.items()},
        "bandwidth": dict(_RATE),
    }
)

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d].*?)?\s*\Z")


def size_bytes(value: int | str, *, where: str = "size") -> int:
    """Read a size in bytes.

    Parameters
    ----------
    value : int or str
        A plain int is bytes; text is a number and one of ``B, kB, MB, GB, TB, PB``
        (powers of 1000) or ``KiB, MiB, GiB, TiB, PiB`` (powers of 1024). A number in text
        without a unit is bytes.
    where : str
        What the value belongs to, for the error line.

    Returns
    -------
    int
        Bytes, at least 0.

    Raises
    ------
    InputError
        Negative, not a whole number of bytes, an unknown or ambiguous unit
        (``"1 M"``, ``"1 Mb"``), or more than 2**63 - 1.

    Examples
    --------
    >>> size_bytes("1 MiB"), size_bytes("1MB"), size_bytes(4096)
    (1048576, 1000000, 4096)
    """
    return _read(value, "size", where, bare="B")


def time_ps(value: int | str, *, where: str = "time") -> int:
    """Read a time as whole picoseconds.

    Parameters
    ----------
    value : int or str
        A plain int is picoseconds; text needs a unit: ``ps, ns, us, ms, s``.
    where : str
        What the value belongs to, for the error line.

    Returns
    -------
    int
        Picoseconds, at least 0.

    Raises
    ------
    InputError
        Negative, not a whole number of picoseconds, or an unknown unit.

    Examples
    --------
    >>> time_ps("500 ns"), time_ps("1.5us")
    (500000, 1500000)
    """
    return _read(value, "time", where, bare=None)


def bandwidth_Bps(value: int | str, *, where: str = "bandwidth") -> int:  # noqa: N802 - unit in the name
    """Read a bandwidth in bytes a second.

    Parameters
    ----------
    value : int or str
        A plain int is bytes a second; text needs a unit: ``GB/s``, ``GiB/s``,
        ``GBps`` are bytes, ``Gbps``, ``Gb/s``, ``Gbit/s`` are bits.
    where : str
        What the value belongs to, for the error line.

    Returns
    -------
    int
        Bytes a second, at least 1.

    Raises
    ------
    InputError
        Zero or negative, or an unknown unit.

    Examples
    --------
    >>> bandwidth_Bps("50 GB/s"), bandwidth_Bps("400 Gbps")
    (50000000000, 50000000000)
    """
    rate = _read(value, "bandwidth", where, bare=None)
    if rate < 1:
        raise InputError(f"bandwidth must be positive, got {value!r}", where=where)
    return rate


def quantity(kind: str, number: float, unit: str, *, where: str = "") -> int:
    """Convert a number of a unit, as documents of other standards have it: exactly, without a text.

    Parameters
    ----------
    kind : str
        ``"size"``, ``"time"`` or ``"bandwidth"``.
    number : int or float
    unit : str
        As in text: ``"GBps"``, ``"ns"``.
    where : str
        What the value belongs to, for the error line.

    Returns
    -------
    int
        Bytes, ps or bytes a second.

    Raises
    ------
    InputError
        As of :func:`size_bytes`, :func:`time_ps` and :func:`bandwidth_Bps`.

    Examples
    --------
    >>> quantity("bandwidth", 0.3, "GBps"), quantity("time", 1.5, "ns")
    (300000000, 1500)
    """
    shown = f"{number!r} {unit}"
    exact = Decimal(repr(number))
    if not exact.is_finite():
        raise InputError(f"{kind} {shown!r} is out of range", where=where)
    found = _whole(exact, _UNITS[kind][unit], shown, kind, where)
    if kind == "bandwidth" and found < 1:
        raise InputError(f"bandwidth must be positive, got {shown!r}", where=where)
    return found


def format_bytes(n: int) -> str:
    """Print a size exactly: the largest binary unit that divides it, else bytes with separators.

    Examples
    --------
    >>> format_bytes(1048576), format_bytes(1000)
    ('1 MiB', '1,000 B')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if n and n % _SIZE[unit] == 0:
            return f"{n // _SIZE[unit]:,} {unit}"
    return f"{n:,} B"


def format_time(ps: int) -> str:
    """Print a time with four significant digits and the unit that fits.

    Examples
    --------
    >>> format_time(1_234_567), format_time(0), format_time(999)
    ('1.235 µs', '0 ps', '999 ps')
    """
    for unit in ("s", "ms", "µs", "ns"):
        if abs(ps) >= _TIME[unit]:
            return (
                f"{ps / _TIME[unit]:,.4g} {unit}"
                if abs(ps) < 1000 * _TIME[unit]
                else f"{ps / _TIME[unit]:,.0f} {unit}"
            )
    return f"{ps} ps"


def format_bandwidth(rate_Bps: float) -> str:  # noqa: N803 - unit in the name
    """Print a bandwidth in units of 10**9 bytes a second (or smaller).

    Examples
    --------
    >>> format_bandwidth(450e9), format_bandwidth(12.5e6)
    ('450 GB/s', '12.5 MB/s')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if rate_Bps >= _SIZE[unit] and (unit != "TB" or rate_Bps >= 10 * _SIZE["TB"]):
            return f"{rate_Bps / _SIZE[unit]:.4g} {unit}/s"
    return f"{rate_Bps:.4g} B/s"


def _read(value: int | str, kind: str, where: str, *, bare: str | None) -> int:
    """Read one quantity against the closed table of its units."""
    table = _UNITS[kind]
    if isinstance(value, bool) or not isinstance(value, Integral | str):
        raise InputError(
            f"a {kind} is a whole number or text with a unit, got {value!r}",
            where=where,
            hint=f"write for example {_example(kind)!r}",
        )
    if isinstance(value, Integral):
        number, unit = Decimal(int(value)), None
        scale = Decimal(1)
    else:
        match = _QUANTITY.match(value)
        if match is None:
            raise InputError(
                f"cannot read {kind} {value!r}", where=where, hint=f"write for example {_example(kind)!r}"
            )
        try:
            number, unit = Decimal(match[1]), match[2]
        except ArithmeticError as error:
            raise InputError(f"{kind} {value!r} is out of range", where=where) from error
        if unit is None and bare is None and number != 0:
            raise InputError(
                f"{kind} {value!r} has no unit", where=where, hint=f"write for example {_example(kind)!r}"
            )
        if unit is not None and unit not in table:
            raise InputError(
                f"unknown {kind} unit {unit!r} in {value!r}", where=where, hint=_hint(unit, table)
            )
        scale = table[unit] if unit is not None else Decimal(1)
    return _whole(number, scale, value, kind, where)


def _whole(number: Decimal, scale: Decimal, value: object, kind: str, where: str) -> int:
    """Multiply exactly; what is not whole is an error, but of a bandwidth cut off."""
    try:
        exact = number * scale
    except ArithmeticError as error:
        raise InputError(f"{kind} {value!r} is out of range", where=where) from error
    if exact < 0:
        raise InputError(f"{kind} must not be negative, got {value!r}", where=where)
    if exact > _INT64_MAX:
        raise InputError(f"{kind} {value!r} is larger than 2**63 - 1", where=where, hint="use a smaller one")
    if kind != "bandwidth" and exact != exact.to_integral_value():
        small = {"size": "bytes", "time": "picoseconds"}[kind]
        raise InputError(f"{value!r} is not a whole number of {small}", where=where)
    return int(exact)


def _example(kind: str) -> str:
    return {"size": "1 MiB", "time": "500 ns", "bandwidth": "50 GB/s"}[kind]


def _hint(unit: str, table: dict[str, Decimal]) -> str:
    """Name what an unknown unit could have meant; two readings are never chosen between."""
    letter = unit[0].upper()
    if unit.upper() in {"K", "M", "G", "T"}:
        return f"ambiguous: write {letter if letter != 'K' else 'k'}B (1000s) or {letter}iB (1024s)"
    same = [u for u in table if u.lower() == unit.lower()]
    if same:
        return "write " + " or ".join(same)
    return near(unit, table)
