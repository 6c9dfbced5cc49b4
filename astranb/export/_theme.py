"""One look for all figures, and the two ways to see them: in a notebook, and in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.io import output_notebook
from bokeh.io import show as bokeh_show
from bokeh.plotting import figure
from bokeh.resources import INLINE

from astranb.core.colours import Colours
from astranb.core.errors import InputError
from astranb.core.files import whole_file

__all__ = ["load", "plain", "save", "show", "styled", "titled"]

_FONT = "system-ui, sans-serif"
_loaded = False


def plain(text: str) -> str:
    """Give a text that Bokeh shows as it is: two dollars would begin a formula."""
    return text.replace("$$", "$\N{ZERO WIDTH SPACE}$")


def titled(title: str, **options: Any) -> Any:
    """Make a figure with our tools."""
    return figure(
        title=plain(title),
        sizing_mode="stretch_width",
        tools="pan,wheel_zoom,box_zoom,reset,save",
        **{"height": 420, **options},
    )


def styled(drawn: Any, colours: Colours) -> Any:
    """Give a figure our colours and font; they stay with it wherever it is shown."""
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


def load() -> None:
    """Bring BokehJS into the notebook's page, from this computer: nothing is fetched.

    :func:`show` does it once. Call it again where a page was loaded anew.
    """
    global _loaded  # noqa: PLW0603 - one page, one kernel
    output_notebook(resources=INLINE, hide_banner=True)
    _loaded = True


def show(drawn: Any) -> None:
    """Show a figure in a notebook, without a network.

    Parameters
    ----------
    drawn : figure
        As the functions of this module make it.

    Raises
    ------
    InputError
        There is no notebook.
    """
    try:
        from IPython import get_ipython
    except ImportError:
        get_ipython = None
    shell = get_ipython() if get_ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        raise InputError("there is no notebook here", where="figures.show", hint="figures.save(fig, path)")
    if not _loaded:
        load()
    bokeh_show(drawn)


def save(drawn: Any, path: str | Path) -> Path:
    """Write a figure as one HTML file that needs no network.

    Parameters
    ----------
    drawn : figure
    path : str or Path
        Written whole or not at all.

    Returns
    -------
    Path
        The file, 1 MB and more: BokehJS is in it.
    """
    title = drawn.title.text if getattr(drawn, "title", None) else "astranb"
    text = file_html(drawn, INLINE, title)
    # The page's own ground, not a white frame around a dark figure.
    ground = f"<style>body{{background:{drawn.background_fill_color}}}</style></head>"
    with whole_file(Path(path)) as file:
        file.write(text.replace("</head>", ground, 1).encode())
    return Path(path)
