"""Plots of traffic: who sends to whom over time, bursts, sizes and gaps of messages, incast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.arrays import reduce_at
from astranb.core.colours import Colours
from astranb.core.extras import needs_extra
from astranb.core.units import format_bytes, format_time
from astranb.drawing import cividis, mapped, name_ticks, new_figure, styled

with needs_extra("astranb.traffic.traffic_figure"):
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool
    from bokeh.models.widgets import Div, Slider

if TYPE_CHECKING:
    from .pattern_statistics import TrafficStatistics

__all__ = ["traffic_figure"]

_MOST_ROWS: Final = 64
"""Rows of a matrix; of more ranks several are one row."""
_STRETCHES: Final = 40
_MOST_POINTS: Final = 1000


def traffic_figure(of: TrafficStatistics, *, dark: bool = False) -> Any:
    """Draw with Bokeh: matrix over time, bytes of each rank over time, sizes, idle gaps, incast.

    Parameters
    ----------
    of : TrafficStatistics
    dark : bool
        Colours for a dark background.

    Returns
    -------
    bokeh.models.Column
        :func:`astranb.drawing.figures.show` shows it in a notebook, :func:`astranb.drawing.figures.save`
        writes it to a file; both need no network.

    Examples
    --------
    >>> from astranb.traffic import MessageGraph, statistics
    >>> pair = MessageGraph.of(2, [
    ...     {"rank": 0, "kind": 2, "peer": 1, "bytes": 4096, "start_ps": 5_000},
    ...     {"rank": 1, "kind": 3, "peer": 0, "bytes": 4096, "start_ps": 0},
    ... ])
    >>> len(traffic_figure(statistics(pair)).children)
    4
    """
    colours = Colours.of(dark)
    sizes = np.sort(of.graph.nodes["bytes"][of.graph.sends])
    return column(
        _matrix(of, colours),
        _over_time(of, colours),
        row(
            _cumulative("Sizes of messages", "bytes of a message", sizes, format_bytes, colours),
            _cumulative(
                "Idle gaps", "time between starts of two messages of a rank (ns)", of.gaps_ps(), format_time,
                colours, 1000,
            ),
            sizing_mode="stretch_width",
        ),
        _incast(of, colours),
        sizing_mode="stretch_width",
    )  # fmt: skip


def _folded(table: np.ndarray, most: int, axes: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Sum neighbouring ranks, so that there are at most so many; and how many are one."""
    each = -(-table.shape[axes[0]] // most)
    for axis in axes:
        table = reduce_at(np.add, table, np.arange(0, table.shape[axis], each), axis=axis)
    return table, each


def _named(rows: int, each: int, ranks: int) -> list[str]:
    if each == 1:
        return [f"rank {number}" for number in range(rows)]
    return [f"{number * each}-{min(ranks, (number + 1) * each) - 1}" for number in range(rows)]


def _matrix(of: TrafficStatistics, colours: Colours) -> Any:
    """Bytes from rank to rank, of all time or of one stretch of it, by a slider."""
    graph = of.graph
    length = of.bin_ps * -(-of.bins // _STRETCHES)
    stretches = -(-of.bins * of.bin_ps // length)
    whole, each = _folded(of.matrix(), _MOST_ROWS, (0, 1))
    parts = [
        _folded(of.matrix(k * length, (k + 1) * length), _MOST_ROWS, (0, 1))[0] for k in range(stretches)
    ]
    count = len(whole)
    names = _named(count, each, graph.ranks)
    drawn = new_figure(
        f"Bytes from rank to rank: {graph.title}", x_range=(0, count), y_range=(count, 0), height=480
    )
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = "to", "from"
    source = ColumnDataSource({"image": [whole.astype(float)]})
    scale = cividis(colours, float(whole.max(initial=0)))
    drawn.image("image", source=source, x=0, y=0, dw=count, dh=count, color_mapper=scale)
    name_ticks(drawn.xaxis[0], names, most=16)
    name_ticks(drawn.yaxis[0], names, most=32)
    drawn.add_tools(HoverTool(tooltips=[("bytes", "@image{0,0}")], mode="mouse"))
    labels = ["all of the recorded run", *(
        f"{format_time(k * length)} to {format_time((k + 1) * length)}" for k in range(stretches)
    )]  # fmt: skip
    caption = Div(text=labels[0], styles={"color": colours.ink, "background": colours.back})
    slider = Slider(
        start=0, end=stretches, value=0, step=1, title="stretch of time (0: all)", show_value=True,
        styles={"color": colours.ink, "background": colours.back}, sizing_mode="stretch_width",
    )  # fmt: skip
    stacked = np.stack([whole, *parts]).astype(float)
    slider.js_on_change("value", CustomJS(
        args={
            "source": source, "words": caption, "labels": labels, "scale": scale,
            "every": ColumnDataSource({"image": list(stacked.reshape(len(stacked), -1))}),
            "highest": [max(1.0, float(part.max(initial=0))) for part in stacked],
        },
        code="""
const at = cb_obj.value;
source.data.image[0].set(every.data.image[at]);
source.change.emit();
[scale.low, scale.high] = [1e-9 * highest[at], highest[at]];
words.text = labels[at];
""",
    ))  # fmt: skip
    return column(mapped(drawn, colours, scale, "bytes"), slider, caption, sizing_mode="stretch_width")


def _over_time(of: TrafficStatistics, colours: Colours) -> Any:
    """Bytes that each rank begins to send in each bin."""
    table, each = _folded(of.over_time(), 256, (0,))
    burst = of.burstiness()
    drawn = new_figure(
        f"Bytes that ranks begin to send: peak {burst['peak_to_mean']:.1f} times the mean, "
        f"index of dispersion {burst['dispersion']:.3g} bytes, {burst['idle_bins']:.0%} of the bins idle",
        x_range=(0, of.bins * of.bin_ps / 1e6), y_range=(len(table), 0),
        height=max(220, min(700, 80 + 14 * len(table))),
    )  # fmt: skip
    drawn.xaxis.axis_label = f"time (µs; a bin is {format_time(of.bin_ps)})"
    scale = cividis(colours, float(table.max(initial=0)))
    drawn.image(
        [table.astype(float)], x=0, y=0, dw=of.bins * of.bin_ps / 1e6, dh=len(table), color_mapper=scale
    )
    name_ticks(drawn.yaxis[0], _named(len(table), each, of.graph.ranks), most=32)
    tips = [("bytes", "@image{0,0}"), ("time", "$x{0.000} µs")]
    drawn.add_tools(HoverTool(tooltips=tips, mode="mouse"))
    return mapped(drawn, colours, scale, "bytes")


def _cumulative(
    title: str, axis: str, ordered: np.ndarray, write: Any, colours: Colours, unit: int = 1
) -> Any:
    """Share of values up to each value; values of zero are at the left edge of the logarithmic axis."""
    drawn = new_figure(f"{title}: cumulative distribution", x_axis_type="log", height=300)
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = axis, "share"
    values, counts = np.unique(ordered, return_counts=True)
    share = np.cumsum(counts) / max(1, len(ordered))
    if len(values) > _MOST_POINTS:
        # As many steps of share: the shape stays, the page is small.
        kept = np.unique(np.searchsorted(share, np.linspace(0, 1, _MOST_POINTS)).clip(max=len(values) - 1))
        values, share = values[kept], share[kept]
    data = {
        "value": np.maximum(values, 1) / unit,
        "share": share,
        "words": [write(int(value)) for value in values],
    }
    drawn.step("value", "share", source=data, mode="after", line_width=2, color=colours.lines[0])
    drawn.scatter("value", "share", source=data, size=4, color=colours.lines[0])
    drawn.add_tools(HoverTool(tooltips=[("up to", "@words"), ("share", "@share{0.0%}")]))
    return styled(drawn, colours)


def _incast(of: TrafficStatistics, colours: Colours) -> Any:
    """The most ranks that begin to send to one rank, bin by bin."""
    table = of.incast_over_time()
    most, whom = table.max(axis=0), np.argmax(table, axis=0)
    drawn = new_figure(
        "Incast: most ranks that begin to send to one rank in a bin", height=260,
        x_range=(0, of.bins * of.bin_ps / 1e6), y_range=(0, 1.1 * max(1, int(most.max(initial=0)))),
    )  # fmt: skip
    drawn.yaxis.ticker.min_interval, drawn.yaxis.ticker.num_minor_ticks = 1, 0
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = "time (µs)", "senders"
    edges = np.arange(of.bins) * of.bin_ps / 1e6
    data = {
        "left": edges, "right": edges + of.bin_ps / 1e6, "top": most,
        "to": [f"rank {rank}" if count else "none" for rank, count in zip(whom, most, strict=True)],
    }  # fmt: skip
    drawn.quad("left", "right", "top", 0, source=data, color=colours.lines[1], line_width=0)
    drawn.add_tools(HoverTool(tooltips=[("senders", "@top"), ("to", "@to"), ("time", "@left{0.000} µs")]))
    return styled(drawn, colours)
