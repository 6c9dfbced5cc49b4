"""Figures for analysis, with Bokeh: latency curves, rooflines, heat maps, Gantt charts.

Every function returns a Bokeh figure in the same style (Okabe-Ito and cividis, light or dark).
:func:`show` shows a figure in a notebook and :func:`save` writes it to a file, both without a
network. Names from files are shown as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.colours import TIME_COLOURS, Colours
from astranb.core.errors import InputError, near
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.ticks import transfer_ps
from astranb.core.units import format_bytes, format_time
from astranb.engine.cacheline import SPAN_STATES, CacheLineEngine
from astranb.gpu import Preset
from astranb.gpu import preset as find_preset
from astranb.sim import Simulation

from .figure_style import cividis, mapped, name_ticks, new_figure, plain, styled
from .traffic import traffic_of

with needs_extra("anb.export.figures"):
    from bokeh.embed import file_html
    from bokeh.io import output_notebook
    from bokeh.io import show as bokeh_show
    from bokeh.models import FixedTicker, HoverTool, Plot
    from bokeh.resources import INLINE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["gantt", "heat_map", "latency_curve", "load", "roofline", "save", "show", "skew_curve", "traffic"]

_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus", "cross", "star")
_DASHES = ("solid", "dashed", "dotted", "dotdash")
_HATCHES = (" ", "x", "/", ".", "-")  # of SPAN_STATES: never colour alone
_MOST_SPANS = 20_000
_MOST_BINS = 512
_loaded = False


def latency_curve(
    frames: pd.DataFrame | Sequence[pd.DataFrame], *, by: str = "", x: str = "size_bytes", dark: bool = False
) -> Any:
    """Draw time over size, both logarithmic, with one line for each algorithm and protocol.

    Parameters
    ----------
    frames : DataFrame or sequence of DataFrame
        Columns ``size_bytes`` and ``time_ps``, as :func:`astranb.explore.best_algorithm` gives
        them for one size each; rows without a time are left out.
    by : str
        The column whose values get a line each; by default ``algorithm`` and ``protocol``.
    x : str
        Another column of positive numbers instead of the size.
    dark : bool
        Colours for a dark background.

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
    for name in (x, "time_ps", *keys):
        if name not in table:
            raise InputError(f"no column {name!r}", where="latency_curve", hint=near(name, table.columns))
    table = table.dropna(subset=[x, "time_ps"])
    table = table[(table[x] > 0) & (table["time_ps"] > 0)]
    what, written = ("size", format_bytes) if x == "size_bytes" else (x, str)
    if table.empty:
        raise InputError(f"no row has a {what} and a time", where="latency_curve")
    colours = Colours.of(dark)
    drawn = new_figure(f"Time over {what}", x_axis_type="log", y_axis_type="log")
    drawn.xaxis.axis_label = "bytes of the larger buffer of a rank" if x == "size_bytes" else plain(x)
    drawn.yaxis.axis_label = "time (µs)"
    groups = table.groupby(keys, sort=False) if keys else [("", table)]
    for number, (key, rows) in enumerate(groups):
        rows = rows.sort_values(x)  # noqa: PLW2901 - the same rows
        data: dict[str, list[Any]] = {
            "x": rows[x].astype(float).tolist(),
            "y": [float(ps) / 1e6 for ps in rows["time_ps"]],
            "label": [written(int(size)) for size in rows[x]],
            "took": [format_time(int(ps)) for ps in rows["time_ps"]],
        }
        label = plain(", ".join(map(str, key)) if isinstance(key, tuple) else str(key)) or "time"
        _curve(drawn, data, label, number, colours)
    sizes = sorted({int(size) for size in table[x]})
    every = max(1, -(-len(sizes) // 12))
    drawn.xaxis.ticker = FixedTicker(ticks=sizes[::every])
    drawn.xaxis.major_label_overrides = {size: written(size) for size in sizes}
    drawn.add_tools(HoverTool(tooltips=[("", "$name"), (what, "@label"), ("time", "@took")]))
    drawn.add_layout(drawn.legend[0], "right")
    return styled(drawn, colours)


def _curve(drawn: Any, data: dict[str, list[Any]], label: str, number: int, colours: Colours) -> None:
    """Draw a line with a mark at each point of ``x`` and ``y``; it has a look of its own."""
    colour = colours.lines[number % len(colours.lines)]
    dash = _DASHES[number // len(colours.lines) % len(_DASHES)]
    same = {"source": data, "color": colour, "legend_label": label, "name": label}
    drawn.line("x", "y", line_dash=dash, line_width=2, **same)
    drawn.scatter("x", "y", marker=_MARKERS[number % len(_MARKERS)], size=8, **same)


def skew_curve(frame: pd.DataFrame, *, title: str = "", dark: bool = False) -> Any:
    """Draw the mean time over the spread of the starts, a line for each collective.

    Parameters
    ----------
    frame : DataFrame
        As :meth:`astranb.explore.Skew.summary` gives it.
    title : str
    dark : bool
        Colours for a dark background.

    Returns
    -------
    bokeh.plotting.figure
        With the confidence intervals of the means.

    Raises
    ------
    InputError
        A column is missing.

    Examples
    --------
    >>> import astranb as anb
    >>> ring = anb.collectives.all_reduce("4 KiB", "ring")
    >>> found = anb.explore.skew("switch:gpus=2", ring, spreads=["0 ns", "2 us"], runs=2)
    >>> skew_curve(found.summary()).xaxis[0].axis_label
    'spread of the starts (µs)'
    """
    for name in ("collective", "spread_ps", "time_ps", "low_ps", "high_ps", "slowdown"):
        if name not in frame:
            raise InputError(f"no column {name!r}", where="skew_curve", hint=near(name, frame.columns))
    colours = Colours.of(dark)
    drawn = new_figure(f"Time over the spread of the starts{f': {title}' if title else ''}")
    drawn.xaxis.axis_label = "spread of the starts (µs)"
    drawn.yaxis.axis_label = "time (µs)"
    drawn.y_range.start = 0
    for number, (label, group) in enumerate(frame.groupby("collective", sort=False)):
        rows = group.sort_values("spread_ps")
        us = {
            column: (rows[column] / 1e6).tolist() for column in ("spread_ps", "time_ps", "low_ps", "high_ps")
        }
        data = {
            "x": us["spread_ps"],
            "y": us["time_ps"],
            "took": [format_time(int(ps)) for ps in rows["time_ps"]],
            "slower": [f"{times:.2f}" for times in rows["slowdown"]],
        }
        drawn.varea(
            us["spread_ps"], us["low_ps"], us["high_ps"],
            color=colours.lines[number % len(colours.lines)], alpha=0.15,
        )  # fmt: skip
        _curve(drawn, data, plain(str(label)), number, colours)
    shown = [("", "$name"), ("mean time", "@took"), ("times together", "@slower")]
    drawn.add_tools(HoverTool(tooltips=shown))
    drawn.add_layout(drawn.legend[0], "right")
    return styled(drawn, colours)


def roofline(of: Simulation | Preset | str, *, dark: bool = False) -> Any:
    """Draw what bounds a GPU's bandwidth: the bytes in flight, or the bandwidth of its parts.

    Parameters
    ----------
    of : Simulation or Preset or str
        A simulation adds the roof of its links and a point for each rank to the roofs inside
        the GPU; a preset, its name or its file has only the latter.
    dark : bool
        Colours for a dark background.

    Returns
    -------
    bokeh.plotting.figure

    Notes
    -----
    Little's law: bandwidth = bytes in flight / latency, up to the bandwidth of slices, channels,
    issue slots or links. Latencies are those of one line on an idle machine. A rank's point is at
    the bytes that its SMs in use can keep in flight and at its outgoing payload divided by the total
    time. A rank far below the roof waited for something else.

    Examples
    --------
    >>> roofline("h100-sxm").title.text
    'What bounds the bandwidth of h100-sxm'
    """
    colours = Colours.of(dark)
    run = _engine_of(of, "roofline") if isinstance(of, Simulation) else None
    gpu = run.presets[0] if run else of if isinstance(of, Preset) else find_preset(str(of))
    roofs = _roofs_of_run(run) if run else _roofs_of_preset(gpu)
    one_sm = gpu.max_outstanding * gpu.line_bytes
    in_flight = np.geomspace(gpu.line_bytes, 2 * gpu.sms * one_sm, 200)
    where = f" in {run.work.title} on {run.infra.name}" if run else ""
    drawn = new_figure(
        f"What bounds the bandwidth of {gpu.name}{where}", x_axis_type="log", y_axis_type="log"
    )
    drawn.xaxis.axis_label = "bytes in flight in a GPU"
    drawn.yaxis.axis_label = "bandwidth (GB/s, GB = 10⁹ bytes)"
    for number, roof in enumerate(roofs):
        label = f"{roof.name}: {format_time(roof.latency_ps)}, {roof.flat_Bps / 1e9:,.0f} GB/s"
        drawn.line(
            in_flight, roof.at(in_flight) / 1e9, color=colours.lines[number], line_width=2,
            line_dash=_DASHES[number % len(_DASHES)], legend_label=label,
        )  # fmt: skip
    if run:
        x, rates = _reached(run)
        seen = rates > 0
        data = {"x": x[seen], "y": rates[seen] / 1e9, "rank": [f"GPU{k}" for k in np.flatnonzero(seen)]}
        label = "ranks of this run"
        drawn.scatter(
            "x", "y", source=data, size=11, marker="star", color=colours.ink, legend_label=label, name="ranks"
        )
        hover = HoverTool(tooltips=[("", "@rank"), ("in flight", "@x bytes"), ("out", "@y GB/s")])
        hover.renderers = drawn.select({"name": "ranks"})
        drawn.add_tools(hover)
    ticks = [2**k for k in range(7, 40, 3) if in_flight[0] <= 2**k <= in_flight[-1]]
    drawn.xaxis.ticker = FixedTicker(ticks=ticks)
    drawn.xaxis.major_label_overrides = {tick: format_bytes(tick) for tick in ticks}
    drawn.legend.location = "bottom_right"
    return styled(drawn, colours)


@dataclass(frozen=True)
class _Roof:
    """One limit: a slope by Little's law up to a constant bandwidth.

    The latency is the round trip of one line on an idle machine.
    """

    name: str
    latency_ps: int
    flat_Bps: float  # noqa: N815 - unit in the name

    def at(self, in_flight_bytes: np.ndarray) -> np.ndarray:
        """Return the bandwidth at a number of bytes in flight."""
        return np.minimum(in_flight_bytes * 1e12 / max(1, self.latency_ps), self.flat_Bps)


def _roofs_of_preset(gpu: Preset) -> list[_Roof]:
    """Return the limits inside one GPU: its memory, its L2, the issue slots of its SMs."""
    l2_ps = 2 * gpu.noc_ps + gpu.l2_ps
    found = [_Roof("memory", l2_ps + gpu.hbm_ps, gpu.hbm_Bps)]
    if gpu.l2_bytes:
        found.append(_Roof("L2", l2_ps, gpu.l2_Bps))
    issued_Bps = gpu.sms * gpu.line_bytes * gpu.bulk_lines * 1e12 / max(1, gpu.issue_ps)  # noqa: N806
    return [*found, _Roof("issue slots", l2_ps, issued_Bps)]


def _roofs_of_run(engine: CacheLineEngine) -> list[_Roof]:
    """Return the limits of a run's first GPU and of its links, for a round trip to the farthest peer."""
    gpu, links = engine.presets[0], engine.machine.links
    found = _roofs_of_preset(gpu)
    used = np.unique(np.asarray(engine.machine.route_links))
    out = used[links["src"][used] == engine.fabric.gpus[0]]
    if not len(out):
        return found
    peers = [(0, rank) for rank in range(1, len(engine.fabric.gpus))]
    routes, _ = engine.fabric.routes([*peers, *((b, a) for a, b in peers)])

    def latency(pair: tuple[int, int]) -> int:
        route = routes[pair][0]
        passed = sum(
            int(engine.fabric.graph.nodes.forward_ps[int(links["dst"][link])]) for link in route[:-1]
        )
        size = gpu.line_bytes + gpu.header_bytes
        return passed + sum(
            int(links["latency_ps"][k]) + transfer_ps(size, int(links["bandwidth_Bps"][k])) for k in route
        )

    farthest = max(latency((a, b)) + latency((b, a)) for a, b in peers)
    payload = gpu.line_bytes / (gpu.line_bytes + gpu.header_bytes)
    wide = float(links["bandwidth_Bps"][out].sum()) * payload
    return [*found, _Roof("links out of the GPU", 2 * gpu.noc_ps + gpu.l2_ps + farthest, wide)]


def _reached(engine: CacheLineEngine) -> tuple[np.ndarray, np.ndarray]:
    """Return for each rank the bytes that its SMs in use can keep in flight, and its outgoing bandwidth."""
    machine = engine.machine
    used = np.zeros(len(machine.gpus))
    taken = np.unique(machine.blocks["sm"][machine.blocks["sm"] >= 0])
    np.add.at(used, machine.sms["gpu"][taken], 1)
    lines = machine.gpus["max_outstanding"] * machine.gpus["line_bytes"]
    return used * lines, traffic_of(engine).sum(axis=1) * 1e12 / max(1, engine.time_ps)


def heat_map(sim: Simulation, what: str = "traffic", *, dark: bool = False) -> Any:
    """Draw who sent how much to whom, or how busy links were over time.

    Parameters
    ----------
    sim : Simulation
    what : str
        ``"traffic"``: GPU by GPU, payload (see :func:`traffic`); ``"links"``: link by time, the
        busy fraction in each bin of the recording, averaged over parallel links.
    dark : bool
        Colours for a dark background.

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
        raise InputError(f"unknown map {what!r}", where="heat_map", hint=near(what, ("traffic", "links")))
    engine = _engine_of(sim, "heat_map")
    return (_traffic_map if what == "traffic" else _links_map)(engine, Colours.of(dark))


def _traffic_map(engine: CacheLineEngine, colours: Colours) -> Any:
    found = traffic_of(engine)
    ranks = len(found)
    names = [f"GPU{rank}" for rank in range(ranks)]
    drawn = new_figure(
        f"Bytes from GPU to GPU: {engine.work.title} on {engine.infra.name}",
        x_range=(0, ranks), y_range=(ranks, 0), height=520,
    )  # fmt: skip
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = "to", "from"
    scale = cividis(colours, float(found.max(initial=0)))
    drawn.image([found], x=0, y=0, dw=ranks, dh=ranks, color_mapper=scale)
    if ranks <= 16:
        rows, columns = np.nonzero(found)
        much = found[rows, columns] / max(1, found.max()) > 0.5
        ink = np.where(much != colours.dark, "#ffffff", "#000000")
        drawn.text(
            columns + 0.5, rows + 0.5, [format_bytes(int(b)) for b in found[rows, columns]],
            text_align="center", text_baseline="middle", text_font_size="10px", text_color=ink.tolist(),
        )  # fmt: skip
    name_ticks(drawn.xaxis[0], names)
    name_ticks(drawn.yaxis[0], names)
    drawn.add_tools(HoverTool(tooltips=[("bytes", "@image{0,0}")], mode="mouse"))
    return mapped(drawn, colours, scale, "bytes")


def _links_map(engine: CacheLineEngine, colours: Colours) -> Any:
    recorded = engine.recorder.activity()
    bins, bin_ps = int(recorded["bins"]), int(recorded["bin_ps"])
    if not bins:
        raise InputError("nothing was recorded", where="heat_map", hint="Simulation(..., record=True)")
    pairs: dict[str, list[int]] = {}
    for link in np.flatnonzero(recorded["link_busy"].any(axis=1)).tolist():
        pairs.setdefault(engine.fabric.name(link).partition("#")[0], []).append(link)
    if not pairs:
        raise InputError("no line has crossed a link yet", where="heat_map")
    fold = -(-bins // _MOST_BINS)
    width = -(-bins // fold)
    rows = np.zeros((len(pairs), width * fold))
    for number, links in enumerate(pairs.values()):
        rows[number, :bins] = recorded["link_busy"][links].mean(axis=0)
    rows = rows.reshape(len(pairs), width, fold).mean(axis=2)
    end_us = width * fold * bin_ps / 1e6
    drawn = new_figure(
        f"How busy links were: {engine.work.title} on {engine.infra.name}",
        x_range=(0, end_us), y_range=(len(pairs), 0), height=max(320, min(1200, 60 + 14 * len(pairs))),
    )  # fmt: skip
    drawn.xaxis.axis_label = f"time (µs; a column is {format_time(fold * bin_ps)})"
    scale = cividis(colours, 1.0)
    drawn.image([rows], x=0, y=0, dw=end_us, dh=len(pairs), color_mapper=scale)
    name_ticks(drawn.yaxis[0], _short(list(pairs)), most=80)
    drawn.add_tools(HoverTool(tooltips=[("busy", "@image{0%}"), ("time", "$x{0.000} µs")], mode="mouse"))
    return mapped(drawn, colours, scale, "busy")


def _short(links: Sequence[str]) -> list[str]:
    """Remove the common prefix of all names of links, on both sides of the arrow."""
    ends = [link.split("->", 1) for link in links]
    levels = list(zip(*(name.split(".")[:-1] for pair in ends for name in pair), strict=False))
    same = next((k for k, level in enumerate(levels) if len(set(level)) > 1), len(levels))
    return ["->".join(name.split(".", same)[same] for name in pair) for pair in ends]


def traffic(sim: Simulation) -> np.ndarray:
    """Return the bytes that operations have moved from each GPU to each other one so far.

    Parameters
    ----------
    sim : Simulation

    Returns
    -------
    ndarray of int64, shape (ranks, ranks)
        ``[a, b]``: payload from a to b, without headers, signals and polls; 0 on the
        diagonal. A load counts as sent by the GPU that is read. A line counts when its load is
        issued; in-switch reductions and multicasts count once for every GPU.
    """
    return traffic_of(_engine_of(sim, "traffic")).astype(np.int64)


def gantt(sim: Simulation, *, dark: bool = False) -> Any:
    """Draw what every thread block did over time.

    Parameters
    ----------
    sim : Simulation
    dark : bool
        Colours for a dark background.

    Returns
    -------
    bokeh.plotting.figure
        Issue or data, signal, semaphore, fence and a late start differ in colour and hatching. Beyond
        20,000 spans only the longest are drawn, as the title reports.
    """
    engine = _engine_of(sim, "gantt")
    spans = engine.spans()
    left_out = max(0, len(spans) - _MOST_SPANS)
    if left_out:
        length = spans["end_ps"] - spans["start_ps"]
        spans = spans[np.sort(np.argpartition(length, left_out)[left_out:])].view(np.recarray)
    colours = Colours.of(dark)
    blocks, place = np.unique(spans["block"], return_inverse=True)
    first: dict[int, int] = {}
    for number, gpu in enumerate(engine.machine.blocks["gpu"].tolist()):
        first.setdefault(gpu, number)
    owners = engine.machine.blocks["gpu"][blocks].tolist()
    names = [f"GPU{g} block {b - first[g]}" for g, b in zip(owners, blocks.tolist(), strict=True)]
    title = f"What thread blocks did: {engine.work.title} on {engine.infra.name}"
    if left_out:
        title += f" (the {len(spans):,} longest of {len(spans) + left_out:,} spans)"
    drawn = new_figure(
        title, y_range=(max(1, len(names)), 0), height=max(260, min(1200, 80 + 15 * len(names)))
    )
    drawn.xaxis.axis_label = "time (µs)"
    phases = [*map(plain, engine.program.phase_names), ""]
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
            "phase": [phases[int(p) if 0 <= p < len(phases) else -1] for p in spans["phase"][mine]],
        }
        drawn.quad(
            "left", "right", "top", "bottom", source=data, color=TIME_COLOURS[word], line_width=0,
            hatch_pattern=_HATCHES[state], hatch_color=colours.back, hatch_alpha=0.6, hatch_scale=6,
            legend_label=word, name=word,
        )  # fmt: skip
    name_ticks(drawn.yaxis[0], names)
    tips = [("", "@block"), ("doing", "$name"), ("for", "@took"), ("phase", "@phase")]
    drawn.add_tools(HoverTool(tooltips=tips))
    drawn.ygrid.visible = False
    if drawn.legend:
        drawn.add_layout(drawn.legend[0], "above")
        drawn.legend.orientation = "horizontal"
    return styled(drawn, colours)


def _engine_of(sim: Simulation, figure: str) -> CacheLineEngine:
    """Return the engine of a simulation if it records what the figures show."""
    if not isinstance(sim.engine, CacheLineEngine):
        raise InputError(
            f"{sim.fidelity} runs have no thread blocks and lines to draw",
            where=figure,
            hint="use Simulation(..., fidelity='cacheline')",
        )
    return sim.engine


def load() -> None:
    """Load BokehJS into the notebook page from the installed package, without a network.

    :func:`show` calls this once. Call it again after reloading the page.
    """
    global _loaded  # noqa: PLW0603 - one page, one kernel
    output_notebook(resources=INLINE, hide_banner=True)
    _loaded = True


def show(drawn: Any) -> None:
    """Show a figure in a notebook, without a network.

    Parameters
    ----------
    drawn : figure
        A figure from the functions of this module.

    Raises
    ------
    InputError
        The code does not run in a notebook.
    """
    try:
        from IPython import get_ipython
    except ImportError:
        get_ipython = None
    shell = get_ipython() if get_ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        raise InputError("not in a notebook", where="figures.show", hint="use figures.save(fig, path)")
    if not _loaded:
        load()
    bokeh_show(drawn)


def save(drawn: Any, path: str | Path) -> Path:
    """Write a figure as one HTML file that needs no network.

    Parameters
    ----------
    drawn : figure
        A figure, or several as a layout.
    path : str or Path
        An existing file is replaced only when the new one is complete.

    Returns
    -------
    Path
        The file, 1 MB or more because it contains BokehJS.
    """
    plot = drawn if isinstance(drawn, Plot) else next(iter(drawn.select({"type": Plot})))
    text = file_html(drawn, INLINE, str(getattr(plot.title, "text", "")) or "astranb")
    # Without this, a dark figure has a white frame; "</head>" is a part of BokehJS, too.
    style = f"<head><style>body{{background:{plot.background_fill_color}}}</style>"
    with whole_file(Path(path)) as file:
        file.write(text.replace("<head>", style, 1).encode())
    return Path(path)
