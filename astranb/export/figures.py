"""Figures for analysis, with Bokeh: latency curves, rooflines, heat maps, Gantt charts.

Every function returns a Bokeh figure in one look (Okabe-Ito and cividis, light or dark);
:func:`show` shows one in a notebook, :func:`save` writes one to a file, both without a
network. Names from files are shown as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.colours import Colours
from astranb.core.errors import InputError, near
from astranb.core.extras import needs_extra
from astranb.core.units import format_bytes, format_time
from astranb.engine.cacheline import SPAN_STATES
from astranb.gpu import Preset
from astranb.gpu import preset as find_preset
from astranb.sim import Simulation

from ._roofline import reached, roofs_of_preset, roofs_of_run
from ._traffic import traffic

with needs_extra("anb.export.figures"):
    from bokeh.models import FixedTicker, HoverTool

    from ._scales import colour_bar, mapper, named
    from ._theme import load, plain, save, show, styled, titled

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["gantt", "heat_map", "latency_curve", "load", "roofline", "save", "show", "traffic"]

_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus", "cross", "star")
_DASHES = ("solid", "dashed", "dotted", "dotdash")
_HATCHES = (" ", "x", "/", ".")  # of SPAN_STATES: never colour alone
_STATE_COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#56b4e9")
_MOST_SPANS = 20_000
_MOST_BINS = 512


def latency_curve(frames: pd.DataFrame | Sequence[pd.DataFrame], *, by: str = "", dark: bool = False) -> Any:
    """Draw time over size, both logarithmic, a line for each way to do it.

    Parameters
    ----------
    frames : DataFrame or sequence of DataFrame
        Columns ``size_bytes`` and ``time_ps``, as :func:`astranb.explore.best_algorithm` gives
        them for one size each; rows without a time are left out.
    by : str
        The column that tells lines apart; ``algorithm`` and ``protocol`` where not given.
    dark : bool
        For dark ground.

    Returns
    -------
    bokeh.plotting.figure

    Raises
    ------
    InputError
        A column is missing, or no row has a time.

    Examples
    --------
    >>> import astranb as anb
    >>> sizes = ["1 KiB", "4 KiB"]
    >>> tables = [anb.explore.best_algorithm("switch:gpus=2", "all_gather", size) for size in sizes]
    >>> figure = latency_curve(tables)
    >>> figure.xaxis[0].axis_label
    'bytes of the larger buffer of a rank'
    """
    import pandas as pd

    table = frames if isinstance(frames, pd.DataFrame) else pd.concat(list(frames), ignore_index=True)
    keys = [by] if by else [name for name in ("algorithm", "protocol") if name in table]
    for name in ("size_bytes", "time_ps", *keys):
        if name not in table:
            raise InputError(f"no column {name!r}", where="latency_curve", hint=near(name, table.columns))
    table = table.dropna(subset=["size_bytes", "time_ps"])
    table = table[(table["size_bytes"] > 0) & (table["time_ps"] > 0)]
    if table.empty:
        raise InputError("no row has a size and a time", where="latency_curve")
    colours = Colours.of(dark)
    drawn = titled("Time over size", x_axis_type="log", y_axis_type="log")
    drawn.xaxis.axis_label = "bytes of the larger buffer of a rank"
    drawn.yaxis.axis_label = "time (µs)"
    groups = table.groupby(keys, sort=False) if keys else [("", table)]
    for number, (key, rows) in enumerate(groups):
        rows = rows.sort_values("size_bytes")  # noqa: PLW2901 - the same rows
        data = {
            "size": rows["size_bytes"].astype(float).tolist(),
            "us": [float(ps) / 1e6 for ps in rows["time_ps"]],
            "said": [format_bytes(int(size)) for size in rows["size_bytes"]],
            "took": [format_time(int(ps)) for ps in rows["time_ps"]],
        }
        words = plain(", ".join(map(str, key)) if isinstance(key, tuple) else str(key)) or "time"
        colour = colours.lines[number % len(colours.lines)]
        dash = _DASHES[number // len(colours.lines) % len(_DASHES)]
        same = {"source": data, "color": colour, "legend_label": words, "name": words}
        drawn.line("size", "us", line_dash=dash, line_width=2, **same)
        drawn.scatter("size", "us", marker=_MARKERS[number % len(_MARKERS)], size=8, **same)
    sizes = sorted({int(size) for size in table["size_bytes"]})
    every = max(1, -(-len(sizes) // 12))
    drawn.xaxis.ticker = FixedTicker(ticks=sizes[::every])
    drawn.xaxis.major_label_overrides = {size: format_bytes(size) for size in sizes}
    drawn.add_tools(HoverTool(tooltips=[("", "$name"), ("size", "@said"), ("time", "@took")]))
    drawn.add_layout(drawn.legend[0], "right")
    return styled(drawn, colours)


def roofline(of: Simulation | Preset | str, *, dark: bool = False) -> Any:
    """Draw what bounds a GPU's bandwidth: bytes under way, or the width of its ways.

    Parameters
    ----------
    of : Simulation or Preset or str
        A run also has the roof of its links and a point for each rank; a preset, its name or
        its file has what is inside a GPU.
    dark : bool
        For dark ground.

    Returns
    -------
    bokeh.plotting.figure

    Notes
    -----
    Little's law: bandwidth = bytes under way / latency, up to what slices, channels, issue
    slots or lanes carry. Latencies are those of one line on an idle machine. A rank's point
    stands at the bytes that the SMs it uses can keep under way, and at the payload that left
    it over the whole time: far below the roof it waited for something else.

    Examples
    --------
    >>> roofline("h100-sxm").title.text
    'What bounds the bandwidth of h100-sxm'
    """
    colours = Colours.of(dark)
    run = of if isinstance(of, Simulation) else None
    gpu = run.presets[0] if run else of if isinstance(of, Preset) else find_preset(str(of))
    roofs = roofs_of_run(run) if run else roofs_of_preset(gpu)
    one_sm = gpu.max_outstanding * gpu.line_bytes
    under_way = np.geomspace(gpu.line_bytes, 2 * gpu.sms * one_sm, 200)
    where = f" in {run.collective.title} on {run.infra.name}" if run else ""
    drawn = titled(f"What bounds the bandwidth of {gpu.name}{where}", x_axis_type="log", y_axis_type="log")
    drawn.xaxis.axis_label = "bytes under way in a GPU"
    drawn.yaxis.axis_label = "bandwidth (GB/s, GB = 10⁹ bytes)"
    for number, roof in enumerate(roofs):
        words = f"{roof.name}: {format_time(roof.latency_ps)}, {roof.flat_Bps / 1e9:,.0f} GB/s"
        drawn.line(
            under_way, roof.at(under_way) / 1e9, color=colours.lines[number], line_width=2,
            line_dash=_DASHES[number % len(_DASHES)], legend_label=words,
        )  # fmt: skip
    if run:
        x, rates = reached(run)
        seen = rates > 0
        data = {"x": x[seen], "y": rates[seen] / 1e9, "rank": [f"GPU{k}" for k in np.flatnonzero(seen)]}
        words = "ranks of this run"
        drawn.scatter(
            "x", "y", source=data, size=11, marker="star", color=colours.ink, legend_label=words, name="ranks"
        )
        hover = HoverTool(tooltips=[("", "@rank"), ("under way", "@x bytes"), ("out", "@y GB/s")])
        hover.renderers = drawn.select({"name": "ranks"})
        drawn.add_tools(hover)
    ticks = [2**k for k in range(7, 40, 3) if under_way[0] <= 2**k <= under_way[-1]]
    drawn.xaxis.ticker = FixedTicker(ticks=ticks)
    drawn.xaxis.major_label_overrides = {tick: format_bytes(tick) for tick in ticks}
    drawn.legend.location = "bottom_right"
    return styled(drawn, colours)


def heat_map(sim: Simulation, what: str = "traffic", *, dark: bool = False) -> Any:
    """Draw who sent how much to whom, or how busy links were over time.

    Parameters
    ----------
    sim : Simulation
    what : str
        ``"traffic"``: GPU by GPU, payload (see :func:`traffic`); ``"links"``: link by time, the
        busy fraction of each bin of the recording, parallel lanes averaged.
    dark : bool
        For dark ground.

    Returns
    -------
    bokeh.plotting.figure

    Raises
    ------
    InputError
        There is no such map, or nothing was recorded for it.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_gather("8 KiB", "allpairs"))
    >>> sim.run().why
    'end'
    >>> int(traffic(sim)[0, 1])
    1024
    >>> heat_map(sim).title.text
    'Bytes from GPU to GPU: all_gather/allpairs on dgx_h100-infra'
    """
    if what not in ("traffic", "links"):
        raise InputError(f"there is no map {what!r}", where="heat_map", hint=near(what, ("traffic", "links")))
    return (_traffic_map if what == "traffic" else _links_map)(sim, Colours.of(dark))


def _traffic_map(sim: Simulation, colours: Colours) -> Any:
    found = traffic(sim)
    ranks = len(found)
    names = [f"GPU{rank}" for rank in range(ranks)]
    drawn = titled(
        f"Bytes from GPU to GPU: {sim.engine.work.title} on {sim.engine.infra.name}",
        x_range=(0, ranks), y_range=(ranks, 0), height=520,
    )  # fmt: skip
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = "to", "from"
    scale = mapper(colours, float(found.max(initial=0)))
    drawn.image([found.astype(float)], x=0, y=0, dw=ranks, dh=ranks, color_mapper=scale)
    if ranks <= 16:
        rows, columns = np.nonzero(found)
        much = found[rows, columns] / max(1, found.max()) > 0.5
        ink = np.where(much != colours.dark, "#ffffff", "#000000")
        drawn.text(
            columns + 0.5, rows + 0.5, [format_bytes(int(b)) for b in found[rows, columns]],
            text_align="center", text_baseline="middle", text_font_size="10px", text_color=ink.tolist(),
        )  # fmt: skip
    named(drawn.xaxis[0], names)
    named(drawn.yaxis[0], names)
    drawn.add_tools(HoverTool(tooltips=[("bytes", "@image{0,0}")], mode="mouse"))
    drawn.grid.visible = False
    colour_bar(drawn, colours, scale, "bytes")
    return styled(drawn, colours)


def _links_map(sim: Simulation, colours: Colours) -> Any:
    noted = sim.engine.recorder.activity()
    bins, bin_ps = int(noted["bins"]), int(noted["bin_ps"])
    if not bins:
        raise InputError("nothing was recorded", where="heat_map", hint="Simulation(..., record=True)")
    pairs: dict[str, list[int]] = {}
    for link in np.flatnonzero(noted["link_busy"].any(axis=1)).tolist():
        pairs.setdefault(sim.engine.fabric.name(link).partition("#")[0], []).append(link)
    if not pairs:
        raise InputError("no line has crossed a link yet", where="heat_map")
    fold = -(-bins // _MOST_BINS)
    width = -(-bins // fold)
    rows = np.zeros((len(pairs), width * fold))
    for number, lanes in enumerate(pairs.values()):
        rows[number, :bins] = noted["link_busy"][lanes].mean(axis=0)
    rows = rows.reshape(len(pairs), width, fold).mean(axis=2)
    end_us = width * fold * bin_ps / 1e6
    drawn = titled(
        f"How busy links were: {sim.engine.work.title} on {sim.engine.infra.name}",
        x_range=(0, end_us), y_range=(len(pairs), 0), height=max(320, min(1200, 60 + 14 * len(pairs))),
    )  # fmt: skip
    drawn.xaxis.axis_label = f"time (µs; a column is {format_time(fold * bin_ps)})"
    scale = mapper(colours, 1.0)
    drawn.image([rows], x=0, y=0, dw=end_us, dh=len(pairs), color_mapper=scale)
    named(drawn.yaxis[0], _short(list(pairs)), most=80)
    drawn.add_tools(HoverTool(tooltips=[("busy", "@image{0%}"), ("time", "$x{0.000} µs")], mode="mouse"))
    drawn.grid.visible = False
    colour_bar(drawn, colours, scale, "busy")
    return styled(drawn, colours)


def _short(links: Sequence[str]) -> list[str]:
    """Leave out what all names of links begin with, on both sides of the arrow."""
    ends = [link.split("->", 1) for link in links]
    levels = list(zip(*(name.split(".")[:-1] for pair in ends for name in pair), strict=False))
    same = next((k for k, level in enumerate(levels) if len(set(level)) > 1), len(levels))
    return ["->".join(name.split(".", same)[same] for name in pair) for pair in ends]


def gantt(sim: Simulation, *, dark: bool = False) -> Any:
    """Draw what every thread block did when.

    Parameters
    ----------
    sim : Simulation
    dark : bool
        For dark ground.

    Returns
    -------
    bokeh.plotting.figure
        Colours and hatching tell moving, signalling, waiting and draining apart. Of more
        than 20,000 spans the longest are drawn, and the title says so.
    """
    spans = sim.spans()
    left_out = max(0, len(spans) - _MOST_SPANS)
    if left_out:
        length = spans["end_ps"] - spans["start_ps"]
        spans = spans[np.sort(np.argpartition(length, left_out)[left_out:])]
    colours = Colours.of(dark)
    blocks, place = np.unique(spans["block"], return_inverse=True)
    first: dict[int, int] = {}
    for number, gpu in enumerate(sim.engine.machine.blocks["gpu"].tolist()):
        first.setdefault(gpu, number)
    owners = sim.engine.machine.blocks["gpu"][blocks].tolist()
    names = [f"GPU{g} block {b - first[g]}" for g, b in zip(owners, blocks.tolist(), strict=True)]
    title = f"What thread blocks did: {sim.engine.work.title} on {sim.engine.infra.name}"
    if left_out:
        title += f" (the {len(spans):,} longest of {len(spans) + left_out:,} spans)"
    drawn = titled(title, y_range=(max(1, len(names)), 0), height=max(260, min(1200, 80 + 15 * len(names))))
    drawn.xaxis.axis_label = "time (µs)"
    phases = [*map(plain, sim.engine.program.phase_names), ""]
    for state, word in enumerate(SPAN_STATES):
        mine = np.flatnonzero(spans["state"] == state)
        if not len(mine):
            continue
        start, end = spans["start_ps"][mine], spans["end_ps"][mine]
        data = {
            "left": start / 1e6,
            "right": end / 1e6,
            "top": place[mine] + 0.1,
            "bottom": place[mine] + 0.9,
            "block": [names[k] for k in place[mine]],
            "took": [format_time(int(ps)) for ps in end - start],
            "phase": [phases[min(int(p), len(phases) - 1)] for p in spans["phase"][mine]],
        }
        drawn.quad(
            "left", "right", "top", "bottom", source=data, color=_STATE_COLOURS[state], line_width=0,
            hatch_pattern=_HATCHES[state], hatch_color=colours.back, hatch_alpha=0.6, hatch_scale=6,
            legend_label=word, name=word,
        )  # fmt: skip
    named(drawn.yaxis[0], names)
    tips = [("", "@block"), ("doing", "$name"), ("for", "@took"), ("phase", "@phase")]
    drawn.add_tools(HoverTool(tooltips=tips))
    drawn.ygrid.visible = False
    if drawn.legend:
        drawn.add_layout(drawn.legend[0], "above")
        drawn.legend.orientation = "horizontal"
    return styled(drawn, colours)
