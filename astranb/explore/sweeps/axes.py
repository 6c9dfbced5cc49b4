"""Axes of a sweep: their values as lists, ranges, or groups of options that change together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from astranb.core.document import DocumentNode
from astranb.explore.runs import takes_several

from .expressions import number_of

__all__ = ["SweepAxis", "read_axes"]

_RANGE: Final = re.compile(
    r"\s*(?P<low>.+?)\s*\.\.\s*(?P<high>.+?)(?:\s+by\s+(?P<times>[x*])?\s*(?P<step>.+?))?\s*\Z"
)
_UNITS: Final = re.compile(r"[\d.eE+-]+\s*(?P<unit>.*?)\s*\Z")
_MOST: Final = 100_000
Scalar = str | int | float | bool
AxisValue = Scalar | tuple[Scalar, ...]
"""Value of an axis: one, or several of an option that takes them."""


@dataclass(frozen=True)
class SweepAxis:
    """An axis of a sweep: the option and its values.

    Attributes
    ----------
    name : str
        An option of ``astranb run``, a name in braces of one, a key of a file, a path of
        ``Simulation.set``, or any name where the values are mappings of those.
    values : tuple
        Scalars, or tuples of them, or mappings of names to these.
    """

    name: str
    values: tuple[AxisValue | Mapping[str, AxisValue], ...]

    def words(self, value: AxisValue | Mapping[str, AxisValue]) -> dict[str, AxisValue]:
        """Return what a value sets, by name."""
        return dict(value) if isinstance(value, Mapping) else {self.name: value}

    @property
    def sets(self) -> list[str]:
        """The names that its values set."""
        return list(dict.fromkeys(name for value in self.values for name in self.words(value)))

    @property
    def ordered(self) -> bool:
        """Whether its values are numbers in ascending order."""
        numbers = [number_of(value) for value in self.values]
        real = all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
        return real and len(numbers) > 1 and all(a < b for a, b in itertools.pairwise(numbers))


def read_axes(node: DocumentNode) -> list[SweepAxis]:
    """Read the axes of a document.

    Raises
    ------
    InputError
        There is none, or one has no values or such that cannot be read.

    Examples
    --------
    >>> from astranb.core.document import parse_document
    >>> axes = read_axes(parse_document("{tp: 1..8 by x2, size: [1 MiB, 4 MiB], plan: [{dp: 2}]}", "s.yml"))
    >>> [axis.values for axis in axes]
    [(1, 2, 4, 8), ('1 MiB', '4 MiB'), ({'dp': 2},)]
    """
    if not isinstance(node.value, dict) or not node.value:
        raise node.error("axes are names with values", "write for example tp: [1, 2, 4]")
    axes = []
    for name in node.value:
        one = node.get(name)
        items = one.items() if isinstance(one.value, list) else [one]
        values = tuple(value for item in items for value in _values(item, str(name)))
        if not values:
            raise one.error("an axis without values: the grid is empty", "give at least one value")
        if len({isinstance(value, Mapping) for value in values}) > 1:
            raise one.error("some values are mappings, others are not", "write all in one way")
        axes.append(SweepAxis(str(name), values))
    return axes


def _values(node: DocumentNode, axis: str) -> Iterator[Any]:
    """Yield the values of one item: a range has several."""
    value = node.value
    if isinstance(value, Mapping):
        yield {str(name): _single(node.get(name), str(name)) for name in value}
    elif (
        isinstance(value, str)
        and (found := _RANGE.match(value))
        and isinstance(number_of(found["low"]), int | float)
    ):
        yield from _range(node, found)
    else:
        yield _single(node, axis)


def _single(node: DocumentNode, name: str) -> AxisValue:
    """Return what is set by a name: a value, or several of an option that takes them, as a tuple."""
    value = node.value
    if isinstance(value, list) and takes_several(name.replace("-", "_")):
        return tuple(_single(one, "") for one in node.items())  # type: ignore[misc]  # a list has none in it
    if not isinstance(value, Scalar):
        what = f"{node.brief} is no value of an axis"
        raise node.error(what, "give text, a number or a mapping of options")
    return value


def _range(node: DocumentNode, found: re.Match[str]) -> Iterator[Scalar]:
    """Yield the values of a range, with the unit of its ends."""
    example = "write for example 1..64 by x2, or 100 GB/s..500 GB/s by 100 GB/s"
    low, high = number_of(found["low"]), number_of(found["high"])
    step = 1 if found["step"] is None else number_of(found["step"])
    if not all(isinstance(one, int | float) for one in (low, high, step)):
        raise node.error(f"{node.brief} is not a range", example)
    factor = found["times"] is not None
    if low > high or (step <= 1 if factor else step <= 0) or (factor and low <= 0):
        raise node.error(f"{node.brief} has no values, or no end", example)
    unit = _unit(found["low"]) or _unit(found["high"])
    plain = {"B/s": "B/s", "ps": "ps"}
    suffix = "" if not unit else next((f" {one}" for one in plain if _same_kind(unit, one)), " B")
    count, value = 0, low
    while value <= high * (1 + 1e-12):
        yield f"{round(value)}{suffix}" if suffix else value
        count += 1
        if count > _MOST:
            raise node.error(f"{node.brief} has more than {_MOST:,} values", "take larger steps")
        value = low * step**count if factor else low + count * step


def _unit(text: str) -> str:
    found = _UNITS.match(text.strip())
    return found["unit"] if found else ""


def _same_kind(unit: str, plain: str) -> bool:
    """Return whether a unit is a bandwidth, as B/s is, or a time, as ps is."""
    rate = unit.endswith(("/s", "bps", "Bps"))
    return rate if plain == "B/s" else not rate and unit.endswith("s")
