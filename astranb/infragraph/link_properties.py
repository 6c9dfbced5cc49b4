"""Properties of links, each declared once.

What an annotation may say, the units of a document, the columns of `NodeGraph`'s edges and of
``net.link.LINK``, what can be changed in a run, the inspector's rows and the columns of the table of links
all follow from `LINK_PROPERTIES`. To add one, see docs/contributing/link_property.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.ticks import MAX_RATE_BPS
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, quantity, time_ps

from .plan import NodeKind

__all__ = [
    "BANDWIDTH",
    "LATEST_PS",
    "LINK_COLUMNS",
    "LINK_PROPERTIES",
    "LinkProperty",
    "Rate",
    "count",
    "pcie_Bps",
    "plain",
]

LATEST_PS: Final = 2**61 - 1
"""Longest time that a run can have, and so a link: 26 days."""

_TRANSFERS = re.compile(r"\s*([0-9.eE+-]+)\s*GT/s\s*\Z")


@dataclass(frozen=True, slots=True)
class Rate:
    """A bandwidth as written: bytes per second, or transfers per second of one PCIe lane."""

    Bps: int
    transfers: Decimal | None = None

    def of_width(self, width: int) -> int:
        """Return bytes per second; a rate in GT/s is that of ``width`` lanes.

        Raises
        ------
        InputError
            So many lanes carry more than a link may.
        """
        if self.transfers is None:
            return self.Bps
        found = pcie_Bps(self.transfers, width)
        if found > MAX_RATE_BPS:
            what = f"bandwidth of {width:,} lanes of {self.transfers} GT/s is out of range"
            raise InputError(
                what, where="link", hint=f"write at most {format_bandwidth(MAX_RATE_BPS)} in all"
            )
        return found


def pcie_Bps(gigatransfers: Decimal, width: int) -> int:  # noqa: N802 - unit in the name
    """Bytes per second that a PCIe link carries in one direction.

    The encoding is 8b/10b up to 5 GT/s (PCIe 1 and 2), 242 of 256 B from 64 GT/s (PCIe 6), and
    128b/130b between them.

    Examples
    --------
    >>> pcie_Bps(Decimal(32), 16)
    63015384615
    """
    if gigatransfers <= 5:
        encoding = Decimal(8) / 10
    else:
        encoding = Decimal(242) / 256 if gigatransfers >= 64 else Decimal(128) / 130
    return int(gigatransfers * 10**9 * encoding * width / 8)


def plain(value: object) -> Any:
    """Convert a whole number that is given as text, as annotation values are upstream."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value


def count(value: object, where: str, least: int = 0) -> int:
    """Read a whole number from ``least`` on."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**31:
        raise InputError(f"{value!r} is not a whole number of at least {least}", where=where)
    return number


def _rate(value: Any, where: str) -> Rate:
    """Read ``"400 Gbps"``, ``"112.5 GBps"``, ``"32 GT/s"`` or a whole number of bytes per second."""
    if isinstance(value, str) and (match := _TRANSFERS.match(value)):
        # The units module reads the number, so that it is as strict as with every other unit.
        return Rate(0, Decimal(bandwidth_Bps(f"{match[1]} GB/s", where=where)) / 10**9)
    return Rate(bandwidth_Bps(value, where=where))


def _gigabits(number: float, where: str) -> Rate:
    return Rate(quantity("bandwidth", number, "Gbps", where=where))


def _gigabytes(number: float, where: str) -> Rate:
    return Rate(quantity("bandwidth", number, "GBps", where=where))


def _gigatransfers(number: float, where: str) -> Rate:
    return Rate(0, Decimal(quantity("bandwidth", number, "GB/s", where=where)) / 10**9)


def _gap(value: object, where: str) -> int:
    """Read messages per second, ``215e6`` or ``"215e6"``, as picoseconds between two of them."""
    try:
        rate = Decimal(str(value)) if not isinstance(value, bool) else Decimal(0)
    except InvalidOperation:
        rate = Decimal(0)
    if not rate.is_finite() or not 1 <= rate <= 10**12:
        raise InputError(f"{value!r} is not a number of messages per second", where=where, hint="write 215e6")
    return int((10**12 / rate).to_integral_value(ROUND_CEILING))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProperty:
    """One property of links.

    Attributes
    ----------
    name : str
        Of the annotation ``astranb.NAME``, in link types, and of the path ``A->B.NAME`` in a run.
    column : str
        In tables, with its unit at the end.
    meaning : str
    read : callable
        Reads what a person writes, as a number of the column: of a value and of a place for its error.
    read_annotation : callable, optional
        The same of an annotation, where that has more forms.
    text : callable
        Writes a number of the column.
    of_type, where : str
        Behind the value of a link type, and behind the name of the link, where it is listed as assumed.
    limits : str
        Words for ``least`` and ``most``, the numbers of the column that are allowed.
    default : int
        Of links without a value, whose type has none either.
    unit : str
        Of a bare number.
    label : str
        In the inspector; "" : not there. A link whose value is ``hidden`` has no row.
    directed : bool
        ``astranb.NAME_fwd`` and ``astranb.NAME_rev`` are the two directions.
    summed : bool
        A link with several lanes has the sum of theirs; otherwise all have the same.
    senders : tuple of NodeKind
        Only lanes that leave such a node have it; empty: all.
    changeable : bool
        In a run, with ``Simulation.set``.
    in_tables : bool
        In the result's table of links.
    document_units : mapping
        Units of ``physical`` of a link in a document, the usual one first: each converts a number.
    """

    name: str
    column: str
    meaning: str
    read: Callable[[Any, str], int]
    text: Callable[[int], str]
    limits: str
    least: int = 0
    most: int = 2**63 - 1
    default: int = 0
    unit: str = ""
    label: str = ""
    hidden: int | None = None
    of_type: str = ""
    where: str = ""
    directed: bool = False
    summed: bool = False
    senders: tuple[NodeKind, ...] = ()
    changeable: bool = False
    in_tables: bool = False
    read_annotation: Callable[[Any, str], Any] | None = None
    document_units: Mapping[str, Callable[[float, str], Any]] = field(default_factory=dict)

    @property
    def annotation(self) -> str:
        """Key of the annotation."""
        return f"astranb.{self.name}"

    @property
    def annotations(self) -> tuple[str, ...]:
        """Keys of annotations: of both directions, and of each if they may differ."""
        return (self.annotation, *self._of_directions) if self.directed else (self.annotation,)

    @property
    def _of_directions(self) -> tuple[str, str]:
        return f"{self.annotation}_fwd", f"{self.annotation}_rev"

    @property
    def words(self) -> str:
        """The name in a sentence."""
        return self.name.replace("_", " ")

    def both_ways(self, declared: Mapping[str, Any], stated: Any = None) -> tuple[Any, Any]:
        """Return the values from the first end to the second, and back; None where there is none."""
        both = declared.get(self.annotation, stated)
        if not self.directed:
            return both, both
        forward, backward = self._of_directions
        return declared.get(forward, both), declared.get(backward, both)

    def of_annotation(self, value: Any) -> Any:
        """Read what an annotation has.

        Raises
        ------
        InputError
            It cannot be read, or is out of range.
        """
        read = self.read_annotation or self.read
        found = read(plain(value), "")
        self.check(found, value, "")
        return found

    def of_document(self, unit: str, number: float) -> Any:
        """Convert a number of a unit of ``physical``, as `of_annotation` reads one."""
        found = self.document_units[unit](number, "")
        self.check(found, number, "")
        return found

    def check(self, value: int | Rate, shown: object, where: str) -> None:
        """Check the range.

        Raises
        ------
        InputError
            It is out of range.
        """
        number = value.of_width(1) if isinstance(value, Rate) else value
        if not self.least <= number <= self.most:
            hint = f"write {self.text(self.least)} to {self.text(self.most)}"
            raise InputError(f"{self.words} {shown!r} is out of range", where=where, hint=hint)


BANDWIDTH: Final = LinkProperty(
    name="bandwidth",
    column="bandwidth_Bps",
    meaning="from one end to the other",
    read=lambda value, where: bandwidth_Bps(value, where=where),
    read_annotation=_rate,
    text=format_bandwidth,
    limits="up to 9 TB/s a lane",
    least=1,
    most=MAX_RATE_BPS,
    unit="bytes/s",
    label="bandwidth",
    of_type=" a lane and direction",
    directed=True,
    summed=True,
    changeable=True,
    in_tables=True,
    document_units={
        "gigabytes_per_second": _gigabytes,
        "gigabits_per_second": _gigabits,
        "gigatransfers_per_second": _gigatransfers,
    },
)
"""Of which a document may state the transfers per second of a PCIe lane."""

LATENCY: Final = LinkProperty(
    name="latency",
    column="latency_ps",
    meaning="first bit out to first bit in",
    read=lambda value, where: time_ps(value, where=where),
    text=format_time,
    limits="from 0",
    most=LATEST_PS,
    unit="ps",
    label="latency",
    changeable=True,
    in_tables=True,
    document_units={
        unit: partial(lambda unit, number, where: quantity("time", number, unit, where=where), unit)
        for unit in ("ns", "us", "ms")
    },
)

MESSAGE_RATE: Final = LinkProperty(
    name="message_rate",
    column="gap_ps",
    meaning="RDMA packets that a NIC sends in a second, at most",
    read=_gap,
    text=lambda gap_ps: f"{1e6 / gap_ps:,.3g} million" if gap_ps else "no limit",
    limits="1 to 1e12 a second",
    label="packets a second",
    hidden=0,
    of_type=" a second",
    where=", where it leaves a NIC or GPU",
    senders=(NodeKind.NIC, NodeKind.XPU),
)

LINK_PROPERTIES: Final = (BANDWIDTH, LATENCY, MESSAGE_RATE)
"""All of them, in the order in which they are shown."""

LINK_COLUMNS: Final = np.dtype([(one.column, "i8") for one in LINK_PROPERTIES])
"""Their columns in ``net.link.LINK``."""
