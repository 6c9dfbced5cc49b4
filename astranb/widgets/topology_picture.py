"""The topology with what happens on it at a moment, as a picture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astranb.core.colours import Colours
from astranb.core.svg import Picture, Shape, Text
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.export.layout import Layout, bundle_name, describe
from astranb.export.topology import Dot, Edge, boxes_of, frames_of
from astranb.sim import Simulation

__all__ = ["still"]

_DOT_PIXELS = 6.0  # where dots would stand closer, every n-th is drawn
_FOOT = 52.0  # legend and caption below the topology


def still(sim: Simulation, layout: Layout, at_ps: int | None = None, *, dark: bool = False) -> Picture:
    """Draw the topology as it is, or as it was at a moment that was recorded.

    Parameters
    ----------
    sim : Simulation
    layout : Layout
    at_ps : int, optional
        The moment, in ps; where not given, now. A link's width and colour then show how much
        of the time so far it was busy, else how busy it was at that moment (the mean of a bin
        of the recording).
    dark : bool
        For dark ground.
    """
    colours = Colours.of(dark)
    now = sim.now_ps if at_ps is None else at_ps
    busy = _busy(sim, layout, at_ps)
    hot = layout.detail.hot or len(busy)
    lined = set(sorted(range(len(busy)), key=lambda number: (-busy[number], number))[:hot])
    edges = [Edge(layout, number) for number in range(len(layout.bundles))]
    moving, said = _flying(sim, edges, now)
    what = f"{sim.engine.work.title} on {sim.engine.infra.name}"
    state = "finished" if sim.finished and now >= sim.now_ps else "under way"
    so_far = "so far" if at_ps is None else "at this moment"
    first = f"{what}, {state}: {format_time(now)}" + (f", {sim.events:,} events" if at_ps is None else "")
    words = (first, said, f"links by load {so_far}", describe(layout))
    caption = (
        *_legend(layout, colours),
        Text(12, layout.height + 42, "; ".join(filter(None, words)), 13, colours.ink, room=layout.width - 24),
    )  # fmt: skip
    return Picture(
        layout.width,
        layout.height + _FOOT,
        colours,
        first,
        (
            *frames_of(layout, colours),
            *(
                line
                for number, edge in enumerate(edges)
                if number in lined
                for line in edge.lines(busy[number], colours, bundle_name(sim.engine.fabric, layout, number))
            ),
        ),
        tuple(moving),
        tuple(boxes_of(layout, colours)),
        caption,
    )


def _busy(sim: Simulation, layout: Layout, at_ps: int | None) -> list[float]:
    """Busy fraction of each bundle: of all time so far, or of the bin at a moment."""
    lanes = [list(bundle[2]) for bundle in layout.bundles]
    if at_ps is None:
        total = max(1, sim.now_ps)
        return [min(1.0, float(sim.engine.machine.links["busy_ps"][of].mean()) / total) for of in lanes]
    busy = sim.engine.recorder.busy(lanes)
    if not busy.size:
        return [0.0] * len(lanes)
    place = min(busy.shape[1] - 1, at_ps // int(sim.engine.machine.recorder[0].bin_ps))
    return [float(part) for part in busy[:, place]]


def _flying(sim: Simulation, edges: list[Edge], at_ps: int) -> tuple[list[Shape], str]:
    """Lines on their edge at a moment, where their recorded start and end put them, and how many."""
    if not sim.engine.recorder.on:
        return [], "lines are not recorded"
    near, one_in = sim.engine.recorder.flights(at_ps, at_ps)
    found = near[near["start_ps"] <= at_ps]
    bundle_of = {}
    if len(found):  # a large system has many links
        bundle_of = {
            link: (number, k) for number, edge in enumerate(edges) for k, link in enumerate(edge.lanes)
        }
    dots: list[list[Dot]] = [[] for _ in edges]
    rows = zip(*(np.asarray(found[n]).tolist() for n in ("link", "start_ps", "end_ps", "kind")), strict=True)
    for link, start, end, kind in rows:
        if link not in bundle_of:
            continue
        number, lane = bundle_of[link]
        gone = (at_ps - start) / (end - start) if end > start else 1.0
        dots[number].append(Dot(*edges[number].at(gone, lane), kind))
    shown: list[Shape] = []
    for edge, mine in zip(edges, dots, strict=True):
        shown += mine[:: max(1, int(-(-len(mine) * _DOT_PIXELS // (4 * edge.length))))]
    total = sum(map(len, dots)) * one_in
    drawn = f", {len(shown):,} drawn" if len(shown) < total else ""
    return shown, f"{total:,} lines in flight{drawn}"


def _legend(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """The kinds of lines, as far as there is room."""
    x, y = 12.0, layout.height + 18
    for kind, name in enumerate(FLIGHT_KINDS):
        if x + 14 + 6 * len(name) > layout.width:
            return
        yield Dot(x + 4, y - 4, kind)
        yield Text(x + 13, y, name, 12, colours.dim)
        x += 25 + 6 * len(name)
