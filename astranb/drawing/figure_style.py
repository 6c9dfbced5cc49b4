"""The one look of all figures: colours, fonts, ticks and colour bars, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from astranb.core.colours import Colours, busy_colour
from astranb.core.extras import needs_extra

with needs_extra("anb.export.figures"):
    from bokeh.models import FixedTicker, LinearColorMapper
    from bokeh.models.annotations import ColorBar
    from bokeh.plotting import figure

__all__ = ["cividis", "mapped", "name_ticks", "new_figure", "plain", "styled"]

_FONT: Final = "system-ui, sans-serif"


def plain(text: str) -> str:
    """Return a text that Bokeh shows unchanged: two dollars would begin a formula."""
    return text.replace("$$", "$\N{ZERO WIDTH SPACE}$")


def new_figure(title: str, **options: Any) -> Any:
    """Create a figure with the tools that all figures have."""
    return figure(
        title=plain(title),
        sizing_mode="stretch_width",
        tools="pan,wheel_zoom,box_zoom,reset,save",
        **{"height": 420, **options},
    )


def styled(drawn: Any, colours: Colours) -> Any:
    """Set the colours and the font of a figure."""
    drawn.background_fill_color = colours.back
    drawn.border_fill_color = colours.back
    drawn.outline_line_color = colours.faint
    drawn.title.text_color = colours.ink
    drawn.title.text_font = _FONT
    drawn.title.text_font_size = "14px"
    for axis in drawn.axis:
        axis.axis_line_color = axis.major_tick_line_color = colours.line
        axis.minor_tick_line_color = None
        axis.axis_label_text_color = colours.ink
        axis.major_label_text_color = colours.dim
        axis.axis_label_text_font = axis.major_label_text_font = _FONT
        axis.axis_label_text_font_style = "normal"
    for grid in drawn.grid:
        grid.grid_line_color = colours.faint
    for legend in drawn.legend:
        legend.background_fill_color = colours.back
        legend.background_fill_alpha = 0.85
        legend.border_line_color = colours.faint
        legend.label_text_color = colours.ink
        legend.label_text_font = _FONT
        legend.label_text_font_size = "12px"
        legend.click_policy = "hide"
    drawn.toolbar.logo = None
    return drawn


def cividis(colours: Colours, high: float) -> Any:
    """Return a map from 0 to a value to 64 steps of cividis; zero has the colour of the panel."""
    palette = [busy_colour(k / 63, colours) for k in range(64)]
    return LinearColorMapper(palette=palette, low=1e-9 * (high or 1), high=high or 1, low_color=colours.panel)


def mapped(drawn: Any, colours: Colours, of: Any, title: str) -> Any:
    """Style a heat map, with a colour bar at its right."""
    bar = ColorBar(color_mapper=of, title=plain(title), width=12)
    bar.background_fill_color = colours.back
    bar.title_text_color = colours.ink
    bar.major_label_text_color = colours.dim
    bar.title_text_font_style = "normal"
    drawn.add_layout(bar, "right")
    drawn.grid.visible = False
    return styled(drawn, colours)


def name_ticks(axis: Any, names: Sequence[str], *, most: int = 48) -> None:
    """Label the positions 0.5, 1.5, ... of an axis; with many names, only every n-th."""
    every = max(1, -(-len(names) // most))
    labels = {number + 0.5: plain(names[number]) for number in range(0, len(names), every)}
    axis.ticker = FixedTicker(ticks=list(labels))
    axis.major_label_overrides = labels
