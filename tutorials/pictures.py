"""What the lessons share: figures of a layer table's run, and pictures for light and dark backgrounds."""  # noqa: INP001 - beside notebooks, no package

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bokeh.models import CategoricalAxis, ColumnDataSource, FactorRange, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure

from astranb.core.colours import OKABE_ITO, TIME_COLOURS
from astranb.core.units import ms, ns, us
from astranb.drawing.figures import show

if TYPE_CHECKING:
    import pandas as pd

    from astranb import Simulation

__all__ = ["Totals", "lines", "spans", "stacked_bars", "timeline", "totals"]

_INK = "#767676"
"""Readable on white and on JupyterLab's dark background."""
_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle")
_HATCHES = (" ", "/", "x", ".", "\\", "|", "-", "+")
_COLOURS = (*OKABE_ITO[:7], "#999999")
_SIZE = "12px"


def _figure(title: str, **options: Any) -> Any:
    """Return a figure with a transparent background."""
    return figure(
        **{
            "title": title,
            "sizing_mode": "stretch_width",
            "tools": "pan,wheel_zoom,box_zoom,reset",
            "background_fill_color": None,
            "border_fill_color": None,
            "outline_line_color": None,
            **options,
        }
    )


def _show(drawn: Any) -> None:
    """Set the colour of every text, and show the figure in the cell."""
    drawn.title.text_color, drawn.title.text_font_size = _INK, "14px"
    drawn.toolbar.logo = None
    for axis in drawn.axis:
        axis.axis_label_text_color = axis.major_label_text_color = _INK
        axis.axis_line_color = axis.major_tick_line_color = _INK
        axis.minor_tick_line_color = None
        axis.axis_label_text_font_size = axis.major_label_text_font_size = _SIZE
        axis.axis_label_text_font_style = "normal"
        if isinstance(axis, CategoricalAxis):
            axis.group_text_color, axis.group_text_font_size, axis.separator_line_color = _INK, _SIZE, None
    for grid in drawn.grid:
        grid.grid_line_color, grid.grid_line_alpha = _INK, 0.25
    for legend in drawn.legend:
        legend.background_fill_alpha, legend.border_line_color = 0, None
        legend.label_text_color, legend.label_text_font_size = _INK, _SIZE
        legend.click_policy = "hide"
    show(drawn)


def lines(
    title: str,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    x_label: str,
    y_label: str,
    **options: Any,
) -> None:
    """Show lines over one axis; a click on a name in the legend hides its line.

    Parameters
    ----------
    title : str
    x : sequence of float
    series : mapping of str to sequence of float
        A line's name, and its values.
    x_label, y_label : str
    **options
        Of the figure: ``x_axis_type="log"`` …
    """
    drawn = _figure(title, height=340, **options)
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = x_label, y_label
    if options.get("x_axis_type") == "log":
        drawn.xaxis.ticker = list(x)[::2]
        drawn.xaxis.major_label_overrides = {value: f"{value:,}" for value in x}
    drawn.yaxis.formatter = NumeralTickFormatter(format="0,0")
    for number, (name, y) in enumerate(series.items()):
        data = ColumnDataSource({"x": list(x), "y": list(y)})
        same = {"source": data, "color": _COLOURS[number], "legend_label": name, "name": name}
        drawn.line("x", "y", line_width=2, **same)
        drawn.scatter("x", "y", marker=_MARKERS[number], size=8, **same)
    drawn.add_tools(HoverTool(tooltips=[("", "$name"), (x_label, "@x"), (y_label, "@y{0.000}")]))
    drawn.add_layout(drawn.legend[0], "right")
    _show(drawn)


def stacked_bars(title: str, rows: Mapping[str, Mapping[str, float]], label: str) -> None:
    """Show a horizontal bar a row, made of its parts.

    Parameters
    ----------
    title : str
    rows : mapping of str to mapping of str to float
        A bar's name, and its parts by name.
    label : str
        What the axis counts.
    """
    names = list(rows)
    parts = list(next(iter(rows.values())))
    known = all(part in TIME_COLOURS for part in parts)  # as in the workbench
    data = {"name": names, **{part: [rows[name][part] for name in names] for part in parts}}
    drawn = _figure(title, height=120 + 34 * len(names), y_range=FactorRange(*reversed(names)))
    drawn.x_range.start = 0
    drawn.xaxis.axis_label = label
    drawn.hbar_stack(
        parts,
        y="name",
        height=0.7,
        source=ColumnDataSource(data),
        color=[TIME_COLOURS[part] for part in parts] if known else _COLOURS[: len(parts)],
        hatch_pattern=list(_HATCHES[: len(parts)]),
        hatch_color="white",
        hatch_alpha=0.5,
        legend_label=parts,
    )
    drawn.add_tools(HoverTool(tooltips=[("", "@name: $name"), (label, "@$name{0,0.000}")]))
    drawn.add_layout(drawn.legend[0], "right")
    _show(drawn)


class Totals(NamedTuple):
    """The figures of ASTRA-sim 1.0's table of a run, of one NPU.

    Attributes
    ----------
    time_ns, compute_ns, exposed_ns : int
        The whole run, its computations, and the rest: exposed communication.
    message_bytes : int
        Bytes sent.
    """

    time_ns: int
    compute_ns: int
    exposed_ns: int
    message_bytes: int

    @property
    def time_us(self) -> float:
        """:attr:`time_ns` in microseconds."""
        return self.time_ns * ns / us

    @property
    def time_ms(self) -> float:
        """:attr:`time_ns` in milliseconds."""
        return self.time_ns * ns / ms

    @property
    def compute_us(self) -> float:
        """:attr:`compute_ns` in microseconds."""
        return self.compute_ns * ns / us

    @property
    def exposed_us(self) -> float:
        """:attr:`exposed_ns` in microseconds."""
        return self.exposed_ns * ns / us


def totals(sim: Simulation, npus: int) -> Totals:
    """Return the figures of a layer table's run.

    Parameters
    ----------
    sim : Simulation
        Of an ASTRA-sim 1.0 run, at its end.
    npus : int
        Number of NPUs, which all do the same.
    """
    result = sim.result
    npu = result.per_rank()[0]
    sent = sum(row["bytes"] for row in result.table("dimensions"))
    time_ns, compute_ns = result.time_ps // ns, npu["compute_ps"] // ns
    return Totals(time_ns, compute_ns, time_ns - compute_ns, sent // npus)


def spans(sim: Simulation) -> pd.DataFrame:
    """List what a layer table's run has computed and communicated so far.

    Parameters
    ----------
    sim : Simulation
        Of an ASTRA-sim 1.0 run.

    Returns
    -------
    DataFrame
        A row for every computation (``where`` is "NPU") and for every phase of a chunk (``where`` is
        the dimension), with ``layer``, ``part`` (FWD, IG or WG), ``start_us`` and ``end_us``.
    """
    import pandas as pd

    operations, phases = (sim.result.to_dataframe(name, time="us") for name in ("operations", "phases"))
    computed = operations[operations["track"] == "compute"].assign(where="NPU")
    carried = phases.assign(where="dim " + phases["dimension"].astype(str))
    rows = pd.concat([computed, carried], ignore_index=True)
    rows = rows[["where", "layer", "part", "start_us", "end_us"]]
    return rows.sort_values(["where", "start_us"], ignore_index=True)


def timeline(
    title: str,
    sims: Mapping[str, Simulation],
    *,
    until_us: float | None = None,
    called: Callable[[str], str] = str,
) -> None:
    """Show what computed, and what was on the network, when: a colour and a pattern for each layer.

    Parameters
    ----------
    title : str
    sims : mapping of str to Simulation
        A run's name, and the run.
    until_us : float, optional
        Where the picture ends.
    called : callable
        What a layer is called; layers of one name share a colour.
    """
    runs = {name: spans(sim) for name, sim in sims.items()}
    runs = {name: frame.assign(layer=frame["layer"].map(called)) for name, frame in runs.items()}
    tracks = [(name, where) for name, frame in runs.items() for where in frame["where"].unique()]
    tracks = sorted(tracks, key=lambda track: (list(runs).index(track[0]), track[1] != "NPU", track[1]))
    drawn = _figure(title, height=110 + 42 * len(tracks), y_range=FactorRange(*reversed(tracks)))
    layers = list(
        dict.fromkeys(layer for frame in runs.values() for layer in frame.sort_values("start_us")["layer"])
    )
    whole_us = until_us or max(frame["end_us"].max() for frame in runs.values())
    for number, layer in enumerate(layers):
        colour = _COLOURS[number % len(_COLOURS)]
        data: dict[str, list[Any]] = {"track": [], "left": [], "right": [], "what": [], "edge": []}
        for name, frame in runs.items():
            for row in frame[frame["layer"] == layer].itertuples():
                if until_us is None or row.start_us < until_us:
                    data["track"].append((name, row.where))
                    data["left"].append(row.start_us)
                    data["right"].append(row.end_us)
                    data["what"].append(f"{layer}, {row.part}")
                    wide = row.end_us - row.start_us > whole_us / 200
                    data["edge"].append("white" if wide else colour)
        drawn.hbar(
            y="track",
            left="left",
            right="right",
            height=0.8,
            source=ColumnDataSource(data),
            fill_color=colour,
            line_color="edge",
            line_width=0.5,
            hatch_pattern=_HATCHES[number % len(_HATCHES)],
            hatch_color="white",
            hatch_alpha=0.6,
            legend_label=layer,
        )
    drawn.xaxis.axis_label = "time (µs)"
    drawn.xaxis.formatter = NumeralTickFormatter(format="0,0")
    if until_us is not None:
        drawn.x_range.start, drawn.x_range.end = 0, until_us
    drawn.add_tools(
        HoverTool(tooltips=[("", "@what"), ("from", "@left{0.000} µs"), ("to", "@right{0.000} µs")])
    )
    drawn.add_layout(drawn.legend[0], "right")
    _show(drawn)
