"""Memory of a rank over time, as stacked areas, with the memory of its GPU as a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from astranb.core.colours import MEMORY_COLOURS, Colours
from astranb.core.errors import InputError
from astranb.core.svg import Circle, Picture, Polygon, Shape, SvgBox, SvgLine, Text
from astranb.core.units import format_time
from astranb.engine.operations import OperationRun, footprint_of, fullest_in, fullest_rank, held_by
from astranb.sim import Simulation

from .svg_files import svg_of

if TYPE_CHECKING:
    from IPython.display import SVG

__all__ = ["MemoryAxis", "memory", "memory_picture"]

_WIDTH, _HEIGHT = 900.0, 360.0
_LEFT, _RIGHT, _TOP, _FOOT = 64.0, 14.0, 44.0, 64.0
_COLUMNS = 820
"""More changes than this are drawn as the fullest moment of each column."""
_LIMIT, _LIMIT_COLOUR = "memory of the GPU", "#d55e00"
_HEADROOM = 1.12
_FAR = 4
"""A limit this many times above the peak is named but not drawn: the areas would be flat."""


@dataclass(frozen=True)
class MemoryAxis:
    """The bytes that a chart of memory reaches up to, and its marks.

    Parameters
    ----------
    most_bytes : int
        What is held at the fullest moment.
    limit_bytes : int
        The memory of the GPU; 0 where it is not known.

    Examples
    --------
    >>> from astranb.core.units import GB
    >>> axis = MemoryAxis(60 * GB, 80 * GB)
    >>> axis.shows_limit, axis.unit, [round(one / GB) for one in axis.ticks]
    (True, (1000000000.0, 'GB'), [0, 20, 40, 60, 80])
    """

    most_bytes: int
    limit_bytes: int

    @property
    def shows_limit(self) -> bool:
        """Whether the memory of the GPU is a line of the chart."""
        return 0 < self.limit_bytes <= _FAR * self.most_bytes

    @property
    def top_bytes(self) -> float:
        """The upper end."""
        return _HEADROOM * max(1, self.most_bytes, self.limit_bytes if self.shows_limit else 0)

    @property
    def unit(self) -> tuple[float, str]:
        """Bytes of the unit in which sizes are written, and its name."""
        return (1e9, "GB") if self.top_bytes >= 2e9 else (1e6, "MB")

    @property
    def ticks(self) -> list[float]:
        """Marks in bytes, from 0 on."""
        unit, _ = self.unit
        step = _nice(self.top_bytes / unit / 5) * unit
        return [number * step for number in range(int(self.top_bytes / step) + 1)]


@overload
def memory(sim: Simulation, path: str | Path, *, rank: int | None = None, dark: bool = False) -> Path: ...


@overload
def memory(sim: Simulation, path: None = None, *, rank: int | None = None, dark: bool = False) -> SVG: ...


def memory(
    sim: Simulation, path: str | Path | None = None, *, rank: int | None = None, dark: bool = False
) -> Path | SVG:
    """Draw what a rank of a model's step holds in memory over time.

    Parameters
    ----------
    sim : Simulation
        Of a transformer's step, by messages; it may be under way.
    path : str or Path, optional
        An ``.svg`` file, which is replaced only when the new one is complete.
    rank : int, optional
        Default: the first of those that hold most.
    dark : bool
        Colours for a dark background.

    Returns
    -------
    Path or IPython.display.SVG
        The file; without a path, the picture, which a notebook shows.

    Raises
    ------
    InputError
        It is not known what the run holds in memory, there is no such rank, or the extension is another.

    Examples
    --------
    >>> import tempfile
    >>> import astranb as anb
    >>> from astranb import models
    >>> sim = anb.Simulation(models.workload("gpt3-125m", batch=4, microbatches=2, gpu="h100-sxm"))
    >>> _ = sim.run()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = memory(sim, Path(folder, "memory.svg")).read_text()
    >>> text[:4], "activations" in text
    ('<svg', True)
    """
    return svg_of(memory_picture(sim, rank, dark=dark), path, "export.memory")


def memory_picture(
    sim: Simulation, rank: int | None = None, *, at_ps: int | None = None, dark: bool = False
) -> Picture:
    """Draw what a rank holds over time, up to a moment; parameters as for :func:`memory`."""
    engine = sim.engine
    if not isinstance(engine, OperationRun):
        what = f"{sim.fidelity} runs have no memory footprint"
        raise InputError(what, where="memory", hint="use fidelity='congestion' or 'analytical'")
    found = footprint_of(engine, "memory")
    chosen = fullest_rank(engine) if rank is None else rank
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < sim.ranks:
        raise InputError(f"unknown rank {chosen!r}", where="memory", hint=f"0 to {sim.ranks - 1}")
    end = max(1, sim.now_ps)
    times, held = held_by(engine, chosen)
    if at_ps is not None:
        times, held = times[times <= at_ps], held[times <= at_ps]
        end = max(1, at_ps)
    peak = int(np.argmax(held.sum(axis=1)))
    peak_ps = int(times[peak])
    colours = Colours.of(dark)
    most = int(held[peak].sum())
    limit = found.limit_bytes
    axis = MemoryAxis(most, limit)
    chart = _Chart(end, axis)
    if len(times) > _COLUMNS:
        edges = np.unique(np.linspace(0, end, _COLUMNS + 1).astype(np.int64))
        times, held = edges[:-1], held[fullest_in(times, held, edges)]
    areas: list[Shape] = [
        Polygon(points, MEMORY_COLOURS.get(found.parts[part], colours.dim), found.parts[part])
        for part, points in chart.areas(times, held)
    ]
    marks: list[Shape] = []
    if axis.shows_limit:
        y = chart.y(limit)
        marks.append(SvgLine(_LEFT, y, _WIDTH - _RIGHT, y, _LIMIT_COLOUR, 1.5, _LIMIT))
        label = f"{_LIMIT}: {chart.size(limit)}"
        marks.append(Text(_WIDTH - _RIGHT - 4, y - 5, label, 12, colours.ink, "end"))
    x, y = chart.x(peak_ps), chart.y(most)
    side = "end" if x > _WIDTH * 0.72 else "start"
    label = f"peak {chart.size(most)} at {format_time(peak_ps)}"
    marks += [
        Circle(x, y, 4, colours.ink),
        Text(x + (-8 if side == "end" else 8), y - 6, label, 12, colours.ink, side, bold=True),
    ]
    title = f"Memory of rank {chosen} (stage {int(found.table[chosen])}) of {sim.engine.title}"
    if limit and not axis.shows_limit:
        title += f"; the GPU has {chart.size(limit)}"
    caption = (
        Text(12, 18, title, 13, colours.ink, room=_WIDTH - 24),
        *_legend(found.parts, held, chart, colours),
    )
    grid = tuple(chart.grid(colours))
    return Picture(_WIDTH, _HEIGHT, colours, f"{title}: {label}", grid, tuple(areas), tuple(marks), caption)


_Corners = tuple[tuple[float, float], ...]


class _Chart:
    """From times and bytes to places."""

    def __init__(self, end_ps: int, axis: MemoryAxis) -> None:
        self.end_ps, self.ticks, self.top = end_ps, axis.ticks, axis.top_bytes
        self.unit, self.name = axis.unit

    def x(self, time_ps: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * time_ps / self.end_ps

    def y(self, size: float) -> float:
        return _HEIGHT - _FOOT - (_HEIGHT - _FOOT - _TOP) * size / self.top

    def size(self, size: int) -> str:
        return f"{size / self.unit:,.1f} {self.name}"

    def areas(self, times: np.ndarray, held: np.ndarray) -> Iterator[tuple[int, _Corners]]:
        """Yield the outline of each part that is ever held, above the ones before."""
        steps = np.append(times, self.end_ps)
        x = np.repeat([self.x(at) for at in steps.tolist()], 2)[1:-1]
        upper = np.zeros(len(times))
        for part in range(held.shape[1]):
            lower, upper = upper, upper + held[:, part]
            if held[:, part].any():
                up, down = (np.repeat([self.y(size) for size in each.tolist()], 2) for each in (upper, lower))
                outline = np.stack([np.append(x, x[::-1]), np.append(up, down[::-1])], axis=1)
                yield part, tuple(map(tuple, outline.tolist()))

    def grid(self, colours: Colours) -> Iterator[Shape]:
        for tick in self.ticks:
            y = self.y(tick)
            yield SvgLine(_LEFT, y, _WIDTH - _RIGHT, y, colours.faint, 1)
            yield Text(_LEFT - 6, y + 4, f"{tick / self.unit:g}", 11, colours.dim, "end")
        yield Text(_LEFT - 6, _TOP - 4, self.name, 11, colours.dim, "end")
        for part in range(5):
            at = self.end_ps * part // 4
            anchor = "start" if part == 0 else "end" if part == 4 else "middle"
            yield Text(self.x(at), _HEIGHT - _FOOT + 17, format_time(at), 11, colours.dim, anchor)


def _nice(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(step))
    return float(next(factor for factor in (1, 2, 5, 10) if factor * power >= step * 0.999) * power)


def _legend(parts: Sequence[str], held: np.ndarray, chart: _Chart, colours: Colours) -> Iterator[Shape]:
    """Name the parts, with the most that is held of each."""
    x, y = 12.0, _HEIGHT - 16
    for number, name in enumerate(parts):
        most = int(held[:, number].max(initial=0))
        if not most:
            continue
        text = f"{name} {chart.size(most)}"
        colour = MEMORY_COLOURS.get(name, colours.dim)
        yield SvgBox(x, y - 9, 14, 10, 0, colour, colour)
        yield Text(x + 19, y, text, 12, colours.dim)
        x += 34 + 6.8 * len(text)
