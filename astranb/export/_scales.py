"""Bars of colours, and axes whose ticks are names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import FixedTicker, LinearColorMapper
from bokeh.models.annotations import ColorBar

from astranb.core.colours import Colours, busy_colour

from ._theme import plain

__all__ = ["colour_bar", "mapper", "named"]


def mapper(colours: Colours, high: float) -> Any:
    """Cividis from 0 to a value, in 64 steps; nothing at all has the colour of the ground."""
    palette = [busy_colour(k / 63, colours) for k in range(64)]
    return LinearColorMapper(palette=palette, low=1e-9 * (high or 1), high=high or 1, low_color=colours.panel)


def colour_bar(drawn: Any, colours: Colours, of: Any, title: str) -> None:
    """Put a bar of colours with numbers at the right of a figure."""
    bar = ColorBar(color_mapper=of, title=plain(title), width=12)
    bar.background_fill_color = colours.back
    bar.title_text_color = colours.ink
    bar.major_label_text_color = colours.dim
    bar.title_text_font_style = "normal"
    drawn.add_layout(bar, "right")


def named(axis: Any, names: Sequence[str], *, most: int = 48) -> None:
    """Name the places 0.5, 1.5, ... of an axis; of many, every n-th."""
    every = -(-len(names) // most)
    places = range(0, len(names), max(1, every))
    axis.ticker = FixedTicker(ticks=[place + 0.5 for place in places])
    axis.major_label_overrides = {place + 0.5: plain(names[place]) for place in places}
