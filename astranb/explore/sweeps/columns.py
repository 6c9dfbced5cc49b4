"""The columns of a sweep's result that pictures show: axes as codes of their values, figures as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from astranb.core.units import format_bandwidth, format_bytes, format_time

from .axes import SweepAxis

if TYPE_CHECKING:
    from .spec import SweepSpec

__all__ = [
    "AxisColumn",
    "FigureColumn",
    "axis_columns",
    "figure_columns",
    "figure_text",
    "unit_of",
    "written_value",
]

Row = Mapping[str, Any]

_NO_FIGURES: Final = frozenset({"seconds"})
_MEMORY: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
"""As data sheets and the other reports write it."""
_FORMATS: Final[dict[str, Callable[[int], str]]] = {
    " B": format_bytes,
    " B/s": format_bandwidth,
    " ps": format_time,
}
"""By the suffix that a range gives its values."""


@dataclass(frozen=True)
class AxisColumn:
    """One axis of a sweep, and which of its values each point has.

    Attributes
    ----------
    name : str
    labels : list of str
        Of its values, short.
    ordered : bool
        Whether its values are numbers in ascending order.
    codes : array of int
        For each point the place of its value; -1: it has none of them.
    """

    name: str
    labels: list[str]
    ordered: bool
    codes: npt.NDArray[np.int64]

    def label(self, point: int) -> str:
        """Return the value of a point; nothing where it has none of the axis's."""
        code = int(self.codes[point])
        return self.labels[code] if code >= 0 else ""


@dataclass(frozen=True)
class FigureColumn:
    """One figure of the points, or an objective.

    Attributes
    ----------
    name : str
    unit : str
        ``"ps"``, ``"bytes"``, ``"Bps"``, ``"fraction"``, or nothing.
    goal : str
        ``"min"`` or ``"max"`` of an objective; else nothing.
    values : array of float
        NaN where a point lacks it.
    """

    name: str
    unit: str
    goal: str
    values: npt.NDArray[np.float64]


def axis_columns(spec: SweepSpec, axes_of: Sequence[Mapping[str, Any]]) -> list[AxisColumn]:
    """Return the axes of a sweep.

    Parameters
    ----------
    spec : SweepSpec
    axes_of : sequence of mapping
        What the axes set, for each point.

    Examples
    --------
    >>> from astranb.explore.sweeps.spec import read_spec
    >>> spec = read_spec({"axes": {"size": "1 MiB..4 MiB by x2"}})
    >>> column, = axis_columns(spec, [{"size": "2097152 B"}, {"size": "1048576 B"}])
    >>> column.labels, column.codes.tolist()
    (['1 MiB', '2 MiB', '4 MiB'], [1, 0])
    """
    return [_axis_column(axis, axes_of) for axis in spec.axes]


def _axis_column(axis: SweepAxis, axes_of: Sequence[Mapping[str, Any]]) -> AxisColumn:
    names = axis.sets
    places: dict[tuple[Any, ...], int] = {}
    for place, value in enumerate(axis.values):
        words = axis.words(value)
        places.setdefault(tuple(words.get(name) for name in names), place)
    codes = [places.get(tuple(axes.get(name) for name in names), -1) for axes in axes_of]
    return AxisColumn(axis.name, _labels(axis), axis.ordered, np.array(codes, np.int64))


def _labels(axis: SweepAxis) -> list[str]:
    """Name the values: files without their folder where that is enough, units as people write them."""
    words = [axis.words(value) for value in axis.values]
    short = [
        ", ".join(
            f"{name} {_short(value)}"
            if len(one) > 1 or isinstance(axis.values[0], Mapping)
            else _short(value)
            for name, value in one.items()
        )
        for one in words
    ]
    whole = [", ".join(map(written_value, one.values())) for one in words]
    return [a if short.count(a) == 1 else b for a, b in zip(short, whole, strict=True)]


def written_value(value: Any) -> str:
    """Return a value of an axis as text; several are joined.

    Examples
    --------
    >>> written_value(("A->B", "C")), written_value(()), written_value(8)
    ('A->B, C', 'none', '8')
    """
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _short(value: Any) -> str:
    if not isinstance(value, str):
        return f"{value:.6g}" if isinstance(value, float) else written_value(value)
    number, blank, unit = value.partition(" ")
    if blank and f" {unit}" in _FORMATS and number.isdigit():
        return _FORMATS[f" {unit}"](int(number))
    return Path(value).name if Path(value).is_absolute() else value


def figure_columns(spec: SweepSpec, rows: Sequence[Row]) -> list[FigureColumn]:
    """Return the objectives, then other figures that differ between points."""
    sets = {name for axis in spec.axes for name in axis.sets}
    found = [
        FigureColumn(
            goal.name,
            unit_of(goal.name),
            "min" if goal.sign > 0 else "max",
            np.array([_number(row.get(goal.name)) for row in rows], np.float64),
        )
        for goal in spec.objectives
    ]
    taken = sets | _NO_FIGURES | {goal.name for goal in spec.objectives}
    names = dict.fromkeys(name for row in rows for name, value in row.items() if _is_number(value))
    for name in names:
        if name in taken:
            continue
        values = np.array([_number(row.get(name)) for row in rows], np.float64)
        known = values[np.isfinite(values)]
        if len(known) and known.min() < known.max():
            found.append(FigureColumn(name, unit_of(name), "", values))
    return found


def unit_of(name: str) -> str:
    """Return the unit that a figure's name ends with.

    Examples
    --------
    >>> unit_of("step_ps"), unit_of("memory_bytes"), unit_of("mfu"), unit_of("step_ps * ranks")
    ('ps', 'bytes', 'fraction', '')
    """
    if not name.isidentifier():
        return ""
    if name in ("mfu", "hfu"):
        return "fraction"
    ends = {"_ps": "ps", "_bytes": "bytes", "_Bps": "Bps", "_fraction": "fraction"}
    return next((unit for end, unit in ends.items() if name.endswith(end)), "")


def figure_text(unit: str, value: float) -> str:
    """Write a figure as a person reads it.

    Examples
    --------
    >>> figure_text("ps", 1.5e9), figure_text("bytes", 80e9), figure_text("Bps", 5e10), figure_text("", 0.5)
    ('1.5 ms', '80.0 GB', '50 GB/s', '0.5')
    """
    if unit == "ps":
        return format_time(round(value))
    if unit == "bytes":
        size, name = next((one for one in _MEMORY if value >= one[0]), (1, "B"))
        return f"{value / size:,.1f} {name}" if size > 1 else f"{value:.0f} B"
    if unit == "Bps":
        return format_bandwidth(value)
    return f"{100 * value:.3g}%" if unit == "fraction" else f"{value:.4g}".replace("e+", "e")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else math.nan
