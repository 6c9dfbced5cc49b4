"""A map of algorithms as a picture: a cell for each size and infrastructure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, Final

from astranb.core.colours import Colours, busy_colour
from astranb.core.svg import Picture, Shape, SvgBox, Text
from astranb.core.units import format_bytes, format_time

__all__ = ["algorithm_chart"]

_LEFT, _TOP, _FOOT = 150.0, 58.0, 12.0
_WIDE, _HIGH, _GAP = 104.0, 46.0, 2.0
_LIGHT: Final = 0.4
"""Above this luminance a cell has black text."""
_FAR: Final = 4.0
"""So many times as slow as the fastest has the last colour."""

Row = Mapping[Any, Any]


def algorithm_chart(
    collective: str, rows: Sequence[Row], algorithm: str = "", *, dark: bool = False
) -> Picture:
    """Draw which algorithm is the fastest, or how far one is from the fastest.

    Every cell names what it shows: colours only repeat it.

    Parameters
    ----------
    collective : str
    rows : sequence of mapping
        ``infra``, ``ranks``, ``size_bytes``, ``algorithm``, ``protocol``, ``time_ps`` of each run that ended.
    algorithm : str, optional
        One of them.
    dark : bool
        For dark ground.
    """
    colours = Colours.of(dark)
    cells: dict[tuple[str, int, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["time_ps"]):
        cells.setdefault((row["infra"], row["ranks"], row["size_bytes"]), []).append(row)
    places = sorted({key[:2] for key in cells}, key=lambda place: place[1])
    sizes = sorted({key[2] for key in cells})
    winners = list(
        dict.fromkeys(cells[key][0]["algorithm"] for key in sorted(cells, key=lambda key: key[1:]))
    )
    title = f"{collective}: {f'{algorithm} against the fastest' if algorithm else 'the fastest algorithm'}"
    width, height = _LEFT + _WIDE * len(sizes) + 12, _TOP + _HIGH * len(places) + _FOOT
    shapes: list[Shape] = [Text(12, 22, title, 14, colours.ink, bold=True)]
    for column, size in enumerate(sizes):
        middle = _LEFT + _WIDE * (column + 0.5)
        shapes.append(Text(middle, _TOP - 8, format_bytes(size), 12, colours.dim, "middle"))
    for line, place in enumerate(places):
        y = _TOP + _HIGH * line
        name, ranks = place
        shapes.append(Text(_LEFT - 10, y + 20, f"{ranks} ranks", 12, colours.ink, "end"))
        shapes.append(
            Text(_LEFT - 10, y + 35, name.removesuffix("-infra"), 10, colours.dim, "end", _LEFT - 22)
        )
        for column, size in enumerate(sizes):
            found = cells.get((*place, size))
            if found:
                x = _LEFT + _WIDE * column
                shapes += _cell(x, y, found, winners, algorithm, colours)
    return Picture(width, height, colours, title, (), (), tuple(shapes), ())


def _cell(
    x: float, y: float, found: Sequence[Row], winners: Sequence[str], algorithm: str, colours: Colours
) -> list[Shape]:
    """Draw one cell: what is found there, the fastest first."""
    best = found[0]
    shown = next((row for row in found if row["algorithm"] == algorithm), None) if algorithm else best
    if shown is None:
        fill, first, second = colours.panel, "not among those", "that ran to the end"
    elif algorithm:
        slower = shown["time_ps"] / best["time_ps"]
        fill = busy_colour(min(1.0, log(slower) / log(_FAR)), colours)
        first = "fastest" if slower == 1 else f"{slower:.2f} times"
        second = f"{shown['protocol']}, {format_time(int(shown['time_ps']))}"
    else:
        lines = colours.lines
        fill = lines[winners.index(best["algorithm"]) % len(lines)]
        first, second = best["algorithm"], f"{best['protocol']}, {format_time(int(best['time_ps']))}"
    title = "; ".join(
        f"{row['algorithm']} {row['protocol']} {format_time(int(row['time_ps']))}" for row in found[:6]
    )
    ink = "#000000" if _luminance(fill) > _LIGHT else "#ffffff"
    middle, room = x + _WIDE / 2, _WIDE - 10
    return [
        SvgBox(x + _GAP / 2, y + _GAP / 2, _WIDE - _GAP, _HIGH - _GAP, 3, fill, "none", title),
        Text(middle, y + 20, first, 12, ink, "middle", room, bold=not algorithm or first == "fastest"),
        Text(middle, y + 35, second, 10, ink, "middle", room),
    ]


def _luminance(colour: str) -> float:
    """Return the brightness of a colour, from 0 to 1."""
    red, green, blue = (value / 255 for value in bytes.fromhex(colour[1:]))
    return 0.299 * red + 0.587 * green + 0.114 * blue
