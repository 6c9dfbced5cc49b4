"""The recording of a run by cache lines, for a page without a kernel."""

from __future__ import annotations

import numpy as np

from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS

from .feed import LineFeed, pack
from .recording import Columns, PlayedRecording

__all__ = ["record_lines"]


def record_lines(feed: LineFeed, columns: Columns, most_flights: int) -> PlayedRecording:
    """Record flights of lines from the oldest that is known up to now; of more than most, every n-th.

    Raises
    ------
    InputError
        Nothing was recorded.
    """
    engine = feed.sim.engine
    if not engine.recorder.on:
        hint = "make it with Simulation(..., record=True)"
        raise InputError("nothing was recorded to play", where="to_html", hint=hint)
    scene = columns.message(feed.scene())
    state, buffers = feed.state(fine=True, most=most_flights)
    one_in = int(state["one_in"])
    _, all_flights = engine.recorder.since(0)
    flights = all_flights[::one_in]
    used = np.unique(flights["link"])
    moments = pack(
        "recorded_flights",
        time=np.maximum.accumulate(flights["queued_ps"]),
        event=flights["event"],
        kind=flights["kind"],
        link=np.searchsorted(used, flights["link"]),
    )
    phases = engine.machine.phases
    fields = {
        "scene": scene,
        "state": columns.message(({**state, "playing": False, "failed": False}, buffers)),
        "timeline": columns.message(feed.timeline()),
        "moments": columns.add(*moments),
        "words": FLIGHT_KINDS,
        "gpus": [engine.fabric.graph.name(int(node)) for node in engine.fabric.gpus],
        "links": [engine.fabric.name(int(link)) for link in used],
        "phases": sorted(phases["ended_ps"][(phases["left"] == 0) & (phases["ended_ps"] >= 0)].tolist()),
        "oldest": engine.recorder.oldest_ps,
    }
    kept = "all of them" if one_in == 1 else f"1 in {one_in} of them"
    caption = (
        f"Recorded: {len(all_flights):,} flights of lines over links, of which this page holds {kept}; "
        f"Event and Cycle step through these."
    )
    if engine.recorder.oldest_ps:
        caption += f" Flights before {format_time(engine.recorder.oldest_ps)} were dropped."
    links = [engine.fabric.name(lanes[0]).partition("#")[0] for *_, lanes in feed.layout.bundles]
    objects = [*(box.name for box in feed.layout.boxes), *links]
    return PlayedRecording(fields, objects, f"{engine.work.title} on {engine.infra.name}", caption)
